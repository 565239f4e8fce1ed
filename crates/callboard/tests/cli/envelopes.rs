//! One envelope for every list of `--json`: the output fits `docs/reference/cli.schema.json`.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::fixture::World;

/// The schema of each form, by its name.
fn forms() -> HashMap<String, Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.schema.json");
    let text = std::fs::read_to_string(path).expect("the schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    let name = |form: &Value| form["properties"]["schema"]["const"].as_str().map(str::to_owned);
    let forms = schema["oneOf"].as_array().expect("forms").iter();
    forms.map(|form| (name(form).expect("a name"), form.clone())).collect()
}

/// Whether every key of the CLI's own JSON is camelCase; words of tools stand below the foreign keys.
fn is_camel(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().all(|(key, value)| {
            let is_foreign = ["data", "details", "context", "value"].contains(&key.as_str());
            !key.contains('_') && (is_foreign || is_camel(value))
        }),
        Value::Array(items) => items.iter().all(is_camel),
        _ => true,
    }
}

/// A board with an item in every list that needs no agent.
fn busy() -> World {
    let world = World::project();
    let id = world.task(&["Add flag", "--check", "manual: reads well"]);
    world.task(&["Free"]);
    world.ok(&["epic", "add", "Importer"]);
    world.ok(&["agent", "add", "w1", "--type", "WORKER"]);
    world.ok(&["learn", "Flags are parsed by clap"]);
    world.ok(&["token", "add", "--actor", "agent:ci"]);
    world.ok(&["mail", "send", "human", "Hello", "A text", "--actor", "agent:w1"]);
    let call = |tool: &str, arguments: Value, toolset: &str| {
        let arguments = arguments.to_string();
        world.ok(&["call", tool, &arguments, "--toolsets", toolset, "--actor", "agent:w1"]);
    };
    call("propose_plan", json!({"tasks": [{"title": "A", "type": "PAIR"}]}), "board");
    let asked = json!({"task_id": id, "summary": "it is there"});
    call("request_review", asked, "board");
    let decided = json!({"title": "clap", "body": "it is there"});
    call("mcp__system__log_decision", decided, "crew");
    world
}

#[test]
fn every_list_has_the_documented_envelope() {
    let (world, forms) = (busy(), forms());
    let lists: &[(&str, &[&str], bool)] = &[
        ("task.list", &["task", "list"], true),
        ("next", &["next"], true),
        ("review.list", &["review"], true),
        ("log", &["log"], true),
        ("agent.list", &["agent", "list"], true),
        ("epic.list", &["epic", "list"], true),
        ("mail.list", &["mail", "list"], true),
        ("decision.list", &["decisions"], true),
        ("plan.list", &["plan", "list"], true),
        ("token.list", &["token", "list"], true),
        ("knowledge.list", &["search", "flags"], true),
        ("config.list", &["config"], true),
        ("pull.list", &["pull", "list"], false),
        ("webhook.list", &["webhook", "list"], false),
        ("job.list", &["job", "list"], false),
        ("gc", &["gc"], false),
    ];
    for (name, command, is_filled) in lists {
        let printed = world.ok(&[*command, &["--json"]].concat()).json();
        let schema = format!("callboard.{name}/1");
        assert_eq!(printed["schema"], schema, "{command:?}");
        let form = forms.get(&schema).unwrap_or_else(|| panic!("{schema} is not documented"));
        let items = printed["items"].as_array().expect("items");
        assert_eq!(!items.is_empty(), *is_filled, "{command:?}: {printed}");
        assert!(printed.get("next").is_some(), "{command:?}");
        let keys = form["properties"]["items"]["items"]["required"].as_array().expect("keys");
        for (item, key) in items.iter().flat_map(|item| keys.iter().map(move |key| (item, key))) {
            let key = key.as_str().expect("a key");
            assert!(item.get(key).is_some(), "{command:?}: {key} is missing in {item}");
        }
        assert!(is_camel(&printed), "{command:?}: {printed}");
    }
    let lists_known = forms.values().filter(|form| form["properties"].get("items").is_some());
    assert_eq!(lists_known.count(), lists.len(), "every documented list is looked at");
}

