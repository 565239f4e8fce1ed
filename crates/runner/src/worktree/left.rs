//! The worktrees and branches of tasks in a repository, and the work that would be lost without each. Only reads.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use callboard_domain::board::gc::WorkFact;
use callboard_engine::ports::{ListedWork, WorktreeFault};

use super::hold::{has_process_in, is_in_a_rebase, stands_on};
use super::remove::merged_into;
use super::target::Tips;
use super::{failed, leftovers, listed, text};
use crate::git::Git;
use crate::guarded::AgentTree;

/// The worktrees below `folder`, also folders there that git does not know, then the branches below the prefixes that no
/// working tree has checked out.
pub(super) async fn list(
    folder: &Path,
    repo: &Path,
    prefixes: &[String],
) -> Result<Vec<ListedWork>, WorktreeFault> {
    let known = listed(repo).await?;
    let entries = fs::read_dir(repo.join(folder)).into_iter().flatten().flatten();
    let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    // A name with a dot is a folder of a merge, which goes with that merge.
    let is_dot = |path: &PathBuf| {
        path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
    };
    let mut folders: Vec<PathBuf> =
        entries.filter(is_dir).map(|entry| entry.path()).filter(|path| !is_dot(path)).collect();
    folders.sort();
    let branch_at = |path: &Path| known.iter().find(|known| known.is_at(path))?.branch.clone();
    let mut all: Vec<ListedWork> = folders
        .into_iter()
        .map(|path| ListedWork { branch: branch_at(&path), path: Some(path) })
        .collect();
    let taken: HashSet<&str> = known.iter().filter_map(|known| known.branch.as_deref()).collect();
    let patterns = prefixes.iter().filter(|prefix| !prefix.is_empty());
    let patterns: Vec<String> = patterns.map(|prefix| format!("refs/heads/{prefix}*")).collect();
    if patterns.is_empty() {
        return Ok(all);
    }
    let mut ask = vec!["for-each-ref", "--format=%(refname:lstrip=2)"];
    // The pattern of a prefix that ends in a slash reaches one level down, where all branches of tasks are.
    ask.extend(patterns.iter().map(String::as_str));
    let found = text(&Git::at(repo).ask(&ask).await?);
    let branches: std::collections::BTreeSet<&str> = found.lines().collect();
    let free = branches.into_iter().filter(|branch| !taken.contains(branch));
    all.extend(free.map(|branch| ListedWork { path: None, branch: Some(branch.to_owned()) }));
    Ok(all)
}

pub(super) async fn work_left(repo: &Path, of: &ListedWork, target: &str) -> WorkFact {
    match fact(repo, of, target).await {
        Ok(fact) => fact,
        Err(fault) => WorkFact::Unreadable(fault.to_string()),
    }
}

/// What would be lost with the folder of a worktree. Commits on its branch are not: a branch stays until it is merged.
pub(super) enum Lost {
    Files(Vec<OsString>),
    /// The folder of a repository in the worktree.
    Repository(String),
    /// A state of git's own.
    State(&'static str),
}

/// The rule for every removal of a worktree.
pub(super) async fn lost_with(tree: &AgentTree) -> Result<Option<Lost>, WorktreeFault> {
    let files = leftovers::unkept(tree).await?;
    if !files.is_empty() {
        return Ok(Some(Lost::Files(files.into_iter().map(|file| file.path).collect())));
    }
    let own = &tree.dirs().own;
    if is_in_a_rebase(own) {
        return Ok(Some(Lost::State("it is in the middle of a rebase")));
    }
    // Commits of a submodule may stand in the worktree's own part alone.
    if own.join("modules").exists() {
        return Ok(Some(Lost::State("it has submodules")));
    }
    let root = tree.path().to_owned();
    let nested = tokio::task::spawn_blocking(move || nested(&root)).await;
    let nested = nested.map_err(io::Error::other).flatten();
    let nested = nested.map_err(failed("cannot look through the worktree"))?;
    Ok(nested.map(|folder| Lost::Repository(folder.to_string_lossy().into_owned())))
}

/// The first folder below `root` with a repository of its own, or with a worktree of another one. Git's status names
/// none in an ignored folder, and none that was committed as a submodule. The walk reads the names of files alone, and
/// follows no links, so what a recipe linked is left out.
fn nested(root: &Path) -> io::Result<Option<PathBuf>> {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(root.join(&folder)) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name() == ".git" {
                if !folder.as_os_str().is_empty() {
                    return Ok(Some(folder));
                }
            } else if entry.file_type()?.is_dir() {
                folders.push(folder.join(entry.file_name()));
            }
        }
    }
    Ok(None)
}

async fn fact(repo: &Path, of: &ListedWork, target: &str) -> Result<WorkFact, WorktreeFault> {
    let busy = |words: &str| Ok(WorkFact::Busy(words.to_owned()));
    let head = match (&of.path, &of.branch) {
        (Some(path), _) => {
            let known = listed(repo).await?.into_iter().find(|listed| listed.is_at(path));
            let Some(known) = known.filter(|_| path.join(".git").exists()) else {
                let words = "git does not know this folder as a worktree";
                return Ok(WorkFact::Unreadable(words.into()));
            };
            if known.is_half_made() {
                return busy("it is half made");
            }
            if let Some(why) = known.locked {
                return Ok(WorkFact::Busy(format!("it is locked: {why}")));
            }
            let tree = AgentTree::looked_at(repo, path).await?;
            // A shell, an editor or an agent's client would stand in a folder that is gone.
            if has_process_in(tree.path()) {
                return busy("a process works in it");
            }
            match lost_with(&tree).await? {
                Some(Lost::Files(files)) => return Ok(WorkFact::Uncommitted(files.len())),
                Some(Lost::Repository(folder)) => return Ok(WorkFact::Nested(folder)),
                Some(Lost::State(words)) => return busy(words),
                None => {}
            }
            if stands_on(&tree).await?.is_none() {
                return busy("it is on no branch");
            }
            tree.head().await?
        }
        (None, Some(branch)) => match Tips::of(repo, branch).await?.local {
            Some(head) => head,
            None => return Ok(WorkFact::Unreadable("there is no such branch".into())),
        },
        (None, None) => return Ok(WorkFact::Unreadable("it has no name".into())),
    };
    Ok(match merged_into(repo, &head, target).await? {
        true => WorkFact::Merged,
        false => WorkFact::Unmerged { target: target.to_owned() },
    })
}
