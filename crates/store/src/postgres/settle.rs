//! The org, project and repository rows a process works in.

use std::sync::Arc;

use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::{orgs, read, schema};
use crate::{Home, Place, Project, StoreError};

/// The org and project of a process, when all rows exist already; most starts need no write.
pub(crate) async fn settled(db: &Db, place: &Place) -> Result<Option<Home>> {
    let Some(org) = read::find_org(db, &place.org).await? else { return Ok(None) };
    let project = match &place.repo {
        Some(repo) => project_of_repo(db, org, &repo.machine, &repo.path.to_string_lossy()).await?,
        None => oldest(db, org).await?,
    };
    let fits = |project: &Project| place.prefix.is_none_or(|prefix| project.prefix == prefix);
    let project = project.filter(fits);
    Ok(project.map(|project| Home { org: Arc::from(place.org.as_str()), project }))
}

/// Finds or creates these rows; needs a transaction. One process at a time, so that two that start together share
/// one project.
pub(crate) async fn settle(db: &Db, place: &Place, now: i64) -> Result<Home> {
    // No unique index keeps two projects of one name apart, so only the lock keeps two first starts from making both.
    db.batch_execute(schema::ALONE).await?;
    let org = org(db, &place.org).await?;
    let project = match &place.repo {
        Some(repo) => {
            let path = repo.path.to_string_lossy();
            match project_of_repo(db, org, &repo.machine, &path).await? {
                Some(project) => project,
                None => {
                    let known = match by_name(db, org, &place.project_name).await? {
                        // The board lies in this repository, so the repository belongs to the board's own project.
                        None if place.store_is_inside => oldest(db, org).await?,
                        named => named,
                    };
                    let project = match known {
                        Some(project) => project,
                        None => make(db, org, place, now).await?,
                    };
                    read::one(
                        db,
                        "INSERT INTO repos (project, machine, path) VALUES ($1, $2, $3)",
                        &[&project.id, &repo.machine, &path.as_ref()],
                    )
                    .await?;
                    project
                }
            }
        }
        None => match oldest(db, org).await? {
            Some(project) => project,
            None => make(db, org, place, now).await?,
        },
    };
    let project = with_prefix(db, project, place).await?;
    Ok(Home { org: Arc::from(place.org.as_str()), project })
}

async fn project_of_repo(db: &Db, org: i64, machine: &str, path: &str) -> Result<Option<Project>> {
    let found = read::one(
        db,
        "SELECT p.id, p.name, p.prefix FROM repos r JOIN projects p ON p.id = r.project \
         WHERE p.org = $1 AND r.machine = $2 AND r.path = $3 ORDER BY p.id LIMIT 1",
        &[&org, &machine, &path],
    )
    .await?;
    found.as_ref().map(read::project_row).transpose()
}

/// The number of an org, which is made when it is missing.
pub(crate) async fn org(db: &Db, name: &str) -> Result<i64> {
    let sql = "INSERT INTO orgs (name) VALUES ($1) ON CONFLICT (name) DO NOTHING";
    read::one(db, sql, &[&name]).await?;
    // The number is not cached: this transaction may be rolled back.
    read::find_org(db, name).await?.ok_or_else(|| orgs::unknown(name).into())
}

async fn make(db: &Db, org: i64, place: &Place, now: i64) -> Result<Project> {
    let made = read::one(
        db,
        "INSERT INTO projects (org, name, prefix, created_at) VALUES ($1, $2, $3, $4) \
         RETURNING id, name, prefix",
        &[&org, &place.project_name, &place.prefix_if_new().as_str(), &now],
    )
    .await?;
    let made = made.as_ref().map(read::project_row).transpose()?;
    made.ok_or_else(|| StoreError::Internal("a new project did not come back".into()).into())
}

/// The oldest project of this name: another clone of a repository belongs to the project of the first.
async fn by_name(db: &Db, org: i64, name: &str) -> Result<Option<Project>> {
    let sql = "SELECT id, name, prefix FROM projects WHERE org = $1 AND name = $2 \
         ORDER BY id LIMIT 1";
    read::one(db, sql, &[&org, &name]).await?.as_ref().map(read::project_row).transpose()
}

/// The first project of an org: the one of a process that runs in no repository.
pub(crate) async fn oldest(db: &Db, org: i64) -> Result<Option<Project>> {
    let sql = "SELECT id, name, prefix FROM projects WHERE org = $1 ORDER BY id LIMIT 1";
    read::one(db, sql, &[&org]).await?.as_ref().map(read::project_row).transpose()
}

/// Sets the prefix that is configured now. New tasks take it; old ones keep theirs.
async fn with_prefix(db: &Db, project: Project, place: &Place) -> Result<Project> {
    let Some(prefix) = place.prefix.filter(|prefix| project.prefix != *prefix) else {
        return Ok(project);
    };
    let sql = "UPDATE projects SET prefix = $2 WHERE id = $1";
    read::one(db, sql, &[&project.id, &prefix.as_str()]).await?;
    Ok(Project { prefix, ..project })
}
