//! A window of lines in a log of any length. The log is read in parts, and only the window is kept. Line numbers begin
//! with 1.

use std::collections::VecDeque;

use callboard_domain::runs::notes::LineAuthor;
use callboard_domain::text::{is_error, places_of, printed};

/// How many lines a window has.
pub const WINDOW_LINES: usize = 500;
/// How much of one line is shown.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// How much of one line is read: escape sequences take space that is not shown.
const READ_BYTES_MAX: usize = 4 * LINE_BYTES_MAX;
/// How much of a log is read at once.
pub(crate) const PART_BYTES: u64 = 1024 * 1024;

/// The lines that a reader wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    pub span: LogSpan,
    pub only: LinesWanted,
    /// Only lines with these words; empty for all.
    pub find: String,
}

/// Which lines of a log a reader wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinesWanted {
    #[default]
    All,
    /// Lines that report a failure.
    Errors,
    /// Lines that the agent printed: no notes of the server, no calls of tools.
    AgentWords,
}

/// Where the window is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogSpan {
    /// The end of the log.
    #[default]
    Last,
    /// The first lines from this one on, and none behind the other.
    From { first: u64, last: u64 },
    /// The last lines up to this one.
    UpTo(u64),
}

impl LogSpan {
    /// Reads `181-680`, `181-` and `-680`; `None` for other text.
    pub fn read(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        match (first, last) {
            ("", "") => None,
            ("", last) => Some(Self::UpTo(last.parse().ok()?)),
            (first, "") => Some(Self::From { first: first.parse().ok()?, last: u64::MAX }),
            (first, last) => {
                let (first, last) = (first.parse().ok()?, last.parse().ok()?);
                (first <= last).then_some(Self::From { first, last })
            }
        }
    }
}

/// Lines of a log, with their place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogWindow {
    /// The size of the whole log.
    pub bytes: u64,
    /// All lines of the log.
    pub total: u64,
    /// All lines that report a failure.
    pub errors: u64,
    /// All lines that the query admits.
    pub matches: u64,
    pub lines: Vec<LogLine>,
    /// Whether lines that the query admits come before the window, or behind it.
    pub has_older: bool,
    pub has_newer: bool,
}

/// A line as it is shown: without escape sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub number: u64,
    pub text: String,
    /// How many bytes at the end of the line are not shown.
    pub cut_bytes: u64,
    pub is_error: bool,
    pub author: LineAuthor,
}

/// Takes a log part by part.
pub struct LogReader<'q> {
    query: &'q LogQuery,
    window: LogWindow,
    kept: VecDeque<LogLine>,
    /// The beginning of a line whose end did not come yet.
    open: Vec<u8>,
    /// Bytes of the open line that were not kept.
    dropped: u64,
}

impl<'q> LogReader<'q> {
    pub fn new(query: &'q LogQuery) -> Self {
        let (window, kept) = (LogWindow::default(), VecDeque::new());
        Self { query, window, kept, open: Vec::new(), dropped: 0 }
    }

    pub fn push(&mut self, part: &[u8]) {
        self.window.bytes += part.len() as u64;
        let mut lines = part.split(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            let kept = line.len().min(READ_BYTES_MAX - self.open.len());
            let is_ended = lines.peek().is_some();
            self.dropped += (line.len() - kept) as u64;
            if is_ended && self.open.is_empty() {
                self.line(&line[..kept]);
                continue;
            }
            self.open.extend_from_slice(&line[..kept]);
            if is_ended {
                let whole = std::mem::take(&mut self.open);
                self.line(&whole);
            }
        }
    }

    pub fn finish(mut self) -> LogWindow {
        if !self.open.is_empty() || self.dropped > 0 {
            let last = std::mem::take(&mut self.open);
            self.line(&last);
        }
        self.window.lines = self.kept.into();
        self.window
    }

