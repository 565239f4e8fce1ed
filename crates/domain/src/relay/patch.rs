//! The file headers of a unified diff, read as `git apply` reads them: one leading folder of each
//! path is dropped, quoted names are unquoted, and lines of a hunk are counted, so that a removed
//! line `-- x` is never taken for a header.

/// One file of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePatch {
    /// `None` when the file is new, or no header names it.
    pub old: Option<String>,
    /// `None` when the file is deleted, or no header names it.
    pub new: Option<String>,
    /// The patch creates, changes or deletes a symbolic link.
    pub is_link: bool,
}

impl FilePatch {
    /// Both sides; the path comes twice when the file is not renamed.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.old.iter().chain(&self.new).map(String::as_str)
    }
}

/// The role of a line in a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchLine {
    /// The line begins a file.
    Start,
    Header,
    /// The line is inside a hunk.
    Content,
}

/// Follows a patch line by line.
#[derive(Default)]
pub(super) struct Reader {
    old_left: u32,
    new_left: u32,
    in_git_header: bool,
}

impl Reader {
    /// Lines that the last hunk still promises: (old, new).
    pub(super) fn left(&self) -> (u32, u32) {
        (self.old_left, self.new_left)
    }

    pub(super) fn line(&mut self, line: &str) -> PatchLine {
        if self.old_left > 0 || self.new_left > 0 {
            let (old, new) = match line.as_bytes().first() {
                None | Some(b' ' | b'\r') => (1, 1),
                Some(b'-') => (1, 0),
                Some(b'+') => (0, 1),
                Some(b'\\') => (0, 0),
                // The hunk is broken off: any other line ends it.
                Some(_) => (self.old_left, self.new_left),
            };
            let broken_off = line.starts_with(|c: char| !" \r-+\\".contains(c));
            self.old_left = self.old_left.saturating_sub(old);
            self.new_left = self.new_left.saturating_sub(new);
            if !broken_off {
                return PatchLine::Content;
            }
        }
        if let Some((old, new)) = hunk(line) {
            (self.old_left, self.new_left) = (old, new);
            self.in_git_header = false;
            return PatchLine::Header;
        }
        if line.starts_with("\\ ") {
            return PatchLine::Content;
        }
        let starts =
            line.starts_with("diff --git ") || (line.starts_with("--- ") && !self.in_git_header);
        if line.starts_with("diff --git ") {
            self.in_git_header = true;
        } else if line.starts_with("--- ") {
            // `---` ends the header of `diff --git`, or begins a file itself.
            self.in_git_header = false;
        }
        if starts { PatchLine::Start } else { PatchLine::Header }
    }
}

/// The files of a patch in its order.
pub fn files(patch: &str) -> Vec<FilePatch> {
    let mut files: Vec<FilePatch> = Vec::new();
    let mut reader = Reader::default();
    for line in patch.lines() {
        let kind = reader.line(line);
        if kind == PatchLine::Content {
            continue;
        }
        if kind == PatchLine::Start {
            files.push(FilePatch::default());
        }
        if let Some(file) = files.last_mut() {
            header(file, line.trim_end_matches('\r'));
        }
    }
    files
}

/// Whether the patch has any file.
pub fn has_file_header(patch: &str) -> bool {
    files(patch).iter().any(|file| file.paths().next().is_some())
}

/// The number of lines, as summaries count them.
pub fn line_count(patch: &str) -> usize {
    patch.lines().count()
}

fn header(file: &mut FilePatch, line: &str) {
    let named = |start: &str| line.strip_prefix(start);
    if let Some(names) = named("diff --git ") {
        let name = both_names(names);
        (file.old, file.new) = (name.clone(), name);
    } else if let Some(name) = named("--- ") {
        file.old = side(name);
    } else if let Some(name) = named("+++ ") {
        file.new = side(name);
    } else if let Some(name) = named("rename from ").or_else(|| named("copy from ")) {
        file.old = Some(unquoted(name));
    } else if let Some(name) = named("rename to ").or_else(|| named("copy to ")) {
        file.new = Some(unquoted(name));
    } else if named("new file mode ").is_some() {
        file.old = None;
    } else if named("deleted file mode ").is_some() {
        file.new = None;
    }
    let modes = ["new file mode ", "deleted file mode ", "old mode ", "new mode ", "index "];
    let mode = modes.iter().find_map(|start| named(start)).unwrap_or_default();
    file.is_link |= mode.split(' ').next_back() == Some("120000");
}

/// The name after `---` or `+++`; `None` for `/dev/null`.
fn side(name: &str) -> Option<String> {
    let name = if name.starts_with('"') {
        unquoted(name)
    } else {
        // A tab and a time may follow the name.
        name.split('\t').next().unwrap_or_default().trim_end().to_owned()
    };
    (name != "/dev/null").then(|| without_first(&name))
}

/// The one name in `a/x b/x`; `None` when the two differ, as in renames, which repeat the names in lines of their
/// own.
fn both_names(names: &str) -> Option<String> {
    if names.contains('"') {
        let second = names.rfind(" \"").map(|at| unquoted(&names[at + 1..]));
        let second = second.or_else(|| names.rsplit_once(' ').map(|(_, name)| name.to_owned()));
        return second.map(|name| without_first(&name));
    }
    names.match_indices(' ').find_map(|(at, _)| {
        let (old, new) = (without_first(&names[..at]), without_first(&names[at + 1..]));
        (old == new).then_some(new)
    })
}

/// Drops `a/` or `b/`. An absolute path stays one, so that it can be refused.
fn without_first(name: &str) -> String {
    if name.starts_with('/') {
        return name.to_owned();
    }
    name.split_once('/').map_or(name, |(_, rest)| rest).to_owned()
}

fn hunk(line: &str) -> Option<(u32, u32)> {
    let ranges = line.strip_prefix("@@ -")?;
    let (old, rest) = ranges.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    Some((count(old)?, count(new)?))
}

/// Reads a name as git writes it: in quotes, with escapes, when it holds unusual characters.
fn unquoted(name: &str) -> String {
    let Some(inner) = name.strip_prefix('"') else { return name.to_owned() };
    let mut bytes = Vec::new();
    let mut rest = inner.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'"', _) => break,
            (b'\\', [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', after @ ..]) => {
                bytes.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                rest = after;
            }
            (b'\\', [escaped, after @ ..]) => {
                bytes.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'a' => 7,
                    b'b' => 8,
                    b'v' => 11,
                    b'f' => 12,
                    other => *other,
                });
                rest = after;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
