//! Which files a patch may touch.

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::patch::FilePatch;
use super::spec::Scope;

/// A scope made ready to judge paths.
pub struct ScopeRule {
    /// Without trailing slashes; empty for the whole repository.
    places: Vec<String>,
    /// `None`: any file.
    globs: Option<GlobSet>,
}

/// The first path that must not be touched, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    pub path: String,
    pub why: &'static str,
}

impl ScopeRule {
    /// An invalid pattern was refused when the spec was read; here it matches nothing.
    pub fn new(scope: &Scope) -> Self {
        let places: Vec<String> = scope.read_paths.iter().map(|path| plain(path)).collect();
        let whole = places.iter().any(String::is_empty);
        let places = if whole { Vec::new() } else { places };
        let globs = scope.file_globs.as_deref().filter(|globs| !globs.is_empty());
        let globs = globs.map(|globs| {
            let mut set = GlobSetBuilder::new();
            for glob in globs.iter().filter_map(|glob| pattern(glob).ok()) {
                set.add(glob);
            }
            set.build().unwrap_or_default()
        });
        Self { places, globs }
    }

    pub fn judge_glob(glob: &str) -> Result<(), String> {
        if glob.is_empty() {
            return Err("must not be empty".into());
        }
        pattern(glob).map(drop).map_err(|error| format!("must be a glob: {}", error.kind()))
    }

    /// Whether a plain path inside the repository belongs to the scope.
    pub fn holds(&self, path: &str) -> bool {
        if self.places.iter().any(|place| place == path) {
            return true;
        }
        let below = |place: &String| {
            path.strip_prefix(place.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let placed = self.places.is_empty() || self.places.iter().any(below);
        placed && self.globs.as_ref().is_none_or(|globs| globs.is_match(path))
    }

    /// Judges both sides of every file, in the patch's order. `is_link` knows the baseline commit.
    pub fn first_offence(
        &self,
        files: &[FilePatch],
        is_link: &dyn Fn(&str) -> bool,
    ) -> Option<Offence> {
        files.iter().find_map(|file| {
            let offence = file.paths().find_map(|path| self.offence(path, is_link));
            offence.or_else(|| {
                let path = file.paths().next().filter(|_| file.is_link)?;
                Some(Offence { path: path.to_owned(), why: "is a symbolic link" })
            })
        })
    }

    pub fn offence(&self, path: &str, is_link: &dyn Fn(&str) -> bool) -> Option<Offence> {
        let why = if path.starts_with(['/', '\\']) || path.get(1..3) == Some(":\\") {
            Some("is absolute")
        } else if path.split(['/', '\\']).any(|part| part == "..") {
            Some("leaves the repository")
        } else if path.split('/').any(is_git_folder) {
            Some("is git's own")
        } else if with_parents(path).any(is_link) {
            Some("is, or lies behind, a symbolic link")
        } else if !self.holds(path) {
            Some("is outside the scope")
        } else {
            None
        };
        why.map(|why| Offence { path: path.to_owned(), why })
    }
}

/// A path and every folder above it.
pub fn with_parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain(std::iter::once(path))
}

/// Whether a file system that ignores case, or shortens names, would find `.git` under this name.
fn is_git_folder(part: &str) -> bool {
    let part = part.trim_end_matches(['.', ' ']);
    part.eq_ignore_ascii_case(".git") || part.eq_ignore_ascii_case("git~1")
}

fn plain(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.collect::<Vec<_>>().join("/")
}

fn pattern(glob: &str) -> Result<Glob, globset::Error> {
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    GlobBuilder::new(glob).literal_separator(true).build()
}
