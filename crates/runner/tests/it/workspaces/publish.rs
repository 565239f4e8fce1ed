//! How a target moves, and what prevents it.

use std::fs;
use std::future::Future;
use std::task::{Context, Waker};

use callboard_engine::ports::{MergeFault, Merges};
use callboard_runner::LocalWorktrees;

use super::{commit, make, merge, merge_order, prepare, publish, status};
use crate::fixture::{Repo, git_in, snapshot, until};

#[tokio::test]
async fn a_dirty_checkout_of_another_branch_stays_byte_for_byte() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "a.txt", "ours\n");
    repo.git(&["checkout", "-q", "-b", "mine"]);
    repo.write("a.txt", "edited by the user\n");
    repo.write("new.txt", "untracked\n");
    let files = || {
        let files = snapshot(&repo.path).into_iter();
        let kept = |path: &std::path::Path| {
            let inside = path.strip_prefix(&repo.path).expect("a file of the repository");
            !inside.starts_with(".git") || inside == std::path::Path::new(".git/index")
        };
        files.filter(|(path, _)| kept(path)).collect::<Vec<_>>()
    };
    let before = files();
    let merged = merge(&worktree).await.expect("merges");
    assert_eq!(repo.commit_of("main"), merged.commit.expect("a commit"));
    assert_eq!(files(), before);
    assert_eq!(repo.git(&["symbolic-ref", "HEAD"]), "refs/heads/mine\n");
    let log = repo.git(&["reflog", "-1", "--format=%gs", "main"]);
    assert_eq!(log, "callboard: merge\n");
}

/// Files in a checkout of the target when it should move.
#[tokio::test]
async fn a_checked_out_target_moves_only_when_nothing_is_in_the_way() {
    type Act = fn(&Repo);
    let table: [(&str, Act, &[&str]); 9] = [
        ("nothing", |_| {}, &[]),
        ("an untracked file elsewhere", |repo| repo.write("notes.txt", "mine\n"), &[]),
        ("an ignored file elsewhere", |repo| repo.write("x.o", "built\n"), &[]),
        ("an edit of the same file", |repo| repo.write("a.txt", "mine\n"), &["a.txt"]),
        ("an edit of another file", |repo| repo.write("sub/b.txt", "mine\n"), &["sub/b.txt"]),
        (
            "a staged edit",
            |repo| {
                repo.write("sub/b.txt", "mine\n");
                repo.git(&["add", "sub/b.txt"]);
            },
            &["sub/b.txt"],
        ),
        (
            "an untracked file where a new one goes",
            |repo| repo.write("new/x.txt", "mine\n"),
            &["new/x.txt"],
        ),
        ("a file where a new folder goes", |repo| repo.write("new", "mine\n"), &["new"]),
        ("an ignored file where a new one goes", |repo| repo.write("lib.o", "mine\n"), &["lib.o"]),
    ];
    for (what, act, in_the_way) in table {
        let repo = Repo::with_origin();
        let worktree = make(&repo, "CB-1").await;
        commit(&worktree, "a.txt", "ours\n");
        git_in(&worktree.path, &["config", "advice.addIgnoredFile", "false"]);
        fs::write(worktree.path.join("lib.o"), "tracked although ignored\n").expect("writes");
        git_in(&worktree.path, &["add", "-f", "lib.o"]);
        commit(&worktree, "new/x.txt", "ours\n");
        act(&repo);
        let (main, seen) = (repo.commit_of("main"), status(&repo.path));
        match merge(&worktree).await {
            Ok(merged) => {
                assert_eq!(in_the_way, [""; 0], "{what}: nothing was overwritten");
                assert_eq!(repo.commit_of("main"), merged.commit.expect("a commit"), "{what}");
                assert_eq!(repo.read("a.txt"), "ours\n", "{what}");
                assert_eq!(status(&repo.path), seen, "{what}");
            }
            Err(fault) => {
                assert_eq!(fault.files(), in_the_way, "{what}: {fault}");
                assert!(fault.to_string().contains(&repo.path.display().to_string()), "{fault}");
                assert_eq!(repo.commit_of("main"), main, "{what}");
                assert_eq!(status(&repo.path), seen, "{what}");
                let origin =
                    git_in(&repo.path.with_file_name("origin.git"), &["rev-parse", "main"]);
                assert_eq!(origin.trim(), main, "{what}");
            }
        }
    }
}

