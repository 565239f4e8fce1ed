//! Jobs for agents: submitted, leased, kept, lost, ended. Each visible step is one event, whose number is the job's
//! version from then on. A worker with an old fencing token, or of a job that is over, is refused and writes
//! nothing.

use serde_json::{Map, Value, json};

use crate::actor::Actor;
use crate::board::card::Card;
use crate::command::{RunEnd, RunLease, RunSettle, RunSubmit, TaskCreate};
use crate::decide::crew;
use crate::decide::draft::{Draft, NewAttempt, job_writes};
use crate::decide::runs::delivery;
use crate::decide::runs::output;
use crate::decide::runs::work;
use crate::decide::task;
use crate::decide::task::check;
use crate::event::{About, Event, EventName};
use crate::ids::AttemptId;
use crate::limits::{BODY_BYTES_MAX, CRITERIA_MAX, CRITERION_CHARS_MAX};
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::refusal::found::Sought as _;
use crate::relay::spec::TaskRequest;
use crate::relay::{FailReason, RunVerdict};
use crate::runs::job::{Job, JobId, JobKind, JobState};
use crate::runs::run::{ArtifactName, Order, Question, Run, holder, run_key};
use crate::runs::work::{Role, WorkFault};
use crate::task::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

pub(crate) const CANCELED: &str = "Canceled by user";
pub(crate) const LOST: &str = "Worker lost";
const SUMMARY_CHARS_MAX: usize = 500;

/// A job on its way to its next step.
pub(crate) struct Step<'w> {
    pub world: &'w World<'w>,
    pub job: Job,
    pub run: Run,
    pub now: Timestamp,
}

impl<'w> Step<'w> {
    /// The job a command names.
    pub fn of(world: &'w World<'w>, id: JobId, now: Timestamp) -> Result<Self, Refusal> {
        match (&world.job, &world.run) {
            (Some(job), Some(run)) if job.id == id => {
                Ok(Self { world, job: job.clone(), run: run.clone(), now })
            }
            _ => Err(id.not_found()),
        }
    }

    /// The job a runner names, if `fence` is the token of its current run.
    pub fn own(
        world: &'w World<'w>,
        id: JobId,
        fence: u64,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        let step = Self::of(world, id, now)?;
        let lost = Err(Refusal::JobLost { job: id });
        match step.job.state {
            JobState::Running { .. } | JobState::Stale { .. } if step.run.fence == fence => {
                Ok(step)
            }
            _ => lost,
        }
    }

    /// Whether the job's time is over. Every step asks this first: a late result does not count.
    pub fn is_too_late(&self) -> bool {
        self.now >= self.run.expires_at
    }

    /// Sets the one line that says how the job stands. Line breaks become blanks, since readers show it in lists.
    pub fn summary(&mut self, text: &str) {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.run.summary = Some(line.chars().take(SUMMARY_CHARS_MAX).collect());
    }

    /// Cancels the job. A run that never began has no process that could be left.
    pub fn set_canceled(&mut self, words: &str) {
        self.job.state = JobState::Canceled { at: self.now };
        if self.run.runs_on.is_none() {
            self.run.gone_at = Some(self.now);
        }
        self.summary(words);
    }

    /// An event of this job, about its task if the task is still there.
    pub fn event(&self, name: EventName, more: Value) -> Event {
        let mut data = Map::new();
        data.insert("job".into(), self.job.id.to_string().into());
        data.insert("state".into(), self.job.state.as_str().into());
        data.insert("attempt".into(), self.run.attempt.into());
        if let Value::Object(more) = more {
            data.extend(more);
        }
        let about = self.world.subject.as_ref().map(|subject| About {
            project: subject.task.project,
            task: subject.task.id,
            attempt: None,
        });
        let actor = self.world.actor.clone();
        Event { actor, name, about, data: data.into() }
    }

