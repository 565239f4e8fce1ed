//! Who does what: every actor with an attempt in a span of time, and every agent of the crew. Reads only.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

use callboard_domain::actor::Actor;
use callboard_domain::crew::record::{WorkRecord, state_outside};
use callboard_domain::crew::{Agent, AgentId, AgentState};
use callboard_domain::event::{EventName, LoggedEvent};
use callboard_domain::ids::{AttemptId, Id};
use callboard_domain::policy::Policy;
use callboard_domain::runs::usage::RunUsage;
use callboard_domain::task::attempt::{Attempt, AttemptEnd, AttemptState, Health};
use callboard_domain::task::{Task, TaskRow};
use callboard_domain::time::Timestamp;
use callboard_store::{AttemptSeen, AttemptSpan, BackQuery};

use crate::context::{OpContext, Scope};
use crate::crew::agents::AgentStanding;
use crate::{At, Engine, EngineError};

/// How many attempts of a span, and how many actors, are read.
const ATTEMPTS_MAX: usize = 500;
const ACTORS_MAX: usize = 50;
const AGENTS_MAX: usize = 100;
/// How many of the newest events are searched for heartbeats.
const EVENTS_SEARCHED: usize = 1000;

/// How far back actors are searched.
const SEARCHED_MS: i64 = 30 * 24 * 60 * 60 * 1000;

/// The span of a roster.
#[derive(Clone, Debug)]
pub struct RosterFilter {
    /// `None`: every actor.
    pub actor: Option<Actor>,
    pub from: Timestamp,
    pub until: Timestamp,
}

#[derive(Clone, Debug)]
pub struct Roster {
    /// In the order of their names.
    pub actors: Vec<ActorSeen>,
    /// Actors that were left out.
    pub left_out: usize,
    /// Whether the span has older attempts than those that were read.
    pub is_cut: bool,
}

/// An actor with its work in the span.
#[derive(Clone, Debug)]
pub struct ActorSeen {
    pub actor: Actor,
    /// Set for an agent of the crew.
    pub agent: Option<(Agent, AgentStanding)>,
    pub state: AgentState,
    /// The task of its live attempt, of its assignment, or of its newest attempt while that task is in review.
    pub task: Option<Task>,
    pub heard_at: Option<Timestamp>,
    /// Since when a busy actor has been silent, if that is too long. An actor that asks is not silent.
    pub silent_since: Option<Timestamp>,
    /// Whether its run waits for an answer.
    pub asks: bool,
    /// Oldest first.
    pub work: Vec<WorkSpan>,
    pub record: WorkRecord,
    /// The tokens and the cost of its runs in the span; `None` where no run reported them.
    pub usage: Option<RunUsage>,
}

/// An attempt in the span, with the heartbeats that the newest events tell of.
#[derive(Clone, Debug)]
pub struct WorkSpan {
    pub seen: AttemptSeen,
    pub heartbeats: Vec<Timestamp>,
}

impl ActorSeen {
    /// Its live attempt, if there is one.
    pub fn live(&self, now: Timestamp) -> Option<&AttemptSeen> {
        let mut seen = self.work.iter().rev().map(|work| &work.seen);
        seen.find(|seen| seen.attempt.is_live(now))
    }

    pub fn is_idle(&self) -> bool {
        self.state == AgentState::Idle && self.work.is_empty()
    }
}

