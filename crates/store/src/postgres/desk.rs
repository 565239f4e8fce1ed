//! The rows of one batch, in memory: loaded and locked once, changed command by command, written back as sets. Each
//! command sees the changes of those before it, without a round trip to the database.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use callboard_domain::attempt::Attempt;
use callboard_domain::card::Card;
use callboard_domain::comment::{Comment, CommentId};
use callboard_domain::delivery::{Delivery, Tried};
use callboard_domain::event::Event;
use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::job::{Job, JobId};
use callboard_domain::knowledge::{EdgeKind, KnowledgeEntry, KnowledgeId};
use callboard_domain::limits::ENTRIES_SHOWN_MAX;
use callboard_domain::needs::{Needs, verify_key};
use callboard_domain::pull::Pull;
use callboard_domain::run::{OpenRuns, Run, RunRecord};
use callboard_domain::task::{Dep, Dependent, Entry, Task, TaskRecord};
use callboard_domain::time::Timestamp;
use callboard_domain::world::{
    CrewWorld, CrewWrite, LastEntry, OrgWorld, OrgWrite, Reply, Subject, World,
};

use super::crew::Crews;
use crate::retries::Row;
use crate::{Op, Outcome, StoreError};

#[derive(Default)]
pub(super) struct Desk {
    pub now: Timestamp,
    /// When a process last reported that it watches the leases.
    pub ticked_at: i64,
    pub tasks: HashMap<Id, Sheet>,
    /// Deps of tasks on the desk, as they were read. A dep that is on the desk itself is taken from `tasks`.
    pub neighbours: HashMap<Id, Dep>,
    /// Each with the org of its task.
    pub attempts: HashMap<Id, (i64, Attempt)>,
    pub comments: HashMap<Id, Comment>,
    /// Each with its org.
    pub jobs: HashMap<Id, (i64, Job)>,
    /// Each with its org, and a new one with its task.
    pub runs: HashMap<Id, (i64, Run, Option<TaskId>)>,
    pub open_runs: OpenRuns,
    pub runs_here: u32,
    /// The newest task number of an org and prefix, including the new tasks of this batch.
    pub numbers: HashMap<(i64, Prefix), u32>,
    pub pulls_last: u64,
    /// Pull requests of tasks whose commands need them, the oldest first, each with its org.
    pub pulls: Vec<(i64, Pull)>,
    /// Each with its org: entries that commands name, and those of earlier replies.
    pub knowledge: HashMap<KnowledgeId, (i64, KnowledgeEntry)>,
    pub org: OrgWorld,
    pub crews: Crews,
    /// The stored rows of the batch's retry keys, including expired ones.
    pub retries: HashMap<CallKey, Vec<Row>>,
    /// Every task above the new parent of the one task that a batch may move.
    pub above: Vec<TaskId>,
    /// Edges reachable from the one dep that a batch may add.
    pub ancestry: Vec<(TaskId, TaskId)>,
    pub changes: Changes,
}

/// A locked task with the rows around it. A task that is only named has only its row.
pub(super) struct Sheet {
    pub org: i64,
    pub task: Task,
    pub removed_at: Option<i64>,
    pub body: String,
    pub execution_contract: Option<String>,
    /// In the order of their positions.
    pub deps: Vec<(i32, Id)>,
    /// In order of their ids.
    pub dependents: Vec<Id>,
    /// The newest lines, oldest first.
    pub lines: Vec<Line>,
    /// Loaded for tasks whose commands need it; the scratchpad likewise.
    pub card: Card,
    pub scratchpad: String,
}

pub(super) struct Line {
    pub number: u32,
    pub entry: Entry,
    pub attempt: Option<AttemptId>,
}

/// The task and the number of a line.
pub(super) type LineKey = (Id, u32);

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct CallKey {
    pub org: i64,
    pub actor: String,
    pub tool: String,
    pub key: String,
}

