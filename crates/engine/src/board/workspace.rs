//! The workspace of a task: a worktree in every repository that its project has on this machine, made when work begins
//! and found again by the task's id.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::board::card::Card;
use callboard_domain::board::project::ProjectRepo;
use callboard_domain::board::recipe::{self, PortBlock};
use callboard_domain::board::settings::{BaseRef, BoardSettings};
use callboard_domain::ids::TaskId;
use callboard_domain::task::Task;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::board::card::CardSeen;
use crate::context::{OpContext, Scope};
use crate::ports::{
    BaseFrom, Door, Merges, PairSessions, Removal, RepositoryFault, SessionServer, TaskWorktree,
    Workers, Worktree, WorktreeFault, WorktreeOrder, WorktreeReady, WorktreeState, Worktrees,
};
use crate::task::place::{WorkspaceFault, place_of};
use crate::{Engine, EngineError};

/// The parts that let tasks be worked on in workspaces.
pub struct Workshop {
    pub worktrees: Arc<dyn Worktrees>,
    pub merges: Arc<dyn Merges>,
    pub pairs: Arc<dyn PairSessions>,
    /// `None` where no agent works alone.
    pub workers: Option<Arc<dyn Workers>>,
    /// The folder that contains `.callboard`, if there is one here.
    pub root: Option<PathBuf>,
    /// The command with which the agent of a person's session starts a server of this board.
    pub server: SessionServer,
    /// The door through which agents that work alone reach the board; `None` where there is none.
    pub door: Option<Arc<dyn Door>>,
    /// The programs of executors that are not built in.
    pub programs: HashMap<String, String>,
}

/// How often a caller hears that a setup goes on.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The end of the slug in the folder of a merge.
const MERGE_SLUG: &str = "-merge";

/// A task's workspace in one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspacePart {
    pub repo: ProjectRepo,
    /// The branch from which the work starts and into which it is merged.
    pub target: String,
    /// `None` until a worktree is made, and for a repository that is not on this machine.
    pub worktree: Option<Worktree>,
}

impl WorkspacePart {
    /// The name of the repository: its folder's.
    pub fn name(&self) -> String {
        let path = &self.repo.path;
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }
}

/// A part of a workspace with its state, for readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceSeen {
    pub part: WorkspacePart,
    pub name: String,
    /// `None` without a worktree; the fault says why the state is not known.
    pub state: Result<Option<WorktreeState>, WorktreeFault>,
}

/// The head of the first repository with a worktree.
pub(crate) fn head_of(places: &[WorkspaceSeen]) -> Option<String> {
    places.iter().find_map(|seen| match &seen.state {
        Ok(Some(state)) => Some(state.head.clone()),
        Ok(None) | Err(_) => None,
    })
}

/// The message of the commit for an agent's uncommitted changes.
pub(crate) fn leftovers(task: TaskId) -> String {
    format!("chore: adding uncommitted agent changes ({task})")
}

