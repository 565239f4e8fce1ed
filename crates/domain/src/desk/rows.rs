//! The rows on a desk.

use std::collections::BTreeMap;

use super::RunCounts;
use crate::actor::Actor;
use crate::board::card::Card;
use crate::board::plan::{Plan, PlanId};
use crate::board::project::{Project, ProjectRepo, ProjectRoom};
use crate::board::settings::SettingsKept;
use crate::ids::{AttemptId, Prefix, TaskId};
use crate::knowledge::{KnowledgeEntry, KnowledgeId};
use crate::limits::ENTRIES_SHOWN_MAX;
use crate::pulls::Pull;
use crate::review::{ReviewCommentId, ReviewDraft};
use crate::runs::job::{Job, JobId};
use crate::runs::run::Run;
use crate::task::attempt::Attempt;
use crate::task::comment::{Comment, CommentId};
use crate::task::{Dep, Dependent, Entry, Task};
use crate::time::Timestamp;
use crate::world::CrewWorld;

/// Rows of one org. A map holds the rows that were fetched, not all rows there are.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub tasks: BTreeMap<TaskId, TaskRows>,
    /// Deps of tasks on the desk, as they were fetched. A dep that is in `tasks` too is taken from there.
    pub deps: BTreeMap<TaskId, Dep>,
    /// Dependents of tasks on the desk, likewise; removed ones are left out.
    pub dependents: BTreeMap<TaskId, Dependent>,
    pub attempts: BTreeMap<AttemptId, Attempt>,
    /// Each comment with the row of its task in `tasks`.
    pub comments: BTreeMap<CommentId, Comment>,
    pub jobs: BTreeMap<JobId, Job>,
    /// Each run with its job in `jobs`.
    pub runs: BTreeMap<JobId, Run>,
    pub counts: RunCounts,
    /// The newest task number of each prefix.
    pub numbers: BTreeMap<Prefix, u32>,
    /// Tasks that were imported, by project and reference.
    pub references: BTreeMap<(i64, String), TaskId>,
    /// The newest number of the org's local pull requests.
    pub pulls_last: u64,
    /// Pull requests of tasks on the desk, the oldest first.
    pub pulls: Vec<Pull>,
    pub drafts: BTreeMap<ReviewCommentId, ReviewDraft>,
    pub knowledge: BTreeMap<KnowledgeId, KnowledgeEntry>,
    pub org: OrgRows,
    pub crew: CrewWorld,
    /// Every task above the new parent of a task that moves.
    pub above: Vec<TaskId>,
    /// Edges (task, dep) reachable from the deps that a command adds.
    pub ancestry: Vec<(TaskId, TaskId)>,
}

/// A task with the rows around it. A task that a command only names has its row alone.
#[derive(Clone, Debug)]
pub struct TaskRows {
    pub task: Task,
    pub removed_at: Option<Timestamp>,
    pub body: String,
    pub execution_contract: Option<String>,
    /// The deps with their positions, in this order.
    pub deps: Vec<(i32, TaskId)>,
    /// In the order of their ids.
    pub dependents: Vec<TaskId>,
    /// The newest lines of history, oldest first.
    pub entries: Vec<EntryRow>,
    pub card: Card,
    pub scratchpad: String,
}

/// A line of a task's history.
#[derive(Clone, Debug)]
pub struct EntryRow {
    pub number: u32,
    pub entry: Entry,
    pub attempt: Option<AttemptId>,
}

/// Rows of the org that belong to no task.
#[derive(Clone, Debug, Default)]
pub struct OrgRows {
    pub settings: SettingsKept,
    pub projects: BTreeMap<i64, Project>,
    pub repos: Vec<ProjectRepo>,
    /// The project that each actor has open.
    pub opened: BTreeMap<Actor, i64>,
    /// Numbers for a new project.
    pub room: Option<ProjectRoom>,
    pub plans: BTreeMap<PlanId, Plan>,
}

impl TaskRows {
    /// A task with nothing around it yet.
    pub fn of(task: Task, removed_at: Option<Timestamp>) -> Self {
        Self {
            task,
            removed_at,
            body: String::new(),
            execution_contract: None,
            deps: Vec::new(),
            dependents: Vec::new(),
            entries: Vec::new(),
            card: Card::default(),
            scratchpad: String::new(),
        }
    }

    /// Sorts rows that were fetched in no particular order.
    pub fn sort(&mut self) {
        self.deps.sort_unstable();
        self.dependents.sort_unstable();
        self.entries.sort_unstable_by_key(|row| row.number);
    }

    /// Adds a line of history, or replaces the newest one when the numbers are equal. Returns whether a line was
    /// replaced.
    pub fn put_entry(&mut self, row: EntryRow) -> bool {
        let again = self.entries.last_mut().filter(|last| last.number == row.number);
        let replaces = again.is_some();
        match again {
            Some(last) => *last = row,
            None => self.entries.push(row),
        }
        if self.entries.len() > ENTRIES_SHOWN_MAX {
            self.entries.remove(0);
        }
        replaces
    }
}

impl Rows {
    /// The task, unless it is removed.
    pub fn visible(&self, id: TaskId) -> Option<&TaskRows> {
        self.tasks.get(&id).filter(|rows| rows.removed_at.is_none())
    }

    /// The comment, unless its task is removed.
    pub fn comment(&self, id: CommentId) -> Option<&Comment> {
        self.comments.get(&id).filter(|comment| self.visible(comment.task).is_some())
    }

    /// The open job with this key.
    pub fn job_under_way(&self, key: &str) -> Option<&Job> {
        self.jobs.values().find(|job| job.key == key && !job.is_over())
    }

    /// The newest attempt of a task, which alone can be live.
    pub fn newest(&self, task: &Task) -> Option<&Attempt> {
        self.attempts.get(&task.newest_attempt?)
    }

    /// A dep as it stands after the commands before this one: a task on the desk is newer than the dep that was
    /// fetched.
    pub fn dep(&self, id: TaskId) -> Option<Dep> {
        let fetched = self.deps.get(&id);
        let Some(TaskRows { task, removed_at, .. }) = self.tasks.get(&id) else {
            return fetched.cloned();
        };
        let lease_expires_at = match self.newest(task) {
            Some(attempt) => attempt.lease().map(|lease| lease.expires_at),
            None => fetched.and_then(|dep| dep.lease_expires_at),
        };
        let (label, removed) = (task.label.clone(), removed_at.is_some());
        Some(Dep { id: task.id, label, phase: task.phase, removed, lease_expires_at })
    }

    /// The deps of a task, in their order.
    pub fn deps_of(&self, rows: &TaskRows) -> Vec<Dep> {
        rows.deps.iter().filter_map(|(_, dep)| self.dep(*dep)).collect()
    }

    /// A dependent, unless it is removed.
    pub fn dependent(&self, id: TaskId) -> Option<Dependent> {
        let Some(TaskRows { task, removed_at, .. }) = self.tasks.get(&id) else {
            return self.dependents.get(&id).cloned();
        };
        let Task { id, project, open_deps, phase, .. } = *task;
        removed_at.is_none().then_some(Dependent { id, project, open_deps, phase })
    }
}
