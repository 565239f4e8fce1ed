//! What the system lets a process have.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Every wait over HTTP holds a connection. More than this is not asked for, because whatever this
/// process starts inherits the limit, and some programs walk through all they may open.
const OPEN_FILES: u64 = 16_384;

/// Usual systems allow 1,024 open files at first and let a process have more when it asks.
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
