//! Cards in both databases: the board's facts beside a task, and its list.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::board::card::Card;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::{Phase, Policy};
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::standing::{settle, settle_deps};
use callboard_domain::task::{Dep, Task};
use callboard_domain::time::Timestamp;

use crate::StoreError;

/// Reads for the board.
#[async_trait]
pub trait CardStore {
    /// The default card where none is stored; `None` where there is no such task.
    async fn card(&self, org: &str, task: TaskId) -> Result<Option<Card>, StoreError>;
    async fn scratchpad(&self, org: &str, task: TaskId) -> Result<Option<String>, StoreError>;
    /// Cards in the order of the board: column, priority, age. As they stand now, leases judged.
    async fn cards(&self, query: CardQuery) -> Result<CardPage, StoreError>;
    /// When a task was removed, and in which phase; `None` if there was no such task.
    async fn removed(&self, org: &str, task: TaskId) -> Result<Option<Removed>, StoreError>;
}

/// A removed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    pub at: Timestamp,
    /// The phase at its removal.
    pub phase: Phase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardQuery {
    pub org: Arc<str>,
    /// `None`: of every project.
    pub project: Option<i64>,
    /// Empty: of every phase.
    pub phases: Vec<Phase>,
    /// Tasks to leave out.
    pub without: Vec<TaskId>,
    /// Each word stands in the title or in the body; in lower case, as far as it is ASCII. The search covers the
    /// newest `SEARCHED_MAX` of the tasks that the rest of the query finds.
    pub words: Vec<String>,
    pub with_scratchpad: bool,
    pub policy: Arc<Policy>,
    pub offset: usize,
    pub limit: usize,
}

/// How many tasks one search reads the text of. This bounds the cost of a search, however many tasks there are.
pub const SEARCHED_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq)]
pub struct CardPage {
    pub cards: Vec<CardRow>,
    /// The count over all pages.
    pub total: u64,
}

/// A task as the board lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct CardRow {
    pub task: Task,
    pub body: String,
    pub card: Card,
    pub deps: Vec<Dep>,
    pub newest: Option<Attempt>,
    /// Set only if the query asked for it.
    pub scratchpad: Option<String>,
}

impl CardRow {
    /// The row as it stands at `now`.
    /// A lease that is over shows as released, though no sweep has written that yet.
    pub fn as_of(mut self, policy: &Policy, now: Timestamp) -> Self {
        settle(&mut self.task, self.newest.as_mut(), policy, now);
        settle_deps(&mut self.deps, policy, now);
        self
    }
}

impl CardPage {
    pub(crate) fn of(query: &CardQuery, rows: Vec<CardRow>, total: i64, now: Timestamp) -> Self {
        let cards = rows.into_iter().map(|row| row.as_of(&query.policy, now)).collect();
        Self { cards, total: total.max(0) as u64 }
    }
}

/// The order of the board's columns.
pub(crate) const COLUMN: &str = "CASE t.phase WHEN 'initial' THEN 0 WHEN 'working' THEN 1 \
     WHEN 'review' THEN 2 ELSE 3 END";
