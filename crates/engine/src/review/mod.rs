//! The review of a task: what a reviewer looks at, and how approved work is merged.

pub(crate) mod look;
pub(crate) mod merge;
