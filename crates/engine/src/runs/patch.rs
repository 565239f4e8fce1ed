//! Jobs for agents from the runner's side: lease those that fit, let the agents work while the leases are kept, record
//! each result with its artifacts. Changes that time alone makes to jobs are written here too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::command::{Command, RunLease, RunSettle};
use callboard_domain::event::EventName;
use callboard_domain::ids::AttemptId;
use callboard_domain::refusal::Refusal;
use callboard_domain::relay::RunVerdict;
use callboard_domain::runs::job::{JobId, JobKind, JobState};
use callboard_domain::runs::run::{Order, RunRecord};
use callboard_domain::runs::together::{LEASED_MAX, QueuedJob, lease_together};
use callboard_store::{DueJob, RunSeen};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::ports::{AgentRunner, Answer, Asks, EarlierRuns, Question, RunOrder};
use crate::runs::ending::stopped;
use crate::runs::queue::run_of;
use crate::task::wait::RunFeed;
use crate::{Engine, EngineError};

/// How many jobs are looked at in one go; the rest waits for the next look.
const BATCH: usize = 32;

/// What makes a worker look at the queue, besides its clock and the jobs of its own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alert {
    /// Nothing: commits of other processes cost it nothing. For the many processes that serve one agent each.
    Own,
    /// Events of jobs in any process. The worker reads what all processes commit.
    Everybody,
}

/// The state of the loop that runs jobs, shared with the calls that submit them.
#[derive(Default)]
pub(crate) struct RunQueue {
    nudge: Notify,
    /// The number of agents and stops that this process runs.
    at_work: AtomicUsize,
    /// The numbers of runs among them: patch jobs, work on tasks, workers of crews.
    patches: AtomicU32,
    works: AtomicU32,
    crews: AtomicU32,
}

impl RunQueue {
    /// How many runs of a kind this process has.
    pub fn running(&self, kind: JobKind) -> u32 {
        self.count(kind).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn count(&self, kind: JobKind) -> Option<&AtomicU32> {
        match kind {
            JobKind::Run => Some(&self.patches),
            JobKind::Work => Some(&self.works),
            JobKind::Crew => Some(&self.crews),
            JobKind::Verify
            | JobKind::Embed
            | JobKind::Deliver
            | JobKind::Stop
            | JobKind::Check => None,
        }
    }
}

/// A run that this process has leased.
#[derive(Clone)]
pub(crate) struct LeasedRun {
    pub org: Arc<str>,
    pub job: JobId,
    pub fence: u64,
}

impl Engine {
    /// Wakes the loop: there may be a job to run.
    pub(crate) fn runs_nudge(&self) {
        self.runs.nudge.notify_one();
    }

    /// Runs jobs until canceled; then the running ones get a while, and are stopped and given back.
    pub async fn run_agents_until(self: Arc<Self>, stop: CancellationToken, alert: Alert) {
        let Some(agents) = self.parts.agents.clone() else { return };
        // Processes and folders of runs that did not end in order go first.
        agents.clean_up().await;
        if let Err(error) = self.runs_recover().await {
            tracing::warn!(%error, "cannot look for jobs that a process left behind");
        }
        let mut running = JoinSet::new();
        let give_up = CancellationToken::new();
        let mut feed = None;
        let mut tick = tokio::time::interval(self.parts.runs.look_every);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let is_tick = tokio::select! {
                () = stop.cancelled() => break,
                _ = tick.tick() => true,
                () = self.runs.nudge.notified() => false,
                () = queue_moved(&mut feed) => false,
                Some(_) = running.join_next() => {
                    // Runs that ended in one commit free their places for one look.
                    while running.try_join_next().is_some() {}
                    false
                }
            };
            match &mut feed {
                // This look covers all events up to now.
                Some(feed) => feed.skip(),
                None if alert == Alert::Everybody => feed = self.run_feed(None).await.ok(),
                None => {}
            }
            // Settling looks at every open job, so it is not repeated each time one ends.
            if is_tick && let Err(error) = self.runs_settle().await {
                tracing::warn!(%error, "cannot settle expired and lost jobs");
            }
            if let Err(error) = self.runs_start(&agents, &mut running, &give_up).await {
                tracing::warn!(%error, "cannot start jobs");
            }
            if let Err(error) = self.stops_start(&mut running).await {
                tracing::warn!(%error, "cannot stop agents");
            }
            if let Err(error) = self.works_start(&mut running, &give_up).await {
                tracing::warn!(%error, "cannot start agents");
            }
            self.runs.at_work.store(running.len(), Ordering::Relaxed);
        }
        // Agents get `drain` to end by themselves; then they are stopped, and their jobs go back into the queue.
        let all = async { while running.join_next().await.is_some() {} };
        tokio::pin!(all);
        if tokio::time::timeout(self.parts.runs.drain, &mut all).await.is_err() {
            give_up.cancel();
            all.await;
        }
    }

