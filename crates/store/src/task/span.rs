//! Attempts within a span of time, in both databases.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::task::Task;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::time::Timestamp;

use crate::StoreError;
use crate::table::attempt::ATTEMPT;
use crate::table::task::TASK;
use crate::task::filter::Filter;

/// How long before the span an attempt may have begun that ended within the span. An attempt that is live as written is
/// found whenever it began.
pub const REACH_MS: i64 = 24 * 3600 * 1000;

#[async_trait]
pub trait SpanStore: Send + Sync {
    /// Attempts of tasks that were not removed, the newest start first, as written.
    async fn attempts_within(&self, span: AttemptSpan) -> Result<Vec<AttemptSeen>, StoreError>;
}

/// Attempts that were live at some moment from `from` to `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptSpan {
    pub org: Arc<str>,
    /// `None`: of every actor.
    pub actor: Option<Actor>,
    pub from: Timestamp,
    /// Attempts that began later are left out.
    pub until: Timestamp,
    pub limit: usize,
}

/// An attempt with its task.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptSeen {
    pub attempt: Attempt,
    pub task: Task,
}

/// The attempts that one statement looks for, each by its own index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanLeg {
    /// Attempts that began within the span or its reach, found by their start.
    Began,
    /// Attempts that began earlier and are live as written, found by the index of live attempts.
    Earlier,
}

impl SpanLeg {
    pub const ALL: [Self; 2] = [Self::Began, Self::Earlier];
}

impl AttemptSpan {
    /// `from` joins attempts `a` to their tasks `t`.
    pub(crate) fn sql(&self, from: &str, filter: &Filter) -> String {
        format!(
            "SELECT {TASK}, {ATTEMPT} FROM {from} LEFT JOIN tasks p ON p.id = t.parent WHERE {} \
             ORDER BY a.started_at DESC, a.id DESC LIMIT {}",
            filter.sql(),
            self.limit
        )
    }

    /// Each leg finds the newest first, and the attempts of the second leg are older than those of the first.
    pub(crate) fn page(&self, mut found: Vec<AttemptSeen>) -> Vec<AttemptSeen> {
        found.truncate(self.limit);
        found
    }
}
