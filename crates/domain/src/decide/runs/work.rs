//! Agents that work on a task in its workspace: requested, admitted, at work, ended. This file decides about the
//! task; leases and losses are those of every run (`run.rs`).

use serde_json::{Value, json};

use crate::actor::Actor;
use crate::board::card::{Mode, Review, ReviewState};
use crate::command::{RunLease, Start, TerminalStart, WorkPlace, WorkSubmit};
use crate::decide::board::card;
use crate::decide::crew;
use crate::decide::draft::Draft;
use crate::decide::review;
use crate::decide::runs::run::{Step, attempt_of, begin_attempt, end_run};
use crate::decide::runs::start;
use crate::decide::task::block;
use crate::event::EventName;
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::runs::job::{Job, JobId, JobState};
use crate::runs::run::{Order, Run, RunRecord, Terminal};
use crate::runs::work::ending::without_tags;
use crate::runs::work::{Ending, Role, WorkEnd, WorkFault, WorkOrder, work_key};
use crate::task::attempt::{Attempt, AttemptEnd};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// How much of an agent's last message is kept beside the task.
const REPLY_CHARS_KEPT: usize = 2000;

/// Queues an agent's work on a task, or answers with the run that is there. A task has at most one open run in its
/// workspace.
pub(crate) fn work_submit(
    world: &World<'_>,
    new: &WorkSubmit,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, new.task, now)?;
    if new.order.role == Role::Crew {
        return crew::run::submit(draft, new);
    }
    let open = open_work(world);
    match (&open, new.order.role) {
        (Some(open), Role::Reviewer | Role::Crew) => {
            return Ok(draft.unchanged(Reply::Run(open.job.id)));
        }
        (Some(open), Role::Worker) if role(&open.run) == Some(Role::Worker) => {
            let waits = matches!(open.job.state, JobState::Queued { .. });
            // At a terminal the answer is the run under way, so that the person can follow it.
            if waits && open.run.up_at.is_none() || new.start != Start::Board {
                return Ok(draft.unchanged(Reply::Run(open.job.id)));
            }
            // A worker is at work already, as requested; the request and its answer stay on record as a job that is
            // done.
            queue(&mut draft, new, JobState::Done { at: now }, Some(now));
            return Ok(draft.done_beside(Reply::Run(new.job)));
        }
        (Some(_), Role::Worker) | (None, _) => {}
    }
    if let (Role::Worker, Start::Terminal(wish)) = (new.order.role, &new.start) {
        return terminal(draft, new, wish, open);
    }
    if new.order.role == Role::Worker {
        if draft.card.mode != Mode::Auto {
            return Err(Refusal::NotAuto { task: new.task });
        }
        draft.deps_gate()?;
        if let Some(refusal) = draft.held_by_another() {
            return Err(refusal);
        }
        if let Some(open) = open {
            make_room(&mut draft, open);
        }
    }
    queue(&mut draft, new, JobState::Queued { due_at: now }, None);
    Ok(draft.done_beside(Reply::Run(new.job)))
}

/// Cancels a review that is under way, because its task is worked on again.
fn make_room(draft: &mut Draft<'_>, RunRecord { job, run }: RunRecord) {
    let mut step = Step { world: draft.world, job, run, now: draft.now };
    step.set_canceled("An agent works on the task again");
    let words = step.last_words();
    step.into_draft(draft, EventName::JobCanceled, words);
}

/// A start that a person typed: the task is brought into a state in which work can begin, and the job waits `held_s`
/// for the terminal's own process before any server takes it.
fn terminal(
    mut draft: Draft<'_>,
    new: &WorkSubmit,
    wish: &TerminalStart,
    open: Option<RunRecord>,
) -> Result<Change, Refusal> {
    let is_canceled = start::prepare(&mut draft, wish)?;
    if let Some(open) = open.filter(|_| !is_canceled) {
        make_room(&mut draft, open);
    }
    let is_prepared = draft.has_changes();
    let due_at = draft.now.plus_s(wish.held_s);
    queue(&mut draft, new, JobState::Queued { due_at }, None);
    let reply = Reply::Run(new.job);
    match is_prepared {
        true => Ok(Change { reply, ..draft.done() }),
        false => Ok(draft.done_beside(reply)),
    }
}

