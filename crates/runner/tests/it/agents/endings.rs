//! However a run ends, none of its processes survives.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use callboard_domain::relay::{FailReason, RunVerdict};
use callboard_engine::ports::{AgentRunner, EarlierRuns, RunOrder};
use callboard_runner::{AgentSettings, ExecutorSettings, LocalAgents, SandboxMode};
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, DIFF, Nobody, answer, assert_failed, assert_succeeded, run};
use crate::fixture::{is_running, since_linux, until, until_dead};
use crate::skipped::skipped;

/// A child, an orphaned grandchild in a session of its own, and a process that ignores signals.
const FAMILY: &str = "cat > /dev/null
    trap '' HUP
    (setsid sh -c 'echo $$ > \"$0/grandchild\"; trap \"\" TERM; while :; do sleep 600; done' \"$BED\" &)
    sleep 600 & echo $! > \"$BED/child\"
    echo $$ > \"$BED/parent\"
    wait";

async fn pid(bed: &Bed, name: &str) -> Pid {
    let file = bed.file(name);
    let read = || fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'));
    until("a process id is written", || read().is_some()).await;
    let text = read().expect("it was there");
    text.trim().parse().ok().and_then(Pid::from_raw).expect("a process id")
}

/// A time limit that an agent reaches after it has written down its process ids, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(3);

async fn family(bed: &Bed) -> [Pid; 3] {
    [pid(bed, "parent").await, pid(bed, "child").await, pid(bed, "grandchild").await]
}

/// The scripts record their process ids beside the runs, where a confined agent may not write.
fn settings(bed: &Bed, agent: ExecutorSettings) -> AgentSettings {
    AgentSettings { sandbox: SandboxMode::Executor, ..bed.settings(agent) }
}

#[tokio::test]
async fn the_time_limit_ends_every_descendant() {
    let bed = Bed::new();
    let order = RunOrder { timeout: LIMIT, ..bed.order(bed.spec(&[])) };
    let report = run(settings(&bed, bed.script(FAMILY)), order).await;
    assert_failed(&report, FailReason::Timeout, "Executor timeout after 3s");
    until_dead(&family(&bed).await).await;
    assert!(bed.left_behind().is_empty());
}

#[tokio::test]
async fn stopping_ends_every_descendant() {
    let bed = Bed::new();
    let (agents, stop) =
        (LocalAgents::new(settings(&bed, bed.script(FAMILY))), CancellationToken::new());
    let stop_when_running = async {
        let pids = family(&bed).await;
        stop.cancel();
        pids
    };
    let running = agents.run(bed.order(bed.spec(&[])), Arc::new(Nobody), stop.clone());
    let (report, pids) = tokio::join!(running, stop_when_running);
    assert_eq!(report.verdict, RunVerdict::Stopped);
    assert!(!report.logs.is_empty());
    for pid in pids {
        assert!(!is_running(pid), "dead when the run returns");
    }
    assert!(bed.left_behind().is_empty());
}

#[tokio::test]
async fn dropping_the_run_ends_every_descendant() {
    let bed = Bed::new();
    let pids = tokio::select! {
        report = run(settings(&bed, bed.script(FAMILY)), bed.order(bed.spec(&[]))) => {
            panic!("ended by itself: {report:?}");
        }
        pids = family(&bed) => pids,
    };
    until_dead(&pids).await;
    assert!(bed.left_behind().is_empty());
}

#[tokio::test]
async fn what_an_agent_leaves_in_the_background_ends_with_it() {
    let bed = Bed::new();
    fs::write(bed.file("words"), answer(DIFF)).expect("writes");
    let leaving =
        FAMILY.replace("wait", "until test -s \"$BED/grandchild\"; do :; done; cat \"$BED/words\"");
    let report = run(settings(&bed, bed.script(&leaving)), bed.order(bed.spec(&[]))).await;
    assert_succeeded(&report);
    for pid in family(&bed).await {
        assert!(!is_running(pid), "dead when the run returns");
    }
}

/// The daemon carries no mark, and has no parent in the run.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_daemon_without_a_mark_ends_with_its_run() {
    let bed = Bed::new();
    fs::write(bed.file("words"), answer(DIFF)).expect("writes");
    let script = "cat > /dev/null
        setsid -f env -i sh -c 'exec < /dev/null > /dev/null 2>&1; echo $$ > \"$0/daemon\"; exec sleep 600' \"$BED\"
        until test -s \"$BED/daemon\"; do :; done";
    let leaving = format!("{script}; cat \"$BED/words\"");
    let report = run(settings(&bed, bed.script(&leaving)), bed.order(bed.spec(&[]))).await;
    assert_succeeded(&report);
    assert!(!is_running(pid(&bed, "daemon").await), "dead when the run returns");
    fs::remove_file(bed.file("daemon")).expect("it was there");
    let order = RunOrder { timeout: LIMIT, ..bed.order(bed.spec(&[])) };
    let stays = format!("{script}; exec sleep 600");
    let report = run(settings(&bed, bed.script(&stays)), order).await;
    assert_failed(&report, FailReason::Timeout, "Executor timeout after 3s");
    until_dead(&[pid(&bed, "daemon").await]).await;
}

