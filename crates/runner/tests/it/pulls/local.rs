//! Local pull requests, merged with plain git.

use std::fs;

use callboard_domain::pulls::{CLOSED, MERGED, OPEN};
use callboard_engine::ports::{Merges, Worktrees};
use callboard_engine::{PullEnd, PullFault, ReviewEnd};
use callboard_runner::LocalWorktrees;

use super::{Crew, EPIC};
use crate::fixture::Repo;
use crate::workspaces::{commit, head, merge_order, status, write};

#[tokio::test]
async fn a_branch_is_merged_into_its_base_once() {
    let crew = Crew::open(Repo::committed(), None).await;
    let (task, worktree) = crew.worked("Login", "login.txt", "one\n").await;
    commit(&worktree, "form.txt", "two\n");
    let before = (status(&crew.repo.path), crew.repo.commit_of("HEAD"));
    let pull = crew.pull(task, &worktree).await;
    assert_eq!((pull.url.as_str(), pull.number), ("callboard://pr/1", 1));
    assert_eq!((pull.base.as_str(), pull.head.clone()), (EPIC, head(&worktree.path)));
    assert_eq!(crew.pull(task, &worktree).await, pull, "the open one");
    let base = crew.repo.commit_of(EPIC);
    let end = crew.merge(&pull).await;
    let commit = crew.repo.commit_of(EPIC);
    assert_eq!(end, PullEnd::Merged { commit: Some(commit.clone()) });
    assert_eq!(crew.repo.commit_of(&format!("{commit}^")), base, "one commit");
    assert_eq!(crew.repo.file_in(&commit, "form.txt"), "two\n");
    let subject = crew.repo.git(&["log", "-1", "--format=%B", &commit]);
    assert!(subject.starts_with("Add login\n\nPull request: callboard://pr/1\n"), "{subject}");
    let known = crew.known(&pull).await;
    assert_eq!((known.status.as_str(), &known.merge_commit), (MERGED, &Some(commit.clone())));
    assert_eq!(crew.merge(&pull).await, end, "asked again");
    assert_eq!(crew.repo.commit_of(EPIC), commit);
    assert_eq!(crew.news(task).await, ["pr.opened", "pr.merged"]);
    assert_eq!((status(&crew.repo.path), crew.repo.commit_of("HEAD")), before);
}

/// A server that died after git was done finds the merge.
#[tokio::test]
async fn a_merge_that_was_not_written_down_is_found_again() {
    let crew = Crew::open(Repo::committed(), None).await;
    let mut commits = Vec::new();
    for file in ["one.txt", "two.txt"] {
        let (task, worktree) = crew.worked(file, file, "work\n").await;
        let pull = crew.pull(task, &worktree).await;
        let git = LocalWorktrees::default();
        let order = merge_order(&worktree, EPIC);
        let prepared = git.merge_prepare(vec![order]).await.expect("prepares");
        git.merge_publish(prepared, false).await.expect("publishes");
        commits.push((pull, Some(crew.repo.commit_of(EPIC))));
    }
    let (pull, commit) = commits[0].clone();
    assert_eq!(crew.merge(&pull).await, PullEnd::Merged { commit });
    // A look without a merge finds the other.
    assert_eq!(crew.engine.pulls_look(false).await.expect("looks"), 1);
    let (pull, commit) = commits[1].clone();
    let known = crew.known(&pull).await;
    assert_eq!((known.status.as_str(), known.merge_commit), (MERGED, commit.clone()));
    assert_eq!(Some(crew.repo.commit_of(EPIC)), commit, "nothing was merged twice");
    assert_eq!(crew.news(pull.task.expect("a task's")).await, ["pr.opened", "pr.merged"]);
}

#[tokio::test]
async fn a_conflict_is_told_with_its_files_and_changes_nothing() {
    let crew = Crew::open(Repo::committed(), None).await;
    let (first, one) = crew.worked("One", "a.txt", "first\n").await;
    let (second, two) = crew.worked("Two", "a.txt", "second\n").await;
    commit(&two, "b.txt", "fine\n");
    write(&two, "a.txt", "in the middle of it\n");
    let pulls = (crew.pull(first, &one).await, crew.pull(second, &two).await);
    assert!(matches!(crew.merge(&pulls.0).await, PullEnd::Merged { commit: Some(_) }));
    let before = (crew.repo.commit_of(EPIC), head(&two.path), status(&two.path));
    let end = crew.merge(&pulls.1).await;
    assert_eq!(end, PullEnd::Conflicts { files: vec!["a.txt".into()] });
    assert_eq!((crew.repo.commit_of(EPIC), head(&two.path), status(&two.path)), before);
    assert_eq!(crew.known(&pulls.1).await.status, OPEN);
    // After a manual rebase the merge succeeds.
    fs::write(two.path.join("a.txt"), "second\n").expect("writes");
    commit(&two, "a.txt", "first\n");
    let update = LocalWorktrees::default().worktree_rebase(&two, EPIC, false).await;
    update.expect("an answer");
    assert!(matches!(crew.merge(&pulls.1).await, PullEnd::Merged { .. }));
}

