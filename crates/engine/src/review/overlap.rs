//! Tasks beside a review: tasks at work that change its files as well, because the second merge may meet a conflict,
//! and its place among the reviews. A page waits for the answer, so few tasks are looked at, for a short time.

use std::time::Duration;

use callboard_domain::decide::verification::waits_for_person;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::review::beside::{RepoFiles, place_of, shared_files};
use callboard_domain::task::Task;
use callboard_store::{CardQuery, CardRow};
use tokio::time::{Instant, timeout_at};

use super::look::ReviewSeen;
use crate::context::{OpContext, Scope};
use crate::{Engine, EngineError};

/// How many tasks at work are looked at.
const TASKS_MAX: usize = 20;
/// How many reviews are counted and searched for the next one.
const REVIEWS_MAX: usize = 200;
const TIME_MAX: Duration = Duration::from_millis(300);

/// Tasks that change the same files.
#[derive(Clone, Debug, Default)]
pub struct Overlaps {
    pub tasks: Vec<Overlap>,
    /// Not every task at work was looked at.
    pub is_cut: bool,
}

#[derive(Clone, Debug)]
pub struct Overlap {
    pub task: Task,
    /// The files that both tasks change, in order.
    pub files: Vec<String>,
}

/// The place of a review among those that wait for a person.
#[derive(Clone, Debug, Default)]
pub struct ReviewPlace {
    /// Counted from 1; `None` for a task that waits for no person.
    pub number: Option<usize>,
    pub of: usize,
    /// The task that comes after this one.
    pub next: Option<Task>,
}

impl Engine {
    /// The tasks at work whose worktrees change files of this review. A fault of git counts as no overlap.
    pub async fn review_overlaps(
        &self,
        op: &OpContext,
        seen: &ReviewSeen,
    ) -> Result<Overlaps, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let own: Vec<(String, &str)> = seen
            .work
            .iter()
            .filter_map(|work| Some((work.part.worktree.as_ref()?, work.looked.as_ref().ok()?)))
            .flat_map(|(worktree, look)| {
                let repo = worktree.repo.display().to_string();
                look.files.iter().map(move |file| (repo.clone(), file.path.as_str()))
            })
            .collect();
        let own: RepoFiles<'_> = own.iter().map(|(repo, path)| (repo.as_str(), *path)).collect();
        if own.is_empty() {
            return Ok(Overlaps::default());
        }
        let mut rows = self.cards_in(op, Phase::Working, TASKS_MAX + 1).await?;
        let mut overlaps = Overlaps { tasks: Vec::new(), is_cut: rows.len() > TASKS_MAX };
        rows.truncate(TASKS_MAX);
        let (until, this) = (Instant::now() + TIME_MAX, seen.card.record.task.id);
        for row in rows.into_iter().filter(|row| row.task.id != this) {
            match timeout_at(until, self.files_at_work(op, &row)).await {
                Ok(theirs) => {
                    let theirs = theirs.iter().map(|(repo, path)| (repo.as_str(), path.as_str()));
                    let files = shared_files(&own, &theirs.collect());
                    if !files.is_empty() {
                        overlaps.tasks.push(Overlap { task: row.task, files });
                    }
                }
                Err(_) => {
                    overlaps.is_cut = true;
                    break;
                }
            }
        }
        Ok(overlaps)
    }

    /// The changed files of a task, with their repositories; none where git cannot tell.
    async fn files_at_work(&self, op: &OpContext, row: &CardRow) -> Vec<(String, String)> {
        let Some(shop) = &self.parts.workshop else { return Vec::new() };
        let found = self.workspace_find(&op.principal.org, &row.task, &row.card).await;
        let mut files = Vec::new();
        for part in found.into_iter().flatten() {
            let Some(worktree) = &part.worktree else { continue };
            if let Ok(state) = shop.worktrees.worktree_state(worktree, &part.target).await {
                let repo = worktree.repo.display().to_string();
                files.extend(state.changed.into_iter().map(|file| (repo.clone(), file)));
            }
        }
        files
    }

    /// The place of a task among the tasks that wait for a person, in the order of the board.
    pub async fn review_place(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<ReviewPlace, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let mut rows = self.cards_in(op, Phase::Review, REVIEWS_MAX).await?;
        rows.retain(|row| waits_for_person(&row.task) || row.task.id == task);
        let ids: Vec<TaskId> = rows.iter().map(|row| row.task.id).collect();
        let place = place_of(&ids, &task);
        let next = rows.into_iter().map(|row| row.task).find(|row| Some(&row.id) == place.next);
        Ok(ReviewPlace { number: place.number, of: ids.len(), next })
    }

    /// The first tasks of a phase, in the order of the board.
    async fn cards_in(
        &self,
        op: &OpContext,
        phase: Phase,
        limit: usize,
    ) -> Result<Vec<CardRow>, EngineError> {
        let project = self.project_of(&op.principal).await?.map(|project| project.id);
        let query = CardQuery {
            org: op.principal.org.clone(),
            project,
            phases: vec![phase],
            without: Vec::new(),
            words: Vec::new(),
            with_scratchpad: false,
            policy: self.parts.policy.clone(),
            offset: 0,
            limit,
        };
        Ok(self.parts.store.cards(query).await?.cards)
    }
}
