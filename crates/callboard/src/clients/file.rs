//! A file that `init` changes: where it is, what goes into it, and its text before and after.

use std::path::PathBuf;

use serde_json::Value;

use super::entry::{BrokenFile, ClientEntry, EntryKind, StrippedText};
use super::record::WrittenParts;
use super::{block, json, toml};

/// The names, in a record, of parts that are no entries.
const BLOCK: &str = "block";
const WHOLE: &str = "file";

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

    /// The text without the parts that `init` wrote. What stood in the place of one is put back.
    pub fn without(&self, text: &str, wrote: &WrittenParts) -> Result<StrippedText, BrokenFile> {
        let untouched = StrippedText { text: text.to_owned(), has_others: true };
        match &self.part {
            FilePart::Entries { format, entries } => {
                let named = |entry| Some((entry, wrote.get(&ClientEntry::name(entry))?));
                let written: Vec<_> = entries.iter().filter_map(named).collect();
                match format {
                    _ if written.is_empty() => Ok(untouched),
                    Format::Json => json::without(text, &written),
                    Format::Toml => toml::without(text, &written),
                }
            }
            FilePart::Block(_) => match wrote.get(BLOCK) {
                None => Ok(untouched),
                Some(Value::String(before)) => block::put_back(text, before),
                Some(_) => block::without(text),
            },
            FilePart::Whole(whole) => Ok(match wrote.get(WHOLE).filter(|_| is_of(text, whole)) {
                None => untouched,
                Some(Value::String(before)) => {
                    StrippedText { text: before.clone(), has_others: true }
                }
                Some(_) => StrippedText { text: String::new(), has_others: false },
            }),
        }
    }

    /// Our parts as they stand in a text, by their names.
    pub fn parts(&self, text: &str) -> Result<WrittenParts, BrokenFile> {
        let mut parts = WrittenParts::new();
        match &self.part {
            FilePart::Entries { format, entries } => {
                for entry in entries {
                    let found = value_at(*format, text, &entry.at)?;
                    if let Some(part) = found.and_then(|found| entry.part_of(found)) {
                        parts.insert(entry.name(), part);
                    }
                }
            }
            FilePart::Block(_) => {
                parts.extend(block::found(text)?.map(|block| (BLOCK.to_owned(), block.into())));
            }
            FilePart::Whole(whole) if is_of(text, whole) => {
                parts.insert(WHOLE.to_owned(), text.into());
            }
            FilePart::Whole(_) => {}
        }
        Ok(parts)
    }

    /// The parts that stand in a text exactly as `init` writes them. Without a record they count as written by it.
    pub fn equal_parts(&self, text: &str) -> Result<WrittenParts, BrokenFile> {
        let own = match &self.part {
            FilePart::Entries { entries, .. } => {
                entries.iter().map(|entry| (entry.name(), entry.part())).collect()
            }
            FilePart::Block(words) => [(BLOCK.to_owned(), block::text(words).into())].into(),
            FilePart::Whole(whole) => WrittenParts::from([(WHOLE.to_owned(), (*whole).into())]),
        };
        let mut parts = self.parts(text)?;
        parts.retain(|name, part| own.get(name) == Some(part));
        Ok(parts.into_keys().map(|name| (name, Value::Null)).collect())
    }

    /// Whether a part of ours stands in a text. A key that may be the user's does not count.
    pub fn stands_in(&self, text: &str) -> Result<bool, BrokenFile> {
        let mut parts = self.parts(text)?;
        if let FilePart::Entries { entries, .. } = &self.part {
            let free = entries.iter().filter(|entry| entry.kind == EntryKind::Free);
            free.for_each(|entry| drop(parts.remove(&entry.name())));
        }
        Ok(!parts.is_empty())
    }

    /// The value of our first entry as it stands in the file.
    pub fn found(&self, text: &str) -> Result<Option<Value>, BrokenFile> {
        let FilePart::Entries { format, entries } = &self.part else { return Ok(None) };
        let Some(entry) = entries.first() else { return Ok(None) };
        value_at(*format, text, &entry.at)
    }
}

fn value_at(format: Format, text: &str, path: &[&str]) -> Result<Option<Value>, BrokenFile> {
    match format {
        Format::Json => json::value_at(text, path),
        Format::Toml => toml::value_at(text, path),
    }
}

/// Whether a text begins with the mark that a whole file of ours has in its first line.
fn is_of(text: &str, whole: &str) -> bool {
    let mark = |text: &str| text.lines().next().map(|line| line.trim_end().to_owned());
    mark(text) == mark(whole)
}
