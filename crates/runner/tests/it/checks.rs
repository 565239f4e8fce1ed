//! The results and the logs of checks.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use callboard_engine::ports::{CheckFault, CheckRun, CheckRunner, FilesState};
use callboard_runner::{LocalChecks, ProjectCommands};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Repo, is_log_of, run, task};

#[tokio::test]
async fn exit_code_decides() {
    let repo = Repo::plain();
    for (cmd, exit_code, passed) in [
        ("true", Some(0), true),
        ("false", Some(1), false),
        ("exit 7", Some(7), false),
        ("kill -TERM $$", None, false),
        ("read line", Some(1), false),
    ] {
        let ran = run(repo.check(cmd)).await.expect("it runs");
        assert_eq!((ran.exit_code, ran.timed_out), (exit_code, false), "{cmd}");
        assert_eq!(ran.passed(), passed, "{cmd}");
    }
}

#[tokio::test]
async fn the_log_tells_the_facts_then_the_output() {
    let repo = Repo::plain();
    repo.write("sub/file", "");
    let files = FilesState { head: Some("c0ffee".into()), tree: Some("7ree".into()) };
    let cmd = "echo out; echo err >&2; pwd;\nexit 3";
    let check = CheckRun { cwd: "sub".into(), files, ..repo.check(cmd) };
    let ran = run(check).await.expect("it runs");

    assert!(is_log_of(ran.log.strip_prefix(".callboard/runs/").expect("relative"), task()));
    let log = repo.read(&ran.log);
    let (before, rest) = log.split_once("duration_ms: ").expect("a duration");
    let (duration, after) = rest.split_once('\n').expect("a line");
    assert!(duration.parse::<u64>().expect("a number") < 30_000);
    let facts = "cmd: echo out; echo err >&2; pwd;\n  exit 3\ncwd: sub\nhead: c0ffee\n\
                 tree: 7ree\nexit: 3\ntimed_out: false\n";
    assert_eq!(before, facts);
    assert_eq!(after, format!("----\nout\nerr\n{}/sub\n", repo.path.display()));
}

#[tokio::test]
async fn logs_are_never_overwritten() {
    let repo = Repo::plain();
    let mut logs = BTreeSet::new();
    for _ in 0..10 {
        logs.insert(run(repo.check("true")).await.expect("it runs").log);
    }
    assert_eq!(logs.len(), 10);
    assert_eq!(repo.logs().len(), 10);
}

#[tokio::test]
async fn a_flood_of_output_is_cut_to_its_end() {
    let repo = Repo::plain();
    let cmd = "head -c 52428800 /dev/zero | tr '\\0' x; echo; echo the end >&2";
    let check = CheckRun { log_tail_bytes: 100, ..repo.check(cmd) };
    let ran = run(check).await.expect("it runs");
    assert!(ran.passed());
    let log = repo.read(&ran.log);
    let (_, output) = log.split_once("----\n").expect("a log has a line");
    let kept = format!("{}\nthe end\n", "x".repeat(91));
    assert_eq!(output, format!("[52428709 earlier bytes dropped]\n{kept}"));
}

#[tokio::test]
async fn a_check_sees_the_usual_variables_and_those_that_are_named() {
    // Cargo sets CARGO_PKG_NAME for tests, which no check needs.
    let repo = Repo::plain();
    let usual = "test -n \"$PATH\" && ! env | grep -E '^(GIT_|CALLBOARD_|CARGO_PKG_NAME)|TOKEN='";
    assert!(run(repo.check(usual)).await.expect("it runs").passed());
    let checks = LocalChecks::new(true)
        .with_commands(ProjectCommands::default().with_env(vec!["CARGO_PKG_NAME".into()]));
    let named = repo.check("test -n \"$CARGO_PKG_NAME\"");
    assert!(checks.run(named, CancellationToken::new()).await.expect("it runs").passed());
}

