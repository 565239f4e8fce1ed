//! Who holds which task, and the tasks of an epic. Reads only.

use callboard_domain::actor::Actor;
use callboard_domain::ids::TaskId;
use callboard_domain::task::TaskRow;
use callboard_store::{CardRow, EpicQuery, TaskScope};

use crate::context::{OpContext, Scope};
use crate::task::query::TaskFilter;
use crate::{At, Engine, EngineError};

const PAGE: usize = 500;

/// An open task with its holder.
#[derive(Clone, Debug)]
pub struct Holder {
    pub actor: Actor,
    pub row: TaskRow,
}

impl Engine {
    /// Every actor that holds an open task: its assignee, else the actor of its live attempt. In the order of the
    /// tasks.
    pub async fn holders(&self, op: &OpContext) -> Result<At<Vec<Holder>>, EngineError> {
        let (mut holders, mut after) = (Vec::new(), None);
        loop {
            let filter =
                TaskFilter { scope: TaskScope::Held, after, limit: PAGE, ..TaskFilter::default() };
            let page = self.task_list(op, filter).await?;
            let now = page.now;
            after = page.it.last().map(|row| row.task.id.id);
            let is_last = page.it.len() < PAGE;
            holders.extend(page.it.into_iter().filter_map(|row| {
                let live = row.newest.as_ref().filter(|newest| newest.is_live(now));
                let holder = row.task.assignee.as_ref().or(live.map(|live| &live.actor));
                let actor = holder?.clone();
                Some(Holder { actor, row })
            }));
            if is_last {
                return Ok(At { it: holders, now });
            }
        }
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
