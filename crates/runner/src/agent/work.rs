//! Agents in a task's workspace: the executor's `write_command` in the worktree, with the right to write there and to
//! commit. An agent that only reads gets the executor's `command` and may write nowhere.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use callboard_engine::ports::{
    Asks, ExecutorSeen, Printout, Saying, Up, WorkCall, WorkReport, Worked, Workers,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{LocalAgents, own_variables, quiet_git, traced};
use crate::environment::{self, Variables};
use crate::executor::command::Call;
use crate::executor::mcp::BoardServer;
use crate::executor::{ExecutorReport, ExecutorSettings, McpBy};
use crate::guarded::WorktreeDirs;
use crate::live::{self, Live, LiveReader};
use crate::printed::Printed;
use crate::run_log::RunLog;
use crate::sandbox::{SandboxHeld, port_of_its_own};
use crate::terminal::{self, OpenTerminal};

#[async_trait]
impl Workers for LocalAgents {
    // Nothing that the agent or git said leaves this function before secrets are hidden in it.
    async fn work(
        &self,
        call: WorkCall,
        up: oneshot::Sender<Up>,
        printed: watch::Sender<String>,
        asks: Arc<dyn Asks>,
        says: mpsc::Receiver<Saying>,
        stop: CancellationToken,
    ) -> WorkReport {
        let mut log = RunLog::default();
        log.note(format!("{}, attempt {}, executor {}", call.job, call.attempt, call.executor));
        let span = traced::run_span("work", &call.job, call.attempt);
        let worked = self.worked(&call, (up, printed, says), &*asks, &stop, &mut log);
        let end = match worked.instrument(span.clone()).await {
            Ok(end) => end,
            Err(words) => Worked::NotStarted(words),
        };
        let end = match end {
            Worked::NotStarted(words) => Worked::NotStarted(log.secrets.hidden(&words)),
            Worked::Failed(words) => Worked::Failed(log.secrets.hidden(&words)),
            Worked::Replied(words) => Worked::Replied(log.secrets.hidden(&words)),
            Worked::Stopped => Worked::Stopped,
        };
        log.note(match &end {
            Worked::NotStarted(words) | Worked::Failed(words) => words,
            Worked::Replied(_) => "the agent ended its turn",
            Worked::Stopped => "stopped",
        });
        let usage = log.usage;
        traced::run_ended(
            &span,
            usage,
            match &end {
                Worked::NotStarted(_) => Err("not_started"),
                Worked::Failed(_) => Err("failed"),
                Worked::Replied(_) => Ok("succeeded"),
                Worked::Stopped => Ok("stopped"),
            },
        );
        WorkReport { end, logs: log.finish(self.settings.artifact_bytes_max), usage }
    }

    fn executors(&self) -> Option<Vec<String>> {
        let path = environment::value(&self.settings.environment, "PATH");
        Some(self.settings.executors.found(path).map(str::to_owned).collect())
    }

    fn executors_seen(&self) -> Vec<ExecutorSeen> {
        let path = environment::value(&self.settings.environment, "PATH");
        let (executors, held) = (&self.settings.executors, SandboxHeld::here());
        let seen = |executor: &ExecutorSettings| ExecutorSeen {
            name: executor.name.clone(),
            program: executor.command.first().cloned().unwrap_or_default(),
            is_found: executors.named(&executor.name, path).is_some(),
            confined: self.settings.sandbox.confines(executor.own_sandbox, held),
            variables: executor.env.clone(),
        };
        executors.all().map(seen).collect()
    }

    fn printout(&self, job: &str, attempt: u32) -> Option<Box<dyn Printout>> {
        let run = self.jobs().join(job).join(attempt.to_string());
        LiveReader::open(&run).map(|reader| Box::new(reader) as Box<dyn Printout>)
    }
}

/// The channels of a run: its start, its output, and messages to the agent.
type Ends = (oneshot::Sender<Up>, watch::Sender<String>, mpsc::Receiver<Saying>);

