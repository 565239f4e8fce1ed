//! The why-line of a task: one sentence or two on what the task waits for and what lets it go on. Every surface takes
//! its words from here.

use crate::actor::Actor;
use crate::board::card::{Card, Review, ReviewState};
use crate::board::column::{OpenDep, OpenDepState, is_silent};
use crate::decide::verification::waits_for_person;
use crate::ids::TaskName;
use crate::policy::{Phase, Policy};
use crate::task::attempt::{Attempt, AttemptEnd, AttemptState};
use crate::task::contract::VerificationStatus;
use crate::task::{Check, CheckKind, Task};
use crate::time::{Timestamp, span_words};
use crate::words::words;

/// Words that an actor wrote are cut to so many characters, so that the line stays within two lines of a card.
const SAID_CHARS_MAX: usize = 60;

/// The why-line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    pub tone: Tone,
    pub glyph: WhyGlyph,
    pub words: Vec<WhyPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyPart {
    Text(String),
    /// A reference to another task.
    Task(TaskName),
    /// A command.
    Code(String),
}

words! {
    /// The colour of a why-line; never the only sign of a state.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Tone {
        Plain => "plain",
        /// Work is under way.
        Now => "now",
        /// A person is asked for.
        Person => "person",
        Proved => "proved",
        /// Silent or late.
        Late => "late",
        Failed => "failed",
    }
}

words! {
    /// The sign before a why-line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum WhyGlyph {
        Waits => "waits",
        Next => "next",
        Free => "free",
        Held => "held",
        Asks => "asks",
        Works => "works",
        Says => "says",
        Silent => "silent",
        Fails => "fails",
        Conflict => "conflict",
        Stuck => "stuck",
        Review => "review",
        Merge => "merge",
        Done => "done",
        Canceled => "canceled",
    }
}

/// The facts that a why-line is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyFacts {
    pub phase: Phase,
    /// The assignee, else the actor of the live attempt.
    pub holder: Option<Actor>,
    pub attempt: WhyAttempt,
    pub question: Option<WhyQuestion>,
    /// The first open deps.
    pub deps: Vec<OpenDep>,
    /// The number of all open deps.
    pub deps_open: usize,
    /// The reason of the task's block.
    pub blocked: Option<String>,
    /// Unresolved blocker comments.
    pub blockers: usize,
    pub checks: WhyChecks,
    pub review: Option<WhyReview>,
    pub verification: WhyVerification,
    pub outlook: Option<WhyOutlook>,
    /// The place among the tasks that are free, 1 for the next one.
    pub queue_place: Option<usize>,
    /// The number of places for agents when all of them are taken.
    pub places_taken: Option<u32>,
    /// The words with which the task was given up.
    pub given_up: Option<String>,
}

/// The newest attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyAttempt {
    None,
    Live {
        /// Since when its actor is silent for too long, in milliseconds.
        silent_ms: Option<i64>,
        lease_left_ms: Option<i64>,
        /// The newest heartbeat's words.
        progress: Option<String>,
    },
    Finished,
    Canceled {
        by: Actor,
        reason: String,
    },
    Released {
        by: Actor,
    },
    Expired,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyQuestion {
    pub text: String,
    /// The command that the agent wants to run.
    pub command: Option<String>,
    /// The time left until no answer counts as no.
    pub left_ms: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhyChecks {
    /// The command or the words of the first failing check.
    pub failing: Option<String>,
    pub failed: usize,
    /// Checks for a person without a result.
    pub for_person: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyReview {
    pub state: ReviewState,
    pub by: Actor,
    pub is_advice: bool,
    pub is_merged: bool,
}

words! {
    /// The part of a verification that a why-line names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum WhyVerification {
        None => "none",
        /// The server judges the work by itself.
        Judging => "judging",
        Failed => "failed",
    }
}

/// How a merge would go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhyOutlook {
    /// The branch that the work goes to, where it is known.
    pub target: Option<String>,
    /// The number of files that conflict.
    pub conflicts: usize,
    /// Commits of the target that the branch lacks.
    pub behind: u64,
}

