//! The log of an agent or a check as a page shows it: a window of numbered lines, links to the lines before and behind
//! it, failures only, and words that are looked for. Nothing here asks the engine; lines come without escape sequences.

use callboard_domain::runs::notes::{LineAuthor, lines_before_output};
use callboard_domain::text::places_of;
use callboard_engine::{LinesWanted, LogLine, LogQuery, LogWindow, WINDOW_LINES};
use maud::{Markup, html};

use super::parts::icon;
use super::query::{Kept, address};

/// How many lines stand around a line that was found.
const AROUND: u64 = WINDOW_LINES as u64 / 2;

/// How a log is shown.
pub struct LogView<'v> {
    /// The parts of the query that links keep; without `lines`, `errors`, `words` and `find`.
    pub kept: Kept<'v>,
    pub query: &'v LogQuery,
    /// Whether the log is that of an agent, whose own words can be shown alone.
    pub is_of_agent: bool,
    /// Whether the page stays at the end of a log that grows; `None` for a log that is whole.
    pub follow: Option<bool>,
    /// The address of the whole log as a download.
    pub raw: Option<&'v str>,
}

impl LogView<'_> {
    /// Whether lines are left out. Numbers of neighbours are then not known, and links ask for "up to" or "from".
    fn is_filtered(&self) -> bool {
        self.query.only != LinesWanted::All || !self.query.find.is_empty()
    }

    /// The address of other lines under the same filter.
    fn lines(&self, lines: &str) -> String {
        let mut more = vec![("lines", lines)];
        more.extend(self.filter(self.query.only));
        address(self.kept, &more)
    }

    /// The filter as fields of an address.
    fn filter(&self, only: LinesWanted) -> impl Iterator<Item = (&str, &str)> {
        let find = Some(("find", &*self.query.find)).filter(|(_, find)| !find.is_empty());
        field_of(only).map(|name| (name, "1")).into_iter().chain(find)
    }

    /// The address of the end of the log, where the page then stays.
    fn followed(&self) -> String {
        let mut more = vec![("follow", "1")];
        more.extend(self.filter(self.query.only));
        address(self.kept, &more) + "#log-end"
    }

    /// The address of the page itself: a browser loads it again only without the name of a place in it.
    fn renewed(&self, is_followed: bool) -> String {
        let mut more: Vec<_> = is_followed.then_some(("follow", "1")).into_iter().collect();
        more.extend(self.filter(self.query.only));
        address(self.kept, &more)
    }

    /// The address of the last lines under a filter.
    fn filtered(&self, only: LinesWanted) -> String {
        address(self.kept, &self.filter(only).collect::<Vec<_>>())
    }
}

/// The lines that the fields `errors` and `words` of an address choose.
pub fn wanted(errors: &str, words: &str) -> LinesWanted {
    match (errors, words) {
        ("1", _) => LinesWanted::Errors,
        (_, "1") => LinesWanted::AgentWords,
        _ => LinesWanted::All,
    }
}

/// The field of an address that chooses these lines.
fn field_of(only: LinesWanted) -> Option<&'static str> {
    match only {
        LinesWanted::All => None,
        LinesWanted::Errors => Some("errors"),
        LinesWanted::AgentWords => Some("words"),
    }
}

