//! Questions of an agent of the board while it works: shown to and answered by a person in another process, refused
//! after a timeout, gone with its run.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::agents::{FREE, Shop, make, submit, wait_for};
use crate::peer::{Peer, command};

/// An ACP agent that asks to run each of these commands, and prints the answers at the end.
fn asking(commands: &[&str]) -> String {
    let mut script = r#"
read -r hello; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read -r new; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
read -r prompt; told=
ask() {
    echo '{"jsonrpc":"2.0","id":"p","method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t","kind":"execute","title":"Try it","rawInput":{"command":"'"$1"'"}},"options":[{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}'
    read -r answer
    case "$answer" in *'"optionId":"yes"'*) told="$told yes" ;; *) told="$told no" ;; esac
}
"#
    .to_owned();
    for command in commands {
        script += &format!("ask '{command}'\n");
    }
    script
        + r#"printf '%s\n' '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Told'"$told"'\n<complete/>"}}}}'
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
read -r nothing
"#
}

/// A shop whose agent asks, and which no sandbox keeps in its worktree.
pub fn open(commands: &[&str]) -> Shop {
    let shop = Shop::open(None, &asking(commands));
    let settings = fs::read_to_string(shop.at(".callboard/config.local.toml")).unwrap();
    fs::write(shop.at(".callboard/config.local.toml"), settings + "kind = \"acp\"\n").unwrap();
    shop
}

/// The open question of an agent.
fn asked(boss: &mut Peer, ids: &Value) -> Value {
    loop {
        let job = boss.call("jobs_get", ids.clone()).unwrap();
        assert_eq!((&job["status"], &job["code"]), (&json!("succeeded"), &json!("STARTED")));
        if job["result"]["question"].is_object() {
            break job;
        }
    }
}

fn start(boss: &mut Peer) -> (String, Value) {
    let task = make(boss);
    let job = submit(boss, &task, "start_agent");
    assert_eq!(job["code"], "STARTED", "{job}");
    (task.clone(), json!({"job_id": job["job_id"], "task_id": task}))
}

fn typed(shop: &Shop, arguments: &[&str]) -> Output {
    command(shop.board.path()).args(["--actor", "human:ana"]).args(arguments).output().unwrap()
}

fn json_of(shop: &Shop, arguments: &[&str]) -> Value {
    let typed = typed(shop, &[arguments, &["--json"]].concat());
    assert!(typed.status.success(), "{}", String::from_utf8_lossy(&typed.stderr));
    serde_json::from_slice(&typed.stdout).unwrap()
}

fn update(shop: &Shop, lane: &str, job: &str, answers: Value) -> Value {
    let mut mcp = command(shop.board.path());
    let flags = ["mcp", "--toolsets", "board", "--actor", "agent:x", "--no-runner", "--lane"];
    mcp.args(flags).arg(lane);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let ask = json!({"taskId": job, "inputResponses": answers, "_meta": meta});
    Peer::over(mcp).request("tasks/update", ask)
}

#[test]
fn a_question_is_answered_from_a_terminal_and_by_a_task() {
    let shop = open(&["make one", "make two"]);
    let mut boss = shop.server(&[FREE]);
    let (task, ids) = start(&mut boss);
    let job = ids["job_id"].as_str().unwrap();
    let seen = asked(&mut boss, &ids);
    let question = json!({"number": 1, "text": "Try it: make one", "command": "make one"});
    assert_eq!(seen["result"]["question"], question);
    assert_eq!(seen["message"], "Waiting for an answer: Try it: make one");
    assert_eq!(
        seen["hint"],
        format!("A person answers with callboard job answer {job} yes, or no")
    );
    for arguments in [&["job", "list"][..], &["job", "show", job], &["review"], &["review", &task]]
    {
        let typed = typed(&shop, arguments);
        let words = String::from_utf8(typed.stdout).unwrap();
        assert!(words.contains("Try it: make one") && words.contains(job), "{words}");
    }
    assert_eq!(json_of(&shop, &["review"])["questions"][0]["job"], job);
    let ticket = shop.ticket(job);
    assert_eq!(ticket["status"], "input_required", "{ticket}");
    assert_eq!(ticket["inputRequests"]["ask_1"]["params"]["message"], "Try it: make one");

    // Agents that Callboard starts have no more rights than these: none answers for itself.
    let yes = json!({"ask_1": {"action": "accept"}});
    let denied = update(&shop, "kagan", job, yes);
    assert_eq!(denied["error"]["data"]["code"], "AUTHORIZATION_DENIED", "{denied}");
    assert_eq!(shop.ticket(job)["status"], "input_required");
    assert!(typed(&shop, &["job", "answer", job, "yes"]).status.success());
    while asked(&mut boss, &ids)["result"]["question"]["number"] != 2 {}
    let no = json!({"ask_1": {"action": "accept"}, "ask_2": {"action": "decline"}});
    let done = update(&shop, "admin", job, no);
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    wait_for(&mut boss, &task, "REVIEW");
    let look = json!({"task_id": task, "include_scratchpad": true, "include_logs": true});
    let over = boss.call("get_task", look).unwrap();
    assert_eq!(over["scratchpad"], "Told yes no\n<complete/>", "{over}");
    let log = over["logs"][0]["content"].as_str().unwrap();
    assert!(log.contains("[granted] Try it") && log.contains("[refused] Try it"), "{log}");
    assert_eq!(shop.ticket(job)["status"], "completed");
    assert_eq!(json_of(&shop, &["review"])["questions"], json!([]));
}

#[test]
fn silence_refuses_and_the_agent_goes_on() {
    let shop = open(&["make"]);
    let mut boss = shop.server(&[FREE, ("CALLBOARD_RELAY_ASK_TIMEOUT_S", "1")]);
    let (task, _) = start(&mut boss);
    wait_for(&mut boss, &task, "REVIEW");
    let look = json!({"task_id": task, "include_scratchpad": true});
    let over = boss.call("get_task", look).unwrap();
    assert_eq!(over["scratchpad"], "Told no\n<complete/>", "{over}");
}

#[test]
fn the_question_of_a_stopped_agent_is_gone() {
    let shop = open(&["make"]);
    let mut boss = shop.server(&[FREE]);
    let (task, ids) = start(&mut boss);
    let job = ids["job_id"].as_str().unwrap();
    asked(&mut boss, &ids);
    assert_eq!(submit(&mut boss, &task, "stop_agent")["code"], "STOPPED");
    let seen = boss.call("jobs_get", ids.clone()).unwrap();
    assert_eq!(seen["result"], json!({"code": "STARTED", "attempt": 1}), "{seen}");
    assert_eq!(shop.ticket(job)["status"], "completed");
    assert_eq!(json_of(&shop, &["review"])["questions"], json!([]));
    let late = typed(&shop, &["job", "answer", job, "yes", "--json"]);
    assert!(!late.status.success());
    let words = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(words.contains("NO_QUESTION"), "{words}");
}

/// The requests of a confined agent are granted without asking a person.
#[test]
fn a_confined_agent_is_granted_what_it_asks_for() {
    let shop = open(&["make"]);
    let mut boss = shop.server(&[("CALLBOARD_RELAY_SANDBOX", "os")]);
    let (task, _) = start(&mut boss);
    wait_for(&mut boss, &task, "REVIEW");
    let look = json!({"task_id": task, "include_scratchpad": true});
    let over = boss.call("get_task", look).unwrap();
    assert_eq!(over["scratchpad"], "Told yes\n<complete/>", "{over}");
}
