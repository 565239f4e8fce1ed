//! Tasks: create, edit, remove, claim, release, move, note.

pub mod attempt;
pub mod block;
pub mod check;
pub mod comment;
pub mod dependency;
pub mod lease;
pub mod tell;
pub mod update;
pub mod verification;

use std::collections::BTreeSet;

use serde_json::json;

use crate::board::card::Card;
use crate::command::{Checked, TaskCreate, TaskEdit};
use crate::decide::board::card;
use crate::decide::draft::Draft;
use crate::decide::input;
use crate::decide::runs::stop;
use crate::event::{About, Event, EventName};
use crate::ids::{Prefix, TaskId};
use crate::limits::{
    DEPS_MAX, IMPORTED_AT_ONCE_MAX, NOTE_CHARS_MAX, REFERENCE_CHARS_MAX, TASKS_AT_ONCE_MAX,
};
use crate::policy::{Label, Phase, Policy};
use crate::refusal::found::{AsParent, Sought as _};
use crate::refusal::{Quota, Refusal};
use crate::task::attempt::{Attempt, AttemptEnd, AttemptKind};
use crate::task::contract::VerificationContract;
use crate::task::{Dep, Entry, Task};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

pub(crate) fn task_create(
    world: &World<'_>,
    new: &TaskCreate,
    now: Timestamp,
) -> Result<Change, Refusal> {
    task_create_after(world, &[], new, now)
}

/// Creates one task of a command that creates several; `earlier` are the tasks it creates before this one. A task may
/// depend on them and be part of them.
pub(crate) fn task_create_after(
    world: &World<'_>,
    earlier: &[Dep],
    new: &TaskCreate,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let title = input::title(&new.title)?;
    let body = input::body(&new.body)?;
    let priority = input::priority(new.priority)?;
    let checks = input::checks(&new.checks)?;
    // A dep that is named twice counts once; the order of the caller is kept.
    let mut deps: Vec<TaskId> = Vec::with_capacity(new.deps.len());
    for dep in &new.deps {
        if !deps.contains(dep) {
            deps.push(*dep);
        }
    }
    if deps.len() > DEPS_MAX {
        return Err(Refusal::invalid(format!("at most {DEPS_MAX} deps, got {}", deps.len())));
    }
    let mut open_deps = 0;
    for dep in &deps {
        let mut named = world.named.iter().chain(earlier);
        let known = named.find(|named| named.id == *dep && !named.removed);
        let known = known.ok_or_else(|| Refusal::DanglingDependency { task: dep.to_string() })?;
        open_deps += u32::from(known.is_open());
    }
    if let Some(parent) = new.parent {
        let mut named = world.named.iter().chain(earlier);
        let known = named.any(|named| named.id == parent && !named.removed);
        if !known {
            return Err(AsParent(parent).not_found());
        }
    }
    input::optional("reference", new.reference.as_ref(), REFERENCE_CHARS_MAX)?;
    if let Some(task) = new.named().and_then(|name| world.references.get(&name)) {
        // Another import was quicker.
        return Err(Refusal::Conflict { task: *task, what: "its reference" });
    }
    let contract = input::contract(new.verification.as_ref(), &checks)?;
    let new_card = card::new_card(&new.card)?;
    let execution_contract = input::execution_contract(new.execution_contract.as_ref())?;
    for note in &new.notes {
        input::said("notes", note, NOTE_CHARS_MAX, "a note cannot be blank")?;
    }
    let is_gated = !checks.is_empty() || contract.is_some();
    let label = judge_start(world, earlier, new, &deps, is_gated)?;
    Quota::judge(new.over_quota.as_ref())?;
    // A task that starts elsewhere is still created with the first label and then moved: readers of the log see one way
    // of birth.
    let initial = world.policy.initial();
    let task = Task {
        id: new.task,
        number: next_number(world, earlier, new.task.prefix),
        project: new.project,
        reference: new.reference.clone(),
        title,
        label: label.name.clone(),
        phase: label.phase,
        phase_at: now,
        priority,
        assignee: None,
        parent: new.parent,
        is_plan: new.is_plan,
        checks,
        contract,
        verification: None,
        blocked: None,
        open_blockers: 0,
        open_deps,
        fence: 0,
        newest_attempt: None,
        entries: 1 + new.notes.len() as u32,
        created_at: now,
        updated_at: now,
    };
    let who = world.actor.clone();
    let entry = Entry { who: who.clone(), at: now, did: "created".into(), text: None };
    let data =
        json!({"title": task.title, "status": initial.name, "deps": deps, "parent": task.parent});
    let about = Some(About { project: task.project, task: task.id, attempt: None });
    let event = |name, data| Event { actor: who.clone(), name, about, data };
    let mut events = vec![event(EventName::TaskCreated, data)];
    if label.phase != initial.phase {
        let data = json!({"from": initial.name, "to": label.name, "phase": label.phase});
        events.push(event(EventName::TaskStatusChanged, data));
    }
    let id = task.id;
    let noted = new.notes.iter().zip(2..).map(|(text, number)| {
        let entry =
            Entry { who: who.clone(), at: now, did: "note".into(), text: Some(text.clone()) };
        Write::EntryPut { task: id, number, entry, attempt: None }
    });
    let noted: Vec<Write> = noted.collect();
    events.extend(new.notes.iter().map(|text| event(EventName::TaskNoted, json!({"text": text}))));
    let card =
        (new_card != Card::default()).then_some(Write::CardPut { task: task.id, card: new_card });
    // A task with parts is a plan from its first part on.
    let parent = new.parent.map(|parent| Write::PlanMark { task: parent });
    Ok(Change {
        reply: Reply::Task(task.id),
        writes: parent
            .into_iter()
            .chain([
                Write::EntryPut { task: task.id, number: 1, entry, attempt: None },
                Write::TaskInsert { task, body, execution_contract, deps },
            ])
            .chain(noted)
            .chain(card)
            .collect(),
        events,
        but: None,
    })
}

