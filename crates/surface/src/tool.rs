//! A tool as a row of a table: what it is called, what it takes, which function answers.

use std::future::Future;
use std::pin::Pin;

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

/// One vocabulary over the core.
pub struct Toolset {
    pub name: &'static str,
    /// In the order of the document it implements.
    pub tools: &'static [Tool],
    pub voice: Voice,
}

pub struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub scope: Scope,
    /// The least a caller needs to be trusted with; `None` where profiles mean nothing.
    pub profile: Option<Profile>,
    pub hints: Hints,
    /// Other argument names that are accepted: (other, real).
    pub aliases: &'static [(&'static str, &'static str)],
    pub input: fn() -> Map<String, Value>,
    /// Top-level keys that are always in a reply.
    pub output: &'static [&'static str],
    pub run: Run,
    /// It may take longer than a client should wait for an answer.
    pub may_be_long: bool,
}

impl Tool {
    /// One that needs the scope of its kind and knows no other names for its arguments.
    pub const fn new(
        name: &'static str,
        title: &'static str,
        description: &'static str,
        hints: Hints,
        input: fn() -> Map<String, Value>,
        output: &'static [&'static str],
        run: Run,
    ) -> Self {
        let scope = if hints.read_only { Scope::TasksRead } else { Scope::TasksWrite };
        let (profile, aliases, may_be_long) = (None, &[] as &[_], false);
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
        }
    }

    /// The same for another scope.
    pub const fn within(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same for callers with at least this profile.
    pub const fn for_profile(self, profile: Profile) -> Self {
        Self { profile: Some(profile), ..self }
    }

    pub fn judge(&self, principal: &Principal) -> Result<(), Refusal> {
        principal.judge(self.name, self.scope)?;
        let held = principal.rights.profile();
        match self.profile.filter(|needed| held < *needed) {
            Some(needed) => Err(Refusal::ProfileDenied { verb: self.name.into(), needed, held }),
            None => Ok(()),
        }
    }
}

pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Value, EngineError>> + Send + 'a>>;
pub type Run = for<'a> fn(Call<'a>) -> Answer<'a>;

/// One call on its way to a handler.
pub struct Call<'a> {
    pub engine: &'a Engine,
    pub op: &'a OpContext,
    pub about: &'a About,
    pub tool: &'static Tool,
    pub schema: &'a Map<String, Value>,
    pub arguments: Value,
}

/// What a server says of itself.
#[derive(Clone, Debug)]
pub struct About {
    pub version: &'static str,
    pub toolsets: Vec<&'static str>,
    /// The folder's name, when the server stands in a repository.
    pub repo: Option<String>,
}

impl Call<'_> {
    pub fn read<T: DeserializeOwned>(&mut self) -> Result<T, Refusal> {
        args::read(self.schema, self.tool.aliases, self.arguments.take())
    }
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
