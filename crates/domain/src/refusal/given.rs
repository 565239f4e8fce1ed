//! What a caller named, in the words of a refusal: cut, so that a refusal stays short whatever the call named.

use std::borrow::Cow;

use super::Refusal;

/// Longer than any id, address or name that exists.
const GIVEN_CHARS_MAX: usize = 200;

/// Longer than any message of ours. A text that a message repeats is cut before; this is for the one that was forgotten.
const MESSAGE_CHARS_MAX: usize = 1_500;

/// A text of a caller for a message about it.
pub fn brief(text: &str) -> Cow<'_, str> {
    cut(text, GIVEN_CHARS_MAX)
}

fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

impl Refusal {
    /// The refusal with what the caller named cut to a length that no name has.
    pub fn brief(mut self) -> Self {
        let (given, chars_max) = match &mut self {
            Self::InvalidInput { message, .. } => (message, MESSAGE_CHARS_MAX),
            Self::TaskNotFound { task: given }
            | Self::ParentNotFound { task: given }
            | Self::DanglingDependency { task: given }
            | Self::SessionNotFound { session: given }
            | Self::UnknownState { given, .. }
            | Self::CommentNotFound { comment: given }
            | Self::JobNotFound { job: given }
            | Self::ExecutorMissing { executor: given, .. }
            | Self::ActorMismatch { expected: given, .. }
            | Self::ClientMismatch { given, .. }
            | Self::ProjectNotFound { project: given }
            | Self::InvalidRepoPath { path: given, .. }
            | Self::PlanNotFound { plan: given }
            | Self::AgentNotFound { agent: given }
            | Self::MailNotFound { mail: given }
            | Self::EpicNotFound { epic: given } => (given, GIVEN_CHARS_MAX),
            _ => return self,
        };
        if let Cow::Owned(short) = cut(given, chars_max) {
            *given = short;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_that_name_nothing_are_cut() {
        let of = |task: &str| Refusal::TaskNotFound { task: task.to_owned() }.brief().message();
        let longest = "é".repeat(GIVEN_CHARS_MAX);
        assert_eq!(of("P-1"), "task not found: P-1");
        assert_eq!(of(&longest), format!("task not found: {longest}"));
        assert_eq!(of(&"é".repeat(100_000)), format!("task not found: {longest}…"));
    }
}