/// The number after the newest one of a prefix. A removed task counts, so no number is given twice.
fn next_number(world: &World<'_>, earlier: &[Dep], prefix: Prefix) -> u32 {
    let last = world.numbers.get(&prefix).copied().unwrap_or(0);
    let given = earlier.iter().filter(|task| task.id.prefix == prefix).count();
    last + given as u32 + 1
}

/// Creates every task of a list, or none: the first task that is refused refuses the list.
pub(crate) fn task_create_all(
    world: &World<'_>,
    all: &[TaskCreate],
    now: Timestamp,
) -> Result<Change, Refusal> {
    // An import carries references to another tool and may be larger than a caller's list.
    let is_import = !all.is_empty() && all.iter().all(|new| new.reference.is_some());
    let most = if is_import { IMPORTED_AT_ONCE_MAX } else { TASKS_AT_ONCE_MAX };
    if !(1..=most).contains(&all.len()) {
        let got = all.len();
        return Err(Refusal::invalid(format!("tasks must hold 1..{most}, got {got}")));
    }
    let (mut writes, mut events, mut earlier) = (Vec::new(), Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    for (place, new) in all.iter().enumerate() {
        if new.named().is_some_and(|name| !names.insert(name)) {
            let twice = Refusal::invalid_field("reference", "two of the tasks have this reference");
            return Err(twice.of_task_at(place));
        }
        let change = task_create_after(world, &earlier, new, now)
            .map_err(|refusal| refusal.of_task_at(place))?;
        earlier.push(just_created(world, new)?);
        writes.extend(change.writes);
        events.extend(change.events);
    }
    Ok(Change { writes, events, reply: Reply::Noted, but: None })
}

/// A task that this command creates, as later tasks of the command see it.
pub(crate) fn just_created(world: &World<'_>, new: &TaskCreate) -> Result<Dep, Refusal> {
    let label = match new.phase {
        Phase::Initial => world.policy.initial(),
        phase => card::label_of(world.policy, phase)?,
    };
    let (id, label, phase) = (new.task, label.name.clone(), label.phase);
    Ok(Dep { id, label, phase, removed: false, lease_expires_at: None })
}

/// The label a new task starts with. A new task has shown nothing yet, so one with checks cannot start as done.
fn judge_start<'p>(
    world: &World<'p>,
    earlier: &[Dep],
    new: &TaskCreate,
    deps: &[TaskId],
    is_gated: bool,
) -> Result<&'p Label, Refusal> {
    if new.phase == Phase::Initial {
        return Ok(world.policy.initial());
    }
    let known = world.named.iter().chain(earlier).filter(|named| deps.contains(&named.id));
    deps_gate(new.task, &known.cloned().collect::<Vec<_>>())?;
    if new.phase.is_closed() && is_gated {
        return Err(Refusal::invalid("a task with checks cannot be created as done"));
    }
    card::label_of(world.policy, new.phase)
}

