//! The events after which a screen may look different.

use std::sync::LazyLock;

use callboard_domain::event::{EventName, EventTerms};

use super::frame::Screen;

const TASK: &[EventName] = &[
    EventName::TaskCreated,
    EventName::TaskUpdated,
    EventName::TaskDeleted,
    EventName::TaskCompleted,
    EventName::TaskCanceled,
    EventName::TaskReopened,
    EventName::TaskClaimed,
    EventName::TaskReleased,
    EventName::TaskStatusChanged,
    EventName::TaskReady,
    EventName::TaskNoted,
    EventName::TaskTold,
    EventName::TaskHeard,
    EventName::TaskBlocked,
    EventName::TaskUnblocked,
    EventName::CheckRan,
    EventName::CheckAttested,
    EventName::AttemptStarted,
    EventName::AttemptEnded,
    EventName::CommentAdded,
    EventName::EpicStatusChanged,
    EventName::EpicCompleted,
];
const AGENT: &[EventName] = &[
    EventName::AgentAdded,
    EventName::AgentRemoved,
    EventName::AgentFreed,
    EventName::AttemptStarted,
    EventName::AttemptEnded,
    EventName::AttemptExpired,
    EventName::TaskAssigned,
    EventName::TaskStatusChanged,
    EventName::TaskCompleted,
    EventName::TaskCanceled,
    EventName::EpicStatusChanged,
    EventName::EpicCompleted,
];
/// The events after which another matter may wait for a person.
const INBOX: &[EventName] = &[
    EventName::JobAsked,
    EventName::JobAnswered,
    EventName::JobFailed,
    EventName::ReviewRequested,
    EventName::ReviewApproved,
    EventName::ReviewRejected,
    EventName::ReviewMerged,
    EventName::PlanProposed,
    EventName::PlanApproved,
    EventName::PlanRejected,
];
const JOB: &[EventName] = &[
    EventName::JobQueued,
    EventName::JobTaken,
    EventName::JobEnded,
    EventName::JobSubmitted,
    EventName::JobStarted,
    EventName::JobStale,
    EventName::JobHeld,
    EventName::JobUsed,
    EventName::JobCommitted,
    EventName::JobRequeued,
    EventName::JobSucceeded,
    EventName::JobFailed,
    EventName::JobCanceled,
    EventName::JobExpired,
    EventName::JobArtifact,
    EventName::JobPr,
    EventName::JobAsked,
    EventName::JobAnswered,
    EventName::CheckRan,
    EventName::ReviewRequested,
];
const KNOWLEDGE: &[EventName] = &[EventName::KnowledgeStored, EventName::KnowledgeSuperseded];
const GRAPH: &[EventName] = &[
    EventName::TaskCreated,
    EventName::TaskUpdated,
    EventName::TaskDeleted,
    EventName::TaskDependencyAdded,
    EventName::TaskDependencyRemoved,
    EventName::TaskClaimed,
    EventName::TaskReleased,
    EventName::TaskStatusChanged,
    EventName::TaskReady,
    EventName::TaskBlocked,
    EventName::TaskUnblocked,
    EventName::TaskCompleted,
    EventName::TaskCanceled,
    EventName::TaskReopened,
];
const PLAN: &[EventName] =
    &[EventName::PlanProposed, EventName::PlanApproved, EventName::PlanRejected];
const SETTINGS: &[EventName] = &[
    EventName::SettingsUpdated,
    EventName::WebhookQueued,
    EventName::WebhookDelivered,
    EventName::WebhookFailed,
];
const MAIL: &[EventName] = &[EventName::MailSent, EventName::MailRead];

/// The events that the log shows: all but renewals, which would come without end.
static RECORD: LazyLock<Vec<EventName>> = LazyLock::new(|| EventTerms::default().names());

fn of(screen: Screen) -> &'static [EventName] {
    match screen {
        Screen::Inbox | Screen::Board => TASK,
        Screen::Agents => AGENT,
        Screen::Mail => MAIL,
        Screen::Jobs => JOB,
        Screen::Knowledge => KNOWLEDGE,
        Screen::Plans => PLAN,
        Screen::Graph => GRAPH,
        Screen::Audit => &RECORD,
        // Numbers over days are read again each minute.
        Screen::Metrics => &[],
        Screen::Settings => SETTINGS,
    }
}

/// The events after which a page is renewed. The navigation of every page counts mail and what waits for a person.
pub(super) fn concerned(screen: Screen) -> Vec<EventName> {
    let mut names = of(screen).to_vec();
    for name in MAIL.iter().chain(INBOX) {
        if !names.contains(name) {
            names.push(*name);
        }
    }
    names
}

/// The one stream that all open pages share.
pub(super) fn stream() -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in Screen::ALL.iter().copied().flat_map(concerned) {
        if !names.contains(&name.as_str()) {
            names.push(name.as_str());
        }
    }
    format!("/events?names={}", names.join(","))
}
