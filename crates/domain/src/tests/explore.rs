//! Every order of a few steps on one task and one job: two workers, their leases, their fencing tokens, a clock. The
//! rules are the real ones; this file only keeps a ledger of its own of who was granted what until when.

use std::collections::{BTreeSet, VecDeque};

use super::model::Model;
use crate::command::{Command, JobEnd};
use crate::ids::Id;
use crate::policy::Policy;
use crate::runs::job::{JobId, JobKind};
use crate::time::Timestamp;

/// More grants than this are not tried: the third holder meets everything that the second one did.
const GRANTS_MAX: usize = 3;
const DEPTH_MAX: usize = 8;
/// Leases last 60 seconds, so the clock stands before, at and behind their ends.
const LEASE_S: u32 = 60;
const TICKS_S: [u32; 2] = [30, 59];
const CLOCK_MAX_S: i64 = 240;
const WORKERS: [&str; 2] = ["w1", "w2"];

/// A lease that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    to: &'static str,
    /// Its end; the time at which its holder gave the work back or completed it.
    until: Timestamp,
    is_ended: bool,
}

impl Grant {
    fn is_live(&self, now: Timestamp) -> bool {
        !self.is_ended && now < self.until
    }
}

#[derive(Clone, Copy)]
enum About {
    Task,
    Job,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Tick(u32),
    Take,
    TakeOver,
    /// With the nth grant's fencing token; without any for 0.
    Renew(usize),
    GiveBack(usize),
    Complete(usize),
    Expire(usize),
    JobTake,
    JobKeep(usize),
    JobEnd(usize),
}

#[derive(Clone)]
struct Situation {
    model: Model,
    /// The nth has the fencing token n.
    grants: Vec<Grant>,
    job_grants: Vec<Grant>,
    is_completed: bool,
    way: Vec<String>,
}

fn job() -> JobId {
    JobId(Id(99))
}

impl Situation {
    fn first() -> Self {
        let mut model = Model::new(Policy::default());
        let create = model.command("create A");
        model.act("ana", &create).expect("a new task");
        let queue = Command::JobQueue { job: job(), kind: JobKind::Embed, key: "k".into() };
        model.act("w1", &queue).expect("a new job");
        let (grants, job_grants, way) = Default::default();
        Self { model, grants, job_grants, is_completed: false, way }
    }

    /// What the rules look at, without the history: situations with one key go on alike.
    fn key(&self) -> String {
        let task = self.model.task("A");
        let newest = task.newest_attempt.map(|id| &self.model.rows.attempts[&id].state);
        let job = &self.model.rows.jobs[&job()];
        format!(
            "{:?} {:?} {} {newest:?} {:?} {:?} {:?} {:?} {}",
            task.label,
            task.assignee,
            task.fence,
            job.state,
            self.model.now,
            self.grants,
            self.job_grants,
            self.is_completed,
        )
    }

    /// Everything that can be done next, to the task or to the job: neither looks at the other.
    fn deeds(&self, about: About) -> Vec<(&'static str, Deed)> {
        let mut deeds: Vec<(&'static str, Deed)> = Vec::new();
        let passed = self.model.now.ms_since(Timestamp(1_000_000_000)) / 1000;
        for tick in TICKS_S.into_iter().filter(|s| passed + i64::from(*s) <= CLOCK_MAX_S) {
            deeds.push(("clock", Deed::Tick(tick)));
        }
        for who in WORKERS {
            match about {
                About::Task => self.task_deeds(who, &mut deeds),
                About::Job => self.job_deeds(who, &mut deeds),
            }
        }
        deeds
    }

    fn task_deeds(&self, who: &'static str, deeds: &mut Vec<(&'static str, Deed)>) {
        if self.grants.len() < GRANTS_MAX {
            deeds.extend([(who, Deed::Take), (who, Deed::TakeOver)]);
        }
        // No token, this worker's own, and those of the other.
        for n in 0..=self.grants.len() {
            deeds.extend([(who, Deed::Renew(n)), (who, Deed::GiveBack(n))]);
            deeds.push((who, Deed::Complete(n)));
        }
        deeds.extend((1..=self.grants.len()).map(|n| (who, Deed::Expire(n))));
    }

