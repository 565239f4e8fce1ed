//! Which files of a patch are shown folded, and the reason in words.

use super::{DiffFile, DiffSign};

/// More changed lines than a person reads at once.
pub(super) const LARGE_LINES: usize = 1_500;
/// A file with a larger patch was not written by hand.
const HAND_BYTES_MAX: usize = 1024 * 1024;
/// Lines of code are shorter on average.
const MINIFIED_LINE_BYTES: usize = 500;

/// How a file is shown. Everything but `Normal` is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffKind {
    Normal,
    /// Git shows no lines of it.
    Binary,
    Generated(GeneratedBy),
    /// Over 1,500 changed lines.
    Large,
}

/// Why a file counts as written by a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratedBy {
    /// A package manager's record of versions.
    Lock,
    /// The repository's attributes say so.
    Attribute,
    /// Code without line ends.
    Minified,
    /// Over 1 MB.
    Size,
}

impl DiffKind {
    /// Why the file is folded; `None` for a file that is shown.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Normal => None,
            Self::Binary => Some("binary"),
            Self::Generated(GeneratedBy::Lock) => Some("generated: a lock file"),
            Self::Generated(GeneratedBy::Attribute) => Some("generated, as .gitattributes says"),
            Self::Generated(GeneratedBy::Minified) => Some("generated: minified"),
            Self::Generated(GeneratedBy::Size) => Some("generated: over 1 MB"),
            Self::Large => Some("over 1,500 changed lines"),
        }
    }
}

/// The kind by the name and the marks of a file alone, for lists without a patch.
pub fn kind_of(path: &str, lines: Option<(u64, u64)>, is_marked: bool) -> DiffKind {
    let Some((added, removed)) = lines else { return DiffKind::Binary };
    if is_lock(path) {
        DiffKind::Generated(GeneratedBy::Lock)
    } else if is_marked {
        DiffKind::Generated(GeneratedBy::Attribute)
    } else if is_minified_by_name(path) {
        DiffKind::Generated(GeneratedBy::Minified)
    } else if added.saturating_add(removed) > LARGE_LINES as u64 {
        DiffKind::Large
    } else {
        DiffKind::Normal
    }
}

/// The kind of a file with its patch, which says more than its name: the size, and the length of its lines.
pub(super) fn judge(
    file: &DiffFile,
    is_binary: bool,
    patch_bytes: usize,
    is_marked: bool,
) -> DiffKind {
    let lines = (!is_binary).then_some((file.added as u64, file.removed as u64));
    match kind_of(&file.path, lines, is_marked) {
        DiffKind::Normal | DiffKind::Large if patch_bytes > HAND_BYTES_MAX => {
            DiffKind::Generated(GeneratedBy::Size)
        }
        DiffKind::Normal if has_minified_lines(file) => DiffKind::Generated(GeneratedBy::Minified),
        kind => kind,
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a package manager, or another program that records versions, wrote the file. Such files have `lock` as the
/// ending of their name in one of a few forms; the others are listed.
fn is_lock(path: &str) -> bool {
    const NAMES: [&str; 6] = [
        ".terraform.lock.hcl",
        "Package.resolved",
        "go.sum",
        "go.work.sum",
        "npm-shrinkwrap.json",
        "packages.lock.json",
    ];
    const ENDS: [&str; 7] =
        [".lock", ".lockb", ".lockfile", "-lock.json", "-lock.yaml", "-lock.yml", "-lock.toml"];
    let name = name_of(path);
    // A file that is called `.lock` is no record of versions.
    let has_end = |end: &str| name.strip_suffix(end).is_some_and(|stem| !stem.is_empty());
    NAMES.contains(&name) || ENDS.iter().any(|end| has_end(end))
}

fn is_minified_by_name(path: &str) -> bool {
    let name = name_of(path);
    [".min.js", ".min.mjs", ".min.css", ".js.map", ".css.map"].iter().any(|end| name.ends_with(end))
}

/// Whether the added lines of a script or stylesheet are too long on average to be written by hand.
fn has_minified_lines(file: &DiffFile) -> bool {
    let is_code = [".js", ".mjs", ".cjs", ".css"].iter().any(|end| file.path.ends_with(end));
    let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
    let mut added = lines.filter(|line| line.sign == DiffSign::Added).peekable();
    if !is_code || added.peek().is_none() {
        return false;
    }
    added.map(|line| line.text.len()).sum::<usize>() / file.added.max(1) > MINIFIED_LINE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_nobody_wrote_are_known_by_name_and_size() {
        let lock = DiffKind::Generated(GeneratedBy::Lock);
        let minified = DiffKind::Generated(GeneratedBy::Minified);
        for (path, lines, is_marked, kind) in [
            ("src/main.rs", Some((3, 1)), false, DiffKind::Normal),
            ("Cargo.lock", Some((3, 1)), false, lock),
            ("web/package-lock.json", Some((9000, 1)), false, lock),
            ("go.sum", Some((3, 1)), true, lock),
            ("uv.lock", Some((3, 1)), false, lock),
            ("words.lock", Some((3, 1)), false, lock),
            ("a/bun.lockb", Some((3, 1)), false, lock),
            ("pnpm-lock.yaml", Some((3, 1)), false, lock),
            ("infra/.terraform.lock.hcl", Some((3, 1)), false, lock),
            (".lock", Some((3, 1)), false, DiffKind::Normal),
            ("src/lock.rs", Some((3, 1)), false, DiffKind::Normal),
            ("src/deadlock", Some((3, 1)), false, DiffKind::Normal),
            ("Cargo.lock/notes.md", Some((3, 1)), false, DiffKind::Normal),
            ("src/api.rs", Some((3, 1)), true, DiffKind::Generated(GeneratedBy::Attribute)),
            ("dist/app.min.js", Some((1, 1)), false, minified),
            ("logo.png", None, false, DiffKind::Binary),
            ("src/big.rs", Some((1000, 500)), false, DiffKind::Normal),
            ("src/big.rs", Some((1000, 501)), false, DiffKind::Large),
            ("src/big.rs", Some((u64::MAX, 1)), false, DiffKind::Large),
        ] {
            assert_eq!(kind_of(path, lines, is_marked), kind, "{path}");
        }
    }

    #[test]
    fn long_lines_of_scripts_are_minified_and_huge_patches_are_generated() {
        let of = |path: &str, line: &str, times: usize| {
            let lines = format!("+{line}\n").repeat(times);
            let patch = format!("diff --git a/{path} b/{path}\n@@ -0,0 +1,{times} @@\n{lines}");
            super::super::parse(&patch, |_| false).expect("a patch")[0].kind
        };
        let long = "x".repeat(600);
        assert_eq!(of("app.js", &long, 2), DiffKind::Generated(GeneratedBy::Minified));
        assert_eq!(of("app.rs", &long, 2), DiffKind::Normal);
        assert_eq!(of("data.txt", &long, 2000), DiffKind::Generated(GeneratedBy::Size));
    }
}
