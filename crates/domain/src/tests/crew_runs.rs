//! Runs of a crew's workers: under the attempt that the worker has, retried while they hand nothing over, and never
//! longer than the worker has the task.

use super::crew_tasks::{Crew, id};
use super::model::{actor, task_named};
use crate::command::*;
use crate::crew::MailId;
use crate::crew::shift::{Next, Shift};
use crate::crew::state::TaskState;
use crate::ids::{AttemptId, Id};
use crate::needs::check_job;
use crate::refusal::Refusal;
use crate::runs::job::{Job, JobId, JobKind, JobState};
use crate::runs::run::{Order, Run, RunRecord};
use crate::runs::work::{Role, WorkEnd, WorkOrder, work_key};
use crate::task::attempt::{AttemptKind, AttemptState};
use crate::time::Timestamp;
use crate::world::Change;

fn order(worker: &str) -> WorkOrder {
    let asked_by = id(worker).actor();
    WorkOrder { role: Role::Crew, asked_by, instructions: None, model: None }
}

impl Crew {
    /// A task `A` that `w1` has.
    fn assigned() -> Self {
        let mut crew = Self::new();
        crew.assign(None, "A", "w1").expect("it waits");
        crew.letters();
        crew
    }

    fn submit(&mut self, worker: &str) -> Result<JobId, Refusal> {
        let job = JobId(self.id());
        let (task, order, bound_to) = (task_named("A"), order(worker), None);
        let submit = WorkSubmit {
            job,
            task,
            order,
            bound_to,
            waits: false,
            ttl_s: 14_400,
            start: Default::default(),
        };
        self.model.act("crew", &Command::WorkSubmit(submit))?;
        Ok(self.newest())
    }

    fn newest(&self) -> JobId {
        *self.model.rows.runs.keys().max().expect("there is one")
    }

    fn lease(&mut self, job: JobId) -> Result<Change, Refusal> {
        let attempt = AttemptId(self.id());
        let lease = RunLease {
            job,
            kind: JobKind::Crew,
            agent: None,
            attempt,
            machine: "m1".into(),
            running_max: 1,
            lease_s: 60,
            early: false,
        };
        self.model.act("r1", &Command::RunLease(lease))
    }

    /// A run at work.
    fn running(&mut self) -> JobId {
        let job = self.submit("w1").expect("it has the task");
        self.lease(job).expect("there is a place");
        job
    }

    fn ends(&mut self, job: JobId, end: WorkEnd) -> Result<Change, Refusal> {
        let fence = self.model.rows.runs[&job].fence;
        let (agent, reviewer) = (super::model::actor("bot"), None);
        self.model.act("r1", &Command::WorkEnd { job, fence, end, agent, reviewer })
    }

    fn settle(&mut self, job: JobId) {
        let settle = RunSettle { job, hold_s: 0, attempts_max: 3, is_gone: false };
        self.model.act("r1", &Command::RunSettle(settle)).expect("anybody may");
    }

    fn run(&self, job: JobId) -> String {
        format!(
            "{} a{}",
            self.model.rows.jobs[&job].state.as_str(),
            self.model.rows.runs[&job].attempt
        )
    }

    fn give_up(&mut self, worker: &str) -> Change {
        let lost =
            CrewLoss { supervisor: Some(id("s1")), mails: [MailId(self.id()), MailId(self.id())] };
        let give_up = CrewGiveUp {
            task: task_named("A"),
            reason: "came to nothing".into(),
            worker: Some(id(worker)),
            lost: Some(lost),
        };
        self.model.act("crew", &Command::CrewGiveUp(give_up)).expect("it may")
    }
}

fn failed() -> WorkEnd {
    WorkEnd::Failed { reason: "exit 3".into() }
}

fn silent() -> WorkEnd {
    WorkEnd::Replied { reply: "done".into(), ending: None }
}