    /// Makes the step: the rows to add and the events to log. A step that ends the job also queues the webhook about
    /// it.
    fn take(&mut self, name: EventName, more: Value) -> (Vec<Write>, Vec<Event>) {
        self.run.changed_at = self.now;
        let event = self.event(name, more);
        let webhook = self.run.webhook.as_ref();
        let told = webhook.and_then(|to| delivery::queued(&self.job, to, &event, self.now));
        match told {
            Some((writes, told)) => (writes.into(), vec![event, told]),
            None => (Vec::new(), vec![event]),
        }
    }

    /// The whole change of a step that ends nothing.
    pub fn reported(mut self, event: Event) -> Change {
        self.run.changed_at = self.now;
        let reply = Reply::Run(self.job.id);
        let writes = job_writes(self.world, Some(self.job), Some(self.run));
        Change { writes, events: vec![event], reply, but: None }
    }

    /// The whole change, when the task has no part in it.
    pub fn alone(mut self, name: EventName, more: Value) -> Change {
        let reply = Reply::Run(self.job.id);
        let (told, events) = self.take(name, more);
        let mut writes = job_writes(self.world, Some(self.job), Some(self.run));
        writes.extend(told);
        Change { writes, events, reply, but: None }
    }

    /// Makes the step a part of the change of the job's task. The job's events come after the task's so far: a reader
    /// of a job event finds the task as that event says.
    pub fn into_draft(mut self, draft: &mut Draft<'_>, name: EventName, more: Value) {
        let (told, events) = self.take(name, more);
        told.into_iter().for_each(|write| draft.write(write));
        events.into_iter().for_each(|event| draft.event(event.name, event.data));
        (draft.job, draft.run) = (Some(self.job), Some(self.run));
    }

    /// The answer to a step that changes nothing.
    pub fn unchanged(&self) -> Change {
        let (writes, events) = Default::default();
        Change { writes, events, reply: Reply::Run(self.job.id), but: None }
    }

    /// The change together with that of the task.
    pub fn with(self, draft: Option<Draft<'_>>, name: EventName, more: Value) -> Change {
        let Some(mut draft) = draft else { return self.alone(name, more) };
        let reply = Reply::Run(self.job.id);
        self.into_draft(&mut draft, name, more);
        Change { reply, ..draft.done() }
    }

    /// The job's task; `None` when it was removed.
    pub fn draft(&self) -> Option<Draft<'w>> {
        let task = self.job.task?;
        Draft::of_task(self.world, task, self.now).ok()
    }

    /// The data of the event that ends the job, for the callers that wait for it.
    pub fn last_words(&self) -> Value {
        let ms = |at: Timestamp| at.0 / 1000;
        let names: Vec<&str> = self.run.artifact_names().map(ArtifactName::as_str).collect();
        let mut words = json!({
            "summary": self.run.summary,
            "artifacts": names,
            "finished_at": ms(self.now),
        });
        if let Some(started) = self.run.started_at {
            words["started_at"] = ms(started).into();
        }
        if let JobState::Failed { reason, .. } = &self.job.state {
            words["reason"] = reason.as_str().into();
        }
        words
    }

    /// Ends the job without a result: the task of a patch is canceled, that of other work is given back.
    pub fn give_up(mut self, name: EventName, state: JobState, summary: &str) -> Change {
        self.job.state = state;
        self.summary(summary);
        let mut draft = self.draft();
        if let Some(draft) = &mut draft {
            match &self.run.order {
                Order::Patch(_) => close_canceled(draft, summary),
                Order::Work(order) => work::give_back(draft, order, summary),
            }
        }
        let words = self.last_words();
        self.with(draft, name, words)
    }

    /// Hands the job to the runner that leases it.
    pub fn begin(&mut self, lease: &RunLease, fence: u64) {
        let run = &mut self.run;
        run.fence = fence;
        run.attempt = run.attempt.max(1);
        run.started_at = Some(self.now);
        run.gone_at = None;
        run.terminal = None;
        run.runs_on = Some(lease.machine.clone());
        run.summary = None;
        // A question of an earlier run has no agent that waits for its answer.
        run.question = run.question.take().map(|asked| Question { answer: Some(false), ..asked });
        self.job.tries += 1;
        let runner = self.world.actor.clone();
        self.job.state = JobState::Running { runner, until: self.now.plus_s(lease.lease_s) };
    }

    /// Ends a job whose time is over, in the queue or at work.
    pub fn expire(self) -> Change {
        let ttl_s = self.run.expires_at.ms_since(self.job.created_at) / 1000;
        let summary = format!("Exceeded TTL of {ttl_s}s");
        let at = self.now;
        self.give_up(EventName::JobExpired, JobState::Expired { at }, &summary)
    }

    /// Ends a job with a reason that clients can branch on, and words for people.
    pub fn fail(self, reason: &'static str, summary: &str) -> Change {
        let state = JobState::Failed { at: self.now, reason: reason.into() };
        self.give_up(EventName::JobFailed, state, summary)
    }
}

