//! A backlog comes onto the board once, and goes out again as it came.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::backlogs::{BACKLOG_1, BACKLOG_2, BEADS, PLAN, TASK_MASTER, VIBE, VIBE_EXPORT};
use crate::fixture::{Ran, World};

fn titles(world: &World) -> Vec<String> {
    let tasks = world.ok(&["task", "list", "--json"]).json();
    let items = tasks["items"].as_array().expect("items").iter();
    items.map(|item| item["title"].as_str().expect("a title").to_owned()).collect()
}

/// The tasks as export shows them, without the lines' order.
fn exported(world: &World) -> Vec<Value> {
    let text = world.ok(&["export", "-", "--format", "jsonl", "--closed"]).stdout;
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn import(world: &World, arguments: &[&str]) -> Ran {
    world.ok(&[&["import"][..], arguments, &["--yes", "--json"]].concat())
}

#[test]
fn a_plan_of_checkboxes_is_previewed_and_comes_once() {
    let world = World::project();
    world.write(&world.root().join("plan.md"), PLAN);
    for arguments in [&["import", "plan.md"][..], &["import", "plan.md", "--dry-run"]] {
        let seen = world.ok(arguments);
        assert!(
            seen.stdout.contains("+ Add login  (markdown:plan.md#add-login)\n"),
            "{}",
            seen.stdout
        );
        assert!(
            seen.stdout.ends_with("3 new, 0 changed, 0 known, 1 closed left out\n"),
            "{}",
            seen.stdout
        );
        assert!(seen.stderr.contains("--yes imports"), "{}", seen.stderr);
    }
    assert!(titles(&world).is_empty());
    let done = import(&world, &["plan.md"]).json();
    assert_eq!(done["made"].as_array().map(Vec::len), Some(3), "{done}");
    assert_eq!(titles(&world), ["Add login", "Add logout", "Add login"]);
    let login = &exported(&world)[0];
    assert_eq!(login["criteria"], json!(["tests pass", "reads well"]));
    assert_eq!(login["body"], "With a form.\n\n```\n- [ ] not a task\n```");

    let again = import(&world, &["plan.md"]).json();
    assert_eq!((again["known"].as_u64(), &again["made"]), (Some(3), &json!([])));
    assert_eq!(titles(&world).len(), 3);
    world.write(&world.root().join("plan.md"), &PLAN.replace("With a form", "With two forms"));
    let changed = import(&world, &["plan.md"]).json();
    assert_eq!(
        (&changed["changed"][0]["body"], changed["known"].as_u64()),
        (&true.into(), Some(2))
    );
    assert!(exported(&world)[0]["body"].as_str().expect("a body").starts_with("With a form"));
    import(&world, &["plan.md", "--update"]);
    assert!(exported(&world)[0]["body"].as_str().expect("a body").starts_with("With two forms"));
    let closed = import(&world, &["plan.md", "--closed"]).json();
    assert_eq!(closed["new"][0]["title"], "Choose a name");
    let later = world.ok(&["import", "plan.md", "--label", "later", "--json"]).json();
    assert_eq!((later["known"].as_u64(), later["unlabelled"].as_u64()), (Some(1), Some(3)));
}

#[test]
fn imports_at_one_time_make_each_task_once() {
    let world = World::project();
    let plan: String = (0..50).map(|n| format!("- [ ] Task {n}\n")).collect();
    world.write(&world.root().join("plan.md"), &plan);
    let start = |_| {
        let mut command = world.command(&world.root(), &["import", "plan.md", "--yes"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("the binary starts")
    };
    let started: Vec<_> = (0..4).map(start).collect();
    for import in started {
        let ended = import.wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_eq!(exported(&world).len(), 50);
}

#[test]
fn an_export_is_imported_as_the_tasks_it_was_made_of() {
    let from = World::project();
    let epic = from.task(&["Shop", "--body", "all of it"]);
    let first =
        from.task(&["First", "--parent", &epic, "--priority", "7", "--check", "cargo test"]);
    let second = from.task(&["Second", "--dep", &first, "--check", "manual: reads well"]);
    from.ok(&["note", &second, "remember <b>this</b>"]);
    let third = from.task(&["Third"]);
    from.ok(&["claim", &third]);
    from.ok(&["done", &third]);
    let file = from.root().join("backlog.jsonl");
    let path = file.to_str().expect("a path");
    from.ok(&["export", path, "--closed"]);
    assert_eq!(from.run(&["export", path, "--json"]).error_code(), "FILE_EXISTS");
    let own = import(&from, &[path, "--closed"]).json();
    assert_eq!((own["known"].as_u64(), own["made"].as_array().map(Vec::len)), (Some(4), Some(0)));

    for format in ["jsonl", "md", "html"] {
        let file = from.root().join(format!("again.{format}"));
        let path = file.to_str().expect("a path");
        from.ok(&["export", path, "--closed"]);
        let to = World::project();
        let done = import(&to, &[path, "--closed"]).json();
        assert_eq!((done["made"].as_array().map(Vec::len), &done["lost"]), (Some(4), &json!([])));
        let (mut left, mut right) = (exported(&from), exported(&to));
        for list in [&mut left, &mut right] {
            list.sort_by_key(|task| task["title"].to_string());
        }
        assert_eq!(left, right, "{format}");
        assert_eq!(import(&to, &[path, "--closed"]).json()["made"], json!([]), "{format}");
    }
    let html = from.ok(&["export", "-", "--format", "html"]).stdout;
    assert!(
        html.contains("remember &lt;b&gt;this&lt;/b&gt;") && !html.contains("<script"),
        "{html}"
    );
    assert!(!html.contains("Third"), "{html}");
    let markdown = from.ok(&["export", "-", "--format", "md", "--closed"]).stdout;
    assert!(
        markdown.contains("- [x] Third\n") && markdown.contains("  - Waits for: First\n"),
        "{markdown}"
    );
}

/// A board whose tasks have everything that an export shows, and its export.
fn board_to_export() -> (World, String) {
    let from = World::project();
    let body =
        "Two lines,  as they are.\n\n- [ ] not a task\n\n```\n- State: open\n```\n    code  \n";
    let epic = from.task(&["Shop; and more", "--body", body]);
    let first =
        from.task(&["First", "--parent", &epic, "--priority", "7", "--check", "cargo test"]);
    let second = from.task(&["Second", "--dep", &first, "--check", "manual: reads  well"]);
    from.task(&["Third", "--dep", &epic, "--dep", &second]);
    from.ok(&["note", &second, "remember <b>this</b>"]);
    let path = from.root().join("plan.md");
    from.ok(&["export", path.to_str().expect("a path"), "--closed"]);
    let text = std::fs::read_to_string(path).expect("the export");
    (from, text)
}

/// The numbers of new, changed and known tasks of an import.
type Counts = (usize, usize, u64);

fn counts(done: &Value) -> Counts {
    let count = |key: &str| done[key].as_array().expect("a list").len();
    (count("new"), count("changed"), done["known"].as_u64().expect("a number"))
}

#[test]
fn an_edited_export_is_known_by_its_references() {
    let (from, text) = board_to_export();
    let without_comment =
        text.split("\n<!-- callboard-export").next().expect("the text").to_owned();
    let rows: [(&str, &str, &str, Counts); 8] = [
        ("nothing", "", "", (0, 0, 4)),
        ("a heading", "# shop", "# Shop\n\nOur plan.", (0, 0, 4)),
        ("a title", "] First\n", "] First!\n", (0, 1, 3)),
        ("a body", "Two lines,  as", "Three lines, as", (0, 1, 3)),
        ("line ends", "\n", "\r\n", (0, 0, 4)),
        ("a priority", "Priority: 7", "Priority: 8", (0, 0, 4)),
        ("a new task", "\n- [ ] Third\n", "\n- [ ] Fourth\n  New.\n\n- [ ] Third\n", (1, 0, 4)),
        ("a box", "- [ ] Third\n", "- [x] Third\n", (0, 0, 4)),
    ];
    for (case, before, after, wanted) in rows {
        let edited = if before.is_empty() { text.clone() } else { text.replace(before, after) };
        assert_eq!(edited == text, before.is_empty(), "{case}");
        from.write(&from.root().join("plan.md"), &edited);
        let seen = from.ok(&["import", "plan.md", "--closed", "--json"]).json();
        assert_eq!(counts(&seen), wanted, "{case}: {seen}");
    }
    // Without the comment the lines of the tasks say enough to know them.
    from.write(&from.root().join("plan.md"), &without_comment.replace("] First\n", "] First!\n"));
    let seen = from.ok(&["import", "plan.md", "--closed", "--json"]).json();
    assert_eq!(seen["new"], json!([]), "{seen}");

    from.write(&from.root().join("plan.md"), &text.replace("] First\n", "] First!\n"));
    import(&from, &["plan.md", "--closed", "--update"]);
    assert!(titles(&from).contains(&"First!".to_owned()), "{:?}", titles(&from));
    let again = import(&from, &["plan.md", "--closed"]).json();
    assert_eq!(counts(&again), (0, 0, 4), "{again}");
}

#[test]
fn an_edited_export_brings_everything_to_another_board() {
    let (from, text) = board_to_export();
    let wanted = exported(&from);
    for (case, before, after) in [
        ("with its comment", "] First\n", "] First!\n"),
        ("more than a title", "- Check: cargo test: `cargo test`\n", "- Check: all pass: `make`\n"),
    ] {
        let to = World::project();
        to.write(&to.root().join("plan.md"), &text.replace(before, after));
        let done = import(&to, &["plan.md", "--closed"]).json();
        assert_eq!((counts(&done), &done["lost"]), ((4, 0, 0), &json!([])), "{case}: {done}");
        let mut found = exported(&to);
        let first = found.iter_mut().find(|task| task["priority"] == 7).expect("the first");
        if case == "with its comment" {
            assert_eq!(first["title"], "First!", "{case}");
            first["title"] = "First".into();
        } else {
            assert_eq!(
                first["checks"],
                json!([{"desc": "all pass", "cmd": "make", "cwd": "."}]),
                "{case}"
            );
            let same = wanted.iter().find(|task| task["priority"] == 7).expect("the first");
            first["checks"] = same["checks"].clone();
        }
        let mut wanted = wanted.clone();
        for list in [&mut found, &mut wanted] {
            list.sort_by_key(|task| task["title"].to_string());
        }
        assert_eq!(found, wanted, "{case}");
    }
    // Without the comment the deps are found by their titles.
    let to = World::project();
    let plain = text.split("\n<!-- callboard-export").next().expect("the text");
    to.write(&to.root().join("plan.md"), plain);
    let done = import(&to, &["plan.md", "--closed"]).json();
    assert_eq!((counts(&done), &done["lost"]), ((4, 0, 0), &json!([])), "{done}");
    let found = exported(&to);
    let of = |title: &str| found.iter().find(|task| task["title"] == title).expect("a task");
    let references = |titles: &[&str]| -> Value {
        let mut found: Vec<&str> =
            titles.iter().map(|it| of(it)["reference"].as_str().expect("a reference")).collect();
        found.sort_unstable();
        json!(found)
    };
    assert_eq!(of("First")["parent"], of("Shop; and more")["reference"]);
    assert_eq!(of("Second")["deps"], references(&["First"]));
    let mut deps = of("Third")["deps"].clone();
    deps.as_array_mut().expect("deps").sort_by_key(ToString::to_string);
    assert_eq!(deps, references(&["Shop; and more", "Second"]));
}

/// What the comment of an edited document hides does not come.
#[test]
fn an_edited_export_hides_nothing() {
    let (_, text) = board_to_export();
    let world = World::project();
    let edited = text.replace(r#""cmd":"cargo test""#, r#""cmd":"evil""#);
    assert_ne!(edited, text);
    world.write(&world.root().join("plan.md"), &edited.replacen("# shop", "# Shop", 1));
    let done = import(&world, &["plan.md", "--closed"]).json();
    assert!(!done.to_string().contains("evil"), "{done}");
    let (html, _) = board_to_export();
    let path = html.root().join("plan.html");
    html.ok(&["export", path.to_str().expect("a path")]);
    let text = std::fs::read_to_string(&path).expect("the export");
    html.write(&path, &text.replace(">First<", ">First!<"));
    let ran = html.run(&["import", "plan.html", "--yes"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("was edited after its export; import the export as"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_broken_file_changes_nothing_and_says_where() {
    let world = World::project();
    let long = format!("- [ ] fine\n- [ ] {}\n", "a".repeat(501));
    let deep = "[".repeat(500);
    let twice = "{\"reference\": \"a\", \"title\": \"A\"}\n".repeat(2);
    let circle = "{\"reference\": \"a\", \"title\": \"A\", \"deps\": [\"b\"]}\n\
                  {\"reference\": \"b\", \"title\": \"B\", \"deps\": [\"a\"]}\n";
    for (name, text, words) in [
        ("long.md", long.as_str(), "long.md:2: title: has 501 characters"),
        ("none.md", "words\n", "none.md: no checkboxes"),
        ("open.md", "- [ ] a\n  ```\n", "open.md:2: a block of code has no end"),
        ("bell.md", "- [ ] a\u{7}\n", "bell.md:1: title: has control characters"),
        ("half.jsonl", "{\"reference\": \"a\"", "half.jsonl:1: is not JSON: EOF while parsing"),
        ("words.jsonl", "\nwords\n", "words.jsonl:2: is not JSON: expected value, column 1\n"),
        ("bare.jsonl", "{\"title\": \"A\"}", "bare.jsonl:1: missing field `reference`\n"),
        (
            "odd.jsonl",
            "{\"reference\": \"a\", \"title\": \"A\", \"odd\": 1}",
            "unknown field `odd`",
        ),
        ("deep.jsonl", &deep, "deep.jsonl:1: "),
        ("nul.jsonl", r#"{"reference": "a", "title": "A", "body": "\u0000"}"#, "body: has a NUL"),
        ("twice.jsonl", &twice, "reference: two tasks have the reference 'a'"),
        ("circle.jsonl", circle, "tasks wait for each other: a -> b -> a"),
    ] {
        world.write(&world.root().join(name), text);
        let ran = world.run(&["import", name, "--yes"]);
        assert_eq!(ran.code, 2, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{name}: {}", ran.stderr);
    }
    assert_eq!(world.run(&["import", "nowhere.md", "--json"]).error_code(), "FILE_NOT_FOUND");
    assert_eq!(world.run(&["import", "what.bin", "--yes"]).code, 2);
    assert!(titles(&world).is_empty());
}

#[test]
fn a_folder_that_is_too_large_is_refused_whole() {
    let world = World::project();
    let folder = world.root().join("plans");
    std::fs::create_dir(&folder).expect("a folder");
    world.write(&folder.join("a.md"), "- [ ] Small\n");
    world.write(&folder.join("b.md"), &"x".repeat(32 * 1024 * 1024));
    let ran = world.run(&["import", "plans", "--from", "markdown", "--yes"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("bytes; at most"), "{}", ran.stderr);
    assert!(titles(&world).is_empty());
}

/// Imports a source twice: the second time adds nothing. Returns the tasks in the order of their titles.
fn twice(world: &World, arguments: &[&str], count: usize) -> Vec<Value> {
    let first = import(world, arguments).json();
    assert_eq!(first["made"].as_array().map(Vec::len), Some(count), "{first}");
    let again = import(world, arguments).json();
    assert_eq!((&again["made"], &again["changed"]), (&json!([]), &json!([])), "{again}");
    assert_eq!(again["known"], json!(count));
    let mut tasks = exported(world);
    assert_eq!(tasks.len(), count);
    tasks.sort_by_key(|task| task["title"].to_string());
    tasks
}

#[test]
fn beads_come_with_their_deps_and_epics() {
    let world = World::project();
    world.write(&world.root().join(".beads/issues.jsonl"), BEADS);
    let tasks = twice(&world, &[".beads"], 3);
    let wanted = json!({
        "reference": "beads:bd-2", "title": "Add login",
        "body": "With a form.\n\n## Design\n\nOne page.", "state": "open", "priority": 100,
        "parent": "beads:bd-1", "deps": ["beads:bd-3"], "criteria": ["tests pass", "reads well"],
        "notes": ["ask ana", "soon"],
    });
    assert_eq!(tasks[0], wanted);
    assert_eq!((&tasks[2]["is_epic"], &tasks[2]["priority"]), (&true.into(), &300.into()));
    let bad = BEADS.replace("\"priority\":2}\n", "\"priority\":7}\n");
    world.write(&world.root().join(".beads/issues.jsonl"), &bad);
    let said = world.run(&["import", ".beads", "--yes"]).stderr;
    assert!(said.contains(".beads/issues.jsonl:4: priority: must be 0..4, got 7"), "{said}");
}

#[test]
fn a_folder_of_backlog_md_comes_without_following_links() {
    let world = World::project();
    let folder = world.root().join("backlog/tasks");
    world.write(&folder.join("task-1 - Add-login.md"), BACKLOG_1);
    world.write(&folder.join("task-2 - Choose.md"), BACKLOG_2);
    world.write(&folder.join("readme.md"), "# Tasks\n");
    let secret = world.home().join("secret.md");
    world.write(&secret, "---\nid: task-3\ntitle: Secret\n---\n");
    std::os::unix::fs::symlink(secret, folder.join("link.md")).expect("a link");
    let tasks = twice(&world, &["backlog"], 2);
    let wanted = json!({
        "reference": "backlog:task-1", "title": "Add 'login'",
        "body": "## Description\n\nWith a form.", "state": "open", "priority": 100,
        "deps": ["backlog:task-2"], "criteria": ["tests pass", "reads well"],
    });
    assert_eq!(tasks[0], wanted);
    assert_eq!(tasks[1]["title"], "Choose a name");
    for (text, words) in [
        ("no front matter\n", "bad.md:1: must start with front matter"),
        ("---\nid: task-9\n", "bad.md:1: the front matter has no end"),
        ("---\nid: task-9\n---\n", "bad.md:1: title: is missing"),
        ("---\nodd\n---\n", "bad.md:2: must be 'key: value'"),
    ] {
        world.write(&folder.join("bad.md"), text);
        let ran = world.run(&["import", "backlog", "--yes"]);
        assert!(ran.code == 2 && ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[test]
fn task_master_comes_with_subtasks_as_children() {
    let world = World::project();
    world.write(&world.root().join("tasks.json"), TASK_MASTER);
    let tasks = twice(&world, &["tasks.json"], 6);
    let name = |id: &str| json!(format!("task-master:master#{id}"));
    assert_eq!((&tasks[0]["reference"], &tasks[0]["is_epic"]), (&name("2"), &true.into()));
    let body = "With a form.\n\n## Details\n\nOne page.\n\n## Test strategy\n\nClick.";
    assert_eq!(tasks[0]["body"], body);
    assert_eq!(tasks[1]["criteria"], json!(["tests pass", "reads well"]));
    assert_eq!((&tasks[2]["parent"], &tasks[2]["deps"]), (&name("2"), &json!([name("2.1")])));
    // The ids of another tag are other tasks, and an id that stands twice is told apart.
    let map = &tasks[3];
    assert_eq!((&map["title"], &map["criteria"]), (&json!("Show a map"), &json!(["loads in 1 s"])));
    assert_eq!(
        (&map["reference"], &map["deps"]),
        (&json!("task-master:later#1"), &json!(["task-master:later#2"]),)
    );
    assert_eq!(tasks[4]["reference"], name("2.2~2"));
    world.write(&world.root().join("tasks.json"), "{\"master\": {\"tasks\": 1}}");
    let ran = world.run(&["import", "tasks.json", "--yes"]);
    assert!(ran.code == 2 && ran.stderr.contains("tasks.json: master: "), "{}", ran.stderr);
}

#[test]
fn an_export_of_vibe_kanban_comes() {
    let world = World::project();
    world.write(&world.root().join("export/issues.csv"), VIBE_EXPORT);
    let tasks = twice(&world, &["export/issues.csv"], 2);
    let wanted = json!({
        "reference": "vibe-kanban:SHOP-2", "title": "Add login, soon",
        "body": "With a \"form\".\nAnd more.", "state": "open", "priority": 50,
        "parent": "vibe-kanban:SHOP-1",
    });
    assert_eq!(tasks[0], wanted);
    assert_eq!((&tasks[1]["title"], &tasks[1]["is_epic"]), (&json!("Shop"), &json!(true)));
    for (text, words) in [
        ("Issue ID,Name\n", "issues.csv:1: Title: this column is missing"),
        (&VIBE_EXPORT.replace("\nAnd more.\"", ""), "issues.csv:3: a quote is not closed"),
        (
            &VIBE_EXPORT.replace("SHOP-2,\"Add login, soon\"", "SHOP-2,"),
            "issues.csv:3: title: cannot be empty",
        ),
    ] {
        world.write(&world.root().join("export/issues.csv"), text);
        let ran = world.run(&["import", "export/issues.csv", "--yes"]);
        assert!(ran.code == 2 && ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
}

#[test]
fn tasks_of_vibe_kanban_come() {
    let world = World::project();
    world.write(&world.root().join("vibe.json"), VIBE);
    let tasks = twice(&world, &["vibe.json", "--from", "vibe-kanban"], 1);
    assert_eq!(
        (&tasks[0]["title"], &tasks[0]["body"]),
        (&json!("Add login"), &json!("With a form."))
    );
    world.write(&world.root().join("vibe.json"), "{}");
    let ran = world.run(&["import", "vibe.json", "--from", "vibe-kanban", "--yes"]);
    assert!(ran.code == 2 && ran.stderr.contains("vibe.json: "), "{}", ran.stderr);
}
