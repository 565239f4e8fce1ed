//! Metrics of the store: its commits, and counts of their events. The process that commits counts, after the
//! commit; this costs next to nothing while no metrics are collected.

use callboard_domain::event::{EventName, LoggedEvent};
use metrics::{counter, describe_counter, describe_histogram, histogram};

const COMMITS: &str = "callboard_store_commits_total";
/// Public, because the metrics exporter chooses the buckets.
pub const BATCH_SIZE: &str = "callboard_store_batch_size";
const LEASE_EXPIRIES: &str = "callboard_lease_expiries_total";
const CHECK_RESULTS: &str = "callboard_check_results_total";

/// Describes each metric, and shows those at zero that have not happened yet.
pub fn describe() {
    describe_counter!(COMMITS, "Commits that wrote something, by this process");
    describe_histogram!(BATCH_SIZE, "Commands that shared one commit");
    describe_counter!(LEASE_EXPIRIES, "Leases that ended because nobody renewed them");
    describe_counter!(CHECK_RESULTS, "Results of checks that were run or attested");
    // A counter that is first seen at 1 has no rise for `rate()`, so dashboards would miss the first event.
    counter!(COMMITS).increment(0);
    counter!(LEASE_EXPIRIES).increment(0);
    for result in ["pass", "fail"] {
        counter!(CHECK_RESULTS, "result" => result).increment(0);
    }
}

/// Counts one commit of `commands` commands.
/// A commit without events wrote nothing that counts, such as a repeated call. The match names every event, so that a
/// new one is judged here.
pub(crate) fn committed(commands: usize, events: &[LoggedEvent]) {
    if events.is_empty() {
        return;
    }
    counter!(COMMITS).increment(1);
    histogram!(BATCH_SIZE).record(commands as f64);
    for event in events {
        match event.name {
            EventName::AttemptExpired => counter!(LEASE_EXPIRIES).increment(1),
            EventName::CheckRan | EventName::CheckAttested => {
                let result = if event.read().is_pass() { "pass" } else { "fail" };
                counter!(CHECK_RESULTS, "result" => result).increment(1);
            }
            EventName::TaskCreated
            | EventName::TaskUpdated
            | EventName::TaskDeleted
            | EventName::TaskClaimed
            | EventName::TaskReleased
            | EventName::TaskStatusChanged
            | EventName::TaskReady
            | EventName::TaskNoted
            | EventName::TaskTold
            | EventName::TaskHeard
            | EventName::TaskBlocked
            | EventName::TaskUnblocked
            | EventName::TaskDependencyAdded
            | EventName::TaskDependencyRemoved
            | EventName::AttemptStarted
            | EventName::AttemptHeartbeat
            | EventName::AttemptEnded
            | EventName::TaskCompleted
            | EventName::TaskCanceled
            | EventName::TaskReopened
            | EventName::VerificationQueued
            | EventName::VerificationSkipped
            | EventName::VerificationPending
            | EventName::VerificationPassed
            | EventName::VerificationFailed
            | EventName::CommentAdded
            | EventName::CommentResolved
            | EventName::KnowledgeStored
            | EventName::KnowledgeSuperseded
            | EventName::CallRefused
            | EventName::TaskScratchpad
            | EventName::ReviewRequested
            | EventName::ReviewApproved
            | EventName::ReviewRejected
            | EventName::ReviewMerged
            | EventName::ReviewRebased
            | EventName::ReviewFailed
            | EventName::SessionCreated
            | EventName::SessionKilled
            | EventName::JobQueued
            | EventName::JobTaken
            | EventName::JobKept
            | EventName::JobEnded
            | EventName::JobSubmitted
            | EventName::JobStarted
            | EventName::JobStale
            | EventName::JobHeld
            | EventName::JobUsed
            | EventName::JobCommitted
            | EventName::JobRequeued
            | EventName::JobSucceeded
            | EventName::JobFailed
            | EventName::JobCanceled
            | EventName::JobExpired
            | EventName::JobArtifact
            | EventName::JobPr
            | EventName::PrOpened
            | EventName::PrUpdated
            | EventName::PrMerged
            | EventName::PrClosed
            | EventName::JobAsked
            | EventName::JobAnswered
            | EventName::SettingsUpdated
            | EventName::ProjectCreated
            | EventName::ProjectOpened
            | EventName::PlanProposed
            | EventName::PlanApproved
            | EventName::PlanRejected
            | EventName::CallAnswered
            | EventName::AgentAdded
            | EventName::AgentRemoved
            | EventName::MailSent
            | EventName::MailRead
            | EventName::DecisionLogged
            | EventName::AgentFreed
            | EventName::TaskAssigned
            | EventName::EpicStatusChanged
            | EventName::EpicCompleted
            | EventName::WebhookQueued
            | EventName::WebhookDelivered
            | EventName::WebhookFailed => {}
        }
    }
}
