//! Every expected "no", as data: a code, a message, a way out.
//!
//! The codes are the graph toolset's, which the CLI and the web board speak too; other toolsets
//! translate the variant. `docs/refusals.md` is printed from `Refusal::examples`.

use serde_json::{Value, json};

use crate::actor::Actor;
use crate::attempt::{AttemptKind, Health};
use crate::comment::CommentId;
use crate::ids::{AttemptId, TaskId};
use crate::job::JobId;
use crate::limits::BLOCKERS_MAX;
use crate::relay::Problem;
use crate::rights::Profile;
use crate::run::OpenRuns;
use crate::standing::Standing;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    InvalidInput {
        message: String,
    },
    TaskNotFound {
        task: String,
    },
    SessionNotFound {
        session: String,
    },
    DanglingDependency {
        task: String,
    },
    UnknownState {
        given: String,
        known: Vec<String>,
    },
    DependencyCycle {
        path: Vec<TaskId>,
    },
    DepsNotClosed {
        task: TaskId,
        open: Vec<(TaskId, String)>,
    },
    ChecksNotPassed {
        task: TaskId,
        checks: Vec<UnmetCheck>,
    },
    AlreadyClaimed {
        task: TaskId,
        holder: Actor,
        hold: Hold,
    },
    /// Only the holder may do this.
    NotHolder {
        task: TaskId,
        actor: Actor,
        holder: Option<Actor>,
    },
    StaleFence {
        task: TaskId,
        given: u64,
        current: u64,
    },
    /// Nobody holds it, and still it cannot be taken.
    NotActionable {
        task: TaskId,
        why: Unactionable,
    },
    /// Deps can be added only before work starts.
    AlreadyStarted {
        task: TaskId,
        label: String,
        at: Standing,
    },
    /// Deps can be removed only while the task is open.
    AlreadyOver {
        task: TaskId,
        label: String,
        at: Standing,
    },
    /// `to` is the caller's word for where it wanted to go.
    IllegalMove {
        task: TaskId,
        from: Standing,
        to: &'static str,
        completed_by_caller: bool,
    },
    BlockersMax {
        task: TaskId,
        actor: Actor,
    },
    CommentNotFound {
        comment: String,
    },
    NotCommentAuthor {
        comment: CommentId,
        author: Actor,
    },
    QuotaExceeded(Quota),
    /// Another runner has the job, or it is over.
    JobLost {
        job: JobId,
    },
    JobNotFound {
        job: String,
    },
    /// Everything that is wrong with what a job asks for.
    InvalidSpec {
        problems: Vec<Problem>,
    },
    /// An org has as many open jobs as it may.
    TooManyJobs {
        open: OpenRuns,
        limit: u32,
    },
    /// A machine runs as many jobs as it may.
    NoPlace {
        limit: u32,
    },
    /// Nobody waits for this answer.
    NoQuestion {
        job: JobId,
    },
    TaskClosed {
        task: TaskId,
        label: String,
    },
    SessionActive {
        attempt: AttemptId,
        actor: Actor,
        health: Health,
    },
    ActorMismatch {
        expected: String,
        bound: Actor,
    },
    ClientMismatch {
        given: String,
        bound: String,
    },
    NotSessionOwner {
        owner: Actor,
    },
    SessionTerminal {
        health: Health,
    },
    Conflict {
        task: TaskId,
        what: &'static str,
    },
    CheckInfrastructure {
        message: String,
    },
    CheckLogNotFound {
        task: TaskId,
        index: usize,
        why: String,
    },
    AuthorizationDenied {
        verb: String,
        scope: &'static str,
    },
    ProfileDenied {
        verb: String,
        needed: Profile,
        held: Profile,
    },
}

/// How somebody holds a task: an assignee alone has neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    pub kind: Option<AttemptKind>,
    pub until: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unactionable {
    Blocker(CommentId),
    Plan,
    /// Where it stands instead.
    Standing(Standing),
}

