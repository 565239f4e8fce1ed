//! Leases: take a task for a while, keep it, give it back, complete it. A holder that stays silent past the expiry
//! loses the task, and the fencing token refuses its late calls.

use serde_json::json;

use crate::command::{LeaseComplete, LeaseTarget, LeaseUpdate};
use crate::decide::draft::{Draft, NewAttempt};
use crate::decide::input;
use crate::decide::knowledge;
use crate::decide::runs::stop;
use crate::decide::task;
use crate::decide::task::check;
use crate::decide::task::verification;
use crate::event::EventName;
use crate::forge::ForgeRef;
use crate::ids::{AttemptId, TaskId};
use crate::limits::{OUTPUT_BYTES_MAX, OUTPUT_SHOWN_CHARS, REASON_CHARS_MAX};
use crate::policy::Phase;
use crate::refusal::{Quota, Refusal, Unactionable};
use crate::task::Task;
use crate::task::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState, Lease};
use crate::task::contract::{VerificationKind, VerificationStatus};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// Leases a task. The order of refusals is part of the contract: who holds it, a blocker, its state, its deps, a plan.
/// A caller that has the lease already gets it again, unchanged.
pub(crate) fn lease_take(
    world: &World<'_>,
    id: AttemptId,
    task: TaskId,
    lease_s: u32,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, task, now)?;
    let stuck = |why| Err(Refusal::NotActionable { task, why });
    let standing = draft.standing();
    // The assignee of a task in review or closed only keeps the credit. The refusal must not suggest to wait for
    // that assignee.
    let over = match standing.phase {
        Phase::Initial | Phase::Working => false,
        Phase::Review | Phase::ClosedDone | Phase::ClosedCanceled => draft.live.is_none(),
    };
    if let Some(refusal) = draft.held_by_another().filter(|_| !over) {
        return Err(refusal);
    }
    match draft.live.as_ref().map(|live| live.kind) {
        None => {}
        Some(AttemptKind::Execution) => return Ok(draft.unchanged(Reply::Task(task))),
        // The caller's own attempt of another toolset: it must be ended there first.
        Some(AttemptKind::Graph | AttemptKind::Pair | AttemptKind::Crew | AttemptKind::Job) => {
            return Err(draft.claimed_by(world.actor));
        }
    }
    if let Some(blocker) = draft.subject.blockers.first() {
        return stuck(Unactionable::Blocker(blocker.id));
    }
    if over {
        return stuck(Unactionable::Standing(standing));
    }
    draft.deps_gate()?;
    let mine = draft.task.assignee.as_ref() == Some(world.actor);
    match standing.phase {
        Phase::Initial => {}
        // A task that was given up in the middle starts again from the beginning.
        Phase::Working if standing.given_up || mine => draft.back_to_start(),
        Phase::Working | Phase::Review | Phase::ClosedDone | Phase::ClosedCanceled => {
            return stuck(Unactionable::Standing(standing));
        }
    }
    if draft.task.is_plan {
        return stuck(Unactionable::Plan);
    }
    let attempt = NewAttempt::of(id, AttemptKind::Execution, world.actor.clone());
    draft.begin(NewAttempt { lease_s: Some(lease_s), ..attempt });
    if !mine {
        draft.assign();
    }
    draft.attempt_entry("claimed", Some(format!("for {lease_s} s")), id);
    Ok(draft.done())
}

/// The attempt a caller speaks for. Without a live attempt, the actor of the newest one still counts for a task in
/// review or closed: it is then told what is wrong instead of who holds the task.
fn holder(draft: &Draft<'_>, fence: Option<u64>) -> Result<Option<Attempt>, Refusal> {
    let (task, actor) = (draft.task.id, draft.actor().clone());
    let last = match &draft.live {
        Some(live) => Some(live),
        None => match draft.standing().phase {
            Phase::Initial | Phase::Working => {
                return Err(Refusal::NotHolder { task, actor, holder: None });
            }
            Phase::Review | Phase::ClosedDone | Phase::ClosedCanceled => {
                draft.subject.newest.as_ref()
            }
        },
    };
    if let Some(last) = last.filter(|last| last.actor != actor) {
        return Err(Refusal::NotHolder { task, actor, holder: Some(last.actor.clone()) });
    }
    let current = draft.task.fence;
    match fence.filter(|fence| *fence != current) {
        Some(given) => Err(Refusal::StaleFence { task, given, current }),
        None => Ok(draft.live.clone()),
    }
}

