//! A crew's tasks: assigned to workers, moved by them, returned, settled, given up. The change that does it also
//! writes the mail about it.

use serde_json::json;

use crate::actor::Actor;
use crate::board::card::Failed;
use crate::command::{CrewAssign, CrewGiveUp, CrewLoss, CrewMove, CrewReturn, CrewSettle};
use crate::crew::agent::{no_epic, no_task, not_of_epic};
use crate::crew::letters::{self, Letter};
use crate::crew::merge::judge_review;
use crate::crew::state::{TaskState, worker_of};
use crate::crew::sweep::keeps_task;
use crate::crew::{Agent, AgentId, Mail, MailId};
use crate::decide::board::card::{go, label_of};
use crate::decide::crew;
use crate::decide::draft::{Draft, NewAttempt};
use crate::decide::input;
use crate::decide::review;
use crate::decide::runs::stop;
use crate::decide::task::block;
use crate::decide::task::verification;
use crate::decide::task::{self, Passage};
use crate::event::EventName;
use crate::ids::TaskId;
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::refusal::found::OrNotFound as _;
use crate::rights::AgentType;
use crate::task::attempt::{AttemptEnd, AttemptKind};
use crate::time::Timestamp;
use crate::world::{Change, CrewWrite, Reply, World};

/// Characters of a reason, which is shown on the card.
const REASON_CHARS_MAX: usize = 4000;
/// Bytes of feedback. The letter has all of it, the card its beginning.
const FEEDBACK_BYTES_MAX: usize = 65536;

/// Assigns a task on the request of an agent, or automatically when `by` is `None`. A supervisor assigns only tasks of
/// its own epic.
pub(crate) fn crew_assign(
    world: &World<'_>,
    new: &CrewAssign,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let draft = Draft::of_task(world, new.task, now)?;
    if let Some(by) = &new.by {
        leads(world, by, draft.task.parent)?;
    }
    assigned(world, new, now)
}

/// Assigns a task to a worker, without judging who asked for it.
pub(crate) fn assigned(
    world: &World<'_>,
    new: &CrewAssign,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, new.task, now)?;
    let worker = known(world, &new.worker)?;
    if worker.kind != AgentType::Worker {
        return Err(state(format!("Agent '{}' is not a WORKER", worker.id)));
    }
    let actor = worker.id.actor();
    let holds = draft.live.as_ref().filter(|live| live.kind == AttemptKind::Crew);
    let old = holds.map(|live| AgentId::of(&live.actor));
    // Idempotent: the worker has the task already.
    if old.as_ref() == Some(&worker.id) && worker.task == Some(new.task) {
        return Ok(draft.unchanged(Reply::Task(new.task)));
    }
    if draft.task.is_plan {
        return Err(state("Task is an epic: assign one of its tasks".into()));
    }
    let stands = stands(&draft);
    if !stands.may_change_hands() {
        return Err(state(format!("Task is in state {stands}")));
    }
    judge_free(&draft, new, &actor)?;
    judge_idle(world, new, worker)?;
    // The engine made a place and letters for the worker it saw. Another one since then makes the command stale, and
    // the engine looks again.
    if old != new.from {
        return Err(Refusal::Conflict { task: new.task, what: "its worker" });
    }
    if let Some(old) = old {
        stop::cancel(&mut draft);
        free(&mut draft, &old);
        let letter = letters::reassigned(&draft.task, worker.id.as_str());
        mail(&mut draft, new.mails[1], new.sender.as_ref(), Some(&old), letter);
    }
    draft.end_live(AttemptEnd::Canceled { reason: format!("assigned to {}", worker.id) });
    begin(&mut draft, new, &actor);
    if let Some(agent) = draft.agent(&worker.id) {
        (agent.task, agent.idle_since, agent.failed_at) = (Some(new.task), None, None);
        agent.updated_at = now;
    }
    let letter = letters::assigned(
        &draft.task,
        draft.subject.body.as_deref().unwrap_or_default(),
        &new.place,
        draft.card.base_branch.as_deref(),
        new.misses.as_deref(),
    );
    mail(&mut draft, new.mails[0], new.sender.as_ref(), Some(&worker.id), letter);
    draft.attempt_entry("assigned", Some(worker.id.to_string()), new.attempt);
    Ok(draft.done())
}

