//! What would be lost without a worktree and its branch.

use callboard_domain::board::gc::WorkFact;
use callboard_engine::ports::{ListedWork, Worktree, Worktrees};
use callboard_runner::LocalWorktrees;

use super::{commit, make, merge, write};
use crate::fixture::{Repo, git_in};

async fn left(repo: &Repo, worktree: &Worktree) -> WorkFact {
    let listed =
        ListedWork { path: Some(worktree.path.clone()), branch: Some(worktree.branch.clone()) };
    LocalWorktrees::default().work_left(&repo.path, &listed, "main").await
}

fn unmerged() -> WorkFact {
    WorkFact::Unmerged { target: "main".into() }
}

#[tokio::test]
async fn every_kind_of_work_is_seen() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    assert_eq!(left(&repo, &worktree).await, WorkFact::Merged, "nothing was done");
    write(&worktree, "ignored.o", "built\n");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Merged, "an ignored file is no work");
    write(&worktree, "new.txt", "work\n");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Uncommitted(1));
    write(&worktree, "a.txt", "changed\n");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Uncommitted(2));
    commit(&worktree, "new.txt", "work\n");
    assert_eq!(left(&repo, &worktree).await, unmerged());
    merge(&worktree).await.expect("merges");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Merged, "a squash of it is in main");
    commit(&worktree, "more.txt", "more\n");
    assert_eq!(left(&repo, &worktree).await, unmerged(), "it went on after its merge");
}

fn init(worktree: &Worktree, name: &str) -> std::path::PathBuf {
    let inner = worktree.path.join(name);
    git_in(&worktree.path, &["init", "-q", name]);
    std::fs::write(inner.join("x"), "x").expect("writes");
    git_in(&inner, &["add", "x"]);
    git_in(&inner, &["commit", "-q", "-m", "x"]);
    inner
}

/// A repository inside the worktree has commits of its own, which git's status of the worktree does not name.
#[tokio::test]
async fn a_nested_repository_is_work() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let inner = init(&worktree, "inner");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Uncommitted(1));
    let elsewhere = worktree.path.with_file_name("elsewhere");
    std::fs::rename(&inner, &elsewhere).expect("moves the repository");

    commit(&worktree, ".gitignore", "*.o\nvendor/\nlinked\n");
    merge(&worktree).await.expect("merges");
    std::os::unix::fs::symlink(&elsewhere, worktree.path.join("linked")).expect("a link");
    write(&worktree, "vendor/deep/built.js", "built\n");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Merged, "a link is not followed");
    let place = worktree.path.join("vendor/deep/inner");
    std::fs::rename(&elsewhere, &place).expect("moves the repository");
    let held = WorkFact::Nested("vendor/deep/inner".into());
    assert_eq!(left(&repo, &worktree).await, held, "in an ignored folder");

    std::fs::remove_dir_all(&place).expect("removes the repository");
    let linked = ["worktree", "add", "-q", "--detach", "vendor/more"];
    git_in(&worktree.path, &linked);
    assert_eq!(left(&repo, &worktree).await, WorkFact::Nested("vendor/more".into()));
    git_in(&worktree.path, &["worktree", "remove", "vendor/more"]);

    init(&worktree, "sub");
    git_in(&worktree.path, &["add", "sub"]);
    git_in(&worktree.path, &["commit", "-q", "-m", "a submodule without an address"]);
    merge(&worktree).await.expect("merges");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Nested("sub".into()));
}

