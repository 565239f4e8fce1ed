//! The numbers of the board over days: is it getting faster, where is time lost, what fails.

use std::ops::RangeInclusive;

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::stats::{Measure, Spans, day_start};
use callboard_engine::StatsSeen;
use callboard_engine::time::rfc3339_ms;
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::chart::{Chart, ChartForm, Series};
use super::frame::{Screen, View};
use super::parts::{Tone, cost, note, span};

/// Charts of fewer closed tasks would show chance.
const CLOSED_MIN: u64 = 10;
/// The spans of days to choose from.
const SPANS: [(&str, i64); 4] = [("7d", 7), ("14d", 14), ("30d", 30), ("90d", 90)];
const USUAL: (&str, i64) = SPANS[1];
/// The steps of the histogram of waits: a bound in seconds and its words.
const WAITS: [(f64, &str); 8] = [
    (60.0, "1 min"),
    (300.0, "5 min"),
    (900.0, "15 min"),
    (3600.0, "1 h"),
    (14_400.0, "4 h"),
    (43_200.0, "12 h"),
    (86_400.0, "1 d"),
    (f64::INFINITY, "more"),
];

#[derive(Deserialize)]
pub(super) struct StatsRequest {
    #[serde(default)]
    span: String,
}

pub(super) async fn show(page: Page, Query(asked): Query<StatsRequest>) -> Response {
    let chosen = SPANS.into_iter().find(|(word, _)| *word == asked.span.trim()).unwrap_or(USUAL);
    // The days before the span are read as well, to compare with.
    match page.engine.stats(&page.op(), chosen.1 * 2).await {
        Ok(seen) => {
            let content = html! { (bar(chosen.0)) (numbers(&seen, chosen.1)) };
            let title = Screen::Metrics.title();
            let view = View::of(Screen::Metrics, title, content);
            page.show(StatusCode::OK, view).await
        }
        Err(error) => page.failure(Screen::Metrics, &error).await,
    }
}

fn bar(chosen: &str) -> Markup {
    html! {
        div.bar {
            nav.segments aria-label="Span" { @for (word, days) in SPANS {
                a href={ "/stats?span=" (word) } aria-current=[(word == chosen).then_some("page")] { (days) " d" }
            } }
            p.faint.bar-end {
                "From the log of events, by days of UTC. Numbers of this process, such as calls and commits, are at "
                a href="/metrics" { "/metrics" } "."
            }
        }
    }
}

/// The counts of the span, and of as many days before it.
struct Compared<'s> {
    seen: &'s StatsSeen,
    now: RangeInclusive<i64>,
    before: RangeInclusive<i64>,
}

impl Compared<'_> {
    fn count(&self, measure: Measure) -> u64 {
        self.seen.counts.count(self.now.clone(), measure)
    }

    fn spans(&self, measure: Measure) -> Spans {
        self.seen.counts.spans(self.now.clone(), measure)
    }

    /// The count of the days before.
    fn count_before(&self, measure: Measure) -> u64 {
        self.seen.counts.count(self.before.clone(), measure)
    }

    fn median_before(&self, measure: Measure) -> Option<i64> {
        self.seen.counts.spans(self.before.clone(), measure).quantile_ms(0.5)
    }

    /// The value of each day of the span.
    fn daily<T>(&self, value: impl Fn(i64) -> T) -> Vec<T> {
        self.now.clone().map(value).collect()
    }

    fn counts(&self, measure: Measure) -> Vec<Option<f64>> {
        self.daily(|day| Some(self.seen.counts.count(day..=day, measure) as f64))
    }

    fn labels(&self) -> Vec<String> {
        self.daily(|day| rfc3339_ms(day_start(day))[5..10].to_owned())
    }
}

fn numbers(seen: &StatsSeen, days: i64) -> Markup {
    let first = seen.today - days + 1;
    let compared = Compared { seen, now: first..=seen.today, before: first - days..=first - 1 };
    let closed = compared.count(Measure::Lead);
    html! {
        div.pad.stack #numbers data-live {
            @if let Some(up_to) = seen.up_to {
                (note(Tone::Late, "clock", &html! { "Events after number " (up_to) " are not counted yet." }))
            }
            (tiles(&compared, days))
            @if closed < CLOSED_MIN {
                (note(Tone::Quiet, "metrics", &html! {
                    "Charts appear with " (CLOSED_MIN) " closed tasks in the span; there are " (closed) "."
                }))
            } @else {
                div.charts { @for chart in charts(&compared) { (chart.shown()) } }
            }
        }
    }
}

fn tile(name: &str, value: &str, more: &str) -> Markup {
    html! { div.tile { dt { (name) } dd { strong { (value) } span.faint { (more) } } } }
}

/// A share in per cent; "none" of nothing.
fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "none".into(),
        _ => format!("{} %", (part as f64 * 100.0 / whole as f64).round()),
    }
}

fn time(ms: Option<i64>) -> String {
    ms.map_or_else(|| "none".into(), span)
}

