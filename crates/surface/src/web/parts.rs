//! The parts that every screen is made of: glyphs, badges, actors, times, leases, checks, notes. A state is always a
//! glyph and a word; colour only repeats it.

use callboard_domain::actor::Actor;
use callboard_domain::board::column::Column;
use callboard_domain::board::filter::{CheckFilter, FILTER_KEYS};
use callboard_domain::board::why;
use callboard_domain::ids::TaskName;
use callboard_domain::policy::Phase;
use callboard_domain::task::attempt::{Attempt, AttemptEnd, AttemptState};
use callboard_domain::task::{Check, Task};
use callboard_domain::time::{Timestamp, span_words};
use callboard_engine::LogLine;
use callboard_engine::time::rfc3339_ms;
use maud::{Markup, Render, html};

/// How many check pips a card shows before it only counts.
const PIPS_SHOWN: usize = 6;
/// How many actors, and how many epics, a filter offers.
const TERMS_SHOWN: usize = 20;
/// A lease shorter than this is renewed all the time; its seconds tell a reader nothing.
const SHORT_LEASE_S: u32 = 120;

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Now,
    Person,
    Proved,
    Late,
    Failed,
}

impl Tone {
    /// The tone of a why-line.
    pub fn of(tone: why::Tone) -> Self {
        match tone {
            why::Tone::Plain => Self::Quiet,
            why::Tone::Now => Self::Now,
            why::Tone::Person => Self::Person,
            why::Tone::Proved => Self::Proved,
            why::Tone::Late => Self::Late,
            why::Tone::Failed => Self::Failed,
        }
    }

    pub fn class(self) -> &'static str {
        match self {
            Self::Plain => "is-plain",
            Self::Quiet => "is-quiet",
            Self::Now => "is-now",
            Self::Person => "is-person",
            Self::Proved => "is-proved",
            Self::Late => "is-late",
            Self::Failed => "is-failed",
        }
    }
}

/// A glyph of `icons.svg`.
pub(super) fn icon(name: &str) -> Markup {
    html! { svg.icon aria-hidden="true" { use href={ "/icons.svg#" (name) } {} } }
}

/// Where a task stands, for people: the phase, and for a task without a worker whether something holds the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Blocked,
    Ready,
    Working,
    Review,
    Done,
    Canceled,
}

impl State {
    pub fn of(task: &Task) -> Self {
        match Column::of(task) {
            Column::Done if task.phase == Phase::ClosedCanceled => Self::Canceled,
            column => Self::at(column),
        }
    }

    /// The state of the tasks in a column.
    pub fn at(column: Column) -> Self {
        match column {
            Column::Blocked => Self::Blocked,
            Column::Ready => Self::Ready,
            Column::Working => Self::Working,
            Column::Review => Self::Review,
            Column::Done => Self::Done,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Blocked => "Blocked",
            Self::Ready => "Ready",
            Self::Working => "Working",
            Self::Review => "Review",
            Self::Done => "Done",
            Self::Canceled => "Canceled",
        }
    }

    pub fn glyph(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Ready => "ready",
            Self::Working => "working",
            Self::Review => "review",
            Self::Done => "done",
            Self::Canceled => "canceled",
        }
    }

    pub fn tone(self) -> Tone {
        match self {
            Self::Blocked | Self::Canceled => Tone::Quiet,
            Self::Ready => Tone::Plain,
            Self::Working => Tone::Now,
            Self::Review => Tone::Person,
            Self::Done => Tone::Proved,
        }
    }

    /// The glyph beside a word that the page shows anyway.
    pub fn glyph_only(self) -> Markup {
        html! { span class={ "glyph " (self.tone().class()) } { (icon(self.glyph())) } }
    }

    /// The glyph alone, with the word for screen readers.
    pub fn mark(self) -> Markup {
        html! {
            span class={ "glyph " (self.tone().class()) } {
                (icon(self.glyph())) span.hidden { (self.word()) }
            }
        }
    }

    pub fn badge(self) -> Markup {
        badge(self.tone(), self.glyph(), self.word())
    }
}

