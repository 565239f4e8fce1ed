//! Short names of tasks in the arguments of a call. `SHOP-12` becomes the task's id before a tool
//! reads its arguments, so no tool knows of short names.

use std::collections::BTreeMap;

use callboard_domain::ids::{TaskId, TaskName};
use callboard_engine::context::OpContext;
use callboard_engine::{Engine, EngineError};
use serde_json::Value;

/// Arguments that name tasks, without underscores and in lower case. Free text never changes.
/// A key that is missing here takes ids only; a tool with a new argument for tasks has to add it.
const KEYS: &[&str] = &[
    "dep",
    "dependson",
    "deps",
    "epicid",
    "excludetaskids",
    "id",
    "parent",
    "parentid",
    "parenttaskid",
    "planid",
    "task",
    "taskid",
    "taskids",
    "taskref",
];

/// Replaces names by ids. An unknown name stays as it is; the tool then reports the task as unknown.
pub(crate) async fn resolve(
    engine: &Engine,
    op: &OpContext,
    arguments: &mut Value,
) -> Result<(), EngineError> {
    let mut ids = BTreeMap::new();
    each_name(arguments, &mut |name, _| {
        // Collected first and looked up once each: a list may name a task several times.
        ids.insert(name, None);
    });
    for (name, id) in &mut ids {
        *id = engine.task_named(op, *name).await?;
    }
    each_name(arguments, &mut |name, text| {
        if let Some(Some(id)) = ids.get(&name) {
            *text = id.to_string();
        }
    });
    Ok(())
}

/// The task that a text names: by its id, whether or not the task exists, or by its short name.
pub(crate) async fn task_of(
    engine: &Engine,
    op: &OpContext,
    text: &str,
) -> Result<Option<TaskId>, EngineError> {
    match (text.parse(), TaskName::parse(text)) {
        (Ok(id), _) => Ok(Some(id)),
        (Err(_), Some(name)) => engine.task_named(op, name).await,
        (Err(_), None) => Ok(None),
    }
}

/// Visits every name, at any depth.
fn each_name(value: &mut Value, visit: &mut impl FnMut(TaskName, &mut String)) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                let key = key.replace('_', "").to_ascii_lowercase();
                match value {
                    Value::String(text) if KEYS.contains(&key.as_str()) => named(text, visit),
                    Value::Array(items) if KEYS.contains(&key.as_str()) => {
                        for item in items {
                            match item {
                                Value::String(text) => named(text, visit),
                                // Only texts are names; an object inside the list has keys of its own.
                                other => each_name(other, visit),
                            }
                        }
                    }
                    other => each_name(other, visit),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_name(item, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Visits a text that has the form of a short name. Ids have another form and pass untouched.
fn named(text: &mut String, visit: &mut impl FnMut(TaskName, &mut String)) {
    if let Some(name) = TaskName::parse(text.trim()) {
        visit(name, text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_stand_only_where_tasks_are_named() {
        let mut arguments = json!({
            "task_id": " shop-12 ",
            "dependsOn": ["SHOP-1", "SHOP-01m7kntfw0eh4rcc7g7bsq9yex"],
            "title": "SHOP-3",
            "tasks": [{"parent_id": "SHOP-4", "description": "like SHOP-5"}],
            "project_id": "SHOP-6",
            "id": 7,
        });
        let mut found = Vec::new();
        each_name(&mut arguments, &mut |name, _| found.push(name.to_string()));
        found.sort();
        assert_eq!(found, ["SHOP-1", "SHOP-4", "shop-12"]);
    }
}
