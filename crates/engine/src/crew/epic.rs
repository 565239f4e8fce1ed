//! An epic for the agent that leads it: its tasks, its reviews, and its state.

use std::collections::HashMap;

use callboard_domain::command::{Command, CrewGiveUp, CrewReturn, EpicMove, EpicTaskAdd, NEW_TASK};
use callboard_domain::crew::agent::judge_of_epic;
use callboard_domain::crew::names;
use callboard_domain::crew::state::{EpicState, TaskState, worker_of};
use callboard_domain::crew::{Agent, AgentId, MailId};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::refusal::Refusal;
use callboard_domain::refusal::found::{AsEpic, Sought as _};
use callboard_domain::rights::AgentType;
use callboard_domain::time::Timestamp;
use callboard_store::{AgentQuery, CardRow, EpicQuery};

use crate::board::card::CardSeen;
use crate::context::{OpContext, Scope};
use crate::ports::FileFault;
use crate::review::look::WorkspaceDiff;
use crate::{At, Engine, EngineError};

/// A task of an epic in lists.
#[derive(Clone, Debug)]
pub struct EpicTask {
    pub row: CardRow,
    pub state: TaskState,
    /// The worker of the crew that has it.
    pub worker: Option<AgentId>,
    /// The page of its newest pull request.
    pub url: Option<String>,
}

#[derive(Clone, Debug)]
pub struct EpicTaskMade {
    pub task: TaskId,
    pub title: String,
    pub workspace: String,
}

#[derive(Clone, Debug)]
pub struct EpicMoved {
    pub state: EpicState,
    pub previous: EpicState,
    /// Tasks that a rule keeps open.
    pub skipped: Vec<TaskId>,
    pub updated_at: Timestamp,
}

