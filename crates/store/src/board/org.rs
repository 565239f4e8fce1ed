//! What an org has besides tasks: settings, projects with their repositories, plans, and its log
//! read from the end.

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::board::plan::{Plan, PlanId};
use callboard_domain::board::project::{Project, ProjectRepo};
use callboard_domain::board::settings::SettingsKept;
use callboard_domain::event::{EventName, LoggedEvent};
use callboard_domain::ids::{Id, IdKind};
use std::sync::Arc;

use crate::StoreError;
use crate::table::event::EVENT;

#[async_trait]
pub trait OrgStore: Send + Sync {
    /// The org's stored settings.
    async fn settings(&self, org: &str) -> Result<SettingsKept, StoreError>;
    /// Projects: the last opened first, then the newest.
    async fn projects(&self, org: &str, limit: usize) -> Result<Vec<Project>, StoreError>;
    async fn project_in(&self, org: &str, id: i64) -> Result<Option<Project>, StoreError>;
    /// The project that this actor has open.
    async fn project_opened(
        &self,
        org: &str,
        actor: &Actor,
    ) -> Result<Option<crate::Project>, StoreError>;
    /// The repositories of a project of this org, the primary one first, on every machine.
    async fn repos(&self, org: &str, project: i64) -> Result<Vec<ProjectRepo>, StoreError>;
    async fn plan(&self, org: &str, id: PlanId) -> Result<Option<Plan>, StoreError>;
    /// Plans, the newest first.
    async fn plans(&self, org: &str, limit: usize) -> Result<Vec<Plan>, StoreError>;
    /// Ids of a kind from `range.0` to `range.1`, newest first.
    async fn ids(
        &self,
        org: &str,
        kind: IdKind,
        range: (Id, Id),
        limit: usize,
    ) -> Result<Vec<Id>, StoreError>;
    async fn events_back(&self, query: BackQuery) -> Result<Vec<LoggedEvent>, StoreError>;
}

/// Events of an org, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackQuery {
    pub org: Arc<str>,
    /// Only events below this number.
    pub before: Option<u64>,
    /// `None`: of every name.
    pub names: Option<Vec<EventName>>,
    pub limit: usize,
}

impl BackQuery {
    /// Values: the org's name and the number, as the first two.
    pub(crate) fn sql(&self, sign: char) -> String {
        let names = match &self.names {
            None => String::new(),
            Some(names) => {
                let names: Vec<_> = names.iter().map(|n| format!("'{}'", n.as_str())).collect();
                // An empty list of names matches no row; SQL has no empty `IN` list.
                format!(
                    "AND e.name IN ({})",
                    if names.is_empty() { "''".into() } else { names.join(", ") }
                )
            }
        };
        format!(
            "SELECT {EVENT} FROM events e LEFT JOIN tasks t ON t.id = e.task \
             WHERE e.org = (SELECT id FROM orgs WHERE name = {sign}1) AND e.seq < {sign}2 {names} \
             ORDER BY e.seq DESC LIMIT {}",
            self.limit
        )
    }

    pub(crate) fn below(&self) -> i64 {
        self.before.and_then(|seq| i64::try_from(seq).ok()).unwrap_or(i64::MAX)
    }
}
