//! Events in words: as a sentence with the actor, the verb, the task and the details, or as a short line of names and
//! codes.

use serde_json::Value;

use super::{EventName, LoggedEvent};

/// Text that a caller wrote. A short line leaves it out; a sentence has it.
const WRITTEN: &[&str] = &["progress", "reason", "subject", "summary", "text", "title"];

/// A text on one line: control characters become spaces.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// `agent:w1 claimed SHOP-12 Add flag`, then the other details of the event. `called` is the name and the title of the
/// task; a removed task is shown by its id and the title that the event has.
pub fn sentence(event: &LoggedEvent, called: Option<&str>) -> String {
    let data = &event.data;
    let task = event.task().map(|task| match (called, text(data, "title")) {
        (Some(called), _) => format!(" {}", plain(called)),
        (None, Some(title)) => format!(" {task} {}", plain(&title)),
        (None, None) => format!(" {task}"),
    });
    let (verb, shown) = verb(event.name, data);
    let mut words = format!("{} {verb}{}", event.actor, task.unwrap_or_default());
    let more = details(data, shown);
    if !more.is_empty() {
        words += &format!(" ({more})");
    }
    words
}

/// The names and codes of an event without its actor and task: `fence 2, kind graph`. No text that a caller wrote is
/// part of it.
pub fn short(event: &LoggedEvent) -> String {
    details(&event.data, WRITTEN)
}

