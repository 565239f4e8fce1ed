//! The desk: rows of one org in memory, on which commands are decided and carried out. A store fetches the rows that
//! a command needs (`Needs`), asks the desk for the `World`, lets `decide` judge, applies the writes, and keeps the
//! rows that changed (`Touched`). SQLite lays out one command, PostgreSQL a batch, the rule tables everything there is.
//!
//! `World` is built and `Write` is interpreted here and nowhere else.

mod answer;
mod apply;
mod counts;
mod rows;
mod touched;
mod world;

pub use answer::Outcome;
pub use apply::NotFetched;
pub use counts::RunCounts;
pub use rows::{EntryRow, OrgRows, Rows, TaskRows};
pub use touched::{EntryKey, Touched};

use crate::time::Timestamp;

#[derive(Clone, Debug, Default)]
pub struct Desk {
    /// The time at which commands are decided.
    pub now: Timestamp,
    pub rows: Rows,
    /// The rows that applied writes changed.
    pub touched: Touched,
}
