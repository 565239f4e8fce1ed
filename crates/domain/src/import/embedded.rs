//! The tasks of an export inside a document for people. Markdown and HTML exports end with a comment that holds their
//! tasks once more, as lines of `jsonl.rs`, so that an import gets everything back. The comment names the digest of the
//! text before it: once that text was edited by hand, the comment counts only where the text shows the same.

use sha2::{Digest, Sha256};

use super::{ImportedTask, line};
use crate::hex::hex;
use crate::text::is_obeyed;

const BEGIN: &str = "<!-- callboard-export sha256:";
const END: &str = "-->";

/// A document, as the reader of its format needs it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Document<'t> {
    /// A document without tasks in a comment.
    Plain,
    /// An export as it was written: its lines, each at its place in the file.
    Export(String),
    /// An export whose text was edited, with the lines of its comment; these are empty when the comment is damaged.
    Edited { text: &'t str, lines: &'t str },
}

/// The document with its tasks in a comment behind it.
pub fn embed(document: &str, tasks: &[ImportedTask]) -> String {
    let mut text = format!("{document}\n{BEGIN}{}\n", digest(document));
    for task in tasks {
        text += &hidden(&line(task));
        text.push('\n');
    }
    text + END + "\n"
}

pub(super) fn read(text: &str) -> Document<'_> {
    let Some(at) = text.rfind(BEGIN) else { return Document::Plain };
    let (visible, comment) = text.split_at(at);
    let comment = &comment[BEGIN.len()..];
    let whole = comment.split_once('\n');
    let whole = whole.and_then(|(named, lines)| Some((named, lines.split_once(END)?.0)));
    match whole {
        Some((named, lines)) if named.trim() == digest(visible) => {
            let before = visible.matches('\n').count() + 1;
            Document::Export("\n".repeat(before) + lines)
        }
        whole => Document::Edited { text: visible, lines: whole.map_or("", |(_, lines)| lines) },
    }
}

/// The digest of a text, whatever its line ends are and whether it ends with an empty line.
fn digest(text: &str) -> String {
    hex(Sha256::digest(text.replace("\r\n", "\n").trim_end()))
}

/// A line of JSON without the characters that would end a comment or that a reader's screen would obey. In JSON they
/// stand in strings alone, where an escape means the character itself.
fn hidden(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for c in line.chars() {
        if matches!(c, '<' | '>') || is_obeyed(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text += &format!("\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}
