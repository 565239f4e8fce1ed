//! Reads arguments: lenient about how a value is written, strict about its meaning.
//!
//! The tool's own input schema drives both: numeric strings become numbers, one value becomes a list, `In-Progress`
//! becomes `in_progress`, `null` counts as absent. A value that then does not fit the schema is refused with a message
//! that names the field and the way out.

use callboard_domain::limits::BODY_BYTES_MAX;
use callboard_domain::policy::fold;
use callboard_domain::refusal::Refusal;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The published schema of an argument type: inlined, without constructs that some clients cannot read.
pub fn schema_of<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        // Several clients resolve neither `$ref` nor `$defs`, so every type is written out where it is used.
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    make_portable(&mut schema);
    let Value::Object(mut schema) = schema else { return Map::new() };
    schema.remove("title");
    schema.remove("description");
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema
}

/// Takes out what some clients cannot read: `null` among types, formats, defaults. A missing argument says the same.
fn make_portable(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("format");
            map.remove("default");
            // Not needed: `object` refuses unknown names by itself and proposes the nearest known one.
            map.remove("additionalProperties");
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    map.insert("type".into(), only);
                }
            }
            if let Some(Value::Array(words)) = map.get_mut("enum") {
                words.retain(|word| !word.is_null());
            }
            map.values_mut().for_each(make_portable);
        }
        Value::Array(items) => items.iter_mut().for_each(make_portable),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A schema as clients see it. Not all clients can read `anyOf`, so only the last and fullest of several forms is
/// shown; the others are accepted all the same. Items of a list marked `brief` are described by another tool. The
/// minimum of a count, 0 or 1, is left out as obvious.
pub fn published(mut schema: Map<String, Value>) -> Map<String, Value> {
    if schema.get("minimum").and_then(Value::as_i64).is_some_and(|least| matches!(least, 0 | 1)) {
        schema.shift_remove("minimum");
    }
    // The mark is a key of our own in the schema; without this it would be published.
    if schema.shift_remove("brief").is_some() {
        schema.insert("items".into(), json!({"type": "object"}));
    }
    for value in schema.values_mut() {
        *value = with_one_form(value.take());
    }
    schema
}

/// The last of several forms, all the way down.
fn with_one_form(value: Value) -> Value {
    match value {
        Value::Object(mut map) => match map.shift_remove("anyOf") {
            Some(Value::Array(mut forms)) => {
                with_one_form(forms.pop().unwrap_or(Value::Object(map)))
            }
            _ => published(map).into(),
        },
        Value::Array(items) => items.into_iter().map(with_one_form).collect(),
        plain => plain,
    }
}

/// Reads arguments into `T`. `aliases` are other accepted names: (other, real).
pub fn read<T: DeserializeOwned>(
    schema: &Map<String, Value>,
    aliases: &[(&str, &str)],
    arguments: Value,
) -> Result<T, Refusal> {
    let mut arguments = match arguments {
        Value::Null => Map::new(),
        Value::Object(map) => map,
        _ => return Err(Refusal::invalid("arguments must be an object")),
    };
    for (other, real) in aliases {
        // A caller that sends both names gets the refusal of the unknown one, instead of a silent choice.
        if !arguments.contains_key(*real)
            && let Some(value) = arguments.shift_remove(*other)
        {
            arguments.insert((*real).into(), value);
        }
    }
    let read = object(schema, arguments, "")?;
    serde_json::from_value(read).map_err(|error| {
        Refusal::invalid(format!("arguments do not fit the input schema: {error}"))
    })
}

/// A task's description. The core calls it the body; a complaint uses the caller's word.
pub fn description(text: String) -> Result<String, Refusal> {
    if text.len() > BODY_BYTES_MAX {
        let got = text.len();
        let words = format!("description must be at most {BODY_BYTES_MAX} bytes, got {got}");
        return Err(Refusal::invalid_field("description", words));
    }
    Ok(text)
}

