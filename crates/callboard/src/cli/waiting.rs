//! What waits for a person, in a line or two: the inbox.

use callboard_domain::board::inbox::{Inbox, InboxCause, InboxWanted};
use callboard_engine::context::OpContext;
use callboard_engine::{At, Engine, InboxQuery};

use crate::output::Failure;

/// How many rows are counted one by one.
const ROWS_MAX: usize = 1000;

/// The inbox of the caller's project.
pub async fn inbox(engine: &Engine, op: &OpContext) -> Result<At<Inbox>, Failure> {
    let wanted = InboxWanted { limit: ROWS_MAX, ..InboxWanted::default() };
    Ok(engine.inbox_list(op, InboxQuery { wanted, ..InboxQuery::default() }).await?)
}

/// `2 questions, 1 review`, or `None` when nothing waits.
pub fn counts(inbox: &Inbox) -> Option<String> {
    let count = |cause| inbox.rows.iter().filter(|row| row.cause == cause).count();
    let counts = InboxCause::ALL.into_iter().map(|cause| (cause, count(cause)));
    let words: Vec<String> =
        counts.filter(|(_, count)| *count > 0).map(|(cause, count)| cause.counted(count)).collect();
    (!words.is_empty()).then(|| words.join(", "))
}
