//! Keeps tasks, attempts, knowledge and events. The trait `Store` is made of one trait per noun; each database
//! implements it.
//!
//! A store loads the rows a command needs, asks `domain::decide`, and writes the change with its
//! events in one transaction. No rule lives here, and nothing above knows which database it is.

mod board;
pub mod clock;
mod crew;
mod feed;
mod file;
mod handles;
mod id_table;
mod journal;
mod judge;
mod kept;
pub mod knowledge;
mod migrations;
mod pages;
mod part;
pub mod postgres;
mod pulls;
mod replies;
mod retention;
mod retries;
mod review;
mod runs;
mod skip;
pub mod sqlite;
mod table;
pub mod tally;
mod task;
pub mod transfer;
mod watch;

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::command::Command;
use callboard_domain::event::LoggedEvent;
use callboard_domain::handle::{Handle, HandleChange, HandleId};
use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::knowledge::{KnowledgeEntry, KnowledgeId, KnowledgeUse};
use callboard_domain::policy::Policy;
use callboard_domain::refusal::Refusal;
use callboard_domain::retry::RetryKey;
use callboard_domain::rights::Rights;
use callboard_domain::runs::job::{Job, JobId, JobKind};
use callboard_domain::task::attempt::{Attempt, Health};
use callboard_domain::task::comment::{Comment, CommentId};
use callboard_domain::task::standing::Standing;
use callboard_domain::task::{TaskRecord, TaskRow};
use callboard_domain::time::Timestamp;
use callboard_domain::token::{Token, TokenId};
use callboard_domain::world::Queued;

pub use board::cards::{CardPage, CardQuery, CardRow, CardStore, Removed};
pub use board::columns::{BoardAround, BoardRow, BoardStore, ColumnPage, ColumnsQuery, StuckQuery};
pub use board::org::{BackQuery, OrgStore};
pub use board::progress::EpicProgress;
pub use board::rows::{ReviewRow, TaskTitle};
pub use board::stats::{DaysKept, StatsStore};
pub use callboard_domain::desk::Outcome;
pub use crew::epics::{BusyWorker, EpicQuery, EpicStore, OrphanRun, StaleWorker, UnassignedTask};
pub use crew::{AgentQuery, CrewStore, DecisionQuery, MAIL_SHOWN_CHARS, MailQuery, MailSeen};
pub use feed::EventSink;
pub use file::{FILE_BYTES_MAX, FileError, FilePart, FileSpan, NewFile, PART_BYTES};
use knowledge::{Embedded, KnowledgeHit, KnowledgeQuery, KnowledgeVersion, Unembedded};
pub use migrations::Migrated;
pub use pages::{NewPageKey, PageHash, PageStore};
pub use pulls::{OpenPulls, PullOf, PullQuery, PullStore, PullTurn, PullsOf};
pub use retention::{Grown, PruneStep, Pruned, RetentionStore, RowKey, Space};
pub use retries::{CallKey, KEPT_BYTES_MAX, KeptAnswer, KeptCall, RETRIES_KEPT_MS, RetryStore};
pub use review::{ReviewStore, ReviewerOf};
pub use runs::deliveries::DeliveryStore;
pub use runs::{RunOrder, RunPage, RunQuery, RunSeen, RunStore, RunTail, RunnerSeen};
pub use task::query::{AsWork, TaskQuery, TaskScope};
pub use task::queue::{ClaimedTask, TasksByState};
pub use task::span::{AttemptSeen, AttemptSpan, REACH_MS, SpanStore};

/// The target under which every statement of a read is traced, with `CALLBOARD_LOG` or by a test: `sql`, and for SQLite
/// the `file` and the `steps` of its virtual machine. Values are not traced.
pub const STATEMENTS: &str = "callboard_store::statements";

/// The target under which every look of a waiting process at the log is traced: `by` says whether the `bell` rang or the
/// `poll` of each second came (`start` for the first look), `seen` is the last event that was handed over. A poll finds
/// everything that a bell finds, only later, so nothing else shows that the bell works.
pub const LOOKS: &str = "callboard_store::looks";