/// The refusal of a step that the task's state does not have. It says whether the caller has completed the task before,
/// because a repeated completion is the usual reason.
fn illegal(draft: &Draft<'_>, to: &'static str) -> Refusal {
    let last = draft.subject.newest.as_ref();
    let finished = |attempt: &Attempt| match &attempt.state {
        AttemptState::Ended { end: AttemptEnd::Finished { .. }, .. } => true,
        AttemptState::Ended { .. } | AttemptState::Live { .. } => false,
    };
    Refusal::IllegalMove {
        task: draft.task.id,
        from: draft.standing(),
        to,
        completed_by_caller: last
            .is_some_and(|last| last.actor == *draft.actor() && finished(last)),
        failed: failure(&draft.task),
    }
}

/// A holder's step: go on, give the task back, or give it up. A step that changes nothing writes nothing.
pub(crate) fn lease_update(
    world: &World<'_>,
    update: &LeaseUpdate,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if let Some(note) = &update.note {
        input::said("note", note, REASON_CHARS_MAX, "note cannot be blank")?;
    }
    let mut draft = Draft::of_task(world, update.task, now)?;
    let live = holder(&draft, update.fence)?;
    let (Some(live), LeaseTarget::Working | LeaseTarget::Free | LeaseTarget::Canceled) =
        (live, &update.to)
    else {
        return Err(illegal(&draft, update.asked));
    };
    match &update.to {
        LeaseTarget::Working => keep(&mut draft, live, update)?,
        // Work that waits for its review is not given back; `task_reopen` is the way.
        LeaseTarget::Free => {
            if draft.task.phase == Phase::Review {
                return Err(illegal(&draft, update.asked));
            }
            draft.end_live(AttemptEnd::Released);
            draft.back_to_start();
            draft.unassign();
            draft.attempt_entry("released", update.note.clone(), live.id);
        }
        LeaseTarget::Canceled => cancel(&mut draft, &live, update)?,
        LeaseTarget::Elsewhere => return Err(illegal(&draft, update.asked)),
    }
    if let Some(note) = &update.note {
        draft.event(EventName::TaskNoted, json!({"text": note}));
    }
    if draft.has_changes() {
        Ok(draft.done())
    } else {
        Ok(draft.unchanged(Reply::Task(update.task)))
    }
}

/// Starts the work or goes on with it: the heartbeat.
fn keep(draft: &mut Draft<'_>, live: Attempt, update: &LeaseUpdate) -> Result<(), Refusal> {
    let starts = match draft.task.phase {
        Phase::Initial => {
            draft.deps_gate()?;
            let working = draft.world.policy.working().cloned();
            if let Some(working) = &working {
                draft.move_to(working);
            }
            working.is_some()
        }
        Phase::Working => false,
        Phase::Review | Phase::ClosedDone | Phase::ClosedCanceled => {
            return Err(illegal(draft, update.asked));
        }
    };
    if update.extend {
        let AttemptState::Live { progress, lease, .. } = &live.state else {
            return Err(illegal(draft, update.asked));
        };
        let lease =
            lease.map(|lease| Lease { expires_at: draft.now.plus_s(lease.granted_s), ..lease });
        let progress = progress.clone();
        let state = AttemptState::Live { heartbeat_at: draft.now, progress, lease };
        let attempt = Attempt { state, ..live.clone() };
        draft.live = Some(attempt.clone());
        draft.write(Write::AttemptUpdate { attempt });
        draft.attempt_event(EventName::AttemptHeartbeat, live.id, json!({}));
    }
    let did = if starts { "started" } else { "heartbeat" };
    if starts || update.note.is_some() {
        draft.attempt_entry(did, update.note.clone(), live.id);
    } else if update.extend {
        draft.heartbeat_entry(live.id);
    }
    Ok(())
}

/// Closes the task as canceled, if its labels have such a state and the gates allow it.
fn cancel(draft: &mut Draft<'_>, live: &Attempt, update: &LeaseUpdate) -> Result<(), Refusal> {
    let policy = draft.world.policy;
    let reachable = match draft.task.phase {
        Phase::Initial => draft.task.open_deps == 0,
        Phase::Working => true,
        Phase::Review | Phase::ClosedDone | Phase::ClosedCanceled => false,
    };
    let label = policy.first_of(Phase::ClosedCanceled).cloned().filter(|_| reachable);
    let Some(label) = label else { return Err(illegal(draft, update.asked)) };
    if policy.gate_canceled {
        recorded_checks(draft)?;
    }
    draft.end_live(AttemptEnd::Canceled { reason: "task canceled".into() });
    draft.task.assignee = None;
    draft.event(EventName::TaskCanceled, json!({"was": draft.task.label}));
    stop::moved(draft, &label);
    draft.attempt_entry("canceled the task", update.note.clone(), live.id);
    Ok(())
}