/// Refuses a task that is held outside the crew. An automatic assignment (`by` is `None`) takes only a pending task
/// that has no holder, no block and no open deps.
fn judge_free(draft: &Draft<'_>, new: &CrewAssign, worker: &Actor) -> Result<(), Refusal> {
    if let Some(live) = draft.live.as_ref().filter(|live| live.kind != AttemptKind::Crew) {
        return Err(draft.claimed_by(&live.actor));
    }
    let holder = draft.holder().filter(|holder| *holder != worker);
    match holder {
        Some(holder) if draft.live.is_none() || new.by.is_none() => Err(draft.claimed_by(holder)),
        _ if new.by.is_none() && stands(draft) != TaskState::Pending => {
            Err(Refusal::Conflict { task: new.task, what: "its status" })
        }
        _ if new.by.is_none() && draft.task.blocked.is_some() => {
            Err(Refusal::Conflict { task: new.task, what: "its block" })
        }
        _ if new.by.is_none() => draft.deps_gate(),
        _ => Ok(()),
    }
}

/// Refuses a worker that has another task. A closed task keeps no worker busy.
fn judge_idle(world: &World<'_>, new: &CrewAssign, worker: &Agent) -> Result<(), Refusal> {
    let Some(on) = worker.task.filter(|on| *on != new.task) else { return Ok(()) };
    let seen = world.named.iter().find(|named| named.id == on && new.was_on == Some(on));
    match seen {
        Some(seen) if !seen.is_open() => Ok(()),
        _ => Err(state(format!("Agent '{}' already has task {on}", worker.id))),
    }
}

/// Begins the worker's attempt. It has no lease: a silent worker keeps its task, and mail says that it is silent.
fn begin(draft: &mut Draft<'_>, new: &CrewAssign, actor: &Actor) {
    draft.begin(NewAttempt {
        worktree: new.place.worktree.clone(),
        branch: new.place.branch.clone(),
        head: new.place.head.clone(),
        ..NewAttempt::of(new.attempt, AttemptKind::Crew, actor.clone())
    });
    if draft.task.assignee.as_ref() != Some(actor) {
        draft.assign_to(actor.clone());
    }
}

