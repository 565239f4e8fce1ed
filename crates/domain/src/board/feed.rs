//! The feed of a task: its notes, mail and events as one list, the newest first, each line in words of the task's own
//! page. The engine finds the rows; which rows belong to a part of the feed, and their words, are here.

use crate::actor::Actor;
use crate::board::why::Tone;
use crate::crew::{AgentId, Mail};
use crate::event::{EventName, LoggedEvent, plain};
use crate::runs::job::JobId;
use crate::runs::run::RunRecord;
use crate::task::Entry;
use crate::task::attempt::{Attempt, AttemptState};
use crate::task::comment::Comment;
use crate::time::{Timestamp, span_words};
use crate::words::words;

/// At most so many lines stand on one page.
pub const FEED_LINES_MAX: usize = 50;

words! {
    /// The part of a feed that a reader wants.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum FeedShow {
        #[default]
        All => "all",
        /// Notes and comments.
        Notes => "notes",
        /// Letters, and messages to the agent of the task.
        Mail => "mail",
        /// Everything else that happened, steps of the server's own jobs included.
        Events => "events",
    }
}

/// The part that an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeedPart {
    Note,
    Mail,
    Event,
    /// A step of the server's own work: part of the events, and left out where everything is shown.
    Inner,
    /// No line of a feed.
    Nothing,
}

fn part(name: EventName) -> FeedPart {
    match name {
        EventName::TaskNoted | EventName::CommentAdded | EventName::CommentResolved => {
            FeedPart::Note
        }
        EventName::TaskTold | EventName::TaskHeard => FeedPart::Mail,
        EventName::JobQueued
        | EventName::JobTaken
        | EventName::JobEnded
        | EventName::JobArtifact
        | EventName::JobUsed
        | EventName::WebhookQueued
        | EventName::WebhookDelivered
        | EventName::WebhookFailed
        | EventName::TaskScratchpad
        | EventName::VerificationQueued
        | EventName::VerificationSkipped => FeedPart::Inner,
        // Letters are read from the inboxes, with their words.
        EventName::MailSent
        | EventName::MailRead
        | EventName::JobKept
        | EventName::CallAnswered
        | EventName::SettingsUpdated
        | EventName::ProjectCreated
        | EventName::ProjectOpened => FeedPart::Nothing,
        _ => FeedPart::Event,
    }
}

impl FeedShow {
    /// The events of this part. Heartbeats are among them: `feed_lines` leaves out those without words.
    pub fn names(self) -> Vec<EventName> {
        let has = |name: &EventName| match part(*name) {
            FeedPart::Note => matches!(self, FeedShow::All | FeedShow::Notes),
            FeedPart::Mail => matches!(self, FeedShow::All | FeedShow::Mail),
            FeedPart::Event => matches!(self, FeedShow::All | FeedShow::Events),
            FeedPart::Inner => self == FeedShow::Events,
            FeedPart::Nothing => false,
        };
        EventName::ALL.iter().copied().filter(has).collect()
    }

    pub fn has_letters(self) -> bool {
        matches!(self, FeedShow::All | FeedShow::Mail)
    }
}

words! {
    /// The sign before a line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FeedSign {
        /// The actor alone.
        Actor => "actor",
        Passed => "passed",
        Failed => "failed",
        Refused => "refused",
        /// A lease or a job ran out.
        Expired => "expired",
        Asks => "asks",
        Review => "review",
        Merged => "merged",
        Blocked => "blocked",
    }
}

/// What one change did: events of one actor at one moment are one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedLine {
    /// The number of the line's oldest event.
    pub seq: u64,
    pub at: Timestamp,
    pub who: Actor,
    pub sign: FeedSign,
    pub tone: Tone,
    /// After the actor's name: `claimed it, began attempt 2`.
    pub words: String,
    /// What the actor wrote.
    pub said: Option<String>,
    /// The run that the line is about.
    pub job: Option<JobId>,
}

/// Where an event that lacks the words of its actor takes them from.
#[derive(Clone, Copy, Debug, Default)]
pub struct FeedWords<'w> {
    /// The task's history: a change writes its line at the time of its event.
    pub history: &'w [Entry],
    pub comments: &'w [Comment],
    /// Runs of agents on the task, with their questions.
    pub runs: &'w [RunRecord],
}

