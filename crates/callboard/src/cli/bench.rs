//! `callboard bench`, the server and waiter processes that it starts, and `bench-fill`, which makes many tasks on a
//! board.

use std::io::Write;

use callboard_bench::{self as bench, BenchArgs, Figure};
use serde_json::{Value, json};

use super::context::Context;
use crate::output::{Exit, Failure, Object};

pub async fn cmd_bench(context: &Context, args: BenchArgs) -> Result<(), Failure> {
    let out = context.out;
    let say = move |what: &str| out.note(&format!("measuring {what}"));
    let postgres = context.postgres_named()?;
    // Every measured wait holds a connection.
    crate::limits::open_files();
    let figures = apart(move || bench::run(&args, postgres.as_deref(), say)).await?;
    if out.json {
        let figures: Vec<Value> = figures.iter().map(Figure::json).collect();
        return out.object(Object::Bench, json!({"version": 1, "figures": figures}));
    }
    figures.iter().try_for_each(|figure| out.line(&figure.line()))
}

/// Make many tasks in every state, to see how the board holds up
#[derive(clap::Args, Debug)]
pub struct FillArgs {
    /// How many tasks to make
    tasks: usize,
}

pub async fn cmd_fill(context: &Context, args: FillArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let filled = bench::fill_board(open.engine(), &open.op("bench-fill"), args.tasks).await;
    filled.map_err(failed)
}

pub async fn cmd_waiter() -> Result<(), Failure> {
    apart(|| bench::cmd_waiter(print)).await
}

pub async fn cmd_load() -> Result<(), Failure> {
    apart(|| bench::cmd_load(print)).await
}

pub async fn cmd_server() -> Result<(), Failure> {
    apart(|| bench::cmd_server(print)).await
}

fn print(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // The reader is gone: the measurement is over.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// The benchmark brings its own runtime, so it runs on a thread of its own.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(anyhow::Error::from).flatten().map_err(failed)
}

fn failed(error: anyhow::Error) -> Failure {
    Failure::new(Exit::Failure, "BENCH_FAILED", format!("{error:#}"))
}
