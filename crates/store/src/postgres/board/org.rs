//! The rows of an org besides tasks. A command that decides on them goes alone in its org.

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::board::plan::{Plan, PlanId};
use callboard_domain::board::project::{Project, ProjectRepo, ProjectRoom};
use callboard_domain::board::settings::SettingsKept;
use callboard_domain::desk::OrgRows;
use callboard_domain::event::LoggedEvent;
use callboard_domain::ids::{Id, IdKind};
use callboard_domain::needs::OrgNeeds;
use tokio_postgres::Row;

use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::find;
use crate::postgres::rows::uuid;
use crate::postgres::{PostgresStore, read, schema};
use crate::table::plan::{self, PLAN};
use crate::table::project::{self, PROJECT, PROJECT_NAME, PROJECT_ORDER, PROJECT_REPO, REPO_ORDER};
use crate::table::{Cells, event};
use crate::task::filter::Filter;
use crate::{BackQuery, OrgStore, StoreError};

/// The rows of an org that a command needs. The advisory lock comes first: until the commit no other process decides on
/// rows of this org, and none of them needs a lock of its own.
pub(crate) async fn rows(db: &Db, org: i64, actor: &Actor, needs: &OrgNeeds) -> Result<OrgRows> {
    db.batch_execute(&schema::alone_with(&format!("org {org}"))).await?;
    let mut rows = OrgRows::default();
    if needs.settings {
        rows.settings = settings(db, org).await?;
    }
    if let Some(id) = needs.project {
        rows.projects.extend(project(db, org, id).await?.map(|project| (id, project)));
        let sql = "SELECT project FROM open_projects WHERE org = $1 AND actor = $2";
        if let Some(row) = read::one(db, sql, &[&org, &actor.as_str()]).await? {
            rows.opened.insert(actor.clone(), row.try_get(0)?);
        }
    }
    if let Some(repos) = needs.room {
        rows.room = Some(room(db, org, repos).await?);
    }
    if let Some(id) = needs.plan {
        rows.plans.extend(plan(db, org, id).await?.map(|plan| (id, plan)));
    }
    Ok(rows)
}

/// Numbers from the tables' own sequences, so that no other process gets them.
async fn room(db: &Db, org: i64, repos: usize) -> Result<ProjectRoom> {
    let next = "nextval(pg_get_serial_sequence('projects', 'id'))";
    let sql = format!("SELECT {next}, NOT EXISTS (SELECT 1 FROM projects WHERE org = $1)");
    let row = db.query_one(&db.prepare_cached(&sql).await?, &[&org]).await?;
    let next =
        "SELECT nextval(pg_get_serial_sequence('repos', 'id')) FROM generate_series(1, $1::bigint)";
    let numbers = read::all(db, next, &[&(repos as i64)]).await?;
    let number = |row: &Row| Ok(row.try_get(0)?);
    Ok(ProjectRoom {
        project: row.try_get(0)?,
        repos: numbers.iter().map(number).collect::<Result<_>>()?,
        is_first: row.try_get(1)?,
    })
}

/// Stored settings. A key that only another version knows is left out.
async fn settings(db: &Db, org: i64) -> Result<SettingsKept> {
    let sql = "SELECT key, value FROM settings WHERE org = $1 ORDER BY key";
    let mut kept = Vec::new();
    for row in read::all(db, sql, &[&org]).await? {
        kept.extend(project::read_setting(&mut row.reader())?);
    }
    Ok(kept)
}

async fn project(db: &Db, org: i64, id: i64) -> Result<Option<Project>> {
    let sql = format!("SELECT {PROJECT} FROM projects p WHERE p.org = $1 AND p.id = $2");
    read::one(db, &sql, &[&org, &id]).await?.as_ref().map(project_row).transpose()
}

fn project_row(row: &Row) -> Result<Project> {
    project::read(&mut row.reader())
}

fn repo_row(row: &Row) -> Result<ProjectRepo> {
    project::read_project_repo(&mut row.reader())
}

async fn plan(db: &Db, org: i64, id: PlanId) -> Result<Option<Plan>> {
    let sql = format!("SELECT {PLAN} FROM plans l WHERE l.org = $1 AND l.id = $2");
    read::one(db, &sql, &[&org, &uuid(id.0)]).await?.as_ref().map(plan_row).transpose()
}

