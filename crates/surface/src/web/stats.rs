//! The numbers of the board over days: is it getting faster, where is time lost, what fails.

use std::ops::RangeInclusive;

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::stats::{CLOSED_MIN, Measure, Spans, StatsBy, day_start};
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{EngineError, StatsByGroup, StatsSeen};
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::chart::{Chart, ChartForm, Series};
use super::frame::{Screen, View};
use super::parts::{Choice, Tone, cost, note, span, tabs};
use super::stats_by::table;

/// The spans to choose from: the word of the address, the words of the link, the days.
const SPANS: [(&str, &str, i64); 5] = [
    ("1d", "24 h", 1),
    ("7d", "7 d", 7),
    ("14d", "14 d", 14),
    ("90d", "90 d", 90),
    ("52w", "1 y", 364),
];
const USUAL: (&str, &str, i64) = SPANS[2];
/// A longer span is drawn by weeks.
const DAILY_MAX: i64 = 90;
const WEEK: i64 = 7;
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
    /// `agent` or `epic`; everything together without it.
    #[serde(default)]
    by: String,
}

/// What a page shows.
#[derive(Clone, Copy)]
struct StatsChoice {
    span: (&'static str, &'static str, i64),
    by: Option<StatsBy>,
}

impl StatsChoice {
    /// Unknown words are the usual choice.
    fn of(asked: &StatsRequest) -> Self {
        let span = SPANS.into_iter().find(|(word, ..)| *word == asked.span.trim());
        Self { span: span.unwrap_or(USUAL), by: StatsBy::parse(asked.by.trim()) }
    }

    fn address(self) -> String {
        let by = self.by.map(|by| format!("&by={}", by.as_str())).unwrap_or_default();
        format!("/stats?span={}{by}", self.span.0)
    }
}

pub(super) async fn show(page: Page, Query(asked): Query<StatsRequest>) -> Response {
    let choice = StatsChoice::of(&asked);
    match read(&page, choice).await {
        Ok((seen, groups)) => {
            let content = html! { (bar(choice)) (numbers(&seen, choice.span.2, groups.as_ref())) };
            let title = Screen::Metrics.title();
            let view = View::of(Screen::Metrics, title, content);
            page.show(StatusCode::OK, view).await
        }
        Err(error) => page.failure(Screen::Metrics, &error).await,
    }
}

/// Counts by agent or epic, with what they are broken down by.
type Groups = (StatsBy, StatsByGroup);

async fn read(
    page: &Page,
    choice: StatsChoice,
) -> Result<(StatsSeen, Option<Groups>), EngineError> {
    let (op, days) = (page.op(), choice.span.2);
    // The days before the span are read as well, to compare with.
    let seen = page.engine.stats(&op, days * 2).await?;
    let groups = match choice.by {
        Some(by) => Some((by, page.engine.stats_by(&op, days, by).await?)),
        None => None,
    };
    Ok((seen, groups))
}

