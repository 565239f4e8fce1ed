//! A project of an org, to which tasks belong, and the repositories with its files.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::Prefix;
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
