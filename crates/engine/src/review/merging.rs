//! Merges that are under way in this process, and how the last ones ended. Kept in memory: after a restart the task
//! itself says whether it was merged.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_domain::actor::Actor;
use callboard_domain::ids::TaskId;
use callboard_domain::review::merging::{MergeOutcome, MergeStep};
use callboard_domain::time::Timestamp;

use crate::context::{OpContext, Scope};
use crate::review::merge::{ReviewEnd, Reviewed};
use crate::{Engine, EngineError};

/// How many merges are remembered.
const KEPT_MAX: usize = 100;
/// How long the end of a merge is shown.
const SHOWN_MS: i64 = 15 * 60 * 1000;

/// A merge that is under way, or that ended a short time ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeSeen {
    pub by: Actor,
    pub began_at: Timestamp,
    pub step: MergeStep,
    /// `None` while it runs.
    pub outcome: Option<MergeOutcome>,
}

#[derive(Default)]
pub(crate) struct Merging(Mutex<HashMap<TaskId, MergeSeen>>);

impl Merging {
    fn kept(&self) -> MutexGuard<'_, HashMap<TaskId, MergeSeen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, task: TaskId, by: Actor, now: Timestamp) -> MergeTurn<'_> {
        let mut kept = self.kept();
        if kept.len() >= KEPT_MAX {
            kept.retain(|_, seen| seen.outcome.is_none());
        }
        let step = MergeStep::Prepare;
        kept.insert(task, MergeSeen { by, began_at: now, step, outcome: None });
        MergeTurn { merging: self, task }
    }

    pub(crate) fn at(&self, task: TaskId, step: MergeStep) {
        if let Some(seen) = self.kept().get_mut(&task) {
            seen.step = step;
        }
    }
}

/// A merge that runs. A merge whose caller went away leaves nothing behind.
pub(crate) struct MergeTurn<'m> {
    merging: &'m Merging,
    task: TaskId,
}

impl MergeTurn<'_> {
    pub(crate) fn end(self, ended: &Result<Reviewed, EngineError>) {
        let outcome = match ended {
            Ok(Reviewed { end: ReviewEnd::Merged(merged), .. }) => {
                MergeOutcome::Merged { commit: merged.commit.clone() }
            }
            Ok(Reviewed { end: ReviewEnd::MergeFailed { words, .. }, .. }) => {
                MergeOutcome::Failed { words: words.clone() }
            }
            // A merge ends in no other way.
            Ok(_) => return,
            Err(EngineError::Refused(refusal)) => MergeOutcome::Failed { words: refusal.message() },
            Err(error) => MergeOutcome::Failed { words: error.to_string() },
        };
        if let Some(seen) = self.merging.kept().get_mut(&self.task) {
            seen.outcome = Some(outcome);
        }
    }
}

impl Drop for MergeTurn<'_> {
    fn drop(&mut self) {
        let mut kept = self.merging.kept();
        if kept.get(&self.task).is_some_and(|seen| seen.outcome.is_none()) {
            kept.remove(&self.task);
        }
    }
}

impl Engine {
    /// The merge of a task that runs in this process, or that ended a short time ago.
    pub fn merge_seen(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Option<MergeSeen>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let found = self.merging.kept().get(&task).cloned();
        let now = self.parts.store.now();
        let is_fresh =
            |seen: &MergeSeen| seen.outcome.is_none() || now.ms_since(seen.began_at) < SHOWN_MS;
        Ok(found.filter(is_fresh))
    }
}
