//! The worktree of a task: a git worktree below the repository's `.callboard/worktrees/`, on a branch of its own.
//!
//! Git writes only here and in `merge.rs`: objects, our own branches and worktrees, remote-tracking refs of `origin`,
//! and lines of `info/exclude`. A checkout of the user is never touched, nor is a branch that we did not make. Hooks do
//! not run.

mod answer;
mod branch;
mod changes;
mod commits;
mod diff;
mod disk;
mod exclude;
mod hold;
mod left;
mod leftovers;
mod list;
mod make;
mod placed;
mod ports;
mod ready;
mod rebase;
mod remove;
mod share;
mod state;
mod target;

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::board::branch::is_branch_name;
use callboard_domain::board::gc::WorkFact;
use callboard_domain::board::recipe::PortBlock;
use callboard_domain::ids::TaskId;
use callboard_engine::ports::{
    Branch, BranchMade, BranchOrder, ChangesQuery, DiskUsage, FileFault, ListedWork, Rebased,
    Removal, ShareOrder, TaskBranch, TaskWorktree, WorkCommit, Worktree, WorktreeChanges,
    WorktreeDiff, WorktreeFault, WorktreeMade, WorktreeOrder, WorktreeReady, WorktreeRemoved,
    WorktreeState, Worktrees,
};

use tokio_util::sync::CancellationToken;

use crate::confined::ProjectCommands;
use crate::git::{Git, GitFault};
use crate::worktree_file;
pub(crate) use exclude::hide;
pub(crate) use hold::{clear_stale, common_dir, repo_lock, stands_on};
pub(crate) use leftovers::{commit as commit_leftovers, stage, uncommitted};
pub(crate) use list::{Listed, listed};
pub(crate) use make::{add_unfiltered, hide_folder};
pub(crate) use placed::placed_in;
pub(crate) use rebase::rebase_onto;
pub(crate) use target::{Fork, HEAD_TRAILER, TASK_TRAILER, Tip, Tips, fork, is_ancestor};

/// The limit of a fetch. After it, work goes on with the known state.
const FETCH_TIME_MAX: Duration = Duration::from_secs(30);

pub struct LocalWorktrees {
    /// Relative to each repository, unless it is absolute.
    folder: PathBuf,
    /// How the commands of the recipe run, and the recipe itself.
    commands: ProjectCommands,
    preparing: Arc<ready::Preparing>,
}