    fn line(&mut self, bytes: &[u8]) {
        let dropped = std::mem::take(&mut self.dropped);
        self.window.total += 1;
        let raw = String::from_utf8_lossy(bytes);
        let text = printed(&raw);
        let is_error = is_error(&text);
        self.window.errors += u64::from(is_error);
        let is_found = self.query.find.is_empty() || !places_of(&self.query.find, &text).is_empty();
        let author = LineAuthor::of(&text);
        let is_wanted = match self.query.only {
            LinesWanted::All => true,
            LinesWanted::Errors => is_error,
            LinesWanted::AgentWords => author == LineAuthor::Agent,
        };
        if !is_found || !is_wanted {
            return;
        }
        self.window.matches += 1;
        let number = self.window.total;
        let is_full = self.kept.len() == WINDOW_LINES;
        match self.query.span {
            LogSpan::From { first, .. } if number < first => {
                self.window.has_older = true;
                return;
            }
            LogSpan::From { last, .. } if number > last || is_full => {
                self.window.has_newer = true;
                return;
            }
            LogSpan::UpTo(last) if number > last => {
                self.window.has_newer = true;
                return;
            }
            LogSpan::Last | LogSpan::UpTo(_) if is_full => {
                self.window.has_older = true;
                self.kept.pop_front();
            }
            LogSpan::Last | LogSpan::UpTo(_) | LogSpan::From { .. } => {}
        }
        let shown = &text[..text.floor_char_boundary(LINE_BYTES_MAX)];
        let cut_bytes = dropped + (text.len() - shown.len()) as u64;
        let text = shown.to_owned();
        self.kept.push_back(LogLine { number, text, cut_bytes, is_error, author });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(log: &str, part: usize, query: &LogQuery) -> LogWindow {
        let mut reader = LogReader::new(query);
        log.as_bytes().chunks(part).for_each(|part| reader.push(part));
        reader.finish()
    }

    fn numbers(window: &LogWindow) -> (u64, u64, bool, bool) {
        let number = |line: Option<&LogLine>| line.map_or(0, |line| line.number);
        let (first, last) = (number(window.lines.first()), number(window.lines.last()));
        (first, last, window.has_older, window.has_newer)
    }

    #[test]
    fn spans_are_read_from_addresses() {
        let from = |first, last| Some(LogSpan::From { first, last });
        for (text, span) in [
            ("181-680", from(181, 680)),
            ("181-", from(181, u64::MAX)),
            ("-680", Some(LogSpan::UpTo(680))),
            ("7-7", from(7, 7)),
            ("680-181", None),
            ("-", None),
            ("", None),
            ("7", None),
            ("a-b", None),
            ("--1", None),
            ("99999999999999999999-", None),
        ] {
            assert_eq!(LogSpan::read(text), span, "{text}");
        }
    }

    #[test]
    fn a_window_is_anywhere_in_a_log_and_parts_do_not_matter() {
        let log: String = (1..=1200)
            .map(|n| if n % 100 == 0 { format!("error {n}\n") } else { format!("line {n}\n") })
            .collect();
        let from = |first, last| LogSpan::From { first, last };
        let (all, errors) = (LinesWanted::All, LinesWanted::Errors);
        for (span, only, find, wanted, matches) in [
            (LogSpan::Last, all, "", (701, 1200, true, false), 1200),
            (LogSpan::UpTo(700), all, "", (201, 700, true, true), 1200),
            (LogSpan::UpTo(20), all, "", (1, 20, false, true), 1200),
            (from(1, u64::MAX), all, "", (1, 500, false, true), 1200),
            (from(1190, 1300), all, "", (1190, 1200, true, false), 1200),
            (from(10, 12), all, "", (10, 12, true, true), 1200),
            (from(5000, 6000), all, "", (0, 0, true, false), 1200),
            (LogSpan::Last, errors, "", (100, 1200, false, false), 12),
            (LogSpan::UpTo(850), errors, "", (100, 800, false, true), 12),
            (LogSpan::Last, all, "LINE 11", (11, 1199, false, false), 110),
            (LogSpan::Last, errors, "line", (0, 0, false, false), 0),
        ] {
            let query = LogQuery { span, only, find: find.into() };
            for part in [1, 7, 4096, log.len()] {
                let window = read(&log, part, &query);
                assert_eq!(numbers(&window), wanted, "{query:?} in parts of {part}");
                let counted = (window.total, window.errors, window.matches);
                assert_eq!(counted, (1200, 12, matches), "{query:?} in parts of {part}");
                assert_eq!(window.bytes, log.len() as u64);
            }
        }
    }

    #[test]
    fn the_words_of_the_agent_stand_alone() {
        let log = "callboard: exit: 0\n----- stdout -----\nI look.\n[tool] Read a.txt\nDone.\n";
        let query = LogQuery { only: LinesWanted::AgentWords, ..LogQuery::default() };
        let window = read(log, 7, &query);
        let lines: Vec<_> = window.lines.iter().map(|line| (line.number, &*line.text)).collect();
        assert_eq!(lines, [(3, "I look."), (5, "Done.")]);
        assert_eq!((window.total, window.matches), (5, 2));
    }

    #[test]
    fn lines_are_plain_and_bounded() {
        let query = LogQuery::default();
        let all = |log: &str| read(log, 1000, &query).lines;
        let line = |number, text: &str, cut_bytes| LogLine {
            number,
            text: text.into(),
            cut_bytes,
            is_error: false,
            author: LineAuthor::Agent,
        };
        assert_eq!(all(""), []);
        assert_eq!(all("\n"), [line(1, "", 0)]);
        assert_eq!(all("a\r\n\u{1b}[31mb"), [line(1, "a", 0), line(2, "b", 0)]);
        let long = "x".repeat(100_000);
        let wanted =
            [line(1, &long[..LINE_BYTES_MAX], 100_000 - LINE_BYTES_MAX as u64), line(2, "y", 0)];
        assert_eq!(all(&format!("{long}\ny")), wanted);
        assert_eq!(all(&long).len(), 1);
        assert_eq!(all(&"\u{1b}[0m".repeat(50_000))[0].text, "");
        let bytes = [b"ok \xff\xfe\n".as_slice()].concat();
        let mut reader = LogReader::new(&query);
        reader.push(&bytes);
        assert_eq!(reader.finish().lines, [line(1, "ok \u{fffd}\u{fffd}", 0)]);
    }
}
