//! The filter language of the pages: `actor:claude-1 epic:timeline check:fail -word "two words"`. Parsing never fails: a
//! key or a value that is not known becomes a hint.

use crate::board::column::Column;
use crate::limits::{SEARCH_CHARS_MAX, SEARCH_WORDS_MAX};
use crate::relay::spec::Priority;
use crate::task::PRIORITY_MAX;
use crate::words::words;

/// A parsed filter. A task or an event matches when every term does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterText {
    pub terms: Vec<FilterTerm>,
    pub hints: Vec<FilterHint>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterTerm {
    /// The term was written with `-` before it.
    pub is_not: bool,
    pub wants: FilterWants,
}

/// The condition of one term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterWants {
    /// A text in the title; in lower case, as far as it is ASCII.
    Words(String),
    /// An actor, with its kind (`agent:claude-1`) or without.
    Actor(String),
    /// An epic, by its short name or by words of its title.
    Epic(String),
    Check(CheckFilter),
    /// A task, by its short name or its id.
    Task(String),
    /// An event's name, or its beginning: `task.` finds every event of tasks.
    Verb(String),
    /// At most so many milliseconds ago.
    Since(i64),
    /// A configured status.
    Label(String),
    Phase(Column),
    /// This priority or a more urgent one, on the scale of tasks.
    Priority(u16),
    Project(String),
}

words! {
    /// The results of a task's checks taken together.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CheckFilter {
        /// At least one check fails.
        Fail => "fail",
        /// The task has checks, and every one of them passes.
        Pass => "pass",
        /// At least one check has no result.
        Open => "open",
    }
}

/// A part of the filter that has no effect, and the way to write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterHint {
    UnknownKey { key: String },
    BadValue { key: &'static str, value: String },
    TooLong { chars_max: usize },
    TooMany { terms_max: usize },
}

/// The keys of the language, with the values that each one takes.
pub const FILTER_KEYS: [(&str, &str); 10] = [
    ("actor", "a name, as in actor:claude-1"),
    ("epic", "a short name or a word of the title, as in epic:timeline"),
    ("check", "fail, pass or open"),
    ("verb", "the name of an event or its beginning, as in verb:task.claimed"),
    ("since", "a span, as in since:30min, since:12h or since:1d"),
    ("label", "a status of the project, as in label:in_review"),
    ("phase", "blocked, ready, working, review or done"),
    ("priority", "a number from 0 to 1000, or P0, P1 or P2"),
    ("project", "a project's name or prefix, as in project:SHOP"),
    ("task", "a short name, as in task:SHOP-3"),
];

impl FilterHint {
    /// The hint as a sentence under the field.
    pub fn message(&self) -> String {
        match self {
            FilterHint::UnknownKey { key } => {
                let known: Vec<&str> = FILTER_KEYS.iter().map(|(key, _)| *key).collect();
                format!(
                    "{key}: is no key and was left out. Keys are {}. Quotes make it a word.",
                    known.join(", ")
                )
            }
            FilterHint::BadValue { key, value } => {
                let takes = FILTER_KEYS.iter().find(|(known, _)| known == key);
                let takes = takes.map_or("another value", |(_, takes)| takes);
                format!("{key}:{value} was left out: {key} takes {takes}.")
            }
            FilterHint::TooLong { chars_max } => {
                format!("Only the first {chars_max} characters were read.")
            }
            FilterHint::TooMany { terms_max } => {
                format!("Only the first {terms_max} terms were read.")
            }
        }
    }
}

impl FilterText {
    pub fn parse(text: &str) -> Self {
        let mut parsed = Self::default();
        let short: String = text.chars().take(SEARCH_CHARS_MAX).collect();
        if short.len() < text.len() {
            parsed.hints.push(FilterHint::TooLong { chars_max: SEARCH_CHARS_MAX });
        }
        for piece in pieces(&short) {
            if parsed.terms.len() == SEARCH_WORDS_MAX {
                parsed.hints.push(FilterHint::TooMany { terms_max: SEARCH_WORDS_MAX });
                break;
            }
            match piece.wants() {
                Ok(None) => {}
                Ok(Some(wants)) => parsed.terms.push(FilterTerm { is_not: piece.is_not, wants }),
                Err(hint) => parsed.hints.push(hint),
            }
        }
        parsed
    }
}