/// The form to find words, the choice of lines, the switch to follow, and the download.
pub fn filters(window: &LogWindow, view: &LogView<'_>) -> Markup {
    let is_current = |only: LinesWanted| (view.query.only == only).then_some("page");
    html! {
        div.bar.log-bar {
            form.filter role="search" aria-label="This log" {
                @for (name, value) in view.kept { input type="hidden" name=(name) value=(value); }
                @if let Some(name) = field_of(view.query.only) { input type="hidden" name=(name) value="1"; }
                (icon("search"))
                input.input type="search" name="find" value=(view.query.find) aria-label="Find in the log"
                    placeholder="Find in the log" data-key="/";
            }
            nav.tabs aria-label="Lines" {
                a href=(view.filtered(LinesWanted::All)) aria-current=[is_current(LinesWanted::All)] { "All" }
                " "
                a href=(view.filtered(LinesWanted::Errors)) aria-current=[is_current(LinesWanted::Errors)] {
                    "Errors " span.faint { (window.errors) }
                }
                @if view.is_of_agent {
                    " "
                    a href=(view.filtered(LinesWanted::AgentWords)) aria-current=[is_current(LinesWanted::AgentWords)] {
                        "Agent's words"
                    }
                }
            }
            div.row.row-end {
                @match view.follow {
                    // A link, so that without a script it shows the newest lines.
                    Some(false) => a.button.button-small href=(view.followed()) data-key="f" { (icon("down")) "Follow" kbd { "f" } },
                    Some(true) => a.button.button-small href=(view.filtered(view.query.only)) data-key="f" aria-current="true" {
                        (icon("stop")) "Stop following" kbd { "f" }
                    },
                    None => {},
                }
                @if let Some(raw) = view.raw { a.button.button-small href=(raw) download { (icon("file")) "Raw" span.hidden { " log as a download" } } }
            }
        }
    }
}

/// The lines, with links to the lines around them.
pub fn lines(window: &LogWindow, view: &LogView<'_>) -> Markup {
    let (Some(first), Some(last)) = (window.lines.first(), window.lines.last()) else {
        return empty(window, view);
    };
    // The facts beside the log repeat the notes at its head. A reader who looks for words sees every line.
    let notes = match view.is_of_agent && first.number == 1 && !view.is_filtered() {
        true => lines_before_output(window.lines.iter().map(|line| line.text.as_str())),
        false => 0,
    };
    let size = WINDOW_LINES as u64;
    let older = window.has_older.then(|| match (view.is_filtered(), first.number - 1) {
        (true, last) => view.lines(&format!("-{last}")),
        (false, last) => view.lines(&format!("{}-{last}", last.saturating_sub(size - 1).max(1))),
    });
    let newer = window.has_newer.then(|| match (view.is_filtered(), last.number + 1) {
        (true, first) => view.lines(&format!("{first}-")),
        (false, first) => view.lines(&format!("{first}-{}", first.saturating_add(size - 1))),
    });
    html! {
        p.limit {
            "Lines " (first.number) " to " (last.number) " of " (window.total) "."
            @if view.is_filtered() { " " (matches(window)) }
            @if let Some(address) = older { " " a href=(address) { "Older lines" } }
            @if window.has_newer { " " a href=(view.filtered(view.query.only)) { "Last lines" } }
        }
        @if notes > 0 {
            details.log-notes #log-notes {
                summary { (notes) " lines of Callboard about the run: its sandbox, its variables, its end" }
                ol.log { @for one in &window.lines[..notes] { (line(one, view)) } }
            }
        }
        ol.log #log aria-label="Log" tabindex="0" data-follow[view.follow == Some(true)] {
            @for one in &window.lines[notes..] { (line(one, view)) }
        }
        p.limit #log-end {
            @match (newer, view.follow) {
                (Some(address), _) => a href=(address) { "Newer lines" },
                // Without a script, lines that were printed meanwhile come with the page.
                (None, Some(is_on)) => {
                    a href=(view.renewed(is_on)) { "Newer lines" } " appear here while the agent works."
                },
                (None, None) => "The end of the log.",
            }
        }
    }
}

/// The last lines of a log inside another page: without numbers that lead anywhere.
pub fn tail(window: &LogWindow) -> Markup {
    html! {
        ol.log.tail aria-label="End of the log" tabindex="0" { @for one in &window.lines {
            li class=[one.is_error.then_some("bad")] { span.no { (one.number) } span.text { (one.text) } }
        } }
    }
}

/// How many lines match, and how many of them are on the page.
fn matches(window: &LogWindow) -> String {
    match (window.matches, window.lines.len()) {
        (1, _) => "1 line matches.".into(),
        (all, shown) if all == shown as u64 => format!("{all} lines match."),
        (all, shown) => format!("{shown} of {all} lines that match."),
    }
}

