//! Databases that cannot be used, in words people understand.

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
    let mcp = world.run(&["mcp", "--actor", "agent:x"]);
    assert_eq!((mcp.code, mcp.stdout.as_str()), (7, ""));
}

#[test]
fn a_file_that_is_no_database_is_said_to_be_one() {
    let world = World::project();
    for name in ["callboard.db-wal", "callboard.db-shm"] {
        // There may be none: the last connection takes them along.
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
    assert_eq!((again.code, again.stderr.contains("is there already")), (5, true));
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
