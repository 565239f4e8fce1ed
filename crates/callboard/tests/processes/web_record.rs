//! The record of a board on a real server: the log of events, its export, and the numbers over days.

use std::path::Path;

use serde_json::Value;

use crate::http::Server;
use crate::pages::{browser, session};
use crate::peer::{board, command};
use crate::web::cli;

const HOSTILE: &str = "<script>alert(1)</script>";

/// A person with a browser.
pub struct Visitor {
    pub server: Server,
    pub cookie: String,
}

impl Visitor {
    pub fn of(folder: &Path) -> Self {
        let server = Server::start(folder);
        let cookie = session(folder);
        Self { server, cookie }
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        let request = browser().get(format!("{}{path}", self.server.url));
        let mut answer = request.header("Cookie", &self.cookie).call().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    }

    pub fn page(&self, path: &str) -> String {
        let (status, text) = self.get(path);
        assert_eq!(status, 200, "{path}: {text}");
        text
    }
}

fn run(folder: &Path, arguments: &[&str]) {
    let output = command(folder).env("USER", "ana").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_log_is_shown_filtered_and_exported() {
    let folder = board();
    let folder = folder.path();
    cli(folder, &["task", "add", HOSTILE]);
    cli(folder, &["task", "add", "second"]);
    run(folder, &["claim", "P-2", "--actor", "agent:w1"]);
    run(folder, &["note", "P-2", "words of a note", "--actor", "agent:w1"]);
    let visitor = Visitor::of(folder);
    let all = visitor.page("/audit");
    assert!(all.contains("&lt;script&gt;") && !all.contains(HOSTILE), "{all}");
    for part in ["task.created", "task.claimed", "task.noted", "/tasks/P-2", "id=\"e-1\""] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert!(!all.contains("words of a note"), "text of callers is not part of the list");
    let rows = |page: &str| page.matches("<tr id=\"e-").count();
    let table = [
        ("/audit?q=verb:task.created", 2),
        ("/audit?q=verb:task.+-verb:task.created+actor:w1", 2),
        ("/audit?q=-actor:w1", 2),
        ("/audit?q=task:P-1", 1),
        ("/audit?q=SECOND", 3),
        ("/audit?q=since:1h+verb:task.claimed", 1),
        ("/audit?before=2", 1),
        ("/audit?q=verb:no.such", 0),
        ("/audit?q=task:P-9", 0),
    ];
    for (path, count) in table {
        let page = visitor.page(path);
        assert_eq!(rows(&page), count, "{path}: {page}");
    }
    let hints = [
        ("verb:no.such", "No event matches"),
        ("task:P-9", "No task has the name P-9"),
        ("since:long", "since takes a span"),
        ("colour:red", "colour: is no key"),
        ("phase:review", "Events are found by words"),
        ("-task:P-1", "take no minus"),
    ];
    for (filter, hint) in hints {
        let page = visitor.page(&format!("/audit?q={filter}"));
        assert!(page.contains(hint), "{filter}: {page}");
    }
    assert_eq!(visitor.get("/audit?before=x").0, 400);
    assert_eq!(visitor.get("/audit.ndjson?q=task:P-9").0, 400);
    let lines = visitor.page("/audit.ndjson?q=actor:w1");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["task.noted", "task.claimed"], "the newest first");
    let printed = cli(folder, &["log"]);
    let printed = printed["items"].as_array().unwrap();
    assert!(printed.contains(&lines[0]), "the export is what callboard log prints: {lines:?}");
    let decisions = visitor.page("/decisions");
    assert!(decisions.contains("href=\"/audit\"") && decisions.contains("Refused calls"));
}

#[test]
fn refused_calls_are_counted_under_the_filter() {
    let folder = board();
    let folder = folder.path();
    cli(folder, &["task", "add", "first"]);
    let count = |page: &str| {
        let tab = page.split("Refused calls <span class=\"faint\">").nth(1).unwrap();
        tab.split('<').next().unwrap().to_owned()
    };
    let visitor = Visitor::of(folder);
    assert_eq!(count(&visitor.page("/audit")), "0");
    for who in ["agent:w1", "agent:w1", "agent:w2"] {
        let call =
            ["--actor", who, "call", "tasks_move", "{\"task_id\": \"P-9\", \"status\": \"DONE\"}"];
        command(folder).args(call).output().unwrap();
    }
    for (path, number) in [
        ("/audit", "3"),
        ("/audit?q=actor:w1", "2"),
        ("/audit?q=actor:w1+verb:task.", "2"),
        ("/audit?q=-actor:w1+since:1h", "1"),
        ("/audit?q=verb:call.refused", "3"),
        ("/audit?q=task:P-9", "0"),
        ("/decisions", "3"),
    ] {
        assert_eq!(count(&visitor.page(path)), number, "{path}");
    }
    let page = visitor.page("/audit?q=actor:w1+verb:call.refused");
    assert_eq!(page.matches("<tr id=\"e-").count(), 2, "{page}");
    assert!(page.contains("aria-current=\"page\">Refused calls"), "{page}");
    assert!(page.contains("href=\"/audit?q=actor:w1\">Events"), "{page}");
}