impl Engine {
    pub async fn roster(
        &self,
        op: &OpContext,
        filter: RosterFilter,
    ) -> Result<At<Roster>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let RosterFilter { actor, from, until } = filter;
        let limit = ATTEMPTS_MAX + 1;
        let span = AttemptSpan { org: org.clone(), actor: actor.clone(), from, until, limit };
        let mut found = store.attempts_within(span).await?;
        let is_cut = found.len() > ATTEMPTS_MAX;
        found.truncate(ATTEMPTS_MAX);
        let newest = BackQuery::of(org.clone(), EVENTS_SEARCHED);
        let mut heartbeats = heartbeats(&store.events_back(newest).await?);
        let names = Some(vec![EventName::JobUsed]);
        let used = BackQuery { names, ..BackQuery::of(org.clone(), EVENTS_SEARCHED) };
        let used = used_by(&store.events_back(used).await?, from..=until);
        let mut agents: HashMap<AgentId, Agent> = match &actor {
            None => {
                let agents = self.agent_list(op, None, None, AGENTS_MAX).await?;
                agents.into_iter().map(|agent| (agent.id.clone(), agent)).collect()
            }
            Some(actor) => {
                let agent = self.agent_find(op, &AgentId::of(actor)).await?;
                agent.into_iter().map(|agent| (agent.id.clone(), agent)).collect()
            }
        };
        let now = store.now();
        let mut work: BTreeMap<Actor, Vec<WorkSpan>> = BTreeMap::new();
        for seen in found.into_iter().rev() {
            let seen = as_of(seen, &self.parts.policy, now);
            if !was_live(&seen.attempt, from) {
                continue;
            }
            let heartbeats = heartbeats.remove(&seen.attempt.id).unwrap_or_default();
            let actor = seen.attempt.actor.clone();
            work.entry(actor).or_default().push(WorkSpan { seen, heartbeats });
        }
        for id in agents.keys() {
            work.entry(id.actor()).or_default();
        }
        if let Some(actor) = actor {
            work.entry(actor).or_default();
        }
        // Actors without work in the span are the first that are left out.
        let mut names: Vec<(bool, Actor)> =
            work.iter().map(|(name, work)| (work.is_empty(), name.clone())).collect();
        names.sort();
        let left_out = names.len().saturating_sub(ACTORS_MAX);
        for (_, name) in names.drain(names.len() - left_out..) {
            work.remove(&name);
        }
        let questions = self.questions(op).await?;
        let asking: HashSet<Id> =
            questions.iter().filter_map(|record| Some(record.job.task?.id)).collect();
        let mut actors = Vec::new();
        for (actor, work) in work {
            let agent = agents.remove(&AgentId::of(&actor));
            let usage = used.get(&actor).copied();
            let mut seen = ActorSeen { usage, ..self.actor_seen(op, actor, agent, work).await? };
            seen.asks = seen.live(now).is_some_and(|live| asking.contains(&live.task.id.id));
            seen.silent_since = seen.silent_since.filter(|_| !seen.asks);
            actors.push(seen);
        }
        Ok(At { it: Roster { actors, left_out, is_cut }, now })
    }

    /// Actors whose names hold these words, in the order of the names: agents of the crew, and actors with an attempt
    /// in the last month.
    pub async fn actor_search(
        &self,
        op: &OpContext,
        words: &str,
        limit: usize,
    ) -> Result<Vec<Actor>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let until = store.now();
        let from = until.plus_ms(-SEARCHED_MS);
        let span = AttemptSpan { org: org.clone(), actor: None, from, until, limit: ATTEMPTS_MAX };
        let attempts = store.attempts_within(span).await?;
        let agents = self.agent_list(op, None, None, AGENTS_MAX).await?;
        let known = attempts.into_iter().map(|seen| seen.attempt.actor);
        let known = known.chain(agents.into_iter().map(|agent| agent.id.actor()));
        let words = words.to_lowercase();
        let mut found: Vec<Actor> =
            known.filter(|actor| actor.to_string().to_lowercase().contains(&words)).collect();
        found.sort();
        found.dedup();
        found.truncate(limit);
        Ok(found)
    }

    async fn actor_seen(
        &self,
        op: &OpContext,
        actor: Actor,
        agent: Option<Agent>,
        work: Vec<WorkSpan>,
    ) -> Result<ActorSeen, EngineError> {
        let now = self.parts.store.now();
        let record = WorkRecord::of(work.iter().map(|work| (&work.seen.attempt, &work.seen.task)));
        let newest = work.last().map(|work| (&work.seen.attempt, &work.seen.task));
        let live = work.iter().rev().map(|work| &work.seen).find(|seen| seen.attempt.is_live(now));
        let health = live.map(|seen| seen.attempt.health(&self.parts.policy, now));
        let beat_at = live.and_then(|seen| seen.attempt.heartbeat_at());
        let silent = beat_at.filter(|_| health == Some(Health::Stalled));
        let ended_at = work.last().and_then(last_sign);
        let agent = match agent {
            Some(agent) => {
                let standing = self.agent_standing(op, &agent).await?;
                Some((agent, standing))
            }
            None => None,
        };
        let (state, silent_since) = match &agent {
            Some((_, standing)) => (standing.state, standing.silent_since.or(silent)),
            None => (state_outside(newest, now), silent),
        };
        let assigned = agent.as_ref().and_then(|(_, standing)| standing.task);
        let task = match (live, assigned) {
            (Some(seen), _) => Some(seen.task.clone()),
            (None, Some(task)) => {
                self.agent_card(op, Some(task)).await?.map(|seen| seen.record.task)
            }
            (None, None) => {
                newest.filter(|_| state == AgentState::Waiting).map(|(_, task)| task.clone())
            }
        };
        let seen_at = agent.as_ref().map(|(agent, _)| agent.last_active_at);
        let heard_at = beat_at.or(ended_at).max(seen_at);
        let (usage, asks) = (None, false);
        Ok(ActorSeen {
            actor,
            agent,
            state,
            task,
            heard_at,
            silent_since,
            asks,
            work,
            record,
            usage,
        })
    }
}