/// Git can be told to overlook a file that is edited, and files that a sparse checkout leaves out look like these.
#[tokio::test]
async fn edits_that_git_overlooks_are_work() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    for flag in ["assume-unchanged", "skip-worktree"] {
        let set = |word: &str| {
            git_in(&worktree.path, &["update-index", &format!("--{word}{flag}"), "a.txt"])
        };
        set("");
        assert_eq!(left(&repo, &worktree).await, WorkFact::Merged, "{flag}: it is as it was");
        write(&worktree, "a.txt", "only here\n");
        assert_eq!(git_in(&worktree.path, &["status", "--porcelain"]), "", "{flag}");
        assert_eq!(left(&repo, &worktree).await, WorkFact::Uncommitted(1), "{flag}");
        let marked = git_in(&worktree.path, &["ls-files", "-v", "a.txt"]);
        assert!(!marked.starts_with('H'), "{flag}: the look takes no flag away");
        std::fs::remove_file(worktree.path.join("a.txt")).expect("removes a file");
        assert_eq!(left(&repo, &worktree).await, WorkFact::Merged, "{flag}: nothing is there");
        set("no-");
        git_in(&worktree.path, &["checkout", "-q", "a.txt"]);
    }
    git_in(&worktree.path, &["sparse-checkout", "set", "sub"]);
    git_in(&worktree.path, &["sparse-checkout", "add", "more"]);
    assert_eq!(left(&repo, &worktree).await, WorkFact::Merged, "a sparse checkout");
}

#[tokio::test]
async fn a_worktree_in_use_or_unknown_to_git_is_no_waste() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let path = worktree.path.display().to_string();
    repo.git(&["worktree", "lock", "--reason", "mine", &path]);
    assert_eq!(left(&repo, &worktree).await, WorkFact::Busy("it is locked: mine".into()));
    repo.git(&["worktree", "unlock", &path]);
    git_in(&worktree.path, &["checkout", "-q", "--detach"]);
    assert_eq!(left(&repo, &worktree).await, WorkFact::Busy("it is on no branch".into()));
    let stray = worktree.path.with_file_name("stray");
    std::fs::create_dir(&stray).expect("a folder");
    let stray = Worktree { path: stray, ..worktree.clone() };
    let unknown = "git does not know this folder as a worktree";
    assert_eq!(left(&repo, &stray).await, WorkFact::Unreadable(unknown.into()));
    git_in(&worktree.path, &["checkout", "-q", &worktree.branch]);
    let none = LocalWorktrees::default();
    let listed = ListedWork { path: Some(worktree.path.clone()), branch: None };
    let fact = none.work_left(&repo.path, &listed, "no-such-target").await;
    assert!(matches!(fact, WorkFact::Unmerged { .. } | WorkFact::Unreadable(_)), "{fact:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_worktree_with_a_process_in_it_is_no_waste() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let mut cat = std::process::Command::new("cat");
    cat.current_dir(worktree.path.join("sub")).stdin(std::process::Stdio::piped());
    let mut cat = cat.spawn().expect("cat starts");
    let busy = WorkFact::Busy("a process works in it".into());
    assert_eq!(left(&repo, &worktree).await, busy);
    drop(cat.stdin.take());
    cat.wait().expect("cat ends");
    assert_eq!(left(&repo, &worktree).await, WorkFact::Merged);
}

#[tokio::test]
async fn worktrees_and_branches_without_one_are_listed() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    repo.git(&["branch", "callboard/CB-2-old", "main"]);
    repo.git(&["branch", "callboard/CB-3", "main"]);
    repo.git(&["branch", "mine", "main"]);
    std::fs::create_dir(worktree.path.with_file_name(".merge-CB-1")).expect("a folder");
    std::fs::create_dir(worktree.path.with_file_name("stray")).expect("a folder");
    let all = LocalWorktrees::default();
    let listed = all.worktrees_listed(&repo.path, &["callboard/".into()]).await.expect("lists");
    let shown: Vec<String> = listed
        .iter()
        .map(|one| {
            let name = one.path.as_ref().and_then(|path| path.file_name());
            let name = name.map(|name| name.to_string_lossy().into_owned());
            format!("{} {}", name.as_deref().unwrap_or("-"), one.branch.as_deref().unwrap_or("-"))
        })
        .collect();
    let wanted = ["CB-1 callboard/CB-1", "stray -", "- callboard/CB-2-old", "- callboard/CB-3"];
    assert_eq!(shown, wanted);
    let branch = ListedWork { path: None, branch: Some("callboard/CB-3".into()) };
    assert_eq!(all.work_left(&repo.path, &branch, "main").await, WorkFact::Merged);
}
