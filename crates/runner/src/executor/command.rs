//! Runs an executor that is a command: a prompt goes in, an answer comes out, and it ends.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_domain::runs::notes::exit_words;
use callboard_domain::surrogate::whole_pairs;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::mcp::{self, BoardServer};
use super::settings::{ExecutorSettings, OutputFrom, PromptBy};
use super::{ExecutorReport, Ran, usage};
use crate::environment::Variables;
use crate::process::{self, Leash, Output, ProcessEnd, Program};
use crate::run_log::text_of;
use crate::sandbox::Confinement;
use crate::tail::CutOutput;

/// One call of an executor, independent of its kind.
pub(crate) struct Call<'a> {
    pub(crate) executor: &'a ExecutorSettings,
    /// The executor's `command` or its `write_command`.
    pub(crate) command: &'a [String],
    /// The agent's connection to its board, if it has one.
    pub(crate) server: Option<&'a BoardServer>,
    pub(crate) model: &'a str,
    /// The port for a server of the agent's own, where its command names one.
    pub(crate) port: Option<u16>,
    pub(crate) prompt: String,
    pub(crate) workdir: &'a Path,
    /// The run's own folder, which it may write.
    pub(crate) scratch: &'a Path,
    pub(crate) env: Variables,
    pub(crate) leash: Leash,
    pub(crate) confinement: Option<Confinement>,
    pub(crate) output_bytes_max: usize,
}

const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A fallback limit. The owner of the token enforces the budget of a run; this limit is for a budget that stays paused.
const FOREVER: Duration = Duration::from_secs(7 * 86_400);

impl Call<'_> {
    fn prompt_file(&self) -> PathBuf {
        self.scratch.join("prompt.md")
    }

    fn output_file(&self) -> PathBuf {
        self.scratch.join("output.md")
    }

    fn mcp_config(&self) -> PathBuf {
        self.scratch.join("mcp.json")
    }

    /// Writes the file of MCP servers for programs that read one.
    fn write_mcp_config(&self) -> io::Result<()> {
        let set = self.executor.set.iter().map(|(_, value)| value);
        if !self.command.iter().chain(set).any(|text| text.contains("{mcp_config}")) {
            return Ok(());
        }
        // The file may hold a secret, so only this user may read it.
        let mut file = fs::OpenOptions::new();
        let mut file =
            file.write(true).create(true).truncate(true).mode(0o600).open(self.mcp_config())?;
        file.write_all(mcp::config(self.server).to_string().as_bytes())
    }

    /// The program by the settings.
    pub(super) fn program(self) -> Program {
        let args = self.args();
        let set = self.executor.set.iter();
        let set = set.filter_map(|(name, value)| Some((name.into(), self.filled(value)?.into())));
        let env = self.env.iter().cloned().chain(set).collect();
        Program {
            name: self.command.first().cloned().unwrap_or_default().into(),
            args,
            cwd: self.workdir.to_owned(),
            env,
            input: Vec::new(),
            timeout: FOREVER,
            output: Output::BothEnds {
                head_bytes_max: HEAD_BYTES_MAX,
                bytes_max: self.output_bytes_max,
            },
            dies_with_us: true,
            leash: Some(self.leash),
            keeps: None,
            confinement: self.confinement,
        }
    }

    /// The arguments. An argument whose placeholder has no value in this run is left out. If the argument is the value
    /// of a flag, the flag before it is left out as well.
    fn args(&self) -> Vec<OsString> {
        let mut args: Vec<String> = Vec::new();
        for arg in self.command.iter().skip(1) {
            match self.filled(arg) {
                Some(filled) => args.push(filled),
                None if arg.starts_with('-') => {}
                None => drop(args.pop_if(|before| before.starts_with('-'))),
            }
        }
        args.into_iter().map(OsString::from).collect()
    }

    /// The text with its placeholders filled in. `None` when a placeholder has no value: no model is chosen, the run
    /// has no board, or the system does not confine the run.
    fn filled(&self, text: &str) -> Option<String> {
        let path = |path: PathBuf| Some(path.display().to_string());
        let named = [
            ("{model}", Some(self.model.to_owned()).filter(|model| !model.is_empty())),
            ("{port}", self.port.map(|port| port.to_string())),
            ("{prompt_file}", path(self.prompt_file())),
            ("{output_file}", path(self.output_file())),
            ("{workdir}", path(self.workdir.to_owned())),
            ("{mcp_config}", path(self.mcp_config())),
            ("{mcp_codex}", self.server.map(BoardServer::codex)),
            ("{mcp_opencode}", self.server.map(BoardServer::opencode)),
            ("{confined}", self.confinement.as_ref().map(|_| "1".to_owned())),
        ];
        // One pass: inserted values are not expanded again.
        let mut filled = String::new();
        let mut rest = text;
        while let Some((at, name, value)) = named
            .iter()
            .filter_map(|(name, value)| rest.find(name).map(|at| (at, name, value)))
            .min()
        {
            filled.push_str(&rest[..at]);
            filled.push_str(value.as_ref()?);
            rest = &rest[at + name.len()..];
        }
        Some(filled + rest)
    }
}

