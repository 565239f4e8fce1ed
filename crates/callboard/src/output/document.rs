//! The JSON of the CLI itself: one envelope for every list, a `schema` in every object, keys in camelCase. Answers of
//! tools (`callboard call`) keep the tools' own keys.

use serde_json::{Map, Value, json};

use super::schema::{List, Object};
use super::{Failure, Out};

/// Values of these keys come from elsewhere and stay as they are.
const FOREIGN: [&str; 4] = ["data", "details", "context", "value"];

impl Out {
    /// Prints a list: `{"schema": "callboard.task.list/1", "items": [...], "next": ...}`. `next` is the value of the
    /// option for the next page; null when this page is the last.
    pub fn list(&self, list: List, items: Vec<Value>, next: Value) -> Result<(), Failure> {
        self.list_with(list, items, next, json!({}))
    }

    /// Prints a list with further fields besides its items.
    pub fn list_with(
        &self,
        list: List,
        items: Vec<Value>,
        next: Value,
        more: Value,
    ) -> Result<(), Failure> {
        let items: Vec<Value> = items.into_iter().map(camel).collect();
        debug_assert_eq!(list.missing(&items), None, "docs/reference/cli.schema.json promises it");
        let mut document = Map::new();
        document.insert("schema".into(), list.schema().into());
        document.insert("items".into(), items.into());
        document.insert("next".into(), next);
        if let Value::Object(more) = camel(more) {
            document.extend(more);
        }
        self.document(&document.into())
    }

    /// Prints one object, its schema first.
    pub fn object(&self, object: Object, value: Value) -> Result<(), Failure> {
        self.document(&object.named(value))
    }

    /// Prints one of many objects, each on a line of its own.
    pub fn object_line(&self, object: Object, value: Value) -> Result<(), Failure> {
        self.line(&object.named(value).to_string())
    }

    /// Prints the answer of a tool, unchanged.
    pub fn answer(&self, value: &Value) -> Result<(), Failure> {
        self.document(value)
    }
}

impl Object {
    /// The value with its schema as the first field.
    pub(super) fn named(self, value: Value) -> Value {
        let mut document = Map::new();
        document.insert("schema".into(), self.schema().into());
        if let Value::Object(fields) = camel(value) {
            document.extend(fields);
        }
        document.into()
    }
}

/// The value with every key in camelCase.
fn camel(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let field = |(key, value): (String, Value)| {
                let value = if FOREIGN.contains(&key.as_str()) { value } else { camel(value) };
                (camel_key(&key), value)
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(camel).collect()),
        other => other,
    }
}

fn camel_key(key: &str) -> String {
    let is_plain = key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !is_plain {
        return key.to_owned();
    }
    let mut text = String::with_capacity(key.len());
    for (place, part) in key.split('_').enumerate() {
        let mut letters = part.chars();
        match letters.next() {
            Some(first) if place > 0 => text.push(first.to_ascii_uppercase()),
            Some(first) => text.push(first),
            None => {}
        }
        text.push_str(letters.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_camel_case_and_foreign_words_stay() {
        let given = json!({
            "merge_commit": null, "a": [{"b_c": 1}], "data": {"b_c": 1}, "graph.check_shell": 2,
        });
        let wanted = json!({
            "mergeCommit": null, "a": [{"bC": 1}], "data": {"b_c": 1}, "graph.check_shell": 2,
        });
        assert_eq!(camel(given), wanted);
    }
}
