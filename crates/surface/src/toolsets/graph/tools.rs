//! Arguments and handlers. A handler reads, calls one engine verb and renders.

use callboard_domain::command::TaskUpdate;
use callboard_domain::ids::{AttemptId, IdError, Prefix, TaskId};
use callboard_domain::refusal::Refusal;
use callboard_domain::task::TaskRecord;
use callboard_domain::task::attempt::Health;
use callboard_engine::{
    AsWork, At, AttemptDraft, AttemptFilter, EngineError, TaskDraft, TaskFilter,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::view;
use super::words::{ExecutionState, SessionHealth, SessionStatus, healths_of};
use crate::check_argument::CheckArgument;
use crate::page::{PageSize, page};
use crate::tool::{Call, NoArguments};

type Reply = Result<Value, EngineError>;

/// Items on a page unless the caller asks for another number.
const PAGE_DEFAULT: usize = 50;

/// Who the server takes the caller for: `begin` wants the actor repeated.
pub(super) async fn identity(call: &Call<'_>, _: NoArguments) -> Reply {
    let principal = &call.op.principal;
    let project = call.engine.project_of(principal).await?;
    let prefix = project.map_or_else(Prefix::fallback, |project| project.prefix);
    Ok(json!({
        "actor": principal.actor,
        "client": principal.bound_client.as_ref().or(call.op.client_name.as_ref()),
        "version": call.about.version,
        "project": prefix.as_str(),
        "repo": call.about.repo,
        "toolsets": call.about.toolsets,
    }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TaskListRequest {
    status: Option<String>,
    /// "" = nobody
    assignee: Option<String>,
    ready: Option<bool>,
    execution: Option<ExecutionState>,
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// the last `next`
    after: Option<String>,
}

pub(super) async fn list(call: &Call<'_>, args: TaskListRequest) -> Reply {
    let size = PageSize::of(args.limit, PAGE_DEFAULT);
    // A list of tasks that can start is a list of work: the most urgent come first, and plans are left out.
    let as_work = args.ready == Some(true);
    let after = args.after.map(|after| view::task_cursor(&after, as_work)).transpose()?;
    let after_priority = after.and_then(|(priority, _)| priority);
    let filter = TaskFilter {
        label: args.status.map(|word| label(call, &word)).transpose()?,
        assignee: args.assignee.map(|actor| (!actor.is_empty()).then_some(actor)),
        ready: args.ready,
        execution: args.execution.map(Into::into),
        after: after.map(|(_, id)| id),
        as_work: as_work.then_some(AsWork { after_priority }),
        // One more than a page, to know whether there is a next page.
        limit: size.limit + 1,
        ..TaskFilter::default()
    };
    let rows = call.engine.task_list(call.op, filter).await?;
    let policy = call.engine.policy();
    let (tasks, last) = page(&rows.it, size, |row| view::task_row(row, policy, rows.now));
    Ok(view::task_page(tasks, last.map(|row| view::task_next(&row.task, as_work))))
}

/// The configured status of this name, in any spelling of case, `-` and `_`.
fn label(call: &Call<'_>, word: &str) -> Result<String, Refusal> {
    let policy = call.engine.policy();
    policy.label(word).map(|label| label.name.clone()).ok_or_else(|| {
        Refusal::invalid(format!(
            "unknown status '{word}'; use one of {}",
            policy.names().join(", ")
        ))
    })
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TaskIdRequest {
    id: String,
}

pub(super) async fn get(call: &Call<'_>, args: TaskIdRequest) -> Reply {
    let seen = call.engine.task_look(call.op, task_id(&args.id)?).await?;
    Ok(full(call, &seen))
}

/// The task whole: every write answers with it, so that no second call is needed.
fn full(call: &Call<'_>, seen: &At<TaskRecord>) -> Value {
    view::task(&seen.it, call.engine.policy(), seen.now)
}

/// The id in a text. A well-formed text that is no id of ours names a task that does not exist.
fn task_id(text: &str) -> Result<TaskId, Refusal> {
    text.parse().map_err(|error| match error {
        IdError::Invalid => Refusal::invalid("invalid task id: use letters, digits, '-' and '_'"),
        IdError::Foreign => Refusal::TaskNotFound { task: text.into() },
    })
}

/// As `task_id`, for a dep: a missing one is a dangling dependency.
fn dep_id(text: &str) -> Result<TaskId, Refusal> {
    task_id(text).map_err(|refusal| match refusal {
        Refusal::TaskNotFound { task } => Refusal::DanglingDependency { task },
        other => other,
    })
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TaskCreateRequest {
    title: String,
    body: Option<String>,
    /// task ids
    deps: Option<Vec<String>>,
    checks: Option<Vec<CheckArgument>>,
}

pub(super) async fn create(call: &Call<'_>, args: TaskCreateRequest) -> Reply {
    let draft = TaskDraft {
        title: args.title,
        body: args.body.unwrap_or_default(),
        deps: args
            .deps
            .unwrap_or_default()
            .iter()
            .map(|id| dep_id(id))
            .collect::<Result<_, _>>()?,
        checks: args.checks.unwrap_or_default().into_iter().map(Into::into).collect(),
        ..TaskDraft::default()
    };
    Ok(full(call, &call.engine.task_create(call.op, draft).await?))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TaskUpdateRequest {
    id: String,
    title: Option<String>,
    /// all ids
    deps: Option<Vec<String>>,
    /// all, as in create
    #[schemars(extend("brief" = true))]
    checks: Option<Vec<CheckArgument>>,
}

pub(super) async fn update(call: &Call<'_>, args: TaskUpdateRequest) -> Reply {
    let deps = args.deps.map(|deps| deps.iter().map(|id| dep_id(id)).collect::<Result<_, _>>());
    let update = TaskUpdate {
        task: task_id(&args.id)?,
        author: None,
        title: args.title,
        deps: deps.transpose()?,
        checks: args.checks.map(|checks| checks.into_iter().map(Into::into).collect()),
    };
    Ok(full(call, &call.engine.task_update(call.op, update).await?))
}

pub(super) async fn claim(call: &Call<'_>, args: TaskIdRequest) -> Reply {
    Ok(full(call, &call.engine.task_claim(call.op, task_id(&args.id)?).await?))
}

pub(super) async fn release(call: &Call<'_>, args: TaskIdRequest) -> Reply {
    Ok(full(call, &call.engine.task_release(call.op, task_id(&args.id)?).await?))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Transition {
    id: String,
    to: String,
}

pub(super) async fn transition(call: &Call<'_>, args: Transition) -> Reply {
    let task = task_id(&args.id)?;
    Ok(full(call, &call.engine.task_transition(call.op, task, args.to).await?))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RunChecks {
    id: String,
    /// from 0
    only: Option<Vec<u32>>,
}

pub(super) async fn run_checks(call: &Call<'_>, args: RunChecks) -> Reply {
    let task = task_id(&args.id)?;
    let only = args.only.unwrap_or_default().into_iter().map(|index| index as usize).collect();
    Ok(full(call, &call.engine.check_run(call.op, task, only).await?))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Note {
    id: String,
    text: String,
}

pub(super) async fn note(call: &Call<'_>, args: Note) -> Reply {
    Ok(full(call, &call.engine.task_note(call.op, task_id(&args.id)?, args.text).await?))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Attest {
    id: String,
    index: u32,
    pass: Option<bool>,
}

pub(super) async fn attest(call: &Call<'_>, args: Attest) -> Reply {
    let (task, index) = (task_id(&args.id)?, args.index as usize);
    let pass = args.pass.unwrap_or(true);
    Ok(full(call, &call.engine.check_attest(call.op, task, index, pass).await?))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Begin {
    id: String,
    /// identity.actor
    expected_actor: String,
    idempotency_key: String,
    client: Option<String>,
    model: Option<String>,
    /// a folder, or new
    worktree: Option<String>,
    branch: Option<String>,
    head: Option<String>,
    /// replace a stalled session
    takeover: Option<bool>,
}

pub(super) async fn begin(call: &Call<'_>, args: Begin) -> Reply {
    let draft = AttemptDraft {
        task: task_id(&args.id)?,
        key: args.idempotency_key,
        expected_actor: args.expected_actor,
        client: args.client,
        model: args.model,
        worktree: args.worktree,
        branch: args.branch,
        head: args.head,
        takeover: args.takeover.unwrap_or(false),
    };
    let begun = call.engine.attempt_begin(call.op, draft).await?;
    Ok(view::begun(&begun.it, call.engine.policy(), begun.now))
}

/// The id in a text like `ses_…`.
fn session_id(text: &str) -> Result<AttemptId, Refusal> {
    text.parse().map_err(|_| Refusal::SessionNotFound { session: text.into() })
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Heartbeat {
    session: String,
    progress: Option<String>,
}

pub(super) async fn heartbeat(call: &Call<'_>, args: Heartbeat) -> Reply {
    let session = session_id(&args.session)?;
    let beat = call.engine.attempt_heartbeat(call.op, session, args.progress).await?;
    Ok(view::session(&beat.it, call.engine.policy(), beat.now))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Finish {
    session: String,
    summary: String,
    head: Option<String>,
}

pub(super) async fn finish(call: &Call<'_>, args: Finish) -> Reply {
    let session = session_id(&args.session)?;
    let done = call.engine.attempt_finish(call.op, session, args.summary, args.head).await?;
    Ok(view::session(&done.it, call.engine.policy(), done.now))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Cancel {
    session: String,
    reason: String,
}

pub(super) async fn cancel(call: &Call<'_>, args: Cancel) -> Reply {
    let session = session_id(&args.session)?;
    let done = call.engine.attempt_cancel(call.op, session, args.reason).await?;
    Ok(view::session(&done.it, call.engine.policy(), done.now))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct GetSession {
    session: String,
}

pub(super) async fn get_session(call: &Call<'_>, args: GetSession) -> Reply {
    let seen = call.engine.attempt_get(call.op, session_id(&args.session)?).await?;
    Ok(view::session(&seen.it, call.engine.policy(), seen.now))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ListSessions {
    task: Option<String>,
    actor: Option<String>,
    status: Option<SessionStatus>,
    health: Option<SessionHealth>,
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<u32>,
    /// the last `next`
    after: Option<String>,
}

pub(super) async fn list_sessions(call: &Call<'_>, args: ListSessions) -> Reply {
    let size = PageSize::of(args.limit, PAGE_DEFAULT);
    let task = match args.task.as_deref().map(task_id) {
        None => None,
        Some(Ok(task)) => Some(task),
        // A filter that matches nothing is an empty list, not a fault.
        Some(Err(Refusal::TaskNotFound { .. })) => {
            return Ok(json!({"sessions": [], "next": null}));
        }
        Some(Err(refusal)) => return Err(refusal.into()),
    };
    let mut health = args.status.map(healths_of).unwrap_or_default();
    if let Some(wanted) = args.health.map(Health::from) {
        if !health.is_empty() && !health.contains(&wanted) {
            return Ok(json!({"sessions": [], "next": null}));
        }
        health = vec![wanted];
    }
    let after = args.after.map(|after| view::session_cursor(&after)).transpose()?;
    let filter = AttemptFilter { task, actor: args.actor, health, after, limit: size.limit + 1 };
    let rows = call.engine.attempt_list(call.op, filter).await?;
    let policy = call.engine.policy();
    let (sessions, last) = page(&rows.it, size, |row| view::session_row(row, policy, rows.now));
    Ok(json!({"sessions": sessions, "next": last.map(view::session_next)}))
}
