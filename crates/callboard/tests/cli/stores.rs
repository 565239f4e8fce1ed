//! Databases that cannot be used, with messages that people understand.

use std::io::Read;

use rusqlite::Connection;

use crate::fixture::World;

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let world = World::project();
    let db = Connection::open(world.callboard("callboard.db")).expect("the database");
    db.pragma_update(None, "user_version", 999).expect("a newer version");
    drop(db);
    let ran = world.run(&["task", "list"]);
    assert_eq!(ran.code, 7);
    assert!(ran.stderr.contains("schema 999, newer than this callboard"), "{}", ran.stderr);
    assert!(ran.stderr.contains("install the newer callboard"), "{}", ran.stderr);
    let mcp = world.run(&["mcp", "--actor", "agent:x"]);
    assert_eq!((mcp.code, mcp.stdout.as_str()), (7, ""));
    let doctor = world.run(&["doctor"]);
    assert!(doctor.stdout.contains("fix: install the newer callboard"), "{}", doctor.stdout);
}

/// The board of an earlier build, as `scripts/make-fixtures` left it.
fn place_older_board(world: &World) {
    let packed = include_bytes!("../../../store/tests/fixtures/v37.db.gz");
    let mut board = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut board).expect("unpacked");
    for name in ["callboard.db-wal", "callboard.db-shm", "callboard.db-bell"] {
        let _ = std::fs::remove_file(world.callboard(name));
    }
    std::fs::write(world.callboard("callboard.db"), board).expect("the board");
}

#[test]
fn a_command_says_that_it_changed_the_schema() {
    let world = World::project();
    place_older_board(&world);
    let ran = world.ok(&["task", "list"]);
    let copy = world.callboard("callboard.db.before-v38");
    let words = format!("; a copy of the database as it was is {}\n", copy.display());
    assert!(ran.stderr.contains("the schema was migrated from 37 to "), "{}", ran.stderr);
    assert!(ran.stderr.contains(&words), "{}", ran.stderr);
    assert!(!ran.stdout.contains("schema") && copy.exists(), "{}", ran.stdout);
    assert!(!world.ok(&["task", "list"]).stderr.contains("schema"));
    for silent in [&["task", "list", "--json"][..], &["mcp", "--actor", "agent:x"]] {
        place_older_board(&world);
        let ran = world.ok(silent);
        assert!(!ran.stderr.contains("schema"), "{silent:?}: {}", ran.stderr);
        assert!(!ran.stdout.contains("schema was"), "{silent:?}: {}", ran.stdout);
    }
}

#[test]
fn a_file_that_is_no_database_is_said_to_be_one() {
    let world = World::project();
    for name in ["callboard.db-wal", "callboard.db-shm"] {
        // The file may be missing: the last connection removes it.
        let _ = std::fs::remove_file(world.callboard(name));
    }
    world.write(&world.callboard("callboard.db"), &"this is no database. ".repeat(500));
    let ran = world.run(&["task", "list", "--json"]);
    assert_eq!((ran.code, ran.error_code()), (7, "STORE_DAMAGED".into()));
    assert!(ran.stderr.contains("restore a backup"), "{}", ran.stderr);
    let doctor = world.run(&["doctor"]);
    assert_eq!(doctor.code, 1);
    assert!(doctor.stdout.contains("fail"), "{}", doctor.stdout);
}

#[test]
fn a_file_that_is_no_board_is_refused_and_left_alone() {
    let world = World::project();
    let at = |name: &str| world.root().join(name);
    world.write(&at("empty.db"), "");
    world.write(&at("text.db"), &"words, words ".repeat(500));
    let other = Connection::open(at("other.db")).expect("opens");
    other.execute_batch("CREATE TABLE t (a); PRAGMA user_version = 5").expect("another program's");
    drop(other);
    for name in ["empty.db", "text.db", "other.db"] {
        let before = std::fs::read(at(name)).expect("readable");
        let path = at(name);
        let path = path.to_str().expect("a readable path");
        let ran = world.run(&["task", "list", "--store", path, "--json"]);
        assert_eq!((ran.code, ran.error_code()), (7, "STORE_DAMAGED".into()), "{name}");
        assert!(ran.stderr.contains("is no "), "{name}: {}", ran.stderr);
        let restored = world.run(&["restore", path, "--json"]);
        assert_eq!((restored.code, restored.error_code()), (7, "STORE_DAMAGED".into()), "{name}");
        assert_eq!(std::fs::read(at(name)).expect("readable"), before, "{name} was changed");
    }
    world.ok(&["doctor"]);
}

