//! The one place where a worktree is made ready for work: ports, links, copies, and the setup command. Every kind of
//! attempt comes here, and so does the folder in which the checks of a merge run.
//!
//! A worktree is prepared once. The record says so only after everything succeeded, so a preparation that failed, was
//! stopped or died with its server begins again. No lock of the repository is held meanwhile, only one of the worktree.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use callboard_domain::board::recipe::{self, PortBlock};
use callboard_domain::ids::TaskId;
use callboard_engine::ports::{TaskWorktree, Worktree, WorktreeFault, WorktreeReady};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::placed::{Record, copies_of, copy_all, include_of, link_all, not_ready};
use super::{failed, hide, ports, repo_lock};
use crate::check_log;
use crate::confined::{CommandFault, ProjectCommand, ProjectCommands};
use crate::guarded::AgentTree;
use crate::placing;
use crate::process::ProcessEnd;

/// The file in `.callboard` of a worktree with its variables, for agents that Callboard does not start.
const VARIABLES: &str = "workspace.env";
/// How much of the end of a setup's output its error repeats.
const TAIL_CHARS_MAX: usize = 1_500;

type Outcome = Option<Result<WorktreeReady, WorktreeFault>>;

/// Preparations under way in this process, by the folder of the worktree.
#[derive(Default)]
pub(super) struct Preparing {
    underway: Mutex<HashMap<PathBuf, Underway>>,
}

#[derive(Clone)]
struct Underway {
    stop: CancellationToken,
    outcome: watch::Receiver<Outcome>,
}

impl Preparing {
    /// Prepares a worktree, or waits for the preparation that is under way. A caller that leaves stops nothing.
    pub(super) async fn ready(
        self: &Arc<Self>,
        commands: &ProjectCommands,
        order: TaskWorktree,
        stop: CancellationToken,
    ) -> Result<WorktreeReady, WorktreeFault> {
        let Underway { stop: its_stop, mut outcome } = self.begin(commands, order);
        tokio::select! {
            _ = outcome.wait_for(Option::is_some) => {}
            () = stop.cancelled() => its_stop.cancel(),
        }
        let outcome = outcome.wait_for(Option::is_some).await;
        let ended = || WorktreeFault::Failed("the preparation of the worktree broke off".into());
        outcome.ok().and_then(|outcome| outcome.clone()).unwrap_or_else(|| Err(ended()))
    }

    fn begin(self: &Arc<Self>, commands: &ProjectCommands, order: TaskWorktree) -> Underway {
        let mut all = self.underway.lock().unwrap_or_else(PoisonError::into_inner);
        let path = order.worktree.path.clone();
        if let Some(underway) = all.get(&path) {
            return underway.clone();
        }
        let (tell, outcome) = watch::channel(None);
        let underway = Underway { stop: CancellationToken::new(), outcome };
        all.insert(path.clone(), underway.clone());
        let (stop, commands) = (underway.stop.clone(), commands.clone());
        let over = Over { preparing: self.clone(), path };
        tokio::spawn(async move {
            let ready = prepare(&commands, &order, &stop).await;
            // A caller that comes from here on begins anew.
            drop(over);
            tell.send_replace(Some(ready));
        });
        underway
    }
}

/// Takes a preparation off the list, also after a panic.
struct Over {
    preparing: Arc<Preparing>,
    path: PathBuf,
}

impl Drop for Over {
    fn drop(&mut self) {
        let all = &self.preparing.underway;
        all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.path);
    }
}

