//! What grows in a store: how much of it there is, and the steps that remove what is over. `domain::retention` judges each
//! row; this file has the SQL that both databases share.
//!
//! A step looks at a bounded number of rows in the order of their keys, and removes those that may go in one transaction.
//! Keys rise with time, so a walk ends at the first row that is young enough to stay.

use async_trait::async_trait;
use callboard_domain::ids::Id;
use callboard_domain::policy::Phase;
use callboard_domain::retention::{Growing, LogFloor, WorkEnd, may_go};
use callboard_domain::time::Timestamp;

use crate::StoreError;
use crate::table::{Cells, RowReader};

#[async_trait]
pub trait RetentionStore: Send + Sync {
    /// Where the log begins to be whole.
    async fn log_floor(&self) -> Result<LogFloor, StoreError>;
    /// One step of a walk through the rows of a kind.
    async fn prune(&self, step: PruneStep) -> Result<Pruned, StoreError>;
    /// How much there is of everything that grows. Goes through whole tables.
    async fn grown(&self) -> Result<Vec<Grown>, StoreError>;
    /// The size of the database. Cheap.
    async fn space(&self) -> Result<Space, StoreError>;
    /// Gives unused pages of the file back to the disk, at most this many. Returns how many; 0 when none are left, and
    /// where the database does that itself.
    async fn pages_give_back(&self, pages_max: u32) -> Result<u64, StoreError>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruneStep {
    pub kind: Growing,
    /// `next` of the step before.
    pub after: Option<RowKey>,
    /// Rows that were over before this time may go.
    pub before: Timestamp,
    /// How many rows are looked at.
    pub limit: usize,
    /// `false`: the rows that may go are counted and stay.
    pub removes: bool,
}

impl PruneStep {
    /// The first step of a walk.
    pub fn first(kind: Growing, before: Timestamp, limit: usize) -> Self {
        Self { kind, after: None, before, limit, removes: true }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    pub removed: usize,
    /// Where the next step begins; `None` at the end of the walk.
    pub next: Option<RowKey>,
}

/// The key of a row: the number of an event, or the id of any other row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKey {
    Number(i64),
    Id(Id),
}

/// How much there is of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown {
    /// `Growing::as_str`, or one of `jobs`, `artifacts`, `run_logs`, `retry_keys`.
    pub kind: &'static str,
    pub rows: u64,
    /// The bytes of texts and files, without those of numbers and indexes.
    pub bytes: u64,
    pub oldest: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub bytes: u64,
    /// Bytes of the file that no row uses.
    pub free_bytes: u64,
    /// Whether unused pages can be given back to the disk.
    pub shrinks: bool,
}

/// A row as `Looked::of` judges it.
pub(crate) struct OldRow {
    pub key: RowKey,
    pub at: Timestamp,
    pub ended: WorkEnd,
}

/// The result of looking at the rows of one step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    pub going: Vec<RowKey>,
    /// The time of the last row that goes.
    pub going_at: Timestamp,
    pub next: Option<RowKey>,
}

impl Looked {
    pub fn of(rows: &[OldRow], step: &PruneStep) -> Self {
        let mut looked = Self::default();
        for row in rows {
            if row.at >= step.before {
                return looked;
            }
            if may_go(row.at, row.ended, step.before) {
                looked.going.push(row.key);
                looked.going_at = row.at;
            }
        }
        looked.next = rows.last().filter(|_| rows.len() == step.limit).map(|row| row.key);
        looked
    }

    /// The first number above the events that go.
    pub fn floor(&self) -> Option<i64> {
        match self.going.last() {
            Some(RowKey::Number(seq)) => Some(seq + 1),
            Some(RowKey::Id(_)) | None => None,
        }
    }

    pub fn pruned(&self) -> Pruned {
        Pruned { removed: self.going.len(), next: self.next }
    }
}

/// The rows of a step. Values: the key before, the limit.
///
/// The newest event stays, because the next number comes after it. Events that are not in the counts of their day yet stay,
/// too.
pub(crate) fn walk(kind: Growing, sign: char) -> String {
    let task = "t.phase, t.phase_at, t.removed_at";
    match kind {
        Growing::Event => format!(
            "SELECT e.seq, e.at, e.task IS NULL, {task} FROM events e LEFT JOIN tasks t ON t.id = e.task \
             WHERE e.seq > {sign}1 AND e.seq < (SELECT max(seq) FROM events) \
                 AND e.seq <= (SELECT seq FROM day_counts_position) ORDER BY e.seq LIMIT {sign}2"
        ),
        // The work of an agent is its epic, or its task. An agent that is gone has none. PostgreSQL would read all tasks
        // for a join.
        Growing::Decision => {
            let work = "coalesce(a.epic, a.task)";
            let of = |column: &str| format!("(SELECT t.{column} FROM tasks t WHERE t.id = {work})");
            format!(
                "SELECT d.id, d.at, {work} IS NULL, {}, {}, {} FROM decisions d \
                 LEFT JOIN crew_agents a ON a.org = d.org AND a.id = d.agent \
                 WHERE d.id > {sign}1 ORDER BY d.id LIMIT {sign}2",
                of("phase"),
                of("phase_at"),
                of("removed_at")
            )
        }
        Growing::Mail => format!(
            "SELECT m.id, m.created_at, m.read_at FROM mails m \
             WHERE m.id > {sign}1 ORDER BY m.id LIMIT {sign}2"
        ),
        Growing::Delivery => format!(
            "SELECT d.job, d.ended_at, j.ended_at FROM deliveries d JOIN jobs j ON j.id = d.job \
             WHERE d.job > {sign}1 ORDER BY d.job LIMIT {sign}2"
        ),
    }
}

