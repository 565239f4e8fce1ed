//! Migrations: numbered, forward only, checksummed, one process at a time under an advisory lock.
//! A newer schema is refused.

use callboard_domain::hex::hex;
use sha2::{Digest, Sha256};

use super::address::Address;
use super::connections::{Connections, MIGRATION, TRANSACTION};
use super::db::Db;
use super::errors::Trouble;
use super::read;
use crate::StoreError;
use crate::transfer::{UNFINISHED, UNFINISHED_WORDS};

struct Migration {
    version: i32,
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

/// Takes the lock that serialises migrating, settling and adding edges.
pub(super) const ALONE: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('callboard:' || current_schema(), 0))";

/// Takes a lock that serialises only the transactions that name the same `what`.
pub(super) fn alone_with(what: &str) -> String {
    let what = what.replace('\'', "''");
    format!(
        "SELECT pg_advisory_xact_lock(\
             hashtextextended('callboard:' || current_schema() || ':{what}', 0))"
    )
}

pub(super) fn latest() -> i32 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

pub(super) fn newer(version: i32) -> StoreError {
    if version == UNFINISHED as i32 {
        return StoreError::Unavailable(UNFINISHED_WORDS.into());
    }
    StoreError::Unavailable(format!(
        "the database has schema {version}, newer than this callboard knows ({}); \
         use the callboard that wrote it or a newer one",
        latest()
    ))
}

/// Brings a database up to date and returns the schema of its tables. Safe to run from several processes at once.
pub(super) async fn migrate(connections: &Connections) -> Result<String, Trouble> {
    if let Some(schema) = &connections.address.schema {
        make_schema(connections, schema).await?;
    }
    connections.run(&MIGRATION, |db| async move { migrate_within(&db).await }).await
}

async fn migrate_within(db: &Db) -> Result<String, Trouble> {
    let row = read::one(db, "SELECT current_schema()::text", &[]).await?;
    let schema: Option<String> = row.map(|row| row.try_get(0)).transpose()?.flatten();
    let schema = schema.ok_or_else(|| {
        StoreError::Unavailable(
            "PostgreSQL has no schema for these tables; name one in store.url: ?search_path=NAME"
                .into(),
        )
    })?;
    let found = version(db).await?;
    if found > latest() {
        return Err(newer(found).into());
    }
    if found < latest() {
        run_pending(db).await?;
    }
    verify_checksums(db).await?;
    Ok(schema)
}

/// Creates the schema only when it is missing: naming an existing one needs no right to create.
async fn make_schema(connections: &Connections, schema: &str) -> Result<(), Trouble> {
    let made = connections.run(&TRANSACTION, |db| async move {
        let there = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
        if read::one(&db, there, &[&schema]).await?.is_none() {
            db.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")).await?;
        }
        Ok(())
    });
    match made.await {
        // Another process created the schema at the same moment.
        Err(trouble) if trouble.is_conflict() => Ok(()),
        made => made,
    }
}

pub(super) async fn version(db: &Db) -> Result<i32, Trouble> {
    let sql = "SELECT to_regclass(quote_ident(current_schema()) || '.migrations') IS NOT NULL";
    let there = read::one(db, sql, &[]).await?.map(|row| row.try_get(0)).transpose()?;
    if there != Some(true) {
        return Ok(0);
    }
    let newest = "SELECT coalesce(max(version), 0) FROM migrations";
    let row = read::one(db, newest, &[]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
}

async fn run_pending(db: &Db) -> Result<(), Trouble> {
    db.batch_execute(ALONE).await?;
    db.batch_execute(
        "CREATE TABLE IF NOT EXISTS migrations (
             version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL)",
    )
    .await?;
    let found = version(db).await?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        db.batch_execute(migration.sql).await?;
        let note = "INSERT INTO migrations (version, name, checksum) VALUES ($1, $2, $3)";
        let checksum = checksum(migration.sql);
        read::one(db, note, &[&migration.version, &migration.name, &checksum]).await?;
    }
    Ok(())
}

async fn verify_checksums(db: &Db) -> Result<(), Trouble> {
    for migration in MIGRATIONS {
        let sql = "SELECT checksum FROM migrations WHERE version = $1";
        let found = read::one(db, sql, &[&migration.version]).await?;
        let found: Option<String> = found.map(|row| row.try_get(0)).transpose()?;
        if found != Some(checksum(migration.sql)) {
            return Err(StoreError::Corrupt(format!(
                "migration {} ({}) of this database is not the one this callboard knows; \
                 it was made by a different build",
                migration.version, migration.name
            ))
            .into());
        }
    }
    Ok(())
}

fn checksum(sql: &str) -> String {
    hex(Sha256::digest(sql.as_bytes()))
}

/// Drops the schema that `url` names with everything in it, after the benchmark. Nothing in the product uses this.
pub async fn schema_drop(url: &str) -> Result<(), StoreError> {
    let Address { config, tls, schema } = Address::parse(url)?;
    let Some(schema) = schema else { return Ok(()) };
    let (client, connection) = config.connect(tls).await.map_err(Trouble::from)?;
    let driver = tokio::spawn(connection);
    let dropped = client.batch_execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE")).await;
    driver.abort();
    Ok(dropped.map_err(Trouble::from)?)
}
