//! Metrics of the engine for `/metrics`: lost claims, how long tasks waited, how many tasks there are. Nothing is
//! looked up for them until a collector is set up.

use std::sync::atomic::{AtomicBool, Ordering};

use callboard_domain::refusal::Refusal;
use callboard_store::{Applied, ApplyError, ClaimedTask, TasksByState, tally};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::{Engine, EngineError};

const CLAIM_CONFLICTS: &str = "callboard_claim_conflicts_total";
const ENTRIES_GIVEN_UP: &str = "callboard_embeddings_given_up_total";
const WAITS: &str = "callboard_waits";
const WAIT_LOOKS: &str = "callboard_wait_looks_total";
/// Public because the histogram's buckets are chosen by name elsewhere.
pub const QUEUE_WAIT: &str = "callboard_queue_wait_seconds";

static COLLECTED: AtomicBool = AtomicBool::new(false);

/// Describes these metrics and those of the store, and turns on the metrics that need a look at the store. Called once
/// a recorder is installed.
pub fn collect() {
    tally::describe();
    describe_counter!(
        CLAIM_CONFLICTS,
        "Claims and begins refused because another actor holds the task"
    );
    describe_histogram!(QUEUE_WAIT, "How long tasks were free before an actor took them");
    describe_counter!(ENTRIES_GIVEN_UP, "Knowledge entries that no vector could be made for");
    describe_gauge!(WAITS, "Waits of the board that are open now");
    describe_counter!(WAIT_LOOKS, "How often waits looked again because their task changed");
    counter!(CLAIM_CONFLICTS).increment(0);
    counter!(ENTRIES_GIVEN_UP).increment(0);
    COLLECTED.store(true, Ordering::Relaxed);
}

pub(crate) fn claim_failed(error: &ApplyError) {
    match error {
        ApplyError::Refused(Refusal::AlreadyClaimed { .. } | Refusal::SessionActive { .. }) => {
            counter!(CLAIM_CONFLICTS).increment(1);
        }
        ApplyError::Refused(_) | ApplyError::Store(_) => {}
    }
}

pub(crate) fn entry_given_up() {
    counter!(ENTRIES_GIVEN_UP).increment(1);
}

impl Engine {
    pub(crate) async fn count_wait(&self, taken: &ClaimedTask, applied: &Applied) {
        if !COLLECTED.load(Ordering::Relaxed) {
            return;
        }
        let free_since = match (taken.free_since, applied.last_seq) {
            (Some(since), _) => Ok(Some(since)),
            // Without a number the whole log is looked at: taking a task does not free it.
            (None, seq) => {
                let up_to = seq.unwrap_or(i64::MAX.unsigned_abs());
                self.parts.store.task_free_since(taken.task, up_to).await
            }
        };
        match free_since {
            Ok(Some(since)) => {
                let waited_us = applied.at.0.saturating_sub(since.0).max(0);
                histogram!(QUEUE_WAIT).record(waited_us as f64 / 1e6);
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "cannot count how long a task was free"),
        }
    }

    /// Updates the gauges of waits; called right before the metrics are shown.
    pub fn count_waits(&self) {
        gauge!(WAITS).set(self.card_waits() as f64);
        counter!(WAIT_LOOKS).absolute(self.wait_looks());
    }

    /// How many tasks of the whole server are in which state, from kept counts.
    pub async fn tasks_by_state(&self) -> Result<TasksByState, EngineError> {
        Ok(self.parts.store.tasks_by_state().await?)
    }
}
