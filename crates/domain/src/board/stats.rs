//! Daily counts of an org: how long tasks took and waited, what checks found, what was lost. Each count comes from one
//! event of the log and from facts that never change, so that counting again gives the same numbers.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::Value;

use crate::actor::Actor;
use crate::event::{EventData, EventName};
use crate::ids::TaskId;
use crate::policy::Phase;
use crate::time::Timestamp;
use crate::words::words;

const DAY_US: i64 = 86_400_000_000;

/// The bounds of spans in seconds, from a second to a week. A histogram with these bounds loses nothing of the counts.
pub const SPAN_BOUNDS_S: [f64; 12] = [
    1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0,
];
/// Each step between two bounds has so many buckets, each a little longer than the one before.
const PARTS: u16 = 16;
/// The bucket of all spans above the last bound.
const LAST: u16 = (SPAN_BOUNDS_S.len() as u16 - 1) * PARTS + 1;

words! {
    /// One thing that is counted.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Measure {
        /// A task is done: the time since its creation.
        Lead => "lead",
        /// A free task is taken: the time that it was free.
        Wait => "wait",
        /// A task is given up.
        Canceled => "canceled",
        /// A review sends the work back.
        SentBack => "sent_back",
        /// A lease runs out.
        Expired => "expired",
        /// A check passes.
        Passed => "passed",
        /// A check fails.
        Failed => "failed",
        /// A run of an agent begins.
        Ran => "ran",
        /// A run reports its cost.
        Priced => "priced",
        /// The cost of a run, in millionths of a US dollar; the only measure that counts more than events.
        Cost => "cost",
        /// A task is done at the first try; such a task counts for `Lead` as well.
        FirstTry => "first_try",
        /// A call is refused because the caller's lease or claim is lost.
        Late => "late",
    }
}

/// The codes of calls that came too late: another actor holds the task, or the session is over.
const LATE_CODES: [&str; 4] =
    ["ALREADY_CLAIMED", "NOT_SESSION_OWNER", "SESSION_TERMINAL", "JOB_LOST"];

/// The day of a moment, counted from 1970-01-01 in UTC.
pub fn day_of(at: Timestamp) -> i64 {
    at.0.div_euclid(DAY_US)
}

/// The first moment of a day.
pub fn day_start(day: i64) -> Timestamp {
    Timestamp(day.saturating_mul(DAY_US))
}

/// An event, and the facts that its measure needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurable {
    pub at: Timestamp,
    pub name: EventName,
    pub data: Value,
    /// The creation of the event's task; `None` without a task.
    pub created_at: Option<Timestamp>,
    /// Whether the task holds other tasks. Such a task is no work of its own.
    pub is_plan: bool,
    /// For a claim, the last earlier event of the task that freed or claimed it.
    pub freed: Option<(EventName, Timestamp)>,
    /// For a change of status, how many attempts the task had until then.
    pub attempts: u64,
    /// For a change of status, whether a review sent the task back before.
    pub was_sent_back: bool,
}

impl Measurable {
    /// The events that are counted.
    pub const NAMES: [EventName; 9] = [
        EventName::TaskStatusChanged,
        EventName::TaskClaimed,
        EventName::ReviewRejected,
        EventName::AttemptExpired,
        EventName::CheckRan,
        EventName::CheckAttested,
        EventName::JobStarted,
        EventName::JobUsed,
        EventName::CallRefused,
    ];

