//! Boards that earlier builds made, their rows, and whether a migration kept them. `scripts/make-fixtures` makes the files.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use callboard_domain::time::Timestamp;
use callboard_store::clock::ManualClock;
use callboard_store::sqlite::SqliteStore;
use callboard_store::{Store, StoreError};
use flate2::read::GzDecoder;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde_json::{Map, Value};
use tokio_postgres::Client;

use crate::rows::DATABASE;
use crate::schema::Schema;

/// A board of an earlier build.
pub struct Board {
    pub version: u32,
    sqlite: &'static [u8],
    postgres: &'static [u8],
}

macro_rules! board {
    ($version:literal, $name:literal) => {
        Board {
            version: $version,
            sqlite: include_bytes!(concat!("../fixtures/", $name, ".db.gz")),
            postgres: include_bytes!(concat!("../fixtures/", $name, ".sql.gz")),
        }
    };
}

/// Made by commits dcb5e7d8, 118b9acb and e5db77cc.
pub const BOARDS: &[Board] = &[board!(21, "v21"), board!(33, "v33"), board!(37, "v37")];

/// Tables that have no row in any fixture.
pub const EMPTY: &[(&str, &str)] = &[
    ("knowledge_models", "needs an embedding model"),
    ("knowledge_vectors", "needs an embedding model"),
    ("open_projects", "needs a person with two projects"),
    ("run_tails", "only while an agent prints"),
    ("runners", "only while a program runs agents"),
];

/// The name of the PostgreSQL schema in the fixtures.
const SCHEMA: &str = "callboard_fixture";

/// After the last event of every fixture.
const LATER: Timestamp = Timestamp(1_900_000_000_000_000);

/// The rows of each table; a row is its columns by name.
pub type Tables = BTreeMap<String, Vec<BTreeMap<String, String>>>;

fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    bytes
}

impl Board {
    pub fn bytes(&self) -> Vec<u8> {
        unpack(self.sqlite)
    }

    /// Puts the SQLite file into a folder. Returns its rows.
    pub fn place(&self, folder: &Path) -> Tables {
        let path = folder.join(DATABASE);
        std::fs::write(&path, self.bytes()).unwrap();
        let rows = rows_of_file(&path);
        assert_eq!(version(&path), self.version);
        rows
    }

    /// Puts the board into a new schema of PostgreSQL. Returns its rows.
    pub async fn load(&self, schema: &Schema) -> Tables {
        let client = schema.connect().await;
        let name = client.query_one("SELECT current_setting('search_path')", &[]).await.unwrap();
        let sql = String::from_utf8(unpack(self.postgres)).unwrap();
        client.batch_execute(&sql.replace(SCHEMA, name.get(0))).await.unwrap();
        let rows = rows_of_schema(&client).await;
        assert_eq!(rows["migrations"].len() as u32, self.version);
        rows
    }

    /// The copy that a migration of this board makes first.
    pub fn copy(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{DATABASE}.before-v{}", self.version + 1))
    }
}

/// The version that a new board has.
pub static LATEST: LazyLock<u32> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    version(&folder.path().join(DATABASE))
});

pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(LATER))
}

pub fn open(folder: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(&folder.join(DATABASE), clock())
}

pub fn version(path: &Path) -> u32 {
    let db = Connection::open(path).unwrap();
    db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

pub async fn assert_sound(store: &dyn Store, place: &str) {
    assert_eq!(store.verify().await.unwrap(), Vec::new(), "{place}");
}

pub fn rows_of_file(path: &Path) -> Tables {
    let db = Connection::open(path).unwrap();
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut names = db.prepare(names).unwrap();
    let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().flatten().collect();
    let rows = |table: &String| {
        let mut read = db.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
        let columns: Vec<String> = read.column_names().map(str::to_owned).collect();
        let cell = |row: &Row<'_>, n| match row.get_ref(n).unwrap() {
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            ValueRef::Blob(bytes) => format!("{bytes:02x?}"),
            other => format!("{other:?}"),
        };
        let rows = read.query_map([], |row| {
            let cells = columns.iter().enumerate();
            cells.map(|(n, column)| Ok((column.clone(), cell(row, n)))).collect()
        });
        rows.unwrap().collect::<rusqlite::Result<Vec<_>>>().unwrap()
    };
    names.iter().map(|table| (table.clone(), rows(table))).collect()
}

