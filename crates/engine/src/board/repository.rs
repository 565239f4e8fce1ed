//! A task's repository as others see it: its row, and what git says of it on the machine that has its files.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use callboard_domain::refusal::found::{NamedRepo, OrNotFound as _};
use callboard_domain::relay::spec;
use callboard_store::{OwnedRepo, Project};

use crate::context::OpContext;
use crate::ports::{Origin, RepositoryFault};
use crate::{Engine, EngineError};

/// How long git's answer is cached.
const BELIEVED: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    pub id: i64,
    pub name: String,
    pub origin: Origin,
}

impl Repository {
    /// The id that callers know, `repo_7`.
    pub fn shown_id(&self) -> String {
        format!("repo_{}", self.id)
    }
}

/// Git's answers, by the id of the repository's row.
#[derive(Default)]
pub(crate) struct Origins(Mutex<HashMap<i64, (Instant, Origin)>>);

impl Origins {
    fn fresh(&self, id: i64) -> Option<Origin> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, origin) = known.get(&id)?;
        (at.elapsed() < BELIEVED).then(|| origin.clone())
    }

    fn keep(&self, id: i64, origin: &Origin) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(id, (Instant::now(), origin.clone()));
    }
}

impl Engine {
    /// The repository of a project, if it has one.
    pub async fn repository(&self, project: i64) -> Result<Option<Repository>, EngineError> {
        let Some(repo) = self.parts.store.repo(project).await? else { return Ok(None) };
        let name = repo.path.file_name().unwrap_or(repo.path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        // The first repository of all, if this machine has it, is the first one on this machine, too.
        let here = match repo.machine == self.parts.machine {
            true => Some(repo.path),
            false => self.parts.store.repo_path(project, &self.parts.machine).await?,
        };
        let origin = match here {
            Some(path) => self.origin(repo.id, &path).await,
            None => Origin::default(),
        };
        Ok(Some(Repository { id: repo.id, name, origin }))
    }

    async fn origin(&self, id: i64, path: &Path) -> Origin {
        let Some(runner) = &self.parts.checks else { return Origin::default() };
        if let Some(known) = self.origins.fresh(id) {
            return known;
        }
        match runner.origin(path).await {
            Ok(origin) => {
                self.origins.keep(id, &origin);
                origin
            }
            Err(RepositoryFault::None(_)) => Origin::default(),
            Err(RepositoryFault::Failed(words)) => {
                // Not cached: the next call asks git again.
                tracing::warn!(repo = %path.display(), words, "git cannot read the origin of a repository");
                Origin::default()
            }
        }
    }

    /// The project of an org whose repository a job is about: a repository on this machine, or one with the same
    /// address as origin.
    pub(crate) async fn owner_of(
        &self,
        org: &str,
        wanted: &spec::Repo,
    ) -> Result<Option<Project>, EngineError> {
        let mut owner: Option<OwnedRepo> = None;
        for owned in self.parts.store.repos_on(org, &self.parts.machine).await? {
            let is_it = match (wanted, &self.parts.agents) {
                (spec::Repo::Git { url, .. }, _) => {
                    let origin = self.origin(owned.repo.id, &owned.repo.path).await;
                    origin.url.is_some_and(|origin| address(&origin) == address(url))
                }
                (spec::Repo::Local { path, .. }, Some(agents)) => {
                    agents.lies_in(path, &owned.repo.path).await
                }
                (spec::Repo::Local { .. }, None) => false,
            };
            // Of nested folders the innermost is meant.
            let depth = |owned: &OwnedRepo| owned.repo.path.components().count();
            if is_it && owner.as_ref().is_none_or(|known| depth(known) < depth(&owned)) {
                owner = Some(owned);
            }
        }
        Ok(owner.map(|owner| owner.project))
    }

    /// The project of the caller's org with the named repository.
    pub(crate) async fn project_of_repository(
        &self,
        op: &OpContext,
        named: &str,
    ) -> Result<Project, EngineError> {
        let id = named.strip_prefix("repo_").and_then(|id| id.parse().ok());
        let found = match id {
            Some(id) => self.parts.store.project_of_repo(&op.principal.org, id).await?,
            None => None,
        };
        Ok(found.or_not_found(&NamedRepo(named))?)
    }
}

/// The host and path that `https://host/path.git` and `git@host:path` have in common.
fn address(url: &str) -> String {
    let plain = match url.split_once("://") {
        Some((_, rest)) => rest.to_owned(),
        None => url.replacen(':', "/", 1),
    };
    let (host, path) = plain.split_once('/').unwrap_or((&plain, ""));
    let host = host.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    let path = path.trim_end_matches('/');
    format!("{host}/{}", path.strip_suffix(".git").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn the_same_place_has_several_addresses() {
        let same = [
            "https://Git.example.org/shop/site.git",
            "https://token@git.example.org/shop/site/",
            "ssh://git@git.example.org/shop/site.git",
            "git@git.example.org:shop/site",
        ];
        for url in same {
            assert_eq!(address(url), "git.example.org/shop/site", "{url}");
        }
        assert_ne!(address(same[0]), address("https://git.example.org/shop/sites"));
        assert_ne!(address(same[0]), address("https://git.example.org/Shop/site"));
    }
}
