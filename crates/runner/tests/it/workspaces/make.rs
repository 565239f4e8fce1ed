//! Where a worktree starts, its name, and that nothing else changes.

use std::fs;

use callboard_engine::ports::{Base, BaseFrom, TaskBranch, WorktreeFault, Worktrees};
use callboard_runner::LocalWorktrees;

use super::{commit, folder_of, head, make, order, status, try_make};
use crate::fixture::{Repo, git_in, snapshot};

#[tokio::test]
async fn it_stands_below_the_repository_on_a_branch_of_its_own() {
    let repo = Repo::with_origin();
    let made = try_make(order(&repo, "CB-1")).await.expect("makes one");
    let main = repo.commit_of("main");
    assert_eq!(made.base, Some(Base { name: "origin/main".into(), commit: main.clone() }));
    assert_eq!(made.worktree.path, folder_of(&repo).join("CB-1"));
    assert_eq!(made.worktree.branch, "callboard/CB-1");
    assert_eq!(head(&made.worktree.path), main);
    assert_eq!(fs::read_to_string(made.worktree.path.join("sub/b.txt")).expect("a file"), "two\n");

    let again = try_make(order(&repo, "CB-1")).await.expect("finds it");
    assert_eq!((again.worktree, again.base), (made.worktree.clone(), None));
    let worktrees = LocalWorktrees::default();
    let found =
        worktrees.worktree_find(&repo.path, "CB-1", &TaskBranch::named("callboard/CB-1")).await;
    assert_eq!(found, Ok(Some(made.worktree.clone())));
    let missing =
        worktrees.worktree_find(&repo.path, "CB-2", &TaskBranch::named("callboard/CB-2")).await;
    assert_eq!(missing, Ok(None));
    let upstream = git_in(&made.worktree.path, &["config", "--get-regexp", "^(remote|branch)"]);
    assert!(!upstream.contains("branch."), "a push would go to main: {upstream}");
}

#[tokio::test]
async fn the_users_checkout_is_untouched_byte_for_byte() {
    let repo = Repo::with_origin();
    repo.git(&["checkout", "-q", "-b", "mine"]);
    repo.write("a.txt", "staged\n");
    repo.git(&["add", "a.txt"]);
    repo.write("a.txt", "edited\n");
    repo.write("new.txt", "untracked\n");
    let seen = || {
        let files = snapshot(&repo.path).into_iter();
        let files = files.filter(|(path, _)| {
            let inside = path.strip_prefix(&repo.path).expect("a file of the repository");
            !inside.starts_with(".callboard")
                && (!inside.starts_with(".git") || inside == ".git/index")
        });
        (files.collect::<Vec<_>>(), status(&repo.path), repo.git(&["branch", "-v"]))
    };
    let before = seen();
    let worktree = make(&repo, "CB-1").await;
    let after = seen();
    assert_eq!(after.0, before.0);
    assert_eq!(after.1, before.1, "the folder of worktrees is not the user's");
    let lines = |text: &str| text.lines().filter(|line| !line.contains("callboard/")).count();
    assert_eq!(lines(&after.2), lines(&before.2));
    assert_eq!(status(&worktree.path), "");
}

/// Local and remote `main`, each with or without a commit that the other lacks.
#[tokio::test]
async fn the_base_is_chosen_by_the_strategy() {
    let table = "
        # local  remote   Remote       LocalIfAhead Local
        same     same     origin/main  origin/main  main
        ahead    same     origin/main  main         main
        same     ahead    origin/main  origin/main  main
        ahead    ahead    origin/main  main         main
        same     none     main         main         main
        none     same     origin/main  origin/main  origin/main
    ";
    for line in table.lines().filter(|line| !line.trim().is_empty() && !line.contains('#')) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let repo = if cells[1] == "none" { Repo::committed() } else { Repo::with_origin() };
        if cells[1] == "ahead" {
            repo.pushed_by_another("theirs.txt", "theirs\n");
        }
        if cells[0] == "ahead" {
            repo.write("ours.txt", "ours\n");
            repo.commit("ours");
        }
        if cells[0] == "none" {
            repo.git(&["checkout", "-q", "--detach"]);
            repo.git(&["branch", "-q", "-D", "main"]);
        }
        let strategies = [BaseFrom::Remote, BaseFrom::LocalIfAhead, BaseFrom::Local];
        for (n, base_from) in strategies.into_iter().enumerate() {
            let mut order = order(&repo, &format!("CB-{n}"));
            order.base_from = base_from;
            let made = try_make(order).await.expect("makes one");
            let base = made.base.expect("it is new");
            assert_eq!(base.name, cells[n + 2], "{line} {base_from:?}");
            assert_eq!(base.commit, repo.commit_of(cells[n + 2]));
            assert_eq!(head(&made.worktree.path), base.commit);
            if cells[1] == "ahead" && base.name == "origin/main" {
                assert!(made.worktree.path.join("theirs.txt").exists(), "it was fetched: {line}");
            }
        }
    }
}

#[tokio::test]
async fn nothing_is_fetched_unasked_and_an_origin_out_of_reach_does_no_harm() {
    let repo = Repo::with_origin();
    let old = repo.commit_of("main");
    let new = repo.pushed_by_another("theirs.txt", "theirs\n");
    let mut unasked = order(&repo, "CB-1");
    unasked.fetch = false;
    let base = try_make(unasked).await.expect("makes one").base.expect("it is new");
    assert_eq!(base.commit, old);
    let mut local = order(&repo, "CB-2");
    local.base_from = BaseFrom::Local;
    try_make(local).await.expect("makes one");
    assert_eq!(repo.commit_of("origin/main"), old, "a local base needs no remote");

    fs::rename(repo.path.with_file_name("origin.git"), repo.path.with_file_name("gone.git"))
        .expect("moves the origin away");
    let base = try_make(order(&repo, "CB-3")).await.expect("makes one").base.expect("it is new");
    assert_eq!(base.commit, old);
    assert_ne!(old, new);
}

