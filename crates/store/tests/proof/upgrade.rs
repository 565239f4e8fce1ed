//! Boards of earlier builds are migrated, keep every row and go on. A board of a newer build is refused and left alone.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex};

use callboard_domain::command::Command;
use callboard_domain::ids::TaskId;
use callboard_store::postgres::PostgresStore;
use callboard_store::sqlite::SqliteStore;
use callboard_store::transfer::LEFT_OUT;
use callboard_store::{EventQuery, FreeQuery, Op, Store, StoreError};
use rusqlite::Connection;
use rustix::fs::{FlockOperation, flock};

use crate::rows::DATABASE;
use crate::schema::Schema;
use crate::upgrade_board::{
    BOARDS, EMPTY, LATEST, Tables, assert_kept, assert_moved, assert_sound, clock, open,
    rows_of_file, rows_of_schema, version,
};

/// The title of a task of every fixture that can be taken and has no checks begins so.
const FREE: &str = "Wash the ";

/// Takes a task of the board and closes it.
pub async fn goes_on(store: &dyn Store, place: &str) {
    let org: Arc<str> = "default".into();
    let free =
        FreeQuery { org: org.clone(), project: None, below: None, priority_max: None, limit: 100 };
    let free = store.tasks_free(free).await.unwrap();
    let task: TaskId =
        free.iter().find(|row| row.task.title.starts_with(FREE)).expect(place).task.id;
    let before = store.last_seq().await.unwrap();
    let to = |to: &str| Command::TaskTransition { task, to: to.into(), checked: None, work: None };
    for command in [Command::TaskClaim { task }, to("in_progress"), to("done")] {
        let (org, policy) = (org.clone(), Arc::default());
        let actor = "agent:later".parse().unwrap();
        let op = Op { org, actor, tool: "test", retry_key: None, policy, command };
        store.apply(op).await.unwrap_or_else(|error| panic!("{place}: {error}"));
    }
    let all = EventQuery { limit: usize::MAX, ..EventQuery::default() };
    let events = store.events(all).await.unwrap();
    assert!(events.iter().map(|event| event.seq).eq(1..=events.len() as u64), "{place}: a gap");
    assert!(events.len() as u64 >= before + 3, "{place}: events of the old rows and new ones");
    assert_sound(store, place).await;
}

/// Where the log of a test goes.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Asserts that a refusal names both versions and the way out.
fn assert_words(error: Option<StoreError>, found: u32) {
    let words = format!(
        "the database has schema {found}, newer than this callboard knows ({}); \
         use the callboard that wrote it or a newer one",
        *LATEST
    );
    assert_eq!(error, Some(StoreError::Newer(words)));
}

/// Asserts that each table but these has rows in a fixture, so that a migration has something to lose.
fn assert_filled(boards: &[Tables], empty: &[(&str, &str)]) {
    let tables: BTreeSet<&String> = boards.iter().flat_map(Tables::keys).collect();
    for table in tables {
        let is_empty = boards.iter().all(|rows| rows.get(table).is_none_or(Vec::is_empty));
        let may_be = empty.iter().any(|(known, _)| known == table);
        assert!(
            !is_empty || may_be,
            "no fixture has rows of {table}: let scripts/make-fixtures make some"
        );
    }
}

#[tokio::test]
async fn fixtures_have_rows_of_every_table() {
    let folders = BOARDS.iter().map(|board| {
        let folder = tempfile::tempdir().unwrap();
        board.place(folder.path())
    });
    assert_filled(&folders.collect::<Vec<_>>(), EMPTY);
    let mut loaded = Vec::new();
    for board in BOARDS {
        let Some(schema) = Schema::new() else { return };
        loaded.push(board.load(&schema).await);
    }
    // These boards were moved to PostgreSQL.
    assert_filled(&loaded, &[EMPTY, LEFT_OUT].concat());
}

#[tokio::test]
async fn boards_of_earlier_builds_are_migrated_on_sqlite() {
    for board in BOARDS {
        let folder = tempfile::tempdir().unwrap();
        let old = board.place(folder.path());
        let place = format!("from {}", board.version);
        let paper = Paper::default();
        let pen = paper.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || pen.clone());
        let opened = tracing::subscriber::with_default(log.finish(), || open(folder.path()));
        let said = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        let copy = board.copy(folder.path());
        let words = format!(
            "the schema was migrated from={} to={} copy={}",
            board.version,
            *LATEST,
            copy.display()
        );
        assert!(said.contains(&words), "{said}");
        let store = opened.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_sound(&store, &place).await;
        drop(store);
        let path = folder.path().join(DATABASE);
        assert_eq!(version(&path), *LATEST);
        let new = rows_of_file(&path);
        assert_kept(&old, &new, &place);
        assert_moved(&old, &new, &place);
        assert_eq!(rows_of_file(&copy), old, "{place}: the copy");
        goes_on(&open(folder.path()).unwrap(), &place).await;
    }
}

