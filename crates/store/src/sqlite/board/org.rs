//! The rows of an org besides tasks.

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::board::plan::{Plan, PlanId};
use callboard_domain::board::project::{Project, ProjectRepo, ProjectRoom};
use callboard_domain::board::settings::SettingsKept;
use callboard_domain::desk::OrgRows;
use callboard_domain::event::LoggedEvent;
use callboard_domain::ids::{Id, IdKind};
use callboard_domain::needs::OrgNeeds;
use rusqlite::{Connection, OptionalExtension, Result, Row, params, params_from_iter};

use crate::sqlite::errors::from_sqlite;
use crate::sqlite::{SqliteStore, read};
use crate::table::plan::{self, PLAN};
use crate::table::project::{self, PROJECT, PROJECT_NAME, PROJECT_ORDER, PROJECT_REPO, REPO_ORDER};
use crate::table::{Cells, event};
use crate::task::filter::Filter;
use crate::{BackQuery, OrgStore, StoreError};

/// The rows of an org that a command needs, beside those of tasks and crews.
pub(crate) fn rows(db: &Connection, org: i64, actor: &Actor, needs: &OrgNeeds) -> Result<OrgRows> {
    let mut rows = OrgRows::default();
    if needs.settings {
        rows.settings = settings(db, org)?;
    }
    if let Some(id) = needs.project {
        rows.projects.extend(project(db, org, id)?.map(|project| (id, project)));
        // Opening the project that is open already changes nothing, and the rule needs this row to see it.
        rows.opened.extend(opened(db, org, actor)?.map(|open| (actor.clone(), open)));
    }
    // `repos` is how many repositories the new project has.
    if let Some(repos) = needs.room {
        rows.room = Some(room(db, org, repos)?);
    }
    if let Some(id) = needs.plan {
        rows.plans.extend(plan(db, org, id)?.map(|plan| (id, plan)));
    }
    Ok(rows)
}

/// Unused numbers; no other transaction writes meanwhile.
/// Ids are given before the INSERT, because the events of the command name them.
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
pub(crate) fn settings(db: &Connection, org: i64) -> Result<SettingsKept> {
    let mut found =
        db.prepare_cached("SELECT key, value FROM settings WHERE org = ?1 ORDER BY key")?;
    let mut kept = Vec::new();
    let mut rows = found.query([org])?;
    while let Some(row) = rows.next()? {
        kept.extend(project::read_setting(&mut row.reader())?);
    }
    Ok(kept)
}

/// The project that an actor has open; each actor has at most one.
fn opened(db: &Connection, org: i64, actor: &Actor) -> Result<Option<i64>> {
    db.prepare_cached("SELECT project FROM open_projects WHERE org = ?1 AND actor = ?2")?
        .query_row(params![org, actor.as_str()], |row| row.get(0))
        .optional()
}

/// Ids of projects count up in the whole store, so the org is compared: a guessed id shows nothing of another org.
pub(crate) fn project(db: &Connection, org: i64, id: i64) -> Result<Option<Project>> {
    db.prepare_cached(&format!("SELECT {PROJECT} FROM projects p WHERE p.org = ?1 AND p.id = ?2"))?
        .query_row([org, id], project_row)
        .optional()
}

fn project_row(row: &Row<'_>) -> Result<Project> {
    project::read(&mut row.reader())
}

fn repo_row(row: &Row<'_>) -> Result<ProjectRepo> {
    project::read_project_repo(&mut row.reader())
}

pub(crate) fn plan(db: &Connection, org: i64, id: PlanId) -> Result<Option<Plan>> {
    db.prepare_cached(&format!("SELECT {PLAN} FROM plans l WHERE l.org = ?1 AND l.id = ?2"))?
        .query_row(params![org, id.0.to_bytes()], plan_row)
        .optional()
}

fn plan_row(row: &Row<'_>) -> Result<Plan> {
    plan::read(&mut row.reader())
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
        // The work runs on a thread that may block, so it owns its values.
        let org = org.to_owned();
        self.read(move |db, _| {
            let org = read::org(db, &org)?;
            read::ids(db, org, kind, range, limit).map_err(from_sqlite)
        })
        .await
    }

    async fn settings(&self, org: &str) -> Result<SettingsKept, StoreError> {
        self.shared.read_in(org, |db, org, _| settings(db, org).map_err(from_sqlite))
    }

    async fn projects(&self, org: &str, limit: usize) -> Result<Vec<Project>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let sql = format!(
                "SELECT {PROJECT} FROM projects p WHERE p.org = ?1 {PROJECT_ORDER} LIMIT ?2"
            );
            let found = db.prepare_cached(&sql).and_then(|mut found| {
                found.query_map(params![org, limit as i64], project_row)?.collect()
            });
            found.map_err(from_sqlite)
        })
    }

    async fn project_in(&self, org: &str, id: i64) -> Result<Option<Project>, StoreError> {
        self.shared.read_in(org, |db, org, _| project(db, org, id).map_err(from_sqlite))
    }

    async fn project_opened(
        &self,
        org: &str,
        actor: &Actor,
    ) -> Result<Option<crate::Project>, StoreError> {
        self.shared.look_up(|db| {
            let sql = format!(
                "SELECT {PROJECT_NAME} FROM open_projects c \
                 JOIN projects p ON p.id = c.project JOIN orgs o ON o.id = c.org \
                 WHERE o.name = ?1 AND c.actor = ?2"
            );
            let name = |row: &Row<'_>| project::read_name(&mut row.reader());
            db.prepare_cached(&sql)?.query_row(params![org, actor.as_str()], name).optional()
        })
    }

    async fn repos(&self, org: &str, project: i64) -> Result<Vec<ProjectRepo>, StoreError> {
        self.shared.look_up(|db| {
            let sql = format!(
                "SELECT {PROJECT_REPO} FROM repos r JOIN projects p ON p.id = r.project \
                 JOIN orgs o ON o.id = p.org WHERE o.name = ?1 AND p.id = ?2 {REPO_ORDER}"
            );
            db.prepare_cached(&sql)?.query_map(params![org, project], repo_row)?.collect()
        })
    }

    async fn plan(&self, org: &str, id: PlanId) -> Result<Option<Plan>, StoreError> {
        self.shared.read_in(org, |db, org, _| plan(db, org, id).map_err(from_sqlite))
    }

    async fn plans(&self, org: &str, limit: usize) -> Result<Vec<Plan>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let sql =
                format!("SELECT {PLAN} FROM plans l WHERE l.org = ?1 ORDER BY l.id DESC LIMIT ?2");
            let found = db.prepare_cached(&sql).and_then(|mut found| {
                found.query_map(params![org, limit as i64], plan_row)?.collect()
            });
            found.map_err(from_sqlite)
        })
    }

    async fn events_count(&self, query: BackQuery) -> Result<usize, StoreError> {
        self.read(move |db, _| {
            let filter = Filter::of_events_back(read::SIGN, &query);
            let many: i64 = db
                .prepare_cached(&query.count_sql(&filter))
                .and_then(|mut found| {
                    found.query_row(params_from_iter(filter.values), |row| row.get(0))
                })
                .map_err(from_sqlite)?;
            Ok(many.unsigned_abs() as usize)
        })
        .await
    }

    async fn events_back(&self, query: BackQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        self.read(move |db, _| {
            let filter = Filter::of_events_back(read::SIGN, &query);
            let found = db.prepare_cached(&query.sql(&filter)).and_then(|mut found| {
                let values = params_from_iter(filter.values);
                found.query_map(values, |row| event::read(&mut row.reader()))?.collect()
            });
            found.map_err(from_sqlite)
        })
        .await
    }
}
