//! What a reviewer sees: the tasks that wait, their changes, and how a merge would go. Reads only; git writes nothing.

use callboard_domain::decide::verification::waits_for_person;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::review::conflict::FileConflict;
use callboard_domain::task::TaskRecord;
use callboard_store::{CardPage, CardQuery, CardRow};

use crate::board::card::CardSeen;
use crate::board::workspace::WorkspaceSeen;
use crate::board::workspace::{Workshop, WorkspacePart};
use crate::context::{OpContext, Scope};
use crate::ports::{FileDiff, MergeOutlook, WorktreeDiff, WorktreeState, settings_files};
use crate::task::check_look::Trees;
use crate::task::place::WorkspaceFault;
use crate::{At, Engine, EngineError};

/// How many tasks are read at once.
const PAGE: usize = 200;

/// A task with its card and the work on it.
#[derive(Clone, Debug)]
pub struct ReviewSeen {
    pub card: CardSeen,
    /// The parts with a worktree, or with a fault of git; the primary repository first.
    pub work: Vec<ReviewWork>,
}

#[derive(Clone, Debug)]
pub struct ReviewWork {
    pub part: WorkspacePart,
    /// The name of the repository.
    pub name: String,
    pub looked: Result<ReviewLook, String>,
}

#[derive(Clone, Debug)]
pub struct ReviewLook {
    pub state: WorktreeState,
    pub files: Vec<FileDiff>,
    pub outlook: Result<MergeOutlook, String>,
}

/// How merging the committed work would go, in all repositories together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foresight {
    /// How many repositories have a worktree of the task.
    pub repos: usize,
    /// Files that conflict; with several repositories, below the name of their own.
    pub conflicts: Vec<String>,
    /// Commits of the targets that the branches lack.
    pub behind: u64,
    /// Changed files that hold settings of Callboard; a person has to see them.
    pub settings: Vec<String>,
    /// A merge first commits what is uncommitted; conflicts of that are not known yet.
    pub has_uncommitted: bool,
    /// The words of git if something could not be read.
    pub fault: Option<String>,
}

impl ReviewSeen {
    pub fn merged_as(&self) -> Option<&str> {
        self.card.merged_as()
    }

    /// The folder that stands before each path of a task with several repositories, with a slash; else empty.
    fn below(&self, work: &ReviewWork) -> String {
        if self.work.len() > 1 { format!("{}/", work.name) } else { String::new() }
    }

    pub fn foresight(&self) -> Foresight {
        let mut all = Foresight { repos: self.work.len(), ..Foresight::default() };
        for work in &self.work {
            let look = match &work.looked {
                Ok(look) => look,
                Err(words) => {
                    all.fault = Some(words.clone());
                    continue;
                }
            };
            all.has_uncommitted |= !look.state.uncommitted.is_empty();
            all.settings.extend(settings_files(look.files.iter().map(|file| &file.path)));
            match &look.outlook {
                Ok(outlook) => {
                    let below = self.below(work);
                    let files = outlook.conflicts.iter().map(|file| format!("{below}{file}"));
                    all.conflicts.extend(files);
                    all.behind += outlook.behind;
                }
                Err(words) => all.fault = Some(words.clone()),
            }
        }
        all
    }
}

/// A file that both sides changed in conflicting ways.
#[derive(Clone, Debug)]
pub struct ConflictSeen {
    /// The branch that the work goes to.
    pub target: String,
    /// The conflict, or the words of git if it cannot be read.
    pub conflict: Result<FileConflict, String>,
}

/// The changes of a task in one repository.
#[derive(Clone, Debug)]
pub struct WorkspaceDiff {
    pub part: WorkspacePart,
    pub name: String,
    /// The commit of the merge, where the work is shown as it was merged.
    pub merged_as: Option<String>,
    pub diff: WorktreeDiff,
}

