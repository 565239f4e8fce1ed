//! The files of clients that `init` writes: before and after as goldens, idempotent, and given back byte for byte.
//! `CALLBOARD_BLESS=1 cargo test -p callboard --test cli clients` rewrites the goldens.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
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

/// Entries that stood before `init`, each with its case: as `init` writes it, adapted by a user, and of a shape that
/// `init` replaces.
fn own_entries(client: &str, file: &str, above: &str) -> Vec<(&'static str, String)> {
    let json = |entry: &str| format!("{{\"{above}\":{{  \"callboard\": {entry} }}, \"x\": 1}}");
    if file.ends_with(".toml") {
        let toml = |entry: &str| format!("x = 1\n[{above}.callboard] # by hand\n{entry}\n");
        return vec![
            ("equal", toml("command = 'callboard'\nargs = [ \"mcp\" ]")),
            ("adapted", toml("command = 'callboard'\nargs = [\"mcp\", \"--toolsets\", \"board\"]")),
            ("replaced", toml("url = 'http://127.0.0.1:9/mcp'\nstartup_timeout_sec = 1.5")),
        ];
    }
    let (equal, adapted) = match client {
        "opencode" => (
            r#"{"command": ["callboard", "mcp"], "type": "local"}"#,
            r#"{"type": "local", "command": ["callboard", "mcp", "--toolsets", "board"]}"#,
        ),
        "vscode" => (
            r#"{"type": "stdio", "command": "callboard", "args": ["mcp"]}"#,
            r#"{"type": "stdio", "command": "callboard", "args": ["mcp"], "env": {"A": "1"}}"#,
        ),
        _ => (
            r#"{"args": ["mcp"], "command": "callboard"}"#,
            r#"{"command": "callboard", "args": ["mcp"], "env": {"A": "1"}}"#,
        ),
    };
    let replaced = match client {
        "opencode" => r#"{"command": "callboard", "args": ["mcp"]}"#,
        _ => r#"{"command": ["callboard", "mcp"], "mine": [1.5, null]}"#,
    };
    vec![("equal", json(equal)), ("adapted", json(adapted)), ("replaced", json(replaced))]
}

#[test]
fn what_stood_before_is_given_back() {
    let server = ["--server", "http://127.0.0.1:9"];
    let rounds: [&[&[&str]]; 3] =
        [&[&[]], &[&[], &["--hooks"], &[]], &[&[], &server, &["--hooks"]]];
    for (client, file, above, _) in CLIENTS {
        for (case, own) in own_entries(client, file, above) {
            for round in rounds {
                let world = World::git();
                put(&world.root().join(file), &own);
                let original = tree(&world.root());
                for options in round {
                    world.ok(&[&["init", "--clients", client][..], options].concat());
                }
                for _ in 0..2 {
                    let ran = world.ok(&["init", "--remove"]);
                    assert_eq!(tree(&world.root()), original, "{client}, {case}, {round:?}");
                    let left =
                        format!("{file} keeps an entry of Callboard that init did not write");
                    assert!(ran.stderr.contains(&left), "{client}, {case}: {}", ran.stderr);
                }
            }
        }
    }
}

#[test]
fn hooks_and_blocks_that_stood_before_are_given_back() {
    for (client, _, _, _) in CLIENTS {
        let first = World::git();
        first.ok(&["init", "--clients", client, "--hooks"]);
        let committed = tree(&first.root());
        for older in [false, true] {
            let clone = World::git();
            for (path, bytes) in committed.iter().filter(|(path, _)| path.is_file()) {
                let text = String::from_utf8(bytes.clone()).expect("a text");
                let text = if older { as_before(&text) } else { text };
                put(&clone.root().join(path.strip_prefix(first.root()).expect("below")), &text);
            }
            let original = tree(&clone.root());
            clone.ok(&["init", "--clients", client]);
            clone.ok(&["init", "--clients", client, "--hooks"]);
            clone.ok(&["init", "--remove"]);
            assert_eq!(tree(&clone.root()), original, "{client}, {older}");
        }
    }
}

/// A file of ours as another version wrote it.
fn as_before(text: &str) -> String {
    let text = text.replace("\"timeout\": 5", "\"timeout\": 4").replace("Sec\": 5", "Sec\": 4");
    text.replace("how work is done here", "how work is done").replace("const ", "const  ")
}

