//! What the board knows of a task besides the task itself: how it is worked on, what is expected, how its review
//! went. A task without a stored card has the default one.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::limits::{SEARCH_CHARS_MAX, SEARCH_WORDS_MAX};
use crate::refusal::Refusal;
use crate::task::attempt::{Attempt, AttemptEnd, AttemptState};
use crate::time::Timestamp;
use crate::words::words;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    pub mode: Mode,
    /// Acceptance criteria in plain text; no gate reads them.
    pub criteria: Vec<String>,
    /// Where a session with a person opens; `None` leaves it to the settings.
    pub terminal: Option<Terminal>,
    /// The executor that works on the task; `None` leaves it to the settings.
    pub agent: Option<String>,
    /// The branch that the work starts from and goes to; `None` leaves it to the repository.
    pub base_branch: Option<String>,
    /// The creator's name as given in the request. Never taken from the acting actor.
    pub created_by: Option<String>,
    /// The newest review.
    pub review: Option<Review>,
    /// The folder of the work; `None`: named by the task's id.
    pub workspace: Option<String>,
    /// The branch of the work; `None`: named by the task's id.
    pub branch: Option<String>,
    /// Why the task was given up.
    pub failed: Option<Failed>,
    /// Messages for the agent that no agent has received yet, the oldest first.
    pub told: Vec<AgentMessage>,
}

impl Card {
    /// What the worker says was done: the summary of the review, else the closing words of the newest attempt. Only
    /// some toolsets ask for a review with a summary; the others end an attempt with one.
    pub fn summary<'a>(&'a self, newest: Option<&'a Attempt>) -> Option<&'a str> {
        let of_review = self.review.as_ref().map(|review| review.summary.as_str());
        let of_attempt = || match &newest?.state {
            AttemptState::Ended { end: AttemptEnd::Finished { summary, .. }, .. } => {
                Some(&**summary)
            }
            AttemptState::Ended { .. } | AttemptState::Live { .. } => None,
        };
        of_review.filter(|words| !words.is_empty()).or_else(of_attempt)
    }
}

/// A message for the agent of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentMessage {
    pub by: Actor,
    /// Later than the time of the message before.
    pub at: Timestamp,
    pub text: String,
}

words! {
    /// How a task is worked on.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "UPPERCASE")]
    pub enum Mode {
        /// By an agent alone.
        Auto => "auto",
        /// By an agent together with a person.
        #[default]
        Pair => "pair",
    }
}

words! {
    /// Where a person sits beside an agent.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Terminal {
        #[cfg_attr(not(windows), default)]
        Tmux => "tmux",
        #[cfg_attr(windows, default)]
        Vscode => "vscode",
        Cursor => "cursor",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub reason: String,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    pub state: ReviewState,
    /// What the requester of the review says was done.
    pub summary: String,
    /// What the reviewer who decided says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// The actor that requested the review, then the one that decided it.
    pub by: Actor,
    pub requested_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Timestamp>,
    /// The files in which the last merge or rebase failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflict_files: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    /// The verdict is an agent's advice; another actor decides.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_advice: bool,
    /// The state of the task's files that an approval was given for; `None` where no files were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// How many times the work was sent back: the round of the newest comments.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rounds: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Review {
    /// Whether the work is approved; an agent's advice does not count.
    pub fn is_approved(&self) -> bool {
        self.state == ReviewState::Approved && !self.is_advice
    }
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ReviewState {
        Requested => "requested",
        Approved => "approved",
        Rejected => "rejected",
    }
}

/// The words of a search query, in lower case as far as they are ASCII, each once. Empty for a text without words.
pub fn search_words(text: &str) -> Result<Vec<String>, Refusal> {
    let chars = text.chars().count();
    if chars > SEARCH_CHARS_MAX {
        let message = format!("query must be at most {SEARCH_CHARS_MAX} characters, got {chars}");
        return Err(Refusal::invalid(message));
    }
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace().map(str::to_ascii_lowercase) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    if words.len() > SEARCH_WORDS_MAX {
        let message =
            format!("query must be at most {SEARCH_WORDS_MAX} words, got {}", words.len());
        return Err(Refusal::invalid(message));
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_a_few_words_in_any_case() {
        assert_eq!(search_words("  Login  PAGE login ").unwrap(), ["login", "page"]);
        assert_eq!(search_words(" ").unwrap(), Vec::<String>::new());
        let many: Vec<String> = (0..=SEARCH_WORDS_MAX).map(|n| n.to_string()).collect();
        assert_eq!(search_words(&many.join(" ")).unwrap_err().code(), "INVALID_INPUT");
        assert!(search_words(&"x".repeat(SEARCH_CHARS_MAX)).is_ok());
        assert!(search_words(&"x".repeat(SEARCH_CHARS_MAX + 1)).is_err());
    }
}