impl Engine {
    /// The workspace of a task with its state, the primary repository first.
    pub async fn workspace_get(
        &self,
        op: &OpContext,
        seen: &CardSeen,
    ) -> Result<Vec<WorkspaceSeen>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let parts = self.workspace_parts(&op.principal.org, &seen.record.task, &seen.card).await?;
        let mut all = Vec::with_capacity(parts.len());
        for (part, found) in parts {
            let name = part.name();
            let state = match (found, &self.parts.workshop, &part.worktree) {
                (Err(fault), _, _) => Err(fault),
                (Ok(()), Some(shop), Some(place)) => {
                    shop.worktrees.worktree_state(place, &part.target).await.map(Some)
                }
                (Ok(()), _, _) => Ok(None),
            };
            all.push(WorkspaceSeen { part, name, state });
        }
        Ok(all)
    }

    /// The parts that have a worktree. A worktree in which another branch is checked out is a fault.
    pub(crate) async fn workspace_find(
        &self,
        org: &str,
        task: &Task,
        card: &Card,
    ) -> Result<Vec<WorkspacePart>, WorkspaceFault> {
        let mut parts = Vec::new();
        for (part, found) in self.workspace_parts(org, task, card).await? {
            found?;
            if part.worktree.is_some() {
                parts.push(part);
            }
        }
        Ok(parts)
    }

    /// As `workspace_find`, for a caller that goes on without worktrees: none if git fails.
    pub(crate) async fn worktrees_known(
        &self,
        org: &str,
        task: &Task,
        card: &Card,
    ) -> Result<Vec<WorkspacePart>, EngineError> {
        match self.workspace_find(org, task, card).await {
            Err(WorkspaceFault::Worktree(_)) => Ok(Vec::new()),
            found => Ok(found?),
        }
    }

    /// A worktree in every repository on this machine, made where there is none; the primary one first.
    pub(crate) async fn workspace_make(
        &self,
        org: &str,
        task: &Task,
        card: &Card,
    ) -> Result<Vec<WorkspacePart>, WorkspaceFault> {
        let Some(shop) = &self.parts.workshop else { return Err(WorktreeFault::NoRepo.into()) };
        let settings = self.board_settings(org).await?;
        let mut made = Vec::new();
        for (mut part, found) in self.workspace_parts(org, task, card).await? {
            found?;
            if !self.is_git_here(&part.repo).await? {
                continue;
            }
            if part.worktree.is_none() {
                let (name, branch) = place_of(task, card);
                let order = WorktreeOrder {
                    repo: part.repo.path.clone(),
                    name,
                    branch,
                    base: part.target.clone(),
                    base_from: base_from(settings.base_ref),
                    fetch: settings.auto_sync_base_branch,
                };
                part.worktree = Some(shop.worktrees.worktree_make(order).await?.worktree);
            }
            made.push(part);
        }
        if made.is_empty() { Err(WorktreeFault::NoRepo.into()) } else { Ok(made) }
    }

    /// Makes the worktrees of a task ready for work, one after the other; the answer is the primary one's. Every kind
    /// of attempt goes through here before work begins. May take as long as `workspace.setup` does: never call it
    /// with a lock held.
    pub(crate) async fn workspace_ready(
        &self,
        task: &Task,
        parts: &[WorkspacePart],
        stop: &CancellationToken,
    ) -> Result<WorktreeReady, WorktreeFault> {
        let mut primary = None;
        let Some(shop) = &self.parts.workshop else { return Ok(WorktreeReady::default()) };
        for place in parts.iter().filter_map(|part| part.worktree.as_ref()) {
            let of = worktree_of_task(task, place);
            let ready = shop.worktrees.worktree_ready(of, stop.clone()).await?;
            primary = primary.or(Some(ready));
        }
        Ok(primary.unwrap_or_default())
    }

    /// As `workspace_ready`, for a caller that waits: it hears every few seconds that the setup goes on. The setup goes
    /// on when the caller leaves, so that the next call finds it done.
    pub(crate) async fn workspace_ready_for(
        &self,
        op: &OpContext,
        task: &Task,
        parts: &[WorkspacePart],
    ) -> Result<WorktreeReady, WorktreeFault> {
        let (never, began) = (CancellationToken::new(), Instant::now());
        let ready = self.workspace_ready(task, parts, &never);
        tokio::pin!(ready);
        let mut tick = tokio::time::interval_at(began + PROGRESS_EVERY, PROGRESS_EVERY);
        loop {
            tokio::select! {
                ready = &mut ready => return ready,
                () = op.cancel.cancelled() => return Err(WorktreeFault::Stopped),
                _ = tick.tick() => {
                    let seconds = began.elapsed().as_secs();
                    let words = format!("preparing the worktree, {seconds} s");
                    op.progress.report(seconds as f64, None, words);
                }
            }
        }
    }

    /// The variables and the ports of everything that runs in a worktree of the task. `root` is that worktree, or the
    /// folder of a merge, whose services must not be those of the worktree.
    pub(crate) async fn workspace_variables(
        &self,
        task: &Task,
        root: &Path,
    ) -> (Vec<(String, String)>, Option<PortBlock>) {
        let ports = match &self.parts.workshop {
            Some(shop) => shop.worktrees.worktree_ports(task.id, root).await,
            None => None,
        };
        (recipe::variables(&slug_at(task, root), ports), ports)
    }

    /// Whether some of a task's work is not in its target yet. If git fails, that is an error, not an answer.
    pub(crate) async fn is_unmerged(
        &self,
        org: &str,
        seen: &CardSeen,
    ) -> Result<bool, EngineError> {
        let Some(shop) = &self.parts.workshop else { return Ok(false) };
        let parts = match self.workspace_find(org, &seen.record.task, &seen.card).await {
            Ok(parts) => parts,
            Err(fault) => return not_known_merged(fault.of_worktree()?),
        };
        for part in &parts {
            let Some(place) = &part.worktree else { continue };
            match shop.worktrees.worktree_state(place, &part.target).await {
                Ok(state) if state.has_changes() => return Ok(true),
                Ok(_) => {}
                Err(fault) => return not_known_merged(fault),
            }
        }
        Ok(false)
    }

    /// Removes the worktrees and branches of a task as far as no work is lost; returns what stays and why.
    pub(crate) async fn workspace_remove(
        &self,
        task: &Task,
        parts: &[WorkspacePart],
    ) -> Result<Vec<String>, WorktreeFault> {
        let Some(shop) = &self.parts.workshop else { return Ok(Vec::new()) };
        let mut kept = Vec::new();
        for part in parts {
            let Some(place) = &part.worktree else { continue };
            let of = worktree_of_task(task, place);
            let removed = shop.worktrees.worktree_remove(&of, &part.target).await?;
            match (removed.folder, removed.branch) {
                (Removal::Kept(why), _) => kept.push(format!("{}: {why}", place.path.display())),
                (_, Removal::Kept(why)) => kept.push(format!("branch {}: {why}", place.branch)),
                _ => {}
            }
        }
        Ok(kept)
    }

    /// The parts of a workspace, each with the result of looking for its worktree.
    pub(crate) async fn workspace_parts(
        &self,
        org: &str,
        task: &Task,
        card: &Card,
    ) -> Result<Vec<(WorkspacePart, Result<(), WorktreeFault>)>, EngineError> {
        let settings = self.board_settings(org).await?;
        let mut repos = self.parts.store.repos(org, task.project).await?;
        // A project may be on several machines; repositories of this machine come first, because they can be worked on
        // from here.
        repos.sort_by_key(|repo| repo.machine != self.parts.machine);
        let mut parts = Vec::with_capacity(repos.len());
        for repo in repos {
            let (target, worktree) = match self.workspace_part(&repo, task, card, &settings).await {
                Ok(found) => found,
                Err(fault) => {
                    // The target as far as it is known without git.
                    let target = self.target_written(&repo, card, &settings);
                    parts.push((WorkspacePart { repo, target, worktree: None }, Err(fault)));
                    continue;
                }
            };
            parts.push((WorkspacePart { repo, target, worktree }, Ok(())));
        }
        Ok(parts)
    }

    /// The target of a task's work in one repository, and its worktree.
    async fn workspace_part(
        &self,
        repo: &ProjectRepo,
        task: &Task,
        card: &Card,
        settings: &BoardSettings,
    ) -> Result<(String, Option<Worktree>), WorktreeFault> {
        let is_here = self.is_git_here(repo).await?;
        let target = self.target_of(repo, card, settings).await?;
        let worktree = match &self.parts.workshop {
            Some(shop) if is_here => {
                let (name, branch) = place_of(task, card);
                shop.worktrees.worktree_find(&repo.path, &name, &branch).await?
            }
            _ => None,
        };
        Ok((target, worktree))
    }

    /// The folders of a task's worktrees on this machine, whether or not they exist. Git is not asked, so they are
    /// known even while git fails.
    pub(crate) async fn workspace_places(
        &self,
        org: &str,
        task: &Task,
        card: &Card,
    ) -> Result<Vec<Worktree>, EngineError> {
        let Some(shop) = &self.parts.workshop else { return Ok(Vec::new()) };
        let (name, branch) = place_of(task, card);
        let repos = self.parts.store.repos(org, task.project).await?.into_iter();
        let here = repos.filter(|repo| repo.machine == self.parts.machine);
        let place = |repo: ProjectRepo| {
            let path = shop.worktrees.worktree_place(&repo.path, &name)?;
            Some(Worktree { repo: repo.path, path, branch: branch.new.clone() })
        };
        Ok(here.filter_map(place).collect())
    }

    /// Whether a project's repository is on this machine and is a git repository. A failure of git is an error.
    pub(crate) async fn is_git_here(&self, repo: &ProjectRepo) -> Result<bool, WorktreeFault> {
        let Some(runner) = &self.parts.checks else { return Ok(false) };
        if repo.machine != self.parts.machine {
            return Ok(false);
        }
        match runner.repository(&repo.path).await {
            Ok(_) => Ok(true),
            Err(RepositoryFault::None(_)) => Ok(false),
            Err(RepositoryFault::Failed(words)) => {
                Err(WorktreeFault::Failed(format!("{} {words}", repo.path.display())))
            }
        }
    }

    /// The target of a task's work by the card, the repository's row or the settings.
    fn target_written(&self, repo: &ProjectRepo, card: &Card, settings: &BoardSettings) -> String {
        let written = card.base_branch.as_ref().or(repo.default_branch.as_ref());
        written.unwrap_or(&settings.default_base_branch).clone()
    }

    /// The target of a task's work. The branch that a person has checked out counts only if nothing else decides.
    pub(crate) async fn target_of(
        &self,
        repo: &ProjectRepo,
        card: &Card,
        settings: &BoardSettings,
    ) -> Result<String, WorktreeFault> {
        let usual = &settings.default_base_branch;
        let is_written = card.base_branch.is_some() || repo.default_branch.is_some();
        let (Some(runner), Some(shop)) = (&self.parts.checks, &self.parts.workshop) else {
            return Ok(self.target_written(repo, card, settings));
        };
        if is_written || repo.machine != self.parts.machine {
            return Ok(self.target_written(repo, card, settings));
        }
        let said = match runner.origin(&repo.path).await {
            Ok(origin) => origin.default_branch,
            Err(RepositoryFault::None(_)) => return Ok(usual.clone()),
            Err(fault) => return Err(fault.into()),
        };
        if let Some(branch) = said {
            return Ok(branch);
        }
        match shop.worktrees.branch_contains(&repo.path, usual, usual).await {
            Ok(_) => return Ok(usual.clone()),
            Err(WorktreeFault::NoBranch(_) | WorktreeFault::BadBranch(_)) => {}
            Err(fault) => return Err(fault),
        }
        match runner.repository(&repo.path).await {
            Ok(found) => Ok(found.default_branch.unwrap_or_else(|| usual.clone())),
            Err(RepositoryFault::None(_)) => Ok(usual.clone()),
            Err(fault) => Err(fault.into()),
        }
    }
}

