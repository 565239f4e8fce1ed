//! `callboard check …`: running and attesting the checks of a task, and reading their output.

use callboard_domain::refusal::{Refusal, UnmetCheck};
use callboard_domain::task::{Check, Task, VerdictSource};

use callboard_engine::LOG_TAIL_BYTES;
use callboard_engine::store::FileSpan;
use serde_json::json;

use super::context::Context;
use super::view::plain_lines;
use crate::output::{Failure, Object};

/// Run or attest a task's checks, or read their logs
#[derive(clap::Subcommand, Debug)]
pub enum CheckCommand {
    Run(RunArgs),
    Attest(AttestArgs),
    Log(LogArgs),
}

impl CheckCommand {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            CheckCommand::Run(args) => cmd_check_run(context, args).await,
            CheckCommand::Attest(args) => cmd_check_attest(context, args).await,
            CheckCommand::Log(args) => cmd_check_log(context, args).await,
        }
    }
}

/// Run a task's command checks and record the results
///
/// The task stays where it is. Exit code 6 says that a check failed.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard check run SHOP-01j8x2k7 --only 1")]
pub struct RunArgs {
    /// The task, or the beginning of its id
    id: String,
    /// Only these checks, counted from 0 as task show does
    #[arg(long, value_name = "N", value_delimiter = ',')]
    only: Vec<usize>,
}

async fn cmd_check_run(context: &Context, args: RunArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op_long("run_checks")?;
    let ran = open.engine().check_run(&op, id, args.only.clone()).await?;
    open.print_checks(&ran)?;
    match failed(&ran.it.task, &args.only) {
        checks if checks.is_empty() => Ok(()),
        checks => {
            open.show_logs(&checks);
            Err(Failure::from(Refusal::ChecksNotPassed { task: id, checks }).about(id))
        }
    }
}

/// The requested command checks that fail.
fn failed(task: &Task, only: &[usize]) -> Vec<UnmetCheck> {
    let asked = |index: usize| only.is_empty() || only.contains(&index);
    let log = |check: &Check| match check.verdict.as_ref().map(|verdict| &verdict.source) {
        Some(VerdictSource::Run { log, .. }) => Some(log.clone()),
        Some(VerdictSource::Attested { .. }) | None => None,
    };
    let unmet = |(index, check): (usize, &Check)| UnmetCheck {
        index: Some(index),
        desc: check.desc.clone(),
        result: check.result(),
        log: log(check),
    };
    task.checks
        .iter()
        .enumerate()
        .filter(|(index, check)| asked(*index) && check.is_command() && check.result() == "fail")
        .map(unmet)
        .collect()
}

/// Record that a manual check passes, or that it fails
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard check attest SHOP-01j8x2k7 1")]
pub struct AttestArgs {
    /// The task, or the beginning of its id
    id: String,
    /// Which check, counted from 0 as task show does
    #[arg(value_name = "N")]
    index: usize,
    /// It does not hold
    #[arg(long)]
    fail: bool,
}

async fn cmd_check_attest(context: &Context, args: AttestArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op("attest");
    open.print_checks(&open.engine().check_attest(&op, id, args.index, !args.fail).await?)
}

/// Print the log of the last run of a command check
///
/// On a shared store, the run may have been on another machine.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard check log SHOP-01j8x2k7 0 --tail 2000")]
pub struct LogArgs {
    /// The task, or the beginning of its id
    id: String,
    /// Which check, counted from 0 as task show does
    #[arg(value_name = "N")]
    index: usize,
    /// Only so much of its end
    #[arg(long, value_name = "BYTES", default_value_t = LOG_TAIL_BYTES)]
    tail: u64,
}

async fn cmd_check_log(context: &Context, args: LogArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op("check_log");
    let span = FileSpan::Tail { bytes_max: args.tail };
    let read = open.engine().check_log(&op, id, args.index, span).await;
    let log = read.map_err(|error| Failure::from(error).about(id))?;
    let (size, start) = (log.part.size, log.part.start);
    if open.out.json {
        let document = json!({
            "id": id, "index": args.index, "log": log.name,
            "size": size, "start": start, "text": log.text(),
        });
        return open.out.object(Object::CheckLog, document);
    }
    if !log.is_whole() {
        open.out
            .note(&format!("the last {} of {size} bytes; --tail {size} prints all", size - start));
    }
    // A file or a pipe gets the log unchanged; a terminal must not obey its control characters.
    let text = log.text();
    open.out.raw(&if open.out.terminal { plain_lines(&text) } else { text })
}
