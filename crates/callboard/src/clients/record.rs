//! The record of what `init` did to files, so that `init --remove` gives them back byte for byte. It lies in the user's
//! data folder and never holds a whole file of the user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::splice::Splice;

/// Parts of ours that `init` wrote into a file, by their names, each with what stood in its place; null for nothing.
pub type WrittenParts = BTreeMap<String, Value>;

/// What was done to each file, by the path that the plan names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesRecord(BTreeMap<PathBuf, RecordedChange>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedChange {
    /// Whether the file did not exist before.
    made: bool,
    /// SHA-256 of the text that was written: an edited file is not undone but edited.
    after: String,
    undo: Splice,
    /// Without one when an earlier version of this program wrote the record: every part of the file counts as written.
    wrote: Option<WrittenParts>,
}

impl FilesRecord {
    /// A record that cannot be read counts as none: removal then edits the files.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let Ok(Value::Object(rows)) = serde_json::from_str(&text) else { return Self::default() };
        let row =
            |(path, row): (String, Value)| Some((PathBuf::from(path), RecordedChange::read(&row)?));
        Self(rows.into_iter().filter_map(row).collect())
    }

    pub fn text(&self) -> Option<String> {
        let row = |(path, done): (&PathBuf, &RecordedChange)| {
            (path.to_string_lossy().into_owned(), done.document())
        };
        let rows: serde_json::Map<String, Value> = self.0.iter().map(row).collect();
        (!rows.is_empty()).then(|| format!("{:#}\n", Value::Object(rows)))
    }

    /// Whether `init` never ran here, as in a fresh clone.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// The parts that `init` wrote; `None` when it wrote all that are there.
    pub fn wrote(&self, path: &Path) -> Option<WrittenParts> {
        self.0.get(path).map_or_else(|| Some(WrittenParts::new()), |done| done.wrote.clone())
    }

    pub fn keep(&mut self, path: &Path, before: Option<&str>, after: &str, wrote: WrittenParts) {
        let Splice { at, removed, inserted } = Splice::between(before.unwrap_or_default(), after);
        // The change backwards. It holds only the place of our part, never the rest of a user's file.
        let undo = Splice { at, removed: inserted, inserted: removed };
        let done =
            RecordedChange { made: before.is_none(), after: hash(after), undo, wrote: Some(wrote) };
        self.0.insert(path.to_owned(), done);
    }

    pub fn forget(&mut self, path: &Path) {
        self.0.remove(path);
    }

    /// Whether `init` made the file; `None` when the record has no row for it.
    pub fn is_made(&self, path: &Path) -> Option<bool> {
        self.0.get(path).map(|done| done.made)
    }

    /// The text before `init` changed it, `Some(None)` for no file; `None` when the text is not the one `init` wrote.
    pub fn original(&self, path: &Path, text: &str) -> Option<Option<String>> {
        let done = self.0.get(path).filter(|done| done.after == hash(text))?;
        let before = done.undo.apply(text)?;
        Some((!done.made).then_some(before))
    }
}

impl RecordedChange {
    fn read(row: &Value) -> Option<Self> {
        let text = |name: &str| row[name].as_str().map(str::to_owned);
        Some(Self {
            made: row["made"].as_bool()?,
            after: text("after")?,
            undo: Splice {
                at: usize::try_from(row["at"].as_u64()?).ok()?,
                removed: text("inserted")?,
                inserted: text("replaced")?,
            },
            wrote: row["wrote"].as_object().map(|wrote| wrote.clone().into_iter().collect()),
        })
    }

    fn document(&self) -> Value {
        json!({
            "made": self.made,
            "after": self.after,
            "at": self.undo.at,
            "inserted": self.undo.removed,
            "replaced": self.undo.inserted,
            "wrote": self.wrote,
        })
    }
}

fn hash(text: &str) -> String {
    callboard_domain::hex::hex(Sha256::digest(text.as_bytes()))
}
