//! The board's own rules: any status may follow any other, as long as both gates allow it; a mode
//! ends what runs in the other one; notes are appended and never move a task.

use serde_json::json;

use crate::board::branch::is_branch_name;
use crate::board::card::{Card, Mode};
use crate::board::edit::EditFields;
use crate::command::CardUpdate;
use crate::decide::draft::Draft;
use crate::decide::input;
use crate::decide::runs::stop;
use crate::decide::task::{self, Passage};
use crate::event::{About, Event, EventName};
use crate::ids::TaskId;
use crate::limits::*;
use crate::policy::{Label, Phase, Policy};
use crate::refusal::Refusal;
use crate::refusal::found::{AsParent, OrNotFound as _, Sought as _};
use crate::task::Check;
use crate::task::attempt::{AttemptEnd, AttemptKind};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// The label that a phase, one column of the board, stands for.
pub fn label_of(policy: &Policy, phase: Phase) -> Result<&Label, Refusal> {
    policy.first_of(phase).ok_or_else(|| {
        let words = format!("no status with the phase {} is configured", phase.as_str());
        Refusal::invalid(words)
    })
}

/// Whether both phases are one column: canceled tasks lie in the column of done ones.
pub fn same_column(one: Phase, other: Phase) -> bool {
    one == other || one.is_closed() && other.is_closed()
}

/// Changes fields, place, mode and column of a task in one change, or nothing. The gates are judged before any field
/// changes, so a refused move changes no field either.
pub(crate) fn card_update(
    world: &World<'_>,
    update: &CardUpdate,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, update.task, now)?;
    if let Some(shown) = &update.shown {
        let body = draft.subject.body.as_deref().unwrap_or_default();
        let stands = EditFields::of(&draft.task, &draft.card, body);
        shown.judge(update.task, &stands, &update.edited())?;
    }
    let fields = Fields::judge(update)?;
    judge_place(world, update)?;
    let to = match update.to.filter(|to| !same_column(*to, draft.task.phase)) {
        None => None,
        Some(to) => {
            let label = label_of(world.policy, to)?.name.clone();
            let seen = (update.checked.as_ref(), update.work.as_deref());
            match task::passage(&mut draft, &label, seen, false)? {
                Passage::Open(label, ran) => Some((label, ran)),
                Passage::Shut(refusal) => return Ok(draft.done_but(refusal)),
            }
        }
    };
    let mut changed = fields.apply(&mut draft);
    changed.extend(place(&mut draft, update));
    let back = update.mode.filter(|mode| *mode != draft.card.mode).is_some_and(|mode| {
        changed.push("mode");
        turn(&mut draft, mode)
    });
    if changed.is_empty() && to.is_none() {
        return Ok(draft.unchanged(Reply::Task(update.task)));
    }
    if !changed.is_empty() {
        draft.event(EventName::TaskUpdated, json!({"fields": changed}));
    }
    let did = match to {
        Some((label, ran)) => {
            go(&mut draft, &label);
            draft
                .entry(format!("moved to {}", label.name), ran.map(|ran| format!("checks: {ran}")));
            None
        }
        // A task that turns to PAIR in the middle of an agent's work starts again with a person.
        None if back => {
            go(&mut draft, &world.policy.initial().clone());
            Some("edited")
        }
        None if update.mode == Some(Mode::Pair) && changed.contains(&"mode") => {
            stop::cancel(&mut draft);
            Some("edited")
        }
        None => Some("edited"),
    };
    if let Some(did) = did {
        draft.entry(did, Some(changed.join(", ")));
    }
    Ok(draft.done())
}

/// Moves the task to another column with everything the board means by that; the gates are passed.
pub(crate) fn go(draft: &mut Draft<'_>, label: &Label) {
    let goes_back = label.phase == Phase::Initial;
    if goes_back {
        draft.end_live(AttemptEnd::Canceled { reason: format!("task moved to {}", label.name) });
    }
    stop::moved(draft, label);
    if goes_back && draft.task.assignee.is_some() {
        draft.unassign();
    }
}

/// Changes the mode and ends what runs in the other one; says whether the task goes back to the start.
fn turn(draft: &mut Draft<'_>, mode: Mode) -> bool {
    draft.card.mode = mode;
    match mode {
        Mode::Auto => {
            draft.card.terminal = None;
            if draft.live.as_ref().is_some_and(|live| live.kind == AttemptKind::Pair) {
                draft.end_live(AttemptEnd::Canceled { reason: "turned to auto".into() });
                if draft.task.assignee.is_some() {
                    draft.unassign();
                }
            }
            false
        }
        Mode::Pair => {
            if draft.live.as_ref().is_some_and(|live| live.kind == AttemptKind::Job) {
                draft.end_live(AttemptEnd::Canceled { reason: "turned to pair".into() });
            }
            draft.task.phase == Phase::Working
        }
    }
}

