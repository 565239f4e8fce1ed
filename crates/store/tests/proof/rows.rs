//! The rows of a SQLite file as text, to compare whole databases.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

/// The name of the database in each folder.
pub const DATABASE: &str = "board.db";

/// The rows of every table.
pub type Rows = BTreeMap<String, Vec<String>>;

/// Every row of a database, in an order that does not depend on its pages.
pub fn rows(folder: &Path) -> Rows {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let db = Connection::open_with_flags(folder.join(DATABASE), flags).unwrap();
    let mut tables =
        db.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().flatten().collect();
    let mut all = Rows::new();
    for table in tables {
        let mut read = db.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
        let columns = read.column_count();
        let text = |row: &rusqlite::Row<'_>| {
            let cell = |n| match row.get_ref(n)? {
                ValueRef::Text(text) => Ok(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Blob(bytes) => Ok(format!("{bytes:02x?}")),
                other => Ok(format!("{other:?}")),
            };
            let cells: rusqlite::Result<Vec<String>> = (0..columns).map(cell).collect();
            cells.map(|cells| cells.join("|"))
        };
        let mut rows: Vec<String> = read.query_map([], text).unwrap().map(Result::unwrap).collect();
        rows.sort_unstable();
        all.insert(table, rows);
    }
    all
}

/// The rows that only one of two has.
pub fn difference(a: &Rows, b: &Rows) -> String {
    let mut lines = Vec::new();
    for (table, rows) in a {
        let others = b.get(table).cloned().unwrap_or_default();
        lines.extend(
            rows.iter().filter(|row| !others.contains(row)).map(|row| format!("- {table} {row}")),
        );
        lines.extend(
            others.iter().filter(|row| !rows.contains(row)).map(|row| format!("+ {table} {row}")),
        );
    }
    lines.truncate(40);
    lines.join("\n")
}
