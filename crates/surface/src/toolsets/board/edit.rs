//! Tools that change tasks: create, update, move, delete, and the notes.

use callboard_domain::board::card::{Card, Terminal};
use callboard_domain::command::CardUpdate;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::fold;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::Task;
use callboard_engine::TaskDraft;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::envelope::{Envelope, NextCall, Reply};
use super::tasks::{TaskArgument, task_id};
use super::words::{PriorityWord, Status, TaskType, Written, project_of, written};
use crate::tool::Call;

/// The reference's limits, which are lower than the core's.
const TITLE_CHARS_MAX: usize = 200;
const DESCRIPTION_CHARS_MAX: usize = 10_000;
/// The code of an answer that says how a mode in the place of a status was understood.
const STATUS_WAS_TASK_TYPE: &str = "STATUS_WAS_TASK_TYPE";
const STATUSES: &str = "status takes BACKLOG, IN_PROGRESS, REVIEW, DONE";

/// Refuses a text that is longer than this toolset allows, which is less than the core does.
fn at_most(field: &str, text: Option<&String>, chars_max: usize) -> Result<(), Refusal> {
    let chars = text.map_or(0, |text| text.trim().chars().count());
    if chars <= chars_max {
        return Ok(());
    }
    let words = format!("{field} must be at most {chars_max} characters, got {chars}");
    Err(Refusal::invalid(words))
}

/// The id of a parent; text that is no id names no task.
fn parent_id(text: &str) -> Result<TaskId, Refusal> {
    text.trim().parse().map_err(|_| Refusal::ParentNotFound { task: text.into() })
}

/// The terminal of a task; an empty text leaves the choice to the settings.
fn terminal(text: &str) -> Result<Option<Terminal>, Refusal> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let found = Terminal::parse(&fold(text));
    found.map(Some).ok_or_else(|| {
        let known = Terminal::ALL.map(Terminal::as_str).join(", ");
        Refusal::invalid(format!("terminal_backend must be one of {known}"))
    })
}

/// Refuses an agent that this server does not know how to run; an empty text names no agent.
fn judge_agent(call: &Call<'_>, given: Option<&String>) -> Result<(), Refusal> {
    let known = &call.engine.board_rule().agents;
    match given.map(|text| text.trim()).filter(|text| !text.is_empty()) {
        Some(name) if !known.iter().any(|agent| agent == name) => {
            let known = known.join(", ");
            Err(Refusal::invalid(format!("agent_backend must be one of {known}")))
        }
        _ => Ok(()),
    }
}

/// The status and the mode of two arguments, and a note if the caller mixed them up.
struct Placed {
    status: Option<Status>,
    mode: Option<TaskType>,
    mixed_up: Option<String>,
}

