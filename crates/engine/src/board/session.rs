//! Sessions of a person and an agent: a worktree, a prompt, a terminal or an editor there, and an attempt. The attempt
//! is the truth; a terminal that is gone ends it with the next write.

use std::path::{Path, PathBuf};

use callboard_domain::actor::Actor;
use callboard_domain::board::card::Terminal;
use callboard_domain::command::{Command, SessionBegin};
use callboard_domain::decide::{SessionGround, session_gate};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::Profile;
use callboard_domain::runs::work::prompt::{Brief, pair_prompt};
use callboard_domain::task::TaskRecord;
use callboard_domain::task::attempt::{Attempt, AttemptKind, AttemptState};

use crate::board::card::CardSeen;
use crate::board::workspace::{Workshop, WorkspacePart};
use crate::context::OpContext;
use crate::ports::{
    PairBackend, PairFault, PairOrder, PairSession, ServerRequest, Worktree, WorktreeFault,
};
use crate::task::place::WorkspaceFault;
use crate::{At, Engine, EngineError};

/// The result of `session_create`.
#[derive(Clone, Debug)]
pub struct SessionMade {
    pub session: PairSession,
    pub worktree: Worktree,
    pub already_exists: bool,
}

/// The result of `session_find`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFound {
    /// The backend of a session that is open.
    pub backend: Option<PairBackend>,
    /// `None` when the task has no worktree.
    pub worktree: Option<PathBuf>,
}

/// Why a session failed. Words are for the caller.
#[derive(Debug, thiserror::Error)]
pub enum SessionFault {
    #[error("{0}")]
    NoWorkspace(String),
    /// The named folder is not a worktree of this task.
    #[error("{0} is not the worktree of this task")]
    OtherWorktree(String),
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl SessionFault {
    fn failed(fault: impl std::error::Error) -> Self {
        Self::Failed(fault.to_string())
    }

    fn no_repo() -> Self {
        Self::NoWorkspace(WorktreeFault::NoRepo.to_string())
    }
}

impl From<Refusal> for SessionFault {
    fn from(refusal: Refusal) -> Self {
        Self::Engine(refusal.into())
    }
}

impl From<WorkspaceFault> for SessionFault {
    fn from(fault: WorkspaceFault) -> Self {
        match fault {
            WorkspaceFault::Engine(error) => Self::Engine(error),
            WorkspaceFault::Worktree(WorktreeFault::NoRepo) => Self::no_repo(),
            WorkspaceFault::Worktree(fault) => Self::failed(fault),
        }
    }
}

impl Engine {
    /// Opens a session, or returns the open one.
    pub async fn session_create(
        &self,
        op: &OpContext,
        task: TaskId,
        reuse: bool,
        worktree: Option<&str>,
    ) -> Result<SessionMade, SessionFault> {
        op.principal.judge_on(op.tool, task)?;
        op.principal.judge_one_client(op.tool)?;
        let org = &op.principal.org;
        let At { it: seen, now } = self.card_get(op, task).await?;
        let agent = pair_actor(task);
        let ground = SessionGround {
            task: &seen.record.task,
            card: &seen.card,
            deps: &seen.record.deps,
            newest: seen.record.newest.as_ref(),
        };
        // Judged before anything is made; the transaction judges again.
        session_gate(&self.parts.policy, &ground, &op.principal.actor, &agent, now)?;
        let Some(shop) = &self.parts.workshop else {
            return Err(SessionFault::no_repo());
        };
        if let Some(named) = worktree {
            match self.workspace_find(org, &seen.record.task, &seen.card).await {
                Ok(parts) if is_one_of(&parts, named) => {}
                Ok(_) | Err(WorkspaceFault::Worktree(WorktreeFault::Elsewhere { .. })) => {
                    return Err(SessionFault::OtherWorktree(named.to_owned()));
                }
                Err(fault) => return Err(fault.into()),
            }
        }
        let parts = self.workspace_make(org, &seen.record.task, &seen.card).await?;
        let ready = self.workspace_ready_for(op, &seen.record.task, &parts).await;
        ready.map_err(SessionFault::failed)?;
        let places: Vec<Worktree> = parts.into_iter().filter_map(|part| part.worktree).collect();
        // Without `reuse` the caller wants a fresh terminal; the old one would otherwise be found again below.
        if !reuse {
            self.session_close(&places, task).await.map_err(SessionFault::failed)?;
        }
        let Some(place) = places.first().cloned() else {
            return Err(SessionFault::no_repo());
        };
        let open = shop.pairs.pair_find(&place, &task.to_string()).await;
        let order = self.pair_order(op, shop, &seen, &place, open).await?;
        let session = shop.pairs.pair_open(order).await.map_err(SessionFault::failed)?;
        let already_exists = session.already_exists;
        if !already_exists || live_pair(&seen.record).is_none() {
            let begin = SessionBegin {
                attempt: AttemptId(self.parts.ids.next_id()),
                task,
                agent,
                worktree: Some(place.path.display().to_string()),
                branch: Some(place.branch.clone()),
            };
            // The retry key belongs to the call, which answers with the session's place; the command below it goes
            // without. A session that could not be recorded must not stay open: no one would know of its terminal.
            if let Err(error) = self.act(&op.unkeyed(), Command::SessionBegin(begin)).await {
                if let Err(fault) = self.session_close(&places, task).await {
                    tracing::warn!(%fault, %task, "cannot end a session");
                }
                return Err(error.into());
            }
        }
        Ok(SessionMade { session, worktree: place, already_exists })
    }

