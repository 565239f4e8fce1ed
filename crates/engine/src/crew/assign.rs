//! Which worker gets which task. No state is kept: the tasks that wait and the workers that are free are read from the
//! store whenever something may have changed, when a server starts, and on a tick, so that a lost notification loses no
//! task.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::command::{AGENTS, AgentAdd, Command, CrewAssign, WorkPlace};
use callboard_domain::crew::assignment::{
    self, Choice, NextWorker, makes_place_for_new, next_worker,
};
use callboard_domain::crew::state::worker_of;
use callboard_domain::crew::{Agent, AgentId, MailId, names, sweep};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::refusal::Refusal;
use callboard_domain::refusal::found::OrNotFound as _;
use callboard_domain::rights::AgentType;
use callboard_domain::task::Task;
use callboard_store::{MailQuery, UnassignedTask};

use crate::board::card::CardSeen;
use crate::board::workspace::{Workshop, base_from};
use crate::context::{OpContext, Principal};
use crate::crew::epic::{epic_task, task_state};
use crate::ports::{BranchOrder, WorktreeFault};
use crate::task::place::WorkspaceFault;
use crate::{At, Engine, EngineError};

/// Rows of each kind that one sweep looks at.
const BATCH: usize = 100;
/// How long a sweep waits for a setup command; the setup goes on afterwards. Git alone needs less.
const SWEEP_PATIENCE: Duration = Duration::from_secs(2);

/// The result of looking for a worker.
enum Placed {
    Assigned,
    /// No worker is free, and no more may be made.
    NobodyFree,
    /// The repository is on another machine, another process was first, or the only free worker has just given the task
    /// back.
    NotHere,
}

impl Engine {
    /// As `crew_sweep`, for a call whose answer does not depend on it: a failure is only logged. A server bound to one
    /// agent's task leaves the sweep to others: it may be confined.
    pub(crate) async fn crew_go_on(&self, op: &OpContext) {
        if op.principal.rights.task.is_some() {
            return;
        }
        if let Err(error) = self.crew_sweep().await {
            tracing::warn!(%error, "cannot update the crew");
        }
    }

    /// Records what became of tasks and workers elsewhere, and assigns waiting tasks to free workers. Returns how many
    /// changes there were.
    pub async fn crew_sweep(&self) -> Result<usize, EngineError> {
        // One sweep of this process at a time: several would look for places for the same tasks.
        let _turn = self.crew_turn.lock().await;
        let store = &self.parts.store;
        let mut done = self.reports_write().await;
        for merged in store.crew_merged(BATCH).await? {
            let op = crew_op(&merged.org);
            done += seen_to(merged.task, self.crew_merge_settle(&op, merged.task).await)?;
        }
        for orphan in store.crew_orphans(BATCH).await? {
            done += seen_to(orphan.task, self.crew_orphan_end(&orphan).await)?;
        }
        for adrift in store.crew_adrift(BATCH).await? {
            let (agent, task) = (adrift.agent, adrift.task);
            let op = crew_op(&adrift.org);
            let freed = self.act(&op, Command::CrewFree { agent, task }).await;
            done += seen_to(task, freed.map(|applied| applied.changed))?;
        }
        // An org without a free worker has none for its other tasks either.
        let mut full: Vec<Arc<str>> = Vec::new();
        for waiting in store.crew_waiting(BATCH).await? {
            if full.contains(&waiting.org) {
                continue;
            }
            let placed = self.crew_place(&waiting).await;
            let assigned = placed.map(|placed| {
                if matches!(placed, Placed::NobodyFree) {
                    full.push(waiting.org.clone());
                }
                matches!(placed, Placed::Assigned)
            });
            done += seen_to(waiting.task, assigned)?;
        }
        Ok(done + self.crew_runs_see().await?)
    }

    /// Gives up an open task of an epic that was cancelled.
    async fn crew_orphan_end(&self, orphan: &UnassignedTask) -> Result<bool, EngineError> {
        let op = crew_op(&orphan.org);
        let At { it: CardSeen { record, card }, now } = self.card_get(&op, orphan.task).await?;
        // A removed epic cannot be read: then the store's word counts.
        let epic = self.epic_above(&orphan.org, &record.task).await?;
        if epic.is_some_and(|epic| !sweep::is_orphan(&record.task, &epic)) {
            return Ok(false);
        }
        let row = callboard_store::CardRow {
            task: record.task,
            body: record.body,
            card,
            deps: record.deps,
            newest: record.newest,
            scratchpad: None,
        };
        self.epic_task_end(&op, &epic_task(row, None, now)).await
    }

