//! Migrations of a file. An older file is backed up before it changes; a newer one is refused.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Result, Row, TransactionBehavior};

use crate::StoreError;
use crate::migrations::Database::Sqlite;
use crate::migrations::{self, CHECKSUMS, Migrated, latest, pending, refuse_newer};
use crate::part::{Part, with_suffix};
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::rows;
use crate::sqlite::turnstile::Turnstile;
use crate::table::Cells;

/// The version that the file has. `user_version` stands in the header of the file, so no table is needed to read it.
pub(crate) fn version(db: &Connection) -> Result<u32> {
    db.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

/// Brings a database up to date, and says whether an older one changed. Safe to run from several processes at once.
pub(crate) fn migrate(
    db: &mut Connection,
    path: &Path,
    turnstile: &Turnstile,
) -> Result<Option<Migrated>, StoreError> {
    let found = version(db).map_err(from_sqlite)?;
    refuse_newer(found)?;
    let mut migrated = None;
    if found < latest() {
        let _turn = turnstile.enter().map_err(|e| StoreError::Unavailable(e.to_string()))?;
        // Read again: another process may have migrated the file while this one waited for its turn, and it may be of a
        // newer build.
        let found = version(db).map_err(from_sqlite)?;
        refuse_newer(found)?;
        let is_older = (1..latest()).contains(&found);
        if is_older {
            back_up(db, path, found)?;
        }
        run(db, found, latest()).map_err(from_sqlite)?;
        migrated = is_older.then(|| {
            let copy = Some(copy_before(path, found));
            Migrated { from: found, to: latest(), copy }.logged()
        });
    }
    verify_checksums(db)?;
    Ok(migrated)
}

/// The name of the copy that is made before a file of this version changes.
fn copy_before(path: &Path, version: u32) -> PathBuf {
    with_suffix(path, &format!(".before-v{}", version + 1))
}

/// Keeps the file as it is beside itself, named after the first version that changes it. A second try replaces the
/// copy of the first, because nothing was migrated in between.
fn back_up(db: &Connection, path: &Path, version: u32) -> Result<(), StoreError> {
    let copy = copy_before(path, version);
    let part = Part::of(&copy);
    copy_into(db, part.path())?;
    part.replace().map_err(|error| cannot_write(&copy, &error))
}

/// Writes a copy to a new file, which gets its name only when it is whole.
pub(crate) fn copy_to(db: &Connection, to: &Path) -> Result<(), StoreError> {
    let part = Part::of(to);
    copy_into(db, part.path())?;
    part.put_in_place().map_err(|error| cannot_write(to, &error))
}

fn cannot_write(to: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot write {}: {error}", to.display()))
}

/// `VACUUM INTO` reads one snapshot, so the copy is whole while other processes write.
pub(crate) fn copy_into(db: &Connection, to: &Path) -> Result<(), StoreError> {
    let to =
        to.to_str().ok_or_else(|| StoreError::Unavailable("the path is not valid UTF-8".into()))?;
    // A copy of an older file can give pages back, too. The file itself stays as it is: SQLite only notes the wish for the
    // next VACUUM, and refuses it here. A file that has this form already must not be asked, which would write.
    let form: i64 =
        db.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).map_err(from_sqlite)?;
    if form == 0 {
        let _ = db.pragma_update(None, "auto_vacuum", "INCREMENTAL");
    }
    db.execute("VACUUM INTO ?1", [to]).map_err(from_sqlite)?;
    Ok(())
}

/// Creates an empty board. The file gets its name only when every table is in it, so a process that is killed here
/// leaves no half-made database under that name.
pub(crate) fn make(
    path: &Path,
    turnstile: &Turnstile,
    made: &dyn Fn(&Path, &Path),
) -> Result<(), StoreError> {
    let _turn = turnstile.enter().map_err(|e| StoreError::Unavailable(e.to_string()))?;
    // Another process was first.
    if path.exists() {
        return Ok(());
    }
    let part = Part::of(path);
    let mut db = Connection::open(part.path()).map_err(from_sqlite)?;
    // Before the first table: SQLite fixes the form of the file then.
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(from_sqlite)?;
    // The whole file is flushed once, before it gets its name.
    db.pragma_update(None, "synchronous", "OFF").map_err(from_sqlite)?;
    db.pragma_update(None, "journal_mode", "WAL").map_err(from_sqlite)?;
    run(&mut db, 0, latest()).map_err(from_sqlite)?;
    db.close().map_err(|(_, error)| from_sqlite(error))?;
    // Called while no other process can find the file: see `SqliteStore::open_or_make`.
    made(part.path(), path);
    part.put_in_place().map_err(|error| cannot_write(path, &error))
}

