//! The rows of an org besides tasks: reads and writes. A command that decides on them goes alone in its org.

use std::path::PathBuf;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::desk::OrgRows;
use callboard_domain::event::LoggedEvent;
use callboard_domain::ids::Prefix;
use callboard_domain::ids::{Id, IdKind};
use callboard_domain::needs::OrgNeeds;
use callboard_domain::plan::{Plan, PlanId, PlanState};
use callboard_domain::project::{Project, ProjectRepo, ProjectRoom};
use callboard_domain::settings::{SettingKey, SettingsKept};
use callboard_domain::time::Timestamp;
use callboard_domain::world::OrgWrite;
use tokio_postgres::Row;

use super::db::Db;
use super::errors::Trouble;
use super::find;
use super::rows::{self, uuid};
use super::{PostgresStore, read, schema};
use crate::org::{PLAN, PROJECT, PROJECT_ORDER, REPO, REPO_ORDER, decided, json};
use crate::{BackQuery, OrgStore, StoreError};

type Result<T, E = Trouble> = std::result::Result<T, E>;

pub(super) async fn rows(db: &Db, org: i64, actor: &Actor, needs: &OrgNeeds) -> Result<OrgRows> {
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
        if let Some(key) = SettingKey::parse(row.try_get(0)?) {
            kept.extend(rows::json(&row, 1, "value")?.map(|value| (key, value)));
        }
    }
    Ok(kept)
}

async fn project(db: &Db, org: i64, id: i64) -> Result<Option<Project>> {
    let sql = format!("SELECT {PROJECT} WHERE p.org = $1 AND p.id = $2");
    read::one(db, &sql, &[&org, &id]).await?.as_ref().map(project_row).transpose()
}

fn project_row(row: &Row) -> Result<Project> {
    Ok(Project {
        id: row.try_get(0)?,
        name: row.try_get(1)?,
        description: row.try_get(2)?,
        prefix: Prefix::parse(row.try_get(3)?).unwrap_or_else(Prefix::fallback),
        created_at: rows::time(row, 4)?,
        opened_at: row.try_get::<_, Option<i64>>(5)?.map(Timestamp),
    })
}

fn repo_row(row: &Row) -> Result<ProjectRepo> {
    Ok(ProjectRepo {
        id: row.try_get(0)?,
        project: row.try_get(1)?,
        machine: row.try_get(2)?,
        path: PathBuf::from(row.try_get::<_, String>(3)?),
        default_branch: row.try_get(4)?,
        position: rows::count(row, 5)?,
    })
}

async fn plan(db: &Db, org: i64, id: PlanId) -> Result<Option<Plan>> {
    let sql = format!("SELECT {PLAN} WHERE l.org = $1 AND l.id = $2");
    read::one(db, &sql, &[&org, &uuid(id.0)]).await?.as_ref().map(plan_row).transpose()
}

fn plan_row(row: &Row) -> Result<Plan> {
    let damaged = || rows::damaged("plan");
    let state = match row.try_get(5)? {
        "draft" => PlanState::Draft,
        "rejected" => PlanState::Rejected { at: rows::time(row, 6)?, by: rows::actor(row, 7)? },
        _ => PlanState::Approved {
            at: rows::time(row, 6)?,
            by: rows::actor(row, 7)?,
            tasks: rows::json(row, 8, "made")?.ok_or_else(damaged)?,
        },
    };
    Ok(Plan {
        id: PlanId(rows::id(row, 0)?),
        by: rows::actor(row, 1)?,
        at: rows::time(row, 2)?,
        tasks: rows::json(row, 3, "tasks")?.ok_or_else(damaged)?,
        todos: rows::json(row, 4, "todos")?.ok_or_else(damaged)?,
        state,
    })
}

