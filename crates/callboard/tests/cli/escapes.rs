//! Text of agents has no effect on a terminal.

use serde_json::json;

use crate::fixture::World;
use crate::terminal::Terminal;

/// Fills the clipboard, hides the following text, reverses it, and clears the screen.
const HOSTILE: &str = "x\u{1b}]52;c;eA==\u{7}\u{1b}[8mhid\u{202e}den\u{1b}[2J\u{9b}1m";

/// Commands that print no text of agents, serve other programs, or run until they are stopped.
const EXEMPT: [&str; 18] = [
    "bench",
    "completions",
    "config",
    "demo",
    "doctor",
    "help",
    "init",
    "mcp",
    "migrate",
    "model",
    "open",
    "restore",
    "run",
    "serve",
    "token",
    "trust",
    "up",
    "worker",
];

#[test]
fn no_command_lets_a_terminal_obey_an_agent() {
    let world = World::project();
    world.run_git(&world.root(), &["commit", "-q", "--allow-empty", "-m", "first"]);
    let hostile = json!(HOSTILE);
    let call = |tool: &str, toolset: &str, arguments: serde_json::Value| {
        let arguments = arguments.to_string();
        let words = ["call", tool, &arguments, "--toolsets", toolset, "--actor", "agent:evil"];
        world.ok(&words).json()
    };
    let check = format!("printf '%s' '{HOSTILE}'; false");
    let created = json!({
        "title": hostile, "body": hostile, "checks": [{"desc": hostile, "cmd": check}],
    });
    let id = call("create", "graph", created)["id"].as_str().expect("an id").to_owned();
    call("note", "graph", json!({"id": id, "text": hostile}));
    call("update_scratchpad", "board", json!({"task_id": id, "content": hostile}));
    let task = json!({
        "title": hostile, "type": "PAIR", "description": hostile,
        "acceptance_criteria": [hostile], "priority": "low",
    });
    let plan = call("propose_plan", "board", json!({"tasks": [task]}));
    let plan = plan["plan_id"].as_str().expect("a plan").to_owned();
    let mail = json!({"toHuman": true, "subject": hostile, "body": hostile});
    call("mcp__mail__send", "crew", mail);
    let mails = world.ok(&["mail", "list", "--human", "--json"]).json();
    let mail = mails["items"][0]["id"].as_str().expect("a mail").to_owned();
    world.ok(&["learn", HOSTILE, "--body", HOSTILE, "--actor", "agent:evil"]);
    let settings = json!({"task_id": id, "terminal_backend": "vscode"});
    call("tasks_update", "board", settings);
    call("sessions_create", "board", json!({"task_id": id}));
    let place = world.callboard("worktrees").join(&id);
    world.write(&place.join("file"), HOSTILE);
    call("request_review", "board", json!({"task_id": id, "summary": hostile}));

    let epic = world.ok(&["epic", "add", HOSTILE, "--json"]).json();
    let epic = epic["id"].as_str().expect("an epic").to_owned();
    let jobs = world.ok(&["job", "list", "--json"]).json();
    let job = jobs["others"][0]["id"].as_str().expect("a job").to_owned();
    let backup = world.home().join("backup.db");
    let backup = backup.to_str().expect("a path");
    let got = json!({"id": id}).to_string();
    let named =
        |title: &str| json!({"reference": "r", "title": title, "body": HOSTILE}).to_string();
    world.write(&world.root().join("plan.jsonl"), &named("Fine"));
    world.write(&world.root().join("hostile.jsonl"), &named(HOSTILE));
    let commands: &[&[&str]] = &[
        &["task", "list"],
        &["task", "show", &id],
        &["next"],
        &["status"],
        &["gc"],
        &["review"],
        &["review", &id],
        &["log"],
        &["log", &id],
        &["plan", "list"],
        &["plan", "show", &plan],
        &["mail", "list", "--human"],
        &["mail", "read", &mail],
        &["mail", "reply", &mail, HOSTILE],
        &["search", "x"],
        &["learn", HOSTILE],
        &["decisions"],
        &["agent", "list"],
        &["agent", "show", "evil"],
        &["epic", "list"],
        &["task", "show", &epic],
        &["diff", &id],
        &["diff", &id, "--stat"],
        &["job", "list", "--all"],
        &["job", "show", &job],
        &["logs", &id],
        &["stop", &id],
        &["check", "run", &id],
        &["check", "log", &id, "0"],
        &["call", "get", &got],
        &["pull", "list"],
        &["webhook", "list"],
        &["wait", &id, "--for", HOSTILE, "--timeout", "1s"],
        &["tell", &id, HOSTILE],
        &["block", &id, "-m", HOSTILE],
        &["status"],
        &["unblock", &id],
        &["note", &id, HOSTILE],
        &["reject", &id, "-m", HOSTILE],
        &["rebase", &id],
        &["release", &id, "--force"],
        &["claim", &id],
        &["hook", "status-line", "--client", "claude", "--actor", "human:ana"],
        &["release", HOSTILE],
        &["approve", &id],
        &["done", &id],
        &["plan", "approve", &plan],
        &["export", "-", "--format", "md"],
        &["export", "-", "--format", "jsonl"],
        &["export", "-", "--format", "html"],
        &["import", "plan.jsonl", "--dry-run"],
        &["import", "hostile.jsonl", "--dry-run"],
        &["import", HOSTILE],
        &["backup", backup],
    ];
    for words in commands {
        let shown = Terminal::run(&world, 80, words);
        let obeyed = |c: char| c != '\n' && c != '\t' && (c.is_control() || c == '\u{202e}');
        assert!(!shown.contains(obeyed), "{words:?}: {shown:?}");
        assert!(!shown.is_empty(), "{words:?} printed nothing");
    }
    let help = world.ok(&["--help"]).stdout;
    let listed = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for command in listed.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())) {
        let is_tried = commands.iter().any(|words| words[0] == command);
        let is_known = is_tried || EXEMPT.contains(&command) || command == "callboard";
        assert!(is_known, "{command} is not tried");
    }
}
