//! The pages of `docs/start/` hold: every command of a page is run, and prints what the page says. A script makes the
//! calls of the agent.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::fixture::World;

/// A page, and the agent in it: the name that the client gives itself, with the end that Callboard adds.
const PAGES: [(&str, &str); 6] = [
    ("claude-code", "agent:claude-code-9v4z"),
    ("codex", "agent:codex-mcp-client-wr6j"),
    ("cursor", "agent:cursor-vscode-jfh5"),
    ("gemini", "agent:gemini-cli-mcp-client-773v"),
    ("opencode", "agent:opencode-m90d"),
    ("vscode", "agent:Visual-Studio-Code-hykp"),
];

/// The commands of a page with the output below each, in order. A block without `$` is one command without output.
fn commands(page: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let blocks = page.split("```\n").skip(1).step_by(2);
    for block in blocks {
        if !block.contains("$ ") {
            found.extend(block.lines().map(|line| (line.to_owned(), String::new())));
            continue;
        }
        for line in block.lines() {
            match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(command), _) => found.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => *output += &format!("{line}\n"),
                (None, None) => panic!("{line} has no command"),
            }
        }
    }
    found
}

/// The words of a command, with quotes as a shell takes them.
fn words(command: &str) -> Vec<String> {
    let plain = |(place, part): (usize, &str)| match place % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    };
    command.split('"').enumerate().flat_map(plain).skip(1).collect()
}

/// The text without what differs from run to run: ids, times and hashes.
fn shown(text: &str) -> String {
    let long = |word: &str| word.len() >= 15 && word.bytes().any(|byte| byte.is_ascii_digit());
    let word = |word: &str| if long(word) { "…".to_owned() } else { word.to_owned() };
    let parts: Vec<String> = text
        .split_inclusive(|c: char| !c.is_ascii_alphanumeric())
        .map(|part| {
            let at = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
            format!("{}{}", word(&part[..at]), &part[at..])
        })
        .collect();
    // The time in the name of a log has three parts.
    let joined = parts.concat();
    joined
        .lines()
        .map(|line| match line.split_once(".callboard/runs/") {
            Some((head, _)) => format!("{head}.callboard/runs/…\n"),
            None => format!("{line}\n"),
        })
        .collect()
}

/// Begins the task, does it and hands it over, as an agent does through MCP.
fn work(world: &World, actor: &str) {
    let call = |tool: &str, input: Value| {
        world.ok(&["--actor", actor, "call", tool, &input.to_string()]).json()
    };
    let listed = call("list", json!({"ready": true}));
    let id = listed["tasks"][0]["id"].clone();
    let begun = json!({
        "id": id, "expected_actor": actor, "idempotency_key": "k", "worktree": "new",
    });
    let session = call("begin", begun);
    let folder = session["live"]["worktree"].as_str().expect("a worktree").to_owned();
    let folder = Path::new(&folder);
    fs::write(folder.join("hello.txt"), "hello\n").expect("written");
    world.run_git(folder, &["add", "hello.txt"]);
    world.run_git(folder, &["commit", "-q", "-m", "Say hello"]);
    call("run_checks", json!({"id": id}));
    let summary = "hello.txt says hello.";
    call("finish", json!({"session": session["id"], "summary": summary}));
}

#[test]
fn every_command_of_a_page_prints_what_the_page_says() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/start");
    let program = Path::new(env!("CARGO_BIN_EXE_callboard")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    for (page, actor) in PAGES {
        let text = fs::read_to_string(pages.join(format!("{page}.md"))).expect("a page");
        let world = World::git().with("PATH", &path);
        let root = world.root().display().to_string();
        world.run_git(&world.root(), &["commit", "-q", "--allow-empty", "-m", "first"]);
        for (command, wanted) in commands(&text) {
            let Some(rest) = command.strip_prefix("callboard ") else {
                panic!("{page}: {command} is no command of callboard")
            };
            if command == "callboard status" {
                work(&world, actor);
            }
            let words = words(&format!("callboard {rest}"));
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let ran = world.ok(&words);
            // A terminal shows notes and output in one; `init` ends with its note, the others begin with theirs.
            let printed = match words[0] {
                "init" => format!("{}{}", ran.stdout, ran.stderr),
                _ => format!("{}{}", ran.stderr, ran.stdout),
            };
            let printed = printed.replace(&root, "/home/ana/shop");
            assert_eq!(shown(&printed), shown(&wanted), "{page}: {command}");
        }
    }
}
