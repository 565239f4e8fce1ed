//! Conditions of task lists, and figures about the queue.

pub(crate) mod filter;
pub(crate) mod queue;
