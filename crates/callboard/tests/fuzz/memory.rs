//! What a caller remembers of the answers: ids, cursors and fences that exist, by the kind of thing they name.

use std::collections::HashMap;

use serde_json::Value;

use crate::seeded::Rng;

/// How many of a kind are remembered; the oldest is forgotten first.
const KEPT: usize = 10;

#[derive(Default)]
pub struct Memory {
    known: HashMap<&'static str, Vec<Value>>,
}

/// The kind of thing that a key of an answer or of arguments names.
fn kind(key: &str) -> Option<&'static str> {
    let plain: String = key.chars().filter(|c| *c != '_').collect::<String>().to_lowercase();
    Some(match plain.as_str() {
        "id" | "taskid" | "taskids" | "excludetaskids" | "task" | "deps" | "dependson"
        | "planid" | "parentid" | "parent" | "epicid" => "task",
        "session" | "sessionid" => "session",
        "jobid" | "jobids" => "job",
        "mailid" | "originalmailid" => "mail",
        "agentid" | "toagentid" | "fromagentid" => "agent",
        "commentid" => "comment",
        "knowledgeid" | "entryid" | "supersedes" => "knowledge",
        "projectid" => "project",
        "next" | "after" | "cursor" | "nextcursor" => "cursor",
        "updatedat" | "fromupdatedat" | "expiresat" | "createdat" => "time",
        "head" | "baselinecommit" => "commit",
        "actor" | "expectedactor" | "assignee" => "actor",
        "fence" => "fence",
        _ => return None,
    })
}

impl Memory {
    /// Remembers what an answer names.
    pub fn learn(&mut self, answer: &Value) {
        match answer {
            Value::Object(map) => {
                for (key, value) in map {
                    match kind(key) {
                        Some(kind) => self.keep(kind, value),
                        None => self.learn(value),
                    }
                }
            }
            Value::Array(items) => items.iter().take(8).for_each(|item| self.learn(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    pub fn keep(&mut self, kind: &'static str, value: &Value) {
        match value {
            Value::Array(items) => items.iter().take(4).for_each(|item| self.keep(kind, item)),
            Value::Object(_) => self.learn(value),
            Value::String(text) if text.is_empty() || text.len() > 200 => {}
            Value::Null | Value::Bool(_) => {}
            Value::Number(_) | Value::String(_) => {
                // Answers call the id of everything `id`; its beginning says of what.
                let kind = match value.as_str() {
                    Some(text) if text.starts_with("ses_") => "session",
                    Some(text) if text.starts_with("P-") => "task",
                    Some(_) if kind == "task" => "other",
                    _ => kind,
                };
                let known = self.known.entry(kind).or_default();
                if !known.contains(value) {
                    known.push(value.clone());
                    if known.len() > KEPT {
                        known.remove(0);
                    }
                }
            }
        }
    }

    /// Something that exists and fits a key; now and then something that exists and does not.
    pub fn of(&self, rng: &mut Rng, key: &str) -> Option<Value> {
        let kinds: &[&str] = match kind(key)? {
            "comment" => &["comment", "other"],
            "knowledge" => &["knowledge", "other"],
            "job" => &["job", "other"],
            kind => &[kind],
        };
        let kind = if rng.percent(3) { "other" } else { *rng.pick(kinds) };
        let known = self.known.get(kind).or_else(|| self.known.get(kinds[0]))?;
        Some(rng.pick(known).clone())
    }

    /// The name of a thing as text, or one of nothing.
    pub fn text(&self, rng: &mut Rng, key: &str) -> String {
        match self.of(rng, key) {
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
            None => "P-1".to_owned(),
        }
    }
}
