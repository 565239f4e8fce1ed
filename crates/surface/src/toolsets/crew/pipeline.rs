//! What every call goes through, whichever door it came in by: who asks, whether its type may, a line
//! in the log, the tool itself with its retries, another line, and mail when it broke.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::error::Error;
use std::fmt::Write;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use callboard_domain::command::MailSend;
use callboard_domain::crew::permission::{CRITICAL, may_call};
use callboard_domain::crew::{Agent, AgentId, MailId, decision};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::rights::AgentType;
use callboard_engine::context::OpContext;
use callboard_engine::{AgentStanding, CallLine, Engine, EngineError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::envelope::{self, Data, Fault, Said};
use crate::args;
use crate::tool::{Call, Tool};

/// One call of an agent on its way to a tool.
pub(super) struct Seat<'a> {
    pub engine: &'a Engine,
    pub op: &'a OpContext,
    pub agent: &'a Agent,
    tool: &'static Tool,
    schema: &'a Map<String, Value>,
    ids: &'a Ids,
}

/// Ids of what a call makes: the same each time it is tried, so that nothing is made twice.
#[derive(Default)]
struct Ids(Mutex<Vec<Id>>);

impl Seat<'_> {
    pub fn read<T: DeserializeOwned>(&self, input: Value) -> Result<T, Fault> {
        Ok(args::read(self.schema, self.tool.aliases, input)?)
    }

    /// The id of the `place`th thing that this call makes.
    pub fn id(&self, place: usize) -> Id {
        let mut ids = self.ids.0.lock().unwrap_or_else(PoisonError::into_inner);
        while ids.len() <= place {
            ids.push(self.engine.fresh_id());
        }
        ids[place]
    }
}

pub(super) type Work =
    for<'s> fn(&'s Seat<'s>, Value) -> Pin<Box<dyn Future<Output = Data> + Send + 's>>;

/// Makes a table's function pointer out of `async fn handler(seat: &Seat<'_>, args: T) -> Data`.
macro_rules! seated {
    ($function:path) => {
        |call| {
            Box::pin(async move {
                let work: $crate::toolsets::crew::pipeline::Work =
                    |seat, input| Box::pin(async move { $function(seat, seat.read(input)?).await });
                Ok($crate::toolsets::crew::pipeline::run(call, work).await)
            })
        }
    };
}
pub(super) use seated;

/// The answer to a call, whatever comes of it.
pub(super) async fn run(call: Call<'_>, work: Work) -> Value {
    let Call { engine, op, tool, schema, arguments, .. } = call;
    let agent = match admit(engine, op, tool.name).await {
        Ok(agent) => agent,
        Err(said) => return envelope::no(&said, engine.now()),
    };
    if let Err(refusal) = tool.judge(&op.principal) {
        engine.call_refuse(op, envelope::PERMISSION_DENIED.into(), None).await;
        return envelope::no(&super::words::said(&refusal), engine.now());
    }
    let input = if arguments.is_null() { json!({}) } else { arguments };
    let invoked = line(format!("Invoked tool: {}", tool.name), "invocation", &input);
    engine.call_line(op, &agent.id, invoked).await;
    let ids = Ids::default();
    let seat = Seat { engine, op, agent: &agent, tool, schema, ids: &ids };
    let done = tried(&seat, input, work).await;
    let (line, answer, failure) = match done {
        Ok(data) => {
            let line = line(format!("Tool result: {}", tool.name), "result", &data);
            (line, envelope::yes(data, engine.now()), None)
        }
        Err(failure) => {
            let Failure { said, stack, .. } = &failure;
            let context = json!({"message": said.message, "stack": stack, "code": said.code});
            let line = line(format!("Tool error: {}", tool.name), "error", &context);
            (line, envelope::no(said, engine.now()), Some(failure))
        }
    };
    tokio::join!(engine.call_line(op, &agent.id, line), engine.agent_touch(op, &agent.id));
    if let Some(failure) = failure.filter(|failure| failure.escalates) {
        escalate(&seat, &failure).await;
    }
    answer
}

/// Who asks, if its type may. The name need not be a tool's, so that nobody can probe for names.
pub(super) async fn admit(engine: &Engine, op: &OpContext, tool: &str) -> Result<Agent, Said> {
    let id = AgentId::of(&op.principal.actor);
    let found = match (engine.agent_find(op, &id).await, op.principal.rights.agent_type) {
        (Ok(None), Some(kind)) => engine.agent_register(op, &id, kind).await.map(Some),
        (found, _) => found,
    };
    let agent = found.map_err(|error| match Fault::from(error) {
        Fault::Said(said) => said,
        Fault::Broken(error) => {
            tracing::error!(%error, tool, agent = %id, "a call broke before its tool");
            Said::new(envelope::INTERNAL_ERROR, error.to_string())
        }
    })?;
    let Some(agent) = agent else { return Err(unknown_agent(id.as_str())) };
    if may_call(agent.kind, tool) {
        return Ok(agent);
    }
    engine.call_refuse(op, envelope::PERMISSION_DENIED.into(), None).await;
    Err(denied(tool, agent.kind))
}

