//! The board as the rules alone would keep it: every row on one desk in memory, without a database.

use std::collections::HashMap;

use callboard_domain::actor::Actor;
use callboard_domain::board::project::{Project, ProjectRoom};
use callboard_domain::decide;
use callboard_domain::desk::{Desk, Outcome, RunCounts, TaskRows};
use callboard_domain::event::LoggedEvent;
use callboard_domain::ids::TaskId;
use callboard_domain::needs::Needs;
use callboard_domain::pulls::LOCAL;
use callboard_domain::refusal::Refusal;
use callboard_domain::retry::{Digest, HeldNow, HeldTask, not_kept};
use callboard_domain::rights::AgentType;
use callboard_domain::runs::job::{JobKind, JobState};
use callboard_domain::runs::run::OpenRuns;
use callboard_domain::task::standing::Standing;
use callboard_domain::time::Timestamp;
use callboard_domain::world::Change;
use callboard_store::{Applied, Op, RETRIES_KEPT_MS};

/// The answer that a retry key finds again.
struct Kept {
    step: String,
    digest: Digest,
    held: Option<HeldTask>,
    applied: Applied,
}

#[derive(Default)]
pub struct DeskBoard {
    pub desk: Desk,
    pub events: Vec<LoggedEvent>,
    kept: HashMap<(Actor, String), Vec<Kept>>,
}

impl DeskBoard {
    pub fn new(project: Project) -> Self {
        let mut board = Self::default();
        board.desk.rows.org.projects.insert(project.id, project);
        board
    }

    pub fn apply(&mut self, op: &Op, now: Timestamp) -> Result<Applied, Refusal> {
        self.desk.now = now;
        if let Some(applied) = self.replayed(op, now)? {
            return Ok(applied);
        }
        self.count(&op.command.needs(&op.actor));
        let world = self.desk.world(&op.policy, &op.actor, &op.command);
        let before: Option<Standing> = world.standing(now);
        let change = decide(&world, &op.command, now)?;
        let (changed, queued) = (!change.is_empty(), change.queued());
        let Change { writes, events, reply, but } = change;
        for write in writes {
            self.desk.apply(write).expect("every task is on the desk");
        }
        for event in events {
            let seq = self.events.len() as u64 + 1;
            let (actor, name, about, data) = (event.actor, event.name, event.about, event.data);
            self.events.push(LoggedEvent { seq, at: now, actor, name, about, data });
        }
        let applied = Applied {
            outcome: self.desk.answer(reply).expect("every row is on the desk"),
            before,
            but,
            last_seq: changed.then_some(self.events.len() as u64),
            at: now,
            taken: None,
            changed,
            replayed: false,
            queued,
        };
        self.remember(op, &applied);
        Ok(applied)
    }

    /// Whether the rules would carry this command out, and change something.
    pub fn would_change(&mut self, op: &Op, now: Timestamp) -> bool {
        self.desk.now = now;
        self.count(&op.command.needs(&op.actor));
        let world = self.desk.world(&op.policy, &op.actor, &op.command);
        decide(&world, &op.command, now).is_ok_and(|change| !change.is_empty())
    }

    /// The first answer to a command with this key, if the caller still has what that answer gave.
    fn replayed(&self, op: &Op, now: Timestamp) -> Result<Option<Applied>, Refusal> {
        let Some(key) = &op.retry_key else { return Ok(None) };
        let known = self.kept.get(&(op.actor.clone(), key.key().to_owned()));
        let since = now.plus_ms(-RETRIES_KEPT_MS);
        let known: Vec<&Kept> =
            known.into_iter().flatten().filter(|kept| kept.applied.at > since).collect();
        for kept in &known {
            key.judge(op.tool, Some(kept.digest))?;
        }
        let step = op.command.name();
        let Some(kept) = known.into_iter().find(|kept| kept.step == step) else { return Ok(None) };
        if let Some(held) = &kept.held {
            let rows = &self.desk.rows;
            let task = rows.visible(held.task).map(|rows| &rows.task);
            let at = HeldNow {
                task,
                newest: task.and_then(|task| rows.newest(task)),
                attempt: held.attempt.and_then(|id| rows.attempts.get(&id)),
            };
            held.judge(&op.actor, at, &op.policy, now)?;
        }
        let first = kept.applied.clone();
        let is_too_large = format!("{:?}", first.outcome).len() > 500_000;
        if is_too_large {
            return Err(not_kept(op.tool));
        }
        let queued = Default::default();
        Ok(Some(Applied { last_seq: None, taken: None, replayed: true, queued, ..first }))
    }