    /// The measure of the event with its bucket; `None` when the event counts for nothing.
    pub fn measured(&self) -> Option<(Measure, u16)> {
        let data = EventData::of(&self.data);
        let once = |measure| Some((measure, 0));
        match self.name {
            EventName::AttemptExpired => once(Measure::Expired),
            EventName::JobStarted if !data.is_resumed() => once(Measure::Ran),
            EventName::CallRefused => {
                let is_late = data.code().is_some_and(|code| LATE_CODES.contains(&code));
                is_late.then_some((Measure::Late, 0))
            }
            EventName::JobUsed => self.cost_micros().and_then(|_| once(Measure::Priced)),
            EventName::CheckRan | EventName::CheckAttested => match data.is_pass() {
                true => once(Measure::Passed),
                false => once(Measure::Failed),
            },
            // A reviewer agent only advises; a person or a lead sends work back.
            EventName::ReviewRejected if self.data["advice"] != true => once(Measure::SentBack),
            EventName::TaskStatusChanged
                if !self.is_plan && self.data["from"] != self.data["to"] =>
            {
                match data.phase()? {
                    Phase::ClosedDone => {
                        let took_ms = self.at.ms_since(self.created_at?);
                        Some((Measure::Lead, bucket_of(took_ms)))
                    }
                    Phase::ClosedCanceled => once(Measure::Canceled),
                    Phase::Initial | Phase::Working | Phase::Review => None,
                }
            }
            EventName::TaskClaimed => {
                let (freed, at) = self.freed?;
                // A task that was claimed before and not freed was taken over. A task that is claimed as it is created
                // was never free.
                let was_free = freed != EventName::TaskClaimed
                    && !(freed == EventName::TaskCreated && at == self.at);
                was_free.then(|| (Measure::Wait, bucket_of(self.at.ms_since(at))))
            }
            _ => None,
        }
    }
}

impl Measurable {
    /// Whether the event closes a task that was done at the first try: no review sent the task back, and it had at most
    /// one attempt. A task is closed only with passing checks, so these passed for its first attempt.
    fn is_first_try(&self) -> bool {
        let is_done = matches!(self.measured(), Some((Measure::Lead, _)));
        is_done && self.attempts <= 1 && !self.was_sent_back
    }

    fn cost_micros(&self) -> Option<u64> {
        let is_used = self.name == EventName::JobUsed;
        EventData::of(&self.data).used().filter(|_| is_used)?.1.cost_micros
    }
}

words! {
    /// What counts are broken down by.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StatsBy {
        Agent => "agent",
        Epic => "epic",
    }
}

/// An event that counts, and whom and what it counts for.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributed {
    pub event: Measurable,
    /// The actor of the event.
    pub actor: Actor,
    /// The actor of the task's newest attempt at that time.
    pub worker: Option<Actor>,
    /// The parent of the event's task.
    pub epic: Option<TaskId>,
}

impl Attributed {
    /// The agent or person that did the work. An approval, a check and the start of a run count for the worker of the
    /// task, also where another actor caused them. The server and its runners do no work of their own.
    pub fn agent(&self) -> Option<Actor> {
        let data = EventData::of(&self.event.data);
        let done_by = match self.event.name {
            EventName::JobUsed => data.used().map(|(agent, _)| agent),
            EventName::AttemptExpired => {
                self.event.data["holder"].as_str().and_then(|holder| holder.parse().ok())
            }
            EventName::TaskClaimed => Some(self.actor.clone()),
            _ => None,
        };
        let actor = done_by.or_else(|| self.worker.clone()).unwrap_or_else(|| self.actor.clone());
        let is_ours = ["system:", "runner:"].iter().any(|kind| actor.as_str().starts_with(kind));
        (!is_ours).then_some(actor)
    }
}

/// The bucket of a span.
fn bucket_of(ms: i64) -> u16 {
    let s = ms.max(0) as f64 / 1000.0;
    match SPAN_BOUNDS_S.iter().position(|bound| s <= *bound) {
        None => LAST,
        Some(0) => 0,
        Some(step) => {
            let (low, high) = (SPAN_BOUNDS_S[step - 1], SPAN_BOUNDS_S[step]);
            let part = (s / low).ln() / (high / low).ln() * f64::from(PARTS);
            // The number of a step is small, and the part is at most `PARTS`.
            (step as u16 - 1) * PARTS + part.ceil().clamp(1.0, f64::from(PARTS)) as u16
        }
    }
}

/// The longest span of a bucket, in seconds.
fn upper_s(bucket: u16) -> f64 {
    if bucket == 0 {
        return SPAN_BOUNDS_S[0];
    }
    let (step, part) = (usize::from((bucket - 1) / PARTS), (bucket - 1) % PARTS + 1);
    match (SPAN_BOUNDS_S.get(step), SPAN_BOUNDS_S.get(step + 1)) {
        (Some(_), Some(high)) if part == PARTS => *high,
        (Some(low), Some(high)) => low * (high / low).powf(f64::from(part) / f64::from(PARTS)),
        _ => SPAN_BOUNDS_S[SPAN_BOUNDS_S.len() - 1],
    }
}

