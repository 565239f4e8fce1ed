//! Arguments and handlers. A handler reads, calls one engine verb and renders.

use callboard_domain::command::{LeaseUpdate, NewCheck};
use callboard_domain::ids::{IdError, TaskId};
use callboard_domain::refusal::Refusal;
use callboard_domain::retry::RetryKey;
use callboard_domain::task::comment::{CommentId, CommentKind};
use callboard_domain::task::contract::{VerificationContract, VerificationKind};
use callboard_engine::{
    CommentDraft, Completion, DigestTask, EngineError, FreeFilter, Learning, TaskDraft,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::knowledge::LearningArgument;
use super::words::StatusWord;
use super::{read, view};
use crate::args;
use crate::check_argument::CheckArgument;
use crate::page::{PageSize, page};
use crate::tool::Call;
use callboard_engine::time::rfc3339_ms;

type Reply = Result<Value, EngineError>;

/// Tasks to choose from unless the caller asks for another number: each comes with its digest of knowledge.
const NEXT_DEFAULT: usize = 5;

/// The id in a text. A well-formed text that is no id of ours names a task that does not exist.
pub(super) fn task_id(text: &str) -> Result<TaskId, Refusal> {
    text.parse().map_err(|error| match error {
        IdError::Invalid => Refusal::invalid("a task id consists of letters, digits, '-' and '_'"),
        IdError::Foreign => Refusal::TaskNotFound { task: text.into() },
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NextActionable {
    #[schemars(range(min = 1, max = 20))]
    limit: Option<u32>,
    /// only what is below this plan
    plan_id: Option<String>,
    /// smaller is more urgent
    #[schemars(range(min = 0, max = 1000))]
    priority_lte: Option<u16>,
}

/// Tasks that can be claimed now, with what other tasks learned about the like.
pub(super) async fn get_next_actionable(call: &Call<'_>, args: NextActionable) -> Reply {
    let size = PageSize::of(args.limit, NEXT_DEFAULT);
    let filter = FreeFilter {
        below: args.plan_id.as_deref().map(task_id).transpose()?,
        priority_max: args.priority_lte,
        limit: size.limit,
    };
    let free = call.engine.lease_list(call.op, filter).await?;
    let about: Vec<DigestTask> = free.it.iter().map(DigestTask::from).collect();
    // One search for all tasks. Its faults do not fail the list: the digest then says `degraded`.
    let digests = call.engine.knowledge_hand(call.op, &about).await;
    let mut tasks = Vec::with_capacity(free.it.len());
    for (seen, digest) in free.it.iter().zip(&digests) {
        let repo = call.engine.repository(seen.task.project).await?;
        tasks.push(view::actionable(seen, repo.as_ref(), digest, call.engine.policy(), free.now));
    }
    let (tasks, _) = page(&tasks, size, Value::clone);
    Ok(json!({ "tasks": tasks }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Claim {
    task_id: String,
    /// seconds, 900 if left out
    // Signed, so that a negative number is refused with the range of the policy and not as "not a number".
    lease_sec: Option<i64>,
}

/// Leases a task. The answer has the fencing token and, for a task that was sent back, the review.
pub(super) async fn claim_task(call: &Call<'_>, args: Claim) -> Reply {
    let lease_s = call.engine.policy().lease_s(args.lease_sec)?;
    let leased = call.engine.lease_take(call.op, task_id(&args.task_id)?, lease_s).await?;
    if let Some(attempt) = &leased.seen.it.newest {
        call.engine.knowledge_taken(call.op, attempt).await;
    }
    let repo = call.engine.repository(leased.seen.it.task.project).await?;
    let mut lease = view::lease(&leased, repo.as_ref(), call.engine.policy());
    lease["review"] = read::review(call, &leased.seen.it).await?;
    Ok(lease)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskStatusRequest {
    task_id: String,
    status: StatusWord,
    /// false leaves the lease as it is
    heartbeat: Option<bool>,
    note: Option<String>,
    /// from the claim
    fence: Option<u64>,
}

/// The heartbeat, a release or a cancellation, by the name of the state that the holder wants.
pub(super) async fn update_task_status(call: &Call<'_>, args: TaskStatusRequest) -> Reply {
    let update = LeaseUpdate {
        task: task_id(&args.task_id)?,
        fence: args.fence,
        to: args.status.target(),
        // The caller's word stands in the refusal of an impossible move.
        asked: args.status.word(),
        extend: args.heartbeat.unwrap_or(true),
        note: args.note,
    };
    let leased = call.engine.lease_update(call.op, update).await?;
    Ok(view::update(&leased))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Complete {
    task_id: String,
    /// text or an object
    output: Value,
    /// what others should know; a text is one learning
    learnings: Option<Vec<LearningArgument>>,
    /// the pull request, like owner/repo#123
    external_ref: Option<String>,
    fence: Option<u64>,
}

/// Ends the lease with an output. Whether the task is done depends on its verification contract.
pub(super) async fn complete_task(call: &Call<'_>, args: Complete) -> Reply {
    let output = match args.output {
        Value::String(text) => text,
        // The core keeps an output as text; an object is kept as its JSON.
        object @ Value::Object(_) => object.to_string(),
        _ => return Err(Refusal::invalid("output must be a string or an object").into()),
    };
    let completion = Completion {
        task: task_id(&args.task_id)?,
        fence: args.fence,
        output,
        external_ref: args.external_ref,
        learnings: args.learnings.unwrap_or_default().into_iter().map(Learning::from).collect(),
    };
    let leased = call.engine.lease_complete(call.op, completion).await?;
    let mut completed = view::completion(&leased, call.engine.policy());
    completed["review"] = read::review(call, &leased.seen.it).await?;
    Ok(completed)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Add {
    title: String,
    description: Option<String>,
    plan_id: Option<String>,
    #[schemars(range(min = 0, max = 1000))]
    priority: Option<u16>,
    /// task ids
    depends_on: Option<Vec<String>>,
    execution_contract: Option<Map<String, Value>>,
    verification_contract: Option<ContractArgument>,
    checks: Option<Vec<CheckArgument>>,
    repo_id: Option<String>,
    /// the same token returns the first task
    client_token: Option<String>,
}

// What has to be shown before the task is done. Which fields count depends on the kind; the domain judges them.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ContractArgument {
    kind: KindWord,
    external_ref: Option<String>,
    required_checks: Option<Vec<String>>,
    branch: Option<String>,
    files: Option<Vec<String>>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum KindWord {
    None,
    Manual,
    GithubPr,
    GitlabMr,
    Commands,
}

impl From<ContractArgument> for VerificationContract {
    fn from(given: ContractArgument) -> Self {
        VerificationContract {
            kind: match given.kind {
                KindWord::None => VerificationKind::None,
                KindWord::Manual => VerificationKind::Manual,
                KindWord::GithubPr => VerificationKind::GithubPr,
                KindWord::GitlabMr => VerificationKind::GitlabMr,
                KindWord::Commands => VerificationKind::Commands,
            },
            external_ref: given.external_ref,
            required_checks: given.required_checks.unwrap_or_default(),
            branch: given.branch,
            files: given.files.unwrap_or_default(),
        }
    }
}

/// The caller's own key for the row that a call creates.
pub(super) fn client_token(given: Option<String>) -> Result<Option<RetryKey>, Refusal> {
    given.map(|token| RetryKey::token("clientToken", &token)).transpose()
}

/// Creates a task. Under a known `clientToken` it answers with the first one, and `created` is false.
pub(super) async fn add_task(call: &Call<'_>, args: Add) -> Reply {
    let deps = args.depends_on.unwrap_or_default();
    // The contract is the caller's own: kept and returned as it came, and never interpreted.
    let contract = args.execution_contract.map(|contract| Value::Object(contract).to_string());
    let draft = TaskDraft {
        project: None,
        title: args.title,
        body: args::description(args.description.unwrap_or_default())?,
        priority: args.priority,
        parent: args.plan_id.as_deref().map(task_id).transpose()?,
        repository: args.repo_id,
        deps: deps.iter().map(|dep| task_id(dep)).collect::<Result<_, _>>()?,
        checks: args.checks.unwrap_or_default().into_iter().map(NewCheck::from).collect(),
        verification: args.verification_contract.map(VerificationContract::from),
        execution_contract: contract,
        ..TaskDraft::default()
    };
    let token = client_token(args.client_token)?;
    let (made, created) = call.engine.task_add(call.op, draft, token).await?;
    let task = &made.it.task;
    Ok(json!({
        "taskId": task.id,
        "state": view::state(&made.it, made.now),
        "planId": task.parent,
        "priority": task.priority,
        "createdAt": rfc3339_ms(task.created_at),
        "created": created,
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetDependency {
    task_id: String,
    depends_on: String,
    remove: Option<bool>,
}

pub(super) async fn set_dependency(call: &Call<'_>, args: SetDependency) -> Reply {
    let (task, dep) = (task_id(&args.task_id)?, task_id(&args.depends_on)?);
    let remove = args.remove.unwrap_or(false);
    let (seen, changed) = call.engine.dependency_set(call.op, task, dep, remove).await?;
    let deps: Vec<TaskId> =
        // A removed dep stays in the record as history.
        seen.it.deps.iter().filter(|dep| !dep.removed).map(|dep| dep.id).collect();
    Ok(json!({
        "taskId": task,
        "dependsOn": deps,
        "state": view::state(&seen.it, seen.now),
        "changed": changed,
    }))
}

// Only a blocker keeps a task from being claimed, as long as it is open.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum KindOfComment {
    Question,
    Blocker,
    Note,
    Reference,
    Nack,
}

impl From<KindOfComment> for CommentKind {
    fn from(word: KindOfComment) -> Self {
        match word {
            KindOfComment::Question => CommentKind::Question,
            KindOfComment::Blocker => CommentKind::Blocker,
            KindOfComment::Note => CommentKind::Note,
            KindOfComment::Reference => CommentKind::Reference,
            KindOfComment::Nack => CommentKind::Nack,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Comment {
    task_id: String,
    kind: Option<KindOfComment>,
    body: String,
    /// why; a blocker and a nack need it
    rationale: Option<String>,
    /// the comment this answers
    parent_id: Option<String>,
}

fn comment_id(text: &str) -> Result<CommentId, Refusal> {
    text.parse().map_err(|_| Refusal::CommentNotFound { comment: text.into() })
}

pub(super) async fn comment_on_task(call: &Call<'_>, args: Comment) -> Reply {
    let draft = CommentDraft {
        task: task_id(&args.task_id)?,
        kind: args.kind.map_or(CommentKind::Note, CommentKind::from),
        body: args.body,
        rationale: args.rationale,
        parent: args.parent_id.as_deref().map(comment_id).transpose()?,
    };
    let comment = call.engine.comment_add(call.op, draft).await?.it;
    Ok(json!({
        "commentId": comment.id.to_string(),
        "taskId": comment.task,
        "kind": comment.kind.as_str(),
        "open": comment.is_open(),
        "createdAt": rfc3339_ms(comment.created_at),
    }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resolve {
    comment_id: String,
    resolution: Option<String>,
}

/// Closes a comment. A closed blocker lets its task be claimed again.
pub(super) async fn resolve_comment(call: &Call<'_>, args: Resolve) -> Reply {
    let id = comment_id(&args.comment_id)?;
    let comment = call.engine.comment_resolve(call.op, id, args.resolution).await?.it;
    let resolved = comment.resolved.as_ref();
    Ok(json!({
        "commentId": comment.id.to_string(),
        "taskId": comment.task,
        "open": comment.is_open(),
        "resolvedBy": resolved.map(|resolved| resolved.by.clone()),
        "resolvedAt": resolved.map(|resolved| rfc3339_ms(resolved.at)),
    }))
}
