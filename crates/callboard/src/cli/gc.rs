//! `callboard gc`.

use callboard_domain::board::gc::GcVerdict;
use callboard_engine::GcRow;
use serde_json::{Value, json};

use super::context::Context;
use crate::output::{Failure, List, Style, Table};

/// Show which worktrees and branches of tasks can be removed, and why the others are kept
///
/// Removes nothing without --yes. A worktree goes when its task is closed, no actor works on it, and
/// the target branch has all of its work. Uncommitted files, unmerged commits, worktrees that no task
/// of this board has, and anything that git cannot read are kept.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard gc\n  callboard gc --yes\n  callboard gc --json")]
pub struct GcArgs {
    /// Remove what can be removed
    #[arg(long)]
    yes: bool,
}

pub async fn cmd_gc(context: &Context, args: GcArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let op = open.op_long("gc")?;
    let rows = open.engine().workspace_gc(&op, args.yes).await?;
    let (used, free) = (sum(&rows, |_| true), sum(&rows, |row| row.verdict == GcVerdict::Remove));
    if context.out.json {
        let quota = open.engine().disk_quota();
        let more = json!({"bytes": used, "removableBytes": free, "quotaBytes": quota});
        let items = rows.iter().map(row_json).collect();
        return context.out.list_with(List::Gc, items, Value::Null, more);
    }
    if rows.is_empty() {
        return context.out.line("no worktrees");
    }
    let mut table = Table::new(&["VERDICT", "TASK", "SIZE", "PATH", "REASON"]);
    for row in &rows {
        let (word, style) = match (row.verdict, row.is_removed) {
            (_, true) => ("removed", Style::Green),
            (GcVerdict::Remove, false) => ("remove", Style::Green),
            (GcVerdict::Keep, false) => ("keep", Style::Plain),
        };
        let size = row.path.as_ref().map(|_| size(row.bytes)).unwrap_or_default();
        table.row([
            (word.to_owned(), style),
            (row.task.map(|task| task.to_string()).unwrap_or_default(), Style::Bold),
            (size, Style::Plain),
            (place(row), Style::Plain),
            (row.reason.clone(), Style::Plain),
        ]);
    }
    context.out.raw(&table.render(&context.out))?;
    let count = rows.iter().filter(|row| row.verdict == GcVerdict::Remove).count();
    match (count, args.yes) {
        (0, _) => context.out.note("nothing can be removed"),
        (_, true) => {
            let gone = sum(&rows, |row| row.is_removed);
            context.out.note(&format!("{} are free again", size(gone)));
        }
        (_, false) => {
            context
                .out
                .note(&format!("callboard gc --yes removes {count}, which frees {}", size(free)));
        }
    }
    Ok(())
}

/// The worktree, or the branch where there is no worktree.
fn place(row: &GcRow) -> String {
    match (&row.path, &row.branch) {
        (Some(path), _) => path.display().to_string(),
        (None, branch) => format!("branch {}", branch.as_deref().unwrap_or_default()),
    }
}

/// The bytes of the rows that `counts` chooses.
fn sum(rows: &[GcRow], counts: impl Fn(&GcRow) -> bool) -> u64 {
    rows.iter().filter(|row| counts(row)).map(|row| row.bytes).sum()
}

fn size(bytes: u64) -> String {
    const MB: u64 = 1024 * 1024;
    match bytes {
        0..MB => format!("{} kB", bytes / 1024),
        _ => format!("{} MB", bytes / MB),
    }
}

fn row_json(row: &GcRow) -> Value {
    json!({
        "path": row.path,
        "branch": row.branch,
        "repo": row.repo,
        "task": row.task.map(|task| task.to_string()),
        "size": row.bytes,
        "verdict": row.verdict.as_str(),
        "reason": row.reason,
        "removed": row.is_removed,
    })
}
