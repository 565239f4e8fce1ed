//! `up` from one start to the next: one server, one stable port.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::fixture::World;
use crate::terminal::Terminal;

fn url(first_line: &str) -> String {
    let (_, rest) = first_line.split_once("http://").expect("a URL");
    format!("http://{}", rest.split_whitespace().next().expect("an address"))
}

/// Sends a signal and waits for the end.
fn end(mut child: Child, signal: Signal) -> i32 {
    let number = i32::try_from(child.id()).expect("a process id");
    let process = rustix::process::Pid::from_raw(number).expect("a process id");
    rustix::process::kill_process(process, signal).expect("the signal is sent");
    child.wait().expect("it ends").code().unwrap_or(-1)
}

#[test]
fn up_finds_the_server_that_serves_the_project() {
    let world = World::project().with("CALLBOARD_HTTP_LISTEN", "127.0.0.1:0");
    let (serving, first) = world.start(&["up"]);
    let again = world.ok(&["up"]);
    assert_eq!(url(&again.stdout), url(&first));
    assert!(again.stderr.contains("already runs"), "{}", again.stderr);
    let elsewhere = world.run(&["up", "--listen", "127.0.0.1:1", "--json"]);
    assert_eq!((elsewhere.code, elsewhere.error_code()), (5, "ALREADY_SERVED".into()));
    let (other, second) = world.start(&["up", "--store", "other.db"]);
    assert_ne!(url(&second), url(&first), "another store is another board");
    assert_eq!(other.signal(Signal::TERM), 0);
    assert_eq!(serving.signal(Signal::TERM), 0);
    let (serving, _) = world.start(&["up"]);
    assert_eq!(serving.signal(Signal::KILL), -1);
    let (last, _) = world.start(&["up"]);
    assert_eq!(last.signal(Signal::TERM), 0, "a killed server is no server");
}

#[test]
fn up_keeps_the_port_and_listen_overrides_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let usual = taken.local_addr().expect("its address").to_string();
    let world = World::project().with("CALLBOARD_HTTP_LISTEN", &usual);
    let (up, first) = world.start(&["up"]);
    assert_eq!(up.signal(Signal::TERM), 0);
    drop(taken);
    let (up, second) = world.start(&["up"]);
    assert_eq!(url(&second), url(&first), "the port of the last time");
    assert_eq!(up.signal(Signal::TERM), 0);
    let (up, third) = world.start(&["up", "--listen", &usual]);
    assert_eq!(url(&third), format!("http://{usual}"));
    assert_eq!(up.signal(Signal::TERM), 0);
    let ignored = std::fs::read_to_string(world.callboard(".gitignore")).expect("a file");
    assert!(ignored.contains("callboard.db*"), "{ignored}");
    assert!(world.callboard("callboard.db-server").exists());
}

