//! Who acts: `human:ana`, `agent:claude-1`, `runner:host-2`, `system:relay`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Characters after the colon; all are ASCII, so these are also bytes.
const NAME_CHARS_MAX: usize = 100;

/// What an actor is. Only people pass the rules that ask for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorKind {
    Human,
    Agent,
    Runner,
    System,
}

/// A name that is always well formed: `parse` is the only way in.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(Arc<str>);

impl Actor {
    /// The words before the colon.
    pub const KINDS: [&str; 4] = ["human", "agent", "runner", "system"];

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The kind by the word before the colon; `parse` admits four of them.
    pub fn kind(&self) -> ActorKind {
        match self.0.split(':').next() {
            Some("human") => ActorKind::Human,
            Some("runner") => ActorKind::Runner,
            Some("system") => ActorKind::System,
            _ => ActorKind::Agent,
        }
    }

    pub fn is_human(&self) -> bool {
        self.kind() == ActorKind::Human
    }

    /// Turns any text into an actor's name: each character that is not allowed becomes a dash.
    pub fn name_from(text: &str) -> String {
        let name: String = text
            .chars()
            .map(|c| if is_name_char(c) { c } else { '-' })
            .take(NAME_CHARS_MAX)
            .collect();
        if name.is_empty() { "unknown".into() } else { name }
    }
}

/// Characters that are safe in a file name, a branch and a header alike.
fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid actor '{0}': write human:NAME, agent:NAME, runner:NAME or system:NAME, \
     the name 1..100 letters, digits, '.', '_' or '-'"
)]
pub struct ActorError(String);

impl FromStr for Actor {
    type Err = ActorError;

    fn from_str(text: &str) -> Result<Self, ActorError> {
        let (kind, name) = text.split_once(':').unwrap_or(("", ""));
        let known = Self::KINDS.contains(&kind);
        let named = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_name_char);
        if known && named {
            Ok(Self(text.into()))
        } else {
            Err(ActorError(text.chars().take(120).collect()))
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