/// `place` is the prefix of messages: empty, or `check 0: `.
fn object(
    schema: &Map<String, Value>,
    given: Map<String, Value>,
    place: &str,
) -> Result<Value, Refusal> {
    let empty = Map::new();
    // Only keys that the schema names reach serde, so serde's own errors, which name no way out, are rare.
    let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let mut read = Map::new();
    for (name, value) in given {
        // An unknown name is refused even when its value is `null`: a typing error must not pass as "absent".
        let Some(field) = known.get(&name) else {
            return Err(unknown(place, &name, known));
        };
        if value.is_null() {
            continue;
        }
        let label = format!("{place}{name}");
        read.insert(name.clone(), self::value(field, value, &label, &name)?);
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !read.contains_key(name) {
            let field = outermost(place, name);
            return Err(Refusal::invalid_field(field, format!("{place}{name} is required")));
        }
    }
    Ok(Value::Object(read))
}

/// The refusal of an argument that does not exist, with the nearest name that does.
fn unknown(place: &str, name: &str, known: &Map<String, Value>) -> Refusal {
    // Messages repeat at most 60 characters of a caller's text, so that a refusal stays short.
    let shown: String = name.chars().take(60).collect();
    let way_out = match nearest(&shown, known.keys().map(String::as_str)) {
        Some(key) => format!("; did you mean '{key}'?"),
        None if known.is_empty() => "; this tool takes no arguments".into(),
        None => {
            let keys: Vec<_> = known.keys().map(String::as_str).collect();
            format!("; known arguments are {}", keys.join(", "))
        }
    };
    let field = outermost(place, &shown);
    Refusal::invalid_field(field, format!("{place}unknown argument '{shown}'{way_out}"))
}

/// The argument in which a fault lies: `name`, unless `place` says that the fault is further inside.
fn outermost<'a>(place: &'a str, name: &'a str) -> &'a str {
    if place.is_empty() { name } else { place.split([' ', ':', '[']).next().unwrap_or_default() }
}

/// The known word that was probably meant.
pub(crate) fn nearest<'w>(given: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let near = known.map(|word| (strsim::damerau_levenshtein(&fold(word), &fold(given)), word));
    let (distance, word) = near.min()?;
    // Half the word may differ; beyond that the proposal would be a guess. One edit is always allowed.
    (distance <= word.len().max(3) / 2).then_some(word)
}

/// The form of a schema that fits the kind of a value.
fn form<'s>(schema: &'s Value, given: &Value) -> &'s Value {
    let kind = match given {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        // Where a schema has several forms, every plain value is judged by the form of a text.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => "string",
    };
    let forms = schema.get("anyOf").and_then(Value::as_array);
    forms.and_then(|forms| forms.iter().find(|form| form["type"] == kind)).unwrap_or(schema)
}

/// Reads one value by its schema. `label` stands in messages; `name` is the argument's own.
fn value(schema: &Value, given: Value, label: &str, name: &str) -> Result<Value, Refusal> {
    let schema = form(schema, &given);
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => string(schema, given, label),
        Some("integer") => integer(schema, given, label),
        Some("number") => number(schema, given, label),
        Some("boolean") => boolean(given, label),
        Some("array") => list(schema, given, label, name),
        Some("object") => match (schema.as_object(), given) {
            // A schema without named keys takes any.
            (Some(schema), map @ Value::Object(_)) if !schema.contains_key("properties") => Ok(map),
            (Some(schema), Value::Object(map)) => object(schema, map, &format!("{label}: ")),
            (_, other) => Err(wrong(label, "an object", &other)),
        },
        _ => Ok(given),
    }
}

/// The refusal of a value of another kind.
fn wrong(label: &str, wanted: &str, got: &Value) -> Refusal {
    let words = format!("{label} must be {wanted}, got {}", shown(got));
    Refusal::invalid_field(outermost(label, label), words)
}

/// A value in a message about it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(text) => format!("'{}'", text.chars().take(60).collect::<String>()),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// A text, or one of the words of an enum in any spelling of case, `-` and `_`.
fn string(schema: &Value, given: Value, label: &str) -> Result<Value, Refusal> {
    let Value::String(text) = &given else { return Err(wrong(label, "a string", &given)) };
    let Some(words) = schema.get("enum").and_then(Value::as_array) else { return Ok(given) };
    // `inProgress` has no separator that `fold` could unify, so separators do not count at all.
    let bare = |word: &str| fold(word).replace('_', "");
    let found = words.iter().filter_map(Value::as_str).find(|word| bare(word) == bare(text));
    match found {
        Some(word) => Ok(word.into()),
        None => {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            Err(wrong(label, &format!("one of {}", words.join(", ")), &given))
        }
    }
}