/// Why no line is shown: nothing printed, nothing that matches, or a span beyond the end.
fn empty(window: &LogWindow, view: &LogView<'_>) -> Markup {
    html! {
        p.limit {
            @if window.total == 0 { "Nothing was printed so far." }
            @else if window.matches == 0 && view.is_filtered() {
                "None of " (window.total) " lines matches. "
                a href=(address(view.kept, &[])) { "Show all lines" }
            } @else {
                "The log has " (window.total) " lines, none of them there. "
                a href=(view.filtered(view.query.only)) { "Show the last lines" }
            }
        }
    }
}

/// One numbered line. Its number is a link to itself, which people send to each other.
fn line(line: &LogLine, view: &LogView<'_>) -> Markup {
    let number = line.number;
    let here = format!("#l{number}");
    // Where lines are left out, a number leads to the line among its neighbours.
    let target = if view.is_filtered() {
        let (from, to) = (number.saturating_sub(AROUND).max(1), number.saturating_add(AROUND - 1));
        address(view.kept, &[("lines", &*format!("{from}-{to}"))]) + &here
    } else {
        here
    };
    // Lines of checks are the words of programs, whatever they look like.
    let tone = match (line.is_error, line.author) {
        (true, _) => Some("bad"),
        (false, LineAuthor::Session(_)) if view.is_of_agent => Some("call"),
        (false, _) => None,
    };
    html! {
        li #{ "l" (number) } class=[tone] {
            a.no href=(target) tabindex="-1" { (number) }
            span.text {
                (found(&line.text, &view.query.find))
                @if line.cut_bytes > 0 { span.odd { " … " (line.cut_bytes) " more bytes" } }
            }
        }
    }
}

/// The text with the words that were looked for marked.
fn found(text: &str, find: &str) -> Markup {
    // The places are found by the rule that filtered the lines, so every shown line has its mark.
    let places = places_of(find, text);
    let starts = std::iter::once(0).chain(places.iter().map(|place| place.end));
    let ends = places.iter().map(Some).chain(std::iter::once(None));
    html! { @for (start, place) in starts.zip(ends) {
        @match place {
            Some(place) => { (text[start..place.start]) mark { (text[place.clone()]) } },
            None => (text[start..]),
        }
    } }
}

#[cfg(test)]
mod tests {
    use callboard_engine::{LogReader, LogSpan};

    use super::*;

    fn shown(log: &str, query: &LogQuery) -> String {
        followed(log, query, None)
    }

    fn followed(log: &str, query: &LogQuery, follow: Option<bool>) -> String {
        let mut reader = LogReader::new(query);
        reader.push(log.as_bytes());
        let view = LogView { kept: &[("run", "2")], query, is_of_agent: true, follow, raw: None };
        let window = reader.finish();
        (filters(&window, &view).into_string() + &lines(&window, &view).into_string())
            .replace("><", ">\n<")
    }

    fn log(lines: usize) -> String {
        (1..=lines)
            .map(|n| format!("line {n}{}\n", if n % 7 == 0 { " Error" } else { "" }))
            .collect()
    }

    #[test]
    fn a_window_has_links_to_its_neighbours() {
        let at = |text: &str| LogQuery {
            span: LogSpan::read(text).unwrap_or_default(),
            ..LogQuery::default()
        };
        for (query, words, older, newer) in [
            (at(""), "Lines 701 to 1200 of 1200.", Some("lines=201-700"), None),
            (
                at("201-700"),
                "Lines 201 to 700 of 1200.",
                Some("lines=1-200"),
                Some("lines=701-1200"),
            ),
            (at("1-200"), "Lines 1 to 200 of 1200.", None, Some("lines=201-700")),
        ] {
            let page = shown(&log(1200), &query);
            assert!(page.contains(words), "{page}");
            let link = |lines: Option<&str>, words: &str| match lines {
                Some(lines) => page.contains(&format!("\"?run=2&amp;{lines}\">{words}")),
                None => !page.contains(words),
            };
            assert!(link(older, "Older lines") && link(newer, "Newer lines"), "{query:?}: {page}");
        }
        assert_eq!(shown(&log(100_000), &at("")).matches("<li").count(), WINDOW_LINES);
    }

