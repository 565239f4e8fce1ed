//! The files of clients that `init` writes: before and after as goldens, idempotent, and given back byte for byte.
//! `CALLBOARD_BLESS=1 cargo test -p callboard --test cli clients` rewrites the goldens.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::fixture::World;
use crate::goldens::compare;
use crate::terminal::Terminal;

/// A client, its file in a project, the name above our server there, and its file of the user.
const CLIENTS: [(&str, &str, &str, &str); 7] = [
    ("claude", ".mcp.json", "mcpServers", ".claude.json"),
    ("codex", ".codex/config.toml", "mcp_servers", ".codex/config.toml"),
    ("cursor", ".cursor/mcp.json", "mcpServers", ".cursor/mcp.json"),
    ("gemini", ".gemini/settings.json", "mcpServers", ".gemini/settings.json"),
    ("vscode", ".vscode/mcp.json", "servers", ".config/Code/User/mcp.json"),
    ("copilot", ".mcp.json", "mcpServers", ".copilot/mcp-config.json"),
    ("opencode", "opencode.json", "mcp", ".config/opencode/opencode.json"),
];

const JSON_COMMENTS: &str = "\
{
    // How we work.
    \"theme\": \"dark\", /* not light */
    \"ABOVE\": {
        \"other\": { \"command\": \"other\", \"args\": [] } // keep this one
    },
    \"list\": [1, 2,],
}
";
const JSON_FOREIGN: &str = "\
{
\t\"ABOVE\": {
\t\t\"other\": {
\t\t\t\"command\": \"other\"
\t\t}
\t},
\t\"unknown\": { \"deep\": [true, null, 1.50e2, \"\\u00e4\"] }
}
";
const TOML_COMMENTS: &str = "\
# How we work.
model = \"large\" # not small

[ABOVE.other] # keep this one
command = 'other'
args = [
    \"a\", # first
]

[tools]
web = true
";
const TOML_FOREIGN: &str =
    "[ABOVE]\nother = { command = \"other\" }\n[other.deep]\nlist = [ 1, 2 ]";

/// Every case with the file before, `None` for no file.
fn cases(file: &str, above: &str) -> Vec<(&'static str, Option<String>)> {
    let is_toml = file.ends_with(".toml");
    let (comments, foreign) =
        if is_toml { (TOML_COMMENTS, TOML_FOREIGN) } else { (JSON_COMMENTS, JSON_FOREIGN) };
    let mut cases = vec![
        ("absent", None),
        ("empty", Some(String::new())),
        ("comments", Some(comments.replace("ABOVE", above))),
        ("foreign", Some(foreign.replace("ABOVE", above))),
    ];
    if !is_toml {
        cases.push(("empty object", Some("{}\n".into())));
        cases.push(("one line", Some(format!("{{\"{above}\":{{\"other\":{{}}}}}}"))));
        cases.push(("mark", Some("\u{feff}{\"theme\": 1}\n".into())));
    }
    cases
}

/// Every file of the project but git's and the store, with its bytes.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name");
            if path.is_dir() && name != ".git" && name != ".callboard" {
                files.insert(path.clone(), Vec::new());
                folders.push(path);
            } else if path.is_file() {
                files.insert(path.clone(), fs::read(&path).expect("a file"));
            }
        }
    }
    files
}

pub fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

#[test]
fn before_and_after() {
    for (client, file, above, _) in CLIENTS {
        let mut golden = format!("{client}: {file}\n");
        for (case, before) in cases(file, above) {
            let world = World::project();
            let path = world.root().join(file);
            if let Some(text) = &before {
                put(&path, text);
            }
            let original = tree(&world.root());
            world.ok(&["init", "--clients", client]);
            let after = fs::read_to_string(&path).expect("the file");
            golden.push_str(&format!("\n===== {case}: before\n{}", before.unwrap_or_default()));
            golden.push_str(&format!("\n===== {case}: after\n{after}"));

            let written = tree(&world.root());
            world.ok(&["init", "--clients", client]);
            assert_eq!(tree(&world.root()), written, "{client}, {case}: twice changes nothing");
            world.ok(&["init", "--remove"]);
            assert_eq!(tree(&world.root()), original, "{client}, {case}: given back");
            world.ok(&["init", "--remove"]);
            assert_eq!(tree(&world.root()), original, "{client}, {case}: given back once");
        }
        compare(&format!("clients/{client}.txt"), &golden);
    }
}