fn plan_row(row: &Row) -> Result<Plan> {
    plan::read(&mut row.reader())
}

#[async_trait]
impl OrgStore for PostgresStore {
    async fn ids(
        &self,
        org: &str,
        kind: IdKind,
        range: (Id, Id),
        limit: usize,
    ) -> Result<Vec<Id>, StoreError> {
        self.shared
            .read_in(org, |db, org| async move { find::ids(&db, org, kind, range, limit).await })
            .await
    }

    async fn settings(&self, org: &str) -> Result<SettingsKept, StoreError> {
        let read = |db: std::sync::Arc<Db>| async move {
            settings(&db, self.shared.orgs.get(&db, org).await?).await
        };
        self.shared.read(read).await
    }

    async fn projects(&self, org: &str, limit: usize) -> Result<Vec<Project>, StoreError> {
        let sql =
            format!("SELECT {PROJECT} FROM projects p WHERE p.org = $1 {PROJECT_ORDER} LIMIT $2");
        let sql = sql.as_str();
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::all(&db, sql, &[&org, &(limit as i64)]).await?;
                found.iter().map(project_row).collect()
            })
            .await
    }

    async fn project_in(&self, org: &str, id: i64) -> Result<Option<Project>, StoreError> {
        self.shared.read_in(org, |db, org| async move { project(&db, org, id).await }).await
    }

    async fn project_opened(
        &self,
        org: &str,
        actor: &Actor,
    ) -> Result<Option<crate::Project>, StoreError> {
        let sql = &format!(
            "SELECT {PROJECT_NAME} FROM open_projects c \
             JOIN projects p ON p.id = c.project JOIN orgs o ON o.id = c.org \
             WHERE o.name = $1 AND c.actor = $2"
        );
        self.shared
            .read(|db| async move {
                let found = read::one(&db, sql, &[&org, &actor.as_str()]).await?;
                found.map(|row| project::read_name(&mut row.reader())).transpose()
            })
            .await
    }

    async fn repos(&self, org: &str, project: i64) -> Result<Vec<ProjectRepo>, StoreError> {
        let sql = format!(
            "SELECT {PROJECT_REPO} FROM repos r JOIN projects p ON p.id = r.project \
             JOIN orgs o ON o.id = p.org WHERE o.name = $1 AND p.id = $2 {REPO_ORDER}"
        );
        let sql = sql.as_str();
        self.shared
            .read(|db| async move {
                let found = read::all(&db, sql, &[&org, &project]).await?;
                found.iter().map(repo_row).collect()
            })
            .await
    }

    async fn plan(&self, org: &str, id: PlanId) -> Result<Option<Plan>, StoreError> {
        self.shared.read_in(org, |db, org| async move { plan(&db, org, id).await }).await
    }

    async fn plans(&self, org: &str, limit: usize) -> Result<Vec<Plan>, StoreError> {
        let sql =
            format!("SELECT {PLAN} FROM plans l WHERE l.org = $1 ORDER BY l.id DESC LIMIT $2");
        let sql = sql.as_str();
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::all(&db, sql, &[&org, &(limit as i64)]).await?;
                found.iter().map(plan_row).collect()
            })
            .await
    }

    async fn events_count(&self, query: BackQuery) -> Result<usize, StoreError> {
        let filter = Filter::of_events_back(read::SIGN, &query);
        let (sql, taken) = (query.count_sql(&filter), read::BoundValues::from(filter));
        let (sql, taken) = (sql.as_str(), &taken);
        self.shared
            .read_log(|db| async move {
                let Some(row) = read::one(&db, sql, &taken.values()).await? else { return Ok(0) };
                let many: i64 = row.try_get(0)?;
                Ok(many.unsigned_abs() as usize)
            })
            .await
    }

    async fn events_back(&self, query: BackQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        let filter = Filter::of_events_back(read::SIGN, &query);
        let (sql, taken) = (query.sql(&filter), read::BoundValues::from(filter));
        let (sql, taken) = (sql.as_str(), &taken);
        self.shared
            .read_log(|db| async move {
                let found = read::all(&db, sql, &taken.values()).await?;
                found.iter().map(|row| event::read(&mut row.reader())).collect()
            })
            .await
    }
}
