//! Our own program as an agent starts it: `callboard mcp` on pipes, used through JSON lines.
//!
//! Blocking and without a JSON parser in the hot path, so that the client costs little of the
//! machine it measures.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail, ensure};
use callboard_domain::ids::TaskId;

use super::bed::Site;

pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    sent: String,
}

impl Peer {
    pub fn start(folder: &Path, actor: &str) -> anyhow::Result<Self> {
        let mut peer = Self::spawn(folder, &["mcp", "--actor", actor])?;
        peer.send(
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#,
        )?;
        peer.receive()?;
        peer.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        Ok(peer)
    }

    pub fn spawn(folder: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        Self::spawn_traced(folder, arguments, None)
    }

    /// As `spawn`; with a file, the process writes every statement of its reads into it.
    #[allow(clippy::disallowed_methods, reason = "the benchmark plays the client that starts us")]
    pub fn spawn_traced(
        folder: &Path,
        arguments: &[&str],
        trace: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let mut program = Command::new(std::env::current_exe()?);
        program
            .args(arguments)
            .current_dir(folder)
            .env("CALLBOARD_PROJECT_ROOT", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        if let Some(trace) = trace {
            let level = format!("warn,{}=trace", callboard_store::STATEMENTS);
            program.env("CALLBOARD_LOG", level).stderr(std::fs::File::create(trace)?);
        }
        let mut child = program.spawn().context("cannot start callboard")?;
        let input = child.stdin.take().context("a pipe to it")?;
        let output = BufReader::new(child.stdout.take().context("a pipe from it")?);
        Ok(Self { child, input, output, line: String::new(), sent: String::new() })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// One write per line, as clients do: two would wake the server twice.
    pub fn send(&mut self, line: &str) -> anyhow::Result<()> {
        self.sent.clear();
        self.sent.push_str(line);
        self.sent.push('\n');
        self.input.write_all(self.sent.as_bytes())?;
        Ok(())
    }

    pub fn receive(&mut self) -> anyhow::Result<&str> {
        self.line.clear();
        if self.output.read_line(&mut self.line)? == 0 {
            bail!("callboard ended");
        }
        Ok(&self.line)
    }

    /// Everything that it prints until it ends by itself.
    pub fn ended(mut self) -> anyhow::Result<String> {
        let mut said = String::new();
        self.output.read_to_string(&mut said)?;
        ensure!(self.child.wait()?.success(), "the command failed: {said:.200}");
        Ok(said)
    }

    pub fn send_claim(&mut self, number: usize, task: &TaskId) -> anyhow::Result<()> {
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"claim","arguments":{{"id":"{task}"}}}}}}"#
        ))
    }

    /// Whether the next answer is a success; a refusal other than "already claimed" is an error.
    pub fn receive_claim(&mut self) -> anyhow::Result<bool> {
        let line = self.receive()?;
        if !line.contains(r#""isError":true"#) && line.contains(r#""structuredContent""#) {
            return Ok(true);
        }
        if line.contains("ALREADY_CLAIMED") {
            return Ok(false);
        }
        bail!("unexpected answer: {line}")
    }
}

/// The first line that a process started by [`Peer::spawn`] gets: where to work. The address may hold a password, so it
/// comes on a pipe and not among the arguments.
pub fn told() -> anyhow::Result<(Site, Told)> {
    let mut lines: Told = std::io::stdin().lines();
    let site = lines.next().context("where to work")??;
    Ok((Site::parse(&site), lines))
}

pub type Told = std::io::Lines<std::io::StdinLock<'static>>;

/// Ids up to the first line that is no id.
pub fn ids(lines: &mut Told) -> Vec<TaskId> {
    lines.map_while(Result::ok).map_while(|line| line.parse().ok()).collect()
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The child also ends by itself when its input closes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
