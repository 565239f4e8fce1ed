//! The first step of a verification, and which of its faults are final, as tables.

use super::model::{Model, actor};
use crate::command::Found;
use crate::decide::verification::{VerifyFault, VerifyStep, verify_step};
use crate::forge::{ForgeReason, ForgeVerdict};
use crate::policy::Policy;
use crate::task::Task;
use crate::task::contract::{
    Verification, VerificationContract, VerificationKind, VerificationStatus,
};
use crate::time::Timestamp;

fn shown(found: Found) -> String {
    match found {
        Found::Passed => "passed".into(),
        Found::Pending { reason } => format!("pending {reason}"),
        Found::Failed { reason } => format!("failed {reason}"),
    }
}

#[test]
fn a_fault_that_needs_a_person_is_final_and_others_wait() {
    for (fault, expected) in [
        (VerifyFault::NoReference, "failed verification.missing_external_ref"),
        (VerifyFault::BadReference, "failed verification.bad_external_ref"),
        (VerifyFault::RequestNotFound, "failed verification.bad_external_ref"),
        (VerifyFault::ForgeUnconfigured, "failed verification.forge_unconfigured"),
        (VerifyFault::ForgeRefused, "failed verification.forge_unconfigured"),
        (VerifyFault::ForgeUnavailable, "pending verification.forge_unavailable"),
        (VerifyFault::ChecksUnavailable, "pending verification.infrastructure"),
    ] {
        assert_eq!(shown(fault.found()), expected, "{fault:?}");
    }
    let reason = || ForgeReason { code: "verification.pr_not_merged", words: "open".into() };
    for (verdict, expected) in [
        (ForgeVerdict::Passed, "passed"),
        (ForgeVerdict::Pending(reason()), "pending verification.pr_not_merged"),
        (ForgeVerdict::Failed(reason()), "failed verification.pr_not_merged"),
    ] {
        assert_eq!(shown(verdict.into()), expected);
    }
}

/// Lines `kind, open blockers, reference of the completion, reference of the contract => step`; `-` is no reference.
const STEPS: &str = "
    none      0 -         -        => checks
    manual    0 -         -        => checks
    commands  0 -         -        => checks
    commands  1 -         -        => pending verification.blocked_by_review
    github_pr 0 -         -        => failed verification.missing_external_ref
    github_pr 1 -         -        => pending verification.blocked_by_review
    github_pr 0 -         o/r#1    => GitHub o/r#1
    github_pr 0 o/r#2     o/r#1    => GitHub o/r#2
    github_pr 0 o/r#2     -        => GitHub o/r#2
    github_pr 0 nothing   o/r#1    => failed verification.bad_external_ref
    github_pr 0 o/r!2     -        => failed verification.bad_external_ref
    github_pr 2 o/r!2     -        => pending verification.blocked_by_review
    gitlab_mr 0 o/r!2     -        => GitLab o/r!2
    gitlab_mr 0 o/r#2     -        => failed verification.bad_external_ref
";

#[test]
fn a_verification_asks_the_forge_that_its_contract_names() {
    let mut model = Model::new(Policy::default());
    let create = model.command("create A");
    model.act("ana", &create).expect("created");
    let made = model.task("A");
    for line in STEPS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (given, expected) = line.split_once("=>").expect("a => b");
        let words: Vec<&str> = given.split_whitespace().collect();
        let named = |word: &str| Some(word.to_owned()).filter(|word| word != "-");
        let kind = VerificationKind::ALL.into_iter().find(|kind| kind.as_str() == words[0]);
        let contract = VerificationContract {
            external_ref: named(words[3]),
            ..VerificationContract::of(kind.expect("a kind"))
        };
        let task = Task {
            open_blockers: words[1].parse().expect("a number"),
            verification: Some(Verification {
                status: VerificationStatus::Pending,
                reason: None,
                external_ref: named(words[2]),
                pendings: 0,
                by: actor("w1"),
                at: Timestamp(1),
                tree: None,
            }),
            ..made.clone()
        };
        let step = match verify_step(&task, &contract) {
            VerifyStep::Found(found) => shown(found),
            VerifyStep::AskForge { kind, request } => format!("{kind} {}", request.short(kind)),
            VerifyStep::RunChecks => "checks".into(),
        };
        assert_eq!(step, expected.trim(), "{line}");
    }
}
