//! Projects: created with their repositories, and opened by the actors that work in them.

use std::path::PathBuf;

use serde_json::json;

use crate::board::project::{self, NAME_CHARS_MAX, Project, ProjectRepo, REPOS_MAX};
use crate::command::ProjectCreate;
use crate::decide::input;
use crate::event::{Event, EventName};
use crate::ids::Prefix;
use crate::refusal::Refusal;
use crate::refusal::found::{OrNotFound as _, ProjectRow};
use crate::time::Timestamp;
use crate::world::{Change, OrgWrite, Reply, World, Write};

pub(crate) fn project_create(
    world: &World<'_>,
    new: &ProjectCreate,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let name = input::said("name", new.name.trim(), NAME_CHARS_MAX, "name cannot be empty")?;
    input::longest("description", &new.description, project::DESCRIPTION_CHARS_MAX)?;
    if new.repos.len() > REPOS_MAX {
        let message = format!("at most {REPOS_MAX} repo_paths, got {}", new.repos.len());
        return Err(Refusal::invalid(message));
    }
    let room = world.org.room.as_ref().expect("a store makes room for what it is asked to add");
    let project = Project {
        id: room.project,
        name: name.to_owned(),
        description: new.description.clone(),
        prefix: Prefix::from_folder(name),
        created_at: now,
        opened_at: room.is_first.then_some(now),
    };
    let id = project.id;
    let event = |name, data| Event { actor: world.actor.clone(), name, about: None, data };
    let mut known: Vec<&PathBuf> = Vec::new();
    let mut writes = vec![Write::Org(OrgWrite::ProjectInsert { project: project.clone() })];
    for (place, repo) in new.repos.iter().enumerate() {
        if known.contains(&&repo.path) {
            continue;
        }
        let repo = ProjectRepo {
            id: room.repos[known.len()],
            project: id,
            machine: new.machine.clone(),
            path: repo.path.clone(),
            default_branch: repo.default_branch.clone(),
            position: known.len() as u32,
        };
        known.push(&new.repos[place].path);
        writes.push(Write::Org(OrgWrite::RepoInsert { repo }));
    }
    let data = json!({
        "project": project::shown_id(id),
        "name": project.name,
        "repos": known.len(),
    });
    let mut events = vec![event(EventName::ProjectCreated, data)];
    if room.is_first {
        writes.push(Write::Org(OrgWrite::ProjectOpen { project: id, actor: world.actor.clone() }));
        events.push(event(EventName::ProjectOpened, opened(&project)));
    }
    Ok(Change { writes, events, reply: Reply::Project(id), but: None })
}

/// Idempotent: opening the project that is open changes nothing.
pub(crate) fn project_open(world: &World<'_>, id: i64) -> Result<Change, Refusal> {
    let project = world.org.project.as_ref().or_not_found(&ProjectRow(id))?;
    let (mut writes, mut events) = (Vec::new(), Vec::new());
    if world.org.opened != Some(id) {
        writes.push(Write::Org(OrgWrite::ProjectOpen { project: id, actor: world.actor.clone() }));
        let (actor, name) = (world.actor.clone(), EventName::ProjectOpened);
        events.push(Event { actor, name, about: None, data: opened(project) });
    }
    Ok(Change { writes, events, reply: Reply::Project(id), but: None })
}

fn opened(project: &Project) -> serde_json::Value {
    json!({"project": project::shown_id(project.id), "name": project.name})
}
