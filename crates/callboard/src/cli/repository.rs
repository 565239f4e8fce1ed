//! A look at the user's own repository for `init` and `doctor`. Worktrees are made elsewhere.

use std::path::Path;
use std::time::Duration;

use callboard_runner::{probe, program_on_path};

/// A git that answers later is not waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What to do about a repository without a commit.
pub use callboard_engine::ports::FIRST_COMMIT;

/// Whether the checked out branch has no commit yet, as after `git init`. A worktree starts from a commit.
pub async fn lacks_commit(root: &Path) -> bool {
    let Some(git) = program_on_path("git") else { return false };
    let question = ["rev-parse", "--quiet", "--verify", "HEAD"];
    match probe(&git, &question, root, "", ANSWER_WITHIN).await {
        // Git says nothing about a branch without a commit. Its other faults have words.
        Ok(report) => !report.is_success && report.stderr.is_empty(),
        Err(_) => false,
    }
}
