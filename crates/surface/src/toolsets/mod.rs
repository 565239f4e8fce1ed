//! The vocabularies. A toolset is words at the edge; every rule behind them lives in the domain.

pub mod board;
pub mod crew;
pub mod execution;
pub mod graph;
pub mod relay;

use crate::tool::Toolset;

/// The text of a task's resource, in every toolset.
pub(crate) use graph::view::task as task_resource;

/// Every toolset, in the order in which `all` merges them.
/// The order also decides whose description comes first where two toolsets share the name of a tool.
pub const ALL: &[&Toolset] =
    &[&graph::TOOLSET, &execution::TOOLSET, &relay::TOOLSET, &board::TOOLSET, &crew::TOOLSET];

/// The toolset whose words stand where a request names no tool.
pub(crate) const PLAIN: &Toolset = &graph::TOOLSET;

/// Reads `graph`, `graph,board` or `all`; the error names the unknown word.
pub fn parse(names: &str) -> Result<Vec<&'static Toolset>, String> {
    if names.trim() == "all" {
        return Ok(ALL.to_vec());
    }
    let mut found: Vec<&'static Toolset> = Vec::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let toolset = ALL.iter().find(|toolset| toolset.name == name).ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|toolset| toolset.name).collect();
            format!("unknown toolset '{name}'; toolsets are {}, all", known.join(", "))
        })?;
        // Named twice, a toolset would clash with itself in the catalog.
        if !found.iter().any(|known| known.name == toolset.name) {
            found.push(toolset);
        }
    }
    if found.is_empty() {
        return Err("the list of toolsets is empty; write graph or all".into());
    }
    Ok(found)
}
