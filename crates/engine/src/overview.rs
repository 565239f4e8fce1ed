//! What somebody who comes back to a board wants to know first. Reads alone.

use callboard_domain::job::JobState;
use callboard_domain::run::RunRecord;

use crate::context::{OpContext, Scope};
use crate::{At, Engine, EngineError, TaskFilter};

/// What failed longer ago than this is no news.
const NEWS_MS: i64 = 24 * 3600 * 1000;
/// The newest jobs and the oldest open tasks that are looked at.
const LOOKED_AT: usize = 200;

impl Engine {
    /// Jobs that failed within a day and were not followed by another try: patches, and agents on
    /// tasks that are back at the start. The newest first.
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
}