#[test]
fn the_log_goes_on_by_numbers() {
    let folder = board();
    let folder = folder.path();
    for n in 1..=51 {
        cli(folder, &["task", "add", &format!("task {n}")]);
        run(folder, &["claim", &format!("P-{n}")]);
    }
    let visitor = Visitor::of(folder);
    let page = visitor.page("/audit");
    assert!(page.contains("id=\"log\" data-live"), "{page}");
    assert_eq!(page.matches("<tr id=\"e-").count(), 100);
    assert!(page.contains("href=\"/audit?before=3\">Older, below 3<"), "{page}");
    let older = visitor.page("/audit?before=3");
    assert_eq!(older.matches("<tr id=\"e-").count(), 2);
    assert!(!older.contains("Older, below") && !older.contains("id=\"log\" data-live"), "{older}");
}

#[test]
fn numbers_follow_the_log_and_charts_need_ten_closed_tasks() {
    let folder = board();
    let folder = folder.path();
    let finish = |n: usize| {
        cli(folder, &["task", "add", &format!("task {n}"), "--check", "manual: looks well"]);
        let name = format!("P-{n}");
        run(folder, &["claim", &name, "--actor", "agent:w1"]);
        run(folder, &["check", "attest", &name, "0"]);
        run(folder, &["done", &name, "--actor", "agent:w1"]);
    };
    (1..=9).for_each(finish);
    let visitor = Visitor::of(folder);
    let few = visitor.page("/stats");
    assert!(few.contains("<strong>9</strong>") && few.contains("<strong>100 %</strong>"), "{few}");
    assert!(!few.contains("class=\"plot\"") && few.contains("Charts appear with 10"), "{few}");
    finish(10);
    let many = visitor.page("/stats?span=7d");
    assert_eq!(many.matches("<svg class=\"plot\"").count(), 7, "{many}");
    assert!(many.contains("10 tasks were closed.") && many.contains("As a table"), "{many}");
    assert!(many.contains("First-try pass</dt><dd><strong>100 %</strong>"), "{many}");
    assert!(many.contains("a day; 0 late claims"), "{many}");
    assert!(many.contains("href=\"/stats?span=7d\" aria-current=\"page\""), "{many}");
}

#[test]
fn numbers_are_broken_down_by_agent_and_epic() {
    let folder = board();
    let folder = folder.path();
    cli(folder, &["epic", "add", "Big <b> one"]);
    cli(folder, &["task", "add", "part", "--parent", "P-1"]);
    cli(folder, &["task", "add", "alone"]);
    for (task, agent) in [("P-2", "agent:w1"), ("P-3", "agent:w2")] {
        run(folder, &["claim", task, "--actor", agent]);
        run(folder, &["done", task, "--actor", agent]);
    }
    let visitor = Visitor::of(folder);
    let rows = |page: &str| page.matches("<tr><td>").count();
    let page = visitor.page("/stats?by=agent&span=7d");
    assert!(page.contains("href=\"/agents/w1\"") && page.contains("href=\"/agents/w2\""), "{page}");
    assert_eq!(rows(&page), 2, "{page}");
    let page = visitor.page("/stats?by=epic");
    assert!(page.contains("Big &lt;b&gt; one") && page.contains("no epic"), "{page}");
    assert!(
        page.contains("href=\"/stats?span=7d&amp;by=epic\""),
        "a span keeps the choice: {page}"
    );
    let empty = visitor.page("/audit?q=actor:w1+verb:task.claimed+since:1d+nothing-like-it");
    assert!(empty.contains("No event matches"), "{empty}");
    assert!(empty.contains("href=\"/audit?q=actor:w1%20verb:task.claimed%20since:1d\""), "{empty}");
}
