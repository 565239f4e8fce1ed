//! The state of a worktree, compared with its target.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use callboard_engine::ports::{DiffStats, Worktree, WorktreeFault, WorktreeState};

use super::hold::stands_on;
use super::target::{Tip, Tips};
use super::{failed, fork, is_ancestor, text, uncommitted};
use crate::guarded::AgentTree;

/// Lines of a larger file are not counted: people write no text of that size.
const COUNTED_BYTES_MAX: u64 = 4 * 1024 * 1024;

pub(super) async fn state(
    worktree: &Worktree,
    target: &str,
) -> Result<WorktreeState, WorktreeFault> {
    let (repo, tree) = (&worktree.repo, AgentTree::to_look_at(worktree).await?);
    let head = tree.head().await?;
    let newest = newest(repo, &head, target).await?;
    let fork = fork(repo, &head, &newest).await?;
    let left = [format!("^{}", fork.base), format!("^{newest}")];
    let count = ["rev-list", "--count", &head, &left[0], &left[1]];
    let commits = text(&tree.git().ask(&count).await?).parse().unwrap_or_default();

    let found = uncommitted(&tree).await?;
    let mut changed = BTreeSet::new();
    let numbers = ["diff-index", "--numstat", "-z", "--no-renames", "--ignore-submodules=dirty"];
    let numbers = tree.git().ask(&[&numbers[..], &[&fork.base]].concat()).await?;
    let mut diff = DiffStats::default();
    for line in numbers.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let mut fields = line.splitn(3, |byte| *byte == b'\t');
        // Binary files have `-` for both.
        let mut number = || text(fields.next().unwrap_or_default()).parse().unwrap_or(0);
        diff.insertions += number();
        diff.deletions += number();
        let path = fields.next().unwrap_or_default();
        changed.insert(OsStr::from_bytes(path).to_string_lossy().into_owned());
    }
    let root = worktree.path.clone();
    let new: Vec<_> =
        found.iter().filter(|entry| entry.is_new).map(|entry| entry.path.clone()).collect();
    changed.extend(new.iter().map(|path| path.to_string_lossy().into_owned()));
    let count = move || new.iter().map(|path| lines(&root.join(path)).unwrap_or(0)).sum::<u64>();
    let counted = tokio::task::spawn_blocking(count).await.map_err(io::Error::other);
    diff.insertions += counted.map_err(failed("cannot read new files"))?;
    diff.files = changed.len() as u64;

    Ok(WorktreeState {
        stands_on: stands_on(&tree).await?,
        holds_target: is_ancestor(repo, &newest, &head).await?,
        uncommitted: found.iter().map(|entry| entry.path.to_string_lossy().into_owned()).collect(),
        changed: changed.into_iter().collect(),
        base: fork.base,
        head,
        commits,
        diff,
    })
}

/// The commit of the target that a branch is compared with.
pub(super) async fn newest(repo: &Path, head: &str, target: &str) -> Result<String, WorktreeFault> {
    Ok(match Tips::of(repo, target).await?.newest(repo, target).await? {
        Tip::Local(commit) | Tip::Remote(commit) => commit,
        Tip::Diverged { local, remote } => {
            // The tip that the branch shares more with.
            let with_remote = fork(repo, head, &remote).await?.base;
            let is_local = is_ancestor(repo, &with_remote, &local).await?;
            if is_local { local } else { remote }
        }
    })
}

/// The number of lines of a file that git would take for text.
fn lines(path: &Path) -> io::Result<u64> {
    let facts = path.symlink_metadata()?;
    if facts.is_symlink() {
        return Ok(1);
    }
    if !facts.is_file() || facts.len() > COUNTED_BYTES_MAX {
        return Ok(0);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(COUNTED_BYTES_MAX).read_to_end(&mut bytes)?;
    if bytes.iter().take(8000).any(|byte| *byte == 0) {
        return Ok(0);
    }
    let ended = bytes.iter().filter(|byte| **byte == b'\n').count();
    let open = bytes.last().is_some_and(|byte| *byte != b'\n');
    Ok(ended as u64 + u64::from(open))
}
