//! Reads of epics: their tasks, the workers for them, and changes that are not recorded yet.
//!
//! The conditions only find candidates. The rules are `crew/sweep.rs`, `crew/assignment.rs` and `pulls/review.rs` in the
//! domain; the tests of this crate compare both.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::crew::{Agent, AgentId};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::runs::job::JobId;
use callboard_domain::time::Timestamp;

use crate::table::agent::{AGENT, AGENT_FROM};
use crate::table::{Cells, RowReader};
use crate::{CardRow, StoreError};

#[async_trait]
pub trait EpicStore: Send + Sync {
    /// Tasks of an epic, the oldest first, without scratchpads.
    async fn epic_tasks(&self, query: EpicQuery) -> Result<Vec<CardRow>, StoreError>;
    /// Tasks of crews that a worker could take now, in every org, the oldest first.
    async fn crew_waiting(&self, limit: usize) -> Result<Vec<UnassignedTask>, StoreError>;
    /// Open tasks of crews whose epic was given up.
    async fn crew_orphans(&self, limit: usize) -> Result<Vec<UnassignedTask>, StoreError>;
    /// Tasks of crews in review whose pull request was approved, and has been merged since.
    async fn crew_merged(&self, limit: usize) -> Result<Vec<UnassignedTask>, StoreError>;
    /// Workers whose task is closed, removed or held by another actor.
    async fn crew_adrift(&self, limit: usize) -> Result<Vec<StaleWorker>, StoreError>;
    /// Workers that have an open task without an open dep, in every org.
    async fn crew_posts(&self, limit: usize) -> Result<Vec<BusyWorker>, StoreError>;
    /// Open runs of workers that do not have their task any more.
    async fn crew_strays(&self, limit: usize) -> Result<Vec<OrphanRun>, StoreError>;
    /// Workers for a task: those that are on it already, then idle ones that did not fail, the longest idle first.
    async fn workers_for(&self, org: &str, task: TaskId) -> Result<Vec<Agent>, StoreError>;
    async fn workers_count(&self, org: &str) -> Result<u64, StoreError>;
    /// Whether a task of the org works in a folder of this name.
    async fn workspace_is_taken(&self, org: &str, name: &str) -> Result<bool, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpicQuery {
    pub org: Arc<str>,
    pub epic: TaskId,
    /// Empty: of every phase.
    pub phases: Vec<Phase>,
    /// The last id of the page before.
    pub after: Option<Id>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnassignedTask {
    pub org: Arc<str>,
    pub task: TaskId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleWorker {
    pub org: Arc<str>,
    pub agent: AgentId,
    /// The task that the worker was on.
    pub task: TaskId,
}

/// A worker with its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyWorker {
    pub org: Arc<str>,
    pub agent: AgentId,
    pub task: TaskId,
    pub phase: Phase,
    /// The time of its last call, or of the last heartbeat of its run.
    pub heard_at: Timestamp,
    /// Whether its task has an open run.
    pub is_run: bool,
    /// When its newest unread mail came.
    pub mail_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanRun {
    pub org: Arc<str>,
    pub job: JobId,
}

/// How many workers are considered for one task.
pub(crate) const WORKERS_MAX: usize = 20;

impl EpicQuery {
    /// Values: the org, the epic and the id to stay above.
    pub(crate) fn page(&self, sign: char) -> String {
        let words: Vec<String> =
            self.phases.iter().map(|phase| format!("'{}'", phase.as_str())).collect();
        let phases = match words.is_empty() {
            true => String::new(),
            false => format!("AND t.phase IN ({})", words.join(", ")),
        };
        format!(
            "t.org = {sign}1 AND t.parent = {sign}2 AND t.id > {sign}3 AND t.removed_at IS NULL \
             {phases} ORDER BY t.id LIMIT {}",
            self.limit
        )
    }
}

/// The `CROSS JOIN` makes SQLite begin at the cards with a workspace: it would go through all tasks.
const CREW_TASKS: &str = "SELECT o.name, t.id, t.prefix FROM cards c CROSS JOIN tasks t \
     JOIN orgs o ON o.id = t.org JOIN tasks e ON e.id = t.parent \
     WHERE t.id = c.task AND c.workspace IS NOT NULL AND t.removed_at IS NULL";

pub(crate) fn waiting(limit: usize) -> String {
    format!(
        "{CREW_TASKS} AND t.phase = 'initial' AND t.open_deps = 0 AND t.assignee IS NULL \
         AND t.blocked IS NULL AND NOT t.is_plan AND e.removed_at IS NULL \
         AND e.phase NOT IN ('closed_done', 'closed_canceled') \
         AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.id = t.newest_attempt \
             AND a.ended_at IS NULL) \
         ORDER BY t.created_at, t.id LIMIT {limit}"
    )
}

pub(crate) fn orphans(limit: usize) -> String {
    format!(
        "{CREW_TASKS} AND t.phase NOT IN ('closed_done', 'closed_canceled') \
         AND e.phase = 'closed_canceled' ORDER BY t.id LIMIT {limit}"
    )
}

/// `is_awaited` says that a merge was requested, and `phase_at` leaves out a merge before this review began.
pub(crate) fn merged(limit: usize) -> String {
    format!(
        "{CREW_TASKS} AND t.phase = 'review' AND EXISTS (SELECT 1 FROM pulls p \
             WHERE p.task = t.id AND p.job IS NULL AND p.status = 'merged' \
             AND p.is_awaited AND p.changed_at >= t.phase_at) \
         AND NOT EXISTS (SELECT 1 FROM pulls p WHERE p.task = t.id AND p.job IS NULL \
             AND p.status = 'open') ORDER BY t.id LIMIT {limit}"
    )
}

pub(crate) fn read_waiting<R: Cells>(
    row: &mut RowReader<'_, R>,
) -> Result<UnassignedTask, R::Error> {
    Ok(UnassignedTask { org: row.str()?.into(), task: row.task()? })
}

/// A task without an assignee compares as NULL, so its worker is not among those found.
pub(crate) fn adrift(limit: usize) -> String {
    format!(
        "SELECT o.name, g.task, t.prefix, g.id FROM crew_agents g JOIN orgs o ON o.id = g.org \
         JOIN tasks t ON t.id = g.task \
         WHERE t.removed_at IS NOT NULL OR t.phase IN ('closed_done', 'closed_canceled') \
             OR t.assignee <> {ACTOR} \
         ORDER BY g.org, g.id LIMIT {limit}"
    )
}

pub(crate) fn read_adrift<R: Cells>(row: &mut RowReader<'_, R>) -> Result<StaleWorker, R::Error> {
    let UnassignedTask { org, task } = read_waiting(row)?;
    Ok(StaleWorker { org, agent: row.word("agent", AgentId::parse)?, task })
}

/// The actor of the agent `g`.
const ACTOR: &str = "CASE WHEN g.id LIKE '%:%' THEN g.id ELSE 'agent:' || g.id END";

pub(crate) fn posts(limit: usize) -> String {
    format!(
        "SELECT o.name, t.id, t.prefix, g.id, t.phase, g.last_active_at, a.heartbeat_at, \
             EXISTS (SELECT 1 FROM runs r JOIN jobs j ON j.id = r.job \
                 WHERE r.task = t.id AND j.due_at IS NOT NULL), \
             (SELECT m.created_at FROM mails m WHERE m.org = g.org AND m.to_agent = g.id \
                 AND m.read_at IS NULL ORDER BY m.id DESC LIMIT 1) \
         FROM crew_agents g JOIN orgs o ON o.id = g.org JOIN tasks t ON t.id = g.task \
         JOIN attempts a ON a.id = t.newest_attempt \
         WHERE g.type = 'WORKER' AND a.ended_at IS NULL AND a.kind = 'crew' AND a.actor = {ACTOR} \
             AND t.removed_at IS NULL AND t.open_deps = 0 \
             AND t.phase NOT IN ('closed_done', 'closed_canceled') \
         ORDER BY g.org, g.id LIMIT {limit}"
    )
}

pub(crate) fn read_post<R: Cells>(row: &mut RowReader<'_, R>) -> Result<BusyWorker, R::Error> {
    let StaleWorker { org, agent, task } = read_adrift(row)?;
    Ok(BusyWorker {
        org,
        agent,
        task,
        phase: row.word("phase", Phase::parse)?,
        // The agent's last call, and the last heartbeat of its attempt.
        heard_at: row.time()?.max(row.time()?),
        is_run: row.flag()?,
        mail_at: row.time_if()?,
    })
}

/// A run is open while `due_at` is set. Its worker must be on the task and hold the live attempt.
pub(crate) fn strays(limit: usize) -> String {
    format!(
        "SELECT o.name, j.id FROM jobs j JOIN orgs o ON o.id = j.org JOIN tasks t ON t.id = j.task \
         WHERE j.kind = 'crew' AND j.due_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM crew_agents g \
             JOIN attempts a ON a.id = t.newest_attempt \
             WHERE g.org = t.org AND g.task = t.id AND t.removed_at IS NULL \
                 AND a.ended_at IS NULL AND a.kind = 'crew' AND a.actor = {ACTOR}) \
         ORDER BY j.id LIMIT {limit}"
    )
}

pub(crate) fn read_stray<R: Cells>(row: &mut RowReader<'_, R>) -> Result<OrphanRun, R::Error> {
    Ok(OrphanRun { org: row.str()?.into(), job: JobId(row.id()?) })
}

/// Values: the org and the task.
/// `a.task IS NULL` sorts false before true, so workers that are on the task come first.
pub(crate) fn workers_for(sign: char) -> String {
    format!(
        "SELECT {AGENT} FROM {AGENT_FROM} WHERE a.org = {sign}1 AND a.type = 'WORKER' \
         AND (a.task = {sign}2 OR a.task IS NULL AND a.failed_at IS NULL) \
         ORDER BY a.task IS NULL, a.idle_since, a.id LIMIT {WORKERS_MAX}"
    )
}

/// Values: the org.
pub(crate) fn workers_count(sign: char) -> String {
    format!("SELECT count(*) FROM crew_agents WHERE org = {sign}1 AND type = 'WORKER'")
}

/// Values: the org and the name.
pub(crate) fn workspace_taken(sign: char) -> String {
    format!(
        "SELECT EXISTS (SELECT 1 FROM cards c JOIN tasks t ON t.id = c.task \
         WHERE t.org = {sign}1 AND c.workspace = {sign}2)"
    )
}
