//! Pull requests: what is asked of a store about them, and the SQL both databases share.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::ids::TaskId;
use callboard_domain::pull::Pull;

use crate::StoreError;

/// The part of a store that keeps pull requests.
#[async_trait]
pub trait PullStore {
    /// The newest first.
    async fn pulls(&self, query: PullQuery) -> Result<Vec<PullOf>, StoreError>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullQuery {
    /// `None`: of every org.
    pub org: Option<Arc<str>>,
    pub status: Option<&'static str>,
    /// `None`: of every task, and of none.
    pub task: Option<TaskId>,
    /// Its page, or `callboard://pr/<number>`.
    pub url: Option<String>,
    pub limit: usize,
}

/// A pull request with the org it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullOf {
    pub org: Arc<str>,
    pub pull: Pull,
}

pub(crate) const PULL: &str = "o.name, p.forge, p.repo, p.number, p.url, p.status, p.branch, p.base, \
     p.head, p.title, p.task, t.prefix, p.job, p.machine, p.created_at, p.changed_at, \
     p.is_awaited, p.merge_commit";
pub(crate) const PULL_FROM: &str =
    "pulls p JOIN orgs o ON o.id = p.org LEFT JOIN tasks t ON t.id = p.task";

/// Every column, in the order of an INSERT.
pub(crate) const PULL_ALL: &str = "org, forge, repo, number, url, status, branch, base, head, \
     title, task, job, machine, created_at, changed_at, is_awaited, merge_commit";

/// One that is known stays the one it is; how it stands is new.
pub(crate) const PULL_AGAIN: &str = "ON CONFLICT (org, forge, repo, number) DO UPDATE SET \
     url = excluded.url, status = excluded.status, branch = excluded.branch, base = excluded.base, \
     head = excluded.head, title = excluded.title, task = excluded.task, job = excluded.job, \
     machine = excluded.machine, changed_at = excluded.changed_at, \
     is_awaited = excluded.is_awaited, merge_commit = excluded.merge_commit";
