//! The fields of one object of a spec, and the forms that are tolerated: numbers and flags as text, words in any
//! case, one text for a list, JSON inside text, null for nothing.

use std::ops::RangeInclusive;

use callboard_domain::relay::Problem;
use serde_json::{Map, Value};

use crate::args::{nearest, shown};

/// An object in the making: each read takes a field out, and a fault adds a problem and goes on.
pub(super) struct Fields<'p> {
    /// The path of the object, for messages: `repo`, `context.codeSnippets[2]`; empty for the whole spec.
    place: String,
    given: Map<String, Value>,
    problems: &'p mut Vec<Problem>,
}

/// The limits of a list: how many items, and how long each.
#[derive(Clone, Copy)]
pub(super) struct ListLimits {
    pub(super) items: usize,
    pub(super) chars: usize,
}

impl<'p> Fields<'p> {
    /// `place` is empty for the whole spec. Keys that are not `known` are problems.
    pub(super) fn open(
        place: &str,
        given: Value,
        known: &[&str],
        problems: &'p mut Vec<Problem>,
    ) -> Option<Self> {
        let given = match given {
            Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            other => other,
        };
        let mut fields = Self { place: place.to_owned(), given: Map::new(), problems };
        let Value::Object(given) = given else {
            let path = if place.is_empty() { "spec" } else { place }.to_owned();
            let problem = format!("must be an object, got {}", shown(&given));
            fields.problems.push(Problem { path, problem });
            return None;
        };
        for name in given.keys().filter(|name| !known.contains(&name.as_str())) {
            let (name, problem) = unknown(name, known);
            fields.problem(&name, problem);
        }
        fields.given = given;
        Some(fields)
    }

    pub(super) fn problems(&mut self) -> &mut Vec<Problem> {
        self.problems
    }

    /// Reports a fault of one field, and lets the reading go on.
    pub(super) fn problem(&mut self, name: &str, problem: impl Into<String>) {
        let path = self.path(name);
        self.problems.push(Problem { path, problem: problem.into() });
    }

