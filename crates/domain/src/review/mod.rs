//! Comments of a reviewer on lines of a task's work, and what a reviewer has looked at. A draft is a comment that only
//! its author sees; a rejection sends drafts to the worker.

pub mod answer;
pub mod beside;
pub mod conflict;
pub mod follow;
pub mod mark;
pub mod merging;
pub mod message;
pub mod range;
pub mod snooze;
pub mod verdict;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::ids::{TaskId, id};
use crate::limits::{
    REVIEW_DRAFTS_MAX, REVIEW_PATH_BYTES_MAX, REVIEW_QUOTE_LINE_CHARS_MAX, REVIEW_QUOTE_LINES_MAX,
    REVIEW_TEXT_BYTES_MAX, REVIEW_VIEWED_MAX,
};
use crate::refusal::Refusal;
use crate::relay::rules::inner_path;
use crate::time::Timestamp;
use crate::words::words;

id!(
    /// The id of a draft, which the comment keeps when it is sent.
    ReviewCommentId, "rvc_", "not a review comment id"
);

words! {
    /// The side of a diff that a comment is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DiffSide {
        /// Lines that the work removes.
        Old => "old",
        New => "new",
    }
}

/// A comment on lines of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewComment {
    /// The file's path in its repository; with several repositories, below the repository's name.
    pub path: String,
    pub side: DiffSide,
    /// The first line, counted from 1.
    pub first_line: u32,
    pub last_line: u32,
    /// The git blob of the file on this side.
    pub blob: String,
    /// The code of these lines, as `quoted` cuts it.
    pub quote: String,
    pub text: String,
}

/// A comment that is not sent yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewDraft {
    pub id: ReviewCommentId,
    pub task: TaskId,
    pub author: Actor,
    pub comment: ReviewComment,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A comment that was sent with a rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentComment {
    pub id: ReviewCommentId,
    pub task: TaskId,
    pub author: Actor,
    pub comment: ReviewComment,
    /// Counts the rejections of the task, from 1.
    pub round: u32,
    /// The commit that the reviewer saw; `None` where no workspace was at hand.
    pub head: Option<String>,
    pub sent_at: Timestamp,
}

/// A file that its reviewer has ticked off. The tick belongs to the blob: a changed file is not viewed any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewedFile {
    pub path: String,
    pub blob: String,
}

/// The commit that a reviewer saw last, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastLook {
    pub head: String,
    pub at: Timestamp,
}

impl ReviewComment {
    /// Judges a comment; the text comes back trimmed. A refusal names the field.
    pub fn judged(mut self) -> Result<Self, Refusal> {
        judge_path(&self.path)?;
        if self.first_line < 1 {
            return Err(Refusal::invalid_field("first_line", "first_line must be at least 1"));
        }
        if self.last_line < self.first_line {
            let words = format!(
                "last_line must be at least first_line, got {} and {}",
                self.last_line, self.first_line
            );
            return Err(Refusal::invalid_field("last_line", words));
        }
        judge_object("blob", &self.blob)?;
        self.judge_quote()?;
        self.text = self.text.trim().to_owned();
        if self.text.is_empty() {
            return Err(Refusal::invalid_field("text", "text cannot be blank"));
        }
        at_most("text", &self.text, REVIEW_TEXT_BYTES_MAX)?;
        Ok(self)
    }

    fn judge_quote(&self) -> Result<(), Refusal> {
        let refuse = |words: String| Err(Refusal::invalid_field("quote", words));
        let lines = self.quote.split('\n').count();
        if lines > REVIEW_QUOTE_LINES_MAX {
            return refuse(format!(
                "quote must have at most {REVIEW_QUOTE_LINES_MAX} lines, got {lines}"
            ));
        }
        let range = self.last_line - self.first_line + 1;
        if lines > range as usize {
            return refuse(format!("quote has {lines} lines, more than the {range} it is about"));
        }
        let longest = self.quote.split('\n').map(|line| line.chars().count()).max();
        if longest > Some(REVIEW_QUOTE_LINE_CHARS_MAX) {
            return refuse(format!(
                "a line of quote must have at most {REVIEW_QUOTE_LINE_CHARS_MAX} characters"
            ));
        }
        whole("quote", &self.quote)
    }

    /// The order of comments in a message: by file, then by line.
    pub fn place(&self) -> (&str, u32, u32) {
        (&self.path, self.first_line, self.last_line)
    }
}

impl ReviewDraft {
    /// The draft on the same lines of a changed file, where they begin at another line now.
    pub fn moved_to(mut self, line: u32, blob: String) -> Self {
        let comment = &mut self.comment;
        comment.last_line = line.saturating_add(comment.last_line - comment.first_line);
        (comment.first_line, comment.blob) = (line, blob);
        self
    }
}

impl ViewedFile {
    pub fn judged(self) -> Result<Self, Refusal> {
        judge_path(&self.path)?;
        judge_object("blob", &self.blob)?;
        Ok(self)
    }
}

