//! Pull requests for branches of tasks and of epics: opened at the place that `forge.kind` names, one per branch.

use callboard_domain::board::project::ProjectRepo;
use callboard_domain::command::{Command, PullOpen};
use callboard_domain::ids::TaskId;
use callboard_domain::pulls::{LOCAL, Pull};
use callboard_domain::refusal::Refusal;
use callboard_store::PullQuery;

use crate::context::OpContext;
use crate::ports::{Branch, ForgeFault, NewPull, ShareOrder, WorktreeFault};
use crate::pulls::track::{project, word};
use crate::{Engine, EngineError};

pub(crate) const PULLS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullDraft {
    pub task: TaskId,
    /// A branch of a repository of the task's project.
    pub branch: String,
    /// The branch into which it is to be merged.
    pub base: String,
    pub title: String,
    pub body: String,
    /// The branch belongs to one worker: after a rebase it may overwrite the branch at the forge.
    pub may_rewrite: bool,
}

/// Why no pull request is open; nothing was changed. Words are for the caller.
#[derive(Debug, thiserror::Error)]
pub enum PullFault {
    #[error("the project has no git repository on this machine")]
    NoRepo,
    #[error("there is no branch {0}")]
    NoBranch(String),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<Refusal> for PullFault {
    fn from(refusal: Refusal) -> Self {
        Self::Engine(refusal.into())
    }
}

impl Engine {
    /// The open pull request from a branch to its base, opened if there is none. At a forge the branch is pushed first.
    /// A fault that may go away by itself is `EngineError::Unavailable`.
    pub async fn pull_open_for_task(
        &self,
        op: &OpContext,
        draft: PullDraft,
    ) -> Result<Pull, PullFault> {
        op.principal.judge_on(op.tool, draft.task)?;
        let task = self.task_get(op, draft.task).await?.it.task;
        let repos = self.repos_here(&op.principal.org, task.project).await?;
        let branch = self.branch_share(&repos, &draft).await?;
        let mut open = PullOpen {
            task: draft.task,
            forge: LOCAL.into(),
            repo: branch.repo.clone(),
            at: None,
            branch: draft.branch.clone(),
            base: draft.base.clone(),
            head: branch.head.clone(),
            title: draft.title.clone(),
            machine: Some(self.parts.machine.clone()),
        };
        if let Some(kind) = self.parts.runs.forge {
            let project = project(kind, &branch).map_err(PullFault::Refused)?;
            let Some(forge) = &self.parts.forge else {
                return Err(PullFault::Refused("this server is connected to no forge".into()));
            };
            let PullDraft { branch, base, title, body, .. } = draft.clone();
            let new = NewPull { project: project.clone(), branch, base, title, body };
            let opened = match forge.open(kind, &new).await {
                Ok(opened) => opened,
                Err(fault) => return Err(PullFault::Refused(lasting(fault)?)),
            };
            open.forge = word(kind).into();
            open.repo = project;
            open.machine = None;
            open.at = Some((opened.number, opened.url));
        }
        self.act(&op.unkeyed(), Command::PullOpen(open.clone())).await?;
        let of_draft = |pull: &Pull| {
            let at = (&pull.forge, &pull.repo, &pull.branch, &pull.base);
            pull.is_open() && at == (&open.forge, &open.repo, &open.branch, &open.base)
        };
        let found = self.pulls_of_task(op, draft.task).await?.into_iter().find(of_draft);
        // It may have been merged or closed in between.
        found.ok_or_else(|| PullFault::Refused("the pull request is not open any more".into()))
    }

    /// The pull requests of a task, newest first.
    pub async fn pulls_of_task(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Vec<Pull>, EngineError> {
        let query = PullQuery { task: Some(task), limit: PULLS_MAX, ..PullQuery::default() };
        self.pulls_found(op, query).await
    }

    /// The git repositories of a project on this machine, the primary one first. A failure of git is
    /// `EngineError::Git`.
    pub(crate) async fn repos_here(
        &self,
        org: &str,
        project: i64,
    ) -> Result<Vec<ProjectRepo>, EngineError> {
        let mut here = Vec::new();
        for repo in self.parts.store.repos(org, project).await? {
            if self.is_git_here(&repo).await? {
                here.push(repo);
            }
        }
        Ok(here)
    }

    /// Shares the branch of the first repository that has it.
    async fn branch_share(
        &self,
        repos: &[ProjectRepo],
        draft: &PullDraft,
    ) -> Result<Branch, PullFault> {
        let Some(shop) = self.parts.workshop.as_ref().filter(|_| !repos.is_empty()) else {
            return Err(PullFault::NoRepo);
        };
        for repo in repos {
            let order = ShareOrder {
                repo: repo.path.clone(),
                branch: draft.branch.clone(),
                push: self.parts.runs.forge.is_some(),
                base: draft.base.clone(),
                may_rewrite: draft.may_rewrite,
            };
            match shop.worktrees.branch_share(order).await {
                Ok(branch) => return Ok(branch),
                Err(WorktreeFault::NoBranch(name)) if name == draft.branch => {}
                Err(fault @ WorktreeFault::Unreachable(_)) => {
                    return Err(EngineError::Unavailable(fault.to_string()).into());
                }
                Err(fault) => return Err(PullFault::Refused(fault.to_string())),
            }
        }
        Err(PullFault::NoBranch(draft.branch.clone()))
    }
}

/// The words of a fault that a repeat does not solve; a fault that may go away is an error.
pub(crate) fn lasting(fault: ForgeFault) -> Result<String, EngineError> {
    match fault {
        ForgeFault::Unavailable { words, .. } => {
            Err(EngineError::Unavailable(format!("no connection to the forge: {words}")))
        }
        ForgeFault::Unconfigured | ForgeFault::NotFound | ForgeFault::Refused(_) => {
            Ok(fault.to_string())
        }
    }
}
