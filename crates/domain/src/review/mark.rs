//! The review as its reader saw it: the verdict that stood, and the files that were read. A decision names them, and a
//! decision on a review that went on since is refused in the transaction.

use super::verdict::VerdictMark;
use crate::board::card::Review;
use crate::ids::TaskId;
use crate::refusal::Refusal;

/// The parts of a review that a caller saw. A caller that leaves a part out decides whatever stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewMark {
    pub verdict: Option<VerdictMark>,
    pub work: Option<WorkRead>,
}

/// The files that a reviewer read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkRead {
    /// The state of the files, as an approval keeps it.
    pub tree: String,
    /// The commit whose changes the reviewer saw.
    pub head: String,
    /// The commit of the work now. Nothing is judged by it; a refusal names it.
    pub head_now: Option<String>,
}

impl ReviewMark {
    /// Refuses a decision by a caller who saw another verdict, or read other files.
    pub fn judge(
        &self,
        task: TaskId,
        review: Option<&Review>,
        work: Option<&str>,
    ) -> Result<(), Refusal> {
        self.judge_verdict(task, review)?;
        self.judge_work(task, work)
    }

    /// Refuses a decision by a caller who saw another verdict than the one that stands.
    pub fn judge_verdict(&self, task: TaskId, review: Option<&Review>) -> Result<(), Refusal> {
        self.verdict.map_or(Ok(()), |verdict| verdict.judge(task, review))
    }

    /// Refuses a decision by a caller who read other files than those of now. `work` is the state of the files now;
    /// `None` where it cannot be read.
    pub fn judge_work(&self, task: TaskId, work: Option<&str>) -> Result<(), Refusal> {
        match &self.work {
            Some(read) if work != Some(&read.tree) => {
                let (read, now) = (read.head.clone(), read.head_now.clone());
                Err(Refusal::WorkMoved { task, read, now })
            }
            _ => Ok(()),
        }
    }
}

impl From<VerdictMark> for ReviewMark {
    fn from(verdict: VerdictMark) -> Self {
        Self { verdict: Some(verdict), work: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Id, Prefix};

    /// The files that were read, those of now, and whether a decision is refused.
    #[test]
    fn a_decision_counts_for_the_files_that_were_read() {
        let task = TaskId { prefix: Prefix::fallback(), id: Id(1) };
        for (read, work, is_refused) in [
            (None, None, false),
            (None, Some("t1"), false),
            (Some("t1"), Some("t1"), false),
            (Some("t1"), Some("t2"), true),
            (Some("t1+u1"), Some("t1+u2"), true),
            (Some("t1"), None, true),
        ] {
            let read = read.map(|tree: &str| WorkRead {
                tree: tree.into(),
                head: "aaaa".into(),
                head_now: Some("bbbb".into()),
            });
            let mark = ReviewMark { verdict: None, work: read };
            let moved = Refusal::WorkMoved { task, read: "aaaa".into(), now: Some("bbbb".into()) };
            let expected = if is_refused { Err(moved) } else { Ok(()) };
            assert_eq!(mark.judge_work(task, work), expected, "{mark:?} {work:?}");
        }
    }
}
