//! One row of a crew's log: what was done and why. Calls write their rows themselves.

use serde_json::Value;

use super::AgentId;
use crate::ids::{IdKind, id};
use crate::time::Timestamp;

pub const TITLE_CHARS_MAX: usize = 500;
pub const BODY_BYTES_MAX: usize = 64 * 1024;
pub const CONTEXT_BYTES_MAX: usize = 64 * 1024;

id!(DecisionId, IdKind::Decision.sign(), "not a decision id");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub id: DecisionId,
    pub agent: AgentId,
    pub decision: String,
    pub reasoning: String,
    /// JSON, indented by two spaces; `None` for a row that an agent wrote itself.
    pub context: Option<String>,
    pub at: Timestamp,
}

impl Decision {
    /// The row without the bodies of mail, for readers that may not open that mail.
    pub fn without_mail(self) -> Self {
        if !self.decision.contains(MAIL_TOOLS) {
            return self;
        }
        let context = self.context.map(|text| {
            // A context that was cut to a single string may hold anything.
            match serde_json::from_str(&text) {
                Ok(value @ (Value::Object(_) | Value::Array(_))) => pretty(&without_bodies(value)),
                Ok(_) | Err(_) => pretty(&Value::from(LEFT_OUT)),
            }
        });
        Self { context, ..self }
    }
}

/// The beginning of the names of the mail tools.
const MAIL_TOOLS: &str = "mcp__mail__";
const LEFT_OUT: &str = "[left out: mail of others]";

fn without_bodies(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_bodies).collect(),
        Value::Object(fields) => {
            let field = |(key, value): (String, Value)| match key.as_str() {
                "body" => (key, LEFT_OUT.into()),
                _ => (key, without_bodies(value)),
            };
            fields.into_iter().map(field).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// A call's context as it is kept. In a context that is too large the long strings are cut; if that is not enough,
/// it becomes one string with the beginning of the whole. Each cut says how much is missing.
pub fn context(value: &Value) -> String {
    let whole = pretty(value);
    let fits = |text: &String| text.len() <= CONTEXT_BYTES_MAX;
    if fits(&whole) {
        return whole;
    }
    let sizes = || std::iter::successors(Some(CONTEXT_BYTES_MAX / 2), |size| Some(size / 2));
    let cut_strings = sizes().take_while(|size| *size >= STRING_BYTES_MIN);
    let cut = cut_strings.map(|size| pretty(&cut(value, size))).find(fits);
    // However much of the text has to be escaped, some size fits.
    let beginning = || sizes().map(|size| pretty(&Value::String(beginning(&whole, size))));
    cut.or_else(|| beginning().find(fits)).expect("an empty string fits")
}

/// Strings cut shorter than this are not worth reading.
const STRING_BYTES_MIN: usize = 64;

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("a value is JSON")
}

fn cut(value: &Value, size: usize) -> Value {
    match value {
        Value::String(text) if text.len() > size => Value::String(beginning(text, size)),
        Value::Array(items) => items.iter().map(|item| cut(item, size)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), cut(value, size))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn beginning(text: &str, size: usize) -> String {
    let end = text.floor_char_boundary(size);
    format!("{}[truncated {} bytes]", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Value {
        assert!(text.len() <= CONTEXT_BYTES_MAX, "{} bytes", text.len());
        serde_json::from_str(text).expect("it is still JSON")
    }

    #[test]
    fn a_context_is_whole_until_it_is_too_large() {
        let small = json!({"title": "Login", "n": [1, null, true]});
        assert_eq!(context(&small), serde_json::to_string_pretty(&small).expect("JSON"));
        let fits = json!({"body": "x".repeat(CONTEXT_BYTES_MAX - 20)});
        assert_eq!(read(&context(&fits)), fits);
    }

    #[test]
    fn long_strings_of_a_large_one_are_cut() {
        let body = "é".repeat(1 << 20);
        let kept = read(&context(&json!({"title": "Login", "body": body, "tags": ["a", body]})));
        assert_eq!((&kept["title"], &kept["tags"][0]), (&json!("Login"), &json!("a")));
        let text = kept["body"].as_str().expect("a string");
        let (beginning, rest) = text.split_once('[').expect("a mark");
        assert!(!beginning.is_empty() && beginning.chars().all(|c| c == 'é'));
        assert_eq!(rest, format!("truncated {} bytes]", body.len() - beginning.len()));
        assert_eq!(kept["tags"][1], kept["body"]);
    }

    #[test]
    fn of_what_is_large_without_them_the_beginning_is_kept() {
        for large in [
            json!(vec!["\u{1}\"\\"; 100_000]),
            json!({"k".repeat(1 << 20): 1}),
            json!(vec![vec![1]; 50_000]),
        ] {
            let whole = serde_json::to_string_pretty(&large).expect("JSON");
            let kept = read(&context(&large));
            let text = kept.as_str().expect("one string");
            let (beginning, _) = text.rsplit_once("[truncated ").expect("a mark");
            assert!(whole.starts_with(beginning) && beginning.len() > 1000);
        }
    }
}
