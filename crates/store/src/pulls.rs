//! Pull requests: the queries of a store, and the SQL both databases share.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::pulls::Pull;
use callboard_domain::time::Timestamp;

use crate::StoreError;
use crate::table::pull::{PULL, PULL_FROM};
use crate::table::{Cells, RowReader};

/// The part of a store that keeps pull requests.
#[async_trait]
pub trait PullStore {
    /// Pull requests, the newest first.
    async fn pulls(&self, query: PullQuery) -> Result<Vec<PullOf>, StoreError>;
    /// Open pull requests of every org, the oldest first.
    async fn pulls_open(&self, query: OpenPulls) -> Result<Vec<PullOf>, StoreError>;
    /// The pages of the pull requests of an epic's tasks, without those of jobs. Of several of one task the newest comes
    /// last.
    async fn epic_pulls(&self, org: &str, epic: TaskId) -> Result<Vec<(Id, String)>, StoreError>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullQuery {
    /// `None`: of every org.
    pub org: Option<Arc<str>>,
    /// `open`, `merged` or `closed`; `None`: in any state.
    pub status: Option<&'static str>,
    /// `None`: of every task, and without one.
    pub task: Option<TaskId>,
    /// The page of the pull request, or `callboard://pr/<number>`.
    pub url: Option<String>,
    pub limit: usize,
}

/// A pull request with the org it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullOf {
    pub org: Arc<str>,
    pub pull: Pull,
}

/// A page of the open pull requests that one loop watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPulls {
    pub of: PullsOf,
    /// The last one of the page before.
    pub after: Option<PullTurn>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullsOf {
    /// In repositories of this machine.
    Machine(String),
    /// At forges: those with an awaited merge, or all others.
    Forges { awaited: bool },
    /// At forges that may still carry out an unwanted merge.
    Unwanted,
}

/// The position of a pull request among all open ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullTurn {
    pub created_at: Timestamp,
    pub number: u64,
    // Numbers of two repositories may be equal, and so may the times of two pull requests: only the four parts together
    // make a total order, which a page needs for its cursor.
    pub repo: String,
    pub org: Arc<str>,
}

impl PullOf {
    pub fn turn(&self) -> PullTurn {
        let Pull { created_at, number, repo, .. } = &self.pull;
        let (repo, org) = (repo.clone(), self.org.clone());
        PullTurn { created_at: *created_at, number: *number, repo, org }
    }
}

impl OpenPulls {
    /// The cursor of the page; before all others by default.
    pub(crate) fn after(&self) -> PullTurn {
        let first =
            || PullTurn { created_at: Timestamp(0), number: 0, repo: "".into(), org: "".into() };
        self.after.clone().unwrap_or_else(first)
    }

    /// Empty where the query names no machine.
    /// The statement has this value in every case, so that its values do not change with the query.
    pub(crate) fn machine(&self) -> &str {
        match &self.of {
            PullsOf::Machine(machine) => machine,
            PullsOf::Forges { .. } | PullsOf::Unwanted => "",
        }
    }

    /// Values: the four parts of a turn, and the machine.
    pub(crate) fn sql(&self, sign: char) -> String {
        let of = match &self.of {
            PullsOf::Machine(_) => "p.forge = 'local'".to_owned(),
            PullsOf::Forges { awaited: true } => format!("{ELSEWHERE} AND p.is_awaited"),
            PullsOf::Forges { awaited: false } => format!("{ELSEWHERE} AND NOT p.is_awaited"),
            PullsOf::Unwanted => format!("{ELSEWHERE} AND {UNWANTED}"),
        };
        format!(
            "SELECT {PULL} FROM {PULL_FROM} WHERE p.status = 'open' AND {of} \
             AND (p.created_at, p.number, p.repo, o.name) > ({sign}1, {sign}2, {sign}3, {sign}4) \
             AND ({sign}5 = '' OR p.machine = {sign}5) \
             ORDER BY p.created_at, p.number, p.repo, o.name LIMIT {}",
            self.limit
        )
    }
}

/// Values: the org and the epic.
pub(crate) fn of_epic(sign: char) -> String {
    format!(
        "SELECT t.id, p.url FROM tasks t JOIN pulls p ON p.task = t.id AND p.job IS NULL \
         WHERE t.org = {sign}1 AND t.parent = {sign}2 ORDER BY p.created_at, p.number"
    )
}

pub(crate) fn read_page<R: Cells>(row: &mut RowReader<'_, R>) -> Result<(Id, String), R::Error> {
    Ok((row.id()?, row.text()?))
}

const ELSEWHERE: &str = "p.forge <> 'local' AND (p.task IS NULL OR t.removed_at IS NULL)";
/// A crew's task that left its review in another way no longer wants its merge.
const UNWANTED: &str = "(p.is_revoked OR p.is_awaited AND p.job IS NULL \
     AND t.phase NOT IN ('review', 'closed_done') \
     AND EXISTS (SELECT 1 FROM cards c WHERE c.task = p.task AND c.workspace IS NOT NULL))";
