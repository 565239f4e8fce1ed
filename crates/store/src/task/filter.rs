//! The conditions of list reads, written once for every database. A backend brings the sign its
//! placeholders start with, and turns the values into its own.

use callboard_domain::actor::Actor;
use callboard_domain::ids::Id;
use callboard_domain::policy::{Phase, Policy};
use callboard_domain::task::attempt::{ExecutionState, Health};
use callboard_domain::task::standing::phase_after_lease;
use callboard_domain::time::Timestamp;

use crate::board::cards::{COLUMN, SEARCHED_MAX};
use crate::task::span::{AttemptSpan, REACH_MS, SpanLeg};
use crate::{AttemptQuery, BackQuery, CardQuery, EventQuery, TaskQuery, TaskScope};

pub(crate) enum Value {
    Integer(i64),
    Text(String),
    Id(Id),
}

/// The tasks that one statement looks for. Tasks whose lease is over differ from their rows, so a list that filters
/// by label or assignee takes several statements, each with its own index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leg {
    /// No condition depends on a lease.
    Every,
    /// Tasks without a lease that is over, found by the indexes of tasks.
    Written,
    /// As `Written`, of one phase: the index of assignees has the phase before the id.
    Phase(Phase),
    /// Tasks with a live attempt, found by the index of live attempts.
    Live,
    /// Tasks whose lease is over, found by the index of leases.
    Lapsed,
}

impl Leg {
    pub fn of(query: &TaskQuery) -> Vec<Leg> {
        let mut legs = match (&query.label, &query.assignee) {
            (None, None) if query.scope == TaskScope::Held => return vec![Leg::Every, Leg::Live],
            (None, None) if query.scope == TaskScope::Live => return vec![Leg::Live],
            (None, None) if query.is_for_live() => return vec![Leg::Live],
            (None, None) => return vec![Leg::Every],
            (Some(_), None) => vec![Leg::Written],
            (_, Some(None)) if query.is_for_startable() => vec![Leg::Written],
            (None, Some(_)) => phases(query.scope),
            (Some(label), Some(_)) => match query.policy.label(label) {
                Some(label) => vec![Leg::Phase(label.phase)],
                None => phases(query.scope),
            },
        };
        // A lapsed task has no assignee, and its attempt neither works nor waits for a review.
        let is_held = matches!(&query.assignee, Some(Some(_))) || query.execution.is_some();
        if !is_held {
            legs.push(Leg::Lapsed);
        }
        legs
    }
}

/// A statement for each phase that a scope has tasks in.
fn phases(scope: TaskScope) -> Vec<Leg> {
    let has = |phase: &Phase| scope == TaskScope::Every || !phase.is_closed();
    Phase::ALL.into_iter().filter(has).map(Leg::Phase).collect()
}

/// The attempts that one statement looks for. A list of attempts in some health takes a statement for each index that
/// has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AttemptLeg {
    /// Found by the task, the actor or the start.
    Every,
    /// Live as written, found by the index of live attempts.
    Live,
    Finished,
    Canceled,
}

impl AttemptLeg {
    pub fn of(query: &AttemptQuery) -> Vec<AttemptLeg> {
        if query.task.is_some() || query.actor.is_some() || query.health.is_empty() {
            return vec![AttemptLeg::Every];
        }
        let of_health = |health: &Health| match health {
            Health::Active | Health::Stalled => vec![AttemptLeg::Live],
            Health::Finished => vec![AttemptLeg::Finished],
            // An attempt whose lease is over is canceled before its row says so.
            Health::Canceled => vec![AttemptLeg::Canceled, AttemptLeg::Live],
        };
        let mut legs: Vec<AttemptLeg> = query.health.iter().flat_map(of_health).collect();
        legs.sort();
        legs.dedup();
        legs
    }
}

/// The phases that the end of a lease takes back to the start.
fn starts_again() -> String {
    let phases = Phase::ALL.into_iter().filter(|it| phase_after_lease(*it) == Phase::Initial);
    format!("t.phase IN ({})", words(phases))
}

fn words(phases: impl IntoIterator<Item = Phase>) -> String {
    let words = phases.into_iter().map(|phase| format!("'{}'", phase.as_str()));
    words.collect::<Vec<_>>().join(", ")
}

