//! No process that a check started outlives it, however the check ends.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use callboard_engine::ports::{CheckFault, CheckRun, CheckRunner};
use callboard_runner::LocalChecks;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Repo, is_running, run, until, until_dead};

/// A time limit that a check reaches after it has written down its process ids, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(3);

/// A shell with a child of its own, both waiting for longer than any test.
const FAMILY: &str = "echo $$ > parent; sleep 600 & echo $! > child; wait";

async fn family(repo: &Repo) -> [Pid; 2] {
    [repo.pid("parent").await, repo.pid("child").await]
}

#[tokio::test]
async fn the_time_limit_kills_the_whole_group() {
    let repo = Repo::plain();
    let check = CheckRun { timeout: LIMIT, ..repo.check(FAMILY) };
    let started = Instant::now();
    let ran = run(check).await.expect("it runs");
    assert!(started.elapsed() < LIMIT + Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!((ran.exit_code, ran.timed_out, ran.passed()), (None, true, false));
    assert!(repo.read(&ran.log).contains("exit: none\ntimed_out: true\n"));
    until_dead(&family(&repo).await).await;
}

#[tokio::test]
async fn a_program_that_ignores_signals_dies_all_the_same() {
    let repo = Repo::plain();
    let stubborn = format!("trap '' TERM INT HUP; {FAMILY}");
    let check = CheckRun { timeout: LIMIT, ..repo.check(&stubborn) };
    assert!(run(check).await.expect("it runs").timed_out);
    until_dead(&family(&repo).await).await;
}

/// `timeout` moves itself and its child to another group.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_in_another_group_dies_too() {
    let repo = Repo::plain();
    let cmd = "echo $$ > parent; timeout 500 sh -c 'echo $$ > child; exec sleep 600'; true";
    let pids = tokio::select! {
        ran = run(repo.check(cmd)) => panic!("ended by itself: {ran:?}"),
        pids = family(&repo) => pids,
    };
    until_dead(&pids).await;
}

#[tokio::test]
async fn cancelling_kills_and_leaves_no_log() {
    let repo = Repo::plain();
    let (checks, cancel) = (LocalChecks::new(true), CancellationToken::new());
    let stop_when_running = async {
        let pids = family(&repo).await;
        cancel.cancel();
        pids
    };
    let running = checks.run(repo.check(FAMILY), cancel.clone());
    let (ran, pids) = tokio::join!(running, stop_when_running);
    assert_eq!(ran, Err(CheckFault::Canceled));
    until_dead(&pids).await;
    assert!(repo.logs().is_empty());

    let ran = checks.run(repo.check("touch late"), cancel).await;
    assert_eq!(ran, Err(CheckFault::Canceled));
    assert!(!repo.path.join("late").exists(), "canceled before it began");
}

#[tokio::test]
async fn dropping_the_call_kills() {
    let repo = Repo::plain();
    let pids = tokio::select! {
        ran = run(repo.check(FAMILY)) => panic!("ended by itself: {ran:?}"),
        pids = family(&repo) => pids,
    };
    until_dead(&pids).await;
    until("the shell is collected", || test_kill_process(pids[0]).is_err()).await;
    assert!(repo.logs().is_empty());
}

#[tokio::test]
async fn what_a_check_leaves_in_the_background_dies_with_it() {
    let repo = Repo::plain();
    let ran = run(repo.check("sleep 600 & echo $! > child; echo said")).await.expect("it runs");
    assert!(ran.passed());
    assert!(repo.read(&ran.log).ends_with("----\nsaid\n"));
    until_dead(&[repo.pid("child").await]).await;
}

/// A daemon that leaves group, session, environment, pipes and every parent but the keeper.
#[cfg(target_os = "linux")]
const DAEMON: &str = "setsid -f env -i sh -c 'exec < /dev/null > /dev/null 2>&1
    (echo $$ > daemon; (exec sleep 600) & echo $! > deeper; wait) & exit 0' sh
    until test -s daemon && test -s deeper; do :; done";

