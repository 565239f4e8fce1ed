//! Projects with their repositories, and the settings of an org.

use callboard_domain::actor::Actor;
use callboard_domain::board::project::{Project, ProjectRepo};
use callboard_domain::board::settings::SettingKey;
use callboard_domain::ids::Prefix;
use callboard_domain::time::Timestamp;
use serde_json::Value;

use super::cell::table;
use super::{Cells, RowReader};
use crate::{OwnedRepo, Repo};

/// The columns of a project `p`.
pub(crate) const PROJECT: &str = "p.id, p.name, p.prefix, p.description, p.created_at, p.opened_at";
/// The project that was opened last comes first; those that were never opened follow, the newest first.
pub(crate) const PROJECT_ORDER: &str =
    "ORDER BY p.opened_at IS NULL, p.opened_at DESC, p.created_at DESC, p.id DESC";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Project, R::Error> {
    let crate::Project { id, name, prefix } = read_name(row)?;
    let (description, created_at, opened_at) = (row.text()?, row.time()?, row.time_if()?);
    Ok(Project { id, name, description, prefix, created_at, opened_at })
}

/// The first columns of a project `p`, which name it.
pub(crate) const PROJECT_NAME: &str = "p.id, p.name, p.prefix";

pub(crate) fn read_name<R: Cells>(row: &mut RowReader<'_, R>) -> Result<crate::Project, R::Error> {
    let (id, name) = (row.int()?, row.text()?);
    // An unreadable prefix does not lock the project: new tasks get `TASK` until a prefix is configured.
    let prefix = Prefix::parse(row.str()?).unwrap_or_else(Prefix::fallback);
    Ok(crate::Project { id, name, prefix })
}

table! {
    PROJECTS = "projects";
    fn values(org: i64, project: &'a Project) {
        id: project.id,
        org: org,
        name: &project.name,
        prefix: project.prefix.as_str(),
        created_at: project.created_at,
        description: &project.description,
        opened_at: project.opened_at,
    }
}

table! {
    // A second declaration of the table with fewer columns: opening a project writes nothing else of it.
    PROJECTS_OPENED = "projects";
    fn opened_values(project: i64, at: Timestamp) {
        id: project,
        opened_at: at,
    }
}

table! {
    OPEN_PROJECTS = "open_projects";
    /// The project that an actor has open.
    fn open_values(org: i64, actor: &'a Actor, project: i64, at: Timestamp) {
        org: org,
        actor: actor,
        project: project,
        at: at,
    }
}

/// The columns of a repository `r` of a project.
pub(crate) const PROJECT_REPO: &str =
    "r.id, r.machine, r.path, r.project, r.default_branch, r.position";
/// The order in which a project's repositories stand for it.
pub(crate) const REPO_ORDER: &str = "ORDER BY r.position, r.id DESC";

pub(crate) fn read_project_repo<R: Cells>(
    row: &mut RowReader<'_, R>,
) -> Result<ProjectRepo, R::Error> {
    let Repo { id, machine, path } = read_repo(row)?;
    let (project, default_branch, position) = (row.int()?, row.text_if()?, row.count()?);
    Ok(ProjectRepo { id, project, machine, path, default_branch, position })
}

/// The first columns of a repository `r`, which place it.
pub(crate) const REPO: &str = "r.id, r.machine, r.path";

pub(crate) fn read_repo<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Repo, R::Error> {
    Ok(Repo { id: row.int()?, machine: row.text()?, path: row.str()?.into() })
}

/// Reads a project's name, and a repository from the columns behind it.
pub(crate) fn read_owned<R: Cells>(row: &mut RowReader<'_, R>) -> Result<OwnedRepo, R::Error> {
    Ok(OwnedRepo { project: read_name(row)?, repo: read_repo(row)? })
}

table! {
    REPOS = "repos";
    fn repo_values(repo: &'a ProjectRepo) {
        id: repo.id,
        project: repo.project,
        machine: &repo.machine,
        // Lossy, because a column of text holds no other bytes. `settle` compares paths in this form, too.
        path: repo.path.to_string_lossy().into_owned(),
        position: repo.position,
        default_branch: &repo.default_branch,
    }
}

/// Reads a setting. `None` for a key that only another version knows.
pub(crate) fn read_setting<R: Cells>(
    row: &mut RowReader<'_, R>,
) -> Result<Option<(SettingKey, Value)>, R::Error> {
    let Some(key) = SettingKey::parse(row.str()?) else { return Ok(None) };
    Ok(row.json_if("value")?.map(|value| (key, value)))
}

table! {
    SETTINGS = "settings";
    fn setting_values(org: i64, key: SettingKey, value: &Value) {
        org: org,
        key: key.as_str(),
        value: value.to_string(),
    }
}
