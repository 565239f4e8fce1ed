//! Migrations: numbered, forward only, checksummed. One list for both databases, each with a folder of SQL. How a
//! script is executed, where the version stands and which lock is held differ, and stand in each `schema.rs`.

use std::fmt;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::table::cell::table;
use crate::transfer::{UNFINISHED, UNFINISHED_WORDS};

pub(crate) struct Migration {
    pub number: u32,
    pub name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

/// A database whose schema this process brought up to date when it opened the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    pub from: u32,
    pub to: u32,
    /// The database as it was; a server has no copy.
    pub copy: Option<PathBuf>,
}

impl Migrated {
    /// Says so in the log.
    pub(crate) fn logged(self) -> Self {
        let Self { from, to, copy } = &self;
        match copy {
            Some(copy) => {
                tracing::info!(from, to, copy = %copy.display(), "the schema was migrated");
            }
            None => tracing::info!(from, to, "the schema was migrated"),
        }
        self
    }
}

impl fmt::Display for Migrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the schema was migrated from {} to {}", self.from, self.to)?;
        match &self.copy {
            Some(copy) => write!(f, "; a copy of the database as it was is {}", copy.display()),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

impl Migration {
    pub fn sql(&self, database: Database) -> &'static str {
        match database {
            Database::Sqlite => self.sqlite,
            Database::Postgres => self.postgres,
        }
    }

    fn checksum(&self, database: Database) -> String {
        let digest = Sha256::digest(self.sql(database).as_bytes());
        callboard_domain::hex::hex(digest)
    }
}

macro_rules! migrations {
    ($($number:literal $name:literal $file:literal,)*) => {
        const MIGRATIONS: &[Migration] = &[$(Migration {
            number: $number,
            name: $name,
            sqlite: include_str!(concat!("sqlite/migrations/", $file)),
            postgres: include_str!(concat!("postgres/migrations/", $file)),
        }),*];

        #[cfg(test)]
        const FILES: &[&str] = &[$($file),*];
    };
}

migrations! {
    1 "core" "0001_core.sql",
    2 "access" "0002_access.sql",
    3 "log" "0003_log.sql",
    4 "files" "0004_files.sql",
    5 "leases" "0005_leases.sql",
    6 "knowledge" "0006_knowledge.sql",
    7 "handles" "0007_handles.sql",
    8 "runs" "0008_runs.sql",
    9 "deliveries" "0009_deliveries.sql",
    10 "cards" "0010_cards.sql",
    11 "org" "0011_org.sql",
    12 "work" "0012_work.sql",
    13 "crew" "0013_crew.sql",
    14 "epics" "0014_epics.sql",
    15 "pulls" "0015_pulls.sql",
    16 "revoked" "0016_revoked.sql",
    17 "crew_runs" "0017_crew_runs.sql",
    18 "event_names" "0018_event_names.sql",
    19 "run_tails" "0019_run_tails.sql",
    20 "run_versions" "0020_run_versions.sql",
    21 "retries" "0021_retries.sql",
    22 "blocks" "0022_blocks.sql",
    23 "runners" "0023_runners.sql",
    24 "numbers" "0024_numbers.sql",
    25 "terminals" "0025_terminals.sql",
    26 "commands_scope" "0026_commands_scope.sql",
    27 "page_keys" "0027_page_keys.sql",
    28 "columns" "0028_columns.sql",
    29 "review_comments" "0029_review_comments.sql",
    30 "day_counts" "0030_day_counts.sql",
    31 "import" "0031_import.sql",
    32 "usage" "0032_usage.sql",
    33 "references" "0033_references.sql",
    34 "lists" "0034_lists.sql",
    35 "order" "0035_order.sql",
    36 "record" "0036_record.sql",
    37 "retention" "0037_retention.sql",
    38 "left" "0038_left.sql",
    39 "uses" "0039_uses.sql",
    40 "failing" "0040_failing.sql",
    41 "failing_columns" "0041_failing_columns.sql",
}

pub(crate) fn latest() -> u32 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}

/// The migrations of a database of version `found`, up to this one.
pub(crate) fn pending(found: u32, up_to: u32) -> impl Iterator<Item = &'static Migration> {
    MIGRATIONS.iter().filter(move |migration| (found + 1..=up_to).contains(&migration.number))
}

/// Refuses a database that a newer callboard made, or that is only half there.
pub(crate) fn refuse_newer(found: u32) -> Result<(), StoreError> {
    if found <= latest() {
        return Ok(());
    }
    if found == UNFINISHED {
        return Err(StoreError::Unavailable(UNFINISHED_WORDS.into()));
    }
    Err(StoreError::Newer(format!(
        "the database has schema {found}, newer than this callboard knows ({}); \
         use the callboard that wrote it or a newer one",
        latest()
    )))
}

table! {
    APPLIED = "migrations";
    fn values(migration: &'a Migration, database: Database) {
        version: migration.number,
        name: migration.name,
        checksum: migration.checksum(database),
    }
}

/// The statement whose rows `verify` needs.
pub(crate) const CHECKSUMS: &str = "SELECT version, checksum FROM migrations";

/// Refuses a database with a migration that is not the one this callboard knows.
pub(crate) fn verify(applied: &[(u32, String)], database: Database) -> Result<(), StoreError> {
    for migration in MIGRATIONS {
        let found = applied.iter().find(|(version, _)| *version == migration.number);
        if found.is_none_or(|(_, checksum)| *checksum != migration.checksum(database)) {
            return Err(StoreError::Corrupt(format!(
                "migration {} ({}) of this database is not the one this callboard knows; \
                 it was made by a different build",
                migration.number, migration.name
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_in_order() {
        let numbers: Vec<u32> = MIGRATIONS.iter().map(|migration| migration.number).collect();
        assert!(numbers.iter().copied().eq(1..=latest()), "{numbers:?}");
        for (migration, file) in MIGRATIONS.iter().zip(FILES) {
            assert_eq!(*file, format!("{:04}_{}.sql", migration.number, migration.name));
        }
    }
}