/// Turns the task into one for an agent alone (`Mode::Auto`), and for `agent` if it is named.
pub(crate) fn for_agent(draft: &mut Draft<'_>, agent: Option<&String>) -> Result<(), Refusal> {
    let mut changed = Vec::new();
    if let Some(agent) = named("agent", agent)?.filter(|agent| *agent != draft.card.agent) {
        draft.card.agent = agent;
        changed.push("agent");
    }
    if draft.card.mode != Mode::Auto {
        turn(draft, Mode::Auto);
        changed.push("mode");
    }
    if !changed.is_empty() {
        draft.event(EventName::TaskUpdated, json!({"fields": changed}));
        draft.entry("edited", Some(changed.join(", ")));
    }
    Ok(())
}

/// The fields of a request, judged.
struct Fields {
    title: Option<String>,
    body: Option<String>,
    priority: Option<u16>,
    criteria: Option<Vec<String>>,
    agent: Option<Option<String>>,
    base_branch: Option<Option<String>>,
    terminal: Option<Option<crate::board::card::Terminal>>,
    checks: Option<Vec<Check>>,
}

impl Fields {
    /// Judges every given field; the first fault refuses the whole update.
    fn judge(update: &CardUpdate) -> Result<Self, Refusal> {
        Ok(Self {
            title: update.title.as_deref().map(input::title).transpose()?,
            body: update.body.as_deref().map(input::body).transpose()?,
            priority: update.priority.map(input::priority).transpose()?,
            criteria: update.criteria.as_deref().map(criteria).transpose()?,
            agent: named("agent_backend", update.agent.as_ref())?,
            base_branch: update.base_branch.as_ref().map(branch).transpose()?,
            terminal: update.terminal,
            checks: update.checks.as_deref().map(input::checks).transpose()?,
        })
    }

    /// Applies the fields that differ; returns their names.
    fn apply(self, draft: &mut Draft<'_>) -> Vec<&'static str> {
        let mut changed = Vec::new();
        let mut note = |differs: bool, name| {
            if differs {
                changed.push(name);
            }
        };
        if let Some(title) = self.title {
            note(draft.task.title != title, "title");
            draft.task.title = title;
        }
        if let Some(body) = self.body.filter(|body| draft.subject.body.as_ref() != Some(body)) {
            note(true, "body");
            draft.write(Write::BodyReplace { task: draft.task.id, body });
        }
        if let Some(priority) = self.priority {
            note(draft.task.priority != priority, "priority");
            draft.task.priority = priority;
        }
        if let Some(checks) = self.checks {
            note(true, "checks");
            draft.task.checks = checks;
        }
        let card = &mut draft.card;
        if let Some(criteria) = self.criteria {
            note(card.criteria != criteria, "criteria");
            card.criteria = criteria;
        }
        if let Some(agent) = self.agent {
            note(card.agent != agent, "agent");
            card.agent = agent;
        }
        if let Some(branch) = self.base_branch {
            note(card.base_branch != branch, "base_branch");
            card.base_branch = branch;
        }
        if let Some(terminal) = self.terminal {
            note(card.terminal != terminal, "terminal");
            card.terminal = terminal;
        }
        changed
    }
}

/// A new card from a request, judged.
pub(crate) fn new_card(card: &Card) -> Result<Card, Refusal> {
    let given = |text: &Option<String>| Some(text.clone().unwrap_or_default());
    Ok(Card {
        criteria: criteria(&card.criteria)?,
        agent: named("agent_backend", given(&card.agent).as_ref())?.flatten(),
        base_branch: branch(&given(&card.base_branch).unwrap_or_default())?,
        created_by: named("created_by", given(&card.created_by).as_ref())?.flatten(),
        ..card.clone()
    })
}

/// Acceptance criteria, trimmed; blank ones are dropped.
fn criteria(given: &[String]) -> Result<Vec<String>, Refusal> {
    let criteria: Vec<String> =
        given.iter().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).collect();
    if criteria.len() > CRITERIA_MAX {
        let got = criteria.len();
        let words =
            format!("acceptance_criteria must have at most {CRITERIA_MAX} items, got {got}");
        return Err(Refusal::invalid(words));
    }
    for text in &criteria {
        input::longest("acceptance_criteria", text, CRITERION_CHARS_MAX)?;
    }
    Ok(criteria)
}

