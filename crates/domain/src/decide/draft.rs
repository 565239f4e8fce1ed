//! A change in the making: rows as they will be, with the other writes and the events so far.
//!
//! Rules change the live copies in `Draft`. Each row that differs from the loaded one is written once, at the end.

use serde_json::{Value, json};

use crate::actor::Actor;
use crate::board::card::Card;
use crate::crew::{Agent, AgentId};
use crate::event::{About, Event, EventName};
use crate::ids::{AttemptId, TaskId};
use crate::policy::{Label, Phase};
use crate::refusal::found::OrNotFound as _;
use crate::refusal::{Hold, Refusal};
use crate::runs::job::Job;
use crate::runs::run::Run;
use crate::task::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState, Lease};
use crate::task::standing::{Standing, phase_after_lease};
use crate::task::{Entry, Task};
use crate::time::Timestamp;
use crate::world::{Change, CrewWrite, Reply, Subject, World, Write};

/// An attempt that begins now. The draft gives it its fencing token.
pub(crate) struct NewAttempt {
    pub id: AttemptId,
    pub kind: AttemptKind,
    pub actor: Actor,
    pub key: Option<String>,
    pub client: Option<String>,
    pub model: Option<String>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    /// The commit that the work starts from.
    pub head: Option<String>,
    pub lease_s: Option<u32>,
}

impl NewAttempt {
    /// An attempt without a lease, of which nothing else is known.
    pub fn of(id: AttemptId, kind: AttemptKind, actor: Actor) -> Self {
        let (key, client, model) = (None, None, None);
        let (worktree, branch, head, lease_s) = (None, None, None, None);
        Self { id, kind, actor, key, client, model, worktree, branch, head, lease_s }
    }
}

pub(crate) struct Draft<'w> {
    pub world: &'w World<'w>,
    /// The subject as it was loaded.
    pub subject: &'w Subject,
    pub now: Timestamp,
    pub task: Task,
    /// The live attempt, judged at `now`.
    pub live: Option<Attempt>,
    pub card: Card,
    pub scratchpad: String,
    /// The job of `World::job` with its run. Jobs that the change adds go through `insert_job`.
    pub job: Option<Job>,
    pub run: Option<Run>,
    agents: Vec<Agent>,
    /// Writes that are no live copy of a loaded row.
    writes: Vec<Write>,
    events: Vec<Event>,
}

impl<'w> Draft<'w> {
    /// Starts from the subject. A lease that is over is ended first, so that every rule sees the task as it is now.
    /// If the command is then refused, that end is not written either.
    pub fn of_task(world: &'w World<'w>, id: TaskId, now: Timestamp) -> Result<Self, Refusal> {
        let subject = world.subject.as_ref().or_not_found(&id)?;
        let mut draft = Self {
            world,
            subject,
            now,
            task: subject.task.clone(),
            live: subject.live().cloned(),
            card: subject.card.clone(),
            scratchpad: subject.scratchpad.clone(),
            job: world.job.clone(),
            run: world.run.clone(),
            agents: world.crew.agents.clone(),
            writes: Vec::new(),
            events: Vec::new(),
        };
        draft.settle_lease();
        Ok(draft)
    }

    fn settle_lease(&mut self) {
        let over = |live: &Attempt| live.clone().settle(self.now);
        let Some(over_at) = self.live.as_ref().and_then(over) else {
            return;
        };
        let clock: Actor = "system:clock".parse().expect("a constant actor is well formed");
        let holder = self.live.as_ref().map(|live| live.actor.clone());
        // Readers saw this end at `over_at` before it was written, so the written one keeps that time.
        let attempt = self.end_live_at(over_at, &clock, AttemptEnd::Expired);
        self.event_by(&clock, EventName::AttemptExpired, attempt, json!({"holder": holder}));
        self.give_back(&clock);
        self.entry_by(&clock, "lease expired", None, attempt);
    }

    /// Unassigns the task and moves it back to the start, as after a lease that ended without a result.
    pub fn give_back(&mut self, by: &Actor) {
        self.task.assignee = None;
        self.back_to_start_by(by);
    }

