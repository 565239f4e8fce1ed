//! Agents in a task's workspace as tables: `who verb TASK options => the run and its task after it`. The run is
//! shown as its newest job: `state a<attempt> up|down`, the task with its label and holder.

use super::model::{Model, task_named};
use crate::board::card::{Mode, Review};
use crate::command::{
    CardUpdate, Command, RunEnd, RunLease, RunSettle, Start, TerminalStart, WorkPlace, WorkSubmit,
};
use crate::ids::{AttemptId, Id};
use crate::policy::{Phase, Policy};
use crate::relay::RunVerdict;
use crate::runs::job::{JobId, JobKind};
use crate::runs::run::RunRecord;
use crate::runs::work::ending::ending;
use crate::runs::work::{Role, WorkEnd, WorkOrder};

struct Works {
    model: Model,
    numbers: u128,
    newest: Option<JobId>,
}

impl Works {
    fn number(&mut self) -> Id {
        self.numbers += 1;
        Id(1 << 100 | self.numbers)
    }

    fn command(&mut self, who: &str, line: &str) -> Command {
        let mut words = line.splitn(3, ' ').map(str::trim);
        let (verb, name) = (words.next().expect("a verb"), words.next().expect("a task"));
        let rest = words.next().unwrap_or_default();
        let task = task_named(name);
        let job = self.newest.unwrap_or(JobId(Id(1)));
        let fence = self.model.rows.runs.get(&job).map_or(0, |run| run.fence);
        let agent = super::model::actor("bot");
        let end = |end| Command::WorkEnd { job, fence, end, agent: agent.clone(), reviewer: None };
        match verb {
            "auto" => Command::CardUpdate(Box::new(CardUpdate {
                mode: Some(Mode::Auto),
                ..CardUpdate::of(task)
            })),
            "move" => Command::CardUpdate(Box::new(CardUpdate {
                to: Phase::parse(rest),
                ..CardUpdate::of(task)
            })),
            "submit" | "look" | "run" => {
                let role = if verb == "look" { Role::Reviewer } else { Role::Worker };
                let order = WorkOrder {
                    role,
                    asked_by: super::model::actor(who),
                    instructions: None,
                    model: None,
                };
                let job = JobId(self.number());
                let ttl_s = rest.strip_prefix("ttl=").map_or(14_400, |s| s.parse().expect("s"));
                let (bound_to, waits) = (None, false);
                let start = match verb {
                    "run" => Start::Terminal(TerminalStart {
                        agent: rest.strip_prefix("agent=").map(str::to_owned),
                        take: rest == "take",
                        reopen: rest == "reopen",
                        held_s: if rest == "here" { 60 } else { 0 },
                    }),
                    _ => Start::Board,
                };
                Command::WorkSubmit(WorkSubmit { job, task, order, bound_to, waits, ttl_s, start })
            }
            "tell" => Command::TaskTell { task, text: rest.into() },
            "hear" => Command::TaskHear { task, job, upto: self.model.now },
            "take" => Command::TaskClaim { task },
            "claim" => Command::TaskClaimStartable { task },
            "rent" => Command::LeaseTake { attempt: AttemptId(self.number()), task, lease_s: 60 },
            "lease" | "early" => Command::RunLease(RunLease {
                job,
                kind: JobKind::Work,
                agent: Some(super::model::actor("bot")),
                attempt: AttemptId(self.number()),
                machine: "m1".into(),
                running_max: 1,
                lease_s: 60,
                early: verb == "early",
            }),
            "up" => Command::WorkUp { job, fence, place: WorkPlace::default(), terminal: None },
            "keep" => Command::RunKeep { job, fence, lease_s: 60 },
            "settle" => {
                Command::RunSettle(RunSettle { job, hold_s: 0, attempts_max: 3, is_gone: false })
            }
            "lost" => {
                Command::RunSettle(RunSettle { job, hold_s: 0, attempts_max: 3, is_gone: true })
            }
            "hold" => {
                let left = rest.split(", ").filter(|name| !name.is_empty());
                Command::RunHold { job, fence, left: left.map(str::to_owned).collect() }
            }
            "gone" => Command::WorkGone { job, fence },
            "graph" => Command::TaskTransition { task, to: rest.into(), checked: None, work: None },
            "pair" => Command::CardUpdate(Box::new(CardUpdate {
                mode: Some(Mode::Pair),
                ..CardUpdate::of(task)
            })),
            "merge" => Command::ReviewClear {
                task,
                needs_approval: false,
                checked: None,
                work: None,
                seen: Default::default(),
            },
            "says" => end(WorkEnd::Replied { reply: rest.into(), ending: ending(rest) }),
            "patched" => Command::RunEnd(Box::new(RunEnd {
                job,
                fence,
                verdict: RunVerdict::Succeeded,
                summary: rest.into(),
                artifacts: Vec::new(),
                used: None,
            })),
            "fails" => end(WorkEnd::Failed { reason: "exit 3".into() }),
            "missing" => end(WorkEnd::NotStarted { reason: "no program".into() }),
            "leaves" => end(WorkEnd::Stopped),
            "review" => Command::WorkEnd {
                job,
                fence,
                end: WorkEnd::Replied { reply: rest.into(), ending: ending(rest) },
                agent,
                reviewer: Some(JobId(self.number())),
            },
            "cancel" => Command::RunCancel { job },
            "stop" => Command::WorkStop { job },
            "halt" => {
                let open = self.newest.filter(|id| !self.model.rows.jobs[id].is_over());
                Command::StopQueue { job: JobId(self.number()), task, open }
            }
            "halted" | "resume" => {
                let stops = self.model.rows.jobs.values().filter(|job| job.kind == JobKind::Stop);
                let job = stops.map(|job| job.id).max().unwrap_or(job);
                match verb {
                    "resume" => Command::StopCancel { job },
                    _ => Command::JobTake { job, lease_s: 60 },
                }
            }
            other => panic!("no verb {other}"),
        }
    }

