//! Dependencies: adding without cycles, removing, both at once.

use serde_json::json;

use crate::decide::draft::Draft;
use crate::event::EventName;
use crate::ids::TaskId;
use crate::limits::DEPS_MAX;
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::task::Dep;
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// Adds a dep. Idempotent: an existing one changes nothing, even where the list is full.
pub(crate) fn dependency_add(
    world: &World<'_>,
    id: TaskId,
    dep: TaskId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    let is_full = draft.subject.deps.len() >= DEPS_MAX;
    if !add(&mut draft, dep)? {
        return Ok(draft.unchanged(Reply::Task(id)));
    }
    if is_full {
        return Err(Refusal::invalid(format!("at most {DEPS_MAX} deps")));
    }
    draft.entry("added dependency", Some(dep.to_string()));
    Ok(draft.done())
}

/// Removes a dep. Idempotent: a dep that is not there changes nothing.
pub(crate) fn dependency_remove(
    world: &World<'_>,
    id: TaskId,
    dep: TaskId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    let Some(existing) = draft.subject.deps.iter().find(|existing| existing.id == dep) else {
        return Ok(draft.unchanged(Reply::Task(id)));
    };
    remove(&mut draft, existing)?;
    draft.entry("removed dependency", Some(dep.to_string()));
    Ok(draft.done())
}

/// Replaces the deps of the task; says whether anything changes.
pub(crate) fn replace(draft: &mut Draft<'_>, deps: &[TaskId]) -> Result<bool, Refusal> {
    let mut changed = false;
    // Deps are added before others are removed: a task whose last open dep is replaced must not become ready in
    // between.
    for dep in deps {
        changed |= add(draft, *dep)?;
    }
    for existing in draft.subject.deps.iter().filter(|existing| !deps.contains(&existing.id)) {
        remove(draft, existing)?;
        changed = true;
    }
    let unlike = deps.iter().enumerate().filter(|(place, dep)| !deps[..*place].contains(dep));
    match unlike.count() {
        count if count > DEPS_MAX => {
            Err(Refusal::invalid(format!("at most {DEPS_MAX} deps, got {count}")))
        }
        _ => Ok(changed),
    }
}

/// Adds a dep; `false` when the task has it already.
fn add(draft: &mut Draft<'_>, dep: TaskId) -> Result<bool, Refusal> {
    let (world, id) = (draft.world, draft.task.id);
    let known = world.named.iter().find(|named| named.id == dep && !named.removed);
    let known = known.ok_or_else(|| Refusal::DanglingDependency { task: dep.to_string() })?;
    if draft.subject.deps.iter().any(|existing| existing.id == dep) || draft.adds_dep(dep) {
        return Ok(false);
    }
    if let Some(path) = cycle(&world.ancestry, id, dep) {
        return Err(Refusal::DependencyCycle { path });
    }
    if draft.task.phase != Phase::Initial || draft.live.is_some() {
        let (label, at) = (draft.task.label.clone(), draft.standing());
        return Err(Refusal::AlreadyStarted { task: id, label, at });
    }
    draft.task.open_deps += u32::from(known.is_open());
    draft.write(Write::DepInsert { task: id, dep });
    draft.event(EventName::TaskDependencyAdded, json!({"dep": dep}));
    Ok(true)
}

/// Removes a dep from the draft. The last open one makes the task ready.
fn remove(draft: &mut Draft<'_>, existing: &Dep) -> Result<(), Refusal> {
    let (task, dep) = (draft.task.id, existing.id);
    if draft.task.phase.is_closed() {
        let (label, at) = (draft.task.label.clone(), draft.standing());
        return Err(Refusal::AlreadyOver { task, label, at });
    }
    draft.write(Write::DepDelete { task, dep });
    draft.event(EventName::TaskDependencyRemoved, json!({"dep": dep}));
    if existing.is_open() {
        draft.task.open_deps -= 1;
        if draft.task.open_deps == 0 {
            draft.event(EventName::TaskReady, json!({"unblocked_by": dep}));
        }
    }
    Ok(())
}

/// The cycle that `task -> dep` would close, as a path from `task` back to `task`.
fn cycle(ancestry: &[(TaskId, TaskId)], task: TaskId, dep: TaskId) -> Option<Vec<TaskId>> {
    // Depth first, each task once: `ancestry` holds every edge that can be reached from the new deps.
    let mut paths = vec![vec![task, dep]];
    let mut seen = vec![dep];
    while let Some(path) = paths.pop() {
        let last = *path.last().expect("a path starts with two tasks");
        if last == task {
            return Some(path);
        }
        for (_, next) in ancestry.iter().filter(|(from, _)| *from == last) {
            if *next == task || !seen.contains(next) {
                seen.push(*next);
                let mut longer = path.clone();
                longer.push(*next);
                paths.push(longer);
            }
        }
    }
    None
}
