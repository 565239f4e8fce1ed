//! Rows as one array per column: the form in which the writes of every command are sent.

use callboard_domain::actor::Actor;
use callboard_domain::desk::{EntryKey, TaskRows};
use callboard_domain::event::{Event, step_of};
use callboard_domain::ids::AttemptId;
use callboard_domain::task::Entry;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::postgres::rows::uuid;

/// An array that is sent as one value. A statement of fixed length serves batches of any size, so it is planned once.
type Value<'a> = &'a (dyn ToSql + Sync);

fn attempt_uuid(attempt: Option<AttemptId>) -> Option<Uuid> {
    attempt.map(|attempt| uuid(attempt.0))
}

/// Lines of history.
/// One array for each column of `entries`; the n-th values of all of them are one line.
#[derive(Default)]
pub(crate) struct Lines<'a> {
    tasks: Vec<Uuid>,
    numbers: Vec<i32>,
    who: Vec<&'a str>,
    at: Vec<i64>,
    did: Vec<&'a str>,
    texts: Vec<Option<&'a str>>,
    attempts: Vec<Option<Uuid>>,
}

impl<'a> Lines<'a> {
    /// The order of the arrays is that of the statement's parameters in `keep.rs`.
    pub fn of(entries: &[(&'a EntryKey, &'a (Entry, Option<AttemptId>))]) -> Self {
        let mut lines = Self::default();
        for ((task, number), (entry, attempt)) in entries {
            lines.tasks.push(uuid(task.id));
            // The column is an `integer`. No task gets two billion lines of history.
            lines.numbers.push(*number as i32);
            lines.who.push(entry.who.as_str());
            lines.at.push(entry.at.0);
            lines.did.push(&entry.did);
            lines.texts.push(entry.text.as_deref());
            lines.attempts.push(attempt_uuid(*attempt));
        }
        lines
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub fn values(&self) -> [Value<'_>; 7] {
        let Self { tasks, numbers, who, at, did, texts, attempts } = self;
        [tasks, numbers, who, at, did, texts, attempts]
    }

    /// The values of the statement that writes lines and moves together.
    pub fn and<'v>(&'v self, moves: &'v Moves<'_>) -> Vec<Value<'v>> {
        [&self.values()[..], &moves.values()[..]].concat()
    }
}

/// The columns of a task that most commands change.
/// They are those of `Task::only_moves_to`, and the mark of a removed task. Tasks in which more changed go as JSON
/// instead.
#[derive(Default)]
pub(crate) struct Moves<'a> {
    tasks: Vec<Uuid>,
    labels: Vec<&'a str>,
    phases: Vec<&'a str>,
    assignees: Vec<Option<&'a str>>,
    open_deps: Vec<i32>,
    fences: Vec<i64>,
    newest: Vec<Option<Uuid>>,
    entries: Vec<i32>,
    updated_at: Vec<i64>,
    removed_at: Vec<Option<i64>>,
    phase_at: Vec<i64>,
}

impl<'a> Moves<'a> {
    pub fn of(tasks: &[&'a TaskRows]) -> Self {
        let mut moves = Self::default();
        for TaskRows { task, removed_at, .. } in tasks {
            moves.tasks.push(uuid(task.id.id));
            moves.labels.push(&task.label);
            moves.phases.push(task.phase.as_str());
            moves.assignees.push(task.assignee.as_ref().map(Actor::as_str));
            moves.open_deps.push(task.open_deps as i32);
            moves.fences.push(task.fence as i64);
            moves.newest.push(attempt_uuid(task.newest_attempt));
            moves.entries.push(task.entries as i32);
            moves.updated_at.push(task.updated_at.0);
            moves.removed_at.push(removed_at.map(|at| at.0));
            moves.phase_at.push(task.phase_at.0);
        }
        moves
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The id first, then the columns in the order in which the UPDATE in `keep.rs` names them.
    fn values(&self) -> [Value<'_>; 11] {
        [
            &self.tasks,
            &self.labels,
            &self.phases,
            &self.assignees,
            &self.open_deps,
            &self.fences,
            &self.newest,
            &self.entries,
            &self.updated_at,
            &self.removed_at,
            &self.phase_at,
        ]
    }
}

/// Events.
#[derive(Default)]
pub(crate) struct Logged<'a> {
    actors: Vec<&'a str>,
    names: Vec<&'a str>,
    projects: Vec<Option<i64>>,
    tasks: Vec<Option<Uuid>>,
    attempts: Vec<Option<Uuid>>,
    data: Vec<String>,
    /// Events of several orgs share a batch, and one numbering.
    orgs: Vec<i64>,
    /// The job of which an event is a step.
    jobs: Vec<Option<Uuid>>,
}

impl<'a> Logged<'a> {
    pub fn of(events: &'a [(i64, Event)]) -> Self {
        let mut logged = Self::default();
        for (org, event) in events {
            logged.actors.push(event.actor.as_str());
            logged.names.push(event.name.as_str());
            logged.projects.push(event.about.map(|about| about.project));
            logged.tasks.push(event.about.map(|about| uuid(about.task.id)));
            logged.attempts.push(attempt_uuid(event.about.and_then(|about| about.attempt)));
            logged.data.push(event.data.to_string());
            logged.orgs.push(*org);
            // The version of a job is the number of the event of its newest step.
            logged.jobs.push(step_of(event.name, &event.data).map(|job| uuid(job.0)));
        }
        logged
    }

    /// Whether any event is a step of a job, so that the versions of jobs have to be written as well.
    pub fn has_steps(&self) -> bool {
        self.jobs.iter().any(Option::is_some)
    }

    pub fn jobs(&self) -> Value<'_> {
        &self.jobs
    }

    /// The values with the time of all events.
    pub fn at<'v>(&'v self, at: &'v i64) -> [Value<'v>; 8] {
        let Self { actors, names, projects, tasks, attempts, data, orgs, jobs: _ } = self;
        [actors, names, projects, tasks, attempts, data, at, orgs]
    }

    /// The values with the time of all events, and the channel that announces them.
    pub fn and<'v>(&'v self, at: &'v i64, channel: &'v &str) -> [Value<'v>; 9] {
        let Self { actors, names, projects, tasks, attempts, data, orgs, jobs: _ } = self;
        [actors, names, projects, tasks, attempts, data, at, channel, orgs]
    }
}
