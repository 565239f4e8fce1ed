//! The speed of the machine and of the bare database, for the benchmark to compare with. Nothing in the product
//! uses this.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior, params};

/// How often per second 4 KiB can be overwritten and flushed, one after another.
pub fn raw_syncs_per_s(folder: &Path, for_about: Duration) -> io::Result<f64> {
    let path = folder.join("raw-sync");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
    let block = [7u8; 4096];
    const BLOCKS: u64 = 256;
    for n in 0..BLOCKS {
        file.write_all_at(&block, n * 4096)?;
    }
    file.sync_all()?;
    let start = Instant::now();
    let mut done = 0u64;
    while start.elapsed() < for_about {
        file.write_all_at(&block, (done % BLOCKS) * 4096)?;
        file.sync_data()?;
        done += 1;
    }
    let rate = done as f64 / start.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}

/// The time of each of `count` claims done with nothing but SQLite: read, update, one event, one
/// flushed commit.
pub fn bare_claims(folder: &Path, count: usize) -> rusqlite::Result<Vec<Duration>> {
    let mut db = Connection::open(folder.join("bare.db"))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.execute_batch(
        "CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, label TEXT, assignee TEXT);
         CREATE TABLE events (seq INTEGER PRIMARY KEY, at INTEGER, actor TEXT, name TEXT, task INTEGER);",
    )?;
    let tx = db.transaction()?;
    for n in 0..count {
        tx.execute(
            "INSERT INTO tasks VALUES (?1, ?2, 'backlog', NULL)",
            params![n as i64, format!("task {n}")],
        )?;
    }
    tx.commit()?;
    let mut times = Vec::with_capacity(count);
    for n in 0..count {
        let start = Instant::now();
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.prepare_cached(
            "UPDATE tasks SET assignee = 'agent:x' WHERE id = ?1 AND assignee IS NULL",
        )?
        .execute([n as i64])?;
        tx.prepare_cached(
            "INSERT INTO events (at, actor, name, task) VALUES (0, 'agent:x', 'task.claimed', ?1)",
        )?
        .execute([n as i64])?;
        tx.commit()?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// Fills a store with `blocked` tasks that hold the best priorities but wait for one open task,
/// and one free task behind them all.
pub fn fill_with_blocked(database: &Path, project: i64, blocked: usize) -> rusqlite::Result<()> {
    let mut db = Connection::open(database)?;
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    const INSERT: &str = "INSERT INTO tasks (id, prefix, org, project, title, label, phase, priority, \
             checks, open_deps, entries, created_at, updated_at, number) \
         VALUES (?1, 'BENCH', 1, ?2, ?3, 'backlog', 'initial', ?4, '[]', ?5, 0, 0, 0, ?6)";
    let root = 1u128.to_be_bytes();
    {
        let mut insert = tx.prepare(INSERT)?;
        insert.execute(params![root, project, "everybody waits for this", 999, 0, 1])?;
        insert.execute(params![2u128.to_be_bytes(), project, "free", 500, 0, 2])?;
        let mut depend = tx.prepare("INSERT INTO deps (task, position, dep) VALUES (?1, 0, ?2)")?;
        for n in 0..blocked {
            let id = (n as u128 + 10).to_be_bytes();
            insert.execute(params![id, project, format!("blocked {n}"), 0, 1, n as i64 + 3])?;
            depend.execute(params![id, root])?;
        }
    }
    tx.commit()
}