    fn path(&self, name: &str) -> String {
        if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) }
    }

    /// The value of a field, once; `null` counts as absent.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.given.shift_remove(name).filter(|value| !value.is_null())
    }

    /// The value of a field that must be there.
    pub(super) fn required(&mut self, name: &str) -> Option<Value> {
        let value = self.take(name);
        if value.is_none() {
            self.problem(name, "is required");
        }
        value
    }

    /// A required text.
    pub(super) fn text(&mut self, name: &str, chars: RangeInclusive<usize>) -> Option<String> {
        let given = self.required(name)?;
        self.as_text(name, given, chars)
    }

    /// A text that may be absent. A text that is there is judged like a required one.
    pub(super) fn text_if_given(
        &mut self,
        name: &str,
        chars: RangeInclusive<usize>,
    ) -> Option<String> {
        let given = self.take(name)?;
        self.as_text(name, given, chars)
    }

    /// Judges the length in characters; blanks count.
    fn as_text(
        &mut self,
        name: &str,
        given: Value,
        chars: RangeInclusive<usize>,
    ) -> Option<String> {
        let Value::String(text) = given else {
            self.problem(name, format!("must be a string, got {}", shown(&given)));
            return None;
        };
        let length = text.chars().count();
        if length > *chars.end() {
            let problem = format!("must have at most {} characters, got {length}", chars.end());
            self.problem(name, problem);
            return None;
        }
        if length < *chars.start() {
            self.problem(name, "must not be empty");
            return None;
        }
        Some(text)
    }

    /// A required word, one of `words`, in any case.
    pub(super) fn word<'w>(&mut self, name: &str, words: &[&'w str]) -> Option<&'w str> {
        let given = self.required(name)?;
        let text = given.as_str().map(|text| text.trim().replace('_', "-"));
        let found = text.and_then(|text| {
            words.iter().copied().find(|word| word.replace('_', "-").eq_ignore_ascii_case(&text))
        });
        if found.is_none() {
            let words = words.join(", ");
            self.problem(name, format!("must be one of {words}, got {}", shown(&given)));
        }
        found
    }

    /// A flag, also as text.
    pub(super) fn flag(&mut self, name: &str, required: bool) -> Option<bool> {
        let given = if required { self.required(name) } else { self.take(name) }?;
        let read = match &given {
            Value::Bool(flag) => Some(*flag),
            Value::String(text) if text.trim().eq_ignore_ascii_case("true") => Some(true),
            Value::String(text) if text.trim().eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        };
        if read.is_none() {
            self.problem(name, format!("must be true or false, got {}", shown(&given)));
        }
        read
    }

    /// A whole number, also as text or as `5.0`.
    pub(super) fn number(
        &mut self,
        name: &str,
        range: RangeInclusive<u32>,
        required: bool,
    ) -> Option<u32> {
        let given = if required { self.required(name) } else { self.take(name) }?;
        let whole = |number: f64| (number.fract() == 0.0).then_some(number as i64);
        let read = match &given {
            Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(whole)),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let read = read.and_then(|number| u32::try_from(number).ok());
        let read = read.filter(|number| range.contains(number));
        if read.is_none() {
            let (low, high) = (range.start(), range.end());
            let wanted = match *high {
                u32::MAX => format!("a whole number of at least {low}"),
                high => format!("a whole number of {low}..{high}"),
            };
            self.problem(name, format!("must be {wanted}, got {}", shown(&given)));
        }
        read
    }

    /// A list of texts; one bad item spoils the list, but every item is judged.
    pub(super) fn texts(
        &mut self,
        name: &str,
        given: Option<Value>,
        limits: ListLimits,
    ) -> Option<Vec<String>> {
        let items = self.items(name, given?, limits.items)?;
        let place = self.place.clone();
        let mut read = Vec::with_capacity(items.len());
        for (path, item) in items {
            // `problem` puts the place in front again.
            let inner = path.strip_prefix(&format!("{place}.")).unwrap_or(&path).to_owned();
            read.push(self.as_text(&inner, item, 0..=limits.chars));
        }
        read.into_iter().collect()
    }

    /// The items of a list, each with its path.
    pub(super) fn items(
        &mut self,
        name: &str,
        given: Value,
        items_max: usize,
    ) -> Option<Vec<(String, Value)>> {
        let items = match given {
            Value::Array(items) => items,
            Value::String(text) => match serde_json::from_str(&text) {
                Ok(Value::Array(items)) => items,
                _ => vec![Value::String(text)],
            },
            one @ Value::Object(_) => vec![one],
            other => {
                self.problem(name, format!("must be a list, got {}", shown(&other)));
                return None;
            }
        };
        if items.len() > items_max {
            let problem = format!("must have at most {items_max} entries, got {}", items.len());
            self.problem(name, problem);
            return None;
        }
        let path = self.path(name);
        let numbered = items.into_iter().enumerate();
        Some(numbered.map(|(index, item)| (format!("{path}[{index}]"), item)).collect())
    }

    /// A text that also keeps a rule of the domain.
    pub(super) fn judged(
        &mut self,
        name: &str,
        text: Option<String>,
        judge: impl Fn(&str) -> Result<(), String>,
    ) -> Option<String> {
        let text = text?;
        match judge(&text) {
            Ok(()) => Some(text),
            Err(problem) => {
                self.problem(name, problem);
                None
            }
        }
    }

    pub(super) fn each_judged(
        &mut self,
        name: &str,
        texts: Option<Vec<String>>,
        judge: impl Fn(&str) -> Result<(), String>,
    ) -> Option<Vec<String>> {
        let texts = texts?.into_iter().enumerate();
        let judged =
            texts.map(|(index, text)| self.judged(&format!("{name}[{index}]"), Some(text), &judge));
        // Collected twice: the first pass reports every item, where `Option` alone would stop at the first.
        judged.collect::<Vec<_>>().into_iter().collect()
    }
}

/// The shortened name of an unknown key, and the message about it.
fn unknown(name: &str, known: &[&str]) -> (String, String) {
    let name: String = name.chars().take(60).collect();
    let way_out = match nearest(&name, known.iter().copied()) {
        Some(key) => format!("did you mean '{key}'?"),
        None => format!("known are {}", known.join(", ")),
    };
    (name, format!("is not known; {way_out}"))
}
