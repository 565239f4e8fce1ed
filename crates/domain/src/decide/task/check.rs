//! Checks: which to run, what their results mean, attesting by hand.

use serde_json::json;

use crate::command::{Basis, Checked};
use crate::decide::draft::Draft;
use crate::decide::task::verification;
use crate::event::EventName;
use crate::ids::TaskId;
use crate::refusal::{Refusal, UnmetCheck};
use crate::task::{Check, CheckKind, Task, Verdict, VerdictSource};
use crate::time::Timestamp;
use crate::world::{Change, World};

/// Command checks that must run before the task may close: all that are not `pass` for this tree.
pub fn checks_to_run(task: &Task, tree: Option<&str>) -> Vec<usize> {
    let stale = |check: &Check| check.is_command() && !check.passes_for(tree, None);
    (0..task.checks.len()).filter(|index| stale(&task.checks[*index])).collect()
}

/// Command checks that have no result for this tree.
pub fn checks_unknown(task: &Task, tree: Option<&str>) -> Vec<usize> {
    let unknown = |check: &Check| check.is_command() && !check.is_known_for(tree);
    (0..task.checks.len()).filter(|index| unknown(&task.checks[*index])).collect()
}

/// The command checks a caller asked to run, `only` empty meaning all. Manual ones are skipped.
pub fn judge_run_request(task: &Task, only: &[usize]) -> Result<Vec<usize>, Refusal> {
    for index in only {
        check_at(task, *index)?;
    }
    let wanted = |index: &usize| only.is_empty() || only.contains(index);
    Ok((0..task.checks.len())
        .filter(wanted)
        .filter(|index| task.checks[*index].is_command())
        .collect())
}

/// The check of an index, which counts from 0.
fn check_at(task: &Task, index: usize) -> Result<&Check, Refusal> {
    task.checks.get(index).ok_or_else(|| {
        Refusal::invalid(format!(
            "check index {index} is out of range; task {} has {} checks",
            task.id,
            task.checks.len()
        ))
    })
}

/// The log of a check's last run, or a refusal that says why there is none.
pub fn log_of(task: &Task, index: usize) -> Result<&str, Refusal> {
    let check = check_at(task, index)?;
    let none = |why: &str| {
        let why = format!("check {index} ({}) {why}", check.desc);
        Refusal::CheckLogNotFound { task: task.id, index, why }
    };
    match (check.verdict.as_ref().map(|verdict| &verdict.source), &check.kind) {
        (Some(VerdictSource::Run { log, .. }), _) => Ok(log),
        (_, CheckKind::Manual) => Err(none("is manual; only commands have a log")),
        (_, CheckKind::Command { .. }) => Err(none("has not run yet")),
    }
}

/// Records results of checks without a move. Results of checks that were changed meanwhile are refused.
pub(crate) fn check_run(
    world: &World<'_>,
    id: TaskId,
    checked: &Checked,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    if !same_checks(&draft.task, &checked.basis) {
        return Err(Refusal::Conflict { task: id, what: "checks" });
    }
    record(&mut draft, checked);
    draft.entry("ran checks", summary(&draft.task, &checked.runs));
    Ok(draft.done())
}

/// Records a verdict on a manual check, for the files `tree`. Who may attest is a setting of the project.
pub(crate) fn check_attest(
    world: &World<'_>,
    id: TaskId,
    index: usize,
    pass: bool,
    tree: Option<String>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    let check = check_at(&draft.task, index)?;
    match check.kind {
        CheckKind::Manual => {}
        CheckKind::Command { .. } => {
            return Err(Refusal::invalid(format!(
                "check {index} ({}) is a command check and cannot be attested",
                check.desc
            )));
        }
    }
    world.policy.may_attest(world.actor, draft.task.assignee.as_ref()).map_err(Refusal::invalid)?;
    let source = VerdictSource::Attested { by: world.actor.clone() };
    draft.task.checks[index].verdict = Some(Verdict { pass, at: now, tree, source });
    let result = draft.task.checks[index].result();
    draft.event(EventName::CheckAttested, json!({"index": index, "result": result}));
    if pass {
        verification::nudge(&mut draft, verification::MANUAL_CHECK_PENDING);
    }
    draft.entry("attested", Some(format!("check {index} {result}")));
    Ok(draft.done())
}

/// Writes results into the draft, each with its event.
pub(crate) fn record(draft: &mut Draft<'_>, checked: &Checked) {
    for (index, verdict) in &checked.runs {
        let Some(check) = draft.task.checks.get_mut(*index) else { continue };
        check.verdict = Some(verdict.clone());
        let (result, tree, took_ms) = (check.result(), &verdict.tree, verdict.took_ms());
        let data = json!({"index": index, "result": result, "tree": tree, "took_ms": took_ms});
        draft.event(EventName::CheckRan, data);
    }
}

/// Results of the checks that ran in this call, as `0 pass, 1 fail`; `None` when none ran.
pub(crate) fn summary(task: &Task, runs: &[(usize, Verdict)]) -> Option<String> {
    let parts: Vec<_> = runs
        .iter()
        .filter_map(|(index, _)| Some(format!("{index} {}", task.checks.get(*index)?.result())))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Checks that do not pass. A stored pass that `passes` rejects was given for other files: it is reported as stale,
/// as readers of the task see it.
pub(crate) fn unmet(task: &Task, passes: impl Fn(&Check) -> bool) -> Vec<UnmetCheck> {
    let unmet = |(index, check): (usize, &Check)| UnmetCheck {
        index: Some(index),
        desc: check.desc.clone(),
        result: if check.is_pass() { "stale" } else { check.result() },
        log: check.verdict.as_ref().and_then(|verdict| match &verdict.source {
            VerdictSource::Run { log, .. } => Some(log.clone()),
            VerdictSource::Attested { .. } => None,
        }),
    };
    task.checks.iter().enumerate().filter(|(_, check)| !passes(check)).map(unmet).collect()
}

/// Whether the task still has the checks that ran.
pub(crate) fn same_checks(task: &Task, basis: &Basis) -> bool {
    task.checks.len() == basis.checks.len()
        && task.checks.iter().zip(&basis.checks).all(|(now, then)| now.same_definition(then))
}

/// The first thing a move depends on that changed since the checks started.
pub(crate) fn changed_meanwhile(draft: &Draft<'_>, basis: &Basis) -> Option<&'static str> {
    let deps_now = draft.subject.deps.iter().map(|dep| dep.id);
    if draft.task.label != basis.label {
        Some("status")
    } else if !deps_now.eq(basis.deps.iter().copied()) {
        Some("deps")
    } else if !same_checks(&draft.task, basis) {
        Some("checks")
    } else {
        None
    }
}