/// What stands around a task, beside the task and its newest attempt.
#[derive(Clone, Copy, Debug)]
pub struct WhyAround<'a> {
    pub card: &'a Card,
    pub deps: &'a [OpenDep],
    pub question: Option<&'a WhyQuestion>,
    pub queue_place: Option<usize>,
    pub places_taken: Option<u32>,
    /// What git said of a merge when it was last asked.
    pub foreseen: Option<&'a WhyOutlook>,
}

impl WhyFacts {
    /// The facts of a task as it stands at `now`, without asking git: conflicts are those of the last merge or rebase,
    /// else those that were foreseen.
    pub fn of(
        task: &Task,
        newest: Option<&Attempt>,
        around: WhyAround<'_>,
        policy: &Policy,
        now: Timestamp,
    ) -> Self {
        let live = newest.filter(|attempt| attempt.is_live(now));
        let review = around.card.review.as_ref();
        let conflicts = review.map_or(0, |review| review.conflict_files.len());
        let target = around.card.base_branch.clone();
        Self {
            phase: task.phase,
            holder: task.assignee.clone().or(live.map(|attempt| attempt.actor.clone())),
            attempt: newest.map_or(WhyAttempt::None, |newest| WhyAttempt::of(newest, policy, now)),
            question: around.question.cloned(),
            deps: around.deps.to_vec(),
            deps_open: task.open_deps as usize,
            blocked: task.blocked.as_ref().map(|known| known.reason.clone()),
            blockers: task.open_blockers as usize,
            checks: WhyChecks::of(&task.checks),
            review: review.map(WhyReview::of),
            verification: WhyVerification::of(task),
            outlook: match conflicts {
                0 => around.foreseen.cloned(),
                _ => Some(WhyOutlook { target, conflicts, behind: 0 }),
            },
            queue_place: around.queue_place,
            places_taken: around.places_taken,
            given_up: around.card.failed.as_ref().map(|failed| failed.reason.clone()),
        }
    }
}

impl WhyAttempt {
    fn of(newest: &Attempt, policy: &Policy, now: Timestamp) -> Self {
        let by = newest.actor.clone();
        match &newest.state {
            AttemptState::Live { .. } if newest.lease_is_over(now) => WhyAttempt::Expired,
            AttemptState::Live { heartbeat_at, progress, lease } => {
                let last = (*heartbeat_at).max(newest.started_at);
                WhyAttempt::Live {
                    silent_ms: is_silent(Some(newest), policy, now).then(|| now.ms_since(last)),
                    lease_left_ms: lease.map(|lease| lease.expires_at.ms_since(now)),
                    progress: progress.clone(),
                }
            }
            AttemptState::Ended { end, .. } => match end {
                AttemptEnd::Finished { .. } => WhyAttempt::Finished,
                AttemptEnd::Canceled { reason } => {
                    WhyAttempt::Canceled { by, reason: reason.clone() }
                }
                AttemptEnd::Released => WhyAttempt::Released { by },
                AttemptEnd::Expired => WhyAttempt::Expired,
            },
        }
    }
}

impl WhyChecks {
    fn of(checks: &[Check]) -> Self {
        let named = |check: &Check| match &check.kind {
            CheckKind::Command { cmd, .. } => cmd.clone(),
            CheckKind::Manual => check.desc.clone(),
        };
        let fails = |check: &&Check| check.result() == "fail";
        let is_open = |check: &&Check| !check.is_command() && check.verdict.is_none();
        Self {
            failing: checks.iter().find(fails).map(named),
            failed: checks.iter().filter(fails).count(),
            for_person: checks.iter().filter(is_open).count(),
        }
    }
}

impl WhyReview {
    fn of(review: &Review) -> Self {
        Self {
            state: review.state,
            by: review.by.clone(),
            is_advice: review.is_advice,
            is_merged: review.merge_commit.is_some(),
        }
    }
}

