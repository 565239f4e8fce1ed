//! Agents that Callboard runs start in a worktree that the recipe of the project has made ready.

use std::fs::{self, OpenOptions};
use std::io::Write;

use serde_json::Value;

use crate::peer::command;
use crate::story::Shop;

/// Commits what it sees of its task, and of the files that the recipe placed.
const AGENT: &str = r#"cat > /dev/null
{ echo "$CALLBOARD_SLUG $CALLBOARD_PORT $CALLBOARD_PORT_COUNT"; cat seen.o .env node_modules/lib.js; } > seen.txt
git add -A && git commit -qm work || exit 4
echo '<complete/>'
"#;

fn shop(recipe: &str) -> Shop {
    let shop = Shop::open(AGENT);
    fs::write(shop.at(".gitignore"), ".callboard/\n.env\n*.o\nnode_modules/\nagent.sh\n").unwrap();
    shop.git(&["add", ".gitignore"]);
    shop.git(&["commit", "-q", "-m", "ignores"]);
    fs::write(shop.at(".env"), "KEY=1\n").unwrap();
    fs::create_dir(shop.at("node_modules")).unwrap();
    fs::write(shop.at("node_modules/lib.js"), "lib\n").unwrap();
    fs::write(shop.at(".worktreeinclude"), ".env\n").unwrap();
    let path = shop.at(".callboard/config.local.toml");
    let mut settings = OpenOptions::new().append(true).open(path).unwrap();
    write!(settings, "\n[workspace]\nlink = [\"node_modules\"]\n{recipe}").unwrap();
    shop
}

fn task(shop: &Shop) -> String {
    let task: Value =
        serde_json::from_str(&shop.ok(&["task", "add", "Look around", "--json"])).unwrap();
    task["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_agent_finds_a_ready_worktree_and_commits_none_of_the_recipes_files() {
    let shop = shop("setup = 'echo set up on $CALLBOARD_PORT | tee seen.o'\n");
    let id = task(&shop);
    shop.ok(&["run", &id, "--agent", "mine", "--here"]);
    let tree = shop.at(".callboard/worktrees").join(&id);
    let seen = fs::read_to_string(tree.join("seen.txt")).unwrap();
    let port = seen.split(' ').nth(1).unwrap();
    let name = seen.split(' ').next().unwrap();
    assert_eq!(seen, format!("{name} {port} 10\nset up on {port}\nKEY=1\nlib\n"));
    assert!(name.ends_with("-1") && port.parse::<u16>().is_ok_and(|port| port >= 20_000), "{seen}");
    let branch = shop.git(&["branch", "--list", "callboard/*", "--format=%(refname:short)"]);
    let files = shop.git(&["diff", "--name-only", "main", branch.trim()]);
    assert_eq!(files, "seen.txt\n", "neither the link nor the copy");
    let jobs: Value = serde_json::from_str(&shop.ok(&["job", "list", "--json"])).unwrap();
    let job = jobs["works"][0]["id"].as_str().unwrap().to_owned();
    let log = shop.ok(&["logs", &id]);
    assert!(log.contains("workspace.setup took 0s: .callboard/runs/"), "{job}: {log}");
    shop.ok(&["approve", &id, "--merge"]);
    assert!(shop.at("seen.txt").exists());
}

#[test]
fn an_agent_does_not_start_in_a_worktree_whose_setup_failed() {
    let shop = shop("setup = 'echo no such package; test -e \"$PWD/../../../ok\"'\n");
    let id = task(&shop);
    let failed =
        command(shop.board.path()).args(["run", &id, "--agent", "mine", "--here"]).output();
    let failed = failed.unwrap();
    let words = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(!failed.status.success());
    assert!(words.contains("workspace.setup failed with exit 1"), "{words}");
    assert!(words.contains("no such package"), "{words}");
    let left: Value = serde_json::from_str(&shop.ok(&["task", "show", &id, "--json"])).unwrap();
    assert!(left["assignee"].is_null(), "nobody holds it: {left}");
    fs::write(shop.at("ok"), "").unwrap();
    shop.ok(&["run", &id, "--agent", "mine", "--here"]);
}