pub(crate) fn unknown_agent(id: &str) -> Said {
    Said::new(envelope::AGENT_NOT_FOUND, format!("Agent with ID '{id}' not found"))
}

pub(super) fn denied(tool: &str, kind: AgentType) -> Said {
    let kind = kind.as_str();
    let words = format!("Tool '{tool}' is not allowed for agent type '{kind}'");
    Said::new(envelope::PERMISSION_DENIED, words)
}

fn line(decision: String, of: &'static str, context: &Value) -> CallLine {
    let reasoning = match of {
        "invocation" => "Automatic tool invocation log",
        "result" => "Automatic tool result log",
        _ => "Automatic tool error log",
    };
    CallLine { decision, reasoning, context: decision::context(context) }
}

/// How a call ended that has no data to give.
struct Failure {
    said: Said,
    /// What led to it, for the log and for mail; never for the caller.
    stack: String,
    /// Whether somebody has to hear of it.
    escalates: bool,
}

/// Only what broke on its way may go better the next time; a tool's own "no" stays one.
async fn tried(seat: &Seat<'_>, input: Value, work: Work) -> Result<Value, Failure> {
    let rule = seat.engine.crew();
    let mut attempts = 1;
    loop {
        let error = match work(seat, input.clone()).await {
            Ok(data) => return Ok(data),
            Err(Fault::Said(said)) => {
                return Err(Failure { said, stack: String::new(), escalates: false });
            }
            Err(Fault::Broken(error)) => error,
        };
        let transient = is_transient(&error.to_string());
        if transient && attempts <= rule.retry_max {
            tracing::warn!(%error, tool = seat.tool.name, attempts, "a call is tried again");
            tokio::select! {
                () = tokio::time::sleep(rule.retry_delay) => attempts += 1,
                () = seat.op.cancel.cancelled() => return Err(broken(&error, transient, attempts)),
            }
            continue;
        }
        return Err(broken(&error, transient, attempts));
    }
}

fn broken(error: &EngineError, transient: bool, attempts: u32) -> Failure {
    let code = if transient { envelope::TRANSIENT_ERROR } else { envelope::INTERNAL_ERROR };
    let details = json!({"attempts": attempts});
    let said = Said { code, message: error.to_string(), details };
    let stack = stack(error);
    tracing::error!(%error, stack, attempts, "a call failed");
    Failure { said, stack, escalates: !matches!(error, EngineError::Canceled) }
}

fn is_transient(message: &str) -> bool {
    let message = message.to_lowercase();
    ["timeout", "connection", "network"].iter().any(|word| message.contains(word))
}

/// The causes, one a line, and where it was if that is wanted.
fn stack(error: &dyn Error) -> String {
    let mut stack = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(stack, "\n{error}");
        cause = error.source();
    }
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        let _ = write!(stack, "\n{backtrace}");
    }
    stack
}

/// Mail to the supervisor, or to people where there is none; of what is critical to people as well.
async fn escalate(seat: &Seat<'_>, failure: &Failure) {
    let Seat { engine, op, agent, tool, .. } = seat;
    let supervisor = engine.agent_supervisor(op, agent).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "nobody knows whose worker this is");
        None
    });
    // What broke the call may keep this from being known as well.
    let standing = engine.agent_standing(op, agent).await.ok();
    let report = |critical| report(seat, failure, standing.as_ref(), critical);
    let critical = CRITICAL.contains(&tool.name);
    let send = |to: Option<AgentId>, subject: String, body: String| MailSend {
        mail: MailId(engine.fresh_id()),
        from: Some(agent.id.clone()),
        to,
        subject,
        body,
    };
    if critical {
        let subject = format!("⚠️ CRITICAL: Tool Failure - {}", tool.name);
        engine.mail_escalate(op, send(None, subject, report(true))).await;
    }
    if supervisor.is_some() || !critical {
        let subject = format!("Tool Failure: {}", tool.name);
        engine.mail_escalate(op, send(supervisor, subject, report(false))).await;
    }
}

fn report(
    seat: &Seat<'_>,
    failure: &Failure,
    standing: Option<&AgentStanding>,
    critical: bool,
) -> String {
    const STACK_CHARS_MAX: usize = 16_000;
    let Seat { agent, tool, .. } = seat;
    let seen = crate::time::rfc3339_ms(agent.last_active_at);
    let mut text = format!(
        "Tool: {}\nAgent: {} ({})\nState: {}\nLast active: {seen}\nError: {}: {}\n",
        tool.name,
        agent.id,
        agent.kind.as_str(),
        standing.map_or("unknown", |standing| standing.state.as_str()),
        failure.said.code,
        failure.said.message.chars().take(STACK_CHARS_MAX).collect::<String>(),
    );
    if critical {
        let shown =
            |task: Option<TaskId>| task.map_or_else(|| "none".to_owned(), |task| task.to_string());
        let epic = standing.map_or(agent.epic, |standing| standing.epic);
        let _ = writeln!(text, "Current epic: {}", shown(epic));
        let _ = writeln!(text, "Current task: {}", shown(agent.task));
    }
    let stack: String = failure.stack.chars().take(STACK_CHARS_MAX).collect();
    let _ = write!(text, "\nStack trace:\n{stack}");
    text
}
