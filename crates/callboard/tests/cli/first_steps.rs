//! What a newcomer meets in the first minutes: odd files, wrong addresses, a repository without a commit, a shared
//! board. Each is said at once, and nothing of the user is lost.

use std::fs;

use crate::clients::{put, tree};
use crate::fixture::World;
use crate::terminal::Terminal;

/// The line of the doctor with this name: its word, and the rest.
fn line(world: &World, name: &str) -> (String, String) {
    let document = world.run(&["doctor", "--json"]).json();
    let checks = document["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| {
        panic!("no line {name} in {document}");
    });
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), format!("{}; {}", text("message"), text("fix")))
}

#[test]
fn empty_lists_and_tables_of_the_user_come_back() {
    let rows = [
        ("codex", ".codex/config.toml", "[mcp_servers]\n"),
        ("codex", ".codex/config.toml", "mcp_servers = {}\n"),
        ("codex", ".codex/hooks.json", "{\"hooks\": {\"PreToolUse\": []}}\n"),
        ("claude", ".claude/settings.json", "{\"hooks\": {\"Stop\": [], \"PreToolUse\": []}}\n"),
        ("claude", ".mcp.json", "{\"mcpServers\": {}}\n"),
        ("cursor", ".cursor/hooks.json", "{\"version\": 1, \"hooks\": {\"stop\": []}}\n"),
    ];
    for (client, file, text) in rows {
        let world = World::project();
        put(&world.root().join(file), text);
        let original = tree(&world.root());
        world.ok(&["init", "--clients", client, "--hooks"]);
        assert_ne!(tree(&world.root()), original, "{file}: {text}");
        world.ok(&["init", "--remove"]);
        assert_eq!(tree(&world.root()), original, "{file}: {text}");
    }
}

#[test]
fn the_jsonc_file_of_opencode_is_merged_too() {
    let text = "{\n  // mine\n  \"model\": \"x\"\n}\n";
    let world = World::project();
    let (file, usual) = (world.root().join("opencode.jsonc"), world.root().join("opencode.json"));
    put(&file, text);
    world.ok(&["init", "--clients", "opencode"]);
    let merged = fs::read_to_string(&file).expect("the file");
    assert!(merged.contains("// mine") && merged.contains("\"callboard\""), "{merged}");
    assert!(!usual.exists(), "no second file");
    let (_, said) = line(&world, "opencode");
    assert!(said.contains("opencode.jsonc has the server"), "{said}");
    // A file of the usual name that comes later does not hide our part.
    put(&usual, "{}\n");
    world.ok(&["init", "--remove"]);
    assert_eq!(fs::read_to_string(&file).expect("the file"), text);
    assert_eq!(fs::read_to_string(&usual).expect("the file"), "{}\n");

    let own = world.home().join(".config/opencode/opencode.jsonc");
    put(&own, text);
    world.ok(&["init", "--clients", "opencode", "--global"]);
    assert!(fs::read_to_string(&own).expect("the file").contains("\"callboard\""));
    world.ok(&["init", "--remove", "--global"]);
    assert_eq!(fs::read_to_string(&own).expect("the file"), text);
}

#[test]
fn nothing_is_removed_for_no_client() {
    let world = World::project();
    world.ok(&["init", "--clients", "all", "--hooks"]);
    let written = tree(&world.root());
    let ran = world.ok(&["init", "--remove", "--clients", "none"]);
    assert!(ran.stdout.contains("nothing to take out of the agents' files"), "{}", ran.stdout);
    assert_eq!(tree(&world.root()), written);
}

#[test]
fn only_this_machine_gets_no_token() {
    let rows = [
        ("http://localhost:3001", false),
        ("http://127.0.0.1:3001", false),
        ("http://[::1]:3001", false),
        ("http://localhost.example.org", true),
        ("http://127.0.0.1.example.org", true),
        ("http://10.0.0.7:3001", true),
    ];
    for (address, wants) in rows {
        let world = World::git();
        world.ok(&["init", "--clients", "claude", "--server", address]);
        let text = fs::read_to_string(world.root().join(".mcp.json")).expect("the file");
        assert_eq!(text.contains("${CALLBOARD_TOKEN}"), wants, "{address}: {text}");
    }
}

