//! Repeated calls. A caller may name a call with a retry key. That key with equal arguments answers the first
//! result; any other use of the key is refused.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::actor::Actor;
use crate::command::Command;
use crate::ids::{AttemptId, TaskId};
use crate::limits::RETRY_KEY_CHARS_MAX;
use crate::policy::Policy;
use crate::refusal::found::OrNotFound as _;
use crate::refusal::{Hold, Refusal};
use crate::task::Task;
use crate::task::attempt::{Attempt, AttemptKind};
use crate::time::Timestamp;

/// SHA-256 of a call's arguments as canonical JSON: the order of keys does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Arguments that were left out equal an empty object.
    pub fn of(arguments: &Value) -> Self {
        let canonical = match arguments {
            Value::Null => "{}".into(),
            given => sorted(given.clone()).to_string(),
        };
        Self(Sha256::digest(canonical).into())
    }
}

/// The value with the keys of every object in order.
pub(crate) fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            let fields = fields.into_iter().map(|(name, value)| (name, sorted(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain => plain,
    }
}

/// A caller's name for one call, with the digest of that call's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryKey {
    key: String,
    digest: Digest,
}

impl RetryKey {
    /// `field` is the place where the caller wrote the key; messages name it.
    pub fn new(field: &str, key: &str, digest: Digest) -> Result<Self, Refusal> {
        judge_key(field, key, RETRY_KEY_CHARS_MAX)?;
        Ok(Self { key: key.to_owned(), digest })
    }

    /// As `new`, for a value that may not be a string.
    pub fn read(field: &str, given: &Value, digest: Digest) -> Result<Self, Refusal> {
        let key = given.as_str().ok_or_else(|| unfit(field, RETRY_KEY_CHARS_MAX, "no string"))?;
        Self::new(field, key, digest)
    }

    /// A token that a caller gave as the argument `field`. It finds the result of the first call, whatever the
    /// other arguments say. The character between field and token occurs in no key, so a token is never taken for a
    /// key.
    pub fn token(field: &str, token: &str) -> Result<Self, Refusal> {
        judge_key(field, token, RETRY_KEY_CHARS_MAX)?;
        Ok(Self { key: format!("{field}\u{1f}{token}"), digest: Digest::of(&Value::Null) })
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// `kept` is the digest of the first call with this key; keys of older versions have none.
    pub fn judge(&self, tool: &str, kept: Option<Digest>) -> Result<(), Refusal> {
        match kept {
            Some(kept) if kept != self.digest => Err(Refusal::KeyReused { verb: tool.into() }),
            _ => Ok(()),
        }
    }
}

/// Refuses a repeated call whose first answer was not kept. `is_repeat` says that the store found the key's earlier effect
/// and did nothing now; ids or values that only the first answer had cannot be told again.
pub fn judge_first(is_repeat: bool, verb: &str) -> Result<(), Refusal> {
    match is_repeat {
        true => Err(not_kept(verb)),
        false => Ok(()),
    }
}

/// The refusal of a repeated call whose first answer was not kept.
pub fn not_kept(verb: &str) -> Refusal {
    Refusal::AnswerNotKept { verb: verb.into() }
}

/// Judges any key that a caller chooses: 1 to `chars_max` characters, no control characters.
pub(crate) fn judge_key(field: &str, key: &str, chars_max: usize) -> Result<(), Refusal> {
    // A character has at most 4 bytes, so a huge key is refused without counting.
    let chars = if key.len() > 4 * chars_max { key.len() } else { key.chars().count() };
    if chars == 0 {
        return Err(unfit(field, chars_max, "an empty text"));
    }
    if chars > chars_max {
        return Err(unfit(field, chars_max, "a longer text"));
    }
    match key.chars().find(|c| c.is_control()) {
        Some(c) => Err(unfit(field, chars_max, &format!("U+{:04X}", u32::from(c)))),
        None => Ok(()),
    }
}

fn unfit(field: &str, chars_max: usize, got: &str) -> Refusal {
    let words = format!(
        "{field} must be a string of 1..{chars_max} characters without control characters, got {got}"
    );
    Refusal::invalid_field(field, words)
}

impl Command {
    /// The variant's name. It tells the commands of one call apart, so that none of them gets the result of
    /// another.
    pub fn name(&self) -> String {
        struct Name(String);
        impl fmt::Write for Name {
            /// The error stops the formatting behind the name: the fields are never written out.
            fn write_str(&mut self, text: &str) -> fmt::Result {
                let name = text.split(|c: char| !c.is_ascii_alphanumeric()).next();
                self.0.push_str(name.unwrap_or_default());
                if name == Some(text) { Ok(()) } else { Err(fmt::Error) }
            }
        }
        let mut name = Name(String::new());
        let _ = write!(name, "{self:?}");
        name.0
    }
}

/// A task that a call gave its caller. A repeated call is answered only while the caller still has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldTask {
    pub task: TaskId,
    /// `None` where the caller became the assignee and nothing more.
    pub attempt: Option<AttemptId>,
    pub fence: u64,
}

