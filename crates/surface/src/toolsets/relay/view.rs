//! The answers of this toolset. Times are Unix milliseconds; absent values are left out.

use callboard_domain::relay::ending::{Ending, artifact_uris};
use callboard_domain::runs::job::{JobId, JobState};
use callboard_domain::runs::run::{ArtifactName, PullRequest, RunRecord};
use callboard_domain::time::Timestamp;
use callboard_engine::store::{RunPage, RunSeen};
use callboard_engine::{RunEvent, Submitted};
use serde_json::{Value, json};

use super::words::StateWord;

pub(super) use callboard_domain::relay::ending::artifact_uri;

/// Milliseconds from the core's microseconds.
fn ms(at: Timestamp) -> i64 {
    at.0 / 1000
}

/// The address of a job's status, which a client can watch.
pub(super) fn status_uri(job: JobId) -> String {
    format!("mcp://jobs/{job}/status")
}

/// The answer to a submit. Under a known key it is about the first job, with a note where the caller may have meant
/// another.
pub(super) fn submitted(submitted: &Submitted) -> Value {
    let RunRecord { job, .. } = &submitted.record;
    let state = StateWord::of(&job.state);
    let mut answer = json!({
        "jobId": job.id.to_string(),
        "state": state.word(),
        "deduplicated": submitted.deduplicated,
        "statusUri": status_uri(job.id),
    });
    if !submitted.deduplicated {
        return answer;
    }
    if !submitted.differs_in.is_empty() {
        answer["specMatches"] = false.into();
        answer["note"] = format!(
            "This key belongs to a job whose spec differs in {}; this answer is about that job, nothing was \
             queued. Use another idempotencyKey for another job.",
            submitted.differs_in.join(", ")
        )
        .into();
    } else if matches!(state, StateWord::Failed | StateWord::Canceled | StateWord::Expired) {
        answer["note"] = format!(
            "This key belongs to a job that is {}; nothing was queued. Use another idempotencyKey to \
             run it again.",
            state.word()
        )
        .into();
    }
    answer
}

/// The largest patch that the answer of `jobs_get` contains.
const PATCH_BYTES_MAX: u64 = 8 * 1024;

/// Whether `jobs_get` carries the patch of a job, for clients that read no resources.
pub(super) fn has_small_patch(seen: &RunSeen) -> bool {
    let patch = seen.record.run.artifact(ArtifactName::Patch);
    patch.is_some_and(|patch| patch.size <= PATCH_BYTES_MAX)
}

/// Why a patch is not in the answer of `jobs_get`, and where it is.
pub(super) fn patch_note(seen: &RunSeen) -> Option<String> {
    let patch = seen.record.run.artifact(ArtifactName::Patch)?;
    let uri = artifact_uri(seen.record.job.id, ArtifactName::Patch.as_str());
    let size = patch.size;
    let note = format!("The patch has {size} bytes, more than {PATCH_BYTES_MAX}: read {uri}");
    (size > PATCH_BYTES_MAX).then_some(note)
}

/// A job, as in `jobs_get` and in lists.
pub(super) fn job(seen: &RunSeen) -> Value {
    let RunRecord { job, run } = &seen.record;
    let mut view = json!({
        "id": job.id.to_string(),
        "state": StateWord::of(&job.state).word(),
        "summary": run.summary,
        "lastUpdate": ms(run.changed_at),
        "attempt": run.attempt,
    });
    if let Some(pr) = &run.pr {
        view["pr"] = pull_request(pr);
    }
    if let JobState::Failed { reason, .. } = &job.state {
        view["reasonCode"] = reason.as_str().into();
    }
    view["artifacts"] = what_exists(&seen.record);
    if let Some(position) = seen.position {
        view["queuePosition"] = position.into();
    }
    view["taskId"] = job.task.map(|task| task.to_string()).into();
    // The number of the newest event of the job: a client compares it with that of a notice.
    view["stateVersion"] = seen.version.into();
    view
}

/// The result of an ended job, as its submit would have answered had it waited.
pub(super) fn result(seen: &RunSeen) -> Value {
    let RunRecord { job, run } = &seen.record;
    let state = StateWord::of(&job.state).word();
    let mut view = json!({"jobId": job.id.to_string(), "state": state, "summary": run.summary});
    match &job.state {
        JobState::Failed { reason, .. } => {
            // As `isError`, a result needs a `code`, as every refusal has one.
            view["code"] = reason.as_str().into();
            view["reasonCode"] = reason.as_str().into();
        }
        JobState::Expired { .. } => view["code"] = state.into(),
        JobState::Queued { .. }
        | JobState::Running { .. }
        | JobState::Stale { .. }
        | JobState::Done { .. }
        | JobState::Canceled { .. } => {}
    }
    view["artifacts"] = what_exists(&seen.record);
    view
}

/// The addresses of the artifacts that a job has so far.
fn what_exists(RunRecord { job, run }: &RunRecord) -> Value {
    artifact_uris(job.id, run.artifact_names().map(ArtifactName::as_str))
}

/// The pull request of a job; its status is that of the last look at the forge.
fn pull_request(pr: &PullRequest) -> Value {
    json!({"url": pr.url, "number": pr.number, "status": pr.status})
}

/// A page of jobs. An empty page is the last one, whatever the total says: jobs may have gone meanwhile.
pub(super) fn page(page: &RunPage, offset: usize) -> Value {
    let items: Vec<Value> = page.runs.iter().map(job).collect();
    let has_more = ((offset + items.len()) as u64) < page.total && !items.is_empty();
    json!({"items": items, "total": page.total, "hasMore": has_more})
}

/// The status resource: state, version and times.
pub(super) fn status(seen: &RunSeen) -> Value {
    let record = &seen.record;
    let RunRecord { job, run } = record;
    let mut view = json!({
        "state": StateWord::of(&job.state).word(),
        "stateVersion": seen.version,
        "createdAt": ms(job.created_at),
    });
    let finished = record.finished_at();
    if let Some(started) = run.started_at {
        view["startedAt"] = ms(started).into();
    }
    if let Some(finished) = finished {
        view["finishedAt"] = ms(finished).into();
    }
    if let (Some(started), Some(finished)) = (run.started_at, finished) {
        view["durationMs"] = (ms(finished) - ms(started)).into();
    }
    view["attempt"] = run.attempt.into();
    if let JobState::Failed { reason, .. } = &job.state {
        view["reasonCode"] = reason.as_str().into();
    }
    if let Some(pr) = &run.pr {
        view["pr"] = pull_request(pr);
    }
    view
}

/// The notification at the end of a job: the method and its parameters.
pub(super) fn ended(event: &RunEvent) -> Option<(&'static str, Value)> {
    let ending = Ending::of(event.job, event.name, &event.data, Some(event.seq))?;
    let method = match ending.finished {
        true => "notifications/job/finished",
        false => "notifications/job/failed",
    };
    Some((method, ending.data))
}
