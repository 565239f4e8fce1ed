//! Verbs on tasks that need nothing from outside.

use callboard_domain::board::card::Card;
use callboard_domain::command::{Command, NEW_TASK, NewCheck, TaskCreate, TaskEdit, TaskUpdate};
use callboard_domain::event::{EventName, LoggedEvent};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::retry::RetryKey;
use callboard_domain::retry::judge_first;
use callboard_domain::task::TaskRecord;
use callboard_domain::task::contract::VerificationContract;
use callboard_store::EventQuery;

use crate::context::OpContext;
use crate::quota::Metric;
use crate::{At, Engine, EngineError};

/// More than the events that removing one task appends.
const REMOVAL_EVENTS_MAX: usize = 1000;

/// A request for a task; the engine adds id and project.
#[derive(Clone, Debug, Default)]
pub struct TaskDraft {
    pub title: String,
    pub body: String,
    pub priority: Option<u16>,
    pub parent: Option<TaskId>,
    /// `repo_7`; its project is the task's. `None`: the project is chosen as for any new task.
    pub repository: Option<String>,
    /// `None`: the project of this caller's new tasks.
    pub project: Option<i64>,
    /// The name of the task in the backlog that it comes from.
    pub reference: Option<String>,
    pub deps: Vec<TaskId>,
    pub checks: Vec<NewCheck>,
    pub verification: Option<VerificationContract>,
    /// Free JSON for the agent that does the work.
    pub execution_contract: Option<String>,
    pub card: Card,
    /// `None`: the initial one.
    pub phase: Option<Phase>,
    /// The task exists to have children.
    pub is_plan: bool,
    /// Notes that the task starts with, the oldest first.
    pub notes: Vec<String>,
}

impl Engine {
    /// Creates a task. Under a repeated retry key the first task is found again.
    pub async fn task_create(
        &self,
        op: &OpContext,
        draft: TaskDraft,
    ) -> Result<At<TaskRecord>, EngineError> {
        let create = self.task_to_create(op, draft).await?;
        self.act_on_task(op, Command::TaskCreate(create)).await
    }

    /// Creates all of these tasks in one transaction, or none.
    pub async fn task_create_all(
        &self,
        op: &OpContext,
        drafts: Vec<TaskDraft>,
    ) -> Result<Vec<TaskRecord>, EngineError> {
        let mut all = Vec::with_capacity(drafts.len());
        for draft in drafts {
            all.push(self.task_to_create(op, draft).await?);
        }
        let ids: Vec<TaskId> = all.iter().map(|create| create.task).collect();
        let applied = self.act(op, Command::TaskCreateAll(all)).await?;
        // The first call made tasks under other ids, and its answer was not kept.
        judge_first(applied.replayed, op.tool)?;
        let mut made = Vec::with_capacity(ids.len());
        for id in ids {
            made.push(self.task_get(op, id).await?.it);
        }
        Ok(made)
    }

    /// The command for a draft: with an id, and the project that the caller's new tasks go to.
    pub(crate) async fn task_to_create(
        &self,
        op: &OpContext,
        draft: TaskDraft,
    ) -> Result<TaskCreate, EngineError> {
        op.principal.judge_outside(op.tool, NEW_TASK)?;
        let named = draft.repository.as_deref();
        let project = match named {
            Some(named) => self.project_of_repository(op, named).await?,
            None => self.project_of_new(op, draft.project, draft.parent).await?,
        };
        Ok(TaskCreate {
            task: TaskId { id: self.parts.ids.next_id(), prefix: project.prefix },
            project: project.id,
            reference: draft.reference,
            title: draft.title,
            body: draft.body,
            priority: draft.priority.unwrap_or(callboard_domain::task::PRIORITY_DEFAULT),
            parent: draft.parent,
            deps: draft.deps,
            checks: draft.checks,
            verification: draft.verification,
            execution_contract: draft.execution_contract,
            over_quota: None,
            card: Box::new(draft.card),
            phase: draft.phase.unwrap_or(Phase::Initial),
            is_plan: draft.is_plan,
            notes: draft.notes,
        })
    }

