//! The event log as an audit, newest first. A page goes on where the one before ended: numbers only rise, so writes in
//! between repeat and hide nothing.

use callboard_domain::board::audit::{AuditRow, Capability};
use callboard_store::BackQuery;

use crate::context::{OpContext, Scope};
use crate::{Engine, EngineError};

/// How many rows are read at once to find the ones that match.
const READ_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFilter {
    pub capability: Option<Capability>,
    /// The cursor: the last number of the page before.
    pub before: Option<u64>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPage {
    /// Newest first.
    pub rows: Vec<AuditRow>,
    /// The cursor of the next page, if there is one.
    pub next: Option<u64>,
    /// Earlier events may have been removed: the log is whole from this number on. Set on the last page.
    pub whole_from: Option<u64>,
}

impl Engine {
    pub async fn audit_tail(
        &self,
        op: &OpContext,
        filter: AuditFilter,
    ) -> Result<AuditPage, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let mut rows: Vec<AuditRow> = Vec::new();
        let mut query = BackQuery {
            before: filter.before,
            names: filter.capability.map(Capability::events),
            ..BackQuery::of(op.principal.org.clone(), (filter.limit + 1).min(READ_MAX))
        };
        // One row more than the limit tells whether there is another page.
        while rows.len() <= filter.limit {
            let events = self.parts.store.events_back(query.clone()).await?;
            let fits = |row: &AuditRow| filter.capability.is_none_or(|of| of == row.capability);
            rows.extend(events.iter().map(AuditRow::of).filter(fits));
            match events.last() {
                Some(last) if events.len() == query.limit => query.before = Some(last.seq),
                _ => break,
            }
        }
        let more = rows.len() > filter.limit;
        rows.truncate(filter.limit);
        let next = rows.last().map(|row| row.seq).filter(|_| more);
        let floor = self.log_floor().await?;
        let whole_from = Some(floor.seq).filter(|_| next.is_none() && floor.is_raised());
        Ok(AuditPage { rows, next, whole_from })
    }
}
