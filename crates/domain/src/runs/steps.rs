//! The steps of a job with their times, as the events of its task tell them: the waits, the set-up, the work of the
//! agent, its questions, the checks and the verdicts meanwhile, and the end.

use crate::event::{EventName, LoggedEvent};
use crate::runs::job::{Job, JobKind, JobState};
use crate::time::Timestamp;

/// One step of a job. Steps may lie inside one another: an agent asks while it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStep {
    pub kind: RunStepKind,
    /// The number of the run that the step belongs to; 1 for the first, and for the wait before it.
    pub run: u32,
    pub began_at: Timestamp,
    /// `None` while the step goes on.
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStepKind {
    /// The job waits for a runner, for the first time or again.
    Queued,
    /// The workspace is prepared and the agent comes up.
    SetUp,
    /// Processes of an earlier run hold the agent back.
    Held,
    /// The agent works; for a job of the server itself, the server does.
    Work,
    /// The agent asked the question with this number.
    Question { number: u64, granted: Option<bool> },
    /// The runner was silent or went away.
    Lost,
    /// The check with this index ran.
    Check { index: usize, is_pass: bool },
    /// The run left so many commits; some of them may be the server's, of changes that were left uncommitted.
    Commit { commits: u64, is_leftovers: bool },
    /// The task came into review, or its work was judged.
    Verdict(EventName),
    /// The job is over.
    End,
}

impl RunStepKind {
    fn is_moment(self) -> bool {
        matches!(self, Self::Check { .. } | Self::Commit { .. } | Self::Verdict(_) | Self::End)
    }
}

/// The steps of a job in the order they began. `events` are those of its task, in the order of the log.
pub fn run_steps(job: &Job, events: &[LoggedEvent]) -> Vec<RunStep> {
    let mut track = Track { steps: Vec::new(), run: 1 };
    track.begin(RunStepKind::Queued, job.created_at);
    if !job.kind.is_run() && job.tries > 0 {
        // When the server took a job of its own is not on record in the task.
        track.steps.clear();
        track.begin(RunStepKind::Work, job.created_at);
    }
    let over = over_at(&job.state);
    for event in events.iter().filter(|event| event.at >= job.created_at) {
        if over.is_some_and(|over| event.at > over) {
            break;
        }
        match event.read().job() {
            Some(id) if id == job.id && job.kind.is_run() => track.step(job.kind, event),
            Some(_) => {}
            None if track.has_begun() => track.meanwhile(event),
            None => {}
        }
    }
    if let Some(at) = over {
        track.end(at, |_| true);
        track.begin(RunStepKind::End, at);
    }
    track.steps
}

fn over_at(state: &JobState) -> Option<Timestamp> {
    match state {
        JobState::Queued { .. } | JobState::Running { .. } | JobState::Stale { .. } => None,
        JobState::Done { at }
        | JobState::Failed { at, .. }
        | JobState::Canceled { at }
        | JobState::Expired { at } => Some(*at),
    }
}

struct Track {
    steps: Vec<RunStep>,
    run: u32,
}

impl Track {
    fn begin(&mut self, kind: RunStepKind, at: Timestamp) {
        let ended_at = kind.is_moment().then_some(at);
        self.steps.push(RunStep { kind, run: self.run, began_at: at, ended_at });
    }

    fn end(&mut self, at: Timestamp, which: impl Fn(RunStepKind) -> bool) {
        for step in &mut self.steps {
            if step.ended_at.is_none() && which(step.kind) {
                step.ended_at = Some(at);
            }
        }
    }

    fn has_begun(&self) -> bool {
        self.steps.iter().any(|step| step.kind != RunStepKind::Queued)
    }

