//! The tool list: what clients see, how small it is, and how toolsets merge.

mod reference;
mod words;

use std::path::PathBuf;

use callboard_domain::refusal::Refusal;
use callboard_domain::rights::{AgentType, Lane, Profile};
use callboard_engine::EngineError;
use callboard_engine::context::{Principal, Rights, Scope};
use callboard_surface::args::schema_of;
use callboard_surface::catalog::Catalog;
use callboard_surface::error::{Said, Voice};
use callboard_surface::front::{Hints, ToolInfo};
use callboard_surface::hooks::Hooks;
use callboard_surface::output;
use callboard_surface::tool::{Answer, Call, Tool, Toolset};
use callboard_surface::toolsets;
use serde_json::{Value, json};

const fn voice(say: fn(&str, &Refusal) -> Said) -> Voice {
    Voice {
        say,
        unavailable: "AWAY",
        unavailable_hint: None,
        damaged: "DAMAGED",
        canceled: "CANCELED",
        internal: "BROKEN",
    }
}

fn reading() -> Rights {
    Rights { scopes: vec![Scope::TasksRead], ..Rights::default() }
}

fn principal() -> Principal {
    Principal::local("agent:test".parse().expect("an actor"))
}

fn shown(tools: &[ToolInfo]) -> Value {
    let show = |tool: &ToolInfo| {
        json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": tool.input_schema,
            "outputSchema": tool.output_schema,
            "annotations": {
                "readOnlyHint": tool.hints.read_only,
                "destructiveHint": tool.hints.destructive,
                "idempotentHint": tool.hints.idempotent,
                "openWorldHint": tool.hints.open_world,
            },
        })
    };
    tools.iter().map(show).collect()
}

