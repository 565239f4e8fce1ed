//! A board that moves to another database, and from PostgreSQL back to a file.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::fixture::{Ran, World};
use crate::schema::Schema;

const DATABASE: &str = "sqlite:.callboard/callboard.db";

/// A project with two tasks, and a place outside it to move to.
fn board() -> (World, String, PathBuf) {
    let world = World::project();
    let first = world.task(&["first", "--check", "true"]);
    world.task(&["second", "--dep", &first]);
    let elsewhere = world.home().join("moved.db");
    (world, first, elsewhere)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a readable path")
}

fn rows(ran: &Ran) -> Vec<(String, u64)> {
    let tables = ran.json()["tables"].as_array().expect("tables").clone();
    let row = |table: &serde_json::Value| {
        assert_eq!(table["sha256"].as_str().map(str::len), Some(64));
        (table["name"].as_str().expect("a name").to_owned(), table["rows"].as_u64().expect("rows"))
    };
    tables.iter().map(row).collect()
}

#[test]
fn a_board_moves_and_says_what_it_took_along() {
    let (world, first, moved) = board();
    let ran = world.ok(&["migrate", DATABASE, text(&moved)]);
    let lines: Vec<Vec<&str>> =
        ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.iter().all(|line| line.len() == 3 && line[2].len() == 64), "{}", ran.stdout);
    assert!(lines.iter().any(|line| line[..2] == ["tasks", "2"]), "{}", ran.stdout);
    assert!(ran.stderr.contains(&format!("CALLBOARD_STORE to sqlite:{}", text(&moved))));
    let world = world.with("CALLBOARD_STORE", text(&moved));
    world.ok(&["done", &first]);
    assert!(world.ok(&["doctor"]).stdout.contains("events agree"));
}

#[test]
fn json_is_one_document() {
    let (world, _, moved) = board();
    let ran = world.ok(&["migrate", DATABASE, text(&moved), "--json"]);
    assert_eq!(ran.stderr, "");
    assert_eq!(ran.json()["findings"], serde_json::json!([]));
    let rows = rows(&ran);
    assert!(rows.contains(&("tasks".into(), 2)) && rows.contains(&("deps".into(), 1)), "{rows:?}");
}

#[test]
fn what_cannot_move_is_said() {
    let (world, _, moved) = board();
    let nowhere = world.run(&["migrate", "nothing.db", text(&moved), "--json"]);
    assert_eq!((nowhere.code, nowhere.error_code()), (3, "STORE_NOT_FOUND".into()));
    assert!(!world.root().join("nothing.db").exists() && !moved.exists());
    world.ok(&["migrate", DATABASE, text(&moved)]);
    let again = world.run(&["migrate", DATABASE, text(&moved), "--json"]);
    assert_eq!((again.code, again.error_code()), (5, "STORE_NOT_EMPTY".into()));
    let said = "FROM: the path of the database is missing";
    let empty = world.run(&["migrate", "sqlite:", "x.db"]);
    assert_eq!((empty.code, empty.stderr.contains(said)), (2, true), "{}", empty.stderr);
    assert_eq!(world.run(&["migrate", DATABASE, ""]).code, 2);
    let unwritable = world.run(&["migrate", DATABASE, "/no/such/folder/x.db"]);
    assert_eq!(unwritable.code, 7);
    assert!(unwritable.stderr.contains("]: TO: cannot open"), "{}", unwritable.stderr);
}

#[test]
fn damage_that_came_along_is_told() {
    let (world, _, moved) = board();
    let db = Connection::open(world.callboard("callboard.db")).expect("the database");
    db.execute("UPDATE tasks SET open_deps = 7 WHERE title = 'second'", []).expect("damage");
    let ran = world.run(&["migrate", DATABASE, text(&moved)]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("open-deps counter differs"), "{}", ran.stderr);
    assert!(ran.stderr.contains("FROM has this fault too"), "{}", ran.stderr);
    let copy = text(&moved);
    assert_eq!(world.ok(&["task", "list", "--store", copy]).stdout.lines().count(), 2);
}

#[test]
fn a_password_is_never_printed() {
    let (world, ..) = board();
    let world = world.with("CALLBOARD_LOG", "debug");
    let secret = "s3cr3t";
    let address = format!("postgres://ana:{secret}@127.0.0.1:1/board");
    let wrong = format!("mysql://ana:{secret}@127.0.0.1:1/board");
    for arguments in [
        &["migrate", DATABASE, &address][..],
        &["migrate", &address, "x.db"],
        &["migrate", DATABASE, &wrong],
        &["migrate", DATABASE, "x.db", &address],
        &["migrate", DATABASE, "x.db", &address, "--json"],
        &["migrate", &address],
        &["migrate", DATABASE, &format!("postgres://127.0.0.1:1/b?password={secret}&nonsense=1")],
        &["backup", "x.db", "--store", &address],
    ] {
        let ran = world.run(arguments);
        assert!([2, 7].contains(&ran.code), "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty(), "{arguments:?}");
        let leaks = ran.stdout.contains(secret) || ran.stderr.contains(secret);
        assert!(!leaks, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn a_board_goes_to_postgres_and_comes_back_as_a_file() {
    let Some(schema) = Schema::new() else { return };
    let (world, first, moved) = board();
    // The test's server asks for no password, so any works.
    let url = schema.url().replacen("callboard@", "callboard:s3cr3t@", 1);
    let there = world.ok(&["migrate", DATABASE, &url, "--json"]);
    world.ok(&["note", &first, "in PostgreSQL", "--store", &url]);
    let backup = world.ok(&["backup", text(&moved), "--store", &url]);
    assert!(backup.stdout.contains("moved.db holds the whole board"), "{}", backup.stdout);
    let shown = world.ok(&["task", "show", &first, "--store", text(&moved), "--json"]).json();
    assert_eq!(shown["provenance"].as_array().map(Vec::len), Some(2));
    let back = world.home().join("back.db");
    let back = world.ok(&["migrate", &url, text(&back), "--json"]);
    let more = |name: &str| {
        let count = |ran: &Ran| rows(ran).into_iter().find(|row| row.0 == name).map(|row| row.1);
        count(&back).zip(count(&there)).map(|(back, there)| back - there)
    };
    assert_eq!((more("tasks"), more("events"), more("entries")), (Some(0), Some(1), Some(1)));
    let again = world.run(&["migrate", DATABASE, &url]);
    assert_eq!(again.code, 5);
    for ran in [&there, &backup, &back, &again] {
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("s3cr3t"));
    }
}
