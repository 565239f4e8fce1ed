//! Attempts within a span of time: reads.

use async_trait::async_trait;
use rusqlite::{Connection, Result, Row, params_from_iter};

use crate::StoreError;
use crate::sqlite::SqliteStore;
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::read::SIGN;
use crate::table::task::TASKS_BY_ID;
use crate::table::{Cells, attempt, task};
use crate::task::filter::Filter;
use crate::task::span::{AttemptSeen, AttemptSpan, SpanLeg, SpanStore};

/// The planner knows nothing of the numbers of rows, so each leg names its index; a CROSS JOIN keeps the order.
fn from(leg: SpanLeg) -> String {
    let index = match leg {
        SpanLeg::Began => "attempts_by_start",
        SpanLeg::Earlier => "attempts_live",
    };
    format!("attempts a INDEXED BY {index} CROSS JOIN {TASKS_BY_ID} ON t.id = a.task")
}

fn within(db: &Connection, org: i64, span: &AttemptSpan) -> Result<Vec<AttemptSeen>> {
    let mut found = Vec::new();
    for leg in SpanLeg::ALL {
        let filter = Filter::of_span(SIGN, org, span, leg);
        let mut statement = db.prepare_cached(&span.sql(&from(leg), &filter))?;
        let rows = statement.query_map(params_from_iter(filter.values), seen)?;
        // Each leg is limited by itself; `page` limits both together.
        found.extend(rows.collect::<Result<Vec<_>>>()?);
    }
    Ok(span.page(found))
}

fn seen(row: &Row<'_>) -> Result<AttemptSeen> {
    let mut row = row.reader();
    Ok(AttemptSeen { task: task::read(&mut row)?, attempt: attempt::read(&mut row)? })
}

#[async_trait]
impl SpanStore for SqliteStore {
    async fn attempts_within(&self, span: AttemptSpan) -> Result<Vec<AttemptSeen>, StoreError> {
        self.read_in(span.org.clone(), move |db, org, _| {
            within(db, org, &span).map_err(from_sqlite)
        })
        .await
    }
}