fn tiles(compared: &Compared<'_>, days: i64) -> Markup {
    let was = |measure| match compared.median_before(measure) {
        Some(ms) => format!(", was {}", span(ms)),
        None => String::new(),
    };
    let (lead, wait) = (compared.spans(Measure::Lead), compared.spans(Measure::Wait));
    let timed = |spans: &Spans, measure| match spans.quantile_ms(0.9) {
        Some(ms) => format!("p90 {}{}", span(ms), was(measure)),
        None => String::new(),
    };
    let (closed, canceled) = (lead.count(), compared.count(Measure::Canceled));
    let (passed, failed) = (compared.count(Measure::Passed), compared.count(Measure::Failed));
    let back = compared.count(Measure::SentBack);
    let a_day = format!("{:.1} a day, {canceled} given up", closed as f64 / days as f64);
    let before = |measure| compared.count_before(measure);
    let (were_closed, were_back) = (before(Measure::Lead), before(Measure::SentBack));
    let (had_passed, had_run) =
        (before(Measure::Passed), before(Measure::Passed) + before(Measure::Failed));
    // Nothing happened in the days before: there is nothing to compare with.
    let former = |whole: u64, words: String| match whole {
        0 => String::new(),
        _ => format!(", was {words}"),
    };
    let leases = compared.count(Measure::Expired);
    let had_leases = before(Measure::Expired);
    html! {
        dl.tiles {
            (tile("Lead time, median", &time(lead.quantile_ms(0.5)), &timed(&lead, Measure::Lead)))
            (tile("Queue wait, median", &time(wait.quantile_ms(0.5)), &timed(&wait, Measure::Wait)))
            (tile("Closed", &closed.to_string(), &(a_day + &former(were_closed, were_closed.to_string()))))
            (tile("Checks passed", &share(passed, passed + failed),
                &format!("{passed} of {}{}", passed + failed, former(had_run, share(had_passed, had_run)))))
            (tile("Sent back", &share(back, closed),
                &format!("{back} of {closed} closed{}", former(were_closed, share(were_back, were_closed)))))
            (cost_tile(compared))
            (tile("Leases run out", &leases.to_string(), former(had_leases, had_leases.to_string()).trim_start_matches(", ")))
        }
    }
}

/// The cost of the span, and how many of its runs it is known of.
fn cost_tile(compared: &Compared<'_>) -> Markup {
    let (ran, priced) = (compared.count(Measure::Ran), compared.count(Measure::Priced));
    let sum = (priced > 0).then(|| compared.count(Measure::Cost));
    let before = compared.count_before(Measure::Priced);
    let was = match before {
        0 => String::new(),
        _ => format!(", was {}", cost(Some(compared.count_before(Measure::Cost)))),
    };
    tile("Cost", &cost(sum), &format!("{priced} of {} runs reported it{was}", ran.max(priced)))
}

fn series(name: &'static str, class: &'static str, values: Vec<Option<f64>>) -> Series {
    Series { name, class, values }
}

fn charts(compared: &Compared<'_>) -> Vec<Chart> {
    let daily = |id, title, unit: &str, says: String, series| Chart {
        id,
        title,
        unit: unit.to_owned(),
        says,
        of: "Day",
        labels: compared.labels(),
        series,
        unknown: Vec::new(),
        form: ChartForm::Bars,
    };
    let count = |measure| compared.count(measure);
    let (passed, failed) = (count(Measure::Passed), count(Measure::Failed));
    vec![
        lead_chart(compared),
        wait_chart(compared),
        daily(
            "checks",
            "Check results",
            "passes below, failures above",
            format!("{passed} checks passed and {failed} failed."),
            vec![
                series("Passed", "is-proved", compared.counts(Measure::Passed)),
                series("Failed", "is-failed", compared.counts(Measure::Failed)),
            ],
        ),
        daily(
            "closed",
            "Throughput",
            "tasks closed a day",
            format!("{} tasks were closed.", count(Measure::Lead)),
            vec![series("Closed", "is-proved", compared.counts(Measure::Lead))],
        ),
        daily(
            "back",
            "Sent back",
            "reviews a day",
            format!("{} reviews sent work back.", count(Measure::SentBack)),
            vec![series("Sent back", "is-person", compared.counts(Measure::SentBack))],
        ),
        daily(
            "leases",
            "Leases run out",
            "leases a day",
            format!("{} leases ran out.", count(Measure::Expired)),
            vec![series("Run out", "is-late", compared.counts(Measure::Expired))],
        ),
        cost_chart(compared),
    ]
}

fn cost_chart(compared: &Compared<'_>) -> Chart {
    let of = |measure| compared.daily(|day| compared.seen.counts.count(day..=day, measure));
    let costs = of(Measure::Cost);
    // The unit that the highest day reads well in.
    let (unit, micros) = match costs.iter().max() {
        Some(2_000_000..) => ("US dollars a day", 1e6),
        _ => ("US cents a day", 1e4),
    };
    let values = costs.iter().map(|cost| Some(*cost as f64 / micros)).collect();
    let (ran, priced) = (of(Measure::Ran), of(Measure::Priced));
    let unknown: Vec<u64> =
        ran.iter().zip(&priced).map(|(ran, priced)| ran.saturating_sub(*priced)).collect();
    let sum = cost(Some(compared.count(Measure::Cost)));
    Chart {
        id: "cost",
        title: "Cost",
        unit: format!("{unit}; hatched: runs that reported none"),
        says: format!(
            "Runs reported a cost of {sum}; {} runs reported none.",
            unknown.iter().sum::<u64>()
        ),
        of: "Day",
        labels: compared.labels(),
        series: vec![series("Cost", "is-now", values)],
        unknown,
        form: ChartForm::Bars,
    }
}

