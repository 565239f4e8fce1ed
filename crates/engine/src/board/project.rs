//! Projects and their repositories: the list, the project that an actor has open, and the project of a new task.

use std::path::PathBuf;

use callboard_domain::board::project::{Project, ProjectRepo, RepoRoots};
use callboard_domain::command::{Command, NEW_PROJECT, NewRepo, ProjectCreate};
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_domain::refusal::found::{OrNotFound as _, ProjectRow};
use callboard_store::{Outcome, Place};

use crate::context::{OpContext, Principal, Scope};
use crate::{Engine, EngineError};

/// The default branch of a repository that does not say its own.
const BRANCH: &str = "main";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectDraft {
    pub name: String,
    pub description: String,
    pub repo_paths: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectSeen {
    pub project: Project,
    /// Whether new tasks of the caller go there.
    pub is_open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoSeen {
    pub repo: ProjectRepo,
    pub name: String,
    pub default_branch: String,
    pub is_primary: bool,
}

impl Engine {
    pub async fn project_list(
        &self,
        op: &OpContext,
        limit: usize,
    ) -> Result<Vec<ProjectSeen>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let open = self.project_of(&op.principal).await?.map(|project| project.id);
        let projects = self.parts.store.projects(&op.principal.org, limit).await?;
        let seen = |project: Project| ProjectSeen { is_open: open == Some(project.id), project };
        Ok(projects.into_iter().map(seen).collect())
    }

    /// Creates a project; returns it with the number of its repositories.
    pub async fn project_create(
        &self,
        op: &OpContext,
        draft: ProjectDraft,
    ) -> Result<(Project, usize), EngineError> {
        op.principal.judge_outside(op.tool, NEW_PROJECT)?;
        let mut repos = Vec::with_capacity(draft.repo_paths.len());
        for path in &draft.repo_paths {
            repos.push(self.repo_found(&op.principal, path).await?);
        }
        let create = ProjectCreate {
            name: draft.name,
            description: draft.description,
            machine: self.parts.machine.clone(),
            repos,
        };
        let applied = self.act(op, Command::ProjectCreate(create)).await?;
        let project = project_of_outcome(applied.outcome)?;
        let repos = self.parts.store.repos(&op.principal.org, project.id).await?;
        Ok((project, repos.len()))
    }

    pub async fn project_open(&self, op: &OpContext, id: i64) -> Result<Project, EngineError> {
        let applied = self.act(op, Command::ProjectOpen { project: id }).await?;
        project_of_outcome(applied.outcome)
    }

    /// The repositories of a project of the caller's org, the primary one first; empty when there is no such project.
    pub async fn repo_list(
        &self,
        op: &OpContext,
        project: i64,
    ) -> Result<Vec<RepoSeen>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let mut repos = self.parts.store.repos(&op.principal.org, project).await?;
        // A project may be on several machines; repositories of this machine come first, because they can be worked on
        // from here.
        repos.sort_by_key(|repo| repo.machine != self.parts.machine);
        let mut seen = Vec::with_capacity(repos.len());
        for repo in repos {
            let name = repo.path.file_name().unwrap_or(repo.path.as_os_str());
            seen.push(RepoSeen {
                name: name.to_string_lossy().into_owned(),
                default_branch: self.default_branch(&repo).await,
                is_primary: seen.is_empty(),
                repo,
            });
        }
        Ok(seen)
    }

    /// The default branch that the repository itself says if it is on this machine, else the one it said when it was
    /// added.
    pub async fn default_branch(&self, repo: &ProjectRepo) -> String {
        let here = repo.machine == self.parts.machine;
        let said = match self.parts.checks.as_ref().filter(|_| here) {
            Some(runner) => runner.repository(&repo.path).await.ok(),
            None => None,
        };
        let said = said.and_then(|found| found.default_branch).or(repo.default_branch.clone());
        said.unwrap_or_else(|| BRANCH.into())
    }

    async fn repo_found(&self, by: &Principal, path: &str) -> Result<NewRepo, EngineError> {
        let refuse = |why: &str| Refusal::InvalidRepoPath { path: path.into(), why: why.into() };
        let Some(runner) = &self.parts.checks else {
            return Err(refuse("cannot be inspected: this server runs no commands").into());
        };
        let found = runner.repository(RepoRoots::judge_named(path)?).await;
        let found = found.map_err(|why| refuse(&why.to_string()))?;
        let real = |root: &PathBuf| root.canonicalize().unwrap_or_else(|_| root.clone());
        let roots: Vec<PathBuf> = self.parts.board.repo_roots.iter().map(real).collect();
        // Whether there are tokens matters only where no root is named.
        let has_tokens = roots.is_empty() && (by.token.is_some() || self.needs_tokens().await?);
        RepoRoots { roots: &roots, has_tokens }.judge_found(path, &found.path)?;
        let default_branch = found.default_branch.or_else(|| Some(BRANCH.into()));
        Ok(NewRepo { path: found.path, default_branch })
    }

    /// The project of a new task: the named one, else its parent's, else the one its actor has open, else that of the
    /// repository this server runs in, else the org's oldest, which is made if there is none.
    pub async fn project_of_new(
        &self,
        op: &OpContext,
        named: Option<i64>,
        parent: Option<TaskId>,
    ) -> Result<callboard_store::Project, EngineError> {
        let org = &op.principal.org;
        if let Some(id) = named {
            let found = self.parts.store.project_in(org, id).await?;
            let Project { id, name, prefix, .. } = found.or_not_found(&ProjectRow(id))?;
            return Ok(callboard_store::Project { id, name, prefix });
        }
        if let Some(parent) = parent
            && let Some(record) = self.parts.store.task(org, parent).await?
            && let Some(project) = self.parts.store.project(record.task.project).await?
        {
            return Ok(project);
        }
        match self.project_of(&op.principal).await? {
            Some(project) => Ok(project),
            None => Ok(self.parts.store.settle(Place::of_org(org)).await?.project),
        }
    }
}

fn project_of_outcome(outcome: Outcome) -> Result<Project, EngineError> {
    match outcome {
        Outcome::Project(project) => Ok(*project),
        other => Err(EngineError::Internal(format!("not a project: {other:?}"))),
    }
}