/// Refuses a database that is no board, and a board that a newer callboard made. Changes nothing.
pub(crate) fn recognise(db: &Connection) -> Result<(), StoreError> {
    let found = version(db).map_err(from_sqlite)?;
    // A database of another program may have a `user_version`, and even a table of this name, but hardly these columns.
    let tables = "SELECT count(*) FROM pragma_table_info('migrations') \
         WHERE name IN ('version', 'name', 'checksum')";
    let columns: i64 = db.query_row(tables, [], |row| row.get(0)).map_err(from_sqlite)?;
    match (columns, found) {
        (3, 1..) => refuse_newer(found),
        _ => Err(not_ours()),
    }
}

pub(crate) fn not_ours() -> StoreError {
    StoreError::Corrupt(
        "this file is no Callboard database; name another file, or restore a backup with \
         callboard restore FILE"
            .into(),
    )
}

/// Runs the pending migrations in one transaction: a process that is killed leaves the version that was there before.
fn run(db: &mut Connection, after: u32, up_to: u32) -> Result<()> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS migrations (
             version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT",
    )?;
    for migration in pending(after, up_to) {
        tx.execute_batch(migration.sql(Sqlite))?;
        rows::insert(&tx, &migrations::values(migration, Sqlite), "")?;
    }
    tx.pragma_update(None, "user_version", up_to)?;
    tx.commit()
}

/// Refuses a file that was migrated with other SQL than ours: its tables are not those that this program knows.
fn verify_checksums(db: &Connection) -> Result<(), StoreError> {
    let applied = || -> Result<Vec<(u32, String)>> {
        let read = |row: &Row<'_>| {
            let mut row = row.reader();
            Ok((row.count()?, row.text()?))
        };
        db.prepare(CHECKSUMS)?.query_map([], read)?.collect()
    };
    migrations::verify(&applied().map_err(from_sqlite)?, Sqlite)
}

#[cfg(test)]
mod tests {
    use callboard_domain::rights::{Rights, Scope};
    use rusqlite::params;

    use super::*;

