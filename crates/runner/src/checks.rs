//! The engine's check port on this machine: where a check runs, which files it ran on, how it ended.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::ids::TaskId;
use callboard_domain::runs::notes::CHECK_CONFINED;
use callboard_engine::ports::{
    CheckFault, CheckRan, CheckRun, CheckRunner, FilesState, Head, LogPart, Origin, RUNS,
    RepositoryFault, RepositoryFound, Turn,
};
use callboard_engine::store::FileSpan;
use callboard_engine::trace::SPANS;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;
use tracing::field::Empty;

use crate::confined::{CommandFault, ProjectCommand, ProjectCommands};
use crate::git::GitFault;
use crate::guarded::AgentTree;
use crate::process::ProcessEnd;
use crate::turn::Turns;
use crate::{check_log, git, tree};

/// Runs checks as processes of this machine, with this server's rights. Checks of agents' worktrees may be confined.
pub struct LocalChecks {
    checks_enabled: bool,
    commands: ProjectCommands,
    turns: Turns,
}

impl LocalChecks {
    pub fn new(checks_enabled: bool) -> Self {
        Self { checks_enabled, commands: ProjectCommands::default(), turns: Turns::default() }
    }

    pub fn with_commands(mut self, commands: ProjectCommands) -> Self {
        self.commands = commands;
        self
    }
}

/// What follows `CHECK_CONFINED` in the last line of the log of a confined check that failed.
const CONFINED_TO: &str = "it may write the worktree, TMPDIR and caches of build \
    tools, and connect to TCP ports 443, 80 and those of servers on port 0. checks.writable names more folders, \
    checks.ports more ports, checks.sandbox = \"off\" confines no check]\n";

#[async_trait]
impl CheckRunner for LocalChecks {
    async fn root(&self, repo: &Path, worktree: Option<&str>) -> Result<PathBuf, CheckFault> {
        let registered = match worktree {
            Some(worktree) => git::registered_worktree(repo, worktree).await,
            None => Ok(None),
        };
        match registered {
            Ok(registered) => Ok(registered.unwrap_or_else(|| repo.to_owned())),
            Err(fault) => Err(infrastructure(fault.words())),
        }
    }

    async fn files(&self, repo: &Path, root: &Path) -> Result<FilesState, CheckFault> {
        tree::files(repo, root).await
    }

    async fn head(&self, repo: &Path, root: &Path) -> Head {
        if !tree::is_of_agents(repo, root) {
            return git::head_at(root).await;
        }
        match AgentTree::looked_at(repo, root).await {
            Ok(tree) => git::head(tree.git()).await,
            Err(_) => Head::default(),
        }
    }

    async fn origin(&self, repo: &Path) -> Result<Origin, RepositoryFault> {
        git::origin(repo).await.map_err(|fault| match fault {
            GitFault::Outside => RepositoryFault::None("is not a git repository".into()),
            GitFault::Failed(words) => RepositoryFault::Failed(words),
        })
    }

    async fn repository(&self, path: &Path) -> Result<RepositoryFound, RepositoryFault> {
        git::repository(path).await
    }

    async fn turn(&self, repo: &Path, task: TaskId) -> Result<Turn, CheckFault> {
        let held = self.turns.take(&repo.join(RUNS), task).await;
        held.map(Turn::new).map_err(|error| cannot_write_runs(&error))
    }

    async fn run(&self, run: CheckRun, cancel: CancellationToken) -> Result<CheckRan, CheckFault> {
        let span = tracing::trace_span!(
            target: SPANS,
            "check",
            "callboard.task.id" = %run.task,
            "callboard.check.index" = run.index,
            "callboard.check.result" = Empty,
            "error.type" = Empty,
        );
        let ran = self.ran(run, cancel).instrument(span.clone()).await;
        let result = match &ran {
            Ok(ran) if ran.passed() => "pass",
            Ok(ran) if ran.timed_out => "timeout",
            Ok(_) => "fail",
            Err(CheckFault::Canceled) => "canceled",
            Err(CheckFault::Infrastructure(_) | CheckFault::LeavesRepo) => "not_run",
        };
        span.record("callboard.check.result", result);
        if matches!(result, "timeout" | "not_run") {
            span.record("error.type", result);
        }
        ran
    }