#[test]
fn up_says_what_waits_and_ctrl_c_what_it_waits_for() {
    let world = World::project().with("CALLBOARD_HTTP_LISTEN", "127.0.0.1:0");
    let id = world.task(&["look at me"]);
    let asked = format!(r#"{{"task_id": "{id}", "summary": "done"}}"#);
    world.ok(&["call", "request_review", &asked, "--toolsets", "board"]);
    let mut child = world
        .command(&world.root(), &["up"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("waiting for you") {
        line.clear();
        assert_ne!(said.read_line(&mut line).expect("a line"), 0, "it never says what waits");
    }
    assert_eq!(line, "waiting for you: 1 review; callboard status shows them\n");
    assert_eq!(end(child, Signal::INT), 0);
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("the rest");
    assert!(rest.contains("stopping: waiting for calls in flight; a second Ctrl-C"), "{rest}");
}

/// A desktop whose opener records the addresses it is asked to open.
fn desktop() -> World {
    let world = World::project().with("CALLBOARD_HTTP_LISTEN", "127.0.0.1:0");
    let bin = world.home().join("bin");
    let opened = world.home().join("opened");
    let script = format!("#!/bin/sh\necho \"$1\" >> {}\n", opened.display());
    for name in ["xdg-open", "open"] {
        world.write(&bin.join(name), &script);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(bin.join(name), mode).expect("it can be run");
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", bin.display());
    world.with("PATH", &path).with("DISPLAY", ":77")
}

/// The address that the desktop was asked to open. `up` does not wait for the browser, so it may come a moment later.
fn opened(world: &World) -> String {
    let (file, start) = (world.home().join("opened"), Instant::now());
    loop {
        match std::fs::read_to_string(&file) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => assert!(start.elapsed() < Duration::from_secs(10), "nothing was opened"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn only_a_terminal_gets_a_browser() {
    let world = desktop();
    let (serving, first) = world.start(&["up"]);
    world.ok(&["up"]);
    assert!(!world.home().join("opened").exists(), "there is no terminal");
    let on_terminal = Terminal::run(&world, 100, &["up", "--no-open"]);
    assert!(!on_terminal.contains("in your browser"), "{on_terminal}");
    let on_terminal = Terminal::run(&world, 100, &["up"]);
    assert!(on_terminal.contains("opened the page in your browser"), "{on_terminal}");
    assert!(on_terminal.contains(&url(&first)), "{on_terminal}");
    let opened = opened(&world);
    let page = format!("{}/open?code=", url(&first));
    assert!(opened.starts_with(&page) && on_terminal.contains(opened.trim()), "{on_terminal}");
    let ci = desktop().with("CI", "true");
    let (other, _) = ci.start(&["up"]);
    let on_terminal = Terminal::run(&ci, 100, &["up"]);
    assert!(!on_terminal.contains("in your browser"), "{on_terminal}");
    assert_eq!(other.signal(Signal::TERM), 0);
    assert_eq!(serving.signal(Signal::TERM), 0);
}

#[test]
fn open_prints_an_address_that_works_once_and_shows_it_on_a_terminal() {
    let world = desktop();
    let unserved = world.run(&["open", "--json"]);
    assert_eq!((unserved.code, unserved.error_code().as_str()), (3, "NOT_SERVED"));
    let (serving, first) = world.start(&["up"]);
    assert!(!first.contains("/open?code="), "a code is for a terminal: {first}");
    let page = format!("{}/open?code=", url(&first));
    let printed = [world.ok(&["open"]).stdout, world.ok(&["open"]).stdout];
    assert!(printed.iter().all(|line| line.starts_with(&page)), "{printed:?}");
    assert_ne!(printed[0], printed[1], "each is another one");
    let json = world.ok(&["open", "--json"]).json();
    assert!(json["url"].as_str().is_some_and(|url| url.starts_with(&page)), "{json}");
    let shown = Terminal::run(&world, 200, &["open", "--print"]);
    assert!(shown.contains(&page) && !shown.contains("in your browser"), "{shown}");
    assert!(!world.home().join("opened").exists(), "nobody asked for a browser");
    let shown = Terminal::run(&world, 200, &["open"]);
    assert!(shown.contains("opened the page in your browser; --print turns that off"), "{shown}");
    let opened = opened(&world);
    assert!(opened.starts_with(&page) && shown.contains(opened.trim()), "{shown}");
    assert_eq!(serving.signal(Signal::TERM), 0);
}

#[test]
fn serve_prints_an_address_to_sign_in_with_on_a_terminal() {
    let world = World::project().with("CALLBOARD_HTTP_LISTEN", "127.0.0.1:0");
    let shown = Terminal::ended_at(&world, 200, &["serve"], "/open?code=");
    assert!(shown.contains("sign in on the pages, once: http://127.0.0.1:"), "{shown}");
}

#[test]
fn a_service_manager_is_told_when_the_server_is_ready_and_when_it_stops() {
    let world = World::project();
    let path = world.home().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let world = world.with("NOTIFY_SOCKET", path.to_str().expect("a plain path"));
    let heard = || {
        let mut bytes = [0; 64];
        let length = manager.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let (serving, _) = world.start(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(heard(), "READY=1");
    assert_eq!(serving.signal(Signal::TERM), 0);
    assert_eq!(heard(), "STOPPING=1");
}
