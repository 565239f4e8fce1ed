//! A project of an org, to which tasks belong, and the repositories with its files.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ids::Prefix;
use crate::refusal::Refusal;
use crate::time::Timestamp;

pub const NAME_CHARS_MAX: usize = 200;
pub const DESCRIPTION_CHARS_MAX: usize = 10_000;
pub const REPOS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    pub id: i64,
    pub name: String,
    pub description: String,
    pub prefix: Prefix,
    pub created_at: Timestamp,
    /// When an actor last opened the project.
    pub opened_at: Option<Timestamp>,
}

/// A repository of a project, on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRepo {
    pub id: i64,
    pub project: i64,
    pub machine: String,
    /// The path with every link resolved.
    pub path: PathBuf,
    /// The default branch when the repository was added.
    pub default_branch: Option<String>,
    /// The repository with the lowest position is the primary one.
    pub position: u32,
}

/// The folders in which repositories may lie.
#[derive(Clone, Debug)]
pub struct RepoRoots<'a> {
    /// `board.repo_roots`, with every link resolved.
    pub roots: &'a [PathBuf],
    /// Whether callers show tokens. Without tokens and without roots, a repository may lie anywhere.
    pub has_tokens: bool,
}

impl RepoRoots<'_> {
    /// Judges the folder that a caller named, before anything looks at it.
    pub fn judge_named(given: &str) -> Result<&Path, Refusal> {
        let path = Path::new(given.trim());
        match path.is_absolute() {
            true => Ok(path),
            false => Err(refused(given, "is not an absolute path")),
        }
    }

    /// Judges the repository that was found there; its links are resolved.
    pub fn judge_found(&self, given: &str, found: &Path) -> Result<(), Refusal> {
        let is_inside = self.roots.iter().any(|root| found.starts_with(root));
        match self.roots.is_empty() {
            true if !self.has_tokens => Ok(()),
            true => Err(refused(
                given,
                "is not below board.repo_roots; a server with tokens needs a folder there",
            )),
            false if is_inside => Ok(()),
            false => Err(refused(given, "is outside board.repo_roots")),
        }
    }
}

fn refused(given: &str, why: &str) -> Refusal {
    Refusal::InvalidRepoPath { path: given.into(), why: why.into() }
}

/// Numbers for a project that is about to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRoom {
    pub project: i64,
    pub repos: Vec<i64>,
    /// The org has no other project.
    pub is_first: bool,
}

/// `prj_7`, as callers know it.
pub fn shown_id(id: i64) -> String {
    format!("prj_{id}")
}

pub fn read_id(text: &str) -> Option<i64> {
    text.trim().strip_prefix("prj_").and_then(|id| id.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a repository: `ok`, or the first words of the refusal.
    fn said(judged: Result<(), Refusal>) -> String {
        judged.err().map_or("ok".into(), |refusal| refusal.message())
    }

    #[test]
    fn a_repository_is_named_by_an_absolute_path() {
        for (given, is_path) in [
            ("/srv/shop", true),
            ("  /srv/shop ", true),
            ("/", true),
            ("shop", false),
            ("./shop", false),
            ("../shop", false),
            ("~/shop", false),
            ("", false),
        ] {
            let judged = RepoRoots::judge_named(given);
            assert_eq!(judged.is_ok(), is_path, "{given:?}");
            if let Err(refusal) = judged {
                assert!(refusal.message().contains("is not an absolute path"), "{given:?}");
            }
        }
    }

    #[test]
    fn a_repository_lies_below_a_root_where_there_are_roots_or_tokens() {
        let (none, two) = ("", "/srv/git /home/ana/code");
        for (roots, has_tokens, found, expected) in [
            (none, false, "/anywhere", "ok"),
            (none, true, "/anywhere", "a server with tokens needs a folder there"),
            (two, false, "/srv/git/shop", "ok"),
            (two, true, "/srv/git/shop", "ok"),
            (two, true, "/srv/git", "ok"),
            (two, true, "/home/ana/code/a/b", "ok"),
            (two, false, "/srv/gitlab/shop", "is outside board.repo_roots"),
            (two, false, "/srv", "is outside board.repo_roots"),
            (two, true, "/home/ana", "is outside board.repo_roots"),
        ] {
            let roots: Vec<PathBuf> = roots.split_whitespace().map(PathBuf::from).collect();
            let judged = RepoRoots { roots: &roots, has_tokens };
            let said = said(judged.judge_found(found, Path::new(found)));
            assert!(said.contains(expected), "{found}: {said}");
        }
    }
}