/// The state after a git that was killed when it had written some of the files.
#[tokio::test]
async fn a_file_that_is_what_the_merge_makes_is_not_in_the_way() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    git_in(&worktree.path, &["rm", "-q", "sub/b.txt"]);
    commit(&worktree, "a.txt", "ours\n");
    commit(&worktree, "new/x.txt", "ours\n");
    repo.write("a.txt", "ours\n");
    repo.write("new/x.txt", "ours\n");
    fs::remove_file(repo.path.join("sub/b.txt")).expect("removes a file");
    // Staged content exists nowhere else.
    repo.write("a.txt", "staged\n");
    repo.git(&["add", "a.txt"]);
    repo.write("a.txt", "ours\n");
    let seen = status(&repo.path);
    let fault = merge(&worktree).await.expect_err("something else is staged");
    assert_eq!(fault.files(), ["a.txt"], "{fault}");
    assert_eq!(status(&repo.path), seen);
    assert_eq!(repo.git(&["show", ":a.txt"]), "staged\n");

    repo.git(&["reset", "-q", "a.txt"]);
    let merged = merge(&worktree).await.expect("merges");
    assert_eq!(repo.commit_of("main"), merged.commit.expect("a commit"));
    assert_eq!(status(&repo.path), "");
}

#[tokio::test]
async fn a_target_that_is_being_rebased_stays() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "login.txt", "form\n");
    repo.write("a.txt", "ours\n");
    repo.commit("ours");
    repo.pushed_by_another("a.txt", "theirs\n");
    let main = repo.commit_of("main");
    let mut git = std::process::Command::new("git");
    git.args(["-c", "user.name=t", "-c", "user.email=t@example.org", "pull", "-q", "--rebase"]);
    let ended = git.args(["origin", "main"]).current_dir(&repo.path).output();
    assert!(!ended.expect("git runs").status.success(), "it stops at the conflict");
    let fault = merge(&worktree).await.expect_err("in the middle of a rebase");
    assert_eq!(fault.to_string(), format!("main is being rebased in {}", repo.path.display()));
    assert_eq!(repo.commit_of("main"), main);
}

/// A folder that becomes a file is no obstacle.
#[tokio::test]
async fn tracked_files_that_give_way_are_not_in_the_way() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    git_in(&worktree.path, &["rm", "-q", "-r", "sub"]);
    commit(&worktree, "sub", "a file now\n");
    merge(&worktree).await.expect("merges");
    assert_eq!(repo.read("sub"), "a file now\n");
    git_in(&worktree.path, &["rm", "-q", "a.txt"]);
    commit(&worktree, "a.txt/inside.txt", "a folder now\n");
    merge(&worktree).await.expect("merges");
    assert_eq!(repo.read("a.txt/inside.txt"), "a folder now\n");
}

#[tokio::test]
async fn a_target_that_moved_since_is_not_moved() {
    for is_checked_out in [true, false] {
        let repo = Repo::with_origin();
        let worktree = make(&repo, "CB-1").await;
        commit(&worktree, "login.txt", "form\n");
        let prepared = prepare(merge_order(&worktree, "main")).await.expect("prepares");
        repo.write("ours.txt", "ours\n");
        repo.commit("ours");
        if !is_checked_out {
            repo.git(&["checkout", "-q", "-b", "mine"]);
        }
        let main = repo.commit_of("main");
        let fault = publish(prepared, true).await.expect_err("moved");
        assert_eq!(fault, MergeFault::Moved { target: "main".into() });
        assert_eq!(repo.commit_of("main"), main);
        let again = merge(&worktree).await.expect("merges when it starts again");
        assert_eq!(repo.commit_of(&format!("{}^", again.commit.expect("a commit"))), main);
    }
}

