//! The changes of a task for a person who reviews them: file by file, since an earlier look, with more lines around a
//! change. Reads only; git writes nothing.

use callboard_domain::event::EventName;
use callboard_domain::ids::TaskId;
use callboard_store::BackQuery;

use crate::board::card::CardSeen;
use crate::board::workspace::WorkspacePart;
use crate::context::{OpContext, Scope};
use crate::ports::{ChangesQuery, PatchWish, WorkCommit, Worktree, WorktreeChanges, WorktreeFault};
use crate::review::look::ReviewSeen;
use crate::task::place::WorkspaceFault;
use crate::{Engine, EngineError};

/// The changes of a task in one repository.
#[derive(Clone, Debug)]
pub struct WorkspaceChanges {
    pub part: WorkspacePart,
    /// The name of the repository.
    pub name: String,
    /// The folder that stands before each path of a task with several repositories, with a slash; else empty. The
    /// paths in `changes` are without it.
    pub below: String,
    pub changes: WorktreeChanges,
}

impl WorkspaceChanges {
    /// The path that names a file of this repository among those of all repositories.
    pub fn whole(&self, path: &str) -> String {
        format!("{}{path}", self.below)
    }

    /// The path inside of this repository; `None` for a file of another one.
    pub fn inner<'p>(&self, whole: &'p str) -> Option<&'p str> {
        whole.strip_prefix(&self.below)
    }
}