/// Ends the attempt of a run.
pub(crate) fn end_run(draft: &mut Draft<'_>, end: AttemptEnd) {
    // A task that was taken from us may have another attempt by now.
    if draft.live.as_ref().is_some_and(|live| live.kind == AttemptKind::Job) {
        draft.end_live(end);
    }
}

/// Closes the task of a patch job that came to nothing: the task was made for the job alone.
fn close_canceled(draft: &mut Draft<'_>, reason: &str) {
    end_run(draft, AttemptEnd::Canceled { reason: reason.to_owned() });
    if draft.task.phase.is_closed() {
        return;
    }
    match draft.world.policy.first_of(Phase::ClosedCanceled).cloned() {
        Some(label) => draft.move_to(&label),
        // A project without a canceled label keeps the task, free for any actor.
        None => {
            draft.back_to_start();
            draft.unassign();
        }
    }
    draft.entry("job ended", Some(reason.to_owned()));
}

/// Queues a patch job, with a task of its own. A repeat of its key within the window after the job's end finds the
/// first job.
pub(crate) fn run_submit(
    world: &World<'_>,
    new: &RunSubmit,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if let (Some(job), Some(_)) = (&world.job, &world.run) {
        let ended = match job.state {
            JobState::Queued { .. } | JobState::Running { .. } | JobState::Stale { .. } => None,
            JobState::Done { at }
            | JobState::Failed { at, .. }
            | JobState::Canceled { at }
            | JobState::Expired { at } => Some(at),
        };
        if ended.is_none_or(|at| now < at.plus_s(new.window_s)) {
            let (writes, events) = Default::default();
            return Ok(Change { writes, events, reply: Reply::Run(job.id), but: None });
        }
    }
    let open = world.open_runs;
    if open.queued + open.running >= new.open_max {
        return Err(Refusal::TooManyJobs { open, limit: new.open_max });
    }
    let execution = &new.spec.execution;
    let priority = execution.priority.rank();
    let create = TaskCreate {
        task: new.task,
        project: new.project,
        reference: None,
        title: new.spec.task.title.clone(),
        body: body(&new.spec.task),
        priority,
        parent: None,
        deps: Vec::new(),
        checks: Vec::new(),
        verification: None,
        execution_contract: None,
        over_quota: None,
        card: Box::new(Card { criteria: criteria(&new.spec.task), ..Card::default() }),
        phase: Phase::Initial,
        is_plan: false,
        notes: Vec::new(),
    };
    let mut change = task::task_create(world, &create, now)?;
    // The task is held from its first moment, so that no agent claims what a job does.
    for write in &mut change.writes {
        if let Write::TaskInsert { task, .. } = write {
            task.assignee = Some(holder());
        }
    }
    let key = run_key(&new.spec.idempotency_key);
    let job = Job { priority, ..Job::queued(new.job, JobKind::Run, key, Some(new.task), now) };
    let order = Order::Patch(Box::new(new.spec.clone()));
    let run = Run {
        content_hash: new.spec.content_hash(),
        bound_to: new.bound_to.clone(),
        webhook: new.webhook.clone(),
        ..Run::queued(new.job, order, now, now.plus_s(execution.ttl_s))
    };
    let about = Some(About { project: new.project, task: new.task, attempt: None });
    let claimed = json!({"assignee": holder()});
    change.events.push(Event {
        actor: world.actor.clone(),
        name: EventName::TaskClaimed,
        about,
        data: claimed,
    });
    let step = Step { world, job: job.clone(), run: run.clone(), now };
    let asked = json!({
        "idempotencyKey": new.spec.idempotency_key,
        "priority": execution.priority.as_str(),
    });
    change.events.push(Event { about, ..step.event(EventName::JobSubmitted, asked) });
    change.writes.extend([Write::JobInsert { job }, Write::RunInsert { run, task: new.task }]);
    Ok(Change { reply: Reply::Run(new.job), ..change })
}