    #[test]
    fn a_backup_before_migrating_is_a_whole_database() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("test.db");
        let mut db = Connection::open(&path).expect("opens");
        let turnstile = Turnstile::open(&path).expect("locks");
        migrate(&mut db, &path, &turnstile).expect("migrates");
        db.execute("INSERT INTO orgs (name) VALUES ('kept')", []).expect("written");
        for _ in 0..2 {
            back_up(&db, &path, 1).expect("a second backup replaces the first");
        }
        let copy = Connection::open(folder.path().join("test.db.before-v2")).expect("opens");
        let orgs: i64 =
            copy.query_row("SELECT count(*) FROM orgs", [], |row| row.get(0)).expect("readable");
        assert_eq!((orgs, version(&copy).expect("readable")), (2, latest()));
    }

    /// A token has the scope for commands if it was made without `--scopes`.
    #[test]
    fn tokens_without_a_list_of_scopes_keep_every_scope() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("test.db");
        let mut db = Connection::open(&path).expect("opens");
        let turnstile = Turnstile::open(&path).expect("locks");
        run(&mut db, 0, 24).expect("the version before");
        db.execute_batch("INSERT INTO orgs (id, name) VALUES (7, 'kept')").expect("an org");
        let everything = r#""tasks:read","tasks:write","knowledge:read","knowledge:write""#;
        let listed = r#""tasks:read","tasks:write""#;
        for (id, scopes) in [(1_u8, everything), (2, listed)] {
            let rights = format!(r#"{{"scopes":[{scopes}],"lane":"kagan"}}"#);
            let row = "INSERT INTO tokens (id, hash, org, actor, rights, created_at, created_by) \
                 VALUES (?1, zeroblob(32), 7, 'agent:a', ?2, 1, 'human:ana')";
            db.execute(row, params![vec![id; 16], rights]).expect("a token");
        }
        migrate(&mut db, &path, &turnstile).expect("migrates");
        let mut rows = db.prepare("SELECT rights FROM tokens ORDER BY id").expect("readable");
        let rights = rows.query_map([], |row| row.get::<_, String>(0)).expect("readable");
        let scopes: Vec<Vec<Scope>> = rights
            .map(|rights| serde_json::from_str::<Rights>(&rights.expect("text")).expect("rights"))
            .map(|rights| rights.scopes)
            .collect();
        assert_eq!(scopes, [Scope::USUAL.to_vec(), vec![Scope::TasksRead, Scope::TasksWrite]]);
    }

    /// A rule with a list of words would fill a temporary table for each row that is written.
    #[test]
    fn writing_a_row_of_every_call_opens_no_temporary_table() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("test.db");
        let mut db = Connection::open(&path).expect("opens");
        let turnstile = Turnstile::open(&path).expect("locks");
        migrate(&mut db, &path, &turnstile).expect("migrates");
        for sql in [
            "UPDATE tasks SET phase = ?1 WHERE id = ?2",
            "INSERT INTO tasks (id, phase) VALUES (?1, ?2)",
            "UPDATE attempts SET outcome = ?1, ended_at = ?2 WHERE id = ?3",
            "INSERT INTO attempts (id, kind) VALUES (?1, ?2)",
            "UPDATE jobs SET state = ?1 WHERE id = ?2",
            "INSERT INTO jobs (id, state) VALUES (?1, ?2)",
        ] {
            let mut plan = db.prepare(&format!("EXPLAIN {sql}")).expect("a statement");
            let steps = plan.raw_query().mapped(|row| row.get::<_, String>("opcode"));
            let steps: Vec<String> = steps.map(|step| step.expect("a step")).collect();
            assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{sql}");
        }
        let refused = db.execute(
            "INSERT INTO jobs (id, org, kind, key, tries, created_at, state, ended_at) \
             VALUES (zeroblob(16), 1, 'run', 'k', 0, 0, 'elsewhere', 0)",
            [],
        );
        assert!(refused.expect_err("no such state").to_string().contains("CHECK"));
    }

    #[test]
    fn an_older_database_is_copied_and_brought_up_to_date() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("test.db");
        let mut db = Connection::open(&path).expect("opens");
        let turnstile = Turnstile::open(&path).expect("locks");
        run(&mut db, 0, 1).expect("the first version");
        db.execute_batch(
            "INSERT INTO orgs (id, name) VALUES (7, 'kept'); \
             INSERT INTO projects VALUES (5, 7, 'kept', 'KEPT', 1); \
             INSERT INTO repos VALUES (3, 5, 'here', '/kept'); \
             INSERT INTO events VALUES (1, 1, 'human:ana', 'task.created', 5, zeroblob(16), NULL, '{}'); \
             INSERT INTO events VALUES (2, 1, 'human:ana', 'task.removed', 5, zeroblob(16), NULL, '{}')",
        )
        .expect("rows of the first version");
        migrate(&mut db, &path, &turnstile).expect("migrates");
        let number = |db: &Connection, sql: &str| -> i64 {
            db.query_row(sql, [], |row| row.get(0)).expect("readable")
        };
        assert_eq!(version(&db).expect("readable"), latest());
        assert_eq!(number(&db, "SELECT project FROM repos WHERE path = '/kept'"), 5);
        assert_eq!(number(&db, "SELECT org FROM events WHERE seq = 1"), 7);
        assert_eq!(number(&db, "SELECT count(*) FROM files"), 0);
        assert_eq!(number(&db, "SELECT seq FROM events WHERE name = 'task.deleted'"), 2);
        let copy = Connection::open(folder.path().join("test.db.before-v2")).expect("opens");
        assert_eq!(version(&copy).expect("readable"), 1);
    }
}