/// `CALLBOARD_BLESS=1` rewrites the golden; clients see every change of it.
#[test]
fn the_tools_are_as_published() {
    for toolset in toolsets::ALL {
        let catalog = Catalog::of(&[toolset]);
        let mut tools = Vec::new();
        // No type of agent sees all tools of the crew.
        for kind in AgentType::ALL {
            let rights = Rights { agent_type: Some(*kind), ..principal().rights };
            for tool in catalog.list(&Principal { rights, ..principal() }) {
                if !tools.iter().any(|known: &ToolInfo| known.name == tool.name) {
                    tools.push(tool);
                }
            }
        }
        let tools = shown(&tools);
        let text = serde_json::to_string_pretty(&tools).expect("plain data") + "\n";
        let name = format!("tests/goldens/{}.tools.json", toolset.name);
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
        if std::env::var_os("CALLBOARD_BLESS").is_some() {
            std::fs::write(&path, &text).expect("the golden can be written");
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(golden == text, "the tool list changed; review it and run with CALLBOARD_BLESS=1");
    }
}

#[test]
fn the_default_tool_list_fits_in_a_small_context() {
    let tools = shown(&Catalog::of(&[&toolsets::graph::TOOLSET]).list(&principal()));
    let bytes = json!({ "tools": tools }).to_string().len();
    assert!(bytes <= 8_000, "tools/list has {bytes} bytes; at most 8,000 are allowed");
}

#[test]
fn schemas_are_portable() {
    const BANNED: &[&str] = &[
        "$ref",
        "$defs",
        "oneOf",
        "anyOf",
        "allOf",
        "const",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "propertyNames",
        "patternProperties",
        "uniqueItems",
        "format",
    ];
    fn check(tool: &str, value: &Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    assert!(!BANNED.contains(&key.as_str()), "{tool}: {key} is not portable");
                    check(tool, value);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| check(tool, item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    for tool in Catalog::of(toolsets::ALL).list(&principal()) {
        assert!(tool.name.len() <= 40);
        assert!(
            tool.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        );
        check(tool.name, &Value::Object(tool.input_schema));
        check(tool.name, &Value::Object(tool.output_schema));
    }
}

/// Every tool, with the published schema of its answers.
fn outputs() -> impl Iterator<Item = (String, Value)> {
    let tools = toolsets::ALL
        .iter()
        .flat_map(|toolset| toolset.tools.iter().map(move |tool| (toolset.name, tool)));
    tools.map(|(toolset, tool)| {
        let schema = output::schema(&output::keys(tool.output));
        (format!("{toolset} {}", tool.name), Value::Object(schema))
    })
}

#[test]
fn every_key_of_an_answer_has_a_type() {
    fn check(tool: &str, schema: &Value) {
        let types = match &schema["type"] {
            Value::Array(types) => types.clone(),
            one => vec![one.clone()],
        };
        assert!(types.iter().all(Value::is_string), "{tool}: {schema} has no type");
        for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
            check(&format!("{tool} {key}"), schema);
        }
    }
    for (tool, schema) in outputs() {
        let properties = schema["properties"].as_object().expect("an object");
        assert!(!properties.is_empty(), "{tool} names no key");
        check(&tool, &schema);
    }
}

/// Version 1 of the TypeScript SDK hides a refusal that does not fit the schema of an answer.
#[test]
fn a_refusal_fits_the_schema_of_an_answer() {
    let keys = [("code", "string"), ("message", "string"), ("hint", "string")];
    let keys = keys.into_iter().chain([("retryable", "boolean"), ("details", "object")]);
    for (tool, schema) in outputs() {
        assert!(schema.get("required").is_none(), "{tool}: a refusal lacks the keys of an answer");
        for (key, kind) in keys.clone() {
            let Some(property) = schema["properties"].get(key) else { continue };
            let types = property["type"].to_string();
            assert!(types.contains(&format!("{kind:?}")), "{tool}: {key} of a refusal is a {kind}");
        }
    }
}

#[test]
fn who_may_not_write_sees_no_writes() {
    let reader = Principal { rights: reading(), ..principal() };
    let tools = Catalog::of(&[&toolsets::graph::TOOLSET]).list(&reader);
    let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["identity", "list", "get", "get_session", "list_sessions"]);
}

/// `CALLBOARD_BLESS=1` rewrites the golden.
#[test]
fn each_profile_sees_its_own_part_of_the_board() {
    let catalog = Catalog::of(&[&toolsets::board::TOOLSET]);
    let mut text = String::new();
    let mut known = Vec::new();
    for profile in Profile::ALL {
        let rights =
            Rights { lane: Lane::KaganAdmin, profile_wanted: Some(*profile), ..Rights::default() };
        let tools = catalog.list(&Principal { rights, ..principal() });
        let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
        assert!(known.iter().all(|name| names.contains(name)), "{profile:?} has less");
        let new: Vec<&str> = names.iter().filter(|name| !known.contains(*name)).copied().collect();
        text += &format!("{} {}: {}\n", profile.as_str(), names.len(), new.join(" "));
        known = names;
        for tool in &tools {
            assert!(!tool.title.is_empty() && tool.output_schema["type"] == "object");
            let hints = tool.hints;
            assert!(!(hints.read_only && hints.destructive), "{}", tool.name);
            assert_eq!(hints.idempotent, hints.read_only, "{}", tool.name);
        }
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/board.profiles.txt");
    if std::env::var_os("CALLBOARD_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the golden can be written");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text);
}

/// `CALLBOARD_BLESS=1` rewrites the golden.
#[test]
fn each_type_sees_its_own_part_of_the_crew() {
    let catalog = Catalog::of(&[&toolsets::crew::TOOLSET]);
    let mut text = String::new();
    for kind in AgentType::ALL {
        let rights = Rights { agent_type: Some(*kind), ..Rights::default() };
        let tools = catalog.list(&Principal { rights, ..principal() });
        let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
        text += &format!("{} {}: {}\n", kind.as_str(), names.len(), names.join(" "));
    }
    let unknown = Principal { rights: Rights::default(), ..principal() };
    assert!(catalog.list(&unknown).is_empty(), "whoever has no type has no tools");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/crew.types.txt");
    if std::env::var_os("CALLBOARD_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the golden can be written");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text);
}

#[test]
fn toolsets_are_named_or_refused() {
    let names = |text| toolsets::parse(text).map(|found| found.len());
    assert_eq!(names("graph"), Ok(1));
    assert_eq!(names("graph, graph"), Ok(1));
    assert!(names("all").is_ok());
    assert!(names("grpah").is_err_and(|error| error.contains("unknown toolset 'grpah'")));
    assert!(names(" , ").is_err());
}

// Two small toolsets that share a name, as relay and the board do.

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code, reason = "only its schema matters")]
struct ById {
    id: String,
    verbose: Option<bool>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code, reason = "only its schema matters")]
struct ByJob {
    job: String,
    verbose: Option<bool>,
    lines: Option<u32>,
}

const READ: Hints =
    Hints { read_only: true, destructive: false, idempotent: true, open_world: false };

