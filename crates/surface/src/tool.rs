//! A tool as a row of a table: its name, its arguments and its function.

use std::future::Future;
use std::pin::Pin;

use callboard_domain::policy::{Policy, fold};
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::Profile;
use callboard_engine::context::{OpContext, Principal, Scope};
use callboard_engine::{Engine, EngineError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::args;
use crate::error::Voice;
use crate::front::Hints;
use crate::hooks::Hooks;
use crate::prompt::Prompts;

/// The code of a wait's answer when the caller or a stopping server ended the wait.
pub(crate) const WAIT_INTERRUPTED: &str = "WAIT_INTERRUPTED";

/// One vocabulary over the core.
pub struct Toolset {
    pub name: &'static str,
    /// The tools, in the order of the document that the toolset implements.
    pub tools: &'static [Tool],
    pub voice: Voice,
    /// The instructions for agents that connect.
    pub instructions: fn(&Policy) -> String,
    /// Prompts with instructions step by step; `None`: the toolset has none.
    pub prompts: Option<&'static Prompts>,
    /// Extracts the code of a refusing answer, where every refusal is logged.
    pub audit: Option<fn(&Value) -> Option<&str>>,
    /// Everything that the toolset adds besides tools.
    pub hooks: Hooks,
}

impl Toolset {
    /// The tools that a caller sees.
    pub fn shown(&self, principal: &Principal) -> Vec<&'static Tool> {
        match principal.rights.may_speak(self.name) {
            true => self.tools.iter().filter(|tool| self.shows(tool, principal)).collect(),
            false => Vec::new(),
        }
    }

    /// Whether a caller sees one of the tools.
    pub fn shows(&self, tool: &Tool, principal: &Principal) -> bool {
        let callers = self.hooks.callers;
        tool.judge(principal).is_ok()
            && callers.is_none_or(|callers| callers.see(principal, tool.name))
    }
}

/// One row of a toolset's table.
pub struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    /// `{initial}` stands for the status that tasks start with.
    pub description: &'static str,
    /// The right that a caller needs.
    pub scope: Scope,
    /// The least profile that may call the tool; `None`: the least that has the scope.
    pub profile: Option<Profile>,
    pub hints: Hints,
    /// Other accepted names of arguments: (other, real).
    pub aliases: &'static [(&'static str, &'static str)],
    /// Makes the schema of the arguments. A function, because a table of constants cannot hold one.
    pub input: fn() -> Map<String, Value>,
    /// The keys of an answer, as `output` reads them.
    pub output: &'static str,
    pub run: Run,
    /// Whether a call may take longer than a client should wait for an answer.
    pub may_be_long: bool,
    /// Closed to callers that work on another task than the one that `task_id` names.
    pub on_task: bool,
    /// The values of the argument `action`, where a refused call is audited under its action.
    pub actions: &'static [&'static str],
}

impl Tool {
    /// A tool that needs the scope of its kind and has no aliases.
    pub const fn new(
        name: &'static str,
        title: &'static str,
        description: &'static str,
        hints: Hints,
        input: fn() -> Map<String, Value>,
        output: &'static str,
        run: Run,
    ) -> Self {
        let scope = if hints.read_only { Scope::TasksRead } else { Scope::TasksWrite };
        let (profile, aliases) = (None, &[] as &[_]);
        let (may_be_long, on_task) = (false, false);
        let actions = &[] as &[_];
        Self {
            name,
            title,
            description,
            scope,
            profile,
            hints,
            aliases,
            input,
            output,
            run,
            may_be_long,
            on_task,
            actions,
        }
    }

    /// The tool with another scope.
    pub const fn within(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The tool for callers with at least this profile.
    pub const fn for_profile(self, profile: Profile) -> Self {
        Self { profile: Some(profile), ..self }
    }

    /// The tool, closed to callers that work on another task.
    pub const fn on_task(self) -> Self {
        Self { on_task: true, ..self }
    }

    /// The tool, marked as one that may take longer than a client should wait.
    pub const fn long(self) -> Self {
        Self { may_be_long: true, ..self }
    }

    /// The tool, audited under the action that the argument `action` names.
    pub const fn with_actions(self, actions: &'static [&'static str]) -> Self {
        Self { actions, ..self }
    }

    /// The action that a call names, read as leniently as arguments are.
    pub fn action_named(&self, arguments: &Value) -> Option<&'static str> {
        let named = fold(arguments.get("action")?.as_str()?);
        self.actions.iter().copied().find(|action| *action == named)
    }

    pub fn judge(&self, principal: &Principal) -> Result<(), Refusal> {
        let needed = self.profile.unwrap_or(self.scope.least_profile());
        principal.rights.judge_from(self.name, self.scope, needed)
    }
}

/// Boxed, because a table holds function pointers of one type.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Value, EngineError>> + Send + 'a>>;
pub type Run = for<'a> fn(Call<'a>) -> Answer<'a>;

/// One call on its way to a handler.
pub struct Call<'a> {
    pub engine: &'a Engine,
    pub op: &'a OpContext,
    /// What the server may tell about itself.
    pub about: &'a About,
    pub tool: &'static Tool,
    pub schema: &'a Map<String, Value>,
    pub arguments: Value,
}

/// The server's description of itself.
#[derive(Clone, Debug)]
pub struct About {
    pub version: &'static str,
    pub toolsets: Vec<&'static str>,
    /// The folder's name, when the server runs in a repository.
    pub repo: Option<String>,
}

impl Call<'_> {
    pub fn read<T: DeserializeOwned>(&mut self) -> Result<T, Refusal> {
        // Taken before `read` consumes the arguments; judged after it, so that malformed input is refused first.
        let named = self.task_named().map(str::to_owned);
        let read = args::read(self.schema, self.tool.aliases, self.arguments.take())?;
        self.keep_to_task(named)?;
        Ok(read)
    }

    /// The task that the arguments name, until the arguments are taken.
    pub fn task_named(&self) -> Option<&str> {
        task_named(&self.arguments)
    }

    /// Refuses a task other than the one that the caller is bound to, for tools with `on_task`.
    fn keep_to_task(&self, named: Option<String>) -> Result<(), Refusal> {
        let bound = self.op.principal.rights.task.filter(|_| self.tool.on_task);
        match (bound, named) {
            (Some(bound), Some(task)) if task != bound.to_string() => {
                Err(Refusal::OutsideTask { task, bound })
            }
            _ => Ok(()),
        }
    }
}

/// The argument `task_id`, which the tools with `on_task` share.
pub(crate) fn task_named(arguments: &Value) -> Option<&str> {
    arguments.get("task_id").and_then(Value::as_str).map(str::trim)
}

/// For tools that take nothing; an argument is refused like any unknown one.
#[derive(serde::Deserialize, JsonSchema)]
pub struct NoArguments {}

/// Makes a table's function pointer out of `async fn handler(call: &Call<'_>, args: T)`.
macro_rules! handler {
    ($function:path) => {
        |mut call| {
            Box::pin(async move {
                let arguments = call.read()?;
                $function(&call, arguments).await
            })
        }
    };
}
pub(crate) use handler;
