//! Output for people: the log, a task, who works on what; and the commands it suggests.

use serde_json::{Value, json};

use crate::fixture::World;

fn call(world: &World, actor: &str, tool: &str, arguments: Value) -> Value {
    world.ok(&["call", tool, &arguments.to_string(), "--actor", actor]).json()
}

/// Lines without their times.
fn sentences(text: &str) -> Vec<String> {
    let rest = |line: &str| line.split_once("  ").expect("a time").1.to_owned();
    text.lines().map(rest).collect()
}

#[test]
fn the_log_speaks_in_sentences_and_hides_heartbeats() {
    let world = World::project();
    let id = world.task(&["Add flag"]);
    world.ok(&["claim", &id, "--actor", "agent:w1"]);
    let begun = json!({"id": id, "expected_actor": "agent:w1", "idempotency_key": "k"});
    let session = call(&world, "agent:w1", "begin", begun)["id"].clone();
    call(&world, "agent:w1", "heartbeat", json!({"session": session, "progress": "half"}));
    let said = sentences(&world.ok(&["log"]).stdout);
    assert!(said.contains(&"agent:w1 claimed SHOP-1 Add flag".to_owned()), "{said:#?}");
    assert!(said.iter().any(|line| line.starts_with("human:ana added SHOP-1 Add flag")));
    assert!(said.iter().any(|line| line.contains("began to work on")), "{said:#?}");
    assert!(!said.iter().any(|line| line.contains("still at work")), "{said:#?}");
    let all = sentences(&world.ok(&["log", &id, "--all"]).stdout);
    assert!(all.iter().any(|line| line.contains("is still at work on")), "{all:#?}");
    let newest = sentences(&world.ok(&["log", "--tail", "1"]).stdout);
    assert_eq!(newest.len(), 1, "a hidden event is not counted: {newest:#?}");
    let other = world.task(&["Goes away"]);
    world.ok(&["task", "rm", &other]);
    let said = sentences(&world.ok(&["log"]).stdout);
    assert_eq!(said.last(), Some(&format!("human:ana removed {other} Goes away")));
}

#[test]
fn a_task_is_shown_with_everything_around_it() {
    let world = World::project();
    let epic = world.ok(&["epic", "add", "Importer", "--json"]).json();
    let epic = epic["id"].as_str().expect("an id").to_owned();
    let dep = world.task(&["First things first"]);
    let id = world.task(&["Add flag", "--dep", &dep, "--parent", &epic]);
    let board = |tool: &str, arguments: Value| {
        world.ok(&["call", tool, &arguments.to_string(), "--toolsets", "board"]);
    };
    board("update_scratchpad", json!({"task_id": id, "content": "mind the tests"}));
    world.ok(&["done", &dep]);
    let begun = json!({
        "id": id, "expected_actor": "agent:w1", "branch": "feature/flag", "idempotency_key": "k",
    });
    let session = call(&world, "agent:w1", "begin", begun)["id"].clone();
    call(&world, "agent:w1", "finish", json!({"session": session, "summary": "wrote it"}));
    let shown = world.ok(&["task", "show", &id]).stdout;
    let lines = [
        "SHOP-3  ".into(),
        format!("id        {id}"),
        "needs     SHOP-2 (done) First things first".into(),
        "part of   SHOP-1 (".into(),
        "attempt   agent:w1 began ".into(),
        "finished: wrote it".into(),
        "branch    ".into(),
        "mind the tests".into(),
        "priority  500".into(),
    ];
    for line in lines {
        assert!(shown.contains(&line), "{line}\n{shown}");
    }
    let parent = world.ok(&["task", "show", &epic]).stdout;
    assert!(parent.contains("child     SHOP-3 ("), "{parent}");
    let document = world.ok(&["task", "show", &id, "--json"]).json();
    assert_eq!(
        document["waitsFor"],
        json!([{"id": dep, "number": 2, "title": "First things first", "status": "done"}])
    );
    assert_eq!((&document["partOf"]["id"], &document["priority"]), (&json!(epic), &json!(500)));
    assert_eq!(document["attempts"][0]["summary"], "wrote it");
    let mine = world.ok(&["task", "list", "--epic", &epic]).stdout;
    assert!(mine.lines().count() == 1 && mine.starts_with("SHOP-3 "), "{mine}");
    let found = world.ok(&["task", "list", "--search", "ADD fl"]).stdout;
    assert!(found.contains("SHOP-3 ") && !found.contains("SHOP-2 "), "{found}");
}

#[test]
fn agents_and_status_show_who_holds_what() {
    let world = World::project();
    let held = world.task(&["Held"]);
    world.task(&["Free"]);
    world.ok(&["agent", "add", "w9", "--type", "WORKER"]);
    world.ok(&["claim", &held, "--actor", "agent:outsider"]);
    let list = world.ok(&["agent", "list"]).stdout;
    assert!(list.contains("w9") && list.contains("agent:outsider"), "{list}");
    assert!(list.lines().any(|line| line.contains("SHOP-1 ") && line.ends_with("Held")), "{list}");
    let items = world.ok(&["agent", "list", "--json"]).json();
    let holder = &items["items"][1];
    assert_eq!((&holder["id"], &holder["currentTaskId"]), (&json!("agent:outsider"), &json!(held)));
    let status = world.ok(&["status"]).stdout;
    let wanted = "needs you\n  nothing waits for you\nat work\n  agent:outsider  SHOP-1  Held (backlog)\n\
         next\n  SHOP-2  Free\n";
    assert_eq!(status, wanted);
    let document = world.ok(&["status", "--json"]).json();
    assert_eq!(document["working"][0]["actor"], "agent:outsider", "{document}");
}

