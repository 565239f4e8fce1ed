//! Names of tasks in the completion of a shell: offered where a task is meant, read without writing, and silent on every
//! fault.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::fixture::World;

fn offered(world: &World, words: &[&str]) -> String {
    let ran = world.ok(&[&["complete", "--"][..], words].concat());
    assert_eq!(ran.stderr, "");
    ran.stdout
}

#[test]
fn names_of_open_tasks_are_offered() {
    let world = World::project();
    world.task(&["One\u{1b}[31m"]);
    let closed = world.task(&["Two"]);
    world.task(&["Three"]);
    world.ok(&["claim", &closed]);
    world.ok(&["done", &closed]);
    let both = "SHOP-3\tThree\nSHOP-1\tOne [31m\n";
    let rows: [(&[&str], &str); 7] = [
        (&["claim", ""], both),
        (&["claim", "sh"], both),
        (&["task", "dep", "add", "SHOP-1", "SHOP-3"], "SHOP-3\tThree\n"),
        (&["task", "add", "Four", "--dep", "SHOP-1"], "SHOP-1\tOne [31m\n"),
        (&["claim", "OTHER"], ""),
        (&["agent", "show", ""], ""),
        (&[], ""),
    ];
    let store =
        || ["callboard.db", "callboard.db-wal"].map(|name| fs::read(world.callboard(name)).ok());
    let before = store();
    for (words, wanted) in rows {
        assert_eq!(offered(&world, words), wanted, "{words:?}");
    }
    assert_eq!(store(), before, "a completion writes nothing");
}

#[test]
fn ids_of_other_things_are_offered_with_their_titles() {
    let programs = tempfile::tempdir().expect("a folder");
    fs::write(programs.path().join("claude"), "#!/bin/sh\n").expect("written");
    fs::set_permissions(programs.path().join("claude"), fs::Permissions::from_mode(0o755))
        .expect("a program");
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    let world = World::project().with("PATH", &path);
    let token = world.ok(&["token", "add", "--actor", "agent:ci", "--json"]).json();
    let token = token["id"].as_str().expect("an id").to_owned();
    assert_eq!(offered(&world, &["token", "revoke", ""]), format!("{token}\tagent:ci\n"));
    assert_eq!(offered(&world, &["token", "revoke", &token[..6]]), format!("{token}\tagent:ci\n"));
    world.ok(&["token", "revoke", &token]);
    assert_eq!(offered(&world, &["token", "revoke", ""]), "");

    let task = world.task(&["Add login"]);
    world.ok(&["agent", "add", "w-1", "--type", "WORKER"]);
    assert_eq!(offered(&world, &["agent", "show", "W"]), "w-1\tWORKER\n");
    assert_eq!(offered(&world, &["mail", "send", ""]), "w-1\tWORKER\n");
    world.ok(&["mail", "send", "w-1", "Hello\u{1b}[1m", "a text"]);
    let mail = offered(&world, &["mail", "read", ""]);
    assert!(mail.starts_with("mail-") && mail.ends_with("\tyou: Hello [1m\n"), "{mail}");

    let spec = r#"{"tasks": [{"title": "First"}]}"#;
    let plan = ["call", "propose_plan", spec, "--toolsets", "board", "--actor", "agent:p"];
    let plan = world.ok(&plan).json()["plan_id"].as_str().expect("an id").to_owned();
    assert_eq!(offered(&world, &["plan", "approve", "plan_"]), format!("{plan}\tdraft: First\n"));

    let settings = "[executors.mine]\ncommand = [\"true\"]\n";
    world.write(&world.callboard("config.local.toml"), settings);
    let job = world.ok(&["run", &task, "--agent", "mine", "--json"]).json();
    let job = job["job"].as_str().expect("an id").to_owned();
    for words in [&["job", "show", ""][..], &["job", "cancel", "job_"], &["logs", "job_"]] {
        assert_eq!(offered(&world, words), format!("{job}\tqueued: Add login\n"), "{words:?}");
    }

    let agents = offered(&world, &["run", &task, "--agent", "cl"]);
    assert!(agents.starts_with("claude"), "{agents}");
    assert_eq!(offered(&World::git(), &["run", "X-1", "--agent", "cl"]), "");
    for words in [&["pull", "merge", ""][..], &["agent", "add", ""]] {
        assert_eq!(offered(&world, words), "", "{words:?}");
    }
}

#[test]
fn a_fault_offers_nothing() {
    assert_eq!(offered(&World::git(), &["claim", ""]), "");
    let world = World::project();
    world.task(&["One"]);
    fs::write(world.callboard("callboard.db"), "no database").expect("written");
    assert_eq!(offered(&world, &["claim", ""]), "");
    fs::remove_file(world.callboard("callboard.db")).expect("removed");
    assert_eq!(offered(&world, &["claim", ""]), "");
    assert!(!world.callboard("callboard.db").exists());
    fs::write(world.callboard("config.toml"), "broken = [").expect("written");
    assert_eq!(offered(&world, &["claim", ""]), "");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test is the outside world")]
fn bash_completes_names_and_options() {
    let world = World::project();
    world.task(&["One"]);
    let programs = tempfile::tempdir().expect("a folder");
    let program = programs.path().join("callboard");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_callboard"), program).expect("a link");
    let completed = |words: &str, typed: &str| {
        let script = format!(
            "source <(callboard completions bash)\nCOMP_WORDS=({words} '{typed}')\n\
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n_callboard_tasks callboard '{typed}' claim\n\
             printf '%s ' \"${{COMPREPLY[@]}}\"\ncomplete -p callboard"
        );
        let ended = Command::new("bash")
            .args(["--norc", "-c", &script])
            .current_dir(world.root())
            .env("HOME", world.home())
            .env("PATH", format!("{}:/usr/bin:/bin", programs.path().display()))
            .output()
            .expect("bash runs");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8_lossy(&ended.stdout).into_owned()
    };
    let named = completed("callboard claim", "SH");
    assert!(named.starts_with("SHOP-1 ") && named.contains("-F _callboard_tasks"), "{named}");
    let option = completed("callboard claim", "--ac");
    assert!(option.starts_with("--actor ") && !option.contains("SHOP"), "{option}");
}

#[test]
fn zsh_and_fish_ask_for_names() {
    let world = World::bare();
    let zsh = world.ok(&["completions", "zsh"]).stdout;
    assert!(zsh.contains("callboard complete -- "), "{zsh}");
    assert!(zsh.contains("    compdef _callboard_tasks callboard\n"), "{zsh}");
    let asks = "then\n    compdef _callboard_tasks callboard\n    _callboard_tasks \"$@\"\nelse";
    assert!(zsh.contains(asks), "{zsh}");
    let fish = world.ok(&["completions", "fish"]).stdout;
    let is_asked = |line: &&str| line.contains("(callboard complete -- ");
    let asked: Vec<&str> = fish.lines().filter(is_asked).collect();
    for option in ["-l clients ", "-l dep "] {
        assert!(asked.iter().any(|line| line.contains(option)), "{option}: {fish}");
    }
    assert!(
        asked.last().is_some_and(|line| line.starts_with("complete -c callboard -k ")),
        "{fish}"
    );
}
