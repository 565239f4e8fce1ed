//! Whether the work answers a comment that was sent: judged by the quoted lines and the file as it is now.

use super::{DiffSide, ReviewComment};
use crate::limits::REVIEW_QUOTE_LINE_CHARS_MAX;

/// How far lines are looked for that stand in the file several times.
const NEAR_LINES: usize = 100;

/// What became of the lines of a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentState {
    /// The lines changed. Lines that the work had removed are answered when they are back.
    Answered,
    NotTouched,
    /// The lines are as they were, and begin at this line now.
    Moved {
        line: u32,
    },
}

impl CommentState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::NotTouched => "not_touched",
            Self::Moved { .. } => "moved",
        }
    }
}

/// Judges a comment by the lines of its file; `None` for a file that is gone.
pub fn comment_state(comment: &ReviewComment, lines: Option<&[&str]>) -> CommentState {
    let quote: Vec<&str> = comment.quote.split('\n').collect();
    let stands = lines.and_then(|lines| find(&quote, lines, comment.first_line as usize));
    match (comment.side, stands) {
        (DiffSide::New, None) | (DiffSide::Old, Some(_)) => CommentState::Answered,
        (DiffSide::Old, None) => CommentState::NotTouched,
        (DiffSide::New, Some(line)) if line == comment.first_line as usize => {
            CommentState::NotTouched
        }
        (DiffSide::New, Some(line)) => {
            CommentState::Moved { line: u32::try_from(line).unwrap_or(u32::MAX) }
        }
    }
}

/// The line at which the quote begins: its own line, else the nearest one. Far away only lines count that the file has
/// once, and lines without a letter or digit, such as braces, count only in their place.
fn find(quote: &[&str], lines: &[&str], first: usize) -> Option<usize> {
    let begins = |line: &usize| {
        let here = lines.get(line - 1..line - 1 + quote.len());
        here.is_some_and(|here| here.iter().zip(quote).all(|(now, was)| is_same(now, was)))
    };
    if begins(&first) {
        return Some(first);
    }
    let says_something = quote.iter().any(|line| line.contains(char::is_alphanumeric));
    if !says_something {
        return None;
    }
    let places: Vec<usize> = (1..=lines.len()).filter(begins).collect();
    let nearest = places.iter().copied().min_by_key(|line| line.abs_diff(first))?;
    let is_near = nearest.abs_diff(first) <= NEAR_LINES;
    (is_near || places.len() == 1).then_some(nearest)
}

/// Compares a line with its quote, apart from space at the end. A long line is known by its beginning.
fn is_same(now: &str, was: &str) -> bool {
    match was.chars().count() >= REVIEW_QUOTE_LINE_CHARS_MAX {
        true => now.starts_with(was),
        false => now.trim_end() == was.trim_end(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment(side: DiffSide, first_line: u32, quote: &str) -> ReviewComment {
        ReviewComment {
            path: "a".into(),
            side,
            first_line,
            last_line: first_line + quote.matches('\n').count() as u32,
            blob: "3f2a1c9".into(),
            quote: quote.into(),
            text: "Why?".into(),
        }
    }

    #[test]
    fn a_comment_is_answered_when_its_lines_changed() {
        use CommentState::{Answered, Moved, NotTouched};
        use DiffSide::{New, Old};
        let long = "x".repeat(REVIEW_QUOTE_LINE_CHARS_MAX);
        let longer = format!("{long}y");
        let far = format!("{}b\n", "a\n".repeat(500));
        let far_twice = format!("{far}b\n");
        for (side, first, quote, now, state) in [
            (New, 2, "b", Some("a\nb\nc"), NotTouched),
            (New, 2, "b\nc", Some("a\nb\nc"), NotTouched),
            (New, 2, "b", Some("a\nb  \r\nc"), NotTouched),
            (New, 2, "b", Some("a\nB\nc"), Answered),
            (New, 2, "b\nc", Some("a\nb\nd"), Answered),
            (New, 2, "b", Some("a\nx\ny\nb"), Moved { line: 4 }),
            (New, 3, "b", Some("b"), Moved { line: 1 }),
            (New, 4, "b", Some("b\na\nb\na\na\na\nb"), Moved { line: 3 }),
            (New, 1, "b", Some(far.as_str()), Moved { line: 501 }),
            (New, 1, "b", Some(far_twice.as_str()), Answered),
            (New, 2, "}", Some("a\nx\n}"), Answered),
            (New, 2, "}", Some("a\n}\nc"), NotTouched),
            (New, 2, "", Some("a\n\nc"), NotTouched),
            (New, 2, "", Some("a\nb\n\n"), Answered),
            (New, 9, "b", Some(""), Answered),
            (New, 1, long.as_str(), Some(longer.as_str()), NotTouched),
            (New, 2, "b", None, Answered),
            (Old, 2, "b", Some("a\nc"), NotTouched),
            (Old, 2, "b", Some("a\nb\nc"), Answered),
            (Old, 2, "b", None, NotTouched),
        ] {
            let lines: Option<Vec<&str>> = now.map(|now| now.lines().collect());
            let found = comment_state(&comment(side, first, quote), lines.as_deref());
            assert_eq!(found, state, "{side:?} {first} {quote:?}");
        }
    }
}
