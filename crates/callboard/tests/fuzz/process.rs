//! A server process as the system sees it: memory, descriptors, what it wrote to stderr, and a watch that ends it when
//! it does not answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// No call of these tests waits for anything that takes longer, also on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// A server that serves one board, as a debug build on any of the databases.
const RSS_KIB_MAX: u64 = 300 * 1024;
/// Caches may fill up while a test runs.
const RSS_KIB_GROWTH: u64 = 40 * 1024;
/// What each call may leave behind on average: boards grow, and parts of them are cached.
const RSS_KIB_PER_CALL: u64 = 4;
/// Connections to databases and of clients that come and go.
const DESCRIPTORS_GROWTH: usize = 24;
/// Words of faults that no input may cause.
const FAULTS: &[&str] =
    &["panicked", "a call failed", "a page failed", "is damaged", "\"ERROR\"", " ERROR "];

/// A server under observation.
pub struct Watched {
    pid: u32,
    errors: PathBuf,
    start: (u64, usize),
    tick: Sender<()>,
}

impl Watched {
    pub fn new(pid: u32, errors: &Path) -> Self {
        let (tick, ticks) = channel();
        std::thread::spawn(move || {
            loop {
                match ticks.recv_timeout(PATIENCE) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => break,
                }
            }
            // The reader of its output then sees the end, and the test fails with the call that was not answered.
            eprintln!("process {pid} did not answer within {PATIENCE:?}");
            let pid = Pid::from_raw(pid.try_into().expect("a process id")).expect("not 0");
            let _ = kill_process(pid, Signal::KILL);
        });
        Self { pid, errors: errors.to_owned(), start: (0, 0), tick }
    }

    /// Notes that the server answered.
    pub fn answered(&self) {
        let _ = self.tick.send(());
    }

    /// Takes what the process has now as the start.
    pub fn is_warm(&mut self) {
        self.start = (self.rss_kib(), self.descriptors());
    }

    fn rss_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok())
            .expect("a process that lives")
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid)).expect("a process that lives").count()
    }

    /// Judges memory, descriptors and words on stderr after so many calls.
    pub fn judge(&self, calls: u64) {
        let (rss, descriptors) = (self.rss_kib(), self.descriptors());
        let (rss_before, descriptors_before) = self.start;
        assert!(rss < RSS_KIB_MAX, "{rss} KiB in memory");
        let most = rss_before + RSS_KIB_GROWTH + calls * RSS_KIB_PER_CALL;
        assert!(rss <= most, "{calls} calls: {rss_before} KiB became {rss} KiB");
        let most = descriptors_before + DESCRIPTORS_GROWTH;
        assert!(
            descriptors <= most,
            "{calls} calls: {descriptors_before} descriptors became {descriptors}"
        );
        self.judge_words();
        // Shown with --nocapture.
        eprintln!(
            "{calls} calls: {rss_before} to {rss} KiB, {descriptors_before} to {descriptors} descriptors"
        );
    }

    /// Nothing on stderr is a fault.
    pub fn judge_words(&self) {
        let said = fs::read_to_string(&self.errors).unwrap_or_default();
        let fault = said.lines().find(|line| FAULTS.iter().any(|fault| line.contains(fault)));
        assert!(fault.is_none(), "the server says: {}", fault.unwrap_or_default());
    }
}