/// Moves a task as its worker asks. Only the worker that has the task may; completion is left to a supervisor, because
/// a review comes before it.
pub(crate) fn crew_move(
    world: &World<'_>,
    new: &CrewMove,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if let Some(reason) = &new.reason {
        input::said("reason", reason, REASON_CHARS_MAX, "reason cannot be blank")?;
    }
    let by = known(world, &new.by)?;
    if by.task != Some(new.task) {
        return Err(no_task());
    }
    let mut draft = Draft::of_task(world, new.task, now)?;
    let actor = new.by.actor();
    if let Some(holder) = draft.holder().filter(|holder| **holder != actor) {
        return Err(draft.claimed_by(holder));
    }
    if new.to == TaskState::Completed {
        return Err(Refusal::CrewDenied {
            message: "Only a supervisor can complete a task".into(),
        });
    }
    let stands = stands(&draft);
    if stands == new.to {
        return Ok(draft.unchanged(Reply::Task(new.task)));
    }
    // The engine did git's part for the state that it saw.
    if stands != new.from {
        return Err(Refusal::Conflict { task: new.task, what: "its status" });
    }
    // Any step out of the beginning is a start, and a start waits for the deps.
    if draft.task.phase == Phase::Initial && !matches!(new.to, TaskState::Assigned) {
        draft.deps_gate()?;
    }
    if !stands.by_worker().contains(&new.to) {
        return Err(no_way(stands.as_str(), new.to.as_str()));
    }
    // Work that is taken out of review must not be merged behind the worker's back.
    if stands == TaskState::Review {
        draft.merges_revoke();
    }
    let reason = |of: TaskState| {
        let missing = || Refusal::CrewInput { message: format!("reason is required for {of}") };
        new.reason.as_deref().ok_or_else(missing)
    };
    let who = new.by.as_str();
    let letter = match new.to {
        TaskState::Pending => {
            stop::cancel(&mut draft);
            draft.end_live(AttemptEnd::Released);
            free(&mut draft, &new.by);
            draft.unassign();
            None
        }
        TaskState::InProgress => {
            shift(&mut draft, Phase::Working, None)?;
            None
        }
        TaskState::Review => {
            shift(&mut draft, Phase::Review, None)?;
            Some(letters::to_review(&draft.task, who, new.url.as_deref()))
        }
        TaskState::Blocked => {
            let reason = reason(TaskState::Blocked)?;
            shift(&mut draft, Phase::Working, Some((&actor, reason)))?;
            Some(letters::blocked(&draft.task, who, reason))
        }
        TaskState::Failed => {
            let reason = reason(TaskState::Failed)?;
            if let Some(refusal) = give_up(&mut draft, reason)? {
                return Ok(draft.done_but(refusal));
            }
            free(&mut draft, &new.by);
            Some(letters::failed(&draft.task, who, reason))
        }
        TaskState::Assigned | TaskState::Completed => {
            return Err(no_way(stands.as_str(), new.to.as_str()));
        }
    };
    if let Some(letter) = letter {
        // Without a supervisor the letter goes to people.
        let to = new.supervisor.as_ref().filter(|to| world.crew.agent(to).is_some());
        mail(&mut draft, new.mail, Some(&new.by), to, letter);
    }
    draft.entry(format!("moved to {}", new.to), new.reason.clone().or(new.url.clone()));
    Ok(draft.done())
}

/// Moves the task to a phase, blocked or not. Logs an event also where the phase stays.
fn shift(
    draft: &mut Draft<'_>,
    phase: Phase,
    blocked: Option<(&Actor, &str)>,
) -> Result<(), Refusal> {
    let label = label_of(draft.world.policy, phase)?.clone();
    if draft.task.phase == phase {
        let label = &draft.task.label;
        let data =
            json!({"from": label, "to": label, "phase": phase, "blocked": blocked.is_some()});
        draft.event(EventName::TaskStatusChanged, data);
    } else {
        go(draft, &label);
    }
    match blocked {
        Some((by, reason)) => block::block(draft, by, reason),
        None => block::lift(draft),
    }
    Ok(())
}

/// Closes the task as canceled. Returns the refusal of the gates: the task stays, and what they recorded is written.
fn give_up(draft: &mut Draft<'_>, reason: &str) -> Result<Option<Refusal>, Refusal> {
    let label = label_of(draft.world.policy, Phase::ClosedCanceled)?.name.clone();
    let label = match task::passage(draft, &label, (None, None), false)? {
        Passage::Open(label, _) => label,
        Passage::Shut(refusal) => return Ok(Some(refusal)),
    };
    draft.card.failed = Some(Failed { reason: reason.to_owned(), at: draft.now });
    draft.move_to(&label);
    block::lift(draft);
    draft.merges_revoke();
    stop::cancel(draft);
    Ok(None)
}

