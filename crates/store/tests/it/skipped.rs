//! A test that cannot run on this machine says so. The transcripts, the process tests, the CLI tests and the
//! runner's tests use this file too.

use std::io::Write;

/// Prints `skipped: TEST: WHY` past the capture of the test harness; `scripts/test` counts these lines. The
/// caller returns from its test right after.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // One write, so that lines of concurrent tests stay whole.
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}
