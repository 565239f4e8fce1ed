//! Resource limits of the process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// The wanted limit: every wait over HTTP holds a connection. More is not requested, because child processes inherit
/// the limit, and some programs walk through all files they may open.
const OPEN_FILES: u64 = 16_384;

/// Raises the limit of open files. Usual systems allow 1,024 at first and let a process raise that itself.
pub fn open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    limit.current = Some(wanted);
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, wanted, "cannot raise the limit of open files");
    }
}
