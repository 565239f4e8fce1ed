//! A JSON Schema of the settings file, made from the key table.

use serde_json::{Map, Value, json};

use super::key::{KEYS, Key, Kind};

pub fn schema() -> Value {
    let mut sections = Map::new();
    for key in KEYS {
        let (section, name) = key.name.split_once('.').expect("a test reads every key's name");
        let section = sections.entry(section).or_insert_with(
            || json!({"type": "object", "additionalProperties": false, "properties": {}}),
        );
        section["properties"][name] = of_key(key);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Callboard settings",
        "description": ".callboard/config.toml, .callboard/config.local.toml and the user's config.toml",
        "type": "object",
        "additionalProperties": false,
        "properties": sections,
    })
}

fn of_key(key: &Key) -> Value {
    let mut schema = match key.kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::Word(known) => json!({"enum": known}),
        Kind::List => json!({
            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]
        }),
    };
    schema["description"] = key.help.into();
    schema["default"] = key.default_value().to_json();
    schema
}
