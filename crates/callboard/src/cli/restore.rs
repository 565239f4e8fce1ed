//! `callboard restore`: makes a backup the board again.

use std::path::PathBuf;

use callboard_engine::store::StoreError;
use callboard_engine::store::sqlite::RestoreError;
use serde_json::json;

use super::context::Context;
use crate::compose;
use crate::config::StoreUrl;
use crate::holders;
use crate::output::{Exit, Failure, Object};
use crate::place::{self, Place};

/// Restore the board from a backup
///
/// FILE is a copy that callboard backup wrote. Stop every callboard of this board first: restore
/// refuses while any process has the board open. The former database is kept beside the new one as
/// callboard.db.before-restore-TIME. A board in PostgreSQL is restored with callboard migrate, into
/// an empty schema.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard restore ~/backups/shop-monday.db")]
pub struct RestoreArgs {
    /// The backup to put back; the file stays as it is
    file: PathBuf,
}

pub async fn cmd_restore(context: &Context, args: RestoreArgs) -> Result<(), Failure> {
    let file = std::path::absolute(&args.file)
        .map_err(|error| Failure::io(format!("cannot use {}", args.file.display()), &error))?;
    let place = Place::find()?;
    let settings = context.settings(place.as_ref(), None)?;
    if let StoreUrl::Postgres(_) = settings.store {
        let words = "this board is in PostgreSQL; restore works on SQLite files only";
        return Err(Failure::usage(words).hint(format!(
            "callboard migrate {} postgres://USER@HOST/DATABASE, into an empty schema; \
             then set store.url to it",
            args.file.display()
        )));
    }
    if !file.exists() {
        let words = format!("{} does not exist", file.display());
        return Err(Failure::new(Exit::NotFound, "FILE_NOT_FOUND", words));
    }
    let database = compose::store_path(&settings, place.as_ref()).ok_or_else(place::missing)?;
    let restored = compose::restore_store(&file, &database).map_err(|error| match error {
        RestoreError::InUse => in_use(&database, &error),
        RestoreError::OwnFile => Failure::new(Exit::Conflict, "FILE_IN_USE", error.to_string()),
        RestoreError::Backup(error) => named(error, &args.file).into(),
        RestoreError::Board(error) => error.into(),
    })?;

    let open = context.open().await?;
    let store = open.engine().store();
    let findings = store.verify().await?;
    let events = store.last_seq().await?;
    let tasks: u64 = store.tasks_by_state().await?.total();
    if context.out.json {
        let findings: Vec<_> = findings
            .iter()
            .map(|finding| json!({"what": finding.what, "fix": finding.fix}))
            .collect();
        context.out.object(
            Object::Restore,
            json!({
                "database": database,
                "from": file,
                "kept": restored.kept,
                "tasks": tasks,
                "events": events,
                "findings": findings,
            }),
        )?;
    } else {
        let words =
            format!("{} is the board again: {tasks} tasks, {events} events", file.display());
        context.out.line(&words)?;
        if let Some(kept) = &restored.kept {
            context.out.note(&format!("the former database is {}", kept.display()));
        }
        for finding in &findings {
            context.out.warning(&format!("{}; the backup has this damage", finding.what));
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(Failure::Silent(1)) }
}

/// Names the processes that have the board open, if the machine can tell.
fn in_use(database: &std::path::Path, error: &RestoreError) -> Failure {
    let processes: Vec<String> =
        holders::of(database).iter().map(|holder| format!("process {}", holder.process)).collect();
    let who = match processes.as_slice() {
        [] => String::new(),
        some => format!(": {}", some.join(", ")),
    };
    Failure::new(Exit::Conflict, "BOARD_IN_USE", format!("{error}{who}"))
        .hint("stop callboard up, serve, mcp and worker of this board, then try again")
}

/// The error with the name of its file.
fn named(error: StoreError, file: &std::path::Path) -> StoreError {
    let named = |words: String| format!("{}: {words}", file.display());
    match error {
        StoreError::Unavailable(words) => StoreError::Unavailable(named(words)),
        StoreError::Newer(words) => StoreError::Newer(named(words)),
        StoreError::Corrupt(words) => StoreError::Corrupt(named(words)),
        StoreError::Internal(words) => StoreError::Internal(named(words)),
    }
}
