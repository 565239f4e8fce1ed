//! Arguments and handlers. A handler reads, calls one engine verb and renders.

use callboard_domain::refusal::Refusal;
use callboard_domain::relay::Problem;
use callboard_domain::runs::job::JobId;
use callboard_domain::runs::run::ArtifactName;
use callboard_engine::{ArtifactText, EngineError, RunFilter};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::words::StateWord;
use super::{read, view};
use crate::tool::{Call, Run};

type Reply = Result<Value, EngineError>;

/// Jobs on a page without `limit`.
const LIST_DEFAULT: u32 = 20;

/// The id in a text; text that is no id names no job.
pub(super) fn job_id(text: &str) -> Result<JobId, Refusal> {
    text.trim().parse().map_err(|_| Refusal::JobNotFound { job: text.into() })
}

/// Reads its argument itself: the spec has rules of its own, which report every problem.
pub(super) const JOBS_SUBMIT: Run = |mut call| {
    Box::pin(async move {
        let arguments = call.arguments.take();
        jobs_submit(&call, arguments).await
    })
};

async fn jobs_submit(call: &Call<'_>, arguments: Value) -> Reply {
    let given = spec_of(arguments)?;
    let spec = read::job_spec(&given, call.engine.spec_rules(call.op)?);
    let spec = spec.map_err(|problems| Refusal::InvalidSpec { problems })?;
    let submitted = call.engine.run_submit(call.op, spec).await?;
    Ok(view::submitted(&submitted))
}

/// The spec among the arguments. A spec that was sent without its name is a common mistake, so the refusal suggests the
/// name.
fn spec_of(arguments: Value) -> Result<Value, Refusal> {
    let wrong = |path: &str, problem: &str| Refusal::InvalidSpec {
        problems: vec![Problem { path: path.into(), problem: problem.into() }],
    };
    let Value::Object(mut arguments) = arguments else {
        return Err(wrong("spec", "is required"));
    };
    let spec = arguments.shift_remove("spec").filter(|spec| !spec.is_null());
    // A spec without its name has `repo` or `task` here.
    if let Some(other) = arguments.keys().next() {
        let other: String = other.chars().take(60).collect();
        return Err(wrong(&other, "is not known; did you mean 'spec'?"));
    }
    spec.ok_or_else(|| wrong("spec", "is required"))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobArgument {
    job_id: String,
}

/// A job, with its patch if the patch is small: not every client reads resources.
pub(super) async fn jobs_get(call: &Call<'_>, args: JobArgument) -> Reply {
    let id = job_id(&args.job_id)?;
    let seen = call.engine.run_get(call.op, id).await?;
    let mut answer = view::job(&seen);
    if view::has_small_patch(&seen) {
        match call.engine.run_artifact(call.op, id, ArtifactName::Patch).await {
            Ok(ArtifactText::Text(text)) => answer["patch"] = text.into(),
            Ok(ArtifactText::Missing(_)) => {}
            // The job itself is still there.
            Err(EngineError::Refused(gone @ Refusal::RemovedByRetention { .. })) => {
                answer["patchNote"] = gone.message().into();
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(note) = view::patch_note(&seen) {
        answer["patchNote"] = note.into();
    }
    Ok(answer)
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct JobsListRequest {
    state: Option<StateWord>,
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    #[schemars(range(min = 0))]
    offset: Option<u32>,
}

pub(super) async fn jobs_list(call: &Call<'_>, args: JobsListRequest) -> Reply {
    let offset = args.offset.unwrap_or(0) as usize;
    let filter = RunFilter {
        state: args.state.map(StateWord::core),
        limit: args.limit.unwrap_or(LIST_DEFAULT) as usize,
        offset,
    };
    let page = call.engine.run_list(call.op, filter).await?;
    Ok(view::page(&page, offset))
}

/// Cancels a job. A job that is over is not a fault; the answer says so in its code.
pub(super) async fn jobs_cancel(call: &Call<'_>, args: JobArgument) -> Reply {
    let (record, ok) = call.engine.run_cancel(call.op, job_id(&args.job_id)?).await?;
    let state = StateWord::of(&record.job.state).word();
    if ok {
        return Ok(json!({"ok": true, "state": state}));
    }
    Ok(json!({"ok": false, "state": state, "code": "ALREADY_TERMINAL"}))
}