/// Refuses a task with checks that do not pass. No check is run here, so the recorded results count.
fn recorded_checks(draft: &Draft<'_>) -> Result<(), Refusal> {
    let unmet = check::unmet(&draft.task, |check| check.result() == "pass");
    let task = draft.task.id;
    if unmet.is_empty() { Ok(()) } else { Err(Refusal::ChecksNotPassed { task, checks: unmet }) }
}

/// Why the verification of a task failed; `None` if it did not.
fn failure(task: &Task) -> Option<String> {
    let known = task.verification.as_ref()?;
    (known.status == VerificationStatus::Failed).then(|| known.reason.clone().unwrap_or_default())
}

/// Completes a task with an output. Without a contract the task is done at once, if its recorded checks pass; else it
/// goes to review and a verification begins.
pub(crate) fn lease_complete(
    world: &World<'_>,
    complete: &LeaseComplete,
    now: Timestamp,
) -> Result<Change, Refusal> {
    // Judged first: no rule about the task matters for an output that cannot be kept.
    if complete.output.is_empty() || complete.output.len() > OUTPUT_BYTES_MAX {
        let got = complete.output.len();
        let words = format!("output must be 1..{OUTPUT_BYTES_MAX} bytes, got {got}");
        return Err(Refusal::invalid(words));
    }
    let learned = knowledge::learnings(complete.task, &complete.learnings, world.actor, now)?;
    let mut draft = Draft::of_task(world, complete.task, now)?;
    let live = holder(&draft, complete.fence)?;
    let workable = matches!(draft.task.phase, Phase::Initial | Phase::Working);
    let Some(live) = live.filter(|_| workable) else { return Err(illegal(&draft, "done")) };
    let contract = verification::contract(&draft.task, world.policy);
    input::external_ref(contract.kind, complete.external_ref.as_deref())?;
    if draft.task.phase == Phase::Initial {
        draft.deps_gate()?;
    }
    let label = match contract.kind {
        VerificationKind::None => {
            recorded_checks(&draft)?;
            world.policy.first_of(Phase::ClosedDone).cloned()
        }
        VerificationKind::Manual
        | VerificationKind::GithubPr
        | VerificationKind::GitlabMr
        | VerificationKind::Commands => world.policy.review().cloned(),
    };
    Quota::judge(complete.over_quota.as_ref())?;
    // Only the beginning stands in the history; the whole output has a row of its own.
    let shown: String = complete.output.chars().take(OUTPUT_SHOWN_CHARS).collect();
    draft.end_live(AttemptEnd::Finished { summary: shown.clone(), head: None });
    draft.write(Write::OutputPut { attempt: live.id, output: complete.output.clone() });
    let data = json!({"kind": contract.kind, "bytes": complete.output.len()});
    draft.attempt_event(EventName::TaskCompleted, live.id, data);
    knowledge::learn(&mut draft, learned);
    if let Some(label) = label.filter(|label| label.name != draft.task.label) {
        draft.move_to(&label);
    }
    // A completion without a reference may still name the pull request in its output.
    let told = || {
        let forge = contract.kind.forge()?;
        Some(ForgeRef::find_in(forge, &complete.output)?.short(forge))
    };
    let external_ref = complete.external_ref.clone().or_else(told);
    verification::begin(&mut draft, contract.kind, external_ref, complete.job);
    draft.attempt_entry("completed", Some(shown), live.id);
    Ok(draft.done())
}

/// Lets agents claim a completed task again: its verification is dropped, and its holder with it.
pub(crate) fn task_reopen(
    world: &World<'_>,
    id: TaskId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    if draft.task.phase != Phase::Review {
        return Err(illegal(&draft, "ready"));
    }
    if draft.live.is_some() {
        return Err(task::session_active(&draft));
    }
    draft.task.verification = None;
    draft.event(EventName::TaskReopened, json!({}));
    stop::moved(&mut draft, &world.policy.initial().clone());
    if draft.task.assignee.is_some() {
        draft.unassign();
    }
    draft.entry("reopened", None);
    Ok(draft.done())
}