/// `status` shows the inbox: agents that stand still first, then the oldest.
#[test]
fn status_shows_everything_that_waits_for_a_person() {
    let world = World::project();
    let [work, stuck] = ["Handed over", "Stuck"].map(|title| world.task(&[title]));
    world.task(&["Waits", "--dep", &stuck]);
    let asked = json!({"task_id": work, "summary": "done"}).to_string();
    world.ok(&["call", "request_review", &asked, "--toolsets", "board"]);
    world.ok(&["block", &stuck, "-m", "no key", "--actor", "agent:w1"]);
    let plan = json!({"tasks": [{"title": "A", "type": "AUTO", "description": "d"}]}).to_string();
    world.ok(&["call", "propose_plan", &plan, "--toolsets", "board", "--actor", "agent:w1"]);
    let document = world.ok(&["status", "--json"]).json();
    let rows = document["inbox"].as_array().expect("rows");
    let keys: Vec<&str> = rows.iter().filter_map(|row| row["key"].as_str()).collect();
    assert_eq!(keys[..2], ["review:SHOP-1", "blocker:SHOP-2"], "{document}");
    assert!(keys.len() == 3 && keys[2].starts_with("plan:plan_"), "{keys:?}");
    assert_eq!(document["reviews"][0]["id"], json!(work));
    let status = world.ok(&["status"]).stdout;
    let lines: Vec<&str> = status.lines().take(4).map(str::trim).collect();
    assert_eq!(
        lines[..3],
        ["needs you", "review    SHOP-1  Handed over", "blocker   SHOP-2  Stuck: stuck: no key"]
    );
    assert!(lines[3].ends_with("Decide on a plan of 1 task"), "{status}");
    let list = world.ok(&["task", "list"]).stdout;
    assert!(
        list.contains("blocked: no key") && list.contains("blocked: waits for SHOP-2"),
        "{list}"
    );
}

#[test]
fn a_person_takes_a_task_back_and_an_agent_does_not() {
    let world = World::project();
    let id = world.task(&["Held"]);
    let begun = json!({"id": id, "expected_actor": "agent:w1", "idempotency_key": "k"});
    call(&world, "agent:w1", "begin", begun);
    let refused = world.run(&["release", &id]);
    assert_eq!(refused.code, 5, "{}", refused.stderr);
    assert!(refused.stderr.contains("callboard release SHOP-1 --force"));
    let agent = world.run(&["release", &id, "--force", "--actor", "agent:w2", "--json"]);
    assert_eq!((agent.code, agent.error_code()), (2, "INVALID_INPUT".into()));
    let released = world.ok(&["release", &id, "--force", "--json"]).json();
    assert_eq!((&released["assignee"], &released["status"]), (&json!(null), &json!("backlog")));
    world.ok(&["claim", &id, "--actor", "agent:w2"]);
}

#[test]
fn a_call_that_is_refused_inside_its_answer_fails() {
    let world = World::project();
    let gone = "SHOP-01j9x2k7m3n4p5q6r7s8t9v0wx";
    let board = world.run(&[
        "call",
        "review",
        &json!({"task_id": gone, "action": "approve"}).to_string(),
        "--toolsets",
        "board",
    ]);
    assert_eq!((board.code, &board.json()["success"]), (3, &json!(false)), "{}", board.stdout);
    world.ok(&["agent", "add", "boss", "--type", "SUPERVISOR"]);
    let crew = ["call", "mcp__epic__approve_pr", &json!({"taskId": gone}).to_string()];
    let crew = world.run(&[&crew[..], &["--toolsets", "crew", "--actor", "agent:boss"]].concat());
    assert_ne!(crew.code, 0, "{}", crew.stdout);
    assert_eq!(crew.json()["success"], json!(false), "{}", crew.stdout);
    world.write(&world.root().join("a"), "one\n");
    world.run_git(&world.root(), &["add", "a"]);
    world.run_git(&world.root(), &["commit", "-q", "-m", "first"]);
    let head =
        std::fs::read_to_string(world.root().join(".git/refs/heads/main")).expect("a commit");
    let spec = json!({
        "repo": {
            "type": "local",
            "path": world.root(),
            "baseBranch": "main",
            "baselineCommit": head.trim(),
        },
        "task": {"title": "t", "description": "d", "acceptance": []},
        "scope": {"readPaths": [], "disallowReformatting": false},
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {
            "preferredModel": "fake/model",
            "sandbox": "read-only",
            "askPolicy": "untrusted",
            "priority": "P1",
            "ttlS": 600,
        },
        "idempotencyKey": "once",
    });
    let relay = |tool: &str, arguments: Value| {
        world.run(&["call", tool, &arguments.to_string(), "--toolsets", "relay"])
    };
    let job = relay("jobs_submit", json!({"spec": spec})).json()["jobId"].clone();
    assert_eq!(relay("jobs_cancel", json!({"jobId": job})).code, 0);
    let over = relay("jobs_cancel", json!({"jobId": job}));
    assert_eq!((over.code, &over.json()["ok"]), (5, &json!(false)), "{}", over.stdout);
    let fine = world.run(&["call", "tasks_list", "{}", "--toolsets", "board"]);
    assert_eq!(fine.code, 0, "{}{}", fine.stdout, fine.stderr);
}
