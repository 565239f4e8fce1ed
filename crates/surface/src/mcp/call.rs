//! One tool call: its context (identity, cancellation, progress, retry key), the call itself, and its answer as a
//! result. Front decides everything else.

use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use callboard_engine::context::{OpContext, Principal, Progress, ProgressReport, RETRY_KEY};
use callboard_engine::{EngineError, Words, trace};
use rmcp::model::{CallToolResponse, CallToolResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::caught::caught;
use super::tasks;
use crate::error;
use crate::front::{Front, Unknown};
use crate::retry::ToolRequest;
use crate::tool::WAIT_INTERRUPTED;
use crate::traced::{self, TRACEPARENT, Transport};

/// How long a client that accepts a task as an answer waits for the answer itself.
/// A call that ends within it needs no handle, which is a row of the store.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long an answer waits for progress that was reported before it.
const PROGRESS_FLUSH: Duration = Duration::from_secs(1);
/// Added when a report does not increase the progress, because progress must increase.
const PROGRESS_STEP: f64 = 0.001;

/// One tool call as it came in.
pub(super) struct Requested<'a> {
    pub front: &'a Arc<Front>,
    pub principal: Principal,
    pub name: &'a str,
    pub arguments: Value,
    pub ctx: &'a RequestContext<RoleServer>,
    /// Cancelled when the connection is about to end, so that waits return early instead of being cut.
    pub closing: &'a CancellationToken,
}

impl Requested<'_> {
    /// The arguments with their retry key.
    fn asked(&mut self) -> ToolRequest {
        let key = self.ctx.meta.get(RETRY_KEY).cloned();
        ToolRequest { arguments: self.arguments.take(), key }
    }

    /// A pump, if the client asked for progress: without its token the protocol allows no report.
    fn pump(&self) -> Option<ProgressPump> {
        let token = self.ctx.meta.get_progress_token()?;
        Some(ProgressPump::start(self.ctx.peer.clone(), token, self.closing.clone()))
    }

    /// The span of the call for traces. The parent in `_meta` is that of the call; a header names that of the request.
    fn span(&self) -> Span {
        if !trace::is_on() {
            return Span::none();
        }
        let request = self.ctx.extensions.get::<Parts>();
        let header = request.and_then(|request| traced::parent_in(&request.headers));
        let own = self.ctx.meta.get(TRACEPARENT).and_then(Value::as_str);
        let transport = if request.is_some() { Transport::Http } else { Transport::Stdio };
        traced::tool_call(transport, &self.principal.actor, own.or(header))
    }

    /// The context of the call; `Front::ask` fills in the name of the tool.
    fn op(&self, cancel: CancellationToken, progress: Progress) -> OpContext {
        let mut op = OpContext::new(self.principal.clone(), "");
        op.client_name = self.ctx.client_info().map(|client| client.name);
        op.cancel = cancel;
        op.closing = self.closing.clone();
        op.progress = progress;
        op
    }
}

/// Calls a tool and returns when the call is done.
pub(super) async fn call(mut asked: Requested<'_>) -> Result<CallToolResult, ErrorData> {
    let pump = asked.pump();
    let progress = pump.as_ref().map(ProgressPump::sink).unwrap_or_default();
    let op = asked.op(asked.ctx.ct.clone(), progress);
    let (span, request) = (asked.span(), asked.asked());
    let answered = match span.is_disabled() {
        true => answer(asked.front, asked.name, request, op).await,
        // In a box, so that the usual future does not grow by a second one.
        false => Box::pin(answer(asked.front, asked.name, request, op).instrument(span)).await,
    };
    if let Some(pump) = pump {
        pump.finish().await;
    }
    answered.result
}