#[tokio::test]
async fn boards_of_earlier_builds_are_migrated_on_postgresql() {
    for board in BOARDS {
        let Some(schema) = Schema::new() else { return };
        let old = board.load(&schema).await;
        let place = format!("from {}", board.version);
        let store = PostgresStore::open(schema.url(), Some(clock())).await;
        let store = store.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_sound(&store, &place).await;
        let new = rows_of_schema(&schema.connect().await).await;
        assert_eq!(new["migrations"].len() as u32, *LATEST);
        assert_kept(&old, &new, &place);
        assert_moved(&old, &new, &place);
        goes_on(&store, &place).await;
    }
}

/// A backup that an earlier build wrote is put back by this one.
#[tokio::test]
async fn a_backup_of_an_earlier_build_is_put_back() {
    for board in BOARDS {
        let (folder, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let old = board.place(backup.path());
        drop(open(folder.path()).unwrap());
        let path = folder.path().join(DATABASE);
        SqliteStore::restore(&backup.path().join(DATABASE), &path, "now").unwrap();
        let store = open(folder.path()).unwrap();
        assert_kept(&old, &rows_of_file(&path), "put back");
        goes_on(&store, "put back").await;
    }
}

#[test]
fn a_newer_schema_changes_no_byte_on_sqlite() {
    for board in BOARDS {
        let folder = tempfile::tempdir().unwrap();
        board.place(folder.path());
        let path = folder.path().join(DATABASE);
        let newer = *LATEST + 1;
        Connection::open(&path).unwrap().pragma_update(None, "user_version", newer).unwrap();
        let before = std::fs::read(&path).unwrap();
        assert_words(open(folder.path()).err(), newer);
        assert!(std::fs::read(&path).unwrap() == before, "the file was changed");
        let beside = std::fs::read_dir(folder.path()).unwrap().flatten();
        let names: Vec<String> =
            beside.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        assert!(!names.iter().any(|name| name.contains(".before-v")), "{names:?}");
    }
}

#[tokio::test]
async fn a_newer_schema_changes_no_row_on_postgresql() {
    for board in BOARDS {
        let Some(schema) = Schema::new() else { return };
        board.load(&schema).await;
        let by = schema.connect().await;
        let newer = *LATEST + 1;
        let later = format!("INSERT INTO migrations VALUES ({newer}, 'later', 'x')");
        by.batch_execute(&later).await.unwrap();
        let before = rows_of_schema(&by).await;
        assert_words(PostgresStore::open(schema.url(), None).await.err(), newer);
        assert_eq!(rows_of_schema(&by).await, before);
    }
}

/// Two builds open an old board at one time. The newer one has its turn first: the older one finds that when it has its own.
#[test]
fn a_newer_build_that_was_first_is_not_undone_on_sqlite() {
    let board = &BOARDS[0];
    let folder = tempfile::tempdir().unwrap();
    board.place(folder.path());
    let (path, newer) = (folder.path().join(DATABASE), *LATEST + 1);
    let beside = |suffix: &str| {
        let path = folder.path().join(format!("{DATABASE}{suffix}"));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(false).open(path).unwrap()
    };
    let (gate, turn) = (beside("-gate"), beside("-turn"));
    flock(&turn, FlockOperation::LockExclusive).unwrap();
    let refused = std::thread::scope(|scope| {
        let opened = scope.spawn(|| open(folder.path()).err());
        // The gate is locked as soon as the other one, which has read the version, waits for its turn.
        while flock(&gate, FlockOperation::NonBlockingLockExclusive).is_ok() {
            flock(&gate, FlockOperation::Unlock).unwrap();
            assert!(!opened.is_finished(), "it did not wait for its turn");
            std::thread::yield_now();
        }
        Connection::open(&path).unwrap().pragma_update(None, "user_version", newer).unwrap();
        flock(&turn, FlockOperation::Unlock).unwrap();
        opened.join().unwrap()
    });
    assert_words(refused, newer);
    assert_eq!(version(&path), newer);
}

#[tokio::test]
async fn a_newer_build_that_was_first_is_seen_on_postgresql() {
    let Some(schema) = Schema::new() else { return };
    BOARDS[0].load(&schema).await;
    let by = schema.connect().await;
    let newer = *LATEST + 1;
    let alone = "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('callboard:' || current_schema(), 0))";
    by.batch_execute(alone).await.unwrap();
    let url = schema.url().to_owned();
    let opened = tokio::spawn(async move { PostgresStore::open(&url, None).await.err() });
    // The other one has read the version when it waits for the lock. A transaction would see one picture of it for ever.
    let looks = schema.connect().await;
    let waits = "SELECT 1 FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
         WHERE l.locktype = 'advisory' AND NOT l.granted AND a.application_name = current_schema()";
    while looks.query_opt(waits, &[]).await.unwrap().is_none() {
        assert!(!opened.is_finished(), "it did not wait for the lock");
    }
    let later = format!("INSERT INTO migrations VALUES ({newer}, 'later', 'x'); COMMIT");
    by.batch_execute(&later).await.unwrap();
    assert_words(opened.await.unwrap(), newer);
}