/// Spans of time, counted by buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(BTreeMap<u16, u64>);

impl Spans {
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The span that this share of the spans does not exceed, in milliseconds; exact to a few parts in a hundred.
    pub fn quantile_ms(&self, share: f64) -> Option<i64> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut below = 0;
        for (bucket, many) in &self.0 {
            if below + many >= rank {
                let low = if *bucket == 0 { 0.0 } else { upper_s(bucket - 1) };
                let place = ((rank - below) as f64 - 0.5) / *many as f64;
                return Some(((low + (upper_s(*bucket) - low) * place) * 1000.0) as i64);
            }
            below += many;
        }
        None
    }

    /// How many spans are above `low_s` and at most `high_s`, both of them bounds.
    pub fn between(&self, low_s: f64, high_s: f64) -> u64 {
        let is_in = |bucket: &u16| {
            let upper = if *bucket == LAST { f64::INFINITY } else { upper_s(*bucket) };
            upper > low_s && upper <= high_s
        };
        self.0.iter().filter(|(bucket, _)| is_in(bucket)).map(|(_, many)| many).sum()
    }
}

/// Counts by day, measure and bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DayCounts(BTreeMap<(i64, Measure, u16), u64>);

impl DayCounts {
    pub fn add(&mut self, day: i64, measure: Measure, bucket: u16, many: u64) {
        *self.0.entry((day, measure, bucket)).or_default() += many;
    }

    /// Counts an event, if it is one that counts.
    pub fn measure(&mut self, event: &Measurable) {
        if let Some((measure, bucket)) = event.measured() {
            self.add(day_of(event.at), measure, bucket, 1);
        }
        if event.is_first_try() {
            self.add(day_of(event.at), Measure::FirstTry, 0, 1);
        }
        // A count of nothing is no row.
        if let Some(cost) = event.cost_micros().filter(|cost| *cost > 0) {
            self.add(day_of(event.at), Measure::Cost, 0, cost);
        }
    }

    pub fn rows(&self) -> impl Iterator<Item = (i64, Measure, u16, u64)> {
        self.0.iter().map(|((day, measure, bucket), many)| (*day, *measure, *bucket, *many))
    }

    pub fn merge(&mut self, other: &Self) {
        for (day, measure, bucket, many) in other.rows() {
            self.add(day, measure, bucket, many);
        }
    }

    pub fn count(&self, days: RangeInclusive<i64>, measure: Measure) -> u64 {
        self.spans(days, measure).count()
    }

    pub fn spans(&self, days: RangeInclusive<i64>, measure: Measure) -> Spans {
        let mut spans = Spans::default();
        for (_, found, bucket, many) in self.rows().filter(|(day, ..)| days.contains(day)) {
            if found == measure {
                *spans.0.entry(bucket).or_default() += many;
            }
        }
        spans
    }
}

/// Numbers of fewer closed tasks would show chance.
pub const CLOSED_MIN: u64 = 10;