/// A confined agent cannot kill the keeper of its processes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_confined_agent_does_not_end_its_keeper() {
    let bed = Bed::new();
    fs::create_dir(bed.file("state")).expect("a folder");
    let mut agent = bed.script(
        "cat > /dev/null
        kill -KILL $PPID 2> /dev/null && echo killed > \"$BED/state/killed\"
        setsid -f env -i sh -c 'exec < /dev/null > /dev/null 2>&1; echo $$ > \"$0/state/daemon\"; exec sleep 600' \"$BED\"
        until test -s \"$BED/state/daemon\"; do :; done",
    );
    agent.writable = vec![bed.file("state").display().to_string()];
    let settings = AgentSettings { sandbox: SandboxMode::Os, ..bed.settings(agent) };
    let report = run(settings, bed.order(bed.spec(&[]))).await;
    if report.logs.contains("relay.sandbox = os") || !since_linux(6, 12) {
        return skipped("this kernel has no Landlock that scopes signals");
    }
    assert!(!bed.file("state/killed").exists(), "{}", report.logs);
    assert!(!is_running(pid(&bed, "state/daemon").await), "dead when the run returns");
}

#[tokio::test]
async fn an_agent_may_put_its_things_in_order() {
    let bed = Bed::new();
    let polite = "cat > /dev/null
        trap 'echo bye; touch \"$BED/bye\"; exit 0' TERM
        echo $$ > \"$BED/parent\"
        while :; do sleep 0.05; done";
    let mut settings = settings(&bed, bed.script(polite));
    settings.kill_grace = Duration::from_secs(60);
    let (agents, stop) = (LocalAgents::new(settings), CancellationToken::new());
    let stop_when_running = async {
        pid(&bed, "parent").await;
        stop.cancel();
    };
    let started = Instant::now();
    let running = agents.run(bed.order(bed.spec(&[])), Arc::new(Nobody), stop.clone());
    let (report, ()) = tokio::join!(running, stop_when_running);
    assert_eq!(report.verdict, RunVerdict::Stopped);
    assert!(bed.file("bye").exists() && report.logs.contains("bye\n"), "{}", report.logs);
    assert!(started.elapsed() < Duration::from_secs(30), "no longer than it took");
}

#[tokio::test]
async fn a_stopped_run_does_not_begin() {
    let bed = Bed::new();
    let agents = LocalAgents::new(settings(&bed, bed.script("touch \"$BED/late\"")));
    let stop = CancellationToken::new();
    stop.cancel();
    let report = agents.run(bed.order(bed.spec(&[])), Arc::new(Nobody), stop).await;
    assert_eq!(report.verdict, RunVerdict::Stopped);
    assert!(!bed.file("late").exists());
}

