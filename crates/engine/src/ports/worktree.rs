//! The port to the place of a task's work: a folder and a branch of its own beside the user's checkout. That checkout,
//! its index and its branches stay as they are.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use callboard_domain::board::gc::WorkFact;
use callboard_domain::board::recipe::PortBlock;
use callboard_domain::ids::TaskId;
use tokio_util::sync::CancellationToken;

use super::{Branch, RepositoryFault};

#[async_trait]
pub trait Worktrees: Send + Sync {
    /// The worktree of that name, made unless it exists.
    async fn worktree_make(&self, order: WorktreeOrder) -> Result<WorktreeMade, WorktreeFault>;

    /// Makes a worktree ready for work by the project's recipe: ports, links, copies, `workspace.setup`. The only place
    /// that does so. Idempotent: a ready worktree is left as it is, and a setup that was cut short runs again. The
    /// work goes on when the caller stops waiting, until `stop`; a second caller waits for the first.
    async fn worktree_ready(
        &self,
        of: TaskWorktree,
        stop: CancellationToken,
    ) -> Result<WorktreeReady, WorktreeFault>;

    /// Whether the recipe has a setup command for worktrees of this repository, which may take minutes.
    fn has_setup(&self, repo: &Path) -> bool;

    /// The ports of a task that has a worktree; `None` where there are none to give.
    async fn worktree_ports(&self, task: TaskId, worktree: &Path) -> Option<PortBlock>;

    /// The worktrees of tasks in a repository, and then the branches below these prefixes that no working tree has
    /// checked out.
    async fn worktrees_listed(
        &self,
        repo: &Path,
        prefixes: &[String],
    ) -> Result<Vec<ListedWork>, WorktreeFault>;

    /// The work that would be lost without this worktree and its branch. Never fails: what git cannot read is a fact
    /// too.
    async fn work_left(&self, repo: &Path, listed: &ListedWork, target: &str) -> WorkFact;

    /// Measures the disk space of each worktree of a repository and records the sum for `disk_usage`.
    async fn disk_measure(&self, repo: &Path) -> Vec<(PathBuf, u64)>;

    /// The disk space of all worktrees of a repository as it was measured last; files are not looked at.
    async fn disk_usage(&self, repo: &Path) -> Option<DiskUsage>;

    /// The worktree of that name, if it is on one of its task's branches. A folder that is no git repository has none.
    async fn worktree_find(
        &self,
        repo: &Path,
        name: &str,
        branch: &TaskBranch,
    ) -> Result<Option<Worktree>, WorktreeFault>;

    /// The folder of the worktree of that name, whether or not it exists; git is not asked. `None` for a repository
    /// that is not on this machine and for a bad name.
    fn worktree_place(&self, repo: &Path, name: &str) -> Option<PathBuf>;

    /// Folders of worktrees that hold the file `holding`, found by names alone: git is not asked.
    async fn worktree_places(&self, repo: &Path, holding: &Path) -> Vec<PathBuf>;

    /// The state of the work there, compared with `target`.
    async fn worktree_state(
        &self,
        worktree: &Worktree,
        target: &str,
    ) -> Result<WorktreeState, WorktreeFault>;

    /// The changes of the work, committed or not, against the commit it begins at. With `below`, includes the patch,
    /// and its paths get that prefix: empty, or a folder followed by a slash.
    async fn worktree_diff(
        &self,
        worktree: &Worktree,
        target: &str,
        below: Option<&str>,
    ) -> Result<WorktreeDiff, WorktreeFault>;

    /// The changed files of the work, committed or not, with the ids of their contents, and as much of the patch as
    /// the query wants.
    async fn worktree_changes(
        &self,
        worktree: &Worktree,
        target: &str,
        query: &ChangesQuery,
    ) -> Result<WorktreeChanges, WorktreeFault>;

    /// The files that one commit changed against its first parent. No worktree is needed. Of the query, `since` and
    /// `until` do not count.
    async fn commit_changes(
        &self,
        repo: &Path,
        commit: &str,
        query: &ChangesQuery,
    ) -> Result<WorktreeChanges, WorktreeFault>;

    /// The first of these commits that the repository has.
    async fn commit_find(
        &self,
        repo: &Path,
        commits: &[String],
    ) -> Result<Option<String>, WorktreeFault>;

    /// The changes of one commit against its first parent, with a patch as in `worktree_diff`. No worktree is needed.
    async fn commit_diff(
        &self,
        repo: &Path,
        commit: &str,
        below: Option<&str>,
    ) -> Result<WorktreeDiff, WorktreeFault>;

