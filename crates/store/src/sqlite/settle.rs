//! The org, project and repository rows a process works in.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Result, TransactionBehavior, params};

use crate::sqlite::read;
use crate::{Home, Place, Project};

/// The org and project of a process, when all rows exist already; most starts need no write.
pub(crate) fn settled(db: &Connection, place: &Place) -> Result<Option<Home>> {
    let org = db
        .query_row("SELECT id FROM orgs WHERE name = ?1", [&place.org], |row| row.get(0))
        .optional()?;
    let Some(org) = org else { return Ok(None) };
    let project = match &place.repo {
        Some(repo) => project_of_repo(db, org, &repo.machine, &repo.path.to_string_lossy())?,
        None => oldest(db, org)?,
    };
    // A project with another prefix than the configured one is not settled yet: `settle` has to write the new prefix.
    let fits = |project: &Project| place.prefix.is_none_or(|prefix| project.prefix == prefix);
    let project = project.filter(fits);
    Ok(project.map(|project| Home { org: Arc::from(place.org.as_str()), project }))
}

/// Finds or makes the rows a process works in. The transaction is immediate: two first starts at once must not make two
/// projects.
pub(crate) fn settle(db: &mut Connection, place: &Place, now: i64) -> Result<Home> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let org = org(&tx, &place.org)?;
    let project = match &place.repo {
        Some(repo) => {
            // The form in which paths are stored: a column of text.
            let path = repo.path.to_string_lossy();
            match project_of_repo(&tx, org, &repo.machine, &path)? {
                Some(project) => project,
                None => {
                    let known = match by_name(&tx, org, &place.project_name)? {
                        // The board lies in this repository, so the repository belongs to the board's own project
                        // whatever its folder is called.
                        None if place.store_is_inside => oldest(&tx, org)?,
                        named => named,
                    };
                    let project = known.map_or_else(|| make(&tx, org, place, now), Ok)?;
                    tx.execute(
                        "INSERT INTO repos (project, machine, path) VALUES (?1, ?2, ?3)",
                        params![project.id, repo.machine, path],
                    )?;
                    project
                }
            }
        }
        None => oldest(&tx, org)?.map_or_else(|| make(&tx, org, place, now), Ok)?,
    };
    let project = with_prefix(&tx, project, place)?;
    tx.commit()?;
    Ok(Home { org: Arc::from(place.org.as_str()), project })
}

/// The number of an org, which is made when it is missing: a token may be granted for an org before its first start.
pub(crate) fn org(db: &Connection, name: &str) -> Result<i64> {
    // Another process may have made the org first; its number is read below in either case.
    db.execute("INSERT OR IGNORE INTO orgs (name) VALUES (?1)", [name])?;
    db.query_row("SELECT id FROM orgs WHERE name = ?1", [name], |row| row.get(0))
}

/// A folder may belong to a project in each of several orgs, so the org is part of the search.
fn project_of_repo(
    db: &Connection,
    org: i64,
    machine: &str,
    path: &str,
) -> Result<Option<Project>> {
    db.query_row(
        "SELECT p.id, p.name, p.prefix FROM repos r JOIN projects p ON p.id = r.project \
         WHERE p.org = ?1 AND r.machine = ?2 AND r.path = ?3 ORDER BY p.id LIMIT 1",
        params![org, machine, path],
        read::project_row,
    )
    .optional()
}

/// A new project. Its prefix comes from the settings or from its name.
fn make(db: &Connection, org: i64, place: &Place, now: i64) -> Result<Project> {
    let prefix = place.prefix_if_new();
    db.execute(
        "INSERT INTO projects (org, name, prefix, created_at) VALUES (?1, ?2, ?3, ?4)",
        params![org, place.project_name, prefix.as_str(), now],
    )?;
    let id = db.last_insert_rowid();
    Ok(Project { id, name: place.project_name.clone(), prefix })
}

/// The oldest project of this name: another clone of a repository belongs to the project of the first.
fn by_name(db: &Connection, org: i64, name: &str) -> Result<Option<Project>> {
    db.query_row(
        "SELECT id, name, prefix FROM projects WHERE org = ?1 AND name = ?2 ORDER BY id LIMIT 1",
        params![org, name],
        read::project_row,
    )
    .optional()
}

/// The first project of an org: the one of a process that runs in no repository.
pub(crate) fn oldest(db: &Connection, org: i64) -> Result<Option<Project>> {
    db.query_row(
        "SELECT id, name, prefix FROM projects WHERE org = ?1 ORDER BY id LIMIT 1",
        [org],
        read::project_row,
    )
    .optional()
}

/// Sets the prefix that is configured now. New tasks take it; old ones keep theirs.
fn with_prefix(db: &Connection, project: Project, place: &Place) -> Result<Project> {
    let Some(prefix) = place.prefix.filter(|prefix| project.prefix != *prefix) else {
        return Ok(project);
    };
    db.execute(
        "UPDATE projects SET prefix = ?2 WHERE id = ?1",
        params![project.id, prefix.as_str()],
    )?;
    Ok(Project { prefix, ..project })
}