/// How long a task takes once it is taken, for estimates: the median lead time without the median wait. `None` when too
/// few tasks were closed in these days.
pub fn pace_ms(counts: &DayCounts, days: RangeInclusive<i64>) -> Option<i64> {
    let lead = counts.spans(days.clone(), Measure::Lead);
    let wait = counts.spans(days, Measure::Wait).quantile_ms(0.5).unwrap_or_default();
    let median = lead.quantile_ms(0.5).filter(|_| lead.count() >= CLOSED_MIN)?;
    Some((median - wait).max(0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(name: EventName, at_s: i64, data: Value) -> Measurable {
        let at = Timestamp(at_s * 1_000_000);
        let created_at = Some(Timestamp(0));
        let (is_plan, freed) = (false, None);
        let (attempts, was_sent_back) = (0, false);
        Measurable { at, name, data, created_at, is_plan, freed, attempts, was_sent_back }
    }

    fn used(cost: Value) -> Value {
        json!({"agent": "agent:w1", "input_tokens": 1, "output_tokens": 2, "cost_micros": cost})
    }

    #[test]
    fn costs_add_up_and_nothing_is_no_row() {
        let mut counts = DayCounts::default();
        for cost in [json!(250_000), json!(0), Value::Null, json!(5)] {
            counts.measure(&event(EventName::JobUsed, 60, used(cost)));
        }
        let rows: Vec<_> = counts.rows().collect();
        assert_eq!(rows, [(0, Measure::Priced, 0, 3), (0, Measure::Cost, 0, 250_005)]);
    }

    #[test]
    fn events_count_for_one_measure_or_none() {
        let moved = |phase: &str| {
            let data = json!({"from": "a", "to": "b", "phase": phase});
            event(EventName::TaskStatusChanged, 60, data)
        };
        let claimed = |freed: Option<(EventName, i64)>| Measurable {
            freed: freed.map(|(name, s)| (name, Timestamp(s * 1_000_000))),
            ..event(EventName::TaskClaimed, 60, json!({}))
        };
        let check = |result: &str| event(EventName::CheckRan, 60, json!({"result": result}));
        let back = |data: Value| event(EventName::ReviewRejected, 60, data);
        let used = |cost: Value| event(EventName::JobUsed, 60, used(cost));
        let refused = |code: &str| event(EventName::CallRefused, 60, json!({"code": code}));
        let again = json!({"from": "b", "to": "b", "phase": "closed_done"});
        let table = [
            (moved("closed_done"), Some((Measure::Lead, 3 * PARTS))),
            (moved("closed_canceled"), Some((Measure::Canceled, 0))),
            (moved("review"), None),
            (event(EventName::TaskStatusChanged, 60, again), None),
            (Measurable { is_plan: true, ..moved("closed_done") }, None),
            (claimed(Some((EventName::TaskCreated, 0))), Some((Measure::Wait, 3 * PARTS))),
            (claimed(Some((EventName::AttemptExpired, 60))), Some((Measure::Wait, 0))),
            (claimed(Some((EventName::TaskCreated, 60))), None),
            (claimed(Some((EventName::TaskClaimed, 10))), None),
            (claimed(None), None),
            (check("pass"), Some((Measure::Passed, 0))),
            (event(EventName::JobStarted, 60, json!({})), Some((Measure::Ran, 0))),
            (event(EventName::JobStarted, 60, json!({"resumed": true})), None),
            (used(json!(0)), Some((Measure::Priced, 0))),
            (used(Value::Null), None),
            (check("fail"), Some((Measure::Failed, 0))),
            (back(json!({})), Some((Measure::SentBack, 0))),
            (back(json!({"advice": true})), None),
            (event(EventName::AttemptExpired, 60, json!({})), Some((Measure::Expired, 0))),
            (event(EventName::MailSent, 60, json!({})), None),
            (refused("ALREADY_CLAIMED"), Some((Measure::Late, 0))),
            (refused("JOB_LOST"), Some((Measure::Late, 0))),
            (refused("TASK_NOT_FOUND"), None),
        ];
        for (event, measured) in table {
            assert_eq!(event.measured(), measured, "{event:?}");
            let is_counted = Measurable::NAMES.contains(&event.name);
            assert!(is_counted || measured.is_none(), "{event:?}");
        }
    }

    #[test]
    fn a_task_is_done_at_the_first_try_with_one_attempt_that_was_not_sent_back() {
        for (phase, attempts, was_sent_back, is_plan, first_try) in [
            ("closed_done", 0, false, false, 1),
            ("closed_done", 1, false, false, 1),
            ("closed_done", 2, false, false, 0),
            ("closed_done", 1, true, false, 0),
            ("closed_done", 1, false, true, 0),
            ("closed_canceled", 1, false, false, 0),
            ("review", 1, false, false, 0),
        ] {
            let data = json!({"from": "a", "to": "b", "phase": phase});
            let moved = event(EventName::TaskStatusChanged, 60, data);
            let moved = Measurable { attempts, was_sent_back, is_plan, ..moved };
            let mut counts = DayCounts::default();
            counts.measure(&moved);
            assert_eq!(counts.count(0..=0, Measure::FirstTry), first_try, "{moved:?}");
        }
    }

    #[test]
    fn a_bucket_holds_the_spans_up_to_its_bound() {
        for ms in [0, 1, 999, 1000, 1001, 4999, 5000, 59_000, 3_600_000, 3_600_001, 604_800_000] {
            let bucket = bucket_of(ms);
            let s = ms as f64 / 1000.0;
            assert!(s <= upper_s(bucket) * 1.000_001, "{ms} in {bucket}");
            assert!(bucket == 0 || s >= upper_s(bucket - 1) * 0.999_999, "{ms} in {bucket}");
        }
        assert_eq!(bucket_of(604_800_001), LAST);
        for (step, bound) in SPAN_BOUNDS_S.iter().enumerate() {
            let bucket = bucket_of((bound * 1000.0) as i64);
            assert_eq!((bucket, upper_s(bucket)), (step as u16 * PARTS, *bound));
        }
    }

    #[test]
    fn quantiles_are_near_the_spans_and_histograms_are_exact() {
        let mut counts = DayCounts::default();
        for minutes in 1..=100 {
            counts.add(3, Measure::Lead, bucket_of(minutes * 60_000), 1);
        }
        let spans = counts.spans(3..=3, Measure::Lead);
        for (share, minutes) in [(0.5, 50.0), (0.9, 90.0)] {
            let found = spans.quantile_ms(share).expect("there are spans") as f64 / 60_000.0;
            assert!((found / minutes - 1.0).abs() < 0.06, "{share}: {found}");
        }
        assert_eq!(spans.between(300.0, 900.0), 10, "6 to 15 minutes");
        assert_eq!(spans.between(0.0, f64::INFINITY), 100);
        assert_eq!(counts.spans(4..=9, Measure::Lead).quantile_ms(0.5), None);
    }

    #[test]
    fn a_pace_needs_ten_closed_tasks_and_leaves_the_wait_out() {
        let minutes = |minutes: i64| bucket_of(minutes * 60_000);
        for (closed, lead, wait, pace) in [
            (9, 60, None, None),
            (10, 60, None, Some(60)),
            (10, 60, Some(15), Some(45)),
            (10, 5, Some(60), Some(0)),
        ] {
            let mut counts = DayCounts::default();
            counts.add(3, Measure::Lead, minutes(lead), closed);
            if let Some(wait) = wait {
                counts.add(3, Measure::Wait, minutes(wait), 10);
            }
            let found = pace_ms(&counts, 1..=3).map(|ms| ms as f64 / 60_000.0);
            let is_near = match (found, pace) {
                (None, None) => true,
                (Some(found), Some(pace)) => (found - f64::from(pace)).abs() <= 5.0,
                _ => false,
            };
            assert!(is_near, "{closed} {lead} {wait:?}: {found:?}");
            assert_eq!(pace_ms(&counts, 4..=9), None);
        }
    }

    #[test]
    fn days_are_those_of_utc() {
        let table = [(-1, -1), (0, 0), (DAY_US - 1, 0), (DAY_US, 1)];
        for (us, day) in table {
            assert_eq!(day_of(Timestamp(us)), day);
        }
        assert_eq!(day_of(day_start(20_000)), 20_000);
    }

    #[test]
    fn work_counts_for_the_agent_that_did_it() {
        let actor = |text: &str| -> Actor { text.parse().expect("an actor") };
        let lost = json!({"holder": "agent:lost"});
        let table = [
            (
                EventName::TaskStatusChanged,
                "human:jo",
                Some("agent:w1"),
                json!({}),
                Some("agent:w1"),
            ),
            (EventName::TaskStatusChanged, "agent:w1", None, json!({}), Some("agent:w1")),
            (EventName::TaskStatusChanged, "human:jo", None, json!({}), Some("human:jo")),
            (EventName::CheckRan, "runner:r1", Some("agent:w1"), json!({}), Some("agent:w1")),
            (EventName::CheckRan, "runner:r1", None, json!({}), None),
            (EventName::TaskClaimed, "agent:w2", Some("agent:w1"), json!({}), Some("agent:w2")),
            (EventName::AttemptExpired, "system:clock", Some("agent:w2"), lost, Some("agent:lost")),
            (EventName::JobUsed, "runner:r1", Some("agent:w2"), used(json!(1)), Some("agent:w1")),
            (EventName::JobStarted, "runner:r1", Some("system:relay"), json!({}), None),
        ];
        for (name, by, worker, data, counts_for) in table {
            let attributed = Attributed {
                event: event(name, 60, data),
                actor: actor(by),
                worker: worker.map(actor),
                epic: None,
            };
            assert_eq!(attributed.agent(), counts_for.map(actor), "{attributed:?}");
        }
    }
}
