//! Cards of tasks, and the rows of an org that belong to no task: queries and their SQL.

pub(crate) mod cards;
pub(crate) mod org;
