//! The rows of an org besides tasks: reads and writes.

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
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::errors::from_sqlite;
use super::{SqliteStore, read, rows};
use crate::org::{PLAN, PROJECT, PROJECT_ORDER, REPO, REPO_ORDER, decided, json};
use crate::{BackQuery, OrgStore, StoreError};

pub(super) fn rows(db: &Connection, org: i64, actor: &Actor, needs: &OrgNeeds) -> Result<OrgRows> {
    let mut rows = OrgRows::default();
    if needs.settings {
        rows.settings = settings(db, org)?;
    }
    if let Some(id) = needs.project {
        rows.projects.extend(project(db, org, id)?.map(|project| (id, project)));
        rows.opened.extend(opened(db, org, actor)?.map(|open| (actor.clone(), open)));
    }
    if let Some(repos) = needs.room {
        rows.room = Some(room(db, org, repos)?);
    }
    if let Some(id) = needs.plan {
        rows.plans.extend(plan(db, org, id)?.map(|plan| (id, plan)));
    }
    Ok(rows)
}

/// Unused numbers; no other transaction writes meanwhile.
fn room(db: &Connection, org: i64, repos: usize) -> Result<ProjectRoom> {
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
    let first = number("SELECT coalesce(max(id), 0) + 1 FROM repos")?;
    let is_first = "SELECT NOT EXISTS (SELECT 1 FROM projects WHERE org = ?1)";
    Ok(ProjectRoom {
        project: number("SELECT coalesce(max(id), 0) + 1 FROM projects")?,
        repos: (first..).take(repos).collect(),
        is_first: db.query_row(is_first, [org], |row| row.get(0))?,
    })
}

/// Stored settings. A key that only another version knows is left out.
pub(super) fn settings(db: &Connection, org: i64) -> Result<SettingsKept> {
    let mut found =
        db.prepare_cached("SELECT key, value FROM settings WHERE org = ?1 ORDER BY key")?;
    let mut kept = Vec::new();
    let mut rows = found.query([org])?;
    while let Some(row) = rows.next()? {
        if let Some(key) = SettingKey::parse(row.get_ref(0)?.as_str()?) {
            kept.extend(rows::json(row, 1, "value")?.map(|value| (key, value)));
        }
    }
    Ok(kept)
}

fn opened(db: &Connection, org: i64, actor: &Actor) -> Result<Option<i64>> {
    db.prepare_cached("SELECT project FROM open_projects WHERE org = ?1 AND actor = ?2")?
        .query_row(params![org, actor.as_str()], |row| row.get(0))
        .optional()
}

pub(super) fn project(db: &Connection, org: i64, id: i64) -> Result<Option<Project>> {
    db.prepare_cached(&format!("SELECT {PROJECT} WHERE p.org = ?1 AND p.id = ?2"))?
        .query_row([org, id], project_row)
        .optional()
}

fn project_row(row: &Row<'_>) -> Result<Project> {
    let prefix = row.get_ref(3)?.as_str()?;
    Ok(Project {
        id: row.get(0)?,
        name: row.get(1)?,
        description: row.get(2)?,
        prefix: Prefix::parse(prefix).unwrap_or_else(Prefix::fallback),
        created_at: rows::time(row, 4)?,
        opened_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
    })
}

fn repo_row(row: &Row<'_>) -> Result<ProjectRepo> {
    Ok(ProjectRepo {
        id: row.get(0)?,
        project: row.get(1)?,
        machine: row.get(2)?,
        path: PathBuf::from(row.get::<_, String>(3)?),
        default_branch: row.get(4)?,
        position: row.get(5)?,
    })
}

pub(super) fn plan(db: &Connection, org: i64, id: PlanId) -> Result<Option<Plan>> {
    db.prepare_cached(&format!("SELECT {PLAN} WHERE l.org = ?1 AND l.id = ?2"))?
        .query_row(params![org, id.0.to_bytes()], plan_row)
        .optional()
}

fn plan_row(row: &Row<'_>) -> Result<Plan> {
    let damaged = |column| rows::damaged(column, "plan");
    let state = match row.get_ref(5)?.as_str()? {
        "draft" => PlanState::Draft,
        "rejected" => PlanState::Rejected { at: rows::time(row, 6)?, by: rows::actor(row, 7)? },
        _ => PlanState::Approved {
            at: rows::time(row, 6)?,
            by: rows::actor(row, 7)?,
            tasks: rows::json(row, 8, "made")?.ok_or_else(|| damaged(8))?,
        },
    };
    Ok(Plan {
        id: PlanId(rows::id(row, 0)?),
        by: rows::actor(row, 1)?,
        at: rows::time(row, 2)?,
        tasks: rows::json(row, 3, "tasks")?.ok_or_else(|| damaged(3))?,
        todos: rows::json(row, 4, "todos")?.ok_or_else(|| damaged(4))?,
        state,
    })
}

