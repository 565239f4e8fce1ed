//! Keeps replies small: pages cut by size, long texts cut inside lists.

use serde_json::Value;

/// The approximate size of a page without an explicit limit.
/// A list that a model did not limit should not fill its context.
const PAGE_BYTES: usize = 9_000;
/// Longer texts are cut inside lists.
const TEXT_CHARS_MAX: usize = 1_000;

/// How many elements a page may have, and whether its size may cut it short.
#[derive(Clone, Copy, Debug)]
pub struct PageSize {
    pub limit: usize,
    pub cut_by_size: bool,
}

impl PageSize {
    pub fn of(asked: Option<u32>, default: usize) -> Self {
        match asked {
            Some(limit) => Self { limit: limit as usize, cut_by_size: false },
            None => Self { limit: default, cut_by_size: true },
        }
    }
}

/// Renders one page of `rows`, which hold one more than the page when there is a next page. Returns the elements and
/// the last row shown if more follow.
pub fn page<T>(
    rows: &[T],
    size: PageSize,
    render: impl Fn(&T) -> Value,
) -> (Vec<Value>, Option<&T>) {
    let mut shown = Vec::new();
    let mut bytes = 0;
    for row in rows.iter().take(size.limit) {
        let element = render(row);
        if size.cut_by_size {
            bytes += element.to_string().len();
            // The first element is always shown: an empty page with a cursor would never end.
            if bytes > PAGE_BYTES && !shown.is_empty() {
                break;
            }
        }
        shown.push(element);
    }
    let more = shown.len() < rows.len();
    let last = more.then(|| &rows[shown.len() - 1]);
    (shown, last)
}

/// An element of a list without empty keys: null, false, and empty lists and objects.
/// A list of fifty tasks repeats every key fifty times, so keys that say nothing are dropped.
pub fn lean(element: Value) -> Value {
    let Value::Object(map) = element else { return element };
    let told =
        map.into_iter().map(|(key, value)| (key, lean(value))).filter(|(_, value)| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
            Value::Bool(true) | Value::Number(_) | Value::String(_) => true,
        });
    Value::Object(told.collect())
}

/// A text inside a list; the single read has the whole text.
pub fn cut(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= TEXT_CHARS_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(TEXT_CHARS_MAX).collect();
    format!("{head}[truncated {} chars]", chars - TEXT_CHARS_MAX)
}
