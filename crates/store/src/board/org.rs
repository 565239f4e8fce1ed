//! What an org has besides tasks: settings, projects with their repositories, plans, and its log
//! read from the end.

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::board::plan::{Plan, PlanId};
use callboard_domain::board::project::{Project, ProjectRepo};
use callboard_domain::board::settings::SettingsKept;
use callboard_domain::event::{EventName, EventTerm, LoggedEvent};
use callboard_domain::ids::{Id, IdKind, TaskId};
use std::sync::Arc;

use crate::StoreError;
use crate::table::event::EVENT;
use crate::task::filter::Filter;

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
    /// How many events `events_back` finds, counted up to the limit of the query.
    async fn events_count(&self, query: BackQuery) -> Result<usize, StoreError>;
}

/// Events of an org, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackQuery {
    pub org: Arc<str>,
    /// Only events below this number.
    pub before: Option<u64>,
    /// Only events above this number. The rows between the two numbers bound the work of a rare condition.
    pub after: u64,
    /// `None`: of every name.
    pub names: Option<Vec<EventName>>,
    pub task: Option<TaskId>,
    /// Actors, each with its kind or without.
    pub actors: Vec<EventTerm>,
    /// Texts in the actor, the event's name or the task's title; without regard to ASCII case.
    pub words: Vec<EventTerm>,
    pub limit: usize,
}

impl BackQuery {
    /// The newest events of an org.
    pub fn of(org: Arc<str>, limit: usize) -> Self {
        Self {
            org,
            before: None,
            after: 0,
            names: None,
            task: None,
            actors: Vec::new(),
            words: Vec::new(),
            limit,
        }
    }

    /// The statement for the conditions of `Filter::of_events_back`.
    pub(crate) fn sql(&self, filter: &Filter) -> String {
        format!("SELECT {EVENT} {}", self.found(filter))
    }

    /// The statement that counts what `sql` finds.
    pub(crate) fn count_sql(&self, filter: &Filter) -> String {
        format!("SELECT count(*) FROM (SELECT e.seq {}) c", self.found(filter))
    }

    fn found(&self, filter: &Filter) -> String {
        format!(
            "FROM events e LEFT JOIN tasks t ON t.id = e.task WHERE {} ORDER BY e.seq DESC LIMIT {}",
            filter.sql(),
            self.limit
        )
    }
}
