//! Compares a backlog with the board: which tasks are new, known or changed, and in which order new ones are created.

use std::collections::{HashMap, HashSet};

use super::{ImportFault, ImportState, ImportedTask};
use crate::ids::TaskId;

/// A task of the board, as far as an import looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownTask {
    pub reference: String,
    pub task: TaskId,
    pub title: String,
    pub body: String,
    pub state: ImportState,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportChoice {
    /// Only tasks with this label, whatever its case.
    pub label: Option<String>,
    /// Closed tasks too.
    pub closed: bool,
}

/// The changes that an import would make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportPlan {
    /// Parents and deps come before the tasks that name them.
    pub new: Vec<ImportedTask>,
    pub changed: Vec<ChangedTask>,
    /// Tasks that came with an earlier import and did not change since.
    pub known: usize,
    /// Closed tasks that were left out.
    pub closed: usize,
    /// Tasks without the label that was chosen.
    pub unlabelled: usize,
    pub lost: Vec<LostLink>,
}

/// A task whose title or body differs from the backlog's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedTask {
    pub task: TaskId,
    pub reference: String,
    /// The backlog's, where it differs.
    pub title: Option<String>,
    pub body: Option<String>,
}

/// A dep or parent that a new task does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostLink {
    pub reference: String,
    pub to: String,
    pub why: &'static str,
}

const UNKNOWN: &str = "is neither in this backlog nor on the board";
const LEFT_OUT: &str = "is left out of this import";
const STILL_OPEN: &str = "is open, and the task that waits for it is closed";
const ITS_CHILD: &str = "is part of the task itself";

/// Plans an import. Refused: two tasks with one reference, and tasks that wait for each other.
pub fn plan(
    items: Vec<ImportedTask>,
    known: &[KnownTask],
    choice: &ImportChoice,
) -> Result<ImportPlan, ImportFault> {
    let mut states = HashMap::new();
    for item in &items {
        if states.insert(item.reference.clone(), item.state).is_some() {
            let message = format!("two tasks have the reference '{}'", item.reference);
            return Err(ImportFault::whole(message).field("reference"));
        }
    }
    let known: HashMap<&str, &KnownTask> =
        known.iter().map(|task| (task.reference.as_str(), task)).collect();
    let mut plan = ImportPlan::default();
    let mut fresh = Vec::new();
    for item in items {
        if !choice.label.as_deref().is_none_or(|label| has_label(&item, label)) {
            plan.unlabelled += 1;
        } else if let Some(known) = known.get(item.reference.as_str()) {
            match changed(&item, known) {
                Some(changed) => plan.changed.push(changed),
                None => plan.known += 1,
            }
        } else if item.state.is_closed() && !choice.closed {
            plan.closed += 1;
        } else {
            fresh.push(item);
        }
    }
    let parents: HashMap<String, String> = fresh
        .iter()
        .filter_map(|item| Some((item.reference.clone(), item.parent.clone()?)))
        .collect();
    let new: HashMap<String, ImportState> =
        fresh.iter().map(|item| (item.reference.clone(), item.state)).collect();
    for item in &mut fresh {
        let reference = item.reference.clone();
        let mut lose = |to: &str, why| {
            plan.lost.push(LostLink { reference: reference.clone(), to: to.to_owned(), why });
        };
        let stands = |to: &str| new.get(to).copied().or(known.get(to).map(|task| task.state));
        let missing = |to: &str| match states.get(to) {
            None => Some(UNKNOWN),
            // A task that waits only for closed ones can start, so nothing is lost.
            Some(state) if state.is_closed() => None,
            Some(_) => Some(LEFT_OUT),
        };
        item.deps.sort_unstable();
        item.deps.dedup();
        let is_closed = item.state.is_closed();
        item.deps.retain(|dep| match stands(dep) {
            None => {
                if let Some(why) = missing(dep) {
                    lose(dep, why);
                }
                false
            }
            Some(state) if is_closed && !state.is_closed() => {
                lose(dep, STILL_OPEN);
                false
            }
            Some(_) if is_above(&parents, &item.reference, dep) => {
                lose(dep, ITS_CHILD);
                false
            }
            Some(_) => true,
        });
        if let Some(parent) = item.parent.take_if(|parent| stands(parent).is_none()) {
            lose(&parent, missing(&parent).unwrap_or(LEFT_OUT));
        }
        if is_closed {
            // Nothing here has shown what the checks ask for, so a closed task keeps them as words.
            item.criteria.extend(item.checks.drain(..).map(|check| check.desc));
        }
    }
    plan.new = in_order(fresh)?;
    Ok(plan)
}

fn has_label(item: &ImportedTask, label: &str) -> bool {
    item.labels.iter().any(|known| known.to_lowercase() == label.to_lowercase())
}

fn changed(item: &ImportedTask, known: &KnownTask) -> Option<ChangedTask> {
    let title = item.title.trim();
    let changed = ChangedTask {
        task: known.task,
        reference: item.reference.clone(),
        title: (title != known.title).then(|| title.to_owned()),
        body: (item.body != known.body).then(|| item.body.clone()),
    };
    (changed.title.is_some() || changed.body.is_some()).then_some(changed)
}

/// Whether `task` is above `below` in the tree of parents.
fn is_above(parents: &HashMap<String, String>, task: &str, below: &str) -> bool {
    let mut at = below;
    // A circle of parents is refused later; here the walk only has to end.
    for _ in 0..=parents.len() {
        match parents.get(at) {
            Some(parent) if parent == task => return true,
            Some(parent) => at = parent,
            None => return false,
        }
    }
    false
}

/// Sorts tasks so that each comes after its parent and its deps, otherwise in the order of the backlog.
fn in_order(items: Vec<ImportedTask>) -> Result<Vec<ImportedTask>, ImportFault> {
    let places: HashMap<String, usize> =
        items.iter().enumerate().map(|(place, item)| (item.reference.clone(), place)).collect();
    let before: Vec<Vec<usize>> = items
        .iter()
        .map(|item| {
            let named = item.parent.iter().chain(&item.deps);
            named.filter_map(|name| places.get(name).copied()).collect()
        })
        .collect();
    let mut order = Vec::with_capacity(items.len());
    let (mut done, mut open) = (HashSet::new(), HashSet::new());
    for start in 0..items.len() {
        // Each step of the walk is a task and how many of its predecessors were visited.
        let mut walk = vec![(start, 0)];
        while let Some((task, visited)) = walk.pop() {
            if done.contains(&task) {
                continue;
            }
            open.insert(task);
            match before[task].get(visited) {
                Some(next) if open.contains(next) && !done.contains(next) => {
                    let path = walk.iter().map(|(task, _)| *task).chain([task, *next]);
                    let path = path.skip_while(|task| task != next);
                    let names: Vec<&str> =
                        path.map(|task| items[task].reference.as_str()).collect();
                    let message = format!("tasks wait for each other: {}", names.join(" -> "));
                    return Err(ImportFault::whole(message).field("deps"));
                }
                Some(next) => walk.extend([(task, visited + 1), (*next, 0)]),
                None => {
                    done.insert(task);
                    order.push(task);
                }
            }
        }
    }
    let mut items: Vec<Option<ImportedTask>> = items.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|place| items[place].take()).collect())
}
