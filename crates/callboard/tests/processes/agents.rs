//! Agents of the board in real processes: an agent works in its worktree with a server of its own, is stopped with all
//! its children, and outlives no server that started it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::peer::{Peer, board, command, git, is_running, repository_of};
use crate::schema::Schema;

pub struct Shop {
    pub board: tempfile::TempDir,
    pub schema: Option<Schema>,
}

impl Shop {
    /// A repository whose agents run this script.
    pub fn open(schema: Option<Schema>, script: &str) -> Self {
        let shop = Self { board: board(), schema };
        let executor = repository_of(shop.board.path(), script);
        let settings = format!(
            "[general]\nauto_review = false\ndefault_worker_agent = \"mine\"\n\n{executor}"
        );
        fs::write(shop.at(".callboard/config.local.toml"), settings).unwrap();
        let made = Command::new("mkfifo").arg(shop.at("begun")).status().unwrap();
        assert!(made.success());
        shop
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.board.path().join(name)
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        git(self.board.path(), arguments)
    }

    pub fn server(&self, settings: &[(&str, &str)]) -> Peer {
        let mut mcp = command(self.board.path());
        if let Some(schema) = &self.schema {
            mcp.args(["--store", schema.url()]);
        }
        mcp.args(["mcp", "--toolsets", "board", "--actor", "agent:boss", "--lane", "admin"]);
        for (name, value) in settings {
            mcp.env(name, value);
        }
        let mut peer = Peer::over(mcp);
        peer.hello();
        peer
    }

    /// A job through the tasks extension.
    pub fn ticket(&self, job: &str) -> Value {
        let mut mcp = command(self.board.path());
        mcp.args(["mcp", "--toolsets", "board", "--actor", "agent:boss", "--no-runner"]);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":
                {"extensions": {"io.modelcontextprotocol/tasks": {}}},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        let ask = json!({"taskId": job, "_meta": meta});
        Peer::over(mcp).request("tasks/get", ask)["result"].clone()
    }

    /// The line that the next agent writes when it begins.
    pub fn begun(&self) -> Vec<String> {
        let line = fs::read_to_string(self.at("begun")).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    }
}

pub fn make(peer: &mut Peer) -> String {
    let made = peer.call("tasks_create", json!({"title": "Say hello", "task_type": "AUTO"}));
    made.unwrap()["task_id"].as_str().unwrap().to_owned()
}

pub fn submit(peer: &mut Peer, task: &str, action: &str) -> Value {
    let job = peer.call("jobs_submit", json!({"task_id": task, "action": action})).unwrap();
    assert_eq!(job["code"], "JOB_SUBMITTED", "{job}");
    let ids = json!({"job_id": job["job_id"], "task_id": task, "timeout_seconds": 60});
    peer.call("jobs_wait", ids).unwrap()
}

/// The answer of `jobs_get` for a start that a call waited for.
fn started_then(waited: &Value) -> Value {
    let mut seen = waited.clone();
    seen["timed_out"] = Value::Null;
    seen["timeout_metadata"] = Value::Null;
    seen
}

pub fn wait_for(peer: &mut Peer, task: &str, status: &str) {
    let wait = json!({"task_id": task, "wait_for_status": status, "timeout_seconds": 60});
    let waited = peer.call("tasks_wait", wait).unwrap();
    assert_eq!(waited["current_status"], status, "{waited}");
}

