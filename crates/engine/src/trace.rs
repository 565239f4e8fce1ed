//! The target of spans that are exported as traces. These spans are at the level TRACE, so no log has them at its usual
//! level. While no exporter wants them, a span costs one comparison of levels.
//!
//! Fields of a span become attributes. Four names mean something else: `otel.name` replaces the name, `otel.kind` is the
//! kind, `traceparent` is the parent in another process, and a span with `error.type` has failed. An attribute is a word
//! that is known beforehand, a number or an id: never a title, an argument or a token.

use tracing::Level;

pub const SPANS: &str = "callboard_spans";

/// Whether an exporter wants spans.
pub fn is_on() -> bool {
    tracing::enabled!(target: SPANS, Level::TRACE)
}
