//! What `init` writes into a file of a client: entries at a path, and when one that stands there is left alone.

use serde_json::Value;

/// The start of every command that hooks of ours run, by which they are known again.
pub const HOOK_COMMAND: &str = "callboard hook ";

/// A value at a path of names.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientEntry {
    pub at: Vec<&'static str>,
    pub kind: EntryKind,
    pub value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// The MCP server. The name is ours; arguments and variables that a user added to it stay.
    Server,
    /// A key that may be the user's: written only where none stands.
    Free,
    /// One item of a list that others write, too. Ours runs `callboard hook`.
    Item,
}

/// A file that cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenFile {
    pub line: usize,
    pub words: String,
}

/// A text after our part was taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrippedText {
    pub text: String,
    /// Whether it holds anything; a file without is removed, unless it was there before ours.
    pub has_others: bool,
}

impl BrokenFile {
    pub fn not_an_object(line: usize, name: &str) -> Self {
        Self { line, words: format!("{name} is not an object") }
    }
}

impl ClientEntry {
    /// The entry's name in a record.
    pub fn name(&self) -> String {
        self.at.join("/")
    }

    /// The part of a value at the entry's place that is ours; of a list the items of ours.
    pub fn part_of(&self, found: Value) -> Option<Value> {
        match self.kind {
            EntryKind::Server | EntryKind::Free => Some(found),
            EntryKind::Item => {
                let Value::Array(mut items) = found else { return None };
                items.retain(|item| self.is_ours(item));
                (!items.is_empty()).then_some(Value::Array(items))
            }
        }
    }

    /// The part as `init` writes it.
    pub fn part(&self) -> Value {
        match self.kind {
            EntryKind::Server | EntryKind::Free => self.value.clone(),
            EntryKind::Item => Value::Array(vec![self.value.clone()]),
        }
    }

    /// Whether the value that stands there serves already. A server may differ in everything but how it is reached.
    pub fn is_served_by(&self, found: &Value) -> bool {
        match self.kind {
            EntryKind::Free => true,
            EntryKind::Item => *found == self.value,
            EntryKind::Server => ["url", "httpUrl", "command"].iter().all(|name| {
                match (&self.value[*name], &found[*name]) {
                    (Value::Null, found) => found.is_null(),
                    (wanted, found) if *name == "command" => {
                        found.is_array() == wanted.is_array() && !found.is_null()
                    }
                    (wanted, found) => wanted == found,
                }
            }),
        }
    }

    /// Whether an item of a list is one of ours, also of an earlier version.
    pub fn is_ours(&self, item: &Value) -> bool {
        runs_hook(item)
    }
}

/// Whether a hook, or a group of hooks, runs `callboard hook`.
pub fn runs_hook(item: &Value) -> bool {
    let runs = |name: &str| item[name].as_str().is_some_and(|it| it.starts_with(HOOK_COMMAND));
    let inner = item["hooks"].as_array();
    runs("command")
        || runs("bash")
        || inner.is_some_and(|inner| !inner.is_empty() && inner.iter().all(runs_hook))
}