fn nothing(_: Call<'_>) -> Answer<'_> {
    Box::pin(async { Err(EngineError::Canceled) })
}

static FIRST: Toolset = Toolset {
    name: "first",
    tools: &[Tool {
        name: "show",
        title: "Show",
        description: "Shows a task.",
        scope: Scope::TasksRead,
        profile: None,
        hints: READ,
        aliases: &[("task", "id")],
        may_be_long: false,
        on_task: false,
        actions: &[],
        input: schema_of::<ById>,
        output: "id:string state:string",
        run: nothing,
    }],
    voice: voice(|_, refusal| Said::plain(refusal)),
    instructions: |_| String::new(),
    prompts: None,
    audit: None,
    hooks: Hooks::NONE,
};

static SECOND: Toolset = Toolset {
    name: "second",
    tools: &[Tool {
        name: "show",
        title: "Show job",
        description: "Shows a job.",
        scope: Scope::TasksWrite,
        profile: None,
        hints: READ,
        aliases: &[],
        may_be_long: false,
        on_task: false,
        actions: &[],
        input: schema_of::<ByJob>,
        output: "job:string state:string",
        run: nothing,
    }],
    voice: voice(|_, refusal| Said { code: "SECOND", ..Said::plain(refusal) }),
    instructions: |_| String::new(),
    prompts: None,
    audit: None,
    hooks: Hooks::NONE,
};

#[test]
fn a_shared_name_is_listed_once_with_both_sets_of_properties() {
    let catalog = Catalog::of(&[&FIRST, &SECOND]);
    let tools = catalog.list(&principal());
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0].description, "Shows a task. Or: Shows a job.");
    let properties = tools[0].input_schema["properties"].as_object().expect("an object");
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["id", "verbose", "job", "lines"]);
    assert!(
        !tools[0].input_schema.contains_key("required"),
        "neither requires what the other does"
    );
    let output = &tools[0].output_schema["properties"];
    assert_eq!(output["state"], json!({"type": "string"}), "what both promise");
    assert_eq!(output["id"], json!({"type": "string", "description": "optional"}), "of one");
    let reader = Principal { rights: reading(), ..principal() };
    assert_eq!(catalog.list(&reader)[0].description, "Shows a task.", "only what may be called");
}

#[test]
fn a_shared_name_is_dispatched_by_the_keys_present() {
    let catalog = Catalog::of(&[&FIRST, &SECOND]);
    for (arguments, toolset) in [
        (json!({"id": "A"}), "first"),
        (json!({"task": "A", "verbose": true}), "first"),
        (json!({"job": "J"}), "second"),
        (json!({"job": "J", "verbose": true}), "second"),
        (json!({"lines": 3}), "second"),
        (json!({"verbose": true}), "first"),
        (json!({}), "first"),
        (json!({"neither": 1}), "first"),
    ] {
        let found = catalog.find("show", &arguments).expect("listed");
        assert_eq!(found.toolset.name, toolset, "{arguments}");
    }
    assert!(catalog.find("hide", &json!({})).is_none());
}

#[test]
fn keys_of_two_tools_in_one_call_are_refused() {
    let catalog = Catalog::of(&[&FIRST, &SECOND]);
    for fits in
        [json!({"id": "A", "verbose": true}), json!({"job": "J", "x": 1}), json!({}), json!(3)]
    {
        assert!(catalog.judge("show", &fits).is_ok(), "{fits}");
    }
    for mixed in [json!({"id": "A", "job": "J"}), json!({"lines": 1, "verbose": true, "task": "A"})]
    {
        let refused = catalog.judge("show", &mixed).expect_err("mixed");
        assert!(matches!(refused, Refusal::MixedArguments { .. }), "{mixed}");
    }
}

#[test]
fn relay_and_the_board_share_names() {
    let catalog = Catalog::of(&[&toolsets::relay::TOOLSET, &toolsets::board::TOOLSET]);
    let tools = catalog.list(&principal());
    for (name, relay, board) in [
        ("jobs_submit", json!({"spec": {}}), json!({"task_id": "T", "action": "start_agent"})),
        ("jobs_get", json!({"jobId": "J"}), json!({"job_id": "J", "task_id": "T"})),
        ("jobs_cancel", json!({"jobId": "J"}), json!({"job_id": "J", "task_id": "T"})),
    ] {
        let mut listed = tools.iter().filter(|tool| tool.name == name);
        let (Some(tool), None) = (listed.next(), listed.next()) else { panic!("{name}: once") };
        assert!(!tool.input_schema.contains_key("required"), "{name}");
        let known = tool.input_schema["properties"].as_object().expect("an object");
        let mut both = relay.clone();
        for (key, value) in board.as_object().expect("an object") {
            assert!(known.contains_key(key), "{name} {key}");
            both[key] = value.clone();
        }
        let picked = |arguments| catalog.find(name, arguments).map(|found| found.toolset.name);
        assert_eq!(picked(&relay), Some("relay"), "{name}");
        assert_eq!(picked(&board), Some("board"), "{name}");
        assert_eq!(picked(&json!({"task_id": "T"})), Some("board"), "{name}");
        assert!(catalog.judge(name, &both).is_err(), "{name}");
        assert_eq!(tool.hints.destructive, name == "jobs_cancel", "{name}: the more cautious");
        assert_eq!(tool.hints.idempotent, name == "jobs_get", "{name}: the more cautious");
    }
}