/// A monthly count that would pass its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub metric: &'static str,
    pub limit: u64,
    pub used: u64,
    pub requested: u64,
    /// The month, like `2026-06`.
    pub period: String,
    pub next_reset_at: Timestamp,
}

impl Quota {
    /// Judged last: what is wrong with a call in any other way is said first.
    pub fn judge(over: Option<&Quota>) -> Result<(), Refusal> {
        over.map_or(Ok(()), |quota| Err(Refusal::QuotaExceeded(quota.clone())))
    }
}

/// A check that stands in the way of closing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetCheck {
    pub index: usize,
    pub desc: String,
    pub result: &'static str,
    pub log: Option<String>,
}

impl Refusal {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidInput { message: message.into() }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidInput { .. } | Self::AlreadyOver { .. } => "INVALID_INPUT",
            Self::TaskNotFound { .. } => "TASK_NOT_FOUND",
            Self::SessionNotFound { .. } => "SESSION_NOT_FOUND",
            Self::DanglingDependency { .. } => "DANGLING_DEPENDENCY",
            Self::UnknownState { .. } => "UNKNOWN_STATE",
            Self::DependencyCycle { .. } => "DEPENDENCY_CYCLE",
            Self::DepsNotClosed { .. } => "DEPS_NOT_CLOSED",
            Self::ChecksNotPassed { .. } => "CHECKS_NOT_PASSED",
            Self::AlreadyClaimed { .. } | Self::NotHolder { .. } | Self::StaleFence { .. } => {
                "ALREADY_CLAIMED"
            }
            Self::NotActionable { .. } => "NOT_ACTIONABLE",
            Self::IllegalMove { .. } | Self::BlockersMax { .. } | Self::AlreadyStarted { .. } => {
                "INVARIANT_VIOLATED"
            }
            Self::CommentNotFound { .. } => "COMMENT_NOT_FOUND",
            Self::QuotaExceeded(_) => "QUOTA_EXCEEDED",
            Self::JobLost { .. } => "JOB_LOST",
            Self::JobNotFound { .. } => "JOB_NOT_FOUND",
            Self::InvalidSpec { .. } => "INVALID_SPEC",
            Self::TooManyJobs { .. } | Self::NoPlace { .. } => "RATE_LIMIT",
            Self::NoQuestion { .. } => "NO_QUESTION",
            Self::TaskClosed { .. } => "TASK_CLOSED",
            Self::SessionActive { .. } => "SESSION_ACTIVE",
            Self::ActorMismatch { .. } => "ACTOR_MISMATCH",
            Self::ClientMismatch { .. } => "CLIENT_MISMATCH",
            Self::NotSessionOwner { .. } => "NOT_SESSION_OWNER",
            Self::SessionTerminal { .. } => "SESSION_TERMINAL",
            Self::Conflict { .. } => "CONFLICT",
            Self::CheckInfrastructure { .. } => "CHECK_INFRASTRUCTURE",
            Self::CheckLogNotFound { .. } => "CHECK_LOG_NOT_FOUND",
            Self::AuthorizationDenied { .. }
            | Self::ProfileDenied { .. }
            | Self::NotCommentAuthor { .. } => "AUTHORIZATION_DENIED",
        }
    }

    pub fn message(&self) -> String {
        match self {
            Self::InvalidInput { message } | Self::CheckInfrastructure { message } => {
                message.clone()
            }
            Self::TaskNotFound { task } => format!("task not found: {task}"),
            Self::SessionNotFound { session } => format!("session not found: {session}"),
            Self::DanglingDependency { task } => format!("dangling dependency: {task}"),
            Self::UnknownState { given, known } => {
                format!("unknown target state: {given}; states are {}", known.join(", "))
            }
            Self::DependencyCycle { path } => {
                let path: Vec<_> = path.iter().map(TaskId::to_string).collect();
                format!("dependency would close a cycle: {}", path.join(" -> "))
            }
            Self::DepsNotClosed { open, .. } => {
                let open: Vec<_> =
                    open.iter().map(|(id, label)| format!("{id} ({label})")).collect();
                format!("dependencies not closed: {}", open.join(", "))
            }
            Self::ChecksNotPassed { checks, .. } => {
                let checks: Vec<_> = checks
                    .iter()
                    .map(|c| format!("check {} ({}) is {}", c.index, c.desc, c.result))
                    .collect();
                format!("checks not passed: {}", checks.join(", "))
            }
            Self::AlreadyClaimed { holder, .. } => {
                format!("task already claimed by another actor: held by {holder}")
            }
            Self::NotHolder { task, actor, holder: Some(holder) } => {
                format!("task {task} is held by {holder}, not by {actor}")
            }
            Self::NotHolder { task, holder: None, .. } => {
                format!("task {task} is not held by anyone; claim it first")
            }
            Self::StaleFence { task, given, current } => {
                format!("fence {given} is stale; task {task} is at fence {current}")
            }
            Self::NotActionable { task, why } => match why {
                Unactionable::Blocker(comment) => {
                    format!("task {task} has an open blocker comment: {comment}")
                }
                Unactionable::Plan => format!("task {task} is a plan with children"),
                Unactionable::Standing(at) => format!("task {task} is {}", at.phase.as_str()),
            },
            Self::IllegalMove { task, from, to, .. } => {
                format!("task {task} cannot go from {} to {to}", from.phase.as_str())
            }
            Self::AlreadyStarted { task, label, .. } => {
                format!("task {task} is {label}; dependencies can be added only before work starts")
            }
            Self::AlreadyOver { task, label, .. } => {
                format!("task {task} is {label}; reopen it first")
            }
            Self::BlockersMax { task, actor } => {
                format!("{actor} already has {BLOCKERS_MAX} open blockers on task {task}")
            }
            Self::CommentNotFound { comment } => format!("comment not found: {comment}"),
            Self::NotCommentAuthor { comment, author } => {
                format!("only {author} or a human can resolve {comment}")
            }
            Self::QuotaExceeded(Quota { metric, limit, used, requested, period, .. }) => {
                format!("{metric}: {used} of {limit} used in {period}, {requested} requested")
            }
            Self::JobLost { job } => format!("{job} is not yours any more"),
            Self::JobNotFound { job } => format!("job not found: {job}"),
            Self::InvalidSpec { problems } => {
                let problems: Vec<_> =
                    problems.iter().map(|p| format!("{} {}", p.path, p.problem)).collect();
                format!("the spec cannot be accepted: {}", problems.join("; "))
            }
            Self::TooManyJobs { open, limit } => format!(
                "{} jobs are queued and {} run; at most {limit} may be open",
                open.queued, open.running
            ),
            Self::NoPlace { limit } => format!("{limit} jobs run on this machine already"),
            Self::NoQuestion { job } => format!("{job} waits for no such answer"),
            Self::TaskClosed { task, label } => {
                format!("cannot begin a session on a closed task: {task} is {label}")
            }
            Self::SessionActive { attempt, actor, health } => format!(
                "task already has a live session: ses_{} ({actor}, {})",
                attempt.0,
                health.as_str()
            ),
            Self::ActorMismatch { expected, bound } => format!(
                "session actor does not match the bound connection actor: \
                 expected {expected}, bound {bound}"
            ),
            Self::ClientMismatch { given, bound } => {
                format!("client does not match the bound client: given {given}, bound {bound}")
            }
            Self::NotSessionOwner { owner } => {
                format!("session belongs to another actor: {owner}")
            }
            Self::SessionTerminal { health } => format!("session is terminal: {}", health.as_str()),
            Self::Conflict { task, what } => {
                format!("task {task} changed while its checks ran: {what}")
            }
            Self::CheckLogNotFound { task, index, why } => {
                format!("no log of check {index} of {task}: {why}")
            }
            Self::AuthorizationDenied { verb, scope } => format!("{verb} needs scope {scope}"),
            Self::ProfileDenied { verb, needed, held } => {
                format!("{verb} needs profile {}; yours is {}", needed.as_str(), held.as_str())
            }
        }
    }

    /// What the caller can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::InvalidInput { .. } | Self::ClientMismatch { .. } => return None,
            Self::TaskNotFound { .. } => "list shows the tasks there are",
            Self::SessionNotFound { .. } => "list_sessions shows the sessions there are",
            Self::DanglingDependency { .. } => "create the dependency first; nothing was created",
            Self::UnknownState { .. } => "use one of the states named",
            Self::DependencyCycle { .. } => "remove one dependency of the cycle first",
            Self::DepsNotClosed { .. } => {
                "close the dependencies first, or list {\"ready\": true} for work that can start"
            }
            Self::ChecksNotPassed { .. } => {
                "read the logs, fix what fails and try again; attest manual checks"
            }
            Self::NotHolder { .. } => "take the task first; its holder alone may do this",
            Self::StaleFence { .. } => "stop: the task was taken again since",
            Self::NotActionable { why: Unactionable::Blocker(_), .. } => {
                "answer the blocker, or take another task"
            }
            Self::NotActionable { why: Unactionable::Plan, .. } => "take one of its children",
            Self::NotActionable { why: Unactionable::Standing(_), .. } => "take another task",
            Self::IllegalMove { completed_by_caller: true, .. } => {
                "your earlier call succeeded; there is nothing left to do"
            }
            Self::IllegalMove { .. } => "look at the task as it is now",
            Self::AlreadyStarted { .. } => "add a task that depends on both instead",
            Self::AlreadyOver { .. } => "reopen the task to change what it depends on",
            Self::BlockersMax { .. } => "resolve one of them first",
            Self::CommentNotFound { .. } => "use the id that the comment was added with",
            Self::NotCommentAuthor { .. } => "ask its author or a human",
            Self::QuotaExceeded(_) => "wait for the next month, or ask for a higher limit",
            Self::JobLost { .. } => "leave it to the runner that has it",
            Self::JobNotFound { .. } => "jobs_list shows the jobs there are",
            Self::InvalidSpec { .. } => "correct every field named, then submit again",
            Self::TooManyJobs { .. } => "wait until some are over, or raise relay.max_concurrency",
            Self::NoPlace { .. } => "wait until one is over",
            Self::NoQuestion { .. } => "look at the job; it was answered, or is over",
            Self::AlreadyClaimed { .. } => {
                "list {\"ready\": true, \"assignee\": \"\"} for free work"
            }
            Self::TaskClosed { .. } => "reopen it with transition first",
            Self::SessionActive { health: Health::Stalled, .. } => {
                "begin with takeover: true replaces a stalled session"
            }
            Self::SessionActive { .. } => "wait until it is finished, canceled or stalled",
            Self::ActorMismatch { .. } => "pass the actor that identity returns",
            Self::NotSessionOwner { .. } => "only the actor that began a session may change it",
            Self::SessionTerminal { .. } => "begin a new session",
            Self::Conflict { .. } => "get the task and try again",
            Self::CheckInfrastructure { .. } => {
                "run the checks where the repository and its tools are"
            }
            Self::CheckLogNotFound { .. } => "run_checks writes a new one",
            Self::AuthorizationDenied { .. } => "ask for a token with that scope",
            Self::ProfileDenied { .. } => "ask for a higher profile",
        };
        Some(hint.into())
    }

    /// True when the same call can succeed later without other changes by the caller.
    pub fn retryable(&self) -> bool {
        match self {
            Self::DepsNotClosed { .. }
            | Self::AlreadyClaimed { .. }
            | Self::NotActionable { why: Unactionable::Blocker(_), .. }
            | Self::SessionActive { .. }
            | Self::Conflict { .. }
            | Self::TooManyJobs { .. }
            | Self::NoPlace { .. }
            | Self::CheckInfrastructure { .. } => true,
            Self::InvalidInput { .. }
            | Self::TaskNotFound { .. }
            | Self::SessionNotFound { .. }
            | Self::DanglingDependency { .. }
            | Self::UnknownState { .. }
            | Self::DependencyCycle { .. }
            | Self::ChecksNotPassed { .. }
            | Self::TaskClosed { .. }
            | Self::ActorMismatch { .. }
            | Self::ClientMismatch { .. }
            | Self::NotSessionOwner { .. }
            | Self::SessionTerminal { .. }
            | Self::CheckLogNotFound { .. }
            | Self::AuthorizationDenied { .. }
            | Self::NotHolder { .. }
            | Self::StaleFence { .. }
            | Self::NotActionable { .. }
            | Self::IllegalMove { .. }
            | Self::AlreadyStarted { .. }
            | Self::AlreadyOver { .. }
            | Self::BlockersMax { .. }
            | Self::CommentNotFound { .. }
            | Self::NotCommentAuthor { .. }
            | Self::QuotaExceeded(_)
            | Self::JobNotFound { .. }
            | Self::InvalidSpec { .. }
            | Self::NoQuestion { .. }
            | Self::ProfileDenied { .. }
            | Self::JobLost { .. } => false,
        }
    }

    pub fn details(&self) -> Option<Value> {
        match self {
            Self::DepsNotClosed { open, .. } => {
                let open: Vec<_> =
                    open.iter().map(|(id, label)| json!({"id": id, "status": label})).collect();
                Some(json!({"deps": open}))
            }
            Self::ChecksNotPassed { checks, .. } => {
                let checks: Vec<_> = checks
                    .iter()
                    .map(|c| json!({"index": c.index, "desc": c.desc, "result": c.result, "log": c.log}))
                    .collect();
                Some(json!({"checks": checks}))
            }
            Self::AlreadyClaimed { task, holder, .. } => {
                Some(json!({"task": task, "holder": holder}))
            }
            Self::NotHolder { task, holder, .. } => Some(json!({"task": task, "holder": holder})),
            Self::StaleFence { task, current, .. } => Some(json!({"task": task, "fence": current})),
            Self::QuotaExceeded(quota) => Some(json!({
                "metric": quota.metric,
                "limit": quota.limit,
                "used": quota.used,
                "requested": quota.requested,
                "period": quota.period,
            })),
            Self::InvalidSpec { problems } => Some(json!({"problems": problems})),
            Self::TooManyJobs { open, limit } => {
                Some(json!({"queued": open.queued, "running": open.running, "limit": limit}))
            }
            Self::DependencyCycle { path } => Some(json!({"cycle": path})),
            Self::UnknownState { known, .. } => Some(json!({"states": known})),
            Self::InvalidInput { .. }
            | Self::TaskNotFound { .. }
            | Self::SessionNotFound { .. }
            | Self::DanglingDependency { .. }
            | Self::TaskClosed { .. }
            | Self::SessionActive { .. }
            | Self::ActorMismatch { .. }
            | Self::ClientMismatch { .. }
            | Self::NotSessionOwner { .. }
            | Self::SessionTerminal { .. }
            | Self::Conflict { .. }
            | Self::CheckInfrastructure { .. }
            | Self::CheckLogNotFound { .. }
            | Self::AuthorizationDenied { .. }
            | Self::NotActionable { .. }
            | Self::IllegalMove { .. }
            | Self::AlreadyStarted { .. }
            | Self::AlreadyOver { .. }
            | Self::BlockersMax { .. }
            | Self::CommentNotFound { .. }
            | Self::NotCommentAuthor { .. }
            | Self::JobNotFound { .. }
            | Self::NoPlace { .. }
            | Self::NoQuestion { .. }
            | Self::ProfileDenied { .. }
            | Self::JobLost { .. } => None,
        }
    }
}