#[test]
fn carriage_returns_stay() {
    for (client, file, above, _) in CLIENTS {
        for (case, before) in cases(file, above) {
            let Some(before) = before.filter(|text| text.contains('\n')) else { continue };
            let after = |text: &str| {
                let world = World::project();
                let path = world.root().join(file);
                put(&path, text);
                let original = tree(&world.root());
                world.ok(&["init", "--clients", client]);
                let after = fs::read_to_string(path).expect("the file");
                world.ok(&["init", "--remove"]);
                assert_eq!(tree(&world.root()), original, "{client}, {case}");
                after
            };
            let (plain, carried) = (after(&before), after(&before.replace('\n', "\r\n")));
            assert_eq!(carried, plain.replace('\n', "\r\n"), "{client}, {case}");
        }
    }
}

#[test]
fn a_broken_file_is_named_and_nothing_is_written() {
    for (client, file, above, _) in CLIENTS {
        let is_toml = file.ends_with(".toml");
        let (broken, shape) = match is_toml {
            true => ("a = 1\nb = \n".to_owned(), format!("\n{above} = 3\n")),
            false => {
                ("{\n  \"a\": 1\n  \"b\": 2\n}\n".to_owned(), format!("{{\n\"{above}\": 3}}\n"))
            }
        };
        for text in [broken, shape] {
            let world = World::git();
            put(&world.root().join(file), &text);
            let original = tree(&world.root());
            let ran = world.run(&["init", "--clients", "all"]);
            assert_eq!(ran.code, 1, "{client}: {}", ran.stderr);
            let place = format!("error[CLIENT_FILE_INVALID]: {file}:2: ");
            assert!(ran.stderr.contains(&place), "{client}: {}", ran.stderr);
            assert_eq!(tree(&world.root()), original, "{client}");
            assert!(!world.root().join(".callboard").exists(), "{client}: nothing is made");
        }
    }
}

#[test]
fn a_file_that_was_edited_keeps_the_edits() {
    for (client, file, _, _) in CLIENTS {
        let world = World::project();
        let path = world.root().join(file);
        world.ok(&["init", "--clients", client]);
        let written = fs::read_to_string(&path).expect("the file");
        let is_toml = file.ends_with(".toml");
        let edited = match is_toml {
            true => format!("mine = true\n\n{written}"),
            false => written.replacen('{', "{\n  \"mine\": true,", 1),
        };
        put(&path, &edited);
        put(&world.root().join("AGENTS.md"), "# Ours\n");
        world.ok(&["init", "--clients", client]);
        let agents = fs::read_to_string(world.root().join("AGENTS.md")).expect("the file");
        put(&world.root().join("AGENTS.md"), &format!("# Title\n\n{agents}\nMore.\n"));
        world.ok(&["init", "--remove"]);
        let left = fs::read_to_string(&path).expect("the file stays");
        assert!(left.contains("mine") && !left.contains("callboard"), "{client}: {left}");
        let agents = fs::read_to_string(world.root().join("AGENTS.md")).expect("the file stays");
        assert_eq!(agents, "# Title\n\n# Ours\n\n\nMore.\n");
    }
}

