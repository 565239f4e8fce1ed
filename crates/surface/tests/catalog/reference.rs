//! Prints `docs/reference/<toolset>.md` from the tool tables: arguments, results, and the codes that transcripts show.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use callboard_domain::board::settings::SettingKey;
use callboard_domain::policy::Policy;
use callboard_domain::rights::{AgentType, Profile};
use callboard_engine::context::{Principal, Rights};
use callboard_surface::catalog::Catalog;
use callboard_surface::output;
use callboard_surface::tool::{Tool, Toolset};
use callboard_surface::toolsets;
use serde_json::{Map, Value};

use super::words::ARGUMENTS;

/// `CALLBOARD_BLESS=1` rewrites the pages.
#[test]
fn every_tool_is_documented() {
    let refused = Refused::read();
    for toolset in toolsets::ALL {
        let text = page(toolset, &refused);
        let name = format!("docs/reference/{}.md", toolset.name);
        let path = root().join(&name);
        if std::env::var_os("CALLBOARD_BLESS").is_some() {
            std::fs::write(&path, &text).expect("docs can be written");
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "{name} is out of date; run the tests with CALLBOARD_BLESS=1");
    }
}

#[test]
fn every_row_of_the_words_describes_an_argument() {
    let mut known = BTreeSet::new();
    for toolset in toolsets::ALL {
        for tool in toolset.tools {
            for argument in arguments(&(tool.input)(), "") {
                known.extend(rows_for(toolset, tool, &argument.path));
            }
        }
    }
    for (toolset, argument, ..) in ARGUMENTS {
        let row = ((*toolset).to_owned(), (*argument).to_owned());
        assert!(known.contains(&row), "{toolset} has no argument {argument}; delete its row");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(toolset: &Toolset, refused: &Refused) -> String {
    let name = toolset.name;
    let (guide, about) = match name {
        "graph" => ("tasks", "a task graph with checks and sessions"),
        "execution" => {
            ("tasks", "a queue of leased tasks with verification, comments and knowledge")
        }
        "board" => ("reviews", "a kanban board with agents, reviews and merges"),
        "relay" => ("jobs", "jobs that run agents and return patches"),
        _ => ("crews", "supervisors and workers that share an epic"),
    };
    let mut text = format!(
        "# Toolset `{name}`\n\nThis page is generated from the tool table and from the transcripts. \
         `CALLBOARD_BLESS=1 cargo test --test catalog` rewrites it.\n\nThe toolset `{name}` is {about}. Connect with \
         `callboard mcp --toolsets {name}`, or over HTTP at `/mcp/{name}`. The guide is \
         [{guide}.md](../guide/{guide}.md).\n\n| tool | what it does | needs |\n|---|---|---|\n"
    );
    for tool in toolset.tools {
        let description = described(tool);
        let first = description.split_once(". ").map_or(description.as_str(), |(first, _)| first);
        let link = tool.name.replace('`', "");
        text += &format!(
            "| [`{}`](#{link}) | {} | {} |\n",
            tool.name,
            cell(first.trim_end_matches('.')),
            needs(toolset, tool)
        );
    }
    if toolset.name == "graph" {
        text += "\n`tools/list` of graph is kept below 8,000 bytes. The published schema of a result therefore names only \
                 the keys that a call is made for. The answer has the other keys of the task or session, too.\n";
    }
    for tool in toolset.tools {
        text += &section(toolset, tool, refused);
    }
    text + &codes(toolset, refused)
}

fn section(toolset: &Toolset, tool: &Tool, refused: &Refused) -> String {
    let mut text = format!("\n## `{}`\n\n{}\n\n", tool.name, described(tool));
    text += &format!("Needs {}.{}\n", needs(toolset, tool), nature(tool));
    let arguments = arguments(&(tool.input)(), "");
    if arguments.is_empty() {
        text += "\nThe tool takes no arguments.\n";
    } else {
        text += "\n| argument | type | required | limits | default | meaning |\n|---|---|---|---|---|---|\n";
    }
    for argument in arguments {
        let (default, meaning) = meaning(toolset, tool, &argument);
        let required = if argument.required { "yes" } else { "" };
        text += &format!(
            "| `{}` | {} | {required} | {} | {} | {} |\n",
            argument.path,
            argument.kind,
            cell(&argument.limits),
            cell(&default),
            cell(&meaning)
        );
    }
    if !tool.aliases.is_empty() {
        let names = tool.aliases.iter().map(|(other, real)| format!("`{other}` for `{real}`"));
        let names: Vec<String> = names.collect();
        text += &format!("\nOther accepted names: {}.\n", names.join(", "));
    }
    text += "\n| result | type | |\n|---|---|---|\n";
    for key in output::keys(tool.output) {
        text += &result(&key, "");
    }
    let codes = refused.of(toolset.name, tool.name);
    if !codes.is_empty() {
        let codes: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
        text += &format!("\nRefusals in the transcripts: {}.\n", codes.join(", "));
    }
    text
}

fn result(key: &output::Key, above: &str) -> String {
    let path = format!("{above}{}", key.name);
    let schema = output::schema(std::slice::from_ref(key));
    let kind = kind(&schema["properties"][key.name]);
    let presence = if key.optional { "may be missing" } else { "" };
    let mut text = format!("| `{path}` | {kind} | {presence} |\n");
    for inner in key.keys() {
        text += &result(inner, &format!("{path}."));
    }
    text
}

fn described(tool: &Tool) -> String {
    tool.description.replace("{initial}", &Policy::default().initial().name)
}

/// The rights that a call needs.
fn needs(toolset: &Toolset, tool: &Tool) -> String {
    let profile = tool.profile.map(|profile| format!(", profile `{}`", profile.as_str()));
    let types: Vec<&str> = AgentType::ALL
        .iter()
        .filter(|kind| toolset.hooks.callers.is_some() && is_shown(toolset, tool, **kind))
        .map(|kind| kind.as_str())
        .collect();
    let types = match types.as_slice() {
        [] => String::new(),
        types => format!(", type {}", types.join(" or ")),
    };
    format!("scope `{}`{}{types}", tool.scope.as_str(), profile.unwrap_or_default())
}

fn is_shown(toolset: &Toolset, tool: &Tool, kind: AgentType) -> bool {
    let principal = Principal::local("agent:test".parse().expect("an actor"));
    let rights = Rights {
        agent_type: Some(kind),
        profile_wanted: Some(Profile::Maintainer),
        ..principal.rights
    };
    toolset.shows(tool, &Principal { rights, ..principal })
}

fn nature(tool: &Tool) -> String {
    let hints = tool.hints;
    [
        (hints.read_only, " Changes nothing."),
        (hints.idempotent && !hints.read_only, " Idempotent: repeating the call changes nothing."),
        (hints.destructive, " Destructive."),
        (tool.may_be_long, " May take long."),
        (tool.on_task, " A caller bound to one task may name only that task."),
    ]
    .iter()
    .filter_map(|(is_so, words)| is_so.then_some(*words))
    .collect()
}

struct Argument {
    path: String,
    kind: String,
    required: bool,
    limits: String,
    description: Option<String>,
}

/// Every argument of a schema, those inside of objects and lists after the argument that holds them.
fn arguments(schema: &Map<String, Value>, above: &str) -> Vec<Argument> {
    let mut found = Vec::new();
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, value) in properties.into_iter().flatten() {
        let path = format!("{above}{name}");
        let form = full_form(value);
        found.push(Argument {
            path: path.clone(),
            kind: kind(value),
            required: required.contains(&name.as_str()),
            limits: limits(form),
            description: value["description"].as_str().map(str::to_owned),
        });
        if let Some(inner) = form.as_object() {
            found.extend(arguments(inner, &format!("{path}.")));
        }
        if let Some(items) = full_form(&form["items"]).as_object() {
            found.extend(arguments(items, &format!("{path}[].")));
        }
    }
    found
}

/// The last and fullest of several accepted forms.
fn full_form(value: &Value) -> &Value {
    let forms = value["anyOf"].as_array().or(value["oneOf"].as_array());
    forms.and_then(|forms| forms.iter().rfind(|form| form["type"] != "null")).unwrap_or(value)
}

fn kind(value: &Value) -> String {
    let value = full_form(value);
    let of_one = |kind: &str| match (kind, full_form(&value["items"])["type"].as_str()) {
        ("array", Some(of)) => format!("list of {of}s"),
        ("array", None) => "list".to_owned(),
        (kind, _) => kind.to_owned(),
    };
    match &value["type"] {
        Value::String(one) => of_one(one),
        Value::Array(several) => {
            let several: Vec<String> =
                several.iter().filter_map(Value::as_str).map(of_one).collect();
            several.join(" or ")
        }
        _ => "any".into(),
    }
}

fn limits(form: &Value) -> String {
    let words = form["enum"].as_array().or(form["items"]["enum"].as_array());
    let words = words.into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    let mut limits = Vec::new();
    if !words.is_empty() {
        limits.push(words.join(", "));
    }
    for (least, most, unit) in [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ] {
        match (number(&form[least]), number(&form[most])) {
            (Some(least), Some(most)) if least == most => limits.push(format!("{least}{unit}")),
            (Some(least), Some(most)) => limits.push(format!("{least}..{most}{unit}")),
            (Some(least), None) => limits.push(format!("at least {least}{unit}")),
            (None, Some(most)) => limits.push(format!("at most {most}{unit}")),
            (None, None) => {}
        }
    }
    if let Some(pattern) = form["pattern"].as_str() {
        limits.push(format!("`{pattern}`"));
    }
    limits.join("; ")
}

/// A bound as a reader would write it: `1`, not `1.0`.
fn number(value: &Value) -> Option<String> {
    value.as_number().map(|number| number.to_string().trim_end_matches(".0").to_owned())
}

/// The rows of the words that may describe an argument, the closest first.
fn rows_for(toolset: &Toolset, tool: &Tool, path: &str) -> Vec<(String, String)> {
    let mut rows = vec![(toolset.name.to_owned(), format!("{}.{path}", tool.name))];
    let mut rest = path;
    loop {
        rows.push((toolset.name.to_owned(), rest.to_owned()));
        rows.push(("*".to_owned(), rest.to_owned()));
        let Some((_, shorter)) = rest.split_once('.') else { return rows };
        rest = shorter;
    }
}

fn meaning(toolset: &Toolset, tool: &Tool, argument: &Argument) -> (String, String) {
    for (of, name) in rows_for(toolset, tool, &argument.path) {
        let row = ARGUMENTS.iter().find(|row| row.0 == of && row.1 == name);
        if let Some((_, _, default, meaning)) = row {
            let default = if argument.required { "" } else { default };
            return (default.to_owned(), (*meaning).to_owned());
        }
    }
    let is_named = |key: &&SettingKey| key.as_str().ends_with(&format!(".{}", argument.path));
    if let Some(key) =
        SettingKey::ALL.iter().find(is_named).filter(|_| tool.name == "settings_update")
    {
        let key = key.as_str();
        return (
            "unchanged".into(),
            format!("The setting `{key}`; see [settings.md](settings.md)."),
        );
    }
    let Some(description) = &argument.description else {
        panic!(
            "describe {} of {} {} in tests/catalog/words.rs",
            argument.path, toolset.name, tool.name
        )
    };
    (String::new(), description.clone())
}

/// A text that stays in its cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The codes at the end of a page.
fn codes(toolset: &Toolset, refused: &Refused) -> String {
    let mut text = String::from(
        "\n## Codes\n\nNo table lists every code of a tool, because rules and rights refuse behind all of them. These are \
         the codes that the transcripts of the toolset show, each with one of its messages.",
    );
    text += match toolset.name {
        "graph" => {
            " The codes are those of the core; [refusals.md](refusals.md) has all of them with a way out.\n\n"
        }
        _ => {
            " [refusals.md](refusals.md) has the core's refusals, which the toolset says in its own words.\n\n"
        }
    };
    text += "| code | message, for example | tools |\n|---|---|---|\n";
    for (code, seen) in refused.codes(toolset.name) {
        let tools: Vec<String> = seen.tools.iter().map(|tool| format!("`{tool}`")).collect();
        text += &format!("| `{code}` | {} | {} |\n", cell(&seen.message), tools.join(", "));
    }
    let voice = toolset.voice;
    text += "\nAny tool can also end with one of these codes.\n\n| code | when |\n|---|---|\n";
    for (code, when) in [
        (voice.unavailable, "The store cannot be reached or written."),
        (voice.damaged, "The database is damaged; repeating the call does not help."),
        (voice.canceled, "The call was canceled."),
        (
            voice.internal,
            "Something broke inside Callboard. The answer has the trace id of the server's log.",
        ),
    ] {
        text += &format!("| `{code}` | {when} |\n");
    }
    text
}

/// A code with one of its messages and the tools that answered it.
#[derive(Default)]
struct Seen {
    message: String,
    tools: BTreeSet<String>,
}

/// The refusals in the transcripts, by toolset and code.
struct Refused(BTreeMap<&'static str, BTreeMap<String, Seen>>);

impl Refused {
    fn read() -> Self {
        let mut files = Vec::new();
        for folder in std::fs::read_dir(root().join("transcripts")).expect("transcripts") {
            let folder = folder.expect("an entry").path();
            for file in std::fs::read_dir(&folder).into_iter().flatten() {
                files.push(file.expect("an entry").path());
            }
        }
        files.sort();
        assert!(files.len() > 30, "the search for transcripts is broken");
        let catalog = Catalog::of(toolsets::ALL);
        let mut refused = Self(BTreeMap::new());
        for file in files {
            refused.add(&catalog, &std::fs::read_to_string(&file).expect("a transcript"));
        }
        refused
    }

    /// A step stands behind four spaces, its reply behind six.
    fn add(&mut self, catalog: &Catalog, text: &str) {
        let mut pending: BTreeMap<&str, (&str, Value)> = BTreeMap::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(step) = line.strip_prefix("    ").filter(|step| !step.starts_with(' ')) else {
                continue;
            };
            let mut reply = String::new();
            while let Some(line) = lines.next_if(|line| line.starts_with("      ")) {
                reply += line.trim_start_matches(' ');
                reply.push('\n');
            }
            let call = match (step.split_once("> "), step.strip_suffix('<')) {
                (Some((who, call)), _) => match who.strip_suffix('&') {
                    Some(who) => {
                        pending.insert(who, parsed(call));
                        continue;
                    }
                    None => Some(parsed(call)),
                },
                (None, Some(who)) => pending.remove(who),
                (None, None) => None,
            };
            let Some((tool, arguments)) = call else { continue };
            let Some(found) = catalog.find(tool, &arguments) else { continue };
            let Some((code, message)) = refusal(&reply) else { continue };
            let seen = self.0.entry(found.toolset.name).or_default().entry(code).or_default();
            if seen.message.is_empty() {
                seen.message = message;
            }
            seen.tools.insert(tool.to_owned());
        }
    }

    fn of(&self, toolset: &str, tool: &str) -> Vec<&str> {
        let codes = self.0.get(toolset).into_iter().flatten();
        codes.filter(|(_, seen)| seen.tools.contains(tool)).map(|(code, _)| code.as_str()).collect()
    }

    fn codes(&self, toolset: &str) -> impl Iterator<Item = (&String, &Seen)> {
        self.0.get(toolset).into_iter().flatten()
    }
}

/// `tool {json} | keys` as the tool and its arguments.
fn parsed(call: &str) -> (&str, Value) {
    let (tool, rest) = call.split_once(' ').unwrap_or((call, ""));
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    (tool, values.next().and_then(Result::ok).unwrap_or_default())
}

/// The code and the message of a reply that says no.
fn refusal(reply: &str) -> Option<(String, String)> {
    if let Some(error) = reply.strip_prefix("error ") {
        let (code, message) = error.lines().next()?.split_once(": ")?;
        return Some((code.to_owned(), message.to_owned()));
    }
    let reply: Value = serde_json::from_str(reply).ok()?;
    let is_error = reply["error"].is_object() || reply["error.code"].is_string();
    if reply["success"] != false && reply["ok"] != false && !is_error {
        return None;
    }
    let text = |key: &str, path: &str| {
        let value = [&reply["error"][key], &reply[path], &reply[key]];
        value.iter().find_map(|value| value.as_str()).map(str::to_owned)
    };
    Some((text("code", "error.code")?, text("message", "error.message").unwrap_or_default()))
}