#[tokio::test]
async fn only_what_was_looked_at_is_merged() {
    let crew = Crew::open(Repo::committed(), None).await;
    let (task, worktree) = crew.worked("Login", "login.txt", "one\n").await;
    let pull = crew.pull(task, &worktree).await;
    let looked_at = pull.head.clone();
    commit(&worktree, "login.txt", "two\n");
    let base = crew.repo.commit_of(EPIC);
    let end = crew.engine.pull_merge(&crew.op(), &pull, Some(&looked_at)).await.expect("answers");
    assert!(
        matches!(end, PullEnd::Refused { ref why } if why.contains("other commits")),
        "{end:?}"
    );
    assert_eq!(crew.repo.commit_of(EPIC), base);
    let moved = crew.pull(task, &worktree).await;
    assert_eq!((moved.number, &moved.head), (pull.number, &head(&worktree.path)), "the same one");
    let end = crew.engine.pull_merge(&crew.op(), &pull, Some(&moved.head)).await;
    assert!(matches!(end, Ok(PullEnd::Merged { commit: Some(_) })), "{end:?}");
    assert_eq!(crew.news(task).await, ["pr.opened", "pr.updated", "pr.merged"]);
}

/// The branch was not merged: the epic's branch contained it from the start.
#[tokio::test]
async fn a_branch_without_work_is_not_taken_for_merged() {
    let crew = Crew::open(Repo::committed(), None).await;
    let (task, worktree) = crew.task("Login").await;
    let pull = crew.pull(task, &worktree).await;
    assert_eq!(crew.engine.pulls_look(true).await.expect("looks"), 0);
    assert_eq!(crew.known(&pull).await.status, OPEN);
    commit(&worktree, "login.txt", "one\n");
    let base = crew.repo.commit_of(EPIC);
    assert!(matches!(crew.merge(&pull).await, PullEnd::Merged { commit: Some(_) }));
    assert_ne!(crew.repo.commit_of(EPIC), base);
}

/// The board merges the same work another way; both agree on the result.
#[tokio::test]
async fn a_merge_of_the_board_is_a_merge_of_the_pull_request() {
    let crew = Crew::open(Repo::committed(), None).await;
    let (task, worktree) = crew.worked("Login", "login.txt", "one\n").await;
    let opened = crew.try_open(task, &worktree.branch, "main").await;
    let pull = opened.expect("opens");
    let merged = crew.engine.review_merge(&crew.op(), task).await.expect("answers");
    let ReviewEnd::Merged(merged) = merged.end else { panic!("{:?}", merged.end) };
    let known = crew.known(&pull).await;
    assert_eq!((known.status.as_str(), &known.merge_commit), (MERGED, &merged.commit));
    assert_eq!(crew.merge(&pull).await, PullEnd::Merged { commit: merged.commit });
    assert_eq!(crew.news(task).await, ["pr.opened", "pr.merged"]);
}

#[tokio::test]
async fn what_is_not_there_cannot_be_opened_or_merged() {
    let crew = Crew::open(Repo::committed(), None).await;
    let (task, worktree) = crew.worked("Login", "login.txt", "one\n").await;
    let opened = crew.try_open(task, "callboard/nope", EPIC).await;
    assert!(matches!(opened, Err(PullFault::NoBranch(name)) if name == "callboard/nope"));
    let pull = crew.pull(task, &worktree).await;
    crew.repo.git(&["worktree", "remove", "-f", &worktree.path.display().to_string()]);
    crew.repo.git(&["branch", "-q", "-D", &worktree.branch]);
    let end = crew.merge(&pull).await;
    assert!(matches!(end, PullEnd::Refused { ref why } if why.contains("branch")), "{end:?}");
    assert_eq!(crew.engine.pulls_look(false).await.expect("looks"), 1);
    assert_eq!(crew.known(&pull).await.status, CLOSED);
    let end = crew.merge(&pull).await;
    assert_eq!(end, PullEnd::Refused { why: "closed without a merge".into() });
    assert_eq!(crew.news(task).await, ["pr.opened", "pr.closed"]);
}
