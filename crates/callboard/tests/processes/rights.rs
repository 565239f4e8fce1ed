//! The rights of a token over HTTP: each test tries to run a command without the right.

use serde_json::{Value, json};

use crate::tokens::{Door, door, token};

const GRAPH: &str = "/mcp/graph";

impl Door {
    /// A check that leaves a file behind when it runs.
    fn trap(&self, name: &str) -> Value {
        json!([{"desc": name, "cmd": format!("echo ran > {name}")}])
    }

    fn ran(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }

    fn task(&self, token: &str, check: &str) -> String {
        let create = json!({"title": check, "checks": self.trap(check)});
        let made = self.call_at(GRAPH, token, "create", create).unwrap();
        made["id"].as_str().unwrap().to_owned()
    }
}

fn denied(answer: Result<Value, Value>, code: &str, says: &str) {
    let no = answer.unwrap_err();
    let (found, words) = (no["code"].as_str().unwrap(), no["message"].as_str().unwrap());
    assert!(found == code && words.contains(says), "{code}, {says}: {no}");
}

#[test]
fn a_viewer_reads_in_every_toolset_and_runs_nothing() {
    let door = door(&[]);
    let (_, boss) = token(door.folder.path(), &["--actor", "human:ana"]);
    let task = json!({"id": door.task(&boss, "trap")});
    for profile in ["viewer", "planner"] {
        let flags = ["--actor", "agent:eve", "--profile", profile, "--as-type", "SUPERVISOR"];
        let (_, eve) = token(door.folder.path(), &flags);
        let says = format!("needs profile pair_worker; yours is {profile}");
        let create = json!({"title": "mine", "checks": door.trap("mine")});
        denied(door.call_at(GRAPH, &eve, "create", create), "AUTHORIZATION_DENIED", &says);
        for tool in ["run_checks", "claim"] {
            let answer = door.call_at(GRAPH, &eve, tool, task.clone());
            denied(answer, "AUTHORIZATION_DENIED", &says);
        }
        let done = json!({"id": task["id"], "to": "done"});
        denied(door.call_at(GRAPH, &eve, "transition", done), "AUTHORIZATION_DENIED", &says);
        assert_eq!(door.call_at(GRAPH, &eve, "get", task.clone()).unwrap()["title"], "trap");
        assert!(!door.ran("trap") && !door.ran("mine"), "a {profile} ran a command");

        let listed = |toolset: &str| door.tools(&format!("/mcp/{toolset}"), &eve);
        assert_eq!(listed("graph"), ["identity", "list", "get", "get_session", "list_sessions"]);
        assert_eq!(
            listed("execution"),
            ["get_next_actionable", "search_knowledge", "get_task", "list_comments"]
        );
        assert_eq!(listed("relay"), ["jobs_get", "jobs_list"]);
        let crew = listed("crew");
        assert!(crew.contains(&"mcp__mail__list_inbox".to_owned()), "{crew:?}");
        let writes = ["mcp__mail__send", "mcp__task__create", "mcp__epic__approve_pr"];
        assert!(!crew.iter().any(|name| writes.contains(&name.as_str())), "{crew:?}");
        let inbox = door.call_at("/mcp/crew", &eve, "mcp__mail__list_inbox", json!({})).unwrap();
        assert_eq!(inbox["error"]["code"], "AGENT_NOT_FOUND", "it is not made part of a crew");
        let plans = listed("board").contains(&"propose_plan".to_owned());
        assert_eq!(plans, profile == "planner");
    }
}

#[test]
fn a_token_of_one_task_runs_no_command_of_another_and_creates_nothing() {
    let door = door(&[]);
    let (_, boss) = token(door.folder.path(), &["--actor", "human:ana"]);
    let (own, other) = (door.task(&boss, "own"), door.task(&boss, "other"));
    let (_, bound) = token(door.folder.path(), &["--actor", "agent:w1", "--task", &own]);
    let says = format!("is bound to {own} and cannot act on");
    let id = json!({"id": other});
    denied(door.call_at(GRAPH, &bound, "run_checks", id), "SESSION_SCOPE_DENIED", &says);
    let done = json!({"id": other, "to": "done"});
    denied(door.call_at(GRAPH, &bound, "transition", done), "SESSION_SCOPE_DENIED", &says);
    assert!(!door.ran("other"), "the command of another task ran");
    let create = json!({"title": "mine", "checks": door.trap("mine")});
    denied(door.call_at(GRAPH, &bound, "create", create), "SESSION_SCOPE_DENIED", "a new task");
    door.call_at(GRAPH, &bound, "run_checks", json!({"id": own})).unwrap();
    assert!(door.ran("own"), "a caller runs the checks of its own task");
}

#[test]
fn a_token_without_commands_run_writes_no_command_and_runs_those_there_are() {
    let door = door(&[]);
    let (_, boss) = token(door.folder.path(), &["--actor", "human:ana"]);
    let task = door.task(&boss, "there");
    let flags = ["--actor", "agent:w1", "--scopes", "tasks:read,tasks:write"];
    let (_, narrow) = token(door.folder.path(), &flags);
    let create = json!({"title": "mine", "checks": door.trap("mine")});
    let says = "scope commands:run";
    denied(door.call_at(GRAPH, &narrow, "create", create), "AUTHORIZATION_DENIED", says);
    let add = json!({"title": "mine", "checks": door.trap("mine")});
    let added = door.call_at("/mcp/execution", &narrow, "add_task", add);
    denied(added, "auth.insufficient_scope", says);
    let manual = json!({"title": "mine", "checks": [{"desc": "looks right"}]});
    let mine = door.call_at(GRAPH, &narrow, "create", manual).unwrap();
    let update = json!({"id": mine["id"], "checks": door.trap("mine")});
    denied(door.call_at(GRAPH, &narrow, "update", update), "AUTHORIZATION_DENIED", says);
    door.call_at(GRAPH, &narrow, "run_checks", json!({"id": task})).unwrap();
    assert!(door.ran("there") && !door.ran("mine"));
}