/// A pill with a glyph and a word.
pub(super) fn badge(tone: Tone, glyph: &str, word: impl Render) -> Markup {
    html! { span class={ "badge " (tone.class()) } { (icon(glyph)) (word) } }
}

/// A square tag for a fact.
pub(super) fn tag(tone: Tone, word: impl Render) -> Markup {
    html! { span class={ "tag " (tone.class()) } { (word) } }
}

/// A link to a task by its short name.
pub(super) fn task_link(name: TaskName) -> Markup {
    html! { a.id.above href={ "/tasks/" (name) } { (name) } }
}

/// A link to a task by its title.
pub(super) fn title_link(task: &Task) -> Markup {
    html! { a href={ "/tasks/" (task.name()) } { bdi { (task.title) } } }
}

/// An actor: a square for agents, a circle for people, with the name; the kind is there for screen readers.
pub(super) fn actor(actor: &Actor) -> Markup {
    actor_named(actor.as_str())
}

pub(super) fn actor_named(whole: &str) -> Markup {
    let kind = whole.split_once(':').map_or("", |(kind, _)| kind);
    let name = bare_name(whole);
    html! {
        span.actor {
            (avatar(whole))
            @if !matches!(kind, "" | "runner" | "system") { span.hidden { (kind) " " } }
            span title=(whole) { bdi { (name) } }
        }
    }
}

/// The name of an actor without its kind. A machine's name tells a reader nothing.
pub(super) fn bare_name(whole: &str) -> &str {
    match whole.split_once(':').unwrap_or(("", whole)) {
        ("runner", _) => "runner",
        ("system", _) => "Callboard",
        (_, name) => name,
    }
}

/// The sign of an actor: a square for agents, a circle for people.
pub(super) fn avatar(whole: &str) -> Markup {
    let (kind, name) = whole.split_once(':').unwrap_or(("", whole));
    let hue = name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte)) % 6 + 1;
    let person = if kind == "human" { " avatar-person" } else { "" };
    html! {
        span class={ "avatar hue-" (hue) (person) } aria-hidden="true" { (initials(bare_name(whole))) }
    }
}

/// Two characters for an avatar: the first letter and the last digit, else the first two letters.
fn initials(name: &str) -> String {
    let mut letters = name.chars().filter(|c| c.is_alphanumeric());
    let first = letters.next().unwrap_or('?');
    let digit = name.chars().rev().find(char::is_ascii_digit);
    let second = digit.or_else(|| letters.next());
    first.to_uppercase().chain(second.into_iter().flat_map(char::to_uppercase)).collect()
}

/// A span of time in the shortest words.
pub(super) fn span(ms: i64) -> String {
    span_words(ms)
}

/// The age of a moment. The script keeps it fresh and shows the whole time under the pointer: a board has hundreds of them,
/// so that a title of each would count.
pub(super) fn age(at: Timestamp, now: Timestamp) -> Markup {
    html! { time.faint datetime=(rfc3339_ms(at)) data-age { (span(now.ms_since(at))) } }
}

/// The age of a moment in a sentence.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let text = rfc3339_ms(at);
    html! { time datetime=(text) title=(text) data-ago { (span(now.ms_since(at))) " ago" } }
}

/// A moment as date and time to the minute.
pub(super) fn moment(at: Timestamp) -> Markup {
    let text = rfc3339_ms(at);
    html! { time datetime=(text) title=(text) { (text[..10]) " " (text[11..16]) " UTC" } }
}

/// The colour of the result of a check.
pub(super) fn check_tone(check: &Check) -> Tone {
    match check.result() {
        "pass" => Tone::Proved,
        "fail" => Tone::Failed,
        "stale" => Tone::Late,
        _ => Tone::Quiet,
    }
}

/// The pip of one check: a square for a command, a circle for a person.
pub(super) fn pip(check: &Check) -> Markup {
    let shape = if check.is_command() { "pip" } else { "person" };
    let glyph = match check.result() {
        known @ ("pass" | "fail" | "stale") => known,
        _ => "open",
    };
    let tone = check_tone(check);
    html! {
        svg class={ "icon glyph " (tone.class()) } aria-hidden="true" {
            use href={ "/icons.svg#" (shape) "-" (glyph) } {}
        }
    }
}