/// Edits a task's own fields; any actor that may write may do so, held or not. New checks have no results.
pub(crate) fn task_edit(
    world: &World<'_>,
    edit: &TaskEdit,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, edit.task, now)?;
    let mut fields = Vec::new();
    if let Some(title) = &edit.title {
        draft.task.title = input::title(title)?;
        fields.push("title");
    }
    if let Some(priority) = edit.priority {
        draft.task.priority = input::priority(priority)?;
        fields.push("priority");
    }
    if let Some(checks) = &edit.checks {
        draft.task.checks = input::checks(checks)?;
        fields.push("checks");
    }
    if let Some(body) = &edit.body {
        let body = input::body(body)?;
        draft.write(Write::BodyReplace { task: edit.task, body });
        fields.push("body");
    }
    if fields.is_empty() {
        return Err(Refusal::invalid("nothing to edit: give a title, body, priority or checks"));
    }
    draft.event(EventName::TaskUpdated, json!({"fields": fields}));
    draft.entry("edited", Some(fields.join(", ")));
    Ok(draft.done())
}

/// Removes a task and leaves a tombstone: the task is not found any more, and a dep on it counts as closed.
pub(crate) fn task_remove(
    world: &World<'_>,
    id: TaskId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let draft = Draft::of_task(world, id, now)?;
    if let Some(refusal) = draft.held_by_another().filter(|_| !world.actor.is_human()) {
        return Err(refusal);
    }
    Ok(removed(draft))
}

/// Removes the task, held or not.
pub(crate) fn removed(mut draft: Draft<'_>) -> Change {
    draft.end_live(AttemptEnd::Canceled { reason: "task removed".into() });
    if !draft.task.phase.is_closed() {
        draft.adjust_dependents(true);
    }
    draft.event(EventName::TaskDeleted, json!({"title": draft.task.title}));
    draft.entry("removed", None);
    stop::cancel(&mut draft);
    draft.write(Write::TaskTombstone { task: draft.task.id });
    draft.done()
}

/// Claims a task; with `startable`, only one that work can start on.
pub(crate) fn task_claim(
    world: &World<'_>,
    id: TaskId,
    startable: bool,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    if let Some(refusal) = draft.held_by_another() {
        return Err(refusal);
    }
    // Idempotent: the caller has the task already.
    if draft.task.assignee.is_some() {
        return Ok(draft.unchanged(Reply::Task(id)));
    }
    if startable {
        draft.open_gate()?;
        draft.deps_gate()?;
    }
    draft.assign();
    draft.entry("claimed", None);
    Ok(draft.done())
}