    /// The commits of the work, the newest first, then the commit at which the work begins. At most 100 of the work.
    async fn worktree_commits(
        &self,
        worktree: &Worktree,
        target: &str,
    ) -> Result<Vec<WorkCommit>, WorktreeFault>;

    /// The newest commit of the work that changed these lines of a file, as they were in the commit `since`. `None`
    /// where no commit did, and where the branch was rebased since.
    async fn lines_changed_in(
        &self,
        worktree: &Worktree,
        since: &str,
        path: &str,
        lines: RangeInclusive<u32>,
    ) -> Result<Option<String>, WorktreeFault>;

    /// Removes the folder unless something in it is not committed, then the branch unless `target` lacks some of its
    /// commits. `workspace.teardown` runs before. Idempotent: a worktree that is not there counts as removed.
    async fn worktree_remove(
        &self,
        of: &TaskWorktree,
        target: &str,
    ) -> Result<WorktreeRemoved, WorktreeFault>;

    /// Runs `workspace.teardown` in a worktree that others remove. Its failure is only logged.
    async fn worktree_tear_down(&self, of: &TaskWorktree);

    /// Commits uncommitted changes, without ignored files and without files that Callboard wrote; `None` when there are
    /// none.
    async fn leftovers_commit(
        &self,
        worktree: &Worktree,
        message: &str,
    ) -> Result<Option<String>, WorktreeFault>;

    /// Rebases the branch onto the newest `target`. After a conflict everything is as it was.
    async fn worktree_rebase(
        &self,
        worktree: &Worktree,
        target: &str,
        fetch: bool,
    ) -> Result<Rebased, WorktreeFault>;

    /// A branch without a worktree, made unless it exists.
    async fn branch_make(&self, order: BranchOrder) -> Result<BranchMade, WorktreeFault>;

    /// Removes a branch that no working tree has checked out, unless `target` lacks some of its commits. Idempotent: a
    /// branch that is not there counts as removed.
    async fn branch_remove(
        &self,
        repo: &Path,
        branch: &str,
        target: &str,
    ) -> Result<Removal, WorktreeFault>;

    /// Whether the branch `whole` contains all commits of the branch `part`.
    async fn branch_contains(
        &self,
        repo: &Path,
        whole: &str,
        part: &str,
    ) -> Result<bool, WorktreeFault>;

    /// The changes of a branch against the commit where it left `target`, with the patch if `patch` says so.
    async fn branch_diff(
        &self,
        repo: &Path,
        branch: &str,
        target: &str,
        patch: bool,
    ) -> Result<WorktreeDiff, WorktreeFault>;

    /// A branch as others can see it: here, and at `origin` if it is to be pushed.
    async fn branch_share(&self, order: ShareOrder) -> Result<Branch, WorktreeFault>;

    /// Fast-forwards a branch to `origin`, if it is only behind and checked out nowhere.
    async fn branch_follow(&self, repo: &Path, branch: &str) -> Result<(), WorktreeFault>;

    /// A text file at a path relative to `root`. Never reads a file outside `root` or one of git's own, whatever links
    /// say, even if a link moves meanwhile.
    async fn file_read(&self, root: &Path, path: &str, bytes_max: u64)
    -> Result<String, FileFault>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    /// The repository to which the worktree belongs.
    pub repo: PathBuf,
    pub path: PathBuf,
    pub branch: String,
}

/// The name of a worktree's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskBranch {
    /// The name of a branch that is made now; `-2`, `-3` is appended when that branch exists.
    pub new: String,
    /// Names of the task's branches: a branch of the task is called so, with or without a dash and more behind it.
    pub stems: Vec<String>,
}

impl TaskBranch {
    pub fn named(name: impl Into<String>) -> Self {
        let new = name.into();
        Self { stems: vec![new.clone()], new }
    }

