//! Jobs for agents between processes: each runs once, a killed server's job goes on elsewhere, and a
//! worker that slept past its lease changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::peer::{Peer, board, clean, command, is_running};
use crate::schema::Schema;

/// A board in a git repository, with an agent that does as its folder says.
struct Office {
    board: tempfile::TempDir,
    commit: String,
    schema: Option<Schema>,
}

impl Office {
    fn open(schema: Option<Schema>) -> Self {
        let board = board();
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            clean(&mut git, board.path());
            for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
                git.env(name, "ana");
            }
            for name in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
                git.env(name, "ana@example.org");
            }
            let done = git.args(arguments).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8(done.stdout).unwrap().trim().to_owned()
        };
        git(&["init", "-q", "-b", "main"]);
        git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        let commit = git(&["rev-parse", "HEAD"]);
        let office = Self { commit, schema, board };
        office.hire();
        office
    }

    fn at(&self, name: &str) -> PathBuf {
        self.board.path().join(name)
    }

    /// Says on a pipe that it began, waits while there is a file `hold`, then answers.
    fn hire(&self) {
        fs::create_dir(self.at("bin")).unwrap();
        let made = Command::new("mkfifo").arg(self.at("begun")).status().unwrap();
        assert!(made.success());
        let script = format!(
            "#!/bin/sh\ncat > /dev/null\ncd '{}'\necho \"$CALLBOARD_JOB_ID $$\" >> ran\n\
             if [ -e hold ]; then echo $$ > begun; fi\n\
             while [ -e hold ]; do sleep 0.05; done\n\
             printf '## DIFF\\n\\n## TEST_PLAN\\nnone\\n\\n## NOTES\\nnone\\n'\n",
            self.board.path().display()
        );
        let program = self.at("bin/opencode");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn hold(&self) {
        fs::write(self.at("hold"), "").unwrap();
    }

    fn let_go(&self) {
        fs::remove_file(self.at("hold")).unwrap();
    }

    /// The process of the next agent that begins.
    fn begun(&self) -> String {
        fs::read_to_string(self.at("begun")).unwrap()
    }

    /// The jobs that agents began, in order.
    fn ran(&self) -> Vec<String> {
        let lines = fs::read_to_string(self.at("ran")).unwrap();
        lines.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }

    fn server(&self, settings: &[(&str, &str)]) -> Peer {
        self.server_with(&[], settings)
    }

    fn server_with(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Peer {
        let mut mcp = command(self.board.path());
        mcp.args(["mcp", "--toolsets", "relay", "--actor", "agent:w"]).args(arguments);
        if let Some(schema) = &self.schema {
            mcp.args(["--store", schema.url()]);
        }
        let path = std::env::var("PATH").unwrap();
        mcp.env("PATH", format!("{}:{path}", self.at("bin").display()));
        mcp.env("CALLBOARD_RELAY_SANDBOX", "executor");
        for (name, value) in settings {
            mcp.env(name, value);
        }
        let mut peer = Peer::over(mcp);
        peer.hello();
        peer
    }

    fn submit(&self, peer: &mut Peer, key: &str) -> String {
        self.submit_for(peer, key, 600)
    }

    fn submit_for(&self, peer: &mut Peer, key: &str, ttl_s: u32) -> String {
        let spec = json!({
            "repo": {
                "type": "local",
                "path": self.board.path(),
                "baseBranch": "main",
                "baselineCommit": self.commit,
            },
            "task": {"title": "t", "description": "d", "acceptance": []},
            "scope": {"readPaths": [], "disallowReformatting": false},
            "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
            "execution": {
                "preferredModel": "fake/model",
                "sandbox": "read-only",
                "askPolicy": "untrusted",
                "priority": "P1",
                "ttlS": ttl_s,
            },
            "idempotencyKey": key,
        });
        let answer = peer.call("jobs_submit", json!({ "spec": spec })).unwrap();
        answer["jobId"].as_str().unwrap().to_owned()
    }
}

/// The next end of a job that this client hears of.
fn next_end(peer: &mut Peer) -> Value {
    let ended = |note: &Value| note["method"].as_str().unwrap_or("").contains("/job/");
    if let Some(at) = peer.notes.iter().position(ended) {
        return peer.notes.remove(at);
    }
    loop {
        let message = peer.receive().expect("the server lives");
        if ended(&message) {
            return message;
        }
    }
}

fn kill(peer: &Peer, signal: Signal) {
    let pid = Pid::from_raw(peer.child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn each_job_runs_once(schema: Option<Schema>) {
    const JOBS: usize = 50;
    let office = Office::open(schema);
    let settings = [("CALLBOARD_RELAY_MAX_CONCURRENCY", "4")];
    let mut servers = [office.server(&settings), office.server(&settings)];
    for n in 0..JOBS {
        office.submit(&mut servers[n % 2], &format!("k{n}"));
    }
    for n in 0..JOBS {
        let end = next_end(&mut servers[n % 2]);
        assert_eq!(end["method"], "notifications/job/finished", "{end}");
    }
    let mut ran = office.ran();
    assert_eq!(ran.len(), JOBS);
    ran.sort();
    ran.dedup();
    assert_eq!(ran.len(), JOBS, "each job ran once");
}

#[test]
fn two_servers_run_each_of_fifty_jobs_once() {
    each_job_runs_once(None);
}

#[test]
fn two_servers_run_each_of_fifty_jobs_once_on_postgres() {
    if let Some(schema) = Schema::new() {
        each_job_runs_once(Some(schema));
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
fn a_worker_that_slept_past_its_lease_changes_nothing() {
    let office = Office::open(None);
    office.hold();
    let short = [
        ("CALLBOARD_RELAY_LEASE_S", "1"),
        ("CALLBOARD_RELAY_HEARTBEAT_S", "1"),
        ("CALLBOARD_RELAY_STALE_HOLD_S", "0"),
    ];
    let mut sleeper = office.server(&short);
    let job = office.submit(&mut sleeper, "k");
    office.begun();
    kill(&sleeper, Signal::STOP);
    let mut second = office.server(&short);
    let uri = format!("mcp://jobs/{job}/status");
    second.request("resources/subscribe", json!({ "uri": uri }));
    office.begun();
    office.let_go();
    let end = next_end(&mut second);
    assert_eq!(end["params"]["attempt"], 2, "{end}");
    let before = second.call("jobs_get", json!({ "jobId": job })).unwrap();
    kill(&sleeper, Signal::CONT);
    // It answers when it has caught up; what its agent said is not kept.
    sleeper.call("jobs_list", json!({})).unwrap();
    sleeper.close_input();
    sleeper.child.wait().unwrap();
    let after = second.call("jobs_get", json!({ "jobId": job })).unwrap();
    assert_eq!(before, after);
}

#[test]
fn a_viewer_only_looks() {
    let office = Office::open(None);
    let mut viewer = office.server_with(&["--profile", "viewer"], &[]);
    let list = viewer.request("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["jobs_get", "jobs_list"]);
    for (tool, arguments) in
        [("jobs_submit", json!({ "spec": {} })), ("jobs_cancel", json!({ "jobId": "x" }))]
    {
        let refused = viewer.call(tool, arguments).unwrap_err();
        assert_eq!(refused["code"], "AUTHORIZATION_DENIED", "{refused}");
    }
    assert_eq!(viewer.call("jobs_list", json!({})).unwrap()["total"], 0);
}

#[test]
fn a_configured_executor_runs_the_jobs_of_its_models() {
    let office = Office::open(None);
    let script = "cat > /dev/null; printf '## DIFF\\n\\n## TEST_PLAN\\n\\n## NOTES\\nmine\\n'";
    let settings = format!(
        "[executors.mine]\ncommand = [\"sh\", \"-c\", {script:?}]\nmodels = [\"fake/*\"]\n"
    );
    fs::write(office.at(".callboard/config.local.toml"), settings).unwrap();
    let mut server = office.server(&[]);
    let job = office.submit(&mut server, "k");
    let end = next_end(&mut server);
    assert_eq!(end["params"]["state"], "SUCCEEDED", "{end}");
    let uri = format!("mcp://jobs/{job}/artifacts/out.md");
    let read = server.request("resources/read", json!({ "uri": uri }));
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("mine"), "{read}");
    assert!(!office.at("ran").exists(), "the one on PATH was not asked");

    fs::write(office.at(".callboard/config.local.toml"), "[executors.mine]\ncomand = []\n")
        .unwrap();
    let fault = command(office.board.path()).args(["job", "list"]).output().unwrap();
    let words = String::from_utf8(fault.stderr).unwrap();
    assert!(words.contains("executors.mine") && words.contains("comand"), "{words}");
}

#[test]
fn a_run_that_nobody_wants_any_more_is_ended() {
    let office = Office::open(None);
    office.hold();
    let mut server = office.server(&[("CALLBOARD_RUNNER_KILL_GRACE_S", "0")]);
    let job = office.submit_for(&mut server, "k", 1);
    let agent = office.begun();
    let end = next_end(&mut server);
    assert_eq!(end["method"], "notifications/job/failed", "{end}");
    assert_eq!(end["params"]["state"], "EXPIRED");
    assert_eq!(end["params"]["summary"], "Exceeded TTL of 1s");
    assert!(end["params"]["reasonCode"].is_null());
    // What it printed comes when it is gone, as one more version.
    let logs = format!("mcp://jobs/{job}/artifacts/logs.txt");
    loop {
        let message = server.receive().unwrap();
        assert!(!message["method"].as_str().unwrap().contains("/job/"), "told once: {message}");
        if message["params"]["uri"] == logs {
            break;
        }
    }
    assert!(!is_running(&agent));
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

/// What happened to a job, as the log tells it.
fn events(folder: &Path, job: &str) -> Vec<String> {
    let log = command(folder).args(["log", "--json"]).output().unwrap();
    let text = String::from_utf8(log.stdout).unwrap();
    let all: Vec<Value> = serde_json::Deserializer::from_str(&text)
        .into_iter::<Value>()
        .flat_map(|value| match value.unwrap() {
            Value::Array(items) => items,
            Value::Object(map) => match map.get("events") {
                Some(Value::Array(items)) => items.clone(),
                _ => vec![Value::Object(map)],
            },
            other => vec![other],
        })
        .collect();
    let name = |event: &Value| {
        let name = event["name"].as_str().or(event["event"].as_str())?;
        let of_job = event["data"]["job"] == job;
        name.strip_prefix("job.").filter(|_| of_job).map(str::to_owned)
    };
    all.iter().filter_map(name).filter(|name| name != "kept" && name != "artifact").collect()
}
