//! A JSON Schema of the settings file, derived from the key table.

use serde_json::{Map, Value, json};

use super::key::{KEYS, Key, Kind};
use super::value::{LIMIT_MAX, UNLIMITED};

/// For editors that complete and check TOML. Printed by `callboard config schema`.
pub fn schema() -> Value {
    let mut sections = Map::new();
    for key in KEYS {
        put(&mut sections, key.name, of_key(key));
    }
    let executors = json!({
        "type": "object",
        "additionalProperties": {"type": "object"},
        "description": "Programs that play an agent, each under its name; docs/guide/agents.md.",
    });
    sections.insert("executors".into(), executors);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Callboard settings",
        "description": ".callboard/config.toml, .callboard/config.local.toml and the user's config.toml",
        "type": "object",
        "additionalProperties": false,
        "properties": sections,
    })
}

/// Puts a key into its table, and that table into its own.
fn put(tables: &mut Map<String, Value>, name: &str, schema: Value) {
    let Some((table, rest)) = name.split_once('.') else {
        tables.insert(name.to_owned(), schema);
        return;
    };
    let table = tables.entry(table).or_insert_with(
        || json!({"type": "object", "additionalProperties": false, "properties": {}}),
    );
    let inner = table["properties"].as_object_mut().expect("made above, with an object");
    put(inner, rest, schema);
}

fn of_key(key: &Key) -> Value {
    let mut schema = match key.kind {
        Kind::Text | Kind::Secret => json!({"type": "string"}),
        Kind::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Kind::Limit => json!({
            "anyOf": [{"enum": [UNLIMITED]}, {"type": "integer", "minimum": 0, "maximum": LIMIT_MAX}]
        }),
        Kind::Fraction => json!({"type": "number", "minimum": 0, "maximum": 1}),
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::Word(known) => json!({"enum": known}),
        Kind::List => json!({
            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]
        }),
    };
    schema["description"] = key.help.into();
    if key.is_guarded {
        // Not a keyword of JSON Schema; tools that do not know it pass over it.
        schema["x-guarded"] = true.into();
    }
    schema["default"] = match key.kind {
        // Kept as text, and a number in a file.
        Kind::Fraction => json!(key.default.parse::<f64>().ok()),
        Kind::Text
        | Kind::Secret
        | Kind::Integer { .. }
        | Kind::Limit
        | Kind::Boolean
        | Kind::Word(_)
        | Kind::List => key.default_value().to_json(),
    };
    schema
}