    fn job_deeds(&self, who: &'static str, deeds: &mut Vec<(&'static str, Deed)>) {
        if self.job_grants.len() < GRANTS_MAX {
            deeds.push((who, Deed::JobTake));
        }
        for n in 1..=self.job_grants.len() {
            deeds.extend([(who, Deed::JobKeep(n)), (who, Deed::JobEnd(n))]);
        }
    }

    fn command(&mut self, deed: Deed) -> Command {
        let fence = |n: usize| if n == 0 { String::new() } else { format!("fence={n}") };
        let next = self.grants.len() + 1;
        let line = match deed {
            Deed::Take => format!("take A as=l{next}"),
            Deed::TakeOver => format!("begin A lease takeover as=l{next}"),
            Deed::Renew(n) => format!("update A working {}", fence(n)),
            Deed::GiveBack(n) => format!("update A free {}", fence(n)),
            Deed::Complete(n) => format!("complete A {}", fence(n)),
            Deed::Expire(n) => format!("expire l{n}"),
            Deed::JobTake => return Command::JobTake { job: job(), lease_s: LEASE_S },
            Deed::JobKeep(n) => {
                return Command::JobKeep { job: job(), tries: n as u32, lease_s: LEASE_S };
            }
            Deed::JobEnd(n) => {
                let end = JobEnd::Again { after_s: 0 };
                return Command::JobEnd { job: job(), tries: n as u32, end };
            }
            Deed::Tick(_) => unreachable!("the clock is no command"),
        };
        self.model.command(&line)
    }

    /// Does the deed and compares the answer with the ledger.
    fn done(&self, who: &'static str, deed: Deed) -> Self {
        let mut next = self.clone();
        next.way.push(format!("{who} {deed:?}"));
        if let Deed::Tick(seconds) = deed {
            next.model.now = next.model.now.plus_s(seconds);
            return next;
        }
        let command = next.command(deed);
        let answer = next.model.act(who, &command).map(|change| !change.is_empty());
        let (now, until) = (next.model.now, next.model.now.plus_s(LEASE_S));
        let grant = Grant { to: who, until, is_ended: false };
        let way = next.way.join(", ");
        match deed {
            Deed::Take | Deed::TakeOver => {
                let holder = self.grants.last().filter(|last| last.is_live(now));
                match answer {
                    Ok(true) => {
                        assert_eq!(holder, None, "a second holder: {way}");
                        next.grants.push(grant);
                        let fence = next.model.task("A").fence;
                        assert_eq!(fence as usize, next.grants.len(), "no new token: {way}");
                    }
                    Ok(false) => assert!(holder.is_some_and(|it| it.to == who), "{way}"),
                    Err(_) => {
                        let is_free = holder.is_none() && !self.is_completed;
                        assert!(!is_free || deed == Deed::TakeOver, "a free task is lost: {way}");
                    }
                }
            }
            Deed::Renew(n) | Deed::GiveBack(n) | Deed::Complete(n) => {
                if answer != Ok(true) {
                    return next;
                }
                let newest = self.grants.len();
                assert!(n == 0 || n == newest, "an old token was accepted: {way}");
                let last = next.grants.last_mut().expect("a holder");
                assert!(last.is_live(now) && last.to == who, "no holder was accepted: {way}");
                match deed {
                    Deed::Renew(_) => last.until = until,
                    _ => last.is_ended = true,
                }
                next.is_completed |= matches!(deed, Deed::Complete(_));
            }
            Deed::Expire(n) => {
                let grant = &mut next.grants[n - 1];
                if answer == Ok(true) {
                    assert!(!grant.is_live(now), "a live lease ended: {way}");
                    grant.is_ended = true;
                }
            }
            Deed::JobTake => {
                let holder = self.job_grants.last().filter(|last| last.is_live(now));
                assert_eq!(answer == Ok(true), holder.is_none(), "two runners or none: {way}");
                if answer == Ok(true) {
                    next.job_grants.push(grant);
                }
            }
            Deed::JobKeep(n) | Deed::JobEnd(n) => {
                let holds = self.job_grants[n - 1].is_live(now)
                    && self.job_grants[n - 1].to == who
                    && n == self.job_grants.len();
                assert_eq!(answer == Ok(true), holds, "an old runner, or none: {way}");
                let grant = &mut next.job_grants[n - 1];
                match deed {
                    Deed::JobKeep(_) if holds => grant.until = until,
                    Deed::JobEnd(_) if holds => grant.is_ended = true,
                    _ => {}
                }
            }
            Deed::Tick(_) => {}
        }
        next
    }
}

/// Tries every order of up to `DEPTH_MAX` steps; returns how many situations there are.
fn explored(about: About) -> usize {
    let first = Situation::first();
    let mut known = BTreeSet::from([first.key()]);
    let mut open = VecDeque::from([first]);
    while let Some(situation) = open.pop_front() {
        if situation.way.len() == DEPTH_MAX {
            continue;
        }
        for (who, deed) in situation.deeds(about) {
            let next = situation.done(who, deed);
            if known.insert(next.key()) {
                open.push_back(next);
            }
        }
    }
    known.len()
}

#[test]
fn no_order_of_steps_gives_a_task_two_holders_or_accepts_an_old_token() {
    let situations = explored(About::Task);
    assert!(situations > 1_000, "{situations} situations");
}

#[test]
fn no_order_of_steps_gives_a_job_two_runners_or_accepts_an_old_one() {
    let situations = explored(About::Job);
    assert!(situations > 1_000, "{situations} situations");
}