    /// An event of the job itself.
    fn step(&mut self, kind: JobKind, event: &LoggedEvent) {
        let (at, data) = (event.at, event.read());
        match event.name {
            EventName::JobStarted if !data.is_resumed() => {
                self.end(at, |_| true);
                let is_up = !kind.is_in_workspace();
                self.begin(if is_up { RunStepKind::Work } else { RunStepKind::SetUp }, at);
            }
            // The agent is up, for the first time or again. For other kinds this is the end.
            EventName::JobStarted | EventName::JobSucceeded if kind.is_in_workspace() => {
                self.end(at, |_| true);
                self.begin(RunStepKind::Work, at);
            }
            EventName::JobHeld => {
                self.end(at, |kind| kind == RunStepKind::Held);
                if data.is_held() {
                    self.begin(RunStepKind::Held, at);
                }
            }
            EventName::JobAsked => {
                let number = data.question().unwrap_or_default();
                self.begin(RunStepKind::Question { number, granted: None }, at);
            }
            EventName::JobAnswered => self.answer(data.question(), data.is_granted(), at),
            EventName::JobCommitted => {
                let (commits, is_leftovers) = (data.commits(), data.is_leftovers());
                self.begin(RunStepKind::Commit { commits, is_leftovers }, at);
            }
            EventName::JobStale => {
                self.end(at, |_| true);
                self.begin(RunStepKind::Lost, at);
            }
            EventName::JobRequeued => {
                self.end(at, |_| true);
                self.run += 1;
                self.begin(RunStepKind::Queued, at);
            }
            _ => {}
        }
    }

    fn answer(&mut self, asked: Option<u64>, is_granted: bool, at: Timestamp) {
        for step in &mut self.steps {
            if let RunStepKind::Question { number, granted } = &mut step.kind
                && Some(*number) == asked
                && step.ended_at.is_none()
            {
                *granted = Some(is_granted);
                step.ended_at = Some(at);
            }
        }
    }

