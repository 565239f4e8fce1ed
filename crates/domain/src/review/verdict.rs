//! The verdict that a reviewer saw. A decision names it, and a decision on a review that another person has decided
//! since is refused in the transaction.

use std::fmt;
use std::str::FromStr;

use crate::board::card::{Review, ReviewState};
use crate::ids::TaskId;
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// A mark of the verdict on a task at one moment. The advice of an agent decides nothing, so the mark leaves it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerdictMark {
    /// `None`: the review is open.
    decided: Option<(ReviewState, Timestamp)>,
    /// How many times the work was sent back: a review that was requested anew is not the one that was seen.
    rounds: u32,
}

impl VerdictMark {
    pub fn of(review: Option<&Review>) -> Self {
        let verdict = review.filter(|review| !review.is_advice);
        let decided = verdict.and_then(|review| match review.state {
            ReviewState::Requested => None,
            state => Some((state, review.decided_at?)),
        });
        Self { decided, rounds: review.map_or(0, |review| review.rounds) }
    }

    pub fn state(self) -> ReviewState {
        self.decided.map_or(ReviewState::Requested, |(state, _)| state)
    }

    /// Refuses a decision by a caller who saw another verdict than the one that stands.
    pub fn judge(self, task: TaskId, review: Option<&Review>) -> Result<(), Refusal> {
        if Self::of(review) == self {
            return Ok(());
        }
        let now = review.map(|review| {
            (review.state, review.by.clone(), review.decided_at.unwrap_or(review.requested_at))
        });
        Err(Refusal::ReviewDecided { task, saw: self.state(), now })
    }
}

/// As a form carries it: `approved.1.1700000000000`.
impl fmt::Display for VerdictMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.decided.map_or(0, |(_, at)| at.0);
        write!(f, "{}.{}.{at}", self.state().as_str(), self.rounds)
    }
}

impl FromStr for VerdictMark {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let read = || {
            let mut parts = text.split('.');
            let state = ReviewState::parse(parts.next()?)?;
            let (rounds, at) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let decided = (state != ReviewState::Requested).then_some((state, Timestamp(at)));
            parts.next().is_none().then_some(Self { decided, rounds })
        };
        read().ok_or_else(|| {
            Refusal::invalid_field("seen", "seen is not a verdict; open the review again")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Id, Prefix};

    fn review(state: ReviewState, decided_at: Option<i64>, rounds: u32, is_advice: bool) -> Review {
        Review {
            state,
            summary: String::new(),
            feedback: None,
            by: "human:jo".parse().expect("an actor"),
            requested_at: Timestamp(5),
            decided_at: decided_at.map(Timestamp),
            conflict_files: Vec::new(),
            merge_commit: None,
            is_advice,
            tree: None,
            rounds,
        }
    }

    /// Each pair of reviews: what was seen, what stands now, and whether a decision is refused.
    #[test]
    fn a_mark_changes_with_each_verdict_of_a_person() {
        use ReviewState::{Approved, Rejected, Requested};
        let open = || Some(review(Requested, None, 0, false));
        let task = TaskId { prefix: Prefix::fallback(), id: Id(1) };
        for (seen, now, is_refused) in [
            (None, None, false),
            (None, open(), false),
            (open(), open(), false),
            (open(), Some(review(Approved, Some(9), 0, true)), false),
            (open(), Some(review(Rejected, Some(9), 0, true)), false),
            (open(), Some(review(Approved, Some(9), 0, false)), true),
            (open(), Some(review(Rejected, Some(9), 1, false)), true),
            (open(), Some(review(Requested, None, 1, false)), true),
            (Some(review(Approved, Some(9), 0, false)), open(), true),
            (Some(review(Approved, Some(9), 0, false)), None, true),
            (
                Some(review(Approved, Some(9), 0, false)),
                Some(review(Approved, Some(9), 0, false)),
                false,
            ),
            (
                Some(review(Approved, Some(9), 0, false)),
                Some(review(Approved, Some(10), 0, false)),
                true,
            ),
        ] {
            let mark = VerdictMark::of(seen.as_ref());
            assert_eq!(mark.to_string().parse(), Ok(mark));
            let judged = mark.judge(task, now.as_ref());
            assert_eq!(judged.is_err(), is_refused, "{mark} {now:?}");
        }
    }

    #[test]
    fn a_form_with_another_text_is_refused_by_its_field() {
        for text in ["", "approved", "approved.0", "approved.x.1", "nodded.0.1", "requested.0.0.0"]
        {
            match text.parse::<VerdictMark>() {
                Err(Refusal::InvalidInput { field, .. }) => {
                    assert_eq!(field.as_deref(), Some("seen"))
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