    /// How many agents this process runs, and how long it waits for them when it is asked to end.
    pub fn agents_at_work(&self) -> (usize, Duration) {
        (self.runs.at_work.load(Ordering::Relaxed), self.parts.runs.drain)
    }

    /// Settles jobs, then runs the ones due now, one after the other. Returns how many were run.
    pub async fn run_agents(self: &Arc<Self>) -> Result<usize, EngineError> {
        self.runs_settle().await?;
        let Some(agents) = self.parts.agents.clone() else { return Ok(0) };
        let mut ran = 0;
        while let Some((taken, record)) = self.runs_lease(1).await?.pop() {
            self.run_job(&*agents, taken, record, CancellationToken::new()).await;
            ran += 1;
        }
        let mut running = JoinSet::new();
        loop {
            self.stops_start(&mut running).await?;
            self.works_start(&mut running, &CancellationToken::new()).await?;
            match running.join_next().await {
                Some(_) => ran += 1,
                None => return Ok(ran),
            }
        }
    }

    /// Writes the changes that time made to jobs. Returns how many it changed.
    pub async fn runs_settle(&self) -> Result<usize, EngineError> {
        let overdue = self.parts.store.runs_overdue(BATCH).await?;
        let steps = overdue.iter().map(|due| self.settling(due, false)).collect();
        for (due, answer) in overdue.iter().zip(self.act_all_as_runner(steps).await) {
            self.run_settled(due, run_of(answer?)?).await?;
        }
        Ok(overdue.len())
    }

