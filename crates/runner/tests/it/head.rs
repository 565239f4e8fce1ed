//! The branch and the commit of a checkout are those that git names.

use std::path::Path;

use callboard_engine::ports::{CheckRunner, Head};
use callboard_runner::LocalChecks;

use crate::fixture::{Repo, git_in};

async fn head_at(folder: &Path) -> Head {
    LocalChecks::new(true).head(folder, folder).await
}

#[tokio::test]
async fn the_head_is_the_one_that_git_names() {
    let repo = Repo::committed();
    let beside = tempfile::tempdir().expect("a folder");
    let linked = beside.path().join("linked");
    let linked_name = linked.to_str().expect("UTF-8").to_owned();
    let steps: [(&str, &[&str], &Path); 7] = [
        ("a branch", &["status"], &repo.path),
        ("a branch with a slash", &["switch", "-q", "-c", "a/b"], &repo.path),
        ("packed refs", &["pack-refs", "--all"], &repo.path),
        ("a newer commit", &["commit", "-q", "--allow-empty", "-m", "more"], &repo.path),
        ("a folder below", &["status"], &repo.path.join("sub")),
        ("no branch", &["switch", "-q", "--detach"], &repo.path),
        ("a worktree", &["worktree", "add", "-q", "-b", "other", &linked_name], &linked),
    ];
    for (what, git, folder) in steps {
        repo.git(git);
        let Head { branch, head } = head_at(folder).await;
        let named = git_in(folder, &["rev-parse", "HEAD"]);
        assert_eq!(head.as_deref(), Some(named.trim()), "{what}");
        let named = git_in(folder, &["branch", "--show-current"]);
        assert_eq!(branch.unwrap_or_default(), named.trim(), "{what}");
    }
}

#[tokio::test]
async fn a_branch_without_a_commit_has_a_name_only() {
    let repo = Repo::unborn();
    let Head { branch, head } = head_at(&repo.path).await;
    let named = repo.git(&["branch", "--show-current"]);
    assert_eq!((branch.as_deref(), head), (Some(named.trim()), None));
}
