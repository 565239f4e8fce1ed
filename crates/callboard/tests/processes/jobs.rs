//! Jobs for agents in real processes: their results, their limits, and that an agent's secrets are not passed on.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::office::Office;
use crate::peer::{Peer, command, is_running};
use crate::relay::next_end;

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

/// Two folders share a store; the server runs in the first.
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

/// An agent that asks before it runs a command, and a client that follows the job as a task.
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

/// Secrets given to an agent appear in no readable output, whatever the agent does with them.
#[test]
fn secrets_are_redacted() {
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
    // The output comes when the agent is gone, as one more version.
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