    /// Moves the task back to the start; the assignee stays.
    pub fn back_to_start(&mut self) {
        self.back_to_start_by(self.world.actor);
    }

    fn back_to_start_by(&mut self, by: &Actor) {
        if phase_after_lease(self.task.phase) == Phase::Initial {
            let initial = self.world.policy.initial().clone();
            if initial.name != self.task.label {
                self.relabel(by, &initial);
            }
        }
    }

    pub fn actor(&self) -> &'w Actor {
        self.world.actor
    }

    /// Who holds the task: the assignee, else the actor of the live attempt.
    pub fn holder(&self) -> Option<&Actor> {
        self.task.assignee.as_ref().or(self.live.as_ref().map(|live| &live.actor))
    }

    pub fn held_by_another(&self) -> Option<Refusal> {
        let others = [self.task.assignee.as_ref(), self.live.as_ref().map(|live| &live.actor)];
        let other = others.into_iter().flatten().find(|holder| *holder != self.actor())?;
        Some(self.claimed_by(other))
    }

    pub fn claimed_by(&self, holder: &Actor) -> Refusal {
        let hold = Hold::of(self.live.as_ref(), holder, self.world.policy, self.now);
        Refusal::AlreadyClaimed { task: self.task.id, holder: holder.clone(), hold }
    }

    /// Where the task stands, its lease judged at `now`.
    pub fn standing(&self) -> Standing {
        Standing::of(&self.subject.task, self.subject.newest.as_ref(), self.now)
    }

    pub fn open_gate(&self) -> Result<(), Refusal> {
        let (task, label) = (self.task.id, self.task.label.clone());
        if self.task.phase.is_closed() { Err(Refusal::Closed { task, label }) } else { Ok(()) }
    }

    pub fn deps_gate(&self) -> Result<(), Refusal> {
        crate::decide::task::deps_gate(self.task.id, &self.subject.deps)
    }

    pub fn event(&mut self, name: EventName, data: Value) {
        self.event_by(self.world.actor, name, None, data);
    }

    pub fn attempt_event(&mut self, name: EventName, attempt: AttemptId, data: Value) {
        self.event_by(self.world.actor, name, Some(attempt), data);
    }

    fn event_by(&mut self, by: &Actor, name: EventName, attempt: Option<AttemptId>, data: Value) {
        let about = About { project: self.task.project, task: self.task.id, attempt };
        self.events.push(Event { actor: by.clone(), name, about: Some(about), data });
    }

    /// Adds a write of a row that the draft has no live copy of.
    pub fn write(&mut self, write: Write) {
        self.writes.push(write);
    }

    /// The agent as it will be.
    pub fn agent(&mut self, id: &AgentId) -> Option<&mut Agent> {
        self.agents.iter_mut().find(|agent| agent.id == *id)
    }

    /// Adds a job to the queue, with the run in which an agent does it.
    pub fn insert_job(&mut self, job: Job, run: Option<Run>) {
        self.write(Write::JobInsert { job });
        if let Some(run) = run {
            self.write(Write::RunInsert { run, task: self.task.id });
        }
    }

    /// Whether this change adds `dep` to the task.
    pub fn adds_dep(&self, dep: TaskId) -> bool {
        let new = |write: &Write| matches!(write, Write::DepInsert { dep: new, .. } if *new == dep);
        self.writes.iter().any(new)
    }

    /// Adds the writes and events of another part of the change.
    pub fn take_over(&mut self, writes: Vec<Write>, events: Vec<Event>) {
        self.writes.extend(writes);
        self.events.extend(events);
    }

    /// Adds the one line that this call leaves in the task's history.
    pub fn entry(&mut self, did: impl Into<String>, text: Option<String>) {
        self.entry_by(self.world.actor, did, text, None);
    }

    pub fn attempt_entry(&mut self, did: &str, text: Option<String>, attempt: AttemptId) {
        self.entry_by(self.world.actor, did, text, Some(attempt));
    }

    fn entry_by(
        &mut self,
        by: &Actor,
        did: impl Into<String>,
        text: Option<String>,
        attempt: Option<AttemptId>,
    ) {
        self.task.entries += 1;
        self.put_entry(Entry { who: by.clone(), at: self.now, did: did.into(), text }, attempt);
    }

    /// A heartbeat without text: several in a row are one line.
    pub fn heartbeat_entry(&mut self, attempt: AttemptId) {
        let idle_before = self.subject.last_entry.as_ref().is_some_and(|last| {
            last.did == "heartbeat" && !last.has_text && last.attempt == Some(attempt)
        });
        if idle_before {
            self.entry_again("heartbeat", attempt);
        } else {
            self.attempt_entry("heartbeat", None, attempt);
        }
    }

    /// Replaces the newest line of the history instead of adding one.
    fn entry_again(&mut self, did: &str, attempt: AttemptId) {
        let who = self.world.actor.clone();
        self.put_entry(Entry { who, at: self.now, did: did.into(), text: None }, Some(attempt));
    }

    fn put_entry(&mut self, entry: Entry, attempt: Option<AttemptId>) {
        let (task, number) = (self.task.id, self.task.entries);
        self.write(Write::EntryPut { task, number, entry, attempt });
    }

    /// Moves the task to a label with everything that follows from the move; the caller has judged the gates.
    pub fn move_to(&mut self, label: &Label) {
        let by = self.world.actor;
        let was_closed = self.task.phase.is_closed();
        self.relabel(by, label);
        if label.phase.is_closed() != was_closed {
            self.adjust_dependents(label.phase.is_closed());
        }
        let outside = self.live.as_ref().is_some_and(|live| live.kind != AttemptKind::Graph);
        if label.phase.is_closed() && outside {
            self.end_live(AttemptEnd::Canceled { reason: format!("task moved to {}", label.name) });
        }
    }

    /// The time of this change: later than every earlier change of the task, also within one microsecond.
    fn moment(&self) -> Timestamp {
        self.now.max(Timestamp(self.subject.task.updated_at.0 + 1))
    }

    fn relabel(&mut self, by: &Actor, label: &Label) {
        let mut data = json!({"from": self.task.label, "to": label.name, "phase": label.phase});
        if self.moment() != self.now {
            data["at"] = json!(self.moment());
        }
        if self.task.phase != label.phase {
            self.task.phase_at = self.now;
        }
        self.task.label = label.name.clone();
        self.task.phase = label.phase;
        self.event_by(by, EventName::TaskStatusChanged, None, data);
    }

    /// Subtracts one open dep from every dependent (or adds one), and logs an event for each that became ready.
    pub fn adjust_dependents(&mut self, closed: bool) {
        if self.subject.dependents.is_empty() {
            return;
        }
        let delta = if closed { -1 } else { 1 };
        self.write(Write::DependentsAdjust { dep: self.task.id, delta });
        for dependent in &self.subject.dependents {
            if closed && dependent.open_deps == 1 && !dependent.phase.is_closed() {
                let about = About { project: dependent.project, task: dependent.id, attempt: None };
                self.events.push(Event {
                    actor: self.world.actor.clone(),
                    name: EventName::TaskReady,
                    about: Some(about),
                    data: json!({"unblocked_by": self.task.id}),
                });
            }
        }
    }

    /// Begins the next attempt on the task. The only place that makes an attempt.
    pub fn begin(&mut self, new: NewAttempt) {
        self.task.fence += 1;
        self.task.newest_attempt = Some(new.id);
        let fence = self.task.fence;
        let (name, data) = match new.kind {
            AttemptKind::Graph | AttemptKind::Execution | AttemptKind::Job => {
                (EventName::AttemptStarted, json!({"kind": new.kind.as_str(), "fence": fence}))
            }
            AttemptKind::Pair => {
                (EventName::SessionCreated, json!({"agent": new.actor, "fence": fence}))
            }
            AttemptKind::Crew => {
                let agent = AgentId::of(&new.actor);
                (EventName::TaskAssigned, json!({"agentId": agent, "fence": fence}))
            }
        };
        let expires_at = |granted_s| self.now.plus_s(granted_s);
        let lease =
            new.lease_s.map(|granted_s| Lease { granted_s, expires_at: expires_at(granted_s) });
        let attempt = Attempt {
            id: new.id,
            task: self.task.id,
            kind: new.kind,
            fence,
            actor: new.actor,
            key: new.key,
            client: new.client,
            model: new.model,
            worktree: new.worktree,
            branch: new.branch,
            head_started: new.head,
            started_at: self.now,
            state: AttemptState::Live { heartbeat_at: self.now, progress: None, lease },
        };
        self.live = Some(attempt.clone());
        self.write(Write::AttemptInsert { attempt });
        self.attempt_event(name, new.id, data);
    }

    pub fn end_live(&mut self, end: AttemptEnd) -> Option<AttemptId> {
        self.end_live_at(self.now, self.world.actor, end)
    }

    fn end_live_at(&mut self, at: Timestamp, by: &Actor, end: AttemptEnd) -> Option<AttemptId> {
        let mut attempt = self.live.take()?;
        let id = attempt.id;
        let how = end.as_str();
        attempt.state = AttemptState::Ended { at, end };
        self.write(Write::AttemptUpdate { attempt });
        self.event_by(by, EventName::AttemptEnded, Some(id), json!({"how": how}));
        Some(id)
    }

    pub fn assign(&mut self) {
        self.assign_to(self.world.actor.clone());
    }

    pub fn assign_to(&mut self, actor: Actor) {
        self.event(EventName::TaskClaimed, json!({"assignee": actor}));
        self.task.assignee = Some(actor);
    }

    pub fn unassign(&mut self) {
        let was = self.task.assignee.take();
        self.event(EventName::TaskReleased, json!({"assignee": was}));
    }

    /// Whether anything will be written.
    pub fn has_changes(&self) -> bool {
        let (world, subject) = (self.world, self.subject);
        !self.writes.is_empty()
            || self.task != subject.task
            || self.card != subject.card
            || self.scratchpad != subject.scratchpad
            || self.job != world.job
            || self.run != world.run
            || self.agents != world.crew.agents
    }

    /// A repeat that changes nothing: no row, no event, no entry.
    pub fn unchanged(self, reply: Reply) -> Change {
        Change { writes: Vec::new(), events: Vec::new(), reply, but: None }
    }

    /// The change of a command about the task: the task's row is written with the time of the change.
    pub fn done(mut self) -> Change {
        self.task.updated_at = self.moment();
        let (id, world, subject) = (self.task.id, self.world, self.subject);
        // A job that ends comes before the insert of the next one: both may have one key.
        let run = self.run.filter(|run| world.run.as_ref() != Some(run));
        let mut writes = job_writes(world, self.job, run);
        writes.extend(self.writes);
        if self.card != subject.card {
            writes.push(Write::CardPut { task: id, card: self.card });
        }
        if self.scratchpad != subject.scratchpad {
            writes.push(Write::ScratchpadPut { task: id, text: self.scratchpad });
        }
        for agent in self.agents {
            if world.crew.agent(&agent.id) != Some(&agent) {
                writes.push(Write::Crew(CrewWrite::AgentUpdate { agent }));
            }
        }
        writes.push(Write::TaskUpdate { task: self.task });
        Change { writes, events: self.events, reply: Reply::Task(id), but: None }
    }

    /// The change of a command about something beside the task: the task's row is written only if it differs.
    pub fn done_beside(self, reply: Reply) -> Change {
        let is_as_loaded = self.task == self.subject.task;
        let mut change = Change { reply, ..self.done() };
        if is_as_loaded {
            change.writes.pop();
        }
        change
    }

    pub fn done_with(self, attempt: AttemptId) -> Change {
        Change { reply: Reply::Attempt(attempt), ..self.done() }
    }

    pub fn done_but(self, refusal: Refusal) -> Change {
        Change { but: Some(refusal), ..self.done() }
    }
}

/// The update of the loaded job, if it differs, and the update of a run that takes a step.
pub(crate) fn job_writes(world: &World<'_>, job: Option<Job>, run: Option<Run>) -> Vec<Write> {
    let job = job.filter(|job| world.job.as_ref() != Some(job)).map(|job| Write::JobUpdate { job });
    job.into_iter().chain(run.map(|run| Write::RunUpdate { run })).collect()
}