async fn prepare(
    commands: &ProjectCommands,
    order: &TaskWorktree,
    stop: &CancellationToken,
) -> Result<WorktreeReady, WorktreeFault> {
    let TaskWorktree { worktree, task, slug } = order;
    let repo = &worktree.repo;
    let name = worktree.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let lock = format!("ready-{name}");
    let _turn = tokio::select! {
        turn = repo_lock(repo, &lock) => turn?,
        () = stop.cancelled() => return Err(WorktreeFault::Stopped),
    };
    let tree = AgentTree::looked_at(repo, &worktree.path).await?;
    let (common, place) = (tree.dirs().common.clone(), tree.path().to_owned());
    let ports = ports_of(commands, *task, &place).await;
    let include = include_of(repo)?;
    let digest = commands.recipe().digest(repo, &include);
    let known = Record::read(&common, &place);
    // The digest covers the setup command, the links and the list of copies. After a change of them all is done again.
    if known.is_ready && known.recipe == digest {
        return Ok(WorktreeReady { ports, setup_log: None });
    }
    let copies = if include.is_empty() { Vec::new() } else { copies_of(repo).await? };
    let links = commands.recipe().links_in(repo);
    let mut record = Record { recipe: digest, is_ready: false, placed: known.placed };
    let linked = links.iter().map(|link| link.trim_end_matches('/').to_owned());
    record.placed.extend(linked.chain(copies.iter().cloned()));
    record.placed.sort();
    record.placed.dedup();
    let cannot = "cannot record the state of a worktree";
    record.write(&common, &place).map_err(failed(cannot))?;

    let variables = recipe::variables(slug, ports);
    tell_variables(&tree, &variables).await?;
    let mut words = link_all(worktree, &tree, links).await?;
    let (from, to) = (repo.clone(), place.clone());
    let copied = tokio::task::spawn_blocking(move || copy_all(&from, &to, &copies)).await;
    words += &copied.map_err(|error| WorktreeFault::Failed(error.to_string()))??;
    tracing::debug!(task = %task, words, "placed files in a worktree");

    let mut setup_log = None;
    if let Some(cmd) = commands.recipe().setup_in(repo) {
        let run =
            RecipeRun { what: "workspace.setup", cmd, words: &words, variables: &variables, ports };
        let ran = run_command(commands, worktree, *task, run, stop).await?;
        if let Some(fault) = ran.fault {
            return Err(not_ready(fault));
        }
        setup_log = Some(ran.log);
    }
    record.is_ready = true;
    record.write(&common, &place).map_err(failed(cannot))?;
    Ok(WorktreeReady { ports, setup_log })
}

/// The ports of a task; `None` when they are all taken or cannot be recorded, which is no reason not to work.
pub(super) async fn ports_of(
    commands: &ProjectCommands,
    task: TaskId,
    worktree: &Path,
) -> Option<PortBlock> {
    let recipe = commands.recipe();
    let (folder, range) = (recipe.ports_folder.clone()?, recipe.ports);
    let (name, worktree) = (task.to_string(), worktree.to_owned());
    let take = move || ports::take(&folder, range, &name, &worktree);
    let taken = tokio::task::spawn_blocking(take).await.ok()?;
    let block =
        taken.inspect_err(|error| tracing::warn!(%error, "cannot record the ports of a task"));
    let block = block.ok()?;
    if block.is_none() && range.count > 0 {
        tracing::warn!(%task, "all blocks of workspace.ports are taken");
    }
    block
}

/// Writes the variables for agents that Callboard does not start. A tracked file of that name is left alone.
async fn tell_variables(
    tree: &AgentTree,
    variables: &[(String, String)],
) -> Result<(), WorktreeFault> {
    let path = format!(".callboard/{VARIABLES}");
    if !tree.git().ask(&["ls-files", "-z", "--", &path]).await?.is_empty() {
        return Ok(());
    }
    hide(tree.git(), &tree.dirs().common, &[&path]).await?;
    let lines: String = variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    let written = placing::write_ours(tree.path(), VARIABLES, lines.as_bytes());
    written.map_err(failed("cannot write .callboard/workspace.env"))
}

/// A command of the recipe.
struct RecipeRun<'a> {
    what: &'static str,
    cmd: &'a str,
    /// Lines for the log before the output.
    words: &'a str,
    variables: &'a [(String, String)],
    ports: Option<PortBlock>,
}

struct RecipeRan {
    /// Relative to the repository.
    log: String,
    /// Why the command failed, with the end of its output; `None` when it succeeded.
    fault: Option<String>,
}

