//! The pages of agents on a real server: who works on what, one actor, and the forms that stop an agent and write to it.

use std::path::Path;

use serde_json::{Value, json};

use crate::http::Server;
use crate::pages::{browser, session};
use crate::peer::{board, command};
use crate::web::{HERE, cli};

pub const HOSTILE: &str = "<script>alert(1)</script>";

/// A signed-in person at the pages of a board.
pub struct Visitor {
    pub server: Server,
    pub cookie: String,
}

/// An answer: its status, its redirect, its text.
pub struct Answer {
    pub status: u16,
    pub to: String,
    pub text: String,
}

impl Visitor {
    pub fn of(folder: &Path) -> Self {
        let server = Server::start(folder);
        Self { server, cookie: session(folder) }
    }

    pub fn get(&self, path: &str) -> Answer {
        let request = browser().get(format!("{}{path}", self.server.url));
        answer(request.header("Cookie", &self.cookie).call().unwrap())
    }

    pub fn post(&self, path: &str, form: &[(&str, &str)]) -> Answer {
        let request = browser().post(format!("{}{path}", self.server.url));
        let request = request.header("Cookie", &self.cookie).header(HERE.0, HERE.1);
        answer(request.send_form(form.iter().copied()).unwrap())
    }
}

fn answer(mut response: ureq::http::Response<ureq::Body>) -> Answer {
    let to = response.headers().get("location").map(|to| to.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    Answer {
        status,
        to: to.unwrap_or_default(),
        text: response.body_mut().read_to_string().unwrap(),
    }
}

/// A tool's answer to this actor.
pub fn call(folder: &Path, who: &str, tool: &str, arguments: &Value) -> Value {
    let arguments = arguments.to_string();
    let output = command(folder).args(["--actor", who, "call", tool, &arguments]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn add(folder: &Path, title: &str, more: &[&str]) -> String {
    let added = cli(folder, &[&["task", "add", title], more].concat());
    added["id"].as_str().unwrap().to_owned()
}

#[test]
fn agents_are_shown_with_their_attempts() {
    let folder = board();
    let at = folder.path();
    let visitor = Visitor::of(at);
    assert!(visitor.get("/agents").text.contains("Nobody has worked here yet"));
    cli(at, &["agent", "add", "boss", "--type", "SUPERVISOR"]);
    let (live, over) = (add(at, HOSTILE, &[]), add(at, "Over", &[]));
    for (who, task) in [("agent:w1", &live), ("agent:w2", &over)] {
        call(at, who, "claim_task", &json!({"taskId": task, "leaseSec": 600}));
    }
    call(at, "agent:w2", "complete_task", &json!({"taskId": over, "output": "done"}));
    let begin = json!({"taskId": live, "status": "in_progress"});
    call(at, "agent:w1", "update_task_status", &begin);

    let page = visitor.get("/agents").text;
    for words in
        ["BUSY", "IDLE", "SUPERVISOR", "Write to boss", "/agents/w1", "1 agent at work", "P-1"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert!(page.contains("&lt;script&gt;") && !page.contains(HOSTILE), "{page}");
    assert!(!page.contains("style="), "measures are attributes of the picture: {page}");
    let bars = |page: &str| page.matches("class=\"bar-body\"").count();
    assert_eq!((bars(&page), page.matches("class=\"ahead\"").count()), (2, 1), "{page}");
    for path in ["/agents?span=3d", "/agents?span=9y&until=soon"] {
        assert_eq!(bars(&visitor.get(path).text), 2, "{path}");
    }
    let past = visitor.get("/agents?span=1h&until=2001-01-01T00:00:00Z").text;
    assert!(past.contains("No attempt in these 1 h") && past.contains(">Now<"), "{past}");
}

#[test]
fn an_actor_is_written_to_and_a_refused_form_changes_nothing() {
    let folder = board();
    let at = folder.path();
    let visitor = Visitor::of(at);
    let task = add(at, "Paint", &[]);
    call(at, "agent:w1", "claim_task", &json!({"taskId": task, "leaseSec": 600}));
    let page = visitor.get("/agents/w1").text;
    assert!(page.contains("Stop its agent") && page.contains("Write about its task"), "{page}");
    // The agent connected by itself: the board has no process that it could end.
    for path in ["/agents/w1", "/tasks/P-1"] {
        let page = visitor.get(path).text;
        assert!(page.contains("its agent connected by itself"), "{path}: {page}");
        assert!(!page.contains("/stop\""), "{path}: {page}");
    }
    let once = page.split("name=\"once\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    for _ in 0..2 {
        let form = [("once", once), ("task", "P-1"), ("text", HOSTILE)];
        let told = visitor.post("/agents/w1/tell", &form);
        assert_eq!((told.status, told.to.as_str()), (303, "/agents/w1"), "{}", told.text);
    }
    let events = || {
        let log = command(at).args(["log", "--json"]).output().unwrap();
        String::from_utf8(log.stdout).unwrap()
    };
    let before = events();
    assert_eq!(before.matches("task.told").count(), 1, "a form that is sent twice acts once");
    for (verb, form, status, words) in [
        ("stop", &[("task", "P-1")][..], 403, "no agent"),
        ("tell", &[("task", "P-1"), ("text", " ")], 400, "blank"),
        ("tell", &[("task", "P-9"), ("text", "a")], 404, "not found"),
        ("eat", &[("task", "P-1")], 400, "use its buttons"),
    ] {
        let refused = visitor.post(&format!("/agents/w1/{verb}"), form);
        assert_eq!(refused.status, status, "{verb}: {}", refused.text);
        assert!(refused.text.contains("Nothing was changed"), "{verb} {words}: {}", refused.text);
    }
    assert_eq!(events(), before);
    assert_eq!(visitor.get("/agents/a%20b").status, 404);
    let quiet = visitor.get("/agents/nobody").text;
    assert!(quiet.contains("None in these 3 d") && !quiet.contains("Stop its agent"), "{quiet}");
}

#[test]
fn an_agent_joins_and_leaves_the_crew_by_forms() {
    let folder = board();
    let at = folder.path();
    let visitor = Visitor::of(at);
    add(at, "An epic", &[]);
    let crew = || cli(at, &["agent", "list"])["items"].as_array().unwrap().len();
    for (form, status) in [
        (&[("name", "a b"), ("kind", "WORKER")][..], 400),
        (&[("name", "boss"), ("kind", "KING")], 400),
        (&[("name", "boss"), ("kind", "SUPERVISOR"), ("epic", "P-9")], 404),
    ] {
        let refused = visitor.post("/agents", form);
        assert_eq!(refused.status, status, "{}", refused.text);
        assert!(refused.text.contains("Nothing was changed"), "{}", refused.text);
        assert!(refused.text.contains(&format!("value=\"{}\"", form[0].1)), "what was typed stays");
    }
    assert_eq!(crew(), 0);
    let form = [("once", "k1"), ("name", "helper"), ("kind", "WORKER"), ("epic", "")];
    for _ in 0..2 {
        let added = visitor.post("/agents", &form);
        assert_eq!((added.status, added.to.as_str()), (303, "/agents/helper"), "{}", added.text);
    }
    assert_eq!(crew(), 1, "a form that is sent twice acts once");
    let page = visitor.get("/agents/helper").text;
    assert!(page.contains("popovertarget=\"remove\"") && page.contains("stay in the record"));
    let removed = visitor.post("/agents/helper/remove", &[("once", "k2")]);
    assert_eq!((removed.status, removed.to.as_str()), (303, "/agents"), "{}", removed.text);
    assert_eq!(crew(), 0);
    let gone = visitor.post("/agents/helper/remove", &[("once", "k3")]);
    assert_eq!(gone.status, 404, "{}", gone.text);
}