    fn record(&self, id: JobId) -> Option<RunRecord> {
        let (job, run) = self.model.rows.jobs.get(&id).zip(self.model.rows.runs.get(&id))?;
        Some(RunRecord { job: job.clone(), run: run.clone() })
    }

    fn shown(&self, name: &str) -> String {
        let task = self.model.task(name);
        let holder =
            task.assignee.as_ref().map_or("free", |who| who.as_str().trim_start_matches("agent:"));
        let job = match self
            .newest
            .and_then(|id| self.model.rows.jobs.get(&id).zip(self.model.rows.runs.get(&id)))
        {
            Some((job, run)) => {
                let up = if run.up_at.is_some() { "up" } else { "down" };
                format!("{} a{} {up}", job.state.as_str(), run.attempt)
            }
            None => "none".into(),
        };
        format!("{job}, {} {holder}", task.label)
    }
}

fn table(text: &str) {
    let model = Model::new(Policy::default());
    let mut works = Works { model, numbers: 0, newest: None };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (step, expected) = line.split_once("=>").expect("a step => what it answers");
        let (who, rest) = step.trim().split_once(' ').expect("who does what");
        let (rest, expected) = (rest.trim(), expected.trim());
        let name = rest.split_whitespace().nth(1).unwrap_or(rest);
        let answer = match who {
            "clock" => {
                let seconds: i64 = rest.trim_matches(['+', 's']).parse().expect("+60s");
                works.model.now = works.model.now.plus_ms(seconds * 1000);
                continue;
            }
            "made" => {
                let command = works.model.command(&format!("create {rest}"));
                works.model.act("ana", &command).expect("a task is made");
                continue;
            }
            "alive" => {
                let newest = works.newest.and_then(|id| works.record(id));
                if newest.is_some_and(|record| record.is_alive()) {
                    "yes".into()
                } else {
                    "no".into()
                }
            }
            "held" => {
                let newest = works.newest.and_then(|id| works.record(id));
                newest.as_ref().and_then(RunRecord::held).unwrap_or("no").to_owned()
            }
            "told" => {
                let told = works.model.card(rest).told.iter();
                let said: Vec<_> = told.map(|told| told.text.as_str()).collect();
                said.join(", ")
            }
            "notes" => works.model.rows.tasks[&task_named(rest)].scratchpad.clone(),
            "record" => {
                let review = works.model.card(rest).review.as_ref();
                let said = |review: &Review| {
                    let advice = if review.is_advice { ", advice" } else { "" };
                    let by = review.by.as_str().trim_start_matches("agent:");
                    format!("{} by {by}{advice}", review.state.as_str())
                };
                review.map_or("none".into(), said)
            }
            who => {
                let command = works.command(who, rest);
                match works.model.act(who, &command) {
                    Err(refusal) => refusal.code().into(),
                    Ok(change) => {
                        // The newest job is the one that the next steps name.
                        works.newest = works.model.rows.runs.keys().max().copied();
                        if change.writes.is_empty() { "same".into() } else { works.shown(name) }
                    }
                }
            }
        };
        assert_eq!(answer, expected, "\nat: {line}");
    }
}

