//! Verbs on attempts. Git facts that the caller omits are read from its worktree.

use std::path::PathBuf;

use callboard_domain::command::{AttemptBegin, Command};
use callboard_domain::decide::{BeginGround, begin_gate, judge_actor, judge_session_key};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::refusal::Refusal;
use callboard_domain::task::attempt::{Attempt, AttemptKind};

use crate::context::OpContext;
use crate::ports::{Head, Worktree, WorktreeFault};
use crate::task::place::WorkspaceFault;
use crate::task::query::AttemptFilter;
use crate::{At, Engine, EngineError};

/// How many sessions of one actor on one task are searched for a key.
const KEYS_MAX: usize = 1_000;

/// A request to begin a session, as the graph toolset reads it.
#[derive(Clone, Debug)]
pub struct AttemptDraft {
    pub task: TaskId,
    pub key: String,
    pub expected_actor: String,
    pub client: Option<String>,
    pub model: Option<String>,
    /// A folder, or `new` for a worktree of the task's own.
    pub worktree: Option<String>,
    pub branch: Option<String>,
    pub head: Option<String>,
    pub takeover: bool,
}

/// The value of `worktree` that asks for a new one instead of naming a folder.
pub const NEW_WORKTREE: &str = "new";

impl Engine {
    /// Begins a session. With `worktree: new` the folder is made before the transaction, because git takes seconds; a
    /// refusal afterwards leaves the folder for the next try.
    pub async fn attempt_begin(
        &self,
        op: &OpContext,
        mut draft: AttemptDraft,
    ) -> Result<At<Attempt>, EngineError> {
        op.principal.judge_on(op.tool, draft.task)?;
        judge_session_key(&draft.key)?;
        if draft.worktree.as_deref() == Some(NEW_WORKTREE) {
            let place = self.worktree_for(op, &draft).await?;
            draft.branch = draft.branch.or(place.as_ref().map(|place| place.branch.clone()));
            draft.worktree = place.map(|place| place.path.to_string_lossy().into_owned());
        }
        // Git is asked only for what the caller left out.
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

    /// The task's own worktree, made unless it exists. `None` for a session that was begun with this key already: it
    /// stays where it is.
    async fn worktree_for(
        &self,
        op: &OpContext,
        draft: &AttemptDraft,
    ) -> Result<Option<Worktree>, EngineError> {
        op.principal.judge_one_client(op.tool)?;
        let (actor, org) = (&op.principal.actor, &op.principal.org);
        judge_actor(&draft.expected_actor, actor)?;
        let (task, key) = (Some(draft.task), Some(&draft.key));
        let own = Some(actor.to_string());
        let filter = AttemptFilter { task, actor: own, limit: KEYS_MAX, ..Default::default() };
        let begun = self.attempt_list(op, filter).await?.it;
        if begun.iter().any(|attempt| attempt.key.as_ref() == key) {
            return Ok(None);
        }
        let At { it: seen, now } = self.card_get(op, draft.task).await?;
        let live = seen.record.newest.as_ref().filter(|attempt| attempt.is_live(now));
        let ground = BeginGround { task: &seen.record.task, deps: &seen.record.deps, live };
        // Judged before anything is made; the transaction judges again.
        begin_gate(&self.parts.policy, &ground, actor, draft.takeover, now)?;
        match self.workspace_make(org, &seen.record.task, &seen.card).await {
            Ok(parts) => {
                self.workspace_ready_for(op, &seen.record.task, &parts).await?;
                Ok(parts.into_iter().find_map(|part| part.worktree))
            }
            Err(WorkspaceFault::Worktree(fault @ WorktreeFault::NoRepo)) => {
                Err(Refusal::invalid(format!("the worktree cannot be created: {fault}")).into())
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Shows that the session is alive, perhaps with news. An attempt without a lease only becomes stalled by silence;
    /// it does not end.
    pub async fn attempt_heartbeat(
        &self,
        op: &OpContext,
        attempt: AttemptId,
        progress: Option<String>,
    ) -> Result<At<Attempt>, EngineError> {
        self.act_on_attempt(op, Command::AttemptHeartbeat { attempt, progress }).await
    }

    /// Ends a session with a summary. The commit it ended at and, where finishing requires checks, the state of the
    /// files are read before the transaction.
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
            op.principal.judge_on(op.tool, known.task)?;
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

    /// Gives a session up with a reason. The task is free afterwards if the caller held it.
    pub async fn attempt_cancel(
        &self,
        op: &OpContext,
        attempt: AttemptId,
        reason: String,
    ) -> Result<At<Attempt>, EngineError> {
        self.act_on_attempt(op, Command::AttemptCancel { attempt, reason }).await
    }

    /// Branch and head of the folder a session works in; empty if the files are not on this machine or git fails.
    async fn head_at(
        &self,
        op: &OpContext,
        task: TaskId,
        worktree: Option<&str>,
    ) -> Result<Head, EngineError> {
        let Some(checks) = &self.parts.checks else { return Ok(Head::default()) };
        match self.repo_of(op, task).await? {
            Some(repo) => match checks.root(&repo, worktree).await {
                Ok(root) => Ok(checks.head(&repo, &root).await),
                Err(fault) => {
                    tracing::warn!(%fault, %task, "cannot find the commit that a session starts from");
                    Ok(Head::default())
                }
            },
            None => Ok(Head::default()),
        }
    }

    /// The repository of a task on this machine; `None` too when there is no such task.
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
