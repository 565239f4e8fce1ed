//! Conditions of task lists, attempts in a span of time, and figures about the queue.

pub(crate) mod filter;
pub(crate) mod query;
pub(crate) mod queue;
pub(crate) mod span;
