//! The comments of the last round in `callboard review ID`, and what became of their lines.

use callboard_domain::review::answer::CommentState;
use callboard_domain::review::message::place;
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{CommentSeen, ReviewComments};
use serde_json::{Value, json};

use super::view::plain;

/// The comments of the newest round, which come first.
fn last_round(comments: &ReviewComments) -> impl Iterator<Item = &CommentSeen> {
    let round = comments.comments.first().map(|seen| seen.sent.round);
    comments.comments.iter().take_while(move |seen| Some(seen.sent.round) == round)
}

/// `1. src/a.rs:35-37, not touched: Say why.`, a line for each comment; empty without any.
pub fn comment_lines(comments: &ReviewComments) -> String {
    let line = |(n, seen): (usize, &CommentSeen)| {
        let comment = &seen.sent.comment;
        let said = comment.text.lines().next().unwrap_or_default();
        let (place, state) = (plain(&place(comment)), state_words(seen));
        format!("{}. {place}, {state}: {}", n + 1, plain(said))
    };
    let lines: Vec<String> = last_round(comments).enumerate().map(line).collect();
    lines.join("\n")
}

fn state_words(seen: &CommentSeen) -> String {
    match seen.state {
        Some(CommentState::Answered) => match &seen.commit {
            Some(commit) => format!("answered in {}", commit.get(..7).unwrap_or(commit)),
            None => "answered".into(),
        },
        Some(CommentState::NotTouched) => "not touched".into(),
        Some(CommentState::Moved { line }) => format!("moved to line {line}"),
        None => "file not readable here".into(),
    }
}

pub fn comments_json(comments: &ReviewComments) -> Value {
    last_round(comments).map(comment_json).collect()
}

fn comment_json(CommentSeen { sent, state, commit }: &CommentSeen) -> Value {
    let line = match state {
        Some(CommentState::Moved { line }) => Some(line),
        Some(CommentState::Answered | CommentState::NotTouched) | None => None,
    };
    json!({
        "id": sent.id,
        "round": sent.round,
        "by": sent.author,
        "path": sent.comment.path,
        "side": sent.comment.side.as_str(),
        "first_line": sent.comment.first_line,
        "last_line": sent.comment.last_line,
        "blob": sent.comment.blob,
        "quote": sent.comment.quote,
        "text": sent.comment.text,
        "head": sent.head,
        "sent_at": rfc3339_ms(sent.sent_at),
        "state": state.map(CommentState::as_str),
        "line": line,
        "answered_in": commit,
    })
}