impl Engine {
    /// The tasks that wait for a person, in the order of the board, and whether there are more.
    pub async fn review_list(
        &self,
        op: &OpContext,
        limit: usize,
    ) -> Result<At<(Vec<CardRow>, bool)>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let project = self.project_of(&op.principal).await?.map(|project| project.id);
        let mut query = CardQuery {
            org: op.principal.org.clone(),
            project,
            phases: vec![Phase::Review],
            without: Vec::new(),
            words: Vec::new(),
            with_scratchpad: false,
            policy: self.parts.policy.clone(),
            offset: 0,
            limit: PAGE,
        };
        let mut waiting = Vec::new();
        loop {
            let CardPage { cards, .. } = self.parts.store.cards(query.clone()).await?;
            let is_last = cards.len() < PAGE;
            waiting.extend(cards.into_iter().filter(|row| waits_for_person(&row.task)));
            if is_last || waiting.len() > limit {
                break;
            }
            query.offset += PAGE;
        }
        let more = waiting.len() > limit;
        waiting.truncate(limit);
        let mut trees = Trees::default();
        for CardRow { task, card, newest, .. } in &mut waiting {
            self.judge_passes(&query.org, task, newest.as_ref(), card, &mut trees).await?;
        }
        Ok(At { it: (waiting, more), now: self.parts.store.now() })
    }

    /// The state of a task's files now, by which a decision names the files that its reader read. A page asks before it
    /// reads the changes: files that change meanwhile then count as not read.
    pub async fn review_work(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Option<String>, EngineError> {
        let record = self.task_get(op, task).await?.it;
        self.work_of(&op.principal.org, &record).await
    }

    /// A task with its work for review. A fault of git becomes part of the result, in git's words.
    pub async fn review_get(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<ReviewSeen>, EngineError> {
        let At { it: mut card, now } = self.card_get(op, task).await?;
        let TaskRecord { task, newest, .. } = &mut card.record;
        let (org, mut trees) = (&op.principal.org, Trees::default());
        self.judge_passes(org, task, newest.as_ref(), &card.card, &mut trees).await?;
        let mut work = Vec::new();
        for WorkspaceSeen { part, name, state } in self.workspace_get(op, &card).await? {
            let Some(shop) = &self.parts.workshop else { continue };
            let looked = match state {
                Ok(None) => continue,
                Ok(Some(state)) => look(shop, &part, state).await,
                Err(fault) => Err(fault.to_string()),
            };
            work.push(ReviewWork { part, name, looked });
        }
        Ok(At { it: ReviewSeen { card, work }, now })
    }

    /// How a file of a review conflicts, if merging it would meet a conflict there.
    pub async fn review_conflict(
        &self,
        op: &OpContext,
        seen: &ReviewSeen,
        path: &str,
    ) -> Result<Option<ConflictSeen>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let Some(shop) = &self.parts.workshop else { return Ok(None) };
        for work in &seen.work {
            let (Ok(look), Some(place)) = (&work.looked, &work.part.worktree) else { continue };
            let (Ok(outlook), below) = (&look.outlook, seen.below(work)) else { continue };
            let Some(file) = path.strip_prefix(&below) else { continue };
            if outlook.conflicts.iter().any(|known| known == file) {
                let (head, target) = (&look.state.head, &work.part.target);
                let conflict = shop.merges.merge_conflict(&place.repo, head, target, file).await;
                let (target, conflict) = (target.clone(), conflict.map_err(said));
                return Ok(Some(ConflictSeen { target, conflict }));
            }
        }
        Ok(None)
    }

    /// The changes of a task's work, committed or not; with patches if requested. With several repositories, paths
    /// stand below their names.
    pub async fn workspace_diff(
        &self,
        op: &OpContext,
        card: &CardSeen,
        patches: bool,
    ) -> Result<Vec<WorkspaceDiff>, WorkspaceFault> {
        let places = self.workspace_get(op, card).await?;
        let places: Vec<_> =
            places.into_iter().filter(|seen| !matches!(seen.state, Ok(None))).collect();
        let several = places.len() > 1;
        let mut diffs = Vec::new();
        for WorkspaceSeen { part, name, state } in places {
            state?;
            let (Some(shop), Some(place)) = (&self.parts.workshop, &part.worktree) else {
                continue;
            };
            let below = patches.then(|| if several { format!("{name}/") } else { String::new() });
            let diff = shop.worktrees.worktree_diff(place, &part.target, below.as_deref()).await?;
            diffs.push(WorkspaceDiff { part, name, merged_as: None, diff });
        }
        Ok(diffs)
    }

    /// As `workspace_diff`, but merged work is shown as it was merged, whether or not its worktree exists.
    pub async fn work_diff(
        &self,
        op: &OpContext,
        card: &CardSeen,
        patches: bool,
    ) -> Result<Vec<WorkspaceDiff>, WorkspaceFault> {
        let Some(commit) = card.merged_as() else {
            return self.workspace_diff(op, card, patches).await;
        };
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let parts = self.merged_parts(op, card, commit).await?;
        let several = parts.len() > 1;
        let mut diffs = Vec::new();
        for (part, commit) in parts {
            let Some(shop) = &self.parts.workshop else { continue };
            let name = part.name();
            let below = patches.then(|| if several { format!("{name}/") } else { String::new() });
            let repo = &part.repo.path;
            let diff = shop.worktrees.commit_diff(repo, &commit, below.as_deref()).await?;
            diffs.push(WorkspaceDiff { part, name, merged_as: Some(commit), diff });
        }
        Ok(diffs)
    }
}

async fn look(
    shop: &Workshop,
    part: &WorkspacePart,
    state: WorktreeState,
) -> Result<ReviewLook, String> {
    let place = part.worktree.as_ref().ok_or("the worktree is gone")?;
    let diff = shop.worktrees.worktree_diff(place, &part.target, None).await.map_err(said)?;
    let outlook =
        shop.merges.merge_outlook(&place.repo, &state.head, &part.target).await.map_err(said);
    Ok(ReviewLook { state, files: diff.files, outlook })
}

fn said(fault: impl std::error::Error) -> String {
    fault.to_string()
}