/// The role of a run in a workspace; a patch job has none.
pub(crate) fn role(run: &Run) -> Option<Role> {
    run.order.work().map(|order| order.role)
}

/// The open run in the subject's workspace.
pub(crate) fn open_work(world: &World<'_>) -> Option<RunRecord> {
    let (job, run) = (world.job.as_ref()?, world.run.as_ref()?);
    let open = !job.is_over() && role(run).is_some();
    open.then(|| RunRecord { job: job.clone(), run: run.clone() })
}

/// Queues a run, or records one that is over.
pub(crate) fn queue(
    draft: &mut Draft<'_>,
    new: &WorkSubmit,
    state: JobState,
    up_at: Option<Timestamp>,
) {
    let (now, role) = (draft.now, new.order.role);
    let key = work_key(role, new.task);
    // The default priority, whatever that of the tasks: first come, first served.
    let job = Job { state, ..Job::queued(new.job, role.job_kind(), key, Some(new.task), now) };
    let order = Order::Work(new.order.clone());
    let run = Run {
        up_at,
        gone_at: up_at,
        bound_to: new.bound_to.clone(),
        ..Run::queued(new.job, order, now, now.plus_s(new.ttl_s))
    };
    let step = Step { world: draft.world, job, run, now };
    let asked = json!({"role": new.order.role.as_str(), "waits": new.waits});
    let asked = step.event(EventName::JobSubmitted, asked);
    draft.event(asked.name, asked.data);
    if up_at.is_some() {
        let up = step.event(EventName::JobSucceeded, Value::Null);
        draft.event(up.name, up.data);
    }
    draft.insert_job(step.job, Some(step.run));
}

/// Lets the agent begin, unless an obstacle came up since the request.
pub(crate) fn admit(mut step: Step<'_>, lease: &RunLease) -> Change {
    let Some(order) = step.run.order.work().cloned() else { return step.unchanged() };
    let Some(mut draft) = step.draft() else {
        return step.fail(WorkFault::TaskGone.as_str(), "The task was deleted");
    };
    let fence = match order.role {
        Role::Crew => return crew::run::admit(step, draft, lease),
        Role::Reviewer => step.run.fence + 1,
        Role::Worker => {
            if let Some((fault, words)) = obstacle(&draft, &order) {
                return refused(step, fault, &words);
            }
            let working = draft.world.policy.working().cloned();
            if let Some(working) = working.filter(|_| draft.task.phase != Phase::Working) {
                draft.move_to(&working);
            }
            let agent = lease.agent.clone().unwrap_or_else(|| order.asked_by.clone());
            begin_attempt(&mut draft, lease.attempt, agent.clone(), order.model.clone());
            draft.assign_to(agent);
            draft.attempt_entry("started a run", None, lease.attempt);
            draft.task.fence
        }
    };
    step.begin(lease, fence);
    let draft = (order.role == Role::Worker).then_some(draft);
    step.with(draft, EventName::JobStarted, json!({"fence": fence}))
}

/// What came between the request and the start: the rules were judged at the request, and the task may have changed
/// since.
fn obstacle(draft: &Draft<'_>, order: &WorkOrder) -> Option<(WorkFault, String)> {
    if draft.card.mode != Mode::Auto {
        let refusal = Refusal::NotAuto { task: draft.task.id };
        return Some((WorkFault::NotAuto, refusal.message()));
    }
    if let Err(refusal) = draft.deps_gate() {
        return Some((WorkFault::DepsOpen, refusal.message()));
    }
    let holder = draft.live.as_ref().map(|live| &live.actor);
    let holder = holder.or(draft.task.assignee.as_ref().filter(|who| **who != order.asked_by));
    holder.map(|holder| (WorkFault::Held, format!("{} is held by {holder}", draft.task.id)))
}