pub(super) async fn write(db: &Db, org: i64, write: &OrgWrite, now: Timestamp) -> Result<()> {
    match write {
        OrgWrite::SettingPut { key, value } => {
            let sql = "INSERT INTO settings (org, key, value) VALUES ($1, $2, $3) \
                 ON CONFLICT (org, key) DO UPDATE SET value = excluded.value";
            read::one(db, sql, &[&org, &key.as_str(), &value.to_string()]).await?;
        }
        OrgWrite::ProjectInsert { project } => {
            let sql = "INSERT INTO projects \
                     (id, org, name, prefix, created_at, description, opened_at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)";
            let Project { id, name, description, prefix, created_at, opened_at } = project;
            let opened_at = opened_at.map(|at| at.0);
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
                [id, &org, name, &prefix.as_str(), &created_at.0, description, &opened_at];
            read::one(db, sql, &values).await?;
        }
        OrgWrite::RepoInsert { repo } => {
            let sql = "INSERT INTO repos (id, project, machine, path, position, default_branch) \
                 VALUES ($1, $2, $3, $4, $5, $6)";
            let ProjectRepo { id, project, machine, path, default_branch, position } = repo;
            let (path, position) = (path.to_string_lossy(), *position as i32);
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                [id, project, machine, &path.as_ref(), &position, default_branch];
            read::one(db, sql, &values).await?;
        }
        OrgWrite::ProjectOpen { project, actor } => {
            let sql = "UPDATE projects SET opened_at = $2 WHERE id = $1";
            read::one(db, sql, &[project, &now.0]).await?;
            let sql = "INSERT INTO open_projects (org, actor, project, at) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (org, actor) DO UPDATE SET project = excluded.project, at = excluded.at";
            read::one(db, sql, &[&org, &actor.as_str(), project, &now.0]).await?;
        }
        OrgWrite::PlanInsert { plan } => {
            let sql = "INSERT INTO plans (id, org, actor, at, tasks, todos, state) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)";
            let (tasks, todos) = (json(&plan.tasks), json(&plan.todos));
            let (by, state) = (plan.by.as_str(), plan.state.as_str());
            let id = uuid(plan.id.0);
            read::one(db, sql, &[&id, &org, &by, &plan.at.0, &tasks, &todos, &state]).await?;
        }
        OrgWrite::PlanUpdate { plan } => {
            let sql = "UPDATE plans SET state = $2, decided_at = $3, decided_by = $4, made = $5 \
                 WHERE id = $1";
            let (at, by, made) = decided(&plan.state);
            let (id, state) = (uuid(plan.id.0), plan.state.as_str());
            read::one(db, sql, &[&id, &state, &at, &by, &made]).await?;
        }
    }
    Ok(())
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
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                find::ids(&db, org, kind, range, limit).await
            })
            .await
    }

    async fn settings(&self, org: &str) -> Result<SettingsKept, StoreError> {
        let read = |db: std::sync::Arc<Db>| async move {
            settings(&db, self.shared.orgs.get(&db, org).await?).await
        };
        self.shared.read(read).await
    }

    async fn projects(&self, org: &str, limit: usize) -> Result<Vec<Project>, StoreError> {
        let sql = format!("SELECT {PROJECT} WHERE p.org = $1 {PROJECT_ORDER} LIMIT $2");
        let sql = sql.as_str();
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let found = read::all(&db, sql, &[&org, &(limit as i64)]).await?;
                found.iter().map(project_row).collect()
            })
            .await
    }

    async fn project_in(&self, org: &str, id: i64) -> Result<Option<Project>, StoreError> {
        self.shared
            .read(|db| async move { project(&db, self.shared.orgs.get(&db, org).await?, id).await })
            .await
    }

    async fn project_opened(
        &self,
        org: &str,
        actor: &Actor,
    ) -> Result<Option<crate::Project>, StoreError> {
        let sql = "SELECT p.id, p.name, p.prefix FROM open_projects c \
             JOIN projects p ON p.id = c.project JOIN orgs o ON o.id = c.org \
             WHERE o.name = $1 AND c.actor = $2";
        self.shared
            .read(|db| async move {
                let found = read::one(&db, sql, &[&org, &actor.as_str()]).await?;
                found.as_ref().map(read::project_row).transpose()
            })
            .await
    }

    async fn repos(&self, org: &str, project: i64) -> Result<Vec<ProjectRepo>, StoreError> {
        let sql = format!(
            "SELECT {REPO} JOIN projects p ON p.id = r.project JOIN orgs o ON o.id = p.org \
             WHERE o.name = $1 AND p.id = $2 {REPO_ORDER}"
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
        self.shared
            .read(|db| async move { plan(&db, self.shared.orgs.get(&db, org).await?, id).await })
            .await
    }

    async fn plans(&self, org: &str, limit: usize) -> Result<Vec<Plan>, StoreError> {
        let sql = format!("SELECT {PLAN} WHERE l.org = $1 ORDER BY l.id DESC LIMIT $2");
        let sql = sql.as_str();
        self.shared
            .read(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let found = read::all(&db, sql, &[&org, &(limit as i64)]).await?;
                found.iter().map(plan_row).collect()
            })
            .await
    }

    async fn events_back(&self, query: BackQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        let (sql, query) = (query.sql('$', rows::EVENT), &query);
        let sql = sql.as_str();
        self.shared
            .read(|db| async move {
                let found = read::all(&db, sql, &[&&*query.org, &query.below()]).await?;
                found.iter().map(rows::event).collect()
            })
            .await
    }
}