/// Calls a tool for a client that accepts a task as an answer: a long call that exceeds the patience goes on behind a
/// task. Until then a client that hangs up cancels the call.
pub(super) async fn call_or_task(mut asked: Requested<'_>) -> Result<CallToolResponse, ErrorData> {
    let Some((tool, scope)) = asked.front.long_tool(asked.name, &asked.arguments) else {
        return Ok(call(asked).await?.into());
    };
    let cancel = CancellationToken::new();
    // If this future is dropped, the guard cancels the spawned call, which nothing else would end.
    let hung_up = cancel.clone().drop_guard();
    let (pump, words) = (asked.pump(), Words::default());
    let op = asked.op(cancel.clone(), heard_by(pump.as_ref(), words.clone()));
    let op = OpContext { tool, ..op };
    let mut work = {
        let (front, op, span) = (asked.front.clone(), op.clone(), asked.span());
        let (name, asked) = (asked.name.to_owned(), asked.asked());
        // A task of its own from the start: a future that this request owns could not go on without it.
        let call = async move { answer(&front, &name, asked, op).await };
        tokio::spawn(call.instrument(span))
    };
    let gone = &asked.ctx.ct;
    let done = tokio::select! {
        done = &mut work => Some(done),
        () = tokio::time::sleep(PATIENCE) => None,
        () = gone.cancelled() => None,
    };
    // Progress belongs to the request. Readers of a task get the words of the progress instead.
    if let Some(pump) = pump {
        pump.finish().await;
    }
    if done.is_none()
        && !gone.is_cancelled()
        && let Some(long) = tasks::open(asked.front, &op, scope, words).await
    {
        // From here on only `tasks/cancel` ends the call.
        hung_up.disarm();
        return Ok(tasks::run(asked.front, long, async { ended(work.await) }));
    }
    let done = match done {
        Some(done) => done,
        // No handle could be written, so this request waits to the end; or the client is gone.
        None => tokio::select! {
            done = &mut work => done,
            () = gone.cancelled() => {
                cancel.cancel();
                // The cancelled call is awaited: what it did before it noticed belongs into its answer.
                work.await
            }
        },
    };
    Ok(done.map_err(stopped)?.result?.into())
}

fn ended(done: Result<Answered, JoinError>) -> tasks::Ended {
    match done {
        Ok(Answered { canceled: true, .. }) => tasks::Ended::Canceled,
        Ok(Answered { result, .. }) => tasks::Ended::Answered(result),
        Err(error) => tasks::Ended::Answered(Err(stopped(error))),
    }
}

/// Panics are caught inside the call, so only the end of the process remains as a cause.
fn stopped(error: JoinError) -> ErrorData {
    ErrorData::internal_error(format!("the call stopped: {error}"), None)
}

/// Progress goes to the client while it waits, and its words to later readers of the task.
fn heard_by(pump: Option<&ProgressPump>, words: Words) -> Progress {
    let client = pump.map(ProgressPump::sink).unwrap_or_default();
    Progress::new(move |report| {
        words.say(&report.message);
        client.report(report.done, report.total, report.message);
    })
}

/// A call's answer, and whether a client's request ended it.
struct Answered {
    result: Result<CallToolResult, ErrorData>,
    /// The call was cancelled by request, and nothing was done.
    canceled: bool,
}

/// Calls a tool and shapes every outcome: an answer, a refusal, an unknown name, a panic.
async fn answer(front: &Front, name: &str, asked: ToolRequest, op: OpContext) -> Answered {
    // A server that stops cancels the remaining calls, but not by a client's request.
    let is_unwanted = {
        let (cancel, closing) = (op.cancel.clone(), op.closing.clone());
        move || cancel.is_cancelled() && !closing.is_cancelled()
    };
    let context = |tool| OpContext { tool, ..op };
    let (result, canceled) = match caught(front.ask(name, asked, context)).await {
        // A wait that was interrupted is a normal answer of its tool, yet its task was cancelled.
        Ok(Ok((Ok(value), _))) => {
            let canceled = value["code"] == WAIT_INTERRUPTED && is_unwanted();
            (Ok(CallToolResult::structured(value)), canceled)
        }
        Ok(Ok((Err(error), speaker))) => {
            let refused = CallToolResult::structured_error(error::render(&error, speaker));
            (Ok(refused), matches!(error, EngineError::Canceled))
        }
        // The protocol wants -32602 for an unknown tool, not a result with `isError`.
        Ok(Err(Unknown(tool))) => {
            (Err(ErrorData::invalid_params(format!("unknown tool: {tool}"), None)), false)
        }
        Err(trace_id) => {
            let broken = error::broken("INTERNAL_ERROR", trace_id);
            (Ok(CallToolResult::structured_error(broken)), false)
        }
    };
    Answered { result, canceled }
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
        // After the call there is no receiver, and a late report is no loss.
        Progress::new(move |report| drop(reports.send(report)))
    }

    /// Returns when every report so far is on the wire, so that no progress comes after the answer. A connection that
    /// is ending takes no more notifications: then this does not wait.
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

/// Sends reports until the queue is closed and empty, or the client is gone.
async fn pump(
    peer: Peer<RoleServer>,
    token: ProgressToken,
    mut queue: mpsc::UnboundedReceiver<ProgressReport>,
    finish: CancellationToken,
) {
    let mut last = f64::NEG_INFINITY;
    loop {
        let report = tokio::select! {
            // Reports before the end: `finish` must not overtake what was reported before it.
            biased;
            report = queue.recv() => report,
            () = finish.cancelled(), if !queue.is_closed() => {
                // A closed queue still yields what it holds, and then `None`.
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

/// A value above the last one: the protocol requires progress to increase with every report.
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
