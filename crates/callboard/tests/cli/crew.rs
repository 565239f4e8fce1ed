//! A crew at the terminal: agents, epics, mail with people, the log.

use crate::fixture::World;

fn call(world: &World, agent: &str, tool: &str, input: &str) -> serde_json::Value {
    let actor = format!("agent:{agent}");
    world.ok(&["call", tool, input, "--toolsets", "crew", "--actor", &actor]).json()
}

#[test]
fn agents_are_added_shown_and_removed() {
    let world = World::project();
    assert_eq!(world.ok(&["agent", "list"]).stdout, "no agents\n");
    assert_eq!(world.ok(&["epic", "list"]).stdout, "no epics\n");
    let epic = world.ok(&["epic", "add", "User management", "--description", "why", "--json"]);
    let epic = epic.json()["id"].as_str().expect("an id").to_owned();
    let task = world.task(&["Add login", "--parent", &epic]);
    let (epic, task) = (epic.as_str(), task.as_str());
    world.ok(&["agent", "add", "boss", "--type", "supervisor", "--epic", epic]);
    let added =
        world.ok(&["agent", "add", "w1", "--type", "WORKER", "--task", task, "--json"]).json();
    assert_eq!(
        (&added["id"], &added["type"], &added["currentEpicId"], &added["currentTaskId"]),
        (&"w1".into(), &"WORKER".into(), &epic.into(), &task.into())
    );
    let got = call(&world, "w1", "mcp__agent__get_task", "{}");
    assert_eq!(got["data"]["state"], "ASSIGNED");
    let mail = call(&world, "w1", "mcp__mail__list_inbox", "{}");
    assert_eq!(mail["data"]["mails"][0]["subject"], "Task Assignment");
    let boss = world.run(&["agent", "add", "b2", "--type", "SUPERVISOR", "--task", task, "--json"]);
    assert_eq!((boss.code, boss.error_code()), (2, "INVALID_INPUT".into()));
    let over = world.ok(&["task", "add", "Done with"]).stdout;
    world.ok(&["done", over.trim()]);
    let late = ["agent", "add", "b2", "--type", "SUPERVISOR", "--epic", over.trim(), "--json"];
    assert_eq!(world.run(&late).error_code(), "INVALID_AGENT_STATE");
    assert_eq!(world.run(&["agent", "show", "b2"]).code, 3);
    let again = world.run(&["agent", "add", "w1", "--type", "WORKER", "--json"]);
    assert_eq!((again.code, again.error_code()), (5, "AGENT_EXISTS".into()));
    assert_eq!(world.run(&["agent", "add", "w2", "--type", "BOSS"]).code, 2);
    assert_eq!(world.run(&["agent", "add", "w 2", "--type", "WORKER"]).code, 2);
    let listed = world.ok(&["agent", "list", "--json"]).json();
    let ids: Vec<_> = listed["items"].as_array().expect("items").iter().map(|a| &a["id"]).collect();
    assert_eq!(ids, ["boss", "w1"]);
    let epics = world.ok(&["epic", "list", "--json"]).json();
    assert_eq!(
        (&epics["items"][0]["id"], &epics["items"][0]["state"]),
        (&epic.into(), &"PLANNING".into())
    );
    let status = call(&world, "w1", "mcp__agent__get_status", "{}");
    assert_eq!(status["data"]["currentTaskId"], task);
    assert_eq!(world.ok(&["agent", "rm", "w1"]).stdout, "w1 is removed\n");
    let gone = world.run(&["agent", "show", "w1", "--json"]);
    assert_eq!((gone.code, gone.error_code()), (3, "AGENT_NOT_FOUND".into()));
}

