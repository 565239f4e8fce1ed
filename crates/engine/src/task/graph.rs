//! The open tasks of a project and what they wait for. Reads only.

use std::collections::HashMap;

use callboard_domain::ids::TaskId;
use callboard_domain::task::TaskRow;
use callboard_domain::task::graph::TaskGraph;
use callboard_store::StuckQuery;

use crate::context::{OpContext, Scope};
use crate::task::query::TaskFilter;
use crate::{At, Engine, EngineError};

/// How many open tasks of each status are read, the oldest first.
const READ_MAX: usize = 500;
/// How far from the longest way a picture reaches that cannot show every task.
const WAY_DEPTH: usize = 2;

/// How many tasks of a column are looked at to find the longest way.
const WAY_LOOKED_AT: usize = 1000;

/// The longest chain of open tasks that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongestWay {
    pub tasks: usize,
    /// The title of the last task, for which all others are done.
    pub to: String,
}

/// Which tasks a graph shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphFilter {
    /// Only tasks near this one.
    pub around: Option<TaskId>,
    /// How many edges away a near task may be.
    pub depth: usize,
    /// Only tasks of this epic.
    pub epic: Option<TaskId>,
    pub limit: usize,
}

#[derive(Clone, Debug, Default)]
pub struct GraphSeen {
    /// Every open task that was read.
    pub rows: HashMap<TaskId, TaskRow>,
    /// The graph of the tasks that the filter finds.
    pub whole: TaskGraph,
    /// The part of it that is shown: tasks that wait for each other, at most `limit`.
    pub shown: TaskGraph,
    /// Whether tasks that wait for each other were left out of `shown`.
    pub is_part: bool,
    /// Whether there are more open tasks than those that were read.
    pub is_cut: bool,
}

impl Engine {
    /// The longest way through the open tasks of the caller's project; `None` where none waits for another. Only ids are
    /// read, so that a board can say this beside its cards.
    pub async fn longest_way(&self, op: &OpContext) -> Result<Option<LongestWay>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let Some(project) = self.project_of(&op.principal).await? else { return Ok(None) };
        let query = StuckQuery {
            org: org.clone(),
            project: Some(project.id),
            policy: self.parts.policy.clone(),
            limit: WAY_LOOKED_AT,
        };
        let way = TaskGraph::of_edges(store.deps_open(query).await?).longest_way();
        let Some(last) = way.last() else { return Ok(None) };
        let last = store.task_titles(org, &[*last]).await?.pop();
        Ok(last.map(|last| LongestWay { tasks: way.len(), to: last.title }))
    }

    pub async fn task_graph(
        &self,
        op: &OpContext,
        filter: GraphFilter,
    ) -> Result<At<GraphSeen>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let policy = &self.parts.policy;
        let is_open =
            |name: &String| policy.label(name).is_some_and(|label| !label.phase.is_closed());
        let (mut rows, mut is_cut) = (Vec::new(), false);
        for label in policy.names().into_iter().filter(is_open) {
            let label = Some(label);
            let page = TaskFilter { label, limit: READ_MAX + 1, ..TaskFilter::default() };
            let mut found = self.task_list(op, page).await?.it;
            is_cut |= found.len() > READ_MAX;
            found.truncate(READ_MAX);
            rows.extend(found.into_iter().filter(|row| !row.task.is_plan));
        }
        rows.sort_by_key(|row| row.task.id);
        let now = self.parts.store.now();
        Ok(At { it: GraphSeen::of(rows, filter, is_cut), now })
    }
}

impl GraphSeen {
    fn of(rows: Vec<TaskRow>, filter: GraphFilter, is_cut: bool) -> Self {
        let wanted = |row: &&TaskRow| filter.epic.is_none_or(|epic| row.task.parent == Some(epic));
        let edges = rows.iter().filter(wanted).map(|row| (row.task.id, row.deps.clone()));
        let mut whole = TaskGraph::of(edges);
        if let Some(task) = filter.around {
            whole = whole.part(&whole.around(&[task], filter.depth, usize::MAX));
        }
        let alone: Vec<TaskId> = whole.alone().collect();
        let joined: Vec<TaskId> =
            whole.tasks().iter().copied().filter(|task| !alone.contains(task)).collect();
        let is_part = joined.len() > filter.limit;
        let chosen = match (is_part, filter.around) {
            (false, _) => joined,
            (true, Some(task)) => whole.around(&[task], filter.depth, filter.limit),
            (true, None) => whole.around(&whole.longest_way(), WAY_DEPTH, filter.limit),
        };
        let shown = whole.part(&chosen);
        let rows = rows.into_iter().map(|row| (row.task.id, row)).collect();
        Self { rows, whole, shown, is_part, is_cut }
    }
}
