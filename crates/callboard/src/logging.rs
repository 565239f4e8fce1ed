//! Logs go to stderr: for eyes on a terminal, as JSON otherwise. Spans for traces go to an exporter, if there is one, and
//! to no log.

use std::io::IsTerminal;

use callboard_runner::Telemetry;
use callboard_surface::mcp::HANG_UPS_UNSAID;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

pub const LEVEL_VARIABLE: &str = "CALLBOARD_LOG";

/// Starts logging at the level of `CALLBOARD_LOG`, else at `default_level`.
pub fn start(default_level: &str, telemetry: Option<&Telemetry>) {
    let default = format!("{default_level},{HANG_UPS_UNSAID}");
    let level = std::env::var(LEVEL_VARIABLE).unwrap_or_else(|_| default.clone());
    // An invalid filter must not keep a server from starting.
    let filter = EnvFilter::try_new(&level).unwrap_or_else(|_| EnvFilter::new(&default));
    if let Some(spans) = telemetry.and_then(Telemetry::layer) {
        // Both layers have a filter of their own, so that no log line has the spans of its call.
        let log = fmt::layer().with_writer(std::io::stderr);
        let log = match std::io::stderr().is_terminal() {
            true => log.boxed(),
            false => log.json().with_ansi(false).boxed(),
        };
        tracing_subscriber::registry().with(log.with_filter(filter)).with(spans).init();
        return;
    }
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        log.init();
    } else {
        log.json().with_ansi(false).init();
    }
}