    pub fn has(&self, branch: &str) -> bool {
        let rests = self.stems.iter().filter_map(|stem| branch.strip_prefix(stem.as_str()));
        rests.into_iter().any(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

#[derive(Clone, Debug)]
pub struct WorktreeOrder {
    pub repo: PathBuf,
    /// Names the folder: letters, digits, `.`, `_` and `-`.
    pub name: String,
    pub branch: TaskBranch,
    /// The branch from which the worktree starts.
    pub base: String,
    pub base_from: BaseFrom,
    /// Fetches the base from `origin` first, for 30 s at most; without an answer the known commits are used.
    pub fetch: bool,
}

/// Whether base `b` means the local `b` or `origin/b`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BaseFrom {
    /// `origin/b` if it exists.
    #[default]
    Remote,
    /// `b` if it has commits that `origin/b` lacks.
    LocalIfAhead,
    /// `b` if it exists.
    Local,
}

/// A worktree with the task that it was made for.
#[derive(Clone, Debug)]
pub struct TaskWorktree {
    pub worktree: Worktree,
    pub task: TaskId,
    /// The value of `CALLBOARD_SLUG`.
    pub slug: String,
}

/// A worktree that is ready for work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorktreeReady {
    pub ports: Option<PortBlock>,
    /// The log of the setup, relative to the repository, if it ran now.
    pub setup_log: Option<String>,
}

/// A worktree of a task, or a branch of one that no working tree has checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedWork {
    /// The folder; `None` for a branch alone.
    pub path: Option<PathBuf>,
    /// `None` for a worktree without a branch.
    pub branch: Option<String>,
}

/// The disk space of all worktrees of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUsage {
    pub bytes: u64,
    /// When it was measured, in milliseconds since 1970.
    pub at_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeMade {
    pub worktree: Worktree,
    /// `None` when the worktree existed already.
    pub base: Option<Base>,
}

#[derive(Clone, Debug)]
pub struct BranchOrder {
    pub repo: PathBuf,
    pub branch: String,
    pub base: String,
    pub base_from: BaseFrom,
    pub fetch: bool,
}

#[derive(Clone, Debug)]
pub struct ShareOrder {
    pub repo: PathBuf,
    pub branch: String,
    /// Pushes the branch to `origin`.
    pub push: bool,
    /// Pushed as well if `origin` has no such branch.
    pub base: String,
    /// The push may overwrite the branch at `origin` as it was last known, as after a rebase.
    pub may_rewrite: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchMade {
    pub commit: String,
    /// `None` when the branch existed already.
    pub base: Option<Base>,
}

/// Where a new branch starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// `main` or `origin/main`.
    pub name: String,
    pub commit: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeState {
    /// The branch that is checked out there; `None` for a detached head.
    pub stands_on: Option<String>,
    pub head: String,
    /// The commit at which the work begins.
    pub base: String,
    /// The number of commits that the target lacks.
    pub commits: u64,
    /// Whether the branch contains the newest target.
    pub holds_target: bool,
    /// Files with uncommitted changes, new files included.
    pub uncommitted: Vec<String>,
    /// Files that differ from the base, committed or not.
    pub changed: Vec<String>,
    pub diff: DiffStats,
}

impl WorktreeState {
    pub fn has_changes(&self) -> bool {
        self.commits > 0 || !self.uncommitted.is_empty()
    }
}

/// Counts against the base. Binary files count as files alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffStats {
    pub files: u64,
    pub insertions: u64,
    pub deletions: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeDiff {
    pub base: String,
    pub files: Vec<FileDiff>,
    /// In the format of `git apply`; `None` when it was not requested.
    pub patch: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    pub path: String,
    /// The old path of a file that was moved.
    pub was: Option<String>,
    /// Added and removed lines; `None` for a file that is no text.
    pub lines: Option<(u64, u64)>,
}

/// A commit of a task's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkCommit {
    pub id: String,
    /// The first line of the message; empty for the commit at which the work begins.
    pub subject: String,
}

/// Which changes a reader wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesQuery {
    /// The commit that the reader saw last; `None` for all of the work.
    pub since: Option<String>,
    /// The commit up to which changes are shown; `None` for the work as it is now, committed or not.
    pub until: Option<String>,
    /// Leaves out lines in which only spaces changed.
    pub ignore_space: bool,
    /// The number of lines around a change.
    pub context: u32,
    pub patch: PatchWish,
    /// Whether the contents of the files in the patch are wanted too, before and after.
    pub texts: bool,
}

impl Default for ChangesQuery {
    fn default() -> Self {
        let (since, until, patch) = (None, None, PatchWish::None);
        Self { since, until, ignore_space: false, context: 3, patch, texts: false }
    }
}

/// How much of a patch is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchWish {
    None,
    /// The files from this number on that fit, in their order; numbers begin with 0. A file that alone has more than
    /// `lines_max` changed lines is left out.
    Page {
        from: usize,
        files_max: usize,
        lines_max: u64,
    },
    /// One of the changed files, by its path now.
    File(String),
}