    /// As `task_create`, for callers that repeat a call and want to know whether they did: `token` finds the task that
    /// the first call made, and the flag then says that nothing was created.
    pub async fn task_add(
        &self,
        op: &OpContext,
        draft: TaskDraft,
        token: Option<RetryKey>,
    ) -> Result<(At<TaskRecord>, bool), EngineError> {
        let mut op = op.clone();
        let has_token = token.is_some();
        op.retry_key = token.or(op.retry_key);
        let org = op.principal.org.clone();
        let over_quota = self.over_quota(&org, Metric::TasksCreated, 1).await?;
        let create = TaskCreate { over_quota, ..self.task_to_create(&op, draft).await? };
        let applied = self.act(&op, Command::TaskCreate(create)).await?;
        let created = applied.changed && !(applied.replayed && has_token);
        if !applied.replayed {
            self.quota_count(&org, Metric::TasksCreated, 1).await;
        }
        Ok((self.task_of(&op, applied)?, created))
    }

    /// Adds or removes a dep; the flag says whether that changed anything.
    pub async fn dependency_set(
        &self,
        op: &OpContext,
        task: TaskId,
        dep: TaskId,
        remove: bool,
    ) -> Result<(At<TaskRecord>, bool), EngineError> {
        let command = match remove {
            true => Command::DependencyRemove { task, dep },
            false => Command::DependencyAdd { task, dep },
        };
        let applied = self.act(op, command).await?;
        let changed = applied.changed;
        let seen = self.task_of(op, applied)?;
        Ok((self.as_files_are(op, seen).await?, changed))
    }

    pub async fn task_edit(
        &self,
        op: &OpContext,
        edit: TaskEdit,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskEdit(edit)).await
    }

    /// Edits a task as its author, who is the actor of the first event in its log.
    pub async fn task_update(
        &self,
        op: &OpContext,
        mut update: TaskUpdate,
    ) -> Result<At<TaskRecord>, EngineError> {
        let first = self.event_list(op, 0, Some(update.task), 1).await?;
        // The beginning of a reopened task's log may have been removed. Then no one counts as its author.
        let made = first.into_iter().find(|event| event.name == EventName::TaskCreated);
        update.author = made.map(|event| event.actor);
        self.act_on_task(op, Command::TaskUpdate(update)).await
    }

    /// Removes a task and returns the tasks that waited for it alone.
    pub async fn task_remove(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Vec<TaskId>, EngineError> {
        let applied = self.act(op, Command::TaskRemove { task }).await?;
        let Some(last) = applied.last_seq else { return Ok(Vec::new()) };
        let query = EventQuery {
            org: Some(op.principal.org.clone()),
            after: last.saturating_sub(REMOVAL_EVENTS_MAX as u64),
            task: None,
            limit: REMOVAL_EVENTS_MAX,
        };
        let is_freed = |event: &LoggedEvent| {
            event.name == EventName::TaskReady
                && event.read().unblocked_by() == Some(&task.to_string())
        };
        let events = self.parts.store.events(query).await?;
        Ok(events.iter().filter(|event| is_freed(event)).filter_map(LoggedEvent::task).collect())
    }

    pub async fn task_claim(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskClaim { task }).await
    }

    /// Claims a task only if work can start on it: it is open and waits for nothing.
    pub async fn task_claim_startable(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskClaimStartable { task }).await
    }

    pub async fn task_release(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskRelease { task }).await
    }

    /// Releases a task. A person may release a task that another actor holds; other actors only their own.
    pub async fn task_take_back(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        let released = self.act_on_task(op, Command::TaskTakeBack { task }).await?;
        self.runs_nudge();
        Ok(released)
    }

    pub async fn task_note(
        &self,
        op: &OpContext,
        task: TaskId,
        text: String,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskNote { task, text }).await
    }

    /// Records why a task is stuck. The task is offered again when it gets an answer.
    pub async fn task_block(
        &self,
        op: &OpContext,
        task: TaskId,
        reason: String,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskBlock { task, reason }).await
    }

    pub async fn task_unblock(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskUnblock { task }).await
    }

    pub async fn dependency_add(
        &self,
        op: &OpContext,
        task: TaskId,
        dep: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::DependencyAdd { task, dep }).await
    }

    pub async fn dependency_remove(
        &self,
        op: &OpContext,
        task: TaskId,
        dep: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::DependencyRemove { task, dep }).await
    }
}