/// Why a file cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum EpicFileFault {
    #[error("the task has no worktree")]
    NoWorktree,
    #[error(transparent)]
    File(#[from] FileFault),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The state of a task in a crew's words.
pub fn task_state(seen: &CardSeen, now: Timestamp) -> TaskState {
    TaskState::at(&seen.record.task, seen.record.newest.as_ref(), now)
}

impl Engine {
    /// The epic that an agent leads.
    pub async fn epic_of(
        &self,
        op: &OpContext,
        agent: &Agent,
    ) -> Result<At<CardSeen>, EngineError> {
        self.epic_get(op, agent.own_epic()?).await
    }

    pub async fn epic_get(
        &self,
        op: &OpContext,
        epic: TaskId,
    ) -> Result<At<CardSeen>, EngineError> {
        self.card_get(op, epic).await.map_err(|error| match error {
            EngineError::Refused(Refusal::TaskNotFound { .. }) => AsEpic(epic).not_found().into(),
            error => error,
        })
    }

    /// A task of the epic that an agent leads.
    pub async fn epic_task_of(
        &self,
        op: &OpContext,
        agent: &Agent,
        task: TaskId,
    ) -> Result<At<CardSeen>, EngineError> {
        let epic = self.epic_of(op, agent).await?.it.record.task.id;
        let seen = self.card_get(op, task).await?;
        judge_of_epic(epic, seen.it.record.task.parent)?;
        Ok(seen)
    }

    /// The supervisor of an epic.
    pub(crate) async fn epic_supervisor(
        &self,
        org: &str,
        epic: Option<TaskId>,
    ) -> Result<Option<AgentId>, EngineError> {
        let Some(epic) = epic else { return Ok(None) };
        let kind = Some(AgentType::Supervisor);
        let query = AgentQuery { org: org.into(), kind, epic: Some(epic), limit: 1 };
        let found = self.parts.store.agents(query).await?;
        Ok(found.into_iter().next().map(|agent| agent.id))
    }

    /// Adds a task for an epic's workers; if a worker is free, it has the task when this returns. Idempotent: `id`
    /// makes the task once, however often this is retried.
    pub async fn epic_task_add(
        &self,
        op: &OpContext,
        by: &Agent,
        epic: TaskId,
        id: Id,
        (title, body): (String, String),
    ) -> Result<EpicTaskMade, EngineError> {
        op.principal.judge_outside(op.tool, NEW_TASK)?;
        let org = &op.principal.org;
        let found = self.epic_get(op, epic).await?.it.record.task;
        let project = self.parts.store.project(found.project).await?;
        let prefix = project.map_or(epic.prefix, |project| project.prefix);
        let mut task = TaskId { id, prefix };
        if self.parts.store.task(org, task).await?.is_none() {
            let rule = &self.parts.crew;
            let workspace = self.workspace_named(org, task, &title).await?;
            let add = EpicTaskAdd {
                by: by.id.clone(),
                epic,
                task,
                title,
                body,
                branch: names::branch(&rule.branch_prefix, &workspace),
                workspace,
                epic_branch: names::epic_branch(&rule.branch_prefix, epic),
            };
            let applied = self.act(op, Command::EpicTaskAdd(Box::new(add))).await?;
            // With a known retry key it is the task of the first call.
            task = self.task_of(op, applied)?.it.task.id;
        }
        self.crew_go_on(op).await;
        let seen = self.card_get(op, task).await?.it;
        let workspace = seen.card.workspace.unwrap_or_default();
        Ok(EpicTaskMade { task, title: seen.record.task.title, workspace })
    }

    /// A folder name that no other task has.
    async fn workspace_named(
        &self,
        org: &str,
        task: TaskId,
        title: &str,
    ) -> Result<String, EngineError> {
        let name = names::worktree(task, title);
        let mut n = 1;
        loop {
            let numbered = names::numbered(&name, n);
            if !self.parts.store.workspace_is_taken(org, &numbered).await? {
                return Ok(numbered);
            }
            n += 1;
        }
    }

    /// Tasks of an epic, oldest first, and the cursor of the next page.
    pub async fn epic_task_list(
        &self,
        op: &OpContext,
        epic: TaskId,
        state: Option<TaskState>,
        after: Option<Id>,
        limit: usize,
    ) -> Result<(Vec<EpicTask>, Option<Id>), EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let org = &op.principal.org;
        // The state itself is judged below.
        let phases = state.map_or_else(Vec::new, |state| state.phases().to_vec());
        let (mut found, mut after) = (Vec::new(), after);
        loop {
            let query = EpicQuery {
                org: org.clone(),
                epic,
                phases: phases.clone(),
                after,
                limit: limit + 1,
            };
            let rows = self.parts.store.epic_tasks(query).await?;
            // Read after the tasks: a task in review has its pull request by then.
            let pulls = self.parts.store.epic_pulls(org, epic).await?;
            let pulls: HashMap<Id, String> = pulls.into_iter().collect();
            let now = self.parts.store.now();
            let is_last = rows.len() <= limit;
            for row in rows {
                let id = row.task.id.id;
                let row = row.as_of(&self.parts.policy, now);
                let task = epic_task(row, pulls.get(&id).cloned(), now);
                if state.is_some_and(|state| state != task.state) {
                    after = Some(id);
                    continue;
                }
                if found.len() == limit {
                    return Ok((found, after));
                }
                after = Some(id);
                found.push(task);
            }
            if is_last {
                return Ok((found, None));
            }
        }
    }

    /// All tasks of an epic.
    pub(crate) async fn epic_tasks(
        &self,
        op: &OpContext,
        epic: TaskId,
        state: Option<TaskState>,
    ) -> Result<Vec<EpicTask>, EngineError> {
        const PAGE: usize = 500;
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = self.epic_task_list(op, epic, state, after, PAGE).await?;
            all.extend(page);
            match next {
                Some(next) => after = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// The tasks in review, the longest waiting first, and whether their branches are behind the epic's.
    pub async fn epic_reviews(
        &self,
        op: &OpContext,
        epic: TaskId,
    ) -> Result<Vec<(EpicTask, bool)>, EngineError> {
        let mut waiting = self.epic_tasks(op, epic, Some(TaskState::Review)).await?;
        waiting.sort_by_key(|task| (task.row.task.phase_at, task.row.task.id.id));
        let mut all = Vec::with_capacity(waiting.len());
        for task in waiting {
            let is_behind = self.is_behind(&op.principal.org, &task.row).await?;
            all.push((task, is_behind));
        }
        Ok(all)
    }

    /// Whether a task's branch is behind the epic's. A failure of git counts as not behind: the list stays readable,
    /// and the approval says why it cannot merge.
    async fn is_behind(&self, org: &str, row: &CardRow) -> Result<bool, EngineError> {
        let Some(shop) = &self.parts.workshop else { return Ok(false) };
        let looked = async {
            for part in self.workspace_find(org, &row.task, &row.card).await? {
                let Some(place) = &part.worktree else { continue };
                if !shop.worktrees.worktree_state(place, &part.target).await?.holds_target {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        match looked.await {
            Err(EngineError::Git(words)) => {
                tracing::warn!(task = %row.task.id, words, "git cannot say whether a task is behind its target");
                Ok(false)
            }
            looked => looked,
        }
    }

    /// Sends a task in review back to its worker.
    pub async fn crew_return(
        &self,
        op: &OpContext,
        by: &Agent,
        task: TaskId,
        feedback: String,
        mail: MailId,
    ) -> Result<(), EngineError> {
        let At { it: seen, now } = self.epic_task_of(op, by, task).await?;
        let worker = worker_of(seen.record.newest.as_ref(), now);
        let command = CrewReturn { by: by.id.clone(), task, feedback, worker, mail };
        self.act(op, Command::CrewReturn(command)).await?;
        self.pulls_nudge();
        self.crew_go_on(op).await;
        Ok(())
    }

    /// Moves an epic. A cancelled epic takes its open tasks along.
    pub async fn epic_move(
        &self,
        op: &OpContext,
        by: &Agent,
        to: EpicState,
    ) -> Result<EpicMoved, EngineError> {
        let seen = self.epic_of(op, by).await?.it;
        let epic = seen.record.task.id;
        let previous = EpicState::of(&seen.record.task);
        let command = EpicMove { by: by.id.clone(), epic, to };
        let record = self.act_on_task(op, Command::EpicMove(command)).await?.it;
        let mut skipped = Vec::new();
        if to == EpicState::Cancelled {
            for task in self.epic_tasks(op, epic, None).await? {
                if task.state.is_open() && !self.epic_task_end(op, &task).await? {
                    skipped.push(task.row.task.id);
                }
            }
            self.pulls_nudge();
            self.crew_go_on(op).await;
        }
        Ok(EpicMoved { state: to, previous, skipped, updated_at: record.task.updated_at })
    }

    /// Gives up a task of a cancelled epic; returns whether it could.
    pub(crate) async fn epic_task_end(
        &self,
        op: &OpContext,
        task: &EpicTask,
    ) -> Result<bool, EngineError> {
        let give_up = CrewGiveUp {
            task: task.row.task.id,
            reason: "Epic cancelled".into(),
            worker: task.worker.clone(),
            lost: None,
        };
        match self.act(&op.unkeyed(), Command::CrewGiveUp(give_up)).await {
            Ok(_) => Ok(true),
            Err(EngineError::Refused(refusal)) => {
                tracing::info!(task = %task.row.task.id, why = refusal.message(), "stays open");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The changes of a task of an epic, committed or not; empty without a worktree.
    pub async fn epic_diff(
        &self,
        op: &OpContext,
        by: &Agent,
        task: TaskId,
    ) -> Result<Vec<WorkspaceDiff>, EngineError> {
        let seen = self.epic_task_of(op, by, task).await?.it;
        match self.workspace_diff(op, &seen, true).await {
            Ok(diffs) => Ok(diffs),
            Err(fault) => Err(EngineError::Git(fault.of_worktree()?.to_string())),
        }
    }

    /// A file in the worktree of a task of an epic.
    pub async fn epic_file(
        &self,
        op: &OpContext,
        by: &Agent,
        task: TaskId,
        path: &str,
    ) -> Result<String, EpicFileFault> {
        let seen = self.epic_task_of(op, by, task).await?.it;
        let CardSeen { record, card } = &seen;
        let found = self.workspace_find(&op.principal.org, &record.task, card).await;
        let place = found.map_err(EngineError::from)?.into_iter().find_map(|part| part.worktree);
        let (Some(shop), Some(place)) = (&self.parts.workshop, place) else {
            return Err(EpicFileFault::NoWorktree);
        };
        let bytes_max = self.parts.crew.file_bytes_max;
        Ok(shop.worktrees.file_read(&place.path, path, bytes_max).await?)
    }
}

pub(crate) fn epic_task(row: CardRow, url: Option<String>, now: Timestamp) -> EpicTask {
    let state = TaskState::at(&row.task, row.newest.as_ref(), now);
    let worker = worker_of(row.newest.as_ref(), now);
    EpicTask { state, worker, url, row }
}