const BED_OF_DOOMED_SERVER: &str = "RUNNER_TEST_DOOMED_BED";
const REPO_OF_DOOMED_SERVER: &str = "RUNNER_TEST_DOOMED_AGENT_REPO";

/// Does nothing unless the next test starts it in a separate process.
#[tokio::test]
async fn doomed_server() {
    let (Some(home), Some(repo)) =
        (std::env::var_os(BED_OF_DOOMED_SERVER), std::env::var_os(REPO_OF_DOOMED_SERVER))
    else {
        return;
    };
    let mut bed = Bed::new();
    bed.home = home.into();
    bed.repo.path = repo.into();
    let report = run(settings(&bed, bed.script(FAMILY)), bed.order(bed.spec(&[]))).await;
    panic!("was to be killed, ended with {report:?}");
}

#[tokio::test]
async fn the_next_start_ends_what_a_killed_server_left() {
    let bed = Bed::new();
    let mut server = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "agents::endings::doomed_server"])
        .env(BED_OF_DOOMED_SERVER, &bed.home)
        .env(REPO_OF_DOOMED_SERVER, &bed.repo.path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this test runs again");
    let pids = family(&bed).await;
    let agents = LocalAgents::new(settings(&bed, bed.script(FAMILY)));
    agents.clean_up().await;
    for pid in pids {
        assert!(is_running(pid), "what a live server runs is left alone");
    }
    server.kill().expect("SIGKILL can be sent");
    server.wait().expect("it is our child");
    until_dead(&pids[..2]).await;
    if cfg!(target_os = "linux") {
        until_dead(&pids).await;
    }
    assert_eq!(bed.left_behind(), ["job_01"]);
    agents.clean_up().await;
    until_dead(&pids).await;
    assert!(bed.left_behind().is_empty());
}

/// The marks tell runs apart, whichever server started them and wherever their folders are.
#[tokio::test]
async fn earlier_runs_of_a_job_are_ended_and_no_others() {
    let bed = Bed::new();
    let agents = LocalAgents::new(settings(&bed, bed.script("")));
    let marked = |mark: &str| {
        let mut sleeps = Command::new("sleep");
        sleeps.arg("600").env("CALLBOARD_RUN", mark).spawn().expect("sleeps")
    };
    let mut first = marked("/elsewhere/jobs/job_one/1");
    let mut others = [
        marked("/elsewhere/jobs/job_one/2"),
        marked("/elsewhere/jobs/job_two/1"),
        marked("/elsewhere/jobs/job_one/1/deeper"),
    ];
    let runs = vec![EarlierRuns { job: "job_one".into(), below: 2 }];
    assert!(agents.are_left(runs.clone()).await);
    assert_eq!(agents.end_earlier(runs.clone()).await, Vec::<String>::new());
    let signal = first.wait().expect("it is our child").signal();
    assert_eq!(signal, Some(Signal::KILL.as_raw()));
    assert!(!agents.are_left(runs).await);
    for other in &mut others {
        assert!(is_running(Pid::from_child(other)), "another run is left alone");
        other.kill().expect("it is ours");
        other.wait().expect("it is our child");
    }
}

#[tokio::test]
async fn a_number_that_was_given_to_another_process_is_left_alone() {
    let bed = Bed::new();
    let mut bystander = Command::new("sleep").arg("600").spawn().expect("sleeps");
    let attempt = bed.home.join("jobs/job_01/1");
    fs::create_dir_all(&attempt).expect("a folder");
    fs::write(attempt.join("leader"), format!("{} 1\n", bystander.id())).expect("writes");
    LocalAgents::new(settings(&bed, bed.script(""))).clean_up().await;
    assert!(bed.left_behind().is_empty());
    let pid = Pid::from_child(&bystander);
    assert!(is_running(pid), "it started at another time");
    kill_process(pid, Signal::KILL).expect("it is ours");
    bystander.wait().expect("it is our child");
}
