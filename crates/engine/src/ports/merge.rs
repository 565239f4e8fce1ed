//! What the engine asks to bring a task's work into a target branch, as one commit: prepare all
//! repositories, look at the result, publish or abandon. Nothing is checked out in a folder of the
//! user; only where the target itself is checked out, unchanged, its files move along with it.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{Turn, Worktree, WorktreeFault};

#[async_trait]
pub trait Merges: Send + Sync {
    /// Commits leftovers, looks at the newest target and builds the commit that would go on top
    /// of it, in every repository. Moves no target. Waits for other merges in these repositories.
    async fn merge_prepare(&self, orders: Vec<MergeOrder>) -> Result<PreparedMerge, MergeFault>;

    /// How it would go with what is known here and committed as `from`, a branch or a commit. Asks
    /// nobody, writes nothing.
    async fn merge_outlook(
        &self,
        repo: &Path,
        from: &str,
        target: &str,
    ) -> Result<MergeOutlook, MergeFault>;

    /// A folder with the files of one part as they would be: the task's own worktree when it is
    /// the same, else one made for this, which `merge_publish` and `merge_abandon` remove.
    async fn merge_look(&self, part: &PreparedPart) -> Result<PathBuf, MergeFault>;

    /// Moves every target, or none. A fault `Moved` means: prepare again.
    async fn merge_publish(
        &self,
        prepared: PreparedMerge,
        push: bool,
    ) -> Result<Vec<MergedPart>, MergeFault>;

    async fn merge_abandon(&self, prepared: PreparedMerge);
}

#[derive(Clone, Debug)]
pub struct MergeOrder {
    pub from: MergeFrom,
    /// Whose work it is; stands in the commit.
    pub task: String,
    /// A local branch.
    pub target: String,
    /// Subject, empty line, body.
    pub message: String,
    /// Asks `origin` for the target first.
    pub fetch: bool,
    /// Waits until no other merge in this repository is under way, by any process.
    pub one_at_a_time: bool,
    /// Whether somebody has seen that it changes settings of Callboard, if it does.
    pub settings_seen: bool,
}

/// How a person wants something merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeWish {
    /// Push the target to `origin`, whatever the settings say.
    pub push: bool,
    /// Merge changes of Callboard's own settings, too.
    pub settings: bool,
}

/// Those of some changed files that hold settings of Callboard. What is merged there decides what
/// runs on the machine of whoever trusts it.
pub fn settings_files<'a>(files: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let is_setting = |file: &&String| file.split('/').any(|part| part == ".callboard");
    files.into_iter().filter(is_setting).cloned().collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeOutlook {
    /// Commits of the target that the branch lacks.
    pub behind: u64,
    /// Files that both sides changed, in ways that do not go together.
    pub conflicts: Vec<String>,
}

/// The work that is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeFrom {
    /// What stands in a task's worktree; what nobody committed there is committed first.
    Worktree { worktree: Worktree, leftovers_message: String },
    /// A branch as it is. Neither it nor a checkout of it changes.
    Branch { repo: PathBuf, name: String },
}

impl MergeFrom {
    pub fn repo(&self) -> &Path {
        match self {
            Self::Worktree { worktree, .. } => &worktree.repo,
            Self::Branch { repo, .. } => repo,
        }
    }

    pub fn branch(&self) -> &str {
        match self {
            Self::Worktree { worktree, .. } => &worktree.branch,
            Self::Branch { name, .. } => name,
        }
    }
}

/// Keeps other merges out until it is published, abandoned or dropped.
pub struct PreparedMerge {
    pub parts: Vec<PreparedPart>,
    pub turn: Turn,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedPart {
    pub from: MergeFrom,
    pub task: String,
    pub target: String,
    /// The target's local branch as it was read.
    pub target_was: Option<String>,
    /// What the branch had; leftovers included.
    pub head: String,
    pub plan: MergePlan,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergePlan {
    /// `files` are those that it changes in the target.
    Commit { commit: String, files: Vec<String> },
    /// An earlier call got as far as this commit.
    AlreadyThere { commit: String },
    /// The target has all of it.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedPart {
    pub repo: PathBuf,
    pub branch: String,
    pub target: String,
    /// `None` when there was nothing to merge.
    pub commit: Option<String>,
    /// `None` when nobody wanted it or there is no `origin`; else git's words if it failed.
    pub pushed: Option<Result<(), String>>,
}

/// Nothing was published. Words are for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeFault {
    #[error("conflicts with {target} in {}", files.join(", "))]
    Conflict { target: String, files: Vec<String> },
    #[error("{target} moved meanwhile")]
    Moved { target: String },
    #[error("{target} is checked out in {}, where these are in the way: {}", place.display(), files.join(", "))]
    InTheWay { target: String, place: PathBuf, files: Vec<String> },
    #[error(
        "the work changes settings of Callboard in {}; a person merges it with --settings after \
         reading them",
        files.join(", ")
    )]
    Settings { files: Vec<String> },
    #[error("{0} names a remote's branch: merge into a local one")]
    RemoteTarget(String),
    #[error(
        "{0} and origin/{0} have diverged, and this work is based on the latter: bring them together first"
    )]
    Diverged(String),
    #[error(transparent)]
    Worktree(#[from] WorktreeFault),
}

impl MergeFault {
    /// The files that an agent can settle. Settings are no conflict: a person decides on them.
    pub fn files(&self) -> &[String] {
        match self {
            Self::Conflict { files, .. } | Self::InTheWay { files, .. } => files,
            Self::Settings { .. }
            | Self::Moved { .. }
            | Self::RemoteTarget(_)
            | Self::Diverged(_)
            | Self::Worktree(_) => &[],
        }
    }
}
