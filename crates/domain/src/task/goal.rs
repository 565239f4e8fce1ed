//! The states that a caller waits for, and when a task has reached one.

use crate::policy::{Phase, Policy, fold};
use crate::refusal::Refusal;
use crate::task::TaskRecord;

/// One state that ends a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A configured status word.
    Label(String),
    Phase(Phase),
    /// Done or canceled.
    Closed,
    /// The task can be started now.
    Ready,
}

impl Goal {
    /// Reads the words of one call. A wait for a word that no task can reach would only time out, so it is refused with
    /// the words that there are.
    pub fn read_all(words: &[String], policy: &Policy) -> Result<Vec<Self>, Refusal> {
        words.iter().map(|word| Self::read(word, policy)).collect()
    }

    /// A label comes first: a project may call one of its labels `ready` or `closed`.
    fn read(word: &str, policy: &Policy) -> Result<Self, Refusal> {
        let folded = fold(word);
        match policy.label(word) {
            Some(label) => Ok(Self::Label(label.name.clone())),
            None if folded == "closed" => Ok(Self::Closed),
            None if folded == "ready" => Ok(Self::Ready),
            None => Phase::parse(&folded).map(Self::Phase).ok_or_else(|| {
                let mut known = policy.names();
                known.extend(Phase::ALL.iter().map(|phase| phase.as_str().to_owned()));
                known.extend(["closed".into(), "ready".into()]);
                Refusal::UnknownState { given: word.to_owned(), known }
            }),
        }
    }

    pub fn is_reached(&self, record: &TaskRecord) -> bool {
        match self {
            Self::Label(label) => record.task.label == *label,
            Self::Phase(phase) => record.task.phase == *phase,
            Self::Closed => record.task.phase.is_closed(),
            Self::Ready => record.task.is_ready(),
        }
    }
}
