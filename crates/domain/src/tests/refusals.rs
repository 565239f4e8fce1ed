//! Prints docs/reference/refusals.md: every "no" with an example, so that agents and people can look it up.

use std::collections::HashSet;

use super::check_document;
use super::model::{actor, task_named};
use crate::board::card::ReviewState;
use crate::board::plan::PlanId;
use crate::crew::{AgentId, MailId};
use crate::ids::{AttemptId, Id};
use crate::policy::Phase;
use crate::refusal::{Hold, Quota, Refusal, ReviewAction, Unactionable, UnmetCheck};
use crate::relay::Problem;
use crate::rights::Profile;
use crate::runs::job::{JobId, JobKind};
use crate::runs::run::OpenRuns;
use crate::task::attempt::Health;
use crate::task::comment::CommentId;
use crate::task::standing::Standing;
use crate::time::Timestamp;

/// At least one example of each variant; a new variant without an example fails below.
fn examples() -> Vec<Refusal> {
    let (a, b) = (task_named("A"), task_named("B"));
    let text = |text: &str| text.to_owned();
    let standing = Standing {
        phase: Phase::Review,
        deps_open: false,
        blocked: false,
        held: false,
        given_up: false,
    };
    vec![
        Refusal::invalid("title cannot be empty"),
        Refusal::TaskNotFound { task: a.to_string() },
        Refusal::SessionNotFound { session: text("ses_x") },
        Refusal::DanglingDependency { task: a.to_string() },
        Refusal::UnknownState {
            given: text("nowhere"),
            known: crate::policy::Policy::default().names(),
        },
        Refusal::DependencyCycle { path: vec![a, b, a] },
        Refusal::DepsNotClosed { task: b, open: vec![(a, text("in_progress"))] },
        Refusal::ChecksNotPassed {
            task: a,
            checks: vec![UnmetCheck {
                index: Some(0),
                desc: text("tests pass"),
                result: "fail",
                log: None,
            }],
        },
        Refusal::AlreadyClaimed { task: a, holder: actor("bob"), hold: Hold::default() },
        Refusal::AlreadyClaimed {
            task: a,
            holder: actor("bob"),
            hold: Hold { is_stalled: true, ..Hold::default() },
        },
        Refusal::ChecksNotPassed {
            task: a,
            checks: vec![UnmetCheck {
                index: None,
                desc: text("verification manual"),
                result: "pending",
                log: None,
            }],
        },
        Refusal::NotHolder { task: a, actor: actor("ada"), holder: Some(actor("bob")) },
        Refusal::NotHolder { task: a, actor: actor("ada"), holder: None },
        Refusal::StaleFence { task: a, given: 2, current: 3 },
        Refusal::NotActionable { task: a, why: Unactionable::Blocker(CommentId(Id(7))) },
        Refusal::NotActionable { task: a, why: Unactionable::Plan },
        Refusal::NotActionable { task: a, why: Unactionable::Standing(standing) },
        Refusal::IllegalMove {
            task: a,
            from: standing,
            to: "done",
            completed_by_caller: true,
            failed: None,
        },
        Refusal::AlreadyStarted { task: a, label: text("in_progress"), at: standing },
        Refusal::AlreadyOver { task: a, label: text("done"), at: standing },
        Refusal::BlockersMax { task: a, actor: actor("ada") },
        Refusal::CommentNotFound { comment: "cmt_x".into() },
        Refusal::NotTaskAuthor { task: a, author: Some(actor("ada")) },
        Refusal::NotCommentAuthor { comment: CommentId(Id(7)), author: actor("ada") },
        Refusal::QuotaExceeded(Quota {
            metric: "knowledge_stored",
            limit: 1000,
            used: 998,
            requested: 3,
            period: "2026-06".into(),
            next_reset_at: Timestamp(0),
        }),
        Refusal::JobLost { job: JobId(Id(7)) },
        Refusal::JobNotFound { job: JobId(Id(7)).to_string() },
        Refusal::InvalidSpec {
            problems: vec![Problem { path: text("execution.ttlS"), problem: text("is required") }],
        },
        Refusal::TooManyJobs { open: OpenRuns { queued: 997, running: 3 }, limit: 1000 },
        Refusal::NoPlace { limit: 3 },
        Refusal::TooManyCalls { limit: 100 },
        Refusal::NoQuestion { job: JobId(Id(7)) },
        Refusal::ProfileDenied {
            verb: text("jobs_submit"),
            needed: Profile::PairWorker,
            held: Profile::Viewer,
        },
        Refusal::SharedActor {
            verb: text("claim"),
            actor: "agent:claude-code".parse().expect("an actor"),
        },
        Refusal::TaskClosed { task: a, label: text("done") },
        Refusal::SessionActive {
            attempt: AttemptId(Id(7)),
            actor: actor("bob"),
            health: Health::Stalled,
        },
        Refusal::NotCancelable { job: JobId(Id(7)), kind: JobKind::Embed },
        Refusal::Closed { task: a, label: text("done") },
        Refusal::ExecutorMissing {
            executor: text("codex"),
            found: vec![text("claude"), text("gemini")],
        },
        Refusal::ActorMismatch { expected: text("agent:a"), bound: actor("b") },
        Refusal::ClientMismatch { given: text("x"), bound: text("y") },
        Refusal::NotSessionOwner { owner: actor("bob") },
        Refusal::SessionTerminal { health: Health::Canceled },
        Refusal::Conflict { task: a, what: "status" },
        Refusal::CheckInfrastructure { message: text("check shell 'sh' not found on PATH") },
        Refusal::WorkspaceNotReady { message: text("workspace.setup failed with exit 1") },
        Refusal::NoCommit { message: text("the repository has no commit yet") },
        Refusal::CheckLogNotFound {
            task: a,
            index: 0,
            why: text("check 0 (tests) has not run yet"),
        },
        Refusal::RemovedByRetention {
            what: text("events after 7 were removed; the log is whole after 4710"),
            setting: "retention.events_days",
        },
        Refusal::AuthorizationDenied { verb: text("create"), scope: "tasks:write" },
        Refusal::AuthorizationDenied { verb: text("create"), scope: "commands:run" },
        Refusal::ProjectNotFound { project: text("prj_9") },
        Refusal::ParentNotFound { task: a.to_string() },
        Refusal::ParentCycle { task: a, parent: b },
        Refusal::HasDependents { task: a, open: vec![b] },
        Refusal::NotAuto { task: a },
        Refusal::ReviewNotReady { task: a, label: text("backlog") },
        Refusal::ReviewDecided {
            task: a,
            saw: ReviewState::Requested,
            now: Some((ReviewState::Approved, actor("ana"), Timestamp(0))),
        },
        Refusal::WorkMoved { task: a, read: text("3f2a1c9"), now: Some(text("9ab04e1")) },
        Refusal::TaskChanged { task: a, fields: vec!["title", "checks"] },
        Refusal::NotApproved { task: a },
        Refusal::AgentAtWork { task: a, agent: actor("bob"), action: ReviewAction::Merge },
        Refusal::NotPair { task: a },
        Refusal::NotRunning { task: a },
        Refusal::OutsideTask { task: b.to_string(), bound: a },
        Refusal::MixedArguments {
            verb: text("jobs_submit"),
            one: text("task_id"),
            other: text("spec"),
        },
        Refusal::InvalidRepoPath { path: text("/srv/shop"), why: text("is no git repository") },
        Refusal::InvalidSetting {
            message: text("general.max_concurrent_agents must be 1..10, got 11"),
        },
        Refusal::PlanNotFound { plan: text("plan_x") },
        Refusal::PlanDecided { plan: PlanId(Id(7)), state: "approved" },
        Refusal::AgentNotFound { agent: text("worker-123") },
        Refusal::AgentExists { agent: AgentId::parse("worker-123").expect("an id") },
        Refusal::MailNotFound { mail: text("mail-123") },
        Refusal::MailOfAnother { mail: MailId(Id(7)) },
        Refusal::KeyReused { verb: text("create") },
        Refusal::AnswerNotKept { verb: text("create") },
        Refusal::EpicNotFound { epic: a.to_string() },
        Refusal::AgentState { message: text("Task is in state PENDING, expected REVIEW") },
        Refusal::CrewInput { message: text("Invalid state transition from PENDING to REVIEW") },
        Refusal::MergeConflict { task: a, files: vec![text("a.rs"), text("b.rs")] },
        Refusal::CrewDenied { message: text("Task does not belong to this epic") },
    ]
}

