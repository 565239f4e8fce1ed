//! Attempts within a span of time: reads.

use async_trait::async_trait;
use tokio_postgres::Row;

use crate::StoreError;
use crate::postgres::PostgresStore;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::read::{self, BoundValues, SIGN};
use crate::table::{Cells, attempt, task};
use crate::task::filter::Filter;
use crate::task::span::{AttemptSeen, AttemptSpan, SpanLeg, SpanStore};

/// Plain joins: unlike SQLite's, this planner has statistics and chooses the index of each leg by itself.
const FROM: &str = "attempts a JOIN tasks t ON t.id = a.task";

async fn within(db: &Db, org: i64, span: &AttemptSpan) -> Result<Vec<AttemptSeen>> {
    let mut found = Vec::new();
    for leg in SpanLeg::ALL {
        let filter = Filter::of_span(SIGN, org, span, leg);
        let sql = span.sql(FROM, &filter);
        let rows = read::all(db, &sql, &BoundValues::from(filter).values()).await?;
        found.extend(rows.iter().map(seen).collect::<Result<Vec<_>>>()?);
    }
    Ok(span.page(found))
}

fn seen(row: &Row) -> Result<AttemptSeen> {
    let mut row = row.reader();
    Ok(AttemptSeen { task: task::read(&mut row)?, attempt: attempt::read(&mut row)? })
}

#[async_trait]
impl SpanStore for PostgresStore {
    async fn attempts_within(
        &self,
        span: AttemptSpan,
    ) -> std::result::Result<Vec<AttemptSeen>, StoreError> {
        let span = &span;
        self.shared.read_in(&span.org, |db, org| async move { within(&db, org, span).await }).await
    }
}
