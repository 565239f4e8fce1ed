//! Read models: one task, pages of tasks, attempts and events. Reads never write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use callboard_domain::event::LoggedEvent;
use callboard_domain::ids::{AttemptId, Id, IdKind, TaskId, TaskName};
use callboard_domain::refusal::found::{OrNotFound as _, events_removed};
use callboard_domain::retention::LogFloor;
use callboard_domain::task::attempt::{Attempt, ExecutionState, Health};
use callboard_domain::task::{Task, TaskRecord, TaskRow};
use callboard_domain::time::Timestamp;
pub use callboard_store::{AsWork, TaskScope};
use callboard_store::{AttemptQuery, BackQuery, EventQuery, FreeQuery, Project, TaskQuery};

use crate::context::{OpContext, Principal, Scope};
use crate::{At, Engine, EngineError};

/// The conditions of a list of tasks in the caller's project.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    pub label: Option<String>,
    /// `Some(None)`: unassigned.
    pub assignee: Option<Option<String>>,
    pub ready: Option<bool>,
    /// Only tasks that wait for an answer.
    pub blocked: bool,
    /// Only tasks that are part of this task.
    pub parent: Option<TaskId>,
    pub scope: TaskScope,
    pub execution: Option<ExecutionState>,
    pub after: Option<Id>,
    pub newest_first: bool,
    /// The tasks as work to choose from: without plans, the most urgent first. Holds the priority of the task that
    /// `after` names.
    pub as_work: Option<AsWork>,
    pub limit: usize,
}

/// The conditions of a list of attempts in the caller's org, newest first.
#[derive(Clone, Debug, Default)]
pub struct AttemptFilter {
    pub task: Option<TaskId>,
    pub actor: Option<String>,
    pub health: Vec<Health>,
    pub after: Option<(Timestamp, Id)>,
    pub limit: usize,
}

/// The newest events of orgs. The log has no index by org: without this memory, each page of a quiet org would read
/// the events of all others back to its own newest one.
#[derive(Default)]
pub(crate) struct NewestEvents(Mutex<HashMap<Arc<str>, NewestEvent>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NewestEvent {
    seq: u64,
    /// The end of the log when the org's events were looked for.
    looked_to: u64,
}

impl NewestEvents {
    fn of(&self, org: &str) -> Option<NewestEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(org).copied()
    }

    fn keep(&self, org: &Arc<str>, newest: NewestEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(org.clone(), newest);
    }
}

impl Engine {
    /// One task as it stands now: a lease that is over shows as ended before the clock has written that.
    pub async fn task_get(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let found = self.parts.store.task(&op.principal.org, task).await?;
        let it = found.or_not_found(&task)?;
        let now = self.parts.store.now();
        Ok(At { it: it.as_of(&self.parts.policy, now), now })
    }

