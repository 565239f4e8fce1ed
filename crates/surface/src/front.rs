//! Everything a client can ask, independent of a protocol: tools, resources, prompts, completion. `mcp/` translates it
//! for MCP clients; the CLI's `call` uses it directly.

use std::sync::Arc;

use callboard_domain::refusal::Refusal;
use callboard_engine::Engine;
use callboard_engine::context::{OpContext, Principal, Scope};
use callboard_engine::error::EngineError;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::catalog::Catalog;
use crate::error::Speaker;
use crate::hooks::{Hooks, Resources, Started};
use crate::lookup::{LookupError, ResourceError};
use crate::metrics::Measured;
use crate::places::{NoPlace, Places};
use crate::prompt::OwnPrompts;
use crate::retry::{self, ToolRequest};
use crate::ticket::{self, Ticket};
use crate::tool::{self, About, Call, Toolset};
use crate::toolsets;
use crate::{error, prompt, resource, task_name};

/// The protocol allows at most 100 values in one completion.
const COMPLETIONS_MAX: usize = 100;

/// The published facts of one tool.
#[derive(Clone, Debug)]
pub struct ToolInfo {
    pub name: &'static str,
    pub title: &'static str,
    pub description: String,
    pub input_schema: Map<String, Value>,
    pub output_schema: Map<String, Value>,
    pub hints: Hints,
}

/// The four annotations of the protocol. Clients use them to decide whether to ask a person before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    pub read_only: bool,
    pub destructive: bool,
    pub idempotent: bool,
    /// Whether the call acts on anything outside Callboard.
    pub open_world: bool,
}

impl Hints {
    pub const READ: Self =
        Self { read_only: true, destructive: false, idempotent: true, open_world: false };
    pub const WRITE: Self =
        Self { read_only: false, destructive: false, idempotent: false, open_world: false };
    /// Idempotent: repeating the call changes nothing.
    pub const WRITE_AGAIN: Self = Self { idempotent: true, ..Self::WRITE };
    /// Reaches beyond Callboard: runs a command, asks a person.
    pub const WRITE_OUTSIDE: Self = Self { open_world: true, ..Self::WRITE };
}

/// A tool's answer: both variants are normal results for the protocol; `Refused` sets `isError`.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolReply {
    /// An answer of the tool. Toolsets with an envelope also refuse in this form.
    Done(Value),
    Refused(Value),
}

/// A request for an unknown name; a protocol error, not a tool's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown(pub String);

#[derive(Clone, Debug)]
pub struct ResourceTemplate {
    pub uri_template: &'static str,
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub media_type: &'static str,
}

/// The resource behind a URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceText {
    pub media_type: &'static str,
    pub text: String,
    /// How long the resource stays unchanged; `None` when unknown.
    pub ttl_ms: Option<u64>,
}

/// A URI without a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoResource {
    pub uri: String,
    pub code: &'static str,
    /// The state of the job that has no such artifact.
    pub state: Option<&'static str>,
    /// Whether there may be a resource later.
    pub retryable: Option<bool>,
    /// What to do instead.
    pub hint: Option<String>,
}

impl NoResource {
    pub fn unknown(uri: &str) -> Self {
        let (state, retryable, hint) = (None, None, None);
        Self { uri: uri.to_owned(), code: "RESOURCE_NOT_FOUND", state, retryable, hint }
    }
}

/// A resource as clients list it.
#[derive(Clone, Debug)]
pub struct ResourceInfo {
    pub uri: String,
    pub name: String,
    pub title: String,
    pub media_type: &'static str,
}

/// A prompt as clients list it.
#[derive(Clone, Debug)]
pub struct PromptInfo {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub arguments: &'static [PromptArgument],
}

#[derive(Clone, Copy, Debug)]
pub struct PromptArgument {
    pub name: &'static str,
    pub description: &'static str,
    pub required: bool,
}

/// The one way from a protocol to the engine, for a fixed list of toolsets.
pub struct Front {
    engine: Arc<Engine>,
    catalog: Catalog,
    /// The toolsets in the order of `toolsets::ALL`.
    hooked: Vec<&'static Toolset>,
    /// The facts that a tool may tell about this server.
    about: About,
    /// Texts of the project's `.callboard/prompts/`.
    own_prompts: OwnPrompts,
    /// Places for calls of tools with `may_be_long`, counted by token.
    long_calls: Arc<Places>,
}