impl LocalWorktrees {
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let (commands, preparing) = (ProjectCommands::default(), Arc::default());
        Self { folder: folder.into(), commands, preparing }
    }

    /// Makes worktrees ready by the recipe of these commands.
    pub fn with_commands(mut self, commands: ProjectCommands) -> Self {
        self.commands = commands;
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Default for LocalWorktrees {
    fn default() -> Self {
        Self::new(".callboard/worktrees")
    }
}

#[async_trait]
impl Worktrees for LocalWorktrees {
    async fn worktree_make(&self, order: WorktreeOrder) -> Result<WorktreeMade, WorktreeFault> {
        make::make(&self.folder, &order).await
    }

    async fn worktree_ready(
        &self,
        of: TaskWorktree,
        stop: CancellationToken,
    ) -> Result<WorktreeReady, WorktreeFault> {
        self.preparing.ready(&self.commands, of, stop).await
    }

    fn has_setup(&self, repo: &Path) -> bool {
        self.commands.recipe().setup_in(repo).is_some()
    }

    async fn worktree_ports(&self, task: TaskId, worktree: &Path) -> Option<PortBlock> {
        ready::ports_of(&self.commands, task, worktree).await
    }

    async fn worktrees_listed(
        &self,
        repo: &Path,
        prefixes: &[String],
    ) -> Result<Vec<ListedWork>, WorktreeFault> {
        left::list(&self.folder, repo, prefixes).await
    }

    async fn work_left(&self, repo: &Path, listed: &ListedWork, target: &str) -> WorkFact {
        left::work_left(repo, listed, target).await
    }

    async fn disk_measure(&self, repo: &Path) -> Vec<(PathBuf, u64)> {
        let folder = repo.join(&self.folder);
        tokio::task::spawn_blocking(move || disk::measure(&folder)).await.unwrap_or_default()
    }

    async fn disk_usage(&self, repo: &Path) -> Option<DiskUsage> {
        disk::recorded(&repo.join(&self.folder))
    }

    async fn worktree_find(
        &self,
        repo: &Path,
        name: &str,
        branch: &TaskBranch,
    ) -> Result<Option<Worktree>, WorktreeFault> {
        make::find(&self.folder, repo, name, branch).await
    }

    fn worktree_place(&self, repo: &Path, name: &str) -> Option<PathBuf> {
        let place = make::place(&self.folder, repo, name).ok()?;
        Some(place.canonicalize().unwrap_or(place))
    }

    async fn worktree_places(&self, repo: &Path, holding: &Path) -> Vec<PathBuf> {
        let (folder, holding) = (repo.join(&self.folder), holding.to_owned());
        let look = move || {
            // A missing folder means that there are no worktrees.
            let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let found = found.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let places = found.map(|entry| entry.path());
            places.filter(|place| place.join(&holding).is_file()).collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    async fn worktree_state(
        &self,
        worktree: &Worktree,
        target: &str,
    ) -> Result<WorktreeState, WorktreeFault> {
        state::state(worktree, target).await
    }

    async fn worktree_diff(
        &self,
        worktree: &Worktree,
        target: &str,
        below: Option<&str>,
    ) -> Result<WorktreeDiff, WorktreeFault> {
        diff::diff(worktree, target, below).await
    }

    async fn worktree_changes(
        &self,
        worktree: &Worktree,
        target: &str,
        query: &ChangesQuery,
    ) -> Result<WorktreeChanges, WorktreeFault> {
        changes::changes(worktree, target, query).await
    }

    async fn commit_changes(
        &self,
        repo: &Path,
        commit: &str,
        query: &ChangesQuery,
    ) -> Result<WorktreeChanges, WorktreeFault> {
        changes::of_commit(repo, commit, query).await
    }

    async fn commit_find(
        &self,
        repo: &Path,
        commits: &[String],
    ) -> Result<Option<String>, WorktreeFault> {
        changes::first_known(repo, commits).await
    }

    async fn commit_diff(
        &self,
        repo: &Path,
        commit: &str,
        below: Option<&str>,
    ) -> Result<WorktreeDiff, WorktreeFault> {
        diff::of_commit(repo, commit, below).await
    }

    async fn worktree_commits(
        &self,
        worktree: &Worktree,
        target: &str,
    ) -> Result<Vec<WorkCommit>, WorktreeFault> {
        commits::commits(worktree, target).await
    }

    async fn lines_changed_in(
        &self,
        worktree: &Worktree,
        since: &str,
        path: &str,
        lines: RangeInclusive<u32>,
    ) -> Result<Option<String>, WorktreeFault> {
        answer::lines_changed_in(worktree, since, path, lines).await
    }

    async fn worktree_remove(
        &self,
        of: &TaskWorktree,
        target: &str,
    ) -> Result<WorktreeRemoved, WorktreeFault> {
        let (of, target, commands) = (of.clone(), target.to_owned(), self.commands.clone());
        to_the_end(async move {
            // A worktree that stays anyway is not torn down. Judged again under the lock below.
            if remove::is_free(&of.worktree).await? {
                ready::tear_down(&commands, &of).await;
            }
            remove::remove(&of.worktree, &target).await
        })
        .await
    }

    async fn worktree_tear_down(&self, of: &TaskWorktree) {
        ready::tear_down(&self.commands, of).await;
    }

    async fn leftovers_commit(
        &self,
        worktree: &Worktree,
        message: &str,
    ) -> Result<Option<String>, WorktreeFault> {
        let (worktree, message) = (worktree.clone(), message.to_owned());
        to_the_end(async move { leftovers::commit(&worktree, &message).await }).await
    }

    async fn worktree_rebase(
        &self,
        worktree: &Worktree,
        target: &str,
        fetch: bool,
    ) -> Result<Rebased, WorktreeFault> {
        if fetch {
            self::fetch(&worktree.repo, target).await;
        }
        let (worktree, target) = (worktree.clone(), target.to_owned());
        to_the_end(async move { rebase::rebase(&worktree, &target).await }).await
    }

    async fn branch_make(&self, order: BranchOrder) -> Result<BranchMade, WorktreeFault> {
        branch::make(&order).await
    }

    async fn branch_remove(
        &self,
        repo: &Path,
        branch: &str,
        target: &str,
    ) -> Result<Removal, WorktreeFault> {
        let (repo, branch, target) = (repo.to_owned(), branch.to_owned(), target.to_owned());
        to_the_end(async move { remove::branch_alone(&repo, &branch, &target).await }).await
    }

    async fn branch_contains(
        &self,
        repo: &Path,
        whole: &str,
        part: &str,
    ) -> Result<bool, WorktreeFault> {
        branch::contains(repo, whole, part).await
    }

    async fn branch_diff(
        &self,
        repo: &Path,
        branch: &str,
        target: &str,
        patch: bool,
    ) -> Result<WorktreeDiff, WorktreeFault> {
        diff::of_branch(repo, branch, target, patch).await
    }

    async fn branch_share(&self, order: ShareOrder) -> Result<Branch, WorktreeFault> {
        to_the_end(async move { share::share(&order).await }).await
    }

    async fn branch_follow(&self, repo: &Path, branch: &str) -> Result<(), WorktreeFault> {
        let (repo, branch) = (repo.to_owned(), branch.to_owned());
        to_the_end(async move { share::follow(&repo, &branch).await }).await
    }

    async fn file_read(
        &self,
        root: &Path,
        path: &str,
        bytes_max: u64,
    ) -> Result<String, FileFault> {
        let (root, path) = (root.to_owned(), path.to_owned());
        let read = move || worktree_file::read(&root, &path, bytes_max);
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|error| Err(FileFault::Failed(error.to_string())))
    }
}

impl From<GitFault> for WorktreeFault {
    fn from(fault: GitFault) -> Self {
        Self::Failed(fault.words())
    }
}

pub(crate) fn failed(what: &str) -> impl FnOnce(std::io::Error) -> WorktreeFault {
    move |error| WorktreeFault::Failed(format!("{what}: {error}"))
}

/// Completes the work even when the caller stops waiting. A git that is killed midway leaves its locks behind, and
/// half-written files.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(fault) if fault.is_panic() => std::panic::resume_unwind(fault.into_panic()),
        // The runtime shuts down, and no caller waits any more.
        Err(_) => std::future::pending().await,
    }
}

