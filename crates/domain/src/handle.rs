//! A call that outlives its request: what its caller finds under the id it got instead of an answer.
//!
//! The process that runs the call keeps its handle alive. A handle whose process went silent has failed, for all
//! readers, from one moment on; nothing brings it back.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::actor::Actor;
use crate::ids::id;
use crate::rights::Scope;
use crate::time::Timestamp;

/// How long the process that runs a call may be silent.
pub const LEASE_MS: i64 = 15_000;
/// Within this time of the last heartbeat, another one without news is not written.
pub const FRESH_MS: i64 = 5_000;
/// How long a handle is kept, counted from its beginning and anew from its end.
pub const KEPT_MS: i64 = 24 * 3600 * 1000;

id!(HandleId, "call_", "not a handle id");

#[derive(Clone, Debug, PartialEq)]
pub struct Handle {
    pub id: HandleId,
    pub org: Arc<str>,
    /// The caller.
    pub actor: Actor,
    pub tool: String,
    /// The scope that the call needed; a caller that asks about the handle needs it too.
    pub scope: Scope,
    /// The process that does the work.
    pub runner: Actor,
    pub state: HandleState,
    /// The progress, in the work's own words.
    pub message: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub enum HandleState {
    /// Left by a report of the runner, or by its silence.
    Live(Live),
    /// What the call answered, refusals included.
    Completed {
        result: Value,
    },
    /// `None`: the process that ran the call went away.
    Failed {
        error: Option<Value>,
    },
    Cancelled,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    pub alive_until: Timestamp,
    pub cancel_asked: bool,
    /// The questions that the work waits for, by keys that are used once.
    pub questions: Map<String, Value>,
    pub answers: Map<String, Value>,
}

/// A handle as its readers see it.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen<'h> {
    Working,
    Asking(&'h Map<String, Value>),
    Completed(&'h Value),
    Failed(Option<&'h Value>),
    Cancelled,
}

#[derive(Clone, Debug, PartialEq)]
pub enum HandleChange {
    /// From the runner: the call is still at work.
    Keep { message: Option<String> },
    /// From the runner: the work waits for answers to these questions.
    Ask { questions: Map<String, Value> },
    /// From the runner: the final result.
    End(HandleEnd),
    /// From the caller. Answers to unknown or answered questions are dropped.
    Answer { answers: Map<String, Value> },
    /// From the caller: the work shall stop.
    Cancel,
}

#[derive(Clone, Debug, PartialEq)]
pub enum HandleEnd {
    Completed(Value),
    Failed(Option<Value>),
    Cancelled,
}

impl Handle {
    pub fn live(&self, now: Timestamp) -> Option<&Live> {
        match &self.state {
            HandleState::Live(live) => Some(live).filter(|live| now < live.alive_until),
            HandleState::Completed { .. } | HandleState::Failed { .. } | HandleState::Cancelled => {
                None
            }
        }
    }

    pub fn seen(&self, now: Timestamp) -> Seen<'_> {
        match &self.state {
            HandleState::Live(live) if now < live.alive_until => match live.questions.is_empty() {
                true => Seen::Working,
                false => Seen::Asking(&live.questions),
            },
            HandleState::Live(live) if live.cancel_asked => Seen::Cancelled,
            HandleState::Live(_) => Seen::Failed(None),
            HandleState::Completed { result } => Seen::Completed(result),
            HandleState::Failed { error } => Seen::Failed(error.as_ref()),
            HandleState::Cancelled => Seen::Cancelled,
        }
    }

    /// Whether the handle exists for `actor`: for its caller only, while the call is live or until it expires.
    pub fn is_there_for(&self, actor: &Actor, now: Timestamp) -> bool {
        self.actor == *actor && (now < self.expires_at || self.live(now).is_some())
    }

    /// The handle after a change; `None` when nothing changes, because the call is over or was kept just now.
    pub fn after(&self, change: HandleChange, now: Timestamp) -> Option<Handle> {
        let mut live = self.live(now)?.clone();
        let mut next = Self { updated_at: now, ..self.clone() };
        match change {
            HandleChange::Keep { message } => {
                let is_news = message != self.message;
                if !is_news && now.plus_ms(LEASE_MS - FRESH_MS) < live.alive_until {
                    return None;
                }
                live.alive_until = now.plus_ms(LEASE_MS);
                if !is_news {
                    next.updated_at = self.updated_at;
                }
                next.message = message;
            }
            HandleChange::Ask { questions } => {
                let is_new = |(key, _): &(String, Value)| !live.answers.contains_key(key);
                live.questions.extend(questions.into_iter().filter(is_new).collect::<Vec<_>>());
            }
            HandleChange::Answer { answers } => {
                for (key, answer) in answers {
                    if live.questions.remove(&key).is_some() {
                        live.answers.insert(key, answer);
                    }
                }
            }
            HandleChange::Cancel => live.cancel_asked = true,
            HandleChange::End(end) => {
                next.expires_at = now.plus_ms(KEPT_MS);
                next.state = match end {
                    HandleEnd::Completed(result) => HandleState::Completed { result },
                    HandleEnd::Failed(error) => HandleState::Failed { error },
                    HandleEnd::Cancelled => HandleState::Cancelled,
                };
                return Some(next);
            }
        }
        next.state = HandleState::Live(live);
        Some(next)
    }
}

impl Live {
    pub fn new(now: Timestamp) -> Self {
        let (questions, answers) = Default::default();
        Self { alive_until: now.plus_ms(LEASE_MS), cancel_asked: false, questions, answers }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ids::Id;

    fn handle() -> Handle {
        let actor: Actor = "agent:a".parse().expect("an actor");
        Handle {
            id: HandleId(Id(7)),
            org: "default".into(),
            actor: actor.clone(),
            tool: "run_checks".into(),
            scope: Scope::TasksWrite,
            runner: actor,
            state: HandleState::Live(Live::new(Timestamp(0))),
            message: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            expires_at: Timestamp(0).plus_ms(KEPT_MS),
        }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp(0).plus_ms(ms)
    }

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("an object")
    }

    fn done() -> HandleChange {
        HandleChange::End(HandleEnd::Completed(json!(1)))
    }

    #[test]
    fn silence_is_the_end_and_nothing_brings_it_back() {
        let keep = HandleChange::Keep { message: Some("half".into()) };
        let kept = handle().after(keep.clone(), at(LEASE_MS - 1)).expect("in time");
        assert_eq!(kept.seen(at(2 * LEASE_MS - 2)), Seen::Working);
        assert_eq!(kept.seen(at(2 * LEASE_MS - 1)), Seen::Failed(None));
        for change in [keep, HandleChange::Cancel, done()] {
            assert_eq!(kept.after(change, at(2 * LEASE_MS - 1)), None);
        }
        let asked = kept.after(HandleChange::Cancel, at(LEASE_MS)).expect("in time");
        assert_eq!(asked.seen(at(LEASE_MS)), Seen::Working, "until the work has stopped");
        assert_eq!(asked.seen(at(9 * LEASE_MS)), Seen::Cancelled);
    }

    #[test]
    fn a_word_that_says_nothing_new_is_written_now_and_then() {
        let keep = |message: Option<&str>| HandleChange::Keep { message: message.map(Into::into) };
        assert_eq!(handle().after(keep(None), at(FRESH_MS - 1)), None, "it was kept just now");
        let told = handle().after(keep(Some("half")), at(1)).expect("it says something");
        assert_eq!(told.updated_at, at(1));
        let kept = told.after(keep(Some("half")), at(FRESH_MS + 1)).expect("it is time");
        assert_eq!(kept.updated_at, at(1), "nothing was said");
        assert_eq!(kept.seen(at(FRESH_MS + LEASE_MS)), Seen::Working);
    }

    #[test]
    fn the_last_word_is_the_runners() {
        let asked = handle().after(HandleChange::Cancel, at(1)).expect("in time");
        let ended = asked.after(done(), at(2)).expect("in time");
        assert_eq!(ended.seen(at(9 * LEASE_MS)), Seen::Completed(&json!(1)));
        let late = HandleChange::End(HandleEnd::Cancelled);
        assert_eq!(ended.after(late, at(3)), None);
        assert_eq!(ended.expires_at, at(2 + KEPT_MS), "a day from its end");
    }

    #[test]
    fn answers_fit_questions_once() {
        let ask = |questions| HandleChange::Ask { questions: map(questions) };
        let answer = |answers| HandleChange::Answer { answers: map(answers) };
        let asking = handle().after(ask(json!({"a": "?", "b": "?"})), at(1)).expect("in time");
        let odd = asking.after(answer(json!({"x": 1, "a": 2})), at(2)).expect("in time");
        assert_eq!(odd.seen(at(2)), Seen::Asking(&map(json!({"b": "?"}))));
        let again = odd.after(answer(json!({"a": 3, "b": 4})), at(3)).expect("in time");
        assert_eq!(
            again.live(at(3)).map(|live| &live.answers),
            Some(&map(json!({"a": 2, "b": 4})))
        );
        let reused = again.after(ask(json!({"a": "?"})), at(4)).expect("in time");
        assert_eq!(reused.seen(at(4)), Seen::Working, "a key is used once");
    }

    #[test]
    fn it_is_its_callers_and_for_a_time() {
        let (handle, other) = (handle(), "agent:b".parse().expect("an actor"));
        assert!(handle.is_there_for(&handle.actor, at(1)));
        assert!(!handle.is_there_for(&other, at(1)));
        assert!(handle.is_there_for(&handle.actor, at(KEPT_MS - 1)), "also when it failed");
        assert!(!handle.is_there_for(&handle.actor, at(KEPT_MS)));
        let keep = HandleChange::Keep { message: Some("still at it".into()) };
        let mut long = handle.clone();
        long.state = HandleState::Live(Live::new(at(KEPT_MS - 1)));
        let long = long.after(keep, at(KEPT_MS)).expect("in time");
        assert!(long.is_there_for(&handle.actor, at(KEPT_MS + 1)), "while it is at work");
        assert_eq!(handle.id.to_string().parse(), Ok(handle.id));
    }
}
