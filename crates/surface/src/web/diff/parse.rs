//! Reads the output of `git diff`. Lines of a hunk are counted by its head, so a removed line that looks like a head is
//! still a line. Input that is no patch of git ends early or is refused; nothing panics.

use super::kind::judge;
use super::quoted::{path, path_of_both, without_side};
use super::{DiffFile, DiffHunk, DiffKind, DiffLine, DiffSign, DiffStatus};

/// More files than git lists in an answer that is read here.
/// Both limits protect the memory of the server from a patch that an agent made.
const FILES_MAX: usize = 20_000;
/// More lines than fit on any page.
const LINES_MAX: usize = 500_000;

/// Why a patch is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiffFault {
    #[error("the patch compares with several parents at once; ask git for a diff of two sides")]
    Combined,
    #[error("the patch has more than {FILES_MAX} files or {LINES_MAX} lines")]
    TooLarge,
}

/// The files of a patch. `is_generated` says of a path that the repository marks it as generated.
pub fn parse(patch: &str, is_generated: impl Fn(&str) -> bool) -> Result<Vec<DiffFile>, DiffFault> {
    let mut reader = PatchReader { rest: patch, lines: 0 };
    let mut files = Vec::new();
    while let Some(line) = reader.next()? {
        if line.starts_with("diff --cc ") || line.starts_with("diff --combined ") {
            return Err(DiffFault::Combined);
        }
        let Some(both) = line.strip_prefix("diff --git ") else { continue };
        if files.len() == FILES_MAX {
            return Err(DiffFault::TooLarge);
        }
        let before = reader.rest.len();
        let mut file = read_file(&mut reader, both)?;
        let bytes = before - reader.rest.len();
        let is_binary = file.kind == DiffKind::Binary;
        file.kind = judge(&file, is_binary, bytes, is_generated(&file.path));
        files.push(file);
    }
    Ok(files)
}

/// The rest of a patch, read line by line.
struct PatchReader<'p> {
    rest: &'p str,
    lines: usize,
}

impl<'p> PatchReader<'p> {
    /// The next line, which stays where it is.
    fn peek(&self) -> Option<&'p str> {
        if self.rest.is_empty() {
            return None;
        }
        Some(self.rest.split_once('\n').map_or(self.rest, |(line, _)| line))
    }

    /// Takes the next line, and counts it.
    fn next(&mut self) -> Result<Option<&'p str>, DiffFault> {
        let Some(line) = self.peek() else { return Ok(None) };
        self.lines += 1;
        if self.lines > LINES_MAX {
            return Err(DiffFault::TooLarge);
        }
        self.rest = self.rest.get(line.len() + 1..).unwrap_or_default();
        Ok(Some(line))
    }

    /// The next line, if it is still of the present file.
    fn next_of_file(&mut self) -> Result<Option<&'p str>, DiffFault> {
        match self.peek() {
            // Lines of hunks are read in `read_hunk`, so code that begins with these words does not end a file here.
            Some(line) if !line.starts_with("diff --") => self.next(),
            _ => Ok(None),
        }
    }
}

/// Reads the head of a file and its hunks.
fn read_file(reader: &mut PatchReader<'_>, both: &str) -> Result<DiffFile, DiffFault> {
    // The least reliable name: later lines of the head replace it.
    let mut file = DiffFile::of(path_of_both(both).unwrap_or_default());
    let (mut old_mode, mut former) = (None, None);
    while let Some(line) = reader.next_of_file()? {
        if line.starts_with("@@@ ") {
            return Err(DiffFault::Combined);
        } else if let Some(head) = line.strip_prefix("@@ -") {
            // An unreadable head has no counts, so its lines cannot be told from other text.
            let Some(hunk) = hunk_head(head) else { continue };
            let hunk = read_hunk(reader, hunk)?;
            file.added += count(&hunk, DiffSign::Added);
            file.removed += count(&hunk, DiffSign::Removed);
            file.hunks.push(hunk);
        } else if !file.hunks.is_empty() {
            // Words behind the last hunk are no part of a patch.
        } else if let Some(mode) = line.strip_prefix("old mode ") {
            old_mode = Some(mode.to_owned());
        } else if let Some(mode) = line.strip_prefix("new mode ") {
            file.modes = old_mode.take().map(|old| (old, mode.to_owned()));
        } else if line.starts_with("new file mode ") {
            file.status = DiffStatus::Added;
        } else if line.starts_with("deleted file mode ") {
            file.status = DiffStatus::Deleted;
        } else if let Some(from) = line.strip_prefix("rename from ") {
            (file.status, file.old_path) = (DiffStatus::Renamed, Some(path(from)));
        } else if let Some(from) = line.strip_prefix("copy from ") {
            (file.status, file.old_path) = (DiffStatus::Copied, Some(path(from)));
        } else if let Some(to) =
            line.strip_prefix("rename to ").or_else(|| line.strip_prefix("copy to "))
        {
            file.path = path(to);
        } else if let Some(old) = line.strip_prefix("--- ") {
            former = sided(old);
        } else if let Some(new) = line.strip_prefix("+++ ") {
            // The paths of a moved file are known already. A deleted file has its name on the side before.
            if let (None, Some(named)) = (&file.old_path, sided(new).or(former.take())) {
                file.path = named;
            }
        } else if line == "GIT binary patch" || line.starts_with("Binary files ") {
            file.kind = DiffKind::Binary;
        }
    }
    Ok(file)
}

