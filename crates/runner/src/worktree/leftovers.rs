//! Files in a worktree that are in no commit.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use callboard_engine::ports::{Worktree, WorktreeFault};

use super::hold::{Hold, must_stand_on_its_branch};
use super::{placed_in, signing};
use crate::git::{Git, GitFault};
use crate::guarded::AgentTree;
use crate::scratch::Scratch;

pub(crate) struct Uncommitted {
    pub(crate) path: OsString,
    pub(crate) is_new: bool,
}

/// Uncommitted files, without ignored ones, files of ours, and nested clones: of a nested repository git could keep no
/// more than a commit id.
pub(crate) async fn uncommitted(tree: &AgentTree) -> Result<Vec<Uncommitted>, GitFault> {
    Ok(entries(tree, tree.git())
        .await?
        .into_iter()
        .filter(|entry| !(entry.is_new && is_nested(&entry.path)))
        .collect())
}

/// Uncommitted files and nested clones, and files whose edits git was told to overlook: what git can tell of the work
/// that goes with the folder.
pub(super) async fn unkept(tree: &AgentTree) -> Result<Vec<Uncommitted>, GitFault> {
    let flagged = flagged(tree).await?;
    if flagged.is_empty() {
        return entries(tree, tree.git()).await;
    }
    // A copy of the index without the flags: the worktree's own keeps them.
    let scratch = Scratch::beside(Some(tree.index()), tree.objects()).await?;
    let git = || scratch.used_by(tree.git());
    for option in ["--no-assume-unchanged", "--no-skip-worktree"] {
        let update = ["update-index", option, "-z", "--stdin"];
        git().input(flagged.join(&0)).ask(&update).await?;
    }
    let found = entries(tree, git()).await;
    scratch.close().await?;
    found
}

/// The files with a flag of `git update-index --assume-unchanged` or `--skip-worktree` that are in the worktree. A
/// sparse checkout sets the second one for files that it leaves out.
async fn flagged(tree: &AgentTree) -> Result<Vec<Vec<u8>>, GitFault> {
    let all = tree.git().at_length().ask(&["ls-files", "-z", "-v"]).await?;
    let root = tree.path().to_owned();
    let look = move || {
        // A letter, a space and the path. A small letter means "assume unchanged", `S` means "skip".
        let is_flagged = |entry: &&[u8]| entry[0].is_ascii_lowercase() || entry[0] == b'S';
        let entries = all.split(|byte| *byte == 0).filter(|entry| entry.len() > 2);
        let paths = entries.filter(is_flagged).map(|entry| &entry[2..]);
        let is_there = |path: &&[u8]| root.join(OsStr::from_bytes(path)).symlink_metadata().is_ok();
        paths.filter(is_there).map(<[u8]>::to_vec).collect()
    };
    let looked = tokio::task::spawn_blocking(look).await;
    looked.map_err(|error| GitFault::Failed(error.to_string()))
}

/// Entries of git's status, without files that Callboard or a recipe placed there.
async fn entries(tree: &AgentTree, git: Git<'_>) -> Result<Vec<Uncommitted>, GitFault> {
    let status = [
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        "--ignore-submodules=dirty",
    ];
    let answer = git.ask(&status).await?;
    let entries = answer.split(|byte| *byte == 0).filter(|entry| entry.len() > 3);
    let entries = entries.map(|entry| Uncommitted {
        path: OsStr::from_bytes(&entry[3..]).to_owned(),
        is_new: entry.starts_with(b"??"),
    });
    let placed = placed_in(tree);
    let is_placed = |path: &OsStr| {
        let path = path.to_str().map(|path| path.trim_end_matches('/'));
        path.is_some_and(|path| placed.iter().any(|placed| placed == path))
    };
    let is_ours = |path: &OsStr| Path::new(path).starts_with(".callboard") || is_placed(path);
    Ok(entries.filter(|entry| !(entry.is_new && is_ours(&entry.path))).collect())
}

/// Git names a nested repository with a slash behind it.
fn is_nested(path: &OsStr) -> bool {
    path.as_bytes().ends_with(b"/")
}

/// Commits the leftovers and returns the new commit.
pub(crate) async fn commit(
    worktree: &Worktree,
    message: &str,
) -> Result<Option<String>, WorktreeFault> {
    let tree = AgentTree::of(worktree).await?;
    let hold = Hold::take(&tree).await?;
    must_stand_on_its_branch(worktree, &tree).await?;
    hold.begin_commit()?;
    let made = commit_all(&tree, message).await;
    hold.end_commit()?;
    made
}

async fn commit_all(tree: &AgentTree, message: &str) -> Result<Option<String>, WorktreeFault> {
    if !add(tree, tree.writing()).await? {
        return Ok(None);
    }
    let same = ["diff-index", "--cached", "--quiet", "--ignore-submodules=dirty", "HEAD"];
    if tree.git().asks_yes(&same).await? {
        return Ok(None);
    }
    let git = signing(tree.git(), tree.writing()).await?.input(message);
    git.ask(&["commit", "-q", "--no-verify", "--cleanup=whitespace", "-F", "-"]).await?;
    tree.dirs().clear_left_behind()?;
    Ok(Some(tree.head().await?))
}

/// Stages the leftovers; `false` if there were none. Refuses files that need a filter: without the filter git would
/// store another file than the person's own git does.
pub(super) async fn add(tree: &AgentTree, git: Git<'_>) -> Result<bool, WorktreeFault> {
    let found = uncommitted(tree).await?;
    let paths: Vec<&[u8]> = found.iter().map(|entry| entry.path.as_bytes()).collect();
    if let Some((file, filter)) = tree.filtered(&paths).await? {
        return Err(WorktreeFault::Failed(format!(
            "{file} goes through the filter {filter}, which does not run in the worktree of an agent: \
             commit it with git in {}, or let the filter run (git config filter.{filter}.callboard \
             true), then try again",
            tree.path().display()
        )));
    }
    stage(git, &paths).await?;
    Ok(!found.is_empty())
}

/// Stages the files as they are. `git add` would look into submodules with their own settings; this keeps the commit of
/// each.
pub(crate) async fn stage(git: Git<'_>, paths: &[&[u8]]) -> Result<(), GitFault> {
    let add = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
    git.input(paths.join(&0)).ask(&add).await.map(drop)
}
