//! The packages for clients in `packages/`: every manifest is written from the one table below. The skill is written by
//! hand. `CALLBOARD_BLESS=1 cargo test --test packages` rewrites the manifests.

#![allow(clippy::disallowed_methods, reason = "tests play the client that starts the server")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

const NAME: &str = "callboard";
const TITLE: &str = "Callboard";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const DESCRIPTION: &str = "Coding agents get their work, prove it with checks and hand it over";
const LICENSE: &str = "MIT OR Apache-2.0";
const KEYWORDS: [&str; 4] = ["tasks", "agents", "review", "worktrees"];
/// The registry wants a name below a domain of the publisher. The publisher replaces this one.
const REGISTRY_NAME: &str = "org.example/callboard";
const COMMAND: &str = "callboard";
const ARGUMENTS: [&str; 1] = ["mcp"];
const ROOT_VARIABLE: &str = "CALLBOARD_PROJECT_ROOT";
const SKILL: &str = "callboard/skills/callboard/SKILL.md";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages")
}

/// Every generated file with its content.
fn files() -> Vec<(&'static str, String)> {
    let author = json!({"name": "The Callboard authors"});
    let started = json!({"command": COMMAND, "args": ARGUMENTS});
    let stdio = json!({"type": "stdio", "command": COMMAND, "args": ARGUMENTS});
    let about = json!({
        "name": NAME,
        "version": VERSION,
        "description": DESCRIPTION,
        "author": author,
        "license": LICENSE,
        "keywords": KEYWORDS,
    });
    let with = |more: Value| {
        let mut all = about.clone();
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
        all
    };
    let program: Vec<&str> = std::iter::once(COMMAND).chain(ARGUMENTS).collect();
    let json_files = [
        (
            ".claude-plugin/marketplace.json",
            json!({
                "name": NAME,
                "description": DESCRIPTION,
                "owner": author,
                "plugins": [{"name": NAME, "source": "./callboard", "description": DESCRIPTION}],
            }),
        ),
        (
            ".agents/plugins/marketplace.json",
            json!({
                "name": NAME,
                "interface": {"displayName": TITLE},
                "plugins": [{
                    "name": NAME,
                    "source": {"source": "local", "path": "./callboard"},
                    "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
                    "category": "Developer Tools",
                }],
            }),
        ),
        ("callboard/.claude-plugin/plugin.json", about.clone()),
        ("callboard/.mcp.json", json!({"mcpServers": {NAME: started}})),
        (
            "callboard/.codex-plugin/plugin.json",
            with(json!({
                "skills": "./skills/",
                "mcpServers": "./.mcp.json",
                "interface": {"displayName": TITLE, "shortDescription": DESCRIPTION},
            })),
        ),
        (
            "callboard/plugin.json",
            with(json!({"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"})),
        ),
        (
            "callboard/mcp.json",
            json!({
                "$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json",
                "mcpServers": {NAME: stdio},
            }),
        ),
        (
            "callboard/gemini-extension.json",
            json!({
                "name": NAME,
                "version": VERSION,
                "description": DESCRIPTION,
                "mcpServers": {NAME: started},
            }),
        ),
        (
            "mcpb/manifest.json",
            with(json!({
                "manifest_version": "0.3",
                "display_name": TITLE,
                "server": {
                    "type": "binary",
                    "entry_point": "server/callboard",
                    "mcp_config": {
                        "command": "${__dirname}/server/callboard",
                        "args": ARGUMENTS,
                        "env": {ROOT_VARIABLE: "${user_config.project_root}"},
                    },
                },
                "tools_generated": true,
                "prompts_generated": true,
                "compatibility": {"platforms": ["linux", "darwin"]},
                "user_config": {
                    "project_root": {
                        "type": "directory",
                        "title": "Project",
                        "description": "The folder in which callboard init was run",
                        "required": true,
                    },
                },
            })),
        ),
        (
            "server.json",
            json!({
                "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
                "name": REGISTRY_NAME,
                "title": TITLE,
                "description": DESCRIPTION,
                "version": VERSION,
            }),
        ),
    ];
    let mut files: Vec<(&'static str, String)> =
        json_files.into_iter().map(|(path, value)| (path, format!("{value:#}\n"))).collect();
    let program = json!(program);
    files.push((
        "opencode/callboard.js",
        format!(
            "// Adds the server to opencode's settings, unless they have one of this name.\n\
             export const Callboard = async () => ({{\n  config: async (config) => {{\n    config.mcp ??= {{}}\n    \
             config.mcp.{NAME} ??= {{ type: \"local\", command: {program}, enabled: true }}\n  }},\n}})\n"
        ),
    ));
    files
}

#[test]
fn manifests_are_those_of_the_table() {
    for (path, wanted) in files() {
        let place = folder().join(path);
        if std::env::var_os("CALLBOARD_BLESS").is_some() {
            std::fs::create_dir_all(place.parent().expect("a folder")).expect("a folder is made");
            std::fs::write(&place, &wanted).expect("the manifest is written");
        }
        let found = std::fs::read_to_string(&place).unwrap_or_default();
        assert!(
            found == wanted,
            "packages/{path} differs from the table; CALLBOARD_BLESS=1 writes it:\n{wanted}"
        );
    }
}

/// The limits of the formats that a client holds a package to.
#[test]
fn manifests_keep_the_limits_of_their_formats() {
    let value = |wanted: &str| -> Value {
        let files = files();
        let (_, text) = files.iter().find(|(path, _)| *path == wanted).expect("a file");
        serde_json::from_str(text).expect("JSON")
    };
    let plugin = value("callboard/plugin.json");
    let allowed = [
        "$schema",
        "name",
        "version",
        "description",
        "author",
        "homepage",
        "repository",
        "license",
        "keywords",
        "extensions",
    ];
    for key in plugin.as_object().expect("an object").keys() {
        assert!(allowed.contains(&key.as_str()), "Agent Plugins 1.0 knows no {key}");
    }
    let described = value("server.json")["description"].as_str().expect("words").chars().count();
    assert!(described <= 100, "the registry takes 100 characters, not {described}");
    for marketplace in [".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json"] {
        let source = &value(marketplace)["plugins"][0]["source"];
        let path = source["path"].as_str().or(source.as_str()).expect("a path");
        assert!(folder().join(path).is_dir(), "{marketplace} names {path}");
    }
}

#[test]
fn the_skill_is_short_and_names_only_what_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: PathBuf| std::fs::read_to_string(&path).expect("a file");
    let skill = read(folder().join(SKILL));
    assert!(skill.lines().count() < 200, "the skill has fewer than 200 lines");
    assert!(skill.starts_with("---\nname: callboard\n"), "the skill is named after its folder");
    let (tools, refusals) =
        (read(root.join("docs/reference/graph.md")), read(root.join("docs/reference/refusals.md")));
    let commands = read(root.join("crates/callboard/tests/goldens/help.txt"));
    let mut seen = 0;
    for word in skill.split('`').skip(1).step_by(2) {
        let is_code = word.len() > 4 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let is_known = match word.strip_prefix("callboard ") {
            Some(rest) => {
                let verbs =
                    rest.split(' ').take_while(|part| part.chars().all(|c| c.is_ascii_lowercase()));
                let verbs = verbs.collect::<Vec<_>>().join(" ");
                commands.contains(&format!("$ callboard {verbs} --help\n"))
            }
            None if is_code => refusals.contains(word) || tools.contains(word),
            None if word.contains('"') || word == NAME || word == "project_root" => true,
            None if word.starts_with("--") => commands.contains(word),
            None => tools.contains(&format!("`{word}`")),
        };
        assert!(is_known, "the skill names `{word}`, which does not exist");
        seen += 1;
    }
    assert!(seen > 30, "the words of the skill were read: {seen}");
}

/// A client starts the command of the package in a folder of its own, not in the project.
#[test]
fn the_packaged_command_answers_the_handshake() {
    let files = files();
    let (_, text) = files.iter().find(|(path, _)| *path == "callboard/mcp.json").expect("a file");
    let entry: Value = serde_json::from_str(text).expect("JSON");
    let entry = &entry["mcpServers"][NAME];
    assert_eq!(entry["command"], COMMAND);
    let arguments = entry["args"].as_array().expect("arguments").iter().filter_map(Value::as_str);
    let elsewhere = tempfile::tempdir().expect("a folder");
    let mut server = Command::new(env!("CARGO_BIN_EXE_callboard"))
        .args(arguments)
        .current_dir(elsewhere.path())
        .env_remove(ROOT_VARIABLE)
        .env_remove("CALLBOARD_STORE")
        .env("XDG_CONFIG_HOME", elsewhere.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    }});
    let mut input = server.stdin.take().expect("a pipe");
    writeln!(input, "{hello}").expect("the server reads");
    let mut line = String::new();
    let output = server.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("an answer");
    let answer: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(answer["result"]["serverInfo"]["name"], NAME, "{line}");
    drop(input);
    assert!(server.wait().expect("it ends").success());
}
