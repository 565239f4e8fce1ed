//! Output on a terminal: fitted to the window's width, and without parts for programs.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::fixture::World;

/// A pseudoterminal that commands run in.
pub struct Terminal;

impl Terminal {
    /// Runs a command in a window of so many columns; returns its output, both streams.
    pub fn run(world: &World, columns: u16, arguments: &[&str]) -> String {
        Self::until(world, columns, arguments, None)
    }

    /// Runs a command that asks, and types the answer.
    pub fn answering(world: &World, arguments: &[&str], answer: &str) -> String {
        Self::typed(world, 100, arguments, None, Some(answer))
    }

    /// Runs a command until it has printed these words and is then asked to end.
    pub fn ended_at(world: &World, columns: u16, arguments: &[&str], words: &str) -> String {
        Self::until(world, columns, arguments, Some(words.to_owned()))
    }

    fn until(world: &World, columns: u16, arguments: &[&str], ends: Option<String>) -> String {
        Self::typed(world, columns, arguments, ends, None)
    }

    fn typed(
        world: &World,
        columns: u16,
        arguments: &[&str],
        ends: Option<String>,
        answer: Option<&str>,
    ) -> String {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).expect("it is ours");
        unlockpt(&ours).expect("it can be opened");
        let name = ptsname(&ours, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("a path");
        let theirs = || File::options().read(true).write(true).open(name).expect("its other end");
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let window: OwnedFd = theirs().into();
        tcsetwinsize(&window, size).expect("its size");
        let mut command = world.command(&world.root(), arguments);
        command.env("NO_COLOR", "1");
        command.stdout(Stdio::from(theirs())).stderr(Stdio::from(theirs()));
        if answer.is_some() {
            command.stdin(Stdio::from(theirs()));
        }
        let mut child = command.spawn().expect("the binary starts");
        // It holds the terminal open, which would never end for its reader.
        drop(command);
        // The terminal is read while the command runs, or a long answer would fill it. This end stays open until then,
        // or the rest would be lost.
        let mut reading = File::from(ours);
        // The terminal keeps the answer until the command reads it.
        reading.write_all(answer.unwrap_or_default().as_bytes()).expect("the answer");
        let pid = Pid::from_child(&child);
        let reader = std::thread::spawn(move || {
            let (mut text, mut part, mut ends) = (Vec::new(), [0; 4096], ends);
            // Reading a terminal whose other end is closed is an error instead of an end.
            while let Ok(count @ 1..) = reading.read(&mut part) {
                text.extend_from_slice(&part[..count]);
                let printed = String::from_utf8_lossy(&text);
                if ends.as_ref().is_some_and(|words| printed.contains(words)) {
                    ends = None;
                    kill_process(pid, Signal::TERM).expect("it runs");
                }
            }
            String::from_utf8_lossy(&text).replace('\r', "")
        });
        child.wait().expect("it ends");
        drop(window);
        reader.join().expect("what was printed")
    }
}

/// A task whose line has every part, and so is long.
fn long_task(world: &World) -> (String, String) {
    let title = "Rewrite the importer so that it streams instead of reading everything";
    let id = world.task(&[title, "--check", "true", "--check", "manual: reads well"]);
    let arguments = format!(
        r#"{{"id": "{id}", "expected_actor": "agent:claude-code-17", "idempotency_key": "k"}}"#
    );
    world.ok(&["call", "begin", &arguments, "--actor", "agent:claude-code-17"]);
    (id, title.to_owned())
}

#[test]
fn a_list_fits_the_window_and_leaves_the_title_its_room() {
    let world = World::project();
    let (id, title) = long_task(&world);
    let narrow = Terminal::run(&world, 80, &["task", "list"]);
    let lines: Vec<&str> = narrow.lines().collect();
    assert!(lines[0].starts_with("ID") && lines[0].contains("PRIO"), "{narrow}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{narrow}");
    let beginning: String = title.chars().take(29).collect();
    assert!(lines[1].contains(&beginning), "{narrow}");
    let shown = lines[1].split_whitespace().next().expect("an id");
    assert_eq!(world.ok(&["task", "show", shown, "--json"]).json()["id"], id, "{shown}");
    let wide = Terminal::run(&world, 220, &["task", "list"]);
    assert!(wide.contains("SHOP-1 ") && wide.contains(&title), "{wide}");
    let piped = world.ok(&["task", "list"]).stdout;
    assert!(piped.contains("SHOP-1 ") && piped.contains(&title), "{piped}");
}

#[test]
fn times_are_relative_for_people_and_exact_for_programs() {
    let world = World::project();
    let (id, _) = long_task(&world);
    for arguments in [&["log"][..], &["task", "show", &id], &["status"]] {
        let shown = Terminal::run(&world, 200, arguments);
        let is_relative = shown.contains("just now") || shown.contains(" s ago");
        assert!(is_relative && !shown.contains("Z  "), "{arguments:?}: {shown}");
    }
    let piped = world.ok(&["log"]).stdout;
    let first = piped.split_whitespace().next().expect("a time");
    assert!(first.len() == 24 && first.ends_with('Z'), "{first}");
    let json = world.ok(&["log", "--json"]).stdout;
    assert!(!json.contains(" ago"), "{json}");
}

#[test]
fn status_is_one_screen() {
    let world = World::project();
    for number in 0..30 {
        world.task(&[&format!("task {number}")]);
    }
    let shown = Terminal::run(&world, 80, &["status"]);
    assert!(shown.lines().count() <= 24, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains("and 1 more"), "{shown}");
}