/// A worktree of the task, or the folder of its merge, whose services must not be those of the worktree.
pub(crate) fn worktree_of_task(task: &Task, worktree: &Worktree) -> TaskWorktree {
    let slug = slug_at(task, &worktree.path);
    TaskWorktree { worktree: worktree.clone(), task: task.id, slug }
}

fn slug_at(task: &Task, root: &Path) -> String {
    let slug = recipe::slug(task);
    // No worktree of a task begins with a dot.
    let is_merge = root.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    if is_merge { format!("{slug}{MERGE_SLUG}") } else { slug }
}

/// Work on another branch, or without a target to compare with, is not known to be merged. If git fails, that is an
/// error.
fn not_known_merged(fault: WorktreeFault) -> Result<bool, EngineError> {
    match fault {
        WorktreeFault::Elsewhere { .. }
        | WorktreeFault::NoBranch(_)
        | WorktreeFault::NoCommit
        | WorktreeFault::BadBranch(_)
        | WorktreeFault::BadName(_)
        | WorktreeFault::Unrelated => Ok(true),
        WorktreeFault::NoRepo
        | WorktreeFault::NotChanged(_)
        | WorktreeFault::BadCommit(_)
        | WorktreeFault::Unreachable(_)
        | WorktreeFault::NotReady(_)
        | WorktreeFault::Stopped
        | WorktreeFault::Failed(_) => Err(fault.into()),
    }
}

pub(crate) fn base_from(setting: BaseRef) -> BaseFrom {
    match setting {
        BaseRef::Remote => BaseFrom::Remote,
        BaseRef::LocalIfAhead => BaseFrom::LocalIfAhead,
        BaseRef::Local => BaseFrom::Local,
    }
}
