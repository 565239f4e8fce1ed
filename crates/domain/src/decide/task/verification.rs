//! Verification: what a completed task is held to, when it is judged, and the effects of a verdict.

use serde_json::json;

use crate::command::Found;
use crate::decide::draft::Draft;
use crate::decide::runs::job;
use crate::decide::task;
use crate::decide::task::check;
use crate::event::EventName;
use crate::forge::{ForgeKind, ForgeRef, ForgeVerdict};
use crate::ids::TaskId;
use crate::needs::verify_key;
use crate::policy::{Phase, Policy};
use crate::refusal::{Refusal, UnmetCheck};
use crate::runs::job::{Job, JobId, JobKind, JobState};
use crate::task::Task;
use crate::task::contract::{
    Verification, VerificationContract, VerificationKind, VerificationStatus,
};
use crate::time::Timestamp;
use crate::world::{Change, World};

pub const BLOCKED_BY_REVIEW: &str = "verification.blocked_by_review";
pub const CHECKS_FAILED: &str = "verification.checks_failed";
pub const MANUAL_CHECK_PENDING: &str = "verification.manual_check_pending";
pub const TIMEOUT: &str = "verification.timeout";

/// The contract a task is held to: its explicit one, else one derived from its checks.
pub fn contract(task: &Task, policy: &Policy) -> VerificationContract {
    task.contract
        .clone()
        .unwrap_or_else(|| VerificationContract::derived(&task.checks, policy.default_verification))
}

/// Why a verification has no verdict of a forge or of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyFault {
    /// Neither the completion nor the contract names a pull request.
    NoReference,
    /// The reference is not one of the contract's forge.
    BadReference,
    /// The forge does not know the pull request, or hides it.
    RequestNotFound,
    /// There is no forge to ask, or no token for it.
    ForgeUnconfigured,
    /// The forge refuses the token or the settings.
    ForgeRefused,
    /// The forge cannot be reached, or asks to be left alone for a while.
    ForgeUnavailable,
    /// A check cannot run on this machine now.
    ChecksUnavailable,
}

impl VerifyFault {
    /// The finding that stands for the fault. A fault that only a person can put right fails the verification; one that
    /// may pass by itself, or on another machine, leaves it pending.
    pub fn found(self) -> Found {
        let failed = |reason: &str| Found::Failed { reason: reason.to_owned() };
        let pending = |reason: &str| Found::Pending { reason: reason.to_owned() };
        match self {
            Self::NoReference => failed("verification.missing_external_ref"),
            Self::BadReference | Self::RequestNotFound => failed("verification.bad_external_ref"),
            Self::ForgeUnconfigured | Self::ForgeRefused => {
                failed("verification.forge_unconfigured")
            }
            Self::ForgeUnavailable => pending("verification.forge_unavailable"),
            Self::ChecksUnavailable => pending("verification.infrastructure"),
        }
    }
}

/// What a verifier does first about a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyStep {
    /// Nothing is asked: this is the finding.
    Found(Found),
    /// The forge is asked about a pull request, then the checks run.
    AskForge {
        kind: ForgeKind,
        request: ForgeRef,
    },
    RunChecks,
}

/// The first step of a verification. Review comments that are open hold up everything else. The reference of the
/// completion counts before the contract's own.
pub fn verify_step(task: &Task, contract: &VerificationContract) -> VerifyStep {
    if task.open_blockers > 0 {
        return VerifyStep::Found(Found::Pending { reason: BLOCKED_BY_REVIEW.to_owned() });
    }
    let Some(kind) = contract.kind.forge() else { return VerifyStep::RunChecks };
    let told = task.verification.as_ref().and_then(|known| known.external_ref.as_ref());
    let Some(reference) = told.or(contract.external_ref.as_ref()) else {
        return VerifyStep::Found(VerifyFault::NoReference.found());
    };
    match ForgeRef::parse(kind, reference) {
        Ok(request) => VerifyStep::AskForge { kind, request },
        Err(_) => VerifyStep::Found(VerifyFault::BadReference.found()),
    }
}

impl From<ForgeVerdict> for Found {
    fn from(verdict: ForgeVerdict) -> Self {
        match verdict {
            ForgeVerdict::Passed => Self::Passed,
            ForgeVerdict::Pending(reason) => Self::Pending { reason: reason.code.to_owned() },
            ForgeVerdict::Failed(reason) => Self::Failed { reason: reason.code.to_owned() },
        }
    }
}

/// Whether a task in review waits for a person. Other tasks in review wait for a verifier, which judges by itself.
pub fn waits_for_person(task: &Task) -> bool {
    task.phase == Phase::Review && review_waits_for_person(task.verification.as_ref())
}