    async fn read_log(
        &self,
        repo: &Path,
        log: &str,
        span: FileSpan,
    ) -> Result<Option<LogPart>, CheckFault> {
        let (repo, log) = (repo.to_owned(), log.to_owned());
        let read = tokio::task::spawn_blocking(move || check_log::read(&repo, &log, span)).await;
        let read =
            read.map_err(|error| infrastructure(format!("reading a check log stopped: {error}")))?;
        read.map_err(|error| infrastructure(format!("cannot read from {RUNS}: {error}")))
    }

    async fn prune_logs(&self, repo: &Path, older_than: Duration) {
        let repo = repo.to_owned();
        let pruned = tokio::task::spawn_blocking(move || check_log::prune(&repo, older_than));
        if let Ok(Err(error)) = pruned.await {
            tracing::warn!(%error, "cannot remove old check logs");
        }
    }
}

impl LocalChecks {
    /// Runs a check. A failing check is an answer, and no fault.
    async fn ran(&self, run: CheckRun, cancel: CancellationToken) -> Result<CheckRan, CheckFault> {
        if !self.checks_enabled {
            return Err(infrastructure("this server runs no commands"));
        }
        if cancel.is_cancelled() {
            return Err(CheckFault::Canceled);
        }
        let cwd = working_directory(&run)?;
        let command = ProjectCommand {
            repo: &run.repo,
            root: &run.root,
            cwd,
            shell: &run.shell,
            cmd: &run.cmd,
            timeout: run.timeout,
            log_tail_bytes: run.log_tail_bytes,
            variables: &run.variables,
            ports: run.ports,
        };
        let ended = self.commands.run(command, &cancel).await;
        let (ended, is_confined) = ended.map_err(|fault| match fault {
            CommandFault::Confinement(fault) => fault,
            CommandFault::Shell(error) => no_shell(&run, &error),
        })?;
        let (exit_code, timed_out) = match ended.ending {
            ProcessEnd::Exited(code) => (code, false),
            ProcessEnd::TimedOut => (None, true),
            ProcessEnd::Canceled => return Err(CheckFault::Canceled),
        };
        let mut ran = CheckRan { exit_code, timed_out, log: String::new() };
        let (output, dropped) = ended.stdout.finish();
        let mut text = check_log::render(&run, &ran, ended.duration, &output, dropped);
        if is_confined && !ran.passed() {
            if !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(CHECK_CONFINED.as_bytes());
            text.extend_from_slice(CONFINED_TO.as_bytes());
        }
        // Not moved to another thread: a call that is dropped before this line leaves no log, and a call that reaches
        // this line finishes the log.
        ran.log = check_log::write(&run.repo, run.task, Timestamp::now(), &text)
            .map_err(|error| cannot_write_runs(&error))?;
        Ok(ran)
    }
}

/// The folder to run in: `cwd` below the root, with every link resolved, and still inside the root.
fn working_directory(run: &CheckRun) -> Result<PathBuf, CheckFault> {
    let root = run.root.canonicalize().map_err(|error| {
        tracing::warn!(root = %run.root.display(), %error, "a check has no folder to run in");
        infrastructure("the repo's folder cannot be opened on this machine")
    })?;
    let CheckRun { index, cwd, .. } = run;
    let resolved = root.join(cwd).canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            infrastructure(format!("check {index}: cwd '{cwd}' does not exist in the repo"))
        }
        _ => infrastructure(format!("check {index}: cwd '{cwd}' cannot be opened: {error}")),
    })?;
    if !resolved.starts_with(&root) {
        return Err(CheckFault::LeavesRepo);
    }
    if !resolved.is_dir() {
        return Err(infrastructure(format!("check {index}: cwd '{cwd}' is not a folder")));
    }
    Ok(resolved)
}

/// The fault of a check whose shell did not start: the machine lacks something, and the check itself did not fail.
fn no_shell(run: &CheckRun, error: &std::io::Error) -> CheckFault {
    let shell = &run.shell;
    match error.kind() {
        ErrorKind::NotFound => infrastructure(format!("check shell '{shell}' not found on PATH")),
        _ => infrastructure(format!("check shell '{shell}' cannot be started: {error}")),
    }
}

/// The fault of a check whose log or lock cannot be written.
fn cannot_write_runs(error: &std::io::Error) -> CheckFault {
    infrastructure(format!("cannot write to {}: {error}", RUNS))
}

fn infrastructure(why: impl Into<String>) -> CheckFault {
    CheckFault::Infrastructure(why.into())
}