/// A trimmed name; an empty text clears the field.
fn named(field: &str, given: Option<&String>) -> Result<Option<Option<String>>, Refusal> {
    let Some(text) = given else { return Ok(None) };
    let text = text.trim();
    input::longest(field, text, NAME_CHARS_MAX)?;
    Ok(Some(Some(text.to_owned()).filter(|text| !text.is_empty())))
}

/// A branch name that git would accept; an empty text clears the field.
fn branch(given: &String) -> Result<Option<String>, Refusal> {
    let Some(Some(name)) = named("base_branch", Some(given))? else { return Ok(None) };
    match is_branch_name(&name) {
        true => Ok(Some(name)),
        false => Err(Refusal::invalid("base_branch is no name of a branch")),
    }
}

/// Refuses a parent that does not exist, and one that is below the task itself.
fn judge_place(world: &World<'_>, update: &CardUpdate) -> Result<(), Refusal> {
    let Some(Some(parent)) = update.parent else { return Ok(()) };
    if !world.named.iter().any(|named| named.id == parent && !named.removed) {
        return Err(AsParent(parent).not_found());
    }
    if parent == update.task || world.above.contains(&update.task) {
        return Err(Refusal::ParentCycle { task: update.task, parent });
    }
    Ok(())
}

/// Puts a task below another one or into another project; returns the names of the changed fields.
fn place(draft: &mut Draft<'_>, update: &CardUpdate) -> Vec<&'static str> {
    let mut changed = Vec::new();
    if let Some(parent) = update.parent.filter(|parent| *parent != draft.task.parent) {
        draft.task.parent = parent;
        if let Some(parent) = parent {
            draft.write(Write::PlanMark { task: parent });
        }
        changed.push("parent");
    }
    if let Some(project) = update.project.filter(|project| *project != draft.task.project) {
        draft.task.project = project;
        changed.push("project");
    }
    changed
}

/// Removes a task for good, with its notes, unless open tasks depend on it.
pub(crate) fn card_remove(
    world: &World<'_>,
    id: TaskId,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, id, now)?;
    let waits = draft.subject.dependents.iter().filter(|waits| !waits.phase.is_closed());
    let open: Vec<TaskId> = waits.map(|waits| waits.id).collect();
    if !open.is_empty() {
        return Err(Refusal::HasDependents { task: id, open });
    }
    // The notes were not loaded, so the draft cannot see that they change.
    draft.write(Write::ScratchpadPut { task: id, text: String::new() });
    Ok(task::removed(draft))
}

/// Appends to a task's notes; only the end of long notes is kept.
pub(crate) fn scratchpad_append(
    world: &World<'_>,
    id: TaskId,
    text: &str,
) -> Result<Change, Refusal> {
    let text = input::said("content", text, SCRATCHPAD_CHARS_MAX, "content cannot be blank")?;
    let subject = world.subject.as_ref().or_not_found(&id)?;
    let text = kept(&subject.scratchpad, text);
    let about = About { project: subject.task.project, task: id, attempt: None };
    let event = Event {
        actor: world.actor.clone(),
        name: EventName::TaskScratchpad,
        about: Some(about),
        data: json!({"chars": text.chars().count()}),
    };
    let writes = vec![Write::ScratchpadPut { task: id, text }];
    Ok(Change { writes, events: vec![event], reply: Reply::Task(id), but: None })
}

/// The notes with a new part, cut at the front: the newest part matters most.
pub(crate) fn kept(old: &str, new: &str) -> String {
    let whole = format!("{old}\n{new}");
    let whole = whole.trim();
    let chars = whole.chars().count();
    whole.chars().skip(chars.saturating_sub(SCRATCHPAD_CHARS_MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_notes_is_kept() {
        assert_eq!(kept("", " a \n"), "a");
        assert_eq!(kept("a", "b"), "a\nb");
        let long = "x".repeat(SCRATCHPAD_CHARS_MAX);
        let kept = kept(&long, "ö");
        assert_eq!(kept.chars().count(), SCRATCHPAD_CHARS_MAX);
        assert!(kept.ends_with("x\nö"));
    }

    #[test]
    fn branches_are_named_as_git_would() {
        let known = |name: &str| branch(&name.to_owned()).ok().flatten();
        assert_eq!(known(" release/1.0 "), Some("release/1.0".into()));
        assert_eq!(known(""), None);
        for wrong in ["a b", "a..b", "-x", "a//b", "x.lock", ".x", "a:b", "a@{1}", "HEAD"] {
            assert!(branch(&wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