/// The pips of all checks, and how many of them pass.
pub(super) fn pips(checks: &[Check]) -> Markup {
    let passed = checks.iter().filter(|check| check.result() == "pass").count();
    let failed = checks.iter().filter(|check| check.result() == "fail").count();
    let label = match failed {
        0 => format!("{passed} of {} checks pass", checks.len()),
        _ => format!("{passed} of {} checks pass, {failed} fail", checks.len()),
    };
    html! {
        @if !checks.is_empty() {
            span.pips role="img" aria-label=(label) {
                @if checks.len() <= PIPS_SHOWN {
                    @for check in checks { (pip(check)) }
                } @else {
                    @for check in checks.iter().filter(|check| check.result() == "fail").take(PIPS_SHOWN) {
                        (pip(check))
                    }
                }
                span { (passed) "/" (checks.len()) }
            }
        }
    }
}

/// The share of a time that is left, in per cent, as a ring.
fn ring(share: i64) -> Markup {
    html! {
        svg.ring viewBox="0 0 16 16" aria-hidden="true" {
            circle cx="8" cy="8" r="6" {}
            circle cx="8" cy="8" r="6" pathLength="100" stroke-dasharray={ (share) " 100" } {}
        }
    }
}

/// The time until `end`. The script keeps the words fresh, and the ring beside them: `whole` is its full time.
fn left(end: Timestamp, now: Timestamp, whole_ms: i64) -> Markup {
    html! { time datetime=(rfc3339_ms(end)) data-left=(whole_ms) { (span(end.ms_since(now).max(0))) } }
}

/// The time that an answer may still take, of a time that began at `began`, as a ring with words before the time left.
pub(super) fn countdown(
    words: &str,
    (began, end): (Timestamp, Timestamp),
    now: Timestamp,
) -> Markup {
    let whole = end.ms_since(began).max(1);
    let share = (end.ms_since(now).max(0) * 100 / whole).min(100);
    html! {
        span.lease.is-person title={ (words) " at " (rfc3339_ms(end)) } {
            (ring(share)) span { (words) " in " (left(end, now, whole)) }
        }
    }
}

/// The rest of a live lease as a ring with the time left.
pub(super) fn lease(attempt: &Attempt, now: Timestamp) -> Markup {
    let Some(lease) = attempt.lease() else { return html! {} };
    let rest = lease.expires_at.ms_since(now).max(0);
    let share = (rest / 10 / i64::from(lease.granted_s.max(1))).min(100);
    let short = lease.granted_s <= SHORT_LEASE_S;
    let tone = match share {
        0 => Tone::Failed,
        1..25 if !short => Tone::Late,
        _ => Tone::Now,
    };
    html! {
        span class={ "lease " (tone.class()) } title={ "lease ends " (rfc3339_ms(lease.expires_at)) } {
            (ring(share))
            span.hidden { "lease " }
            @match (rest, short) {
                (0, _) => "over",
                (_, true) => "live",
                (_, false) => (left(lease.expires_at, now, i64::from(lease.granted_s) * 1000)),
            }
        }
    }
}

/// How an attempt stands at `now`, in a word.
pub(super) fn outcome(attempt: &Attempt, now: Timestamp) -> (Tone, &'static str) {
    match &attempt.state {
        AttemptState::Live { .. } if attempt.is_live(now) => (Tone::Now, "live"),
        AttemptState::Live { .. } => (Tone::Failed, "lease ran out"),
        AttemptState::Ended { end, .. } => match end {
            AttemptEnd::Finished { .. } => (Tone::Proved, "finished"),
            AttemptEnd::Expired => (Tone::Failed, "lease ran out"),
            AttemptEnd::Released | AttemptEnd::Canceled { .. } => (Tone::Quiet, end.as_str()),
        },
    }
}