pub(crate) async fn run(call: Call<'_>, stop: &CancellationToken) -> Ran {
    let executor = call.executor;
    let (output_file, bytes_max) = (call.output_file(), call.output_bytes_max);
    let mut prompt = call.prompt.clone();
    if executor.prompt == PromptBy::File
        && let Err(error) = fs::write(call.prompt_file(), &prompt)
    {
        return not_started(executor, &error);
    }
    if let Err(error) = call.write_mcp_config() {
        return not_started(executor, &error);
    }
    let mut program = call.program();
    match executor.prompt {
        PromptBy::Stdin => program.input = prompt.into_bytes(),
        PromptBy::Arg => program.args.push(std::mem::take(&mut prompt).into()),
        PromptBy::File => {}
    }
    let ended = match process::run(program, stop).await {
        Ok(ended) => ended,
        Err(error) => return not_started(executor, &error),
    };
    let (stdout, stderr) = (ended.stdout.ends(), ended.stderr.ends());
    let (stdout_text, stderr_text) = (text_of(&stdout), text_of(&stderr));
    let usage = match &executor.output {
        OutputFrom::Json(_) => usage::printed(&String::from_utf8_lossy(&stdout.tail)),
        OutputFrom::Text | OutputFrom::File => None,
    };
    let exit = Some(ended_as(&ended.ending, ended.signal));
    let said = match ended.ending {
        ProcessEnd::TimedOut | ProcessEnd::Canceled => ExecutorReport::Stopped,
        ProcessEnd::Exited(Some(code)) if executor.success_codes.contains(&code) => {
            ExecutorReport::Output(output(&executor.output, stdout, &output_file, bytes_max))
        }
        ProcessEnd::Exited(code) => {
            ExecutorReport::Failed(failed(executor, code, ended.signal, &stderr_text))
        }
    };
    Ran { said, stdout: stdout_text, stderr: stderr_text, usage, exit }
}

pub(super) fn not_started(executor: &ExecutorSettings, error: &io::Error) -> Ran {
    let program = executor.command.first().map(String::as_str).unwrap_or_default();
    let words = match error.kind() {
        io::ErrorKind::NotFound => format!("Executor '{}': {program} not found", executor.name),
        _ => format!("Executor '{}' cannot be started: {error}", executor.name),
    };
    let (stdout, stderr) = Default::default();
    Ran { said: ExecutorReport::NotStarted(words), stdout, stderr, usage: None, exit: None }
}

/// How a program ended, for the notes of its run.
pub(super) fn ended_as(ending: &ProcessEnd, signal: Option<i32>) -> String {
    match ending {
        ProcessEnd::Exited(code) => exit_words(*code, signal),
        ProcessEnd::TimedOut => "ended by the time limit".into(),
        ProcessEnd::Canceled => "ended by the server".into(),
    }
}

/// The failure in words: exit code and the last line of stderr.
pub(super) fn failed(
    executor: &ExecutorSettings,
    code: Option<i32>,
    signal: Option<i32>,
    stderr: &str,
) -> String {
    let ending = match (code, signal) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".into(),
    };
    let words = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let words: String = words.unwrap_or_default().chars().take(500).collect();
    let words = if words.is_empty() { words } else { format!(": {words}") };
    format!("Executor '{}' {ending}{words}", executor.name)
}

fn output(
    from: &OutputFrom,
    stdout: CutOutput,
    output_file: &Path,
    bytes_max: usize,
) -> Result<String, String> {
    match from {
        // An answer that exceeds the cap keeps its end, where the last triple stands.
        OutputFrom::Text => Ok(String::from_utf8_lossy(&stdout.last()).into_owned()),
        OutputFrom::Json(field) => {
            let no_field = || format!("The output is not JSON with a text field '{field}'");
            let text = String::from_utf8_lossy(&stdout.last()).into_owned();
            text_field(&text, field).ok_or_else(no_field)
        }
        OutputFrom::File => {
            let no_file = || "The executor wrote no output file".to_owned();
            // Only a plain file is read: anything else might be endless, or belong to another user.
            let facts = fs::symlink_metadata(output_file).ok().filter(|facts| facts.is_file());
            if facts.ok_or_else(no_file)?.len() > bytes_max as u64 {
                return Err(format!("The output file has more than {bytes_max} bytes"));
            }
            let bytes = fs::read(output_file).map_err(|_| no_file())?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
    }
}

/// The field of the whole text, or of its last line that has the field: some programs print several objects.
fn text_field(text: &str, field: &str) -> Option<String> {
    let of = |text: &str| {
        let mut value: Value = serde_json::from_slice(&whole_pairs(text.trim().as_bytes())).ok()?;
        if let Value::Array(items) = &mut value {
            value = items.pop()?;
        }
        value.get(field)?.as_str().map(str::to_owned)
    };
    of(text).or_else(|| text.lines().rev().find_map(of))
}
