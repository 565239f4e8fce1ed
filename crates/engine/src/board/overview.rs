//! What a person wants to know first when coming back to a board. Reads only.

use callboard_domain::actor::Actor;
use callboard_domain::ids::TaskId;
use callboard_domain::runs::job::JobState;
use callboard_domain::runs::run::RunRecord;
use callboard_domain::task::TaskRow;
use callboard_store::{CardRow, EpicQuery};

use crate::context::{OpContext, Scope};
use crate::task::query::TaskFilter;
use crate::{At, Engine, EngineError};

/// Failures older than this are left out.
const NEWS_MS: i64 = 24 * 3600 * 1000;
/// How many of the newest jobs and of the oldest open tasks are looked at.
const LOOKED_AT: usize = 200;
const PAGE: usize = 500;

/// An open task with its holder.
#[derive(Clone, Debug)]
pub struct Holder {
    pub actor: Actor,
    pub row: TaskRow,
}

impl Engine {
    /// Jobs that failed within a day and were not retried since: patches, and agents on tasks that are back at the
    /// start. Newest first.
    pub async fn jobs_failed(&self, op: &OpContext) -> Result<Vec<RunRecord>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let since = self.parts.store.now().plus_ms(-NEWS_MS);
        let patches = self.run_history(op, None, LOOKED_AT).await?;
        let mut failed: Vec<RunRecord> = patches.into_iter().map(|seen| seen.record).collect();
        let initial = self.parts.policy.initial().name.clone();
        let filter = TaskFilter { label: Some(initial), limit: LOOKED_AT, ..TaskFilter::default() };
        let At { it: rows, .. } = self.task_list(op, filter).await?;
        let tasks: Vec<_> = rows.iter().map(|row| row.task.id).collect();
        failed.extend(self.parts.store.works(&op.principal.org, &tasks, 1).await?);
        let at = |record: &RunRecord| match record.job.state {
            JobState::Failed { at, .. } => Some(at),
            _ => None,
        };
        failed.retain(|record| at(record).is_some_and(|at| at >= since));
        failed.sort_by_key(|record| std::cmp::Reverse(at(record)));
        Ok(failed)
    }

    /// Every actor that holds an open task: its assignee, else the actor of its live attempt. In the order of the
    /// tasks.
    pub async fn holders(&self, op: &OpContext) -> Result<At<Vec<Holder>>, EngineError> {
        let policy = &self.parts.policy;
        let is_open =
            |name: &String| policy.label(name).is_some_and(|label| !label.phase.is_closed());
        let (mut holders, mut now) = (Vec::new(), self.parts.store.now());
        for label in policy.names().into_iter().filter(is_open) {
            let mut after = None;
            loop {
                let label = Some(label.clone());
                let filter = TaskFilter { label, after, limit: PAGE, ..TaskFilter::default() };
                let page = self.task_list(op, filter).await?;
                now = page.now;
                after = page.it.last().map(|row| row.task.id.id);
                let is_last = page.it.len() < PAGE;
                holders.extend(page.it.into_iter().filter_map(|row| {
                    let live = row.newest.as_ref().filter(|newest| newest.is_live(now));
                    let holder = row.task.assignee.as_ref().or(live.map(|live| &live.actor));
                    let actor = holder?.clone();
                    Some(Holder { actor, row })
                }));
                if is_last {
                    break;
                }
            }
        }
        holders.sort_by_key(|holder| holder.row.task.id.id);
        Ok(At { it: holders, now })
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