/// The lines of a task's events, which are the newest first.
pub fn feed_lines(events: &[LoggedEvent], words: FeedWords<'_>) -> Vec<FeedLine> {
    let mut lines: Vec<FeedLine> = Vec::new();
    for event in events {
        let Some(line) = line(event, words) else { continue };
        match lines.last_mut() {
            // The later event of a change comes first, and its words last.
            Some(last) if last.at == line.at && last.who == line.who => {
                last.seq = line.seq;
                last.words = format!("{}, {}", line.words, last.words);
                if line.sign != FeedSign::Actor {
                    (last.sign, last.tone) = (line.sign, line.tone);
                }
                last.said = line.said.or(last.said.take());
                last.job = last.job.or(line.job);
            }
            _ => lines.push(line),
        }
    }
    lines
}

fn line(event: &LoggedEvent, words: FeedWords<'_>) -> Option<FeedLine> {
    let data = event.read();
    let FeedWords { history, comments, runs } = words;
    let said = match event.name {
        EventName::CommentAdded => {
            let comment = comments.iter().find(|known| data.comment() == Some(known.id));
            comment.map(|comment| comment.body.clone())
        }
        EventName::TaskCompleted
        | EventName::TaskCanceled
        | EventName::AttemptEnded
        | EventName::CommentResolved
        | EventName::ReviewRequested
        | EventName::ReviewApproved
        | EventName::ReviewRejected => {
            let is_same = |entry: &&Entry| entry.at == event.at && entry.who == event.actor;
            history.iter().find(is_same).and_then(|entry| entry.text.clone())
        }
        EventName::JobAsked => {
            let run = runs.iter().find(|run| data.job() == Some(run.job.id));
            run.and_then(|run| question(run, data.question()?))
        }
        _ => data.said().map(str::to_owned),
    };
    let said = said.filter(|text| !text.trim().is_empty());
    if event.name.is_renewal() && said.is_none() {
        return None;
    }
    let (sign, tone) = looks(event);
    Some(FeedLine {
        seq: event.seq,
        at: event.at,
        who: event.actor.clone(),
        sign,
        tone,
        words: verb(event),
        said,
        job: data.job(),
    })
}

/// The text of a question, with its command where the text lacks it.
/// A run keeps its newest question alone.
fn question(run: &RunRecord, number: u64) -> Option<String> {
    let asked = run.run.question.as_ref().filter(|asked| u64::from(asked.number) == number)?;
    Some(match &asked.command {
        Some(command) if !asked.text.contains(command.as_str()) => {
            format!("{}: `{command}`", asked.text)
        }
        _ => asked.text.clone(),
    })
}

fn looks(event: &LoggedEvent) -> (FeedSign, Tone) {
    match event.name {
        EventName::CheckRan | EventName::CheckAttested => match event.read().is_pass() {
            true => (FeedSign::Passed, Tone::Proved),
            false => (FeedSign::Failed, Tone::Failed),
        },
        EventName::VerificationPassed => (FeedSign::Passed, Tone::Proved),
        EventName::VerificationFailed | EventName::JobFailed | EventName::ReviewFailed => {
            (FeedSign::Failed, Tone::Failed)
        }
        EventName::CallRefused => (FeedSign::Refused, Tone::Failed),
        EventName::AttemptExpired | EventName::JobExpired | EventName::JobStale => {
            (FeedSign::Expired, Tone::Late)
        }
        EventName::JobAsked => (FeedSign::Asks, Tone::Person),
        EventName::TaskBlocked => (FeedSign::Blocked, Tone::Late),
        EventName::ReviewRequested => (FeedSign::Review, Tone::Person),
        EventName::ReviewApproved => (FeedSign::Passed, Tone::Proved),
        EventName::ReviewMerged | EventName::PrMerged => (FeedSign::Merged, Tone::Proved),
        _ => (FeedSign::Actor, Tone::Plain),
    }
}

