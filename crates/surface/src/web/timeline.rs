//! Attempts in time, as SVG without a view box: every place is per cent of the width, so that no text is stretched.

use callboard_domain::task::attempt::{Attempt, AttemptState};
use callboard_domain::text::printed;
use callboard_domain::time::Timestamp;
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{ActorSeen, WorkSpan};
use maud::{Markup, html};

use super::parts::{Tone, outcome, span as length};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
/// The part of the width that lies before the end of the span; leases reach into the rest.
const PAST: f64 = 0.92;
/// A bar is at least this wide, in per cent.
const BAR_MIN: f64 = 0.4;
/// A bar shows so many characters of a title at most.
const TITLE_CHARS: usize = 60;

/// The span of a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Span {
    TenMinutes,
    Hour,
    #[default]
    ThreeHours,
    HalfDay,
    ThreeDays,
}

impl Span {
    pub const ALL: [Self; 5] =
        [Self::TenMinutes, Self::Hour, Self::ThreeHours, Self::HalfDay, Self::ThreeDays];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|span| span.key() == text)
    }

    /// The span in an address.
    pub fn key(self) -> &'static str {
        match self {
            Self::TenMinutes => "10min",
            Self::Hour => "1h",
            Self::ThreeHours => "3h",
            Self::HalfDay => "12h",
            Self::ThreeDays => "3d",
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::TenMinutes => "10 min",
            Self::Hour => "1 h",
            Self::ThreeHours => "3 h",
            Self::HalfDay => "12 h",
            Self::ThreeDays => "3 d",
        }
    }

    pub fn ms(self) -> i64 {
        match self {
            Self::TenMinutes => 10 * MINUTE_MS,
            Self::Hour => HOUR_MS,
            Self::ThreeHours => 3 * HOUR_MS,
            Self::HalfDay => 12 * HOUR_MS,
            Self::ThreeDays => 72 * HOUR_MS,
        }
    }

    /// The place, in per cent, from which on a label would reach the word of the now-line. Labels with a date are wider.
    fn labels_end(self) -> f64 {
        match self {
            Self::TenMinutes | Self::Hour | Self::ThreeHours | Self::HalfDay => 78.0,
            Self::ThreeDays => 68.0,
        }
    }

    /// The time between two lines of the grid.
    fn step_ms(self) -> i64 {
        match self {
            Self::TenMinutes => 2 * MINUTE_MS,
            Self::Hour => 10 * MINUTE_MS,
            Self::ThreeHours => 30 * MINUTE_MS,
            Self::HalfDay => 2 * HOUR_MS,
            Self::ThreeDays => 12 * HOUR_MS,
        }
    }
}

/// Where times lie on a timeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub span: Span,
    /// The end of the span: now, or an earlier time that the reader chose.
    pub until: Timestamp,
    pub now: Timestamp,
}

impl Axis {
    /// The beginning of the span.
    pub fn from(&self) -> Timestamp {
        self.until.plus_ms(-self.span.ms())
    }

    /// The place of a time in per cent, at the edge for times outside.
    fn x(&self, at: Timestamp) -> f64 {
        let share = at.ms_since(self.from()) as f64 / self.span.ms() as f64;
        (share * PAST * 100.0).clamp(0.0, 100.0)
    }

    /// Whether the present lies within the picture: behind `until` there is room for about a twelfth of the span.
    fn shows_now(&self) -> bool {
        self.now.ms_since(self.until) < self.span.ms() / 12
    }

    /// The times of the grid, at whole steps of UTC.
    fn steps(&self) -> Vec<Timestamp> {
        // Times are microseconds, spans milliseconds.
        let step = self.span.step_ms() * 1000;
        let first = self.from().0.div_euclid(step) + 1;
        let places = (first..).map(|n| Timestamp(n * step));
        places.take_while(|at| *at <= self.until).collect()
    }

    /// The hour and minute; over several days also the date.
    fn label(&self, at: Timestamp) -> String {
        let text = rfc3339_ms(at);
        let part = match self.span {
            Span::ThreeDays => text.get(5..16).map(|part| part.replace('T', " ")),
            Span::TenMinutes | Span::Hour | Span::ThreeHours | Span::HalfDay => {
                text.get(11..16).map(str::to_owned)
            }
        };
        part.unwrap_or(text)
    }
}

fn percent(x: f64) -> String {
    format!("{x:.2}%")
}

/// The head of the lanes: the times, and the pattern of leases.
pub(super) fn head(axis: &Axis) -> Markup {
    html! {
        svg.lane.lane-head aria-hidden="true" {
            defs { pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                line x1="0" x2="0" y1="0" y2="6" {}
            } }
            @for (n, at) in axis.steps().into_iter().enumerate() {
                @let x = axis.x(at);
                // The last label would stand under the word of the now-line.
                @if x < axis.span.labels_end() { text.is-second[n % 2 == 1].is-last[x > 60.0] x=(percent(x)) dx="4" y="18" { (axis.label(at)) } }
            }
            @if axis.shows_now() {
                text.lane-now x=(percent(axis.x(axis.now))) dx="4" y="18" text-anchor="end" {
                    "now " (axis.label(axis.now))
                }
            }
        }
    }
}