/// The acceptance criteria of a request, cut to the number and length that a card allows.
fn criteria(wanted: &TaskRequest) -> Vec<String> {
    let cut = |text: &String| text.chars().take(CRITERION_CHARS_MAX).collect();
    wanted.acceptance.iter().take(CRITERIA_MAX).map(cut).collect()
}

/// The task's text: the description, then the criteria, cut to what a body may hold.
fn body(wanted: &TaskRequest) -> String {
    let mut text = wanted.description.clone();
    if !wanted.acceptance.is_empty() {
        text.push_str("\n\nAcceptance:\n");
        for item in &wanted.acceptance {
            text.push_str(&format!("- {item}\n"));
        }
    }
    while text.len() > BODY_BYTES_MAX {
        text.pop();
    }
    text
}

/// Leases a queued job to a runner. A job that is bound to a machine, not due or too late is lost to this runner; a
/// full machine is another refusal, because the runner then stops looking.
pub(crate) fn run_lease(
    world: &World<'_>,
    lease: &RunLease,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut step = Step::of(world, lease.job, now)?;
    let elsewhere = step.run.bound_to.as_ref().is_some_and(|bound| *bound != lease.machine);
    let queued = match step.job.state {
        JobState::Queued { due_at } => now >= due_at || lease.early,
        _ => false,
    };
    if elsewhere || !queued || step.is_too_late() {
        return Err(Refusal::JobLost { job: lease.job });
    }
    if world.runs_here >= lease.running_max {
        return Err(Refusal::NoPlace { limit: lease.running_max });
    }
    let model = match &step.run.order {
        Order::Work(_) => return Ok(work::admit(step, lease)),
        Order::Patch(spec) => spec.execution.preferred_model.clone(),
    };
    let mut draft = step.draft().ok_or(Refusal::JobLost { job: lease.job })?;
    draft.deps_gate()?;
    if let Some(live) = &draft.live {
        return Err(draft.claimed_by(&live.actor));
    }
    if draft.task.phase == Phase::Initial
        && let Some(working) = world.policy.working().cloned()
    {
        draft.move_to(&working);
    }
    begin_attempt(&mut draft, lease.attempt, holder(), Some(model));
    let fence = draft.task.fence;
    step.begin(lease, fence);
    draft.attempt_entry("started a run", None, lease.attempt);
    Ok(step.with(Some(draft), EventName::JobStarted, json!({"fence": fence})))
}

/// Begins the next attempt on a task, for the agent of a run. The lease belongs to the job: this file decides what its
/// end means, not the task's other rules.
pub(crate) fn begin_attempt(
    draft: &mut Draft<'_>,
    id: AttemptId,
    actor: Actor,
    model: Option<String>,
) {
    draft.begin(NewAttempt { model, ..NewAttempt::of(id, AttemptKind::Job, actor) });
}

