//! Settings that apply in every process from the moment they are changed.

use callboard_domain::board::settings::{BoardSettings, SettingKey};
use callboard_domain::refusal::Refusal;
use callboard_engine::EngineError;
use serde_json::{Map, Value, json};

use super::envelope::{Envelope, Reply, or_refused};
use crate::args;
use crate::tool::{Call, NoArguments, Run};

pub(super) async fn settings_get(call: &Call<'_>, _: NoArguments) -> Reply {
    Ok(json!({ "settings": all(&call.engine.settings_get(call.op).await?) }))
}

/// Reads its arguments itself: the setting judges a value that does not fit, the call an unknown key.
pub(super) const SETTINGS_UPDATE: Run = |mut call| {
    Box::pin(async move {
        let arguments = call.arguments.take();
        // With the strict schema a wrong value would be a call error; the reference wants an answer with all settings.
        let given = args::read(&loose(call.schema), call.tool.aliases, arguments)?;
        let answer = settings_update(&call, given).await;
        or_refused(&call, None, answer)
    })
};

async fn settings_update(call: &Call<'_>, given: Map<String, Value>) -> Reply {
    let set = given.into_iter().filter_map(|(name, value)| Some((key(&name)?, value)));
    match call.engine.settings_update(call.op, set.collect()).await {
        Ok(done) => {
            // A pinned setting is stored and still has no effect here, which the caller would not notice otherwise.
            let names: Vec<&str> = done.pinned.iter().map(|key| key.as_str()).collect();
            let message =
                if done.updated.is_empty() { "Nothing changed" } else { "Settings updated" };
            let mut envelope = Envelope::yes(message);
            if !names.is_empty() {
                let words = "stored, but flags or variables of this server override";
                envelope = envelope.hint(format!("{words} {}", names.join(", ")));
            }
            let updated = done.updated.into_iter();
            let updated: Map<String, Value> =
                updated.map(|(key, value)| (key.as_str().into(), value)).collect();
            Ok(envelope.answer(call, json!({"updated": updated, "settings": all(&done.settings)})))
        }
        Err(EngineError::Refused(refusal @ Refusal::InvalidSetting { .. })) => {
            let settings = call.engine.board_settings(&call.op.principal.org).await?;
            let mut no = Envelope::no(refusal.code(), refusal.message());
            if let Some(hint) = refusal.hint() {
                no = no.hint(hint);
            }
            Ok(no.answer(call, json!({"updated": {}, "settings": all(&settings)})))
        }
        Err(error) => Err(error),
    }
}

/// Every setting with its value now, under its full name.
fn all(settings: &BoardSettings) -> Map<String, Value> {
    SettingKey::ALL.iter().map(|key| (key.as_str().into(), settings.get(*key))).collect()
}

/// The key without its prefix, as arguments have it.
fn short(key: SettingKey) -> &'static str {
    key.as_str().split_once('.').map_or(key.as_str(), |(_, name)| name)
}

/// The setting of an argument.
fn key(name: &str) -> Option<SettingKey> {
    SettingKey::ALL.iter().copied().find(|key| short(*key) == name)
}

/// The schema, made from the list of settings: a new setting becomes an argument by itself.
pub(super) fn input() -> Map<String, Value> {
    let defaults = BoardSettings::default();
    let property = |key: &SettingKey| {
        let kind = match defaults.get(*key) {
            Value::Bool(_) => "boolean",
            Value::Number(_) => "integer",
            Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => "string",
        };
        let mut schema = json!({ "type": kind });
        if let Some(words) = range(*key) {
            schema["description"] = words.into();
        }
        (short(*key).to_owned(), schema)
    };
    let properties: Map<String, Value> = SettingKey::ALL.iter().map(property).collect();
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), properties.into());
    schema
}

/// The range of a value, shown to agents besides its type.
fn range(key: SettingKey) -> Option<&'static str> {
    match key {
        SettingKey::MaxConcurrentAgents => Some("1..10"),
        SettingKey::TasksWaitDefaultTimeoutSeconds | SettingKey::TasksWaitMaxTimeoutSeconds => {
            Some("1..3600")
        }
        SettingKey::WorktreeBaseRefStrategy => Some("remote, local_if_ahead or local"),
        SettingKey::DefaultPairTerminalBackend => Some("tmux, vscode or cursor"),
        SettingKey::DefaultWorkerAgent => Some("an executor"),
        _ => None,
    }
}

/// The schema with its keys, but any value.
fn loose(schema: &Map<String, Value>) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let names = properties.into_iter().flat_map(Map::keys);
    let properties: Map<String, Value> = names.map(|name| (name.clone(), json!({}))).collect();
    let mut loose = Map::new();
    loose.insert("properties".into(), properties.into());
    loose
}

/// The full names are accepted too.
pub(super) const ALIASES: &[(&str, &str)] = &[
    ("general.auto_review", "auto_review"),
    ("general.auto_approve", "auto_approve"),
    ("general.require_review_approval", "require_review_approval"),
    ("general.serialize_merges", "serialize_merges"),
    ("general.default_base_branch", "default_base_branch"),
    ("general.auto_sync_base_branch", "auto_sync_base_branch"),
    ("general.worktree_base_ref_strategy", "worktree_base_ref_strategy"),
    ("general.max_concurrent_agents", "max_concurrent_agents"),
    ("general.default_worker_agent", "default_worker_agent"),
    ("general.default_pair_terminal_backend", "default_pair_terminal_backend"),
    ("general.default_model_claude", "default_model_claude"),
    ("general.default_model_opencode", "default_model_opencode"),
    ("general.default_model_codex", "default_model_codex"),
    ("general.default_model_gemini", "default_model_gemini"),
    ("general.default_model_kimi", "default_model_kimi"),
    ("general.default_model_copilot", "default_model_copilot"),
    ("general.tasks_wait_default_timeout_seconds", "tasks_wait_default_timeout_seconds"),
    ("general.tasks_wait_max_timeout_seconds", "tasks_wait_max_timeout_seconds"),
    ("ui.skip_pair_instructions", "skip_pair_instructions"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_short_and_a_full_name() {
        let names: Vec<_> = SettingKey::ALL.iter().map(|key| (key.as_str(), short(*key))).collect();
        assert_eq!(names, ALIASES);
        for (_, name) in ALIASES {
            assert!(input()["properties"].get(name).is_some(), "{name}");
        }
    }
}
