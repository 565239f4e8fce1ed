//! Uncommitted files.

use std::fs;

use callboard_engine::ports::{WorktreeFault, Worktrees};
use callboard_runner::LocalWorktrees;

use super::{head, make, status, write};
use crate::fixture::{Repo, git_in};

const MESSAGE: &str = "chore: adding uncommitted agent changes (CB-1)";

#[tokio::test]
async fn everything_but_ignored_and_generated_files_is_committed() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let worktrees = LocalWorktrees::default();
    assert_eq!(worktrees.leftovers_commit(&worktree, MESSAGE).await, Ok(None));

    write(&worktree, "a.txt", "edited\n");
    write(&worktree, "new file.txt", "new\n");
    write(&worktree, ":(glob)*", "a name that looks like a pattern\n");
    write(&worktree, "x.o", "ignored\n");
    write(&worktree, ".callboard/start_prompt.md", "generated\n");
    fs::remove_file(worktree.path.join("sub/b.txt")).expect("removes a file");
    git_in(&worktree.path, &["init", "-q", "clone"]);
    git_in(&worktree.path.join("clone"), &["commit", "-q", "--allow-empty", "-m", "its own"]);

    let made = worktrees.leftovers_commit(&worktree, MESSAGE).await.expect("commits");
    assert_eq!(made, Some(head(&worktree.path)));
    let shown = git_in(&worktree.path, &["show", "--no-renames", "--format=%s", "--name-status"]);
    assert_eq!(
        shown,
        format!("{MESSAGE}\n\nA\t:(glob)*\nM\ta.txt\nA\tnew file.txt\nD\tsub/b.txt\n")
    );
    assert_eq!(status(&worktree.path), "?? .callboard/start_prompt.md\n?? clone/\n");
    assert_eq!(worktrees.leftovers_commit(&worktree, MESSAGE).await, Ok(None));
}

#[tokio::test]
async fn they_are_committed_in_the_users_name_when_git_knows_it() {
    let repo = Repo::with_origin();
    repo.git(&["config", "user.name", "Ana"]);
    repo.git(&["config", "user.email", "ana@example.org"]);
    repo.git(&["config", "commit.gpgSign", "true"]);
    repo.git(&["config", "gpg.program", "/bin/false"]);
    let worktree = make(&repo, "CB-1").await;
    write(&worktree, "new.txt", "new\n");
    let made = LocalWorktrees::default().leftovers_commit(&worktree, MESSAGE).await;
    assert!(made.expect("commits").is_some());
    let who = git_in(&worktree.path, &["log", "-1", "--format=%an <%ae> %cn"]);
    assert_eq!(who, "Ana <ana@example.org> Ana\n");

    repo.git(&["config", "user.name", ""]);
    write(&worktree, "more.txt", "more\n");
    let made = LocalWorktrees::default().leftovers_commit(&worktree, MESSAGE).await;
    assert!(made.expect("commits").is_some());
    let who = git_in(&worktree.path, &["log", "-1", "--format=%an <%ae> %cn"]);
    assert_eq!(who, "Callboard <callboard@localhost> Callboard\n", "without a name of its own");
}

/// An agent that checked out `main` must not get its leftovers committed there.
#[tokio::test]
async fn nothing_is_committed_on_another_branch_or_on_none() {
    let repo = Repo::with_origin();
    repo.git(&["checkout", "-q", "-b", "mine"]);
    let worktree = make(&repo, "CB-1").await;
    git_in(&worktree.path, &["checkout", "-q", "main"]);
    write(&worktree, "new.txt", "new\n");
    let main = repo.commit_of("main");
    let branch = worktree.branch.clone();
    let elsewhere = WorktreeFault::Elsewhere { branch, stands_on: "main".into() };
    let made = LocalWorktrees::default().leftovers_commit(&worktree, MESSAGE).await;
    assert_eq!(made, Err(elsewhere));
    assert_eq!(repo.commit_of("main"), main);

    fs::remove_file(worktree.path.join("new.txt")).expect("removes a file");
    git_in(&worktree.path, &["checkout", "-q", "--detach"]);
    let made = LocalWorktrees::default().leftovers_commit(&worktree, MESSAGE).await;
    let words = made.expect_err("refused").to_string();
    assert!(words.contains("but on no branch"), "{words}");
}

/// An agent writes in its worktree; settings of a repository of its own would run programs.
#[tokio::test]
async fn a_git_file_that_leads_elsewhere_is_not_followed() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let trap = Repo::committed();
    trap.git(&["branch", "-m", "main", "callboard/CB-1"]);
    let proof = trap.path.with_file_name("ran");
    trap.git(&["config", "filter.x.clean", &format!("touch {}", proof.display())]);
    write(&worktree, ".gitattributes", "* filter=x\n");
    write(&worktree, ".git", &format!("gitdir: {}/.git\n", trap.path.display()));
    let worktrees = LocalWorktrees::default();
    let before = trap.commit_of("callboard/CB-1");
    let made = worktrees.leftovers_commit(&worktree, MESSAGE).await.expect("commits");
    assert_eq!(made, Some(repo.commit_of("callboard/CB-1")), "on the branch of our record");
    assert_eq!(trap.commit_of("callboard/CB-1"), before);
    assert!(!proof.exists());
}