/// Gives a task back. A lease ends with it; a session must be finished or canceled first, because it has work to
/// account for.
pub(crate) fn task_release(
    world: &World<'_>,
    id: TaskId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    if let Some(refusal) = draft.held_by_another() {
        return Err(refusal);
    }
    if draft.holder().is_none() {
        return Ok(draft.unchanged(Reply::Task(id)));
    }
    match draft.live.as_ref().map(|live| live.kind) {
        None => {}
        Some(AttemptKind::Execution) => {
            draft.end_live(AttemptEnd::Released);
            draft.give_back(world.actor);
        }
        Some(AttemptKind::Graph | AttemptKind::Pair | AttemptKind::Crew | AttemptKind::Job) => {
            return Err(session_active(&draft));
        }
    }
    draft.unassign();
    draft.entry("released", None);
    Ok(draft.done())
}

/// A person takes a task from its holder: the attempt ends, its agent is stopped, and the task is offered again.
/// Other actors may only release a task they hold.
pub(crate) fn task_take_back(
    world: &World<'_>,
    id: TaskId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if !world.actor.is_human() {
        return task_release(world, id, now);
    }
    let mut draft = Draft::of_task(world, id, now)?;
    let Some(holder) = draft.holder().cloned() else {
        return Ok(draft.unchanged(Reply::Task(id)));
    };
    draft.end_live(AttemptEnd::Canceled { reason: format!("released by {}", world.actor) });
    draft.unassign();
    draft.back_to_start();
    stop::cancel(&mut draft);
    draft.entry("released", Some(format!("taken from {holder}")));
    Ok(draft.done())
}

/// The refusal of a step that the task's live attempt stands against.
pub(crate) fn session_active(draft: &Draft<'_>) -> Refusal {
    let live = draft.live.as_ref().expect("only asked while an attempt is live");
    active(live, draft.world.policy, draft.now)
}

/// As `session_active`, for a caller without a draft.
pub(crate) fn active(live: &Attempt, policy: &Policy, now: Timestamp) -> Refusal {
    let health = live.health(policy, now);
    Refusal::SessionActive { attempt: live.id, actor: live.actor.clone(), health }
}

/// Appends a note to the history. Anyone may, also on a closed task.
pub(crate) fn task_note(
    world: &World<'_>,
    id: TaskId,
    text: &str,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let text = input::said("text", text, NOTE_CHARS_MAX, "text cannot be blank")?;
    let mut draft = Draft::of_task(world, id, now)?;
    draft.event(EventName::TaskNoted, json!({"text": text}));
    draft.entry("note", Some(text.to_owned()));
    Ok(draft.done())
}

/// What stands between a task and a label, before any check has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransitionGate {
    Free(Label),
    /// Every check must pass first.
    Checks(Label),
}

/// The part of a transition that needs no check results. The engine asks before it runs anything; `decide` asks
/// again in the transaction.
pub fn transition_gate(
    policy: &Policy,
    task: &Task,
    deps: &[Dep],
    to: &str,
) -> Result<TransitionGate, Refusal> {
    let label = policy
        .label(to)
        .ok_or_else(|| Refusal::UnknownState { given: to.into(), known: policy.names() })?;
    // Giving a task up needs no proof, unless the project asks for it.
    let gives_up = label.phase == Phase::ClosedCanceled && !policy.gate_canceled;
    if task.phase == Phase::Initial && label.phase != Phase::Initial && !gives_up {
        deps_gate(task.id, deps)?;
    }
    let gated = label.phase.is_closed() && !gives_up;
    let held_to = |contract: &VerificationContract| contract.kind.gates_done();
    if gated && (!task.checks.is_empty() || task.contract.as_ref().is_some_and(held_to)) {
        Ok(TransitionGate::Checks(label.clone()))
    } else {
        Ok(TransitionGate::Free(label.clone()))
    }
}

/// Refuses a start while a dep is open; the refusal names all of them.
pub(crate) fn deps_gate(task: TaskId, deps: &[Dep]) -> Result<(), Refusal> {
    let open: Vec<_> =
        deps.iter().filter(|dep| dep.is_open()).map(|dep| (dep.id, dep.label.clone())).collect();
    if open.is_empty() { Ok(()) } else { Err(Refusal::DepsNotClosed { task, open }) }
}

