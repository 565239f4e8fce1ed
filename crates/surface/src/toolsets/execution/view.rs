//! Result shapes of the execution toolset.

use callboard_domain::decide::verification;
use callboard_domain::policy::Policy;
use callboard_domain::task::contract::{VerificationContract, VerificationKind};
use callboard_domain::task::standing::Standing;
use callboard_domain::task::{Check, Entry, TaskRecord, VerdictSource};
use callboard_domain::time::Timestamp;
use callboard_engine::store::knowledge::KnowledgeHit;
use callboard_engine::{At, Digest, Leased, Repository};
use serde_json::{Map, Value, json};

use super::words;
use crate::page::cut;
use callboard_engine::time::rfc3339_ms;

/// A longer contract is only named in a list.
const CONTRACT_BYTES_SHOWN: usize = 2048;

/// The word for a task's state at `now`, by its newest attempt.
pub(super) fn state(record: &TaskRecord, now: Timestamp) -> &'static str {
    words::state(Standing::of(&record.task, record.newest.as_ref(), now))
}

/// A task to choose from, with what other tasks learned. Long texts are cut: an agent reads several of these at once.
pub(super) fn actionable(
    record: &TaskRecord,
    repo: Option<&Repository>,
    digest: &Digest,
    policy: &Policy,
    now: Timestamp,
) -> Value {
    let task = &record.task;
    let contract = execution_contract(record);
    // The claim has the whole contract.
    let long = contract.to_string().len() > CONTRACT_BYTES_SHOWN;
    json!({
        "taskId": task.id,
        "number": task.number,
        "planId": task.parent,
        "title": task.title,
        "description": cut(&record.body),
        "state": state(record, now),
        "priority": task.priority,
        "createdAt": rfc3339_ms(task.created_at),
        "executionContract": if long { json!({"truncated": true}) } else { contract },
        "verificationContract": verification_contract(&verification::contract(task, policy)),
        "repository": repo.map(repository),
        "knowledge": {
            "references": digest.references.iter().map(reference).collect::<Vec<_>>(),
            "degraded": digest.degraded,
        },
    })
}

/// The answer to a claim: everything that the work needs, whole. `reclaimed` says that the caller had the task already.
pub(super) fn lease(leased: &Leased, repo: Option<&Repository>, policy: &Policy) -> Value {
    let At { it: record, now } = &leased.seen;
    let attempt = record.newest.as_ref();
    let lease = attempt.and_then(|attempt| attempt.lease());
    json!({
        "taskId": record.task.id,
        "number": record.task.number,
        "state": state(record, *now),
        "holder": attempt.map(|attempt| attempt.actor.clone()),
        "attemptId": attempt.map(|attempt| attempt.id),
        "fence": record.task.fence,
        "leaseSec": lease.map(|lease| lease.granted_s),
        "leaseExpiresAt": lease.map(|lease| rfc3339_ms(lease.expires_at)),
        "reclaimed": !leased.changed,
        "title": record.task.title,
        "description": record.body,
        "executionContract": execution_contract(record),
        "verificationContract":
            verification_contract(&verification::contract(&record.task, policy)),
        "verificationFailure": failure(record),
        "repository": repo.map(repository),
    })
}

/// A single task.
pub(super) fn task(seen: &At<TaskRecord>, policy: &Policy) -> Value {
    let At { it: record, now } = seen;
    let task = &record.task;
    let live = record.newest.as_ref().filter(|attempt| attempt.is_live(*now));
    let lease = live.and_then(|attempt| attempt.lease());
    let deps: Vec<_> = record.deps.iter().filter(|dep| !dep.removed).map(|dep| dep.id).collect();
    let check = |check: &Check| json!({"desc": cut(&check.desc), "result": check.result()});
    json!({
        "taskId": task.id,
        "state": state(record, *now),
        "title": task.title,
        "description": record.body,
        "planId": task.parent,
        "priority": task.priority,
        "dependsOn": deps,
        "holder": live.map(|attempt| attempt.actor.clone()),
        "fence": task.fence,
        "leaseExpiresAt": lease.map(|lease| rfc3339_ms(lease.expires_at)),
        "executionContract": execution_contract(record),
        "verificationContract": verification_contract(&verification::contract(task, policy)),
        "checks": task.checks.iter().map(check).collect::<Vec<_>>(),
        "verificationStatus": task.verification.as_ref().map(|known| known.status.as_str()),
        "verificationFailure": failure(record),
    })
}