/// The changed files of a task's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeChanges {
    /// The commit at which the work begins.
    pub base: String,
    /// The last commit whose changes are shown; the work may have uncommitted changes beyond it.
    pub head: String,
    pub since: ChangesSince,
    /// All changed files, in the order of their paths.
    pub files: Vec<ChangedFile>,
    /// The number of the file with which the next page of the patch begins.
    pub next: Option<usize>,
    /// In the format of `git apply`, without binary contents; `None` when it was not wanted, or is too long to send.
    pub patch: Option<String>,
    /// Contents by their ids, where they are text of at most 300 KB.
    pub texts: HashMap<String, String>,
}

/// What the changes are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesSince {
    /// The commit at which the work begins.
    Base,
    /// The commit that the reader saw last; the branch only went on.
    Look,
    /// The branch was rebased: the commit that the reader saw last, as it would be on the new base.
    Rebased,
    /// The commit at which the work begins, because the branch was rebased and what the reader saw cannot be brought
    /// onto the new base, or is gone.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: String,
    /// The old path of a file that was moved.
    pub was: Option<String>,
    pub status: ChangeStatus,
    /// The ids of the contents; `None` where the file does not exist.
    pub old_blob: Option<String>,
    pub new_blob: Option<String>,
    /// Added and removed lines; `None` for a file that is no text.
    pub lines: Option<(u64, u64)>,
    /// The attribute `linguist-generated` is set where the work begins.
    pub is_generated: bool,
    /// Whether the patch has this file.
    pub is_in_patch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeStatus {
    Added,
    Deleted,
    Modified,
    Renamed,
    /// The file became a link, a submodule or a file.
    Retyped,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeRemoved {
    pub folder: Removal,
    pub branch: Removal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    Removed,
    Absent,
    /// Why it was kept, in words for the caller.
    Kept(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebased {
    /// `head` is the new head of the branch; unchanged if the branch already contained the target.
    Onto {
        target: String,
        head: String,
    },
    Conflict {
        target: String,
        files: Vec<String>,
    },
}

/// What to do about a repository without a commit.
pub const FIRST_COMMIT: &str = "git commit --allow-empty -m first";

/// Why git refused. Words are for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorktreeFault {
    #[error("the project has no git repository on this machine")]
    NoRepo,
    #[error("{0:?} cannot name a folder: use letters, digits, '.', '_' and '-'")]
    BadName(String),
    #[error("{0:?} is not a valid branch name")]
    BadBranch(String),
    #[error("there is neither a branch {0} nor origin/{0}")]
    NoBranch(String),
    #[error("the repository has no commit yet, and a worktree starts from one: {}", FIRST_COMMIT)]
    NoCommit,
    /// Another branch is checked out there, or a rebase is under way.
    #[error("the worktree is not on its branch {branch} but on {stands_on}")]
    Elsewhere { branch: String, stands_on: String },
    #[error("the branch and its target have no commit in common")]
    Unrelated,
    #[error("{0} is not one of the changed files")]
    NotChanged(String),
    #[error("{0:?} is not the id of a commit")]
    BadCommit(String),
    /// A repeat may succeed later.
    #[error("no connection to origin: {0}")]
    Unreachable(String),
    /// The recipe of the project cannot be carried out, or its setup failed. A repeat tries again.
    #[error("{0}")]
    NotReady(String),
    /// The caller stopped the setup.
    #[error("stopped")]
    Stopped,
    /// Git, or the file system, failed; in its words.
    #[error("{0}")]
    Failed(String),
}

impl From<RepositoryFault> for WorktreeFault {
    fn from(fault: RepositoryFault) -> Self {
        Self::Failed(fault.to_string())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    /// The path, or a link on the way, leads outside. Judged before the file is looked for.
    #[error("the path leaves the worktree")]
    Outside,
    #[error("there is no such file")]
    NotFound,
    #[error("it is not a regular file")]
    NotPlain,
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    #[error("it is not UTF-8 text")]
    NotText,
    #[error("it cannot be read: {0}")]
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::TaskBranch;

    #[test]
    fn a_branch_is_its_tasks_by_the_part_before_the_title() {
        let stems = vec!["callboard/SHOP-1".to_owned(), "callboard/SHOP-01m7".to_owned()];
        let branch = TaskBranch { new: "callboard/SHOP-1-add-flag".into(), stems };
        for own in ["SHOP-1", "SHOP-1-add-flag", "SHOP-1-old-title-2", "SHOP-01m7", "SHOP-01m7-2"] {
            assert!(branch.has(&format!("callboard/{own}")), "{own}");
        }
        for other in ["callboard/SHOP-12-add-flag", "callboard/SHOP-12", "main", "SHOP-1"] {
            assert!(!branch.has(other), "{other}");
        }
    }
}