    /// The session of a task. A task that does not exist has none. Git is not asked.
    pub async fn session_find(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<SessionFound, EngineError> {
        let nothing = SessionFound { backend: None, worktree: None };
        let seen = match self.card_get(op, task).await {
            Ok(seen) => seen.it,
            Err(EngineError::Refused(Refusal::TaskNotFound { .. })) => return Ok(nothing),
            Err(error) => return Err(error),
        };
        let place = self.session_place(&op.principal.org, &seen).await?;
        let (Some(shop), Some(place)) = (&self.parts.workshop, place) else { return Ok(nothing) };
        let backend = match live_pair(&seen.record) {
            Some(_) => shop.pairs.pair_find(&place, &task.to_string()).await,
            None => None,
        };
        Ok(SessionFound { backend, worktree: Some(place.path) })
    }

    /// Ends a task's session; returns whether there was one. The end is written first: if the call comes from within
    /// the session, the end of the terminal ends the caller. Git is not asked, so a session ends even while git fails.
    pub async fn session_kill(&self, op: &OpContext, task: TaskId) -> Result<bool, SessionFault> {
        op.principal.judge_on(op.tool, task)?;
        op.principal.judge_one_client(op.tool)?;
        let seen = self.card_get(op, task).await?.it;
        let org = &op.principal.org;
        let places = self.workspace_places(org, &seen.record.task, &seen.card).await?;
        let was_held = live_pair(&seen.record).is_some();
        self.act(&op.unkeyed(), Command::SessionEnd { task }).await?;
        let was_open = self.session_close(&places, task).await.map_err(SessionFault::failed)?;
        Ok(was_open || was_held)
    }

    /// Ends the terminal of a session whose attempt ended with a change of its task. A failure is only logged: the
    /// change is made.
    pub(crate) async fn session_close_if_over(
        &self,
        org: &str,
        before: &TaskRecord,
        after: &TaskRecord,
    ) -> Result<(), EngineError> {
        if live_pair(before).is_none() || live_pair(after).is_some() {
            return Ok(());
        }
        let card = self.parts.store.card(org, after.task.id).await?.unwrap_or_default();
        let places = self.workspace_places(org, &after.task, &card).await?;
        if let Err(fault) = self.session_close(&places, after.task.id).await {
            tracing::warn!(%fault, task = %after.task.id, "cannot end a session");
        }
        Ok(())
    }

    /// Ends the task's terminals in all these places; returns whether there was one. The fault is the last one.
    pub(crate) async fn session_close(
        &self,
        places: &[Worktree],
        task: TaskId,
    ) -> Result<bool, PairFault> {
        let Some(shop) = &self.parts.workshop else { return Ok(false) };
        let mut closed = Ok(false);
        for place in places {
            closed = match (shop.pairs.pair_end(place, &task.to_string()).await, closed) {
                (Ok(ended), Ok(before)) => Ok(ended || before),
                (Err(fault), _) | (Ok(_), Err(fault)) => Err(fault),
            };
        }
        closed
    }

    /// The primary worktree.
    async fn session_place(
        &self,
        org: &str,
        seen: &CardSeen,
    ) -> Result<Option<Worktree>, EngineError> {
        let places = self.workspace_places(org, &seen.record.task, &seen.card).await?;
        Ok(places.into_iter().find(|place| place.path.join(".git").exists()))
    }

    async fn pair_order(
        &self,
        op: &OpContext,
        shop: &Workshop,
        seen: &CardSeen,
        place: &Worktree,
        open: Option<PairBackend>,
    ) -> Result<PairOrder, EngineError> {
        let (task, org) = (seen.record.task.id, &op.principal.org);
        let settings = self.board_settings(org).await?;
        let terminal = seen.card.terminal.unwrap_or(settings.pair_terminal);
        let agent = seen.card.agent.clone().unwrap_or(settings.default_worker_agent);
        let scratchpad = self.parts.store.scratchpad(org, task).await?.unwrap_or_default();
        let (actor, profile) = (pair_actor(task), Profile::PairWorker);
        let (variables, _) = self.workspace_variables(&seen.record.task, &place.path).await;
        let server = (shop.server)(&ServerRequest { org, agent: &actor, task, profile });
        Ok(PairOrder {
            title: seen.record.task.title.clone(),
            backend: open.unwrap_or(backend(terminal)),
            project_root: shop.root.clone().unwrap_or_else(|| place.repo.clone()),
            worktree: place.clone(),
            prompt: pair_prompt(&brief(seen, scratchpad)),
            program: shop.programs.get(&agent).cloned(),
            agent,
            server,
            variables,
            task: task.to_string(),
        })
    }
}

/// The agent that works in the sessions of a task.
fn pair_actor(task: TaskId) -> Actor {
    let text = task.to_string();
    let tail = &text[text.len().saturating_sub(8)..];
    format!("agent:pair-{}", tail.to_lowercase()).parse().expect("an id is fit for an actor's name")
}

pub(crate) fn live_pair(record: &TaskRecord) -> Option<&Attempt> {
    record.newest.as_ref().filter(|newest| {
        newest.kind == AttemptKind::Pair && matches!(newest.state, AttemptState::Live { .. })
    })
}

fn is_one_of(parts: &[WorkspacePart], named: &str) -> bool {
    let Ok(named) = Path::new(named.trim()).canonicalize() else { return false };
    let mut places = parts.iter().filter_map(|part| part.worktree.as_ref());
    places.any(|place| place.path.canonicalize().is_ok_and(|path| path == named))
}

fn backend(terminal: Terminal) -> PairBackend {
    match terminal {
        Terminal::Tmux => PairBackend::Tmux,
        Terminal::Vscode => PairBackend::Vscode,
        Terminal::Cursor => PairBackend::Cursor,
    }
}

fn brief(seen: &CardSeen, scratchpad: String) -> Brief {
    let review = seen.card.review.as_ref();
    Brief {
        task: seen.record.task.id.to_string(),
        title: seen.record.task.title.clone(),
        description: seen.record.body.clone(),
        acceptance: seen.card.criteria.clone(),
        scratchpad,
        feedback: review.and_then(|review| review.feedback.clone()),
        conflict_files: review.map(|review| review.conflict_files.clone()).unwrap_or_default(),
        base_branch: seen.card.base_branch.clone(),
        ..Brief::default()
    }
}