/// Where a held task stands now.
#[derive(Clone, Copy, Debug)]
pub struct HeldNow<'a> {
    /// `None` when the task was removed.
    pub task: Option<&'a Task>,
    pub newest: Option<&'a Attempt>,
    /// The attempt in the answer of the first call.
    pub attempt: Option<&'a Attempt>,
}

impl HeldTask {
    /// The hold that `command` gave `actor`, if its success means that the actor holds the task.
    pub fn after(
        command: &Command,
        actor: &Actor,
        task: Option<&Task>,
        newest: Option<&Attempt>,
        now: Timestamp,
    ) -> Option<Self> {
        let says_so = matches!(
            command,
            Command::TaskClaim { .. }
                | Command::TaskClaimStartable { .. }
                | Command::AttemptBegin(_)
                | Command::AttemptHeartbeat { .. }
                | Command::LeaseTake { .. }
                | Command::LeaseUpdate(_)
        );
        if !says_so {
            return None;
        }
        let live = newest.filter(|newest| newest.is_live(now) && newest.actor == *actor);
        let is_claim =
            matches!(command, Command::TaskClaim { .. } | Command::TaskClaimStartable { .. });
        match (live, task) {
            // A claim makes an assignee, whatever attempt there is.
            (Some(live), None) => Some(Self::by(live)),
            (Some(live), Some(_)) if !is_claim => Some(Self::by(live)),
            (_, Some(task)) if task.assignee.as_ref() == Some(actor) => {
                Some(Self { task: task.id, attempt: None, fence: task.fence })
            }
            _ => None,
        }
    }

    fn by(attempt: &Attempt) -> Self {
        let Attempt { id, task, fence, .. } = attempt;
        Self { task: *task, attempt: Some(*id), fence: *fence }
    }

    /// Refuses unless `actor` still holds what the first call gave.
    pub fn judge(
        &self,
        actor: &Actor,
        at: HeldNow<'_>,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let task = at.task.or_not_found(&self.task)?;
        let live = at.newest.filter(|newest| newest.is_live(now));
        let lapsed = at.newest.is_some_and(|newest| newest.lease_is_over(now));
        let holder = match live {
            Some(live) => Some(&live.actor),
            // A lease that is over frees its task, also before its end is written.
            None => task.assignee.as_ref().filter(|_| !lapsed),
        };
        let is_same = self.attempt.is_none_or(|attempt| live.is_some_and(|it| it.id == attempt));
        let session = at.attempt.filter(|attempt| attempt.kind == AttemptKind::Graph);
        match (holder, session) {
            (Some(holder), _) if holder != actor => Err(Refusal::AlreadyClaimed {
                task: self.task,
                holder: holder.clone(),
                hold: Hold::of(live, holder, policy, now),
            }),
            (Some(_), _) if is_same => Ok(()),
            (_, Some(session)) => {
                Err(Refusal::SessionTerminal { health: session.health(policy, now) })
            }
            (Some(_), None) if task.fence > self.fence => {
                Err(Refusal::StaleFence { task: self.task, given: self.fence, current: task.fence })
            }
            _ => Err(Refusal::NotHolder { task: self.task, actor: actor.clone(), holder: None }),
        }
    }
}
