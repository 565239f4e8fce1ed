//! Ends terminals left of a session whose task another toolset closed, took over or removed: other toolsets do not know
//! of terminals.

use std::collections::BTreeSet;
use std::path::Path;

use callboard_domain::ids::TaskId;

use crate::board::session::live_pair;
use crate::ports::{SESSION_RECORD, Worktree};
use crate::{Engine, EngineError};

impl Engine {
    /// `suspects` are the tasks found by the sweep before. A session is opened before its attempt is written, so its
    /// terminal is ended only after two sweeps have found the same.
    pub async fn sweep_sessions(&self, suspects: &mut BTreeSet<TaskId>) -> Result<(), EngineError> {
        let Some(shop) = &self.parts.workshop else { return Ok(()) };
        let (store, org) = (&self.parts.store, &self.parts.home.org);
        let noted = Path::new(".callboard").join(SESSION_RECORD);
        let mut left = BTreeSet::new();
        for owned in store.repos_on(org, &self.parts.machine).await? {
            let repo = owned.repo.path;
            for path in shop.worktrees.worktree_places(&repo, &noted).await {
                let name = path.file_name().and_then(|name| name.to_str());
                let Some(task) = name.and_then(|name| name.parse::<TaskId>().ok()) else {
                    continue;
                };
                if !self.is_session_over(task).await? {
                    continue;
                }
                let repo = repo.clone();
                // A session is found by its folder; the branch is not needed.
                let place = Worktree { repo, path, branch: String::new() };
                if !suspects.contains(&task) {
                    left.insert(task);
                } else if let Err(fault) = shop.pairs.pair_end(&place, &task.to_string()).await {
                    tracing::warn!(%fault, %task, "cannot end the rest of a session");
                }
            }
        }
        *suspects = left;
        Ok(())
    }

    /// Whether a task's session is over. A task that this store never had counts as not over.
    async fn is_session_over(&self, task: TaskId) -> Result<bool, EngineError> {
        let (store, org) = (&self.parts.store, &self.parts.home.org);
        Ok(match store.task(org, task).await? {
            Some(record) => live_pair(&record).is_none(),
            None => store.removed(org, task).await?.is_some(),
        })
    }
}
