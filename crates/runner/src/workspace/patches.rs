//! Whether a patch applies to the commit, and what it changes by git's own account.

use std::fs;

use super::{Workspace, words};
use crate::git::GitFault;

/// A path that a patch changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PatchedPath {
    pub(crate) path: String,
    /// Whether the path is a link before or after.
    pub(crate) is_link: bool,
}

pub(crate) enum Applied {
    Cleanly(Vec<PatchedPath>),
    /// The conflict in git's words.
    Conflict(String),
}

impl Workspace {
    /// Applies a patch to the commit in a temporary index. The worktree and its index, which an agent may have changed,
    /// are not used.
    pub(crate) async fn apply(&self, patch: &str) -> Result<Applied, String> {
        let file = self.folder().path().join("patch.diff");
        fs::write(&file, patch).map_err(|error| format!("cannot write the patch: {error}"))?;
        let git = || self.git().with("GIT_INDEX_FILE", self.folder().path().join("index"));
        git().ask(&["read-tree", &self.commit]).await.map_err(words)?;
        let file = file.display().to_string();
        let apply = ["apply", "--cached", "--whitespace=nowarn", "--", &file];
        match git().ask(&apply).await {
            Ok(_) => {}
            Err(GitFault::Failed(words)) => return Ok(Applied::Conflict(words)),
            Err(fault) => return Err(words(fault)),
        }
        let diff = ["diff-index", "--cached", "--raw", "-z", "--no-renames", &self.commit];
        let answer = git().ask(&diff).await.map_err(words)?;
        let mut fields = answer.split(|byte| *byte == 0);
        let mut changes = Vec::new();
        // `:100644 120000 <old> <new> T`, then the path.
        while let (Some(facts), Some(path)) = (fields.next(), fields.next()) {
            let facts = String::from_utf8_lossy(facts);
            let is_link = facts.split([' ', ':']).any(|mode| mode == "120000");
            changes.push(PatchedPath { path: String::from_utf8_lossy(path).into_owned(), is_link });
        }
        Ok(Applied::Cleanly(changes))
    }
}
