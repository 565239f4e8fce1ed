//! Answers of git about changed files, read from bytes: `--raw --numstat -z` and `cat-file --batch`.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use callboard_engine::ports::{ChangeStatus, ChangedFile};

use crate::worktree::text;

/// A content with a zero byte near its beginning is no text; git judges by as many bytes.
const JUDGED_BYTES: usize = 8000;

/// A changed file with its paths as git knows them; a path need not be text.
pub(super) struct RawChange {
    pub(super) path: OsString,
    was: Option<OsString>,
    pub(super) file: ChangedFile,
}

impl RawChange {
    pub(super) fn paths(&self) -> impl Iterator<Item = &OsStr> {
        std::iter::once(&*self.path).chain(self.was.as_deref())
    }
}

/// The entries of `--raw -z`, then those of `--numstat -z`. A file of which only spaces changed has no numbers when
/// spaces are ignored.
pub(super) fn raw_changes(answer: &[u8]) -> Vec<RawChange> {
    let mut fields = answer.split(|byte| *byte == 0).peekable();
    let mut changes: Vec<RawChange> = Vec::new();
    while let Some(facts) = fields.next_if(|field| field.starts_with(b":")) {
        let facts = text(facts);
        let mut facts = facts.trim_start_matches(':').split(' ').skip(2);
        let (old, new) = (blob(facts.next()), blob(facts.next()));
        let status = status(facts.next().unwrap_or_default());
        let first = path(fields.next().unwrap_or_default());
        let (was, path) = match status {
            // A copy has two paths as well, but is not looked for.
            ChangeStatus::Renamed => (Some(first), path(fields.next().unwrap_or_default())),
            _ => (None, first),
        };
        let file = ChangedFile {
            path: path.to_string_lossy().into_owned(),
            was: was.as_ref().map(|was| was.to_string_lossy().into_owned()),
            status,
            old_blob: old,
            new_blob: new,
            lines: Some((0, 0)),
            is_generated: false,
            is_in_patch: false,
        };
        changes.push(RawChange { path, was, file });
    }
    let mut numbers = HashMap::new();
    while let Some(line) = fields.next().filter(|line| !line.is_empty()) {
        let mut parts = line.splitn(3, |byte| *byte == b'\t');
        // Binary files have `-` for both.
        let mut number = || text(parts.next().unwrap_or_default()).parse::<u64>().ok();
        let lines = number().zip(number());
        let named = parts.next().filter(|name| !name.is_empty());
        // A file that was moved has its two paths in fields of their own.
        let named = named.or_else(|| fields.nth(1)).unwrap_or_default();
        numbers.insert(path(named), lines);
    }
    for change in &mut changes {
        if let Some(lines) = numbers.get(&change.path) {
            change.file.lines = *lines;
        }
    }
    changes
}

fn path(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

/// The id of a content; zeros mean that there is none.
fn blob(id: Option<&str>) -> Option<String> {
    id.filter(|id| id.bytes().any(|digit| digit != b'0')).map(str::to_owned)
}

fn status(word: &str) -> ChangeStatus {
    match word.as_bytes().first() {
        Some(b'A') => ChangeStatus::Added,
        Some(b'D') => ChangeStatus::Deleted,
        Some(b'R' | b'C') => ChangeStatus::Renamed,
        Some(b'T') => ChangeStatus::Retyped,
        _ => ChangeStatus::Modified,
    }
}

/// The contents and their sizes in an answer of `cat-file --batch-check`, without other objects and missing ones.
pub(super) fn sizes(answer: &[u8]) -> Vec<(String, u64)> {
    let answer = text(answer);
    let entry = |line: &str| {
        let mut words = line.split(' ');
        let (id, kind, size) = (words.next()?, words.next()?, words.next()?);
        (kind == "blob").then_some((id.to_owned(), size.parse().ok()?))
    };
    answer.lines().filter_map(entry).collect()
}

/// The contents in an answer of `cat-file --batch` that are text, by their ids.
pub(super) fn batch(answer: &[u8]) -> HashMap<String, String> {
    let (mut texts, mut rest) = (HashMap::new(), answer);
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (head, behind) = (text(&rest[..end]), &rest[end + 1..]);
        let size = head.rsplit(' ').next().and_then(|size| size.parse::<usize>().ok());
        let Some((id, content)) = head.split(' ').next().zip(size.and_then(|n| behind.get(..n)))
        else {
            break;
        };
        if !content.iter().take(JUDGED_BYTES).any(|byte| *byte == 0) {
            texts.insert(id.to_owned(), String::from_utf8_lossy(content).into_owned());
        }
        rest = behind.get(content.len() + 1..).unwrap_or_default();
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_answers_are_read_as_far_as_they_go() {
        for answer in
            [&b""[..], b"\0", b":", b":1 2", b":1 2 3 4 R\0a", b":1 2 3 4 M\0a\0x\ty", b"1\t"]
        {
            assert!(raw_changes(answer).len() <= 1, "{answer:?}");
        }
        for answer in
            [&b""[..], b"\n", b"a blob 9\nshort", b"a missing\n", b"a blob 99999999999999999999\nx"]
        {
            assert!(batch(answer).is_empty() && sizes(answer).len() <= 1, "{answer:?}");
        }
        let texts = batch(b"a blob 3\nx\ny\nb blob 2\n\0z\nc blob 0\n\n");
        assert_eq!(texts.get("a").map(String::as_str), Some("x\ny"));
        assert_eq!((texts.get("b"), texts.get("c").map(String::as_str)), (None, Some("")));
    }
}