    /// A page of tasks of the caller's project; empty while the org has no project.
    pub async fn task_list(
        &self,
        op: &OpContext,
        filter: TaskFilter,
    ) -> Result<At<Vec<TaskRow>>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let policy = self.parts.policy.clone();
        let Some(project) = self.project_of(&op.principal).await? else {
            return Ok(At { it: Vec::new(), now: self.parts.store.now() });
        };
        let query = TaskQuery {
            project: project.id,
            label: filter.label,
            assignee: filter.assignee,
            ready: filter.ready,
            blocked: filter.blocked,
            parent: filter.parent,
            scope: filter.scope,
            execution: filter.execution,
            policy,
            after: filter.after,
            newest_first: filter.newest_first,
            as_work: filter.as_work,
            limit: filter.limit,
        };
        let it = self.parts.store.tasks(query).await?;
        Ok(At { it, now: self.parts.store.now() })
    }

    /// Tasks that wait for this one, the oldest first.
    pub async fn task_waiters(
        &self,
        op: &OpContext,
        task: TaskId,
        limit: usize,
    ) -> Result<Vec<Task>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, policy) = (&self.parts.store, &self.parts.policy);
        let rows = store.tasks_waiting_for(&op.principal.org, task, policy, limit).await?;
        Ok(rows.into_iter().map(|row| row.task).collect())
    }

    /// The project of this caller's tasks: the one it has open, else the one of this process, else the oldest of its
    /// org; `None` while the org has none.
    pub async fn project_of(&self, principal: &Principal) -> Result<Option<Project>, EngineError> {
        let Principal { org, actor, .. } = principal;
        if let Some(open) = self.parts.store.project_opened(org, actor).await? {
            return Ok(Some(open));
        }
        let home = &self.parts.home;
        if principal.org == home.org {
            return Ok(Some(home.project.clone()));
        }
        Ok(self.parts.store.project_of_org(&principal.org).await?)
    }

    /// The tasks to take next, best first.
    pub async fn task_next(
        &self,
        op: &OpContext,
        limit: usize,
    ) -> Result<At<Vec<TaskRow>>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let it = match self.project_of(&op.principal).await? {
            Some(project) => {
                let query = FreeQuery {
                    org: op.principal.org.clone(),
                    project: Some(project.id),
                    below: None,
                    priority_max: None,
                    limit,
                };
                self.parts.store.tasks_free(query).await?
            }
            None => Vec::new(),
        };
        let now = self.parts.store.now();
        let it = it.into_iter().map(|row| row.as_of(&self.parts.policy, now)).collect();
        Ok(At { it, now })
    }

    /// Task ids that begin with the typed text, else ids that end with it.
    pub async fn task_ids(
        &self,
        op: &OpContext,
        typed: &str,
        limit: usize,
    ) -> Result<Vec<TaskId>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let clean = typed.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !clean || typed.len() > 60 {
            return Ok(Vec::new());
        }
        Ok(self.parts.store.task_ids(&op.principal.org, typed, limit).await?)
    }

    /// Ids of a kind that begin with the typed text, else ids that end with it; newest first.
    pub async fn ids_typed(
        &self,
        op: &OpContext,
        kind: IdKind,
        typed: &str,
        limit: usize,
    ) -> Result<Vec<Id>, EngineError> {
        const SEARCHED_MAX: usize = 10_000;
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let typed = typed.to_ascii_lowercase();
        let (store, org) = (&self.parts.store, &op.principal.org);
        if let Some(range) = Id::range(&typed) {
            let found = store.ids(org, kind, range, limit).await?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let recent = store.ids(org, kind, (Id(0), Id(u128::MAX)), SEARCHED_MAX).await?;
        let ends_so = |id: &Id| id.to_string().ends_with(&typed);
        Ok(recent.into_iter().filter(ends_so).take(limit).collect())
    }

    /// The task with a short name, if the org has one. Judges no scope: the verb that gets the id does.
    pub async fn task_named(
        &self,
        op: &OpContext,
        name: TaskName,
    ) -> Result<Option<TaskId>, EngineError> {
        let found = self.parts.store.task_ids(&op.principal.org, &name.to_string(), 1).await?;
        Ok(found.first().copied())
    }

    /// One attempt as it stands now.
    pub async fn attempt_get(
        &self,
        op: &OpContext,
        attempt: AttemptId,
    ) -> Result<At<Attempt>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let found = self.parts.store.attempt(&op.principal.org, attempt).await?;
        let it = found.or_not_found(&attempt)?;
        let now = self.parts.store.now();
        Ok(At { it: it.as_of(now), now })
    }

    /// A page of attempts, each as it stands now.
    pub async fn attempt_list(
        &self,
        op: &OpContext,
        filter: AttemptFilter,
    ) -> Result<At<Vec<Attempt>>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let query = AttemptQuery {
            org: op.principal.org.clone(),
            task: filter.task,
            actor: filter.actor,
            health: filter.health,
            policy: self.parts.policy.clone(),
            after: filter.after,
            limit: filter.limit,
        };
        let found = self.parts.store.attempts(query).await?;
        let now = self.parts.store.now();
        Ok(At { it: found.into_iter().map(|attempt| attempt.as_of(now)).collect(), now })
    }

    /// Events of the caller's org after a number, in the order of the log.
    pub async fn event_list(
        &self,
        op: &OpContext,
        after: u64,
        task: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<LoggedEvent>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let org = Some(op.principal.org.clone());
        Ok(self.parts.store.events(EventQuery { org, after, task, limit }).await?)
    }

    /// The number of an org's newest event. Its readers must not learn the numbers of other orgs.
    pub async fn last_seq_in(&self, org: &Arc<str>) -> Result<u64, EngineError> {
        let store = &self.parts.store;
        // The end of the log comes first: an event that is committed meanwhile is found by the next look.
        let end = store.last_seq().await?;
        let known = self.newest_events.of(org).filter(|known| known.looked_to <= end);
        let NewestEvent { seq, looked_to } = known.unwrap_or_default();
        if known.is_some() && looked_to == end {
            return Ok(seq);
        }
        let query = BackQuery { after: looked_to, ..BackQuery::of(org.clone(), 1) };
        let newest = store.events_back(query).await?;
        let seq = newest.first().map_or(seq, |event| event.seq);
        self.newest_events.keep(org, NewestEvent { seq, looked_to: end });
        Ok(seq)
    }

    /// Where the log begins to be whole.
    pub async fn log_floor(&self) -> Result<LogFloor, EngineError> {
        Ok(self.parts.store.log_floor().await?)
    }

    /// Refuses a place in the log after which events of the caller's org may have been removed. The refusal names the
    /// place from which on none is missing.
    pub(crate) async fn event_gap(&self, op: &OpContext, after: u64) -> Result<(), EngineError> {
        let floor = self.log_floor().await?;
        let last = self.last_seq_in(&op.principal.org).await?;
        if !floor.hides(after, last) {
            return Ok(());
        }
        // The numbers of other orgs stay unknown: the place is that of the org's own events.
        let first = self.event_list(op, floor.seq - 1, None, 1).await?;
        let whole = first.first().map_or(last, |event| event.seq - 1);
        Err(events_removed(after, whole).into())
    }

    pub async fn last_seq(&self) -> Result<u64, EngineError> {
        Ok(self.parts.store.last_seq().await?)
    }
}