fn bar(choice: StatsChoice) -> Markup {
    let groups = [
        (None, "Everything"),
        (Some(StatsBy::Agent), "By agent"),
        (Some(StatsBy::Epic), "By epic"),
    ];
    let groups = groups.map(|(by, word)| Choice {
        href: StatsChoice { by, ..choice }.address(),
        word,
        count: None,
        is_current: choice.by == by,
    });
    html! {
        div.bar {
            nav.segments aria-label="Span" { @for span in SPANS {
                a href=(StatsChoice { span, ..choice }.address()) aria-current=[(span.0 == choice.span.0).then_some("page")] { (span.1) }
            } }
            (tabs("Broken down", groups))
            p.faint.bar-end {
                "From the event log, days of UTC. Calls and commits of this process: "
                a href="/metrics" { "/metrics" }
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

    /// The days of a point of the charts: one, or a week of a long span.
    fn step(&self) -> i64 {
        if self.now.end() - self.now.start() + 1 > DAILY_MAX { WEEK } else { 1 }
    }

    /// The value of each step of the span.
    fn daily<T>(&self, value: impl Fn(RangeInclusive<i64>) -> T) -> Vec<T> {
        let step = self.step();
        let starts = self.now.clone().step_by(step as usize);
        starts.map(|day| value(day..=(day + step - 1).min(*self.now.end()))).collect()
    }

    /// The word for a step.
    fn step_word(&self) -> &'static str {
        if self.step() == 1 { "day" } else { "week" }
    }

    fn step_head(&self) -> &'static str {
        if self.step() == 1 { "Day" } else { "Week of" }
    }

    fn counts(&self, measure: Measure) -> Vec<Option<f64>> {
        self.daily(|days| Some(self.seen.counts.count(days, measure) as f64))
    }

    fn labels(&self) -> Vec<String> {
        self.daily(|days| rfc3339_ms(day_start(*days.start()))[5..10].to_owned())
    }
}

fn numbers(seen: &StatsSeen, days: i64, groups: Option<&Groups>) -> Markup {
    let first = seen.today - days + 1;
    let compared = Compared { seen, now: first..=seen.today, before: first - days..=first - 1 };
    let closed = compared.count(Measure::Lead);
    html! {
        div.pad.stack #numbers data-live data-minutely {
            @if let Some(up_to) = seen.up_to {
                (note(Tone::Late, "clock", &html! { "Events after number " (up_to) " are not counted yet." }))
            }
            (tiles(&compared, days))
            @if let Some((by, found)) = groups { (table(found, *by)) }
            @else if closed < CLOSED_MIN {
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
pub(super) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "none".into(),
        _ => format!("{} %", (part as f64 * 100.0 / whole as f64).round()),
    }
}

pub(super) fn time(ms: Option<i64>) -> String {
    ms.map_or_else(|| "none".into(), span)
}

fn tiles(compared: &Compared<'_>, days: i64) -> Markup {
    let was = |measure| match compared.median_before(measure) {
        Some(ms) => format!(", was {}", span(ms)),
        None => String::new(),
    };
    let (lead, wait) = (compared.spans(Measure::Lead), compared.spans(Measure::Wait));
    let timed = |spans: &Spans, measure| match spans.quantile_ms(0.9) {
        Some(ms) => format!("median{}; p90 {}", was(measure), span(ms)),
        None => String::new(),
    };
    let (closed, canceled) = (lead.count(), compared.count(Measure::Canceled));
    let (passed, failed) = (compared.count(Measure::Passed), compared.count(Measure::Failed));
    let back = compared.count(Measure::SentBack);
    let a_day = format!("{:.1} a day, {canceled} given up", closed as f64 / days as f64);
    let before = |measure| compared.count_before(measure);
    let (were_closed, were_back) = (before(Measure::Lead), before(Measure::SentBack));
    let (first, were_first) = (compared.count(Measure::FirstTry), before(Measure::FirstTry));
    let (had_passed, had_run) =
        (before(Measure::Passed), before(Measure::Passed) + before(Measure::Failed));
    // Nothing happened in the days before: there is nothing to compare with.
    let former = |whole: u64, words: String| match whole {
        0 => String::new(),
        _ => format!(", was {words}"),
    };
    let leases = compared.count(Measure::Expired);
    let had_leases = before(Measure::Expired);
    let late = compared.count(Measure::Late);
    html! {
        dl.tiles {
            (tile("Lead time", &time(lead.quantile_ms(0.5)), &timed(&lead, Measure::Lead)))
            (tile("Queue wait", &time(wait.quantile_ms(0.5)), &timed(&wait, Measure::Wait)))
            (tile("Closed", &closed.to_string(), &(a_day + &former(were_closed, were_closed.to_string()))))
            (tile("First-try pass", &share(first, closed), former(were_closed, share(were_first, were_closed)).trim_start_matches(", ")))
            (tile("Checks passed", &share(passed, passed + failed),
                &format!("{passed} of {}{}", passed + failed, former(had_run, share(had_passed, had_run)))))
            (tile("Sent back", &share(back, closed),
                &format!("{back} of {closed} closed{}", former(were_closed, share(were_back, were_closed)))))
            (tile("Leases run out", &leases.to_string(),
                &format!("{late} late {}{}", claims(late), former(had_leases, had_leases.to_string()))))
            (cost_tile(compared))
        }
    }
}

fn claims(count: u64) -> &'static str {
    if count == 1 { "claim" } else { "claims" }
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
    let step = compared.step_word();
    let daily = |id, title, unit: String, says: String, series| Chart {
        id,
        title,
        unit,
        says,
        of: compared.step_head(),
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
            "passes below, failures above".into(),
            format!("{passed} checks passed and {failed} failed."),
            vec![
                series("Passed", "is-proved", compared.counts(Measure::Passed)),
                series("Failed", "is-failed", compared.counts(Measure::Failed)),
            ],
        ),
        daily(
            "closed",
            "Throughput",
            format!("tasks closed a {step}"),
            format!("{} tasks were closed.", count(Measure::Lead)),
            vec![series("Closed", "is-proved", compared.counts(Measure::Lead))],
        ),
        daily(
            "back",
            "Sent back",
            format!("reviews a {step}"),
            format!("{} reviews sent work back.", count(Measure::SentBack)),
            vec![series("Sent back", "is-person", compared.counts(Measure::SentBack))],
        ),
        daily(
            "leases",
            "Leases run out",
            format!("a {step}; {} late {}", count(Measure::Late), claims(count(Measure::Late))),
            format!(
                "{} leases ran out, and {} calls came too late.",
                count(Measure::Expired),
                count(Measure::Late)
            ),
            vec![series("Run out", "is-late", compared.counts(Measure::Expired))],
        ),
        cost_chart(compared),
    ]
}

