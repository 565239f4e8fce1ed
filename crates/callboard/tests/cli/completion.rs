//! Names of tasks in the completion of a shell: offered where a task is meant, read without writing, and silent on every
//! fault.

use std::fs;
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