    /// An event of the task while the job is under way.
    fn meanwhile(&mut self, event: &LoggedEvent) {
        match event.name {
            EventName::CheckRan => {
                let data = event.read();
                let index = data.check_index().unwrap_or_default();
                self.begin(RunStepKind::Check { index, is_pass: data.is_pass() }, event.at);
            }
            EventName::ReviewRequested
            | EventName::ReviewApproved
            | EventName::ReviewRejected
            | EventName::VerificationPassed
            | EventName::VerificationFailed => {
                self.begin(RunStepKind::Verdict(event.name), event.at);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::ids::Id;
    use crate::runs::job::JobId;

    const JOB: JobId = JobId(Id(7));

    fn job(kind: JobKind, state: JobState) -> Job {
        Job { state, tries: 1, ..Job::queued(JOB, kind, String::new(), None, Timestamp(10)) }
    }

    fn event(at: i64, name: EventName, data: Value) -> LoggedEvent {
        let actor = "runner:here".parse().expect("an actor");
        LoggedEvent { seq: at as u64, at: Timestamp(at), actor, name, about: None, data }
    }

    /// An event of the job itself.
    fn own(at: i64, name: EventName, mut data: Value) -> LoggedEvent {
        data["job"] = JOB.to_string().into();
        event(at, name, data)
    }

    /// Each step as `kind run began-ended`.
    fn told(job: &Job, events: &[LoggedEvent]) -> Vec<String> {
        let word = |kind: RunStepKind| match kind {
            RunStepKind::Question { number, granted } => format!("question {number} {granted:?}"),
            RunStepKind::Check { index, is_pass } => format!("check {index} {is_pass}"),
            RunStepKind::Commit { commits, is_leftovers } => {
                format!("commit {commits} {is_leftovers}")
            }
            RunStepKind::Verdict(name) => name.as_str().to_owned(),
            plain => format!("{plain:?}").to_lowercase(),
        };
        let line = |step: &RunStep| {
            let ended = step.ended_at.map_or_else(String::new, |at| at.0.to_string());
            format!("{} #{} {}-{ended}", word(step.kind), step.run, step.began_at.0)
        };
        run_steps(job, events).iter().map(line).collect()
    }

    fn running() -> JobState {
        let runner = "runner:here".parse().expect("an actor");
        JobState::Running { runner, until: Timestamp(1000) }
    }

    #[test]
    fn work_on_a_task_has_every_step_with_its_times() {
        let none = || json!({});
        let events = [
            own(10, EventName::JobSubmitted, none()),
            event(11, EventName::CheckRan, json!({"index": 0, "result": "pass"})),
            own(20, EventName::JobStarted, json!({"fence": 1})),
            own(22, EventName::JobHeld, json!({"left": ["process 7"]})),
            own(24, EventName::JobHeld, json!({"left": []})),
            own(25, EventName::JobSucceeded, none()),
            own(30, EventName::JobAsked, json!({"question": 1})),
            own(34, EventName::JobAnswered, json!({"question": 1, "granted": true})),
            event(40, EventName::CheckRan, json!({"index": 1, "result": "fail"})),
            own(45, EventName::JobAsked, json!({"question": 2})),
            own(49, EventName::JobCommitted, json!({"head": "3f2a1c9", "commits": 2})),
            event(50, EventName::ReviewRequested, none()),
            own(50, EventName::JobEnded, none()),
            event(60, EventName::ReviewApproved, none()),
        ];
        let ended = job(JobKind::Work, JobState::Done { at: Timestamp(50) });
        let expected = [
            "queued #1 10-20",
            "setup #1 20-25",
            "held #1 22-24",
            "work #1 25-50",
            "question 1 Some(true) #1 30-34",
            "check 1 false #1 40-40",
            "question 2 None #1 45-50",
            "commit 2 false #1 49-49",
            "review.requested #1 50-50",
            "end #1 50-50",
        ];
        assert_eq!(told(&ended, &events), expected);
        let open = told(&job(JobKind::Work, running()), &events[..7]);
        assert_eq!(open[3..], ["work #1 25-", "question 1 None #1 30-"]);
    }

    #[test]
    fn a_lost_run_is_followed_by_the_next_one() {
        let none = || json!({});
        let events = [
            own(20, EventName::JobStarted, none()),
            own(21, EventName::JobSucceeded, none()),
            own(30, EventName::JobStale, none()),
            own(35, EventName::JobRequeued, none()),
            own(40, EventName::JobStarted, none()),
            own(41, EventName::JobStarted, json!({"resumed": true})),
        ];
        let expected = [
            "queued #1 10-20",
            "setup #1 20-21",
            "work #1 21-30",
            "lost #1 30-35",
            "queued #2 35-40",
            "setup #2 40-41",
            "work #2 41-",
        ];
        assert_eq!(told(&job(JobKind::Work, running()), &events), expected);
    }

    #[test]
    fn other_kinds_have_the_steps_that_are_on_record() {
        let none = || json!({});
        let check = event(12, EventName::CheckRan, json!({"index": 0, "result": "pass"}));
        let failed = |at| JobState::Failed { at: Timestamp(at), reason: "x".into() };
        let table: [(Job, Vec<LoggedEvent>, &[&str]); 4] = [
            (
                job(JobKind::Run, JobState::Done { at: Timestamp(30) }),
                vec![
                    own(20, EventName::JobStarted, none()),
                    own(30, EventName::JobSucceeded, none()),
                ],
                &["queued #1 10-20", "work #1 20-30", "end #1 30-30"],
            ),
            (
                job(JobKind::Check, failed(15)),
                vec![check.clone()],
                &["work #1 10-15", "check 0 true #1 12-12", "end #1 15-15"],
            ),
            (
                Job { tries: 0, ..job(JobKind::Check, JobState::Queued { due_at: Timestamp(10) }) },
                vec![check],
                &["queued #1 10-"],
            ),
            (job(JobKind::Run, failed(15)), Vec::new(), &["queued #1 10-15", "end #1 15-15"]),
        ];
        for (job, events, expected) in table {
            assert_eq!(told(&job, &events), expected);
        }
    }
}
