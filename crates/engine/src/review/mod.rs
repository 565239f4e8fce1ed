//! The review of a task: what a reviewer looks at, and how approved work is merged.

pub(crate) mod changes;
pub(crate) mod comment;
pub(crate) mod draft;
pub(crate) mod follow;
pub(crate) mod foresee;
pub(crate) mod look;
pub(crate) mod merge;
pub(crate) mod merging;
pub(crate) mod overlap;