pub(super) fn write(db: &Connection, org: i64, write: &OrgWrite, now: Timestamp) -> Result<()> {
    match write {
        OrgWrite::SettingPut { key, value } => db
            .prepare_cached(
                "INSERT OR REPLACE INTO settings (org, key, value) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![org, key.as_str(), value.to_string()])?,
        OrgWrite::ProjectInsert { project } => db
            .prepare_cached(
                "INSERT INTO projects (id, org, name, prefix, created_at, description, opened_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                project.id,
                org,
                project.name,
                project.prefix.as_str(),
                project.created_at.0,
                project.description,
                project.opened_at.map(|at| at.0),
            ])?,
        OrgWrite::RepoInsert { repo } => db
            .prepare_cached(
                "INSERT INTO repos (id, project, machine, path, position, default_branch) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                repo.id,
                repo.project,
                repo.machine,
                repo.path.to_string_lossy(),
                repo.position,
                repo.default_branch,
            ])?,
        OrgWrite::ProjectOpen { project, actor } => {
            db.prepare_cached("UPDATE projects SET opened_at = ?2 WHERE id = ?1")?
                .execute([*project, now.0])?;
            db.prepare_cached(
                "INSERT OR REPLACE INTO open_projects (org, actor, project, at) \
                 VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![org, actor.as_str(), project, now.0])?
        }
        OrgWrite::PlanInsert { plan } => db
            .prepare_cached(
                "INSERT INTO plans (id, org, actor, at, tasks, todos, state) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                plan.id.0.to_bytes(),
                org,
                plan.by.as_str(),
                plan.at.0,
                json(&plan.tasks),
                json(&plan.todos),
                plan.state.as_str(),
            ])?,
        OrgWrite::PlanUpdate { plan } => {
            let (at, by, made) = decided(&plan.state);
            db.prepare_cached(
                "UPDATE plans SET state = ?2, decided_at = ?3, decided_by = ?4, made = ?5 \
                 WHERE id = ?1",
            )?
            .execute(params![
                plan.id.0.to_bytes(),
                plan.state.as_str(),
                at,
                by,
                made
            ])?
        }
    };
    Ok(())
}

#[async_trait]
impl OrgStore for SqliteStore {
    async fn ids(
        &self,
        org: &str,
        kind: IdKind,
        range: (Id, Id),
        limit: usize,
    ) -> Result<Vec<Id>, StoreError> {
        let org = org.to_owned();
        self.read(move |db, _| {
            let org = read::org(db, &org)?;
            read::ids(db, org, kind, range, limit).map_err(from_sqlite)
        })
        .await
    }

    async fn settings(&self, org: &str) -> Result<SettingsKept, StoreError> {
        self.shared.read(|db, _| settings(db, read::org(db, org)?).map_err(from_sqlite))
    }

    async fn projects(&self, org: &str, limit: usize) -> Result<Vec<Project>, StoreError> {
        self.shared.read(|db, _| {
            let org = read::org(db, org)?;
            let sql = format!("SELECT {PROJECT} WHERE p.org = ?1 {PROJECT_ORDER} LIMIT ?2");
            let found = db.prepare_cached(&sql).and_then(|mut found| {
                found.query_map(params![org, limit as i64], project_row)?.collect()
            });
            found.map_err(from_sqlite)
        })
    }

    async fn project_in(&self, org: &str, id: i64) -> Result<Option<Project>, StoreError> {
        self.shared.read(|db, _| project(db, read::org(db, org)?, id).map_err(from_sqlite))
    }

    async fn project_opened(
        &self,
        org: &str,
        actor: &Actor,
    ) -> Result<Option<crate::Project>, StoreError> {
        self.shared.look_up(|db| {
            db.prepare_cached(
                "SELECT p.id, p.name, p.prefix FROM open_projects c \
                 JOIN projects p ON p.id = c.project JOIN orgs o ON o.id = c.org \
                 WHERE o.name = ?1 AND c.actor = ?2",
            )?
            .query_row(params![org, actor.as_str()], read::project_row)
            .optional()
        })
    }

    async fn repos(&self, org: &str, project: i64) -> Result<Vec<ProjectRepo>, StoreError> {
        self.shared.look_up(|db| {
            let sql = format!(
                "SELECT {REPO} JOIN projects p ON p.id = r.project JOIN orgs o ON o.id = p.org \
                 WHERE o.name = ?1 AND p.id = ?2 {REPO_ORDER}"
            );
            db.prepare_cached(&sql)?.query_map(params![org, project], repo_row)?.collect()
        })
    }

    async fn plan(&self, org: &str, id: PlanId) -> Result<Option<Plan>, StoreError> {
        self.shared.read(|db, _| plan(db, read::org(db, org)?, id).map_err(from_sqlite))
    }

    async fn plans(&self, org: &str, limit: usize) -> Result<Vec<Plan>, StoreError> {
        self.shared.read(|db, _| {
            let org = read::org(db, org)?;
            let sql = format!("SELECT {PLAN} WHERE l.org = ?1 ORDER BY l.id DESC LIMIT ?2");
            let found = db.prepare_cached(&sql).and_then(|mut found| {
                found.query_map(params![org, limit as i64], plan_row)?.collect()
            });
            found.map_err(from_sqlite)
        })
    }

    async fn events_back(&self, query: BackQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        self.read(move |db, _| {
            let sql = query.sql('?', rows::EVENT);
            let found = db.prepare_cached(&sql).and_then(|mut found| {
                let values = params![&*query.org, query.below()];
                found.query_map(values, rows::event)?.collect()
            });
            found.map_err(from_sqlite)
        })
        .await
    }
}