/// Fails a run that never began; the task stays as it is.
pub(crate) fn refused(mut step: Step<'_>, fault: WorkFault, words: &str) -> Change {
    step.job.state = JobState::Failed { at: step.now, reason: fault.as_str().into() };
    step.run.gone_at = Some(step.now);
    step.summary(words);
    let words = step.last_words();
    step.alone(EventName::JobFailed, words)
}

/// Records that the agent is at work and where. The start has succeeded from here on, whatever becomes of the work.
pub(crate) fn work_up(
    world: &World<'_>,
    id: JobId,
    fence: u64,
    (place, terminal): (&WorkPlace, Option<&Terminal>),
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut step = Step::own(world, id, fence, now)?;
    // A patch job has no workspace, and is over only with its result.
    role(&step.run).ok_or(Refusal::JobLost { job: id })?;
    step.run.terminal = terminal.cloned();
    let placed = attempt_of(world, &step.run).map(|live| Write::AttemptUpdate {
        attempt: Attempt {
            worktree: place.worktree.clone(),
            branch: place.branch.clone(),
            head_started: place.head.clone(),
            ..live.clone()
        },
    });
    let is_first = step.run.up_at.is_none();
    step.run.up_at = step.run.up_at.or(Some(now));
    let mut change = match is_first {
        true => step.alone(EventName::JobSucceeded, Value::Null),
        false => step.alone(EventName::JobStarted, json!({"resumed": true})),
    };
    change.writes.extend(placed);
    Ok(change)
}

/// Records how a run ended. A run that was lost is refused: the next run decides about the task.
pub(crate) fn work_end(
    world: &World<'_>,
    id: JobId,
    fence: u64,
    end: &WorkEnd,
    agent: &Actor,
    reviewer: Option<JobId>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut step = Step::of(world, id, now)?;
    // The fence rises only with the next run; until then a lost run is known by its state in the queue.
    let is_lost = matches!(step.job.state, JobState::Queued { .. });
    let role = role(&step.run).filter(|_| step.run.fence == fence && !is_lost);
    let role = role.ok_or(Refusal::JobLost { job: id })?;
    step.run.gone_at = Some(now);
    // Canceled meanwhile; only that no process is left is still news.
    if step.job.is_over() {
        return Ok(step.alone(EventName::JobEnded, json!({"gone": true})));
    }
    match (end, role) {
        (WorkEnd::NotStarted { reason }, Role::Crew) => Ok(crew::run::not_started(step, reason)),
        (WorkEnd::Failed { reason }, Role::Crew) => Ok(crew::run::ended(step, Some(reason))),
        (WorkEnd::Replied { .. }, Role::Crew) => Ok(crew::run::ended(step, None)),
        (WorkEnd::NotStarted { reason }, _) => Ok(not_started(step, reason, agent)),
        (WorkEnd::Failed { reason }, _) => Ok(step.fail(WorkFault::Failed.as_str(), reason)),
        (WorkEnd::Stopped, _) => {
            step.job.state = JobState::Stale { runner: world.actor.clone(), until: now };
            Ok(step.alone(EventName::JobStale, Value::Null))
        }
        (WorkEnd::Replied { reply, ending }, Role::Worker) => {
            Ok(worked(step, reply, ending.as_ref(), agent, reviewer))
        }
        (WorkEnd::Replied { ending, .. }, Role::Reviewer) => {
            Ok(reviewed(step, ending.as_ref(), agent))
        }
    }
}