#[cfg(target_os = "linux")]
async fn daemons(repo: &Repo) -> [Pid; 2] {
    [repo.pid("daemon").await, repo.pid("deeper").await]
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_daemon_dies_with_the_check_that_started_it() {
    let repo = Repo::plain();
    let started = Instant::now();
    let ran = run(repo.check(&format!("{DAEMON}; echo said"))).await.expect("it runs");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(ran.passed());
    assert!(repo.read(&ran.log).ends_with("----\nsaid\n"));
    for pid in daemons(&repo).await {
        assert!(!is_running(pid), "dead when the check returns");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_daemon_dies_with_a_check_that_is_stopped() {
    let stays = format!("{DAEMON}; exec sleep 600");
    let late = Repo::plain();
    let check = CheckRun { timeout: LIMIT, ..late.check(&stays) };
    assert!(run(check).await.expect("it runs").timed_out);
    until_dead(&daemons(&late).await).await;

    let canceled = Repo::plain();
    let cancel = CancellationToken::new();
    let stop_when_running = async {
        let pids = daemons(&canceled).await;
        cancel.cancel();
        pids
    };
    let checks = LocalChecks::new(true);
    let running = checks.run(canceled.check(&stays), cancel.clone());
    let (ran, pids) = tokio::join!(running, stop_when_running);
    assert_eq!(ran, Err(CheckFault::Canceled));
    until_dead(&pids).await;

    let dropped = Repo::plain();
    let pids = tokio::select! {
        ran = run(dropped.check(&stays)) => panic!("ended by itself: {ran:?}"),
        pids = daemons(&dropped) => pids,
    };
    until_dead(&pids).await;
}

/// On systems other than Linux a process in its own session is out of reach; the run does not wait for its pipe.
#[tokio::test]
async fn a_process_that_left_the_group_with_our_pipe_does_not_hold_us() {
    let repo = Repo::plain();
    let cmd = "setsid sh -c 'echo $$ > child; exec sleep 600' & \
               until test -s child; do :; done; echo said";
    let started = Instant::now();
    let ran = run(repo.check(cmd)).await.expect("it runs");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(repo.read(&ran.log).ends_with("----\nsaid\n"));
    let escaped = repo.pid("child").await;
    if cfg!(target_os = "linux") {
        until_dead(&[escaped]).await;
    } else {
        kill_process(escaped, Signal::KILL).expect("it is ours");
    }
}

#[tokio::test]
async fn a_check_that_closes_its_output_is_waited_for() {
    let repo = Repo::plain();
    let cmd = "exec > /dev/null 2>&1; sleep 0.2; touch done; exit 4";
    let ran = run(repo.check(cmd)).await.expect("it runs");
    assert_eq!(ran.exit_code, Some(4));
    assert!(repo.path.join("done").exists());
}

const REPO_OF_DOOMED_SERVER: &str = "RUNNER_TEST_DOOMED_REPO";

/// A family with a daemon, where a keeper can hold one.
#[cfg(target_os = "linux")]
fn doomed() -> String {
    format!("{DAEMON}; {FAMILY}")
}

#[cfg(not(target_os = "linux"))]
fn doomed() -> String {
    FAMILY.into()
}

/// Does nothing unless the next test starts it in a separate process.
#[tokio::test]
async fn doomed_server() {
    let Some(path) = std::env::var_os(REPO_OF_DOOMED_SERVER) else {
        return;
    };
    let path = PathBuf::from(path);
    let check =
        CheckRun { repo: path.clone(), root: path.clone(), ..Repo::plain().check(&doomed()) };
    let running = run(check);
    // The first poll of a run starts the processes, so the file is written after that.
    let started = async { fs::write(path.join("started"), "").expect("writes a file") };
    let (ran, ()) = tokio::join!(running, started);
    panic!("was to be killed, ended with {ran:?}");
}

#[tokio::test]
async fn a_check_dies_with_a_server_that_is_killed() {
    let repo = Repo::plain();
    let mut server = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "processes::doomed_server"])
        .env(REPO_OF_DOOMED_SERVER, &repo.path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this test runs again");
    until("the server runs the check", || repo.path.join("started").exists()).await;
    let pids = family(&repo).await;
    server.kill().expect("SIGKILL can be sent");
    server.wait().expect("it is our child");
    until_dead(&pids).await;
    #[cfg(target_os = "linux")]
    until_dead(&daemons(&repo).await).await;
}
