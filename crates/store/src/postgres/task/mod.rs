//! Tasks: rows besides the task itself, and the next free one.

pub(crate) mod comments;
pub(crate) mod free;
pub(crate) mod front;
pub(crate) mod span;
