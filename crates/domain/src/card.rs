//! What the board knows of a task besides the task itself: how it is worked on, what is expected,
//! how its review went. A task that nobody said anything of has the default card.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::limits::{SEARCH_CHARS_MAX, SEARCH_WORDS_MAX};
use crate::refusal::Refusal;
use crate::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Card {
    pub mode: Mode,
    /// Plain text; no gate reads it.
    pub criteria: Vec<String>,
    /// Where a session with a person opens; `None` leaves it to the settings.
    pub terminal: Option<Terminal>,
    /// The executor that works on it; `None` leaves it to the settings.
    pub agent: Option<String>,
    /// The branch its work starts from and goes to; `None` leaves it to the repository.
    pub base_branch: Option<String>,
    /// Whom the creator named as such. Never who acted.
    pub created_by: Option<String>,
    /// The newest one.
    pub review: Option<Review>,
    /// The folder its work stands in; `None`: named by its id.
    pub workspace: Option<String>,
    /// The branch its work stands on; `None`: named by its id.
    pub branch: Option<String>,
    /// Why somebody gave it up.
    pub failed: Option<Failed>,
    /// What somebody told its agent and no agent has heard yet, the oldest first.
    pub told: Vec<Told>,
}

/// A message for the agent of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub by: Actor,
    /// Later than that of the message before.
    pub at: Timestamp,
    pub text: String,
}

/// How a task is worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Mode {
    /// By an agent alone.
    Auto,
    /// By an agent together with a person.
    #[default]
    Pair,
}

impl Mode {
    pub const ALL: [Mode; 2] = [Mode::Auto, Mode::Pair];

    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Auto => "auto",
            Mode::Pair => "pair",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

/// Where a person sits beside an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Terminal {
    #[cfg_attr(not(windows), default)]
    Tmux,
    #[cfg_attr(windows, default)]
    Vscode,
    Cursor,
}

impl Terminal {
    pub const ALL: [Terminal; 3] = [Terminal::Tmux, Terminal::Vscode, Terminal::Cursor];

    pub fn as_str(self) -> &'static str {
        match self {
            Terminal::Tmux => "tmux",
            Terminal::Vscode => "vscode",
            Terminal::Cursor => "cursor",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|terminal| terminal.as_str() == text)
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
    /// What whoever asked for it says was done.
    pub summary: String,
    /// What whoever decided it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// Who asked for it, then who decided it.
    pub by: Actor,
    pub requested_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Timestamp>,
    /// Where the last merge or rebase failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflict_files: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    /// The word of an agent, which is for somebody else to decide on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_advice: bool,
    /// The state of the task's files that an approval was given for; `None` where nobody saw them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
}

impl Review {
    /// By somebody whose word counts.
    pub fn is_approved(&self) -> bool {
        self.state == ReviewState::Approved && !self.is_advice
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewState {
    Requested,
    Approved,
    Rejected,
}

impl ReviewState {
    pub fn as_str(self) -> &'static str {
        match self {
            ReviewState::Requested => "requested",
            ReviewState::Approved => "approved",
            ReviewState::Rejected => "rejected",
        }
    }
}

/// The words that a search looks for, without case as far as they are ASCII. A text without words
/// searches nothing.
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