/// As `waits_for_person`, of a task that is known to be in review.
pub fn review_waits_for_person(verification: Option<&Verification>) -> bool {
    let judged = verification.map(|known| (known.status, known.reason.as_deref()));
    match judged {
        Some((VerificationStatus::Pending, reason)) => {
            matches!(reason, Some(BLOCKED_BY_REVIEW | MANUAL_CHECK_PENDING))
        }
        Some((
            VerificationStatus::Skipped
            | VerificationStatus::AwaitingHuman
            | VerificationStatus::Passed
            | VerificationStatus::Failed,
            _,
        ))
        | None => true,
    }
}

/// The contract as one more check, in every toolset, if it is explicit and waits for an approval. A human who
/// closes the task approves it. An approval of other files does not count.
pub(crate) fn unmet(draft: &Draft<'_>, approved: bool, work: Option<&str>) -> Option<UnmetCheck> {
    let contract = draft.task.contract.as_ref().filter(|contract| contract.kind.gates_done())?;
    let known = draft.task.verification.as_ref();
    let passed = known.is_some_and(|known| {
        known.status == VerificationStatus::Passed
            && draft.task.is_as_approved(known.at, known.tree.as_deref(), work)
    });
    let status = known.map(|known| known.status);
    if passed || approved || draft.actor().is_human() {
        return None;
    }
    let result = match status {
        Some(VerificationStatus::Failed) => "fail",
        // A pass that does not count was given for other files.
        Some(VerificationStatus::Passed) => "stale",
        Some(
            VerificationStatus::Pending
            | VerificationStatus::Skipped
            | VerificationStatus::AwaitingHuman,
        )
        | None => "pending",
    };
    Some(UnmetCheck {
        index: None,
        desc: format!("verification {}", contract.kind.as_str()),
        result,
        log: None,
    })
}

/// Passes the contract of a task that a human closed or a reviewer approved, because the contract waited for that.
pub(crate) fn approve(draft: &mut Draft<'_>, approved: bool, work: Option<&str>) {
    let gated = draft.task.contract.as_ref().is_some_and(|contract| contract.kind.gates_done());
    let task = &draft.task;
    let waits = task.verification.as_ref().is_some_and(|known| match known.status {
        VerificationStatus::AwaitingHuman
        | VerificationStatus::Pending
        | VerificationStatus::Failed => true,
        VerificationStatus::Skipped | VerificationStatus::Passed => false,
    });
    if !(approved || draft.actor().is_human()) || !(gated || waits) {
        return;
    }
    let external_ref = draft.task.verification.take().and_then(|known| known.external_ref);
    note(draft, VerificationStatus::Passed, None, external_ref, 0);
    passed_for(draft, work);
    let by = draft.actor().clone();
    draft.event(EventName::VerificationPassed, json!({"approved_by": by}));
}

fn note(
    draft: &mut Draft<'_>,
    status: VerificationStatus,
    reason: Option<String>,
    external_ref: Option<String>,
    pendings: u32,
) {
    let (by, at) = (draft.actor().clone(), draft.now);
    let tree = None;
    draft.task.verification =
        Some(Verification { status, reason, external_ref, pendings, by, at, tree });
}

/// Ties a pass to the files as they were seen.
fn passed_for(draft: &mut Draft<'_>, work: Option<&str>) {
    if let Some(known) = &mut draft.task.verification {
        known.tree = work.map(str::to_owned);
    }
}

/// Starts the verification of a completed task.
pub(crate) fn begin(
    draft: &mut Draft<'_>,
    kind: VerificationKind,
    external_ref: Option<String>,
    id: JobId,
) {
    match kind {
        VerificationKind::None => {
            note(draft, VerificationStatus::Skipped, None, external_ref, 0);
            draft.event(EventName::VerificationSkipped, json!({}));
        }
        VerificationKind::Manual => {
            note(draft, VerificationStatus::AwaitingHuman, None, external_ref, 0);
        }
        VerificationKind::GithubPr | VerificationKind::GitlabMr | VerificationKind::Commands => {
            note(draft, VerificationStatus::Pending, None, external_ref, 0);
            queue(draft, id);
        }
    }
}

/// Queues the one verify job of a task: a job under way is moved up, else a new one is made.
fn queue(draft: &mut Draft<'_>, id: JobId) {
    let id = match &mut draft.job {
        Some(job) => {
            job.state = JobState::Queued { due_at: draft.now };
            job.id
        }
        None => {
            let (task, now) = (draft.task.id, draft.now);
            let job = Job::queued(id, JobKind::Verify, verify_key(task), Some(task), now);
            draft.insert_job(job, None);
            id
        }
    };
    draft.event(EventName::VerificationQueued, json!({"job": id.to_string()}));
}

/// Makes a pending verification due now, because the thing it waited for (`reason`) has happened.
pub(crate) fn nudge(draft: &mut Draft<'_>, reason: &str) {
    let waits = draft.task.verification.as_ref().is_some_and(|known| {
        known.status == VerificationStatus::Pending && known.reason.as_deref() == Some(reason)
    });
    if let Some(job) = draft.job.as_mut().filter(|_| waits) {
        job.state = JobState::Queued { due_at: draft.now };
    }
}