#[test]
fn a_run_is_part_of_the_attempt_that_its_worker_has() {
    let mut crew = Crew::assigned();
    let nobodys = crew.submit("w2").expect_err("it is another's");
    assert_eq!(nobodys.message(), "Agent does not have a current task assigned");
    let job = crew.running();
    assert_eq!(crew.submit("w1").expect("again"), job, "one at a time");
    crew.model.now = crew.model.now.plus_s(15);
    let fence = crew.model.rows.runs[&job].fence;
    let keep = Command::RunKeep { job, fence, lease_s: 60 };
    crew.model.act("r1", &keep).expect("it is its own");
    let attempts: Vec<_> = crew.model.rows.attempts.values().collect();
    assert_eq!(attempts.len(), 1, "and no other");
    let seen = matches!(attempts[0].state, AttemptState::Live { heartbeat_at, .. }
        if heartbeat_at == crew.model.now);
    assert!(seen && attempts[0].kind == AttemptKind::Crew, "{:?}", attempts[0]);
    assert_eq!((crew.stands("A"), crew.holder("A")), (TaskState::Assigned, Some(id("w1"))));
}

#[test]
fn who_hands_over_is_done_however_it_ends() {
    for (state, end) in [
        (TaskState::Review, silent()),
        (TaskState::Blocked, failed()),
        (TaskState::Review, WorkEnd::NotStarted { reason: "no program".into() }),
    ] {
        let mut crew = Crew::assigned();
        let job = crew.running();
        crew.said("w1", TaskState::InProgress).expect("it may");
        crew.said("w1", state).expect("it may");
        crew.ends(job, end).expect("it is its own");
        assert_eq!((crew.run(job).as_str(), crew.stands("A")), ("done a1", state));
        assert_eq!(crew.holder("A"), Some(id("w1")));
    }
}

#[test]
fn an_agent_that_does_not_start_is_not_tried_again_on_a_blocked_task() {
    let missing = || WorkEnd::NotStarted { reason: "no program".into() };
    let mut crew = Crew::assigned();
    let job = crew.running();
    for state in [TaskState::InProgress, TaskState::Blocked] {
        crew.said("w1", state).expect("it may");
    }
    crew.ends(job, missing()).expect("it is its own");
    assert_eq!((crew.run(job).as_str(), crew.stands("A")), ("failed a1", TaskState::Blocked));
    let JobState::Failed { reason, .. } = &crew.model.rows.jobs[&job].state else {
        panic!("it failed")
    };
    assert_eq!(reason, "not_started");
    assert_eq!(crew.model.rows.runs[&job].summary.as_deref(), Some("no program"));
    let mut crew = Crew::assigned();
    let job = crew.running();
    crew.ends(job, missing()).expect("it is its own");
    assert_eq!(crew.run(job), "stale a1", "nobody could block the task");
}

/// Each way into review of a worker's run queues the checks; a worker that Callboard did not start queues none.
#[test]
fn what_a_run_hands_over_is_checked() {
    let task = task_named("A");
    let check = NewCheck { desc: "runs".into(), cmd: Some("true".into()), ..NewCheck::default() };
    let (title, body, priority) = (None, None, None);
    let edit = TaskEdit { task, title, body, priority, checks: Some(vec![check]) };
    let state = |crew: &Crew| {
        let job = crew.model.rows.jobs.get(&check_job(task));
        job.map(|job| job.state.as_str())
    };
    for is_run in [true, false] {
        let mut crew = Crew::assigned();
        crew.model.act("ana", &Command::TaskEdit(edit.clone())).expect("it may");
        let job = is_run.then(|| crew.running());
        crew.said("w1", TaskState::InProgress).expect("it may");
        assert_eq!(state(&crew), None);
        crew.said("w1", TaskState::Review).expect("it may");
        assert_eq!(state(&crew), is_run.then_some("queued"));
        let Some(job) = job else { continue };
        crew.model.rows.jobs.remove(&check_job(task));
        crew.ends(job, silent()).expect("it is its own");
        assert_eq!(state(&crew), Some("queued"), "it may have gone on after it handed over");
    }
}