fn kill(peer: &mut Peer) {
    let pid = Pid::from_raw(peer.child.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    peer.child.wait().unwrap();
}

/// The agent talks to the board through its own door, as a confined process.
const ASKS_ITSELF: &str = r#"cat > /dev/null
echo hello > hello.txt && git add hello.txt && git commit -qm 'Add hello' || exit 1
echo stray > "$CALLBOARD_PROJECT_ROOT/stray" && exit 9
command=$(sed 's/.*"command":"\([^"]*\)".*/\1/' "$1")
eval "set -- $(sed 's/.*"args":\[\([^]]*\)\].*/\1/; s/,/ /g' "$1")"
hello='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}'
ready='{"jsonrpc":"2.0","method":"notifications/initialized"}'
review='{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"request_review","arguments":{"task_id":"'$CALLBOARD_TASK_ID'","summary":"It says hello."}}}'
printf '%s\n' "$hello" "$ready" "$review" | "$command" "$@"
"#;

fn an_agent_asks_for_its_review(schema: Option<Schema>) {
    let shop = Shop::open(schema, ASKS_ITSELF);
    let mut boss = shop.server(&[]);
    let task = make(&mut boss);
    let started = submit(&mut boss, &task, "start_agent");
    assert_eq!(started["code"], "STARTED", "{started}");
    assert_eq!(started["timed_out"], false);
    wait_for(&mut boss, &task, "REVIEW");
    let look = json!({"task_id": task, "include_review": true});
    let seen = boss.call("get_task", look).unwrap();
    assert_eq!(seen["review_feedback"], "requested: It says hello.", "{seen}");
    let by = seen["review"]["by"].as_str().unwrap();
    assert!(by.starts_with("agent:mine-"), "{by}");
    let branches = ["for-each-ref", "--format=%(refname:short) %(subject)", "refs/heads/callboard"];
    let branch = shop.git(&branches);
    assert!(branch.starts_with("callboard/P-1-") && branch.ends_with(" Add hello"), "{branch}");
    assert_eq!(shop.git(&["log", "-1", "--format=%s", "main"]), "first");
    assert!(!shop.at("hello.txt").exists() && !shop.at("stray").exists());
}

#[test]
fn an_agent_works_in_its_worktree_and_asks_for_its_review() {
    an_agent_asks_for_its_review(None);
}

#[test]
fn an_agent_works_in_its_worktree_and_asks_for_its_review_on_postgres() {
    if let Some(schema) = Schema::new() {
        an_agent_asks_for_its_review(Some(schema));
    }
}

/// Prints its attempt, its process id and its child's, then runs forever.
fn lasting(folder: &Path) -> String {
    let begun = folder.join("begun");
    format!("cat > /dev/null\nsleep 600 &\necho $CALLBOARD_ATTEMPT $$ $! > {begun:?}\nwait\n")
}

fn open_lasting() -> Shop {
    let shop = Shop::open(None, "");
    fs::write(shop.at("agent.sh"), lasting(shop.board.path())).unwrap();
    shop
}

/// The pipe lies outside the worktree, where a confined agent may not write.
pub const FREE: (&str, &str) = ("CALLBOARD_RELAY_SANDBOX", "executor");

#[test]
fn a_stopped_agent_is_gone_with_its_children() {
    let shop = open_lasting();
    let mut boss = shop.server(&[FREE]);
    let task = make(&mut boss);
    let started = submit(&mut boss, &task, "start_agent");
    assert_eq!(started["code"], "STARTED", "{started}");
    let begun = shop.begun();
    assert!(begun[1..].iter().all(|pid| is_running(pid)), "{begun:?}");
    let seen = boss.call("get_task", json!({ "task_id": task })).unwrap();
    assert_eq!(seen["runtime"]["is_running"], true, "{seen}");
    let ticket = shop.ticket(started["job_id"].as_str().unwrap());
    assert_eq!(ticket["status"], "completed", "{ticket}");
    assert_eq!(ticket["pollIntervalMs"], 1500);
    assert_eq!(ticket["result"]["structuredContent"], started_then(&started), "{ticket}");
    let stopped = submit(&mut boss, &task, "stop_agent");
    assert_eq!(stopped["code"], "STOPPED", "{stopped}");
    assert!(begun[1..].iter().all(|pid| !is_running(pid)), "{begun:?}");
    let seen = boss.call("get_task", json!({ "task_id": task })).unwrap();
    assert_eq!(
        (&seen["status"], &seen["runtime"]["is_running"]),
        (&json!("BACKLOG"), &json!(false))
    );
    let again = json!({"task_id": task, "action": "stop_agent"});
    assert_eq!(boss.call("jobs_submit", again).unwrap()["code"], "NOT_RUNNING");
}

#[test]
fn a_killed_servers_agent_is_started_again_and_given_up_after_three_times() {
    let shop = open_lasting();
    let quick = [FREE, ("CALLBOARD_RELAY_STALE_HOLD_S", "0")];
    let mut first = shop.server(&quick);
    let task = make(&mut first);
    let start = submit(&mut first, &task, "start_agent");
    assert_eq!(start["code"], "STARTED", "{start}");
    let mut server = first;
    for attempt in ["1", "2", "3"] {
        let begun = shop.begun();
        assert_eq!(begun[0], attempt);
        kill(&mut server);
        server = shop.server(&quick);
        if attempt == "3" {
            wait_for(&mut server, &task, "BACKLOG");
        }
        // The next run begins only when no process of the last is left.
        if attempt != "3" {
            continue;
        }
        assert!(begun[1..].iter().all(|pid| !is_running(pid)), "{begun:?}");
    }
    let look = json!({"task_id": task, "include_scratchpad": true});
    let seen = server.call("get_task", look).unwrap();
    assert_eq!(seen["scratchpad"], "Worker lost 3 times", "{seen}");
    let ids = json!({"job_id": start["job_id"], "task_id": task});
    let job = server.call("jobs_get", ids).unwrap();
    assert_eq!(job["code"], "STARTED", "what was decided stays: {job}");
}

/// Prints a line with its input, and waits for a reader of the pipe.
fn a_log_is_seen_while_the_agent_works(schema: Option<Schema>) {
    let shop = Shop::open(schema, "");
    let begun = shop.at("begun");
    let script = format!(
        "cat > /dev/null\necho \"half way with $MY_KEY\"\necho on > {begun:?}\necho done\n"
    );
    fs::write(shop.at("agent.sh"), script).unwrap();
    let settings = fs::read_to_string(shop.at(".callboard/config.local.toml")).unwrap();
    let settings = settings + "env = [\"MY_KEY\"]\n";
    fs::write(shop.at(".callboard/config.local.toml"), settings).unwrap();
    let mut boss = shop.server(&[FREE, ("MY_KEY", "hunter2-hunter2")]);
    let task = make(&mut boss);
    let started = submit(&mut boss, &task, "start_agent");
    let look = json!({"task_id": task, "include_logs": true});
    let logs = |boss: &mut Peer| boss.call("get_task", look.clone()).unwrap()["logs"].clone();
    let so_far = loop {
        let logs = logs(&mut boss);
        if let Some(text) = logs[0]["content"].as_str().filter(|text| text.contains("half way")) {
            assert_eq!(logs[0]["run"], 1, "{logs}");
            break text.to_owned();
        }
    };
    assert!(so_far.contains("half way with [MY_KEY]") && !so_far.contains("done"), "{so_far}");
    let job = started["job_id"].as_str().unwrap();
    let mut printed = command(shop.board.path());
    if let Some(schema) = &shop.schema {
        printed.args(["--store", schema.url()]);
    }
    let printed = printed.args(["logs", job]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&printed.stdout), so_far);
    let events = |boss: &mut Peer| {
        let ask = json!({"capability": "jobs", "limit": 500});
        boss.call("audit_tail", ask).unwrap()["count"].clone()
    };
    assert_eq!(events(&mut boss), 3, "submitted, started, up");
    shop.begun();
    loop {
        let logs = logs(&mut boss);
        let text = logs[0]["content"].as_str().unwrap();
        assert_eq!(logs.as_array().unwrap().len(), 1, "{logs}");
        if text.contains("done") && text.contains("the agent ended its turn") {
            assert_eq!(text.matches("half way with [MY_KEY]").count(), 1, "{text}");
            break;
        }
    }
}

#[test]
fn what_an_agent_printed_is_seen_while_it_works() {
    a_log_is_seen_while_the_agent_works(None);
}

#[test]
fn what_an_agent_printed_is_seen_while_it_works_on_postgres() {
    if let Some(schema) = Schema::new() {
        a_log_is_seen_while_the_agent_works(Some(schema));
    }
}