#[test]
fn from_the_start_to_a_review() {
    table(
        "
        made T =>
        ana submit T                 => TASK_TYPE_MISMATCH
        ana auto T                   => none, backlog free
        ana submit T                 => queued a0 down, backlog free
        ana submit T                 => same
        w1  lease T                  => running a1 down, in_progress bot
        w1  up T                     => running a1 up, in_progress bot
        w1  keep T                   => running a1 up, in_progress bot
        ana submit T                 => done a0 up, in_progress bot
        ",
    );
    table(
        "
        made T =>
        ana auto T                   => none, backlog free
        ana submit T                 => queued a0 down, backlog free
        w1  lease T                  => running a1 down, in_progress bot
        w1  up T                     => running a1 up, in_progress bot
        w1  patched T                => JOB_LOST
        w1  says T <complete/>       => done a1 up, in_review free
        record T                     => requested by bot
        w1  says T <complete/>       => done a1 up, in_review free
        ",
    );
}

#[test]
fn how_a_run_ends_says_where_its_task_goes() {
    for (end, after, notes) in [
        ("says T <complete/>", "done a1 up, in_review free", "<complete/>"),
        ("says T <continue/>", "done a1 up, in_progress free", "<continue/>"),
        ("says T well", "done a1 up, in_progress free", "well"),
        ("fails T", "failed a1 up, backlog free", "exit 3"),
        ("stop T", "canceled a1 up, backlog free", "Stopped"),
        ("cancel T", "same", ""),
        ("move T review", "running a1 up, in_review bot", ""),
        ("move T initial", "canceled a1 up, backlog free", ""),
        ("move T closed_done", "canceled a1 up, done bot", ""),
        ("pair T", "canceled a1 up, backlog free", ""),
        ("graph T in_review", "running a1 up, in_review bot", ""),
        ("graph T backlog", "canceled a1 up, backlog free", ""),
        ("graph T done", "canceled a1 up, done bot", ""),
        ("graph T canceled", "canceled a1 up, canceled bot", ""),
        ("merge T", "AGENT_AT_WORK", ""),
    ] {
        table(&format!(
            "
            made T =>
            ana auto T    => none, backlog free
            ana submit T  => queued a0 down, backlog free
            w1  lease T   => running a1 down, in_progress bot
            w1  up T      => running a1 up, in_progress bot
            w1  {end}     => {after}
            notes T       => {notes}
            "
        ));
    }
}

#[test]
fn a_start_may_be_canceled_while_nobody_is_at_work() {
    table(
        "
        made T =>
        ana auto T       => none, backlog free
        ana submit T     => queued a0 down, backlog free
        ana cancel T     => canceled a0 down, backlog free
        ana cancel T     => same
        ana submit T     => queued a0 down, backlog free
        w1  lease T      => running a1 down, in_progress bot
        ana cancel T     => canceled a1 down, in_progress free
        ",
    );
}

#[test]
fn a_lease_that_is_over_does_not_hold_a_run_back() {
    table(
        "
        made T =>
        ana auto T       => none, backlog free
        bob rent T       => none, backlog bob
        ana submit T     => ALREADY_CLAIMED
        clock +60s       =>
        ana submit T     => queued a0 down, backlog free
        w1  lease T      => running a1 down, in_progress bot
        ",
    );
}