/// The rows to write back, each once and in its final state.
#[derive(Default)]
pub(super) struct Changes {
    pub tasks_new: BTreeSet<Id>,
    pub tasks: BTreeSet<Id>,
    /// The part of `tasks` in which more changed than [`Sheet::moved`] covers.
    pub tasks_edited: BTreeSet<Id>,
    pub bodies: BTreeSet<Id>,
    pub cards: BTreeSet<Id>,
    pub scratchpads: BTreeSet<Id>,
    pub deps_new: BTreeMap<(Id, Id), i32>,
    pub deps_gone: BTreeSet<(Id, Id)>,
    pub attempts_new: BTreeSet<Id>,
    pub attempts: BTreeSet<Id>,
    pub outputs: BTreeMap<Id, String>,
    pub comments_new: BTreeSet<Id>,
    pub comments: BTreeSet<Id>,
    pub jobs_new: BTreeSet<Id>,
    pub jobs: BTreeSet<Id>,
    pub jobs_put: BTreeSet<Id>,
    pub runs_new: BTreeSet<Id>,
    pub runs: BTreeSet<Id>,
    /// Each with its org.
    pub deliveries_new: Vec<(i64, Delivery)>,
    pub deliveries_tried: BTreeMap<Id, Tried>,
    /// Each with its org.
    pub pulls: Vec<(i64, Pull)>,
    pub entries: BTreeMap<LineKey, (Entry, Option<AttemptId>)>,
    /// The part of `entries` that replaces a line in the database.
    pub entries_again: BTreeSet<LineKey>,
    /// Each with its org, in the order of the commands.
    pub knowledge_new: Vec<(i64, KnowledgeEntry)>,
    pub edges: Vec<(TaskId, KnowledgeId, EdgeKind)>,
    pub superseded: Vec<(i64, KnowledgeId, KnowledgeId)>,
    /// Each with its org, in the order of the commands.
    pub org: Vec<(i64, OrgWrite)>,
    pub crew: Vec<(i64, CrewWrite)>,
    pub retries: Vec<(CallKey, Row)>,
    /// Keys whose first answer has expired, with their step.
    pub retries_old: Vec<(CallKey, String)>,
    /// Each with its org.
    pub events: Vec<(i64, Event)>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        // The log rows of a crew's call and the rows of a retry key have no event.
        self.events.is_empty()
            && self.retries.is_empty()
            && self.tasks.is_empty()
            && self.tasks_new.is_empty()
            && self.crew.is_empty()
    }

    /// Whether a write needs a statement of its own.
    pub fn is_rare(&self) -> bool {
        self.learned() || !self.org.is_empty() || !self.crew.is_empty()
    }

    pub fn learned(&self) -> bool {
        !self.knowledge_new.is_empty() || !self.superseded.is_empty()
    }
}

impl CallKey {
    pub fn of(org: i64, op: &Op) -> Option<Self> {
        let (actor, tool) = (op.actor.as_str().to_owned(), op.tool.to_owned());
        op.retry_key.as_ref().map(|key| Self { org, actor, tool, key: key.key().to_owned() })
    }
}

impl Sheet {
    pub fn row(org: i64, task: Task, removed_at: Option<i64>) -> Self {
        let (body, execution_contract, deps, dependents, lines) = Default::default();
        let (card, scratchpad) = Default::default();
        Self {
            org,
            task,
            removed_at,
            body,
            execution_contract,
            deps,
            dependents,
            lines,
            card,
            scratchpad,
        }
    }
}

impl Desk {
    pub fn visible(&self, org: i64, id: TaskId) -> Option<&Sheet> {
        let sheet = self.tasks.get(&id.id)?;
        (sheet.org == org && sheet.task.id == id && sheet.removed_at.is_none()).then_some(sheet)
    }

    pub fn attempt(&self, org: i64, id: AttemptId) -> Option<&Attempt> {
        self.attempts.get(&id.0).filter(|(of, _)| *of == org).map(|(_, attempt)| attempt)
    }

    /// A comment, visible only if its task is.
    fn comment(&self, org: i64, id: CommentId) -> Option<&Comment> {
        self.comments.get(&id.0).filter(|comment| self.visible(org, comment.task).is_some())
    }

