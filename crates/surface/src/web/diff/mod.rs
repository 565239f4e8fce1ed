//! The changes of a task as a page shows them: a patch of git read into files, hunks and lines (`parse.rs`), words that
//! changed within a line (`words.rs`), classes of code (`paint.rs`), the tables (`table.rs`, `file.rs`), the tree of
//! files beside them (`tree.rs`), and the sides of a conflict (`conflict.rs`). Nothing here asks the engine.
//!
//! A patch is hostile text: an agent chose its paths and lines. Every limit is a sentence on the page, with a link.

mod conflict;
mod file;
mod kind;
mod moved;
mod paint;
mod parse;
mod quoted;
mod table;
mod tree;
mod words;

pub use conflict::conflict;
pub use file::{DiffCaps, DiffSaid, DiffView, FileFacts, PaintPair, anchor, files};
pub use kind::{DiffKind, GeneratedBy, kind_of};
pub use moved::mark_moved;
pub use paint::{FilePaint, PAINTED_BYTES_MAX, PaintOrder, PaintShop, paint};
pub use parse::{DiffFault, parse};
pub use tree::{TreeEntry, place_in_tree, tree};
pub use words::{Marks, marks};

/// A file that a patch changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffFile {
    /// The path after the change; the former path of a deleted file.
    pub path: String,
    /// The former path of a file that was moved or copied.
    pub old_path: Option<String>,
    pub status: DiffStatus,
    /// The modes before and after, where they differ.
    pub modes: Option<(String, String)>,
    pub added: usize,
    pub removed: usize,
    pub hunks: Vec<DiffHunk>,
    pub kind: DiffKind,
}

/// What happened to a file as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffStatus {
    Added,
    Deleted,
    Modified,
    Renamed,
    Copied,
}

impl DiffStatus {
    /// The word for the state of a file; none for a file that is simply changed.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Added => Some("new"),
            Self::Deleted => Some("deleted"),
            Self::Modified => None,
            Self::Renamed => Some("moved"),
            Self::Copied => Some("copied"),
        }
    }
}

/// Neighbouring lines, with the numbers of their first lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffHunk {
    pub old_start: u32,
    pub old_count: u32,
    pub new_start: u32,
    pub new_count: u32,
    /// The line of code that git shows behind the numbers.
    pub section: String,
    pub lines: Vec<DiffLine>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    pub sign: DiffSign,
    /// The number before the change; `None` for an added line.
    pub old: Option<u32>,
    /// The number after the change; `None` for a removed line.
    pub new: Option<u32>,
    /// The line without its end.
    pub text: String,
    /// The line ended with a carriage return.
    pub has_return: bool,
    /// No newline follows the line: it is the last of its file.
    pub is_unended: bool,
    /// The line was removed here and added elsewhere, or the other way round.
    pub is_moved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffSign {
    Context,
    Added,
    Removed,
}

impl DiffSign {
    /// The sign that stands before the code, as text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Context => " ",
            Self::Added => "+",
            Self::Removed => "−",
        }
    }
}

/// A side of a diff: before the change, or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiffSide {
    Left,
    Right,
}

impl DiffSide {
    /// The letter before a line's number in an address.
    pub fn letter(self) -> char {
        match self {
            Self::Left => 'L',
            Self::Right => 'R',
        }
    }
}

impl DiffLine {
    /// The side and the number by which a comment finds this line.
    pub fn place(&self) -> Option<(DiffSide, u32)> {
        match (self.new, self.old) {
            (Some(new), _) => Some((DiffSide::Right, new)),
            (None, Some(old)) => Some((DiffSide::Left, old)),
            (None, None) => None,
        }
    }
}

impl DiffFile {
    /// A changed file of which nothing but the path is known.
    fn of(path: String) -> Self {
        Self {
            path,
            old_path: None,
            status: DiffStatus::Modified,
            modes: None,
            added: 0,
            removed: 0,
            hunks: Vec::new(),
            kind: DiffKind::Normal,
        }
    }

    /// Changed lines, added and removed.
    pub fn changed(&self) -> usize {
        self.added + self.removed
    }
}
