//! Cards of tasks, the columns of the board, and the rows of an org that belong to no task: queries and their SQL.

pub(crate) mod card_page;
pub(crate) mod cards;
pub(crate) mod columns;
pub(crate) mod counts;
pub(crate) mod org;
pub(crate) mod progress;
pub(crate) mod rows;
pub(crate) mod stats;
mod terms;