/// The words after the actor's name.
fn verb(event: &LoggedEvent) -> String {
    let data = event.read();
    let text = |key: &str| event.data[key].as_str().map(plain).unwrap_or_default();
    // Names of actors go without their kind.
    let name = |key: &str| {
        let whole = text(key);
        whole.split_once(':').map_or(whole.clone(), |(_, name)| name.to_owned())
    };
    // Readers count checks from 1, as the page does.
    let check = || data.check_index().map_or("a check".to_owned(), |n| format!("check {}", n + 1));
    let result = if data.is_pass() { "passed" } else { "failed" };
    let fixed = str::to_owned;
    let is_own = event.data["assignee"].as_str().is_none_or(|who| who == event.actor.as_str());
    match event.name {
        EventName::TaskCreated => fixed("made the task"),
        EventName::TaskUpdated => {
            let fields = event.data["fields"].as_array().into_iter().flatten();
            let fields: Vec<&str> = fields.filter_map(|field| field.as_str()).collect();
            format!("edited {}", if fields.is_empty() { "it".into() } else { fields.join(", ") })
        }
        EventName::TaskDeleted => fixed("removed the task"),
        EventName::TaskCompleted => fixed("completed it"),
        EventName::TaskCanceled => fixed("gave it up"),
        EventName::TaskReopened => fixed("reopened it"),
        EventName::TaskClaimed if is_own => fixed("claimed it"),
        EventName::TaskClaimed => format!("gave it to {}", name("assignee")),
        EventName::TaskReleased if is_own => fixed("released it"),
        EventName::TaskReleased => format!("took it from {}", name("assignee")),
        EventName::TaskStatusChanged => format!("moved it from {} to {}", text("from"), text("to")),
        EventName::TaskReady => fixed("made it ready: nothing stands in its way"),
        EventName::TaskNoted => fixed("wrote a note"),
        EventName::TaskTold => fixed("wrote to its agent"),
        EventName::TaskHeard => fixed("read what was written"),
        EventName::TaskBlocked => fixed("blocked it"),
        EventName::TaskUnblocked => fixed("lifted the block"),
        EventName::TaskScratchpad => fixed("added to its notes"),
        EventName::TaskDependencyAdded => fixed("made it wait for another task"),
        EventName::TaskDependencyRemoved => fixed("removed a dependency"),
        EventName::TaskAssigned => format!("gave it to {}", text("agentId")),
        EventName::CheckRan => {
            // Shorter runs need no number.
            let took = event.data["took_ms"].as_i64().filter(|ms| *ms >= 1_000);
            let took = took.map(|ms| format!(" after {}", span_words(ms)));
            format!("ran {}: it {result}{}", check(), took.unwrap_or_default())
        }
        EventName::CheckAttested => format!("looked at {}: it {result}", check()),
        EventName::AttemptStarted => match event.data["fence"].as_u64() {
            Some(fence) => format!("began attempt {fence}"),
            None => fixed("began an attempt"),
        },
        EventName::AttemptHeartbeat => fixed("says"),
        EventName::AttemptEnded => match text("how").as_str() {
            "finished" => fixed("finished the attempt"),
            "" => fixed("ended the attempt"),
            how => format!("ended the attempt: {how}"),
        },
        EventName::AttemptExpired => {
            format!("took it from {}: the lease ran out", name("holder"))
        }
        EventName::VerificationQueued => fixed("queued the verification"),
        EventName::VerificationSkipped => fixed("skipped the verification"),
        EventName::VerificationPending => fixed("could not verify it yet"),
        EventName::VerificationPassed => fixed("verified it"),
        EventName::VerificationFailed => fixed("could not verify it"),
        EventName::CommentAdded => match text("kind").as_str() {
            "" | "note" => fixed("commented"),
            "nack" => fixed("proposed to give it up"),
            kind => format!("commented: a {kind}"),
        },
        EventName::CommentResolved => fixed("resolved a comment"),
        EventName::JobQueued => fixed("queued a job"),
        EventName::JobTaken => fixed("took a job"),
        EventName::JobKept => fixed("goes on with a job"),
        EventName::JobEnded => fixed("ended a job"),
        EventName::JobSubmitted => match text("role").as_str() {
            "reviewer" => fixed("asked a reviewing agent to look"),
            _ if data.is_stop() => fixed("asked to stop its agent"),
            _ => fixed("asked for an agent"),
        },
        EventName::JobStarted if data.is_resumed() => fixed("went on with a run"),
        EventName::JobStarted => fixed("started a run"),
        EventName::JobStale => fixed("lost the machine of a run"),
        EventName::JobHeld => fixed("held a run back"),
        EventName::JobUsed => fixed("noted the cost of a run"),
        EventName::JobCommitted => match data.commits() {
            1 => fixed("left 1 commit"),
            commits => format!("left {commits} commits"),
        },
        EventName::JobRequeued => fixed("queued a run again"),
        EventName::JobSucceeded if data.is_stop() => fixed("stopped its agent"),
        EventName::JobSucceeded if data.finished_at_ms().is_some() => fixed("finished a run"),
        // A start in a workspace succeeds when its agent is at work.
        EventName::JobSucceeded => fixed("started the agent"),
        EventName::JobFailed => fixed("failed a run"),
        EventName::JobCanceled => fixed("canceled a run"),
        EventName::JobExpired => fixed("let a run expire"),
        EventName::JobArtifact => fixed("kept a result"),
        EventName::JobPr => fixed("noted the pull request of a run"),
        EventName::JobAsked => fixed("asks for its agent"),
        EventName::JobAnswered if data.is_granted() => fixed("allowed what the agent asked"),
        EventName::JobAnswered => fixed("refused what the agent asked"),
        EventName::PrOpened => fixed("opened a pull request"),
        EventName::PrUpdated => fixed("updated the pull request"),
        EventName::PrMerged => fixed("merged the pull request"),
        EventName::PrClosed => fixed("closed the pull request"),
        EventName::ReviewRequested => fixed("asked for a review"),
        EventName::ReviewApproved if event.data["advice"] == true => fixed("advises to approve"),
        EventName::ReviewApproved => fixed("approved it"),
        EventName::ReviewRejected if event.data["advice"] == true => {
            fixed("advises to send it back")
        }
        EventName::ReviewRejected => match event.data["comments"].as_u64() {
            Some(1) => fixed("sent it back with 1 comment"),
            Some(comments) if comments > 1 => format!("sent it back with {comments} comments"),
            _ => fixed("sent it back"),
        },
        EventName::ReviewMerged => match text("commit") {
            commit if commit.is_empty() => fixed("merged it"),
            commit => format!("merged it as {}", commit.get(..7).unwrap_or(&commit)),
        },
        EventName::ReviewRebased => fixed("rebased it"),
        EventName::ReviewFailed => match (text("action").as_str(), event.data["files"].as_u64()) {
            ("rebase", Some(files)) if files > 0 => {
                format!("could not rebase it: {files} files conflict")
            }
            ("rebase", _) => fixed("could not rebase it"),
            (_, Some(files)) if files > 0 => format!("could not merge it: {files} files conflict"),
            _ => fixed("could not merge it"),
        },
        EventName::SessionCreated => fixed("opened a session"),
        EventName::SessionKilled => fixed("ended the session"),
        EventName::CallRefused => {
            format!("was refused {}: {}", text("tool"), text("code"))
        }
        EventName::CallAnswered => fixed("made a call"),
        EventName::WebhookQueued => fixed("queued a webhook"),
        EventName::WebhookDelivered => fixed("delivered a webhook"),
        EventName::WebhookFailed => fixed("could not deliver a webhook"),
        EventName::KnowledgeStored => format!("learned \u{201c}{}\u{201d}", text("title")),
        EventName::KnowledgeSuperseded => fixed("replaced what was known"),
        EventName::SettingsUpdated => fixed("changed settings"),
        EventName::ProjectCreated => fixed("made a project"),
        EventName::ProjectOpened => fixed("opened a project"),
        EventName::PlanProposed => fixed("proposed a plan"),
        EventName::PlanApproved => fixed("approved a plan"),
        EventName::PlanRejected => fixed("rejected a plan"),
        EventName::AgentAdded => format!("added {}", text("agentId")),
        EventName::AgentRemoved => format!("removed {}", text("agentId")),
        EventName::AgentFreed => format!("freed {}", text("agentId")),
        EventName::MailSent => fixed("sent mail"),
        EventName::MailRead => fixed("read mail"),
        EventName::DecisionLogged => fixed("wrote down a decision"),
        EventName::EpicStatusChanged => {
            format!("moved the epic from {} to {}", text("from"), text("to"))
        }
        EventName::EpicCompleted => fixed("completed the epic"),
    }
}

/// Whether a letter belongs to a task: an actor of the task's attempts wrote or got it while the attempt was live.
pub fn is_letter_of(mail: &Mail, attempts: &[Attempt]) -> bool {
    let was_live = |attempt: &Attempt| {
        let end = match &attempt.state {
            AttemptState::Live { .. } => Timestamp(i64::MAX),
            AttemptState::Ended { at, .. } => *at,
        };
        (attempt.started_at..=end).contains(&mail.created_at)
    };
    attempts.iter().any(|attempt| {
        let worker = AgentId::of(&attempt.actor);
        (mail.from.as_ref() == Some(&worker) || mail.to.as_ref() == Some(&worker))
            && was_live(attempt)
    })
}
