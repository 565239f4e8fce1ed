//! Monthly quotas of an org. Checked before the work, counted after it: a count that could not be written is too low,
//! and never undoes the work.

use callboard_domain::refusal::Quota;
use callboard_domain::time::Timestamp;
use jiff::ToSpan;
use jiff::tz::TimeZone;

use crate::{Engine, EngineError};

/// Limits per org and month; `None` is unlimited, and then nothing is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    pub knowledge_stored: Option<u64>,
    pub tasks_created: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    KnowledgeStored,
    TasksCreated,
}

impl Metric {
    pub fn as_str(self) -> &'static str {
        match self {
            Metric::KnowledgeStored => "knowledge_stored",
            Metric::TasksCreated => "tasks_created",
        }
    }
}

impl Quotas {
    fn limit(&self, metric: Metric) -> Option<u64> {
        match metric {
            Metric::KnowledgeStored => self.knowledge_stored,
            Metric::TasksCreated => self.tasks_created,
        }
    }
}

impl Engine {
    /// The quota that `requested` more would exceed. Looked up before the command; `decide` judges it last.
    pub(crate) async fn over_quota(
        &self,
        org: &str,
        metric: Metric,
        requested: u64,
    ) -> Result<Option<Quota>, EngineError> {
        let Some(limit) = self.parts.quotas.limit(metric) else { return Ok(None) };
        let store = &self.parts.store;
        let month = Month::of(store.now())?;
        let used = store.quota_used(org, metric.as_str(), &month.name).await?;
        if used.saturating_add(requested) <= limit {
            return Ok(None);
        }
        Ok(Some(Quota {
            metric: metric.as_str(),
            limit,
            used,
            requested,
            period: month.name,
            next_reset_at: month.next,
        }))
    }

    /// Counts what was made. A failure is only logged.
    pub(crate) async fn quota_count(&self, org: &str, metric: Metric, made: u64) {
        if self.parts.quotas.limit(metric).is_none() {
            return;
        }
        let store = &self.parts.store;
        let counted = match Month::of(store.now()) {
            Ok(month) => {
                let added = store.quota_add(org, metric.as_str(), &month.name, made).await;
                added.map_err(EngineError::from)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = counted {
            let metric = metric.as_str();
            tracing::warn!(%error, org, metric, made, "a quota is counted too low");
        }
    }
}

/// A month in UTC.
#[derive(Debug, PartialEq, Eq)]
struct Month {
    /// A name such as `2026-06`.
    name: String,
    /// When the next month begins.
    next: Timestamp,
}

impl Month {
    fn of(now: Timestamp) -> Result<Self, EngineError> {
        let broken = |error: jiff::Error| {
            EngineError::Internal(format!("the time is out of range: {error}"))
        };
        let now = jiff::Timestamp::from_microsecond(now.0).map_err(broken)?;
        let first = now.to_zoned(TimeZone::UTC).date().first_of_month();
        let next = first.checked_add(1.month()).map_err(broken)?;
        let next = next.to_zoned(TimeZone::UTC).map_err(broken)?.timestamp();
        let name = first.strftime("%Y-%m").to_string();
        Ok(Self { name, next: Timestamp(next.as_microsecond()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_ends_where_the_next_begins() {
        let at = |text: &str| {
            let time: jiff::Timestamp = text.parse().expect("a time");
            Timestamp(time.as_microsecond())
        };
        for (now, name, next) in [
            ("2026-06-21T10:00:00Z", "2026-06", "2026-07-01T00:00:00Z"),
            ("2026-12-31T23:59:59.999999Z", "2026-12", "2027-01-01T00:00:00Z"),
            ("2028-02-29T00:00:00Z", "2028-02", "2028-03-01T00:00:00Z"),
            ("2026-07-01T00:00:00Z", "2026-07", "2026-08-01T00:00:00Z"),
        ] {
            let month = Month::of(at(now)).expect("a month");
            assert_eq!(month, Month { name: name.into(), next: at(next) }, "{now}");
        }
    }
}
