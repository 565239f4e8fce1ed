//! Repositories on this machine: which ones a job may name.

use std::path::{Path, PathBuf};

use callboard_domain::relay::Problem;
use callboard_domain::relay::spec::Repo;
use callboard_engine::ports::NOT_ALLOWED;

use super::AgentSettings;
use crate::git::GitFault;
use crate::workspace;

/// Where local repositories may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalRoots {
    Any,
    /// Below one of these folders; nowhere when the list is empty.
    Under(Vec<PathBuf>),
}

pub(super) async fn problems(settings: &AgentSettings, repo: &Repo) -> Vec<Problem> {
    let Repo::Local { path, baseline_commit, .. } = repo else { return Vec::new() };
    let problem =
        |field: &str, problem: String| vec![Problem { path: format!("repo.{field}"), problem }];
    let place = match allowed(settings, path) {
        Ok(place) => place,
        Err(words) => return problem("path", words),
    };
    match workspace::has_commit(&place, baseline_commit).await {
        Ok(true) => Vec::new(),
        Ok(false) => problem("baselineCommit", "is not in the repository".into()),
        Err(GitFault::Outside) => problem("path", "must be a git repository".into()),
        Err(GitFault::Failed(words)) => problem("path", format!("cannot be read: {words}")),
    }
}

pub(super) fn lies_in(settings: &AgentSettings, path: &str, folder: &Path) -> bool {
    let inner = allowed(settings, path).ok();
    inner.zip(folder.canonicalize().ok()).is_some_and(|(inner, outer)| inner.starts_with(outer))
}

/// The real path of a repository that a job may use. A path outside the roots gets the error of a missing one.
pub(super) fn allowed(settings: &AgentSettings, path: &str) -> Result<PathBuf, String> {
    let real = settings.folder.join(path).canonicalize().ok().filter(|path| path.is_dir());
    let is_allowed = |real: &Path| match &settings.local_roots {
        LocalRoots::Any => true,
        LocalRoots::Under(roots) => {
            roots.iter().any(|root| root.canonicalize().is_ok_and(|root| real.starts_with(root)))
        }
    };
    let place = real.filter(|real| is_allowed(real));
    place.ok_or_else(|| NOT_ALLOWED.to_owned())
}
