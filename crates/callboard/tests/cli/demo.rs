//! `callboard demo` as a fixture: the scene that it leaves fills every screen, and a person can act on all of it.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::{Ran, World};

/// A demo that stays, in the folder `demo` of a world.
struct Demo<'w> {
    world: &'w World,
}

impl Demo<'_> {
    fn run(&self, arguments: &[&str]) -> Ran {
        self.world.run_in(&self.world.root().join("demo"), arguments)
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let said = self.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&said).expect("one JSON document")
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let said = self.ok(&["call", tool, &arguments.to_string(), "--toolsets", "all"]);
        serde_json::from_str(&said).expect("one JSON document")
    }
}

fn items<'v>(list: &'v Value, key: &str) -> Vec<&'v Value> {
    let list = list[key].as_array().unwrap_or_else(|| panic!("{key} of {list}"));
    list.iter().collect()
}

#[test]
fn the_demo_fills_every_screen() {
    let world = World::bare();
    let (mut running, first) = world.start(&["demo", "--pace", "0", "--stay", "--dir", "demo"]);
    assert!(first.starts_with("watch the board at http://127.0.0.1:"), "{first}");
    running.until("4 of 4 tasks are done");
    running.until("the board stands");
    let demo = Demo { world: &world };

    let tasks = demo.json(&["task", "list"]);
    let tasks = items(&tasks, "items");
    let task = |title: &str| -> &Value {
        tasks.iter().find(|task| task["title"] == title).unwrap_or_else(|| panic!("{title}"))
    };
    for (title, status, is_ready) in [
        ("Escape control characters in names", "backlog", true),
        ("Announce version 1.0", "backlog", false),
        ("Draw a logo", "in_progress", true),
        ("Greet in three languages", "in_review", true),
        ("Greet by telephone", "canceled", true),
        ("Write greet.sh", "done", true),
    ] {
        let seen = task(title);
        assert_eq!((&seen["status"], &seen["ready"]), (&json!(status), &json!(is_ready)), "{seen}");
    }
    for (condition, title) in [
        ("active", "Greet the world for an empty name in quotes"),
        ("stalled", "Measure how fast it greets"),
    ] {
        let found = demo.call("list", &json!({"execution": condition}));
        let titles: Vec<&Value> =
            items(&found, "tasks").iter().map(|task| &task["title"]).collect();
        assert!(titles.contains(&&json!(title)), "{condition}: {titles:?}");
    }
    let next = demo.json(&["next"]);
    assert_eq!(next["items"][0]["title"], "Escape control characters in names");
    let failing = task("Greet the world for an empty name in quotes");
    assert_eq!(failing["checks"][0]["result"], "fail", "{failing}");
    let epic = &demo.json(&["epic", "list"])["items"][0];
    assert_eq!((&epic["title"], &epic["state"]), (&json!("Greetings 1.0"), &json!("IN_PROGRESS")));
    let parts: Vec<_> = tasks.iter().filter(|task| task["parent"] == epic["id"]).collect();
    let done = parts.iter().filter(|task| task["status"] == "done").count();
    assert!(done == 4 && parts.len() > done, "{done} of {}", parts.len());

    let status = demo.json(&["status"]);
    let counts = ["reviews", "questions", "failed"].map(|key| items(&status, key).len());
    assert_eq!(counts, [3, 1, 1], "{status}");
    assert_eq!(demo.json(&["plan", "list"])["items"][0]["state"], "draft");
    let mail = demo.json(&["mail", "list"]);
    assert!(items(&mail, "items").iter().all(|mail| mail["isRead"] == false), "{mail}");
    assert_eq!(items(&mail, "items").len(), 2);
    assert!(demo.ok(&["search", "shell tests"]).contains("any POSIX shell"));
    assert!(demo.ok(&["decisions"]).contains("Words live in files"));

    let conflict = task("Shorten the README")["id"].as_str().expect("an id");
    assert!(demo.ok(&["review", conflict]).contains("conflict"), "{conflict}");
    let review = task("Greet in three languages")["id"].as_str().expect("an id");
    let diff = demo.ok(&["diff", review]);
    assert!(diff.matches("diff --git ").count() >= 5, "{diff}");

    // Everything that waits for a person can be acted on.
    demo.ok(&["check", "attest", review, "1"]);
    demo.ok(&["approve", review, "--merge"]);
    assert_eq!(demo.json(&["task", "show", review])["status"], "done");
    let job = status["questions"][0]["job"].as_str().expect("a job");
    demo.ok(&["job", "answer", job, "yes"]);
    let publish = task("Publish version 1.0")["id"].clone();
    let wait = json!({"task_id": publish, "wait_for_status": ["REVIEW"], "timeout_seconds": 60});
    assert_eq!(demo.call("tasks_wait", &wait)["current_status"], "REVIEW");
    let plan = demo.json(&["plan", "list"])["items"][0]["id"].clone();
    demo.ok(&["plan", "approve", plan.as_str().expect("a plan")]);
    assert!(demo.ok(&["open", "--print"]).starts_with("http://127.0.0.1:"));

    assert_eq!(running.signal(Signal::TERM), 0);
    assert_eq!(demo.json(&["doctor"])["ok"], true, "the folder stays");
}

#[test]
fn a_demo_writes_over_nothing() {
    let world = World::bare();
    world.write(&world.root().join("mine/notes.txt"), "mine");
    let refused = world.run(&["demo", "--pace", "0", "--dir", "mine", "--json"]);
    assert_eq!((refused.code, refused.error_code()), (5, "FOLDER_NOT_EMPTY".into()));
    let entries = std::fs::read_dir(world.root().join("mine")).expect("a folder");
    assert_eq!(entries.count(), 1);
    assert_eq!(world.run(&["demo", "--stay", "--once"]).code, 2);
}

/// The database of a demo lies in its folder. An open database whose file goes is an error, which every reader of a log
/// would look into.
#[test]
fn a_demo_ends_without_a_complaint_and_leaves_nothing() {
    let world = World::bare();
    let kept = world.root().join("tmp");
    std::fs::create_dir(&kept).expect("a folder");
    let mut command = world.command(&world.root(), &["demo", "--pace", "0", "--once"]);
    let ended = command.env("TMPDIR", &kept).output().expect("the binary starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(!said.contains("ERROR") && !said.contains("database"), "{said}");
    let left: Vec<_> = std::fs::read_dir(&kept).expect("a folder").collect();
    assert!(left.is_empty(), "{left:?}");
}