/// A sentence about the whole page, with the verbs that help below.
pub(super) fn note(tone: Tone, glyph: &str, words: &Markup) -> Markup {
    html! { div class={ "note " (tone.class()) } { (icon(glyph)) div { (words) } } }
}

/// The last lines of a log; lines that report a failure are marked.
pub(super) fn log_tail(lines: &[LogLine], shown: usize) -> Markup {
    html! {
        pre.log-tail {
            @for line in &lines[lines.len().saturating_sub(shown)..] {
                span.is-failed[line.is_error] { (line.text) "\n" }
            }
        }
    }
}

/// What stands in place of a list without rows: what happens meanwhile, and the next step.
pub(super) fn empty(glyph: &str, title: &str, words: &Markup) -> Markup {
    html! { div.empty { (icon(glyph)) h2 { (title) } (words) } }
}

/// A link among others of which one is current, with a count if there is one.
pub(super) struct Choice<'a> {
    pub href: String,
    pub word: &'a str,
    pub count: Option<String>,
    pub is_current: bool,
}

/// Links of which one is current.
pub(super) fn tabs<'a>(label: &str, choices: impl IntoIterator<Item = Choice<'a>>) -> Markup {
    html! {
        nav.tabs aria-label=(label) { @for Choice { href, word, count, is_current } in choices {
            a href=(href) aria-current=[is_current.then_some("page")] {
                (word) @if let Some(count) = count { " " span.faint { (count) } }
            }
        } }
    }
}

/// The field of a filter. `kept` are the parts of the address that the form keeps, `known` the terms to choose from.
pub(super) fn filter_field<'a>(
    path: &str,
    typed: &str,
    hint: &str,
    kept: &[(&str, &str)],
    known: impl IntoIterator<Item = (String, &'a str)>,
) -> Markup {
    html! {
        form.filter role="search" action=(path) {
            (icon("search"))
            input.input name="q" value=(typed) aria-label="Filter" placeholder=(hint) list="filter-terms"
                autocomplete="off" data-key="f";
            @for (name, value) in kept.iter().filter(|(_, value)| !value.is_empty()) {
                input type="hidden" name=(name) value=(value);
            }
            datalist #filter-terms { @for (term, takes) in known { option value=(term) label=[Some(takes).filter(|takes| !takes.is_empty())] {} } }
        }
    }
}

/// The terms of the filter language to choose from: its keys, the words that some of them take, and actors and epics of
/// the page, few of each.
pub(super) fn filter_terms<'p>(
    says: impl Fn(&str) -> bool,
    actors: impl IntoIterator<Item = &'p Actor>,
    epics: &'p [Task],
) -> Vec<(String, &'p str)> {
    let mut terms: Vec<(String, &str)> =
        FILTER_KEYS.into_iter().map(|(key, takes)| (format!("{key}:"), takes)).collect();
    let words = |key: &str, words: &[&str]| {
        words.iter().map(|word| (format!("{key}:{word}"), "")).collect::<Vec<_>>()
    };
    terms.extend(words("check", &CheckFilter::ALL.map(CheckFilter::as_str)));
    terms.extend(words("phase", &Column::ALL.map(Column::as_str)));
    terms.extend(words("since", &["1h", "1d", "7d"]));
    let mut actors: Vec<&Actor> = actors.into_iter().collect();
    actors.sort_unstable();
    actors.dedup();
    let people = actors.into_iter().filter(|actor| !is_server(actor)).take(TERMS_SHOWN);
    terms.extend(people.map(|actor| (format!("actor:{}", bare_name(actor.as_str())), "")));
    let epics = epics.iter().take(TERMS_SHOWN);
    terms.extend(epics.map(|epic| (format!("epic:{}", epic.name()), epic.title.as_str())));
    terms.retain(|(term, _)| term.split_once(':').is_some_and(|(key, _)| says(key)));
    terms
}

/// Whether an actor is the server itself; the names of its machines tell a reader nothing.
fn is_server(actor: &Actor) -> bool {
    matches!(actor.as_str().split_once(':'), Some(("runner" | "system", _)))
}