/// A whole number, also as text or as `5.0`.
fn integer(schema: &Value, given: Value, label: &str) -> Result<Value, Refusal> {
    let number = match &given {
        Value::Number(n) => n.as_i64().or_else(|| n.as_f64().and_then(whole)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let Some(number) = number else { return Err(wrong(label, "an integer", &given)) };
    within(schema, number as f64, number.into(), label)
}

/// A finite number, also as text.
fn number(schema: &Value, given: Value, label: &str) -> Result<Value, Refusal> {
    let number = match &given {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.filter(|number: &f64| number.is_finite());
    let Some(number) = number else { return Err(wrong(label, "a number", &given)) };
    within(schema, number, number.into(), label)
}

/// The value, if it is in the schema's range.
fn within(schema: &Value, number: f64, read: Value, label: &str) -> Result<Value, Refusal> {
    let bound = |key| schema.get(key).and_then(Value::as_f64);
    let (low, high) = (bound("minimum"), bound("maximum"));
    let inside = low.is_none_or(|low| number >= low) && high.is_none_or(|high| number <= high);
    if inside {
        return Ok(read);
    }
    let range = match (low, high) {
        (Some(low), Some(high)) => format!("{low}..{high}"),
        (Some(low), None) => format!("at least {low}"),
        (None, Some(high)) => format!("at most {high}"),
        (None, None) => "a number".into(),
    };
    Err(wrong(label, &range, &read))
}

/// Numbers from 9e15 on are not exact as floats.
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

/// A flag, also as the text `true` or `false`; 0 and 1 are refused.
fn boolean(given: Value, label: &str) -> Result<Value, Refusal> {
    match &given {
        Value::Bool(_) => Ok(given),
        Value::String(text) if fold(text) == "true" => Ok(true.into()),
        Value::String(text) if fold(text) == "false" => Ok(false.into()),
        _ => Err(wrong(label, "true or false", &given)),
    }
}

/// A list, also as one value or as text. Messages count items from 0 and name them in the singular: `check 0: `.
fn list(schema: &Value, given: Value, label: &str, name: &str) -> Result<Value, Refusal> {
    let no_items = Value::Object(Map::new());
    let items = schema.get("items").unwrap_or(&no_items);
    let given = match given {
        Value::Array(given) => given,
        Value::String(text) => {
            from_text(&text, items).ok_or_else(|| wrong(label, "a list", &Value::String(text)))?
        }
        one => vec![one],
    };
    // `checks` holds items that a message calls `check 0`.
    let singular = name.strip_suffix('s').unwrap_or(name);
    let mut read = Vec::with_capacity(given.len());
    for (index, item) in given.into_iter().enumerate() {
        let schema = form(items, &item);
        let of_objects = schema["type"] == "object";
        read.push(match (schema.as_object(), item) {
            (Some(schema), Value::Object(map)) if of_objects => {
                object(schema, map, &format!("{singular} {index}: "))?
            }
            (_, item) => value(schema, item, &format!("{label}[{index}]"), singular)?,
        });
    }
    Ok(Value::Array(read))
}

/// A list written as text: JSON, or values separated by commas. Where text is one of several forms of an item, the
/// whole text is that item.
fn from_text(text: &str, items: &Value) -> Option<Vec<Value>> {
    let text = text.trim();
    if text.starts_with('[') || text.starts_with('{') {
        return match serde_json::from_str(text).ok()? {
            Value::Array(items) => Some(items),
            one @ Value::Object(_) => Some(vec![one]),
            _ => None,
        };
    }
    if items["type"] == "object" {
        return None;
    }
    if items.get("anyOf").is_some() {
        return Some(vec![text.into()]);
    }
    Some(text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(Value::from).collect())
}
