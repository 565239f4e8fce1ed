//! An agent's work as a branch: in the local repository it worked on, at the address it was fetched from, or both.

use std::path::{Path, PathBuf};

use callboard_domain::relay::spec::Repo;
use callboard_engine::ports::{Branch, BranchState, PatchOrder};

use super::{LocalAgents, local};
use crate::git::{GitFault, public_url};
use crate::run_log::Secrets;
use crate::workspace::{self, Access, Workspace};

impl LocalAgents {
    pub(super) async fn make_branch(&self, order: PatchOrder) -> Result<Branch, String> {
        // An address may hold a password or a token, and git repeats the address in its errors.
        let mut secrets = Secrets::default();
        let place = match &order.repo {
            Repo::Local { path, .. } => Some(local::allowed(&self.settings, path)?),
            Repo::Git { .. } => None,
        };
        let remote = match (&order.repo, &place) {
            (Repo::Git { url, .. }, _) => Some(url.clone()),
            (Repo::Local { .. }, Some(place)) if order.push => {
                // Asked before any work: a branch that cannot be pushed is not made.
                let origin = workspace::origin(place).await.map_err(GitFault::words)?;
                Some(origin.ok_or("the repository has no remote called origin")?)
            }
            (Repo::Local { .. }, _) => None,
        };
        if let Some(remote) = &remote {
            secrets.add_url(remote);
        }
        let folder = self.folder(&order.job, order.attempt).await?;
        let local = place.as_deref().unwrap_or(Path::new(""));
        let access = Access { local, has_tokens: order.has_tokens, caches: &self.caches };
        // Without files: a commit can be made from a patch with an index alone.
        let workspace = Workspace::bare(folder, &order.repo, access).await;
        let workspace = workspace.map_err(|cause| secrets.hidden(&cause))?;
        let made = self.placed(&workspace, &order, place.as_deref(), remote.as_deref()).await;
        workspace.close().await;
        let head = made.map_err(|cause| secrets.hidden(&cause))?;
        let remote = remote.and_then(|remote| public_url(&remote));
        let repo = match &place {
            Some(place) => place.display().to_string(),
            None => remote.clone().unwrap_or_default(),
        };
        Ok(Branch { name: order.name, head, repo, remote })
    }

    async fn placed(
        &self,
        workspace: &Workspace,
        order: &PatchOrder,
        place: Option<&Path>,
        remote: Option<&str>,
    ) -> Result<String, String> {
        let PatchOrder { name, patch, message, .. } = order;
        let head = workspace.branch(place, name, patch, message).await?;
        let protocols = self.caches.protocols();
        if let Some(place) = place {
            // The only write to a repository that an agent worked on: a new branch that was asked for.
            workspace.give(place, name).await?;
        }
        match (remote, place) {
            (Some(remote), None) => {
                // Whether the user's git credentials may be used depends on the host and on who asked.
                let way = self.caches.way(remote, order.has_tokens).await?;
                workspace.push((remote, &way), name, protocols).await?;
            }
            (Some(remote), Some(place)) => {
                workspace::push_from(place, remote, name, protocols).await?;
            }
            (None, _) => {}
        }
        Ok(head)
    }

    /// `None` for a branch of a repository that is not on this machine.
    pub(super) async fn look_at_branch(&self, branch: &Branch, base: &str) -> Option<BranchState> {
        let place = PathBuf::from(&branch.repo).canonicalize().ok()?;
        let state = workspace::state(&place, &branch.name, &branch.head, base).await;
        state.unwrap_or_else(|fault| {
            tracing::warn!(%fault, branch = branch.name, "git cannot say how a branch stands");
            None
        })
    }
}