/// The tokens and the cost of each agent in a span of time, as the events tell of them.
fn used_by(events: &[LoggedEvent], span: RangeInclusive<Timestamp>) -> HashMap<Actor, RunUsage> {
    let mut all: HashMap<Actor, RunUsage> = HashMap::new();
    for event in events.iter().filter(|event| span.contains(&event.at)) {
        if let Some((actor, usage)) = event.read().used() {
            let known = all.entry(actor).or_default();
            *known = known.plus(usage);
        }
    }
    all
}

/// The attempt as it stands at `now`, and its task if the attempt is the task's newest.
fn as_of(seen: AttemptSeen, policy: &Policy, now: Timestamp) -> AttemptSeen {
    let AttemptSeen { attempt, task } = seen;
    if task.newest_attempt != Some(attempt.id) {
        return AttemptSeen { attempt: attempt.as_of(now), task };
    }
    let row = TaskRow { task, deps: Vec::new(), newest: Some(attempt.clone()) };
    let row = row.as_of(policy, now);
    AttemptSeen { attempt: row.newest.unwrap_or(attempt), task: row.task }
}

fn was_live(attempt: &Attempt, from: Timestamp) -> bool {
    match &attempt.state {
        AttemptState::Live { .. } => true,
        AttemptState::Ended { at, .. } => *at >= from,
    }
}

/// When the actor of an ended attempt was last heard. The end of a lease is no sign of the actor.
fn last_sign(work: &WorkSpan) -> Option<Timestamp> {
    match &work.seen.attempt.state {
        AttemptState::Ended { end: AttemptEnd::Expired, .. } => {
            work.heartbeats.last().copied().or(Some(work.seen.attempt.started_at))
        }
        AttemptState::Ended { at, .. } => Some(*at),
        AttemptState::Live { .. } => None,
    }
}

/// The times of heartbeats by attempt, oldest first.
fn heartbeats(events: &[LoggedEvent]) -> HashMap<AttemptId, Vec<Timestamp>> {
    let mut found: HashMap<AttemptId, Vec<Timestamp>> = HashMap::new();
    for event in events.iter().rev().filter(|event| event.name == EventName::AttemptHeartbeat) {
        if let Some(attempt) = event.about.and_then(|about| about.attempt) {
            found.entry(attempt).or_default().push(event.at);
        }
    }
    found
}
