//! Which moves of a task end the run that Callboard has under way on it. Runs that end by themselves are in
//! `run.rs` and `work.rs`.

use crate::decide::draft::Draft;
use crate::decide::runs::run::{CANCELED, Step};
use crate::decide::runs::work;
use crate::event::EventName;
use crate::policy::{Label, Phase};
use crate::runs::job::JobState;
use crate::runs::work::Role;
use crate::task::attempt::{AttemptEnd, AttemptKind};

/// Moves a task and stops its agent where the move says so; the gates are passed. The agent goes on when the task
/// goes from work into review, or to another label of its phase.
pub(crate) fn moved(draft: &mut Draft<'_>, label: &Label) {
    let from = draft.task.phase;
    let stays = from == label.phase || from == Phase::Working && label.phase == Phase::Review;
    let agent = draft.live.as_ref().filter(|live| live.kind == AttemptKind::Job);
    let agent = agent.map(|live| live.actor.clone());
    if agent.is_some() && !stays {
        draft.end_live(AttemptEnd::Canceled { reason: format!("task moved to {}", label.name) });
    }
    draft.move_to(label);
    if stays {
        return;
    }
    if label.phase == Phase::Initial && agent.is_some() && draft.task.assignee == agent {
        draft.unassign();
    }
    // A worker of a crew goes on wherever its task is moved, as long as the worker has the task.
    let is_crew = draft.world.run.as_ref().is_some_and(|run| work::role(run) == Some(Role::Crew));
    let leaves = !is_crew && (agent.is_some() || from == Phase::Review);
    if label.phase == Phase::Initial || label.phase.is_closed() || leaves {
        cancel(draft);
    }
}

/// Cancels the task's open run. The runner hears of it and ends the agent.
pub(crate) fn cancel(draft: &mut Draft<'_>) {
    let (world, now) = (draft.world, draft.now);
    let (Some(job), Some(run)) = (&draft.job, &draft.run) else { return };
    if job.is_over() || job.task != Some(draft.task.id) {
        return;
    }
    let mut step = Step { world, job: job.clone(), run: run.clone(), now };
    step.job.state = JobState::Canceled { at: now };
    step.summary(CANCELED);
    let words = step.last_words();
    step.into_draft(draft, EventName::JobCanceled, words);
}