impl WhyVerification {
    fn of(task: &Task) -> Self {
        match task.verification.as_ref().map(|known| known.status) {
            Some(VerificationStatus::Failed) => WhyVerification::Failed,
            Some(VerificationStatus::Pending) if !waits_for_person(task) => {
                WhyVerification::Judging
            }
            Some(
                VerificationStatus::Pending
                | VerificationStatus::Skipped
                | VerificationStatus::AwaitingHuman
                | VerificationStatus::Passed,
            )
            | None => WhyVerification::None,
        }
    }
}

/// Why a task stands where it stands. Total: every combination of facts has a line.
pub fn why(facts: &WhyFacts) -> Why {
    if facts.phase.is_closed() {
        return closed(facts);
    }
    if let Some(question) = &facts.question {
        return asks(question);
    }
    if let Some(reason) = &facts.blocked {
        let words = format!("Blocked: {}", said(reason));
        return Why::of(Tone::Person, WhyGlyph::Stuck).text(words);
    }
    match facts.phase {
        Phase::Initial => not_begun(facts),
        Phase::Working => working(facts),
        Phase::Review => in_review(facts),
        Phase::ClosedDone | Phase::ClosedCanceled => closed(facts),
    }
}

fn closed(facts: &WhyFacts) -> Why {
    let is_merged = facts.review.as_ref().is_some_and(|review| review.is_merged);
    match (facts.phase, &facts.given_up) {
        (Phase::ClosedDone, _) if is_merged => {
            Why::of(Tone::Proved, WhyGlyph::Done).text("Done and merged")
        }
        (Phase::ClosedDone, _) => Why::of(Tone::Proved, WhyGlyph::Done).text("Done"),
        (_, Some(reason)) => {
            Why::of(Tone::Plain, WhyGlyph::Canceled).text(format!("Given up: {}", said(reason)))
        }
        (_, None) => Why::of(Tone::Plain, WhyGlyph::Canceled).text("Canceled"),
    }
}

fn asks(question: &WhyQuestion) -> Why {
    let line = Why::of(Tone::Person, WhyGlyph::Asks);
    let line = match &question.command {
        Some(command) => line.text("Asks: may it run ").code(said(command)).text("?"),
        None => line.text(format!("Asks: {}", said(&question.text))),
    };
    match question.left_ms {
        Some(left_ms) => line.text(format!(" Refused in {}", span_words(left_ms))),
        None => line,
    }
}

fn not_begun(facts: &WhyFacts) -> Why {
    if facts.deps_open > 0 {
        return waits(facts);
    }
    if facts.blockers > 0 {
        let words = match facts.blockers {
            1 => "1 blocker comment is open. Resolve it to let the task start".to_owned(),
            count => {
                format!("{count} blocker comments are open. Resolve them to let the task start")
            }
        };
        return Why::of(Tone::Person, WhyGlyph::Stuck).text(words);
    }
    if let Some(holder) = &facts.holder {
        let live = silent(facts, holder);
        return live.unwrap_or_else(|| {
            let words = format!("Claimed by {}, not begun", name(holder));
            Why::of(Tone::Plain, WhyGlyph::Held).text(words)
        });
    }
    if facts.queue_place == Some(1) {
        let line = Why::of(Tone::Plain, WhyGlyph::Next).text("Next in the queue");
        return match facts.places_taken {
            Some(1) => line.text(". The only place for agents is taken"),
            Some(places) => line.text(format!(". All {places} places for agents are taken")),
            None => line,
        };
    }
    free(facts).unwrap_or_else(|| {
        let words = match facts.queue_place {
            Some(place) => format!("Free. Place {place} in the queue"),
            None => "Free to take".to_owned(),
        };
        Why::of(Tone::Plain, WhyGlyph::Free).text(words)
    })
}