#[async_trait]
pub trait Store:
    RunStore
    + OrgStore
    + StatsStore
    + CardStore
    + BoardStore
    + CrewStore
    + EpicStore
    + DeliveryStore
    + PullStore
    + RetryStore
    + RetentionStore
    + PageStore
    + ReviewStore
    + SpanStore
    + Send
    + Sync
{
    /// Loads, decides and commits. When this returns `Ok`, the change is on disk.
    async fn apply(&self, op: Op) -> Result<Applied, ApplyError>;
    /// As `apply`, for commands that go together: they are decided one after another and share one commit, on PostgreSQL
    /// only if none of them is wide (`Needs::is_wide`). Each has an answer of its own, in this order; a refused command
    /// does not touch the others.
    async fn apply_all(&self, ops: Vec<Op>) -> Vec<Result<Applied, ApplyError>>;

    /// The rows as written; `TaskRecord::as_of` judges the lease.
    async fn task(&self, org: &str, id: TaskId) -> Result<Option<TaskRecord>, StoreError>;
    /// Tasks as they stand now, leases judged.
    async fn tasks(&self, query: TaskQuery) -> Result<Vec<TaskRow>, StoreError>;
    /// Tasks that an actor could start now, best priority first, then oldest. The rows are as written.
    async fn tasks_free(&self, query: FreeQuery) -> Result<Vec<TaskRow>, StoreError>;
    async fn comments(&self, org: &str, task: TaskId) -> Result<Vec<Comment>, StoreError>;
    async fn comment(&self, org: &str, id: CommentId) -> Result<Option<Comment>, StoreError>;
    /// The whole output of a completed attempt.
    async fn output(&self, attempt: AttemptId) -> Result<Option<String>, StoreError>;
    async fn job(&self, org: &str, id: JobId) -> Result<Option<Job>, StoreError>;
    /// A task's open verify job.
    async fn verify_job(&self, org: &str, task: TaskId) -> Result<Option<Job>, StoreError>;
    /// Jobs of an org: the open ones, the oldest first, or the ended ones, the newest end first.
    async fn jobs(&self, query: JobQuery) -> Result<Vec<Job>, StoreError>;
    /// Jobs of a kind that a runner may take now, longest due first.
    async fn jobs_due(&self, kind: JobKind, limit: usize) -> Result<Vec<DueJob>, StoreError>;
    /// The amount of a metric that an org used in a month.
    async fn quota_used(&self, org: &str, metric: &str, period: &str) -> Result<u64, StoreError>;
    async fn quota_add(
        &self,
        org: &str,
        metric: &str,
        period: &str,
        more: u64,
    ) -> Result<(), StoreError>;
    /// Records that this process watches the leases from now on. When no process did for a while, the leases that
    /// were live then get more time; returns how many. Every write does this too, before it decides anything.
    async fn tick(&self) -> Result<usize, StoreError>;
    /// A repository of the project, on any machine.
    async fn repo(&self, project: i64) -> Result<Option<Repo>, StoreError>;
    /// The repositories of an org on a machine, with their projects; the oldest first.
    async fn repos_on(&self, org: &str, machine: &str) -> Result<Vec<OwnedRepo>, StoreError>;
    /// The project of an org that has this repository.
    async fn project_of_repo(&self, org: &str, repo: i64) -> Result<Option<Project>, StoreError>;
    /// How many tasks of every org are in which state.
    async fn tasks_by_state(&self) -> Result<TasksByState, StoreError>;
    /// When a task last became free to take, as of event `up_to`.
    async fn task_free_since(
        &self,
        task: TaskId,
        up_to: u64,
    ) -> Result<Option<Timestamp>, StoreError>;
    /// The actors to whom tasks of a project are assigned, each once.
    async fn assignees(&self, project: i64) -> Result<Vec<Actor>, StoreError>;
    /// Ids that begin with the typed text, with `PREFIX-` or without, else ids that end with it; newest first.
    async fn task_ids(
        &self,
        org: &str,
        typed: &str,
        limit: usize,
    ) -> Result<Vec<TaskId>, StoreError>;
    async fn attempt(&self, org: &str, id: AttemptId) -> Result<Option<Attempt>, StoreError>;
    async fn attempts(&self, query: AttemptQuery) -> Result<Vec<Attempt>, StoreError>;
    /// Attempts that are live as written and whose lease is over.
    async fn attempts_overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError>;
    async fn events(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError>;
    /// The number of the newest event; 0 when there is none.
    async fn last_seq(&self) -> Result<u64, StoreError>;

    async fn knowledge(
        &self,
        org: &str,
        id: KnowledgeId,
    ) -> Result<Option<KnowledgeEntry>, StoreError>;
    /// Entries of one org, the newest first.
    async fn knowledge_newest(
        &self,
        org: &str,
        limit: usize,
    ) -> Result<Vec<KnowledgeEntry>, StoreError>;
    /// Entries of one org that answer a query, best first.
    async fn knowledge_search(
        &self,
        query: KnowledgeQuery,
    ) -> Result<Vec<KnowledgeHit>, StoreError>;
    /// Changes whenever a search of this org could find something else.
    async fn knowledge_version(&self, org: &str) -> Result<KnowledgeVersion, StoreError>;
    /// Notes the uses of entries. A later use by a task takes the place of an earlier one.
    async fn knowledge_use(&self, uses: Vec<KnowledgeUse>) -> Result<(), StoreError>;
    /// The newest uses of these entries, at most `each` of an entry, the newest first. Uses by removed tasks are left
    /// out.
    async fn knowledge_uses(
        &self,
        entries: Vec<KnowledgeId>,
        each: usize,
    ) -> Result<Vec<KnowledgeUse>, StoreError>;
    /// Orgs with entries that this model has not seen.
    async fn knowledge_orgs_unembedded(
        &self,
        model: &str,
        limit: usize,
    ) -> Result<Vec<Arc<str>>, StoreError>;
    /// The entries of an org that this model has not seen, oldest first.
    async fn knowledge_unembedded(
        &self,
        org: &str,
        model: &str,
        limit: usize,
    ) -> Result<Vec<Unembedded>, StoreError>;
    /// Stores vectors of entries from `knowledge_unembedded`, in its order. An entry without parts is given up for
    /// this model.
    async fn knowledge_vectors_put(
        &self,
        model: &str,
        embedded: Vec<Embedded>,
    ) -> Result<(), StoreError>;

    /// Finds or creates the org, project and repository that a process works in.
    async fn settle(&self, place: Place) -> Result<Home, StoreError>;
    /// The org's oldest project.
    async fn project_of_org(&self, org: &str) -> Result<Option<Project>, StoreError>;
    async fn project(&self, id: i64) -> Result<Option<Project>, StoreError>;
    /// The path of a project's files on this machine.
    async fn repo_path(&self, project: i64, machine: &str) -> Result<Option<PathBuf>, StoreError>;

    /// Adds a token; creates the org if it is new.
    async fn token_add(&self, grant: TokenGrant) -> Result<Token, StoreError>;
    /// The token after the call. Idempotent: revoking again changes nothing.
    async fn token_revoke(&self, id: TokenId, by: Actor) -> Result<Option<Token>, StoreError>;
    async fn token(&self, id: TokenId) -> Result<Option<KeptToken>, StoreError>;
    /// All tokens ever added, newest first.
    async fn tokens(&self) -> Result<Vec<Token>, StoreError>;
    async fn has_tokens(&self) -> Result<bool, StoreError>;

    /// Stores a file. Refuses a name that is taken and a file that is too large.
    async fn file_put(&self, file: NewFile) -> Result<(), FileError>;
    async fn file_get(
        &self,
        org: &str,
        name: &str,
        span: FileSpan,
    ) -> Result<Option<FilePart>, StoreError>;
    /// Deletes some files of every org whose names start with `under` and that are older than `before`. Returns how
    /// many; 0 when none are left.
    async fn files_prune(&self, under: &str, before: Timestamp) -> Result<usize, StoreError>;

    /// Stores a new handle. When this returns, every process finds it.
    async fn handle_add(&self, handle: Handle) -> Result<(), StoreError>;
    /// The handle, also one that is over or expired; `now()` is current right after this call.
    async fn handle(&self, org: &str, id: HandleId) -> Result<Option<Handle>, StoreError>;
    /// Loads, lets the domain decide and writes, for all changes at once. Returns the handles after it, in the
    /// order of their changes; missing handles are left out.
    async fn handles_change(
        &self,
        changes: Vec<(HandleId, HandleChange)>,
    ) -> Result<Vec<Handle>, StoreError>;
    /// As `handles_change`, for one handle.
    async fn handle_change(
        &self,
        id: HandleId,
        change: HandleChange,
    ) -> Result<Option<Handle>, StoreError> {
        Ok(self.handles_change(vec![(id, change)]).await?.pop())
    }
    /// Deletes handles that expired before this and whose call no process keeps alive.
    async fn handles_prune(&self, before: Timestamp) -> Result<(), StoreError>;

    /// The store's time: never below the newest time in it.
    fn now(&self) -> Timestamp;

    /// The sink for committed events of every process from now on. Set once.
    fn publish_to(&self, sink: Arc<dyn EventSink>);
    /// Makes sure events committed from now on reach the sink; cheap when they already do.
    async fn listen(&self) -> Result<(), StoreError>;

    /// Checks that the store can be written to right now.
    async fn ping(&self) -> Result<(), StoreError>;
    /// Looks for damage: integrity, counters recomputed, event log against tables.
    async fn verify(&self) -> Result<Vec<Finding>, StoreError>;
    /// Writes a consistent copy beside a running store.
    async fn backup(&self, to: PathBuf) -> Result<(), StoreError>;

    fn caps(&self) -> Caps;
}

/// Differences between backends that callers may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    pub kind: &'static str,
    /// Whether other machines can share this store.
    pub shared: bool,
}

