//! Cards: the board's facts beside a task.

use callboard_domain::board::card::{Card, Failed, Mode, Terminal};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;

use super::cell::table;
use super::{Cells, RowReader, json};
use crate::Removed;

/// The columns of a card `c`.
pub(crate) const CARD: &str = "c.mode, c.criteria, c.terminal, c.agent, c.base_branch, \
     c.created_by, c.review, c.workspace, c.branch, c.failed_at, c.failed_reason, c.told";
/// How many columns these are.
/// `read` skips this many, so a new column must be counted here.
const CARD_COLUMNS: usize = 12;

/// Reads a card; the default card where a LEFT JOIN found none.
pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Card, R::Error> {
    // `mode` is NOT NULL, so NULL means that the task has no row.
    let Some(mode) = row.word_if("mode", Mode::parse)? else {
        row.skip(CARD_COLUMNS - 1);
        return Ok(Card::default());
    };
    Ok(Card {
        mode,
        criteria: row.json_if("criteria")?.unwrap_or_default(),
        terminal: row.word_if("terminal", Terminal::parse)?,
        agent: row.text_if()?,
        base_branch: row.text_if()?,
        created_by: row.text_if()?,
        review: row.json_if("review")?,
        workspace: row.text_if()?,
        branch: row.text_if()?,
        failed: match (row.time_if()?, row.text_if()?) {
            // The schema has no CHECK that joins the two columns, so a time without a reason is damage.
            (None, _) => None,
            (Some(at), reason) => {
                Some(Failed { reason: reason.ok_or_else(|| row.damaged("reason"))?, at })
            }
        },
        told: row.json_if("told")?.unwrap_or_default(),
    })
}

table! {
    CARDS = "cards";
    fn values(task: TaskId, card: &'a Card) {
        task: task,
        mode: card.mode.as_str(),
        criteria: json(&card.criteria),
        terminal: card.terminal.map(Terminal::as_str),
        agent: &card.agent,
        base_branch: &card.base_branch,
        created_by: &card.created_by,
        review: card.review.as_ref().map(json),
        workspace: &card.workspace,
        branch: &card.branch,
        failed_reason: card.failed.as_ref().map(|failed| &failed.reason),
        failed_at: card.failed.as_ref().map(|failed| failed.at),
        // NULL for no messages, as in rows that are older than the column.
        told: Some(&card.told).filter(|told| !told.is_empty()).map(json),
    }
}

/// Reads `removed_at` and `phase` of a removed task.
pub(crate) fn read_removed<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Removed, R::Error> {
    Ok(Removed { at: row.time()?, phase: row.word("phase", Phase::parse)? })
}

table! {
    SCRATCHPADS = "scratchpads";
    fn scratchpad_values(task: TaskId, text: &'a str) {
        task: task,
        text: text,
    }
}
