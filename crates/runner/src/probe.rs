//! Asks a program of this machine a short question: its version, or whether it answers at all.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::environment;
use crate::executor::find_program;
use crate::process::{self, Output, ProcessEnd, Program};

const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// What a program answered, and how long it took from its start to its end.
#[derive(Clone, Debug)]
pub struct ProbeReport {
    pub stdout: String,
    pub stderr: String,
    pub is_success: bool,
    pub took: Duration,
}

/// The path of a program that this process would start.
pub fn program_on_path(name: &str) -> Option<PathBuf> {
    find_program(name, std::env::var_os("PATH").as_deref())
}

/// Runs a program in a folder with this process's environment. The program reads `input` and then the end of it; it is
/// killed after `timeout`.
pub async fn probe(
    program: &Path,
    args: &[&str],
    cwd: &Path,
    input: &str,
    timeout: Duration,
) -> io::Result<ProbeReport> {
    let program = Program {
        name: program.as_os_str().to_owned(),
        args: args.iter().map(Into::into).collect(),
        cwd: cwd.to_owned(),
        env: environment::inherited(),
        input: input.as_bytes().to_vec(),
        timeout,
        output: Output::Apart { bytes_max: OUTPUT_BYTES_MAX },
        dies_with_us: false,
        leash: None,
        keeps: None,
        confinement: None,
    };
    let ended = process::run(program, &CancellationToken::new()).await?;
    let text = |(bytes, _): (Vec<u8>, _)| String::from_utf8_lossy(&bytes).into_owned();
    Ok(ProbeReport {
        is_success: ended.ending == ProcessEnd::Exited(Some(0)),
        took: ended.duration,
        stdout: text(ended.stdout.finish()),
        stderr: text(ended.stderr.finish()),
    })
}