impl Engine {
    /// The changes of a task's work in each of its repositories. The path in the query, and a commit, are of the
    /// repository whose name the path begins with; without a path every repository is asked, and one that does not
    /// know the commit of the last look shows all of its changes.
    pub async fn workspace_changes(
        &self,
        op: &OpContext,
        card: &CardSeen,
        query: &ChangesQuery,
    ) -> Result<Vec<WorkspaceChanges>, WorkspaceFault> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let CardSeen { record, card, .. } = card;
        let parts = self.workspace_find(&op.principal.org, &record.task, card).await?;
        Ok(self.changes_in(worked(parts), query).await?)
    }

    /// As `workspace_changes`, in the worktrees that a look at the review found before: git is not asked for them again.
    pub async fn review_changes(
        &self,
        op: &OpContext,
        seen: &ReviewSeen,
        query: &ChangesQuery,
    ) -> Result<Vec<WorkspaceChanges>, WorkspaceFault> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        if let Some(commit) = seen.merged_as() {
            return self.merged_changes(op, seen, commit, query).await;
        }
        // After a fault the reader learns which one it was.
        if seen.work.iter().any(|work| work.looked.is_err()) {
            return self.workspace_changes(op, &seen.card, query).await;
        }
        let parts = seen.work.iter().map(|work| work.part.clone()).collect();
        Ok(self.changes_in(worked(parts), query).await?)
    }

    /// The commits of a task's work in each of its repositories, the newest first, then the commit at which the work
    /// begins. A repository that git cannot read has none.
    pub async fn review_commits(
        &self,
        op: &OpContext,
        seen: &ReviewSeen,
    ) -> Result<Vec<Vec<WorkCommit>>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let Some(shop) = &self.parts.workshop else { return Ok(Vec::new()) };
        if seen.merged_as().is_some() {
            return Ok(Vec::new());
        }
        let parts = seen.work.iter().filter(|work| work.looked.is_ok());
        let mut found = Vec::new();
        for WorkedPart { part, worktree, .. } in
            worked(parts.map(|work| work.part.clone()).collect())
        {
            let commits = shop.worktrees.worktree_commits(&worktree, &part.target).await;
            found.push(commits.unwrap_or_default());
        }
        Ok(found)
    }

    /// The changes of work that is merged, read from the commit of the merge in each repository. A repository in which
    /// nothing was merged is left out.
    async fn merged_changes(
        &self,
        op: &OpContext,
        seen: &ReviewSeen,
        commit: &str,
        query: &ChangesQuery,
    ) -> Result<Vec<WorkspaceChanges>, WorkspaceFault> {
        let Some(shop) = &self.parts.workshop else { return Err(WorktreeFault::NoRepo.into()) };
        let (mut found, mut missing) = (Vec::new(), None);
        for (part, commit) in self.merged_parts(op, &seen.card, commit).await? {
            let changes = shop.worktrees.commit_changes(&part.repo.path, &commit, query).await;
            match changes {
                Ok(changes) => {
                    let (name, below) = (part.name(), String::new());
                    found.push(WorkspaceChanges { part, name, below, changes });
                }
                // A file that was asked for is in one of the repositories.
                Err(WorktreeFault::NotChanged(path)) => missing = Some(path),
                Err(fault) => return Err(fault.into()),
            }
        }
        match missing.filter(|_| found.is_empty()) {
            Some(path) => Err(WorktreeFault::NotChanged(path).into()),
            None => Ok(found),
        }
    }

    /// The repositories of this machine in which work of the task was merged, each with the commit of its merge.
    pub(crate) async fn merged_parts(
        &self,
        op: &OpContext,
        card: &CardSeen,
        commit: &str,
    ) -> Result<Vec<(WorkspacePart, String)>, WorkspaceFault> {
        let Some(shop) = &self.parts.workshop else { return Err(WorktreeFault::NoRepo.into()) };
        let CardSeen { record, card, .. } = card;
        let commits = self.merge_commits(op, record.task.id, commit).await?;
        let mut fault = WorktreeFault::NoRepo;
        let mut found = Vec::new();
        for (part, _) in self.workspace_parts(&op.principal.org, &record.task, card).await? {
            if part.repo.machine != self.parts.machine {
                continue;
            }
            // A commit is known by its hash alone, so all are looked for in each repository.
            match shop.worktrees.commit_find(&part.repo.path, &commits).await {
                Ok(Some(commit)) => found.push((part, commit)),
                Ok(None) => fault = WorktreeFault::BadCommit(commit.into()),
                Err(why) => fault = why,
            }
        }
        if found.is_empty() { Err(fault.into()) } else { Ok(found) }
    }

    /// The commits of a merge, as its event tells of them. Without that event the record's commit is the only one.
    async fn merge_commits(
        &self,
        op: &OpContext,
        task: TaskId,
        commit: &str,
    ) -> Result<Vec<String>, EngineError> {
        let query = BackQuery {
            names: Some(vec![EventName::ReviewMerged]),
            task: Some(task),
            ..BackQuery::of(op.principal.org.clone(), 1)
        };
        let events = self.parts.store.events_back(query).await?;
        let commits = events.iter().flat_map(|event| event.read().merge_commits());
        let mut commits: Vec<String> = commits.map(str::to_owned).collect();
        if !commits.iter().any(|known| known == commit) {
            commits = vec![commit.to_owned()];
        }
        Ok(commits)
    }

    async fn changes_in(
        &self,
        parts: Vec<WorkedPart>,
        query: &ChangesQuery,
    ) -> Result<Vec<WorkspaceChanges>, WorktreeFault> {
        let Some(shop) = &self.parts.workshop else { return Err(WorktreeFault::NoRepo) };
        let mut found = Vec::new();
        for WorkedPart { part, worktree, name, below } in parts {
            let mut query = query.clone();
            if let PatchWish::File(path) = &mut query.patch {
                match path.strip_prefix(&below) {
                    Some(rest) => *path = rest.to_owned(),
                    None => continue,
                }
            }
            let changes = shop.worktrees.worktree_changes(&worktree, &part.target, &query).await;
            let changes = match changes {
                // Both ends of a range are commits of one repository.
                Err(WorktreeFault::BadCommit(_)) if query.until.is_some() && !below.is_empty() => {
                    continue;
                }
                changes => changes?,
            };
            found.push(WorkspaceChanges { part, name, below, changes });
        }
        if let (PatchWish::File(path), true) = (&query.patch, found.is_empty()) {
            return Err(WorktreeFault::NotChanged(path.clone()));
        }
        Ok(found)
    }
}

fn worked(parts: Vec<WorkspacePart>) -> Vec<WorkedPart> {
    let several = parts.len() > 1;
    let worked = parts.into_iter().filter_map(|part| {
        let (name, worktree) = (part.name(), part.worktree.clone()?);
        let below = if several { format!("{name}/") } else { String::new() };
        Some(WorkedPart { part, worktree, name, below })
    });
    worked.collect()
}

struct WorkedPart {
    part: WorkspacePart,
    worktree: Worktree,
    name: String,
    below: String,
}
