//! The changes of a task for a person who reviews them: file by file, since an earlier look, with more lines around a
//! change. Reads only; git writes nothing.

use std::ops::RangeInclusive;

use crate::board::card::CardSeen;
use crate::board::workspace::WorkspacePart;
use crate::context::{OpContext, Scope};
use crate::ports::{
    ChangesQuery, FileLines, PatchWish, WorkCommit, Worktree, WorktreeChanges, WorktreeFault,
};
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

impl Engine {
    /// The changes of a task's work in each of its repositories. The path in the query, and a commit, are of the
    /// repository whose name the path begins with; without a path every repository is asked, and one that does not
    /// know the commit of the last look shows all of its changes.
    pub async fn workspace_changes(
        &self,
        op: &OpContext,
        card: &CardSeen,
        query: &ChangesQuery,
    ) -> Result<Result<Vec<WorkspaceChanges>, WorkspaceFault>, EngineError> {
        match self.parts_with_work(op, card).await? {
            Ok(parts) => Ok(self.changes_in(parts, query).await),
            Err(fault) => Ok(Err(fault)),
        }
    }

    /// As `workspace_changes`, in the worktrees that a look at the review found before: git is not asked for them again.
    pub async fn review_changes(
        &self,
        op: &OpContext,
        seen: &ReviewSeen,
        query: &ChangesQuery,
    ) -> Result<Result<Vec<WorkspaceChanges>, WorkspaceFault>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        if let Some(commit) = seen.merged_as() {
            return self.merged_changes(op, seen, commit, query).await;
        }
        // After a fault the reader learns which one it was.
        if seen.work.iter().any(|work| work.looked.is_err()) {
            return self.workspace_changes(op, &seen.card, query).await;
        }
        let parts = seen.work.iter().map(|work| work.part.clone()).collect();
        Ok(self.changes_in(worked(parts), query).await)
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

    /// The changes of work that is merged, read from the commit of the merge. The record has the commit of one
    /// repository; the others are left out.
    async fn merged_changes(
        &self,
        op: &OpContext,
        seen: &ReviewSeen,
        commit: &str,
        query: &ChangesQuery,
    ) -> Result<Result<Vec<WorkspaceChanges>, WorkspaceFault>, EngineError> {
        let Some(shop) = &self.parts.workshop else { return Ok(Err(WorkspaceFault::NoRepo)) };
        let CardSeen { record, card, .. } = &seen.card;
        let mut fault = WorkspaceFault::NoRepo;
        for (part, _) in self.workspace_parts(&op.principal.org, &record.task, card).await? {
            if part.repo.machine != self.parts.machine {
                continue;
            }
            match shop.worktrees.commit_changes(&part.repo.path, commit, query).await {
                Ok(changes) => {
                    let (name, below) = (part.name(), String::new());
                    return Ok(Ok(vec![WorkspaceChanges { part, name, below, changes }]));
                }
                Err(found) => fault = found.into(),
            }
        }
        Ok(Err(fault))
    }

    async fn changes_in(
        &self,
        parts: Vec<WorkedPart>,
        query: &ChangesQuery,
    ) -> Result<Vec<WorkspaceChanges>, WorkspaceFault> {
        let Some(shop) = &self.parts.workshop else { return Err(WorkspaceFault::NoRepo) };
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
            return Err(WorktreeFault::NotChanged(path.clone()).into());
        }
        Ok(found)
    }

    /// Lines of a changed file as it is now. With several repositories, the path begins with the name of one.
    pub async fn workspace_lines(
        &self,
        op: &OpContext,
        card: &CardSeen,
        path: &str,
        lines: RangeInclusive<u32>,
    ) -> Result<Result<FileLines, WorkspaceFault>, EngineError> {
        let Some(shop) = &self.parts.workshop else { return Ok(Err(WorkspaceFault::NoRepo)) };
        let parts = match self.parts_with_work(op, card).await? {
            Ok(parts) => parts,
            Err(fault) => return Ok(Err(fault)),
        };
        for WorkedPart { part, worktree, below, .. } in parts {
            let Some(rest) = path.strip_prefix(&below) else { continue };
            let found = shop.worktrees.worktree_lines(&worktree, &part.target, rest, lines).await;
            return Ok(found.map_err(Into::into));
        }
        Ok(Err(WorktreeFault::NotChanged(path.into()).into()))
    }

    /// The parts of a workspace that have a worktree.
    async fn parts_with_work(
        &self,
        op: &OpContext,
        card: &CardSeen,
    ) -> Result<Result<Vec<WorkedPart>, WorkspaceFault>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let CardSeen { record, card, .. } = card;
        let parts = match self.workspace_find(&op.principal.org, &record.task, card).await? {
            Ok(parts) => parts,
            Err(fault) => return Ok(Err(fault.into())),
        };
        Ok(Ok(worked(parts)))
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
