//! Jobs and the servers that run them: each runs once, a killed server's job goes on elsewhere, a worker that slept
//! past its lease changes nothing.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::office::{Office, events, kill};
use crate::peer::{Peer, is_running};
use crate::relay::next_end;
use crate::schema::Schema;

const JOBS: usize = 200;

fn each_job_runs_once(schema: Option<Schema>) {
    let office = Office::open(schema);
    let settings = [("CALLBOARD_RELAY_MAX_CONCURRENCY", "4")];
    let mut servers = [office.server(&settings), office.server(&settings)];
    let mut jobs = Vec::new();
    for n in 0..JOBS {
        jobs.push(office.submit(&mut servers[n % 2], &format!("k{n}")));
    }
    for n in 0..JOBS {
        let end = next_end(&mut servers[n % 2]);
        assert_eq!(end["method"], "notifications/job/finished", "{end}");
    }
    for job in &jobs {
        assert_eq!(office.attempts(job), ["1"], "{job}");
    }
    assert_eq!(office.ran().len(), JOBS);
}

#[test]
fn two_servers_run_each_of_many_jobs_once() {
    each_job_runs_once(None);
}

#[test]
fn two_servers_run_each_of_many_jobs_once_on_postgres() {
    if let Some(schema) = Schema::new() {
        each_job_runs_once(Some(schema));
    }
}

/// The first server holds four jobs when it is killed, and most are still in the queue.
fn a_killed_servers_jobs_are_finished_by_the_other(schema: Option<Schema>) {
    let office = Office::open(schema);
    office.hold();
    let mut first = office.server(&[
        ("CALLBOARD_RELAY_MAX_CONCURRENCY", "4"),
        ("CALLBOARD_RELAY_LEASE_S", "3"),
        ("CALLBOARD_RELAY_HEARTBEAT_S", "1"),
    ]);
    let jobs: Vec<String> =
        (0..JOBS).map(|n| office.submit(&mut first, &format!("k{n}"))).collect();
    let begun = |count: usize| {
        let mut agents = Vec::new();
        while agents.len() < count {
            agents.extend(office.begun().lines().map(str::to_owned));
        }
        agents
    };
    let lost = begun(4);
    let mut second = office
        .server(&[("CALLBOARD_RELAY_MAX_CONCURRENCY", "8"), ("CALLBOARD_RELAY_STALE_HOLD_S", "0")]);
    begun(4);
    let theirs: Vec<&String> = jobs.iter().take(4).collect();
    kill(&first, Signal::KILL);
    first.child.wait().unwrap();
    office.let_go();

    second.request("resources/subscribe", json!({ "uri": "mcp://jobs/list" }));
    let list = |second: &mut Peer, more: Value| second.call("jobs_list", more).unwrap();
    while list(&mut second, json!({"state": "SUCCEEDED", "limit": 1}))["total"] != JOBS {
        second.next_note();
    }
    assert!(lost.iter().all(|agent| !is_running(agent)), "the first agents are gone");
    for offset in [0, 100] {
        let page = list(&mut second, json!({"limit": 100, "offset": offset}));
        for item in page["items"].as_array().unwrap() {
            let job = item["id"].as_str().unwrap().to_owned();
            let attempts: &[&str] = if theirs.contains(&&job) { &["1", "2"] } else { &["1"] };
            assert_eq!(office.attempts(&job), attempts, "{item}");
            assert_eq!(item["attempt"], attempts.len(), "{item}");
        }
    }
}

#[test]
fn a_killed_servers_many_jobs_are_finished_by_the_other() {
    a_killed_servers_jobs_are_finished_by_the_other(None);
}

#[test]
fn a_killed_servers_many_jobs_are_finished_by_the_other_on_postgres() {
    if let Some(schema) = Schema::new() {
        a_killed_servers_jobs_are_finished_by_the_other(Some(schema));
    }
}

