//! The tools of one or several toolsets as one list. Where toolsets share a name, the listed tool
//! carries both sets of properties and a call goes to the one whose keys are present.

use std::sync::Arc;

use callboard_domain::policy::Policy;
use callboard_domain::refusal::Refusal;
use callboard_engine::context::Principal;
use serde_json::{Map, Value, json};

use crate::args;
use crate::front::{Hints, ToolInfo};
use crate::output;
use crate::tool::{Tool, Toolset};

/// The tools of a server, and the words in which they describe themselves.
pub struct Catalog {
    /// One entry for each name, in the order in which the toolsets were named.
    listed: Vec<Listed>,
    pub toolsets: Vec<&'static Toolset>,
    pub names: Vec<&'static str>,
    /// Supplies the status that `{initial}` stands for in descriptions and instructions.
    policy: Arc<Policy>,
}

/// One name with the tools that share it, one of each toolset at most.
struct Listed {
    name: &'static str,
    variants: Vec<Variant>,
}

/// One tool under a name. The schema is the full one: `args::published` shortens a copy for clients.
pub struct Variant {
    pub toolset: &'static Toolset,
    pub tool: &'static Tool,
    pub schema: Map<String, Value>,
}

impl Catalog {
    /// The catalog of these toolsets, in their order. Schemas are made once, here.
    pub fn of(toolsets: &[&'static Toolset]) -> Self {
        let mut listed: Vec<Listed> = Vec::new();
        for toolset in toolsets {
            for tool in toolset.tools {
                let variant = Variant { toolset, tool, schema: (tool.input)() };
                match listed.iter_mut().find(|entry| entry.name == tool.name) {
                    Some(entry) => entry.variants.push(variant),
                    None => listed.push(Listed { name: tool.name, variants: vec![variant] }),
                }
            }
        }
        let names = toolsets.iter().map(|toolset| toolset.name).collect();
        Self { listed, toolsets: toolsets.to_vec(), names, policy: Arc::default() }
    }

    /// The catalog with a project's own words for a status.
    pub fn with_words_of(self, policy: Arc<Policy>) -> Self {
        Self { policy, ..self }
    }

    /// The instructions of each toolset for agents that connect.
    pub fn instructions(&self) -> impl Iterator<Item = String> {
        self.toolsets.iter().map(|toolset| (toolset.instructions)(&self.policy))
    }

    /// The tools that this principal may call; nothing else about the connection matters.
    pub fn list(&self, principal: &Principal) -> Vec<ToolInfo> {
        self.listed.iter().filter_map(|entry| entry.info(principal, &self.policy)).collect()
    }

    /// The tool behind a name, picked by the arguments where several share the name.
    pub fn find(&self, name: &str, arguments: &Value) -> Option<&Variant> {
        let entry = self.listed.iter().find(|entry| entry.name == name)?;
        Some(entry.pick(arguments))
    }

    /// Refuses arguments that mix keys of several tools of one name.
    pub fn judge(&self, name: &str, arguments: &Value) -> Result<(), Refusal> {
        match self.listed.iter().find(|entry| entry.name == name) {
            Some(entry) => entry.judge(arguments),
            None => Ok(()),
        }
    }
}

impl Listed {
    /// The name as this caller sees it; `None` where the caller may call none of its tools.
    fn info(&self, principal: &Principal, policy: &Policy) -> Option<ToolInfo> {
        let is_shown = |variant: &&Variant| variant.toolset.shows(variant.tool, principal);
        // A caller that may call one of two tools sees the keys of that one alone.
        let allowed: Vec<&Variant> = self.variants.iter().filter(is_shown).collect();
        let first = allowed.first()?;
        let lines: Vec<&'static str> = allowed.iter().map(|variant| variant.tool.output).collect();
        Some(ToolInfo {
            name: self.name,
            title: first.tool.title,
            description: join(allowed.iter().map(|variant| variant.tool.description))
                .replace("{initial}", &policy.initial().name),
            input_schema: args::published(merged_schema(&allowed)),
            output_schema: output::schema(&output::merged(&lines)),
            hints: allowed
                .iter()
                .map(|variant| variant.tool.hints)
                .fold(first.tool.hints, cautious),
        })
    }

    /// A key that only one variant knows determines the variant; two such keys may not disagree.
    fn judge(&self, arguments: &Value) -> Result<(), Refusal> {
        let given = arguments.as_object().into_iter().flat_map(Map::keys);
        let mut meant: Option<(&str, &Variant)> = None;
        for key in given {
            let mut knowing = self.variants.iter().filter(|variant| variant.knows(key));
            // A key that no variant knows, or several, says nothing about the variant; `args::read` judges it later.
            let (Some(variant), None) = (knowing.next(), knowing.next()) else { continue };
            match meant {
                None => meant = Some((key, variant)),
                Some((_, other)) if other.toolset.name == variant.toolset.name => {}
                Some((one, _)) => {
                    let (one, other) = (one.to_owned(), key.clone());
                    return Err(Refusal::MixedArguments { verb: self.name.into(), one, other });
                }
            }
        }
        Ok(())
    }

    /// The variant that understands most of the given keys, and among those the one that misses the fewest; toolset
    /// order breaks ties.
    fn pick(&self, arguments: &Value) -> &Variant {
        let empty = Map::new();
        let given = arguments.as_object().unwrap_or(&empty);
        let fit = |variant: &Variant| {
            let known = given.keys().filter(|key| variant.knows(key)).count();
            let missing = variant.required().filter(|key| !given.contains_key(*key)).count();
            (std::cmp::Reverse(known), missing)
        };
        self.variants.iter().min_by_key(|variant| fit(variant)).expect("a listed name has a tool")
    }
}

impl Variant {
    fn knows(&self, key: &str) -> bool {
        let properties = self.schema.get("properties").and_then(Value::as_object);
        properties.is_some_and(|properties| properties.contains_key(key))
            || self.tool.aliases.iter().any(|(other, _)| *other == key)
    }

    fn required(&self) -> impl Iterator<Item = &str> {
        let required = self.schema.get("required").and_then(Value::as_array);
        required.into_iter().flatten().filter_map(Value::as_str)
    }
}

/// Hints that hold for both of two tools.
/// A client may skip a confirmation on the strength of a hint, so the merged hint claims the less harmless case.
fn cautious(one: Hints, other: Hints) -> Hints {
    Hints {
        read_only: one.read_only && other.read_only,
        destructive: one.destructive || other.destructive,
        idempotent: one.idempotent && other.idempotent,
        open_world: one.open_world || other.open_world,
    }
}

/// The descriptions of several tools in one text, from which a model has to choose the keys.
fn join<'d>(descriptions: impl Iterator<Item = &'d str>) -> String {
    descriptions.collect::<Vec<_>>().join(" Or: ")
}

/// The properties of all variants; a key is required if every variant requires it.
fn merged_schema(variants: &[&Variant]) -> Map<String, Value> {
    let [only] = variants else {
        let mut properties = Map::new();
        for variant in variants {
            let own = variant.schema.get("properties").and_then(Value::as_object);
            for (name, schema) in own.into_iter().flatten() {
                // Where both toolsets have a key, the schema of the toolset that was named first is shown.
                properties.entry(name.clone()).or_insert_with(|| schema.clone());
            }
        }
        let by_all = |name: &&str| variants.iter().all(|v| v.required().any(|r| r == *name));
        let required: Vec<&str> =
            variants.first().into_iter().flat_map(|v| v.required()).filter(by_all).collect();
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), properties.into());
        if !required.is_empty() {
            schema.insert("required".into(), json!(required));
        }
        return schema;
    };
    only.schema.clone()
}