/// Tells status and mode apart. A mode in the place of the status is taken as the mode unless the mode is given, too.
fn placed(status: Option<&String>, mode: Option<TaskType>) -> Result<Placed, Refusal> {
    Ok(match status.map(|text| written(text)).transpose()? {
        None => Placed { status: None, mode, mixed_up: None },
        Some(Written::Status(status)) => Placed { status: Some(status), mode, mixed_up: None },
        Some(Written::TaskType(meant)) => {
            let word = meant.word();
            let mixed_up = match mode.filter(|mode| *mode != meant) {
                Some(_) => format!("Ignored status='{word}': task_type has another value"),
                None => format!("Interpreted status='{word}' as task_type='{word}'"),
            };
            Placed { status: None, mode: mode.or(Some(meant)), mixed_up: Some(mixed_up) }
        }
    })
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TasksCreateRequest {
    /// of one task; several go into tasks
    title: Option<String>,
    #[serde(flatten)]
    about: CreateFields,
    /// several tasks, at most 100, all or none; then nothing stands beside it
    tasks: Option<Vec<CreateOne>>,
}

#[derive(Deserialize, JsonSchema)]
struct CreateOne {
    title: String,
    #[serde(flatten)]
    about: CreateFields,
}

// `PartialEq` and `Default` tell a call with `tasks` alone from one that also has fields beside it.
#[derive(Default, PartialEq, Deserialize, JsonSchema)]
struct CreateFields {
    description: Option<String>,
    project_id: Option<String>,
    /// BACKLOG, IN_PROGRESS, REVIEW or DONE [default: BACKLOG]
    status: Option<String>,
    priority: Option<PriorityWord>,
    /// [default: PAIR]
    task_type: Option<TaskType>,
    /// tmux, vscode or cursor
    terminal_backend: Option<String>,
    agent_backend: Option<String>,
    parent_id: Option<String>,
    base_branch: Option<String>,
    acceptance_criteria: Option<Vec<String>>,
    /// a note; never who acts
    created_by: Option<String>,
}

/// Creates one task or several. Both forms at once are refused: it would not be clear which fields are meant for all.
pub(super) async fn tasks_create(call: &Call<'_>, args: TasksCreateRequest) -> Reply {
    let TasksCreateRequest { title, about, tasks } = args;
    match (title, tasks) {
        (Some(title), None) => create_one(call, CreateOne { title, about }).await,
        (None, Some(tasks)) if about == CreateFields::default() => create_all(call, tasks).await,
        (None, None) => {
            Err(Refusal::invalid("title is required for one task, or tasks for several").into())
        }
        (Some(_), Some(_)) | (None, Some(_)) => {
            let words =
                "tasks excludes title and the other fields: put them into each entry of tasks";
            Err(Refusal::invalid(words).into())
        }
    }
}

async fn create_one(call: &Call<'_>, one: CreateOne) -> Reply {
    let (draft, mixed_up) = draft(call, one)?;
    let made = call.engine.task_create(call.op, draft).await?.it.task;
    let done = match mixed_up {
        Some(words) => Envelope::yes(words).code(STATUS_WAS_TASK_TYPE).hint(STATUSES),
        None => Envelope::yes("Task created"),
    };
    Ok(done.answer(call, created(&made)))
}

/// Creates all tasks or none. Refusals name the place in the caller's list.
async fn create_all(call: &Call<'_>, all: Vec<CreateOne>) -> Reply {
    let mut drafts = Vec::with_capacity(all.len());
    let mut mixed_up = Vec::new();
    for (place, one) in all.into_iter().enumerate() {
        let (draft, words) = draft(call, one).map_err(|refusal| refusal.of_task_at(place))?;
        drafts.push(draft);
        mixed_up.extend(words.map(|words| format!("task {place}: {words}")));
    }
    let made = call.engine.task_create_all(call.op, drafts).await?;
    let done = match (made.len(), mixed_up.as_slice()) {
        (1, []) => Envelope::yes("1 task created"),
        (count, []) => Envelope::yes(format!("{count} tasks created")),
        (_, words) => Envelope::yes(words.join("; ")).code(STATUS_WAS_TASK_TYPE).hint(STATUSES),
    };
    let made: Vec<Value> = made.iter().map(|record| created(&record.task)).collect();
    // The keys of one task stay, as the published schema says that they are in every answer.
    let fields = json!({"task_id": null, "title": null, "status": null, "tasks": made});
    Ok(done.answer(call, fields))
}

fn created(made: &Task) -> Value {
    json!({"task_id": made.id, "title": made.title, "status": Status::of(made.phase).word()})
}

/// The draft of a task, and a note if status and mode were mixed up.
fn draft(call: &Call<'_>, one: CreateOne) -> Result<(TaskDraft, Option<String>), Refusal> {
    let CreateOne { title, about } = one;
    at_most("title", Some(&title), TITLE_CHARS_MAX)?;
    at_most("description", about.description.as_ref(), DESCRIPTION_CHARS_MAX)?;
    // The domain does not know which agents this server can run.
    judge_agent(call, about.agent_backend.as_ref())?;
    let placed = placed(about.status.as_ref(), about.task_type)?;
    let card = Card {
        mode: placed.mode.map(TaskType::core).unwrap_or_default(),
        criteria: about.acceptance_criteria.unwrap_or_default(),
        terminal: terminal(about.terminal_backend.as_deref().unwrap_or_default())?,
        agent: about.agent_backend,
        base_branch: about.base_branch,
        created_by: about.created_by,
        ..Card::default()
    };
    let draft = TaskDraft {
        title,
        body: about.description.unwrap_or_default(),
        priority: about.priority.map(PriorityWord::rank),
        parent: about.parent_id.as_deref().map(parent_id).transpose()?,
        project: about.project_id.as_deref().map(project_of).transpose()?,
        card,
        phase: placed.status.map(Status::phase),
        ..TaskDraft::default()
    };
    Ok((draft, placed.mixed_up))
}

/// An empty text clears what may be empty.
#[derive(Deserialize, JsonSchema)]
pub(super) struct TasksUpdateRequest {
    task_id: String,
    title: Option<String>,
    description: Option<String>,
    priority: Option<PriorityWord>,
    task_type: Option<TaskType>,
    /// BACKLOG, IN_PROGRESS, REVIEW or DONE
    status: Option<String>,
    /// tmux, vscode or cursor
    terminal_backend: Option<String>,
    agent_backend: Option<String>,
    parent_id: Option<String>,
    project_id: Option<String>,
    base_branch: Option<String>,
    acceptance_criteria: Option<Vec<String>>,
}

/// Changes the named fields in one transaction. A left-out field stays; an empty parent takes the task out of its epic.
pub(super) async fn tasks_update(call: &Call<'_>, args: TasksUpdateRequest) -> Reply {
    at_most("title", args.title.as_ref(), TITLE_CHARS_MAX)?;
    at_most("description", args.description.as_ref(), DESCRIPTION_CHARS_MAX)?;
    judge_agent(call, args.agent_backend.as_ref())?;
    let placed = placed(args.status.as_ref(), args.task_type)?;
    let task = task_id(&args.task_id)?;
    let parent = match args.parent_id.as_deref().map(str::trim) {
        None => None,
        // Three values: left out, cleared, set.
        Some("") => Some(None),
        Some(parent) => Some(Some(parent_id(parent)?)),
    };
    let update = CardUpdate {
        title: args.title,
        body: args.description,
        priority: args.priority.map(PriorityWord::rank),
        mode: placed.mode.map(TaskType::core),
        criteria: args.acceptance_criteria,
        terminal: args.terminal_backend.as_deref().map(terminal).transpose()?,
        agent: args.agent_backend,
        base_branch: args.base_branch,
        parent,
        project: args.project_id.as_deref().map(project_of).transpose()?,
        to: placed.status.map(Status::phase),
        ..CardUpdate::of(task)
    };
    call.engine.card_update(call.op, update).await?;
    let done = match placed.mixed_up {
        Some(words) => Envelope::yes(words).code(STATUS_WAS_TASK_TYPE).hint(STATUSES),
        None => Envelope::yes("Task updated").code("UPDATED"),
    };
    // Read again: without `task_type` among the arguments the mode stands only in the store.
    let mode = TaskType::of(call.engine.card_get(call.op, task).await?.it.card.mode);
    Ok(done.answer(call, json!({"task_id": task, "current_task_type": mode.word()})))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Move {
    task_id: String,
    /// BACKLOG, IN_PROGRESS, REVIEW or DONE
    status: String,
}

/// Moves a task to a column. A mode instead of a status is answered with the call that sets the mode.
pub(super) async fn tasks_move(call: &Call<'_>, args: Move) -> Reply {
    let status = written(&args.status)?;
    let task = task_id(&args.task_id)?;
    let to = match status {
        Written::Status(status) => status.phase(),
        Written::TaskType(mode) => {
            // The task is looked up first, so that an unknown id is refused as such and not answered with a next call.
            call.engine.task_get(call.op, task).await?;
            let arguments = json!({"task_id": task, "task_type": mode.word()});
            let message = format!("'{}' is a task type, not a status", mode.word());
            let no = Envelope::no(STATUS_WAS_TASK_TYPE, message)
                .hint("Set the mode with tasks_update")
                .next(NextCall::new("tasks_update", arguments));
            return Ok(no.answer(call, json!({"task_id": task, "new_status": null})));
        }
    };
    let update = CardUpdate { to: Some(to), ..CardUpdate::of(task) };
    let moved = call.engine.card_update(call.op, update).await?.it;
    let new_status = Status::of(moved.task.phase).word();
    let done = Envelope::yes("Task moved").code("MOVED");
    Ok(done.answer(call, json!({"task_id": task, "new_status": new_status})))
}

/// Deletes a task. Branches and worktrees with work that stands nowhere else are kept, and named.
pub(super) async fn tasks_delete(call: &Call<'_>, args: TaskArgument) -> Reply {
    let task = task_id(&args.task_id)?;
    let kept = call.engine.card_remove(call.op, task).await?;
    let message = match kept.as_slice() {
        [] => "Deleted successfully".to_owned(),
        kept => format!("Deleted successfully; kept: {}", kept.join("; ")),
    };
    let done = Envelope::yes(message).code("DELETED");
    Ok(done.answer(call, json!({ "task_id": task })))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Scratchpad {
    task_id: String,
    content: String,
}

/// Appends to the notes. The caller is told when old text was dropped.
pub(super) async fn update_scratchpad(call: &Call<'_>, args: Scratchpad) -> Reply {
    let task = task_id(&args.task_id)?;
    let is_full = call.engine.scratchpad_append(call.op, task, args.content).await?;
    let message = match is_full {
        true => "Scratchpad updated; it is full, so the oldest text was dropped",
        false => "Scratchpad updated",
    };
    Ok(Envelope::yes(message).answer(call, json!({ "task_id": task })))
}