#[tokio::test]
async fn what_cannot_run_says_why() {
    let repo = Repo::plain();
    repo.write("file", "");
    let infrastructure = |why: &str| CheckFault::Infrastructure(why.into());
    let at = |cwd: &str| CheckRun { index: 2, cwd: cwd.into(), ..repo.check("true") };

    let fault = run(at("gone")).await.expect_err("no folder");
    assert_eq!(fault, infrastructure("check 2: cwd 'gone' does not exist in the repo"));
    let fault = run(at("file")).await.expect_err("not a folder");
    assert_eq!(fault, infrastructure("check 2: cwd 'file' is not a folder"));

    let check = CheckRun { shell: "no-such-shell".into(), ..repo.check("true") };
    let fault = run(check).await.expect_err("no shell");
    assert_eq!(fault, infrastructure("check shell 'no-such-shell' not found on PATH"));

    let check = CheckRun { root: PathBuf::from("/nowhere/at/all"), ..repo.check("true") };
    let fault = run(check).await.expect_err("no root");
    assert_eq!(fault, infrastructure("the repo's folder cannot be opened on this machine"));

    let off = LocalChecks::new(false);
    let fault = off.run(repo.check("true"), CancellationToken::new()).await.expect_err("off");
    assert_eq!(fault, infrastructure("this server runs no commands"));
    assert!(repo.logs().is_empty());
}

#[tokio::test]
async fn a_cwd_outside_the_root_is_refused() {
    let repo = Repo::plain();
    let outside = repo.path.with_file_name("outside");
    std::fs::create_dir_all(&outside).expect("makes a folder");
    // The path begins with the root's path, as text.
    std::fs::create_dir_all(repo.path.with_file_name("repo-two")).expect("makes a folder");
    symlink(&outside, repo.path.join("link")).expect("makes a link");
    repo.write("inner/file", "");
    symlink("inner", repo.path.join("good")).expect("makes a link");

    for cwd in ["link", "..", "../outside", "../repo-two", "/", "inner/../../outside"] {
        let check = CheckRun { cwd: cwd.into(), ..repo.check("touch ran") };
        assert_eq!(run(check).await, Err(CheckFault::LeavesRepo), "{cwd}");
    }
    for cwd in ["../gone", "inner/../../gone", "gone"] {
        let check = CheckRun { cwd: cwd.into(), ..repo.check("touch ran") };
        let words = format!("check 0: cwd '{cwd}' does not exist in the repo");
        assert_eq!(run(check).await, Err(CheckFault::Infrastructure(words)));
    }
    for cwd in ["good", "inner/..", "", "."] {
        let check = CheckRun { cwd: cwd.into(), ..repo.check("true") };
        assert!(run(check).await.expect("it runs").passed(), "{cwd}");
    }
}

#[tokio::test]
async fn runs_of_one_task_take_turns() {
    let repo = Repo::plain();
    let checks = LocalChecks::new(true);
    let held = checks.turn(&repo.path, task()).await.expect("the first turn");
    let waiting = checks.turn(&repo.path, task());
    tokio::pin!(waiting);
    let early = tokio::time::timeout(Duration::ZERO, &mut waiting).await;
    assert!(early.is_err(), "two at once");
    drop(held);
    drop(waiting.await.expect("the second turn"));
    assert!(repo.logs().is_empty(), "the lock file is gone");
}

#[tokio::test]
async fn a_folder_that_takes_no_log_is_named() {
    let repo = Repo::plain();
    repo.write(".callboard", "a file where a folder should be");
    for fault in [
        run(repo.check("true")).await.expect_err("no log"),
        LocalChecks::new(true).turn(&repo.path, task()).await.err().expect("no lock"),
    ] {
        let CheckFault::Infrastructure(why) = fault else { panic!("{fault}") };
        assert!(why.starts_with("cannot write to .callboard/runs: "), "{why}");
    }
}
