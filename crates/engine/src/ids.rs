//! The default id source: UUID version 7, which rises within a process.

use callboard_domain::ids::Id;

use crate::ports::IdSource;

pub struct TimeOrderedIds;

impl IdSource for TimeOrderedIds {
    #[allow(clippy::disallowed_methods, reason = "the one place that makes ids")]
    fn next_id(&self) -> Id {
        Id(uuid::Uuid::now_v7().as_u128())
    }
}