/// One command with its actor and the rules it is judged by.
#[derive(Clone, Debug)]
pub struct Op {
    pub org: Arc<str>,
    pub actor: Actor,
    pub tool: &'static str,
    /// A repeat of this key by the same actor with the same tool answers with the first result.
    pub retry_key: Option<RetryKey>,
    pub policy: Arc<Policy>,
    pub command: Command,
}

#[derive(Clone, Debug)]
pub struct Applied {
    pub outcome: Outcome,
    /// The task's standing before the command.
    pub before: Option<Standing>,
    /// A refusal that left a trace (`Change::but`).
    pub but: Option<Refusal>,
    /// The number of the last event that this change appended. `None` when it changed nothing, and when the number is
    /// not given yet: a store of several processes may number an event after its commit, unless `Needs::number` asks.
    pub last_seq: Option<u64>,
    /// The time the change happened at.
    pub at: Timestamp,
    /// Set when this change gave a free task to an actor.
    pub taken: Option<ClaimedTask>,
    /// Whether the command changed anything, now or when it was first given with its retry key.
    pub changed: bool,
    /// The result of an earlier command with this retry key; nothing was done now.
    pub replayed: bool,
    /// Work that the change left to loops in the background.
    pub queued: Queued,
}

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{}", .0.message())]
    Refused(Refusal),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or written now. The words are fit for a caller.
    #[error("{0}")]
    Unavailable(String),
    /// A newer callboard made the database. No retry helps. The words are fit for a caller.
    #[error("{0}")]
    Newer(String),
    /// The data is not what it should be.
    #[error("{0}")]
    Corrupt(String),
    #[error("{0}")]
    Internal(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeQuery {
    pub org: Arc<str>,
    /// `None`: of every project of the org.
    pub project: Option<i64>,
    /// Only tasks below this one, at any depth.
    pub below: Option<TaskId>,
    pub priority_max: Option<u16>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobQuery {
    pub org: Arc<str>,
    pub is_over: bool,
    pub kinds: Vec<JobKind>,
    /// `JobState::as_str`.
    pub state: Option<&'static str>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueJob {
    pub job: Job,
    pub org: Arc<str>,
}

/// A repository row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    pub id: i64,
    pub machine: String,
    pub path: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRepo {
    pub repo: Repo,
    pub project: Project,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptQuery {
    pub org: Arc<str>,
    pub task: Option<TaskId>,
    pub actor: Option<String>,
    pub health: Vec<Health>,
    pub policy: Arc<Policy>,
    /// Start and id of the last attempt of the page before; newest come first.
    pub after: Option<(Timestamp, Id)>,
    pub limit: usize,
}

impl AttemptQuery {
    /// One page of the found attempts, the newest start first. Attempts that two statements found count once.
    pub(crate) fn page(&self, mut found: Vec<Attempt>) -> Vec<Attempt> {
        found.sort_by_key(|attempt| Reverse((attempt.started_at, attempt.id.0)));
        found.dedup_by_key(|attempt| attempt.id);
        found.truncate(self.limit);
        found
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// `None`: of every org.
    pub org: Option<Arc<str>>,
    pub after: u64,
    pub task: Option<TaskId>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    pub attempt: AttemptId,
    pub org: Arc<str>,
}

/// The place of a process: an org, and a repository on this machine if it is in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub org: String,
    /// The name of the project if it is new; a folder of that name on another machine shares the project.
    pub project_name: String,
    /// The configured prefix; `None` leaves the project the one it has.
    pub prefix: Option<Prefix>,
    pub repo: Option<RepoPlace>,
    /// The store lies in this repository, so its project belongs to this repository, whatever the folder is called
    /// by now.
    pub store_is_inside: bool,
}

impl Place {
    /// The place of an org without a folder.
    pub fn of_org(org: &str) -> Self {
        Self {
            org: org.to_owned(),
            project_name: "default".into(),
            prefix: None,
            repo: None,
            store_is_inside: false,
        }
    }

    fn prefix_if_new(&self) -> Prefix {
        self.prefix.unwrap_or_else(|| match self.repo {
            Some(_) => Prefix::from_folder(&self.project_name),
            None => Prefix::fallback(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoPlace {
    pub machine: String,
    pub path: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    pub org: Arc<str>,
    pub project: Project,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    pub id: i64,
    pub name: String,
    pub prefix: Prefix,
}

/// A token to add. Its creator keeps the secret; this holds the hash.
#[derive(Clone, Debug)]
pub struct TokenGrant {
    pub id: TokenId,
    pub hash: TokenHash,
    pub org: String,
    pub actor: Actor,
    pub rights: Rights,
    pub lives: Option<Duration>,
    pub by: Actor,
}

impl TokenGrant {
    fn expires_at(&self, now: Timestamp) -> Option<Timestamp> {
        let ms = |lives: Duration| i64::try_from(lives.as_millis()).unwrap_or(i64::MAX);
        self.lives.map(|lives| now.plus_ms(ms(lives)))
    }

    fn token(&self, now: Timestamp) -> Token {
        Token {
            id: self.id,
            org: self.org.as_str().into(),
            actor: self.actor.clone(),
            rights: self.rights.clone(),
            created_at: now,
            created_by: self.by.clone(),
            expires_at: self.expires_at(now),
            revoked: None,
        }
    }
}

pub type TokenHash = [u8; 32];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptToken {
    pub token: Token,
    pub hash: TokenHash,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub what: String,
    pub fix: String,
}
