//! Jobs for agents in real processes: each runs once, a killed server's job goes on elsewhere, a
//! worker that slept past its lease changes nothing, and what an agent does is not told further.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::peer::{Peer, board_as, clean, command, is_running};
use crate::relay::{job_spec, next_end};
use crate::schema::Schema;

/// A board in a git repository, with an agent that does as its folder says.
struct Office {
    board: tempfile::TempDir,
    commit: String,
    schema: Option<Schema>,
}

impl Office {
    fn open(schema: Option<Schema>) -> Self {
        Self { schema, ..Self::open_as("P") }
    }

    fn open_as(prefix: &str) -> Self {
        let board = board_as(prefix);
        let mut office = Self { commit: String::new(), schema: None, board };
        office.git(&["init", "-q", "-b", "main"]);
        office.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        office.commit = office.git(&["rev-parse", "HEAD"]);
        office.hire();
        office
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        clean(&mut git, self.board.path());
        for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
            git.env(name, "ana");
        }
        for name in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
            git.env(name, "ana@example.org");
        }
        let done = git.args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.board.path().join(name)
    }

    /// Says on a pipe that it began, waits while there is a file `hold`, then answers.
    fn hire(&self) {
        fs::create_dir(self.at("bin")).unwrap();
        fs::create_dir(self.at("runs")).unwrap();
        let made = Command::new("mkfifo").arg(self.at("begun")).status().unwrap();
        assert!(made.success());
        let script = format!(
            "#!/bin/sh\ncat > /dev/null\ncd '{}'\necho \"$CALLBOARD_JOB_ID $$\" >> ran\n\
             echo \"$CALLBOARD_ATTEMPT\" >> \"runs/$CALLBOARD_JOB_ID\"\n\
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

    /// The attempts that agents began on a job.
    fn attempts(&self, job: &str) -> Vec<String> {
        let lines = fs::read_to_string(self.at("runs").join(job)).unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    }

    /// Sets up an executor for the models of these jobs: a script, with the model as `$0`.
    fn configure(&self, script: &str, more: &str) {
        let settings = format!(
            "[executors.mine]\ncommand = [\"sh\", \"-c\", {script:?}, \"{{model}}\"]\nmodels = [\"fake/*\"]\n{more}"
        );
        fs::write(self.at(".callboard/config.local.toml"), settings).unwrap();
    }

    fn server(&self, settings: &[(&str, &str)]) -> Peer {
        self.server_with(&[], settings)
    }

    fn server_with(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Peer {
        let mut peer = self.process(arguments, settings);
        peer.hello();
        peer
    }

    /// One for a client that says with each request who it is.
    fn modern(&self) -> Peer {
        self.process(&[], &[])
    }

    fn process(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Peer {
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
        Peer::over(mcp)
    }

    fn submit(&self, peer: &mut Peer, key: &str) -> String {
        self.submit_for(peer, key, 600)
    }

    fn submit_for(&self, peer: &mut Peer, key: &str, ttl_s: u32) -> String {
        let mut spec = self.spec(key);
        spec["execution"]["ttlS"] = ttl_s.into();
        self.submit_spec(peer, &spec)
    }

    fn submit_spec(&self, peer: &mut Peer, spec: &Value) -> String {
        let answer = peer.call("jobs_submit", json!({ "spec": spec })).unwrap();
        answer["jobId"].as_str().unwrap().to_owned()
    }

    fn spec(&self, key: &str) -> Value {
        job_spec(self.board.path(), &self.commit, key)
    }
}

fn kill(peer: &Peer, signal: Signal) {
    let pid = Pid::from_raw(peer.child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

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
        second.receive().expect("the server lives");
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
        last.receive().expect("the server lives");
    };
    assert_eq!(seen["reasonCode"], "INTERNAL_ERROR", "{seen}");
    assert_eq!((&seen["summary"], &seen["attempt"]), (&json!("Worker lost 3 times"), &json!(3)));
    assert_eq!(office.attempts(&job), ["1", "2", "3"]);
}

fn a_sleeper_changes_nothing(schema: Option<Schema>) {
    let office = Office::open(schema);
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
fn a_worker_that_slept_past_its_lease_changes_nothing() {
    a_sleeper_changes_nothing(None);
}

#[test]
fn a_worker_that_slept_past_its_lease_changes_nothing_on_postgres() {
    if let Some(schema) = Schema::new() {
        a_sleeper_changes_nothing(Some(schema));
    }
}

/// The reference document's example: a file that the scope names, though no glob matches it.
#[test]
fn a_patch_comes_back() {
    let office = Office::open(None);
    let patch = "diff --git a/tsconfig.json b/tsconfig.json\nnew file mode 100644\n\
                 --- /dev/null\n+++ b/tsconfig.json\n@@ -0,0 +1 @@\n+{\"strict\": true}\n";
    fs::write(
        office.at("answer"),
        format!("## DIFF\n{patch}\n## TEST_PLAN\ntsc\n## NOTES\nnone\n"),
    )
    .unwrap();
    office.configure(&format!("cat > /dev/null; cat '{}'", office.at("answer").display()), "");
    let mut server = office.server(&[]);
    let mut spec = office.spec("react-strict-mode-v1");
    spec["scope"] = json!({
        "readPaths": ["src/", "tsconfig.json"],
        "fileGlobs": ["**/*.ts", "**/*.tsx"],
        "disallowReformatting": false,
    });
    let job = office.submit_spec(&mut server, &spec);
    let end = next_end(&mut server);
    assert_eq!(end["method"], "notifications/job/finished", "{end}");
    let mut read = |name: &str| {
        let uri = format!("mcp://jobs/{job}/artifacts/{name}");
        let read = server.request("resources/read", json!({ "uri": uri }));
        let content = read["result"]["contents"][0].clone();
        let text = |key: &str| content[key].as_str().unwrap_or_else(|| panic!("{read}")).to_owned();
        (text("mimeType"), text("text"))
    };
    assert_eq!(read("patch.diff"), ("text/plain".into(), patch.into()));
    let out = "# Test Plan\n\ntsc\n\n# Notes\n\nnone\n";
    assert_eq!(read("out.md"), ("text/markdown".into(), out.into()));
    assert_eq!(read("logs.txt").0, "text/plain");
}

/// Two folders share a store; the server stands in the first.
#[test]
fn a_job_belongs_to_the_project_of_its_repository() {
    let (here, there) = (Office::open(None), Office::open_as("Q"));
    let store = here.at(".callboard/callboard.db");
    let store = ["--store", store.to_str().unwrap()];
    let mut add = command(there.board.path());
    assert!(add.args(store).args(["task", "add", "x"]).output().unwrap().status.success());
    there.git(&["remote", "add", "origin", "https://git.example.org/shop/site.git"]);
    let mut server = here.server_with(&["--no-runner"], &[]);
    let git = |url: &str| {
        let commit = &here.commit;
        json!({"type": "git", "url": url, "baseBranch": "main", "baselineCommit": commit})
    };
    let (inner, mut local) = (there.at("bin"), there.spec("local"));
    let mut nested = local.clone();
    nested["repo"]["path"] = inner.to_str().unwrap().into();
    let known = local["repo"].take();
    for (repo, prefix) in [
        (known, "Q-"),
        (nested["repo"].take(), "Q-"),
        (git("git@git.example.org:shop/site"), "Q-"),
        (git("https://git.example.org/shop/other.git"), "P-"),
        (here.spec("")["repo"].take(), "P-"),
    ] {
        let mut spec = here.spec(&repo.to_string());
        spec["repo"] = repo.clone();
        let job = here.submit_spec(&mut server, &spec);
        let seen = server.call("jobs_get", json!({ "jobId": job })).unwrap();
        assert!(seen["taskId"].as_str().unwrap().starts_with(prefix), "{repo}: {seen}");
    }
}

#[test]
fn from_the_first_token_on_local_repositories_need_roots() {
    let office = Office::open(None);
    let mut server = office.server_with(&["--no-runner"], &[]);
    office.submit(&mut server, "before");
    let mut add = command(office.board.path());
    add.args(["token", "add", "--actor", "agent:w1"]);
    assert!(add.output().unwrap().status.success());
    let spec = office.spec("after");
    let refused = server.call("jobs_submit", json!({ "spec": spec })).unwrap_err();
    assert_eq!(refused["code"], "INVALID_SPEC");
    let problem = &refused["details"]["problems"][0];
    assert_eq!(problem["path"], "repo.path", "{refused}");
    assert_eq!(problem["problem"], "must be a folder that relay.local_roots allows");
    let roots = office.board.path().to_str().unwrap();
    let rooted = [("CALLBOARD_RELAY_LOCAL_ROOTS", roots)];
    office.submit(&mut office.server_with(&["--no-runner"], &rooted), "after");
}

#[test]
fn without_any_executor_a_job_is_taken_and_fails() {
    let office = Office::open(None);
    let tools = office.at("tools");
    fs::create_dir(&tools).unwrap();
    for program in ["git", "sh"] {
        let which = format!("command -v {program}");
        let found = Command::new("sh").args(["-c", &which]).output().unwrap().stdout;
        let found = String::from_utf8(found).unwrap();
        std::os::unix::fs::symlink(found.trim(), tools.join(program)).unwrap();
    }
    let mut server = office.server(&[("PATH", tools.to_str().unwrap())]);
    let job = office.submit(&mut server, "k");
    let end = next_end(&mut server);
    assert_eq!(end["method"], "notifications/job/failed", "{end}");
    assert_eq!(end["params"]["jobId"], job);
    assert_eq!(end["params"]["reasonCode"], "EXECUTOR_ERROR");
    assert_eq!(end["params"]["summary"], "No executor for model fake/model");
}

/// An agent that asks before it runs something, and a client that follows the job as a task.
#[test]
fn what_an_agent_asks_is_answered_through_the_task() {
    let office = Office::open(None);
    let say = |message: Value| format!("echo '{message}'\n");
    let answer =
        |id: u32, result: Value| say(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let tool = json!({
        "toolCallId": "t1", "title": "make", "kind": "execute", "rawInput": {"command": "make"},
    });
    let options = json!([
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let asks = json!({"sessionId": "s1", "toolCall": tool, "options": options});
    let text = "## DIFF\n\n## TEST_PLAN\nnone\n\n## NOTES\nnone\n";
    let chunk = json!({
        "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text},
    });
    let update = json!({"sessionId": "s1", "update": chunk});
    let script = ["read -r hello\n".into(),
        answer(1, json!({"protocolVersion": 1, "agentCapabilities": {}})),
        "read -r new\n".into(),
        answer(2, json!({"sessionId": "s1"})),
        "read -r prompt\n".into(),
        say(json!({"jsonrpc": "2.0", "id": "p1", "method": "session/request_permission", "params": asks})),
        format!("read -r leave\nprintf '%s\\n' \"$leave\" > '{}'\n", office.at("leave").display()),
        "cat \"$0\"\n".into(),
        answer(3, json!({"stopReason": "end_turn"})),
        "read -r nothing\n".into(),
    ]
    .concat();
    let spoken = json!({"jsonrpc": "2.0", "method": "session/update", "params": update});
    fs::write(office.at("update"), format!("{spoken}\n")).unwrap();
    let command = json!(["sh", "-c", script, office.at("update")]);
    let settings =
        format!("[executors.mine]\nkind = \"acp\"\ncommand = {command}\nmodels = [\"fake/*\"]\n");
    fs::write(office.at(".callboard/config.local.toml"), settings).unwrap();

    let mut server = office.modern();
    let ask = |server: &mut Peer, method: &str, mut params: Value| {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            },
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        server.request(method, params)["result"].clone()
    };
    for (key, is_canceled) in [("answered", false), ("canceled", true)] {
        let call = json!({"name": "jobs_submit", "arguments": {"spec": office.spec(key)}});
        let submitted = ask(&mut server, "tools/call", call);
        let job = submitted["structuredContent"]["jobId"].as_str().unwrap().to_owned();
        let until = |server: &mut Peer, status: &str| loop {
            let seen = ask(server, "tasks/get", json!({ "taskId": job }));
            if seen["status"] == status {
                break seen;
            }
            assert_eq!(seen["status"], "working", "{seen}");
        };
        let seen = until(&mut server, "input_required");
        assert!(
            seen["statusMessage"].as_str().unwrap().starts_with("RUNNING: Waiting for an answer")
        );
        if is_canceled {
            ask(&mut server, "tasks/cancel", json!({ "taskId": job }));
        }
        let yes = json!({"ask_1": {"action": "accept", "content": {"allow": true}}});
        ask(&mut server, "tasks/update", json!({"taskId": job, "inputResponses": yes}));
        if is_canceled {
            assert_eq!(
                ask(&mut server, "tasks/get", json!({ "taskId": job }))["status"],
                "cancelled"
            );
        } else {
            let over = until(&mut server, "completed");
            assert_eq!(over["result"]["structuredContent"]["state"], "SUCCEEDED", "{over}");
            let leave = fs::read_to_string(office.at("leave")).unwrap();
            assert!(leave.contains("\"optionId\":\"yes\""), "{leave}");
        }
    }
}

/// What an agent was given is in nothing that anybody reads, whatever it does with it.
#[test]
fn no_secret_is_told() {
    const SECRET: &str = "hunter2-hunter2";
    let office = Office::open(None);
    office.configure(
        "cat > /dev/null; echo \"failed with $MY_KEY\" >&2; [ \"$0\" = fake/fails ] && exit 3; \
         printf '## DIFF\\n\\n## TEST_PLAN\\n%s\\n\\n## NOTES\\nkey %s\\n' \"$MY_KEY\" \"$MY_KEY\"",
        "env = [\"MY_KEY\"]\n",
    );
    let mut server = office.server(&[("MY_KEY", SECRET)]);
    let mut heard = Vec::new();
    for (model, state) in [("fake/works", "SUCCEEDED"), ("fake/fails", "FAILED")] {
        let mut spec = office.spec(model);
        spec["execution"]["preferredModel"] = model.into();
        let job = office.submit_spec(&mut server, &spec);
        heard.append(&mut server.notes);
        while heard.last().is_none_or(|last| last["params"]["jobId"] != job) {
            heard.push(server.receive().unwrap());
        }
        assert_eq!(heard.last().unwrap()["params"]["state"], state, "{heard:?}");
        heard.push(server.call("jobs_get", json!({ "jobId": job })).unwrap());
        for name in ["out.md", "logs.txt"] {
            let uri = format!("mcp://jobs/{job}/artifacts/{name}");
            heard.push(server.request("resources/read", json!({ "uri": uri })));
        }
    }
    let log = command(office.board.path()).args(["log", "--json"]).output().unwrap();
    let told = json!(heard).to_string() + &String::from_utf8(log.stdout).unwrap();
    assert!(told.contains("failed with [MY_KEY]") && told.contains("key [MY_KEY]"), "{told}");
    assert!(!told.contains(SECRET), "{told}");
    drop(server);
    let kept =
        Command::new("grep").args(["-rlF", SECRET]).arg(office.at(".callboard")).output().unwrap();
    assert_eq!(String::from_utf8(kept.stdout).unwrap(), "", "nor kept");
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
    office.configure(script, "");
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
