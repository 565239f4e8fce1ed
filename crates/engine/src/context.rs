//! The caller of a call, and what comes along with the call: cancellation, progress, a retry key.

use std::fmt;
use std::sync::Arc;

use callboard_domain::actor::Actor;
use callboard_domain::crew::AgentId;
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_domain::retry::{Digest, RetryKey};
use callboard_domain::rights::judge_one_client;
pub use callboard_domain::rights::{PersonVerb, Rights, Scope};
use callboard_domain::token::TokenId;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The key in `_meta` under which MCP clients send a retry key.
pub const RETRY_KEY: &str = "callboard/idempotencyKey";

/// The identity of a connection. Fixed when it opens; never an argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub org: Arc<str>,
    pub actor: Actor,
    pub rights: Rights,
    /// The token that this caller showed.
    pub token: Option<TokenId>,
    /// The client this connection is bound to (`--client`).
    pub bound_client: Option<String>,
    /// Several clients may act under this name: the protocol does not tell them apart.
    pub is_shared: bool,
}

impl Principal {
    pub fn local(actor: Actor) -> Self {
        Self {
            org: "default".into(),
            actor,
            rights: Rights::default(),
            token: None,
            bound_client: None,
            is_shared: false,
        }
    }

    pub fn may(&self, scope: Scope) -> bool {
        self.rights.may(scope)
    }

    pub fn judge(&self, verb: &str, scope: Scope) -> Result<(), Refusal> {
        self.rights.judge(verb, scope)
    }

    /// Judges a change of a task before anything runs, is read or is made for it; `act` judges again.
    pub(crate) fn judge_on(&self, verb: &str, task: TaskId) -> Result<(), Refusal> {
        self.judge(verb, Scope::TasksWrite)?;
        self.rights.judge_task(task)
    }

    /// As `judge_on`, for a verb that only people and trusted agents have.
    pub(crate) fn judge_verb_on(
        &self,
        tool: &str,
        verb: PersonVerb,
        task: TaskId,
    ) -> Result<(), Refusal> {
        self.rights.judge_verb(tool, verb)?;
        self.rights.judge_task(task)
    }

    /// As `judge_on`, for a change that belongs to no single task.
    pub(crate) fn judge_outside(&self, verb: &str, what: &str) -> Result<(), Refusal> {
        self.judge(verb, Scope::TasksWrite)?;
        self.rights.judge_outside(what)
    }

    /// The one agent whose mail and decisions this caller may read; `None`: those of all agents.
    pub(crate) fn kept_to(&self) -> Option<AgentId> {
        let is_kept = self.rights.is_kept_to_own(&self.actor, self.token.is_some());
        is_kept.then(|| AgentId::of(&self.actor))
    }

    /// Refuses a name that several clients share, for a verb that needs exactly one client.
    pub fn judge_one_client(&self, verb: &str) -> Result<(), Refusal> {
        judge_one_client(self.is_shared, verb, &self.actor)
    }
}

/// The caller of one call, with what comes along with the call.
#[derive(Clone, Debug)]
pub struct OpContext {
    pub principal: Principal,
    /// The name that the client gave for itself, if any.
    pub client_name: Option<String>,
    /// The tool's name; retry keys are kept per org, actor and tool.
    pub tool: &'static str,
    pub retry_key: Option<RetryKey>,
    pub cancel: CancellationToken,
    /// The connection is about to end: waits need not go on. Work that is under way may.
    pub closing: CancellationToken,
    pub progress: Progress,
}

impl OpContext {
    pub fn new(principal: Principal, tool: &'static str) -> Self {
        Self {
            principal,
            client_name: None,
            tool,
            retry_key: None,
            cancel: CancellationToken::new(),
            closing: CancellationToken::new(),
            progress: Progress::default(),
        }
    }

    /// Takes a retry key for a call with these arguments, as the caller sent both.
    pub fn take_key(&mut self, arguments: &Value, key: Option<&Value>) -> Result<(), Refusal> {
        if let Some(key) = key {
            self.retry_key = Some(RetryKey::read(RETRY_KEY, key, Digest::of(arguments))?);
        }
        Ok(())
    }

    /// The context for commands that a call gives besides its own change. A retry key stands for that change alone;
    /// consequences of the change must be found or done anew each time.
    pub(crate) fn unkeyed(&self) -> Self {
        Self { retry_key: None, ..self.clone() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ProgressReport {
    pub done: f64,
    pub total: Option<f64>,
    pub message: String,
}

/// Takes the progress reports of a long call; drops them unless the caller asked for progress.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(ProgressReport) + Send + Sync>>);

impl Progress {
    pub fn new(sink: impl Fn(ProgressReport) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    pub fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    pub fn report(&self, done: f64, total: Option<f64>, message: impl Into<String>) {
        if let Some(sink) = &self.0 {
            sink(ProgressReport { done, total, message: message.into() });
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Progress(wanted: {})", self.is_wanted())
    }
}
