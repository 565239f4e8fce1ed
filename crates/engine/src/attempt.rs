//! Verbs on attempts. Git facts that the caller left out are filled in from its worktree.

use std::path::PathBuf;

use callboard_domain::attempt::{Attempt, AttemptKind};
use callboard_domain::command::{AttemptBegin, Command};
use callboard_domain::decide::judge_session_key;
use callboard_domain::ids::{AttemptId, TaskId};

use crate::context::OpContext;
use crate::ports::Head;
use crate::{At, Engine, EngineError};

#[derive(Clone, Debug)]
pub struct AttemptDraft {
    pub task: TaskId,
    pub key: String,
    pub expected_actor: String,
    pub client: Option<String>,
    pub model: Option<String>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    pub head: Option<String>,
    pub takeover: bool,
}

impl Engine {
    pub async fn attempt_begin(
        &self,
        op: &OpContext,
        draft: AttemptDraft,
    ) -> Result<At<Attempt>, EngineError> {
        judge_session_key(&draft.key)?;
        let git = match (&draft.branch, &draft.head) {
            (Some(_), Some(_)) => Head::default(),
            _ => self.head_at(op, draft.task, draft.worktree.as_deref()).await?,
        };
        let begin = AttemptBegin {
            attempt: AttemptId(self.parts.ids.next_id()),
            task: draft.task,
            kind: AttemptKind::Graph,
            key: Some(draft.key),
            expected_actor: Some(draft.expected_actor),
            client: draft.client,
            bound_client: op.principal.bound_client.clone(),
            model: draft.model,
            worktree: draft.worktree,
            branch: draft.branch.or(git.branch),
            head: draft.head.or(git.head),
            lease_s: None,
            takeover: draft.takeover,
        };
        self.act_on_attempt(op, Command::AttemptBegin(begin)).await
    }

    pub async fn attempt_heartbeat(
        &self,
        op: &OpContext,
        attempt: AttemptId,
        progress: Option<String>,
    ) -> Result<At<Attempt>, EngineError> {
        self.act_on_attempt(op, Command::AttemptHeartbeat { attempt, progress }).await
    }

    pub async fn attempt_finish(
        &self,
        op: &OpContext,
        attempt: AttemptId,
        summary: String,
        head: Option<String>,
    ) -> Result<At<Attempt>, EngineError> {
        let known = self.parts.store.attempt(&op.principal.org, attempt).await?;
        let (mut git_head, mut tree) = (None, None);
        if let Some(known) = &known {
            if head.is_none() {
                git_head = self.head_at(op, known.task, known.worktree.as_deref()).await?.head;
            }
            if self.parts.policy.finish_requires_checks {
                tree = self.tree_of(op, known.task, known.worktree.as_deref()).await?;
            }
        }
        let head = head.or(git_head);
        self.act_on_attempt(op, Command::AttemptFinish { attempt, summary, head, tree }).await
    }

    pub async fn attempt_cancel(
        &self,
        op: &OpContext,
        attempt: AttemptId,
        reason: String,
    ) -> Result<At<Attempt>, EngineError> {
        self.act_on_attempt(op, Command::AttemptCancel { attempt, reason }).await
    }

    /// Branch and head where a session works; nothing where its files are not on this machine, and
    /// where git cannot say.
    async fn head_at(
        &self,
        op: &OpContext,
        task: TaskId,
        worktree: Option<&str>,
    ) -> Result<Head, EngineError> {
        let Some(checks) = &self.parts.checks else { return Ok(Head::default()) };
        match self.repo_of(op, task).await? {
            Some(repo) => match checks.root(&repo, worktree).await {
                Ok(root) => Ok(checks.head(&root).await),
                Err(fault) => {
                    tracing::warn!(%fault, %task, "git cannot say where a session works");
                    Ok(Head::default())
                }
            },
            None => Ok(Head::default()),
        }
    }

    /// Where a task's files are on this machine; `None` too when there is no such task.
    pub(crate) async fn repo_of(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Option<PathBuf>, EngineError> {
        let Some(record) = self.parts.store.task(&op.principal.org, task).await? else {
            return Ok(None);
        };
        let project = record.task.project;
        Ok(self.parts.store.repo_path(project, &self.parts.machine).await?)
    }
}
