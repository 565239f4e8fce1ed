//! Prints docs/refusals.md: every "no" with an example, so that agents and people can look it up.

use super::check_document;
use super::model::{actor, task_named};
use crate::attempt::Health;
use crate::ids::{AttemptId, Id};
use crate::refusal::{Refusal, UnmetCheck};

/// One of each; the match in `code` keeps this honest: a new variant without an example fails below.
fn examples() -> Vec<Refusal> {
    let (a, b) = (task_named("A"), task_named("B"));
    let text = |text: &str| text.to_owned();
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
        Refusal::DepsNotClosed { open: vec![(a, text("in_progress"))] },
        Refusal::ChecksNotPassed {
            checks: vec![UnmetCheck {
                index: 0,
                desc: text("tests pass"),
                result: "fail",
                log: None,
            }],
        },
        Refusal::AlreadyClaimed { task: a, holder: actor("bob") },
        Refusal::TaskClosed { task: a, label: text("done") },
        Refusal::SessionActive {
            attempt: AttemptId(Id(7)),
            actor: actor("bob"),
            health: Health::Stalled,
        },
        Refusal::ActorMismatch { expected: text("agent:a"), bound: actor("b") },
        Refusal::ClientMismatch { given: text("x"), bound: text("y") },
        Refusal::NotSessionOwner { owner: actor("bob") },
        Refusal::SessionTerminal { health: Health::Canceled },
        Refusal::Conflict { task: a, what: "status" },
        Refusal::CheckInfrastructure { message: text("check shell 'sh' not found on PATH") },
        Refusal::CheckLogNotFound {
            task: a,
            index: 0,
            why: text("check 0 (tests) has not run yet"),
        },
        Refusal::AuthorizationDenied { verb: text("create"), scope: "tasks:write" },
    ]
}

#[test]
fn every_refusal_is_documented() {
    let source = include_str!("../refusal.rs");
    let is_code = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_uppercase());
    let codes = source.split("} => \"").filter(is_code).count();
    assert_eq!(examples().len(), codes, "a refusal has no example in {}", file!());
    let mut text = String::from(
        "# Refusals\n\nEvery expected \"no\", printed by a test from `domain/src/refusal.rs`. The codes are those of \
         the graph toolset,\nthe CLI and the web board; other toolsets translate them. Beside these a caller can \
         see `UNAVAILABLE` (the\nstore cannot be reached or written), `CANCELED` and `INTERNAL_ERROR` (with a \
         trace id that is in the log).\n\n| code | message, for example | way out | retry as it is |\n|---|---|---|---|\n",
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
    check_document("refusals.md", &text);
}
