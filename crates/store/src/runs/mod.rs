//! Jobs for agents: the queries of a store, and the SQL both databases share.

pub(crate) mod deliveries;
pub(crate) mod jobs;

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::ids::TaskId;
use callboard_domain::runs::job::{JobId, JobKind};
use callboard_domain::runs::run::RunRecord;
use callboard_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::skip::{PagePlace, SkipOrder, merged};
use crate::{DueJob, StoreError};

/// The part of a store that keeps jobs for agents.
#[async_trait]
pub trait RunStore {
    async fn run(&self, org: &str, id: JobId) -> Result<Option<RunSeen>, StoreError>;
    async fn runs(&self, query: RunQuery) -> Result<RunPage, StoreError>;
    /// Queued jobs of a kind that a machine may run, in the order of the queue.
    async fn runs_due(
        &self,
        kind: JobKind,
        machine: &str,
        limit: usize,
    ) -> Result<Vec<DueJob>, StoreError>;
    /// The runs in these tasks' workspaces, at most this many of each task: open ones first, then the newest.
    async fn works(
        &self,
        org: &str,
        tasks: &[TaskId],
        each: usize,
    ) -> Result<Vec<RunRecord>, StoreError>;
    /// The open runs in workspaces of an org, the oldest first.
    async fn works_open(&self, org: &str, limit: usize) -> Result<Vec<RunRecord>, StoreError>;
    /// Open jobs for agents whose time, lease or hold is over.
    async fn runs_overdue(&self, limit: usize) -> Result<Vec<DueJob>, StoreError>;
    /// Jobs that processes of this machine run according to the store, and work of which processes may be left
    /// there.
    async fn runs_on(&self, machine: &str) -> Result<Vec<DueJob>, StoreError>;
    /// Stores the output of a run so far, in place of what was stored before. Ignored for a run that is over, or
    /// that another run has followed.
    async fn run_tail_put(
        &self,
        org: &str,
        job: JobId,
        fence: u64,
        text: &str,
    ) -> Result<(), StoreError>;
    /// Records that a reader follows a run's output in the store, for the next five seconds.
    async fn run_follow(&self, org: &str, job: JobId) -> Result<(), StoreError>;
    /// Whether a reader follows the run now.
    async fn run_is_followed(&self, job: JobId) -> Result<bool, StoreError>;
    async fn run_tail(&self, org: &str, job: JobId) -> Result<Option<RunTail>, StoreError>;
    /// Deletes the output of this run, because its log is stored elsewhere now.
    async fn run_tail_drop(&self, job: JobId, fence: u64) -> Result<(), StoreError>;
    /// Records that a process starts agents on a machine, now. Deletes runners that were silent for a day.
    async fn runner_seen(&self, runner: &Actor, machine: &str) -> Result<(), StoreError>;
    /// Records that the process no longer starts agents.
    async fn runner_gone(&self, runner: &Actor) -> Result<(), StoreError>;
    /// Every process on record that starts agents.
    async fn runners(&self) -> Result<Vec<RunnerSeen>, StoreError>;
    /// Deletes some jobs for agents that ended before this. Returns how many; 0 when none are left.
    async fn runs_forget(&self, before: Timestamp) -> Result<usize, StoreError>;
}

/// A job for an agent as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSeen {
    pub record: RunRecord,
    /// Its place in the org's queue, 1 for the next; only while it is queued.
    pub position: Option<u32>,
    /// The number of the event of its newest step: unique in the store, and only rising.
    pub version: u64,
}

/// A process that starts agents, as last reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerSeen {
    pub runner: Actor,
    pub machine: String,
    pub seen_at: Timestamp,
}

/// A runner that was silent for so long is deleted.
pub(crate) const RUNNERS_KEPT_MS: i64 = 86_400_000;