fn cost_chart(compared: &Compared<'_>) -> Chart {
    let of = |measure| compared.daily(|days| compared.seen.counts.count(days, measure));
    let costs = of(Measure::Cost);
    // The unit that the highest day reads well in.
    let (unit, micros) = match costs.iter().max() {
        Some(2_000_000..) => ("US dollars", 1e6),
        _ => ("US cents", 1e4),
    };
    let values = costs.iter().map(|cost| Some(*cost as f64 / micros)).collect();
    let (ran, priced) = (of(Measure::Ran), of(Measure::Priced));
    let unknown: Vec<u64> =
        ran.iter().zip(&priced).map(|(ran, priced)| ran.saturating_sub(*priced)).collect();
    let sum = cost(Some(compared.count(Measure::Cost)));
    Chart {
        id: "cost",
        title: "Cost",
        unit: format!("{unit} a {}; hatched: unknown", compared.step_word()),
        says: format!(
            "Runs reported a cost of {sum}; {} runs reported none.",
            unknown.iter().sum::<u64>()
        ),
        of: compared.step_head(),
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
        compared.daily(|days| {
            let spans = compared.seen.counts.spans(days, Measure::Lead);
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
        of: compared.step_head(),
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
            let shown = numbers(&seen(closed), 14, None).into_string();
            assert_eq!(shown.matches("<svg class=\"plot\"").count(), charts, "{closed}");
            assert_eq!(shown.matches("<div class=\"tile\">").count(), 8);
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
    fn the_first_try_is_a_share_of_closed_tasks_with_the_former_one() {
        let mut seen = seen(10);
        for (day, measure, many) in [
            (100, Measure::FirstTry, 7),
            (80, Measure::Lead, 4),
            (80, Measure::FirstTry, 1),
            (100, Measure::Expired, 5),
            (100, Measure::Late, 11),
        ] {
            seen.counts.add(day, measure, 0, many);
        }
        let shown = tiles_of(&seen, 14);
        for words in [
            "First-try pass</dt><dd><strong>70 %</strong><span class=\"faint\">was 25 %",
            "Leases run out</dt><dd><strong>5</strong><span class=\"faint\">11 late claims, was 7",
            "a day; 11 late claims",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert!(
            tiles_of(&super::tests::seen(0), 14).contains("First-try pass</dt><dd><strong>none<")
        );
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

    #[test]
    fn a_long_span_is_drawn_by_weeks_and_an_address_keeps_the_choice() {
        for (days, points, head) in [(90, 90, ">Day<"), (364, 52, ">Week of<")] {
            let shown = numbers(&seen(10), days, None).into_string();
            let table = &shown[shown.find("numbers-closed").expect("a table")..];
            let table = &table[..table.find("</table>").expect("its end")];
            assert_eq!(table.matches("<th scope=\"row\">").count(), points, "{days}");
            assert!(table.contains(head), "{table}");
        }
        for (span, by, address) in [
            ("", "", "/stats?span=14d"),
            ("52w", "epic", "/stats?span=52w&by=epic"),
            ("9y", "moon", "/stats?span=14d"),
        ] {
            let asked = StatsRequest { span: span.into(), by: by.into() };
            assert_eq!(StatsChoice::of(&asked).address(), address);
        }
    }

    fn tiles_of(seen: &StatsSeen, days: i64) -> String {
        numbers(seen, days, None).into_string()
    }

    #[test]
    fn a_share_of_nothing_is_none() {
        for (part, whole, words) in [(0, 0, "none"), (1, 3, "33 %"), (3, 3, "100 %")] {
            assert_eq!(share(part, whole), words);
        }
    }
}