/// A git that is killed midway would leave a checkout of the user half done.
#[tokio::test]
async fn a_merge_goes_on_when_nobody_waits_for_it() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "a.txt", "ours\n");
    let prepared = prepare(merge_order(&worktree, "main")).await.expect("prepares");
    let mut publishing = Box::pin(publish(prepared, true));
    let polled = publishing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    drop(publishing);
    // Git removes a file before it writes the file anew.
    let is_ours = || fs::read(repo.path.join("a.txt")).is_ok_and(|text| text == b"ours\n");
    until("main moved", is_ours).await;
    let again = merge(&worktree).await.expect("waits for it, and finds it");
    assert_eq!(again.commit, Some(repo.commit_of("main")));
    assert_eq!(status(&repo.path), "");
}

#[tokio::test]
async fn a_target_that_only_origin_has_is_made() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "login.txt", "form\n");
    repo.git(&["checkout", "-q", "--detach"]);
    repo.git(&["branch", "-q", "-D", "main"]);
    let merged = merge(&worktree).await.expect("merges");
    assert_eq!(repo.commit_of("main"), merged.commit.expect("a commit"));
    assert_eq!(repo.commit_of("main~1"), repo.commit_of("origin/main~1"));
}

#[tokio::test]
async fn a_push_that_fails_leaves_the_merge() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    commit(&worktree, "login.txt", "form\n");
    let hook = repo.path.with_file_name("origin.git").join("hooks/pre-receive");
    fs::create_dir_all(hook.parent().expect("a folder")).expect("makes a folder");
    fs::write(&hook, "#!/bin/sh\nexit 1\n").expect("writes a hook");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(hook, mode).expect("makes it a program");
    let merged = merge(&worktree).await.expect("merges");
    assert_eq!(repo.commit_of("main"), merged.commit.expect("a commit"));
    let why = merged.pushed.expect("an origin").expect_err("refused there");
    assert_eq!(why, "[remote rejected] (pre-receive hook declined)");

    let alone = Repo::committed();
    let worktree = make(&alone, "CB-1").await;
    commit(&worktree, "login.txt", "form\n");
    assert_eq!(merge(&worktree).await.expect("merges").pushed, None, "no origin");
}

#[tokio::test]
async fn of_several_repositories_all_move_or_none() {
    let (front, back) = (Repo::with_origin(), Repo::with_origin());
    let (in_front, in_back) = (make(&front, "CB-1").await, make(&back, "CB-1").await);
    commit(&in_front, "page.txt", "page\n");
    commit(&in_back, "table.txt", "table\n");
    let orders = || vec![merge_order(&in_front, "main"), merge_order(&in_back, "main")];
    let mains = || (front.commit_of("main"), back.commit_of("main"));
    let worktrees = LocalWorktrees::default();
    let before = mains();

    // Known before the first target moves.
    back.write("a.txt", "mine\n");
    let prepared = worktrees.merge_prepare(orders()).await.expect("prepares");
    let fault = worktrees.merge_publish(prepared, true).await.expect_err("in the way");
    assert_eq!(fault.files(), ["a.txt"]);
    assert_eq!(mains(), before);
    back.git(&["checkout", "-q", "a.txt"]);

    // Found out after the first target has moved.
    let lock = back.path.join(".git/index.lock");
    fs::write(&lock, "").expect("somebody uses git there");
    let prepared = worktrees.merge_prepare(orders()).await.expect("prepares");
    let fault = worktrees.merge_publish(prepared, true).await.expect_err("locked");
    assert!(fault.to_string().contains("index.lock"), "{fault}");
    assert_eq!(mains(), before);
    assert_eq!((status(&front.path), front.path.join("page.txt").exists()), (String::new(), false));
    fs::remove_file(lock).expect("somebody is done");

    let prepared = worktrees.merge_prepare(orders()).await.expect("prepares");
    let merged = worktrees.merge_publish(prepared, true).await.expect("merges");
    let now = mains();
    let commits: Vec<_> = merged.into_iter().map(|part| part.commit.expect("a commit")).collect();
    assert_eq!(commits, [now.0, now.1]);
    assert_eq!(
        (front.read("page.txt"), back.read("table.txt")),
        ("page\n".into(), "table\n".into())
    );
}