    /// Settles the runs of processes of this machine that are gone.
    async fn runs_recover(&self) -> Result<(), EngineError> {
        for due in self.parts.store.runs_on(&self.parts.machine).await? {
            match &due.job.state {
                JobState::Running { runner, .. } if (self.parts.is_gone)(runner) => {
                    let (org, settle) = self.settling(&due, true);
                    let record = run_of(self.act_as_runner(&org, settle).await?)?;
                    self.run_settled(&due, record).await?;
                }
                _ if due.job.is_over() => {
                    let seen = self.parts.store.run(&due.org, due.job.id).await?;
                    if let Some(RunSeen { record, .. }) = seen
                        && !self.has_process(&record).await
                    {
                        self.work_gone_tell(&due.org, &record).await?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The step that writes what time did to one job: its wait is over, its lease is over, or its runner is gone. The
    /// rule is `RunSettle`.
    fn settling(&self, due: &DueJob, is_gone: bool) -> (Arc<str>, Command) {
        let attempts_max = match due.job.kind.is_in_workspace() {
            true => self.parts.board.attempts_max,
            false => self.parts.runs.attempts_max,
        };
        let hold_s = self.parts.runs.hold_s;
        let settle = RunSettle { job: due.job.id, hold_s, attempts_max, is_gone };
        (due.org.clone(), Command::RunSettle(settle))
    }

    /// Gives a job that time ended before it ran its one line of log.
    async fn run_settled(&self, due: &DueJob, record: RunRecord) -> Result<(), EngineError> {
        let was_running = matches!(due.job.state, JobState::Running { .. });
        if record.job.is_over() && !was_running {
            self.run_note(&due.org, &record).await?;
        }
        Ok(())
    }

    /// Starts queued patch jobs until the queue is empty or the machine is full. The jobs of one look are leased in one
    /// commit.
    async fn runs_start(
        self: &Arc<Self>,
        agents: &Arc<dyn AgentRunner>,
        running: &mut JoinSet<()>,
        give_up: &CancellationToken,
    ) -> Result<(), EngineError> {
        loop {
            let leased = self.runs_lease(LEASED_MAX).await?;
            if leased.is_empty() {
                return Ok(());
            }
            for (taken, record) in leased {
                let (engine, agents, give_up) = (self.clone(), agents.clone(), give_up.clone());
                let place = RunPlace::take(self, JobKind::Run);
                running.spawn(async move {
                    engine.run_job(&*agents, taken, record, give_up).await;
                    drop(place);
                });
            }
        }
    }

    /// Leases the next jobs in the queue, if there are any and places for them: at most `most`, in one commit. Jobs that
    /// cannot be leased make way for those behind them.
    async fn runs_lease(&self, most: usize) -> Result<Vec<(LeasedRun, RunRecord)>, EngineError> {
        let mut queue =
            self.parts.store.runs_due(JobKind::Run, &self.parts.machine, LEASED_MAX).await?;
        while !queue.is_empty() {
            let waiting = |due: &DueJob| QueuedJob {
                group: (),
                limit: self.parts.runs.running_max,
                at_work: self.runs.running(JobKind::Run),
                task: due.job.task,
            };
            let picked = lease_together(&queue.iter().map(waiting).collect::<Vec<_>>(), most);
            let asked: Vec<DueJob> = picked.iter().map(|place| queue[*place].clone()).collect();
            let (leased, is_full) = self.runs_lease_all(asked).await?;
            if is_full || !leased.is_empty() {
                return Ok(leased);
            }
            let mut place = 0..;
            queue.retain(|_| place.next().is_none_or(|place| !picked.contains(&place)));
        }
        Ok(Vec::new())
    }

    /// Leases these jobs, those that can be, and tells whether the machine is full.
    async fn runs_lease_all(
        &self,
        asked: Vec<DueJob>,
    ) -> Result<(Vec<(LeasedRun, RunRecord)>, bool), EngineError> {
        let (rule, machine) = (&self.parts.runs, &self.parts.machine);
        let lease = |due: &DueJob| {
            let lease = RunLease {
                job: due.job.id,
                kind: JobKind::Run,
                agent: None,
                attempt: AttemptId(self.parts.ids.next_id()),
                machine: machine.clone(),
                running_max: rule.running_max,
                lease_s: rule.lease_s,
                early: false,
            };
            (due.org.clone(), Command::RunLease(lease))
        };
        let answers = self.act_all_as_runner(asked.iter().map(lease).collect()).await;
        let (mut leased, mut is_full, mut fault) = (Vec::new(), false, None);
        for (DueJob { job, org }, answer) in asked.into_iter().zip(answers) {
            match answer.and_then(run_of) {
                Ok(record) => {
                    let fence = record.run.fence;
                    leased.push((LeasedRun { org, job: job.id, fence }, record));
                }
                Err(EngineError::Refused(Refusal::NoPlace { .. })) => is_full = true,
                // Another process leased it first, or its task waits for something.
                Err(EngineError::Refused(_)) => {}
                Err(error) => fault = Some(error),
            }
        }
        match fault {
            // The jobs that were leased are run; the others are found again at the next look.
            Some(error) if leased.is_empty() => Err(error),
            _ => Ok((leased, is_full)),
        }
    }

    /// One run from its lease to its end.
    async fn run_job(
        self: &Arc<Self>,
        agents: &dyn AgentRunner,
        taken: LeasedRun,
        record: RunRecord,
        give_up: CancellationToken,
    ) {
        if let Err(error) = self.run_through(agents, &taken, record, give_up).await {
            tracing::warn!(%error, job = %taken.job, "cannot record a run");
        }
    }

    /// The steps of one run. The feed is opened before anything is started, so that no cancellation is missed.
    async fn run_through(
        self: &Arc<Self>,
        agents: &dyn AgentRunner,
        taken: &LeasedRun,
        record: RunRecord,
        give_up: CancellationToken,
    ) -> Result<(), EngineError> {
        let feed = self.run_feed(Some(taken.job)).await?;
        let run = record.run;
        let Order::Patch(spec) = run.order.clone() else { return Ok(()) };
        let wished = spec.notify.as_ref().and_then(|notify| notify.enable_pr) == Some(true);
        let seconds = spec.execution.timeout_s.unwrap_or(self.parts.runs.timeout_s);
        let order = RunOrder {
            job: taken.job.to_string(),
            attempt: run.attempt,
            spec: *spec,
            has_tokens: self.needs_tokens().await?,
            timeout: Duration::from_secs(seconds.into()),
        };
        let asks = Arc::new(AsksFor { engine: self.clone(), taken: taken.clone() });
        let stop = CancellationToken::new();
        let work = agents.run(order, asks, stop.clone());
        let left = run.expires_at.ms_since(self.parts.store.now()).max(0).unsigned_abs();
        let rule = (self.parts.runs.lease_s, self.parts.runs.heartbeat);
        let watched = self.run_watched(taken, feed, rule, Duration::from_millis(left), give_up);
        tokio::pin!(work, watched);
        // The processes of an earlier run may still be alive on this machine, and would write into the same folder.
        if run.attempt > 1 {
            let earlier = EarlierRuns { job: taken.job.to_string(), below: run.attempt };
            tokio::select! {
                clear = self.run_make_way(taken, vec![earlier]) => clear?,
                () = &mut watched => return self.run_over(taken, stopped(taken)).await,
            }
        }
        let (report, is_wanted) = tokio::select! {
            report = &mut work => (report, true),
            () = &mut watched => {
                stop.cancel();
                (work.await, false)
            }
        };
        let patch = report.patch.clone().filter(|patch| !patch.trim().is_empty());
        let patch =
            patch.filter(|_| is_wanted && wished && report.verdict == RunVerdict::Succeeded);
        let mut end = self.run_ending(taken, &run, report).await?;
        if let Some(patch) = patch {
            // The forge may take its time, so the artifacts are stored first.
            if !self.run_report_keep(taken, &mut end).await? {
                return Ok(());
            }
            let opened = tokio::select! {
                opened = self.pull_open(agents, &taken.org, &run, patch) => opened,
                () = &mut watched => Err("the run had to stop".into()),
            };
            if let Err(cause) = opened {
                end.summary.push_str(&format!("; pull request not opened: {cause}"));
            }
        }
        self.run_over(taken, end).await
    }

    /// Keeps the lease; returns when the run must stop.
    pub(crate) async fn run_watched(
        &self,
        taken: &LeasedRun,
        mut feed: RunFeed,
        (lease_s, heartbeat): (u32, Duration),
        left: Duration,
        give_up: CancellationToken,
    ) {
        let (job, fence) = (taken.job, taken.fence);
        let keep = Command::RunKeep { job, fence, lease_s };
        let mut lease = self.lease_hold(&taken.org, keep.clone(), heartbeat);
        let late = tokio::time::sleep(left);
        tokio::pin!(late);
        let mut is_late = false;
        loop {
            let kept = tokio::select! {
                () = give_up.cancelled() => return,
                // At the end of the job's time the next `RunKeep` finds it expired. The timer must not fire again.
                () = &mut late, if !is_late => {
                    is_late = true;
                    self.act_as_runner(&taken.org, keep.clone()).await
                }
                kept = lease.renewed() => kept,
                event = feed.next() => match event.map(|event| event.name) {
                    Some(
                        EventName::JobCanceled | EventName::JobExpired | EventName::JobRequeued
                        | EventName::JobFailed,
                    ) | None => return,
                    Some(_) => continue,
                },
            };
            match kept.and_then(run_of) {
                Ok(record) if !record.job.is_over() => {}
                Ok(_) | Err(EngineError::Refused(_)) => return,
                // The store may be back before the lease expires.
                Err(error) => tracing::warn!(%error, %job, "cannot keep a job's lease"),
            }
        }
    }

    /// Whether this process still has the run. A process that was frozen has lost its lease.
    pub(crate) async fn run_is_ours(&self, taken: &LeasedRun) -> Result<bool, EngineError> {
        let now = self.parts.store.run(&taken.org, taken.job).await?;
        Ok(now.is_some_and(|now| is_of(&now.record, taken)))
    }
}

/// A run that counts among those of this process until this is dropped.
pub(crate) struct RunPlace(Arc<Engine>, JobKind);

impl RunPlace {
    pub fn take(engine: &Arc<Engine>, kind: JobKind) -> Self {
        if let Some(count) = engine.runs.count(kind) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Self(engine.clone(), kind)
    }
}

impl Drop for RunPlace {
    fn drop(&mut self) {
        if let Some(count) = self.0.runs.count(self.1) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Whether the run is still the one that was leased. A lost run keeps its fencing token until the next one begins; its
/// state, queued, tells.
fn is_of(now: &RunRecord, taken: &LeasedRun) -> bool {
    now.run.fence == taken.fence && !matches!(now.job.state, JobState::Queued { .. })
}

/// Returns when a job may start that could not before.
async fn queue_moved(feed: &mut Option<RunFeed>) {
    while let Some(event) = async { feed.as_mut()?.next().await }.await {
        match event.name {
            EventName::JobSubmitted
            | EventName::JobRequeued
            | EventName::JobSucceeded
            | EventName::JobFailed
            | EventName::JobCanceled
            | EventName::JobExpired => return,
            _ => {}
        }
    }
    std::future::pending().await
}

/// Passes an agent's questions on to the readers of its job.
pub(crate) struct AsksFor {
    pub engine: Arc<Engine>,
    pub taken: LeasedRun,
}

#[async_trait]
impl Asks for AsksFor {
    async fn ask(&self, question: Question) -> Answer {
        match self.answered(question).await {
            Ok(true) => Answer::Granted,
            Ok(false) => Answer::Refused,
            Err(error) => {
                tracing::info!(%error, job = %self.taken.job, "a question failed and counts as refused");
                Answer::Refused
            }
        }
    }
}

impl AsksFor {
    /// Waits for the answer to one question. The feed begins before the question is asked, so a quick answer is not
    /// missed; after `ask_timeout` the question is refused, and the job shows that.
    async fn answered(&self, question: Question) -> Result<bool, EngineError> {
        let (engine, LeasedRun { org, job, fence }) = (&self.engine, &self.taken);
        let mut feed = engine.run_feed(Some(*job)).await?;
        let Question { text, command } = question;
        let ask = Command::RunAsk { job: *job, fence: *fence, text, command };
        let asked = run_of(engine.act_as_runner(org, ask).await?)?;
        let number = asked.run.question.map_or(0, |asked| asked.number);
        let answer = async {
            while let Some(event) = feed.next().await {
                let data = event.read();
                let is_it = data.question() == Some(u64::from(number));
                if event.name == EventName::JobAnswered && is_it {
                    return data.is_granted();
                }
            }
            false
        };
        match tokio::time::timeout(engine.parts.runs.ask_timeout, answer).await {
            Ok(granted) => Ok(granted),
            Err(_) => {
                let refuse = Command::RunAnswer { job: *job, number: Some(number), granted: false };
                match engine.act_as_runner(org, refuse).await {
                    Ok(_) | Err(EngineError::Refused(_)) => Ok(false),
                    Err(error) => Err(error),
                }
            }
        }
    }
}