    fn open_blockers(&self, task: TaskId) -> Vec<Comment> {
        let blocks = |comment: &&Comment| comment.task == task && comment.blocks();
        let mut open: Vec<Comment> = self.comments.values().filter(blocks).cloned().collect();
        open.sort_by_key(|comment| comment.id);
        open
    }

    fn job(&self, org: i64, id: JobId) -> Option<&Job> {
        self.jobs.get(&id.0).filter(|(of, _)| *of == org).map(|(_, job)| job)
    }

    fn job_under_way(&self, org: i64, key: &str) -> Option<&Job> {
        let mut of_org = self.jobs.values().filter(|(of, _)| *of == org).map(|(_, job)| job);
        of_org.find(|job| job.key == key && !job.is_over())
    }

    fn entry(&self, org: i64, id: KnowledgeId) -> Option<&KnowledgeEntry> {
        self.knowledge.get(&id).filter(|(of, _)| *of == org).map(|(_, entry)| entry)
    }

    fn dep(&self, id: Id) -> Option<Dep> {
        let Some(Sheet { task, removed_at, .. }) = self.tasks.get(&id) else {
            return self.neighbours.get(&id).cloned();
        };
        let removed = removed_at.is_some();
        let lease_expires_at = match task.newest_attempt.and_then(|it| self.attempts.get(&it.0)) {
            Some((_, attempt)) => attempt.lease().map(|lease| lease.expires_at),
            None => self.neighbours.get(&id).and_then(|dep| dep.lease_expires_at),
        };
        let label = task.label.clone();
        Some(Dep { id: task.id, label, phase: task.phase, removed, lease_expires_at })
    }

    fn deps(&self, sheet: &Sheet) -> Vec<Dep> {
        sheet.deps.iter().filter_map(|(_, dep)| self.dep(*dep)).collect()
    }