/// The agent did not start. The next one would not start either before the cause is removed, so a worker's task is
/// blocked.
fn not_started(mut step: Step<'_>, reason: &str, agent: &Actor) -> Change {
    let Some(order) = step.run.order.work().cloned().filter(|it| it.role == Role::Worker) else {
        return step.fail(WorkFault::NotStarted.as_str(), reason);
    };
    let fault = WorkFault::NotStarted.as_str().into();
    step.job.state = JobState::Failed { at: step.now, reason: fault };
    step.summary(reason);
    let mut draft = step.draft();
    if let Some(draft) = &mut draft {
        give_back(draft, &order, reason);
        if !draft.task.phase.is_closed() {
            block::block(draft, agent, reason);
        }
    }
    let words = step.last_words();
    step.with(draft, EventName::JobFailed, words)
}

/// The run of a worker ended by itself.
fn worked(
    mut step: Step<'_>,
    reply: &str,
    ending: Option<&Ending>,
    agent: &Actor,
    reviewer: Option<JobId>,
) -> Change {
    step.job.state = JobState::Done { at: step.now };
    let tail = tail(reply);
    let mut draft = step.draft();
    let mut to_review = false;
    if let Some(draft) = &mut draft {
        let note = match ending {
            Some(Ending::Blocked { reason }) => format!("{tail}\n\nBlocked: {reason}"),
            _ => tail.clone(),
        };
        noted(draft, &note);
        let said = without_tags(&tail);
        let summary = said.lines().last().unwrap_or_default().to_owned();
        end_run(draft, AttemptEnd::Finished { summary, head: None });
        unassign(draft);
        match ending {
            // The agent requested a review itself, or the task was moved meanwhile.
            _ if draft.task.phase != Phase::Working => {
                to_review = draft.task.phase == Phase::Review;
            }
            Some(Ending::Complete) => {
                to_review = true;
                requested(draft, &said, agent);
                if let Some(review) = draft.world.policy.review().cloned() {
                    draft.move_to(&review);
                }
            }
            Some(Ending::Blocked { reason }) => {
                draft.back_to_start();
                block::block(draft, agent, reason);
            }
            Some(Ending::Continue | Ending::Approve { .. } | Ending::Reject { .. }) | None => {}
        }
        draft.entry("run ended", None);
    }
    let (id, bound_to, now) = (step.job.id, step.run.runs_on.clone(), step.now);
    let words = step.last_words();
    let Some(mut draft) = draft else { return step.alone(EventName::JobEnded, words) };
    step.into_draft(&mut draft, EventName::JobEnded, words);
    if let Some(job) = reviewer.filter(|_| to_review) {
        let order = WorkOrder {
            role: Role::Reviewer,
            asked_by: draft.actor().clone(),
            instructions: None,
            model: None,
        };
        let (task, waits, ttl_s) = (draft.task.id, false, REVIEW_TTL_S);
        let start = Start::Board;
        let new = WorkSubmit { job, task, order, bound_to, waits, ttl_s, start };
        queue(&mut draft, &new, JobState::Queued { due_at: now }, None);
    }
    Change { reply: Reply::Run(id), ..draft.done() }
}

/// How long a review may wait and take.
const REVIEW_TTL_S: u32 = 3600;

/// Records what a reviewer found, as advice; the task stays in review for a decision.
fn reviewed(mut step: Step<'_>, ending: Option<&Ending>, agent: &Actor) -> Change {
    step.job.state = JobState::Done { at: step.now };
    let verdict = match ending {
        Some(Ending::Approve { summary }) => Some((ReviewState::Approved, summary)),
        Some(Ending::Reject { reason }) => Some((ReviewState::Rejected, reason)),
        Some(Ending::Complete | Ending::Continue | Ending::Blocked { .. }) | None => None,
    };
    let mut draft = step.draft().filter(|draft| draft.task.phase == Phase::Review);
    if let (Some(draft), Some((state, words))) = (&mut draft, verdict) {
        let found = review::decision(draft, state, words);
        draft.card.review = Some(Review { by: agent.clone(), is_advice: true, ..found });
        let name = match state {
            ReviewState::Approved => EventName::ReviewApproved,
            ReviewState::Requested | ReviewState::Rejected => EventName::ReviewRejected,
        };
        draft.event(name, json!({"by": agent, "advice": true}));
        draft.entry("reviewed", Some(words.clone()));
    }
    if let (Some(draft), Some(Ending::Blocked { reason })) = (&mut draft, ending) {
        block::block(draft, agent, reason);
        draft.entry("blocked", Some(reason.clone()));
    }
    let words = step.last_words();
    step.with(draft, EventName::JobEnded, words)
}

