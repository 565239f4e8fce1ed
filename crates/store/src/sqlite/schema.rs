//! Migrations: numbered, forward only, checksummed. An older file is backed up before it changes;
//! a newer one is refused.

use std::path::Path;

use callboard_domain::hex::hex;
use rusqlite::{Connection, Result, TransactionBehavior, params};
use sha2::{Digest, Sha256};

use super::errors::from_sqlite;
use super::turnstile::Turnstile;
use crate::StoreError;
use crate::part::{Part, with_suffix};
use crate::transfer::{UNFINISHED, UNFINISHED_WORDS};

struct Migration {
    version: u32,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "core", sql: include_str!("migrations/0001_core.sql") },
    Migration { version: 2, name: "access", sql: include_str!("migrations/0002_access.sql") },
    Migration { version: 3, name: "log", sql: include_str!("migrations/0003_log.sql") },
    Migration { version: 4, name: "files", sql: include_str!("migrations/0004_files.sql") },
    Migration { version: 5, name: "leases", sql: include_str!("migrations/0005_leases.sql") },
    Migration { version: 6, name: "knowledge", sql: include_str!("migrations/0006_knowledge.sql") },
    Migration { version: 7, name: "handles", sql: include_str!("migrations/0007_handles.sql") },
    Migration { version: 8, name: "runs", sql: include_str!("migrations/0008_runs.sql") },
    Migration {
        version: 9,
        name: "deliveries",
        sql: include_str!("migrations/0009_deliveries.sql"),
    },
    Migration { version: 10, name: "cards", sql: include_str!("migrations/0010_cards.sql") },
    Migration { version: 11, name: "org", sql: include_str!("migrations/0011_org.sql") },
    Migration { version: 12, name: "work", sql: include_str!("migrations/0012_work.sql") },
    Migration { version: 13, name: "crew", sql: include_str!("migrations/0013_crew.sql") },
    Migration { version: 14, name: "epics", sql: include_str!("migrations/0014_epics.sql") },
    Migration { version: 15, name: "pulls", sql: include_str!("migrations/0015_pulls.sql") },
    Migration { version: 16, name: "revoked", sql: include_str!("migrations/0016_revoked.sql") },
    Migration {
        version: 17,
        name: "crew_runs",
        sql: include_str!("migrations/0017_crew_runs.sql"),
    },
    Migration {
        version: 18,
        name: "event_names",
        sql: include_str!("migrations/0018_event_names.sql"),
    },
    Migration {
        version: 19,
        name: "run_tails",
        sql: include_str!("migrations/0019_run_tails.sql"),
    },
    Migration {
        version: 20,
        name: "run_versions",
        sql: include_str!("migrations/0020_run_versions.sql"),
    },
    Migration { version: 21, name: "retries", sql: include_str!("migrations/0021_retries.sql") },
    Migration { version: 22, name: "blocks", sql: include_str!("migrations/0022_blocks.sql") },
    Migration { version: 23, name: "runners", sql: include_str!("migrations/0023_runners.sql") },
    Migration { version: 24, name: "numbers", sql: include_str!("migrations/0024_numbers.sql") },
    Migration {
        version: 25,
        name: "terminals",
        sql: include_str!("migrations/0025_terminals.sql"),
    },
    Migration {
        version: 26,
        name: "commands_scope",
        sql: include_str!("migrations/0026_commands_scope.sql"),
    },
    Migration {
        version: 27,
        name: "page_keys",
        sql: include_str!("migrations/0027_page_keys.sql"),
    },
];

pub(super) fn latest() -> u32 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

