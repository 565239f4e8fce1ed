//! The start of an agent that a person requests at a terminal. A task that is closed, or that another actor holds,
//! is refused unless the person said what to do about it. The task then becomes one for an agent alone, in the
//! change that queues the run.

use crate::command::TerminalStart;
use crate::decide::board::card;
use crate::decide::draft::Draft;
use crate::decide::runs::stop;
use crate::policy::{Label, Phase};
use crate::refusal::Refusal;
use crate::task::attempt::AttemptEnd;

/// Prepares the task before its run is queued. Returns whether the run that was open on it is canceled with that.
pub(crate) fn prepare(draft: &mut Draft<'_>, wish: &TerminalStart) -> Result<bool, Refusal> {
    let is_closed = draft.task.phase.is_closed();
    if !wish.reopen {
        draft.open_gate()?;
    }
    draft.deps_gate()?;
    let held = draft.held_by_another();
    let is_held = held.is_some();
    if let Some(refusal) = held.filter(|_| !wish.take) {
        return Err(refusal);
    }
    let initial = draft.world.policy.initial().clone();
    if is_closed {
        draft.move_to(&initial);
        draft.entry("reopened", Some("for an agent".into()));
    }
    if is_held {
        let from = draft.holder().map(ToString::to_string);
        back_to_start(draft, &initial);
        draft.entry("taken for an agent", from.map(|from| format!("from {from}")));
    } else {
        // The live attempt is the caller's own; an agent does the work from now on.
        draft.end_live(AttemptEnd::Canceled { reason: "an agent works on the task".into() });
    }
    card::for_agent(draft, wish.agent.as_ref())?;
    Ok(is_held)
}

/// Frees the task and ends what runs on it.
fn back_to_start(draft: &mut Draft<'_>, initial: &Label) {
    if draft.task.phase != Phase::Initial {
        return card::go(draft, initial);
    }
    draft.end_live(AttemptEnd::Canceled { reason: "taken for an agent".into() });
    stop::cancel(draft);
    if draft.task.assignee.is_some() {
        draft.unassign();
    }
}