    /// Looks for a worker for one task. The store's query only finds candidates; the rule is asked again here, and in
    /// the transaction.
    async fn crew_place(&self, waiting: &UnassignedTask) -> Result<Placed, EngineError> {
        let op = crew_op(&waiting.org);
        let At { it: seen, now } = match self.card_get(&op, waiting.task).await {
            Ok(seen) => seen,
            Err(EngineError::Refused(_)) => return Ok(Placed::NotHere),
            Err(error) => return Err(error),
        };
        let CardSeen { record, card } = &seen;
        let epic = self.epic_above(&waiting.org, &record.task).await?;
        let is_waiting = epic.is_some_and(|epic| {
            sweep::is_waiting(&record.task, card, record.newest.as_ref(), &epic, now)
        });
        if !is_waiting {
            return Ok(Placed::NotHere);
        }
        let repos = self.parts.store.repos(&waiting.org, record.task.project).await?;
        if !assignment::is_assigned_here(&repos, &self.parts.machine) {
            return Ok(Placed::NotHere);
        }
        let worker = match self.crew_worker(&op, &seen).await? {
            Choice::Worker(worker) => worker,
            Choice::NobodyFree => return Ok(Placed::NobodyFree),
            Choice::NotThisTask => return Ok(Placed::NotHere),
        };
        let Some(assign) = self.crew_assignment(&op, &seen, worker, now).await? else {
            return Ok(Placed::NotHere);
        };
        match self.act(&op, Command::CrewAssign(Box::new(assign))).await {
            Ok(_) => Ok(Placed::Assigned),
            // Another process was first.
            Err(EngineError::Refused(refusal)) => {
                tracing::info!(task = %waiting.task, why = refusal.message(), "not assigned");
                Ok(Placed::NotHere)
            }
            Err(error) => Err(error),
        }
    }

    /// The epic of a task, unless it was removed.
    async fn epic_above(&self, org: &str, task: &Task) -> Result<Option<Task>, EngineError> {
        let Some(epic) = task.parent else { return Ok(None) };
        Ok(self.parts.store.task(org, epic).await?.map(|record| record.task))
    }

    /// The worker for a task: a known one, else a new one.
    async fn crew_worker(&self, op: &OpContext, seen: &CardSeen) -> Result<Choice, EngineError> {
        let (org, task) = (&op.principal.org, seen.record.task.id);
        let known = self.parts.store.workers_for(org, task).await?;
        let gave_back = match next_worker(known, task, seen.record.newest.as_ref()) {
            NextWorker::Known(worker) => return Ok(Choice::Worker(worker)),
            NextWorker::New { gave_back } => gave_back,
        };
        if let Some(worker) = self.crew_worker_add(op).await? {
            return Ok(Choice::Worker(worker));
        }
        // Counted only for the worker that gave the task back.
        let workers = match gave_back {
            Some(_) => self.parts.store.workers_count(org).await?,
            None => 0,
        };
        Ok(assignment::without_new(gave_back, workers))
    }

