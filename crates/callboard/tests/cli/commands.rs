//! The command forms that scripts rely on, and ids by their beginning.

use serde_json::json;

use crate::fixture::World;

#[test]
fn a_task_from_words_to_done() {
    let world = World::project();
    let added = world.ok(&[
        "task",
        "add",
        "Add --version flag",
        "--body",
        "why",
        "--check",
        "test -f ok",
        "--check",
        "manual: reads well",
        "--priority",
        "7",
        "--json",
    ]);
    let task = added.json();
    let id = task["id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("SHOP-"), "{id}");
    assert_eq!(task["checks"][0]["cmd"], "test -f ok");
    assert_eq!(task["checks"][1]["type"], "manual");
    assert_eq!(task["checks"][1]["desc"], "reads well");

    assert_eq!(world.run(&["done", &id]).code, 6);
    world.write(&world.root().join("ok"), "");
    world.ok(&["check", "run", &id, "--only", "0"]);
    world.ok(&["check", "attest", &id, "1"]);
    world.ok(&["note", &id, "ready to go"]);
    let done = world.ok(&["done", &id, "--json"]).json();
    assert_eq!(done["status"], "done");

    let shown = world.ok(&["task", "show", &id]).stdout;
    for part in ["done", "Add --version flag", "priority  7", "why", "manual: reads well"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let log = world.ok(&["log", &id, "--json"]).json();
    let last = log["items"].as_array().and_then(|events| events.last()).expect("events").clone();
    assert_eq!(last["event"], "task.status_changed");
    assert_eq!(last["actor"], "human:ana");
    world.ok(&["task", "move", &id, "In Progress"]);
}

#[test]
fn lists_have_one_shape() {
    let world = World::project();
    let empty = |schema: &str| json!({"schema": schema, "items": [], "next": null});
    assert_eq!(world.ok(&["task", "list", "--json"]).json(), empty("callboard.task.list/1"));
    assert_eq!(world.ok(&["next", "--json"]).json(), empty("callboard.next/1"));
    let first = world.task(&["first"]);
    let second = world.task(&["second", "--dep", &first, "--priority", "1"]);
    let page = world.ok(&["task", "list", "--limit", "1", "--json"]).json();
    assert_eq!(page["next"], first);
    let rest = world.ok(&["task", "list", "--after", &first, "--json"]).json();
    assert_eq!(rest["items"][0]["id"], second);
    assert_eq!(rest["next"], json!(null));
    let next = world.ok(&["next", "--json"]).json();
    assert_eq!(next["items"][0]["id"], first);
    world.ok(&["task", "move", &first, "canceled"]);
    let open = world.ok(&["task", "list", "--open"]).stdout;
    assert_eq!(open, "SHOP-2  1  backlog  ready  -  -  second\n");
    assert_eq!(world.run(&["task", "list", "--status", "nowhere"]).code, 2);
}

#[test]
fn a_log_is_printed_and_a_missing_one_is_said_to_be() {
    let world = World::project();
    let task =
        world.task(&["a", "--check", "echo said; printf '\\303\\274b'", "--check", "manual: ok"]);
    let read = |arguments: &[&str]| world.run(&[&["check", "log", &task], arguments].concat());
    let early = read(&["0", "--json"]);
    assert_eq!((early.code, early.error_code()), (3, "CHECK_LOG_NOT_FOUND".into()));
    assert!(early.stderr.contains("has not run yet"), "{}", early.stderr);
    let ran = world.ok(&["check", "run", &task, "--json"]).json();
    let name = ran["checks"][0]["log"].as_str().expect("a log");

    let whole = read(&["0"]);
    assert_eq!((whole.code, whole.stderr.as_str()), (0, ""));
    assert_eq!(whole.stdout, std::fs::read_to_string(world.root().join(name)).expect("a file"));
    let end = read(&["0", "--tail", "2"]);
    assert_eq!(end.stdout, "b", "half a character is left out");
    assert!(end.stderr.starts_with("the last 2 of "), "{}", end.stderr);
    let json = read(&["0", "--tail", "3", "--json"]).json();
    let size = whole.stdout.len();
    assert_eq!((&json["text"], &json["size"]), (&json!("üb"), &json!(size)));
    assert_eq!((&json["start"], &json["log"]), (&json!(size - 3), &json!(name)));

    assert!(read(&["1"]).stderr.contains("is manual"));
    assert_eq!((read(&["1"]).code, read(&["2"]).code), (3, 2));
    std::fs::remove_file(world.root().join(name)).expect("a file");
    let gone = read(&["0"]);
    assert_eq!(gone.code, 3);
    assert!(gone.stderr.contains("is not on this machine"), "{}", gone.stderr);
    assert!(gone.stderr.contains("hint: callboard check run SHOP-1 "), "{}", gone.stderr);
}

#[test]
fn dependencies_edits_and_removal() {
    let world = World::project();
    let (first, second) = (world.task(&["first"]), world.task(&["second"]));
    let waits = world.ok(&["task", "dep", "add", &second, &first, "--json"]).json();
    assert_eq!((&waits["ready"], &waits["deps"][0]), (&json!(false), &json!(first)));
    assert_eq!(world.run(&["task", "dep", "add", &first, &second]).code, 5);
    world.ok(&["task", "dep", "rm", &second, &first]);
    let edit = ["task", "edit", &first, "--title", "better", "--check", "true", "--json"];
    let edited = world.ok(&edit).json();
    assert_eq!((&edited["title"], &edited["checks"][0]["cmd"]), (&json!("better"), &json!("true")));
    let bare = world.ok(&["task", "edit", &first, "--no-checks", "--json"]).json();
    assert_eq!(bare["checks"], json!([]));
    world.ok(&["claim", &first]);
    assert_eq!(world.ok(&["release", &first, "--json"]).json()["assignee"], json!(null));
    world.ok(&["task", "rm", &first]);
    assert_eq!(world.run(&["task", "show", &first]).code, 3);
}

#[test]
fn the_beginning_of_an_id_is_enough() {
    let world = World::project();
    let only = world.task(&["only"]);
    for typed in [&only[..9], "SHOP", "shop-0", &only[5..12]] {
        assert_eq!(world.ok(&["task", "show", typed, "--json"]).json()["id"], only, "{typed}");
    }
    let other = world.task(&["other"]);
    let several = world.run(&["task", "show", "SHOP-0", "--json"]);
    assert_eq!((several.code, several.error_code()), (2, "AMBIGUOUS_ID".into()));
    assert!(several.stderr.contains(&only) && several.stderr.contains(&other));
    let (known, last) = other.split_at(other.len() - 1);
    let mistyped = format!("{known}{}", if last == "0" { "1" } else { "0" });
    let near = world.run(&["task", "show", &mistyped]);
    assert_eq!(near.code, 3);
    assert!(near.stderr.ends_with("hint: did you mean SHOP-2?\n"), "{}", near.stderr);
}

#[test]
fn people_read_short_names() {
    let world = World::project();
    assert_eq!(world.ok(&["task", "add", "first"]).stdout, "SHOP-1\n");
    assert_eq!(world.ok(&["epic", "add", "second"]).stdout, "SHOP-2\n");
    let waits = world.task(&["third", "--dep", "shop-1"]);
    let refused = world.run(&["done", &waits]);
    assert_eq!(refused.code, 6);
    assert!(!refused.stderr.contains("SHOP-0"), "{}", refused.stderr);
    let json = world.run(&["done", &waits, "--json"]);
    assert!(json.stderr.contains("SHOP-0"), "JSON keeps ids: {}", json.stderr);
}

/// Every kind of id is accepted by its beginning and its end, and a mistyped one gets a hint.
#[test]
fn a_part_of_every_kind_of_id_is_enough() {
    let world = World::project();
    let text = |ran: crate::fixture::Ran, key: &str| ran.json()[key].as_str().unwrap().to_owned();
    world.ok(&["agent", "add", "worker-amber", "--type", "WORKER"]);
    let task = world.task(&["Add b", "--check", "true"]);
    let plan = json!({"tasks": [{"title": "x", "type": "PAIR", "description": "y",
        "acceptance_criteria": ["z"], "priority": "medium"}]});
    let planner = ["--toolsets", "board", "--actor", "agent:p1"];
    world.ok(&[&["call", "propose_plan", &plan.to_string()][..], &planner].concat());
    let plans = world.ok(&["plan", "list", "--json"]).json();
    let mail = text(world.ok(&["mail", "send", "human", "Hello", "you", "--json"]), "mailId");
    let token = text(world.ok(&["token", "add", "--actor", "agent:ci", "--json"]), "id");
    let known = text(world.ok(&["learn", "Tea first", "--json"]), "id");
    let asks = json!({"task_id": task, "summary": "done"}).to_string();
    world.ok(&["call", "request_review", &asks, "--toolsets", "board"]);
    let jobs = world.ok(&["job", "list", "--json"]).json();
    let job = jobs["others"][0]["id"].as_str().expect("a job").to_owned();
    let plan = plans["items"][0]["id"].as_str().expect("a plan").to_owned();
    let kinds: [(&[&str], &str, &str); 6] = [
        (&["job", "show"], &job, "JOB_NOT_FOUND"),
        (&["plan", "show"], &plan, "PLAN_NOT_FOUND"),
        (&["mail", "read"], &mail, "MAIL_NOT_FOUND"),
        (&["token", "revoke"], &token, "TOKEN_NOT_FOUND"),
        (&["agent", "show"], "worker-amber", "AGENT_NOT_FOUND"),
        (&["learn", "Tea second", "--supersedes"], &known, "KNOWLEDGE_NOT_FOUND"),
    ];
    for (command, id, not_found) in kinds {
        let (beginning, end) = (&id[..id.len() - 2], &id[id.len() - 5..]);
        for part in [beginning.to_owned(), end.to_owned(), end.to_ascii_uppercase()] {
            world.ok(&[command, &[part.as_str()]].concat());
        }
        let at = id.len() - 4;
        let other = if &id[at..=at] == "x" { "y" } else { "x" };
        let mistyped = format!("{}{other}{}", &id[..at], &id[at + 1..]);
        let part = &mistyped[..mistyped.len() - 1];
        let near = world.run(&[command, &[part, "--json"]].concat());
        assert_eq!((near.code, near.error_code()), (3, not_found.into()), "{part}");
        assert!(near.stderr.contains(&format!("did you mean {id}?")), "{}", near.stderr);
        assert_eq!(world.run(&[command, &[""]].concat()).code, 3, "{command:?}");
    }
    let end = &job[job.len() - 5..];
    let canceled = world.ok(&["job", "cancel", end]).stdout;
    assert_eq!(canceled, "CANCELED\n");
    let logs = world.run(&["logs", end]).stderr;
    assert!(logs.contains("it has no agent"), "a job where a task is expected first: {logs}");
}

#[test]
fn the_end_of_an_id_is_enough_too() {
    let world = World::project();
    let task = world.task(&["by its end"]);
    let shown = world.ok(&["task", "show", &task[task.len() - 8..], "--json"]);
    assert_eq!(shown.json()["id"], task);
}

#[test]
fn the_demo_plays_to_its_end_and_leaves_nothing() {
    let world = World::bare();
    let played = world.ok(&["demo", "--pace", "0"]);
    assert!(played.stdout.contains("4 of 4 tasks are done"), "{}", played.stdout);
    assert!(played.stderr.contains("CHECKS_NOT_PASSED"), "{}", played.stderr);
    assert!(!world.callboard("callboard.db").exists());
    let marks = std::fs::read_dir(world.home().join(".local/share/callboard/trusted"));
    assert_eq!(marks.map_or(0, Iterator::count), 0, "a mark of trust is left");
}

#[test]
fn any_tool_can_be_called() {
    let world = World::project();
    let made = world.ok(&["call", "create", r#"{"title": "by tool"}"#, "--actor", "agent:x"]);
    assert_eq!(made.json()["provenance"][0]["who"], "agent:x");
    let who = world.ok(&["call", "identity"]).json();
    assert_eq!((&who["actor"], &who["project"]), (&json!("human:ana"), &json!("SHOP")));
    let unknown = world.run(&["call", "lst"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("did you mean list?"), "{}", unknown.stderr);
    assert_eq!(world.run(&["call", "list", "{"]).code, 2);
    assert_eq!(world.run(&["call", "list", "{}", "--toolsets", "nope"]).code, 2);
    let refused = world.run(&["call", "get", r#"{"id": "SHOP-404"}"#, "--json"]);
    assert_eq!((refused.code, refused.error_code()), (3, "TASK_NOT_FOUND".into()));
    assert_eq!(refused.stdout, "");
}

#[test]
fn the_actor_is_the_flag_the_variable_or_the_login() {
    let world = World::project().with("CALLBOARD_ACTOR", "agent:env");
    assert_eq!(world.ok(&["call", "identity"]).json()["actor"], "agent:env");
    let flag = world.ok(&["call", "identity", "--actor", "agent:flag"]).json();
    assert_eq!(flag["actor"], "agent:flag");
    let odd = World::project().with("USER", "Ana María");
    assert_eq!(odd.ok(&["call", "identity"]).json()["actor"], "human:Ana-Mar-a");
}

#[test]
fn the_doctor_names_the_fix() {
    let world = World::project();
    let well = world.ok(&["doctor", "--json"]).json();
    assert_eq!(well["ok"], true);
    let names: Vec<&str> = well["checks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|c| c["name"].as_str())
        .collect();
    for name in ["git", "sandbox", "project", "config", "disk", "port", "database", "mcp"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let growth = well["checks"].as_array().into_iter().flatten().find(|c| c["name"] == "growth");
    let figures = growth.and_then(|growth| growth["figures"].as_array()).expect("figures");
    assert_eq!(figures[0]["kind"], "events");
    assert_eq!(figures[0]["removable"], json!(null), "everything is kept unless it is set");
    let nowhere = World::git().run(&["doctor"]);
    assert_eq!(nowhere.code, 1);
    assert!(nowhere.stdout.contains("fix: callboard init"), "{}", nowhere.stdout);
    world.write(&world.callboard("config.toml"), "[graph]\nprefx = \"X\"\n");
    let broken = world.run(&["doctor"]);
    assert_eq!(broken.code, 1);
    assert!(broken.stdout.contains("did you mean 'graph.prefix'"), "{}", broken.stdout);
    world.write(&world.callboard("config.toml"), "");
    world.write(&world.callboard("config.local.toml"), "[retention]\nevents_days = 0\n");
    let at_once = world.run(&["doctor"]);
    assert!(at_once.stdout.contains("must be unlimited or at least 1"), "{}", at_once.stdout);
    world.write(&world.callboard("config.local.toml"), "[retention]\nevents_days = 30\n");
    world.task(&["grows"]);
    let pruned = world.ok(&["doctor"]).stdout;
    assert!(pruned.contains("0 may go"), "{pruned}");
}

#[test]
fn colour_only_where_it_is_wanted() {
    let world = World::project();
    world.task(&["plain"]);
    assert!(!world.ok(&["task", "list"]).stdout.contains('\x1b'));
    assert!(world.ok(&["task", "list", "--color", "always"]).stdout.contains('\x1b'));
}

#[test]
fn a_webhook_secret_is_made_once_and_a_chosen_one_is_not_shown_by_config() {
    let world = World::project();
    let secret = world.ok(&["webhook", "secret", "--json"]).json()["secret"].clone();
    assert!(secret.as_str().is_some_and(|secret| secret.starts_with("whsec_")), "{secret}");
    assert_eq!(world.ok(&["webhook", "secret", "--json"]).json()["secret"], secret);
    assert_eq!(world.ok(&["webhook", "list"]).stdout, "no webhook was sent yet\n");
    world.write(
        &world.callboard("config.local.toml"),
        "[relay]\nwebhook_secret = \"whsec_c2hvcnQ=\"\n",
    );
    let refused = world.run(&["webhook", "secret"]);
    assert!(refused.stderr.contains("24 to 64 bytes"), "{}", refused.stderr);
    let chosen = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let settings = format!("[relay]\nwebhook_secret = \"{chosen}\"\n");
    world.write(&world.callboard("config.local.toml"), &settings);
    assert_eq!(world.ok(&["webhook", "secret", "--json"]).json()["secret"], chosen);
    for shown in
        [&["config"][..], &["config", "get", "relay.webhook_secret"], &["config", "--json"]]
    {
        let shown = world.ok(shown).stdout;
        assert!(shown.contains("(secret)") && !shown.contains(chosen), "{shown}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let world = World::bare();
    let folder = world.home().join("share/man");
    world.ok(&["man", folder.to_str().expect("a plain path")]);
    let page = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    assert!(page("callboard.1").contains("coding agents"), "the first page");
    assert!(page("callboard-claim.1").contains(".TH"), "a page of a command");
    assert!(page("callboard-task-add.1").contains(".TH"), "a page of a command below a group");
    assert!(!folder.join("callboard-man.1").exists());
    let page = folder.join("callboard.1");
    let in_the_way = world.run(&["man", page.to_str().expect("a plain path")]);
    assert_eq!(in_the_way.code, 1, "{}", in_the_way.stderr);
}