/// Sends a task in review back to its worker, with feedback by mail and on the card.
pub(crate) fn crew_return(
    world: &World<'_>,
    new: &CrewReturn,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let feedback = &new.feedback;
    if feedback.trim().is_empty() || feedback.len() > FEEDBACK_BYTES_MAX {
        let words = format!("feedback must be 1 to {FEEDBACK_BYTES_MAX} bytes");
        return Err(Refusal::invalid_field("feedback", words));
    }
    let mut draft = Draft::of_task(world, new.task, now)?;
    leads(world, &new.by, draft.task.parent)?;
    in_review(&draft)?;
    let worker = worker_of(draft.live.as_ref(), now)
        .ok_or_else(|| state("Task has no assigned worker".into()))?;
    // The letter is addressed to the worker that the engine saw.
    if new.worker.as_ref() != Some(&worker) || world.crew.agent(&worker).is_none() {
        return Err(state("Task has no assigned worker".into()));
    }
    let words: String = feedback.chars().take(crate::limits::REVIEW_CHARS_MAX).collect();
    // Work that is done again is judged again.
    draft.merges_revoke();
    draft.task.verification = None;
    draft.card.review = Some(review::sent_back(&draft, &words));
    block::lift(&mut draft);
    draft.event(EventName::ReviewRejected, json!({}));
    let label = label_of(world.policy, Phase::Working)?.clone();
    go(&mut draft, &label);
    // An agent that handed its work over and still runs is canceled: the next run hears of the feedback.
    stop::cancel(&mut draft);
    let letter = letters::changes_requested(&draft.task, feedback);
    mail(&mut draft, new.mail, Some(&new.by), Some(&worker), letter);
    draft.entry("requested changes", Some(words));
    Ok(draft.done())
}

/// Records a merge that has happened, so a closed task stays as it is. An approval that finds the task closed came
/// second and is refused.
pub(crate) fn crew_settle(
    world: &World<'_>,
    new: &CrewSettle,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, new.task, now)?;
    if draft.task.phase.is_closed() {
        if new.is_approval {
            in_review(&draft)?;
        }
        return Ok(draft.unchanged(Reply::Task(new.task)));
    }
    let label = label_of(world.policy, Phase::ClosedDone)?.clone();
    let worker = worker_of(draft.live.as_ref(), now);
    verification::approve(&mut draft, true, None);
    review::merged(&mut draft, new.commit.clone());
    block::lift(&mut draft);
    match new.is_merged {
        true => draft.event(EventName::ReviewMerged, json!({"commit": new.commit})),
        false => draft.event(EventName::ReviewApproved, json!({"unmerged": false})),
    }
    go(&mut draft, &label);
    if let Some(worker) = worker.filter(|worker| new.worker.as_ref() == Some(worker)) {
        free(&mut draft, &worker);
    }
    // The epic's branch has moved, so other workers have to rebase.
    for behind in &new.behind {
        if world.crew.agent(&behind.worker).is_none() {
            continue;
        }
        let task = behind.task.to_string();
        let letter =
            letters::rebase_required(&task, &behind.title, &new.epic_branch, new.is_remote);
        mail(&mut draft, behind.mail, new.sender.as_ref(), Some(&behind.worker), letter);
    }
    match new.is_merged {
        true => draft.entry("merged", new.commit.clone()),
        false => draft.entry("approved", Some("nothing to merge".into())),
    }
    Ok(draft.done())
}

/// Closes a task as failed. With `lost`, its worker's agent ended too often: then only a task that this worker is still
/// at is given up.
pub(crate) fn crew_give_up(
    world: &World<'_>,
    new: &CrewGiveUp,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, new.task, now)?;
    if draft.task.phase.is_closed() {
        return Ok(draft.unchanged(Reply::Task(new.task)));
    }
    let worker = worker_of(draft.live.as_ref(), now);
    let is_its = worker.is_some() && worker == new.worker;
    if new.lost.is_some() && !(is_its && stands(&draft).is_at_work()) {
        return Ok(draft.unchanged(Reply::Task(new.task)));
    }
    if let Some(refusal) = give_up(&mut draft, &new.reason)? {
        return Ok(draft.done_but(refusal));
    }
    if let Some(worker) = worker.filter(|_| is_its) {
        match &new.lost {
            Some(lost) => fail(&mut draft, &worker, lost, &new.reason),
            None => free(&mut draft, &worker),
        }
    }
    draft.entry("gave up", Some(new.reason.clone()));
    Ok(draft.done())
}

