//! The span of a run in the traces: which executor ran, what it used, how it ended. No prompt, answer or path is in it.

use callboard_domain::runs::usage::RunUsage;
use callboard_engine::trace::SPANS;
use tracing::Span;
use tracing::field::Empty;

pub(super) fn run_span(kind: &'static str, job: &str, attempt: u32) -> Span {
    tracing::trace_span!(
        target: SPANS,
        "invoke_agent",
        "gen_ai.operation.name" = "invoke_agent",
        "callboard.run.kind" = kind,
        "callboard.job.id" = job,
        "callboard.job.attempt" = attempt,
        "otel.name" = Empty,
        "gen_ai.agent.name" = Empty,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "callboard.run.result" = Empty,
        "error.type" = Empty,
    )
}

/// Names the executor in the span of the run that goes on here.
pub(super) fn run_by(executor: &str) {
    let span = Span::current();
    if !span.is_disabled() {
        span.record("otel.name", format!("invoke_agent {executor}"));
        span.record("gen_ai.agent.name", executor);
    }
}

/// Completes the span of a run. The word of a failure is also the type of its error.
pub(super) fn run_ended(
    span: &Span,
    usage: Option<RunUsage>,
    result: Result<&'static str, &'static str>,
) {
    if let Some(usage) = usage {
        span.record("gen_ai.usage.input_tokens", usage.input_tokens);
        span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    }
    span.record("callboard.run.result", result.unwrap_or_else(|word| word));
    if let Err(word) = result {
        span.record("error.type", word);
    }
}
