//! `callboard task show`.

use callboard_domain::board::card::AgentMessage;
use callboard_domain::ids::TaskId;
use callboard_domain::runs::job::Job;
use callboard_domain::runs::run::{RunRecord, Terminal};
use callboard_domain::task::attempt::{Attempt, AttemptEnd, AttemptState};
use callboard_domain::task::comment::Comment;
use callboard_domain::task::{Task, TaskRecord, Verdict};
use callboard_engine::context::OpContext;
use callboard_engine::store::CardRow;
use callboard_engine::{At, AttemptFilter, EngineError};
use callboard_surface::toolsets::graph::view;
use serde_json::{Value, json};

use crate::cli::context::{Context, Open};
use crate::cli::view::{
    blocked_words, check_job_json, check_job_line, check_lines, comment_json, comment_line, plain,
    plain_lines, status, told_json, verification_json, verification_words,
};
use crate::output::{Failure, Object, Style};

/// Show one task: what it is part of and waits for, its checks, attempts, notes and history
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard task show SHOP-01j8x2k7 --json")]
pub struct TaskShowArgs {
    /// The task, or the beginning of its id
    id: String,
}

/// How many of the newest attempts are shown.
const ATTEMPTS_MAX: usize = 20;
/// How many tasks of a plan are shown.
const CHILDREN_MAX: usize = 200;

/// A task with all related records.
struct Seen {
    task: At<TaskRecord>,
    /// Newest first.
    comments: Vec<Comment>,
    /// The job that runs the checks for review.
    check_job: Option<Job>,
    attempts: Vec<Attempt>,
    /// Messages that wait for the agent.
    told: Vec<AgentMessage>,
    /// The branch of the work, if it is known.
    branch: Option<String>,
    notes: String,
    parent: Option<Task>,
    deps: Vec<Task>,
    children: Vec<CardRow>,
    /// The terminal in which a person sees its agent's output now.
    terminal: Option<Terminal>,
}

pub async fn cmd_task_show(context: &Context, args: TaskShowArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let seen = look(&open, id).await?;
    match context.out.json {
        true => context.out.object(Object::Task, document(&open, &seen)),
        false => context.out.raw(&text(&open, &seen)),
    }
}

/// Reads everything about a task. These are reads of their own, so a change in between may show in part.
async fn look(open: &Open, id: TaskId) -> Result<Seen, Failure> {
    let (op, engine) = (open.op("get"), open.engine());
    let task = engine.task_look(&op, id).await?;
    let filter = AttemptFilter { task: Some(id), limit: ATTEMPTS_MAX, ..AttemptFilter::default() };
    let attempts = engine.attempt_list(&op, filter).await?.it;
    let card = engine.card_of(&op, id).await?;
    let mut deps = Vec::new();
    for dep in task.it.deps.iter().filter(|dep| !dep.removed) {
        deps.extend(find(open, &op, dep.id).await?);
    }
    let parent = match task.it.task.parent {
        Some(parent) => find(open, &op, parent).await?,
        None => None,
    };
    let run = engine.work_newest(&op, id).await?;
    Ok(Seen {
        terminal: run.as_ref().and_then(RunRecord::terminal).cloned(),
        comments: engine.comment_list(&op, id).await?,
        check_job: engine.check_job_get(&op, id).await?,
        told: card.told,
        branch: card.branch.or_else(|| attempts.iter().find_map(|one| one.branch.clone())),
        notes: engine.scratchpad_get(&op, id).await?,
        children: engine.task_children(&op, id, CHILDREN_MAX).await?,
        task,
        attempts,
        parent,
        deps,
    })
}

