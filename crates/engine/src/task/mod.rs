//! A task: its verbs, reads, waits, leases, checks, comments and verification.

pub(crate) mod attempt;
pub(crate) mod check;
pub(crate) mod check_job;
pub(crate) mod check_log;
pub(crate) mod check_look;
pub(crate) mod comment;
pub(crate) mod event_follow;
pub(crate) mod event_page;
pub(crate) mod graph;
pub(crate) mod lease;
pub(crate) mod place;
pub(crate) mod query;
pub(crate) mod verbs;
pub(crate) mod verify;
pub(crate) mod wait;
