//! `callboard backup`: a consistent copy, taken while other processes write.

use std::path::PathBuf;

use serde_json::json;

use super::context::Context;
use crate::output::{Exit, Failure, Object};

/// Write a consistent copy of the board to a file
///
/// Others may go on writing meanwhile. The copy is a whole SQLite database, also of a board in
/// PostgreSQL. callboard restore FILE puts the copy back, callboard migrate moves it into another
/// database. The file has its name only when it is whole.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard backup ~/backups/shop-monday.db")]
pub struct BackupArgs {
    /// The file to write; it must not be there yet
    file: PathBuf,
}

pub async fn cmd_backup(context: &Context, args: BackupArgs) -> Result<(), Failure> {
    let file = std::path::absolute(&args.file)
        .map_err(|error| Failure::io(format!("cannot use {}", args.file.display()), &error))?;
    if file.exists() {
        let taken = format!("{} already exists and was not changed", file.display());
        return Err(Failure::new(Exit::Conflict, "FILE_EXISTS", taken).hint("name another file"));
    }
    let open = context.open().await?;
    open.engine().store().backup(file.clone()).await?;
    let bytes = std::fs::metadata(&file).map(|copy| copy.len()).unwrap_or_default();
    if context.out.json {
        return context.out.object(Object::Backup, json!({"file": file, "bytes": bytes}));
    }
    context.out.line(&format!(
        "{} holds the whole board, {} kB",
        file.display(),
        bytes.div_ceil(1000)
    ))
}
