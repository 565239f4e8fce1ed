//! The pipeline of every call, over any transport: identify the agent, check its type, log the call, run the tool with
//! its retries, log the result, and send mail when the call broke.

use std::error::Error;
use std::fmt::Write;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use callboard_domain::crew::{Agent, AgentId, decision};
use callboard_domain::ids::Id;
use callboard_domain::refusal::brief;
use callboard_domain::rights::AgentType;
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Scope};
use callboard_engine::{BrokenCall, CallLine, CrewRule, Engine, EngineError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::callers::Agents;
use super::envelope::{self, Data, Fault, Said};
use super::permission::{broken_call, may_call};
use crate::args;
use crate::hooks::Callers;
use crate::retry;
use crate::tool::{Call, Tool};

/// One call of an agent on its way to a tool.
pub(super) struct AgentCall<'a> {
    pub engine: &'a Engine,
    pub op: &'a OpContext,
    pub agent: &'a Agent,
    tool: &'static Tool,
    schema: &'a Map<String, Value>,
    /// Shared by the tries of one call.
    ids: &'a Ids,
}

/// Ids for the rows that a call creates: stable over its retries, so that nothing is created twice.
#[derive(Default)]
struct Ids(Mutex<Vec<Id>>);

impl AgentCall<'_> {
    pub fn read<T: DeserializeOwned>(&self, input: Value) -> Result<T, Fault> {
        Ok(args::read(self.schema, self.tool.aliases, input)?)
    }

    /// The id of the `place`th row that this call creates.
    pub fn id(&self, place: usize) -> Id {
        let mut ids = self.ids.0.lock().unwrap_or_else(PoisonError::into_inner);
        while ids.len() <= place {
            ids.push(self.engine.fresh_id());
        }
        ids[place]
    }
}

/// A tool's function, with its arguments not read yet: malformed ones are logged like any other refusal.
pub(super) type Work =
    for<'s> fn(&'s AgentCall<'s>, Value) -> Pin<Box<dyn Future<Output = Data> + Send + 's>>;

/// Makes a table's function pointer out of `async fn handler(call: &AgentCall<'_>, args: T) -> Data`.
macro_rules! seated {
    ($function:path) => {
        |call| {
            Box::pin(async move {
                let work: $crate::toolsets::crew::pipeline::Work =
                    |call, input| Box::pin(async move { $function(call, call.read(input)?).await });
                Ok($crate::toolsets::crew::pipeline::run(call, work).await)
            })
        }
    };
}
pub(super) use seated;

/// The answer to a call, successful or not.
pub(super) async fn run(call: Call<'_>, work: Work) -> Value {
    let Call { engine, op, tool, .. } = call;
    let mut tries = Tries::new(engine, op, tool.name);
    // Retried as the tool is: the store may be away while the caller is looked up.
    let admitted = tries.until_done(|| admit(engine, op, tool.name)).await;
    let agent = match admitted {
        Ok(agent) => agent,
        Err(Fault::Said(said)) => return envelope::no(&said, engine.now()),
        Err(Fault::Broken(error)) => {
            return envelope::no(&broke_before(engine, op, &error, &tries).await, engine.now());
        }
    };
    // The type was judged by patterns; this judges the scope and profile of the connection.
    if let Err(refusal) = tool.judge(&op.principal) {
        engine.call_refuse(op, None, envelope::PERMISSION_DENIED.into(), None).await;
        return envelope::no(&super::words::said(&refusal), engine.now());
    }
    // Judged before the kept answer is returned: a caller that lost its rights must not read it.
    let work = async { Ok(carried_out(call, &agent, &mut tries, work).await) };
    match retry::once(engine, op, tool, work).await {
        Ok(answer) => answer,
        Err(EngineError::Refused(refusal)) => Agents.refused(engine, &refusal),
        Err(error) => envelope::no(&broke_before(engine, op, &error, &tries).await, engine.now()),
    }
}

