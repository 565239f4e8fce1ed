//! One tool call: what comes along with it (identity, cancellation, progress, retry key), the
//! call itself, and its answer as a result. Front decides everything else.

use std::time::Duration;

use callboard_engine::context::{OpContext, Principal, Progress, ProgressReport};
use rmcp::model::{CallToolResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::caught::caught;
use crate::error;
use crate::front::{Front, ToolReply, Unknown};

const RETRY_KEY: &str = "callboard/idempotencyKey";
/// How long an answer waits for progress that was reported before it.
const PROGRESS_FLUSH: Duration = Duration::from_secs(1);
/// Added when a report does not move on, because progress must increase.
const PROGRESS_STEP: f64 = 0.001;

pub(super) async fn call(
    front: &Front,
    principal: Principal,
    name: &str,
    arguments: Value,
    ctx: &RequestContext<RoleServer>,
    closing: &CancellationToken,
) -> Result<CallToolResult, ErrorData> {
    let pump = ctx
        .meta
        .get_progress_token()
        .map(|token| ProgressPump::start(ctx.peer.clone(), token, closing.clone()));
    let context = |tool| {
        let mut op = OpContext::new(principal, tool);
        op.client_name = ctx.client_info().map(|client| client.name);
        // An empty key is a variable that nobody filled.
        let key = ctx.meta.get(RETRY_KEY).and_then(Value::as_str).filter(|key| !key.is_empty());
        op.retry_key = key.map(String::from);
        op.cancel = ctx.ct.clone();
        if let Some(pump) = &pump {
            op.progress = pump.sink();
        }
        op
    };
    let reply = caught(front.call(name, arguments, context)).await;
    if let Some(pump) = pump {
        pump.finish().await;
    }
    match reply {
        Ok(Ok(ToolReply::Done(value))) => Ok(CallToolResult::structured(value)),
        Ok(Ok(ToolReply::Refused(value))) => Ok(CallToolResult::structured_error(value)),
        Ok(Err(Unknown(tool))) => {
            Err(ErrorData::invalid_params(format!("unknown tool: {tool}"), None))
        }
        Err(trace_id) => {
            Ok(CallToolResult::structured_error(error::broken("INTERNAL_ERROR", trace_id)))
        }
    }
}

/// Carries reports to the client without making the call wait for the wire.
struct ProgressPump {
    reports: mpsc::UnboundedSender<ProgressReport>,
    finish: CancellationToken,
    task: JoinHandle<()>,
    closing: CancellationToken,
}

impl ProgressPump {
    fn start(peer: Peer<RoleServer>, token: ProgressToken, closing: CancellationToken) -> Self {
        let (reports, queue) = mpsc::unbounded_channel();
        let finish = CancellationToken::new();
        let task = tokio::spawn(pump(peer, token, queue, finish.clone()));
        Self { reports, finish, task, closing }
    }

    fn sink(&self) -> Progress {
        let reports = self.reports.clone();
        // After the call nobody listens, and a late report is no one's loss.
        Progress::new(move |report| drop(reports.send(report)))
    }

    /// Returns when everything reported so far is on the wire, so that no progress comes after
    /// the answer. A connection that is ending takes no more notifications: then it does not wait.
    async fn finish(mut self) {
        self.finish.cancel();
        let flushed = tokio::time::timeout(PROGRESS_FLUSH, &mut self.task);
        tokio::select! {
            _ = flushed => {}
            () = self.closing.cancelled() => {}
        }
        self.task.abort();
    }
}

async fn pump(
    peer: Peer<RoleServer>,
    token: ProgressToken,
    mut queue: mpsc::UnboundedReceiver<ProgressReport>,
    finish: CancellationToken,
) {
    let mut last = f64::NEG_INFINITY;
    loop {
        let report = tokio::select! {
            biased;
            report = queue.recv() => report,
            () = finish.cancelled(), if !queue.is_closed() => {
                queue.close();
                continue;
            }
        };
        let Some(report) = report else { return };
        last = rising(last, report.done);
        let mut params = ProgressNotificationParam::new(token.clone(), last);
        params.total = report.total;
        params.message = Some(report.message).filter(|message| !message.is_empty());
        if peer.notify_progress(params).await.is_err() {
            return;
        }
    }
}

fn rising(last: f64, done: f64) -> f64 {
    if done.is_finite() && done > last { done } else { last.max(0.0) + PROGRESS_STEP }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_always_rises() {
        let mut last = f64::NEG_INFINITY;
        for done in [f64::NAN, 0.0, 0.0, 5.0, 3.0, 5.0, f64::INFINITY] {
            let next = rising(last, done);
            assert!(next > last, "{done} after {last} gave {next}");
            last = next;
        }
    }
}