    /// A new worker, under a name that has no mail yet, unless there are enough.
    async fn crew_worker_add(&self, op: &OpContext) -> Result<Option<Agent>, EngineError> {
        let (org, store) = (&op.principal.org, &self.parts.store);
        let max = self.parts.crew.workers_max;
        let count = store.workers_count(org).await?;
        if assignment::is_full(count, max) {
            return Ok(None);
        }
        // A name with old mail belonged to a worker that was removed; the new one must not read its letters.
        for number in count + 1.. {
            let agent = names::worker(number);
            let letters = MailQuery {
                org: org.clone(),
                to: Some(agent.clone()),
                unread_only: false,
                before: None,
                limit: 1,
            };
            if !store.mails(letters).await?.is_empty() {
                continue;
            }
            let add = AgentAdd {
                agent: agent.clone(),
                kind: AgentType::Worker,
                epic: None,
                task: None,
                or_keep: false,
                workers_max: Some(max),
            };
            match self.act(op, Command::AgentAdd(add)).await {
                Ok(_) => return Ok(store.agent(org, &agent).await?),
                Err(EngineError::Refused(Refusal::AgentExists { .. })) => {}
                Err(EngineError::Refused(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The command that assigns a task, with everything that has to be known and made before it. `None` while the
    /// worktree is prepared, which goes on in the background: a later sweep assigns the task.
    async fn crew_assignment(
        &self,
        op: &OpContext,
        seen: &CardSeen,
        worker: Agent,
        now: callboard_domain::time::Timestamp,
    ) -> Result<Option<CrewAssign>, EngineError> {
        let Some((place, misses)) = self.crew_workspace(op, seen, false).await? else {
            return Ok(None);
        };
        let id = || self.parts.ids.next_id();
        let parent = seen.record.task.parent;
        Ok(Some(CrewAssign {
            by: None,
            task: seen.record.task.id,
            worker: worker.id,
            was_on: worker.task.filter(|on| *on != seen.record.task.id),
            from: worker_of(seen.record.newest.as_ref(), now),
            sender: self.epic_supervisor(&op.principal.org, parent).await?,
            attempt: AttemptId(id()),
            place,
            misses,
            mails: [MailId(id()), MailId(id())],
        }))
    }

    /// A place to work in, or why there is none. While git cannot read a repository, the task is not assigned: that is
    /// `EngineError::Git`, and the next sweep tries again. `None` while the worktree is prepared, for a caller that does
    /// not wait.
    async fn crew_workspace(
        &self,
        op: &OpContext,
        seen: &CardSeen,
        waits: bool,
    ) -> Result<Option<(WorkPlace, Option<String>)>, EngineError> {
        let CardSeen { record, card } = seen;
        let org = &op.principal.org;
        let nowhere = |words: String| Some((WorkPlace::default(), Some(words)));
        if let Err(fault) = self.epic_branch_make(org, seen).await {
            let fault = fault.of_worktree()?;
            tracing::warn!(task = %record.task.id, %fault, "cannot create the branch of an epic");
            return Ok(nowhere(fault.to_string()));
        }
        let parts = match self.workspace_make(org, &record.task, card).await {
            Ok(parts) => parts,
            Err(WorkspaceFault::Worktree(WorktreeFault::NoRepo)) => {
                return Ok(Some((WorkPlace::default(), None)));
            }
            Err(fault) => {
                let fault = fault.of_worktree()?;
                tracing::warn!(task = %record.task.id, %fault, "cannot create the worktree of a worker");
                return Ok(nowhere(fault.to_string()));
            }
        };
        // A worker that Callboard runs gets its worktree ready when its agent starts.
        if self.parts.crew.executor.is_none() {
            let ready = self.workspace_ready_for(op, &record.task, &parts);
            let has_setup = |shop: &Workshop| {
                let mut places = parts.iter().filter_map(|part| part.worktree.as_ref());
                places.any(|place| shop.worktrees.has_setup(&place.repo))
            };
            let is_long = self.parts.workshop.as_ref().is_some_and(has_setup);
            let ready = match waits || !is_long {
                true => ready.await,
                false => match tokio::time::timeout(SWEEP_PATIENCE, ready).await {
                    Ok(ready) => ready,
                    Err(_) => return Ok(None),
                },
            };
            match ready {
                Ok(_) => {}
                Err(WorktreeFault::NotReady(words)) => return Ok(nowhere(words)),
                Err(fault) => return Err(fault.into()),
            }
        }
        let Some(place) = parts.into_iter().find_map(|part| part.worktree) else {
            return Ok(Some((WorkPlace::default(), None)));
        };
        let worktree = Some(place.path.display().to_string());
        Ok(Some((WorkPlace { worktree, branch: Some(place.branch), head: None }, None)))
    }

    /// Makes the branch on which an epic's work comes together, in every repository here.
    pub(crate) async fn epic_branch_make(
        &self,
        org: &str,
        seen: &CardSeen,
    ) -> Result<(), WorkspaceFault> {
        let Some(shop) = &self.parts.workshop else { return Ok(()) };
        let (Some(branch), Some(epic)) = (&seen.card.base_branch, seen.record.task.parent) else {
            return Ok(());
        };
        let settings = self.board_settings(org).await?;
        for repo in self.repos_here(org, seen.record.task.project).await? {
            let order = BranchOrder {
                repo: repo.path.clone(),
                branch: branch.clone(),
                base: self.epic_base(org, epic, &repo, &settings).await?,
                base_from: base_from(settings.base_ref),
                fetch: settings.auto_sync_base_branch,
            };
            shop.worktrees.branch_make(order).await?;
        }
        Ok(())
    }

    /// Assigns a task to a worker on an agent's request. Returns the task.
    pub async fn crew_assign(
        &self,
        op: &OpContext,
        by: &Agent,
        task: TaskId,
        worker: &AgentId,
    ) -> Result<At<CardSeen>, EngineError> {
        op.principal.judge_on(op.tool, task)?;
        let At { it: seen, now } = self.card_get(op, task).await?;
        let found = self.parts.store.agent(&op.principal.org, worker).await?;
        let found = found.or_not_found(worker)?;
        let (wanted, newest) = (&seen.record.task, seen.record.newest.as_ref());
        let (place, misses) = match assignment::makes_place(by, &found, wanted, newest, now) {
            true => self.crew_workspace(op, &seen, true).await?.unwrap_or_default(),
            false => (WorkPlace::default(), None),
        };
        let id = || self.parts.ids.next_id();
        let assign = CrewAssign {
            by: Some(by.id.clone()),
            task,
            worker: worker.clone(),
            was_on: found.task.filter(|on| *on != task),
            from: worker_of(seen.record.newest.as_ref(), now),
            sender: Some(by.id.clone()),
            attempt: AttemptId(id()),
            place,
            misses,
            mails: [MailId(id()), MailId(id())],
        };
        self.act(op, Command::CrewAssign(Box::new(assign))).await?;
        self.crew_go_on(op).await;
        self.card_get(op, task).await
    }

    /// Adds a worker and assigns it a task, or does neither.
    pub async fn agent_add_on(
        &self,
        op: &OpContext,
        (agent, kind): (AgentId, AgentType),
        task: TaskId,
    ) -> Result<Agent, EngineError> {
        op.principal.judge_outside(op.tool, AGENTS)?;
        let At { it: seen, now } = self.card_get(op, task).await?;
        let is_new = self.parts.store.agent(&op.principal.org, &agent).await?.is_none();
        let (wanted, stands) = (&seen.record.task, task_state(&seen, now));
        let (place, misses) = match makes_place_for_new(is_new, kind, wanted, stands) {
            true => self.crew_workspace(op, &seen, true).await?.unwrap_or_default(),
            false => (WorkPlace::default(), None),
        };
        let id = || self.parts.ids.next_id();
        let assign = CrewAssign {
            by: Some(AgentId::of(&op.principal.actor)),
            task,
            worker: agent.clone(),
            was_on: None,
            from: worker_of(seen.record.newest.as_ref(), now),
            sender: None,
            attempt: AttemptId(id()),
            place,
            misses,
            mails: [MailId(id()), MailId(id())],
        };
        let add = AgentAdd {
            agent,
            kind,
            epic: None,
            task: Some(Box::new(assign)),
            or_keep: false,
            workers_max: None,
        };
        let added = self.agent_add(op, add).await?;
        self.crew_go_on(op).await;
        Ok(added)
    }
}

/// One task that fails does not hold up the others; an unavailable store does.
pub(crate) fn seen_to(task: TaskId, done: Result<bool, EngineError>) -> Result<usize, EngineError> {
    match done {
        Ok(done) => Ok(usize::from(done)),
        Err(
            error @ (EngineError::Refused(_)
            | EngineError::Damaged(_)
            | EngineError::Internal(_)
            | EngineError::Git(_)),
        ) => {
            tracing::warn!(%task, %error, "cannot update a task of the crew");
            Ok(0)
        }
        Err(error @ (EngineError::Unavailable(_) | EngineError::Canceled)) => Err(error),
    }
}

/// The context of commands that the rules themselves give.
pub(crate) fn crew_op(org: &Arc<str>) -> OpContext {
    let actor = "system:crew".parse().expect("a constant actor is well formed");
    OpContext::new(Principal { org: org.clone(), ..Principal::local(actor) }, "crew")
}