/// `git` set to commit in the user's name, or in ours when `reads` finds no name of the user.
pub(crate) async fn signing<'g>(reads: Git<'_>, git: Git<'g>) -> Result<Git<'g>, GitFault> {
    let question = reads.set("user.useConfigOnly=true");
    if question.answer(&["var", "GIT_COMMITTER_IDENT"]).await?.code == 0 {
        return Ok(git);
    }
    let names = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"];
    let git = names.iter().fold(git, |git, name| git.with(name, "Callboard"));
    let addresses = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"];
    Ok(addresses.iter().fold(git, |git, name| git.with(name, "callboard@localhost")))
}

pub(crate) async fn has_origin(repo: &Path) -> Result<bool, GitFault> {
    Git::at(repo).asks_yes(&["config", "--get", "remote.origin.url"]).await
}

/// Updates `origin/<branch>`. A failure is no fault: work goes on without a network.
pub(crate) async fn fetch(repo: &Path, branch: &str) {
    if !is_branch_name(branch) {
        return;
    }
    match has_origin(repo).await {
        Ok(true) => {}
        Ok(false) => return,
        Err(fault) => {
            tracing::warn!(?fault, branch, "git cannot say whether the repository has an origin");
            return;
        }
    }
    let refspec = format!("+refs/heads/{branch}:refs/remotes/origin/{branch}");
    let fetch = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--", "origin", &refspec];
    if let Err(fault) = Git::writing(repo).within(FETCH_TIME_MAX).ask(&fetch).await {
        tracing::warn!(?fault, branch, "origin was not fetched: its last known state is used");
    }
}

/// The tip of a local branch, or the commit itself.
pub(crate) async fn commit_of(repo: &Path, from: &str) -> Result<String, WorktreeFault> {
    if !is_branch_name(from) {
        return Err(WorktreeFault::BadBranch(from.into()));
    }
    if let Some(commit) = Tips::of(repo, from).await?.local {
        return Ok(commit);
    }
    let named = format!("{from}^{{commit}}");
    let found = Git::at(repo).look(&["rev-parse", "--verify", "-q", &named]).await?;
    found.map(|commit| text(&commit)).ok_or_else(|| WorktreeFault::NoBranch(from.into()))
}

pub(crate) fn text(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).trim_end().to_owned()
}

pub(crate) fn names(answer: &[u8]) -> Vec<String> {
    paths(answer).map(|path| path.to_string_lossy().into_owned()).collect()
}

/// The paths in an answer with `-z`.
pub(crate) fn paths(answer: &[u8]) -> impl Iterator<Item = &OsStr> {
    answer.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(OsStr::from_bytes)
}