/// Why a task without a holder is free again; `None` if it was never taken.
fn free(facts: &WhyFacts) -> Option<Why> {
    let line = Why::of(Tone::Plain, WhyGlyph::Free);
    let sent_back = facts
        .review
        .as_ref()
        .filter(|review| review.state == ReviewState::Rejected && !review.is_advice);
    match &facts.attempt {
        WhyAttempt::Expired => Some(line.text("Free since its last lease ran out")),
        WhyAttempt::Released { by } => Some(line.text(format!("Free since {} let go", name(by)))),
        WhyAttempt::Canceled { by, reason } => {
            Some(line.text(format!("Free. {} gave up: {}", name(by), said(reason))))
        }
        WhyAttempt::Finished | WhyAttempt::None | WhyAttempt::Live { .. } => {
            sent_back.map(|review| line.text(format!("Free. Sent back by {}", name(&review.by))))
        }
    }
}

fn waits(facts: &WhyFacts) -> Why {
    let any = |state| facts.deps.iter().any(|dep| dep.state == state);
    let (tone, glyph) = match () {
        () if any(OpenDepState::Asks) => (Tone::Person, WhyGlyph::Asks),
        () if any(OpenDepState::Silent) => (Tone::Late, WhyGlyph::Silent),
        () if any(OpenDepState::Review) => (Tone::Person, WhyGlyph::Review),
        () if any(OpenDepState::Working) => (Tone::Now, WhyGlyph::Waits),
        () => (Tone::Plain, WhyGlyph::Waits),
    };
    let mut line = Why::of(tone, glyph).text("Waits for ");
    let more = facts.deps_open.saturating_sub(facts.deps.len());
    if facts.deps.is_empty() {
        return line.text(tasks(more));
    }
    // A clause about a task ends with a comma before the next one.
    let mut and = " and ";
    for (place, dep) in facts.deps.iter().enumerate() {
        let is_last = place + 1 == facts.deps.len() && more == 0;
        line = match (place, is_last) {
            (0, _) => line,
            (_, true) => line.text(and),
            (_, false) => line.text(", "),
        };
        let clause = match dep.state {
            OpenDepState::Asks => ", which asks you",
            OpenDepState::Silent => ", whose agent is silent",
            OpenDepState::Review | OpenDepState::Working | OpenDepState::Waiting => "",
        };
        if dep.state == OpenDepState::Review {
            line = line.text("the review of ");
        }
        line = line.task(dep.name).text(clause);
        and = if clause.is_empty() { " and " } else { ", and " };
    }
    match more {
        0 => line,
        more => line.text(format!("{and}{more} more")),
    }
}

fn working(facts: &WhyFacts) -> Why {
    let Some(holder) = &facts.holder else {
        return free(facts).unwrap_or_else(|| {
            Why::of(Tone::Late, WhyGlyph::Free).text("Nobody holds it. Free to take")
        });
    };
    if let Some(line) = silent(facts, holder) {
        return line;
    }
    if let Some(line) = fails(facts) {
        return line;
    }
    match &facts.attempt {
        WhyAttempt::Live { progress: Some(progress), .. } if !progress.trim().is_empty() => {
            Why::of(Tone::Now, WhyGlyph::Says).text(format!("“{}”", said(progress)))
        }
        _ if facts.deps_open > 0 => waits(facts),
        _ => Why::of(Tone::Now, WhyGlyph::Works).text(format!("{} works on it", name(holder))),
    }
}

/// The line of a task whose holder is silent.
fn silent(facts: &WhyFacts, holder: &Actor) -> Option<Why> {
    let WhyAttempt::Live { silent_ms: Some(silent_ms), lease_left_ms, .. } = facts.attempt else {
        return None;
    };
    let then = match lease_left_ms {
        Some(left_ms) => format!("Lease ends in {}, then free again", span_words(left_ms)),
        None => format!("{} still holds it, without a lease", name(holder)),
    };
    let words = format!("Silent for {}. {then}", span_words(silent_ms));
    Some(Why::of(Tone::Late, WhyGlyph::Silent).text(words))
}

fn fails(facts: &WhyFacts) -> Option<Why> {
    let failing = facts.checks.failing.as_ref()?;
    let line = Why::of(Tone::Failed, WhyGlyph::Fails).code(said(failing)).text(" failed");
    Some(match facts.checks.failed.saturating_sub(1) {
        0 => line,
        1 => line.text(", and 1 more check"),
        more => line.text(format!(", and {more} more checks")),
    })
}

