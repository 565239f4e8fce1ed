//! A file that `init` changes: where it is, what goes into it, and its text before and after.

use std::path::PathBuf;

use serde_json::Value;

use super::entry::{BrokenFile, ClientEntry, StrippedText};
use super::{block, json, toml};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Toml,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClientFile {
    /// From the project's folder or the user's home; absolute where a variable moved the client's folder elsewhere.
    pub path: PathBuf,
    pub part: FilePart,
}

/// What of a file is ours.
#[derive(Clone, Debug, PartialEq)]
pub enum FilePart {
    Entries {
        format: Format,
        entries: Vec<ClientEntry>,
    },
    /// A marked block with these words.
    Block(&'static str),
    /// All of it. The first line of the text tells our file from one of the user.
    Whole(&'static str),
}

impl ClientFile {
    pub fn merged(path: PathBuf, format: Format, entries: Vec<ClientEntry>) -> Self {
        Self { path, part: FilePart::Entries { format, entries } }
    }

    /// The text with our part in it. A file that does not exist has an empty text.
    pub fn merge(&self, text: &str) -> Result<String, BrokenFile> {
        match &self.part {
            FilePart::Entries { format: Format::Json, entries } => json::merge(text, entries),
            FilePart::Entries { format: Format::Toml, entries } => toml::merge(text, entries),
            FilePart::Block(words) => block::merge(text, words),
            FilePart::Whole(whole) => match text.trim().is_empty() || is_of(text, whole) {
                true => Ok((*whole).to_owned()),
                false => {
                    let words = "the file is not one of Callboard; move it away first";
                    Err(BrokenFile { line: 1, words: words.to_owned() })
                }
            },
        }
    }

    /// The text without our part.
    pub fn without(&self, text: &str) -> Result<StrippedText, BrokenFile> {
        match &self.part {
            FilePart::Entries { format: Format::Json, entries } => json::without(text, entries),
            FilePart::Entries { format: Format::Toml, entries } => toml::without(text, entries),
            FilePart::Block(_) => block::without(text),
            FilePart::Whole(whole) => Ok(match is_of(text, whole) {
                true => StrippedText { text: String::new(), has_others: false },
                false => StrippedText { text: text.to_owned(), has_others: true },
            }),
        }
    }

    /// The value of our first entry as it stands in the file.
    pub fn found(&self, text: &str) -> Result<Option<Value>, BrokenFile> {
        let FilePart::Entries { format, entries } = &self.part else { return Ok(None) };
        let Some(entry) = entries.first() else { return Ok(None) };
        match format {
            Format::Json => json::value_at(text, &entry.at),
            Format::Toml => toml::value_at(text, &entry.at),
        }
    }
}

/// Whether a text begins with the mark that a whole file of ours has in its first line.
fn is_of(text: &str, whole: &str) -> bool {
    let mark = |text: &str| text.lines().next().map(|line| line.trim_end().to_owned());
    mark(text) == mark(whole)
}