/// Runs the tool, with its lines in the log. A repeated call does not get here.
async fn carried_out(call: Call<'_>, agent: &Agent, tries: &mut Tries<'_>, work: Work) -> Value {
    let Call { engine, op, tool, schema, arguments, .. } = call;
    // The log shows `{}` for a call without arguments.
    let input = if arguments.is_null() { json!({}) } else { arguments };
    let invoked = line(format!("Invoked tool: {}", tool.name), "invocation", &input);
    engine.call_line(op, &agent.id, invoked).await;
    let ids = Ids::default();
    let call = AgentCall { engine, op, agent, tool, schema, ids: &ids };
    let done = tries.until_done(|| work(&call, input.clone())).await;
    let (line, answer, failure) = match done {
        Ok(data) => {
            let line = line(format!("Tool result: {}", tool.name), "result", &data);
            (line, envelope::yes(data, engine.now()), None)
        }
        Err(fault) => {
            let failure = Failure::of(fault, tries);
            let Failure { said, stack, .. } = &failure;
            let context = json!({"message": said.message, "stack": stack, "code": said.code});
            let line = line(format!("Tool error: {}", tool.name), "error", &context);
            (line, envelope::no(said, engine.now()), Some(failure))
        }
    };
    // Neither write may fail the call: the tool's own change is committed already.
    tokio::join!(engine.call_line(op, &agent.id, line), engine.agent_touch(op, &agent.id));
    if let Some(failure) = failure.filter(|failure| failure.escalates) {
        engine.call_report(op, Some(agent), failure.reported(tool.name, engine.now())).await;
    }
    answer
}

/// The calling agent, if its type may call the tool. The name need not be a tool's, so that callers cannot probe for
/// names.
async fn admit(engine: &Engine, op: &OpContext, tool: &str) -> Result<Agent, Fault> {
    // An agent of a crew is one client: it has one inbox, one task and one epic.
    op.principal.judge_one_client(tool)?;
    let id = AgentId::of(&op.principal.actor);
    let found = match (engine.agent_find(op, &id).await, op.principal.rights.agent_type) {
        // A caller that only reads stays out of the crew, so that no work is assigned to it.
        (Ok(None), Some(_)) if !op.principal.may(Scope::TasksWrite) => Ok(None),
        // An agent whose rights name a type joins the crew with its first call.
        (Ok(None), Some(kind)) => engine.agent_register(op, &id, kind).await.map(Some),
        (found, _) => found,
    };
    let Some(agent) = found? else { return Err(Fault::Said(unknown_agent(id.as_str()))) };
    if may_call(agent.kind, tool) {
        return Ok(agent);
    }
    engine.call_refuse(op, None, envelope::PERMISSION_DENIED.into(), None).await;
    Err(Fault::Said(denied(tool, agent.kind)))
}

/// The answer to an unknown tool name.
pub(super) async fn unknown_tool(engine: &Engine, op: &OpContext, tool: &str) -> Said {
    let mut tries = Tries::new(engine, op, op.tool);
    match tries.until_done(|| admit(engine, op, tool)).await {
        Ok(_) => {
            Said::new(envelope::TOOL_NOT_FOUND, format!("Tool '{tool}' not found in registry"))
        }
        Err(Fault::Said(said)) => said,
        Err(Fault::Broken(error)) => Failure::of(Fault::Broken(error), &tries).said,
    }
}

/// The answer to a fault before the caller was identified. `attempts` stands only where a call was retried: a fault at
/// once is the server's, not the call's.
async fn broke_before(
    engine: &Engine,
    op: &OpContext,
    error: &EngineError,
    tries: &Tries<'_>,
) -> Said {
    let failure = broken(error, tries.made);
    if failure.escalates {
        engine.call_report(op, None, failure.reported(op.tool, engine.now())).await;
    }
    match is_transient(error) {
        true => failure.said,
        false => Said { details: json!({}), ..failure.said },
    }
}