/// The quote of lines of a file: the first 20 of them, each cut to 400 characters.
pub fn quoted<'l>(lines: impl IntoIterator<Item = &'l str>) -> String {
    let cut = |line: &str| line.chars().take(REVIEW_QUOTE_LINE_CHARS_MAX).collect::<String>();
    let lines: Vec<String> = lines.into_iter().take(REVIEW_QUOTE_LINES_MAX).map(cut).collect();
    lines.join("\n")
}

/// Judges the git id of a blob or a commit.
pub fn judge_object(field: &str, id: &str) -> Result<(), Refusal> {
    let is_id = (4..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_id {
        true => Ok(()),
        false => {
            let words = format!("{field} must be a git object id of 4 to 64 hex digits");
            Err(Refusal::invalid_field(field, words))
        }
    }
}

/// Refuses one more draft of an author who has this many on the task.
pub fn judge_draft_room(drafts: usize) -> Result<(), Refusal> {
    room("drafts", drafts, REVIEW_DRAFTS_MAX)
}

/// Refuses one more viewed file of an author who has ticked this many on the task.
pub fn judge_viewed_room(files: usize) -> Result<(), Refusal> {
    room("viewed", files, REVIEW_VIEWED_MAX)
}

fn room(field: &str, kept: usize, max: usize) -> Result<(), Refusal> {
    match kept < max {
        true => Ok(()),
        false => {
            let words = format!("{field}: there are {kept}, and at most {max} are kept");
            Err(Refusal::invalid_field(field, words))
        }
    }
}

fn judge_path(path: &str) -> Result<(), Refusal> {
    if path.is_empty() {
        return Err(Refusal::invalid_field("path", "path cannot be empty"));
    }
    at_most("path", path, REVIEW_PATH_BYTES_MAX)?;
    inner_path(path).map_err(|why| Refusal::invalid_field("path", format!("path {why}")))
}

fn at_most(field: &str, text: &str, bytes_max: usize) -> Result<(), Refusal> {
    if text.len() > bytes_max {
        let words = format!("{field} must be at most {bytes_max} bytes, got {}", text.len());
        return Err(Refusal::invalid_field(field, words));
    }
    whole(field, text)
}

/// Refuses the one character that PostgreSQL cannot store.
fn whole(field: &str, text: &str) -> Result<(), Refusal> {
    match text.contains('\0') {
        true => Err(Refusal::invalid_field(field, format!("{field} must not hold a NUL"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment() -> ReviewComment {
        ReviewComment {
            path: "src/a.rs".into(),
            side: DiffSide::New,
            first_line: 3,
            last_line: 4,
            blob: "3f2a1c9".into(),
            quote: "fn a() {\n}".into(),
            text: " Why? ".into(),
        }
    }

    #[test]
    fn a_refused_comment_names_its_field() {
        assert_eq!(comment().judged().expect("is fine").text, "Why?");
        type Change = fn(&mut ReviewComment);
        let cases: [(&str, Change); 18] = [
            ("path", |c| c.path = String::new()),
            ("path", |c| c.path = "/etc/passwd".into()),
            ("path", |c| c.path = "../a".into()),
            ("path", |c| c.path = "src/../../a".into()),
            ("path", |c| c.path = "a\0".into()),
            ("path", |c| c.path = "x".repeat(REVIEW_PATH_BYTES_MAX + 1)),
            ("first_line", |c| c.first_line = 0),
            ("last_line", |c| c.last_line = 2),
            ("blob", |c| c.blob = String::new()),
            ("blob", |c| c.blob = "not hex".into()),
            ("blob", |c| c.blob = "a".repeat(65)),
            ("quote", |c| c.quote = "1\n2\n3".into()),
            ("quote", |c| (c.last_line, c.quote) = (99, "\n".repeat(REVIEW_QUOTE_LINES_MAX))),
            ("quote", |c| c.quote = "x".repeat(REVIEW_QUOTE_LINE_CHARS_MAX + 1)),
            ("quote", |c| c.quote = "\0".into()),
            ("text", |c| c.text = " \n".into()),
            ("text", |c| c.text = "é".repeat(REVIEW_TEXT_BYTES_MAX / 2 + 1)),
            ("text", |c| c.text = "a\0b".into()),
        ];
        for (field, change) in cases {
            let mut given = comment();
            change(&mut given);
            match given.clone().judged() {
                Err(Refusal::InvalidInput { field: Some(named), message }) => {
                    assert_eq!(named, field, "{message}");
                    assert!(message.contains(field), "{message}");
                }
                other => panic!("{given:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn limits_themselves_are_allowed() {
        let lines = vec!["x".repeat(900); 30];
        let quote = quoted(lines.iter().map(String::as_str));
        assert_eq!(quote.lines().count(), REVIEW_QUOTE_LINES_MAX);
        let most = ReviewComment {
            path: "x".repeat(REVIEW_PATH_BYTES_MAX),
            last_line: 32,
            quote,
            text: "x".repeat(REVIEW_TEXT_BYTES_MAX),
            ..comment()
        };
        assert!(most.judged().is_ok());
        assert!(judge_draft_room(REVIEW_DRAFTS_MAX - 1).is_ok());
        assert!(judge_draft_room(REVIEW_DRAFTS_MAX).is_err());
        assert!(judge_viewed_room(REVIEW_VIEWED_MAX).is_err());
    }
}