/// Extends the lease of a run. A run whose lease was lost and not taken by another resumes.
pub(crate) fn run_keep(
    world: &World<'_>,
    id: JobId,
    fence: u64,
    lease_s: u32,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut step = Step::own(world, id, fence, now)?;
    if step.is_too_late() {
        return Ok(step.expire());
    }
    let was_stale = matches!(step.job.state, JobState::Stale { .. });
    step.job.state = JobState::Running { runner: world.actor.clone(), until: now.plus_s(lease_s) };
    let beat = beat(world, &step.run, now);
    if was_stale {
        step.run.summary = None;
        let mut change = step.alone(EventName::JobStarted, json!({"resumed": true}));
        change.writes.extend(beat);
        return Ok(change);
    }
    // A heartbeat is no visible step: `job.kept` is logged, but the job's version stays.
    let event = step.event(EventName::JobKept, Value::Null);
    let mut writes = job_writes(world, Some(step.job), None);
    writes.extend(beat);
    Ok(Change { writes, events: vec![event], reply: Reply::Run(id), but: None })
}

/// The attempt of a run; for a worker of a crew the attempt that the run is a part of.
pub(crate) fn attempt_of<'w>(world: &'w World<'_>, run: &Run) -> Option<&'w Attempt> {
    let live = world.subject.as_ref()?.live()?;
    let is_own = match run.order.work().filter(|order| order.role == Role::Crew) {
        Some(order) => live.kind == AttemptKind::Crew && live.actor == order.asked_by,
        None => live.fence == run.fence,
    };
    is_own.then_some(live)
}

/// The heartbeat of the run's attempt.
fn beat(world: &World<'_>, run: &Run, now: Timestamp) -> Option<Write> {
    let live = attempt_of(world, run)?;
    let AttemptState::Live { progress, lease, .. } = &live.state else { return None };
    let state = AttemptState::Live { heartbeat_at: now, progress: progress.clone(), lease: *lease };
    Some(Write::AttemptUpdate { attempt: Attempt { state, ..live.clone() } })
}

/// Writes what time did to a job: expired, lost, or back into the queue. A lost run is held for `hold_s` first: its
/// runner may only have been slow.
pub(crate) fn run_settle(
    world: &World<'_>,
    settle: &RunSettle,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut step = Step::of(world, settle.job, now)?;
    if step.job.is_over() {
        return Ok(step.unchanged());
    }
    if step.is_too_late() {
        return Ok(step.expire());
    }
    match step.job.state.clone() {
        JobState::Running { runner, until } if now >= until || settle.is_gone => {
            if settle.is_gone {
                step.run.gone_at = Some(now);
            }
            step.job.state = JobState::Stale { runner, until: now.plus_s(settle.hold_s) };
            step.summary(LOST);
            Ok(step.alone(EventName::JobStale, Value::Null))
        }
        JobState::Stale { until, .. } if now >= until => Ok(requeue(step, settle.attempts_max)),
        _ => Ok(step.unchanged()),
    }
}

/// Puts a lost run back into the queue, unless it was lost too often.
fn requeue(mut step: Step<'_>, attempts_max: u32) -> Change {
    let is_crew = work::role(&step.run) == Some(Role::Crew);
    if is_crew && crew::run::is_last(&step, attempts_max) {
        return crew::run::lost(step);
    }
    if step.run.attempt >= attempts_max {
        let summary = match step.run.attempt {
            1 => LOST.to_owned(),
            times => format!("{LOST} {times} times"),
        };
        let reason = match step.run.order {
            Order::Patch(_) => FailReason::InternalError.as_str(),
            Order::Work(_) => WorkFault::Lost.as_str(),
        };
        return step.fail(reason, &summary);
    }
    step.run.attempt += 1;
    step.job.state = JobState::Queued { due_at: step.now };
    let mut draft = step.draft();
    if let Some(draft) = &mut draft {
        end_run(draft, AttemptEnd::Expired);
        match step.run.order {
            Order::Patch(_) => draft.back_to_start(),
            // The next run goes on where this one was. The task keeps its status, so it is not offered to others
            // meanwhile.
            Order::Work(_) => work::unassign(draft),
        }
        let why = step.run.summary.clone().filter(|why| why != LOST);
        draft.entry("run lost", why);
    }
    step.with(draft, EventName::JobRequeued, Value::Null)
}