pub(crate) fn verification_queue(
    world: &World<'_>,
    task: TaskId,
    id: JobId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, task, now)?;
    let kind = contract(&draft.task, world.policy).kind;
    let judged = match kind {
        VerificationKind::GithubPr | VerificationKind::GitlabMr | VerificationKind::Commands => {
            true
        }
        VerificationKind::None | VerificationKind::Manual => false,
    };
    if !judged || draft.task.phase != Phase::Review {
        let (kind, label) = (kind.as_str(), &draft.task.label);
        return Err(Refusal::invalid(format!(
            "task {task} has nothing to verify: its verification is {kind}, its status {label}"
        )));
    }
    let external_ref = draft.task.verification.take().and_then(|known| known.external_ref);
    note(&mut draft, VerificationStatus::Pending, None, external_ref, 0);
    queue(&mut draft, id);
    draft.entry("verification queued", None);
    Ok(draft.done())
}

pub(crate) fn verification_judge(
    world: &World<'_>,
    id: JobId,
    tries: u32,
    found: &Found,
    (checked, work): task::Seen<'_>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let current = job::own(world, id, tries, now)?;
    let Some(of) = current.task.filter(|_| world.subject.is_some()) else {
        return Ok(job::over(world, current, now));
    };
    let mut draft = Draft::of_task(world, of, now)?;
    if draft.task.phase != Phase::Review {
        // The task was closed or reopened meanwhile.
        return Ok(job::over(world, current, now));
    }
    if let Some(checked) = checked.filter(|checked| check::same_checks(&draft.task, &checked.basis))
    {
        check::record(&mut draft, checked);
    }
    let tree = checked.and_then(|checked| checked.tree.as_deref());
    let found = judge(&draft, found, tree, work);
    let external_ref = draft.task.verification.as_ref().and_then(|v| v.external_ref.clone());
    let pendings = draft.task.verification.as_ref().map_or(0, |known| known.pendings) + 1;
    let policy = world.policy;
    let done = JobState::Done { at: now };
    let (state, did, text) = match found {
        Found::Passed => {
            note(&mut draft, VerificationStatus::Passed, None, external_ref, 0);
            passed_for(&mut draft, work);
            draft.event(EventName::VerificationPassed, json!({}));
            if let Some(label) = policy.first_of(Phase::ClosedDone).cloned() {
                draft.move_to(&label);
            }
            (done, "verified", None)
        }
        Found::Pending { .. } if pendings >= policy.verify_pendings_max => {
            let reason = Some(TIMEOUT.to_owned());
            note(&mut draft, VerificationStatus::Failed, reason.clone(), external_ref, pendings);
            draft.event(EventName::VerificationFailed, json!({"reason": TIMEOUT}));
            (done, "verification failed", reason)
        }
        Found::Pending { reason } => {
            let shown = Some(reason.clone());
            note(&mut draft, VerificationStatus::Pending, shown.clone(), external_ref, pendings);
            let after_s = backoff_s(policy, pendings);
            let data = json!({"reason": reason, "again_in_s": after_s});
            draft.event(EventName::VerificationPending, data);
            (JobState::Queued { due_at: now.plus_s(after_s) }, "verification pending", shown)
        }
        Found::Failed { reason } => {
            let shown = Some(reason.clone());
            note(&mut draft, VerificationStatus::Failed, shown.clone(), external_ref, 0);
            draft.event(EventName::VerificationFailed, json!({"reason": reason}));
            (done, "verification failed", shown)
        }
    };
    draft.job = Some(Job { state, ..current.clone() });
    draft.entry(did, text);
    Ok(draft.done())
}

/// Judges an outside finding together with the task's own blockers and checks.
fn judge(draft: &Draft<'_>, found: &Found, tree: Option<&str>, work: Option<&str>) -> Found {
    let pending = |reason: &str| Found::Pending { reason: reason.to_owned() };
    if draft.task.open_blockers > 0 {
        return pending(BLOCKED_BY_REVIEW);
    }
    if *found != Found::Passed {
        return found.clone();
    }
    let commands = check::unmet(&draft.task, |c| !c.is_command() || c.passes_for(tree, work));
    let manual = check::unmet(&draft.task, |c| c.is_command() || c.passes_for(tree, work));
    if !commands.is_empty() {
        Found::Failed { reason: CHECKS_FAILED.to_owned() }
    } else if !manual.is_empty() {
        pending(MANUAL_CHECK_PENDING)
    } else {
        Found::Passed
    }
}

/// Exponential backoff: the delay doubles each time, up to the maximum.
fn backoff_s(policy: &Policy, pendings: u32) -> u32 {
    let doublings = pendings.saturating_sub(1).min(20);
    let delay = u64::from(policy.verify_backoff_s) << doublings;
    delay.min(u64::from(policy.verify_backoff_max_s)) as u32
}