    pub fn world<'a>(&self, org: i64, op: &'a Op) -> World<'a> {
        let needs = op.command.needs(&op.actor);
        let attempt = match (&needs.attempt, &needs.attempt_by_key) {
            (Some(id), _) => self.attempt(org, *id),
            (None, Some((task, actor, key))) => {
                let fits = |a: &Attempt| {
                    a.task.id == task.id && a.actor == *actor && a.key.as_ref() == Some(key)
                };
                let found = self.attempts.values().find(|(of, a)| *of == org && fits(a));
                found.map(|(_, attempt)| attempt)
            }
            (None, None) => None,
        };
        let comment = needs.comment.and_then(|id| self.comment(org, id));
        let named_job = needs.job.and_then(|id| self.job(org, id));
        let of_attempt = needs.attempt.and(attempt).map(|attempt| attempt.task);
        let of_comment = comment.map(|comment| comment.task);
        let of_job = named_job.and_then(|job| job.task);
        let subject = needs.task.or(of_attempt).or(of_comment).or(of_job);
        let verify_key = subject.filter(|_| needs.verify_job).map(verify_key);
        let job = match verify_key.as_ref().or(needs.job_key.as_ref()) {
            Some(key) => self.job_under_way(org, key),
            None => named_job,
        };
        let of_task = needs.run_of_task.then_some(subject).flatten();
        let job = match (of_task, &needs.run_key) {
            (Some(task), _) => self.jobs.values().find(|(of, job)| {
                *of == org && job.kind.is_run() && job.task == Some(task) && !job.is_over()
            }),
            // The newest job with the key.
            (None, Some(key)) => {
                let of_key = self.jobs.iter().filter(|(id, (of, _))| {
                    let run = self.runs.get(*id);
                    *of == org
                        && run.is_some_and(|(_, run, _)| run.order.key() == *key && !key.is_empty())
                });
                of_key.max_by_key(|(id, _)| **id).map(|(_, found)| found)
            }
            (None, None) => None,
        }
        .map(|(_, job)| job)
        .or(job);
        let in_org = |id: &&TaskId| self.tasks.get(&id.id).is_some_and(|s| s.org == org);
        let named = needs.named.iter().filter(in_org).filter_map(|id| self.dep(id.id));
        World {
            policy: &op.policy,
            actor: &op.actor,
            subject: subject.and_then(|id| self.subject(org, id, &needs)),
            attempt: attempt.cloned(),
            comment: comment.cloned(),
            job: job.cloned(),
            named: named.filter(|dep| needs.named.contains(&dep.id)).collect(),
            ancestry: match needs.ancestry_of.is_empty() {
                true => Vec::new(),
                false => self.ancestry.clone(),
            },
            knowledge: needs.knowledge.and_then(|id| self.entry(org, id)).cloned(),
            run: job.and_then(|job| self.runs.get(&job.id.0)).map(|(_, run, _)| run.clone()),
            open_runs: self.open_runs,
            runs_here: self.runs_here,
            org: self.org.clone(),
            above: if needs.above.is_some() { self.above.clone() } else { Vec::new() },
            numbers: needs
                .numbers
                .iter()
                .filter_map(|prefix| Some((*prefix, *self.numbers.get(&(org, *prefix))?)))
                .collect(),
            pulls_last: self.pulls_last,
            crew: match needs.crew.is_empty() {
                true => CrewWorld::default(),
                false => self.crews.world(org),
            },
            pulls: match subject.filter(|_| needs.task_pulls) {
                Some(task) => self.pulls_of(org, task),
                None => Vec::new(),
            },
        }
    }

    fn pulls_of(&self, org: i64, task: TaskId) -> Vec<Pull> {
        let of_task = |(of, pull): &&(i64, Pull)| *of == org && pull.task == Some(task);
        self.pulls.iter().filter(of_task).map(|(_, pull)| pull.clone()).collect()
    }

    pub fn pull_put(&mut self, org: i64, pull: Pull) {
        match self.pulls.iter_mut().find(|(of, known)| *of == org && known.is(&pull)) {
            Some(known) => known.1 = pull.clone(),
            None => self.pulls.push((org, pull.clone())),
        }
        // One statement writes all pull requests, and may touch each row only once.
        match self.changes.pulls.iter_mut().find(|(of, known)| *of == org && known.is(&pull)) {
            Some(known) => known.1 = pull,
            None => self.changes.pulls.push((org, pull)),
        }
    }

    fn subject(&self, org: i64, id: TaskId, needs: &Needs) -> Option<Subject> {
        let sheet = self.visible(org, id)?;
        let dependents = sheet.dependents.iter().filter(|_| needs.dependents);
        let newest = sheet.task.newest_attempt.and_then(|id| self.attempt(org, id));
        let last = sheet.lines.last().filter(|_| needs.last_entry);
        Some(Subject {
            card: if needs.card { sheet.card.clone() } else { Card::default() },
            body: needs.card.then(|| sheet.body.clone()),
            scratchpad: match needs.scratchpad {
                true => sheet.scratchpad.clone(),
                false => String::new(),
            },
            task: sheet.task.clone(),
            deps: self.deps(sheet),
            dependents: dependents.filter_map(|id| self.dependent(*id)).collect(),
            newest: newest.cloned(),
            blockers: if needs.blockers && sheet.task.open_blockers > 0 {
                self.open_blockers(id)
            } else {
                Vec::new()
            },
            last_entry: last.map(|line| LastEntry {
                did: line.entry.did.clone(),
                has_text: line.entry.text.is_some(),
                attempt: line.attempt,
            }),
        })
    }

    fn dependent(&self, id: Id) -> Option<Dependent> {
        let Sheet { task, removed_at, .. } = self.tasks.get(&id)?;
        let Task { id, project, open_deps, phase, .. } = task;
        removed_at.is_none().then_some(Dependent {
            id: *id,
            project: *project,
            open_deps: *open_deps,
            phase: *phase,
        })
    }

    pub fn outcome(&self, org: i64, reply: Reply) -> Result<Outcome, StoreError> {
        let missing = |what: String| StoreError::Internal(format!("{what} is not in the store"));
        match reply {
            Reply::Task(id) => Ok(match self.visible(org, id) {
                Some(sheet) => Outcome::Task(Box::new(self.record(org, sheet))),
                None => Outcome::Removed(id),
            }),
            Reply::Attempt(id) => match self.attempt(org, id) {
                Some(attempt) => Ok(Outcome::Attempt(Box::new(attempt.clone()))),
                None => Err(missing(format!("attempt {id}"))),
            },
            Reply::Comment(id) => match self.comment(org, id) {
                Some(comment) => Ok(Outcome::Comment(Box::new(comment.clone()))),
                None => Err(missing(format!("comment {id}"))),
            },
            Reply::Job(id) => match self.job(org, id) {
                Some(job) => Ok(Outcome::Job(Box::new(job.clone()))),
                None => Err(missing(format!("job {id}"))),
            },
            Reply::Run(id) => match (self.job(org, id), self.runs.get(&id.0)) {
                (Some(job), Some((_, run, _))) => {
                    let record = RunRecord { job: job.clone(), run: run.clone() };
                    Ok(Outcome::Run(Box::new(record)))
                }
                _ => Err(missing(format!("{id}"))),
            },
            Reply::Knowledge(id) => match self.entry(org, id) {
                Some(entry) => Ok(Outcome::Knowledge(Box::new(entry.clone()))),
                None => Err(StoreError::Internal(format!("{id} is not in the store"))),
            },
            Reply::Noted => Ok(Outcome::Noted),
            Reply::Decision(id) => Ok(Outcome::Decision(id)),
            Reply::Settings => Ok(Outcome::Settings(self.org.settings.clone())),
            Reply::Project(id) => match &self.org.project {
                Some(project) if project.id == id => {
                    Ok(Outcome::Project(Box::new(project.clone())))
                }
                _ => Err(missing(format!("project {id}"))),
            },
            Reply::Plan(id) => match &self.org.plan {
                Some(plan) if plan.id == id => Ok(Outcome::Plan(Box::new(plan.clone()))),
                _ => Err(missing(format!("{id}"))),
            },
            Reply::Mail(id) => match self.crews.mail(org, id) {
                Some(mail) => Ok(Outcome::Mail(Box::new(mail.clone()))),
                None => Err(missing(format!("{id}"))),
            },
        }
    }

    /// The task as it is on the desk now.
    fn record(&self, org: i64, sheet: &Sheet) -> TaskRecord {
        TaskRecord {
            body: sheet.body.clone(),
            execution_contract: sheet.execution_contract.clone(),
            deps: self.deps(sheet),
            entries: sheet.lines.iter().map(|line| line.entry.clone()).collect(),
            newest: sheet.task.newest_attempt.and_then(|id| self.attempt(org, id)).cloned(),
            task: sheet.task.clone(),
        }
    }
}

impl Sheet {
    /// Sorts the rows, which were read in no particular order.
    pub fn sort(&mut self) {
        self.deps.sort_unstable();
        self.dependents.sort_unstable();
        self.lines.sort_unstable_by_key(|line| line.number);
    }

    /// The task with the columns that most commands change taken from `after`. Comparing the result with `after`
    /// tells whether anything else differs, also in columns that are added later.
    pub fn moved(&self, after: &Task) -> Task {
        Task {
            label: after.label.clone(),
            phase: after.phase,
            phase_at: after.phase_at,
            assignee: after.assignee.clone(),
            open_deps: after.open_deps,
            fence: after.fence,
            newest_attempt: after.newest_attempt,
            entries: after.entries,
            updated_at: after.updated_at,
            ..self.task.clone()
        }
    }

    /// Adds a line, or replaces the newest one when the numbers are equal; returns whether it replaced one.
    pub fn put_line(&mut self, line: Line) -> bool {
        let again = self.lines.last_mut().filter(|last| last.number == line.number);
        let replaces = again.is_some();
        match again {
            Some(last) => *last = line,
            None => self.lines.push(line),
        }
        if self.lines.len() > ENTRIES_SHOWN_MAX {
            self.lines.remove(0);
        }
        replaces
    }
}
