//! Drafts of comments whose file changed since they were written: they move with their lines, or stand on older lines.

use super::ReviewDraft;
use super::answer::{CommentState, comment_state};

/// A draft where its lines are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftSeen {
    pub draft: ReviewDraft,
    pub lines: DraftLines,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftLines {
    /// As they were when the draft was written.
    Here,
    /// The lines are as they were, and the draft has their new numbers.
    Moved,
    /// The lines changed or are gone; the draft keeps its numbers.
    Older,
}

impl DraftSeen {
    pub fn here(draft: ReviewDraft) -> Self {
        Self { draft, lines: DraftLines::Here }
    }

    /// A draft on a file with other content than the one it was written for. `text` is the file now, `None` for a file
    /// that is gone; `blob` is the id of that content.
    pub fn followed(draft: ReviewDraft, text: Option<&str>, blob: Option<String>) -> Self {
        let lines: Option<Vec<&str>> = text.map(|text| text.lines().collect());
        match (comment_state(&draft.comment, lines.as_deref()), blob) {
            (CommentState::Answered, _) => Self { draft, lines: DraftLines::Older },
            (CommentState::Moved { line }, Some(blob)) => {
                Self { draft: draft.moved_to(line, blob), lines: DraftLines::Moved }
            }
            (CommentState::NotTouched | CommentState::Moved { .. }, _) => Self::here(draft),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Id, Prefix, TaskId};
    use crate::review::{DiffSide, ReviewComment, ReviewCommentId};
    use crate::time::Timestamp;

    /// A draft on `two` and `three`, the second and third line.
    fn draft() -> ReviewDraft {
        let at = Timestamp(1);
        ReviewDraft {
            id: ReviewCommentId(Id(1)),
            task: TaskId { prefix: Prefix::fallback(), id: Id(1) },
            author: "human:ana".parse().expect("an actor"),
            comment: ReviewComment {
                path: "a.rs".into(),
                side: DiffSide::New,
                first_line: 2,
                last_line: 3,
                blob: "aaaa".into(),
                quote: "two\nthree".into(),
                text: "Why?".into(),
            },
            created_at: at,
            updated_at: at,
        }
    }

    /// Each file as it is now, with its blob: how the lines are found, and their numbers with the blob of the draft.
    #[test]
    fn a_draft_goes_along_with_its_lines() {
        use DraftLines::{Here, Moved, Older};
        for (text, blob, lines, numbers, kept) in [
            (Some("one\ntwo\nthree\n"), Some("bbbb"), Here, (2, 3), "aaaa"),
            (Some("one\ntwo\nthree\nfour\n"), Some("bbbb"), Here, (2, 3), "aaaa"),
            (Some("new\none\ntwo\nthree\n"), Some("bbbb"), Moved, (3, 4), "bbbb"),
            (Some("two\nthree\n"), Some("bbbb"), Moved, (1, 2), "bbbb"),
            (Some("new\none\ntwo\nthree\n"), None, Here, (2, 3), "aaaa"),
            (Some("one\ntwo\nTHREE\n"), Some("bbbb"), Older, (2, 3), "aaaa"),
            (Some(""), Some("bbbb"), Older, (2, 3), "aaaa"),
            (None, None, Older, (2, 3), "aaaa"),
        ] {
            let seen = DraftSeen::followed(draft(), text, blob.map(str::to_owned));
            let ReviewComment { first_line, last_line, blob, .. } = &seen.draft.comment;
            let found = (seen.lines, (*first_line, *last_line), blob.as_str());
            assert_eq!(found, (lines, numbers, kept), "{text:?}");
        }
    }
}
