//! The texts of a refusal: the message, the way out, the details. Total matches, one line each.

use serde_json::{Value, json};

use super::{Quota, Refusal, Unactionable};
use crate::attempt::Health;
use crate::ids::TaskId;
use crate::limits::BLOCKERS_MAX;
use crate::rights::Scope;

impl Refusal {
    pub fn message(&self) -> String {
        match self {
            Self::InvalidInput { message, .. }
            | Self::CheckInfrastructure { message }
            | Self::InvalidSetting { message } => message.clone(),
            Self::TaskNotFound { task } | Self::ParentNotFound { task } => {
                format!("task not found: {task}")
            }
            Self::ProjectNotFound { project } => format!("project not found: {project}"),
            Self::InvalidRepoPath { path, why } => format!("{path} {why}"),
            Self::PlanNotFound { plan } => format!("plan not found: {plan}"),
            Self::PlanDecided { plan, state } => format!("{plan} is {state} already"),
            Self::AgentNotFound { agent } => format!("Agent with ID '{agent}' not found"),
            Self::AgentExists { agent } => format!("Agent with ID '{agent}' exists already"),
            Self::MailNotFound { mail } => format!("Mail with ID '{mail}' not found"),
            Self::EpicNotFound { epic } => format!("Epic with ID '{epic}' not found"),
            Self::AgentState { message }
            | Self::CrewInput { message }
            | Self::CrewDenied { message } => message.clone(),
            Self::PullConflict { files, .. } if files.is_empty() => {
                "PR cannot be merged: conflicts".into()
            }
            Self::PullConflict { files, .. } => {
                format!("PR cannot be merged: conflicts in {}", files.join(", "))
            }
            Self::MailOfAnother { mail } => format!("Mail '{mail}' belongs to another agent"),
            Self::ParentCycle { task, parent } => {
                format!("{parent} is {task} or stands below it, so it cannot be its parent")
            }
            Self::HasDependents { task, open } => {
                let open: Vec<_> = open.iter().map(TaskId::to_string).collect();
                format!("tasks wait for {task}: {}", open.join(", "))
            }
            Self::NotPair { task } => format!("task {task} is for an agent alone"),
            Self::NotRunning { task } => format!("no agent works on task {task}"),
            Self::ReviewNotReady { task, label } => {
                format!("task {task} is {label}; only what is in review can be reviewed")
            }
            Self::NotApproved { task } => {
                format!("the settings ask for an approval before {task} is merged")
            }
            Self::AgentAtWork { task, agent, action } => {
                format!("{agent} works on task {task}, so it cannot be {} now", action.done())
            }
            Self::NotAuto { task } => {
                format!("task {task} is no AUTO task: no agent works on it alone")
            }
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
                let checks: Vec<_> =
                    checks.iter().map(|c| format!("{} is {}", c.name(), c.result)).collect();
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
            Self::NotTaskAuthor { task, author: Some(author) } => {
                format!("only {author}, who made task {task}, or a human can update it")
            }
            Self::NotTaskAuthor { task, author: None } => {
                format!("only a human can update task {task}")
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
            Self::TooManyCalls { limit } => format!(
                "this token has {limit} waits and other long calls under way, the most it may have"
            ),
            Self::NotCancelable { job, kind } => {
                format!("{job} is a job of the kind {}, which ends by itself", kind.as_str())
            }
            Self::NoQuestion { job } => format!("{job} waits for no such answer"),
            Self::TaskClosed { task, label } => {
                format!("cannot begin a session on a closed task: {task} is {label}")
            }
            Self::Closed { task, label } => format!("{task} is closed: it is {label}"),
            Self::ExecutorMissing { executor, found } if found.is_empty() => format!(
                "agent '{executor}' is not installed on this machine, and no other agent is either"
            ),
            Self::ExecutorMissing { executor, found } => format!(
                "agent '{executor}' is not installed on this machine; found: {}",
                found.join(", ")
            ),
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
            Self::AuthorizationDenied { verb, scope } if *scope == Scope::CommandsRun.as_str() => {
                format!("{verb} needs scope {scope} to write a command into a check")
            }
            Self::AuthorizationDenied { verb, scope } => format!("{verb} needs scope {scope}"),
            Self::ProfileDenied { verb, needed, held } => {
                format!("{verb} needs profile {}; yours is {}", needed.as_str(), held.as_str())
            }
            Self::SharedActor { verb, actor } => format!(
                "{verb} is for one agent, and every client of that name without an actor acts as \
                 {actor}"
            ),
            Self::OutsideTask { task, bound } => {
                format!("this connection works on {bound} alone, not on {task}")
            }
            Self::MixedArguments { verb, one, other } => {
                format!("{one} and {other} belong to two different tools called {verb}")
            }
            Self::KeyReused { verb } => format!(
                "this idempotency key belongs to an earlier call of {verb} with other arguments"
            ),
            Self::AnswerNotKept { verb } => format!(
                "the first call of {verb} with this idempotency key was carried out, but its answer \
                 was not kept"
            ),
        }
    }

    /// What the caller can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::InvalidInput { .. } | Self::ClientMismatch { .. } => return None,
            Self::TaskNotFound { .. } | Self::ParentNotFound { .. } => {
                "list shows the tasks there are"
            }
            Self::ProjectNotFound { .. } => "projects_list shows the projects there are",
            Self::InvalidRepoPath { .. } => {
                "name the top folder of a git repository on the server; nothing was made"
            }
            Self::InvalidSetting { .. } => "correct what the message names; nothing was changed",
            Self::PlanNotFound { .. } => "callboard plan list shows the plans there are",
            Self::PlanDecided { .. } => "propose a new plan",
            Self::AgentNotFound { .. } => "callboard agent list shows the agents there are",
            Self::AgentExists { .. } => "choose another id, or remove that agent first",
            Self::MailNotFound { .. } => "list the inbox for the mails there are",
            Self::EpicNotFound { .. } => "callboard epic list shows the epics there are",
            Self::AgentState { .. } => {
                "look at the task, the epic and the agent, then go on from there"
            }
            Self::CrewInput { .. } => "look where it stands, then ask for what can follow",
            Self::PullConflict { .. } => "let its worker rebase onto the branch it goes to",
            Self::CrewDenied { .. } => "ask the supervisor of that epic",
            Self::MailOfAnother { .. } => "leave it to whom it was sent to",
            Self::ParentCycle { .. } => "choose a task that is not below it",
            Self::HasDependents { .. } => "remove the dependency, or what waits, first",
            Self::ReviewNotReady { .. } => "request_review puts it there",
            Self::NotApproved { .. } => "approve it first",
            Self::AgentAtWork { .. } => "stop the agent first, or wait for it",
            Self::NotAuto { .. } => "set its task_type to AUTO first",
            Self::NotPair { .. } => "set its task_type to PAIR first",
            Self::NotRunning { .. } => "there is nothing to stop",
            Self::SessionNotFound { .. } => "list_sessions shows the sessions there are",
            Self::DanglingDependency { .. } => "create the dependency first; nothing was created",
            Self::UnknownState { .. } => "use one of the states named",
            Self::DependencyCycle { .. } => "remove one dependency of the cycle first",
            Self::DepsNotClosed { .. } => {
                "close the dependencies first, or list {\"ready\": true} for work that can start"
            }
            Self::ChecksNotPassed { checks, .. } if checks.iter().all(|c| c.index.is_none()) => {
                "its verification waits for a person: callboard approve ID at a terminal"
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
            Self::IllegalMove { failed: Some(_), .. } => {
                "its verification failed; callboard task reopen ID lets it be taken again"
            }
            Self::IllegalMove { completed_by_caller: true, .. } => {
                "your earlier call succeeded; there is nothing left to do"
            }
            Self::IllegalMove { .. } => "look at the task as it is now",
            Self::AlreadyStarted { .. } => "add a task that depends on both instead",
            Self::AlreadyOver { .. } => "reopen the task to change it",
            Self::BlockersMax { .. } => "resolve one of them first",
            Self::CommentNotFound { .. } => "use the id that the comment was added with",
            Self::NotCommentAuthor { .. } => "ask its author or a human",
            Self::NotTaskAuthor { .. } => "note what should change, and leave it to its author",
            Self::QuotaExceeded(_) => "wait for the next month, or ask for a higher limit",
            Self::JobLost { .. } => "leave it to the runner that has it",
            Self::JobNotFound { .. } => "jobs_list shows the jobs there are",
            Self::InvalidSpec { .. } => "correct every field named, then submit again",
            Self::TooManyJobs { .. } => "wait until some are over, or raise relay.max_concurrency",
            Self::NoPlace { .. } => "wait until one is over",
            Self::TooManyCalls { .. } => {
                "wait until one ends, or end one with tasks/cancel; mcp.long_calls_per_token is the \
                 setting"
            }
            Self::NotCancelable { .. } => "leave it; it takes nobody's place",
            Self::NoQuestion { .. } => "look at the job; it was answered, or is over",
            Self::AlreadyClaimed { hold, .. } if hold.is_stalled => {
                "begin with takeover: true replaces a stalled session"
            }
            Self::AlreadyClaimed { .. } => {
                "list {\"ready\": true, \"assignee\": \"\"} for free work"
            }
            Self::TaskClosed { .. } | Self::Closed { .. } => "reopen it with transition first",
            Self::ExecutorMissing { .. } => {
                "name an agent that was found, or install the program; callboard config shows the \
                 executors"
            }
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
            Self::AuthorizationDenied { scope, .. } if *scope == Scope::CommandsRun.as_str() => {
                "leave the command out and say in desc what to look at, or ask for a token with that scope"
            }
            Self::AuthorizationDenied { .. } => "ask for a token with that scope",
            Self::ProfileDenied { .. } => "ask for a higher profile",
            Self::SharedActor { .. } => {
                "add ?actor=agent:NAME to the URL, with another NAME for each agent"
            }
            Self::OutsideTask { .. } => "leave that to a caller that is not bound to one task",
            Self::MixedArguments { .. } => "give the arguments of one of them alone",
            Self::KeyReused { .. } => "use a new key for a new request; nothing was changed",
            Self::AnswerNotKept { .. } => "read the present state; use a new key for a new request",
        };
        Some(hint.into())
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
            Self::PullConflict { files, .. } => Some(json!({"conflictFiles": files})),
            Self::InvalidSpec { problems } => Some(json!({"problems": problems})),
            Self::TooManyJobs { open, limit } => {
                Some(json!({"queued": open.queued, "running": open.running, "limit": limit}))
            }
            Self::DependencyCycle { path } => Some(json!({"cycle": path})),
            Self::UnknownState { known, .. } => Some(json!({"states": known})),
            Self::ExecutorMissing { found, .. } => Some(json!({"found": found})),
            Self::InvalidInput { .. }
            | Self::TaskNotFound { .. }
            | Self::SessionNotFound { .. }
            | Self::DanglingDependency { .. }
            | Self::TaskClosed { .. }
            | Self::Closed { .. }
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
            | Self::NotTaskAuthor { .. }
            | Self::JobNotFound { .. }
            | Self::NoPlace { .. }
            | Self::TooManyCalls { .. }
            | Self::NoQuestion { .. }
            | Self::NotCancelable { .. }
            | Self::ProfileDenied { .. }
            | Self::SharedActor { .. }
            | Self::OutsideTask { .. }
            | Self::MixedArguments { .. }
            | Self::ProjectNotFound { .. }
            | Self::InvalidRepoPath { .. }
            | Self::InvalidSetting { .. }
            | Self::PlanNotFound { .. }
            | Self::PlanDecided { .. }
            | Self::AgentNotFound { .. }
            | Self::AgentExists { .. }
            | Self::MailNotFound { .. }
            | Self::MailOfAnother { .. }
            | Self::EpicNotFound { .. }
            | Self::AgentState { .. }
            | Self::CrewInput { .. }
            | Self::CrewDenied { .. }
            | Self::ParentNotFound { .. }
            | Self::ParentCycle { .. }
            | Self::HasDependents { .. }
            | Self::ReviewNotReady { .. }
            | Self::NotApproved { .. }
            | Self::AgentAtWork { .. }
            | Self::NotAuto { .. }
            | Self::NotPair { .. }
            | Self::NotRunning { .. }
            | Self::KeyReused { .. }
            | Self::AnswerNotKept { .. }
            | Self::JobLost { .. } => None,
        }
    }
}
