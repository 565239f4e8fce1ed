//! Tools that change tasks: create, update, move, delete, and the notes.

use callboard_domain::card::{Card, Terminal};
use callboard_domain::command::CardUpdate;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::fold;
use callboard_domain::refusal::Refusal;
use callboard_engine::TaskDraft;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::envelope::{Envelope, Next, Reply};
use super::tasks::{TaskArgument, task_id};
use super::words::{PriorityWord, Status, TaskType, Written, project_of, written};
use crate::tool::Call;

const TITLE_CHARS_MAX: usize = 200;
const DESCRIPTION_CHARS_MAX: usize = 10_000;
const STATUS_WAS_TASK_TYPE: &str = "STATUS_WAS_TASK_TYPE";
const STATUSES: &str = "status takes BACKLOG, IN_PROGRESS, REVIEW, DONE";

/// This toolset takes less than the core does.
fn at_most(field: &str, text: Option<&String>, chars_max: usize) -> Result<(), Refusal> {
    let chars = text.map_or(0, |text| text.trim().chars().count());
    if chars <= chars_max {
        return Ok(());
    }
    let words = format!("{field} must be at most {chars_max} characters, got {chars}");
    Err(Refusal::invalid(words))
}

fn parent_id(text: &str) -> Result<TaskId, Refusal> {
    text.trim().parse().map_err(|_| Refusal::ParentNotFound { task: text.into() })
}

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

/// Who is to work on it must be somebody this server knows how to run; an empty text is nobody.
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

/// A status and a mode as two arguments say them, and what to tell whoever mixed them up.
struct Placed {
    status: Option<Status>,
    mode: Option<TaskType>,
    mixed_up: Option<String>,
}

fn placed(status: Option<&String>, mode: Option<TaskType>) -> Result<Placed, Refusal> {
    Ok(match status.map(|text| written(text)).transpose()? {
        None => Placed { status: None, mode, mixed_up: None },
        Some(Written::Status(status)) => Placed { status: Some(status), mode, mixed_up: None },
        Some(Written::TaskType(meant)) => {
            let word = meant.word();
            let mixed_up = match mode.filter(|mode| *mode != meant) {
                Some(_) => format!("Ignored status='{word}': task_type says otherwise"),
                None => format!("Interpreted status='{word}' as task_type='{word}'"),
            };
            Placed { status: None, mode: mode.or(Some(meant)), mixed_up: Some(mixed_up) }
        }
    })
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Create {
    title: String,
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

pub(super) async fn tasks_create(call: &Call<'_>, args: Create) -> Reply {
    at_most("title", Some(&args.title), TITLE_CHARS_MAX)?;
    at_most("description", args.description.as_ref(), DESCRIPTION_CHARS_MAX)?;
    judge_agent(call, args.agent_backend.as_ref())?;
    let placed = placed(args.status.as_ref(), args.task_type)?;
    let card = Card {
        mode: placed.mode.map(TaskType::core).unwrap_or_default(),
        criteria: args.acceptance_criteria.unwrap_or_default(),
        terminal: terminal(args.terminal_backend.as_deref().unwrap_or_default())?,
        agent: args.agent_backend,
        base_branch: args.base_branch,
        created_by: args.created_by,
        ..Card::default()
    };
    let draft = TaskDraft {
        title: args.title,
        body: args.description.unwrap_or_default(),
        priority: args.priority.map(PriorityWord::rank),
        parent: args.parent_id.as_deref().map(parent_id).transpose()?,
        project: args.project_id.as_deref().map(project_of).transpose()?,
        card,
        phase: placed.status.map(Status::phase),
        ..TaskDraft::default()
    };
    let made = call.engine.task_create(call.op, draft).await?.it.task;
    let done = match placed.mixed_up {
        Some(words) => Envelope::yes(words).code(STATUS_WAS_TASK_TYPE).hint(STATUSES),
        None => Envelope::yes("Task created"),
    };
    let status = Status::of(made.phase).word();
    Ok(done.answer(call, json!({"task_id": made.id, "title": made.title, "status": status})))
}

/// An empty text clears what may be empty.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Update {
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

pub(super) async fn tasks_update(call: &Call<'_>, args: Update) -> Reply {
    at_most("title", args.title.as_ref(), TITLE_CHARS_MAX)?;
    at_most("description", args.description.as_ref(), DESCRIPTION_CHARS_MAX)?;
    judge_agent(call, args.agent_backend.as_ref())?;
    let placed = placed(args.status.as_ref(), args.task_type)?;
    let task = task_id(&args.task_id)?;
    let parent = match args.parent_id.as_deref().map(str::trim) {
        None => None,
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
    let mode = TaskType::of(call.engine.card_get(call.op, task).await?.it.card.mode);
    Ok(done.answer(call, json!({"task_id": task, "current_task_type": mode.word()})))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Move {
    task_id: String,
    /// BACKLOG, IN_PROGRESS, REVIEW or DONE
    status: String,
}

pub(super) async fn tasks_move(call: &Call<'_>, args: Move) -> Reply {
    let status = written(&args.status)?;
    let task = task_id(&args.task_id)?;
    let to = match status {
        Written::Status(status) => status.phase(),
        Written::TaskType(mode) => {
            call.engine.task_get(call.op, task).await?;
            let arguments = json!({"task_id": task, "task_type": mode.word()});
            let message = format!("'{}' is a task type, not a status", mode.word());
            let no = Envelope::no(STATUS_WAS_TASK_TYPE, message)
                .hint("Set the mode with tasks_update")
                .next(Next::new("tasks_update", arguments));
            return Ok(no.answer(call, json!({"task_id": task, "new_status": null})));
        }
    };
    let update = CardUpdate { to: Some(to), ..CardUpdate::of(task) };
    let moved = call.engine.card_update(call.op, update).await?.it;
    let new_status = Status::of(moved.task.phase).word();
    let done = Envelope::yes("Task moved").code("MOVED");
    Ok(done.answer(call, json!({"task_id": task, "new_status": new_status})))
}

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

pub(super) async fn update_scratchpad(call: &Call<'_>, args: Scratchpad) -> Reply {
    let task = task_id(&args.task_id)?;
    let is_full = call.engine.scratchpad_append(call.op, task, args.content).await?;
    let message = match is_full {
        true => "Scratchpad updated; it is full, so the oldest text was dropped",
        false => "Scratchpad updated",
    };
    Ok(Envelope::yes(message).answer(call, json!({ "task_id": task })))
}
