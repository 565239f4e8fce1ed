//! Bugs between the rules and the rows. Each is a configuration of the exploration that must fail, with the shortest way to
//! its breach.

use super::explore::{
    About, Deed, Exploration, FREE_TASK, HOLDER_ONLY, LEASE_S, LIVE_LEASE, NEW_TOKEN, OLD_RUNNER,
    OLD_TOKEN, ONE_HOLDER, ONE_RUNNER, Situation, job,
};
use super::model::{Model, task_named};
use crate::command::Command;
use crate::runs::job::JobState;
use crate::world::{Change, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    FenceNotCompared,
    ExpiredHolderHeard,
    TakeoverKeepsFence,
    ClaimReadsOldRow,
    LeaseSweptEarly,
    ReleaseNotWritten,
    JobGivenTwice,
    TryNotCompared,
    ExpiredRunnerHeard,
}

impl Bug {
    /// Changes the rows, the clock or the command that the rules get to see.
    pub fn before(self, seen: &mut Model, deed: Deed, command: &mut Command) {
        let half_ms = i64::from(LEASE_S) * 500;
        match (self, deed, command) {
            (Self::FenceNotCompared, _, Command::LeaseUpdate(update)) => update.fence = None,
            (Self::FenceNotCompared, _, Command::LeaseComplete(complete)) => complete.fence = None,
            (
                Self::ExpiredHolderHeard,
                Deed::Renew(_) | Deed::GiveBack(_) | Deed::Complete(_),
                _,
            )
            | (Self::ExpiredRunnerHeard, Deed::JobKeep(_) | Deed::JobEnd(_), _) => {
                seen.now = seen.now.plus_ms(-half_ms);
            }
            (Self::ClaimReadsOldRow, Deed::Take, _) => {
                let now = seen.now;
                *seen = Situation::first().model().clone();
                seen.now = now;
            }
            (Self::LeaseSweptEarly, Deed::Expire(_), _) => seen.now = seen.now.plus_ms(half_ms),
            (Self::JobGivenTwice, Deed::JobTake, _) => {
                let due_at = seen.now;
                let row = seen.desk.rows.jobs.get_mut(&job()).expect("the job");
                row.state = JobState::Queued { due_at };
            }
            (
                Self::TryNotCompared,
                _,
                Command::JobKeep { tries, .. } | Command::JobEnd { tries, .. },
            ) => {
                *tries = seen.rows.jobs[&job()].tries;
            }
            _ => {}
        }
    }

    /// Changes the answer of the rules before it is carried out.
    pub fn after(self, change: &mut Change, deed: Deed) {
        match (self, deed) {
            (Self::TakeoverKeepsFence, Deed::Take | Deed::TakeOver) => {
                for write in &mut change.writes {
                    if let Write::TaskUpdate { task } = write {
                        task.fence = 1;
                    }
                }
            }
            (Self::ReleaseNotWritten, Deed::GiveBack(_)) => {
                let task = task_named("A");
                change.writes.retain(
                    |write| !matches!(write, Write::TaskUpdate { task: it } if it.id == task),
                );
            }
            _ => {}
        }
    }
}

#[test]
fn every_bug_is_found_with_the_shortest_way_to_it() {
    let table = [
        (
            Bug::FenceNotCompared,
            About::Task,
            OLD_TOKEN,
            "w1 takes the task; w1 gives back without a token; w1 takes the task; w1 renews with token 1",
        ),
        (
            Bug::ExpiredHolderHeard,
            About::Task,
            HOLDER_ONLY,
            "w1 takes the task; 30 s pass; 30 s pass; w1 renews without a token",
        ),
        (
            Bug::TakeoverKeepsFence,
            About::Task,
            NEW_TOKEN,
            "w1 takes the task; w1 gives back without a token; w1 takes the task",
        ),
        (Bug::ClaimReadsOldRow, About::Task, ONE_HOLDER, "w1 takes the task; w1 takes the task"),
        (
            Bug::LeaseSweptEarly,
            About::Task,
            LIVE_LEASE,
            "w1 takes the task; 30 s pass; lease 1 is swept",
        ),
        (
            Bug::ReleaseNotWritten,
            About::Task,
            FREE_TASK,
            "w1 takes the task; w1 gives back without a token; w2 takes the task",
        ),
        (Bug::JobGivenTwice, About::Job, ONE_RUNNER, "w1 takes the job; w1 takes the job"),
        (
            Bug::TryNotCompared,
            About::Job,
            OLD_RUNNER,
            "w1 takes the job; w1 ends try 1; w1 takes the job; w1 keeps try 1",
        ),
        (
            Bug::ExpiredRunnerHeard,
            About::Job,
            OLD_RUNNER,
            "w1 takes the job; 30 s pass; 30 s pass; w1 keeps try 1",
        ),
    ];
    let mut wrong = Vec::new();
    for (bug, about, promise, way) in table {
        let of = Exploration::of(about);
        let found = Exploration { bug: Some(bug), promise: Some(promise), ..of }.explored();
        if found != Err((promise, way.split("; ").map(str::to_owned).collect())) {
            wrong.push(format!("{bug:?}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
