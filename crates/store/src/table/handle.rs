//! Handles of calls that outlive their request.

use callboard_domain::handle::{Handle, HandleId};
use callboard_domain::rights::Scope;

use super::cell::table;
use super::{Cells, RowReader};
use crate::handles::Columns;

/// The columns of a handle `h` with its org `o`.
pub(crate) const HANDLE: &str = "h.id, o.name, h.actor, h.tool, h.scope, h.runner, h.state, \
     h.alive_until, h.cancel_asked, h.questions, h.answers, h.outcome, h.message, h.created_at, \
     h.updated_at, h.expires_at";
pub(crate) const HANDLE_FROM: &str = "handles h JOIN orgs o ON o.id = h.org";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Handle, R::Error> {
    Ok(Handle {
        id: HandleId(row.id()?),
        org: row.str()?.into(),
        actor: row.actor()?,
        tool: row.text()?,
        scope: row.word("scope", Scope::parse)?,
        runner: row.actor()?,
        // Six columns make one state; `Columns::state` judges which combinations there are.
        state: {
            let columns = Columns {
                state: row.text()?,
                alive_until: row.int_if()?,
                cancel_asked: row.flag()?,
                questions: row.text()?,
                answers: row.text()?,
                outcome: row.text_if()?,
            };
            columns.state().ok_or_else(|| row.damaged("state"))?
        },
        message: row.text_if()?,
        created_at: row.time()?,
        updated_at: row.time()?,
        expires_at: row.time()?,
    })
}

table! {
    HANDLES = "handles";
    /// `org` is needed for a new handle only.
    fn values(org: Option<i64>, handle: &'a Handle, columns: &'a Columns) {
        id: handle.id.0,
        org: org,
        actor: &handle.actor,
        tool: &handle.tool,
        scope: handle.scope.as_str(),
        // The process that does the work. It renews `alive_until`.
        runner: &handle.runner,
        state: &columns.state,
        alive_until: columns.alive_until,
        cancel_asked: columns.cancel_asked,
        questions: &columns.questions,
        answers: &columns.answers,
        outcome: &columns.outcome,
        message: &handle.message,
        created_at: handle.created_at,
        updated_at: handle.updated_at,
        // When the row may be deleted, which is not the end of the call.
        expires_at: handle.expires_at,
    }
}