#[test]
fn objects_name_their_form_too() {
    let (world, forms) = (World::project(), forms());
    let id = world.ok(&["task", "add", "A", "--json"]).json();
    assert_eq!(id["schema"], "callboard.task/1");
    let id = id["id"].as_str().expect("an id").to_owned();
    let objects: &[(&str, &[&str])] = &[
        ("task", &["task", "show", &id]),
        ("task", &["claim", &id]),
        ("status", &["status"]),
        ("review", &["review", &id]),
        ("epic", &["epic", "add", "E"]),
        ("agent", &["agent", "add", "w1", "--type", "WORKER"]),
        ("token", &["token", "add", "--actor", "agent:ci"]),
        ("knowledge", &["learn", "x"]),
        ("config", &["config", "get", "graph.prefix"]),
        ("task.told", &["tell", &id, "mind the tests"]),
        ("task.removed", &["task", "rm", &id]),
    ];
    for (name, command) in objects {
        let printed = world.ok(&[*command, &["--json"]].concat()).json();
        let schema = format!("callboard.{name}/1");
        assert_eq!(printed["schema"], schema, "{command:?}");
        assert!(forms.contains_key(&schema), "{schema} is not documented");
        assert!(is_camel(&printed), "{command:?}: {printed}");
    }
}

/// A job that no runner takes here.
fn patch() -> Value {
    let commit = "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d";
    let url = "https://example.org/shop.git";
    json!({
        "repo": {"type": "git", "url": url, "baseBranch": "main", "baselineCommit": commit},
        "task": {"title": "A", "description": "B", "acceptance": ["C"]},
        "scope": {"readPaths": ["src/"], "fileGlobs": ["**/*.rs"], "disallowReformatting": false},
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {
            "preferredModel": "any",
            "sandbox": "read-only",
            "askPolicy": "untrusted",
            "priority": "P1",
            "ttlS": 1800,
        },
        "idempotencyKey": "key",
    })
}

#[test]
fn what_becomes_of_a_job_names_its_form() {
    let (world, forms) = (World::project(), forms());
    let settings =
        "[general]\ndefault_worker_agent = \"mine\"\n\n[executors.mine]\ncommand = [\"true\"]\n";
    world.write(&world.callboard("config.local.toml"), settings);
    let id = world.task(&["A"]);
    let named = |name: &str, command: &[&str]| {
        let printed = world.ok(&[command, &["--json"]].concat()).json();
        let schema = format!("callboard.{name}/1");
        assert_eq!(printed["schema"], schema, "{command:?}");
        assert!(forms.contains_key(&schema), "{schema} is not documented");
        assert!(is_camel(&printed), "{command:?}: {printed}");
        printed
    };
    let job = |printed: &Value, key: &str| printed[key].as_str().expect("a job").to_owned();
    let ran = job(&named("run", &["run", &id]), "job");
    assert_eq!(named("job", &["job", "show", &ran])["id"], ran);
    named("run.stopped", &["stop", &id]);
    let again = job(&named("run", &["run", &id]), "job");
    named("job.canceled", &["job", "cancel", &again]);
    let spec = world.root().join("spec.json");
    world.write(&spec, &patch().to_string());
    let spec = spec.display().to_string();
    let submitted = job(&named("job.submitted", &["job", "submit", &spec]), "jobId");
    assert_eq!(named("job", &["job", "show", &submitted])["id"], submitted);
    let refused = world.run(&["job", "show", "job_x", "--json"]);
    let error: Value = serde_json::from_str(&refused.stderr).expect("one document");
    assert_eq!(error["schema"], "callboard.error/1");
    assert!(forms.contains_key("callboard.error/1"));
}
