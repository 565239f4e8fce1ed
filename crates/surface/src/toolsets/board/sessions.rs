//! Tools for sessions of a person and an agent on one task.

use std::path::Path;

use callboard_engine::ports::PairBackend;
use callboard_engine::{SessionFault, SessionMade};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::envelope::{self, Envelope, NextCall, Reply};
use super::tasks::{TaskArgument, task_id};
use super::words::TaskType;
use crate::tool::Call;

#[derive(Deserialize, JsonSchema)]
pub(super) struct SessionsCreateRequest {
    task_id: String,
    /// whether a session that is open will do [default: true]
    reuse_if_exists: Option<bool>,
    /// the task's own worktree, if you know it; any other is refused
    worktree_path: Option<String>,
}

/// Opens a session or answers with the open one. Faults of git and tmux are answers with a way out; only refusals are
/// errors.
pub(super) async fn sessions_create(call: &Call<'_>, args: SessionsCreateRequest) -> Reply {
    let task = task_id(&args.task_id)?;
    let reuse = args.reuse_if_exists.unwrap_or(true);
    let named = args.worktree_path.as_deref().map(str::trim).filter(|path| !path.is_empty());
    let mode = TaskType::Pair.word();
    let made = match call.engine.session_create(call.op, task, reuse, named).await {
        Ok(made) => made,
        Err(SessionFault::Engine(error)) => return Err(error),
        Err(fault) => {
            // Every key of the schema stays, with `null` for what a session would have had.
            let no = refused(&fault, &args.task_id);
            let mut fields = envelope::fields(call, None);
            fields["task_id"] = json!(task);
            fields["current_task_type"] = mode.into();
            return Ok(no.answer(call, fields));
        }
    };
    let settings = call.engine.board_settings(&call.op.principal.org).await?;
    let SessionMade { session, worktree, already_exists } = made;
    let instructions = match settings.skip_pair_instructions {
        true => String::new(),
        false => instructions(session.backend, &session.primary_command),
    };
    let links = session.links.iter().map(|(name, address)| ((*name).into(), json!(address)));
    let fields = json!({
        "task_id": task,
        "session_name": session.name,
        "backend": session.backend.as_str(),
        "already_exists": already_exists,
        "worktree_path": worktree.path,
        "prompt_path": session.prompt_path,
        "primary_command": session.primary_command,
        "commands": session.commands,
        "links": links.collect::<Map<String, Value>>(),
        "instructions": instructions,
        "next_step": next_step(session.backend),
        "current_task_type": mode,
    });
    let done = match already_exists {
        true => Envelope::yes("Session is open").code("SESSION_REUSED"),
        false => Envelope::yes("Session ready").code("SESSION_CREATED"),
    };
    // A tracked file is not changed behind the user's back.
    let done = match session.left_alone {
        Some(file) => done.hint(format!(
            "git tracks {file}, so it was not changed: add the server of .callboard/mcp.json to it"
        )),
        None => done,
    };
    Ok(done.answer(call, fields))
}

/// The answer to a session that could not be opened.
fn refused(fault: &SessionFault, task: &str) -> Envelope {
    let message = fault.to_string();
    match fault {
        SessionFault::NoWorkspace(_) => Envelope::no("WORKSPACE_NOT_FOUND", message)
            .hint("Give the project a repository with projects_create, or move the task there"),
        SessionFault::OtherWorktree(_) => Envelope::no("INVALID_WORKTREE_PATH", message)
            .hint("Leave worktree_path out")
            .next(NextCall::new("sessions_exists", json!({"task_id": task.trim()}))),
        SessionFault::Failed(_) | SessionFault::Engine(_) => {
            Envelope::no("SESSION_CREATE_FAILED", message)
                .hint("terminal_backend of the task may be tmux, vscode or cursor")
        }
    }
}

/// What the agent tells the person to do.
fn instructions(backend: PairBackend, command: &str) -> String {
    let there = match backend {
        PairBackend::Tmux => "The agent waits there in a terminal",
        PairBackend::Vscode | PairBackend::Cursor => {
            "The editor opens the worktree and the prompt; start the agent there"
        }
    };
    format!(
        "Run `{command}`. {there}. When the work is done, ask for a review with request_review."
    )
}

/// What the person says when they are there.
fn next_step(backend: PairBackend) -> &'static str {
    match backend {
        PairBackend::Tmux => "Reply 'ready' when attached",
        PairBackend::Vscode | PairBackend::Cursor => "Reply 'ready' when the editor is open",
    }
}

/// Whether a session is open. Text that is no id has none, so this tool never refuses an id.
pub(super) async fn sessions_exists(call: &Call<'_>, args: TaskArgument) -> Reply {
    let name = args.task_id.trim();
    let found = match task_id(name) {
        Ok(task) => Some(call.engine.session_find(call.op, task).await?),
        Err(_) => None,
    };
    let backend = found.as_ref().and_then(|found| found.backend);
    let place = found.as_ref().and_then(|found| found.worktree.as_deref());
    let prompt = |place: &Path| place.join(".callboard/start_prompt.md");
    Ok(json!({
        "task_id": name,
        "exists": backend.is_some(),
        // The name follows from the task's id, also for a task without a session.
        "session_name": format!("callboard-{name}"),
        "backend": backend.map(PairBackend::as_str),
        "worktree_path": place,
        "prompt_path": place.map(prompt),
    }))
}

/// Ends a session with its processes.
pub(super) async fn sessions_kill(call: &Call<'_>, args: TaskArgument) -> Reply {
    let task = task_id(&args.task_id)?;
    let done = match call.engine.session_kill(call.op, task).await {
        Ok(true) => Envelope::yes("Session terminated"),
        Ok(false) => Envelope::no("SESSION_NOT_FOUND", format!("Task {task} has no open session"))
            .hint("sessions_create opens a session"),
        Err(SessionFault::Engine(error)) => return Err(error),
        Err(fault) => Envelope::no("SESSION_KILL_FAILED", format!("Not terminated: {fault}"))
            .hint("End the session with tmux kill-session"),
    };
    Ok(done.answer(call, json!({ "task_id": task })))
}
