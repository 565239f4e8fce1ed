//! A worker's task: the states that its worker moves it to, and its pull request when it goes to review.

use std::sync::Arc;

use callboard_domain::command::{Command, CrewMove, PullOpen};
use callboard_domain::crew::merge;
use callboard_domain::crew::state::TaskState;
use callboard_domain::crew::{Agent, AgentId, MailId};
use callboard_domain::ids::TaskId;
use callboard_domain::pulls::{Pull, review};
use callboard_domain::refusal::Refusal;
use callboard_domain::task::block::reason_of;
use callboard_domain::task::comment::{Comment, CommentKind};
use callboard_domain::time::Timestamp;

use crate::board::card::CardSeen;
use crate::context::{OpContext, Principal};
use crate::crew::epic::task_state;
use crate::pulls::open::{PullDraft, PullFault};
use crate::pulls::track::word;
use crate::task::comment::CommentDraft;
use crate::task::place::place_of;
use crate::{At, Engine, EngineError};

/// A worker's request to move its task.
#[derive(Clone, Debug)]
pub struct CrewSaid {
    pub to: TaskState,
    pub reason: Option<String>,
    /// The address of an existing pull request.
    pub url: Option<String>,
    pub mail: MailId,
}

/// The result of a worker's move.
#[derive(Clone, Debug)]
pub struct CrewMoved {
    pub task: TaskId,
    pub state: TaskState,
    pub previous: TaskState,
    pub url: Option<String>,
    pub changed: bool,
    pub updated_at: Timestamp,
}

/// How often a move is tried again when the task moved meanwhile.
const MOVED_MEANWHILE_MAX: u32 = 3;

impl Engine {
    /// Moves an agent's own task.
    pub async fn crew_move(
        &self,
        op: &OpContext,
        agent: &Agent,
        said: CrewSaid,
    ) -> Result<CrewMoved, EngineError> {
        let mut again = MOVED_MEANWHILE_MAX;
        loop {
            match self.crew_moved(op, agent, &said).await {
                // Tries once more, from the state it has now.
                Err(EngineError::Refused(Refusal::Conflict { .. })) if again > 0 => again -= 1,
                moved => return moved,
            }
        }
    }

