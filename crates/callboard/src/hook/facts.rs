//! The facts of a hook, read from the board: what the actor holds, what comes next, and where files lie.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use callboard_domain::command::{LeaseTarget, LeaseUpdate};
use callboard_domain::crew::AgentId;
use callboard_domain::hook::{EditPlace, HookEvent, HookFacts, HookTask};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::task::TaskRecord;
use callboard_domain::task::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState, Health};
use callboard_domain::text::is_obeyed;
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{AttemptFilter, DigestTask, Engine, EngineError, TaskFilter};

use super::input::HookInput;
use super::session::HookMemory;

/// Tasks of one actor that are looked at. A hook runs at every tool call of a client, so its reads are few and bounded.
const HELD_MAX: usize = 20;
/// Live attempts that are looked at for the worktree of a file.
const LIVE_MAX: usize = 500;

/// The board, asked for one actor.
pub struct HookBoard<'a> {
    pub engine: &'a Engine,
    pub principal: &'a Principal,
    /// The project's folder. Worktrees in the store are named from here.
    pub root: &'a Path,
}

/// A task that the actor holds, with the attempt if it began one.
struct HeldTask {
    record: TaskRecord,
    attempt: Option<Attempt>,
}

impl HookBoard<'_> {
    fn op(&self, tool: &'static str) -> OpContext {
        OpContext::new(self.principal.clone(), tool)
    }

    /// Everything that the event's answer depends on.
    pub async fn facts(
        &self,
        event: HookEvent,
        input: &HookInput,
        memory: &mut HookMemory,
    ) -> Result<HookFacts, EngineError> {
        // Every answer depends on what the actor holds.
        let (held, now) = self.held().await?;
        let shown = held.iter().map(|task| self.shown(task, now)).collect();
        let mut facts = HookFacts { held: shown, ..HookFacts::default() };
        match event {
            HookEvent::SessionStart => self.start(&held, &mut facts).await?,
            HookEvent::BeforeEdit => facts.edits = self.places(&held, input).await?,
            HookEvent::AfterTool => {
                facts.lost = self.lost(&held, memory).await?;
                self.heartbeat(&held, memory).await;
            }
            HookEvent::BeforeCompact => self.note(&held).await,
            HookEvent::TurnEnd => {
                let names: Vec<&str> = facts.held.iter().map(|task| task.name.as_str()).collect();
                let open = names.join(" ");
                facts.stops = memory.stops_with(&open);
                // The rule stops reminding after some turns with one set of tasks, so the count is kept with the set.
                (memory.told, memory.stops) = (open, facts.stops + 1);
            }
            HookEvent::StatusLine => {}
        }
        Ok(facts)
    }

    /// The tasks of the actor's live attempts, and the open tasks that are assigned to it.
    async fn held(&self) -> Result<(Vec<HeldTask>, Timestamp), EngineError> {
        let actor = self.principal.actor.to_string();
        let filter = AttemptFilter {
            actor: Some(actor.clone()),
            health: vec![Health::Active, Health::Stalled],
            limit: HELD_MAX,
            ..AttemptFilter::default()
        };
        let live = self.engine.attempt_list(&self.op("list_sessions"), filter).await?;
        let mut held = Vec::new();
        for attempt in live.it {
            let record = self.engine.task_get(&self.op("get"), attempt.task).await?.it;
            held.push(HeldTask { record, attempt: Some(attempt) });
        }
        let filter =
            TaskFilter { assignee: Some(Some(actor)), limit: HELD_MAX, ..TaskFilter::default() };
        let assigned = self.engine.task_list(&self.op("list"), filter).await?;
        for row in assigned.it {
            // A task in review waits for a person; its assignee has nothing to do.
            let is_open = matches!(row.task.phase, Phase::Initial | Phase::Working);
            let is_known = held.iter().any(|task| task.record.task.id == row.task.id);
            if is_open && !is_known {
                let record = self.engine.task_get(&self.op("get"), row.task.id).await?.it;
                held.push(HeldTask { record, attempt: None });
            }
        }
        Ok((held, live.now))
    }

    /// The task to take next, what was learned that matters to it, and unread mail.
    async fn start(&self, held: &[HeldTask], facts: &mut HookFacts) -> Result<(), EngineError> {
        let mut tasks: Vec<DigestTask> =
            held.iter().map(|task| DigestTask::from(&task.record)).collect();
        if held.is_empty() {
            let next = self.engine.task_next(&self.op("list"), 1).await?;
            if let Some(row) = next.it.first() {
                let record = self.engine.task_get(&self.op("get"), row.task.id).await?.it;
                tasks.push(DigestTask::from(&record));
                facts.next = Some(self.shown(&HeldTask { record, attempt: None }, next.now));
            }
        }
        let digests = self.engine.knowledge_hand(&self.op("list"), &tasks).await;
        for attempt in held.iter().filter_map(|task| task.attempt.as_ref()) {
            self.engine.knowledge_taken(&self.op("list"), attempt).await;
        }
        for (task, digest) in facts.held.iter_mut().chain(&mut facts.next).zip(digests) {
            let titles = digest.references.iter().map(|hit| one_line(&hit.entry.title));
            task.knowledge = titles.collect();
        }
        let inbox = AgentId::of(&self.principal.actor);
        facts.mail_unread = self.engine.mail_unread(&self.op("list"), Some(&inbox)).await?;
        Ok(())
    }

    /// Where each edited file lies.
    async fn places(
        &self,
        held: &[HeldTask],
        input: &HookInput,
    ) -> Result<Vec<EditPlace>, EngineError> {
        let root = real(self.root);
        let own: Vec<PathBuf> = held
            .iter()
            .filter_map(|task| task.attempt.as_ref()?.worktree.as_deref())
            .map(|worktree| real(&root.join(worktree)))
            .collect();
        let mut places = Vec::new();
        let mut others = None;
        for named in &input.edits {
            let base = input.cwd.as_deref().map_or(root.clone(), PathBuf::from);
            let path = real(&base.join(named));
            if own.iter().any(|worktree| path.starts_with(worktree)) {
                places.push(EditPlace::Own);
                continue;
            }
            // Read once, and only for a file outside of the actor's own worktrees.
            if others.is_none() {
                others = Some(self.worktrees_of_others(&root).await?);
            }
            let found = others.iter().flatten().find(|(worktree, _)| path.starts_with(worktree));
            let path_shown = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
            places.push(match found {
                Some((_, attempt)) => EditPlace::Other {
                    path: path_shown,
                    task: self.name_of(attempt.task).await?,
                    actor: attempt.actor.clone(),
                },
                None if path.starts_with(&root) => EditPlace::Project { path: path_shown },
                None => EditPlace::Elsewhere,
            });
        }
        Ok(places)
    }

    /// The worktrees of live attempts of other actors. An attempt in the shared checkout has none of its own.
    async fn worktrees_of_others(
        &self,
        root: &Path,
    ) -> Result<Vec<(PathBuf, Attempt)>, EngineError> {
        let health = vec![Health::Active, Health::Stalled];
        let filter = AttemptFilter { health, limit: LIVE_MAX, ..AttemptFilter::default() };
        let live = self.engine.attempt_list(&self.op("list_sessions"), filter).await?.it;
        let others = live.into_iter().filter(|attempt| attempt.actor != self.principal.actor);
        let placed = others.filter_map(|attempt| {
            let worktree = real(&root.join(attempt.worktree.as_deref()?));
            (worktree != root).then_some((worktree, attempt))
        });
        Ok(placed.collect())
    }

    async fn name_of(&self, task: TaskId) -> Result<String, EngineError> {
        Ok(self.engine.task_get(&self.op("get"), task).await?.it.task.name().to_string())
    }

    /// Keeps the leases. A refusal is not repeated here: the next look finds the task gone.
    async fn heartbeat(&self, held: &[HeldTask], memory: &mut HookMemory) {
        // A lease that is shorter than three intervals gets more heartbeats.
        let mut every = Duration::from_secs(self.engine.policy().heartbeat_interval_s.into());
        for attempt in held.iter().filter_map(|task| task.attempt.as_ref()) {
            if let Some(lease) = attempt.lease() {
                every = every.min(Duration::from_secs(u64::from(lease.granted_s)) / 3);
            }
            let op = self.op("heartbeat");
            let kept = match attempt.kind {
                AttemptKind::Graph => {
                    self.engine.attempt_heartbeat(&op, attempt.id, None).await.map(drop)
                }
                AttemptKind::Execution => {
                    let update = LeaseUpdate {
                        task: attempt.task,
                        fence: Some(attempt.fence),
                        to: LeaseTarget::Working,
                        asked: "in_progress",
                        extend: true,
                        note: None,
                    };
                    self.engine.lease_update(&op, update).await.map(drop)
                }
                // The server keeps the leases of what it runs itself.
                AttemptKind::Pair | AttemptKind::Crew | AttemptKind::Job => Ok(()),
            };
            if let Err(error) = kept {
                tracing::debug!(%error, "the heartbeat was refused");
            }
        }
        memory.held = held.iter().map(|task| task.record.task.id.to_string()).collect();
        memory.wait(every);
    }

    /// The tasks that were held at the last heartbeat and that another actor holds now, or whose lease ran out.
    async fn lost(
        &self,
        held: &[HeldTask],
        memory: &HookMemory,
    ) -> Result<Vec<(String, Option<callboard_domain::actor::Actor>)>, EngineError> {
        let mut lost = Vec::new();
        let is_held = |id: &TaskId| held.iter().any(|task| task.record.task.id == *id);
        let before = memory.held.iter().filter_map(|id| id.parse::<TaskId>().ok());
        for id in before.filter(|id| !is_held(id)) {
            // A task that was removed meanwhile has no new holder to tell of.
            let Ok(seen) = self.engine.task_get(&self.op("get"), id).await else { continue };
            let name = seen.it.task.name().to_string();
            let Some(newest) = &seen.it.newest else { continue };
            let is_own = newest.actor == self.principal.actor;
            match &newest.state {
                AttemptState::Live { .. } if !is_own => {
                    lost.push((name, Some(newest.actor.clone())))
                }
                AttemptState::Ended { end: AttemptEnd::Expired, .. } if is_own => {
                    lost.push((name, None));
                }
                AttemptState::Live { .. } | AttemptState::Ended { .. } => {}
            }
        }
        Ok(lost)
    }

    /// A line in the history of each held task: from here on the agent knows less.
    async fn note(&self, held: &[HeldTask]) {
        for task in held {
            let text = "The agent's client compacts its context.".to_owned();
            let noted = self.engine.task_note(&self.op("note"), task.record.task.id, text).await;
            if let Err(error) = noted {
                tracing::debug!(%error, "the note was refused");
            }
        }
    }

    fn shown(&self, held: &HeldTask, now: Timestamp) -> HookTask {
        let task = &held.record.task;
        let attempt = held.attempt.as_ref();
        let until = attempt.and_then(|attempt| attempt.safe_until(self.engine.policy()));
        HookTask {
            name: task.name().to_string(),
            title: one_line(&task.title),
            worktree: attempt.and_then(|attempt| attempt.worktree.clone()),
            // A session that was silent for too long is still held, with no time left.
            lease_left_s: until.map(|until| u64::try_from(until.ms_since(now) / 1000).unwrap_or(0)),
            checks: u32::try_from(task.checks.len()).unwrap_or(u32::MAX),
            checks_passed: task.checks.iter().filter(|check| check.is_pass()).count() as u32,
            knowledge: Vec::new(),
        }
    }
}

/// A text of the board without line ends and without characters that a terminal would obey: clients show a status line
/// as it is.
fn one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() || is_obeyed(c) { ' ' } else { c };
    text.chars().map(shown).collect()
}

/// The path without links and `..`, also where its end does not exist yet.
fn real(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            _ => plain.push(part),
        }
        // After each part: `..` behind a link leads to the parent of the link's target.
        if let Ok(found) = plain.canonicalize() {
            plain = found;
        }
    }
    plain
}
