//! Tools that fail, report and wait on purpose.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use callboard_engine::context::Scope;
use callboard_surface::front::Hints;
use callboard_surface::hooks::Hooks;
use callboard_surface::tool::{Answer, Call, Tool, Toolset};
use callboard_surface::toolsets::graph;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

pub static TOOLSET: Toolset = Toolset {
    name: "probe",
    tools: TOOLS,
    voice: graph::TOOLSET.voice,
    instructions: |_| String::new(),
    prompts: None,
    audit: None,
    hooks: Hooks::NONE,
};

static TOOLS: &[Tool] = &[tool("boom", boom), tool("steps", steps), tool("hold", hold)];

const fn tool(name: &'static str, run: fn(Call<'_>) -> Answer<'_>) -> Tool {
    let hints = Hints { read_only: true, destructive: false, idempotent: true, open_world: false };
    let (title, description) = (name, name);
    Tool {
        name,
        title,
        description,
        scope: Scope::TasksRead,
        profile: None,
        hints,
        aliases: &[],
        may_be_long: true,
        on_task: false,
        actions: &[],
        input: any,
        output: "",
        run,
    }
}

fn any() -> Map<String, Value> {
    json!({ "type": "object" }).as_object().cloned().unwrap()
}

fn boom(_call: Call<'_>) -> Answer<'_> {
    Box::pin(async { panic!("on purpose") })
}

/// Reports progress that does not always rise, and answers at once.
fn steps(call: Call<'_>) -> Answer<'_> {
    Box::pin(async move {
        for done in [1.0, 1.0, 2.0] {
            call.op.progress.report(done, Some(2.0), "step");
        }
        let key = call.op.retry_key.as_ref().map(|key| key.key());
        Ok(json!({ "wanted": call.op.progress.is_wanted(), "key": key }))
    })
}

/// One held call, which the test finds by its `key`.
#[derive(Default)]
pub struct Held {
    pub started: Notify,
    pub release: Notify,
    pub canceled: Notify,
}

static HELD: LazyLock<Mutex<HashMap<String, Arc<Held>>>> = LazyLock::new(Mutex::default);

pub fn held(key: &str) -> Arc<Held> {
    HELD.lock().unwrap().entry(key.into()).or_default().clone()
}

/// Answers when the test releases it, or records that it was canceled.
fn hold(call: Call<'_>) -> Answer<'_> {
    Box::pin(async move {
        let held = held(call.arguments["key"].as_str().unwrap_or_default());
        held.started.notify_one();
        tokio::select! {
            () = held.release.notified() => Ok(json!({ "released": true })),
            () = call.op.cancel.cancelled() => {
                held.canceled.notify_one();
                Ok(json!({ "released": false }))
            }
        }
    })
}