#[test]
fn a_server_that_a_user_adapted_stays() {
    let world = World::project();
    let path = world.root().join(".mcp.json");
    let own = "{\"mcpServers\": {\"callboard\": {\"command\": \"callboard\", \"args\": [\"mcp\", \"--toolsets\", \"board\"]}}}";
    put(&path, own);
    world.ok(&["init", "--clients", "claude"]);
    assert_eq!(fs::read_to_string(&path).expect("the file"), own);
    world.ok(&["init", "--clients", "claude", "--server", "https://board.example.org"]);
    let served = fs::read_to_string(&path).expect("the file");
    assert!(served.contains("https://board.example.org/mcp"), "{served}");
}

#[test]
fn a_shared_board_is_reached_with_a_variable() {
    let mut golden = String::new();
    for (client, file, _, _) in CLIENTS {
        let world = World::git();
        let address = "https://board.example.org";
        world.ok(&["init", "--clients", client, "--server", address]);
        let text = fs::read_to_string(world.root().join(file)).expect("the file");
        golden.push_str(&format!("===== {client}: {file}\n{text}\n"));
        assert!(!world.root().join(".callboard").exists(), "{client}: no board of its own");
        let local = ["init", "--clients", client, "--server", "http://127.0.0.1:3001"];
        world.ok(&local);
        let text = fs::read_to_string(world.root().join(file)).expect("the file");
        assert!(!text.contains("TOKEN"), "{client}: {text}");
    }
    compare("clients/server.txt", &golden);
}

#[test]
fn the_users_own_files() {
    for (client, _, _, file) in CLIENTS {
        let world = World::bare();
        let home = tree(&world.home());
        let ran = world.ok(&["init", "--clients", client, "--global"]);
        assert!(ran.stdout.starts_with(&format!("wrote ~/{file}")), "{client}: {}", ran.stdout);
        let text = fs::read_to_string(world.home().join(file)).expect("the file");
        assert!(text.contains("callboard"), "{client}: {text}");
        assert!(tree(&world.root()).is_empty(), "{client}: the project is left alone");
        world.ok(&["init", "--remove", "--global"]);
        let left = tree(&world.home());
        let is_config = |path: &&PathBuf| !path.starts_with(world.home().join(".local"));
        assert!(left.keys().filter(is_config).eq(home.keys()), "{client}: {left:?}");
    }
}