#[test]
fn an_empty_file_in_the_place_of_the_board_names_the_way_out() {
    let world = World::project();
    for name in ["", "-wal", "-shm", "-bell"] {
        // The file may be missing: the last connection removes the log.
        let _ = std::fs::remove_file(world.callboard(&format!("callboard.db{name}")));
    }
    world.write(&world.callboard("callboard.db"), "");
    let ran = world.run(&["init"]);
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(ran.stderr.contains("delete the file to begin a new board"), "{}", ran.stderr);
    std::fs::remove_file(world.callboard("callboard.db")).expect("deleted");
    world.ok(&["task", "list"]);
}

#[test]
fn a_restored_backup_is_the_board_again() {
    let world = World::project();
    let kept = world.task(&["kept"]);
    world.ok(&["backup", "monday.db"]);
    let later = world.task(&["after the backup"]);
    assert_eq!(world.run(&["restore", "tuesday.db"]).code, 3);
    let own = world.run(&["restore", ".callboard/callboard.db", "--json"]);
    assert_eq!((own.code, own.error_code()), (5, "FILE_IN_USE".into()));

    let ran = world.ok(&["restore", "monday.db"]);
    assert!(ran.stdout.contains("is the board again: 1 tasks, 1 events"), "{}", ran.stdout);
    world.ok(&["task", "show", &kept]);
    assert_eq!(world.run(&["task", "show", &later]).code, 3);
    world.ok(&["doctor"]);
    // The former database is a complete board, with everything that was in its log.
    let folder = std::fs::read_dir(world.root().join(".callboard")).expect("readable");
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let aside: Vec<String> = names.filter(|name| name.contains("before-restore")).collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    let aside = world.callboard(&aside[0]);
    let aside = aside.to_str().expect("a readable path");
    world.ok(&["task", "show", &later, "--store", aside]);
}

#[test]
fn a_board_in_postgresql_is_restored_by_a_move() {
    let world = World::project();
    world.ok(&["backup", "monday.db"]);
    let there = ["restore", "monday.db", "--store", "postgres://ana@db.invalid/board", "--json"];
    let ran = world.run(&there);
    assert_eq!((ran.code, ran.error_code()), (2, "INVALID_INPUT".into()));
    assert!(ran.stderr.contains("callboard migrate monday.db postgres://"), "{}", ran.stderr);
}

#[test]
fn a_backup_is_a_board_of_its_own_and_overwrites_nothing() {
    let world = World::project();
    let task = world.task(&["kept"]);
    let copy = world.root().join("copy.db");
    let copy = copy.to_str().expect("a readable path");
    world.ok(&["backup", copy]);
    world.ok(&["note", &task, "after the backup"]);
    let then = world.ok(&["task", "show", &task, "--store", copy, "--json"]).json();
    assert_eq!(then["provenance"].as_array().map(Vec::len), Some(1));
    let again = world.run(&["backup", copy]);
    assert_eq!((again.code, again.stderr.contains("already exists")), (5, true));
    assert_eq!(world.run(&["backup", "/no/such/folder/copy.db"]).code, 7);
}

#[test]
fn a_store_elsewhere_needs_no_project() {
    let world = World::bare();
    let path = world.home().join("other.db");
    let path = path.to_str().expect("a plain path");
    let id = world.task(&["somewhere else", "--store", path]);
    assert!(id.starts_with("TASK-"), "{id}");
    world.ok(&["task", "show", &id, "--store", &format!("sqlite:{path}")]);
}
