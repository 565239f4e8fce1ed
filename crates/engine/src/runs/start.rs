//! Agents that work on a task alone, on the board's behalf or as a member of a crew, from the runner's side: make the
//! workspace, let the agent work while the lease is kept, keep its output, record its end. `admit.rs` leases the jobs.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::board::card::Card;
use callboard_domain::board::settings::BoardSettings;
use callboard_domain::command::{Command, WorkPlace};
use callboard_domain::crew::AgentId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::{AgentType, Lane, Profile, Rights};
use callboard_domain::runs::job::{JobId, JobState};
use callboard_domain::runs::run::{Run, RunCommit};
use callboard_domain::runs::work::ending::{Ending, ending};
use callboard_domain::runs::work::{Role, WorkEnd, WorkOrder};
use callboard_domain::task::TaskRecord;
use callboard_domain::time::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::board::card::CardSeen;
use crate::board::workspace::WorkspacePart;
use crate::board::workspace::leftovers;
use crate::context::Principal;
use crate::ports::{Door, DoorKey, Up, WorkReport, Worked, Workers};
use crate::runs::patch::{AsksFor, LeasedRun};
use crate::runs::queue::run_of;
use crate::runs::token::RunPass;
use crate::task::place::WorkspaceFault;
use crate::{Engine, EngineError};

