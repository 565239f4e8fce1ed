//! `callboard worker`: background work without a listener.

use callboard_engine::Alert;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::{signal, trust};
use crate::output::Failure;

/// Run agents and other background work, without a server
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard worker --store postgres://callboard@db/callboard")]
pub struct WorkerArgs {}

pub async fn cmd_worker(context: &Context, _args: WorkerArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    context.export_metrics(open.engine());
    let stop = CancellationToken::new();
    signal::cancel_on_signal(&stop)?;
    let working = open.app.work_until(&stop, Alert::Everybody).await?;
    let working = working.ok_or_else(trust::store_is_foreign)?;
    context.out.note("working; Ctrl-C ends the worker");
    stop.cancelled().await;
    if let Some(agents) = signal::agents_at_work(open.engine()) {
        signal::say_stopping(context.out, &agents);
    }
    working.ended().await;
    Ok(())
}
