//! Logs go to stderr: for eyes on a terminal, as JSON otherwise.

use std::io::IsTerminal;

use callboard_surface::mcp::HANG_UPS_UNSAID;
use tracing_subscriber::EnvFilter;

pub const LEVEL_VARIABLE: &str = "CALLBOARD_LOG";

/// Starts logging at the level of `CALLBOARD_LOG`, else at `default_level`.
pub fn start(default_level: &str) {
    let default = format!("{default_level},{HANG_UPS_UNSAID}");
    let level = std::env::var(LEVEL_VARIABLE).unwrap_or_else(|_| default.clone());
    // An invalid filter must not keep a server from starting.
    let filter = EnvFilter::try_new(&level).unwrap_or_else(|_| EnvFilter::new(&default));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        log.init();
    } else {
        log.json().with_ansi(false).init();
    }
}
