//! Cards of tasks, and the rows of an org that belong to no task.

pub(crate) mod cards;
pub(crate) mod org;
