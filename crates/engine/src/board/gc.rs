//! Worktrees and branches of tasks that can go: finds the facts, lets the domain judge, and removes what it allows. Also
//! the disk space that worktrees use.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use callboard_domain::board::card::Card;
use callboard_domain::board::gc::{GcVerdict, OwnerTask, WorkFact, WorktreeFacts, judge};
use callboard_domain::board::project::ProjectRepo;
use callboard_domain::board::settings::BoardSettings;
use callboard_domain::crew::names;
use callboard_domain::ids::{TaskId, TaskName};
use callboard_domain::task::{Task, TaskRecord};
use tokio_util::sync::CancellationToken;

use crate::board::workspace::{WorkspacePart, worktree_of_task};
use crate::context::{OpContext, PersonVerb, Scope};
use crate::ports::{DiskUsage, ListedWork, Removal, Worktree, WorktreeFault, WorktreeRemoved};
use crate::task::place::{BRANCHES, place_of};
use crate::{Engine, EngineError};

/// How often a server measures the worktrees.
const MEASURE_EVERY: Duration = Duration::from_secs(30 * 60);
const PROJECTS_MAX: usize = 1_000;

/// A worktree of a task, or a branch of one without a worktree, with the verdict on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GcRow {
    pub repo: PathBuf,
    /// `None` for a branch alone.
    pub path: Option<PathBuf>,
    pub branch: Option<String>,
    pub task: Option<TaskName>,
    /// The disk space of the folder.
    pub bytes: u64,
    pub verdict: GcVerdict,
    pub reason: String,
    /// Whether it was removed just now.
    pub is_removed: bool,
}

/// A worktree or a branch with its task.
struct Owned {
    record: TaskRecord,
    card: Card,
}

/// What a worktree or a branch is judged with.
#[derive(Clone, Copy)]
struct Beside<'a> {
    owned: Option<&'a Owned>,
    /// The worktrees and branches of the same repository.
    all: &'a [ListedWork],
}

impl Beside<'_> {
    /// Whether this is a branch alone, and the worktree of its task stands on no branch: in a rebase, or taken off this
    /// branch, and then its work may go on from here.
    fn was_left(&self, listed: &ListedWork) -> bool {
        let Some(Owned { record, card }) = self.owned.filter(|_| listed.path.is_none()) else {
            return false;
        };
        let (name, _) = place_of(&record.task, card);
        let mut off = self.all.iter().filter(|other| other.branch.is_none());
        off.any(|other| {
            let folder = other.path.as_ref().and_then(|path| path.file_name());
            folder.is_some_and(|folder| folder == name.as_str())
        })
    }
}