    fn remember(&mut self, op: &Op, applied: &Applied) {
        let Some(key) = op.retry_key.as_ref().filter(|_| applied.but.is_none()) else { return };
        let (task, newest) = match &applied.outcome {
            Outcome::Task(record) => (Some(&record.task), record.newest.as_ref()),
            Outcome::Attempt(attempt) => (None, Some(&**attempt)),
            _ => (None, None),
        };
        let held = HeldTask::after(&op.command, &op.actor, task, newest, applied.at);
        let (step, digest) = (op.command.name(), key.digest());
        let known = self.kept.entry((op.actor.clone(), key.key().to_owned())).or_default();
        known.retain(|kept| kept.step != step);
        known.push(Kept { step, digest, held, applied: applied.clone() });
    }

    /// Counts and closures, which a store asks its database for.
    fn count(&mut self, needs: &Needs) {
        let rows = &mut self.desk.rows;
        let (mut open, mut here) = (OpenRuns::default(), 0);
        for run in rows.runs.values() {
            let job = &rows.jobs[&run.job];
            match job.state {
                JobState::Queued { .. } => open.queued += u32::from(job.kind == JobKind::Run),
                JobState::Running { .. } | JobState::Stale { .. } => {
                    open.running += u32::from(job.kind == JobKind::Run);
                    let is_here = needs.runs_on.as_ref().is_some_and(|(kind, machine)| {
                        job.kind == *kind && run.runs_on.as_ref() == Some(machine)
                    });
                    here += u32::from(is_here);
                }
                JobState::Done { .. }
                | JobState::Failed { .. }
                | JobState::Canceled { .. }
                | JobState::Expired { .. } => {}
            }
        }
        let here = needs.runs_on.iter().map(|place| (place.clone(), here)).collect();
        rows.counts = RunCounts { open: needs.open_runs.then_some(open), here };
        let own = rows.pulls.iter().filter(|pull| pull.forge == LOCAL);
        rows.pulls_last = own.map(|pull| pull.number).max().unwrap_or(0);
        let edges = |rows: &TaskRows| -> Vec<(TaskId, TaskId)> {
            rows.deps.iter().map(|(_, dep)| (rows.task.id, *dep)).collect()
        };
        rows.ancestry = rows.tasks.values().flat_map(edges).collect();
        let parent = |id: &TaskId| rows.tasks.get(id).and_then(|rows| rows.task.parent);
        let above = needs.above.as_ref().and_then(parent);
        rows.above = std::iter::successors(above, parent).collect();
        let is_worker = |agent: &&callboard_domain::crew::Agent| agent.kind == AgentType::Worker;
        rows.crew.workers = rows.crew.agents.iter().filter(is_worker).count() as u32;
        let number = rows.org.projects.keys().max().unwrap_or(&0) + 1;
        let repo = rows.org.repos.iter().map(|repo| repo.id).max().unwrap_or(0) + 1;
        rows.org.room = needs.org.room.map(|repos| ProjectRoom {
            project: number,
            repos: (repo..).take(repos).collect(),
            is_first: rows.org.projects.is_empty(),
        });
        rows.org.settings.sort_by_key(|(key, _)| key.as_str());
    }
}
