//! Loops that run beside the calls of a process.

pub(crate) mod deliver;
pub(crate) mod jobs;
pub(crate) mod leases;
pub(crate) mod sessions;