/// Records the result of a patch job, after everything that its run leaves: a reader of the end finds all of it.
pub(crate) fn run_end(world: &World<'_>, end: &RunEnd, now: Timestamp) -> Result<Change, Refusal> {
    let mut step = Step::own(world, end.job, end.fence, now)?;
    // A run in a workspace ends with `WorkEnd`: a patch's verdict would close its task past the checks.
    if work::role(&step.run).is_some() {
        return Err(Refusal::JobLost { job: end.job });
    }
    let used = end.used.as_ref().map(|(agent, usage)| output::used(&mut step, agent, *usage));
    let mut left: Vec<Event> = used.into_iter().collect();
    left.extend(end.artifacts.iter().map(|new| output::kept(&mut step, new)));
    let mut change = verdict(step, end);
    change.events.splice(0..0, left);
    change.writes.extend(end.artifacts.iter().filter_map(output::stored));
    Ok(change)
}

fn verdict(mut step: Step<'_>, end: &RunEnd) -> Change {
    if step.is_too_late() {
        return step.expire();
    }
    match end.verdict {
        RunVerdict::Failed(reason) => step.fail(reason.as_str(), &end.summary),
        // The worker goes away, so another one may lease the job at once.
        RunVerdict::Stopped => {
            step.job.state = JobState::Stale { runner: step.world.actor.clone(), until: step.now };
            step.summary(LOST);
            step.alone(EventName::JobStale, Value::Null)
        }
        RunVerdict::Succeeded => {
            step.job.state = JobState::Done { at: step.now };
            step.summary(&end.summary);
            let mut draft = step.draft();
            if let Some(draft) = &mut draft {
                close_done(draft, &end.summary);
            }
            let words = step.last_words();
            step.with(draft, EventName::JobSucceeded, words)
        }
    }
}

/// Closes the task of a patch job that succeeded.
fn close_done(draft: &mut Draft<'_>, summary: &str) {
    end_run(draft, AttemptEnd::Finished { summary: summary.to_owned(), head: None });
    if draft.task.phase.is_closed() {
        return;
    }
    // Checks that were added meanwhile gate the task as anywhere.
    let unmet = !check::unmet(&draft.task, |check| check.passes_for(None, None)).is_empty();
    let phase = if unmet { Phase::Review } else { Phase::ClosedDone };
    if let Some(label) = draft.world.policy.first_of(phase).cloned() {
        draft.move_to(&label);
    }
    draft.entry("job ended", Some(summary.to_owned()));
}

/// Cancels a job. Idempotent: a job that is over stays as it is. Its runner hears of it by the event.
pub(crate) fn run_cancel(world: &World<'_>, id: JobId, now: Timestamp) -> Result<Change, Refusal> {
    let step = Step::of(world, id, now)?;
    if step.job.is_over() {
        return Ok(step.unchanged());
    }
    if step.is_too_late() {
        return Ok(step.expire());
    }
    match step.run.order {
        Order::Patch(_) => {
            Ok(step.give_up(EventName::JobCanceled, JobState::Canceled { at: now }, CANCELED))
        }
        // The job asked for a start, which has happened; an agent at work is stopped by other commands.
        Order::Work(_) if step.run.up_at.is_some() => Ok(step.unchanged()),
        Order::Work(_) => Ok(work::cancel(step, CANCELED)),
    }
}