/// Text of agents and people with little markup: paragraphs, lists, code and fenced blocks. Nothing else is read, so no
/// text becomes an element or a link.
pub(super) fn prose(text: &str) -> Markup {
    let mut blocks: Vec<Markup> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if trimmed.is_empty() {
            continue;
        }
        if trimmed.starts_with("```") {
            let code: Vec<&str> =
                lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
            blocks.push(html! { pre.code { (code.join("\n")) } });
            continue;
        }
        let is_item =
            |line: &str| line.trim_start().starts_with("- ") || line.trim_start().starts_with("* ");
        let mut block = vec![line];
        let items = is_item(line);
        while let Some(next) = lines.next_if(|next| {
            !next.trim().is_empty()
                && !next.trim_start().starts_with("```")
                && is_item(next) == items
        }) {
            block.push(next);
        }
        blocks.push(match items {
            true => {
                html! { ul { @for item in block { li { (with_code(&item.trim_start()[2..])) } } } }
            }
            false => html! { p { @for (n, line) in block.iter().enumerate() {
                @if n > 0 { br; }
                (with_code(line))
            } } },
        });
    }
    html! { div.prose { @for block in blocks { (block) } } }
}

/// A line whose parts between backticks are code.
fn with_code(line: &str) -> Markup {
    let parts: Vec<&str> = line.split('`').collect();
    // A lone backtick opens nothing.
    let closed = parts.len() - 1 + parts.len() % 2;
    html! {
        @for (n, part) in parts.iter().enumerate() {
            @if n % 2 == 1 && n < closed { code { (part) } }
            @else { bdi { (if n % 2 == 1 { "`" } else { "" }) (part) } }
        }
    }
}

/// A cost in dollars, or "unknown". Cents are enough above a dollar.
pub(super) fn cost(micros: Option<u64>) -> String {
    match micros {
        None => "unknown".into(),
        Some(0) => "$0".into(),
        Some(micros @ 1..10_000) => format!("${:.4}", micros as f64 / 1e6),
        Some(micros) => format!("${:.2}", micros as f64 / 1e6),
    }
}

/// A count of tokens in the shortest words.
pub(super) fn tokens(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{} k", count / 1000),
        _ => format!("{}.{} M", count / 1_000_000, count / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initials_tell_agents_of_one_kind_apart() {
        let table = [("claude-1", "C1"), ("codex-22", "C2"), ("ana", "AN"), ("x", "X"), ("", "?")];
        for (name, letters) in table {
            assert_eq!(initials(name), letters);
        }
    }

    #[test]
    fn prose_reads_paragraphs_lists_and_code_and_nothing_else() {
        let table = [
            ("a\nb\n\nc", "<p><bdi>a</bdi><br><bdi>b</bdi></p><p><bdi>c</bdi></p>"),
            (
                "- a\n- `b`",
                "<ul><li><bdi>a</bdi></li><li><bdi></bdi><code>b</code><bdi></bdi></li></ul>",
            ),
            ("```\n<b>\n```", "<pre class=\"code\">&lt;b&gt;</pre>"),
            ("<script>", "<p><bdi>&lt;script&gt;</bdi></p>"),
            ("one ` tick", "<p><bdi>one </bdi><bdi>` tick</bdi></p>"),
            ("[a](javascript:b)", "<p><bdi>[a](javascript:b)</bdi></p>"),
        ];
        for (text, shown) in table {
            assert_eq!(prose(text).into_string(), format!("<div class=\"prose\">{shown}</div>"));
        }
    }

    #[test]
    fn costs_and_tokens_have_the_shortest_words_and_the_unknown_is_said() {
        for (micros, words) in [
            (None, "unknown"),
            (Some(0), "$0"),
            (Some(420), "$0.0004"),
            (Some(42_300), "$0.04"),
            (Some(12_345_678), "$12.35"),
        ] {
            assert_eq!(cost(micros), words);
        }
        for (count, words) in [(9_999, "9999"), (12_400, "12 k"), (3_450_000, "3.4 M")] {
            assert_eq!(tokens(count), words);
        }
    }
}
