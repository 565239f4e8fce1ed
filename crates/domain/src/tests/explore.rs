//! Every order of a few steps on one task and one job: two workers, their leases, their fencing tokens, a clock.
//! The checker of `stateright` tries the orders. `decide` answers each step, so no rule is written here a second time;
//! this file keeps a ledger of who was granted a lease until when, and the promises that the ledger must keep.
//!
//! The bugs of `explore_bugs` stand between `decide` and the ledger. The checker has to find each of them.

use std::fmt;
use std::hash::{Hash, Hasher};

use stateright::{Checker, HasDiscoveries, Model as _, Property};

use super::explore_bugs::Bug;
use super::model::Model;
use crate::command::{Command, JobEnd};
use crate::ids::Id;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::runs::job::{JobId, JobKind};
use crate::time::Timestamp;

/// More grants than this are not tried: the third holder meets everything that the second one did.
const GRANTS_MAX: usize = 3;
/// Steps of a usual run. `CALLBOARD_PROOF_TIMES` lifts the limit: grants and clock have ends, so the situations do, too.
const STEPS_MAX: usize = 8;
/// Leases last 60 seconds, so the clock stands before, at and behind their ends.
pub const LEASE_S: u32 = 60;
const TICKS_S: [u32; 2] = [30, 59];
const CLOCK_MAX_S: i64 = 240;
const WORKERS: [&str; 2] = ["w1", "w2"];

/// A lease that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Task,
    Job,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    who: &'static str,
    pub deed: Deed,
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = |n: usize| match n {
            0 => "without a token".to_owned(),
            n => format!("with token {n}"),
        };
        let who = self.who;
        match self.deed {
            Deed::Tick(seconds) => write!(out, "{seconds} s pass"),
            Deed::Take => write!(out, "{who} takes the task"),
            Deed::TakeOver => write!(out, "{who} takes the task over"),
            Deed::Renew(n) => write!(out, "{who} renews {}", with(n)),
            Deed::GiveBack(n) => write!(out, "{who} gives back {}", with(n)),
            Deed::Complete(n) => write!(out, "{who} completes {}", with(n)),
            Deed::Expire(n) => write!(out, "lease {n} is swept"),
            Deed::JobTake => write!(out, "{who} takes the job"),
            Deed::JobKeep(n) => write!(out, "{who} keeps try {n}"),
            Deed::JobEnd(n) => write!(out, "{who} ends try {n}"),
        }
    }
}

/// A promise about a single answer. The promises about the ledger as a whole are read from the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Broken {
    OldTokenHeard,
    StrangerHeard,
    HolderRefused,
    LiveLeaseEnded,
    FreeTaskRefused,
    OldRunnerHeard,
    RunnerRefused,
    FreeJobRefused,
}

pub const ONE_HOLDER: &str = "a task has at most one holder";
pub const NEW_TOKEN: &str = "every holder has a token of its own";
pub const OLD_TOKEN: &str = "an older token is refused";
pub const HOLDER_ONLY: &str = "only a holder within its lease is heard";
pub const HOLDER_HEARD: &str = "a holder within its lease is heard";
pub const LIVE_LEASE: &str = "a lease does not end before its time";
pub const FREE_TASK: &str = "a free task can be taken";
pub const ONE_RUNNER: &str = "a job has at most one runner";
pub const OLD_RUNNER: &str = "a runner of an older try is refused";
pub const RUNNER_HEARD: &str = "a runner within its lease is heard";
pub const FREE_JOB: &str = "a free job can be taken";

#[derive(Clone)]
pub struct Situation {
    model: Model,
    /// The nth has the fencing token n.
    grants: Vec<Grant>,
    job_grants: Vec<Grant>,
    is_completed: bool,
    broken: Option<Broken>,
    /// No part of the key: the checker meets a situation first on a shortest way.
    steps: usize,
}

pub fn job() -> JobId {
    JobId(Id(99))
}