fn lead_chart(compared: &Compared<'_>) -> Chart {
    let whole = compared.spans(Measure::Lead);
    // The unit that the longest value reads well in.
    let (unit, unit_ms) = match whole.quantile_ms(0.9).unwrap_or_default() {
        0..7_200_000 => ("minutes", 60_000.0),
        7_200_000..172_800_000 => ("hours", 3_600_000.0),
        _ => ("days", 86_400_000.0),
    };
    let of = |share: f64| {
        compared.daily(|day| {
            let spans = compared.seen.counts.spans(day..=day, Measure::Lead);
            spans.quantile_ms(share).map(|ms| ms as f64 / unit_ms)
        })
    };
    let (median, most) = (whole.quantile_ms(0.5), whole.quantile_ms(0.9));
    Chart {
        id: "lead",
        title: "Lead time",
        unit: format!("{unit}; median, dashed p90"),
        says: format!(
            "Half of the tasks took at most {}, nine in ten at most {}.",
            time(median),
            time(most)
        ),
        of: "Day",
        labels: compared.labels(),
        series: vec![
            series("Median", "is-now", of(0.5)),
            series("p90", "is-quiet is-dashed", of(0.9)),
        ],
        unknown: Vec::new(),
        form: ChartForm::Lines,
    }
}

fn wait_chart(compared: &Compared<'_>) -> Chart {
    let waits = compared.spans(Measure::Wait);
    let mut low = 0.0;
    let mut values = Vec::new();
    for (bound, _) in WAITS {
        values.push(Some(waits.between(low, bound) as f64));
        low = bound;
    }
    let says = format!(
        "{} tasks were taken; half of them within {}.",
        waits.count(),
        time(waits.quantile_ms(0.5))
    );
    Chart {
        id: "wait",
        title: "Queue wait",
        unit: "tasks, free until taken".into(),
        says,
        of: "At most",
        labels: WAITS.iter().map(|(_, words)| (*words).to_owned()).collect(),
        series: vec![series("Tasks", "is-quiet", values)],
        unknown: Vec::new(),
        form: ChartForm::Bars,
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::board::stats::DayCounts;

    use super::*;

    fn seen(closed: u64) -> StatsSeen {
        let mut counts = DayCounts::default();
        if closed > 0 {
            counts.add(100, Measure::Lead, 64, closed);
        }
        counts.add(100, Measure::Wait, 0, 3);
        counts.add(99, Measure::Passed, 0, 3);
        counts.add(100, Measure::Failed, 0, 1);
        counts.add(80, Measure::Expired, 0, 7);
        StatsSeen { counts, today: 100, up_to: None }
    }

    #[test]
    fn few_closed_tasks_have_numbers_and_no_charts() {
        for (closed, charts) in [(0, 0), (9, 0), (10, 7)] {
            let shown = numbers(&seen(closed), 14).into_string();
            assert_eq!(shown.matches("<svg class=\"plot\"").count(), charts, "{closed}");
            assert_eq!(shown.matches("<div class=\"tile\">").count(), 7);
            assert!(shown.contains("<strong>75 %</strong>"), "{shown}");
        }
    }

    #[test]
    fn a_span_leaves_earlier_days_out() {
        let shown = |days| tiles_of(&seen(10), days);
        assert!(shown(14).contains("Leases run out</dt><dd><strong>0<"), "{}", shown(14));
        assert!(shown(30).contains("Leases run out</dt><dd><strong>7<"), "{}", shown(30));
    }

    #[test]
    fn runs_without_a_cost_are_hatched_and_counted() {
        let mut seen = seen(10);
        for (measure, many) in [(Measure::Ran, 5), (Measure::Priced, 2), (Measure::Cost, 1_500_000)]
        {
            seen.counts.add(100, measure, 0, many);
        }
        let shown = tiles_of(&seen, 14);
        assert!(shown.contains("<strong>$1.50</strong>"), "{shown}");
        assert!(shown.contains("2 of 5 runs reported it"), "{shown}");
        assert_eq!(shown.matches("url(#hatch)").count(), 1, "{shown}");
        assert!(shown.contains("reported a cost of $1.50; 3 runs reported none"), "{shown}");
        assert!(tiles_of(&super::tests::seen(0), 14).contains("<strong>unknown</strong>"));
    }

    fn tiles_of(seen: &StatsSeen, days: i64) -> String {
        numbers(seen, days).into_string()
    }

    #[test]
    fn a_share_of_nothing_is_none() {
        for (part, whole, words) in [(0, 0, "none"), (1, 3, "33 %"), (3, 3, "100 %")] {
            assert_eq!(share(part, whole), words);
        }
    }
}
