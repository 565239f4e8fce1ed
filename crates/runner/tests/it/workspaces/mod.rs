//! Worktrees of tasks in real repositories, most with a bare `origin`, and the fate of the work in them.

mod branch;
mod changes;
mod diff;
mod file;
mod guarded;
mod left;
mod leftovers;
mod make;
mod merge;
mod pair;
mod publish;
mod rebase;
mod recipe;
mod remove;
mod state;

use std::fs;
use std::path::{Path, PathBuf};

use callboard_engine::ports::{
    BaseFrom, MergeFault, MergeFrom, MergeOrder, MergedPart, Merges, PreparedMerge, TaskBranch,
    Worktree, WorktreeFault, WorktreeMade, WorktreeOrder, Worktrees,
};
use callboard_runner::LocalWorktrees;

use crate::fixture::{Repo, git_in};

pub fn order(repo: &Repo, name: &str) -> WorktreeOrder {
    WorktreeOrder {
        repo: repo.path.clone(),
        name: name.into(),
        branch: TaskBranch::named(format!("callboard/{name}")),
        base: "main".into(),
        base_from: BaseFrom::Remote,
        fetch: true,
    }
}

pub async fn try_make(order: WorktreeOrder) -> Result<WorktreeMade, WorktreeFault> {
    LocalWorktrees::default().worktree_make(order).await
}

pub async fn make(repo: &Repo, name: &str) -> Worktree {
    try_make(order(repo, name)).await.expect("makes a worktree").worktree
}

pub fn write(worktree: &Worktree, name: &str, text: &str) {
    let path = worktree.path.join(name);
    fs::create_dir_all(path.parent().expect("a file has a folder")).expect("makes folders");
    fs::write(path, text).expect("writes a file");
}

pub fn commit(worktree: &Worktree, name: &str, text: &str) -> String {
    write(worktree, name, text);
    git_in(&worktree.path, &["add", "-A"]);
    git_in(&worktree.path, &["commit", "-q", "-m", &format!("work on {name}")]);
    head(&worktree.path)
}

pub fn head(root: &Path) -> String {
    git_in(root, &["rev-parse", "HEAD"]).trim().to_owned()
}

pub fn status(root: &Path) -> String {
    git_in(root, &["--no-optional-locks", "status", "--porcelain", "--untracked-files=all"])
}

pub fn merge_order(worktree: &Worktree, target: &str) -> MergeOrder {
    MergeOrder {
        from: MergeFrom::Worktree {
            worktree: worktree.clone(),
            leftovers_message: "chore: adding uncommitted agent changes (CB-1)".into(),
        },
        task: "CB-1".into(),
        target: target.into(),
        message: "Add login (callboard CB-1)\n\nWith a form.".into(),
        fetch: true,
        one_at_a_time: true,
        settings_seen: false,
    }
}

pub async fn prepare(order: MergeOrder) -> Result<PreparedMerge, MergeFault> {
    LocalWorktrees::default().merge_prepare(vec![order]).await
}

pub async fn publish(prepared: PreparedMerge, push: bool) -> Result<MergedPart, MergeFault> {
    let merged = LocalWorktrees::default().merge_publish(prepared, push).await?;
    Ok(merged.into_iter().next().expect("one part"))
}

/// Prepares, publishes and pushes.
pub async fn merge(worktree: &Worktree) -> Result<MergedPart, MergeFault> {
    publish(prepare(merge_order(worktree, "main")).await?, true).await
}

pub fn folder_of(repo: &Repo) -> PathBuf {
    repo.path.join(".callboard/worktrees")
}
