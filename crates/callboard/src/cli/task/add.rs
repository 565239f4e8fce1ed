//! `callboard task add`.

use callboard_domain::command::NewCheck;
use callboard_domain::task::contract::{VerificationContract, VerificationKind};
use callboard_engine::TaskDraft;

use super::text_or_stdin;
use crate::cli::context::Context;
use crate::output::Failure;

/// Add a task
///
/// Prints the new task's short name.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  callboard task add \"Add --version flag\" --check \"cargo test\" \
                  --check \"manual: reads well\""
)]
pub struct TaskAddArgs {
    /// What is to be done, in a line
    title: String,
    /// What is wanted, as Markdown; - reads standard input
    #[arg(long, default_value = "", hide_default_value = true)]
    body: String,
    /// A task that must be closed first; may be given several times
    #[arg(long = "dep", value_name = "ID")]
    deps: Vec<String>,
    /// What must hold before it can close: a shell command, or "manual: TEXT"
    #[arg(long = "check", value_name = "CHECK")]
    checks: Vec<String>,
    /// 0..1000, smaller first [default: 500]
    #[arg(long, value_name = "N")]
    priority: Option<u16>,
    /// The task this one is part of
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// What must be shown before it is done: none, manual, commands, github_pr, gitlab_mr
    /// [default: from the checks]
    #[arg(long, value_name = "KIND", hide_possible_values = true)]
    #[arg(value_parser = VerificationKind::ALL.map(VerificationKind::as_str))]
    verify: Option<String>,
    /// The pull or merge request that shows it, like owner/repo#1
    #[arg(long = "ref", value_name = "REF", requires = "verify")]
    external_ref: Option<String>,
}

/// The contract of a kind that clap has already checked.
fn contract(kind: &str, external_ref: Option<String>) -> Option<VerificationContract> {
    let kind = VerificationKind::ALL.into_iter().find(|known| known.as_str() == kind)?;
    Some(VerificationContract { external_ref, ..VerificationContract::of(kind) })
}

pub async fn cmd_task_add(context: &Context, args: TaskAddArgs) -> Result<(), Failure> {
    let body = text_or_stdin(args.body)?;
    let open = context.open().await?;
    let parent = match &args.parent {
        Some(typed) => Some(open.task_id(typed).await?),
        None => None,
    };
    let draft = TaskDraft {
        title: args.title,
        body,
        priority: args.priority,
        parent,
        deps: open.dep_ids(&args.deps).await?,
        checks: args.checks.iter().map(|line| NewCheck::of_line(line)).collect(),
        verification: args.verify.and_then(|kind| contract(&kind, args.external_ref)),
        ..TaskDraft::default()
    };
    let added = open.engine().task_create(&open.op("create"), draft).await?;
    if context.out.json {
        return open.print_json(&added);
    }
    context.out.line(&added.it.task.name().to_string())
}