pub(super) fn unknown_agent(id: &str) -> Said {
    Said::new(envelope::AGENT_NOT_FOUND, format!("Agent with ID '{}' not found", brief(id)))
}

/// The refusal of a tool by the caller's type.
pub(super) fn denied(tool: &str, kind: AgentType) -> Said {
    let kind = kind.as_str();
    let words = format!("Tool '{tool}' is not allowed for agent type '{kind}'");
    Said::new(envelope::PERMISSION_DENIED, words)
}

/// One line of the log of decisions, in the reference's words.
fn line(decision: String, of: &'static str, context: &Value) -> CallLine {
    let reasoning = match of {
        "invocation" => "Automatic tool invocation log",
        "result" => "Automatic tool result log",
        _ => "Automatic tool error log",
    };
    CallLine { decision, reasoning, context: decision::context(context) }
}

/// How a call without data ended.
struct Failure {
    said: Said,
    /// The failure and its causes, for the log and for mail; never for the caller. Empty for a refusal.
    stack: String,
    /// Whether the failure is reported by mail.
    escalates: bool,
}

impl Failure {
    fn of(fault: Fault, tries: &Tries<'_>) -> Self {
        match fault {
            Fault::Said(said) => Self { said, stack: String::new(), escalates: false },
            Fault::Broken(error) => broken(&error, tries.made),
        }
    }

    fn reported(&self, tool: &'static str, at: Timestamp) -> BrokenCall {
        broken_call(tool, &self.said, self.stack.clone(), at)
    }
}

/// Counts the tries of a call, admission included.
struct Tries<'a> {
    rule: &'a CrewRule,
    op: &'a OpContext,
    tool: &'a str,
    made: u32,
}

impl<'a> Tries<'a> {
    fn new(engine: &'a Engine, op: &'a OpContext, tool: &'a str) -> Self {
        Self { rule: engine.crew(), op, tool, made: 1 }
    }

    /// Retries only transient faults; a tool's own refusal stands.
    async fn until_done<T, F>(&mut self, mut go: impl FnMut() -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        loop {
            let error = match go().await {
                Err(Fault::Broken(error)) if is_transient(&error) => error,
                done => return done,
            };
            if self.made > self.rule.retry_max {
                return Err(Fault::Broken(error));
            }
            let (tool, attempts) = (self.tool, self.made);
            tracing::warn!(%error, tool, attempts, "a call is tried again");
            tokio::select! {
                () = tokio::time::sleep(self.rule.retry_delay) => self.made += 1,
                // A caller that went away does not wait for the next try.
                () = self.op.cancel.cancelled() => return Err(Fault::Broken(error)),
            }
        }
    }
}

/// A fault as a failure. The caller gets its words, the log and the mail also its causes.
fn broken(error: &EngineError, attempts: u32) -> Failure {
    let said = match is_transient(error) {
        true => envelope::transient(error.to_string(), attempts),
        false => Said {
            code: envelope::broken_code(error),
            message: error.to_string(),
            details: json!({"attempts": attempts}),
        },
    };
    let stack = stack(error);
    tracing::error!(%error, stack, attempts, "a call failed");
    // A caller that cancels its own call needs no mail about it.
    Failure { said, stack, escalates: !matches!(error, EngineError::Canceled) }
}

/// Whether a retry may succeed later. The kind of the error decides; for a failed git only its words tell a lost
/// network from a broken repository.
fn is_transient(error: &EngineError) -> bool {
    match error {
        EngineError::Unavailable(_) => true,
        EngineError::Git(words) => {
            let words = words.to_lowercase();
            ["timeout", "connection", "network"].iter().any(|sign| words.contains(sign))
        }
        EngineError::Refused(_)
        | EngineError::Damaged(_)
        | EngineError::Internal(_)
        | EngineError::Canceled => false,
    }
}

/// The failure and its causes, one a line, the outermost first.
fn stack(error: &dyn Error) -> String {
    let mut stack = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(stack, "\n{error}");
        cause = error.source();
    }
    stack
}