/// Moves a task to a label. Results of checks are written even when they stand in the way.
pub(crate) fn task_transition(
    world: &World<'_>,
    id: TaskId,
    to: &str,
    checked: Option<&Checked>,
    work: Option<&str>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    let (label, ran) = match passage(&mut draft, to, (checked, work), false)? {
        Passage::Open(label, ran) => (label, ran),
        Passage::Shut(refusal) => return Ok(draft.done_but(refusal)),
    };
    stop::moved(&mut draft, &label);
    draft.entry(format!("transitioned to {}", label.name), ran.map(|ran| format!("checks: {ran}")));
    Ok(draft.done())
}

/// The verdict of the gates on the way to a label.
pub(crate) enum Passage {
    /// The task may move to the label. The text sums up the checks that ran.
    Open(Label, Option<String>),
    /// The task stays, and the results of its checks are written nevertheless.
    Shut(Refusal),
}

/// What the caller saw of the files: results of checks, and the state of the task's own files.
pub(crate) type Seen<'a> = (Option<&'a Checked>, Option<&'a str>);

/// Passes both gates on the way to a label. `approved` is the approval that a contract may wait for.
pub(crate) fn passage(
    draft: &mut Draft<'_>,
    to: &str,
    seen: Seen<'_>,
    approved: bool,
) -> Result<Passage, Refusal> {
    let passed = gates(draft, to, seen, approved)?;
    if matches!(&passed, Passage::Open(label, _) if label.phase == Phase::ClosedDone) {
        verification::approve(draft, approved, seen.1);
    }
    Ok(passed)
}

/// Judges both gates on the way to a label; writes nothing but results of checks.
pub(crate) fn gates(
    draft: &mut Draft<'_>,
    to: &str,
    (checked, work): Seen<'_>,
    approved: bool,
) -> Result<Passage, Refusal> {
    let (id, policy) = (draft.task.id, draft.world.policy);
    if let Some(checked) = checked
        && let Some(what) = check::changed_meanwhile(draft, &checked.basis)
    {
        let conflict = Refusal::Conflict { task: id, what };
        // The results are of checks that the task no longer has, so there is nothing to keep.
        if checked.runs.is_empty() || !check::same_checks(&draft.task, &checked.basis) {
            return Err(conflict);
        }
        check::record(draft, checked);
        draft.entry("ran checks", check::summary(&draft.task, &checked.runs));
        return Ok(Passage::Shut(conflict));
    }
    let (label, ran) = match transition_gate(policy, &draft.task, &draft.subject.deps, to)? {
        TransitionGate::Free(label) => (label, None),
        TransitionGate::Checks(label) => {
            if let Some(checked) = checked {
                check::record(draft, checked);
            }
            let runs = checked.map_or(&[][..], |checked| &checked.runs);
            let ran = check::summary(&draft.task, runs);
            let mut unmet = check::unmet(&draft.task, |check| match checked {
                Some(checked) => check.passes_for(checked.tree.as_deref(), work),
                // The caller saw no files, so no pass of a command counts for them.
                None => !check.is_command() && check.passes_for(None, work),
            });
            unmet.extend(verification::unmet(draft, approved, work));
            if !unmet.is_empty() {
                draft.entry("ran checks", ran);
                return Ok(Passage::Shut(Refusal::ChecksNotPassed { task: id, checks: unmet }));
            }
            (label, ran)
        }
    };
    Ok(Passage::Open(label, ran))
}

/// Whether the live attempt is stalled, so that another actor may take over.
pub(crate) fn may_take_over(draft: &Draft<'_>) -> bool {
    let live = draft.live.as_ref();
    live.is_some_and(|live| live.may_be_taken_over(draft.world.policy, draft.now))
}
