//! Judging input: lengths, blanks, paths. Messages name the field.

use crate::command::NewCheck;
use crate::forge::{ForgeKind, ForgeRef, ForgeRefError};
use crate::limits::*;
use crate::refusal::Refusal;
use crate::task::contract::{VerificationContract, VerificationKind};
use crate::task::{Check, CheckKind};

/// A title, without blanks around it.
pub(crate) fn title(text: &str) -> Result<String, Refusal> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Refusal::invalid_field("title", "title cannot be empty"));
    }
    longest("title", text, TITLE_CHARS_MAX)?;
    Ok(text.to_owned())
}

/// A body; it may be empty. The limit is in bytes, since the store keeps bytes.
pub(crate) fn body(text: &str) -> Result<String, Refusal> {
    if text.len() > BODY_BYTES_MAX {
        let message = format!("body must be at most {BODY_BYTES_MAX} bytes, got {}", text.len());
        return Err(Refusal::invalid_field("body", message));
    }
    Ok(text.to_owned())
}

/// A priority from 0 (first) to 1000.
pub(crate) fn priority(given: u16) -> Result<u16, Refusal> {
    if given > crate::task::PRIORITY_MAX {
        let message = format!("priority must be 0..1000, got {given}");
        return Err(Refusal::invalid_field("priority", message));
    }
    Ok(given)
}

/// A text that must not be blank; `complaint` is the message when it is.
pub(crate) fn said<'t>(
    field: &str,
    text: &'t str,
    chars_max: usize,
    complaint: &str,
) -> Result<&'t str, Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::invalid_field(field, complaint));
    }
    longest(field, text, chars_max)?;
    Ok(text)
}

/// A text that may be left out, but not blank.
pub(crate) fn optional(
    field: &str,
    text: Option<&String>,
    chars_max: usize,
) -> Result<(), Refusal> {
    match text {
        None => Ok(()),
        Some(text) => said(field, text, chars_max, &format!("{field} cannot be blank")).map(|_| ()),
    }
}

/// Refuses a text of more characters than `chars_max`.
pub(crate) fn longest(field: &str, text: &str, chars_max: usize) -> Result<(), Refusal> {
    // A text has at most as many characters as bytes, so short texts are never counted.
    if text.len() <= chars_max {
        return Ok(());
    }
    let chars = text.chars().count();
    if chars > chars_max {
        let message = format!("{field} must be at most {chars_max} characters, got {chars}");
        return Err(Refusal::invalid_field(field, message));
    }
    Ok(())
}

/// Judges a contract: it must fit the task's checks, its lists the limits, and its reference a forge.
pub(crate) fn contract(
    given: Option<&VerificationContract>,
    checks: &[Check],
) -> Result<Option<VerificationContract>, Refusal> {
    let Some(contract) = given else { return Ok(None) };
    match contract.kind {
        VerificationKind::None if !checks.is_empty() => {
            return Err(Refusal::invalid(
                "verificationContract none does not go with checks: leave it out, or the checks",
            ));
        }
        VerificationKind::Commands if !checks.iter().any(Check::is_command) => {
            return Err(Refusal::invalid("verificationContract commands needs a check with a cmd"));
        }
        VerificationKind::None
        | VerificationKind::Manual
        | VerificationKind::GithubPr
        | VerificationKind::GitlabMr
        | VerificationKind::Commands => {}
    }
    let lists = [("requiredChecks", &contract.required_checks), ("files", &contract.files)];
    for (field, list) in lists {
        if list.len() > CONTRACT_ITEMS_MAX {
            let got = list.len();
            let words = format!("{field} must have at most {CONTRACT_ITEMS_MAX} items, got {got}");
            return Err(Refusal::invalid_field(field, words));
        }
        for item in list {
            said(field, item, CONTRACT_ITEM_CHARS_MAX, &format!("{field} has a blank item"))?;
        }
    }
    optional("branch", contract.branch.as_ref(), CONTRACT_ITEM_CHARS_MAX)?;
    external_ref(contract.kind, contract.external_ref.as_deref())?;
    Ok(Some(contract.clone()))
}

