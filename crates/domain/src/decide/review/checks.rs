//! Checks that run automatically when a task comes into review: a job, queued in the transaction that brings the
//! task there.

use serde_json::json;

use crate::command::Command;
use crate::crew::state::TaskState;
use crate::decide::runs::work;
use crate::decide::task::verification;
use crate::event::{About, Event, EventName};
use crate::needs::{check_job, check_key};
use crate::policy::{ChecksOnReview, Phase, Policy};
use crate::runs::job::{Job, JobKind};
use crate::runs::work::Role;
use crate::task::contract::{VerificationKind, VerificationStatus};
use crate::task::{Check, Task};
use crate::time::Timestamp;
use crate::world::{Change, World, Write};

/// What brought a task into review.
enum Way {
    /// The work of a run that a server of this board started, or a request for review.
    Work,
    Other,
}

pub(crate) fn checks_queued(
    world: &World<'_>,
    command: &Command,
    change: &mut Change,
    now: Timestamp,
) {
    let Some(task) = after(world, change).filter(|task| task.phase == Phase::Review) else {
        return;
    };
    let wanted = match (way(world, command), world.policy.checks_on_review) {
        (Some(Way::Work), ChecksOnReview::Runs | ChecksOnReview::Always)
        | (Some(Way::Other), ChecksOnReview::Always) => true,
        (_, ChecksOnReview::Never) | (Some(Way::Other), ChecksOnReview::Runs) | (None, _) => false,
    };
    let has_commands = task.checks.iter().any(Check::is_command);
    if !wanted || change.is_empty() || !has_commands || verifier_runs_them(task, world.policy) {
        return;
    }
    let key = check_key(task.id);
    let job = Job::queued(check_job(task.id), JobKind::Check, key, Some(task.id), now);
    let about = About { project: task.project, task: task.id, attempt: None };
    let data = json!({"job": job.id.to_string(), "kind": job.kind, "state": job.state.as_str()});
    let (actor, name) = (world.actor.clone(), EventName::JobQueued);
    change.events.push(Event { actor, name, about: Some(about), data });
    change.writes.push(Write::JobPut { job });
}

/// The subject as the change leaves it.
fn after<'c>(world: &'c World<'_>, change: &'c Change) -> Option<&'c Task> {
    let written = change.writes.iter().rev().find_map(|write| match write {
        Write::TaskInsert { task, .. } => Some(task),
        Write::TaskUpdate { task } => Some(task),
        _ => None,
    });
    written.or(world.subject.as_ref().map(|subject| &subject.task))
}

/// How a command brings the task into review; `None` for a task that was in review before and gets no new work.
fn way(world: &World<'_>, command: &Command) -> Option<Way> {
    let was = world.subject.as_ref().map(|subject| subject.task.phase);
    let role = world.run.as_ref().and_then(work::role);
    match command {
        Command::ReviewRequest { .. } => Some(Way::Work),
        // An agent that requested the review itself may have worked on after that.
        Command::WorkEnd { .. } => match role {
            Some(Role::Worker | Role::Crew) => Some(Way::Work),
            Some(Role::Reviewer) | None => None,
        },
        Command::CrewMove(c) if c.to == TaskState::Review && role == Some(Role::Crew) => {
            Some(Way::Work)
        }
        _ => (was != Some(Phase::Review)).then_some(Way::Other),
    }
}

/// Whether a pending verification runs the commands itself.
fn verifier_runs_them(task: &Task, policy: &Policy) -> bool {
    let status = task.verification.as_ref().map(|known| known.status);
    status == Some(VerificationStatus::Pending)
        && verification::contract(task, policy).kind == VerificationKind::Commands
}