impl Front {
    /// A front without a limit of long calls and without texts of a project. `repo` is the name of the served folder.
    pub fn new(engine: Arc<Engine>, toolsets: &[&'static Toolset], repo: Option<String>) -> Self {
        let catalog = Catalog::of(toolsets).with_words_of(engine.policy().clone());
        let about =
            About { version: env!("CARGO_PKG_VERSION"), toolsets: catalog.names.clone(), repo };
        let (own_prompts, long_calls) = (OwnPrompts::default(), Places::unlimited());
        let mut hooked = toolsets.to_vec();
        // The order decides which toolset answers for a job or a cursor first. It must not depend on `--toolsets`.
        hooked.sort_by_key(|own| toolsets::ALL.iter().position(|known| known.name == own.name));
        Self { engine, catalog, hooked, about, own_prompts, long_calls }
    }

    /// The front with a limit of concurrent long calls per token. Fronts of one server share the limit.
    pub fn with_long_calls(self, long_calls: Arc<Places>) -> Self {
        Self { long_calls, ..self }
    }

    /// The front with a project's texts instead of the usual prompts.
    pub fn with_prompts(self, own_prompts: OwnPrompts) -> Self {
        Self { own_prompts, ..self }
    }

    pub(crate) fn own_prompts(&self) -> &OwnPrompts {
        &self.own_prompts
    }

    pub(crate) fn toolsets(&self) -> &[&'static Toolset] {
        &self.catalog.toolsets
    }

    /// The hooks of one kind, each with its toolset. Their order is that of `toolsets::ALL`, however the toolsets were
    /// named.
    pub(crate) fn hooked<H>(
        &self,
        kind: fn(&Hooks) -> Option<H>,
    ) -> impl Iterator<Item = (&'static Toolset, H)> {
        self.hooked.iter().filter_map(move |toolset| Some((*toolset, kind(&toolset.hooks)?)))
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The instructions for this caller when it connects.
    pub fn instructions(&self, principal: &Principal) -> String {
        let bound = principal.rights.task.map(|task| {
            format!(
                "This connection is bound to task {task}; it cannot change other tasks or create tasks."
            )
        });
        let texts = self.catalog.instructions().filter(|text| !text.is_empty());
        texts.chain(bound).collect::<Vec<_>>().join("\n\n")
    }

    pub fn version(&self) -> &'static str {
        self.about.version
    }

    /// Tools this principal may call, in the toolsets' order.
    pub async fn tools(&self, principal: &Principal) -> Vec<ToolInfo> {
        let mut principal = principal.clone();
        for (_, callers) in self.hooked(|hooks| hooks.callers) {
            // The list shows what a call would be judged by: the rights in the store, not those of the connection.
            principal = callers.on_record(&self.engine, principal).await;
        }
        self.catalog.list(&principal)
    }

    /// Calls a tool. `asked` is the client's input, of any type.
    pub async fn call(
        &self,
        name: &str,
        asked: impl Into<ToolRequest>,
        context: impl FnOnce(&'static str) -> OpContext,
    ) -> Result<ToolReply, Unknown> {
        let (answer, speaker) = self.ask(name, asked, context).await?;
        Ok(match answer {
            Ok(value) => ToolReply::Done(value),
            Err(error) => ToolReply::Refused(error::render(&error, speaker)),
        })
    }

    /// Calls a tool like `call`, but returns a refusal before it is worded, with the speaker that words it.
    pub async fn ask(
        &self,
        name: &str,
        asked: impl Into<ToolRequest>,
        context: impl FnOnce(&'static str) -> OpContext,
    ) -> Result<(Result<Value, EngineError>, Speaker), Unknown> {
        let ToolRequest { mut arguments, key } = asked.into();
        let found = self.catalog.find(name, &arguments).ok_or_else(|| unknown_tool(name))?;
        let action = found.tool.action_named(&arguments);
        // Unknown names are not measured: a client's text must not become a label.
        let measured = Measured::start(found.toolset.name, found.tool.name);
        let mut op = context(found.tool.name);
        // A toolset that knows its callers judges them itself, before it repeats a kept answer.
        let callers = found.toolset.hooks.callers;
        let judged = match callers {
            Some(_) => Ok(()),
            None => found.tool.judge(&op.principal),
        };
        let judged = judged.and_then(|()| self.catalog.judge(name, &arguments));
        // The key's digest is over the arguments as sent, so a repeated call has the digest of the first one whatever
        // its short names mean by then.
        let judged = judged.and_then(|()| op.take_key(&arguments, key.as_ref()));
        // Long calls are limited by token, so that one token cannot exhaust the server for others.
        let place = match found.tool.may_be_long {
            true => self.long_calls.take(op.principal.token),
            false => Ok(None),
        };
        // Held until the call has its answer, behind a handle or not.
        let (judged, _place) = match place {
            Ok(place) => (judged, place),
            // An earlier refusal wins: the order of refusals is part of the contract.
            Err(NoPlace { max: limit }) => (judged.and(Err(Refusal::TooManyCalls { limit })), None),
        };
        let judged = match judged {
            Ok(()) => task_name::resolve(&self.engine, &op, &mut arguments).await,
            Err(refusal) => Err(refusal.into()),
        };
        // Read before the call takes the arguments, for the audit after it.
        let task = tool::task_named(&arguments).and_then(|task| task.parse().ok());
        let answer = match (judged, callers) {
            (Err(EngineError::Refused(refusal)), Some(callers)) => {
                Ok(callers.refused(&self.engine, &refusal))
            }
            (Err(error), _) => Err(error),
            (Ok(()), _) => {
                let call = Call {
                    engine: &self.engine,
                    op: &op,
                    about: &self.about,
                    tool: found.tool,
                    schema: &found.schema,
                    arguments,
                };
                match callers {
                    Some(_) => (found.tool.run)(call).await,
                    None => {
                        retry::once(&self.engine, &op, found.tool, (found.tool.run)(call)).await
                    }
                }
            }
        };
        let speaker = Speaker { voice: &found.toolset.voice, tool: found.tool.name };
        // The log has the code and the caller, and never the arguments: these may hold anything a user typed.
        if let Err(EngineError::Refused(refusal)) = &answer {
            let Principal { org, actor, token, .. } = &op.principal;
            let token = token.map(|token| token.to_string()).unwrap_or_default();
            let (tool, said) = (speaker.tool, (speaker.voice.say)(speaker.tool, refusal));
            tracing::info!(tool, code = said.code, %actor, %org, token, "call refused");
        }
        // Only refusals and reads are noted here. A write that succeeded has its event already.
        if let Some(said_no) = found.toolset.audit {
            let code = match &answer {
                Ok(value) => said_no(value),
                Err(EngineError::Refused(_)) => {
                    answer.as_ref().err().map(|e| error::code(e, speaker))
                }
                Err(
                    EngineError::Unavailable(_)
                    | EngineError::Git(_)
                    | EngineError::Damaged(_)
                    | EngineError::Internal(_)
                    | EngineError::Canceled,
                ) => None,
            };
            match code {
                Some(code) => self.engine.call_refuse(&op, action, code.to_owned(), task).await,
                None if found.tool.hints.read_only && answer.is_ok() => {
                    self.engine.call_answer(&op, task).await;
                }
                None => {}
            }
        }
        measured.end(answer.as_ref().map_or_else(|error| error::code(error, speaker), |_| "ok"));
        Ok((answer, speaker))
    }

    /// The name and scope of a tool whose call may outlive its request.
    pub fn long_tool(&self, name: &str, arguments: &Value) -> Option<(&'static str, Scope)> {
        let tool = self.catalog.find(name, arguments)?.tool;
        tool.may_be_long.then_some((tool.name, tool.scope))
    }

    /// Work that goes on without its caller, by the id that the caller got.
    pub async fn ticket(&self, principal: &Principal, id: &str) -> Result<Ticket, LookupError> {
        ticket::find(self, principal, id).await
    }

    pub async fn ticket_answer(
        &self,
        principal: &Principal,
        id: &str,
        answers: Map<String, Value>,
    ) -> Result<(), LookupError> {
        ticket::answer(self, principal, id, answers).await
    }

    pub async fn ticket_cancel(&self, principal: &Principal, id: &str) -> Result<(), LookupError> {
        ticket::cancel(self, principal, id).await
    }

    /// The work that goes on after an answer of a tool, with the toolset of the work.
    pub(crate) fn started(
        &self,
        tool: &str,
        answer: &Value,
    ) -> Option<(&'static Toolset, Started)> {
        let mut hooks = self.hooked(|hooks| hooks.started);
        hooks.find_map(|(toolset, started)| Some((toolset, started(tool, answer)?)))
    }

    pub fn resource_templates(&self) -> Vec<ResourceTemplate> {
        let own = self.hooked(|hooks| hooks.resources).flat_map(|(_, own)| own.templates());
        resource::TEMPLATES.iter().chain(own).cloned().collect()
    }

    /// One page of resources and the cursor of the next: the resources of the toolsets, then tasks.
    pub async fn resources(
        &self,
        principal: &Principal,
        cursor: Option<&str>,
    ) -> Result<(Vec<ResourceInfo>, Option<String>), EngineError> {
        /// The cursor of the first page of tasks after pages of toolsets.
        const TASKS: &str = "tasks";
        let own = || self.hooked(|hooks| hooks.resources).map(|(_, own)| own);
        let mut found: Vec<ResourceInfo> = match cursor {
            None => own().flat_map(|own| own.fixed()).collect(),
            Some(_) => Vec::new(),
        };
        let mut after = cursor;
        let mut has_own = false;
        // A cursor belongs to the toolset that made it; toolsets before it are listed completely.
        for own in own().skip_while(|own| cursor.is_some_and(|cursor| !own.made(cursor))) {
            // `take`: only the first toolset of the loop continues at the cursor, the next ones begin at their start.
            let Some((page, next)) = own.page(&self.engine, principal, after.take()).await? else {
                continue;
            };
            found.extend(page);
            has_own = true;
            if next.is_some() {
                return Ok((found, next));
            }
        }
        // Tasks begin on a page of their own, so that no page mixes two kinds of cursors.
        if has_own {
            return Ok((found, Some(TASKS.to_owned())));
        }
        let cursor = cursor.filter(|cursor| *cursor != TASKS);
        let (tasks, next) = resource::list(&self.engine, principal, cursor).await?;
        found.extend(tasks);
        Ok((found, next))
    }

    /// The toolset that a URI belongs to; tasks are not a toolset's.
    fn resources_with(&self, uri: &str) -> Option<&'static dyn Resources> {
        self.hooked(|hooks| hooks.resources).map(|(_, own)| own).find(|own| own.holds(uri))
    }

    /// The resource behind a URI.
    pub async fn resource_read(
        &self,
        principal: &Principal,
        uri: &str,
    ) -> Result<ResourceText, ResourceError> {
        match self.resources_with(uri) {
            Some(own) => own.read(&self.engine, principal, uri).await,
            None => resource::read(&self.engine, principal, uri).await,
        }
    }

    /// Sends the URI each time the resource behind it changes, until the receiver is dropped. Several changes may
    /// arrive as one while the receiver is not polled.
    pub async fn resource_watch(
        &self,
        principal: &Principal,
        uri: &str,
        changes: mpsc::Sender<String>,
    ) -> Result<(), LookupError> {
        match self.resources_with(uri) {
            Some(own) => own.watch(&self.engine, principal, uri, changes).await,
            None => resource::watch(&self.engine, principal, uri, changes).await,
        }
    }

    pub fn prompts(&self) -> Vec<PromptInfo> {
        prompt::list()
    }

    /// The text of the one user message a prompt consists of.
    pub async fn prompt(
        &self,
        principal: &Principal,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Result<String, LookupError> {
        prompt::text(self, principal, name, arguments).await
    }

    /// Values for an argument (`id` of a resource template, `task` of a prompt) that start with the typed text; at most
    /// 100, and whether there are more.
    pub async fn complete(
        &self,
        principal: &Principal,
        argument: &str,
        typed: &str,
    ) -> Result<(Vec<String>, bool), EngineError> {
        for (_, own) in self.hooked(|hooks| hooks.resources) {
            // One value more than is shown tells whether there are more.
            let wanted = COMPLETIONS_MAX + 1;
            let found = own.complete(&self.engine, principal, argument, typed, wanted).await?;
            if let Some(mut found) = found {
                let more = found.len() > COMPLETIONS_MAX;
                found.truncate(COMPLETIONS_MAX);
                return Ok((found, more));
            }
        }
        if !matches!(argument, "id" | "task") {
            return Ok((Vec::new(), false));
        }
        let op = OpContext::new(principal.clone(), "complete");
        let ids = self.engine.task_ids(&op, typed, COMPLETIONS_MAX + 1).await?;
        let more = ids.len() > COMPLETIONS_MAX;
        Ok((ids.iter().take(COMPLETIONS_MAX).map(ToString::to_string).collect(), more))
    }
}

/// The error for an unknown tool. For a tool of a disabled toolset it says how to enable the toolset.
fn unknown_tool(name: &str) -> Unknown {
    let off = toolsets::ALL.iter().find(|toolset| toolset.tools.iter().any(|t| t.name == name));
    Unknown(match off {
        Some(Toolset { name: toolset, .. }) => format!(
            "{name}; it is in the toolset {toolset}, which this server does not offer: start with --toolsets \
             {toolset}, or connect to /mcp/{toolset}"
        ),
        None => name.into(),
    })
}
