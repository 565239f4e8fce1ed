//! A tool's answer, written in its table as one line and published as a JSON Schema.
//!
//! `id:string next:string|null tasks:[object] hint?:string data?:{mailId:string}`: a key with its type; `?` marks a key
//! that may be missing, `|null` a value that may be null, `[…]` a list, `{…}` an object whose keys are named. Types are
//! those of JSON Schema. An unreadable line stops the server at its start, and fails the tests of the catalog before.

use serde_json::{Map, Value, json};

/// The types that a line may name; `null` is written as `|null`.
const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "object", "array"];

/// One key of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub name: &'static str,
    /// Whether the key is missing in some answers.
    pub optional: bool,
    shape: Shape,
}

impl Key {
    /// The keys of the object, where they are named.
    pub fn keys(&self) -> &[Key] {
        &self.shape.keys
    }
}

/// What a value may be.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    /// One type, or several where the value may be null or where tools of one name differ.
    types: Vec<&'static str>,
    /// The type of a list's elements.
    items: Option<&'static str>,
    keys: Vec<Key>,
}

/// The keys of a line, in its order.
pub fn keys(line: &'static str) -> Vec<Key> {
    words(line).filter(|word| !word.is_empty()).map(key).collect()
}

/// The words of a line outside of braces.
/// A named object has blanks inside its braces, so a plain split would cut it.
fn words(line: &'static str) -> impl Iterator<Item = &'static str> {
    let mut depth = 0;
    line.split(move |c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ' ' && depth == 0
    })
}

fn key(word: &'static str) -> Key {
    let (name, shape) = word.split_once(':').unwrap_or_else(|| panic!("{word} has no type"));
    let (name, optional) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
    Key { name, optional, shape: self::shape(shape) }
}

fn shape(text: &'static str) -> Shape {
    let (text, nullable) = text.strip_suffix("|null").map_or((text, false), |text| (text, true));
    let inside = |open, close| text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
    let (kind, items, keys) = match (inside('[', ']'), inside('{', '}')) {
        (Some(of), _) => ("array", Some(known(of)), Vec::new()),
        (_, Some(line)) => ("object", None, keys(line)),
        (None, None) => (known(text), None, Vec::new()),
    };
    let types = [kind].into_iter().chain(nullable.then_some("null")).collect();
    Shape { types, items, keys }
}

fn known(kind: &'static str) -> &'static str {
    assert!(TYPES.contains(&kind), "'{kind}' is no type of JSON Schema");
    kind
}

/// Keys that hold for all of several tools of one name.
pub fn merged(lines: &[&'static str]) -> Vec<Key> {
    let mut all: Vec<Key> = Vec::new();
    for key in lines.iter().flat_map(|line| keys(line)) {
        match all.iter_mut().find(|known| known.name == key.name) {
            None => all.push(key),
            Some(known) => {
                known.optional |= key.optional;
                known.shape = known.shape.or(&key.shape);
            }
        }
    }
    let by_all = |name| lines.iter().all(|line| keys(line).iter().any(|key| key.name == name));
    for key in &mut all {
        key.optional |= !by_all(key.name);
    }
    all
}

impl Shape {
    /// A shape that both tools of one name fit.
    fn or(&self, other: &Self) -> Self {
        if self == other {
            return self.clone();
        }
        let mut types = self.types.clone();
        types.extend(other.types.iter().filter(|kind| !self.types.contains(kind)));
        // Details that differ are left out: a schema that promised one of them would refuse the other tool's answer.
        Self { types, items: None, keys: Vec::new() }
    }

    fn published(&self) -> Map<String, Value> {
        let mut schema = Map::new();
        let kind = match self.types.as_slice() {
            [only] => json!(only),
            several => json!(several),
        };
        schema.insert("type".into(), kind);
        if let Some(kind) = self.items {
            schema.insert("items".into(), json!({ "type": kind }));
        }
        if !self.keys.is_empty() {
            schema.insert("properties".into(), properties(&self.keys));
        }
        schema
    }
}

/// The schema that clients see. It requires no key: version 1 of the TypeScript SDK validates a refusal against this
/// schema, too, and would hide it from the model for its missing keys. So every key is in every answer except those
/// described as optional.
pub fn schema(keys: &[Key]) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), properties(keys));
    schema
}

fn properties(keys: &[Key]) -> Value {
    let published = |key: &Key| {
        let mut schema = key.shape.published();
        if key.optional {
            schema.insert("description".into(), "optional".into());
        }
        (key.name.to_owned(), Value::Object(schema))
    };
    Value::Object(keys.iter().map(published).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_schema() {
        let line = "id:string next:integer|null tags:[string] hint?:string data?:{at:string by:[object]|null}";
        let expected = json!({
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "next": {"type": ["integer", "null"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "hint": {"type": "string", "description": "optional"},
                "data": {
                    "type": "object",
                    "properties": {
                        "at": {"type": "string"},
                        "by": {"type": ["array", "null"], "items": {"type": "object"}},
                    },
                    "description": "optional",
                },
            },
        });
        assert_eq!(Value::Object(schema(&keys(line))), expected);
    }

    #[test]
    fn of_two_tools_the_looser_promise_is_published() {
        let both =
            merged(&["id:string state:string hint?:string", "state:string|null hint:string"]);
        let expected = json!({
            "id": {"type": "string", "description": "optional"},
            "state": {"type": ["string", "null"]},
            "hint": {"type": "string", "description": "optional"},
        });
        assert_eq!(schema(&both)["properties"], expected);
    }

    #[test]
    #[should_panic(expected = "'text' is no type of JSON Schema")]
    fn an_unknown_type_is_not_published() {
        keys("id:text");
    }
}