impl LocalAgents {
    /// Runs the agent to its end. The error says why it did not start.
    async fn worked(
        &self,
        call: &WorkCall,
        (up, printed, says): Ends,
        asks: &dyn Asks,
        stop: &CancellationToken,
        log: &mut RunLog,
    ) -> Result<Worked, String> {
        let path = environment::value(&self.settings.environment, "PATH");
        let executor = self.settings.executors.named(&call.executor, path);
        let executor = executor.ok_or_else(|| {
            format!("Executor '{}' is not known, or its program is not found", call.executor)
        })?;
        traced::run_by(&executor.name);
        let folder = self.folder(&call.job, call.attempt).await?;
        // A reviewer gets no worktrees, the executor's reading command, and no writable folder but its scratch.
        let may_write = !call.worktrees.is_empty();
        let mut places = Vec::new();
        let mut git_dirs = Vec::new();
        for worktree in &call.worktrees {
            places.push(worktree.path.clone());
            places.extend(self.settings.recipe.writable_in(&worktree.repo, &worktree.path));
            let dirs = WorktreeDirs::of(&worktree.repo, &worktree.path).await;
            let dirs = dirs.map_err(|fault| fault.to_string())?;
            // A commit writes into the repository's own git folder. Only the paths that it needs become writable there.
            let writes = dirs.what_a_commit_writes(&worktree.branch);
            places.extend(writes.map_err(|fault| fault.to_string())?);
            git_dirs.push(dirs);
        }
        let variables = environment::for_agent(&self.settings.environment, &executor.env);
        log.secrets.add_variables(&variables.named);
        let door = call.door.as_ref().map(|key| key.url.as_str());
        let command = if may_write { &executor.write_command } else { &executor.command };
        let port = port_of_its_own(command);
        let ports = self.settings.sandbox_ports.of_run(&variables.named, door, port);
        let ports = ports.and(call.ports);
        let confinement = self.confinement(executor, &folder, (places, ports), log)?;
        let mut leash = self.leash(&folder);
        let lines = Arc::new(Printed::new());
        leash.printed = Some(lines.clone());
        let scratch = folder.scratch();
        let server = self.board_server(call, executor.mcp, &scratch, log)?;
        // A confined git cannot delete a ref after its commit. A wrapper leaves that one complaint out
        // (`quiet_git.rs`).
        let git = match confinement.is_some() && may_write {
            true => quiet_git::place(&scratch, &variables.base, &git_dirs)
                .map_err(|error| format!("{}: {error}", scratch.display()))?,
            false => Variables::new(),
        };
        let own = own_variables(&call.job, call.attempt, &scratch);
        let given: Variables =
            call.variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let door = server.as_ref().map(BoardServer::variables).unwrap_or_default();
        let model = if call.model.is_empty() { &executor.default_model } else { &call.model };
        let env = [variables.base, git, variables.named, own, given, door].concat();
        log.variables(&env);
        let mut live = Live::create(folder.path());
        let terminal = match &call.terminal {
            Some(wish) => {
                let place = terminal::TerminalPlace {
                    run: folder.path(),
                    workdir: &call.folder,
                    environment: &self.settings.environment,
                    confinement: confinement.as_ref(),
                };
                let opened = OpenTerminal::open(wish, place).await;
                log.note(match &opened {
                    Ok(terminal) => format!("terminal: {}", terminal.shown().attach()),
                    Err(words) => format!("the terminal did not open: {words}"),
                });
                opened.ok()
            }
            None => None,
        };
        let shown = terminal.as_ref().map(|terminal| terminal.shown().clone());
        // Told when the process exists, not when it was asked for.
        leash.started = Some(Box::new(move || {
            // The receiver may be gone.
            let _ = up.send(Up { terminal: shown });
        }));
        let call_of = Call {
            executor,
            command,
            server: server.as_ref(),
            model,
            port,
            prompt: call.prompt.clone(),
            workdir: &call.folder,
            scratch: &scratch,
            env,
            leash,
            confinement,
            output_bytes_max: self.settings.artifact_bytes_max,
        };
        let places: Vec<PathBuf> =
            call.worktrees.iter().map(|worktree| worktree.path.clone()).collect();
        let (ran, timed_out) = tokio::select! {
            ran = self.executed(call_of, call.timeout, (asks, Some(says)), &places, stop) => ran,
            never = told(&lines, log, &mut live, Some(&printed)) => match never {},
        };
        live.finish(lines.fresh(), &log.secrets);
        if let Some(terminal) = terminal {
            terminal.close().await;
        }
        log.usage = ran.usage;
        log.exit(ran.exit.as_deref());
        log.stream("stdout", &log.shown(&ran.stdout));
        log.stream("stderr", &log.shown(&ran.stderr));
        // The scratch folder goes, and with it the file that holds the token.
        folder.close().await;
        Ok(match ran.said {
            ExecutorReport::Stopped if timed_out && !stop.is_cancelled() => {
                Worked::Failed(format!("Timeout after {}s", call.timeout.as_secs()))
            }
            ExecutorReport::Stopped => Worked::Stopped,
            ExecutorReport::NotStarted(words) => Worked::NotStarted(words),
            ExecutorReport::Failed(words) | ExecutorReport::Output(Err(words)) => {
                Worked::Failed(words)
            }
            ExecutorReport::Output(Ok(reply)) => Worked::Replied(reply),
        })
    }
}

impl LocalAgents {
    /// The agent's connection to its board. The token is in no log.
    fn board_server(
        &self,
        call: &WorkCall,
        by: McpBy,
        scratch: &Path,
        log: &mut RunLog,
    ) -> Result<Option<BoardServer>, String> {
        let Some(key) = &call.door else { return Ok(None) };
        log.secrets.add_variables(&vec![("CALLBOARD_TOKEN".into(), key.token.clone().into())]);
        let placed = BoardServer::place(&self.settings, by, scratch, key);
        placed.map(Some).map_err(|error| format!("cannot keep the token of the run: {error}"))
    }
}

/// Publishes the output so far, in the run's file and to the subscriber `to`: the first line at once, then every
/// `WRITE_EVERY`.
pub(super) async fn told(
    lines: &Printed,
    log: &RunLog,
    live: &mut Live,
    to: Option<&watch::Sender<String>>,
) -> Infallible {
    loop {
        lines.grown().await;
        live.write(lines.fresh(), &log.secrets);
        if let Some(to) = to {
            let (text, is_cut) = lines.end();
            to.send_replace(log.so_far(&text, is_cut));
        }
        tokio::time::sleep(live::WRITE_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A printed line is in the file, and with the subscriber, after a fifth of a second.
    #[tokio::test(start_paused = true)]
    async fn a_line_is_told_within_a_moment() {
        let folder = tempfile::tempdir().expect("a folder");
        let (lines, log, mut live) =
            (Printed::new(), RunLog::default(), Live::create(folder.path()));
        let mut reader = LiveReader::open(folder.path()).expect("a file");
        let (to, heard) = watch::channel(String::new());
        let prints = async {
            for n in 0..100 {
                let line = format!("line {n}\n");
                lines.push(line.as_bytes());
                tokio::time::sleep(live::WRITE_EVERY + Duration::from_millis(1)).await;
                let shown = reader.read().expect("reads");
                assert!(shown.ends_with(&line) && heard.borrow().ends_with(&line), "{shown}");
            }
        };
        tokio::select! {
            () = prints => {}
            never = told(&lines, &log, &mut live, Some(&to)) => match never {},
        }
    }
}
