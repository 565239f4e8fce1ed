//! A branch compared with its target: which of `main` and `origin/main` counts, where the work begins, and whether it
//! arrived as a commit of ours.

use std::collections::HashSet;
use std::path::Path;

use callboard_domain::board::branch::is_branch_name;
use callboard_engine::ports::WorktreeFault;

use super::text;
use crate::git::{Git, GitFault};

/// A trailer in the commits of `merge.rs`. By it a branch that goes on after its merge begins its work there, and a
/// repeated merge is found.
pub(crate) const HEAD_TRAILER: &str = "Callboard-Head";
pub(crate) const TASK_TRAILER: &str = "Callboard-Task";

/// More commits than any branch of a task has.
const OWN_COMMITS_MAX: &str = "--max-count=20000";

/// The local and the remote tip of a branch, as far as they exist.
#[derive(Debug)]
pub(crate) struct Tips {
    pub(crate) local: Option<String>,
    pub(crate) remote: Option<String>,
}

/// Which tip counts.
#[derive(Debug)]
pub(crate) enum Tip {
    Local(String),
    Remote(String),
    /// Each tip has commits that the other lacks.
    Diverged {
        local: String,
        remote: String,
    },
}

impl Tips {
    pub(crate) async fn of(repo: &Path, branch: &str) -> Result<Self, WorktreeFault> {
        if !is_branch_name(branch) {
            return Err(WorktreeFault::BadBranch(branch.into()));
        }
        let local = format!("refs/heads/{branch}");
        let remote = match branch.strip_prefix("origin/") {
            Some(rest) => format!("refs/remotes/origin/{rest}"),
            None => format!("refs/remotes/origin/{branch}"),
        };
        let format = "--format=%(objectname) %(refname)";
        let answer = Git::at(repo).ask(&["for-each-ref", format, &local, &remote]).await?;
        let answer = text(&answer);
        // Git also lists refs below a name.
        let commit = |wanted: &str| {
            let mut refs = answer.lines().filter_map(|line| line.split_once(' '));
            refs.find(|(_, name)| *name == wanted).map(|(commit, _)| commit.to_owned())
        };
        Ok(Self { local: commit(&local), remote: commit(&remote) })
    }

    /// The tip that contains the other.
    pub(crate) async fn newest(&self, repo: &Path, name: &str) -> Result<Tip, WorktreeFault> {
        let (local, remote) = match (&self.local, &self.remote) {
            (None, None) => return Err(WorktreeFault::NoBranch(name.into())),
            (Some(local), None) => return Ok(Tip::Local(local.clone())),
            (None, Some(remote)) => return Ok(Tip::Remote(remote.clone())),
            (Some(local), Some(remote)) => (local.clone(), remote.clone()),
        };
        if is_ancestor(repo, &remote, &local).await? {
            Ok(Tip::Local(local))
        } else if is_ancestor(repo, &local, &remote).await? {
            Ok(Tip::Remote(remote))
        } else {
            Ok(Tip::Diverged { local, remote })
        }
    }
}

pub(crate) async fn is_ancestor(repo: &Path, old: &str, new: &str) -> Result<bool, GitFault> {
    if old == new {
        return Ok(true);
    }
    Git::at(repo).asks_yes(&["merge-base", "--is-ancestor", old, new]).await
}

/// The place where work on a branch begins.
#[derive(Debug)]
pub(crate) struct Fork {
    /// The common commit: one of the target, or one of the branch when a squash of it is in the target.
    pub(crate) base: String,
    /// Whether `base` is a commit of the branch.
    pub(crate) is_squashed: bool,
    /// The commit of the target that contains the whole branch.
    pub(crate) merged_as: Option<String>,
}

pub(crate) async fn fork(repo: &Path, head: &str, target: &str) -> Result<Fork, WorktreeFault> {
    let git = Git::at(repo);
    let base = git.look(&["merge-base", head, target]).await?;
    let base = text(&base.ok_or(WorktreeFault::Unrelated)?);
    let plain = Fork { base: base.clone(), is_squashed: false, merged_as: None };
    if base == head {
        return Ok(plain);
    }
    let format = format!("--format=%H %(trailers:key={HEAD_TRAILER},valueonly,separator=%x20)");
    let (grep, range) = (format!("--grep={HEAD_TRAILER}: "), format!("{base}..{target}"));
    let list = ["rev-list", "--no-commit-header", &format, "--fixed-strings", &grep, &range];
    let squashes = text(&git.ask(&list).await?);
    if squashes.is_empty() {
        return Ok(plain);
    }
    let not_in_target = format!("^{target}");
    let own = text(&git.ask(&["rev-list", OWN_COMMITS_MAX, head, &not_in_target]).await?);
    let own: HashSet<&str> = own.lines().collect();
    let mut squashes = squashes.lines().filter_map(|line| line.split_once(' '));
    let newest = squashes.find(|(_, of)| own.contains(of));
    Ok(newest.map_or(plain, |(squash, of)| Fork {
        base: of.to_owned(),
        is_squashed: true,
        merged_as: (of == head).then(|| squash.to_owned()),
    }))
}