#[test]
fn a_start_at_a_terminal_says_what_it_may_do_to_the_task() {
    table(
        "
        made T =>
        w1  take T            => none, backlog w1
        ana run T             => ALREADY_CLAIMED
        ana run T take        => queued a0 down, backlog free
        w1  lease T           => running a1 down, in_progress bot
        w1  up T              => running a1 up, in_progress bot
        ana run T             => same
        w1  says T <complete/>       => done a1 up, in_review free
        ana graph T done      => done a1 up, done free
        ana run T             => TASK_CLOSED
        ana run T reopen      => queued a0 down, backlog free
        ",
    );
    table(
        "
        made A =>
        made B deps=A =>
        ana run B             => DEPS_NOT_CLOSED
        ana claim B           => DEPS_NOT_CLOSED
        ana graph A done      => none, done free
        ana claim A           => TASK_CLOSED
        ana claim B           => none, backlog human:ana
        ana claim B           => same
        ana run B             => queued a0 down, backlog human:ana
        ana run A reopen      => queued a0 down, backlog free
        ",
    );
    table(
        "
        made T =>
        ana auto T            => none, backlog free
        ana run T here        => queued a0 down, backlog free
        w1  lease T           => JOB_LOST
        ana early T           => running a1 down, in_progress bot
        ",
    );
}

#[test]
fn jobs_of_the_server_are_canceled_by_their_kind() {
    let mut model = Model::new(Policy::default());
    let queue = |job, kind: JobKind| Command::JobQueue { job, kind, key: kind.as_str().into() };
    let [vectors, message] = [JobId(Id(7)), JobId(Id(8))];
    model.act("w1", &queue(vectors, JobKind::Embed)).expect("queued");
    model.act("w1", &queue(message, JobKind::Deliver)).expect("queued");
    let refused = model.act("ana", &Command::JobCancel { job: vectors }).expect_err("refused");
    assert_eq!(refused.code(), "NOT_CANCELABLE");
    model.act("ana", &Command::JobCancel { job: message }).expect("canceled");
    assert_eq!(model.rows.jobs[&message].state.as_str(), "canceled");
    let again = model.act("ana", &Command::JobCancel { job: message }).expect("idempotent");
    assert!(again.writes.is_empty() && again.events.is_empty());
}

#[test]
fn messages_wait_until_an_agent_has_them() {
    table(
        "
        made T =>
        ana tell T one        => none, backlog free
        ana tell T two        => none, backlog free
        told T                => one, two
        w1  hear T            => none, backlog free
        told T                => two
        clock +1s             =>
        w1  hear T            => none, backlog free
        told T                =>
        w1  hear T            => same
        ana tell T            => INVALID_INPUT
        ana graph T done      => none, done free
        ana tell T three      => TASK_CLOSED
        ",
    );
}

#[test]
fn what_leaves_the_review_ends_its_run() {
    table(
        "
        made T =>
        ana auto T            => none, backlog free
        ana submit T          => queued a0 down, backlog free
        w1  lease T           => running a1 down, in_progress bot
        w1  up T              => running a1 up, in_progress bot
        bot move T review     => running a1 up, in_review bot
        ana move T working    => canceled a1 up, in_progress bot
        ",
    );
    for (leave, after) in [
        ("graph T in_progress", "canceled a1 up, in_progress bot"),
        ("graph T backlog", "canceled a1 up, backlog free"),
        ("pair T", "canceled a1 up, in_review bot"),
    ] {
        table(&format!(
            "
            made T =>
            ana auto T            => none, backlog free
            ana submit T          => queued a0 down, backlog free
            w1  lease T           => running a1 down, in_progress bot
            w1  up T              => running a1 up, in_progress bot
            bot move T review     => running a1 up, in_review bot
            ana {leave}           => {after}
            "
        ));
    }
}

#[test]
fn a_run_is_alive_until_its_processes_are_gone() {
    table(
        "
        made T =>
        ana auto T            => none, backlog free
        ana submit T          => queued a0 down, backlog free
        alive T               => no
        w1  lease T           => running a1 down, in_progress bot
        alive T               => yes
        w1  up T              => running a1 up, in_progress bot
        w1  gone T            => same
        ana move T initial    => canceled a1 up, backlog free
        alive T               => yes
        w1  gone T            => canceled a1 up, backlog free
        alive T               => no
        w1  gone T            => same
        ",
    );
    // A lease that lapses says nothing of the processes; a server that is gone took its processes with it.
    for (loss, alive) in [("settle", "yes"), ("lost", "no")] {
        table(&format!(
            "
            made T =>
            ana auto T        => none, backlog free
            ana submit T      => queued a0 down, backlog free
            w1  lease T       => running a1 down, in_progress bot
            w1  up T          => running a1 up, in_progress bot
            clock +61s        =>
            w2  {loss} T      => stale a1 up, in_progress bot
            w2  settle T      => queued a2 up, in_progress free
            alive T           => {alive}
            w2  stop T        => canceled a2 up, backlog free
            alive T           => {alive}
            "
        ));
    }
}

