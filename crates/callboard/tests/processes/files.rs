//! The database file is deleted, replaced, truncated or half written by another program. Callboard refuses to go on
//! with a missing file, and a backup can be restored.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{Server, agent, call};
use crate::peer::{Peer, board, command, git};

const PATIENCE: Duration = Duration::from_secs(60);

fn database(folder: &Path) -> PathBuf {
    folder.join(".callboard/callboard.db")
}

fn beside(folder: &Path, suffix: &str) -> PathBuf {
    folder.join(format!(".callboard/callboard.db{suffix}"))
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn ok(folder: &Path, arguments: &[&str]) -> String {
    let ran = run(folder, arguments);
    assert!(ran.status.success(), "{arguments:?}: {}", words(&ran));
    String::from_utf8(ran.stdout).unwrap()
}

fn words(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

fn titles(folder: &Path) -> Vec<String> {
    let list: Value = serde_json::from_str(&ok(folder, &["task", "list", "--json"])).unwrap();
    let title = |task: &Value| task["title"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(title).collect()
}

fn create(server: &Server, title: &str) -> Result<Value, Value> {
    let arguments = json!({ "title": title });
    // Without a retry key the event is in the last commit of the call.
    call(&agent(), &server.url, "human:ana", "create", &arguments, "").unwrap()
}

fn readyz(server: &Server) -> u16 {
    agent().get(format!("{}/readyz", server.url)).call().unwrap().status().as_u16()
}

/// The server refuses to write and to read, and reports that it is not ready.
fn refuses_everything(server: &Server, why: &str) {
    let list = call(&agent(), &server.url, "human:ana", "list", &json!({}), "").unwrap();
    for refused in [create(server, "after"), list, create(server, "again")] {
        let refusal = refused.unwrap_err();
        assert_eq!(refusal["code"], "UNAVAILABLE", "{refusal}");
        let message = refusal["message"].as_str().unwrap();
        assert!(message.contains(why) && message.contains("callboard restore"), "{message}");
    }
    let start = Instant::now();
    while readyz(server) != 503 {
        assert!(start.elapsed() < Duration::from_secs(5), "still ready");
    }
}

fn doctor_names(folder: &Path, what: &str) {
    let ran = run(folder, &["doctor"]);
    assert_eq!(ran.status.code(), Some(1), "{}", words(&ran));
    assert!(words(&ran).contains(what), "{what} not in {}", words(&ran));
}

#[test]
fn a_deleted_database_is_refused_until_the_server_starts_again() {
    let board = board();
    let server = Server::start(board.path());
    create(&server, "before").unwrap();
    std::fs::remove_file(database(board.path())).unwrap();
    refuses_everything(&server, "was deleted");
    doctor_names(board.path(), "has no file any more");
    let listed = run(board.path(), &["task", "list"]);
    assert_eq!(listed.status.code(), Some(7), "no new board hides the loss: {}", words(&listed));
}

#[test]
fn git_clean_under_a_server_is_noticed() {
    let board = board();
    git(board.path(), &["init", "-q", "-b", "main"]);
    let server = Server::start(board.path());
    create(&server, "before").unwrap();
    git(board.path(), &["clean", "-qfdx"]);
    assert!(!database(board.path()).exists());
    refuses_everything(&server, "was deleted");
    // The folder may be set up anew at once; the old server still does not use it.
    ok(board.path(), &["init", "--prefix", "P"]);
    doctor_names(board.path(), &format!("process {}", server.child.id()));
    refuses_everything(&server, "was deleted");
    drop(server);
    ok(board.path(), &["doctor"]);
    assert_eq!(titles(board.path()), Vec::<String>::new());
}

#[test]
fn a_deleted_log_is_refused_like_a_deleted_database() {
    for suffix in ["-wal", "-shm"] {
        let board = board();
        let server = Server::start(board.path());
        create(&server, "before").unwrap();
        std::fs::remove_file(beside(board.path(), suffix)).unwrap();
        // A connection that the server opens just then creates the file anew: it is deleted or replaced.
        refuses_everything(&server, &format!("({suffix}) was "));
        doctor_names(board.path(), &format!("process {}", server.child.id()));
    }
}

#[test]
fn a_replaced_database_is_refused_and_can_be_restored() {
    let board = board();
    let copy = board.path().join("monday.db");
    let server = Server::start(board.path());
    create(&server, "kept").unwrap();
    ok(board.path(), &["backup", "monday.db"]);
    create(&server, "after the backup").unwrap();
    // As people do it by hand: a copy of the backup is renamed over the database.
    std::fs::copy(&copy, board.path().join("by-hand.db")).unwrap();
    std::fs::rename(board.path().join("by-hand.db"), database(board.path())).unwrap();
    refuses_everything(&server, "was replaced");
    // The log of the former file must not be applied to this one.
    doctor_names(board.path(), "belongs to another database file");
    let busy = run(board.path(), &["restore", "monday.db"]);
    assert_eq!(busy.status.code(), Some(5), "{}", words(&busy));
    let named = format!("process {}", server.child.id());
    assert!(words(&busy).contains(&named), "{}", words(&busy));
    drop(server);
    let refused = run(board.path(), &["task", "list"]);
    assert_eq!(refused.status.code(), Some(7), "{}", words(&refused));

    let said = ok(board.path(), &["restore", "monday.db", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["tasks"], &said["events"]), (&json!(1), &json!(1)), "{said}");
    assert!(Path::new(said["kept"].as_str().unwrap()).exists(), "{said}");
    assert_eq!(titles(board.path()), ["kept"]);
    ok(board.path(), &["doctor"]);
    let server = Server::start(board.path());
    create(&server, "goes on").unwrap();
    assert_eq!(readyz(&server), 200);
}

/// The log of the lost database must not stay beside the restored one.
#[test]
fn a_deleted_database_can_be_restored_although_its_log_is_left() {
    let board = board();
    let mut server = Server::start(board.path());
    create(&server, "kept").unwrap();
    ok(board.path(), &["backup", "monday.db"]);
    create(&server, "after the backup").unwrap();
    std::fs::remove_file(database(board.path())).unwrap();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(beside(board.path(), "-wal").exists());
    ok(board.path(), &["restore", "monday.db"]);
    assert_eq!(titles(board.path()), ["kept"]);
    ok(board.path(), &["doctor"]);
}

#[test]
fn a_file_put_in_place_by_hand_can_be_restored_from_where_it_is() {
    let board = board();
    ok(board.path(), &["task", "add", "kept"]);
    ok(board.path(), &["backup", "monday.db"]);
    let mut server = Server::start(board.path());
    create(&server, "after the backup").unwrap();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    // Not renamed but written into: the file keeps its inode, and the log beside it is stale.
    std::fs::write(database(board.path()), std::fs::read(board.path().join("monday.db")).unwrap())
        .unwrap();
    doctor_names(board.path(), "belongs to another database file");
    ok(board.path(), &["restore", ".callboard/callboard.db"]);
    assert_eq!(titles(board.path()), ["kept"]);
    ok(board.path(), &["doctor"]);
}

#[test]
fn doctor_tells_that_the_end_of_the_log_is_lost() {
    let board = board();
    let mut server = Server::start(board.path());
    create(&server, "first").unwrap();
    ok(board.path(), &["backup", "monday.db"]);
    create(&server, "second").unwrap();
    create(&server, "third").unwrap();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    // SQLite ends its log silently at the first incomplete frame.
    let log = std::fs::OpenOptions::new().write(true).open(beside(board.path(), "-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() - 100).unwrap();
    drop(log);
    let lost = "event 3 was acknowledged and is lost";
    doctor_names(board.path(), lost);
    assert_eq!(titles(board.path()).len(), 2);
    ok(board.path(), &["task", "add", "fourth"]);
    doctor_names(board.path(), lost);
    ok(board.path(), &["restore", "monday.db"]);
    ok(board.path(), &["doctor"]);
}

#[test]
fn a_killed_backup_leaves_nothing_under_its_name() {
    let board = board();
    let body = "x".repeat(100_000);
    for n in 0..20 {
        ok(board.path(), &["task", "add", &format!("task {n}"), "--body", &body]);
    }
    let copies = board.path().join("copies");
    std::fs::create_dir(&copies).unwrap();
    for n in 0..8 {
        let copy = copies.join(format!("{n}.db"));
        let mut backup = command(board.path()).arg("backup").arg(&copy).spawn().unwrap();
        let files = || std::fs::read_dir(&copies).unwrap().count();
        let before = files();
        let deadline = Instant::now() + PATIENCE;
        while files() == before {
            assert!(Instant::now() < deadline, "the backup never began");
            std::thread::yield_now();
        }
        backup.kill().unwrap();
        backup.wait().unwrap();
        if copy.exists() {
            let store = copy.to_str().unwrap();
            let list = ok(board.path(), &["task", "list", "--store", store, "--json"]);
            let list: Value = serde_json::from_str(&list).unwrap();
            assert_eq!(list["items"].as_array().map(Vec::len), Some(20), "copy {n} is not whole");
        }
    }
}

/// Overwrites the pages where tables and their indexes begin.
fn damage(folder: &Path, tables: &[&str]) {
    let db = rusqlite::Connection::open(database(folder)).unwrap();
    let sql = "SELECT rootpage FROM sqlite_master WHERE tbl_name = ?1 AND rootpage > 0";
    let mut select = db.prepare(sql).unwrap();
    let mut roots: Vec<u32> = Vec::new();
    for table in tables {
        roots.extend(
            select.query_map([table], |row| row.get::<_, u32>(0)).unwrap().map(Result::unwrap),
        );
    }
    drop(select);
    let size: u32 = db.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    // Moves everything from the log into the file, where a byte can be found.
    db.pragma_update(None, "journal_mode", "DELETE").unwrap();
    drop(db);
    let file = std::fs::OpenOptions::new().write(true).open(database(folder)).unwrap();
    let noise = vec![0xa5; usize::try_from(size).unwrap()];
    for root in roots {
        file.write_all_at(&noise, u64::from((root - 1) * size)).unwrap();
    }
}

#[test]
fn a_damaged_page_is_named_in_every_toolset_and_not_worth_a_retry() {
    let board = board();
    ok(board.path(), &["task", "add", "unreadable"]);
    // Without its count, a list of no jobs would not read the jobs.
    damage(board.path(), &["tasks", "jobs", "runs", "list_counts"]);
    let cases = [
        ("graph", "list", json!({}), "STORE_DAMAGED"),
        ("execution", "get_next_actionable", json!({}), "system.store_damaged"),
        ("board", "tasks_list", json!({}), "STORE_DAMAGED"),
        ("relay", "jobs_list", json!({}), "STORE_DAMAGED"),
    ];
    for (toolset, tool, arguments, code) in cases {
        let mut mcp = command(board.path());
        mcp.args(["mcp", "--actor", "human:ana", "--toolsets", toolset, "--lane", "admin"]);
        let mut peer = Peer::over(mcp);
        peer.hello();
        let refusal = peer.call(tool, arguments).unwrap_err();
        assert_eq!(refusal["code"], code, "{toolset}: {refusal}");
        assert_eq!(refusal["retryable"], false, "{toolset}: {refusal}");
        let hint = refusal["hint"].as_str().unwrap();
        assert!(hint.contains("callboard restore"), "{toolset}: {refusal}");
    }
    let cli = run(board.path(), &["task", "list", "--json"]);
    assert_eq!(cli.status.code(), Some(7), "{}", words(&cli));
    assert!(words(&cli).contains("STORE_DAMAGED"), "{}", words(&cli));
    doctor_names(board.path(), "database");
}