/// Refuses a reference that its forge cannot be asked about.
pub(crate) fn external_ref(kind: VerificationKind, given: Option<&str>) -> Result<(), Refusal> {
    let Some(given) = given else { return Ok(()) };
    let refuse = |error: ForgeRefError| {
        Refusal::invalid_field("externalRef", format!("externalRef: {error}"))
    };
    match kind.forge() {
        Some(forge) => ForgeRef::parse(forge, given).map(|_| ()).map_err(refuse),
        // A contract without a forge still keeps a reference for people, so it must be one of some forge.
        None => ForgeRef::parse(ForgeKind::GitHub, given)
            .or_else(|_| ForgeRef::parse(ForgeKind::GitLab, given))
            .map(|_| ())
            .map_err(refuse),
    }
}

/// The contract as it was given. The core does not read it; agents do.
pub(crate) fn execution_contract(given: Option<&String>) -> Result<Option<String>, Refusal> {
    match given {
        Some(text) if text.len() > CONTRACT_BYTES_MAX => {
            let got = text.len();
            let words =
                format!("executionContract must be at most {CONTRACT_BYTES_MAX} bytes, got {got}");
            Err(Refusal::invalid_field("executionContract", words))
        }
        given => Ok(given.cloned()),
    }
}

/// The checks of a task, all without a result. Messages count from 0, as callers name checks.
pub(crate) fn checks(given: &[NewCheck]) -> Result<Vec<Check>, Refusal> {
    if given.len() > CHECKS_MAX {
        let message = format!("at most {CHECKS_MAX} checks, got {}", given.len());
        return Err(Refusal::invalid(message));
    }
    given.iter().enumerate().map(|(index, new)| check(index, new)).collect()
}

/// One check: with a command it runs, without one a person attests it.
fn check(index: usize, new: &NewCheck) -> Result<Check, Refusal> {
    let refuse = |what: &str| Refusal::invalid(format!("check {index}: {what}"));
    let desc = new.desc.trim();
    if desc.is_empty() {
        return Err(refuse("desc is required"));
    }
    longest(&format!("check {index}: desc"), desc, CHECK_DESC_CHARS_MAX)?;
    let kind = match &new.cmd {
        Some(_) if new.manual => return Err(refuse("a manual check has no cmd")),
        None if new.cwd.is_some() || new.timeout_s.is_some() => {
            return Err(refuse("only a check with a cmd has cwd and timeout"));
        }
        None => CheckKind::Manual,
        Some(cmd) => {
            if cmd.trim().is_empty() || cmd.contains('\0') {
                return Err(refuse("cmd cannot be blank; leave it out for a manual check"));
            }
            longest(&format!("check {index}: cmd"), cmd, CHECK_CMD_CHARS_MAX)?;
            if new.timeout_s.is_some_and(|s| !(1..=CHECK_TIMEOUT_S_MAX).contains(&s)) {
                return Err(refuse("timeout must be 1..3600 seconds"));
            }
            let cwd = new.cwd.as_deref().unwrap_or(".").trim();
            longest(&format!("check {index}: cwd"), cwd, CHECK_CWD_CHARS_MAX)?;
            if !stays_inside(cwd) {
                return Err(refuse("cwd must stay inside the repo"));
            }
            let cwd = if cwd.is_empty() { "." } else { cwd };
            CheckKind::Command { cmd: cmd.clone(), cwd: cwd.into(), timeout_s: new.timeout_s }
        }
    };
    Ok(Check { desc: desc.into(), kind, verdict: None, is_stale: false })
}

/// Whether a relative path can be joined to a root without leaving it, as far as its text tells. Links are judged
/// again where the path is resolved.
fn stays_inside(path: &str) -> bool {
    let absolute = path.starts_with('/') || path.starts_with('\\') || path.contains(':');
    if absolute || path.contains('\0') {
        return false;
    }
    let mut depth = 0i32;
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return false;
        }
    }
    true
}
