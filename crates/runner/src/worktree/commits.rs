//! The commits of a task's work, for a reader who looks at a part of them.

use callboard_engine::ports::{WorkCommit, Worktree, WorktreeFault};

use super::state::newest;
use super::{fork, text};
use crate::guarded::AgentTree;

/// More commits than a reader chooses from.
const COMMITS_MAX: &str = "--max-count=100";

/// The newest first; the last one is the commit at which the work begins. With a merge of the target in the work, the
/// commits of the target are left out.
pub(super) async fn commits(
    worktree: &Worktree,
    target: &str,
) -> Result<Vec<WorkCommit>, WorktreeFault> {
    let (repo, tree) = (&worktree.repo, AgentTree::to_look_at(worktree).await?);
    let head = tree.head().await?;
    let newest = newest(repo, &head, target).await?;
    let base = fork(repo, &head, &newest).await?.base;
    let below = format!("^{base}");
    let form = ["rev-list", "--no-commit-header", "--first-parent", COMMITS_MAX, "--format=%H %s"];
    let listed = text(&tree.git().ask(&[&form[..], &[&head, &below]].concat()).await?);
    let lines = listed.lines().filter_map(|line| {
        let (id, subject) = line.split_once(' ').unwrap_or((line, ""));
        (!id.is_empty()).then(|| WorkCommit { id: id.to_owned(), subject: subject.to_owned() })
    });
    let begins = WorkCommit { id: base, subject: String::new() };
    Ok(lines.chain([begins]).collect())
}