/// The path of a side; `None` for a side on which the file does not exist.
fn sided(text: &str) -> Option<String> {
    let path = path(text);
    (path != "/dev/null").then(|| without_side(&path).to_owned())
}

/// The lines of a hunk with this sign.
fn count(hunk: &DiffHunk, sign: DiffSign) -> usize {
    hunk.lines.iter().filter(|line| line.sign == sign).count()
}

/// Reads `12,3 +12,4 @@ section`.
fn hunk_head(head: &str) -> Option<DiffHunk> {
    let (old, rest) = head.split_once(" +")?;
    let (new, section) = rest.split_once(" @@")?;
    let (old_start, old_count) = span(old)?;
    let (new_start, new_count) = span(new)?;
    let section = section.trim().to_owned();
    Some(DiffHunk { old_start, old_count, new_start, new_count, section, lines: Vec::new() })
}

fn span(text: &str) -> Option<(u32, u32)> {
    match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        // Git leaves a count of one out.
        None => Some((text.parse().ok()?, 1)),
    }
}

/// Reads the lines that the head of the hunk counts, or the lines up to one that does not fit.
fn read_hunk(reader: &mut PatchReader<'_>, mut hunk: DiffHunk) -> Result<DiffHunk, DiffFault> {
    let (mut old, mut new) = (hunk.old_start, hunk.new_start);
    let (mut old_left, mut new_left) = (hunk.old_count, hunk.new_count);
    while let Some(line) = reader.peek() {
        // `\ No newline at end of file` is about the line before it and counts on neither side.
        if line.starts_with('\\') {
            reader.next()?;
            if let Some(last) = hunk.lines.last_mut() {
                last.is_unended = true;
            }
            continue;
        }
        let sign = match line.as_bytes().first() {
            // An empty line is an empty context line whose blank was stripped on the way.
            Some(b' ') | None if old_left > 0 && new_left > 0 => DiffSign::Context,
            Some(b'+') if new_left > 0 => DiffSign::Added,
            Some(b'-') if old_left > 0 => DiffSign::Removed,
            _ => break,
        };
        reader.next()?;
        let text = line.get(1..).unwrap_or_default();
        // Kept as a flag: a change of line ends alone would otherwise show two equal lines.
        let (text, has_return) = match text.strip_suffix('\r') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (in_old, in_new) = (sign != DiffSign::Added, sign != DiffSign::Removed);
        hunk.lines.push(DiffLine {
            sign,
            old: in_old.then_some(old),
            new: in_new.then_some(new),
            text: text.to_owned(),
            has_return,
            is_unended: false,
            is_moved: false,
        });
        // The head may hold any number; saturating keeps a hostile one from overflowing.
        old = old.saturating_add(u32::from(in_old));
        new = new.saturating_add(u32::from(in_new));
        old_left -= u32::from(in_old);
        new_left -= u32::from(in_new);
    }
    Ok(hunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_marks(patch: &str) -> Result<Vec<DiffFile>, DiffFault> {
        parse(patch, |_| false)
    }

    #[test]
    fn a_combined_diff_is_refused() {
        for head in ["diff --cc a.rs\n", "diff --combined a.rs\n"] {
            assert_eq!(no_marks(head), Err(DiffFault::Combined), "{head}");
        }
        let hidden = "diff --git a/x b/x\n@@@ -1,1 -1,1 +1,2 @@@\n";
        assert_eq!(no_marks(hidden), Err(DiffFault::Combined));
    }

    #[test]
    fn a_head_that_lies_ends_its_hunk() {
        for (what, body, lines) in [
            ("too many", "@@ -1,9 +1,9 @@\n a\n-b\n", 2),
            ("too few", "@@ -1 +1 @@\n-a\n+b\n+c\n+d\n", 2),
            ("none", "@@ -0,0 +0,0 @@\n+a\n", 0),
            ("no number", "@@ -x +y @@\n+a\n", 0),
            ("huge", "@@ -4294967295,4294967295 +4294967295,4294967295 @@\n a\n-b\n+c\n", 3),
            ("beyond", "@@ -99999999999 +1 @@\n-a\n", 0),
            ("not ended", "@@ -1", 0),
            ("empty line", "@@ -1,2 +1,2 @@\n\n a\n", 2),
            ("other", "@@ -1,2 +1,2 @@\n a\nü\n a\n", 1),
            ("only an end", "@@ -1,2 +1,2 @@\n\\ No newline at end of file\n", 0),
        ] {
            let files = no_marks(&format!("diff --git a/x b/x\n{body}")).expect(what);
            let found: usize =
                files.iter().flat_map(|file| &file.hunks).map(|hunk| hunk.lines.len()).sum();
            assert_eq!((files.len(), found), (1, lines), "{what}");
        }
        assert_eq!(no_marks("no patch at all"), Ok(Vec::new()));
        assert_eq!(no_marks(""), Ok(Vec::new()));
    }

    #[test]
    fn a_flood_is_refused() {
        let flood = "diff --git a/x b/x\n".repeat(FILES_MAX + 1);
        assert_eq!(no_marks(&flood), Err(DiffFault::TooLarge));
        let flood = "\n".repeat(LINES_MAX + 1);
        assert_eq!(no_marks(&flood), Err(DiffFault::TooLarge));
    }
}