#[test]
fn an_edited_file_keeps_what_stood_before() {
    for (client, file, above, _) in CLIENTS {
        for (case, own) in own_entries(client, file, above) {
            let world = World::project();
            let path = world.root().join(file);
            put(&path, &own);
            world.ok(&["init", "--clients", client, "--hooks"]);
            let written = fs::read_to_string(&path).expect("the file");
            put(&path, &written.replacen("\"x\": 1", "\"x\": 2", 1).replacen("x = 1", "x = 2", 1));
            world.ok(&["init", "--remove"]);
            let left = fs::read_to_string(&path).expect("the file");
            let value = |text: &str| -> serde_json::Value {
                match file.ends_with(".toml") {
                    true => toml_edit::de::from_str(text).expect("TOML"),
                    false => serde_json::from_str(text).expect("JSON"),
                }
            };
            let mut wanted = value(&own);
            wanted["x"] = 2.into();
            let mut found = value(&left);
            if client == "opencode" {
                found.as_object_mut().expect("an object").remove("$schema");
            }
            assert_eq!(found, wanted, "{client}, {case}: {left}");
        }
    }
}

/// Where `init` never ran, as in a fresh clone, what it would have written is taken out, and nothing else.
#[test]
fn a_clone_loses_what_equals_our_entries() {
    let reaches: [&[&str]; 3] =
        [&[], &["--server", "https://board.example.org"], &["--server", "http://127.0.0.1:9"]];
    for (client, file, above, _) in CLIENTS {
        for reach in reaches {
            let first = World::git();
            first.ok(&[&["init", "--clients", client, "--hooks"][..], reach].concat());
            let clone = World::git();
            for (path, bytes) in tree(&first.root()).iter().filter(|(path, _)| path.is_file()) {
                let text = String::from_utf8(bytes.clone()).expect("a text");
                put(&clone.root().join(path.strip_prefix(first.root()).expect("below")), &text);
            }
            clone.ok(&["init", "--remove"]);
            assert!(
                tree(&clone.root()).is_empty(),
                "{client}, {reach:?}: {:?}",
                tree(&clone.root())
            );
        }
        for (case, own) in own_entries(client, file, above) {
            let clone = World::git();
            put(&clone.root().join(file), &own);
            clone.ok(&["init", "--remove"]);
            let left = fs::read_to_string(clone.root().join(file)).expect("the file");
            assert_eq!(left == own, case != "equal", "{client}, {case}: {left}");
        }
    }
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

/// A client, the variable that moves its folder, and its files below the folder that the variable names.
const MOVED: [(&str, &str, &[&str]); 7] = [
    ("claude", "CLAUDE_CONFIG_DIR", &[".claude.json", "settings.json"]),
    ("codex", "CODEX_HOME", &["config.toml", "hooks.json"]),
    ("gemini", "GEMINI_CLI_HOME", &[".gemini/settings.json"]),
    ("copilot", "COPILOT_HOME", &["mcp-config.json", "hooks/callboard.json"]),
    ("opencode", "XDG_CONFIG_HOME", &["opencode/opencode.json", "opencode/plugins/callboard.js"]),
    ("vscode", "VSCODE_APPDATA", &["Code/User/mcp.json"]),
    ("vscode", "VSCODE_PORTABLE", &["user-data/User/mcp.json"]),
];

/// Every file and folder of the user but the record.
fn own_tree(world: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    let home = world.home();
    let mut files = tree(&home);
    files.retain(|path, _| !path.starts_with(home.join(".local")));
    files
}

#[test]
fn a_variable_moves_the_users_own_files() {
    let mut golden = String::new();
    for (client, variable, files) in MOVED {
        let elsewhere = tempfile::tempdir().expect("a folder");
        // A link above the folder: the file is written where the link leads.
        let folder = elsewhere.path().canonicalize().expect("a folder").join("real/homes");
        fs::create_dir_all(&folder).expect("a folder");
        let link = elsewhere.path().join("link");
        std::os::unix::fs::symlink(folder.parent().expect("a folder"), &link).expect("a link");
        let named = link.join("homes");
        let world = World::bare().with(variable, named.to_str().expect("a path"));
        let first = folder.join(files[0]);
        if client != "opencode" {
            put(&first, if files[0].ends_with(".toml") { TOML_COMMENTS } else { JSON_COMMENTS });
        }
        let (home, moved) = (own_tree(&world), tree(&folder));
        // VS Code reads the user's hooks of Copilot, which another variable moves.
        let hooks = if client == "vscode" { &[][..] } else { &["--hooks"] };
        let connect = [&["init", "--clients", client, "--global"][..], hooks].concat();
        let ran = world.ok(&connect);
        let shown = |file: &&str| named.join(file).display().to_string();
        let wanted = files.iter().map(shown).collect::<Vec<_>>().join(", ");
        assert_eq!(ran.stdout, format!("wrote {wanted}\n"), "{client}, {variable}");
        assert_eq!(own_tree(&world), home, "{client}, {variable}: the home is left alone");
        for file in files {
            let text = fs::read_to_string(folder.join(file)).expect("the file");
            golden.push_str(&format!("===== {client}, {variable}: {file}\n{text}\n"));
        }
        let written = tree(&folder);
        world.ok(&connect);
        assert_eq!(tree(&folder), written, "{client}, {variable}: twice changes nothing");
        world.ok(&["init", "--remove", "--global"]);
        assert_eq!(tree(&folder), moved, "{client}, {variable}: given back");
        assert_eq!(own_tree(&world), home, "{client}, {variable}");
    }
    compare("clients/moved.txt", &golden);
}

#[test]
fn two_moved_folders_and_the_home_do_not_share_a_record() {
    let world = World::bare();
    let (one, two) = (world.home().join("one"), world.home().join("../two"));
    let homes = [None, Some(&one), Some(&two)];
    let texts = ["# home\n", "[a] # one\nb = 1\n", "c = [ 1 ] # two"];
    let file = |home: Option<&PathBuf>| {
        home.map_or_else(|| world.home().join(".codex"), Clone::clone).join("config.toml")
    };
    let run = |home: Option<&PathBuf>, arguments: &[&str]| {
        let mut command = world.command(&world.root(), arguments);
        command.envs(home.map(|home| ("CODEX_HOME", home)));
        let ended = command.output().expect("the binary runs");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8_lossy(&ended.stdout).into_owned()
    };
    fs::create_dir(world.home().parent().expect("a folder").join("two")).expect("a folder");
    for (home, text) in homes.iter().zip(texts) {
        put(&file(*home), text);
    }
    for home in homes {
        run(home, &["init", "--global", "--clients", "codex", "--hooks"]);
    }
    let shown = run(Some(&one), &["init", "--global", "--remove"]);
    assert_eq!(shown, "gave back ~/one/config.toml, ~/one/hooks.json\n");
    run(Some(&two), &["init", "--global", "--remove"]);
    // The usual folder has one name, with the variable and without.
    let usual = world.home().join(".codex");
    run(Some(&usual), &["init", "--global", "--remove"]);
    for (home, text) in homes.iter().zip(texts) {
        assert_eq!(fs::read_to_string(file(*home)).expect("the file"), text, "{home:?}");
        assert!(!file(*home).with_file_name("hooks.json").exists(), "{home:?}");
    }
}

#[test]
fn a_folder_that_a_variable_names_stays() {
    let world = World::bare();
    let folder = world.home().join("deep/codex");
    fs::create_dir_all(&folder).expect("a folder");
    let world = world.with("CODEX_HOME", folder.to_str().expect("a path"));
    world.ok(&["init", "--global", "--clients", "codex"]);
    world.ok(&["init", "--global", "--remove"]);
    assert!(folder.is_dir() && tree(&folder).is_empty());
}

#[test]
fn a_relative_folder_is_refused_and_an_empty_one_is_none() {
    let world = World::bare().with("CODEX_HOME", "codex").with("COPILOT_HOME", "");
    let home = own_tree(&world);
    let ran = world.run(&["init", "--global", "--clients", "claude,codex"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("CODEX_HOME names the relative folder codex"), "{}", ran.stderr);
    assert_eq!(own_tree(&world), home, "nothing is written");
    let ran = world.ok(&["init", "--global", "--clients", "claude,copilot"]);
    assert_eq!(ran.stdout, "wrote ~/.claude.json, ~/.copilot/mcp-config.json\n");
    // The files of a project do not move.
    world.ok(&["init", "--clients", "codex"]);
    assert!(world.root().join(".codex/config.toml").exists());
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
    for list in ["claude,none", "all,codex"] {
        let ran = world.run(&["init", "--clients", list]);
        assert_eq!(ran.code, 2, "{list}: {}", ran.stderr);
        assert!(ran.stderr.contains("stands alone"), "{list}: {}", ran.stderr);
    }
}

#[test]
fn options_about_agents_need_an_agent() {
    let world = World::git();
    for options in [&["--hooks"][..], &["--global"], &["--server", "https://board.example.org"]] {
        let ran = world.run(&[&["init"][..], options].concat());
        assert_eq!(ran.code, 2, "{options:?}: {}", ran.stderr);
        let words = format!("{} connects agents, and none is named", options[0]);
        assert!(ran.stderr.contains(&words), "{}", ran.stderr);
        assert!(ran.stderr.contains("--clients all, or some of claude, codex"), "{}", ran.stderr);
        assert!(!world.root().join(".callboard").exists(), "{options:?}: nothing is made");
        world.ok(&[&["init", "--clients", "none"][..], options].concat());
        fs::remove_dir_all(world.root().join(".callboard")).ok();
    }
}

/// The installer of Cursor's command line makes links named `agent` and `cursor-agent`. Others use the first name, too.
#[test]
fn cursor_is_known_by_the_place_of_its_program() {
    let programs = tempfile::tempdir().expect("a folder");
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let world = World::project().with("PATH", &path);
    let named = programs.path().join("agent");
    for (place, is_cursor) in
        [("other/agent", false), ("cursor-agent/versions/1/cursor-agent", true)]
    {
        let program = programs.path().join(place);
        put(&program, "#!/bin/sh\necho 2026.11.01\n");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
        std::os::unix::fs::symlink(&program, &named).expect("a link");
        let line = checks(&world).get("Cursor").map(|(_, message)| message.clone());
        assert_eq!(line, is_cursor.then(|| "2026.11.01; not connected".to_owned()), "{place}");
        fs::remove_file(&named).expect("removed");
    }
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
    assert!(shown.contains("agents to connect: Claude Code\n"), "{shown}");
    assert!(shown.contains(".mcp.json (new)"), "{shown}");
    assert!(shown.contains("+   \"mcpServers\": {"), "{shown}");
    assert!(shown.contains("Write this? [y/N]"), "{shown}");
    assert!(!shown.contains(".codex"), "only what is installed: {shown}");
    assert_eq!(tree(&world.root()), original);

    let shown = Terminal::answering(&world, &["init"], "y\n");
    assert!(shown.contains("wrote .mcp.json, AGENTS.md, CLAUDE.md"), "{shown}");
    let text = fs::read_to_string(world.root().join("CLAUDE.md")).expect("the file");
    assert!(text.starts_with("# Ours\n") && text.contains("\n@AGENTS.md\n"), "{text}");
    let written = tree(&world.root());
    let shown = Terminal::answering(&world, &["init", "--remove"], "y\n");
    assert!(shown.contains("- @AGENTS.md"), "{shown}");
    assert_eq!(tree(&world.root()), original);

    let shown = Terminal::answering(&world, &["init", "--yes"], "");
    assert!(!shown.contains("[y/N]"), "{shown}");
    assert_eq!(tree(&world.root()), written, "the same without the question");
}

/// The lines of the doctor by name: status and message.
fn checks(world: &World) -> BTreeMap<String, (String, String)> {
    let document = world.run(&["doctor", "--json"]).json();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let line = |check: &serde_json::Value| {
        (text(&check["name"]), (text(&check["status"]), text(&check["message"])))
    };
    document["checks"].as_array().expect("checks").iter().map(line).collect()
}

#[test]
fn the_doctor_looks_at_the_users_own_files() {
    let programs = tempfile::tempdir().expect("a folder");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let moved = elsewhere.path().to_str().expect("a path").to_owned();
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let world = World::project().with("PATH", &path).with("CODEX_HOME", &moved);
    let codex = programs.path().join("codex");
    put(&codex, "#!/bin/sh\necho codex-cli 1.2.3\n");
    fs::set_permissions(&codex, fs::Permissions::from_mode(0o755)).expect("a program");
    let line = |name: &str| checks(&world).get(name).cloned().unwrap_or_default();

    world.ok(&["init", "--global", "--clients", "codex,cursor", "--hooks"]);
    assert_eq!(line("Codex"), Default::default(), "no line says that it is not connected");
    let (status, message) = line("Codex (global)");
    assert_eq!(status, "fail", "callboard is not on PATH: {message}");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_callboard"), programs.path().join("callboard"))
        .expect("a link");
    let (status, message) = line("Codex (global)");
    assert_eq!(status, "ok", "{message}");
    let wanted = format!("codex-cli 1.2.3; {moved}/config.toml has the server; hooks are on");
    assert_eq!(message, wanted);
    let (status, message) = line("Cursor (global)");
    assert_eq!(status, "ok", "{message}");
    assert_eq!(message, "not installed here; ~/.cursor/mcp.json has the server; hooks are on");
    assert!(line("mcp command").1.contains("answers"), "{:?}", line("mcp command"));

    let hooks = elsewhere.path().join("hooks.json");
    let text = fs::read_to_string(&hooks).expect("the hooks");
    put(&hooks, &text.replace("\"timeout\": 5", "\"timeout\": 4"));
    assert_eq!(line("Codex (global)").0, "warn");
    // The user's files are mended in any folder.
    let ran = world.run_in(&world.home(), &["doctor", "--fix"]);
    assert!(ran.stderr.contains(&format!("wrote {moved}/hooks.json")), "{}", ran.stderr);
    assert!(ran.stdout.contains("Codex (global)"), "{}", ran.stdout);
    assert!(ran.stdout.contains("answers a client"), "{}", ran.stdout);
    assert_eq!(fs::read_to_string(&hooks).expect("the hooks"), text);
    assert_eq!(line("Codex (global)").0, "ok");

    // A server that is gone, a file that is broken, and a command that is another one.
    fs::remove_file(world.home().join(".cursor/mcp.json")).expect("removed");
    assert_eq!(line("Cursor (global)").1, "no server, hooks alone; hooks are on");
    put(&elsewhere.path().join("config.toml"), "a = \n");
    let (status, message) = line("Codex (global)");
    assert_eq!(status, "fail");
    assert!(message.starts_with(&format!("{moved}/config.toml:1: ")), "{message}");
    put(&elsewhere.path().join("config.toml"), "[mcp_servers.callboard]\nargs = []\n");
    let (status, message) = line("Codex (global)");
    assert!(status == "fail" && message.ends_with("but no command"), "{message}");
    world.ok(&["init", "--global", "--remove"]);
    assert_eq!(line("Codex (global)"), Default::default());
}

/// VS Code and Copilot CLI have one hook file of the user.
#[test]
fn one_hook_file_of_the_user_serves_two_clients() {
    let programs = tempfile::tempdir().expect("a folder");
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let world = World::project().with("PATH", &path);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_callboard"), programs.path().join("callboard"))
        .expect("a link");
    let home = own_tree(&world);
    world.ok(&["init", "--global", "--clients", "copilot", "--hooks"]);
    let found = checks(&world);
    assert!(found.contains_key("Copilot CLI (global)"), "{found:?}");
    assert!(!found.contains_key("VS Code with Copilot (global)"), "it is not connected: {found:?}");
    world.ok(&["init", "--global", "--remove"]);
    let ran = world.ok(&["init", "--global", "--clients", "vscode", "--hooks"]);
    assert!(ran.stdout.contains("~/.copilot/hooks/callboard.json"), "{}", ran.stdout);
    let (_, message) = checks(&world)["VS Code with Copilot (global)"].clone();
    assert!(message.ends_with("; hooks are on"), "{message}");
    world.ok(&["init", "--global", "--remove"]);
    assert_eq!(own_tree(&world), home);
}

#[test]
fn the_doctor_names_a_variable_with_a_relative_folder() {
    let programs = tempfile::tempdir().expect("a folder");
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let world = World::project().with("PATH", &path).with("CODEX_HOME", "codex");
    assert!(!checks(&world).contains_key("Codex (global)"), "Codex is not there");
    let codex = programs.path().join("codex");
    put(&codex, "#!/bin/sh\n");
    fs::set_permissions(&codex, fs::Permissions::from_mode(0o755)).expect("a program");
    let (status, message) = checks(&world)["Codex (global)"].clone();
    assert_eq!(status, "warn");
    assert_eq!(message, "CODEX_HOME names the relative folder codex");
}

#[test]
fn the_doctor_looks_at_clients() {
    let programs = tempfile::tempdir().expect("a folder");
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let world = World::project().with("PATH", &path);
    let codex = programs.path().join("codex");
    put(&codex, "#!/bin/sh\necho codex-cli 1.2.3\n");
    fs::set_permissions(&codex, fs::Permissions::from_mode(0o755)).expect("a program");
    let looked = || checks(&world);
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

#[test]
fn the_doctor_greets_a_server() {
    let line = |world: &World| checks(world)["Claude Code"].clone();
    let connect = |world: &World, address: &str, variable: Option<&str>| {
        let mut arguments = vec!["init", "--clients", "claude", "--server", address];
        arguments.extend(variable.iter().flat_map(|name| ["--token-variable", *name]));
        world.ok(&arguments);
    };
    let world = World::git();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", silent.local_addr().expect("an address"));
    connect(&world, &address, None);
    let (status, message) = line(&world);
    assert_eq!(status, "fail", "{message}");
    assert!(message.ends_with("/mcp, but it gave no answer within 1 s"), "{message}");
    drop(silent);
    let (status, message) = line(&world);
    assert_eq!(status, "fail", "{message}");
    assert!(message.contains("/mcp, but nothing answers: "), "{message}");
    let fix = world.run(&["doctor", "--json"]).json()["checks"].to_string();
    assert!(fix.contains("start callboard serve there"), "{fix}");

    let board = World::project();
    let (serving, first) = board.start(&["serve", "--listen", "127.0.0.1:0"]);
    let address = first.split_whitespace().find(|word| word.starts_with("http://"));
    let address = address.expect("an address").trim_end_matches('/').to_owned();
    connect(&world, &address, None);
    let (status, message) = line(&world);
    assert_eq!(status, "ok", "{message}");
    assert!(message.contains(", which answers after "), "{message}");

    let token = board.ok(&["token", "add", "--actor", "agent:x", "--json"]).json();
    let token = token["token"].as_str().expect("a token").to_owned();
    let (status, message) = line(&world);
    assert_eq!(status, "fail", "{message}");
    assert!(message.contains("asks for a token, and the file names none"), "{message}");
    world.ok(&["init", "--remove"]);
    connect(&world, &address, Some("BOARD_TOKEN"));
    let (status, message) = line(&world);
    assert_eq!(status, "warn", "{message}");
    assert!(message.ends_with("BOARD_TOKEN is not set"), "{message}");
    let world = world.with("BOARD_TOKEN", &token);
    let (status, message) = line(&world);
    assert_eq!(status, "ok", "{message}");
    assert!(message.contains(", which answers after "), "{message}");
    // The token is not sent to an address from a file that `init` did not write.
    let path = world.root().join(".mcp.json");
    let text = fs::read_to_string(&path).expect("the file");
    put(&path, &format!("{text}\n"));
    let (status, message) = line(&world);
    assert_eq!(status, "ok", "{message}");
    assert!(message.contains(", which answers and asks for the token"), "{message}");
    // A token in the file is not sent, and not repeated as the name of a variable.
    put(&path, &text.replace("${BOARD_TOKEN}", "cb_kept_here"));
    let (status, message) = line(&world);
    assert_eq!(status, "ok", "{message}");
    assert!(message.contains(", which answers and asks for the token"), "{message}");
    assert!(!message.contains("cb_kept_here"), "{message}");
    put(&path, &text);
    let world = world.with("BOARD_TOKEN", "cb_wrong");
    let (status, message) = line(&world);
    assert_eq!(status, "fail", "{message}");
    assert!(message.contains("but it refused the token: "), "{message}");
    assert_eq!(serving.signal(rustix::process::Signal::TERM), 0);
}

#[test]
fn what_cannot_be_a_file_is_named_with_the_way_out() {
    let world = World::git();
    let path = world.root().join(".mcp.json");
    let refused = |words: &str| {
        for arguments in [&["init", "--clients", "claude"][..], &["init", "--remove"]] {
            let ran = world.run(arguments);
            assert_eq!(ran.code, 1, "{}", ran.stderr);
            let said = format!("error[CLIENT_FILE_INVALID]: {words}\n");
            assert!(ran.stderr.starts_with(&said), "{}", ran.stderr);
            assert!(ran.stderr.contains("leave its client out of --clients"), "{}", ran.stderr);
        }
    };
    fs::create_dir(&path).expect("a folder");
    refused(".mcp.json is a folder");
    fs::remove_dir(&path).expect("removed");
    std::os::unix::fs::symlink("nowhere", &path).expect("a link");
    refused(".mcp.json is a link to nothing");
    fs::remove_file(&path).expect("removed");
    put(&world.root().join(".codex"), "a file\n");
    let ran = world.run(&["init", "--clients", "codex"]);
    assert!(ran.stderr.contains(".codex/config.toml would be below a file"), "{}", ran.stderr);
}
