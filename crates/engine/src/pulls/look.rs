//! Pull requests for people: the list, one with its changes and how a merge would go, and the command that merges it.

use std::path::PathBuf;

use callboard_domain::ids::TaskId;
use callboard_domain::pulls::{OPEN, Pull};
use callboard_store::PullQuery;

use crate::context::{OpContext, Scope};
use crate::ports::{MergeOutlook, MergeWish, WorktreeDiff};
use crate::pulls::merge::PullEnd;
use crate::pulls::track::kind_of;
use crate::review::merge::Merged;
use crate::{Engine, EngineError};

/// What git on this machine knows of a pull request.
#[derive(Clone, Debug)]
pub struct PullLook {
    pub diff: WorktreeDiff,
    pub outlook: Result<MergeOutlook, String>,
}

/// Why the changes of a pull request are not shown.
#[derive(Debug, thiserror::Error)]
pub enum PullLookFault {
    /// Git on this machine does not know them; in words for the caller.
    #[error("{0}")]
    Unknown(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// How a caller names a pull request.
#[derive(Clone, Debug)]
pub enum PullNamed {
    Url(String),
    /// The newest pull request of this task.
    Task(TaskId),
}

impl Engine {
    /// Pull requests, newest first.
    pub async fn pull_list(
        &self,
        op: &OpContext,
        only_open: bool,
        limit: usize,
    ) -> Result<Vec<Pull>, EngineError> {
        let status = only_open.then_some(OPEN);
        self.pulls_found(op, PullQuery { status, limit, ..PullQuery::default() }).await
    }

    pub async fn pull_find(
        &self,
        op: &OpContext,
        named: PullNamed,
    ) -> Result<Option<Pull>, EngineError> {
        let query = match named {
            PullNamed::Url(url) => PullQuery { url: Some(url), ..PullQuery::default() },
            PullNamed::Task(task) => PullQuery { task: Some(task), ..PullQuery::default() },
        };
        Ok(self.pulls_found(op, PullQuery { limit: 1, ..query }).await?.pop())
    }

    pub(crate) async fn pulls_found(
        &self,
        op: &OpContext,
        query: PullQuery,
    ) -> Result<Vec<Pull>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let query = PullQuery { org: Some(op.principal.org.clone()), ..query };
        let found = self.parts.store.pulls(query).await?;
        Ok(found.into_iter().map(|of| of.pull).collect())
    }

    /// The changes of a pull request, with the patch if requested; the fault says why they are not known here.
    pub async fn pull_look(
        &self,
        op: &OpContext,
        pull: &Pull,
        patch: bool,
    ) -> Result<PullLook, PullLookFault> {
        let Some(shop) = &self.parts.workshop else {
            return Err(PullLookFault::Unknown("this server touches no repositories".into()));
        };
        let mut why = "the repository of this pull request is not on this machine".to_owned();
        let repos = match self.pull_repos(op, pull).await {
            Ok(repos) => repos,
            Err(EngineError::Git(words)) => return Err(PullLookFault::Unknown(words)),
            Err(error) => return Err(error.into()),
        };
        for repo in repos {
            let diff = shop.worktrees.branch_diff(&repo, &pull.branch, &pull.base, patch).await;
            match diff {
                Ok(diff) => {
                    let outlook = shop.merges.merge_outlook(&repo, &pull.branch, &pull.base).await;
                    let outlook = outlook.map_err(|fault| fault.to_string());
                    return Ok(PullLook { diff, outlook });
                }
                Err(fault) => why = fault.to_string(),
            }
        }
        Err(PullLookFault::Unknown(why))
    }

    /// The repositories on this machine that may have its branches.
    async fn pull_repos(&self, op: &OpContext, pull: &Pull) -> Result<Vec<PathBuf>, EngineError> {
        if kind_of(&pull.forge).is_none() {
            let is_here = pull.machine.as_ref().is_none_or(|on| *on == self.parts.machine);
            return Ok(is_here.then(|| pull.repo.clone().into()).into_iter().collect());
        }
        let Some(task) = pull.task else { return Ok(Vec::new()) };
        let project = self.task_get(op, task).await?.it.task.project;
        let repos = self.repos_here(&op.principal.org, project).await?;
        Ok(repos.into_iter().map(|repo| repo.path).collect())
    }

    /// Merges a pull request that waits for this command alone. `push` pushes a base that was merged here, as
    /// `board.push_after_merge` does.
    pub async fn pull_accept(
        &self,
        op: &OpContext,
        pull: &Pull,
        wish: MergeWish,
    ) -> Result<(PullEnd, Merged), EngineError> {
        if let Some(task) = pull.task {
            let seen = self.parts.store.task(&op.principal.org, task).await?;
            if pull.waits_for_review(seen.map(|seen| seen.task.phase)) {
                let why = format!("{task} is not closed: its review merges it");
                return Ok((PullEnd::Refused { why }, Merged::default()));
            }
        }
        let push = wish.push || self.parts.board.push_after_merge;
        self.pull_merge_with(op, pull, None, MergeWish { push, ..wish }).await
    }
}
