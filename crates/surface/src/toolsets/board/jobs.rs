//! Agents that work alone: started, watched, waited for, stopped. A job here is the start of an agent or its stop; the
//! agent's work in between is the task's history.

use std::time::{Duration, Instant};

use callboard_domain::ids::TaskId;
use callboard_domain::policy::fold;
use callboard_domain::refusal::{Refusal, brief};
use callboard_domain::runs::job::JobId;
use callboard_engine::{At, EngineError, WorkJob, WorkWaited, WorkWish};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::envelope::{self, Envelope, NextCall, Reply};
use super::job_view::{self, Shown};
use super::tasks::task_id;
use super::words::{Action, TaskType, WAIT_TIMEOUT};
use super::{view, wait};
use crate::tool::{Call, NoArguments, Run, WAIT_INTERRUPTED};
use callboard_engine::time::rfc3339_us;

/// The default duration of a wait.
/// The reference's default, in seconds.
const WAIT_S: f64 = 1.5;
/// Characters of instructions for one run; they become part of the prompt.
const INSTRUCTIONS_MAX: usize = 10_000;

pub(super) async fn jobs_list_actions(_: &Call<'_>, _: NoArguments) -> Reply {
    Ok(json!({"actions": Action::ALL.map(Action::word)}))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Submit {
    task_id: String,
    /// start_agent or stop_agent
    action: String,
    arguments: Option<StartArguments>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartArguments {
    /// for this run, added to what the agent is told
    instructions: Option<String>,
    /// [default: the one in the settings]
    model: Option<String>,
    /// the same task, if any
    task_id: Option<String>,
}

/// Starts or stops an agent. Blank ids and unknown actions are answers, as clients of the reference expect.
pub(super) async fn jobs_submit(call: &Call<'_>, args: Submit) -> Reply {
    let Submit { task_id: id, action, arguments } = args;
    let wish = wish(&id, arguments.unwrap_or_default())?;
    if id.trim().is_empty() {
        return Ok(no(call, &id, "", blank_id("INVALID_TASK_ID", "task_id")));
    }
    let Some(action) = Action::ALL.into_iter().find(|known| known.word() == fold(&action)) else {
        let known = Action::ALL.map(Action::word).join(", ");
        let given: String = action.chars().take(60).collect();
        let unknown =
            Envelope::no("UNSUPPORTED_ACTION", format!("action takes {known}, got '{given}'"))
                .next(NextCall::new("jobs_list_actions", json!({})));
        return Ok(no(call, &id, "", unknown));
    };
    let task = task_id(&id)?;
    let job = match action {
        Action::Start => call.engine.work_submit(call.op, task, wish).await?,
        Action::Stop => call.engine.stop_queue(call.op, task).await?,
    };
    let shown = Shown::of(&job);
    if shown.is_final {
        return found(call, task, &job, shown, Waited::default()).await;
    }
    // A start that waits for a place keeps the code that says so.
    let code = if shown.code == "START_PENDING" { shown.code } else { "JOB_SUBMITTED" };
    let hint = match action {
        Action::Start => "Confirm the start with jobs_wait, then tasks_wait for REVIEW or DONE",
        Action::Stop => "Confirm with jobs_wait that the agent has ended",
    };
    let done = Envelope::yes("Job accepted").code(code).hint(hint).next(wait_next(task, &job));
    Ok(done.answer(call, fields(call, task, &job, &shown, Waited::default()).await?))
}

/// Judges the arguments of a start. The task's id may stand in them a second time, but must not differ.
fn wish(task: &str, given: StartArguments) -> Result<WorkWish, Refusal> {
    if let Some(other) = given.task_id.filter(|other| other.trim() != task.trim()) {
        let words =
            format!("arguments.task_id must be {}, got {}", brief(task.trim()), brief(&other));
        return Err(Refusal::invalid(words));
    }
    let said = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let instructions = said(given.instructions);
    let chars = instructions.as_deref().map_or(0, |text| text.chars().count());
    if chars > INSTRUCTIONS_MAX {
        return Err(Refusal::invalid(format!(
            "arguments.instructions must have at most {INSTRUCTIONS_MAX} characters, got {chars}"
        )));
    }
    let model = said(given.model).map(|model| model.trim().to_owned());
    Ok(WorkWish { instructions, model, ..WorkWish::default() })
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct JobArgument {
    job_id: String,
    task_id: String,
}

/// The state of a job. The task is part of the question: the job of another task does not exist.
pub(super) async fn jobs_get(call: &Call<'_>, args: JobArgument) -> Reply {
    if let Some(blank) = args.blank() {
        return Ok(no(call, &args.task_id, &args.job_id, blank));
    }
    let (task, id) = args.parsed()?;
    let job = call.engine.work_get(call.op, task, id).await?;
    found(call, task, &job, Shown::of(&job), Waited::default()).await
}

/// Cancels a job before it is decided. An agent that runs is not stopped by this; the answer says which call does.
pub(super) async fn jobs_cancel(call: &Call<'_>, args: JobArgument) -> Reply {
    if let Some(blank) = args.blank() {
        return Ok(no(call, &args.task_id, &args.job_id, blank));
    }
    let (task, id) = args.parsed()?;
    let job = call.engine.work_cancel(call.op, task, id).await?;
    let shown = Shown::of(&job);
    if shown.code == "STARTED" && !job.job().is_over() {
        let next = NextCall::new("jobs_submit", json!({"task_id": task, "action": "stop_agent"}));
        let done = Envelope::yes("Not cancelled: the agent already runs")
            .code(shown.code)
            .hint("Stop the agent with jobs_submit and action stop_agent")
            .next(next);
        return Ok(done.answer(call, fields(call, task, &job, &shown, Waited::default()).await?));
    }
    if shown.status != "cancelled" {
        return found(call, task, &job, shown, Waited::default()).await;
    }
    let next = NextCall::new("jobs_wait", json!({"job_id": id, "task_id": task}));
    let done = Envelope::yes(shown.message.clone()).code(shown.code).next(next);
    Ok(done.answer(call, fields(call, task, &job, &shown, Waited::default()).await?))
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "the time is read as it comes")]
pub(super) struct Wait {
    job_id: String,
    task_id: String,
    /// 0 looks once; the server's settings cap it [default: 1.5]
    timeout_seconds: Option<f64>,
    /// how long you may wait for one answer: it comes before that, with cursor and seconds_left
    window_seconds: Option<f64>,
}

/// Reads its arguments itself, because a wrong time is an answer, not an error.
pub(super) const JOBS_WAIT: Run = |mut call| {
    Box::pin(async move {
        let mut taken = |key: &str| {
            let arguments = call.arguments.as_object_mut();
            arguments.and_then(|given| given.shift_remove(key)).unwrap_or_default()
        };
        let times = (taken("timeout_seconds"), taken("window_seconds"));
        let task = call.task_named().map(str::to_owned);
        let args: Wait = call.read()?;
        let args = JobArgument { job_id: args.job_id, task_id: args.task_id };
        let answer = jobs_wait(&call, args, &times).await;
        super::envelope::or_refused(&call, task, answer)
    })
};

/// Waits for the decision of a job. `window_seconds` cuts the wait for clients that end long calls; the answer then
/// says how much is left.
async fn jobs_wait(
    call: &Call<'_>,
    args: JobArgument,
    (timeout, window): &(Value, Value),
) -> Reply {
    if let Some(blank) = args.blank() {
        return Ok(no(call, &args.task_id, &args.job_id, blank));
    }
    let (task, id) = args.parsed()?;
    let Some(requested) = seconds(timeout) else {
        let invalid = Envelope::no("INVALID_TIMEOUT", "timeout_seconds must be 0 or more");
        return Ok(no(call, &args.task_id, &args.job_id, invalid));
    };
    let window = match wait::window(window) {
        Ok(window) => window,
        Err(why) => {
            let invalid = Envelope::no("INVALID_TIMEOUT", why);
            return Ok(no(call, &args.task_id, &args.job_id, invalid));
        }
    };
    let settings = call.engine.board_settings(&call.op.principal.org).await?;
    let wanted = requested.min(f64::from(settings.tasks_wait_max_s));
    let effective = window.map_or(wanted, |window| wanted.min(wait::within(window)));
    let began = Instant::now();
    let wait = Duration::from_secs_f64(effective);
    // Woken by events of the job: nothing polls.
    let (job, ended) = call.engine.work_wait(call.op, task, id, wait).await?;
    // Rounded to milliseconds, so that the answer has no tail of digits.
    let waited = (began.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
    let spent = json!({"requested": requested, "effective": effective, "waited": waited});
    let mut shown = Shown::of(&job);
    match ended {
        // A decision that came with the end of the time is a decision.
        _ if shown.is_final => {}
        // Only the client's window is over; the time that it asked for is not.
        WorkWaited::TimedOut if effective < wanted => {
            shown.say(
                WAIT_TIMEOUT,
                "Not decided yet; wait again with timeout_seconds = seconds_left",
            );
        }
        WorkWaited::TimedOut if shown.code == "START_PENDING" => {}
        WorkWaited::TimedOut | WorkWaited::Decided => {
            shown.say("JOB_TIMEOUT", "Not decided in time; wait again");
        }
        WorkWaited::Interrupted => shown.say(WAIT_INTERRUPTED, "Interrupted; wait again"),
    }
    let timed_out = !shown.is_final && ended != WorkWaited::Interrupted;
    let cursor = rfc3339_us(shown.updated_at);
    let waited = Waited { timed_out: Some(timed_out), spent: Some(spent) };
    let mut answer = found(call, task, &job, shown, waited).await?;
    if let Some(window) = window.filter(|_| timed_out) {
        let left = wait::rounded(wanted - effective);
        answer["cursor"] = cursor.into();
        answer["seconds_left"] = left.into();
        let arguments = &mut answer["next_arguments"];
        if left > 0.0 && arguments.is_object() {
            arguments["timeout_seconds"] = left.into();
            arguments["window_seconds"] = window.into();
        }
    }
    Ok(answer)
}

/// The time of a wait; text is tolerated, negative and endless times are not.
fn seconds(given: &Value) -> Option<f64> {
    let number = match given {
        Value::Null => Some(WAIT_S),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.filter(|number| number.is_finite() && *number >= 0.0)
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Events {
    job_id: String,
    task_id: String,
    /// [default: 50]
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    #[schemars(range(min = 0))]
    offset: Option<u32>,
}

pub(super) async fn jobs_events(call: &Call<'_>, args: Events) -> Reply {
    let (limit, offset) = (args.limit.unwrap_or(50), args.offset.unwrap_or(0));
    let args = JobArgument { job_id: args.job_id, task_id: args.task_id };
    let (task, id) = args.parsed()?;
    let events = call.engine.work_events(call.op, task, id).await?;
    // The history ends with the decision, so it is short enough to be paged in memory.
    let events = job_view::events(task, &events);
    let page: Vec<&Value> = events.iter().skip(offset as usize).take(limit as usize).collect();
    let next = offset as usize + page.len();
    let has_more = next < events.len();
    Ok(json!({
        "job_id": id,
        "task_id": task,
        "total_events": events.len(),
        "returned_events": page.len(),
        "events": page,
        "offset": offset,
        "limit": limit,
        "has_more": has_more,
        "next_offset": has_more.then_some(next),
    }))
}

impl JobArgument {
    /// The answer for empty ids.
    fn blank(&self) -> Option<Envelope> {
        if self.job_id.trim().is_empty() {
            return Some(blank_id("INVALID_JOB_ID", "job_id"));
        }
        self.task_id.trim().is_empty().then(|| blank_id("INVALID_TASK_ID", "task_id"))
    }

    /// The ids; text that is no id is refused as an unknown job.
    fn parsed(&self) -> Result<(TaskId, JobId), Refusal> {
        let ids = (self.task_id.trim().parse(), self.job_id.trim().parse());
        match ids {
            (Ok(task), Ok(job)) => Ok((task, job)),
            _ => Err(Refusal::JobNotFound { job: self.job_id.trim().to_owned() }),
        }
    }
}

/// The answer to an id of blanks.
fn blank_id(code: &'static str, field: &str) -> Envelope {
    Envelope::no(code, format!("{field} must not be blank"))
}

/// How long a call waited, if it was a wait.
#[derive(Default)]
struct Waited {
    timed_out: Option<bool>,
    spent: Option<Value>,
}

/// The wait that confirms a job.
fn wait_next(task: TaskId, job: &WorkJob) -> NextCall {
    let id = job.job().id;
    let arguments = json!({"job_id": id, "task_id": task, "timeout_seconds": WAIT_S});
    NextCall::new("jobs_wait", arguments)
}

/// An existing job is a success, whatever its result.
async fn found(
    call: &Call<'_>,
    task: TaskId,
    job: &WorkJob,
    shown: Shown,
    waited: Waited,
) -> Reply {
    let mut answer = Envelope::yes(shown.message.clone()).code(shown.code);
    if shown.question.is_some() {
        let id = job.job().id;
        answer = answer.hint(format!("A person answers with callboard job answer {id} yes, or no"));
    }
    let answer = match next_after(call, task, job, &shown).await {
        Some(next) => answer.next(next),
        None => answer,
    };
    Ok(answer.answer(call, fields(call, task, job, &shown, waited).await?))
}

/// The call that helps after this answer: another wait, or a look at what was in the way.
async fn next_after(
    call: &Call<'_>,
    task: TaskId,
    job: &WorkJob,
    shown: &Shown,
) -> Option<NextCall> {
    if !shown.is_final {
        return Some(wait_next(task, job));
    }
    match shown.code {
        "TASK_TYPE_MISMATCH" => {
            let arguments = json!({"task_id": task, "task_type": TaskType::Auto.word()});
            Some(NextCall::new("tasks_update", arguments))
        }
        "START_BLOCKED" => {
            let record = call.engine.task_get(call.op, task).await.ok()?.it;
            let open = record.deps.iter().find(|dep| dep.is_open()).map_or(task, |dep| dep.id);
            Some(NextCall::new("get_task", json!({"task_id": open, "mode": "summary"})))
        }
        "NOT_RUNNING" => {
            Some(NextCall::new("get_task", json!({"task_id": task, "include_logs": true})))
        }
        _ => None,
    }
}

/// The keys of every answer about a job, with the state of the task's agent now.
async fn fields(
    call: &Call<'_>,
    task: TaskId,
    job: &WorkJob,
    shown: &Shown,
    waited: Waited,
) -> Reply {
    // Jobs outlive their task; a removed task does not run.
    let seen = match call.engine.card_get(call.op, task).await {
        Err(EngineError::Refused(Refusal::TaskNotFound { .. })) => None,
        seen => Some(seen?),
    };
    // The agent's state is that of the task now, which may be later than the job.
    let runtime = match &seen {
        Some(At { it, now }) => {
            let work = call.engine.work_now(call.op, task).await?;
            view::runtime_of(it, &work, *now)
        }
        None => Value::Null,
    };
    let card = match seen {
        Some(seen) => seen.it.card,
        None => call.engine.card_of(call.op, task).await?,
    };
    Ok(json!({
        "job_id": job.job().id,
        "task_id": task,
        "action": shown.action.word(),
        "status": shown.status,
        "timed_out": waited.timed_out,
        "timeout_metadata": waited.spent,
        "created_at": rfc3339_us(job.job().created_at),
        "updated_at": rfc3339_us(shown.updated_at),
        "result": shown.result(),
        "runtime": runtime,
        "current_task_type": TaskType::of(card.mode).word(),
    }))
}

/// A refusal of arguments that name nothing.
fn no(call: &Call<'_>, task: &str, job: &str, answer: Envelope) -> Value {
    let named = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let mut fields = envelope::fields(call, None);
    fields["task_id"] = json!(named(task));
    fields["job_id"] = json!(named(job));
    answer.answer(call, fields)
}