#[test]
fn a_link_does_not_lead_out_of_the_project() {
    let world = World::git();
    let outside = world.home().join("outside.json");
    put(&outside, "{}\n");
    std::os::unix::fs::symlink(&outside, world.root().join(".mcp.json")).expect("a link");
    let ran = world.run(&["init", "--clients", "claude"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("error[CLIENT_FILE_OUTSIDE]"), "{}", ran.stderr);
    fs::remove_file(world.root().join(".mcp.json")).expect("removed");
    std::os::unix::fs::symlink(world.home(), world.root().join(".codex")).expect("a link");
    let ran = world.run(&["init", "--clients", "codex"]);
    assert!(ran.stderr.contains("error[CLIENT_FILE_OUTSIDE]"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(&outside).expect("the file"), "{}\n");
    assert!(!world.home().join("config.toml").exists());
}

#[test]
fn without_a_terminal_only_what_is_named_is_written() {
    let world = World::git();
    put(&world.root().join("CLAUDE.md"), "# Ours\n");
    let original = tree(&world.root());
    world.ok(&["init"]);
    assert_eq!(tree(&world.root()), original);
    let ran = world.ok(&["init", "--clients", "claude"]);
    assert!(ran.stderr.contains("@AGENTS.md"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(world.root().join("CLAUDE.md")).expect("it"), "# Ours\n");
    let ran = world.run(&["init", "--clients", "claude,emacs"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("'emacs' is no client"), "{}", ran.stderr);
}

#[test]
fn the_block_for_agents_is_short() {
    let world = World::git();
    world.ok(&["init", "--clients", "claude"]);
    let text = fs::read_to_string(world.root().join("AGENTS.md")).expect("the block");
    assert!(text.lines().count() < 25, "{text}");
    compare("clients/AGENTS.md", &text);
}

#[test]
fn a_terminal_is_shown_the_change_and_asked() {
    let programs = tempfile::tempdir().expect("a folder");
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let world = World::git().with("PATH", &path);
    let claude = programs.path().join("claude");
    put(&claude, "#!/bin/sh\n");
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).expect("a program");
    put(&world.root().join("CLAUDE.md"), "# Ours\n");
    let original = tree(&world.root());

    let shown = Terminal::answering(&world, &["init"], "n\n");
    assert!(shown.contains(".mcp.json (new)"), "{shown}");
    assert!(shown.contains("+   \"mcpServers\": {"), "{shown}");
    assert!(shown.contains("Write this? [y/N]"), "{shown}");
    assert!(!shown.contains(".codex"), "only what is installed: {shown}");
    assert_eq!(tree(&world.root()), original);

    let shown = Terminal::answering(&world, &["init"], "y\n");
    assert!(shown.contains("wrote .mcp.json, AGENTS.md, CLAUDE.md"), "{shown}");
    let text = fs::read_to_string(world.root().join("CLAUDE.md")).expect("the file");
    assert!(text.starts_with("# Ours\n") && text.contains("\n@AGENTS.md\n"), "{text}");
    let shown = Terminal::answering(&world, &["init", "--remove"], "y\n");
    assert!(shown.contains("- @AGENTS.md"), "{shown}");
    assert_eq!(tree(&world.root()), original);
}

#[test]
fn the_doctor_looks_at_clients() {
    let programs = tempfile::tempdir().expect("a folder");
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let world = World::project().with("PATH", &path);
    let codex = programs.path().join("codex");
    put(&codex, "#!/bin/sh\necho codex-cli 1.2.3\n");
    fs::set_permissions(&codex, fs::Permissions::from_mode(0o755)).expect("a program");
    let looked = || -> BTreeMap<String, (String, String)> {
        let document = world.run(&["doctor", "--json"]).json();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let line = |check: &serde_json::Value| {
            (text(&check["name"]), (text(&check["status"]), text(&check["message"])))
        };
        document["checks"].as_array().expect("checks").iter().map(line).collect()
    };
    let (status, message) = looked()["Codex"].clone();
    assert_eq!((status.as_str(), message.as_str()), ("warn", "codex-cli 1.2.3; not connected"));
    assert!(!looked().contains_key("Cursor"), "neither installed nor connected");

    world.ok(&["init", "--clients", "codex,cursor", "--hooks"]);
    let (status, message) = looked()["Codex"].clone();
    assert_eq!(status, "fail", "callboard is not on PATH: {message}");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_callboard"), programs.path().join("callboard"))
        .expect("a link");
    let found = looked();
    let (status, message) = &found["Codex"];
    assert_eq!(status, "ok", "{message}");
    assert!(message.contains(".codex/config.toml has the server; hooks are on"), "{message}");
    assert!(found["Cursor"].1.starts_with("not installed here"), "{:?}", found["Cursor"]);
    assert!(found["mcp command"].1.contains("answers"), "{:?}", found["mcp command"]);

    let hooks = world.root().join(".codex/hooks.json");
    let text = fs::read_to_string(&hooks).expect("the hooks");
    put(&hooks, &text.replace("\"timeout\": 5", "\"timeout\": 4"));
    let (status, message) = looked()["Codex"].clone();
    assert_eq!(status, "warn", "{message}");
    world.run(&["doctor", "--fix"]);
    assert_eq!(fs::read_to_string(&hooks).expect("the hooks"), text);
    assert_eq!(looked()["Codex"].0, "ok");

    // A command of the repository is not run.
    let marker = world.root().join("ran");
    let hostile = format!(
        "{{\"mcpServers\": {{\"callboard\": {{\"command\": \"touch\", \"args\": [\"{}\"]}}}}}}",
        marker.display()
    );
    put(&world.root().join(".mcp.json"), &hostile);
    looked();
    assert!(!marker.exists());
}