impl Engine {
    /// Every worktree and branch of tasks on this machine, with what can go and why the rest stays. With `removes`, what
    /// can go is judged once more and removed.
    pub async fn workspace_gc(
        &self,
        op: &OpContext,
        removes: bool,
    ) -> Result<Vec<GcRow>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let org = &op.principal.org;
        let Some(shop) = &self.parts.workshop else { return Ok(Vec::new()) };
        let settings = self.board_settings(org).await?;
        let prefixes = [BRANCHES.to_owned(), self.parts.crew.branch_prefix.clone()];
        let mut rows = Vec::new();
        for repo in self.gc_repos(org).await? {
            let sizes: HashMap<PathBuf, u64> =
                shop.worktrees.disk_measure(&repo.path).await.into_iter().collect();
            let all = shop.worktrees.worktrees_listed(&repo.path, &prefixes).await?;
            for listed in &all {
                let owned = self.gc_owner(org, listed).await?;
                let beside = Beside { owned: owned.as_ref(), all: &all };
                let mut row = self.gc_judge(org, &repo, listed, beside, &settings).await?;
                row.bytes =
                    listed.path.as_ref().and_then(|path| sizes.get(path)).copied().unwrap_or(0);
                if let (true, GcVerdict::Remove, Some(owned)) = (removes, row.verdict, &owned) {
                    op.principal.judge_verb_on(
                        op.tool,
                        PersonVerb::Remove,
                        owned.record.task.id,
                    )?;
                    self.gc_remove(&repo, listed, owned, &settings, &mut row).await?;
                }
                rows.push(row);
            }
            if removes {
                shop.worktrees.disk_measure(&repo.path).await;
            }
        }
        Ok(rows)
    }

    /// Removes the workspace of a task that was just merged, if the settings say so and nothing in it is unique. A failure
    /// is only logged: the merge is made.
    pub(crate) async fn workspace_tidy(&self, org: &str, task: &Task, parts: &[WorkspacePart]) {
        if !self.parts.board.remove_after_merge {
            return;
        }
        for part in parts {
            let Some(place) = &part.worktree else { continue };
            let listed =
                ListedWork { path: Some(place.path.clone()), branch: Some(place.branch.clone()) };
            let tidied = async {
                let Some(owned) = self.gc_owned(org, task.id).await? else { return Ok(()) };
                let settings = self.board_settings(org).await?;
                let beside = Beside { owned: Some(&owned), all: &[] };
                let mut row = self.gc_judge(org, &part.repo, &listed, beside, &settings).await?;
                match row.verdict {
                    GcVerdict::Keep => {}
                    GcVerdict::Remove => {
                        self.gc_remove(&part.repo, &listed, &owned, &settings, &mut row).await?;
                    }
                }
                if row.verdict == GcVerdict::Keep {
                    tracing::info!(task = %task.id, reason = row.reason, "kept a merged workspace");
                }
                Ok::<_, EngineError>(())
            };
            if let Err(error) = tidied.await {
                tracing::warn!(task = %task.id, %error, "cannot remove a merged workspace");
            }
        }
    }

    async fn gc_judge(
        &self,
        org: &str,
        repo: &ProjectRepo,
        listed: &ListedWork,
        beside: Beside<'_>,
        settings: &BoardSettings,
    ) -> Result<GcRow, EngineError> {
        let (nothing, owned) = (Card::default(), beside.owned);
        let card = owned.map_or(&nothing, |owned| &owned.card);
        let work = match (self.target_of(repo, card, settings).await, &self.parts.workshop) {
            _ if beside.was_left(listed) => WorkFact::Busy("its worktree is on no branch".into()),
            (Ok(target), Some(shop)) => shop.worktrees.work_left(&repo.path, listed, &target).await,
            (Ok(_), None) => WorkFact::Unreadable("this process touches no repositories".into()),
            (Err(fault), _) => WorkFact::Unreadable(fault.to_string()),
        };
        let (task, is_live) = match owned {
            Some(Owned { record, .. }) => {
                let now = self.parts.store.now();
                let is_held = record.newest.as_ref().is_some_and(|newest| newest.is_live(now));
                let is_live = is_held || self.work_open(org, record.task.id).await?.is_some();
                let is_closed = record.task.phase.is_closed();
                (if is_closed { OwnerTask::Closed } else { OwnerTask::Open }, is_live)
            }
            None => (OwnerTask::Unknown, false),
        };
        let (verdict, reason) = judge(&WorktreeFacts { task, is_live, work });
        Ok(GcRow {
            repo: repo.path.clone(),
            path: listed.path.clone(),
            branch: listed.branch.clone(),
            task: owned.map(|owned| owned.record.task.name()),
            bytes: 0,
            verdict,
            reason,
            is_removed: false,
        })
    }

    /// Removes what was judged. The port looks once more under its lock, and keeps what became unique meanwhile.
    async fn gc_remove(
        &self,
        repo: &ProjectRepo,
        listed: &ListedWork,
        owned: &Owned,
        settings: &BoardSettings,
        row: &mut GcRow,
    ) -> Result<(), EngineError> {
        let Some(shop) = &self.parts.workshop else { return Ok(()) };
        let (task, card) = (&owned.record.task, &owned.card);
        let removed = async {
            let target = self.target_of(repo, card, settings).await?;
            let (path, branch) = match (&listed.path, &listed.branch) {
                (Some(path), branch) => (path.clone(), branch.clone()),
                // The branch goes alone, whatever becomes of the worktree of its task.
                (None, Some(branch)) => {
                    let branch = shop.worktrees.branch_remove(&repo.path, branch, &target).await?;
                    return Ok(WorktreeRemoved { folder: branch, branch: Removal::Absent });
                }
                (None, None) => return Err(WorktreeFault::NoBranch(String::new())),
            };
            let branch = branch.unwrap_or_else(|| place_of(task, card).1.new);
            let worktree = Worktree { repo: repo.path.clone(), path, branch };
            shop.worktrees.worktree_remove(&worktree_of_task(task, &worktree), &target).await
        };
        match removed.await {
            Ok(WorktreeRemoved { folder: Removal::Kept(why), .. }) => {
                (row.verdict, row.reason) = (GcVerdict::Keep, why);
            }
            Ok(WorktreeRemoved { branch: Removal::Kept(why), .. }) => {
                (row.is_removed, row.reason) = (true, format!("its branch stays: {why}"));
            }
            Ok(_) => row.is_removed = true,
            // One worktree that cannot be removed keeps no other one.
            Err(fault) => (row.verdict, row.reason) = (GcVerdict::Keep, fault.to_string()),
        }
        Ok(())
    }

    /// The repositories of all projects on this machine, each once.
    async fn gc_repos(&self, org: &str) -> Result<Vec<ProjectRepo>, EngineError> {
        let mut repos: Vec<ProjectRepo> = Vec::new();
        for project in self.parts.store.projects(org, PROJECTS_MAX).await? {
            for repo in self.parts.store.repos(org, project.id).await? {
                let is_known = repos.iter().any(|known| known.path == repo.path);
                if !is_known && self.is_git_here(&repo).await.unwrap_or(false) {
                    repos.push(repo);
                }
            }
        }
        Ok(repos)
    }

    /// The task of a worktree by its folder's name, else the task of a branch by the branch's name.
    async fn gc_owner(&self, org: &str, listed: &ListedWork) -> Result<Option<Owned>, EngineError> {
        let typed = match (&listed.path, &listed.branch) {
            (Some(path), _) => {
                path.file_name().and_then(|name| names::worktree_owner(name.to_str()?))
            }
            (None, Some(branch)) => branch.strip_prefix(BRANCHES).and_then(names::branch_owner),
            (None, None) => None,
        };
        let Some(typed) = typed else { return Ok(None) };
        let found = self.parts.store.task_ids(org, &typed, 2).await?;
        let [task] = found.as_slice() else { return Ok(None) };
        let Some(owned) = self.gc_owned(org, *task).await? else { return Ok(None) };
        let (name, branch) = place_of(&owned.record.task, &owned.card);
        let is_owner = match (&listed.path, &listed.branch) {
            (Some(path), _) => path.file_name().is_some_and(|folder| folder == name.as_str()),
            (None, Some(listed)) => branch.has(listed),
            (None, None) => false,
        };
        Ok(Some(owned).filter(|_| is_owner))
    }

    async fn gc_owned(&self, org: &str, task: TaskId) -> Result<Option<Owned>, EngineError> {
        let Some(record) = self.parts.store.task(org, task).await? else { return Ok(None) };
        let card = self.parts.store.card(org, task).await?.unwrap_or_default();
        Ok(Some(Owned { record, card }))
    }

    /// The disk space of the worktrees of this project's repository, as it was measured last.
    pub async fn disk_usage(&self) -> Option<DiskUsage> {
        let shop = self.parts.workshop.as_ref()?;
        shop.worktrees.disk_usage(shop.root.as_ref()?).await
    }

    /// The disk space of the worktrees of this project's repository, measured now.
    pub async fn disk_measure(&self) -> Option<DiskUsage> {
        let shop = self.parts.workshop.as_ref()?;
        shop.worktrees.disk_measure(shop.root.as_ref()?).await;
        self.disk_usage().await
    }

    /// The quota of `disk_usage` in bytes; `None` where there is no limit.
    pub fn disk_quota(&self) -> Option<u64> {
        self.parts.board.disk_quota_bytes
    }

    pub(crate) async fn disk_measure_until(&self, stop: CancellationToken) {
        if self.disk_quota().is_none() {
            return stop.cancelled().await;
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = self.disk_measure() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(MEASURE_EVERY) => {}
            }
        }
    }
}
