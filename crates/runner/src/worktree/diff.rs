//! The changes of a task's work as a patch: committed or not, new files included. Git works on a `Scratch`, so nothing
//! is staged in the worktree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use callboard_engine::ports::{FileDiff, Worktree, WorktreeDiff, WorktreeFault};

use super::changes::first_parent;
use super::state::newest;
use super::{commit_of, fork, leftovers, text};
use crate::git::Git;
use crate::guarded::AgentTree;
use crate::scratch::Scratch;

/// Options that disable the effects of a user's settings and attributes on a patch.
pub(super) const PLAINLY: [&str; 4] =
    ["--find-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"];

pub(super) async fn diff(
    worktree: &Worktree,
    target: &str,
    below: Option<&str>,
) -> Result<WorktreeDiff, WorktreeFault> {
    let (repo, tree) = (&worktree.repo, AgentTree::to_look_at(worktree).await?);
    let head = tree.head().await?;
    let newest = newest(repo, &head, target).await?;
    let base = fork(repo, &head, &newest).await?.base;

    let scratch = Scratch::beside(Some(tree.index()), tree.objects()).await?;
    let git = || scratch.used_by(tree.git());
    let found = leftovers::uncommitted(&tree).await?;
    let paths: Vec<&[u8]> = found.iter().map(|entry| entry.path.as_bytes()).collect();
    leftovers::stage(git(), &paths).await?;
    let found = between(git, &["diff-index", "--cached"], &[&base], below).await?;
    scratch.close().await?;
    let (files, patch) = found;
    Ok(WorktreeDiff { base, files, patch })
}

pub(super) async fn of_branch(
    repo: &Path,
    branch: &str,
    target: &str,
    patch: bool,
) -> Result<WorktreeDiff, WorktreeFault> {
    let head = commit_of(repo, branch).await?;
    let newest = newest(repo, &head, target).await?;
    let base = fork(repo, &head, &newest).await?.base;
    let below = patch.then_some("");
    let (files, patch) =
        between(|| Git::at(repo), &["diff-tree", "-r"], &[&base, &head], below).await?;
    Ok(WorktreeDiff { base, files, patch })
}

pub(super) async fn of_commit(
    repo: &Path,
    commit: &str,
    below: Option<&str>,
) -> Result<WorktreeDiff, WorktreeFault> {
    let base = first_parent(repo, commit).await?;
    let (files, patch) =
        between(|| Git::at(repo), &["diff-tree", "-r"], &[&base, commit], below).await?;
    Ok(WorktreeDiff { base, files, patch })
}

/// The changed files, and the patch if a prefix for its paths is given.
async fn between<'g>(
    git: impl Fn() -> Git<'g>,
    command: &[&str],
    sides: &[&str],
    below: Option<&str>,
) -> Result<(Vec<FileDiff>, Option<String>), WorktreeFault> {
    let numbers = [command, &PLAINLY, &["--numstat", "-z"], sides].concat();
    let files = files(&git().ask(&numbers).await?);
    let Some(below) = below else { return Ok((files, None)) };
    let prefixes = [format!("--src-prefix=a/{below}"), format!("--dst-prefix=b/{below}")];
    let form = ["-p", "--binary", "--full-index", "--no-color", &prefixes[0], &prefixes[1]];
    let patch = git().ask(&[command, &PLAINLY, &form, sides].concat()).await?;
    Ok((files, Some(String::from_utf8_lossy(&patch).into_owned())))
}

/// The files in an answer of `--numstat -z`: two numbers and a path, or an empty path followed by the old and the new
/// path.
fn files(answer: &[u8]) -> Vec<FileDiff> {
    let path = |bytes: &[u8]| OsStr::from_bytes(bytes).to_string_lossy().into_owned();
    let mut files = Vec::new();
    let mut fields = answer.split(|byte| *byte == 0);
    while let Some(line) = fields.next().filter(|line| !line.is_empty()) {
        let mut parts = line.splitn(3, |byte| *byte == b'\t');
        // Binary files have `-` for both.
        let mut number = || text(parts.next().unwrap_or_default()).parse().ok();
        let lines = number().zip(number());
        let named = parts.next().filter(|name| !name.is_empty()).map(path);
        let (was, now) = match named {
            Some(name) => (None, name),
            None => (fields.next().map(path), fields.next().map(path).unwrap_or_default()),
        };
        files.push(FileDiff { path: now, was, lines });
    }
    files
}
