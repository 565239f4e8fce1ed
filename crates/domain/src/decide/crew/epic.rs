//! Epics: tasks added to them, blocked, canceled, finished with a pull request for all of their work.

use serde_json::json;

use crate::board::card::Card;
use crate::command::{EpicFinish, EpicMove, EpicTaskAdd, TaskCreate};
use crate::crew::AgentId;
use crate::crew::agent::not_of_epic;
use crate::crew::letters;
use crate::crew::merge::{FinishGate, epic_is, finish_gate};
use crate::crew::state::EpicState;
use crate::decide::board::card::label_of;
use crate::decide::crew::task::{known, mail, no_way, state};
use crate::decide::draft::Draft;
use crate::decide::task::block;
use crate::decide::task::{self, Passage};
use crate::event::EventName;
use crate::ids::TaskId;
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::refusal::found::{AsEpic, Sought as _};
use crate::task::PRIORITY_DEFAULT;
use crate::time::Timestamp;
use crate::world::{Change, Reply, World};

/// Adds a task to an epic. The first task turns a plain task into an epic, gives it the branch that all of its work
/// goes to, and starts it unless it still waits for deps.
pub(crate) fn epic_task_add(
    world: &World<'_>,
    new: &EpicTaskAdd,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = of_epic(world, new.epic, now)?;
    // A supervisor may make an epic out of its own task. An orchestrator leads every epic, and would otherwise make an
    // epic of any task it names.
    let is_own = steered_as_own(world, &new.by, new.epic)?;
    if !is_own && !draft.task.is_plan {
        return Err(AsEpic(new.epic).not_found());
    }
    let stands = EpicState::of(&draft.task);
    if !stands.is_open() {
        return Err(epic_is(stands));
    }
    // The branch of an epic is chosen once: tasks that were made before already start from it.
    let is_branched = draft.card.branch.is_some();
    let epic_branch = draft.card.branch.get_or_insert_with(|| new.epic_branch.clone()).clone();
    let create = TaskCreate {
        task: new.task,
        project: draft.task.project,
        reference: None,
        title: new.title.clone(),
        body: new.body.clone(),
        priority: PRIORITY_DEFAULT,
        parent: Some(new.epic),
        deps: Vec::new(),
        checks: Vec::new(),
        verification: None,
        execution_contract: None,
        over_quota: None,
        card: Box::new(Card {
            workspace: Some(new.workspace.clone()),
            branch: Some(new.branch.clone()),
            base_branch: Some(epic_branch),
            ..Card::default()
        }),
        phase: Phase::Initial,
        is_plan: false,
        notes: Vec::new(),
    };
    let mut made = task::task_create(world, &create, now)?;
    let begins = stands == EpicState::Planning && draft.deps_gate().is_ok();
    if !begins && is_branched {
        return Ok(made);
    }
    draft.task.is_plan = true;
    if begins {
        let working = label_of(world.policy, Phase::Working)?.clone();
        draft.move_to(&working);
        changed(&mut draft, EpicState::Planning, EpicState::InProgress);
    }
    draft.entry("planned its first task", Some(create.title.clone()));
    let Change { writes, events, .. } = draft.done();
    made.writes.extend(writes);
    made.events.extend(events);
    Ok(made)
}

/// Moves an epic as its supervisor or an orchestrator asks. `Completed` is not reached here: it needs the pull request
/// of `epic_finish`.
pub(crate) fn epic_move(
    world: &World<'_>,
    new: &EpicMove,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = of_epic(world, new.epic, now)?;
    steered_as_own(world, &new.by, new.epic)?;
    let stands = EpicState::of(&draft.task);
    if stands == new.to {
        return Ok(draft.unchanged(Reply::Task(new.epic)));
    }
    if new.to == EpicState::Completed {
        return Err(state("Use mcp__epic__create_epic_pr".into()));
    }
    if !stands.by_supervisor().contains(&new.to) {
        return Err(no_way(stands.as_str(), new.to.as_str()));
    }
    match new.to {
        EpicState::InProgress => {
            if draft.task.phase == Phase::Initial {
                draft.deps_gate()?;
                let label = label_of(world.policy, Phase::Working)?.clone();
                draft.move_to(&label);
            }
            block::lift(&mut draft);
        }
        EpicState::Blocked => {
            let reason = format!("said {}", new.by);
            block::block(&mut draft, &new.by.actor(), &reason);
        }
        EpicState::Cancelled => {
            let label = label_of(world.policy, Phase::ClosedCanceled)?.name.clone();
            // A refusal of the gate leaves its trace in the task's history, so the change is written although the call
            // is refused.
            let label = match task::passage(&mut draft, &label, (None, None), false)? {
                Passage::Open(label, _) => label,
                Passage::Shut(refusal) => return Ok(draft.done_but(refusal)),
            };
            draft.move_to(&label);
            block::lift(&mut draft);
        }
        // `by_supervisor` allows neither; the match stays total for states to come.
        EpicState::Planning | EpicState::Completed => {
            return Err(no_way(stands.as_str(), new.to.as_str()));
        }
    }
    changed(&mut draft, stands, new.to);
    draft.entry(format!("moved to {}", new.to), None);
    Ok(draft.done())
}

/// Closes an epic whose pull request is open, and tells people by mail. Idempotent: a finished epic stays as it is. The
/// checks of the epic itself have run before; their results come with the command.
pub(crate) fn epic_finish(
    world: &World<'_>,
    new: &EpicFinish,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = of_epic(world, new.epic, now)?;
    steered_as_own(world, &new.by, new.epic)?;
    match finish_gate(EpicState::of(&draft.task))? {
        FinishGate::Finished => return Ok(draft.unchanged(Reply::Task(new.epic))),
        FinishGate::Open => {}
    }
    let done = label_of(world.policy, Phase::ClosedDone)?.name.clone();
    let seen = (new.checked.as_ref(), new.work.as_deref());
    let (label, ran) = match task::passage(&mut draft, &done, seen, true)? {
        Passage::Open(label, ran) => (label, ran),
        Passage::Shut(refusal) => return Ok(draft.done_but(refusal)),
    };
    draft.move_to(&label);
    block::lift(&mut draft);
    let data = json!({"url": new.url, "completed": new.completed, "failed": new.failed});
    draft.event(EventName::EpicCompleted, data);
    let letter = letters::epic_complete(&draft.task, &new.url, new.completed, new.failed);
    mail(&mut draft, new.mail, Some(&new.by), None, letter);
    draft.entry("completed the epic", ran.map(|ran| format!("checks: {ran}")));
    Ok(draft.done())
}

/// The epic as a draft. Callers named an epic, so a missing task is refused in that word.
fn of_epic<'w>(world: &'w World<'w>, epic: TaskId, now: Timestamp) -> Result<Draft<'w>, Refusal> {
    Draft::of_task(world, epic, now).map_err(|_| AsEpic(epic).not_found())
}

/// Refuses an agent that does not lead the epic. Returns whether the epic is the agent's own.
fn steered_as_own(world: &World<'_>, by: &AgentId, epic: TaskId) -> Result<bool, Refusal> {
    let agent = known(world, by)?;
    match agent.leads(Some(epic)) {
        true => Ok(agent.epic == Some(epic)),
        false => Err(not_of_epic()),
    }
}

/// Logs the move in the crew's own words, beside the status event of the task.
fn changed(draft: &mut Draft<'_>, from: EpicState, to: EpicState) {
    let data = json!({"from": from.as_str(), "to": to.as_str()});
    draft.event(EventName::EpicStatusChanged, data);
}
