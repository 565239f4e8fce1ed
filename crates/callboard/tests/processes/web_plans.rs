//! Plans on a real server: a person reads what is proposed, says yes or puts the plan away with a message.

use std::path::Path;

use serde_json::{Value, json};

use crate::http::Server;
use crate::pages::session_of;
use crate::peer::{board, command};
use crate::tokens::token;
use crate::web::cli;
use crate::web_agents::{HOSTILE, Visitor, add, call};

fn propose(folder: &Path, who: &str) -> String {
    let tasks = json!([
        {"title": HOSTILE, "type": "AUTO", "acceptance_criteria": ["no test sleeps"], "priority": "high"},
        {"title": "Queue", "type": "PAIR", "description": "A heap."},
    ]);
    let todos = json!([{"content": "Read the code", "status": "completed"}]);
    let plan = call(folder, who, "propose_plan", &json!({"tasks": tasks, "todos": todos}));
    plan["plan_id"].as_str().unwrap().to_owned()
}

fn count(folder: &Path) -> usize {
    cli(folder, &["task", "list"])["items"].as_array().unwrap().len()
}

#[test]
fn a_plan_is_made_by_one_form() {
    let folder = board();
    let at = folder.path();
    let visitor = Visitor::of(at);
    assert!(visitor.get("/plans").text.contains("propose_plan"));
    let plan = propose(at, "agent:claude-1");
    let list = visitor.get("/plans?state=draft").text;
    assert!(list.contains(&plan) && list.contains("1 to decide"), "{list}");
    assert!(!visitor.get("/plans?state=approved").text.contains(&plan));

    assert!(visitor.get(&format!("/plans/{plan}")).text.contains("No open task has a title much"));
    let same = add(at, "The queues", &[]);
    let page = visitor.get(&format!("/plans/{plan}")).text;
    let overlap = page.split("Overlaps with").nth(1).unwrap();
    assert!(overlap.contains("The queues") && overlap.contains("#task-2"), "{overlap}");
    cli(at, &["task", "rm", &same]);
    let page = visitor.get(&format!("/plans/{plan}")).text;
    assert!(!page.contains("The queues"), "a task that is gone overlaps with nothing: {page}");
    assert!(page.contains("&lt;script&gt;") && !page.contains(HOSTILE), "{page}");
    for words in [
        "Make these 2 tasks",
        "high, agent alone",
        "medium, with a person",
        "no test sleeps",
        "Read the code",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let end = &plan[plan.len() - 8..];
    assert_eq!(visitor.get(&format!("/plans/{end}")).text.matches("Make these").count(), 1);
    assert_eq!(visitor.get("/plans/plan_0").status, 404);

    let once = page.split("name=\"once\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    for _ in 0..2 {
        let made = visitor.post(&format!("/plans/{plan}/approve"), &[("once", once)]);
        assert_eq!((made.status, made.to), (303, format!("/plans/{plan}")), "{}", made.text);
    }
    assert_eq!(count(at), 2, "a form that is sent twice acts once");
    let page = visitor.get(&format!("/plans/{plan}")).text;
    assert!(page.contains("Made of it") && page.contains("/tasks/P-2"), "{page}");
    assert!(!page.contains("method=\"post\" action=\"/plans"), "{page}");
    let late = visitor.post(&format!("/plans/{plan}/reject"), &[("text", "no")]);
    assert!(late.status == 403 && late.text.contains("Nothing was changed"), "{}", late.text);
}

#[test]
fn a_plan_is_put_away_with_one_message() {
    let folder = board();
    let at = folder.path();
    let visitor = Visitor::of(at);
    cli(at, &["agent", "add", "planner", "--type", "WORKER"]);
    let plan = propose(at, "agent:planner");
    let path = format!("/plans/{plan}/reject");
    let long = "x".repeat(20_001);
    let refused = visitor.post(&path, &[("text", &long), ("task-2", "keep me")]);
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("Nothing was changed") && refused.text.contains("keep me"));
    assert_eq!(cli(at, &["plan", "show", &plan])["state"], "draft");

    let form = [("text", "Not now."), ("task-2", "Too large.\r\nSplit it.")];
    assert_eq!(visitor.post(&path, &form).status, 303);
    assert_eq!((count(at), &cli(at, &["plan", "show", &plan])["state"]), (0, &json!("rejected")));
    let inbox: Value = cli(at, &["--actor", "agent:planner", "mail", "list"]);
    let message = "Not now.\n\n2. Queue: Too large.\nSplit it.";
    assert_eq!(inbox["items"][0]["body"], message, "{inbox}");

    // A planner without an inbox: the log has the words, from the page as from the terminal.
    let other = propose(at, "agent:outside");
    cli(at, &["plan", "reject", &other, "--message", "Ask ana first."]);
    let log = command(at).args(["log", "--json"]).output().unwrap();
    let log = String::from_utf8(log.stdout).unwrap();
    assert!(log.contains("Not now.") && log.contains("Ask ana first."), "{log}");
}

#[test]
fn a_decision_on_a_plan_and_the_crew_need_an_operator() {
    let folder = board();
    let at = folder.path();
    let plan = propose(at, "agent:claude-1");
    let (_, worker) = token(at, &["--actor", "human:wim", "--profile", "pair_worker"]);
    let (_, operator) =
        token(at, &["--actor", "human:olga", "--profile", "operator", "--lane", "kagan_admin"]);
    let server = Server::start(at);
    let cookie = session_of(&server, &worker);
    let wim = Visitor { server, cookie };
    let page = wim.get(&format!("/plans/{plan}")).text;
    assert!(page.contains("needs operator, you are pair_worker"), "{page}");
    assert!(page.contains("Make these 2 tasks") && !page.contains("action=\"/plans/"), "{page}");
    for verb in ["approve", "reject"] {
        let refused = wim.post(&format!("/plans/{plan}/{verb}"), &[("text", "mine")]);
        assert_eq!(refused.status, 403, "{verb}: {}", refused.text);
    }
    assert_eq!(wim.post("/agents", &[("name", "spy"), ("kind", "WORKER")]).status, 403);
    assert_eq!((count(at), &cli(at, &["plan", "show", &plan])["state"]), (0, &json!("draft")));
    assert_eq!(cli(at, &["agent", "list"])["items"], json!([]));
    let cookie = session_of(&wim.server, &operator);
    let olga = Visitor { cookie, ..wim };
    assert_eq!(olga.post("/agents", &[("name", "helper"), ("kind", "WORKER")]).status, 303);
    assert_eq!(olga.post(&format!("/plans/{plan}/approve"), &[]).status, 303);
    assert_eq!(count(at), 2);
}