pub(super) fn version(db: &Connection) -> Result<u32> {
    db.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

pub(super) fn newer(version: u32) -> StoreError {
    if version == UNFINISHED {
        return StoreError::Unavailable(UNFINISHED_WORDS.into());
    }
    StoreError::Unavailable(format!(
        "the database has schema {version}, newer than this callboard knows ({}); \
         use the callboard that wrote it or a newer one",
        latest()
    ))
}

/// Brings a database up to date. Safe to run from several processes at once.
pub(super) fn migrate(
    db: &mut Connection,
    path: &Path,
    turnstile: &Turnstile,
) -> Result<(), StoreError> {
    let found = version(db).map_err(from_sqlite)?;
    if found > latest() {
        return Err(newer(found));
    }
    if found < latest() {
        let _turn = turnstile.enter().map_err(|e| StoreError::Unavailable(e.to_string()))?;
        let found = version(db).map_err(from_sqlite)?;
        if found > 0 && found < latest() {
            back_up(db, path, found)?;
        }
        run(db, found, latest()).map_err(from_sqlite)?;
    }
    verify_checksums(db)
}

fn back_up(db: &Connection, path: &Path, version: u32) -> Result<(), StoreError> {
    let copy = with_suffix(path, &format!(".before-v{}", version + 1));
    let part = Part::of(&copy);
    copy_into(db, part.path())?;
    part.replace().map_err(|error| cannot_write(&copy, &error))
}

/// Writes a copy to a new file, which gets its name only when it is whole.
pub(super) fn copy_to(db: &Connection, to: &Path) -> Result<(), StoreError> {
    let part = Part::of(to);
    copy_into(db, part.path())?;
    part.put_in_place().map_err(|error| cannot_write(to, &error))
}

fn cannot_write(to: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot write {}: {error}", to.display()))
}

pub(super) fn copy_into(db: &Connection, to: &Path) -> Result<(), StoreError> {
    let to =
        to.to_str().ok_or_else(|| StoreError::Unavailable("the path is not valid UTF-8".into()))?;
    db.execute("VACUUM INTO ?1", [to]).map_err(from_sqlite)?;
    Ok(())
}

/// Creates an empty board. The file gets its name only when every table is in it, so a process that is killed here
/// leaves no half-made database under that name.
pub(super) fn make(
    path: &Path,
    turnstile: &Turnstile,
    made: &dyn Fn(&Path, &Path),
) -> Result<(), StoreError> {
    let _turn = turnstile.enter().map_err(|e| StoreError::Unavailable(e.to_string()))?;
    if path.exists() {
        return Ok(());
    }
    let part = Part::of(path);
    let mut db = Connection::open(part.path()).map_err(from_sqlite)?;
    // The whole file is flushed once, before it gets its name.
    db.pragma_update(None, "synchronous", "OFF").map_err(from_sqlite)?;
    db.pragma_update(None, "journal_mode", "WAL").map_err(from_sqlite)?;
    run(&mut db, 0, latest()).map_err(from_sqlite)?;
    db.close().map_err(|(_, error)| from_sqlite(error))?;
    made(part.path(), path);
    part.put_in_place().map_err(|error| cannot_write(path, &error))
}

/// Refuses a database that is no board, and a board that a newer callboard made. Changes nothing.
pub(super) fn recognise(db: &Connection) -> Result<(), StoreError> {
    let found = version(db).map_err(from_sqlite)?;
    let tables = "SELECT count(*) FROM pragma_table_info('migrations') \
         WHERE name IN ('version', 'name', 'checksum')";
    let columns: i64 = db.query_row(tables, [], |row| row.get(0)).map_err(from_sqlite)?;
    match (columns, found) {
        (3, _) if found > latest() => Err(newer(found)),
        (3, 1..) => Ok(()),
        _ => Err(not_ours()),
    }
}

pub(super) fn not_ours() -> StoreError {
    StoreError::Corrupt(
        "this file is no Callboard database; name another file, or restore a backup with \
         callboard restore FILE"
            .into(),
    )
}

fn run(db: &mut Connection, after: u32, up_to: u32) -> Result<()> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS migrations (
             version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL) STRICT",
    )?;
    let wanted = |migration: &&Migration| (after + 1..=up_to).contains(&migration.version);
    for migration in MIGRATIONS.iter().filter(wanted) {
        tx.execute_batch(migration.sql)?;
        tx.execute(
            "INSERT INTO migrations (version, name, checksum) VALUES (?1, ?2, ?3)",
            params![migration.version, migration.name, checksum(migration.sql)],
        )?;
    }
    tx.pragma_update(None, "user_version", up_to)?;
    tx.commit()
}

fn verify_checksums(db: &Connection) -> Result<(), StoreError> {
    for migration in MIGRATIONS {
        let found: String = db
            .query_row(
                "SELECT checksum FROM migrations WHERE version = ?1",
                [migration.version],
                |row| row.get(0),
            )
            .map_err(from_sqlite)?;
        if found != checksum(migration.sql) {
            return Err(StoreError::Corrupt(format!(
                "migration {} ({}) of this database is not the one this callboard knows; \
                 it was made by a different build",
                migration.version, migration.name
            )));
        }
    }
    Ok(())
}

fn checksum(sql: &str) -> String {
    hex(Sha256::digest(sql.as_bytes()))
}

#[cfg(test)]
mod tests {
    use callboard_domain::rights::{Rights, Scope};

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

    #[test]
    fn migrations_are_numbered_in_order() {
        let numbers: Vec<u32> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert!(numbers.iter().copied().eq(1..=latest()), "{numbers:?}");
    }
}