/// The work of one actor.
pub(super) fn lane(axis: &Axis, actor: &ActorSeen) -> Markup {
    let silent = actor.silent_since.is_some();
    html! {
        svg.lane role="group" aria-label={ "Attempts of " (actor.actor) } {
            @for at in axis.steps() {
                @let x = percent(axis.x(at));
                line.lane-grid x1=(x) x2=(x) y1="0" y2="100%" {}
            }
            @for work in &actor.work { (bar(axis, work, silent)) }
            @if axis.shows_now() {
                @let x = percent(axis.x(axis.now));
                line.lane-now x1=(x) x2=(x) y1="0" y2="100%" {}
            }
        }
    }
}

/// One attempt: its bar, the rest of its lease hatched, a tick for each heartbeat, and the title.
fn bar(axis: &Axis, work: &WorkSpan, silent: bool) -> Markup {
    let (attempt, task) = (&work.seen.attempt, &work.seen.task);
    let end = ended_at(attempt).unwrap_or(axis.now);
    let (tone, word) = match outcome(attempt, axis.now) {
        // Silence is the actor's, and shows only on the attempt that goes on.
        (Tone::Now, _) if silent => (Tone::Late, "silent"),
        known => known,
    };
    let (x, to) = (axis.x(attempt.started_at), axis.x(end));
    let width = (to - x).max(BAR_MIN);
    // How long the holder may stay silent before the task is free again.
    let ahead = attempt.lease().map(|lease| axis.x(lease.expires_at) - to).filter(|it| *it > 0.0);
    // SVG has no element that isolates the direction of a text.
    let title: String = printed(&task.title).chars().take(TITLE_CHARS).collect();
    let words = format!("{title}: {word}, {}", length(end.ms_since(attempt.started_at)));
    html! {
        a class={ "bar-of " (tone.class()) } href={ "/tasks/" (task.name()) } aria-label=(words) {
            title { (words) }
            @if let Some(ahead) = ahead.filter(|_| attempt.is_live(axis.now)) {
                rect.ahead x=(percent(to)) y="11" width=(percent(ahead)) height="23" fill="url(#hatch)" {}
            }
            rect.bar-body x=(percent(x)) y="11" width=(percent(width)) height="23" rx="4" {}
            @for at in work.heartbeats.iter().filter(|at| **at >= axis.from()) {
                @let x = percent(axis.x(*at));
                line.beat x1=(x) x2=(x) y1="29" y2="34" {}
            }
            svg x=(percent(x)) width=(percent(width)) height="44" { text x="7" y="26" { (title) } }
        }
    }
}

/// The end of an attempt; `None` while it goes on.
fn ended_at(attempt: &Attempt) -> Option<Timestamp> {
    match &attempt.state {
        AttemptState::Live { .. } => None,
        AttemptState::Ended { at, .. } => Some(*at),
    }
}

/// How long an attempt took, so far.
pub(super) fn took(attempt: &Attempt, now: Timestamp) -> String {
    length(ended_at(attempt).unwrap_or(now).ms_since(attempt.started_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp(1_700_049_600_000_000);

    #[test]
    fn times_lie_in_the_past_part_and_leases_reach_beyond() {
        let axis = Axis { span: Span::Hour, until: NOON, now: NOON };
        for (minutes, x) in
            [(-120, 0.0), (-60, 0.0), (-30, 46.0), (0, 92.0), (3, 96.6), (60, 100.0)]
        {
            let place = axis.x(NOON.plus_ms(minutes * MINUTE_MS));
            assert!((place - x).abs() < 0.01, "{minutes} min lie at {place}");
        }
    }

    #[test]
    fn the_grid_stands_at_whole_steps() {
        for (span, until, labels) in [
            (Span::Hour, NOON, "11:10 11:20 11:30 11:40 11:50 12:00"),
            (Span::ThreeHours, NOON.plus_ms(MINUTE_MS), "09:30 10:00 10:30 11:00 11:30 12:00"),
            (Span::HalfDay, NOON, "02:00 04:00 06:00 08:00 10:00 12:00"),
        ] {
            let axis = Axis { span, until, now: until };
            let shown: Vec<String> = axis.steps().into_iter().map(|at| axis.label(at)).collect();
            assert_eq!(shown.join(" "), labels);
        }
        let axis = Axis { span: Span::ThreeDays, until: NOON, now: NOON };
        assert_eq!(axis.label(NOON), "11-15 12:00");
    }

    #[test]
    fn a_span_is_read_back_from_its_address() {
        for span in Span::ALL {
            assert_eq!(Span::parse(span.key()), Some(span));
        }
        assert_eq!(Span::parse("2h"), None);
    }
}
