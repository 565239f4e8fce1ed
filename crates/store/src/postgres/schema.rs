//! Migrations of a schema, one process at a time under an advisory lock. A newer schema is refused.

use tokio_postgres::Row;

use crate::StoreError;
use crate::migrations::Database::Postgres;
use crate::migrations::{self, CHECKSUMS, Migrated, latest, pending, refuse_newer};
use crate::postgres::address::Address;
use crate::postgres::connections::{Connections, MIGRATION, TRANSACTION};
use crate::postgres::db::Db;
use crate::postgres::errors::Trouble;
use crate::postgres::{PostgresStore, json, read};
use crate::table::Cells;

/// Takes the lock that serialises migrating, settling and adding edges.
pub(crate) const ALONE: &str =
    "SELECT pg_advisory_xact_lock(hashtextextended('callboard:' || current_schema(), 0))";

/// Takes a lock that serialises only the transactions that name the same `what`.
pub(crate) fn alone_with(what: &str) -> String {
    format!("SELECT pg_advisory_xact_lock({})", lock_key(what))
}

/// The key of the advisory lock for `what` in this schema.
pub(crate) fn lock_key(what: &str) -> String {
    let what = what.replace('\'', "''");
    format!("hashtextextended('callboard:' || current_schema() || ':{what}', 0)")
}

impl PostgresStore {
    /// Whether this call of `open` changed an older schema.
    pub fn migrated(&self) -> Option<&Migrated> {
        self.migrated.as_ref()
    }
}

/// Brings a database up to date and returns the schema of its tables, and whether an older one changed. Safe to run from several processes at once.
pub(crate) async fn migrate(
    connections: &Connections,
) -> Result<(String, Option<Migrated>), Trouble> {
    if let Some(schema) = &connections.address.schema {
        make_schema(connections, schema).await?;
    }
    let migrated = connections.run(&MIGRATION, |db| async move { migrate_within(&db).await });
    let (schema, from) = migrated.await?;
    let is_older = (1..latest()).contains(&from);
    let migrated = is_older.then(|| Migrated { from, to: latest(), copy: None }.logged());
    Ok((schema, migrated))
}

/// Returns the schema of the tables and the version that was there before.
async fn migrate_within(db: &Db) -> Result<(String, u32), Trouble> {
    let row = read::one(db, "SELECT current_schema()::text", &[]).await?;
    let schema: Option<String> = row.map(|row| row.try_get(0)).transpose()?.flatten();
    let schema = schema.ok_or_else(|| {
        StoreError::Unavailable(
            "PostgreSQL has no schema for these tables; name one in store.url: ?search_path=NAME"
                .into(),
        )
    })?;
    let mut found = version(db).await?;
    refuse_newer(found)?;
    if found < latest() {
        found = run_pending(db).await?;
    }
    verify_checksums(db).await?;
    Ok((schema, found))
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

pub(crate) async fn version(db: &Db) -> Result<u32, Trouble> {
    let sql = "SELECT to_regclass(quote_ident(current_schema()) || '.migrations') IS NOT NULL";
    let there = read::one(db, sql, &[]).await?.map(|row| row.try_get(0)).transpose()?;
    if there != Some(true) {
        return Ok(0);
    }
    let newest = "SELECT coalesce(max(version), 0) FROM migrations";
    let row = read::one(db, newest, &[]).await?;
    Ok(row.map(|row| row.reader().count()).transpose()?.unwrap_or_default())
}

/// Returns the version that was there before.
async fn run_pending(db: &Db) -> Result<u32, Trouble> {
    db.batch_execute(ALONE).await?;
    db.batch_execute(
        "CREATE TABLE IF NOT EXISTS migrations (
             version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL)",
    )
    .await?;
    // Read again: another process may have migrated the schema before this one had the lock, and it may be of a newer build.
    let found = version(db).await?;
    refuse_newer(found)?;
    for migration in pending(found, latest()) {
        db.batch_execute(migration.sql(Postgres)).await?;
        json::insert(db, &migrations::values(migration, Postgres), "").await?;
    }
    Ok(found)
}

async fn verify_checksums(db: &Db) -> Result<(), Trouble> {
    let read = |row: &Row| {
        let mut row = row.reader();
        Ok::<_, Trouble>((row.count()?, row.text()?))
    };
    let found = read::all(db, CHECKSUMS, &[]).await?;
    let applied = found.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(migrations::verify(&applied, Postgres)?)
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
