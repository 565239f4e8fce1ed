//! Projects and their repositories.

use callboard_domain::board::project::read_id;
use callboard_domain::refusal::Refusal;
use callboard_engine::{ProjectDraft, ProjectSeen, RepoSeen};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::envelope::{Envelope, NextCall, Reply};
use super::words::project_id;
use crate::page::lean;
use crate::tool::Call;

/// Projects on a page without `limit`.
const LIST_DEFAULT: u32 = 10;

#[derive(Deserialize, JsonSchema)]
pub(super) struct ProjectsListRequest {
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    #[schemars(range(min = 0))]
    offset: Option<u32>,
}

pub(super) async fn projects_list(call: &Call<'_>, args: ProjectsListRequest) -> Reply {
    let limit = args.limit.unwrap_or(LIST_DEFAULT) as usize;
    let offset = args.offset.unwrap_or(0) as usize;
    // Pages are cut from one list; one row more tells whether a next page follows.
    let found = call.engine.project_list(call.op, offset + limit + 1).await?;
    let projects: Vec<Value> = found.iter().skip(offset).take(limit).map(project).collect();
    let (count, next) = (projects.len(), offset + projects.len());
    let has_more = next < found.len();
    Ok(json!({
        "projects": projects,
        "count": count,
        "has_more": has_more,
        "next_offset": has_more.then_some(next),
    }))
}

fn project(seen: &ProjectSeen) -> Value {
    lean(json!({
        "project_id": project_id(seen.project.id),
        "name": seen.project.name,
        "description": seen.project.description,
        "is_open": seen.is_open,
    }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ProjectArgument {
    project_id: String,
}

/// The repositories of a project; an unknown project has none.
pub(super) async fn repos_list(call: &Call<'_>, args: ProjectArgument) -> Reply {
    let repos = match read_id(&args.project_id) {
        Some(id) => call.engine.repo_list(call.op, id).await?,
        None => Vec::new(),
    };
    let repos: Vec<Value> = repos.iter().map(repo).collect();
    let count = repos.len();
    Ok(json!({"repos": repos, "count": count}))
}

fn repo(seen: &RepoSeen) -> Value {
    lean(json!({
        "repo_id": format!("repo_{}", seen.repo.id),
        "name": seen.name,
        // The reference has both keys. Callboard keeps one name.
        "display_name": seen.name,
        "path": seen.repo.path,
        "default_branch": seen.default_branch,
        "is_primary": seen.is_primary,
    }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ProjectsCreateRequest {
    name: String,
    description: Option<String>,
    /// Top folders of git repositories on the server; the first is the primary one
    repo_paths: Option<Vec<String>>,
}

pub(super) async fn projects_create(call: &Call<'_>, args: ProjectsCreateRequest) -> Reply {
    let draft = ProjectDraft {
        name: args.name,
        description: args.description.unwrap_or_default(),
        repo_paths: args.repo_paths.unwrap_or_default(),
    };
    let (made, repo_count) = call.engine.project_create(call.op, draft).await?;
    let id = project_id(made.id);
    let mut done = Envelope::yes("Project created");
    // The first project opens by itself; a later one has to be opened on purpose.
    if made.opened_at.is_none() {
        done = done.next(NextCall::new("projects_open", json!({ "project_id": id })));
    }
    let fields = json!({
        "project_id": id,
        "name": made.name,
        "description": made.description,
        "repo_count": repo_count,
    });
    Ok(done.answer(call, fields))
}

pub(super) async fn projects_open(call: &Call<'_>, args: ProjectArgument) -> Reply {
    let unknown = || Refusal::ProjectNotFound { project: args.project_id.clone() };
    let id = read_id(&args.project_id).ok_or_else(unknown)?;
    let opened = call.engine.project_open(call.op, id).await?;
    let fields = json!({"project_id": project_id(opened.id), "name": opened.name});
    Ok(Envelope::yes("Project opened").answer(call, fields))
}