/// Why an agent has no way to the board.
#[derive(Debug, thiserror::Error)]
enum DoorFault {
    #[error("{0}")]
    NoAddress(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A run that this process has leased, with its task.
pub(crate) struct LeasedWork {
    pub(crate) taken: LeasedRun,
    pub(crate) run: Run,
    pub(crate) order: WorkOrder,
    pub(crate) record: TaskRecord,
    pub(crate) card: Card,
    pub(crate) settings: BoardSettings,
    pub(crate) executor: String,
    pub(crate) agent: Actor,
}

impl LeasedWork {
    /// The agent's identity at its door, and its rights there.
    fn principal(&self, door: &dyn Door) -> Principal {
        let role = self.order.role;
        let (profile, agent_type) = match role {
            Role::Worker => (Some(Profile::PairWorker), None),
            Role::Reviewer => (Some(Profile::Viewer), None),
            Role::Crew => (None, Some(AgentType::Worker)),
        };
        let rights = Rights {
            lane: Lane::Kagan,
            profile_wanted: profile,
            agent_type,
            toolsets: Some(vec![door.toolset(role).to_owned()]),
            task: Some(self.record.task.id),
            ..Rights::default()
        };
        let org = self.taken.org.clone();
        Principal { org, rights, ..Principal::local(self.agent.clone()) }
    }

    /// The time of the newest message that the prompt contains.
    fn told_upto(&self) -> Timestamp {
        let told = Some(&self.card.told).filter(|_| self.order.role != Role::Reviewer);
        told.and_then(|told| told.last()).map_or(Timestamp(0), |told| told.at)
    }
}

/// The result of reporting that an agent is at work.
enum UpReport {
    Up,
    Unwanted,
    /// The agent did not come up in time.
    Late,
}

impl Engine {
    /// Runs the job from the lease to the end. A stop or a cancellation is heard at every step.
    pub(crate) async fn work_through(
        self: &Arc<Self>,
        workers: &dyn Workers,
        leased: &LeasedWork,
        give_up: CancellationToken,
    ) -> Result<(), EngineError> {
        let (taken, run) = (&leased.taken, &leased.run);
        let left = run.expires_at.ms_since(self.parts.store.now()).max(0).unsigned_abs();
        let left = Duration::from_millis(left);
        let feed = self.run_feed(Some(taken.job)).await?;
        let rule = (self.parts.board.lease_s, self.parts.board.heartbeat);
        let watched = self.run_watched(taken, feed, rule, left, give_up);
        tokio::pin!(watched);
        // Earlier runs of a crew's worker were jobs of their own.
        if run.attempt > 1 || leased.order.role == Role::Crew {
            self.clean_up().await;
            self.work_tail_save(taken).await?;
        }
        let (task, attempt) = (leased.record.task.id, run.attempt);
        tokio::select! {
            clear = self.work_make_way(taken, task, attempt) => clear?,
            () = &mut watched => return self.work_over(leased, WorkEnd::Stopped).await,
        }
        let start_by = Instant::now() + self.parts.board.start_timeout;
        let made = self.work_place(leased);
        let made = tokio::select! {
            made = timeout_at(start_by, made) => made,
            () = &mut watched => return self.work_over(leased, WorkEnd::Stopped).await,
        };
        let parts = match made {
            Ok(Ok(parts)) => Ok(parts),
            Ok(Err(fault)) => Err(fault.of_worktree()?.to_string()),
            Err(_) => Err(self.too_late()),
        };
        let parts = match parts {
            Ok(parts) => parts,
            Err(reason) => return self.work_over(leased, WorkEnd::NotStarted { reason }).await,
        };
        // The setup has a limit of its own; the time of the agent's start begins after it.
        let (stop, setup) = (CancellationToken::new(), Instant::now());
        let ready = self.workspace_ready(&leased.record.task, &parts, &stop);
        tokio::pin!(ready);
        let ready = tokio::select! {
            ready = &mut ready => ready,
            () = &mut watched => {
                stop.cancel();
                // The setup hears of the stop only while it is waited for.
                let _ = ready.await;
                return self.work_over(leased, WorkEnd::Stopped).await;
            }
        };
        let ready = match ready {
            Ok(ready) => ready,
            Err(fault) => {
                let reason = fault.to_string();
                return self.work_over(leased, WorkEnd::NotStarted { reason }).await;
            }
        };
        if let Some(log) = &ready.setup_log {
            let note = format!("workspace.setup took {}s: {log}\n", setup.elapsed().as_secs());
            self.work_logs_keep(taken, taken.fence, note).await?;
        }
        let start_by = Instant::now() + self.parts.board.start_timeout;
        // A server that was frozen meanwhile must not start an agent beside the next run.
        if !self.run_is_ours(taken).await? {
            return self.work_over(leased, WorkEnd::Stopped).await;
        }
        let report = self.worked(workers, leased, &parts, left, start_by, watched).await?;
        let used = report.usage.map(|usage| (leased.agent.clone(), usage));
        self.work_report_keep(taken, taken.fence, report.logs, used).await?;
        let mut before = None;
        let end = match report.end {
            Worked::NotStarted(reason) => WorkEnd::NotStarted { reason },
            Worked::Failed(reason) => WorkEnd::Failed { reason },
            Worked::Stopped => WorkEnd::Stopped,
            Worked::Replied(reply) => {
                let ending = ending(&reply);
                let is_ours = self.run_is_ours(taken).await?;
                let mut is_leftovers = false;
                if is_ours && self.is_handed_over(leased, ending.as_ref()).await? {
                    is_leftovers = self.leftovers(leased, &parts).await;
                }
                if is_ours && leased.order.role != Role::Reviewer {
                    before = self.work_committed(leased, &parts, is_leftovers).await;
                }
                WorkEnd::Replied { reply, ending }
            }
        };
        self.work_over_after(leased, before, end).await
    }

    /// Blocks the task of a crew's worker, with the reason of its last message, or why its agent did not start. On the
    /// board, the end of the run itself records that on the task.
    async fn crew_hindered(&self, leased: &LeasedWork, end: &WorkEnd) -> Result<(), EngineError> {
        let reason = match end {
            _ if leased.order.role != Role::Crew => return Ok(()),
            WorkEnd::NotStarted { reason } => reason,
            WorkEnd::Replied { ending: Some(Ending::Blocked { reason }), .. } => reason,
            WorkEnd::Failed { .. } | WorkEnd::Stopped | WorkEnd::Replied { .. } => return Ok(()),
        };
        let LeasedWork { taken, record, agent, .. } = leased;
        if !self.run_is_ours(taken).await? {
            return Ok(());
        }
        self.crew_block(&taken.org, &AgentId::of(agent), record.task.id, reason).await
    }

    /// The workspace of a run, with the target of its work.
    async fn work_place(&self, leased: &LeasedWork) -> Result<Vec<WorkspacePart>, WorkspaceFault> {
        let LeasedWork { taken, record, card, .. } = leased;
        if leased.order.role == Role::Crew {
            let seen = CardSeen { record: record.clone(), card: card.clone() };
            self.epic_branch_make(&taken.org, &seen).await?;
        }
        self.workspace_make(&taken.org, &record.task, card).await
    }

    /// Lets the agent work, and meanwhile keeps its output, passes messages on and records that it is up. Returns its
    /// report in every case: a stopped agent is waited for, so no process outlives the call.
    async fn worked(
        self: &Arc<Self>,
        workers: &dyn Workers,
        leased: &LeasedWork,
        parts: &[WorkspacePart],
        left: Duration,
        start_by: Instant,
        mut watched: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<WorkReport, EngineError> {
        let taken = &leased.taken;
        let mut call = self.work_call(leased, parts, left).await?;
        // The token ends with this function, however the run ends.
        let _pass = match self.door_open(leased).await {
            Ok(opened) => opened.map(|(key, pass)| {
                call.door = Some(key);
                pass
            }),
            Err(DoorFault::Engine(error)) => return Err(error),
            Err(DoorFault::NoAddress(words)) => {
                let reason = format!("The agent cannot reach the board: {words}");
                let logs = format!("{reason}\n");
                return Ok(WorkReport { end: Worked::NotStarted(reason), logs, usage: None });
            }
        };
        let (up, is_up) = oneshot::channel();
        let (printed, heard) = watch::channel(String::new());
        let asks = Arc::new(AsksFor { engine: self.clone(), taken: taken.clone() });
        let stop = CancellationToken::new();
        let (says, hears) = mpsc::channel(1);
        let work = workers.work(call, up, printed, asks, hears, stop.clone());
        let kept = self.work_tail_keep(taken, heard);
        let (task, upto) = (leased.record.task.id, leased.told_upto());
        // A reviewer hears nothing: messages are for the agent that works.
        let says = Some(says).filter(|_| leased.order.role != Role::Reviewer);
        let spoken = async {
            match says {
                Some(says) => self.work_tell(taken, task, upto, says).await,
                None => std::future::pending().await,
            }
        };
        let told = async {
            match timeout_at(start_by, is_up).await {
                Ok(Ok(up)) if self.work_up(taken, parts, &up).await => {
                    if upto > Timestamp(0) {
                        self.task_hear(taken, task, upto).await;
                    }
                    UpReport::Up
                }
                Ok(Ok(_)) => UpReport::Unwanted,
                // It ended before it was up, and its report says why.
                Ok(Err(_)) => UpReport::Up,
                Err(_) => UpReport::Late,
            }
        };
        tokio::pin!(work, told, kept, spoken);
        let mut is_told = false;
        loop {
            tokio::select! {
                // Both futures end only with the loop.
                never = &mut kept => match never {},
                never = &mut spoken, if is_told => match never {},
                told = &mut told, if !is_told => {
                    is_told = true;
                    match told {
                        UpReport::Up => {}
                        UpReport::Unwanted => {
                            stop.cancel();
                            return Ok(work.await);
                        }
                        UpReport::Late => {
                            stop.cancel();
                            let end = Worked::NotStarted(self.too_late());
                            return Ok(WorkReport { end, ..work.await });
                        }
                    }
                }
                report = &mut work => {
                    // However quick the agent was: that it was up is recorded before its result.
                    if !is_told {
                        told.await;
                    }
                    return Ok(report);
                }
                () = &mut watched => {
                    stop.cancel();
                    return Ok(work.await);
                }
            }
        }
    }

    /// A door for this run alone: to its task, as its agent, until the pass is dropped.
    async fn door_open(
        self: &Arc<Self>,
        leased: &LeasedWork,
    ) -> Result<Option<(DoorKey, RunPass)>, DoorFault> {
        let door = self.parts.workshop.as_ref().and_then(|shop| shop.door.clone());
        let Some(door) = door else { return Ok(None) };
        let url = door.address(self).await.map_err(DoorFault::NoAddress)?;
        let pass = self.run_pass(leased.principal(door.as_ref()))?;
        let token = pass.text().reveal().to_owned();
        Ok(Some((DoorKey { url, token }, pass)))
    }

    /// The reason of a run whose agent did not come up in time.
    fn too_late(&self) -> String {
        format!("The agent did not start within {}s", self.parts.board.start_timeout.as_secs())
    }

    /// Records that the agent is at work; false when another run has followed or this one is no longer wanted.
    async fn work_up(&self, taken: &LeasedRun, parts: &[WorkspacePart], up: &Up) -> bool {
        let place = parts.iter().find_map(|part| part.worktree.as_ref());
        let place = WorkPlace {
            worktree: place.map(|place| place.path.display().to_string()),
            branch: place.map(|place| place.branch.clone()),
            head: None,
        };
        let (job, fence, terminal) = (taken.job, taken.fence, up.terminal.clone());
        match self.act_as_runner(&taken.org, Command::WorkUp { job, fence, place, terminal }).await
        {
            Ok(_) => true,
            Err(EngineError::Refused(_)) => false,
            Err(error) => {
                tracing::info!(%error, %job, "cannot write down that an agent is at work");
                true
            }
        }
    }

    /// Whether its work goes to review: by its last message, or because it requested the review itself.
    async fn is_handed_over(
        &self,
        leased: &LeasedWork,
        ending: Option<&Ending>,
    ) -> Result<bool, EngineError> {
        if leased.order.role != Role::Worker {
            return Ok(false);
        }
        let now = self.parts.store.task(&leased.taken.org, leased.record.task.id).await?;
        let asked = now.is_some_and(|record| record.task.phase == Phase::Review);
        Ok(asked || ending == Some(&Ending::Complete))
    }

    /// Commits an agent's uncommitted changes; changes that cannot be committed stay where they are. Returns whether
    /// there were any.
    async fn leftovers(&self, leased: &LeasedWork, parts: &[WorkspacePart]) -> bool {
        let Some(shop) = &self.parts.workshop else { return false };
        let id = leased.record.task.id;
        let message = leftovers(id);
        let mut is_any = false;
        for place in parts.iter().filter_map(|part| part.worktree.as_ref()) {
            match shop.worktrees.leftovers_commit(place, &message).await {
                Ok(commit) => is_any |= commit.is_some(),
                Err(fault) => {
                    tracing::warn!(%fault, task = %id, "cannot commit the leftovers of an agent");
                }
            }
        }
        is_any
    }

    /// The step that records the head of the work after a run, if there are commits. Where git cannot tell, nothing is
    /// recorded.
    async fn work_committed(
        &self,
        leased: &LeasedWork,
        parts: &[WorkspacePart],
        is_leftovers: bool,
    ) -> Option<Command> {
        let (shop, part) = (self.parts.workshop.as_ref()?, parts.first()?);
        let state = shop.worktrees.worktree_state(part.worktree.as_ref()?, &part.target).await;
        let state = state.ok().filter(|state| state.commits > 0)?;
        let LeasedRun { job, fence, .. } = leased.taken;
        let (head, commits) = (state.head, state.commits);
        Some(Command::RunCommit(job, fence, RunCommit { head, commits, is_leftovers }))
    }

    async fn work_over(&self, leased: &LeasedWork, end: WorkEnd) -> Result<(), EngineError> {
        self.work_over_after(leased, None, end).await
    }

    /// Records the end of a run, with the job of a reviewer where the settings ask for one, and a step before it in the
    /// same commit. The place it had may be for another job, so the loop is woken.
    async fn work_over_after(
        &self,
        leased: &LeasedWork,
        before: Option<Command>,
        end: WorkEnd,
    ) -> Result<(), EngineError> {
        self.crew_hindered(leased, &end).await?;
        let LeasedRun { org, job, fence } = &leased.taken;
        let (job, fence) = (*job, *fence);
        let settings = self.board_settings(org).await?;
        let reviewer = settings.auto_review.then(|| JobId(self.parts.ids.next_id()));
        let agent = leased.agent.clone();
        let over = Command::WorkEnd { job, fence, end, agent, reviewer };
        let steps = before.into_iter().chain([over]).map(|step| (org.clone(), step)).collect();
        let mut answers = self.act_all_as_runner(steps).await;
        self.runs_nudge();
        // Each step has its answer, so there is a last one.
        let Some(over) = answers.pop() else { return Ok(()) };
        for answer in answers {
            match answer {
                Ok(_) | Err(EngineError::Refused(Refusal::JobLost { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        match over.and_then(run_of) {
            // Settled, another runner may take it at once.
            Ok(record) if matches!(record.job.state, JobState::Stale { .. }) => {
                self.runs_settle().await?;
            }
            Ok(_) | Err(EngineError::Refused(Refusal::JobLost { .. })) => {}
            Err(error) => return Err(error),
        }
        if let Some(job) = reviewer
            && self.parts.store.job(org, job).await?.is_some()
        {
            let task = leased.record.task.id;
            tracing::info!(%task, %job, "general.auto_review starts a reviewer agent");
        }
        if leased.order.role == Role::Crew {
            self.crew_sweep().await?;
        }
        Ok(())
    }
}
