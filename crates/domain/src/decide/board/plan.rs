//! Plans: proposed by any caller, decided once.

use serde_json::json;

use crate::board::card::Card;
use crate::board::plan::*;
use crate::command::{PlanApprove, PlanPropose, TaskCreate};
use crate::decide::input;
use crate::decide::task;
use crate::event::{Event, EventName};
use crate::ids::TaskId;
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::refusal::found::OrNotFound as _;
use crate::time::Timestamp;
use crate::world::{Change, OrgWrite, Reply, World, Write};

/// Keeps a plan for a person to decide. Nothing is created yet, and any caller that may write may propose.
pub(crate) fn plan_propose(
    world: &World<'_>,
    given: &PlanPropose,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let (tasks, todos) = (&given.tasks, &given.todos);
    if !(1..=TASKS_MAX).contains(&tasks.len()) {
        let message = format!("tasks must hold 1..{TASKS_MAX} tasks, got {}", tasks.len());
        return Err(Refusal::invalid(message));
    }
    if todos.len() > STEPS_MAX {
        let message = format!("at most {STEPS_MAX} todos, got {}", todos.len());
        return Err(Refusal::invalid(message));
    }
    let plan = Plan {
        id: given.plan,
        by: world.actor.clone(),
        at: now,
        tasks: tasks.iter().enumerate().map(planned).collect::<Result<_, _>>()?,
        todos: todos.iter().enumerate().map(todo).collect::<Result<_, _>>()?,
        state: PlanState::Draft,
    };
    let counts = json!({"plan": plan.id, "tasks": plan.tasks.len(), "todos": plan.todos.len()});
    Ok(Change {
        events: vec![event(world, EventName::PlanProposed, counts)],
        reply: Reply::Plan(plan.id),
        writes: vec![Write::Org(OrgWrite::PlanInsert { plan })],
        but: None,
    })
}

/// Judges one planned task. Messages count places from 0, as the caller's list does.
fn planned((place, given): (usize, &PlannedTask)) -> Result<PlannedTask, Refusal> {
    let field = |name: &str| format!("task {place}: {name}");
    let title = given.title.trim();
    let blank = format!("task {place}: title cannot be empty");
    input::said(&field("title"), title, TITLE_CHARS_MAX, &blank)?;
    input::longest(&field("description"), &given.description, DESCRIPTION_CHARS_MAX)?;
    // Blank criteria are dropped, not refused.
    let criteria = given.acceptance_criteria.iter().map(|text| text.trim().to_owned());
    let criteria: Vec<String> = criteria.filter(|text| !text.is_empty()).collect();
    if criteria.len() > CRITERIA_MAX {
        let (field, got) = (field("acceptance_criteria"), criteria.len());
        let message = format!("{field} must have at most {CRITERIA_MAX} items, got {got}");
        return Err(Refusal::invalid(message));
    }
    for text in &criteria {
        input::longest(&field("acceptance_criteria"), text, CRITERION_CHARS_MAX)?;
    }
    Ok(PlannedTask { title: title.into(), acceptance_criteria: criteria, ..given.clone() })
}

/// Judges one step of the plan. Todos only describe the way; they never become tasks.
fn todo((place, given): (usize, &Todo)) -> Result<Todo, Refusal> {
    let (field, content) = (format!("todo {place}: content"), given.content.trim());
    input::said(&field, content, CONTENT_CHARS_MAX, &format!("{field} cannot be empty"))?;
    Ok(Todo { content: content.into(), status: given.status })
}

/// Approves a plan and creates its tasks, in one change.
pub(crate) fn plan_approve(
    world: &World<'_>,
    given: &PlanApprove,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let plan = draft(world, given.plan)?;
    let (mut writes, mut created, mut earlier) = (Vec::new(), Vec::new(), Vec::new());
    for (planned, id) in plan.tasks.iter().zip(&given.tasks) {
        let new = create(given.project, *id, planned);
        let change = task::task_create_after(world, &earlier, &new, now)?;
        // A later task of the plan may name an earlier one, which no store has yet.
        earlier.push(task::just_created(world, &new)?);
        writes.extend(change.writes);
        created.extend(change.events);
    }
    let tasks: Vec<TaskId> = given.tasks.iter().take(plan.tasks.len()).copied().collect();
    let data = json!({"plan": plan.id, "tasks": tasks});
    let mut events = vec![event(world, EventName::PlanApproved, data)];
    events.extend(created);
    let state = PlanState::Approved { at: now, by: world.actor.clone(), tasks };
    writes.push(Write::Org(OrgWrite::PlanUpdate { plan: Plan { state, ..plan.clone() } }));
    Ok(Change { writes, events, reply: Reply::Plan(plan.id), but: None })
}

/// A planned task as a command. Plans know neither deps nor checks; a person adds them on the board.
fn create(project: i64, task: TaskId, planned: &PlannedTask) -> TaskCreate {
    TaskCreate {
        task,
        project,
        reference: None,
        title: planned.title.clone(),
        body: planned.description.clone(),
        priority: planned.priority.number(),
        parent: None,
        deps: Vec::new(),
        checks: Vec::new(),
        verification: None,
        execution_contract: None,
        over_quota: None,
        card: Box::new(Card {
            mode: planned.mode,
            criteria: planned.acceptance_criteria.clone(),
            ..Card::default()
        }),
        phase: Phase::Initial,
        is_plan: false,
        notes: Vec::new(),
    }
}

/// Rejects a plan, with or without words. The words stand in the event only: the plan itself says who rejected it and
/// when.
pub(crate) fn plan_reject(
    world: &World<'_>,
    id: PlanId,
    words: Option<&str>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let plan = draft(world, id)?;
    let mut data = json!({"plan": id});
    if let Some(words) = words {
        let blank = "words cannot be blank";
        data["words"] = input::said("words", words, WORDS_CHARS_MAX, blank)?.into();
    }
    let state = PlanState::Rejected { at: now, by: world.actor.clone() };
    Ok(Change {
        writes: vec![Write::Org(OrgWrite::PlanUpdate { plan: Plan { state, ..plan.clone() } })],
        events: vec![event(world, EventName::PlanRejected, data)],
        reply: Reply::Plan(id),
        but: None,
    })
}

/// The plan, if it is still to be decided. A second decision is refused instead of repeated, because the first one may have
/// created tasks.
fn draft<'w>(world: &'w World<'_>, id: PlanId) -> Result<&'w Plan, Refusal> {
    let plan = world.org.plan.as_ref().or_not_found(&id)?;
    match plan.state {
        PlanState::Draft => Ok(plan),
        PlanState::Approved { .. } | PlanState::Rejected { .. } => {
            Err(Refusal::PlanDecided { plan: id, state: plan.state.as_str() })
        }
    }
}

fn event(world: &World<'_>, name: EventName, data: serde_json::Value) -> Event {
    Event { actor: world.actor.clone(), name, about: None, data }
}