async fn run_command(
    commands: &ProjectCommands,
    worktree: &Worktree,
    task: TaskId,
    run: RecipeRun<'_>,
    stop: &CancellationToken,
) -> Result<RecipeRan, WorktreeFault> {
    let (recipe, what) = (commands.recipe(), run.what);
    let command = ProjectCommand {
        repo: &worktree.repo,
        root: &worktree.path,
        cwd: worktree.path.clone(),
        shell: &recipe.shell,
        cmd: run.cmd,
        timeout: recipe.timeout,
        log_tail_bytes: recipe.log_tail_bytes,
        variables: run.variables,
        ports: run.ports,
    };
    let (ended, is_confined) = commands.run(command, stop).await.map_err(|fault| match fault {
        CommandFault::Confinement(fault) => not_ready(format!("{what}: {fault}")),
        CommandFault::Shell(error) => {
            not_ready(format!("{what}: the shell '{}' cannot be started: {error}", recipe.shell))
        }
    })?;
    let end = match ended.ending {
        ProcessEnd::Canceled => return Err(WorktreeFault::Stopped),
        ProcessEnd::Exited(Some(0)) => None,
        ProcessEnd::Exited(Some(code)) => Some(format!("failed with exit {code}")),
        ProcessEnd::Exited(None) => Some("was ended by a signal".to_owned()),
        ProcessEnd::TimedOut => Some(format!("did not end within {} s", recipe.timeout.as_secs())),
    };
    let took = ended.duration;
    let (output, dropped) = ended.stdout.finish();
    let text = log_text(&run, end.as_deref(), took, is_confined, (&output, dropped));
    let log = check_log::write(&worktree.repo, task, Timestamp::now(), &text);
    let log = log.map_err(failed("cannot write the log of a setup"))?;
    let fault = end.map(|end| {
        let tail = tail_of(&output);
        format!("{what} {end} after {} s; its log is {log}{tail}", took.as_secs())
    });
    Ok(RecipeRan { log, fault })
}

fn log_text(
    run: &RecipeRun<'_>,
    end: Option<&str>,
    took: Duration,
    is_confined: bool,
    (output, dropped): (&[u8], u64),
) -> Vec<u8> {
    // Later lines of a command are indented, so that it cannot pass for a header or the `----`.
    let cmd = run.cmd.replace('\n', "\n  ");
    let end = end.unwrap_or("succeeded");
    let mut text = format!(
        "{}: {cmd}\nend: {end}\nconfined: {is_confined}\nduration_ms: {}\n----\n{}",
        run.what,
        took.as_millis(),
        run.words
    )
    .into_bytes();
    if dropped > 0 {
        text.extend_from_slice(format!("[{dropped} earlier bytes dropped]\n").as_bytes());
    }
    text.extend_from_slice(output);
    text
}

/// The end of an output, on lines of its own.
fn tail_of(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let text = text.trim_end();
    let skipped = text.chars().count().saturating_sub(TAIL_CHARS_MAX);
    let tail: String = text.chars().skip(skipped).collect();
    if tail.is_empty() { String::new() } else { format!("\n{tail}") }
}

/// Runs the teardown of a worktree that was made ready. Its failure is only logged: it keeps no worktree.
pub(super) async fn tear_down(commands: &ProjectCommands, of: &TaskWorktree) {
    let TaskWorktree { worktree, task, slug } = of;
    let (recipe, task) = (commands.recipe(), *task);
    let Some(cmd) = recipe.teardown.as_ref().filter(|_| recipe.is_for(&worktree.repo)) else {
        return;
    };
    let ports = ports_of(commands, task, &worktree.path).await;
    let variables = recipe::variables(slug, ports);
    let run =
        RecipeRun { what: "workspace.teardown", cmd, words: "", variables: &variables, ports };
    let never = CancellationToken::new();
    let fault = match run_command(commands, worktree, task, run, &never).await {
        Ok(RecipeRan { fault: None, .. }) => return,
        Ok(RecipeRan { fault: Some(words), .. }) => words,
        Err(fault) => fault.to_string(),
    };
    tracing::warn!(%task, fault, "the worktree is removed although its teardown failed");
}