#[test]
fn people_get_mail_and_answer_it() {
    let world = World::project();
    assert_eq!(world.ok(&["mail"]).stdout, "no unread mail\n");
    world.ok(&["agent", "add", "w1", "--type", "WORKER"]);
    let send = r#"{"toHuman": true, "subject": "Need Help", "body": "I am stuck"}"#;
    assert_eq!(call(&world, "w1", "mcp__mail__send", send)["success"], true);
    let listed = world.ok(&["mail", "list", "--json"]).json();
    assert_eq!(listed["unreadCount"], 1);
    assert_eq!(
        world.ok(&["mail", "list", "--human", "--json", "--actor", "agent:w1"]).json(),
        listed
    );
    let mail = listed["items"][0]["id"].as_str().expect("an id").to_owned();
    let read = world.ok(&["mail", "read", &mail]).stdout;
    assert!(read.starts_with("From: w1 (WORKER)\n"), "{read}");
    assert!(read.ends_with("\nSubject: Need Help\n\nI am stuck\n"), "{read}");
    assert_eq!(world.ok(&["mail"]).stdout, "no unread mail\n");
    assert!(world.ok(&["mail", "list", "--all"]).stdout.contains("Need Help"));
    world.ok(&["mail", "reply", &mail, "Go on"]);
    world.ok(&["mail", "send", "w1", "Please wait", "Until noon"]);
    let inbox = call(&world, "w1", "mcp__mail__list_inbox", "{}");
    let subjects: Vec<_> =
        inbox["data"]["mails"].as_array().expect("mails").iter().map(|m| &m["subject"]).collect();
    assert_eq!(subjects, ["Please wait", "Re: Need Help"]);
    assert_eq!(inbox["data"]["mails"][0]["fromAgentId"], serde_json::Value::Null);
    let foreign = inbox["data"]["mails"][0]["id"].as_str().expect("an id");
    let denied = world.run(&["mail", "read", foreign, "--json"]);
    assert_eq!((denied.code, denied.error_code()), (4, "AUTHORIZATION_DENIED".into()));
    assert!(world.ok(&["mail", "list", "--actor", "agent:w1"]).stdout.contains("Please wait"));
    let nobody = world.run(&["mail", "send", "w9", "x", "y", "--json"]);
    assert_eq!((nobody.code, nobody.error_code()), (3, "AGENT_NOT_FOUND".into()));
}

#[test]
fn the_log_says_what_was_called_and_why() {
    let world = World::project();
    assert_eq!(world.ok(&["decisions"]).stdout, "no decisions\n");
    world.ok(&["agent", "add", "w1", "--type", "WORKER"]);
    let log = r#"{"title": "Chose Redis", "body": "It is there already"}"#;
    call(&world, "w1", "mcp__system__log_decision", log);
    let rows = world.ok(&["decisions", "--agent", "w1", "--json"]).json();
    let rows = rows["items"].as_array().expect("items");
    let said: Vec<_> = rows.iter().map(|row| row["decision"].as_str().unwrap_or("")).collect();
    assert_eq!(
        said,
        [
            "Tool result: mcp__system__log_decision",
            "Chose Redis",
            "Invoked tool: mcp__system__log_decision"
        ]
    );
    assert_eq!(rows[1]["reasoning"], "It is there already");
    assert_eq!(rows[1]["context"], serde_json::Value::Null);
    let input = rows[2]["context"].as_str().expect("a context");
    assert_eq!(input, "{\n  \"title\": \"Chose Redis\",\n  \"body\": \"It is there already\"\n}");
    assert!(world.ok(&["decisions"]).stdout.contains("Automatic tool result log"));
    let large = serde_json::json!({"title": "Large", "body": "x".repeat(60_000)}).to_string();
    for _ in 0..10 {
        call(&world, "w1", "mcp__system__log_decision", &large);
    }
    let page = world.ok(&["decisions", "--json", "--limit", "1000"]).json();
    let rows = page["items"].as_array().expect("items");
    assert!(rows.len() < 33 && world.ok(&["decisions", "--json"]).stdout.len() < 1_200_000);
    assert_eq!(page["next"], rows[rows.len() - 1]["id"]);
    let next = page["next"].as_str().expect("an id");
    let rest = world.ok(&["decisions", "--json", "--before", next]).json();
    assert_eq!(rest["items"].as_array().expect("items").len(), 33 - rows.len());
    assert_eq!(rest["next"], serde_json::Value::Null);
    let none = world.ok(&["decisions", "--agent", "w2"]).stdout;
    assert_eq!(none, "no decisions\n");
}