/// Each term of a filter as it was typed, with the filter that is left without it.
pub fn without_each(text: &str) -> Vec<(String, String)> {
    let mut typed: Vec<String> = Vec::new();
    let (mut is_quoted, mut is_new) = (false, true);
    for c in text.chars().take(SEARCH_CHARS_MAX) {
        is_quoted ^= c == '"';
        match c.is_whitespace() && !is_quoted {
            true => is_new = true,
            false => {
                if std::mem::take(&mut is_new) {
                    typed.push(String::new());
                }
                typed.last_mut().expect("a term was begun").push(c);
            }
        }
    }
    let left = |gone: usize| {
        let others = typed.iter().enumerate().filter(|(n, _)| *n != gone);
        others.map(|(_, term)| term.as_str()).collect::<Vec<_>>().join(" ")
    };
    typed.iter().enumerate().map(|(n, term)| (term.clone(), left(n))).collect()
}

/// One piece between spaces, quotes resolved.
struct Piece {
    is_not: bool,
    /// The text before the first colon outside of quotes.
    key: Option<String>,
    value: String,
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut all = Vec::new();
    let mut rest = text.trim_start().chars().peekable();
    while rest.peek().is_some() {
        let mut piece = Piece { is_not: false, key: None, value: String::new() };
        if rest.next_if_eq(&'-').is_some() {
            piece.is_not = true;
        }
        let (mut is_quoted, mut had_quotes) = (false, false);
        for c in rest.by_ref() {
            match c {
                '"' => (is_quoted, had_quotes) = (!is_quoted, true),
                c if c.is_whitespace() && !is_quoted => break,
                ':' if !had_quotes && piece.key.is_none() && is_key(&piece.value) => {
                    piece.key = Some(std::mem::take(&mut piece.value));
                }
                c => piece.value.push(c),
            }
        }
        all.push(piece);
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
    }
    all
}

/// Only letters can be a key: `12:30` and `https://…` with its dots stay words where the part before is none.
fn is_key(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic() || c == '_')
}

impl Piece {
    /// `None` for a piece that says nothing, such as a lone quote.
    fn wants(&self) -> Result<Option<FilterWants>, FilterHint> {
        let value = self.value.trim();
        let Some(typed) = &self.key else {
            let word = value.to_ascii_lowercase();
            return Ok((!word.is_empty()).then_some(FilterWants::Words(word)));
        };
        let lower = typed.to_ascii_lowercase();
        let Some((key, _)) = FILTER_KEYS.iter().find(|(key, _)| *key == lower) else {
            return Err(FilterHint::UnknownKey { key: typed.clone() });
        };
        let word = value.to_ascii_lowercase();
        let text = || (!value.is_empty()).then(|| value.to_owned());
        let wants = match *key {
            "actor" => text().map(FilterWants::Actor),
            "epic" => text().map(FilterWants::Epic),
            "check" => CheckFilter::parse(natural(&word)).map(FilterWants::Check),
            "verb" => (!word.is_empty()).then_some(FilterWants::Verb(word)),
            "since" => span_ms(&word).map(FilterWants::Since),
            "label" => text().map(FilterWants::Label),
            "phase" => Column::parse(&word).map(FilterWants::Phase),
            "priority" => priority(&word).map(FilterWants::Priority),
            "task" => text().map(FilterWants::Task),
            _ => text().map(FilterWants::Project),
        };
        wants.map(Some).ok_or_else(|| FilterHint::BadValue { key, value: value.to_owned() })
    }
}

/// The word of the language for a result of a check as people write it.
fn natural(word: &str) -> &str {
    match word {
        "failed" | "failing" | "fails" => CheckFilter::Fail.as_str(),
        "passed" | "passing" | "passes" => CheckFilter::Pass.as_str(),
        "pending" => CheckFilter::Open.as_str(),
        _ => word,
    }
}

/// A span in milliseconds: `90s`, `30min`, `30m`, `12h`, `7d`.
fn span_ms(text: &str) -> Option<i64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_s = match unit {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit_s * 1000).filter(|ms| *ms > 0)
}

fn priority(word: &str) -> Option<u16> {
    let named = Priority::parse(&word.to_ascii_uppercase()).map(Priority::rank);
    named.or_else(|| word.parse().ok()).filter(|number| *number <= PRIORITY_MAX)
}
