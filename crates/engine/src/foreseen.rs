//! What git said about merging the work in review. The answers are kept in memory: lists name conflicts without asking
//! git, and a process that was just started knows nothing yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_domain::board::why::WhyOutlook;
use callboard_domain::ids::Id;
use callboard_domain::task::Task;
use callboard_domain::time::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The outlooks of tasks in review.
#[derive(Default)]
pub(crate) struct Foreseen {
    known: Mutex<HashMap<Id, ForeseenMerge>>,
    /// The newest event when merges were last looked for.
    heard: AtomicU64,
    read: Notify,
}

struct ForeseenMerge {
    /// When the task came into review. A later round is another question.
    phase_at: Timestamp,
    asked: Instant,
    /// `None`: git could not say.
    outlook: Option<WhyOutlook>,
}

impl Foreseen {
    /// How a merge of the task would go, as git said it in this round of review. Asking wakes the loop.
    pub fn of(&self, task: &Task) -> Option<WhyOutlook> {
        self.read.notify_one();
        let known = self.known();
        let kept = known.get(&task.id.id).filter(|kept| kept.phase_at == task.phase_at)?;
        kept.outlook.clone()
    }

    /// Returns once a list was read since the last return. A process whose lists are not read asks git nothing.
    pub async fn read(&self) {
        self.read.notified().await;
    }

    /// When git was asked about this round of the task.
    pub fn asked(&self, task: &Task) -> Option<Instant> {
        let known = self.known();
        known.get(&task.id.id).filter(|kept| kept.phase_at == task.phase_at).map(|kept| kept.asked)
    }

    pub fn keep(&self, task: &Task, outlook: Option<WhyOutlook>) {
        let kept = ForeseenMerge { phase_at: task.phase_at, asked: Instant::now(), outlook };
        self.known().insert(task.id.id, kept);
    }

    /// Drops what is known of tasks that are not in review any more.
    pub fn keep_only(&self, tasks: &[Task]) {
        self.known().retain(|id, _| tasks.iter().any(|task| task.id.id == *id));
    }

    /// Everything is asked again: a branch moved.
    pub fn forget(&self) {
        self.known().clear();
    }

    /// The newest event when merges were last looked for; `newest` takes its place.
    pub fn heard_until(&self, newest: u64) -> u64 {
        self.heard.swap(newest, Ordering::Relaxed)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Id, ForeseenMerge>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
