//! The stored rows of a call with a retry key: the effect of each of its commands, written in the command's own
//! transaction, and the whole answer as soon as there is one.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::refusal::Refusal;
use callboard_domain::retry::{Digest, HeldTask, RetryKey, not_kept};
use callboard_domain::task::standing::Standing;
use callboard_domain::time::Timestamp;
use callboard_domain::world::Queued;
use serde::{Deserialize, Serialize};

use crate::{Applied, Op, Outcome, StoreError};

/// How long a key is known.
/// A client that comes back later starts a new call; the sweep bounds the table.
pub const RETRIES_KEPT_MS: i64 = 24 * 3600 * 1000;
/// The largest result that is kept. A larger one cannot be repeated, and a repeated call is told so.
pub const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// How many rows one `prune_retries` deletes, so that writers get their turn in between.
pub(crate) const PRUNED_MAX: usize = 500;

/// Deletes old rows by the index `retries_by_age`. Value: the time.
pub(crate) fn prune(sign: char) -> String {
    format!(
        "DELETE FROM retries WHERE (org, actor, tool, key, step) IN (SELECT org, actor, tool, key, step \
         FROM retries WHERE at < {sign}1 ORDER BY at LIMIT {PRUNED_MAX})"
    )
}

/// The step of the row with the whole call's answer.
pub(crate) const ANSWER: &str = "";

#[async_trait]
pub trait RetryStore {
    /// The stored call with this key from the last 24 hours.
    async fn retry(&self, call: CallKey) -> Result<Option<KeptCall>, StoreError>;
    /// Stores the answer of a call, unless another call with its key was faster.
    async fn answer_keep(&self, call: CallKey, answer: &str) -> Result<(), StoreError>;
    /// Deletes some retry keys older than this. Returns how many; 0 when none are left.
    async fn prune_retries(&self, before: Timestamp) -> Result<usize, StoreError>;
}

/// The full key of a call: a retry key belongs to one org, actor and tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallKey {
    pub org: Arc<str>,
    pub actor: Actor,
    /// The tool is part of the key, so one key may serve a claim and the heartbeat after it.
    pub tool: &'static str,
    pub key: RetryKey,
}

/// The stored data of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCall {
    /// `None`: stored by an older version, which kept no digest of the arguments.
    pub digest: Option<Digest>,
    pub answer: KeptAnswer,
    /// The task that the call gave its caller.
    pub held: Option<HeldTask>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptAnswer {
    /// Commands of the call are committed, and the call itself has not ended yet or never will.
    /// A repeat carries the call on: commands with a row are answered from it, the others are done now.
    NotYet,
    /// The answer exceeded `KEPT_BYTES_MAX`.
    TooLarge,
    Text(String),
}

/// A row of the table, in either database.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The name of the command, or `ANSWER`.
    pub step: String,
    pub at: Timestamp,
    pub digest: Option<Digest>,
    /// `Kept` as JSON; in the row of the answer, its text. `None` when the answer was too large.
    pub kept: Option<String>,
}

/// The stored effect of a command.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Whether the first call changed anything: a repeat reports what the first one did.
    changed: bool,
    at: Timestamp,
    before: Option<Standing>,
    pub held: Option<HeldTask>,
    /// `None` where the outcome was too large.
    outcome: Option<Outcome>,
}

impl KeptCall {
    pub(crate) fn of(rows: &[Row]) -> Option<Self> {
        // Any row will do: `earlier` refuses a key whose rows have another digest, so all rows of a key share one.
        let first = rows.first()?;
        let answer = match rows.iter().find(|row| row.step == ANSWER) {
            None => KeptAnswer::NotYet,
            Some(row) => match &row.kept {
                Some(text) => KeptAnswer::Text(text.clone()),
                None => KeptAnswer::TooLarge,
            },
        };
        let commands = rows.iter().filter(|row| row.step != ANSWER);
        let held = commands.filter_map(Row::parsed).find_map(|kept| kept.held);
        Some(Self { digest: first.digest, answer, held })
    }
}

impl Row {
    /// The row of a command that was just carried out under a key.
    pub fn of(op: &Op, applied: &Applied) -> Option<Self> {
        let key = op.retry_key.as_ref()?;
        let (task, newest) = match &applied.outcome {
            Outcome::Task(record) => (Some(&record.task), record.newest.as_ref()),
            Outcome::Attempt(attempt) => (None, Some(&**attempt)),
            _ => (None, None),
        };
        // A repeated claim must not answer with a task that the caller has lost since. `held` is what to compare.
        let held = HeldTask::after(&op.command, &op.actor, task, newest, applied.at);
        let mut kept = Kept {
            changed: applied.changed,
            at: applied.at,
            before: applied.before,
            held,
            outcome: Some(applied.outcome.clone()),
        };
        // The row is written anyway. It still stops a second effect; only the result cannot be shown again.
        if kept.text().len() > KEPT_BYTES_MAX {
            kept.outcome = None;
        }
        // One call may run several commands, so a row is kept for each by its name.
        let (step, digest) = (op.command.name(), Some(key.digest()));
        Some(Self { step, at: applied.at, digest, kept: Some(kept.text()) })
    }

    pub fn is_known(&self, now: Timestamp) -> bool {
        self.at > now.plus_ms(-RETRIES_KEPT_MS)
    }

    pub fn parsed(&self) -> Option<Kept> {
        serde_json::from_str(self.kept.as_deref()?).ok()
    }
}

impl Kept {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("an outcome is made of plain values")
    }

    /// Repeats the first result.
    pub fn again(self, tool: &str) -> Result<Applied, Refusal> {
        let Self { changed, at, before, outcome, .. } = self;
        let outcome = outcome.ok_or_else(|| not_kept(tool))?;
        Ok(Applied {
            outcome,
            before,
            but: None,
            last_seq: None,
            at,
            taken: None,
            changed,
            replayed: true,
            queued: Queued::default(),
        })
    }
}

/// The earlier effect of this command under its key; `rows` are those that have not expired.
pub(crate) fn earlier(rows: &[Row], op: &Op) -> Result<Option<Kept>, Refusal> {
    let Some(key) = &op.retry_key else { return Ok(None) };
    for row in rows {
        // The key of a call with other arguments is refused: its stored result would answer another question.
        key.judge(op.tool, row.digest)?;
        row.digest.ok_or_else(|| not_kept(op.tool))?;
    }
    let step = op.command.name();
    match rows.iter().find(|row| row.step == step) {
        Some(row) => row.parsed().map(Some).ok_or_else(|| not_kept(op.tool)),
        None => Ok(None),
    }
}

/// The stored form of a digest.
pub(crate) fn hex(digest: Digest) -> String {
    callboard_domain::hex::hex(digest.0)
}

pub(crate) fn unhex(text: &str) -> Option<Digest> {
    let mut digest = [0; 32];
    // Checked before any slice: a cut inside a character of several bytes would panic.
    let fits = text.len() == 64 && text.is_ascii();
    for (n, byte) in digest.iter_mut().enumerate().filter(|_| fits) {
        *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok()?;
    }
    fits.then_some(Digest(digest))
}

/// The stored form of an answer; `None` for one that is too large.
pub(crate) fn answer_text(answer: &str) -> Option<&str> {
    Some(answer).filter(|answer| answer.len() <= KEPT_BYTES_MAX)
}
