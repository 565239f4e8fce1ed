//! The org, project and repository rows a process works in.

use std::sync::Arc;

use deadpool_postgres::{GenericClient, Object};

use super::errors::Trouble;
use super::{read, schema};
use crate::{Home, Place, Project};

type Result<T> = std::result::Result<T, Trouble>;

/// Where a process stands, when all of it is there already; most starts need no write.
pub(super) async fn settled(db: &Object, place: &Place) -> Result<Option<Home>> {
    let Some(org) = read::find_org(db, &place.org).await? else { return Ok(None) };
    let project = match &place.repo {
        Some(repo) => project_of_repo(db, org, &repo.machine, &repo.path.to_string_lossy()).await?,
        None => oldest(db, org).await?,
    };
    let fits = |project: &Project| place.prefix.is_none_or(|prefix| project.prefix == prefix);
    let project = project.filter(fits);
    Ok(project.map(|project| Home { org: Arc::from(place.org.as_str()), project }))
}

/// One process at a time, so that two that start together share one project.
pub(super) async fn settle(db: &mut Object, place: &Place, now: i64) -> Result<Home> {
    let tx = db.transaction().await?;
    tx.batch_execute(schema::ALONE).await?;
    let org = org(&tx, &place.org).await?;
    let project = match &place.repo {
        Some(repo) => {
            let path = repo.path.to_string_lossy();
            match project_of_repo(&tx, org, &repo.machine, &path).await? {
                Some(project) => project,
                None => {
                    let known = match by_name(&tx, org, &place.project_name).await? {
                        None if place.store_is_inside => oldest(&tx, org).await?,
                        named => named,
                    };
                    let project = match known {
                        Some(project) => project,
                        None => make(&tx, org, place, now).await?,
                    };
                    tx.execute(
                        "INSERT INTO repos (project, machine, path) VALUES ($1, $2, $3)",
                        &[&project.id, &repo.machine, &path.as_ref()],
                    )
                    .await?;
                    project
                }
            }
        }
        None => match oldest(&tx, org).await? {
            Some(project) => project,
            None => make(&tx, org, place, now).await?,
        },
    };
    let project = with_prefix(&tx, project, place).await?;
    tx.commit().await?;
    Ok(Home { org: Arc::from(place.org.as_str()), project })
}

async fn project_of_repo(
    db: &impl GenericClient,
    org: i64,
    machine: &str,
    path: &str,
) -> Result<Option<Project>> {
    let found = db
        .query_opt(
            "SELECT p.id, p.name, p.prefix FROM repos r JOIN projects p ON p.id = r.project \
             WHERE p.org = $1 AND r.machine = $2 AND r.path = $3 ORDER BY p.id LIMIT 1",
            &[&org, &machine, &path],
        )
        .await?;
    found.as_ref().map(read::project_row).transpose()
}

pub(super) async fn org(db: &impl GenericClient, name: &str) -> Result<i64> {
    let sql = "INSERT INTO orgs (name) VALUES ($1) ON CONFLICT (name) DO NOTHING";
    db.execute(sql, &[&name]).await?;
    let org = db.query_one("SELECT id FROM orgs WHERE name = $1", &[&name]).await?;
    Ok(org.try_get(0)?)
}

async fn make(db: &impl GenericClient, org: i64, place: &Place, now: i64) -> Result<Project> {
    let prefix = place.prefix_if_new();
    let made = db
        .query_one(
            "INSERT INTO projects (org, name, prefix, created_at) VALUES ($1, $2, $3, $4) \
             RETURNING id",
            &[&org, &place.project_name, &prefix.as_str(), &now],
        )
        .await?;
    let id = made.try_get(0)?;
    Ok(Project { id, name: place.project_name.clone(), prefix })
}

async fn by_name(db: &impl GenericClient, org: i64, name: &str) -> Result<Option<Project>> {
    let sql = "SELECT id, name, prefix FROM projects WHERE org = $1 AND name = $2 \
         ORDER BY id LIMIT 1";
    db.query_opt(sql, &[&org, &name]).await?.as_ref().map(read::project_row).transpose()
}

pub(super) async fn oldest(db: &impl GenericClient, org: i64) -> Result<Option<Project>> {
    let sql = "SELECT id, name, prefix FROM projects WHERE org = $1 ORDER BY id LIMIT 1";
    db.query_opt(sql, &[&org]).await?.as_ref().map(read::project_row).transpose()
}

/// New tasks take the prefix that is configured now; old ones keep theirs.
async fn with_prefix(db: &impl GenericClient, project: Project, place: &Place) -> Result<Project> {
    let Some(prefix) = place.prefix.filter(|prefix| project.prefix != *prefix) else {
        return Ok(project);
    };
    let sql = "UPDATE projects SET prefix = $2 WHERE id = $1";
    db.execute(sql, &[&project.id, &prefix.as_str()]).await?;
    Ok(Project { prefix, ..project })
}