pub(crate) fn work_stop(world: &World<'_>, id: JobId, now: Timestamp) -> Result<Change, Refusal> {
    let mut step = Step::of(world, id, now)?;
    if step.job.is_over() {
        return Ok(step.unchanged());
    }
    if step.run.runs_on.is_none() {
        step.run.gone_at = Some(now);
    }
    Ok(step.give_up(EventName::JobCanceled, JobState::Canceled { at: now }, "Stopped"))
}

/// Records that no process of a run is left. Idempotent: nothing changes when a later run has begun or the end of
/// this one is on record.
pub(crate) fn work_gone(
    world: &World<'_>,
    id: JobId,
    fence: u64,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut step = Step::of(world, id, now)?;
    if step.run.fence != fence || !step.job.is_over() || step.run.gone_at.is_some() {
        return Ok(step.unchanged());
    }
    step.run.gone_at = Some(now);
    Ok(step.alone(EventName::JobEnded, json!({"gone": true})))
}

/// Cancels a run that is not wanted any more; the task keeps its status.
pub(crate) fn cancel(mut step: Step<'_>, words: &str) -> Change {
    step.set_canceled(words);
    let mut draft = step.draft().filter(|_| role(&step.run) == Some(Role::Worker));
    if let Some(draft) = &mut draft {
        end_run(draft, AttemptEnd::Canceled { reason: words.to_owned() });
        unassign(draft);
    }
    let words = step.last_words();
    step.with(draft, EventName::JobCanceled, words)
}

/// Frees the task of a worker whose run ended without a result.
pub(crate) fn give_back(draft: &mut Draft<'_>, order: &WorkOrder, reason: &str) {
    if order.role != Role::Worker {
        return;
    }
    end_run(draft, AttemptEnd::Canceled { reason: reason.to_owned() });
    unassign(draft);
    noted(draft, reason);
    if draft.task.phase == Phase::Working {
        draft.back_to_start();
    }
    draft.entry("run ended", Some(reason.to_owned()));
}

/// Unassigns the agent of the last attempt, unless another actor has taken the task meanwhile.
pub(crate) fn unassign(draft: &mut Draft<'_>) {
    let last = draft.subject.newest.as_ref().map(|attempt| &attempt.actor);
    if draft.live.is_none() && draft.task.assignee.is_some() && draft.task.assignee.as_ref() == last
    {
        draft.unassign();
    }
}

/// Appends to the task's notes.
fn noted(draft: &mut Draft<'_>, text: &str) {
    if text.trim().is_empty() {
        return;
    }
    draft.scratchpad = card::kept(&draft.scratchpad, text);
    draft.event(EventName::TaskScratchpad, json!({"chars": draft.scratchpad.chars().count()}));
}

/// Requests a review with the run's summary, for an agent that did not request it itself.
fn requested(draft: &mut Draft<'_>, summary: &str, agent: &Actor) {
    let (by, now) = (agent.clone(), draft.now);
    let review = Review {
        state: ReviewState::Requested,
        summary: summary.to_owned(),
        feedback: None,
        by,
        requested_at: now,
        decided_at: None,
        conflict_files: Vec::new(),
        merge_commit: None,
        is_advice: false,
        tree: None,
        rounds: review::rounds(draft),
    };
    draft.card.review = Some(review);
    draft.event(EventName::ReviewRequested, json!({"by": agent}));
}

fn tail(reply: &str) -> String {
    let reply = reply.trim();
    let skip = reply.chars().count().saturating_sub(REPLY_CHARS_KEPT);
    reply.chars().skip(skip).collect()
}
