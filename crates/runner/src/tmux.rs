//! Calls tmux.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::environment::Variables;
use crate::executor::find_program;
use crate::process::{self, Ended, Output, ProcessEnd, Program};
use crate::sandbox::Confinement;

const TIME_MAX: Duration = Duration::from_secs(20);
const ANSWER_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) enum TmuxFault {
    NotInstalled,
    Failed(String),
}

/// Whether agents of this process have a tmux.
pub fn tmux_is_installed() -> bool {
    let path = std::env::var_os("PATH");
    find_program("tmux", path.as_deref()).is_some()
}

/// Runs a tmux command. A server started for it inherits the call's confinement and variables.
pub(crate) async fn ask(
    env: &Variables,
    args: &[impl AsRef<OsStr>],
    confinement: Option<Confinement>,
) -> Result<(), TmuxFault> {
    let program = Program {
        name: "tmux".into(),
        args: args.iter().map(|arg| arg.as_ref().to_owned()).collect(),
        cwd: "/".into(),
        env: env.clone(),
        input: Vec::new(),
        timeout: TIME_MAX,
        output: Output::Merged { bytes_max: ANSWER_BYTES_MAX },
        // The first command starts tmux's server, which outlives this process: a person asked for the terminal.
        dies_with_us: false,
        leash: None,
        keeps: None,
        confinement,
    };
    let failed = |words: &str| TmuxFault::Failed(format!("tmux: {}", words.trim()));
    match process::run(program, &CancellationToken::new()).await {
        Ok(Ended { ending: ProcessEnd::Exited(Some(0)), .. }) => Ok(()),
        Ok(ended) if ended.ending == ProcessEnd::TimedOut => Err(failed("it took too long")),
        Ok(ended) => Err(failed(&String::from_utf8_lossy(&ended.stdout.finish().0))),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(TmuxFault::NotInstalled),
        Err(error) => Err(failed(&error.to_string())),
    }
}