fn in_review(facts: &WhyFacts) -> Why {
    let outlook = facts.outlook.as_ref();
    if let Some(outlook) = outlook.filter(|outlook| outlook.conflicts > 0) {
        let target = outlook.target.as_deref().unwrap_or("the target");
        let files = match outlook.conflicts {
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        };
        let words = format!("Conflicts with {} in {files}. Rebase, or send back", said(target));
        return Why::of(Tone::Failed, WhyGlyph::Conflict).text(words);
    }
    match facts.verification {
        WhyVerification::Failed => {
            return Why::of(Tone::Failed, WhyGlyph::Fails).text("Verification failed");
        }
        WhyVerification::Judging => {
            return Why::of(Tone::Now, WhyGlyph::Works).text("The server verifies the work");
        }
        WhyVerification::None => {}
    }
    if let Some(line) = fails(facts) {
        return line;
    }
    let behind = outlook.filter(|outlook| outlook.behind > 0).map(|outlook| {
        let target = outlook.target.as_deref().unwrap_or("the target");
        format!("; {} behind {}", outlook.behind, said(target))
    });
    let review = facts.review.as_ref();
    let line = match review {
        Some(review) if review.state == ReviewState::Approved && !review.is_advice => {
            let words = format!("Approved by {}. Merge when ready", name(&review.by));
            let line = Why::of(Tone::Proved, WhyGlyph::Merge).text(words);
            match outlook {
                Some(_) if behind.is_none() => line.text("; no conflicts"),
                _ => line,
            }
        }
        review => {
            let advice =
                review.filter(|review| review.is_advice).map(|review| match review.state {
                    ReviewState::Approved => ". An agent advises to approve",
                    ReviewState::Rejected => ". An agent advises to send back",
                    ReviewState::Requested => "",
                });
            let line = Why::of(Tone::Person, WhyGlyph::Review).text("Your review");
            match (facts.checks.for_person, advice) {
                (0, advice) => line.text(advice.unwrap_or_default()),
                (1, _) => line.text(". 1 check is for a person"),
                (count, _) => line.text(format!(". {count} checks are for a person")),
            }
        }
    };
    line.text(behind.unwrap_or_default())
}

impl Why {
    fn of(tone: Tone, glyph: WhyGlyph) -> Self {
        Self { tone, glyph, words: Vec::new() }
    }

    /// Adds a text to the one before.
    fn text(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        match self.words.last_mut() {
            _ if text.is_empty() => {}
            Some(WhyPart::Text(before)) => before.push_str(&text),
            Some(WhyPart::Task(_) | WhyPart::Code(_)) | None => {
                self.words.push(WhyPart::Text(text));
            }
        }
        self
    }

    fn task(mut self, name: TaskName) -> Self {
        self.words.push(WhyPart::Task(name));
        self
    }

    fn code(mut self, code: String) -> Self {
        self.words.push(WhyPart::Code(code));
        self
    }

    /// The line as plain text.
    pub fn line(&self) -> String {
        let part = |part: &WhyPart| match part {
            WhyPart::Text(text) | WhyPart::Code(text) => text.clone(),
            WhyPart::Task(name) => name.to_string(),
        };
        self.words.iter().map(part).collect()
    }
}

/// An actor without its kind.
pub fn name(actor: &Actor) -> &str {
    let text = actor.as_str();
    text.split_once(':').map_or(text, |(_, name)| name)
}

/// The words of an actor on one line, without control characters, cut.
pub fn said(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<&str> = clean.split_whitespace().collect();
    let line = words.join(" ");
    match line.chars().count() > SAID_CHARS_MAX {
        true => line.chars().take(SAID_CHARS_MAX - 1).chain(['…']).collect(),
        false => line,
    }
}

fn tasks(count: usize) -> String {
    if count == 1 { "1 task".into() } else { format!("{count} tasks") }
}