#[test]
fn a_run_that_is_held_back_names_what_it_waits_for() {
    table(
        "
        made T =>
        ana auto T                  => none, backlog free
        ana submit T                => queued a0 down, backlog free
        w1  hold T process 7 (cat)  => JOB_LOST
        w1  lease T                 => running a1 down, in_progress bot
        held T                      => no
        w1  hold T                  => same
        w1  hold T process 7 (cat)  => running a1 down, in_progress bot
        w1  hold T process 7 (cat)  => same
        held T                      => Waiting for process 7 (cat): an earlier run left it
        w1  hold T                  => running a1 down, in_progress bot
        held T                      => no
        w1  up T                    => running a1 up, in_progress bot
        ",
    );
}

#[test]
fn what_never_came_up_is_told() {
    table(
        "
        made T =>
        ana auto T       => none, backlog free
        ana submit T     => queued a0 down, backlog free
        w1  lease T      => running a1 down, in_progress bot
        w1  missing T    => failed a1 down, backlog free
        notes T          => no program
        ",
    );
}

#[test]
fn a_lost_run_is_tried_again_and_then_given_up() {
    table(
        "
        made T =>
        ana auto T       => none, backlog free
        ana submit T     => queued a0 down, backlog free
        w1  lease T      => running a1 down, in_progress bot
        w1  up T         => running a1 up, in_progress bot
        clock +61s       =>
        w2  settle T     => stale a1 up, in_progress bot
        w2  settle T     => queued a2 up, in_progress free
        w1  leaves T     => JOB_LOST
        w1  says T well  => JOB_LOST
        w2  lease T      => running a2 up, in_progress bot
        w2  leaves T     => stale a2 up, in_progress bot
        w2  settle T     => queued a3 up, in_progress free
        w2  lease T      => running a3 up, in_progress bot
        clock +61s       =>
        w1  settle T     => stale a3 up, in_progress bot
        w1  settle T     => failed a3 up, backlog free
        notes T          => Worker lost 3 times
        ",
    );
}

#[test]
fn a_review_holds_nobody_up() {
    table(
        "
        made T =>
        ana auto T                          => none, backlog free
        ana submit T                        => queued a0 down, backlog free
        w1  lease T                         => running a1 down, in_progress bot
        w1  review T <complete/>            => queued a0 down, in_review free
        record T                            => requested by bot
        w1  lease T                         => running a1 down, in_review free
        w1  says T <reject reason=\"no\"/>  => done a1 down, in_review free
        record T                            => rejected by bot, advice
        ana look T                          => queued a0 down, in_review free
        ana submit T                        => queued a0 down, in_review free
        ",
    );
}

#[test]
fn a_machine_has_so_many_places() {
    table(
        "
        made T =>
        made U =>
        ana auto T    => none, backlog free
        ana auto U    => none, backlog free
        ana submit T  => queued a0 down, backlog free
        w1  lease T   => running a1 down, in_progress bot
        ana submit U  => queued a0 down, backlog free
        w1  lease U   => RATE_LIMIT
        ",
    );
}

#[test]
fn a_stop_is_asked_for_once_and_only_if_there_is_something_to_stop() {
    table(
        "
        made T =>
        ana halt T    => TASK_TYPE_MISMATCH
        ana auto T    => none, backlog free
        ana halt T    => NOT_RUNNING
        ana submit T  => queued a0 down, backlog free
        ana halt T    => queued a0 down, backlog free
        ana halt T    => same
        ana resume T  => queued a0 down, backlog free
        ana resume T  => same
        ana halt T    => queued a0 down, backlog free
        w1  halted T  => queued a0 down, backlog free
        ana halt T    => same
        w1  stop T    => canceled a0 down, backlog free
        ",
    );
}
