//! The texts of a refusal: the message, the way out, the details. Total matches, one line each.

use serde_json::{Value, json};

use super::{Quota, Refusal, Unactionable};
use crate::board::card::ReviewState;
use crate::ids::TaskId;
use crate::limits::BLOCKERS_MAX;
use crate::rights::Scope;
use crate::task::attempt::Health;

impl Refusal {
    pub fn message(&self) -> String {
        match self {
            Self::InvalidInput { message, .. }
            | Self::CheckInfrastructure { message }
            | Self::WorkspaceNotReady { message }
            | Self::NoCommit { message }
            | Self::InvalidSetting { message } => message.clone(),
            Self::TaskNotFound { task } | Self::ParentNotFound { task } => {
                format!("task not found: {task}")
            }
            Self::ProjectNotFound { project } => format!("project not found: {project}"),
            Self::InvalidRepoPath { path, why } => format!("{path} {why}"),
            Self::PlanNotFound { plan } => format!("plan not found: {plan}"),
            Self::PlanDecided { plan, state } => format!("{plan} is already {state}"),
            Self::AgentNotFound { agent } => format!("Agent with ID '{agent}' not found"),
            Self::AgentExists { agent } => format!("Agent with ID '{agent}' already exists"),
            Self::MailNotFound { mail } => format!("Mail with ID '{mail}' not found"),
            Self::EpicNotFound { epic } => format!("Epic with ID '{epic}' not found"),
            Self::AgentState { message }
            | Self::CrewInput { message }
            | Self::CrewDenied { message } => message.clone(),
            Self::MergeConflict { files, .. } if files.is_empty() => {
                "PR cannot be merged: conflicts".into()
            }
            Self::MergeConflict { files, .. } => {
                format!("PR cannot be merged: conflicts in {}", files.join(", "))
            }
            Self::MailOfAnother { mail } => format!("Mail '{mail}' belongs to another agent"),
            Self::ParentCycle { task, parent } => {
                format!(
                    "{parent} cannot be the parent of {task}: it is that task or a descendant of it"
                )
            }
            Self::HasDependents { task, open } => {
                let open: Vec<_> = open.iter().map(TaskId::to_string).collect();
                format!("open tasks depend on {task}: {}", open.join(", "))
            }
            Self::NotPair { task } => {
                format!("task {task} is an AUTO task: an agent works on it alone")
            }
            Self::NotRunning { task } => format!("no agent works on task {task}"),
            Self::ReviewNotReady { task, label } => {
                format!("task {task} is {label}; only a task in review can be reviewed")
            }
            Self::ReviewDecided { task, now, .. } => match now {
                Some((ReviewState::Approved, by, _)) => {
                    format!("{by} approved {task} after you looked")
                }
                Some((ReviewState::Rejected, by, _)) => {
                    format!("{by} sent {task} back after you looked")
                }
                Some((ReviewState::Requested, by, _)) => {
                    format!("{by} requested a new review of {task} after you looked")
                }
                None => format!("the verdict on {task} was withdrawn after you looked"),
            },
            Self::WorkMoved { task, read, now } => match now {
                Some(now) if now == read => {
                    format!("files of {task} changed after you read commit {read}")
                }
                Some(now) => format!("you read commit {read} of {task}; its work is at {now} now"),
                None => format!("you read commit {read} of {task}; its work cannot be read now"),
            },
            Self::TaskChanged { task, fields } => {
                format!("{} of {task} changed after you looked", fields.join(", "))
            }
            Self::NotApproved { task } => {
                format!("the settings require an approval before {task} is merged")
            }
            Self::AgentAtWork { task, agent, action } => {
                format!("task {task} cannot be {} now: {agent} works on it", action.done())
            }
            Self::NotAuto { task } => {
                format!("task {task} is not an AUTO task: no agent works on it alone")
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
                Unactionable::Standing(at) => {
                    format!("task {task} is in phase {}", at.phase.as_str())
                }
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
                format!("only {author}, who created task {task}, or a human can update it")
            }
            Self::NotTaskAuthor { task, author: None } => {
                format!("only a human can update task {task}")
            }
            Self::QuotaExceeded(Quota { metric, limit, used, requested, period, .. }) => {
                format!("{metric}: {used} of {limit} used in {period}, {requested} requested")
            }
            Self::JobLost { job } => format!("another runner has {job}, or the job has ended"),
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
            Self::NoPlace { limit } => {
                format!("this machine already runs {limit} jobs, the most it may run")
            }
            Self::TooManyCalls { limit } => format!(
                "this token has {limit} waits and other long calls under way, the most it may have"
            ),
            Self::NotCancelable { job, kind } => {
                format!("{job} is a job of the kind {}, which ends by itself", kind.as_str())
            }
            Self::NoQuestion { job } => {
                format!("{job} has no open question that takes this answer")
            }
            Self::TaskClosed { task, label } => {
                format!("cannot begin a session on a closed task: {task} is {label}")
            }
            Self::Closed { task, label } => format!("task {task} is closed: its status is {label}"),
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
            Self::RemovedByRetention { what, setting } => format!("{what} (setting {setting})"),
            Self::AuthorizationDenied { verb, scope } if *scope == Scope::CommandsRun.as_str() => {
                format!("{verb} needs scope {scope} to write a command into a check")
            }
            Self::AuthorizationDenied { verb, scope } => format!("{verb} needs scope {scope}"),
            Self::ProfileDenied { verb, needed, held } => {
                format!("{verb} needs profile {}; yours is {}", needed.as_str(), held.as_str())
            }
            Self::SharedActor { verb, actor } => format!(
                "{verb} needs an actor that only one agent uses; all clients of this name without an \
                 actor act as {actor}"
            ),
            Self::OutsideTask { task, bound } => {
                format!("this connection is bound to {bound} and cannot act on {task}")
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
                "list shows the existing tasks"
            }
            Self::ProjectNotFound { .. } => "projects_list shows the existing projects",
            Self::InvalidRepoPath { .. } => {
                "name the top folder of a git repository on the server; nothing was created"
            }
            Self::InvalidSetting { .. } => {
                "correct the setting that the message names; nothing was changed"
            }
            Self::PlanNotFound { .. } => "callboard plan list shows the existing plans",
            Self::PlanDecided { .. } => "propose a new plan",
            Self::AgentNotFound { .. } => "callboard agent list shows the existing agents",
            Self::AgentExists { .. } => "choose another id, or remove that agent first",
            Self::MailNotFound { .. } => "list the inbox to see its mails",
            Self::EpicNotFound { .. } => "callboard epic list shows the existing epics",
            Self::AgentState { .. } => {
                "read the state of the task, the epic and the agent, then choose a call that fits"
            }
            Self::CrewInput { .. } => {
                "read the present state, then ask for a state that can follow it"
            }
            Self::MergeConflict { .. } => "let the task's worker rebase onto the target branch",
            Self::CrewDenied { .. } => "ask the supervisor of that epic",
            Self::MailOfAnother { .. } => "leave this mail to its recipient",
            Self::ParentCycle { .. } => {
                "choose a parent that is neither the task itself nor below it"
            }
            Self::HasDependents { .. } => {
                "remove these dependencies, or the dependent tasks, first"
            }
            Self::ReviewNotReady { .. } => "request_review puts the task into review",
            Self::ReviewDecided { .. } => "read the review as it stands now, then decide again",
            Self::WorkMoved { .. } => "read the changes since, then decide again",
            Self::TaskChanged { .. } => "read the task as it stands now, then edit it again",
            Self::NotApproved { .. } => "approve the task first",
            Self::AgentAtWork { .. } => "stop the agent first, or wait until it ends",
            Self::NotAuto { .. } => "set the task's task_type to AUTO first",
            Self::NotPair { .. } => "set the task's task_type to PAIR first",
            Self::NotRunning { .. } => "there is nothing to stop",
            Self::SessionNotFound { .. } => "list_sessions shows the existing sessions",
            Self::DanglingDependency { .. } => "create the dependency first; nothing was created",
            Self::UnknownState { .. } => "use one of the states that the message names",
            Self::DependencyCycle { .. } => "remove one dependency of the cycle first",
            Self::DepsNotClosed { .. } => {
                "close the dependencies first, or list {\"ready\": true} for work that can start"
            }
            Self::ChecksNotPassed { checks, .. } if checks.iter().all(|c| c.index.is_none()) => {
                "the task's verification waits for a person: callboard approve ID at a terminal"
            }
            Self::ChecksNotPassed { .. } => {
                "read the logs, fix what fails and try again; attest manual checks"
            }
            Self::NotHolder { .. } => "claim the task first; only its holder may do this",
            Self::StaleFence { .. } => "stop: the task was claimed again after your claim",
            Self::NotActionable { why: Unactionable::Blocker(_), .. } => {
                "answer the blocker, or take another task"
            }
            Self::NotActionable { why: Unactionable::Plan, .. } => "take one of its children",
            Self::NotActionable { why: Unactionable::Standing(_), .. } => "take another task",
            Self::IllegalMove { failed: Some(_), .. } => {
                "the task's verification failed; callboard task reopen ID lets agents claim it again"
            }
            Self::IllegalMove { completed_by_caller: true, .. } => {
                "your earlier call succeeded; there is nothing left to do"
            }
            Self::IllegalMove { .. } => "read the task's present state",
            Self::AlreadyStarted { .. } => "add a task that depends on both instead",
            Self::AlreadyOver { .. } => "reopen the task to change it",
            Self::BlockersMax { .. } => "resolve one of these blockers first",
            Self::CommentNotFound { .. } => {
                "use the id that was returned when the comment was added"
            }
            Self::NotCommentAuthor { .. } => "ask the comment's author or a human",
            Self::NotTaskAuthor { .. } => {
                "note what should change, and leave the change to the task's author"
            }
            Self::QuotaExceeded(_) => "wait for the next month, or ask for a higher limit",
            Self::JobLost { .. } => "leave the job to the runner that has it",
            Self::JobNotFound { .. } => "jobs_list shows the existing jobs",
            Self::InvalidSpec { .. } => {
                "correct every field that the message names, then submit again"
            }
            Self::TooManyJobs { .. } => "wait until some jobs end, or raise relay.max_queued",
            Self::NoPlace { .. } => "wait until a job ends",
            Self::TooManyCalls { .. } => {
                "wait until a call ends, end one with tasks/cancel, or raise \
                 mcp.long_calls_per_token"
            }
            Self::NotCancelable { .. } => "leave the job; it takes no agent's place",
            Self::NoQuestion { .. } => {
                "read the job: its question was answered, or the job has ended"
            }
            Self::AlreadyClaimed { hold, .. } if hold.is_stalled => {
                "begin with takeover: true replaces a stalled session"
            }
            Self::AlreadyClaimed { .. } => {
                "list {\"ready\": true, \"assignee\": \"\"} for free work"
            }
            Self::TaskClosed { .. } | Self::Closed { .. } => {
                "reopen the task with transition first"
            }
            Self::ExecutorMissing { .. } => {
                "name an agent that was found, or install the program; callboard config shows the \
                 executors"
            }
            Self::SessionActive { health: Health::Stalled, .. } => {
                "begin with takeover: true replaces a stalled session"
            }
            Self::SessionActive { .. } => {
                "wait until that session is finished, canceled or stalled"
            }
            Self::ActorMismatch { .. } => "pass the actor that identity returns",
            Self::NotSessionOwner { .. } => "only the actor that began a session may change it",
            Self::SessionTerminal { .. } => "begin a new session",
            Self::Conflict { .. } => "get the task and try again",
            Self::CheckInfrastructure { .. } => {
                "run the checks where the repository and its tools are"
            }
            Self::WorkspaceNotReady { .. } => {
                "mend workspace.setup, or what it needs, and begin again: the setup is then tried anew"
            }
            Self::NoCommit { .. } => "make a first commit in that repository, then try again",
            Self::CheckLogNotFound { .. } => "run_checks writes a new log",
            Self::RemovedByRetention { .. } => {
                "go on with what is kept; only an older backup has the rest"
            }
            Self::AuthorizationDenied { scope, .. } if *scope == Scope::CommandsRun.as_str() => {
                "leave the command out and say in desc what to look at, or ask for a token with that scope"
            }
            Self::AuthorizationDenied { .. } => "ask for a token with that scope",
            Self::ProfileDenied { .. } => "ask for a higher profile",
            Self::SharedActor { .. } => {
                "add ?actor=agent:NAME to the URL, with a different NAME for each agent"
            }
            Self::OutsideTask { .. } => "leave that to a caller that is not bound to one task",
            Self::MixedArguments { .. } => "give the arguments of only one of these tools",
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
            Self::MergeConflict { files, .. } => Some(json!({"conflictFiles": files})),
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
            | Self::WorkspaceNotReady { .. }
            | Self::NoCommit { .. }
            | Self::CheckLogNotFound { .. }
            | Self::RemovedByRetention { .. }
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
            | Self::ReviewDecided { .. }
            | Self::WorkMoved { .. }
            | Self::TaskChanged { .. }
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
