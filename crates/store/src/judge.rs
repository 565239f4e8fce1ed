//! One command, judged and carried out on a desk. Both databases write through these two steps.

use callboard_domain::decide;
use callboard_domain::desk::Desk;
use callboard_domain::event::Event;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::Task;
use callboard_domain::task::standing::Standing;
use callboard_domain::world::Change;

use crate::{Applied, ClaimedTask, Op, StoreError};

/// A command that was not refused.
pub(crate) struct Judged {
    pub change: Change,
    /// The subject before the change.
    pub subject: Option<Task>,
    /// The standing of the subject before the change.
    before: Option<Standing>,
    /// Found before the change is carried out: afterwards the desk no longer shows that the task was free.
    taken: Option<ClaimedTask>,
}

/// Asks the rules for the change. Nothing on the desk has moved when they refuse.
pub(crate) fn judge(desk: &Desk, op: &Op) -> Result<Judged, Refusal> {
    let world = desk.world(&op.policy, &op.actor, &op.command);
    let change = decide(&world, &op.command, desk.now)?;
    let before = world.standing(desk.now);
    let known = world.subject.as_ref().map(|subject| (&subject.task, subject.deps.len()));
    let taken = ClaimedTask::of(&change.events, known);
    Ok(Judged { change, subject: world.subject.map(|subject| subject.task), before, taken })
}

impl Judged {
    /// Carries the change out on the desk. The writer appends the events and then sets `last_seq`.
    pub fn carry_out(self, desk: &mut Desk) -> Result<(Applied, Vec<Event>), StoreError> {
        // Read here, because the writes are moved out of the change below.
        let (changed, queued) = (!self.change.is_empty(), self.change.queued());
        let Change { writes, events, reply, but } = self.change;
        for write in writes {
            desk.apply(write).map_err(|error| StoreError::Internal(error.to_string()))?;
        }
        // Cannot happen while `needs` of the command names every row that its reply shows.
        let missing = || StoreError::Internal(format!("{reply:?} is not in the store"));
        let applied = Applied {
            outcome: desk.answer(reply).ok_or_else(missing)?,
            before: self.before,
            but,
            last_seq: None,
            at: desk.now,
            taken: self.taken,
            changed,
            replayed: false,
            queued,
        };
        Ok((applied, events))
    }
}