/// Frees a worker whose task is closed, removed or held by another actor.
pub(crate) fn crew_free(
    world: &World<'_>,
    id: &AgentId,
    on: TaskId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let agent = known(world, id)?;
    // A sweep found the worker by a query; the rows may have changed since.
    let nothing = Change { writes: Vec::new(), events: Vec::new(), reply: Reply::Noted, but: None };
    if agent.task != Some(on) {
        return Ok(nothing);
    }
    let subject = world.subject.as_ref();
    if subject.is_some_and(|subject| keeps_task(id, &subject.task, subject.live())) {
        return Ok(nothing);
    }
    let data = json!({"agentId": id, "taskId": on});
    let mut agent = agent.clone();
    make_idle(&mut agent, now);
    let change = crew::noted(
        vec![CrewWrite::AgentUpdate { agent }],
        vec![crew::event(world, EventName::AgentFreed, data)],
    );
    Ok(change)
}

/// The refusal of a state, in the words of the crew's reference.
pub(crate) fn state(message: String) -> Refusal {
    Refusal::AgentState { message }
}

/// The refusal of a step that the table of states does not have.
pub(crate) fn no_way(from: &str, to: &str) -> Refusal {
    let message = format!("Invalid state transition from {from} to {to}");
    Refusal::CrewInput { message }
}

pub(crate) fn known<'w>(world: &'w World<'_>, id: &AgentId) -> Result<&'w Agent, Refusal> {
    world.crew.agent(id).or_not_found(id)
}

/// Refuses an agent that does not lead the epic. A supervisor leads its own epic, an orchestrator all of them.
fn leads(world: &World<'_>, by: &AgentId, epic: Option<TaskId>) -> Result<(), Refusal> {
    let agent = known(world, by)?;
    if agent.leads(epic) {
        return Ok(());
    }
    if agent.kind == AgentType::Supervisor && agent.epic.is_none() {
        return Err(no_epic());
    }
    Err(not_of_epic())
}

/// The task's state in the crew's words: a held task in its beginning is assigned.
pub(crate) fn stands(draft: &Draft<'_>) -> TaskState {
    TaskState::of(&draft.task, draft.holder().is_some())
}

/// Refuses a task that does not wait for a review.
fn in_review(draft: &Draft<'_>) -> Result<(), Refusal> {
    judge_review(stands(draft))
}

/// The longest idle worker gets the next task, so the time counts from here.
fn make_idle(agent: &mut Agent, now: Timestamp) {
    (agent.task, agent.idle_since, agent.updated_at) = (None, Some(now), now);
}

/// Makes the worker idle, unless it has another task by now.
fn free(draft: &mut Draft<'_>, id: &AgentId) {
    let (task, now) = (draft.task.id, draft.now);
    if let Some(agent) = draft.agent(id).filter(|agent| agent.task == Some(task)) {
        make_idle(agent, now);
    }
}

/// Marks the worker as failed and idle, so it is assigned nothing automatically. Mail tells why: to its supervisor,
/// if there is one, and to people always.
fn fail(draft: &mut Draft<'_>, id: &AgentId, lost: &CrewLoss, reason: &str) {
    let now = draft.now;
    if let Some(agent) = draft.agent(id) {
        make_idle(agent, now);
        agent.failed_at = Some(now);
    }
    let letter = letters::runs_failed(&draft.task, id.as_str(), reason);
    let supervisor = lost.supervisor.as_ref().filter(|to| draft.world.crew.agent(to).is_some());
    if supervisor.is_some() {
        mail(draft, lost.mails[0], Some(id), supervisor, letter.clone());
    }
    mail(draft, lost.mails[1], Some(id), None, letter);
}

/// Sends a letter in the change of its cause, so that no step goes without its mail and no mail without its step.
pub(crate) fn mail(
    draft: &mut Draft<'_>,
    id: MailId,
    from: Option<&AgentId>,
    to: Option<&AgentId>,
    letter: Letter,
) {
    let Letter { subject, body } = letter;
    let mail = Mail {
        id,
        from: from.cloned(),
        to: to.cloned(),
        subject,
        body,
        in_reply_to: None,
        created_at: draft.now,
        read_at: None,
    };
    let Change { writes, events, .. } = crew::sent(draft.world, mail);
    draft.take_over(writes, events);
}
