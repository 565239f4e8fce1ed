//! Arguments made from a tool's own input schema: most of them right, some with a wild value anywhere, some of a wrong
//! shape.

use serde_json::{Map, Value, json};

use crate::memory::Memory;
use crate::seeded::Rng;
use crate::wild;

/// Shell lines for checks. They run for real, so there are no others.
const COMMANDS: &[&str] =
    &["true", "false", "exit 3", "printf '\\377\\000x'", "kill -9 $$", "echo \"$0\" >&2"];
const STATES: &[&str] = &[
    "backlog",
    "in_progress",
    "in_review",
    "done",
    "canceled",
    "BACKLOG",
    "IN_PROGRESS",
    "REVIEW",
    "DONE",
    "ready",
    "blocked",
];
const WORDS: &[&str] =
    &["fix the parser", "some words", "x", "A title", "text\nwith lines", "- [ ] a list"];

/// The place of one round: what exists there.
pub struct Given<'g> {
    pub memory: &'g Memory,
    pub repo: &'g str,
    pub commit: &'g str,
}

impl Given<'_> {
    /// Arguments of a tool.
    pub fn arguments(&self, rng: &mut Rng, tool: &str, schema: &Value) -> Value {
        // The share of values that are wild.
        let wild = *rng.pick(&[0, 0, 0, 10, 25, 60]);
        let mut arguments = match tool {
            "jobs_submit" if rng.percent(80) => self.job(rng, schema, wild),
            _ => self.value(rng, schema, "", wild),
        };
        if wild > 0 {
            spoil(rng, &mut arguments);
        }
        end_soon(tool, &mut arguments);
        arguments
    }

    /// A job for an agent, or a verb of the board; one call in many has both.
    fn job(&self, rng: &mut Rng, schema: &Value, wild: usize) -> Value {
        let properties = &schema["properties"];
        let mut arguments = Map::new();
        if properties.get("action").is_some() && rng.percent(60) {
            arguments.insert("task_id".into(), self.memory.text(rng, "task_id").into());
            arguments.insert("action".into(), (*rng.pick(&["start_agent", "stop_agent"])).into());
        } else {
            arguments.insert("spec".into(), self.spec(rng));
        }
        let mut arguments = Value::Object(arguments);
        for _ in 0..wild / 10 {
            replace_somewhere(rng, &mut arguments);
        }
        arguments
    }

    fn spec(&self, rng: &mut Rng) -> Value {
        json!({
            "repo": {"type": "local", "path": self.repo, "baseBranch": "main", "baselineCommit": self.commit},
            "task": {"title": "t", "description": "d", "acceptance": ["a"]},
            "scope": {"readPaths": [], "disallowReformatting": false},
            "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
            "execution": {"preferredModel": "mine", "sandbox": "read-only", "askPolicy": "untrusted", "priority": "P1", "ttlS": 600},
            "idempotencyKey": rng.below(6).to_string(),
        })
    }

    fn value(&self, rng: &mut Rng, schema: &Value, key: &str, wild: usize) -> Value {
        if !key.is_empty() && key != "cmd" && rng.percent(wild) {
            return wild::value(rng);
        }
        match schema["type"].as_str() {
            Some("string") => self.text(rng, schema, key, wild),
            Some("integer") => match self.memory.of(rng, key) {
                Some(known) => known,
                None => (*rng.pick(&[0, 1, 2, 3, schema["maximum"].as_i64().unwrap_or(10)])).into(),
            },
            Some("number") => (*rng.pick(&[0.0, 0.01, 0.5, 1.0])).into(),
            Some("boolean") => rng.percent(50).into(),
            Some("array") => {
                let count = *rng.pick(&[0, 1, 1, 2, 3]);
                (0..count).map(|_| self.value(rng, &schema["items"], key, wild)).collect()
            }
            Some("object") => self.object(rng, schema, wild),
            _ => wild::value(rng),
        }
    }

    fn object(&self, rng: &mut Rng, schema: &Value, wild: usize) -> Value {
        let mut made = Map::new();
        let required = schema["required"].as_array();
        let is_required =
            |key: &str| required.is_some_and(|names| names.iter().any(|name| name == key));
        for (key, field) in schema["properties"].as_object().into_iter().flatten() {
            if is_required(key) || rng.percent(35) {
                made.insert(key.clone(), self.value(rng, field, key, wild));
            }
        }
        // Where two vocabularies share a tool, it takes the names of one of them at a time.
        for (one, other) in [("taskId", "task_id"), ("jobId", "job_id")] {
            if !is_required(one) && schema["properties"].get(one).is_some() {
                made.shift_remove(one);
                if rng.percent(50) {
                    made = Map::from_iter([(one.to_owned(), self.memory.text(rng, one).into())]);
                } else if schema["properties"].get(other).is_some() {
                    made.insert(other.to_owned(), self.memory.text(rng, other).into());
                }
            }
        }
        Value::Object(made)
    }

    fn text(&self, rng: &mut Rng, schema: &Value, key: &str, wild: usize) -> Value {
        if let Some(words) = schema["enum"].as_array() {
            return rng.pick(words).clone();
        }
        if key == "cmd" {
            return (*rng.pick(COMMANDS)).into();
        }
        if let Some(known) = self.memory.of(rng, key).filter(|_| rng.percent(95)) {
            return known;
        }
        match key {
            "status" | "to" | "wait_for_status" => (*rng.pick(STATES)).into(),
            "worktree" => (*rng.pick(&["new", self.repo])).into(),
            "cwd" => ".".into(),
            "idempotency_key" | "clientToken" => rng.below(9).to_string().into(),
            "tags" => (*rng.pick(&["parser", "two-words"])).into(),
            _ if wild > 0 && rng.percent(30) => wild::text(rng).into(),
            _ => (*rng.pick(WORDS)).into(),
        }
    }
}

/// Leaves a name out, or adds one that no tool has.
fn spoil(rng: &mut Rng, arguments: &mut Value) {
    let Some(map) = arguments.as_object_mut() else { return };
    if rng.percent(10) && !map.is_empty() {
        let key = map.keys().nth(rng.below(map.len())).cloned().unwrap_or_default();
        map.shift_remove(&key);
    }
    if rng.percent(10) {
        map.insert(wild::short(rng), wild::value(rng));
    }
    if rng.percent(3) {
        *arguments = wild::value(rng);
    }
}

/// Puts a wild value anywhere into a value.
fn replace_somewhere(rng: &mut Rng, value: &mut Value) {
    if rng.percent(90) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                let at = rng.below(map.len());
                return replace_somewhere(rng, map.values_mut().nth(at).expect("it is inside"));
            }
            Value::Array(items) if !items.is_empty() => {
                let at = rng.below(items.len());
                return replace_somewhere(rng, &mut items[at]);
            }
            _ => {}
        }
    }
    *value = wild::value(rng);
}

/// A wait has to end: one that would last keeps only a moment, whatever it asked for.
fn end_soon(tool: &str, arguments: &mut Value) {
    if !tool.ends_with("_wait") {
        return;
    }
    let Some(map) = arguments.as_object_mut() else { return };
    for key in ["timeout_seconds", "window_seconds"] {
        let lasts = |value: &Value| match value {
            Value::Number(number) => number.as_f64().is_none_or(|seconds| seconds > 0.1),
            Value::String(text) => text.trim().parse::<f64>().is_ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => value.is_null(),
        };
        if map.get(key).is_none_or(lasts) {
            map.insert(key.into(), 0.02.into());
        }
    }
}
