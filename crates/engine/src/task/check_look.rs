//! Results of checks for readers: a pass that was given for other files than the current ones is stale. Each folder's
//! tree is computed once per call, and only if a pass depends on it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use callboard_domain::board::card::Card;
use callboard_domain::ids::TaskId;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::{Check, Task, TaskRecord};

use crate::context::OpContext;
use crate::ports::CheckRunner;
use crate::{At, Engine, EngineError};

/// The trees of the folders that one call looked at.
#[derive(Default)]
pub(crate) struct Trees(HashMap<PathBuf, Option<String>>);

impl Trees {
    /// `None` outside git, and where git fails.
    async fn of(
        &mut self,
        runner: &dyn CheckRunner,
        (repo, root): (&Path, &Path),
    ) -> Option<String> {
        if let Some(known) = self.0.get(root) {
            return known.clone();
        }
        let tree = match runner.files(repo, root).await {
            Ok(files) => files.tree,
            Err(fault) => {
                tracing::warn!(%fault, root = %root.display(), "cannot read the files of a worktree");
                None
            }
        };
        self.0.insert(root.to_owned(), tree.clone());
        tree
    }
}

impl Engine {
    /// One task for a reader, with stale passes marked as such.
    pub async fn task_look(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        let seen = self.task_get(op, task).await?;
        self.as_files_are(op, seen).await
    }

    pub(crate) async fn as_files_are(
        &self,
        op: &OpContext,
        mut seen: At<TaskRecord>,
    ) -> Result<At<TaskRecord>, EngineError> {
        let org = &op.principal.org;
        if seen.it.task.passes_depend_on_files() {
            let card = self.parts.store.card(org, seen.it.task.id).await?.unwrap_or_default();
            let TaskRecord { task, newest, .. } = &mut seen.it;
            self.judge_passes(org, task, newest.as_ref(), &card, &mut Trees::default()).await?;
        }
        Ok(seen)
    }

    /// Marks the passes of a task that were given for other files. If the files are not on this machine, or git fails,
    /// results stay as they were recorded.
    pub(crate) async fn judge_passes(
        &self,
        org: &str,
        task: &mut Task,
        newest: Option<&Attempt>,
        card: &Card,
        trees: &mut Trees,
    ) -> Result<(), EngineError> {
        let Some(runner) = &self.parts.checks else { return Ok(()) };
        if !task.passes_depend_on_files() {
            return Ok(());
        }
        let repo = self.parts.store.repo_path(task.project, &self.parts.machine).await?;
        let Some(repo) = repo else { return Ok(()) };
        let places = self.workspace_places(org, task, card).await?;
        let places = places.into_iter().filter(|place| place.path.is_dir());
        let places: Vec<(PathBuf, PathBuf)> =
            places.map(|place| (place.repo, place.path)).collect();
        let session = match self.worktree_of(task, newest) {
            None => None,
            worktree => runner.root(&repo, worktree).await.ok().map(|root| (repo.clone(), root)),
        };
        let passes = |of: fn(&Check) -> bool| task.checks.iter().any(|c| c.is_pass() && of(c));
        let mut tree = None;
        if passes(Check::is_command) {
            // In the order of `site`, where the checks run: the session's worktree before the task's own.
            let itself = (repo.clone(), repo.clone());
            let (repo, root) = session.as_ref().or(places.first()).unwrap_or(&itself);
            tree = trees.of(&**runner, (repo, root)).await;
        }
        let mut work = None;
        if passes(|check| !check.is_command()) {
            let beside = [session.unwrap_or_else(|| (repo.clone(), repo))];
            let roots = if places.is_empty() { &beside[..] } else { &places };
            let mut all = Vec::with_capacity(roots.len());
            for (repo, root) in roots {
                all.push(trees.of(&**runner, (repo, root)).await);
            }
            let all: Option<Vec<String>> = all.into_iter().collect();
            work = all.map(|all| all.join("+"));
        }
        task.judge_passes(tree.as_deref(), work.as_deref());
        Ok(())
    }
}
