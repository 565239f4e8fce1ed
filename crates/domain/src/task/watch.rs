//! Whether the leases were watched. A machine that slept, a server that was down or a clock that
//! jumped must not cost an agent its task: the agent had no way to send a heartbeat. A holder whose
//! lease was live when the watch stopped therefore gets a grace period before any other rule looks
//! at its lease.

use crate::task::attempt::Lease;
use crate::time::Timestamp;

/// A longer silence than this interrupts the watch. Servers tick every 10 seconds.
pub const UNWATCHED_MAX_MS: i64 = 60_000;
/// How long a holder gets after an interruption, counted from the moment it is noticed.
pub const GRACE_MS: i64 = 60_000;

/// The kind of process that watches the leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watcher {
    /// A server, which goes on watching.
    Stays,
    /// A command that ends after its write. It gives grace only once between two heartbeats: where
    /// no server runs, each command would otherwise keep the task with a holder that is gone.
    Passes,
}

pub fn is_unwatched(seen_at: Timestamp, now: Timestamp) -> bool {
    now.ms_since(seen_at) > UNWATCHED_MAX_MS
}

/// The new end of a live lease whose holder gets grace. `seen_at` is the last moment at which a process is known to
/// have watched; a heartbeat shows that one did.
pub fn grace(
    lease: Lease,
    heartbeat_at: Timestamp,
    seen_at: Timestamp,
    watcher: Watcher,
    now: Timestamp,
) -> Option<Timestamp> {
    let seen_at = seen_at.max(heartbeat_at);
    let was_live = lease.expires_at > seen_at;
    // Only grace makes a lease longer than it was granted.
    let had_grace = lease.expires_at > heartbeat_at.plus_s(lease.granted_s);
    let entitled = match watcher {
        Watcher::Stays => true,
        Watcher::Passes => !had_grace,
    };
    let until = now.plus_ms(GRACE_MS);
    let gets = is_unwatched(seen_at, now) && was_live && entitled && lease.expires_at < until;
    gets.then_some(until)
}
