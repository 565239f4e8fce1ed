//! What the attempts of an actor say about the actor. An actor need not belong to a crew.

use super::AgentState;
use crate::policy::Phase;
use crate::task::Task;
use crate::task::attempt::{Attempt, AttemptEnd, AttemptState};
use crate::time::Timestamp;

/// The activity of an actor outside a crew, by its newest attempt: busy while the attempt is live, waiting while the
/// finished attempt is the newest of a task in review.
pub fn state_outside(newest: Option<(&Attempt, &Task)>, now: Timestamp) -> AgentState {
    match newest {
        Some((attempt, _)) if attempt.is_live(now) => AgentState::Busy,
        Some((attempt, task)) if is_finished(attempt) && awaits_review(attempt, task) => {
            AgentState::Waiting
        }
        _ => AgentState::Idle,
    }
}

fn is_finished(attempt: &Attempt) -> bool {
    matches!(&attempt.state, AttemptState::Ended { end: AttemptEnd::Finished { .. }, .. })
}

fn awaits_review(attempt: &Attempt, task: &Task) -> bool {
    task.phase == Phase::Review && task.newest_attempt == Some(attempt.id)
}

/// How many attempts of an actor finished, and how many of the finished ones were enough by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkRecord {
    pub finished: u32,
    /// Finished attempts whose task is done, or needed another attempt.
    pub judged: u32,
    /// Judged attempts that were the only one of their task.
    pub first_try: u32,
}

impl WorkRecord {
    pub fn of<'a>(attempts: impl IntoIterator<Item = (&'a Attempt, &'a Task)>) -> Self {
        let mut record = Self::default();
        for (attempt, task) in attempts.into_iter().filter(|(attempt, _)| is_finished(attempt)) {
            let is_only = task.fence == 1;
            let is_over = task.fence > attempt.fence || task.phase == Phase::ClosedDone;
            record.finished += 1;
            record.judged += u32::from(is_over);
            record.first_try += u32::from(is_over && is_only);
        }
        record
    }

    /// The share of judged attempts that were enough, in per cent.
    pub fn first_try_percent(self) -> Option<u32> {
        (self.first_try * 100).checked_div(self.judged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AttemptId, Id, Prefix, TaskId};
    use crate::task::attempt::{AttemptKind, Lease};

    const NOW: Timestamp = Timestamp(1_000_000);

    fn attempt(fence: u64, state: AttemptState) -> Attempt {
        Attempt {
            id: AttemptId(Id(fence.into())),
            task: TaskId { id: Id(1), prefix: Prefix::fallback() },
            kind: AttemptKind::Graph,
            fence,
            actor: "agent:w1".parse().expect("an actor"),
            key: None,
            client: None,
            model: None,
            worktree: None,
            branch: None,
            head_started: None,
            started_at: Timestamp(0),
            state,
        }
    }

    fn task(phase: Phase, fence: u64) -> Task {
        let id = TaskId { id: Id(1), prefix: Prefix::fallback() };
        Task {
            id,
            number: 1,
            project: 1,
            reference: None,
            title: String::new(),
            label: String::new(),
            phase,
            phase_at: Timestamp(0),
            priority: 0,
            assignee: None,
            parent: None,
            is_plan: false,
            checks: Vec::new(),
            contract: None,
            verification: None,
            blocked: None,
            open_blockers: 0,
            open_deps: 0,
            fence,
            newest_attempt: Some(AttemptId(Id(fence.into()))),
            entries: 0,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        }
    }

    fn live(lease: Option<Lease>) -> AttemptState {
        AttemptState::Live { heartbeat_at: NOW, progress: None, lease }
    }

    fn finished() -> AttemptState {
        let end = AttemptEnd::Finished { summary: String::new(), head: None };
        AttemptState::Ended { at: NOW, end }
    }

    fn released() -> AttemptState {
        AttemptState::Ended { at: NOW, end: AttemptEnd::Released }
    }

    #[test]
    fn an_actor_outside_a_crew_is_at_what_its_newest_attempt_is_at() {
        let over = Lease { granted_s: 1, expires_at: NOW };
        for (state, phase, fence, said) in [
            (live(None), Phase::Working, 1, "BUSY"),
            (live(Some(over)), Phase::Working, 1, "IDLE"),
            (finished(), Phase::Review, 1, "WAITING"),
            (finished(), Phase::Review, 2, "IDLE"),
            (finished(), Phase::ClosedDone, 1, "IDLE"),
            (released(), Phase::Review, 1, "IDLE"),
        ] {
            let seen = state_outside(Some((&attempt(1, state), &task(phase, fence))), NOW);
            assert_eq!(seen.as_str(), said, "{phase:?} {fence}");
        }
        assert_eq!(state_outside(None, NOW).as_str(), "IDLE");
    }

    #[test]
    fn an_attempt_is_judged_when_its_task_is_done_or_needed_another() {
        for (state, phase, fence, said) in [
            (finished(), Phase::ClosedDone, 1, (1, 1, 1)),
            (finished(), Phase::Review, 1, (1, 0, 0)),
            (finished(), Phase::Working, 2, (1, 1, 0)),
            (finished(), Phase::ClosedDone, 2, (1, 1, 0)),
            (released(), Phase::ClosedDone, 1, (0, 0, 0)),
            (live(None), Phase::Working, 1, (0, 0, 0)),
        ] {
            let record = WorkRecord::of([(&attempt(1, state), &task(phase, fence))]);
            let (finished, judged, first_try) = said;
            assert_eq!(record, WorkRecord { finished, judged, first_try }, "{phase:?} {fence}");
        }
        let half = WorkRecord { finished: 3, judged: 2, first_try: 1 };
        assert_eq!(half.first_try_percent(), Some(50));
        assert_eq!(WorkRecord::default().first_try_percent(), None);
    }
}
