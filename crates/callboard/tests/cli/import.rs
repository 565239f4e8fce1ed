//! A backlog comes onto the board once, and goes out again as it came.

use serde_json::Value;

use crate::fixture::{Ran, World};

const PLAN: &str = "\
# Shop

Some words.

## Now

- [ ] Add login
  With a form.

  ```
  - [ ] not a task
  ```
  - [ ] tests pass
  - [x] reads well
- [x] Choose a name
1. [ ] Add logout

## Later
* [ ] Add login
";

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
    assert_eq!(login["criteria"], serde_json::json!(["tests pass", "reads well"]));
    assert_eq!(login["body"], "With a form.\n\n```\n- [ ] not a task\n```");

    let again = import(&world, &["plan.md"]).json();
    assert_eq!((again["known"].as_u64(), &again["made"]), (Some(3), &serde_json::json!([])));
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

    let to = World::project();
    let done = import(&to, &[path, "--closed"]).json();
    assert_eq!(
        (done["made"].as_array().map(Vec::len), &done["lost"]),
        (Some(4), &serde_json::json!([]))
    );
    let (mut left, mut right) = (exported(&from), exported(&to));
    for list in [&mut left, &mut right] {
        list.sort_by_key(|task| task["title"].to_string());
    }
    assert_eq!(left, right);
    assert_eq!(import(&to, &[path, "--closed"]).json()["made"], serde_json::json!([]));
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
        ("half.jsonl", "{\"reference\": \"a\"", "half.jsonl:1: "),
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