/// One row of `walk`.
pub(crate) fn read<R: Cells>(
    kind: Growing,
    row: &mut RowReader<'_, R>,
) -> Result<OldRow, R::Error> {
    let key = match is_numbered(kind) {
        true => RowKey::Number(row.int()?),
        false => RowKey::Id(row.id()?),
    };
    let at = row.time()?;
    let ended = match kind {
        Growing::Event | Growing::Decision => match row.flag()? {
            true => WorkEnd::Alone,
            // An event of a task that has no row is damage, and stays for `callboard doctor` to find.
            false => match row.word_if("phase", Phase::parse)? {
                Some(phase) => WorkEnd::of_task(phase, row.time()?, row.time_if()?),
                None => WorkEnd::No,
            },
        },
        Growing::Mail | Growing::Delivery => row.time_if()?.map_or(WorkEnd::No, WorkEnd::At),
    };
    Ok(OldRow { key, at, ended })
}

/// Whether the key of a kind is a number.
pub(crate) fn is_numbered(kind: Growing) -> bool {
    kind == Growing::Event
}

/// The tables of a kind and the column of its key, in the order in which their rows are deleted.
pub(crate) fn tables(kind: Growing) -> &'static [(&'static str, &'static str)] {
    match kind {
        Growing::Event => &[("events", "seq")],
        Growing::Decision => &[("decisions", "id")],
        Growing::Mail => &[("mails", "id")],
        Growing::Delivery => &[("deliveries", "job"), ("jobs", "id")],
    }
}

/// Raises the floor. Values: the number, the time.
pub(crate) fn raise(sign: char) -> String {
    format!(
        "UPDATE log_floor SET seq = CASE WHEN seq < {sign}1 THEN {sign}1 ELSE seq END, \
             at = CASE WHEN at < {sign}2 THEN {sign}2 ELSE at END"
    )
}

pub(crate) const FLOOR: &str = "SELECT seq, at FROM log_floor";

pub(crate) fn read_floor<R: Cells>(row: &mut RowReader<'_, R>) -> Result<LogFloor, R::Error> {
    Ok(LogFloor { seq: row.count()?, at: row.time()? })
}

/// Everything that grows, with its rows, the columns whose bytes count, and the time of a row.
const GROWN: [(&str, &str, &str, &str); 8] = [
    (
        "events",
        "events r",
        "octet_length(r.data) + octet_length(r.name) + octet_length(r.actor)",
        "r.at",
    ),
    ("mail", "mails r", "octet_length(r.subject) + octet_length(r.body)", "r.created_at"),
    (
        "decisions",
        "decisions r",
        "octet_length(r.decision) + octet_length(r.reasoning) + coalesce(octet_length(r.context), 0)",
        "r.at",
    ),
    ("deliveries", "deliveries r", "octet_length(r.data)", "r.ended_at"),
    (
        "jobs",
        "jobs j JOIN runs r ON r.job = j.id WHERE j.kind = 'run'",
        "octet_length(r.spec) + octet_length(r.artifacts)",
        "j.created_at",
    ),
    ("artifacts", "files r WHERE r.name LIKE 'artifacts/%'", "r.size", "r.at"),
    ("run_logs", "files r WHERE r.name LIKE '.callboard/runs/%'", "r.size", "r.at"),
    ("retry_keys", "retries r", "coalesce(octet_length(r.kept), 0)", "r.at"),
];

/// Each kind with the statement that measures it.
pub(crate) fn grown() -> impl Iterator<Item = (&'static str, String)> {
    GROWN.iter().map(|(kind, rows, bytes, at)| {
        let sums = format!("count(*), CAST(coalesce(sum({bytes}), 0) AS bigint), min({at})");
        (*kind, format!("SELECT {sums} FROM {rows}"))
    })
}

pub(crate) fn read_grown<R: Cells>(
    kind: &'static str,
    row: &mut RowReader<'_, R>,
) -> Result<Grown, R::Error> {
    Ok(Grown { kind, rows: row.count()?, bytes: row.count()?, oldest: row.time_if()? })
}
