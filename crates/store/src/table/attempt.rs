//! Attempts, with their outputs.

use callboard_domain::ids::AttemptId;
use callboard_domain::task::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState, Lease};
use callboard_domain::time::Timestamp;

use super::cell::table;
use super::{Cells, RowReader};

/// The columns of an attempt `a` with its task `t`.
pub(crate) const ATTEMPT: &str = "a.id, a.task, t.prefix, a.kind, a.fence, a.actor, a.key, \
     a.client, a.model, a.worktree, a.branch, a.head_started, a.started_at, a.heartbeat_at, \
     a.progress, a.lease_s, a.lease_expires_at, a.ended_at, a.outcome, a.words, a.head_finished";
/// How many columns these are.
/// `read_if` skips this many, so a new column must be counted here.
const ATTEMPT_COLUMNS: usize = 21;

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Attempt, R::Error> {
    read_if(row)?.ok_or_else(|| row.damaged("id"))
}

/// Reads an attempt; `None` where a LEFT JOIN found none.
pub(crate) fn read_if<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Option<Attempt>, R::Error> {
    let Some(id) = row.id_if()? else {
        row.skip(ATTEMPT_COLUMNS - 1);
        return Ok(None);
    };
    Ok(Some(Attempt {
        id: AttemptId(id),
        task: row.task()?,
        kind: row.word("kind", AttemptKind::parse)?,
        fence: row.count()?,
        actor: row.actor()?,
        key: row.text_if()?,
        client: row.text_if()?,
        model: row.text_if()?,
        worktree: row.text_if()?,
        branch: row.text_if()?,
        head_started: row.text_if()?,
        started_at: row.time()?,
        state: state(row)?,
    }))
}

/// The state from its columns. `words` holds the summary of a finished attempt and the reason of a canceled one.
fn state<R: Cells>(row: &mut RowReader<'_, R>) -> Result<AttemptState, R::Error> {
    let (heartbeat_at, progress) = (row.time()?, row.text_if()?);
    let lease = row.count_if()?.zip(row.time_if()?);
    let lease = lease.map(|(granted_s, expires_at)| Lease { granted_s, expires_at });
    let (ended_at, outcome) = (row.time_if()?, row.str_if()?);
    let (words, head) = (row.text_if()?.unwrap_or_default(), row.text_if()?);
    let Some(at) = ended_at else {
        return Ok(AttemptState::Live { heartbeat_at, progress, lease });
    };
    let end = match outcome {
        Some("finished") => AttemptEnd::Finished { summary: words, head },
        Some("canceled") => AttemptEnd::Canceled { reason: words },
        Some("released") => AttemptEnd::Released,
        Some("expired") => AttemptEnd::Expired,
        _ => return Err(row.damaged("outcome")),
    };
    Ok(AttemptState::Ended { at, end })
}

/// The columns that a live attempt changes: its state, and its place, which a run reports after its start. An attempt that
/// ended keeps their values.
pub(crate) const LIVE: [&str; 7] = [
    "heartbeat_at",
    "progress",
    "lease_s",
    "lease_expires_at",
    "worktree",
    "branch",
    "head_started",
];
/// The columns of an ended attempt's state.
pub(crate) const ENDED: [&str; 4] = ["ended_at", "outcome", "words", "head_finished"];

table! {
    ATTEMPTS = "attempts";
    fn values(attempt: &'a Attempt) {
        id: attempt.id,
        task: attempt.task,
        kind: attempt.kind.as_str(),
        fence: attempt.fence,
        actor: &attempt.actor,
        // An index makes (task, actor, key) unique, so a repeated `begin` finds this attempt even if two calls race.
        key: &attempt.key,
        client: &attempt.client,
        model: &attempt.model,
        worktree: &attempt.worktree,
        branch: &attempt.branch,
        head_started: &attempt.head_started,
        started_at: attempt.started_at,
        heartbeat_at: live(attempt).heartbeat_at,
        progress: live(attempt).progress,
        // The length that was granted, in seconds. A heartbeat renews the lease for as long again.
        lease_s: live(attempt).lease.map(|lease| lease.granted_s),
        lease_expires_at: live(attempt).lease.map(|lease| lease.expires_at),
        ended_at: ended(attempt).map(|(at, _)| at),
        outcome: ended(attempt).map(|(_, end)| end.as_str()),
        words: ended(attempt).and_then(|(_, end)| end.words()),
        head_finished: ended(attempt).and_then(|(_, end)| end.head()),
    }
}

/// The columns that only a live attempt changes.
struct LiveColumns<'a> {
    heartbeat_at: Timestamp,
    progress: Option<&'a str>,
    lease: Option<Lease>,
}

/// The state of a live attempt. A new attempt that ended already was last heard of when it began.
fn live(attempt: &Attempt) -> LiveColumns<'_> {
    match &attempt.state {
        AttemptState::Live { heartbeat_at, progress, lease } => LiveColumns {
            heartbeat_at: *heartbeat_at,
            progress: progress.as_deref(),
            lease: *lease,
        },
        AttemptState::Ended { .. } => {
            LiveColumns { heartbeat_at: attempt.started_at, progress: None, lease: None }
        }
    }
}

/// When and how an attempt ended.
fn ended(attempt: &Attempt) -> Option<(Timestamp, &AttemptEnd)> {
    match &attempt.state {
        AttemptState::Live { .. } => None,
        AttemptState::Ended { at, end } => Some((*at, end)),
    }
}

/// The columns of the state that an attempt has now.
/// An UPDATE with both sets would overwrite the last heartbeat of an attempt that ended: `live` knows it no more.
pub(crate) fn steps(attempt: &Attempt) -> &'static [&'static str] {
    if ended(attempt).is_some() { &ENDED } else { &LIVE }
}

table! {
    // Apart from attempts, because an output may be long and few reads show it.
    OUTPUTS = "outputs";
    fn output_values(attempt: AttemptId, output: &'a str) {
        attempt: attempt,
        output: output,
    }
}
