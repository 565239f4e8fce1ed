//! A list of tasks: what a caller asks for, and how a page is put in order.

use std::sync::Arc;

use callboard_domain::ids::{Id, TaskId};
use callboard_domain::policy::Policy;
use callboard_domain::task::TaskRow;
use callboard_domain::task::attempt::ExecutionState;
use callboard_domain::time::Timestamp;

use crate::skip::each_once;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskQuery {
    pub project: i64,
    pub label: Option<String>,
    /// `Some(None)`: tasks without an assignee.
    pub assignee: Option<Option<String>>,
    pub ready: Option<bool>,
    /// Only tasks that wait for an answer.
    pub blocked: bool,
    /// Only tasks that are part of this task.
    pub parent: Option<TaskId>,
    pub scope: TaskScope,
    pub execution: Option<ExecutionState>,
    pub policy: Arc<Policy>,
    /// The last id of the page before.
    pub after: Option<Id>,
    pub newest_first: bool,
    pub as_work: Option<AsWork>,
    pub limit: usize,
}

/// The tasks that a list is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskScope {
    #[default]
    Every,
    /// Tasks that are not closed.
    Open,
    /// Open tasks with an assignee, or with an attempt that is live as written.
    Held,
    /// Open tasks with an attempt that is live as written.
    Live,
}

/// The actors to whom tasks of a project are assigned, each once. Values: the project.
pub(crate) fn assignees_sql(sign: char) -> String {
    let index = if sign == '?' { "INDEXED BY tasks_by_assignee" } else { "" };
    let rows = format!("FROM tasks t {index} WHERE t.project = {sign}1 AND t.removed_at IS NULL");
    each_once("t.assignee", &rows)
}

/// A list to choose work from: without plans, by priority and then by age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsWork {
    /// The priority of the last task of the page before.
    pub after_priority: Option<u16>,
}

impl TaskQuery {
    pub fn of(project: i64, policy: Arc<Policy>) -> Self {
        Self {
            project,
            label: None,
            assignee: None,
            ready: None,
            blocked: false,
            parent: None,
            scope: TaskScope::Every,
            execution: None,
            policy,
            after: None,
            newest_first: false,
            as_work: None,
            limit: 50,
        }
    }

    /// Whether the query asks only for tasks at the start that are ready.
    pub(crate) fn is_for_startable(&self) -> bool {
        self.label.as_ref() == Some(&self.policy.initial().name) && self.ready == Some(true)
    }

    /// Whether the query asks only for unassigned tasks, as work to choose from.
    pub(crate) fn is_for_free(&self) -> bool {
        self.is_for_startable() && self.as_work.is_some() && self.assignee == Some(None)
    }

    /// Whether the query asks only for tasks whose newest attempt is live: it begins at the live attempts.
    pub(crate) fn is_for_live(&self) -> bool {
        matches!(self.execution, Some(ExecutionState::Active | ExecutionState::Stalled))
    }

    /// Whether the query asks only for tasks in the phase of review.
    pub(crate) fn awaits_review(&self) -> bool {
        self.execution == Some(ExecutionState::AwaitingReview) && self.policy.review().is_some()
    }

    /// The order of a page, in SQL.
    pub(crate) fn order(&self) -> &'static str {
        match (self.as_work, self.newest_first) {
            (Some(_), _) => "t.priority, t.id",
            (None, false) => "t.id",
            (None, true) => "t.id DESC",
        }
    }

    /// One page of the found tasks, in the query's order, each as it stands at `now`.
    pub(crate) fn page(&self, mut found: Vec<TaskRow>, now: Timestamp) -> Vec<TaskRow> {
        found.sort_by_key(|row| row.task.id.id);
        // A task with an assignee and a live attempt is found twice.
        found.dedup_by_key(|row| row.task.id.id);
        match self.as_work {
            // The sort is stable, so age decides among equals.
            Some(_) => found.sort_by_key(|row| row.task.priority),
            None if self.newest_first => found.reverse(),
            None => {}
        }
        found.truncate(self.limit);
        found.into_iter().map(|row| row.as_of(&self.policy, now)).collect()
    }
}