    #[test]
    fn a_log_that_grows_can_be_followed_with_and_without_a_script() {
        let query = LogQuery { only: LinesWanted::Errors, ..LogQuery::default() };
        let table = [
            (None, "The end of the log.", "Follow"),
            (
                Some(false),
                "\"?run=2&amp;follow=1&amp;errors=1#log-end\" data-key=\"f\"",
                "data-follow",
            ),
            (Some(true), "\"?run=2&amp;follow=1&amp;errors=1\">Newer lines", "#log-end"),
        ];
        for (follow, wanted, missing) in table {
            let page = followed("an error\n", &query, follow);
            assert!(page.contains(wanted) && !page.contains(missing), "{follow:?}: {page}");
            assert_eq!(page.contains("data-follow"), follow == Some(true), "{page}");
        }
    }

    #[test]
    fn the_words_of_an_agent_are_chosen_by_the_address() {
        for (errors, words, only) in [
            ("", "", LinesWanted::All),
            ("1", "", LinesWanted::Errors),
            ("", "1", LinesWanted::AgentWords),
            ("1", "1", LinesWanted::Errors),
            ("0", "x", LinesWanted::All),
        ] {
            assert_eq!(wanted(errors, words), only, "{errors:?} {words:?}");
        }
        let log = "I look.\n[tool] Read a.txt\n";
        let page = shown(log, &LogQuery::default());
        assert!(page.contains("<li id=\"l2\" class=\"call\">"), "{page}");
        assert!(page.contains("?run=2&amp;words=1\">Agent's words"), "{page}");
        let query = LogQuery { only: LinesWanted::AgentWords, ..LogQuery::default() };
        let page = shown(log, &query);
        assert!(page.contains("aria-current=\"page\">Agent's words"), "{page}");
        assert!(page.contains("I look.") && !page.contains("Read a.txt"), "{page}");
    }

    #[test]
    fn the_notes_at_the_head_of_a_run_are_folded() {
        let log = "callboard: job_1\ncallboard: exit: 0\n----- stdout -----\nI look.\n";
        let page = shown(log, &LogQuery::default());
        let (notes, words) = page.split_once("id=\"log\"").expect("a log");
        assert!(notes.contains("<summary>3 lines of Callboard"), "{page}");
        assert!(notes.contains("exit: 0") && !notes.contains("I look."), "{page}");
        assert!(words.contains("I look.") && !words.contains("exit: 0"), "{page}");
        let query = LogQuery { find: "exit".into(), ..LogQuery::default() };
        assert!(
            !shown(log, &query).contains("<details"),
            "words that are looked for are not folded"
        );
    }

    #[test]
    fn found_words_are_marked_and_lead_to_their_neighbours() {
        let query =
            LogQuery { find: "error".into(), only: LinesWanted::Errors, ..LogQuery::default() };
        let page = shown("a <b>\nan <Error> here\n\u{1b}[31mfailed\n", &query);
        let line = "<a class=\"no\" href=\"?run=2&amp;lines=1-251#l2\" tabindex=\"-1\">2</a>\n\
                    <span class=\"text\">an &lt;<mark>Error</mark>&gt; here</span>";
        assert!(page.contains(line), "{page}");
        assert!(page.contains("Lines 2 to 2 of 3. 1 line matches."), "{page}");
        assert!(page.contains("Errors <span class=\"faint\">2</span>"), "{page}");
        assert!(page.contains("aria-current=\"page\">Errors"), "{page}");
        let none = LogQuery { find: "<x>".into(), ..LogQuery::default() };
        let page = shown("a\nb\n", &none);
        assert!(page.contains("None of 2 lines matches.") && !page.contains("<x>"), "{page}");
        assert!(shown("", &LogQuery::default()).contains("Nothing was printed so far."));
        let beyond = LogQuery { span: LogSpan::From { first: 9, last: 12 }, ..LogQuery::default() };
        assert!(shown("a\n", &beyond).contains("The log has 1 lines, none of them there."));
    }
}
