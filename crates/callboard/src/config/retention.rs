//! The section `retention`: how long the store keeps what grows.

use callboard_domain::retention::{Growing, Retention};

use super::settings::Reader;

impl Reader<'_> {
    /// 0 days are refused: rows would go while the work on them ends.
    pub(super) fn retention(&self) -> Result<Retention, String> {
        let days = |name: &str| match self.limit(name) {
            Some(0) => Err(self.at(name, "must be unlimited or at least 1")),
            days => Ok(days.map(|days| u32::try_from(days).unwrap_or(u32::MAX))),
        };
        Ok(Retention {
            events_days: days(Growing::Event.setting())?,
            mail_days: days(Growing::Mail.setting())?,
            decisions_days: days(Growing::Decision.setting())?,
            deliveries_days: days(Growing::Delivery.setting())?,
            logs_days: days("retention.logs_days")?,
            artifacts_days: days("retention.artifacts_days")?,
        })
    }
}