/// The LIKE pattern for texts that hold this word.
pub(crate) fn pattern(word: &str) -> String {
    let mut pattern = String::from("%");
    for c in word.chars() {
        if matches!(c, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

/// A WHERE clause with its values in the order of their places.
pub(crate) struct Filter {
    sign: char,
    terms: Vec<String>,
    pub values: Vec<Value>,
}

impl Filter {
    fn new(sign: char) -> Self {
        Self::of_values(sign, Vec::new())
    }

    /// A filter without terms whose first places have these values.
    pub(crate) fn of_values(sign: char, values: Vec<Value>) -> Self {
        Self { sign, terms: Vec::new(), values }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.sign == '$'
    }

    /// The terms so far, and a filter that goes on behind their values.
    pub(crate) fn split(self) -> (String, Self) {
        let sql = self.sql();
        (sql, Self { terms: Vec::new(), ..self })
    }

    /// The conditions for tasks `t` beside their newest attempt `a`, judged at `now`.
    pub fn of_tasks(sign: char, query: &TaskQuery, leg: Leg, now: Timestamp) -> Self {
        let mut filter = Self::new(sign);
        filter.term("t.removed_at IS NULL");
        filter.with("t.project = ?", Value::Integer(query.project));
        if query.scope != TaskScope::Every {
            filter.term("t.phase <> 'closed_done' AND t.phase <> 'closed_canceled'");
        }
        match leg {
            Leg::Every if query.scope == TaskScope::Held => filter.term("t.assignee IS NOT NULL"),
            Leg::Every => {}
            Leg::Live => filter.term("a.ended_at IS NULL"),
            Leg::Written => filter.written(query, now),
            Leg::Phase(phase) => {
                filter.term(&format!("t.phase = '{}'", phase.as_str()));
                filter.written(query, now);
            }
            Leg::Lapsed => filter.lapsed(query, now),
        }
        match query.ready {
            None => {}
            Some(true) => filter.term("t.open_deps = 0 AND t.blocked IS NULL"),
            Some(false) => filter.term("(t.open_deps > 0 OR t.blocked IS NOT NULL)"),
        }
        if query.blocked {
            filter.term("t.blocked IS NOT NULL");
        }
        if let Some(parent) = query.parent {
            filter.with("t.parent = ?", Value::Id(parent.id));
        }
        if let Some(execution) = query.execution {
            filter.execution(execution, &query.policy, now);
        }
        if query.as_work.is_some() {
            // Each database needs the form that its partial index of free tasks has.
            filter.term(if filter.is_postgres() { "NOT t.is_plan" } else { "t.is_plan = 0" });
        }
        let after_priority = query.as_work.and_then(|work| work.after_priority);
        if let (Some(after), Some(priority)) = (query.after, after_priority) {
            let priority = filter.value(Value::Integer(i64::from(priority)));
            let after = filter.value(Value::Id(after));
            filter.term(&format!("(t.priority, t.id) > (CAST({priority} AS bigint), {after})"));
        } else if let Some(after) = query.after {
            let beyond = if query.newest_first { "t.id < ?" } else { "t.id > ?" };
            filter.with(beyond, Value::Id(after));
        }
        filter
    }

    /// Conditions on label and assignee for tasks that are as their rows say.
    fn written(&mut self, query: &TaskQuery, now: Timestamp) {
        if let Some(label) = &query.label {
            self.with("t.label = ?", Value::Text(label.clone()));
            // Naming the phase too lets the planner use the index of startable tasks.
            if query.is_for_startable() {
                self.term("t.phase = 'initial'");
            }
        }
        match &query.assignee {
            None => {}
            Some(None) => self.term("t.assignee IS NULL"),
            Some(Some(actor)) => self.with("t.assignee = ?", Value::Text(actor.clone())),
        }
        let live = "(a.lease_expires_at IS NULL OR a.ended_at IS NOT NULL \
             OR a.lease_expires_at > ?)";
        self.with(live, Value::Integer(now.0));
    }

    /// The condition on the label for tasks whose lease is over: back at the start unless the work was handed over.
    /// Such tasks have no assignee.
    fn lapsed(&mut self, query: &TaskQuery, now: Timestamp) {
        self.term("a.ended_at IS NULL AND a.lease_expires_at IS NOT NULL");
        self.with("a.lease_expires_at <= ?", Value::Integer(now.0));
        match &query.label {
            None => {}
            Some(label) if query.policy.initial().name == *label => {
                self.term(&starts_again());
            }
            Some(label) => {
                self.with("t.label = ?", Value::Text(label.clone()));
                self.term(&format!("NOT ({})", starts_again()));
            }
        }
    }

    /// The conditions for tasks `t` on the board, judged at `now`, and the order of the board's columns.
    pub fn of_cards(sign: char, org: i64, query: &CardQuery, now: Timestamp) -> (Self, String) {
        let mut filter = Self::new(sign);
        filter.term("t.removed_at IS NULL");
        // The `+` keeps SQLite from beginning at all tasks of the org, which it would have to sort.
        let of_org = if filter.is_postgres() { "t.org = ?" } else { "+t.org = ?" };
        filter.with(of_org, Value::Integer(org));
        if let Some(project) = query.project {
            filter.with("t.project = ?", Value::Integer(project));
        }
        let now = filter.value(Value::Integer(now.0));
        // Every statement uses each value, also a statement without phases and order.
        filter.term(&format!("CAST({now} AS bigint) IS NOT NULL"));
        // Leases that are over are few, so the subquery lists them once.
        let lapsed = format!(
            "(t.phase = 'working' AND t.id IN (SELECT l.task FROM attempts l \
             WHERE l.ended_at IS NULL AND l.lease_expires_at IS NOT NULL \
                 AND l.lease_expires_at <= {now}))"
        );
        if !query.phases.is_empty() {
            let written = format!("t.phase IN ({})", words(query.phases.iter().copied()));
            let wants = |phase| query.phases.contains(&phase);
            match (wants(Phase::Initial), wants(Phase::Working)) {
                (true, false) => filter.term(&format!("({written} OR {lapsed})")),
                (false, true) => filter.term(&format!("{written} AND NOT {lapsed}")),
                (true, true) | (false, false) => filter.term(&written),
            }
        }
        for task in &query.without {
            filter.with("t.id <> ?", Value::Id(task.id));
        }
        if !query.words.is_empty() {
            filter.search(&query.words);
        }
        (filter, format!("CASE WHEN {lapsed} THEN 0 ELSE {COLUMN} END"))
    }

    /// Requires every word in the title or the body, among the newest tasks that the terms so far find. The limit
    /// is inside the subquery, so that no database reads more texts than that.
    fn search(&mut self, words: &[String]) {
        let newest = format!(
            "SELECT t.id, t.title FROM tasks t WHERE {} ORDER BY t.id DESC LIMIT {SEARCHED_MAX}",
            self.sql()
        );
        let (title, body) = (self.folded("s.title"), self.folded("b.body"));
        let each = words.iter().map(|word| {
            let like = format!("LIKE {} ESCAPE '!'", self.value(Value::Text(pattern(word))));
            format!(
                "({title} {like} OR EXISTS (SELECT 1 FROM bodies b WHERE b.task = s.id \
                     AND {body} {like}))"
            )
        });
        let each = each.collect::<Vec<_>>().join(" AND ");
        self.term(&format!("t.id IN (SELECT s.id FROM ({newest}) s WHERE {each})"));
    }

    /// A text in lower case, as far as it is ASCII: the databases agree on no more than that.
    pub(crate) fn folded(&self, column: &str) -> String {
        match self.is_postgres() {
            true => format!("lower({column} COLLATE \"C\")"),
            false => format!("lower({column})"),
        }
    }

    /// The conditions for attempts `a` beside their task `t`.
    pub fn of_attempts(
        sign: char,
        org: i64,
        query: &AttemptQuery,
        leg: AttemptLeg,
        now: Timestamp,
    ) -> Self {
        let mut filter = Self::new(sign);
        match leg {
            AttemptLeg::Every => {}
            AttemptLeg::Live => filter.term("a.ended_at IS NULL"),
            AttemptLeg::Finished => filter.term("a.outcome = 'finished'"),
            AttemptLeg::Canceled => filter.term("a.outcome <> 'finished'"),
        }
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

    /// The conditions for attempts `a` beside their task `t` within a span of time.
    pub fn of_span(sign: char, org: i64, span: &AttemptSpan, leg: SpanLeg) -> Self {
        let mut filter = Self::new(sign);
        let reach = span.from.plus_ms(-REACH_MS);
        match leg {
            SpanLeg::Began => {
                filter.with("a.started_at >= ?", Value::Integer(reach.0));
                filter.with("a.started_at <= ?", Value::Integer(span.until.0));
                let ended = "(a.ended_at IS NULL OR a.ended_at >= ?)";
                filter.with(ended, Value::Integer(span.from.0));
            }
            SpanLeg::Earlier => {
                filter.term("a.ended_at IS NULL");
                filter.with("a.started_at < ?", Value::Integer(reach.0));
            }
        }
        if let Some(actor) = &span.actor {
            filter.with("a.actor = ?", Value::Text(actor.to_string()));
        }
        filter.with("t.org = ?", Value::Integer(org));
        filter.term("t.removed_at IS NULL");
        filter
    }

    /// The conditions for events `e`.
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

    /// The conditions for events `e` with their tasks `t`, read from the end.
    pub fn of_events_back(sign: char, query: &BackQuery) -> Self {
        let mut filter = Self::new(sign);
        let of_org = "e.org = (SELECT id FROM orgs WHERE name = ?)";
        filter.with(of_org, Value::Text(query.org.to_string()));
        let number = |seq: u64| Value::Integer(i64::try_from(seq).unwrap_or(i64::MAX));
        filter.with("e.seq < ?", number(query.before.unwrap_or(u64::MAX)));
        if query.after > 0 {
            filter.with("e.seq > ?", number(query.after));
        }
        if let Some(task) = query.task {
            filter.with("e.task = ?", Value::Id(task.id));
        }
        if let Some(names) = &query.names {
            let names: Vec<_> = names.iter().map(|name| format!("'{}'", name.as_str())).collect();
            // An empty list of names matches no row; SQL has no empty `IN` list.
            match names.as_slice() {
                [] => filter.term("1 = 0"),
                [only] => filter.term(&format!("e.name = {only}")),
                _ => filter.term(&format!("e.name IN ({})", names.join(", "))),
            }
        }
        for actor in &query.actors {
            let whole = match actor.text.contains(':') {
                true => vec![actor.text.clone()],
                false => Actor::KINDS.map(|kind| format!("{kind}:{}", actor.text)).to_vec(),
            };
            let places: Vec<_> =
                whole.into_iter().map(|name| filter.value(Value::Text(name))).collect();
            let not = if actor.is_not { "NOT " } else { "" };
            filter.term(&format!("e.actor {not}IN ({})", places.join(", ")));
        }
        for word in &query.words {
            let place = filter.value(Value::Text(pattern(&word.text.to_ascii_lowercase())));
            let has = |column: &str| format!("{} LIKE {place} ESCAPE '!'", filter.folded(column));
            let any = ["e.actor", "e.name", "coalesce(t.title, '')"].map(has).join(" OR ");
            let not = if word.is_not { "NOT " } else { "" };
            filter.term(&format!("{not}({any})"));
        }
        filter
    }

    pub fn sql(&self) -> String {
        self.terms.join(" AND ")
    }

    pub(crate) fn term(&mut self, sql: &str) {
        self.terms.push(sql.into());
    }

    /// Adds a term; `sql` holds `?` where the value goes.
    pub(crate) fn with(&mut self, sql: &str, value: Value) {
        let place = self.value(value);
        self.terms.push(sql.replace('?', &place));
    }

    /// Keeps a value and returns its placeholder.
    pub(crate) fn value(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("{}{}", self.sign, self.values.len())
    }

    fn lease_over(&mut self, now: Timestamp) -> String {
        let now = self.value(Value::Integer(now.0));
        format!("(a.lease_expires_at IS NOT NULL AND a.lease_expires_at <= {now})")
    }

    /// Attempts within their lease that have been silent for too long (`<`) or not (`>=`).
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
                "(a.outcome <> 'finished' OR (a.ended_at IS NULL AND {}))",
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
        // A task without an attempt matches no execution state.
        self.term("a.id IS NOT NULL");
        self.term(&term);
        if wanted == ExecutionState::AwaitingReview {
            match policy.review() {
                // A value would keep the index of tasks in review from being used.
                Some(_) => self.term("t.phase = 'review'"),
                None => self.term("t.phase NOT IN ('closed_done', 'closed_canceled')"),
            }
        }
    }
}