/// The verb of an event, and the keys of the data that it already mentions.
fn verb(name: EventName, data: &Value) -> (String, &'static [&'static str]) {
    let said = |key: &str| text(data, key).map(|value| plain(&value)).unwrap_or_default();
    let fixed = |words: &str| (words.to_owned(), &["title", "assignee", "tree"][..]);
    match name {
        EventName::TaskCreated => fixed("added"),
        EventName::TaskUpdated => fixed("edited"),
        EventName::TaskDeleted => fixed("removed"),
        EventName::TaskCompleted => fixed("completed"),
        EventName::TaskCanceled => fixed("gave up"),
        EventName::TaskReopened => fixed("reopened"),
        EventName::TaskClaimed => fixed("claimed"),
        EventName::TaskReleased => fixed("released"),
        EventName::TaskStatusChanged => {
            let words = format!("moved from {} to {}:", said("from"), said("to"));
            (words, &["from", "to", "title"])
        }
        EventName::TaskReady => {
            let words = match said("unblocked_by").as_str() {
                "" => "made ready".to_owned(),
                by => format!("made ready, with {by} out of the way,"),
            };
            (words, &["unblocked_by"])
        }
        EventName::TaskNoted => fixed("wrote a note on"),
        EventName::TaskTold => fixed("told the agent of"),
        EventName::TaskHeard => fixed("read the messages about"),
        EventName::TaskBlocked => fixed("is blocked on"),
        EventName::TaskUnblocked => fixed("unblocked"),
        EventName::TaskScratchpad => fixed("added to the notes of"),
        EventName::TaskDependencyAdded => {
            (format!("added {} as a dependency of", said("dep")), &["dep"])
        }
        EventName::TaskDependencyRemoved => {
            (format!("removed {} from the dependencies of", said("dep")), &["dep"])
        }
        EventName::TaskAssigned => fixed("assigned"),
        EventName::CheckRan => {
            (format!("ran check {} ({}) of", data["index"], said("result")), CHECK)
        }
        EventName::CheckAttested => {
            (format!("attested check {} ({}) of", data["index"], said("result")), CHECK)
        }
        EventName::AttemptStarted => fixed("began to work on"),
        EventName::AttemptHeartbeat => fixed("is still at work on"),
        EventName::AttemptEnded => (format!("ended work ({}) on", said("how")), &["how"]),
        EventName::AttemptExpired => fixed("let a lease expire on"),
        EventName::VerificationQueued => fixed("queued the verification of"),
        EventName::VerificationSkipped => fixed("skipped the verification of"),
        EventName::VerificationPending => fixed("could not verify yet"),
        EventName::VerificationPassed => fixed("passed the verification of"),
        EventName::VerificationFailed => fixed("failed the verification of"),
        EventName::CommentAdded => fixed("commented on"),
        EventName::CommentResolved => fixed("resolved a comment on"),
        EventName::JobQueued => fixed("queued a job for"),
        EventName::JobTaken => fixed("took a job for"),
        EventName::JobKept => fixed("renewed a job for"),
        EventName::JobEnded => fixed("ended a job for"),
        EventName::JobSubmitted => match said("role").as_str() {
            "reviewer" => ("asked a reviewer agent to look at".to_owned(), &["role"]),
            "" => fixed("submitted a job"),
            _ => ("asked for an agent on".to_owned(), &["role"]),
        },
        EventName::JobStarted => fixed("started a job"),
        EventName::JobStale => fixed("lost the runner of a job"),
        EventName::JobHeld => fixed("held a job back"),
        EventName::JobUsed => fixed("noted the cost of a run of"),
        EventName::JobCommitted => fixed("found commits of a run of"),
        EventName::JobRequeued => fixed("queued a job again"),
        EventName::JobSucceeded => fixed("succeeded with a job"),
        EventName::JobFailed => fixed("failed a job"),
        EventName::JobCanceled => fixed("canceled a job"),
        EventName::JobExpired => fixed("let a job expire"),
        EventName::JobArtifact => fixed("stored the result of a job"),
        EventName::JobPr => fixed("noted the pull request of a job"),
        EventName::JobAsked => fixed("asked a question in a job"),
        EventName::JobAnswered => fixed("answered a job"),
        EventName::PrOpened => fixed("opened a pull request for"),
        EventName::PrUpdated => fixed("updated the pull request of"),
        EventName::PrMerged => fixed("merged the pull request of"),
        EventName::PrClosed => fixed("closed the pull request of"),
        EventName::ReviewRequested => fixed("asked for a review of"),
        EventName::ReviewApproved => fixed("approved"),
        EventName::ReviewRejected => fixed("sent back"),
        EventName::ReviewMerged => fixed("merged"),
        EventName::ReviewRebased => fixed("rebased"),
        EventName::ReviewFailed => (format!("could not {}", said("action")), &["action"]),
        EventName::SessionCreated => fixed("opened a session on"),
        EventName::SessionKilled => fixed("ended the session on"),
        EventName::CallRefused => fixed("was refused a call"),
        EventName::CallAnswered => fixed("made a call"),
        EventName::WebhookQueued => fixed("queued a webhook"),
        EventName::WebhookDelivered => fixed("delivered a webhook"),
        EventName::WebhookFailed => fixed("could not deliver a webhook"),
        EventName::KnowledgeStored => (format!("learned \"{}\"", said("title")), &["title"]),
        EventName::KnowledgeSuperseded => fixed("replaced what was known"),
        EventName::SettingsUpdated => fixed("changed settings"),
        EventName::ProjectCreated => fixed("made a project"),
        EventName::ProjectOpened => fixed("opened a project"),
        EventName::PlanProposed => fixed("proposed a plan"),
        EventName::PlanApproved => fixed("approved a plan"),
        EventName::PlanRejected => fixed("rejected a plan"),
        EventName::AgentAdded => fixed("added an agent"),
        EventName::AgentRemoved => fixed("removed an agent"),
        EventName::AgentFreed => fixed("freed an agent"),
        EventName::MailSent => fixed("sent mail"),
        EventName::MailRead => fixed("read mail"),
        EventName::DecisionLogged => fixed("wrote down a decision"),
        EventName::EpicStatusChanged => {
            let words = format!("moved the epic from {} to {}:", said("from"), said("to"));
            (words, &["from", "to", "title"])
        }
        EventName::EpicCompleted => fixed("completed the epic"),
    }
}

const CHECK: &[&str] = &["index", "result", "tree"];

fn text(data: &Value, key: &str) -> Option<String> {
    data[key].as_str().map(str::to_owned)
}

/// `priority 100, text x`: the values of an event in their order, without hashes and the values already mentioned.
fn details(data: &Value, said: &[&str]) -> String {
    let shown = |(name, value): (&String, &Value)| match value {
        _ if name == "tree" || said.contains(&name.as_str()) => None,
        Value::Null => None,
        Value::String(text) => Some(format!("{name} {}", plain(text))),
        Value::Bool(_) | Value::Number(_) => Some(format!("{name} {value}")),
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(bare).collect();
            Some(format!("{name} {}", plain(&items.join(", "))))
        }
        Value::Object(_) => Some(format!("{name} {value}")),
    };
    let fields: Vec<String> = data.as_object().into_iter().flatten().filter_map(shown).collect();
    fields.join(", ")
}

fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