#[test]
fn a_killed_servers_job_goes_on_with_the_next_one() {
    let office = Office::open(None);
    office.hold();
    let mut first = office.server(&[]);
    let job = office.submit(&mut first, "k");
    let lost = office.begun();
    kill(&first, Signal::KILL);
    first.child.wait().unwrap();

    let mut second = office.server(&[("CALLBOARD_RELAY_STALE_HOLD_S", "0")]);
    let uri = format!("mcp://jobs/{job}/status");
    second.request("resources/subscribe", json!({ "uri": uri }));
    office.begun();
    assert!(!is_running(&lost), "the first agent is gone");
    office.let_go();
    let end = next_end(&mut second);
    assert_eq!(end["method"], "notifications/job/finished", "{end}");
    assert_eq!(end["params"]["attempt"], 2);
    assert_eq!(office.ran(), [job.clone(), job.clone()]);
    let states = events(office.board.path(), &job);
    let expected = ["submitted", "started", "stale", "requeued", "started"];
    assert_eq!(states[..5], expected, "{states:?}");
}

#[test]
fn a_job_whose_workers_are_lost_three_times_fails() {
    let office = Office::open(None);
    office.hold();
    let quick = [("CALLBOARD_RELAY_STALE_HOLD_S", "0")];
    let mut job = String::new();
    for n in 0..3 {
        let mut server = office.server(&quick);
        if n == 0 {
            job = office.submit(&mut server, "k");
        }
        office.begun();
        kill(&server, Signal::KILL);
        server.child.wait().unwrap();
    }
    let mut last = office.server(&quick);
    let uri = format!("mcp://jobs/{job}/status");
    last.request("resources/subscribe", json!({ "uri": uri }));
    let seen = loop {
        let seen = last.call("jobs_get", json!({ "jobId": job })).unwrap();
        if seen["state"] == "FAILED" {
            break seen;
        }
        last.next_note();
    };
    assert_eq!(seen["reasonCode"], "INTERNAL_ERROR", "{seen}");
    assert_eq!((&seen["summary"], &seen["attempt"]), (&json!("Worker lost 3 times"), &json!(3)));
    assert_eq!(office.attempts(&job), ["1", "2", "3"]);
}

fn a_sleeper_changes_nothing(schema: Option<Schema>) {
    let office = Office::open(schema);
    office.hold();
    let short = [
        ("CALLBOARD_RELAY_LEASE_S", "3"),
        ("CALLBOARD_RELAY_HEARTBEAT_S", "1"),
        ("CALLBOARD_RELAY_STALE_HOLD_S", "0"),
    ];
    let mut sleeper = office.server(&short);
    let job = office.submit(&mut sleeper, "k");
    let first = office.begun();
    kill(&sleeper, Signal::STOP);
    let mut second = office.server(&short);
    let uri = format!("mcp://jobs/{job}/status");
    second.request("resources/subscribe", json!({ "uri": uri }));
    office.begun();
    assert!(!is_running(&first), "attempt 2 starts after the agent of attempt 1 was killed");
    office.let_go();
    let end = next_end(&mut second);
    assert_eq!(end["params"]["attempt"], 2, "{end}");
    let before = second.call("jobs_get", json!({ "jobId": job })).unwrap();
    kill(&sleeper, Signal::CONT);
    // The sleeper answers when it has caught up; its agent's answer is not kept.
    sleeper.call("jobs_list", json!({})).unwrap();
    sleeper.close_input();
    sleeper.child.wait().unwrap();
    let after = second.call("jobs_get", json!({ "jobId": job })).unwrap();
    assert_eq!(before, after);
}

#[test]
fn a_worker_that_slept_past_its_lease_changes_nothing() {
    a_sleeper_changes_nothing(None);
}

#[test]
fn a_worker_that_slept_past_its_lease_changes_nothing_on_postgres() {
    if let Some(schema) = Schema::new() {
        a_sleeper_changes_nothing(Some(schema));
    }
}

#[test]
fn a_server_that_ends_gives_its_jobs_back() {
    let office = Office::open(None);
    office.hold();
    let quick = [("CALLBOARD_RUNNER_DRAIN_S", "0"), ("CALLBOARD_RUNNER_KILL_GRACE_S", "0")];
    let mut first = office.server(&quick);
    let job = office.submit(&mut first, "k");
    let agent = office.begun();
    first.close_input();
    assert!(first.child.wait().unwrap().success());
    assert!(!is_running(&agent), "nothing outlives its server");
    let mut second = office.server_with(&["--no-runner"], &[]);
    let seen = second.call("jobs_get", json!({ "jobId": job })).unwrap();
    assert_eq!((&seen["state"], &seen["attempt"]), (&json!("QUEUED"), &json!(2)), "{seen}");
}
