//! Who holds which task, and the tasks of an epic. Reads only.

use std::collections::HashMap;

use callboard_domain::actor::Actor;
use callboard_domain::ids::TaskId;
use callboard_domain::task::TaskRow;
use callboard_domain::time::Timestamp;
use callboard_store::{CardRow, EpicQuery, TaskScope};

use crate::context::{OpContext, Scope};
use crate::task::query::TaskFilter;
use crate::{At, Engine, EngineError};

const PAGE: usize = 500;
/// How many tasks of one actor, or with a live attempt, are looked at.
const HELD_MAX: usize = 10_000;

/// An open task with its holder.
#[derive(Clone, Debug)]
pub struct Holder {
    pub actor: Actor,
    pub row: TaskRow,
}

impl Holder {
    /// The assignee, else the actor of the live attempt.
    fn of(row: TaskRow, now: Timestamp) -> Option<Self> {
        let live = row.newest.as_ref().filter(|newest| newest.is_live(now));
        let actor = row.task.assignee.as_ref().or(live.map(|live| &live.actor))?.clone();
        Some(Self { actor, row })
    }
}

/// The first holders of open tasks.
#[derive(Clone, Debug)]
pub struct Holders {
    pub first: Vec<Holder>,
    /// Whether there are more.
    pub is_cut: bool,
}

impl Engine {
    /// The first actors that hold an open task: its assignee, else the actor of its live attempt. In the order of the
    /// tasks.
    pub async fn holders(&self, op: &OpContext, most: usize) -> Result<At<Holders>, EngineError> {
        let (mut holders, mut after) = (Vec::new(), None);
        loop {
            // One more shows that the list is cut.
            let limit = most.saturating_sub(holders.len()).saturating_add(1).min(PAGE);
            let filter =
                TaskFilter { scope: TaskScope::Held, after, limit, ..TaskFilter::default() };
            let page = self.task_list(op, filter).await?;
            let now = page.now;
            after = page.it.last().map(|row| row.task.id.id);
            let is_last = page.it.len() < limit;
            holders.extend(page.it.into_iter().filter_map(|row| Holder::of(row, now)));
            let is_cut = holders.len() > most;
            if is_last || is_cut {
                holders.truncate(most);
                return Ok(At { it: Holders { first: holders, is_cut }, now });
            }
        }
    }

    /// As `holders`, without the known actors: their tasks, which may be most of the tasks, are not read.
    pub async fn holders_besides(
        &self,
        op: &OpContext,
        is_known: impl Fn(&Actor) -> bool,
        most: usize,
    ) -> Result<Holders, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let assignees = match self.project_of(&op.principal).await? {
            Some(project) => self.parts.store.assignees(project.id).await?,
            None => Vec::new(),
        };
        // One more shows that the list is cut.
        let limit = most.min(HELD_MAX) + 1;
        let of = |assignee: &Actor| TaskFilter {
            assignee: Some(Some(assignee.to_string())),
            scope: TaskScope::Open,
            limit,
            ..TaskFilter::default()
        };
        let mut filters: Vec<TaskFilter> =
            assignees.iter().filter(|assignee| !is_known(assignee)).map(of).collect();
        // Live attempts are as many as agents.
        let scope = TaskScope::Live;
        filters.push(TaskFilter { scope, limit: HELD_MAX, ..TaskFilter::default() });
        let mut first = Vec::new();
        for filter in filters {
            let page = self.task_list(op, filter).await?;
            let now = page.now;
            first.extend(page.it.into_iter().filter_map(|row| Holder::of(row, now)));
        }
        first.retain(|holder: &Holder| !is_known(&holder.actor));
        first.sort_by_key(|holder| holder.row.task.id.id);
        // A task with an assignee and a live attempt is found twice.
        first.dedup_by_key(|holder| holder.row.task.id.id);
        let is_cut = first.len() > most;
        first.truncate(most);
        Ok(Holders { first, is_cut })
    }

    /// The titles of these tasks by their ids. Unknown and removed tasks are missing.
    pub async fn task_titles(
        &self,
        op: &OpContext,
        tasks: &[TaskId],
    ) -> Result<HashMap<TaskId, String>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let found = self.parts.store.task_titles(&op.principal.org, tasks).await?;
        Ok(found.into_iter().map(|task| (task.id, task.title)).collect())
    }

    /// The children of a task, oldest first.
    pub async fn task_children(
        &self,
        op: &OpContext,
        task: TaskId,
        limit: usize,
    ) -> Result<Vec<CardRow>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let org = op.principal.org.clone();
        let query = EpicQuery { org, epic: task, phases: Vec::new(), after: None, limit };
        let rows = self.parts.store.epic_tasks(query).await?;
        let now = self.parts.store.now();
        Ok(rows.into_iter().map(|row| row.as_of(&self.parts.policy, now)).collect())
    }
}