    /// Moves a task to BLOCKED for its worker at work, whose agent cannot do so itself.
    pub(crate) async fn crew_block(
        &self,
        org: &Arc<str>,
        worker: &AgentId,
        task: TaskId,
        reason: &str,
    ) -> Result<(), EngineError> {
        let agent = self.parts.store.agent(org, worker).await?;
        let Some(agent) = agent.filter(|agent| agent.task == Some(task)) else { return Ok(()) };
        let principal = Principal { org: org.clone(), ..Principal::local(worker.actor()) };
        let op = OpContext::new(principal, "crew");
        let At { it: seen, now } = self.card_get(&op, task).await?;
        for to in task_state(&seen, now).steps_to_blocked() {
            let (reason, mail) = (Some(reason_of(reason)), MailId(self.fresh_id()));
            let said = CrewSaid { to: *to, reason, url: None, mail };
            match self.crew_move(&op, &agent, said).await {
                Ok(_) => {}
                // Another worker has the task, or its state may not change.
                Err(EngineError::Refused(refusal)) => {
                    tracing::info!(%task, refusal = refusal.message(), "a task of the crew keeps its state");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One try to move. The pull request of work that is handed over is opened before the transaction; if the move is
    /// refused then, the pull request stays for the next try.
    async fn crew_moved(
        &self,
        op: &OpContext,
        agent: &Agent,
        said: &CrewSaid,
    ) -> Result<CrewMoved, EngineError> {
        let task = agent.own_task()?;
        op.principal.judge_on(op.tool, task)?;
        let At { it: seen, now } = self.card_get(op, task).await?;
        let previous = task_state(&seen, now);
        let url = match previous.hands_over(said.to) {
            true => Some(self.crew_pull(op, &seen, said.url.as_deref()).await?.url),
            false => None,
        };
        let parent = seen.record.task.parent;
        let command = CrewMove {
            by: agent.id.clone(),
            task,
            from: previous,
            to: said.to,
            reason: said.reason.clone(),
            url: url.clone(),
            supervisor: self.epic_supervisor(&op.principal.org, parent).await?,
            mail: said.mail,
        };
        let applied = self.act(op, Command::CrewMove(command)).await?;
        let changed = applied.changed;
        let record = self.task_of(op, applied)?.it;
        // A merge that the forge was to make has to be called off.
        if changed && previous == TaskState::Review {
            self.pulls_nudge();
        }
        // The worker is free, and the task or another one may wait for it.
        if changed && matches!(said.to, TaskState::Pending | TaskState::Failed) {
            self.crew_go_on(op).await;
        }
        let url = match url {
            Some(url) => Some(url),
            None => self.pulls_of_task(op, task).await?.into_iter().next().map(|pull| pull.url),
        };
        let updated_at = record.task.updated_at;
        Ok(CrewMoved { task, state: said.to, previous, url, changed, updated_at })
    }

    /// The pull request of a task: the named one, the open one, else a new one.
    pub(crate) async fn crew_pull(
        &self,
        op: &OpContext,
        seen: &CardSeen,
        given: Option<&str>,
    ) -> Result<Pull, EngineError> {
        if let Some(url) = given {
            return self.crew_pull_named(op, seen, url).await;
        }
        let CardSeen { record, card } = seen;
        self.pulls_call_off_of(op, record.task.id).await?;
        let (branch, base) = self.crew_branches(op, seen).await?;
        let draft = PullDraft {
            task: record.task.id,
            branch,
            base,
            title: record.task.title.clone(),
            body: format!("{}\n\nCallboard task: {}\n", record.body.trim_end(), record.task.id),
            may_rewrite: card.workspace.is_some(),
        };
        match self.pull_open_for_task(op, draft).await {
            Ok(pull) => Ok(pull),
            Err(PullFault::Engine(error)) => Err(error),
            Err(PullFault::NoRepo | PullFault::NoBranch(_)) => Err(merge::no_branch().into()),
            Err(PullFault::Refused(words)) => Err(EngineError::Internal(words)),
        }
    }

    /// The branch of a task's work, and its target.
    async fn crew_branches(
        &self,
        op: &OpContext,
        seen: &CardSeen,
    ) -> Result<(String, String), EngineError> {
        let CardSeen { record, card } = seen;
        let found = self.workspace_find(&op.principal.org, &record.task, card).await?;
        let part = found.into_iter().next();
        let worktree = part.map(|part| (part.target, part.worktree.map(|place| place.branch)));
        let of_attempt = record.newest.as_ref().and_then(|newest| newest.branch.clone());
        let usual = || place_of(&record.task, card).1.new;
        Ok(merge::branches(worktree, of_attempt, card.base_branch.as_deref(), usual)?)
    }

    /// A known pull request of the task, or a page at a forge that is recorded now.
    async fn crew_pull_named(
        &self,
        op: &OpContext,
        seen: &CardSeen,
        url: &str,
    ) -> Result<Pull, EngineError> {
        let task = seen.record.task.id;
        let known = |pulls: Vec<Pull>| pulls.into_iter().find(|pull| pull.url == url);
        if let Some(pull) = known(self.pulls_of_task(op, task).await?) {
            return Ok(pull);
        }
        let (kind, page) = review::judge_page(url)?;
        let (branch, base) = match self.crew_branches(op, seen).await {
            Ok(branches) => branches,
            // A page at a forge may be of a branch that is not on this machine.
            Err(EngineError::Refused(_)) => Default::default(),
            Err(error) => return Err(error),
        };
        let open = PullOpen {
            task,
            forge: word(kind).into(),
            repo: page.project,
            at: Some((page.number, url.to_owned())),
            branch,
            base,
            head: String::new(),
            title: seen.record.task.title.clone(),
            machine: None,
        };
        self.act(&op.unkeyed(), Command::PullOpen(open)).await?;
        let noted = known(self.pulls_of_task(op, task).await?);
        noted.ok_or_else(|| {
            EngineError::Internal(format!("the pull request {url} was not recorded"))
        })
    }

    /// Adds a note to a task of the agent's own epic; an orchestrator may comment on any.
    pub async fn crew_comment(
        &self,
        op: &OpContext,
        agent: &Agent,
        task: Option<TaskId>,
        body: String,
    ) -> Result<Comment, EngineError> {
        let own = match agent.task {
            Some(task) => self.parts.store.task(&op.principal.org, task).await?,
            None => None,
        };
        let task = task.map_or_else(|| agent.own_task(), Ok)?;
        let record = self.task_get(op, task).await?.it;
        let own_parent = own.and_then(|own| own.task.parent);
        agent.judge_comment(own_parent, task, record.task.parent)?;
        let kind = CommentKind::Note;
        let draft = CommentDraft { task, kind, body, rationale: None, parent: None };
        Ok(self.comment_add(op, draft).await?.it)
    }
}
