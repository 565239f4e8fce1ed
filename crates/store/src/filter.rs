//! The conditions of list reads, written once for every database. A backend brings the sign its
//! placeholders start with, and turns the values into its own.

use callboard_domain::attempt::{ExecutionState, Health};
use callboard_domain::ids::Id;
use callboard_domain::policy::{Phase, Policy};
use callboard_domain::time::Timestamp;

use crate::{AttemptQuery, CardQuery, EventQuery, TaskQuery};

pub(crate) enum Value {
    Integer(i64),
    Text(String),
    Id(Id),
}

/// A WHERE clause with its values in step.
pub(crate) struct Filter {
    sign: char,
    terms: Vec<String>,
    pub values: Vec<Value>,
}

impl Filter {
    fn new(sign: char) -> Self {
        Self { sign, terms: Vec::new(), values: Vec::new() }
    }

    /// Of tasks `t` beside their newest attempt `a`.
    pub fn of_tasks(sign: char, query: &TaskQuery, now: Timestamp) -> Self {
        let mut filter = Self::new(sign);
        filter.term("t.removed_at IS NULL");
        filter.with("t.project = ?", Value::Integer(query.project));
        if let Some(label) = &query.label {
            filter.with("t.label = ?", Value::Text(label.clone()));
            // Naming the phase too lets the planner use the index of startable tasks.
            if query.policy.initial().name == *label && query.ready == Some(true) {
                filter.term("t.phase = 'initial'");
            }
        }
        match &query.assignee {
            None => {}
            Some(None) => filter.term("t.assignee IS NULL"),
            Some(Some(actor)) => filter.with("t.assignee = ?", Value::Text(actor.clone())),
        }
        match query.ready {
            None => {}
            Some(true) => filter.term("t.open_deps = 0"),
            Some(false) => filter.term("t.open_deps > 0"),
        }
        if let Some(execution) = query.execution {
            filter.execution(execution, &query.policy, now);
        }
        if let Some(after) = query.after {
            let beyond = if query.newest_first { "t.id < ?" } else { "t.id > ?" };
            filter.with(beyond, Value::Id(after));
        }
        filter
    }

    /// Of tasks `t` on the board.
    pub fn of_cards(sign: char, org: i64, query: &CardQuery) -> Self {
        let mut filter = Self::new(sign);
        filter.term("t.removed_at IS NULL");
        filter.with("t.org = ?", Value::Integer(org));
        if let Some(project) = query.project {
            filter.with("t.project = ?", Value::Integer(project));
        }
        if !query.phases.is_empty() {
            let words: Vec<String> =
                query.phases.iter().map(|phase| format!("'{}'", phase.as_str())).collect();
            filter.term(&format!("t.phase IN ({})", words.join(", ")));
        }
        for task in &query.without {
            filter.with("t.id <> ?", Value::Id(task.id));
        }
        filter
    }

    /// Of attempts `a` beside their task `t`.
    pub fn of_attempts(sign: char, org: i64, query: &AttemptQuery, now: Timestamp) -> Self {
        let mut filter = Self::new(sign);
        filter.with("t.org = ?", Value::Integer(org));
        if let Some(task) = query.task {
            filter.with("a.task = ?", Value::Id(task.id));
        }
        if let Some(actor) = &query.actor {
            filter.with("a.actor = ?", Value::Text(actor.clone()));
        }
        if !query.health.is_empty() {
            let health = query.health.iter();
            let any: Vec<String> =
                health.map(|health| filter.health(*health, &query.policy, now)).collect();
            filter.term(&format!("({})", any.join(" OR ")));
        }
        if let Some((started_at, id)) = query.after {
            let started_at = filter.value(Value::Integer(started_at.0));
            let id = filter.value(Value::Id(id));
            filter.term(&format!("(a.started_at, a.id) < ({started_at}, {id})"));
        }
        filter
    }

    /// Of events `e`.
    pub fn of_events(sign: char, query: &EventQuery) -> Self {
        let mut filter = Self::new(sign);
        let after = i64::try_from(query.after).unwrap_or(i64::MAX);
        filter.with("e.seq > ?", Value::Integer(after));
        if let Some(task) = query.task {
            filter.with("e.task = ?", Value::Id(task.id));
        }
        if let Some(org) = &query.org {
            let of_org = "e.org = (SELECT id FROM orgs WHERE name = ?)";
            filter.with(of_org, Value::Text(org.to_string()));
        }
        filter
    }

    pub fn sql(&self) -> String {
        self.terms.join(" AND ")
    }

    fn term(&mut self, sql: &str) {
        self.terms.push(sql.into());
    }

    /// `sql` holds `?` where the value goes.
    fn with(&mut self, sql: &str, value: Value) {
        let place = self.value(value);
        self.terms.push(sql.replace('?', &place));
    }

    /// Keeps a value and names its place.
    fn value(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("{}{}", self.sign, self.values.len())
    }

    fn lease_over(&mut self, now: Timestamp) -> String {
        let now = self.value(Value::Integer(now.0));
        format!("(a.lease_expires_at IS NOT NULL AND a.lease_expires_at <= {now})")
    }

    /// Within its lease, and silent for too long (`<`) or not (`>=`).
    fn live(&mut self, silence: &str, policy: &Policy, now: Timestamp) -> String {
        let over = self.lease_over(now);
        let stale_before = now.0 - i64::from(policy.stale_after_s) * 1_000_000;
        let stale_before = self.value(Value::Integer(stale_before));
        format!("(a.ended_at IS NULL AND NOT {over} AND a.heartbeat_at {silence} {stale_before})")
    }

    fn health(&mut self, health: Health, policy: &Policy, now: Timestamp) -> String {
        match health {
            Health::Active => self.live(">=", policy, now),
            Health::Stalled => self.live("<", policy, now),
            Health::Finished => "a.outcome = 'finished'".into(),
            Health::Canceled => format!(
                "(a.outcome IN ('canceled', 'released', 'expired') \
                 OR (a.ended_at IS NULL AND {}))",
                self.lease_over(now)
            ),
        }
    }

    fn execution(&mut self, wanted: ExecutionState, policy: &Policy, now: Timestamp) {
        let term = match wanted {
            ExecutionState::Active => self.live(">=", policy, now),
            ExecutionState::Stalled => self.live("<", policy, now),
            ExecutionState::AwaitingReview => self.health(Health::Finished, policy, now),
        };
        // A task without an attempt has none that is live.
        self.term("a.id IS NOT NULL");
        self.term(&term);
        if wanted == ExecutionState::AwaitingReview {
            match policy.review() {
                Some(_) => self.with("t.phase = ?", Value::Text(Phase::Review.as_str().into())),
                None => self.term("t.phase NOT IN ('closed_done', 'closed_canceled')"),
            }
        }
    }
}
