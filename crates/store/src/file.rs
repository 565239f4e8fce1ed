//! Files in the database: logs and artifacts that every server on a shared store must be able to
//! show. Written once, never changed, read in spans.

use std::ops::Range;
use std::sync::Arc;

use callboard_domain::ids::TaskId;
use callboard_domain::time::Timestamp;

use crate::StoreError;

/// The largest file that is kept.
pub const FILE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The bytes that one row holds. Part of the format: files written with another size could not be read. An artifact of up
/// to this size can be stored by the command that records it.
pub const PART_BYTES: usize = 256 * 1024;
/// The media type of artifacts.
pub(crate) const TEXT: &str = "text/plain";
/// How many files one `files_prune` deletes, so that writers get their turn in between.
pub(crate) const PRUNED_MAX: i64 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    pub org: Arc<str>,
    pub task: Option<TaskId>,
    /// A path by convention; to the store it is only a name.
    pub name: String,
    pub media_type: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("a file is called '{0}' already, and files are never overwritten")]
    Taken(String),
    #[error("'{name}' has {bytes} bytes; a file may have {FILE_BYTES_MAX}")]
    TooLarge { name: String, bytes: usize },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NewFile {
    pub(crate) fn judge(&self) -> Result<(), FileError> {
        let bytes = self.bytes.len();
        if bytes > FILE_BYTES_MAX {
            return Err(FileError::TooLarge { name: self.name.clone(), bytes });
        }
        Ok(())
    }

    /// The rows that hold the bytes, numbered from 0.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (i32, &[u8])> {
        (0..).zip(self.bytes.chunks(PART_BYTES))
    }
}

/// A span of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSpan {
    /// The last bytes.
    Tail {
        bytes_max: u64,
    },
    From {
        start: u64,
        bytes_max: u64,
    },
}

impl FileSpan {
    pub const WHOLE: Self = Self::From { start: 0, bytes_max: u64::MAX };

    /// The range of this span in a file of `size` bytes.
    pub fn within(self, size: u64) -> Range<u64> {
        match self {
            Self::Tail { bytes_max } => size.saturating_sub(bytes_max)..size,
            Self::From { start, bytes_max } => {
                let start = start.min(size);
                start..start.saturating_add(bytes_max).min(size)
            }
        }
    }
}

/// Bytes of a file, with their place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    pub media_type: String,
    pub at: Timestamp,
    /// The size of the whole file.
    pub size: u64,
    pub start: u64,
    pub bytes: Vec<u8>,
}

/// The numbers of the first and the last row that hold a span.
pub(crate) fn rows_of(span: &Range<u64>) -> (i32, i32) {
    let row = |byte: u64| i32::try_from(byte / PART_BYTES as u64).unwrap_or(i32::MAX);
    (row(span.start), row(span.end.saturating_sub(1)))
}

/// Cuts a span out of its rows; `None` when rows are missing, because the file was deleted.
pub(crate) fn cut(rows: Vec<Vec<u8>>, span: &Range<u64>) -> Option<Vec<u8>> {
    let skipped = (span.start % PART_BYTES as u64) as usize;
    let wanted = (span.end - span.start) as usize;
    rows.concat().get(skipped..skipped + wanted).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_stays_within_its_file() {
        let tail = |bytes_max| FileSpan::Tail { bytes_max }.within(10);
        assert_eq!((tail(0), tail(4), tail(10), tail(u64::MAX)), (10..10, 6..10, 0..10, 0..10));
        let from = |start, bytes_max| FileSpan::From { start, bytes_max }.within(10);
        assert_eq!((from(0, 3), from(8, 3), from(11, 3)), (0..3, 8..10, 10..10));
        assert_eq!(FileSpan::WHOLE.within(10), 0..10);
        assert_eq!(FileSpan::From { start: 3, bytes_max: u64::MAX }.within(10), 3..10);
    }
}