pub(crate) fn runner_put(runner: &str, machine: &str, now: &str) -> String {
    format!(
        "INSERT INTO runners (runner, machine, seen_at) VALUES ({runner}, {machine}, {now}) \
         ON CONFLICT (runner) DO UPDATE SET machine = excluded.machine, seen_at = excluded.seen_at"
    )
}

pub(crate) const RUNNERS: &str = "SELECT runner, machine, seen_at FROM runners ORDER BY runner";

/// The end of a run's output so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTail {
    /// The fence of the run.
    pub fence: u64,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunQuery {
    pub org: Arc<str>,
    /// `JobState::as_str`.
    pub state: Option<&'static str>,
    pub order: RunOrder,
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOrder {
    /// In the order of the queue: by priority, then the oldest.
    Queue { offset: usize },
    /// Behind this job.
    NewestFirst { after: Option<JobId> },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunPage {
    pub runs: Vec<RunSeen>,
    /// The matching jobs over all pages.
    pub total: u64,
}

/// The words of `JobState`, as the schema checks them.
const STATES: [&str; 7] = ["queued", "running", "stale", "done", "failed", "canceled", "expired"];

impl RunQuery {
    /// The number of matching jobs, from the kept counts of the states.
    pub(crate) fn total(&self, counts: &[(String, i64)]) -> u64 {
        let of_state = |state: &str| self.state.is_none_or(|wanted| wanted == state);
        let counted = counts.iter().filter(|(state, _)| of_state(state));
        counted.map(|(_, many)| many.max(&0).unsigned_abs()).sum()
    }

    /// The keys of a page in the order of the queue: priority, time, id. Values: the org, the limit, the number of jobs
    /// to skip. States are our own constants, so they stand in the text. `None` where no job matches.
    pub(crate) fn keys_sql(&self, sign: char, counts: &[(String, i64)]) -> Option<String> {
        let index = if sign == '?' { "INDEXED BY jobs_runs" } else { "" };
        let wanted = |state: &&str| {
            let is_wanted = self.state.is_none_or(|wanted| wanted == *state);
            is_wanted && counts.iter().any(|(of, many)| of == *state && *many > 0)
        };
        let part = |state: &str| {
            format!(
                "SELECT j.priority, j.created_at, j.id FROM jobs j {index} \
                 WHERE j.kind = 'run' AND j.org = {sign}1 AND j.state = '{state}'"
            )
        };
        let parts: Vec<String> = STATES.into_iter().filter(wanted).map(part).collect();
        let (limit, skip) = (format!("{sign}2"), format!("{sign}3"));
        let place = PagePlace { limit: &limit, skip: &skip, is_postgres: sign == '$' };
        let order = ["j.priority", "j.created_at", "j.id"];
        (!parts.is_empty()).then(|| merged(&parts, order, SkipOrder::Forwards, place))
    }
}

/// How many jobs one `runs_forget` deletes, so that writers get their turn in between.
pub(crate) const FORGOTTEN_MAX: usize = 100;

/// A queued job's place among those of its org. The `+` keeps SQLite from the index of an org's jobs, which also
/// has the ended ones.
pub(crate) const POSITION: &str = "CASE WHEN j.state = 'queued' THEN (SELECT count(*) FROM jobs q \
     WHERE q.kind = 'run' AND q.due_at IS NOT NULL AND q.state = 'queued' AND +q.org = j.org \
         AND (q.priority, q.created_at, q.id) <= (j.priority, j.created_at, j.id)) END";

/// Open jobs whose time, lease or hold is over by `now`. The condition for open jobs is outside of the OR, so that
/// an index leaves out the ended ones.
pub(crate) fn overdue(now: &str) -> String {
    format!(
        "j.due_at IS NOT NULL AND j.kind IN ('run', 'work', 'crew') AND (r.expires_at <= {now} \
         OR (j.state IN ('running', 'stale') AND j.due_at <= {now}))"
    )
}

/// Jobs of a kind that are free for a machine by `now`, in the order of the queue. The queue's index finds the
/// first ones; the `+` keeps SQLite from other indexes.
pub(crate) fn waiting(kind: JobKind, machine: &str, now: &str) -> String {
    let kind = kind.as_str();
    format!(
        "j.kind = '{kind}' AND j.due_at IS NOT NULL AND j.state = 'queued' AND +j.due_at <= {now} \
         AND r.expires_at > {now} AND (r.bound_to IS NULL OR r.bound_to = {machine}) \
         ORDER BY j.priority, j.created_at, j.id"
    )
}

/// Runs of which processes may be left on a machine, with the names of their orgs: those under way, and those in
/// workspaces that are over and of which nothing was seen to be gone. `columns` are those of a job `j` and an org `o`.
/// The first part goes through the open jobs, the second begins at the index `runs_left`; a `CROSS JOIN` keeps SQLite
/// to that order.
pub(crate) fn running_on(columns: &str, sign: char) -> String {
    let (open, left) = match sign {
        '?' => ("INDEXED BY jobs_by_due", "INDEXED BY runs_left"),
        _ => ("", ""),
    };
    let around = "LEFT JOIN tasks t ON t.id = j.task JOIN orgs o ON o.id = j.org";
    format!(
        "SELECT {columns} FROM jobs j {open} CROSS JOIN runs r {around} WHERE r.job = j.id \
             AND j.kind IN ('run', 'work', 'crew') AND j.due_at IS NOT NULL \
             AND j.state = 'running' AND r.runs_on = {sign}1 \
         UNION ALL SELECT {columns} FROM runs r {left} CROSS JOIN jobs j {around} \
         WHERE j.id = r.job AND r.key = '' AND r.gone_at IS NULL AND r.runs_on = {sign}1 \
             AND j.kind IN ('work', 'crew') AND j.due_at IS NULL"
    )
}

/// How many runs of a kind are on a machine.
pub(crate) fn count_on(kind: &str, machine: &str) -> String {
    format!(
        "SELECT count(*) FROM jobs j JOIN runs r ON r.job = j.id \
         WHERE j.kind = {kind} AND j.due_at IS NOT NULL AND j.state <> 'queued' \
             AND r.runs_on = {machine}"
    )
}

/// Merges runs of several kinds into one queue.
pub(crate) fn in_turn(mut runs: Vec<RunRecord>, limit: usize) -> Vec<RunRecord> {
    runs.sort_by_key(|RunRecord { job, .. }| (job.priority, job.created_at, job.id));
    runs.truncate(limit);
    runs
}

/// Stores the end of a run's output.
pub(crate) fn tail_put(job: &str, org: &str, fence: &str, text: &str) -> String {
    format!(
        "INSERT INTO run_tails (job, fence, text) \
         SELECT r.job, r.fence, {text} FROM runs r JOIN jobs j ON j.id = r.job \
         WHERE r.job = {job} AND r.org = {org} AND r.fence = {fence} \
             AND j.state IN ('running', 'stale') \
         ON CONFLICT (job) DO UPDATE SET fence = excluded.fence, text = excluded.text"
    )
}

/// How long a reader's request holds: several renewals long, so that a late one changes nothing.
pub(crate) const FOLLOWED_MS: i64 = 5000;

pub(crate) fn follow(job: &str, org: &str, until: &str) -> String {
    format!("UPDATE runs SET followed_until = {until} WHERE job = {job} AND org = {org}")
}

pub(crate) fn is_followed(job: &str, now: &str) -> String {
    format!("SELECT 1 FROM runs WHERE job = {job} AND followed_until > {now}")
}

pub(crate) fn tail(job: &str, org: &str) -> String {
    format!(
        "SELECT t.fence, t.text FROM run_tails t JOIN runs r ON r.job = t.job \
         WHERE t.job = {job} AND r.org = {org}"
    )
}

pub(crate) fn tail_drop(job: &str, fence: &str) -> String {
    format!("DELETE FROM run_tails WHERE job = {job} AND fence <= {fence}")
}
