//! What only the embedded store can show: its file, its versions, its neighbours.

use std::sync::Arc;

use callboard_domain::command::Command;
use callboard_domain::time::Timestamp;
use callboard_store::clock::ManualClock;
use callboard_store::sqlite::SqliteStore;
use callboard_store::{Store, StoreError};
use rusqlite::Connection;

use crate::fixture::Fixture;

fn open(path: &std::path::Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, Arc::new(ManualClock::at(Timestamp(1))))
}

fn words(result: Result<SqliteStore, StoreError>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let f = Fixture::sqlite().await;
    let task = f.create("a", &[]).await;
    let path = f.folder().join("test.db");
    let other = Connection::open(&path).unwrap();
    other.pragma_update(None, "user_version", 99).unwrap();
    assert!(words(open(&path)).contains("schema 99, newer than this callboard knows"));
    // A process that was running when the newer version came refuses to write, and lives on.
    let claim = f.act("agent:w1", Command::TaskClaim { task }).await;
    assert!(claim.unwrap_err().to_string().contains("newer"));
    other.pragma_update(None, "user_version", 1).unwrap();
    f.done("agent:w1", Command::TaskClaim { task }).await;
}

#[tokio::test]
async fn a_different_build_with_the_same_number_is_refused() {
    let f = Fixture::sqlite().await;
    let path = f.folder().join("test.db");
    let other = Connection::open(&path).unwrap();
    other.execute("UPDATE migrations SET checksum = 'x'", []).unwrap();
    assert!(words(open(&path)).contains("made by a different build"));
}

#[test]
fn what_is_no_database_is_said_so() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = dir.path().join("garbage.db");
    std::fs::write(&garbage, vec![b'x'; 8192]).unwrap();
    assert!(words(open(&garbage)).contains("damaged or is no database"));
    assert!(words(open(&dir.path().join("no/such/folder.db"))).contains("cannot open"));
    assert!(words(open(dir.path())).contains("cannot"), "a folder is no database");
}

#[tokio::test]
async fn a_damaged_task_does_not_break_the_list() {
    let f = Fixture::sqlite().await;
    f.create("good", &[]).await;
    let bad = f.create("bad", &[]).await;
    let other = Connection::open(f.folder().join("test.db")).unwrap();
    other.execute("UPDATE tasks SET checks = '{' WHERE title = 'bad'", []).unwrap();
    let query = callboard_store::TaskQuery::of(f.home.project.id, f.policy.clone());
    let titles: Vec<_> =
        f.store.tasks(query).await.unwrap().into_iter().map(|row| row.task.title).collect();
    assert_eq!(titles, ["good"]);
    assert!(f.store.task("default", bad).await.is_err());
    let findings = f.store.verify().await.unwrap();
    assert!(findings.iter().any(|finding| finding.what.contains("checks cannot be read")));
}

#[tokio::test]
async fn doctor_sees_a_counter_that_is_off() {
    let f = Fixture::sqlite().await;
    f.create("a", &[]).await;
    let other = Connection::open(f.folder().join("test.db")).unwrap();
    other
        .execute("UPDATE tasks SET open_deps = 3, label = 'done', assignee = 'agent:x'", [])
        .unwrap();
    let found: Vec<_> = f.store.verify().await.unwrap().into_iter().map(|f| f.what).collect();
    for what in ["open-deps counter differs", "status differs", "assignee differs"] {
        assert!(found.iter().any(|finding| finding.contains(what)), "{what} not in {found:?}");
    }
}

#[tokio::test]
async fn a_backup_is_a_whole_store() {
    let f = Fixture::sqlite().await;
    let task = f.create("kept", &[]).await;
    let copy = f.folder().join("copy.db");
    f.store.backup(copy.clone()).await.unwrap();
    let clock = f.clock.clone();
    let restored = SqliteStore::open(&copy, clock).unwrap();
    assert_eq!(restored.task("default", task).await.unwrap().unwrap(), f.record(task).await);
    assert!(restored.verify().await.unwrap().is_empty());
}

#[test]
fn many_first_opens_make_one_board() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new.db");
    let start = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        let opens: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    open(&path).map(drop)
                })
            })
            .collect();
        for opened in opens {
            opened.join().unwrap().unwrap();
        }
    });
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("part"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn a_link_to_a_board_has_the_locks_of_the_board() {
    let f = Fixture::sqlite().await;
    let link = f.folder().join("link.db");
    std::os::unix::fs::symlink(f.folder().join("test.db"), &link).unwrap();
    let through = open(&link).unwrap();
    assert_eq!(through.last_seq().await.unwrap(), 0);
    assert!(!f.folder().join("link.db-turn").exists());
}

#[tokio::test]
async fn a_copy_of_the_whole_folder_is_a_board_of_its_own() {
    let f = Fixture::sqlite().await;
    f.create("a", &[]).await;
    // A copy with a log beside the database, as a killed process leaves it.
    let copy = tempfile::tempdir().unwrap();
    for name in ["test.db", "test.db-wal", "test.db-bell"] {
        std::fs::copy(f.folder().join(name), copy.path().join(name)).unwrap();
    }
    let opened = open(&copy.path().join("test.db")).unwrap();
    assert_eq!(opened.last_seq().await.unwrap(), 1);
    assert_eq!(opened.verify().await.unwrap(), Vec::new());
}

#[tokio::test]
async fn a_write_that_fails_takes_no_other_command_of_its_batch_along() {
    let f = Fixture::sqlite().await;
    let other = Connection::open(f.folder().join("test.db")).unwrap();
    // The row of the task is written before its event, so the command fails half way.
    other
        .execute_batch(
            "CREATE TRIGGER poison BEFORE INSERT ON events WHEN NEW.data LIKE '%poison%'
             BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
        )
        .unwrap();
    let titles: Vec<String> = (0..40)
        .map(|n| if n % 10 == 5 { format!("poison {n}") } else { format!("task {n}") })
        .collect();
    let creates = titles.iter().map(|title| {
        let command = Command::TaskCreate(f.new_task(title, &[]));
        f.act("agent:w1", command)
    });
    let answers = futures_util::future::join_all(creates).await;
    for (title, answer) in titles.iter().zip(&answers) {
        match title.starts_with("poison") {
            true => assert!(answer.as_ref().unwrap_err().to_string().contains("poisoned")),
            false => assert!(answer.is_ok(), "{title}: {answer:?}"),
        }
    }
    let query = callboard_store::TaskQuery::of(f.home.project.id, f.policy.clone());
    let kept = f.store.tasks(query).await.unwrap();
    assert_eq!(kept.len(), 36);
    assert!(kept.iter().all(|row| row.task.title.starts_with("task")));
    let numbers: std::collections::BTreeSet<u32> = kept.iter().map(|row| row.task.number).collect();
    assert_eq!(numbers, (1..=36).collect(), "a failed command takes no number");
    f.assert_sound().await;
}
