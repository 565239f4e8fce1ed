//! The port for merging a task's work into a target branch, as one commit: prepare all repositories, look at the
//! result, publish or abandon. Nothing is checked out in a folder of the user. Only if the target itself is checked
//! out, unchanged, do the files of that checkout move along with it.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use callboard_domain::review::conflict::FileConflict;
use callboard_domain::review::mark::ReviewMark;

use super::{Turn, Worktree, WorktreeFault};

#[async_trait]
pub trait Merges: Send + Sync {
    /// Commits leftovers, looks at the newest target and builds the commit that would go on top of it, in every
    /// repository. Moves no target. Waits for other merges in these repositories.
    async fn merge_prepare(&self, orders: Vec<MergeOrder>) -> Result<PreparedMerge, MergeFault>;

    /// The expected result of merging `from`, a branch or a commit, judged by the commits known here. Fetches nothing,
    /// writes nothing.
    async fn merge_outlook(
        &self,
        repo: &Path,
        from: &str,
        target: &str,
    ) -> Result<MergeOutlook, MergeFault>;

    /// How one file conflicts, in the merge that `merge_outlook` judges; without hunks and words if it does not.
    async fn merge_conflict(
        &self,
        repo: &Path,
        from: &str,
        target: &str,
        file: &str,
    ) -> Result<FileConflict, MergeFault>;

    /// A folder with the files of one part as they would be after the merge: the task's own worktree if it has
    /// these files, else a folder made for this, which `merge_publish` and `merge_abandon` remove.
    async fn merge_look(&self, part: &PreparedPart) -> Result<PathBuf, MergeFault>;

    /// Moves every target, or none. After the fault `Moved`, prepare again.
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
    /// The task whose work it is; named in the commit.
    pub task: String,
    /// A local branch.
    pub target: String,
    /// Subject, empty line, body.
    pub message: String,
    /// Fetches the target from `origin` first.
    pub fetch: bool,
    /// Waits until no other process merges in this repository.
    pub one_at_a_time: bool,
    /// Whether a person has confirmed changes of Callboard's settings, if there are any.
    pub settings_seen: bool,
}

/// Options of a merge that a person asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeWish {
    /// Push the target to `origin`, whatever the settings say.
    pub push: bool,
    /// Merge changes of Callboard's own settings as well.
    pub settings: bool,
    /// The review as the person saw it; the merge is refused if it went on since.
    pub seen: ReviewMark,
}

/// The changed files that hold settings of Callboard. What is merged there decides what runs on the machines of users
/// who trust the repository.
pub fn settings_files<'a>(files: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let is_setting = |file: &&String| file.split('/').any(|part| part == ".callboard");
    files.into_iter().filter(is_setting).cloned().collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeOutlook {
    /// Commits of the target that the branch lacks.
    pub behind: u64,
    /// Files that both sides changed in conflicting ways.
    pub conflicts: Vec<String>,
}

/// The work that is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeFrom {
    /// The files of a task's worktree; uncommitted changes there are committed first.
    Worktree { worktree: Worktree, leftovers_message: String },
    /// A branch as it is. Neither the branch nor a checkout of it changes.
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

/// A merge that is ready to be published. Keeps other merges out until it is published, abandoned or dropped.
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
    /// The head of the work, leftovers included.
    pub head: String,
    pub plan: MergePlan,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergePlan {
    /// `files` are the files that the commit changes in the target.
    Commit { commit: String, files: Vec<String> },
    /// An earlier call already merged the work as this commit.
    AlreadyThere { commit: String },
    /// The target already has all of the work.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedPart {
    pub repo: PathBuf,
    pub branch: String,
    pub target: String,
    /// `None` when there was nothing to merge.
    pub commit: Option<String>,
    /// `None` when no push was requested or there is no `origin`; else git's words if the push failed.
    pub pushed: Option<Result<(), String>>,
}

/// Why a merge failed; no target was moved. Words are for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeFault {
    #[error("conflicts with {target} in {}", files.join(", "))]
    Conflict { target: String, files: Vec<String> },
    #[error("{target} moved while the merge ran")]
    Moved { target: String },
    #[error("{target} is checked out in {}, where these files are in the way: {}", place.display(), files.join(", "))]
    InTheWay { target: String, place: PathBuf, files: Vec<String> },
    #[error(
        "the work changes settings of Callboard in {}; a person merges it with --settings after \
         reading them",
        files.join(", ")
    )]
    Settings { files: Vec<String> },
    #[error("{0} is a branch of a remote: merge into a local branch")]
    RemoteTarget(String),
    #[error(
        "{0} and origin/{0} have diverged, and this work is based on the latter: bring them together first"
    )]
    Diverged(String),
    #[error(transparent)]
    Worktree(#[from] WorktreeFault),
}

impl MergeFault {
    /// The files in which an agent can resolve the fault. Settings are no conflict: a person decides on them.
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