#[test]
fn no_secret_gets_into_a_file_of_a_client() {
    let world = World::git();
    let connect = ["init", "--clients", "claude", "--server"];
    let refused = |more: &[&str]| {
        let ran = world.run(&[&connect[..], more].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(!ran.stderr.contains("s3cret"), "{}", ran.stderr);
        assert!(tree(&world.root()).is_empty());
        ran.stderr
    };
    let said = refused(&["https://ana:s3cret@board.example.org"]);
    assert!(said.contains("must not hold a user or a password"), "{said}");
    let said = refused(&["https://board.example.org", "--token-variable", "cb-s3cret"]);
    assert!(said.contains("is not the name of a variable"), "{said}");
    world.ok(&[&connect[..], &["https://board.example.org", "--token-variable", "T_1"]].concat());
}

#[test]
fn hooks_beside_a_shared_board_are_explained() {
    let world = World::git();
    let connect =
        ["init", "--clients", "claude", "--hooks", "--server", "https://board.example.org"];
    let ran = world.ok(&connect);
    assert!(ran.stderr.contains("the hooks do nothing here yet"), "{}", ran.stderr);
    let ran = World::project().ok(&connect);
    assert!(!ran.stderr.contains("the hooks do nothing"), "{}", ran.stderr);
}

#[test]
fn the_doctor_knows_a_shared_board() {
    let world = World::git();
    world.ok(&["init", "--clients", "claude", "--server", "https://board.example.org"]);
    let (word, said) = line(&world, "project");
    assert_eq!(word, "ok", "{said}");
    assert!(said.contains("the agents here use a server"), "{said}");
    let (word, said) = line(&world, "Claude Code");
    assert_eq!(word, "warn", "{said}");
    assert!(said.contains("at https://board.example.org/mcp, but its token is not"), "{said}");
    assert!(said.contains("CALLBOARD_TOKEN is not set"), "{said}");
    world.ok(&["doctor"]);
    put(&world.root().join(".mcp.json"), "{\"mcpServers\": {}}\n");
    assert_eq!(world.run(&["doctor"]).code, 1, "no board, and no server");
}

#[test]
fn the_doctor_says_to_mend_a_broken_file() {
    let world = World::project();
    put(&world.root().join(".mcp.json"), "{\n  broken\n");
    let (word, said) = line(&world, "Claude Code");
    assert_eq!(word, "fail");
    assert!(said.starts_with(".mcp.json:2: "), "{said}");
    assert!(said.ends_with("; mend the file by hand"), "{said}");
}

#[test]
fn a_repository_without_a_commit_is_named() {
    let world = World::git();
    let first = "git commit --allow-empty -m first";
    let ran = world.ok(&["init"]);
    assert!(
        ran.stderr.contains("has no commit yet") && ran.stderr.contains(first),
        "{}",
        ran.stderr
    );
    let (word, said) = line(&world, "repository");
    assert_eq!(word, "warn");
    assert!(said.contains(first), "{said}");
    let id = world.task(&["Add b"]);
    let arguments = serde_json::json!({"id": id, "expected_actor": "human:ana",
        "idempotency_key": "k1", "worktree": "new"});
    let begin = ["call", "begin", &arguments.to_string(), "--json"];
    let refused = world.run(&begin);
    assert_eq!(refused.error_code(), "NO_COMMIT", "{}", refused.stderr);
    assert!(
        refused.stderr.contains("make a first commit in that repository"),
        "{}",
        refused.stderr
    );
    world.run_git(&world.root(), &["commit", "-q", "--allow-empty", "-m", "first"]);
    world.ok(&begin);
    let ran = world.ok(&["init"]);
    assert!(!ran.stderr.contains("has no commit yet"), "{}", ran.stderr);
    assert_eq!(line(&world, "repository").0, "ok");
}

#[test]
fn a_new_project_says_how_an_agent_is_connected() {
    let world = World::git();
    let how = "callboard init --clients NAME connects one of claude, codex";
    let ran = world.ok(&["init"]);
    assert!(ran.stderr.contains(how), "{}", ran.stderr);
    let ran = world.ok(&["init"]);
    assert!(!ran.stderr.contains(how), "once: {}", ran.stderr);
    let ran = World::git().ok(&["init", "--clients", "none"]);
    assert!(!ran.stderr.contains(how), "it was said: {}", ran.stderr);
}

#[test]
fn a_repository_of_a_forge_is_imported_by_name() {
    let world = World::project();
    let ran = world.run(&["import", "acme/shop"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("callboard import acme/shop --from github"), "{}", ran.stderr);
    let ran = world.run(&["import", "notes"]);
    assert!(ran.stderr.contains("--from FORMAT, one of jsonl, markdown"), "{}", ran.stderr);
    let help = world.ok(&["import", "--help"]).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for format in ["markdown", "beads", "backlog", "task-master", "vibe-kanban", "github", "gitlab"]
    {
        assert!(help.contains(format), "{format}: {help}");
    }
}

#[test]
fn a_preview_shows_what_tasks_wait_for() {
    let world = World::project();
    let tasks = r#"{"master": {"tasks": [
        {"id": 1, "title": "Form", "status": "pending", "subtasks": [{"id": 1, "title": "Field", "status": "pending"}]},
        {"id": 2, "title": "Button", "status": "pending", "dependencies": [1]}
    ]}}"#;
    put(&world.root().join(".taskmaster/tasks/tasks.json"), tasks);
    put(&world.root().join(".taskmaster/state.json"), "{\"currentTag\": \"master\"}");
    let seen = world.ok(&["import", ".taskmaster"]).stdout;
    assert!(
        seen.contains("+ Field  (task-master:master#1.1)\n    below: task-master:master#1\n"),
        "{seen}"
    );
    assert!(
        seen.contains("+ Button  (task-master:master#2)\n    after: task-master:master#1\n"),
        "{seen}"
    );
    world.ok(&["import", ".taskmaster", "--yes"]);
    let again = world.ok(&["import", ".taskmaster/tasks/tasks.json"]).stdout;
    assert_eq!(again, "0 new, 0 changed, 3 known\n", "the folder and its file name the same tasks");
}

#[test]
fn a_claude_md_that_is_a_link_to_agents_md_gets_no_import() {
    for (file, link) in [("AGENTS.md", "CLAUDE.md"), ("CLAUDE.md", "AGENTS.md")] {
        let world = World::project();
        put(&world.root().join(file), "# Rules\n");
        std::os::unix::fs::symlink(file, world.root().join(link)).expect("a link");
        let original = tree(&world.root());
        let shown = Terminal::answering(&world, &["init", "--clients", "claude"], "y\n");
        assert!(!shown.contains("@AGENTS.md"), "{shown}");
        let text = fs::read_to_string(world.root().join(file)).expect("the file");
        assert!(text.contains("how work is done here"), "{text}");
        world.ok(&["init", "--remove"]);
        assert_eq!(tree(&world.root()), original, "{link} leads to {file}");
    }
}