#[test]
fn who_hands_nothing_over_is_tried_three_times() {
    let mut crew = Crew::assigned();
    let job = crew.running();
    for (end, then) in [(silent(), "queued a2"), (failed(), "queued a3")] {
        crew.ends(job, end).expect("it is its own");
        assert!(crew.run(job).starts_with("stale"), "{}", crew.run(job));
        crew.settle(job);
        assert_eq!(crew.run(job), then);
        crew.lease(job).expect("there is a place");
    }
    crew.ends(job, failed()).expect("it is its own");
    crew.settle(job);
    assert_eq!(crew.run(job), "failed a3");
    let summary = crew.model.rows.runs[&job].summary.clone().unwrap_or_default();
    assert_eq!(summary, "Its agent was started 3 times and left no result; at last: exit 3");
    assert_eq!(crew.stands("A"), TaskState::Assigned, "what follows is the crew's to say");
    assert!(crew.give_up("w2").is_empty(), "not that one's");
    crew.give_up("w1");
    assert_eq!(crew.stands("A"), TaskState::Failed);
    let worker = crew.worker("w1");
    assert_eq!((worker.task, worker.failed_at), (None, Some(crew.model.now)));
    assert_eq!(crew.letters(), ["s1: Task Failed: A", "people: Task Failed: A"]);
    assert!(crew.give_up("w1").is_empty(), "once");
}

#[test]
fn a_lost_run_of_somebody_who_waits_fails_nothing() {
    let mut crew = Crew::assigned();
    let job = crew.running();
    crew.said("w1", TaskState::InProgress).expect("it may");
    crew.said("w1", TaskState::Review).expect("it may");
    for then in ["queued a2", "queued a3", "canceled a3"] {
        crew.model.now = crew.model.now.plus_s(61);
        crew.settle(job);
        crew.settle(job);
        assert_eq!(crew.run(job), then);
        let _ = crew.lease(job);
    }
    assert_eq!((crew.stands("A"), crew.holder("A")), (TaskState::Review, Some(id("w1"))));
    assert!(crew.give_up("w1").is_empty(), "nothing was lost");
}