/// A task that may have been removed by now.
async fn find(open: &Open, op: &OpContext, id: TaskId) -> Result<Option<Task>, Failure> {
    match open.engine().task_get(op, id).await {
        Ok(seen) => Ok(Some(seen.it.task)),
        Err(EngineError::Refused(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The task for scripts: the shape of the tool `get`, with more keys.
fn document(open: &Open, seen: &Seen) -> Value {
    let (record, now) = (&seen.task.it, seen.task.now);
    let named = |task: &Task| json!({"id": task.id, "number": task.number, "title": task.title, "status": task.label});
    let session = |attempt: &Attempt| view::session_row(attempt, open.policy(), now);
    let mut document = view::task(record, open.policy(), now);
    document["priority"] = record.task.priority.into();
    document["verification"] = verification_json(&record.task, open.policy());
    document["comments"] = seen.comments.iter().rev().map(comment_json).collect();
    for (index, check) in record.task.checks.iter().enumerate() {
        let took_ms = check.verdict.as_ref().and_then(Verdict::took_ms);
        document["checks"][index]["tookMs"] = json!(took_ms);
    }
    document["checkJob"] = seen.check_job.as_ref().map_or(Value::Null, check_job_json);
    document["told"] = seen.told.iter().map(told_json).collect();
    document["branch"] = json!(seen.branch);
    document["tmuxSessionName"] = json!(seen.terminal.as_ref().map(|it| &it.session));
    document["attach"] = json!(seen.terminal.as_ref().map(Terminal::attach));
    document["notes"] = seen.notes.as_str().into();
    document["attempts"] = seen.attempts.iter().map(session).collect();
    document["waitsFor"] = seen.deps.iter().map(named).collect();
    document["partOf"] = seen.parent.as_ref().map_or(Value::Null, named);
    document["children"] = seen.children.iter().map(|row| named(&row.task)).collect();
    document
}

/// The task for people: facts, checks, attempts, comments, body, notes, history. Texts of others are cleaned of control
/// characters.
fn text(open: &Open, seen: &Seen) -> String {
    let (out, now) = (&open.out, seen.task.now);
    let TaskRecord { task, body, entries, newest, .. } = &seen.task.it;
    let (word, style) = status(task, out);
    let mut text = format!("{}  {}\n", task.name(), out.styled(style, &word));
    text += &format!("{}\n", out.styled(Style::Bold, &plain(&task.title)));
    let mut fact = |name: &str, value: &str| text += &format!("{name:<10}{value}\n");
    fact("id", &task.id.to_string());
    fact("assignee", task.assignee.as_ref().map_or("nobody", |who| who.as_str()));
    fact("priority", &task.priority.to_string());
    if let Some(blocked) = &task.blocked {
        fact("blocked", &blocked_words(blocked));
    }
    fact("changed", &out.when(task.updated_at, now));
    let state =
        newest.as_ref().and_then(|attempt| attempt.execution_state(task.phase, open.policy(), now));
    let lease = newest.as_ref().filter(|attempt| attempt.is_live(now));
    if let Some((attempt, lease)) = lease.and_then(|attempt| Some((attempt, attempt.lease()?))) {
        let ends = out.when(lease.expires_at, now);
        let until = if out.terminal { "ends" } else { "until" };
        fact("lease", &format!("{} {until} {ends}", attempt.actor));
    } else if let (Some(attempt), Some(state)) = (newest, state) {
        let words = format!("ses_{} ({}, {})", attempt.id.0, attempt.actor, state.as_str());
        fact("session", &words);
    }
    if let Some(branch) = &seen.branch {
        fact("branch", &plain(branch));
    }
    if let Some(terminal) = &seen.terminal {
        fact("attach", &terminal.attach());
    }
    fact("verify", &verification_words(task, open.policy()));
    let named = |task: &Task| format!("{} ({}) {}", task.name(), task.label, plain(&task.title));
    if let Some(parent) = &seen.parent {
        fact("part of", &named(parent));
    }
    for dep in &seen.deps {
        fact("needs", &named(dep));
    }
    for child in &seen.children {
        fact("child", &named(&child.task));
    }
    for AgentMessage { by, text, .. } in &seen.told {
        fact("waiting", &format!("{by} to its agent: {}", plain(text)));
    }
    text += &check_lines(task, out);
    text += &seen.check_job.as_ref().map(check_job_line).unwrap_or_default();
    for attempt in &seen.attempts {
        text += &attempt_line(attempt, seen, open);
    }
    for comment in seen.comments.iter().rev() {
        text += &comment_line(comment);
    }
    if !body.is_empty() {
        text += &format!("\n{}\n", plain_lines(body.trim_end()));
    }
    if !seen.notes.trim().is_empty() {
        text += &format!("\n{}\n", out.styled(Style::Dim, "notes"));
        text += &format!("{}\n", plain_lines(seen.notes.trim_end()));
    }
    text.push('\n');
    for entry in entries {
        let at = out.styled(Style::Dim, &out.when(entry.at, now));
        let words = entry.text.as_deref().map(|words| format!(": {}", plain(words)));
        text += &format!("{at}  {} {}{}\n", entry.who, entry.did, words.unwrap_or_default());
    }
    text
}

/// `attempt   agent:w1 began 3 min ago, finished: wrote b`.
fn attempt_line(attempt: &Attempt, seen: &Seen, open: &Open) -> String {
    let now = seen.task.now;
    let ended = match &attempt.state {
        AttemptState::Live { .. } => attempt.health(open.policy(), now).as_str().to_owned(),
        AttemptState::Ended { end, .. } => match end {
            AttemptEnd::Finished { summary, .. } => format!("finished: {}", plain(summary)),
            AttemptEnd::Canceled { reason } => format!("canceled: {}", plain(reason)),
            AttemptEnd::Released => "given back".into(),
            AttemptEnd::Expired => "lease expired".into(),
        },
    };
    let began = open.out.when(attempt.started_at, now);
    format!("{:<10}{} began {began}, {ended}\n", "attempt", attempt.actor)
}