#[tokio::test]
async fn a_taken_branch_gets_a_number() {
    let repo = Repo::with_origin();
    repo.git(&["branch", "callboard/CB-1"]);
    repo.git(&["branch", "callboard/CB-1-2"]);
    repo.git(&["branch", "callboard/CB-2/below"]);
    let worktree = make(&repo, "CB-1").await;
    assert_eq!(worktree.branch, "callboard/CB-1-3");
    assert_eq!(make(&repo, "CB-1").await, worktree, "found again with its number");
    assert_eq!(make(&repo, "CB-2").await.branch, "callboard/CB-2-2");
}

#[tokio::test]
async fn names_and_bases_that_cannot_be_are_refused_by_name() {
    let repo = Repo::with_origin();
    for name in ["", ".", "..", "../x", "a/b", "/x", "-x", ".x", "a b", "a\n"] {
        let made = LocalWorktrees::default()
            .worktree_find(&repo.path, name, &TaskBranch::named("b"))
            .await;
        assert_eq!(made, Err(WorktreeFault::BadName(name.into())));
    }
    let with_base = |base: &str| {
        let mut order = order(&repo, "CB-1");
        order.base = base.into();
        try_make(order)
    };
    assert_eq!(with_base("nope").await, Err(WorktreeFault::NoBranch("nope".into())));
    for base in ["main~1", "main^{tree}", "--help", "a..b", ""] {
        assert_eq!(with_base(base).await, Err(WorktreeFault::BadBranch(base.into())));
    }
    let unborn = Repo::unborn();
    let made = try_make(order(&unborn, "CB-1")).await;
    assert_eq!(made, Err(WorktreeFault::NoCommit));
    let plain = Repo::plain();
    let words = try_make(order(&plain, "CB-1")).await.expect_err("no repository").to_string();
    assert!(words.contains("not a git repository"), "{words}");
    assert!(
        !folder_of(&repo).exists()
            || fs::read_dir(folder_of(&repo)).expect("a folder").count() == 0
    );
}

#[tokio::test]
async fn a_folder_that_git_does_not_know_is_left_alone() {
    let repo = Repo::with_origin();
    repo.write(".callboard/worktrees/CB-1/mine.txt", "mine\n");
    let words = try_make(order(&repo, "CB-1")).await.expect_err("in the way").to_string();
    assert!(words.contains("CB-1 is in the way"), "{words}");
    assert_eq!(repo.read(".callboard/worktrees/CB-1/mine.txt"), "mine\n");
}

#[tokio::test]
async fn a_deleted_folder_comes_back_with_its_commits() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let work = commit(&worktree, "login.txt", "form\n");
    fs::remove_dir_all(&worktree.path).expect("removes a folder");
    let again = try_make(order(&repo, "CB-1")).await.expect("makes it again");
    assert_eq!(again.worktree, worktree);
    assert_eq!(head(&worktree.path), work);
}

/// The state that git leaves when it is killed at the worst moment.
#[tokio::test]
async fn one_that_was_half_made_is_made_anew() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    fs::write(repo.path.join(".git/worktrees/CB-1/locked"), "initializing").expect("locks it");
    fs::remove_file(worktree.path.join("a.txt")).expect("removes a file");
    let found = LocalWorktrees::default()
        .worktree_find(&repo.path, "CB-1", &TaskBranch::named("callboard/CB-1"))
        .await;
    assert_eq!(found, Ok(None));
    let again = try_make(order(&repo, "CB-1")).await.expect("makes it again");
    assert_eq!(again.worktree, worktree);
    assert!(again.base.is_some());
    assert_eq!(status(&worktree.path), "");
}

#[tokio::test]
async fn one_that_stands_elsewhere_is_not_taken_for_the_tasks() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    git_in(&worktree.path, &["checkout", "-q", "-b", "own-idea"]);
    let stands_on = "own-idea".to_owned();
    let branch = "callboard/CB-1".to_owned();
    let wanted = WorktreeFault::Elsewhere { branch, stands_on };
    assert_eq!(try_make(order(&repo, "CB-1")).await, Err(wanted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_make_one() {
    let repo = Repo::with_origin();
    let making: Vec<_> = (0..6).map(|_| tokio::spawn(try_make(order(&repo, "CB-1")))).collect();
    let mut new = 0;
    for made in making {
        let made = made.await.expect("no panic").expect("makes or finds it");
        assert_eq!(made.worktree.branch, "callboard/CB-1");
        new += usize::from(made.base.is_some());
    }
    assert_eq!(new, 1);
    assert_eq!(status(&repo.path), "");
}

#[tokio::test]
async fn hooks_of_the_repository_do_not_run() {
    let repo = Repo::with_origin();
    repo.write(
        ".git/hooks/post-checkout",
        "#!/bin/sh\ntouch \"$(git rev-parse --git-common-dir)/ran\"\n",
    );
    let hook = repo.path.join(".git/hooks/post-checkout");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(hook, mode).expect("makes it a program");
    make(&repo, "CB-1").await;
    assert!(!repo.path.join(".git/ran").exists());
    repo.git(&["worktree", "add", "-q", "--detach", "../proof"]);
    assert!(repo.path.join(".git/ran").exists(), "the hook works");
}