/// Why the last verification failed, until another passes. The history has the reason even after the task was reopened.
fn failure(record: &TaskRecord) -> Value {
    let judged = |entry: &&Entry| matches!(entry.did.as_str(), FAILED | "verified");
    // The newest judgement counts: a verification that passed later takes the failure back.
    let Some(last) = record.entries.iter().rfind(judged).filter(|last| last.did == FAILED) else {
        return Value::Null;
    };
    let checks =
        record.task.checks.iter().enumerate().filter(|(_, check)| check.result() == "fail");
    let failed = |(index, check): (usize, &Check)| {
        let log = match check.verdict.as_ref().map(|verdict| &verdict.source) {
            Some(VerdictSource::Run { log, .. }) => Some(log.as_str()),
            Some(VerdictSource::Attested { .. }) | None => None,
        };
        json!({"index": index, "desc": cut(&check.desc), "log": log})
    };
    json!({
        "reason": last.text,
        "at": rfc3339_ms(last.at),
        "checks": checks.map(failed).collect::<Vec<_>>(),
    })
}

/// The history's word for a failed verification.
const FAILED: &str = "verification failed";

/// The answer to a change of state, with the state before it.
pub(super) fn update(leased: &Leased) -> Value {
    let At { it: record, now } = &leased.seen;
    let live = record.newest.as_ref().filter(|attempt| attempt.is_live(*now));
    let lease = live.and_then(|attempt| attempt.lease());
    json!({
        "taskId": record.task.id,
        "state": state(record, *now),
        "previousState": leased.before.map(words::state),
        "holder": live.map(|attempt| attempt.actor.clone()),
        "fence": record.task.fence,
        "leaseExpiresAt": lease.map(|lease| rfc3339_ms(lease.expires_at)),
        "updatedAt": rfc3339_ms(record.task.updated_at),
    })
}

/// The answer to a completion. The task is done only when its verification has passed.
pub(super) fn completion(leased: &Leased, policy: &Policy) -> Value {
    let At { it: record, now } = &leased.seen;
    let kind = verification::contract(&record.task, policy).kind;
    let known = record.task.verification.as_ref();
    json!({
        "taskId": record.task.id,
        "state": state(record, *now),
        "verificationKind": kind,
        "verificationStatus": known.map(|known| known.status.as_str()),
        "verificationEtaSec": eta_s(kind),
        "verificationFailure": failure(record),
        "verificationJobId": leased.job.map(|job| job.to_string()),
        "knowledgeIds": leased.knowledge,
        "completedAt": rfc3339_ms(*now),
    })
}

/// An estimate of the verification's duration, never a promise.
fn eta_s(kind: VerificationKind) -> Option<u32> {
    match kind {
        VerificationKind::None => Some(0),
        VerificationKind::Manual => None,
        VerificationKind::GithubPr | VerificationKind::GitlabMr => Some(60),
        VerificationKind::Commands => Some(30),
    }
}

/// The contract as the object that it was given as; a task without one has an empty object.
fn execution_contract(record: &TaskRecord) -> Value {
    let text = record.execution_contract.as_deref();
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| json!({}))
}

/// The contract without empty parts.
fn verification_contract(contract: &VerificationContract) -> Value {
    let mut view = Map::new();
    view.insert("kind".into(), json!(contract.kind));
    if let Some(reference) = &contract.external_ref {
        view.insert("externalRef".into(), json!(reference));
    }
    if !contract.required_checks.is_empty() {
        view.insert("requiredChecks".into(), json!(contract.required_checks));
    }
    if let Some(branch) = &contract.branch {
        view.insert("branch".into(), json!(branch));
    }
    if !contract.files.is_empty() {
        view.insert("files".into(), json!(contract.files));
    }
    view.into()
}

/// The repository of a task's project, as far as an agent needs it to clone.
fn repository(repo: &Repository) -> Value {
    json!({
        "repoId": repo.shown_id(),
        "name": repo.name,
        "url": repo.origin.url,
        "defaultBranch": repo.origin.default_branch,
    })
}

/// An entry of knowledge in short.
fn reference(hit: &KnowledgeHit) -> Value {
    json!({
        "id": hit.entry.id,
        "title": hit.entry.title,
        "snippet": hit.snippet,
        "score": score(hit),
        "tags": hit.entry.tags,
    })
}

/// A hit of a search, which has more keys than a reference in a task.
pub(super) fn hit(hit: &KnowledgeHit) -> Value {
    let entry = &hit.entry;
    let mut view = reference(hit);
    view["confidence"] = entry.confidence.into();
    view["source"] = entry.source.as_str().into();
    view["sourceTaskId"] = json!(entry.source_task);
    view["createdAt"] = rfc3339_ms(entry.created_at).into();
    view
}

/// Three digits after the point: more would suggest a precision that a ranking does not have.
fn score(hit: &KnowledgeHit) -> f64 {
    (hit.score * 1000.0).round() / 1000.0
}
