//! `callboard migrate`: copies a whole store into another database.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use callboard_engine::store::StoreError;
use callboard_engine::store::transfer::{Address, Moved, Progress, Step, Tell, TransferError};
use serde_json::{Value, json};

use super::context::Context;
use crate::compose;
use crate::config::StoreUrl;
use crate::output::{Exit, Failure, Object, Out, Style, Table};

/// Move the whole board into another database
///
/// Copies everything from FROM into TO, which must be empty or not there yet, reads it back and
/// compares. FROM stays as it is. Others may go on writing to it, but what they write after the
/// copy has begun stays behind: stop the servers on FROM first. A copy that fails leaves TO empty
/// or marked, so that no callboard opens it.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  \
    callboard migrate sqlite:.callboard/callboard.db postgres://ana@db.example/board")]
pub struct MigrateArgs {
    /// The store to read: a path, sqlite:PATH or postgres://USER@HOST/DATABASE
    from: String,
    /// The store to fill, written in the same way
    to: String,
}

/// How often progress is reported.
const NEWS: Duration = Duration::from_secs(2);

pub async fn cmd_migrate(context: &Context, args: MigrateArgs) -> Result<(), Failure> {
    let (from, to) = (address("FROM", &args.from)?, address("TO", &args.to)?);
    let moved = compose::move_store(&from, &to, news(context.out)).await.map_err(failure)?;
    print(context.out, &moved)?;
    if !context.out.json {
        for finding in &moved.findings {
            let words = format!("{}; FROM has this fault too; fix: {}", finding.what, finding.fix);
            context.out.warning(&words);
        }
        context.out.note(&next_step(&to));
    }
    // The move is done, and scripts still notice that the board has damage.
    if moved.findings.is_empty() { Ok(()) } else { Err(Failure::Silent(1)) }
}

fn address(name: &str, typed: &str) -> Result<Address, Failure> {
    let said = |words: &str| Failure::usage(format!("{name}: {words}"));
    let url = StoreUrl::typed(typed).map_err(|words| said(&words))?;
    compose::store_address(&url).ok_or_else(|| said("the address of the store is missing"))
}

/// Reports progress if the copy takes long.
fn news(out: Out) -> Tell {
    let last = Mutex::new(Instant::now());
    Arc::new(move |Progress { step, table, rows }| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if out.json || last.elapsed() < NEWS {
            return;
        }
        *last = Instant::now();
        let verb = match step {
            Step::Copy => "copying",
            Step::ReadBack => "reading back",
        };
        out.note(&format!("{verb} {table}: {rows} rows"));
    })
}

fn print(out: Out, moved: &Moved) -> Result<(), Failure> {
    if out.json {
        let tables: Vec<Value> = moved
            .tables
            .iter()
            .map(|sum| json!({"name": sum.name, "rows": sum.rows, "sha256": sum.sha256}))
            .collect();
        let findings: Vec<Value> = moved
            .findings
            .iter()
            .map(|finding| json!({"what": finding.what, "fix": finding.fix}))
            .collect();
        return out.object(Object::Migrate, json!({"tables": tables, "findings": findings}));
    }
    let mut table = Table::new(&["TABLE", "ROWS", "SHA-256", ""]).whole();
    for sum in &moved.tables {
        table.row([
            (sum.name.to_owned(), Style::Plain),
            (sum.rows.to_string(), Style::Plain),
            (sum.sha256.clone(), Style::Dim),
            (if out.terminal { "✓" } else { "" }.to_owned(), Style::Green),
        ]);
    }
    out.raw(&table.render(&out))
}

/// The next step. The address may hold a password, so it is described and not repeated.
fn next_step(to: &Address) -> String {
    let value = match to {
        Address::Sqlite(path) => format!("sqlite:{}", path.display()),
        Address::Postgres(_) => "the postgres:// address of TO".to_owned(),
    };
    format!(
        "next: set store.url in .callboard/config.local.toml or CALLBOARD_STORE to {value}, then \
         start the servers again"
    )
}

fn failure(error: TransferError) -> Failure {
    let message = error.to_string();
    match error {
        TransferError::NoSource => {
            Failure::new(Exit::NotFound, "STORE_NOT_FOUND", format!("FROM: {message}"))
                .hint("callboard config get store.url tells where the board is now")
        }
        TransferError::NotEmpty(_) => {
            Failure::new(Exit::Conflict, "STORE_NOT_EMPTY", format!("TO: {message}")).hint(
                "name a new file, another database or, with ?search_path=NAME, another schema",
            )
        }
        TransferError::Differs(_) => {
            Failure::new(Exit::Failure, "COPY_DIFFERS", format!("TO: {message}")).hint(
                "FROM is as it was; delete TO, look for what changes rows there, and move again",
            )
        }
        TransferError::Source(error) => out_of_reach("FROM", error),
        TransferError::Target(error) => out_of_reach("TO", error),
    }
}

fn out_of_reach(name: &str, error: StoreError) -> Failure {
    let named = |words: String| format!("{name}: {words}");
    let error = match error {
        StoreError::Unavailable(words) => StoreError::Unavailable(named(words)),
        StoreError::Newer(words) => StoreError::Newer(named(words)),
        StoreError::Corrupt(words) => StoreError::Corrupt(named(words)),
        StoreError::Internal(words) => StoreError::Internal(named(words)),
    };
    Failure::from(error).hint("FROM is as it was; run the same command again when this is fixed")
}
