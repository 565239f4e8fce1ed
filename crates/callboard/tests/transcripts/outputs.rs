//! Checks every reply of every transcript against the `outputSchema` of its tool, and afterwards whether every key that
//! a tool names was in some reply.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};

use callboard_surface::catalog::Catalog;
use callboard_surface::output::{self, Key};
use callboard_surface::tool::Tool;
use callboard_surface::toolsets;
use serde_json::{Map, Value};

use crate::lanes::Reply;

/// `toolset tool key` of every key that was in some reply.
static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::of(toolsets::ALL))
}

/// Every tool of that name, in any toolset.
fn tools_named(name: &str) -> impl Iterator<Item = &'static Tool> {
    toolsets::ALL.iter().flat_map(|toolset| toolset.tools).filter(move |tool| tool.name == name)
}

/// Panics when a reply does not fit its tool's schema, alone and merged with others of its name. A refusal lacks the
/// keys of an answer, but clients validate it against the schema, too.
pub fn judge(tool: &str, arguments: &Value, reply: &Reply) {
    let Some(found) = catalog().find(tool, arguments) else { return };
    let own = output::keys(found.tool.output);
    let lines: Vec<&str> = tools_named(tool).map(|tool| tool.output).collect();
    let (Ok(body) | Err(body)) = reply;
    for keys in [&own, &output::merged(&lines)] {
        let schema = Value::Object(output::schema(keys));
        if let Err(why) = fits(&schema, body).and_then(|()| match reply {
            Ok(answer) => promised(keys, answer),
            Err(_) => Ok(()),
        }) {
            panic!("{} {tool} publishes another outputSchema: {why}\n{body}", found.toolset.name);
        }
    }
    if let Ok(answer) = reply {
        let mut seen = SEEN.lock().expect("not poisoned");
        let named = named(&own).into_iter().filter(|path| at(answer, path).is_some());
        seen.extend(named.map(|path| format!("{} {tool} {}", found.toolset.name, path.join("."))));
    }
}

/// Whether a value fits a schema. The published keywords have the meaning of JSON Schema; any other is a mistake.
fn fits(schema: &Value, value: &Value) -> Result<(), String> {
    let empty = Map::new();
    for (keyword, argument) in schema.as_object().unwrap_or(&empty) {
        match keyword.as_str() {
            "type" => {
                let types =
                    argument.as_array().map_or(std::slice::from_ref(argument), Vec::as_slice);
                if !types.iter().filter_map(Value::as_str).any(|kind| is_a(kind, value)) {
                    return Err(format!("{value} is not of type {argument}"));
                }
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    fits(argument, item)?;
                }
            }
            "properties" => {
                for (key, schema) in argument.as_object().unwrap_or(&empty) {
                    let value = value.get(key).map_or(Ok(()), |value| fits(schema, value));
                    value.map_err(|why| format!("{key}: {why}"))?;
                }
            }
            "description" => {}
            other => return Err(format!("the keyword {other} is not checked here")),
        }
    }
    Ok(())
}

fn is_a(kind: &str, value: &Value) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::Number(number) => kind == "number" || kind == "integer" && !number.is_f64(),
        Value::String(_) => kind == "string",
        Value::Array(_) => kind == "array",
        Value::Object(_) => kind == "object",
    }
}

/// Whether every key that is not optional is there.
fn promised(keys: &[Key], answer: &Value) -> Result<(), String> {
    for key in keys {
        match answer.get(key.name) {
            None if key.optional => {}
            None => return Err(format!("{} is missing", key.name)),
            Some(Value::Null) => {}
            Some(value) => promised(key.keys(), value)?,
        }
    }
    Ok(())
}

/// The path of each key, those of named objects included.
fn named(keys: &[Key]) -> Vec<Vec<&'static str>> {
    let mut all = Vec::new();
    for key in keys {
        all.push(vec![key.name]);
        all.extend(named(key.keys()).into_iter().map(|path| [vec![key.name], path].concat()));
    }
    all
}

fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// The keys that tools name and no reply had, once every transcript was played.
pub fn never_seen() -> Vec<String> {
    let seen = SEEN.lock().expect("not poisoned");
    let mut missing = Vec::new();
    for toolset in toolsets::ALL {
        for tool in toolset.tools {
            let named = named(&output::keys(tool.output));
            let paths = named.iter().map(|path| path.join("."));
            missing.extend(paths.map(|path| format!("{} {} {path}", toolset.name, tool.name)));
        }
    }
    missing.retain(|key| !seen.contains(key));
    missing
}