#[test]
fn a_run_ends_with_its_workers_part_in_the_task() {
    type Part = (&'static str, fn(&mut Crew));
    let steps: [Part; 5] = [
        ("given away", |crew| drop(crew.assign(Some("s1"), "A", "w2").expect("it may"))),
        ("failed", |crew| {
            crew.said("w1", TaskState::InProgress).expect("it may");
            crew.said("w1", TaskState::Failed).expect("it may");
        }),
        ("given back", |crew| drop(crew.said("w1", TaskState::Pending).expect("it may"))),
        ("sent back", |crew| {
            crew.said("w1", TaskState::InProgress).expect("it may");
            crew.said("w1", TaskState::Review).expect("it may");
            let (by, worker, mail) = (id("s1"), Some(id("w1")), MailId(crew.id()));
            let feedback = "no tests".into();
            let back = CrewReturn { by, task: task_named("A"), feedback, worker, mail };
            crew.model.act("s1", &Command::CrewReturn(back)).expect("it may");
        }),
        ("closed", |crew| {
            let close = crew.model.command("move A canceled");
            crew.model.act("ana", &close).expect("anybody may");
        }),
    ];
    for (what, step) in steps {
        let mut crew = Crew::assigned();
        let job = crew.running();
        step(&mut crew);
        assert_eq!(crew.run(job), "canceled a1", "{what}");
        let (stands, holder) = (crew.stands("A"), crew.holder("A"));
        let late = crew.ends(job, silent()).expect("that it is gone is worth knowing");
        assert!(crew.model.rows.runs[&job].gone_at.is_some() && !late.is_empty());
        assert_eq!((crew.run(job).as_str(), crew.stands("A")), ("canceled a1", stands), "{what}");
        assert_eq!(crew.holder("A"), holder, "{what}");
    }
}

#[test]
fn a_worker_that_withdraws_its_review_is_not_stopped() {
    let mut crew = Crew::assigned();
    let job = crew.running();
    for state in [TaskState::InProgress, TaskState::Review, TaskState::InProgress] {
        crew.said("w1", state).expect("it may");
    }
    assert_eq!(crew.run(job), "running a1");
}

#[test]
fn nobody_is_started_on_what_is_no_longer_its_own() {
    let mut crew = Crew::assigned();
    let job = crew.submit("w1").expect("it has the task");
    crew.assign(Some("s1"), "A", "w2").expect("it may");
    assert_eq!(crew.run(job), "canceled a0");
    let lost = crew.lease(job).expect_err("it is over");
    assert!(matches!(lost, Refusal::JobLost { .. }), "{lost:?}");
}

/// A run of a worker on task A.
pub(super) fn record(state: JobState, gone: bool) -> RunRecord {
    let (at, task) = (Timestamp(100_000_000), task_named("A"));
    let job = Job {
        id: JobId(Id(1)),
        kind: JobKind::Crew,
        key: work_key(Role::Crew, task),
        task: Some(task),
        priority: 500,
        tries: 1,
        created_at: at,
        state,
    };
    let run = Run {
        job: job.id,
        order: Order::Work(order("w1")),
        content_hash: String::new(),
        changed_at: at,
        summary: Some("words".into()),
        attempt: 1,
        fence: 1,
        started_at: Some(at),
        up_at: Some(at),
        gone_at: gone.then_some(at),
        expires_at: at,
        bound_to: None,
        runs_on: Some("m1".into()),
        artifacts: Vec::new(),
        question: None,
        pr: None,
        webhook: None,
        terminal: None,
        usage: None,
    };
    RunRecord { job, run }
}

/// `state last mail => next`, at 200 s. The run was requested at 100 s; the task has been in its phase, and its
/// worker's, since 50 s. Processes of a run may be left for 20 s.
#[test]
fn who_is_started_is_told_by_the_task_the_last_run_and_the_mail() {
    let at = |s: i64| Timestamp(s * 1_000_000);
    let table = "
        ASSIGNED     -            -    => start
        IN_PROGRESS  -            -    => start
        IN_PROGRESS  running      150  => rest
        IN_PROGRESS  done@150     -    => start
        IN_PROGRESS  canceled@190 -    => rest
        IN_PROGRESS  canceled@180 -    => start
        IN_PROGRESS  gone@190     -    => start
        IN_PROGRESS  lost@150     -    => give up
        IN_PROGRESS  expired@150  -    => give up
        IN_PROGRESS  lost@40      -    => start
        IN_PROGRESS  held@150     -    => start
        REVIEW       -            -    => rest
        REVIEW       -            60   => start
        REVIEW       -            40   => rest
        REVIEW       done@150     90   => rest
        REVIEW       done@150     120  => start
        REVIEW       done@150     160  => start
        REVIEW       canceled@190 195  => rest
        REVIEW       running      160  => rest
        REVIEW       lost@150     90   => rest
        BLOCKED      done@150     160  => start
        BLOCKED      done@150     -    => rest
        PENDING      -            160  => rest
        COMPLETED    done@150     160  => rest
        FAILED       lost@150     160  => rest
    ";
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (given, expected) = line.split_once("=>").expect("given => next");
        let words: Vec<&str> = given.split_whitespace().collect();
        let (last, ended) = words[1].split_once('@').unwrap_or((words[1], "0"));
        let ended = at(ended.parse().expect("seconds"));
        let failed = |reason: &str| JobState::Failed { at: ended, reason: reason.into() };
        let last = match last {
            "-" => None,
            "running" => Some((JobState::Running { runner: actor("r1"), until: at(300) }, false)),
            "done" => Some((JobState::Done { at: ended }, true)),
            "canceled" => Some((JobState::Canceled { at: ended }, false)),
            "gone" => Some((JobState::Canceled { at: ended }, true)),
            "expired" => Some((JobState::Expired { at: ended }, true)),
            "lost" | "held" => Some((failed(last), true)),
            other => panic!("no run is {other}"),
        };
        let last = last.map(|(state, gone)| record(state, gone));
        let shift = Shift {
            state: TaskState::parse(words[0]).expect("a state"),
            since: at(50),
            phase_at: at(50),
            last: last.as_ref(),
            mail_at: words[2].parse().ok().map(at),
        };
        let next = match shift.next(at(200)) {
            Next::Rest => "rest",
            Next::Start => "start",
            Next::GiveUp { reason } => {
                assert_eq!(reason, "words");
                "give up"
            }
        };
        assert_eq!(next, expected.trim(), "{line}");
    }
}