impl Situation {
    pub fn first() -> Self {
        let mut model = Model::new(Policy::default());
        let create = model.command("create A");
        model.act("ana", &create).expect("a new task");
        let queue = Command::JobQueue { job: job(), kind: JobKind::Embed, key: "k".into() };
        model.act("w1", &queue).expect("a new job");
        let (grants, job_grants) = Default::default();
        Self { model, grants, job_grants, is_completed: false, broken: None, steps: 0 }
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What the rules look at, without the history: situations with one key go on alike.
    fn key(&self) -> impl Hash + PartialEq {
        let task = self.model.task("A");
        let newest = task.newest_attempt.map(|id| &self.model.rows.attempts[&id].state);
        let rules = format!(
            "{:?} {:?} {} {newest:?} {:?}",
            task.label,
            task.assignee,
            task.fence,
            self.model.rows.jobs[&job()].state,
        );
        let ledger = (self.grants.clone(), self.job_grants.clone(), self.is_completed);
        (rules, self.model.now, ledger, self.broken)
    }

    fn live(&self, grants: &[Grant]) -> usize {
        grants.iter().filter(|grant| grant.is_live(self.model.now)).count()
    }

    fn task_steps(&self, who: &'static str, deeds: &mut Vec<Deed>) {
        if self.grants.len() < GRANTS_MAX {
            deeds.extend([Deed::Take, Deed::TakeOver]);
        }
        // No token, this worker's own, and those of the other.
        for n in 0..=self.grants.len() {
            deeds.extend([Deed::Renew(n), Deed::GiveBack(n), Deed::Complete(n)]);
        }
        // The sweep is no worker's.
        if who == WORKERS[0] {
            deeds.extend((1..=self.grants.len()).map(Deed::Expire));
        }
    }

    fn job_steps(&self, deeds: &mut Vec<Deed>) {
        if self.job_grants.len() < GRANTS_MAX {
            deeds.push(Deed::JobTake);
        }
        for n in 1..=self.job_grants.len() {
            deeds.extend([Deed::JobKeep(n), Deed::JobEnd(n)]);
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

    /// Enters an answer into the ledger. `before` is the situation in which the step was asked for.
    fn enter(&mut self, before: &Self, step: Step, answer: &Result<bool, Refusal>) {
        let (now, until) = (self.model.now, self.model.now.plus_s(LEASE_S));
        let is_accepted = *answer == Ok(true);
        let new = Grant { to: step.who, until, is_ended: false };
        // The last grant, if it is live.
        let holder = |grants: &[Grant]| grants.last().copied().filter(|last| last.is_live(now));
        match step.deed {
            Deed::Tick(_) => {}
            Deed::Take | Deed::TakeOver => {
                let holder = holder(&before.grants);
                let is_free = holder.is_none() && !before.is_completed;
                match answer {
                    Ok(true) => self.grants.push(new),
                    Ok(false) if holder.is_some_and(|it| it.to == step.who) => {}
                    Ok(false) => self.broken = Some(Broken::StrangerHeard),
                    // Without an earlier attempt there is nothing to take over.
                    Err(_) if is_free && step.deed == Deed::Take => {
                        self.broken = Some(Broken::FreeTaskRefused);
                    }
                    Err(_) => {}
                }
            }
            Deed::Renew(n) | Deed::GiveBack(n) | Deed::Complete(n) => {
                let is_holder = holder(&before.grants).is_some_and(|it| it.to == step.who);
                let is_newest = n == 0 || n == before.grants.len();
                self.broken = match (is_accepted, is_holder, is_newest) {
                    (true, true, false) => Some(Broken::OldTokenHeard),
                    (true, false, _) => Some(Broken::StrangerHeard),
                    (false, true, true) => Some(Broken::HolderRefused),
                    (true, true, true) | (false, _, _) => None,
                };
                let Some(last) = self.grants.last_mut().filter(|_| is_accepted) else { return };
                match step.deed {
                    Deed::Renew(_) => last.until = until,
                    _ => last.is_ended = true,
                }
                self.is_completed |= matches!(step.deed, Deed::Complete(_));
            }
            Deed::Expire(n) if is_accepted => {
                let grant = &mut self.grants[n - 1];
                if grant.is_live(now) {
                    self.broken = Some(Broken::LiveLeaseEnded);
                }
                grant.is_ended = true;
            }
            Deed::Expire(_) => {}
            Deed::JobTake if is_accepted => self.job_grants.push(new),
            Deed::JobTake => {
                if holder(&before.job_grants).is_none() {
                    self.broken = Some(Broken::FreeJobRefused);
                }
            }
            Deed::JobKeep(n) | Deed::JobEnd(n) => {
                let is_runner = n == before.job_grants.len()
                    && holder(&before.job_grants).is_some_and(|it| it.to == step.who);
                self.broken = match (is_accepted, is_runner) {
                    (true, false) => Some(Broken::OldRunnerHeard),
                    (false, true) => Some(Broken::RunnerRefused),
                    (true, true) | (false, false) => None,
                };
                let grant = &mut self.job_grants[n - 1];
                match step.deed {
                    Deed::JobKeep(_) if is_accepted => grant.until = until,
                    Deed::JobEnd(_) if is_accepted => grant.is_ended = true,
                    _ => {}
                }
            }
        }
    }
}

impl PartialEq for Situation {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Hash for Situation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

type Promise = (&'static str, fn(&Exploration, &Situation) -> bool);

/// One exploration: the task or the job, which do not look at each other.
#[derive(Clone, Copy)]
pub struct Exploration {
    pub about: About,
    pub bug: Option<Bug>,
    /// Looks for a breach of this promise alone. The checker then ends at the first breach, which is a shortest one.
    pub promise: Option<&'static str>,
    pub is_unlimited: bool,
}

impl Exploration {
    pub fn of(about: About) -> Self {
        let is_unlimited = std::env::var_os("CALLBOARD_PROOF_TIMES").is_some();
        Self { about, bug: None, promise: None, is_unlimited }
    }

    /// Returns how many situations there are, or the promise that is broken and the shortest way there, in words.
    pub fn explored(self) -> Result<usize, (&'static str, Vec<String>)> {
        // One thread goes by breadth: no way that is longer is looked at before all that are shorter.
        let any = || self.checker().threads(1).finish_when(HasDiscoveries::Any);
        let checker = any().spawn_bfs().join();
        let found = checker.discoveries();
        let Some(promise) = self.promise.filter(|promise| found.contains_key(promise)) else {
            // The checker looks at many situations before it ends, and promises may break in several of them.
            let names = self.properties().into_iter().map(|property| property.name);
            let broken = names.filter(|name| found.contains_key(name));
            let breaches = broken.map(|name| Self { promise: Some(name), ..self }.explored());
            let breach = breaches.filter_map(Result::err).min_by_key(|(_, way)| way.len());
            return breach.map_or_else(|| Ok(checker.unique_state_count()), Err);
        };
        let steps = checker.discovery(promise).expect("a breach was found").into_actions();
        Err((promise, steps.iter().map(Step::to_string).collect()))
    }
}

impl stateright::Model for Exploration {
    type State = Situation;
    type Action = Step;

    fn init_states(&self) -> Vec<Situation> {
        vec![Situation::first()]
    }

    fn actions(&self, situation: &Situation, steps: &mut Vec<Step>) {
        let passed = situation.model.now.ms_since(Timestamp(1_000_000_000)) / 1000;
        for seconds in TICKS_S.into_iter().filter(|s| passed + i64::from(*s) <= CLOCK_MAX_S) {
            steps.push(Step { who: "clock", deed: Deed::Tick(seconds) });
        }
        for who in WORKERS {
            let mut deeds = Vec::new();
            match self.about {
                About::Task => situation.task_steps(who, &mut deeds),
                About::Job => situation.job_steps(&mut deeds),
            }
            steps.extend(deeds.into_iter().map(|deed| Step { who, deed }));
        }
    }

    fn next_state(&self, before: &Situation, step: Step) -> Option<Situation> {
        let mut next = before.clone();
        next.steps += 1;
        if let Deed::Tick(seconds) = step.deed {
            next.model.now = next.model.now.plus_s(seconds);
            return Some(next);
        }
        let mut command = next.command(step.deed);
        if let Some(bug) = self.bug {
            bug.before(&mut next.model, step.deed, &mut command);
        }
        let decided = next.model.decided(step.who, &command);
        let answer = decided.map(|mut change| {
            if let Some(bug) = self.bug {
                next.model = before.model.clone();
                bug.after(&mut change, step.deed);
            }
            next.model.carry_out(&change);
            !change.is_empty()
        });
        // A commit clears these two. The rules do not look at them.
        next.model.touched = Default::default();
        next.model.events.clear();
        next.enter(before, step, &answer);
        (answer == Ok(true) || next.broken.is_some()).then_some(next)
    }

    fn within_boundary(&self, situation: &Situation) -> bool {
        self.is_unlimited || situation.steps <= STEPS_MAX
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let promises: Vec<Promise> = match self.about {
            About::Task => vec![
                (ONE_HOLDER, |_, now| now.live(&now.grants) <= 1),
                (NEW_TOKEN, |_, now| now.model.task("A").fence as usize == now.grants.len()),
                (OLD_TOKEN, |_, now| now.broken != Some(Broken::OldTokenHeard)),
                (HOLDER_ONLY, |_, now| now.broken != Some(Broken::StrangerHeard)),
                (HOLDER_HEARD, |_, now| now.broken != Some(Broken::HolderRefused)),
                (LIVE_LEASE, |_, now| now.broken != Some(Broken::LiveLeaseEnded)),
                (FREE_TASK, |_, now| now.broken != Some(Broken::FreeTaskRefused)),
            ],
            About::Job => vec![
                (ONE_RUNNER, |_, now| now.live(&now.job_grants) <= 1),
                (OLD_RUNNER, |_, now| now.broken != Some(Broken::OldRunnerHeard)),
                (RUNNER_HEARD, |_, now| now.broken != Some(Broken::RunnerRefused)),
                (FREE_JOB, |_, now| now.broken != Some(Broken::FreeJobRefused)),
            ],
        };
        let is_asked = |name: &str| self.promise.is_none_or(|asked| asked == name);
        let asked = promises.into_iter().filter(|(name, _)| is_asked(name));
        asked.map(|(name, is_kept)| Property::always(name, is_kept)).collect()
    }
}

fn all_kept(about: About) -> usize {
    match Exploration::of(about).explored() {
        Ok(situations) => situations,
        Err((promise, way)) => {
            panic!("not kept: {promise}\nthe shortest way there: {}", way.join("; "))
        }
    }
}

#[test]
fn no_order_of_steps_gives_a_task_two_holders_or_accepts_an_old_token() {
    let situations = all_kept(About::Task);
    assert!(situations > 20_000, "{situations} situations");
}

#[test]
fn no_order_of_steps_gives_a_job_two_runners_or_accepts_an_old_one() {
    let situations = all_kept(About::Job);
    assert!(situations > 10_000, "{situations} situations");
}