pub async fn rows_of_schema(client: &Client) -> Tables {
    let names = "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()";
    let mut tables = Tables::new();
    for name in client.query(names, &[]).await.unwrap() {
        let name: String = name.get(0);
        let sql = format!("SELECT to_jsonb(t)::text FROM \"{name}\" t");
        let rows = client.query(&sql, &[]).await.unwrap();
        let row = |row: &tokio_postgres::Row| {
            let cells: Map<String, Value> = serde_json::from_str(row.get(0)).unwrap();
            cells.into_iter().map(|(column, cell)| (column, cell.to_string())).collect()
        };
        tables.insert(name, rows.iter().map(row).collect());
    }
    tables
}

/// Tables whose rows a migration makes from others, or needs no more.
const MADE_ANEW: &[&str] = &["migrations", "day_counts", "day_counts_position", "log_position"];
/// Columns that a migration removes or changes; `assert_moved` looks at their content.
const CHANGED: &[(&str, &str)] =
    &[("cards", "blocked_reason"), ("cards", "blocked_at"), ("tokens", "rights")];

/// Asserts that every row of every table is still there, with every column.
pub fn assert_kept(old: &Tables, new: &Tables, place: &str) {
    for (table, rows) in old.iter().filter(|(table, _)| !MADE_ANEW.contains(&table.as_str())) {
        let is_kept = |column: &&String| !CHANGED.contains(&(table.as_str(), column.as_str()));
        let columns = rows.first().into_iter().flat_map(BTreeMap::keys);
        let columns: Vec<&String> = columns.filter(is_kept).collect();
        let text = |rows: &[BTreeMap<String, String>]| -> Vec<String> {
            let cell = |row: &BTreeMap<String, String>, column: &&String| {
                format!("{column}={}", row.get(*column).map_or("gone", String::as_str))
            };
            let line =
                |row| columns.iter().map(|column| cell(row, column)).collect::<Vec<_>>().join("|");
            let mut lines: Vec<String> = rows.iter().map(line).collect();
            lines.sort_unstable();
            lines
        };
        let found = new.get(table).unwrap_or_else(|| panic!("{place}: table {table} is gone"));
        let (rows, found) = (text(rows), text(found));
        let missing: Vec<&String> = rows.iter().filter(|row| !found.contains(row)).collect();
        assert!(missing.is_empty(), "{place}: {table} lost {missing:#?}\nof {found:#?}");
        assert_eq!(rows.len(), found.len(), "{place}: {table}");
    }
}

/// Asserts that values that a migration moves or makes are right.
pub fn assert_moved(old: &Tables, new: &Tables, place: &str) {
    // Tasks have numbers from 1 on, without gaps, in each org and prefix.
    let mut numbers: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
    for task in &new["tasks"] {
        let digits: String = task["number"].chars().filter(char::is_ascii_digit).collect();
        numbers.entry((&task["org"], &task["prefix"])).or_default().push(digits.parse().unwrap());
    }
    for numbers in numbers.values_mut() {
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u32), "{place}: {numbers:?}");
    }
    // The reason why a task is stuck moved from its card to the task.
    for card in &old["cards"] {
        let reason = card.get("blocked_reason").map_or("", |reason| reason.trim_matches('"'));
        if ["", "Null", "null"].contains(&reason) {
            continue;
        }
        let task = new["tasks"].iter().find(|task| task["id"] == card["task"]).unwrap();
        assert!(task["blocked"].contains(reason), "{place}: {task:?}");
    }
    for token in &new["tokens"] {
        let was = old["tokens"].iter().find(|was| was["id"] == token["id"]).unwrap();
        let had_all = was["rights"].contains("knowledge:write");
        assert_eq!(token["rights"].contains("commands:run"), had_all, "{place}: {token:?}");
    }
}
