//! The part that all answers of this toolset share: success, message, code and next step. Only this file turns a
//! refusal into such an answer.

use callboard_domain::refusal::Refusal;
use callboard_domain::rights::Profile;
use callboard_engine::EngineError;
use serde_json::{Map, Value, json};

use super::words;
use crate::error::{GIT_FAILED, GIT_FAILED_HINT};
use crate::output;
use crate::tool::Call;

pub(super) type Reply = Result<Value, EngineError>;

/// Makes a table's function pointer out of `async fn handler(call: &Call<'_>, args: T)` whose refusals are answers.
macro_rules! answered {
    ($function:path) => {
        |mut call| {
            Box::pin(async move {
                let task = call.task_named().map(str::to_owned);
                let arguments = call.read()?;
                let answer = $function(&call, arguments).await;
                $crate::toolsets::board::envelope::or_refused(&call, task, answer)
            })
        }
    };
}
pub(super) use answered;

/// The last keys of every answer with the envelope.
const KEYS: [&str; 6] = ["success", "message", "code", "hint", "next_tool", "next_arguments"];

/// The last part of an answer.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    success: bool,
    message: String,
    code: Option<&'static str>,
    hint: Option<String>,
    next: Option<NextCall>,
}

/// The next call after an answer.
#[derive(Clone, Debug)]
pub(super) struct NextCall {
    pub tool: &'static str,
    pub arguments: Value,
}

impl NextCall {
    pub fn new(tool: &'static str, arguments: Value) -> Self {
        Self { tool, arguments }
    }

    /// Who may make this call, when the caller may not.
    fn out_of_reach(&self, call: &Call<'_>) -> Option<String> {
        let tool = super::TOOLS.iter().find(|tool| tool.name == self.tool)?;
        // A missing profile is named as such; any other refusal has its own sentence.
        let held = call.op.principal.rights.profile();
        let needed = tool.profile.unwrap_or(Profile::Viewer);
        if held < needed {
            return Some(format!("{} needs profile {}", self.tool, needed.as_str()));
        }
        tool.judge(&call.op.principal).err().map(|refusal| refusal.message())
    }
}

impl Envelope {
    pub fn yes(message: impl Into<String>) -> Self {
        let (code, hint, next) = (None, None, None);
        Self { success: true, message: message.into(), code, hint, next }
    }

    pub fn no(code: &'static str, message: impl Into<String>) -> Self {
        Self { success: false, ..Self::yes(message) }.code(code)
    }

    pub fn code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub fn next(self, next: NextCall) -> Self {
        Self { next: Some(next), ..self }
    }

    /// The answer: the tool's own fields, then the envelope. A tool that the caller may not call is no next step; the
    /// hint then says who may call it.
    pub fn answer(mut self, call: &Call<'_>, fields: Value) -> Value {
        if let Some(who) = self.next.as_ref().and_then(|next| next.out_of_reach(call)) {
            self.next = None;
            self.hint = Some(match self.hint {
                Some(hint) => format!("{hint}; {who}"),
                None => who,
            });
        }
        // A next call to a tool that this toolset does not have would only fail.
        let known = |next: &NextCall| super::TOOLS.iter().any(|tool| tool.name == next.tool);
        let next = self.next.filter(known);
        let (tool, arguments) = next.map(|next| (next.tool, next.arguments)).unzip();
        let mut answer = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        answer.insert("success".into(), self.success.into());
        answer.insert("message".into(), self.message.into());
        answer.insert("code".into(), self.code.into());
        answer.insert("hint".into(), self.hint.into());
        answer.insert("next_tool".into(), tool.into());
        answer.insert("next_arguments".into(), json!(arguments));
        answer.into()
    }
}

/// Turns a refusal into an answer. `task` is the task that the arguments named.
pub(super) fn or_refused(call: &Call<'_>, task: Option<String>, answer: Reply) -> Reply {
    match answer {
        // Faults of the call itself stay errors with `isError`; all else is an answer, as the reference has it.
        Err(EngineError::Refused(refusal)) if !words::is_call_error(&refusal) => {
            Ok(refused(call, task.as_deref(), &refusal))
        }
        Err(EngineError::Git(words)) => Ok(git_failed(call, task.as_deref(), &words)),
        answer => answer,
    }
}

fn refused(call: &Call<'_>, task: Option<&str>, refusal: &Refusal) -> Value {
    let tool = call.tool.name;
    let said = words::say(tool, refusal);
    let mut envelope = Envelope::no(said.code, said.message);
    envelope.hint = said.hint;
    envelope.next = words::next_after(tool, refusal, task);
    envelope.answer(call, blank(call, task, refusal))
}

fn git_failed(call: &Call<'_>, task: Option<&str>, words: &str) -> Value {
    let no = match call.tool.name {
        "tasks_delete" => Envelope::no("DELETE_FAILED", format!("Not deleted: {words}")),
        _ => Envelope::no(GIT_FAILED, words),
    };
    no.hint(GIT_FAILED_HINT).answer(call, fields(call, task))
}

/// The fields of a refused call.
fn blank(call: &Call<'_>, task: Option<&str>, refusal: &Refusal) -> Value {
    let mut fields = fields(call, task);
    // Each of these refusals says which mode the task has.
    let mode = match refusal {
        Refusal::NotPair { .. } => Some(words::TaskType::Auto),
        Refusal::NotAuto { .. } => Some(words::TaskType::Pair),
        _ => None,
    };
    if let Some(mode) = mode {
        fields["current_task_type"] = mode.word().into();
    }
    if let Refusal::ChecksNotPassed { checks, .. } = refusal {
        let checks = checks
            .iter()
            .map(|check| json!({"index": check.index, "desc": check.desc, "result": check.result}));
        fields["checks"] = checks.collect();
    }
    fields
}

/// The fields that every answer of the tool has, with the values that are known without its work.
pub(super) fn fields(call: &Call<'_>, task: Option<&str>) -> Value {
    let mut fields = Map::new();
    let keys = output::keys(call.tool.output);
    let is_job = keys.iter().any(|key| key.name == "job_id");
    for key in keys.iter().filter(|key| !key.optional && !KEYS.contains(&key.name)) {
        let value = match key.name {
            "task_id" => task.into(),
            // `status` is that of the answer, "error" in the reference; the status of a job has words of its own.
            "status" if is_job => Value::Null,
            "status" => "error".into(),
            "checks" | "conflict_files" => json!([]),
            _ => Value::Null,
        };
        fields.insert(key.name.into(), value);
    }
    fields.into()
}

/// The code of an answer that refuses.
pub(super) fn said_no(answer: &Value) -> Option<&str> {
    let code = answer["code"].as_str();
    match (answer["success"].as_bool(), answer["changed"].as_bool()) {
        (Some(false), _) => code,
        // The one tool without an envelope that refuses in its answer.
        (None, Some(false)) => code.filter(|code| *code != words::WAIT_TIMEOUT),
        _ => None,
    }
}