#[test]
fn every_refusal_is_documented() {
    let source = include_str!("../refusal.rs");
    let body = source.split("pub enum Refusal {").nth(1).and_then(|rest| rest.split("\n}").next());
    let is_variant = |line: &&str| line.trim().starts_with(|c: char| c.is_ascii_uppercase());
    let variants = body.expect("the enum").lines().filter(is_variant).count();
    let shown: HashSet<_> = examples().iter().map(std::mem::discriminant).collect();
    assert_eq!(shown.len(), variants, "a refusal has no example in {}", file!());
    let mut text = String::from(
        "# Refusals\n\nThis page is generated from `domain/src/refusal.rs`. `CALLBOARD_BLESS=1 cargo test --lib` rewrites \
         it.\n\nA refusal is an expected \"no\": a code, a message and a way out. The codes below are those of the core, \
         which the toolset graph, the CLI and the web board use. The other toolsets have words of their own; the page of \
         each toolset lists its codes. A caller can also see `UNAVAILABLE` (the store cannot be reached or written), \
         `STORE_DAMAGED` (the database is damaged; repeating the call does not help), `CANCELED`, and `INTERNAL_ERROR` \
         (the answer has the trace id of the log).\n\nThe last column says whether the same call may succeed later \
         without a change.\n\n| code | message, for example | way out | retry as it is |\n|---|---|---|---|\n",
    );
    for refusal in examples() {
        text += &format!(
            "| `{}` | {} | {} | {} |\n",
            refusal.code(),
            refusal.message(),
            refusal.hint().unwrap_or_else(|| "the message says what to change".into()),
            if refusal.retryable() { "yes" } else { "no" },
        );
    }
    check_document("reference/refusals.md", &text);
}
