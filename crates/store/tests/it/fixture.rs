//! A store in a temporary place, and short forms of what tests ask of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use callboard_domain::command::{AttemptBegin, Command, TaskCreate};
use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::policy::{Phase, Policy};
use callboard_domain::retry::{Digest, RetryKey};
use callboard_domain::task::TaskRecord;
use callboard_domain::task::attempt::AttemptKind;
use callboard_domain::time::Timestamp;
use callboard_store::clock::ManualClock;
use callboard_store::postgres::PostgresStore;
use callboard_store::sqlite::SqliteStore;
use callboard_store::{Applied, ApplyError, FreeQuery, Home, Op, Outcome, Place, Store};
use serde_json::Value;

use crate::schema::Schema;

pub struct Fixture {
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    pub home: Home,
    pub policy: Arc<Policy>,
    pub place: Arc<Database>,
}

/// The place of a fixture's rows; deleted with the last fixture on it.
pub enum Database {
    Folder(tempfile::TempDir),
    Schema(Schema),
}

static NEXT: AtomicU64 = AtomicU64::new(1);

pub fn next_id() -> Id {
    Id(u128::from(NEXT.fetch_add(1, Ordering::SeqCst)) << 32)
}

impl Fixture {
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::at(Arc::new(Database::Folder(folder))).await
    }

    /// A store in a schema of its own; `None` without a PostgreSQL to test with.
    pub async fn postgres() -> Option<Self> {
        let schema = Schema::new()?;
        Some(Self::at(Arc::new(Database::Schema(schema))).await)
    }

    /// As `postgres`, through a pooler that lends a server for one transaction at a time.
    pub async fn pooled() -> Option<Self> {
        let schema = Schema::pooled()?;
        Some(Self::at(Arc::new(Database::Schema(schema))).await)
    }

    pub async fn at(place: Arc<Database>) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_700_000_000_000_000)));
        let store: Arc<dyn Store> = match &*place {
            Database::Folder(folder) => {
                let store = SqliteStore::open(&folder.path().join("test.db"), clock.clone());
                Arc::new(store.expect("a new store opens"))
            }
            Database::Schema(schema) => {
                let store = PostgresStore::open(schema.url(), Some(clock.clone())).await;
                Arc::new(store.expect("a new store opens"))
            }
        };
        let home = store.settle(self::place("default")).await.expect("settles");
        Self { store, clock, home, policy: Arc::default(), place }
    }

    /// A second store on this database, as another process would open it.
    pub async fn neighbour(&self) -> Self {
        Self::at(self.place.clone()).await
    }

    pub fn folder(&self) -> &std::path::Path {
        match &*self.place {
            Database::Folder(folder) => folder.path(),
            Database::Schema(_) => panic!("PostgreSQL has no folder"),
        }
    }

    /// A retry key; its arguments are always the same here.
    pub fn key(&self, key: &str) -> Option<RetryKey> {
        Some(RetryKey::new("key", key, Digest::of(&Value::Null)).expect("a key"))
    }

    pub fn op(&self, who: &str, command: Command) -> Op {
        Op {
            org: self.home.org.clone(),
            actor: who.parse().expect("an actor"),
            tool: "test",
            retry_key: None,
            policy: self.policy.clone(),
            command,
        }
    }

    pub async fn act(&self, who: &str, command: Command) -> Result<Applied, ApplyError> {
        self.store.apply(self.op(who, command)).await
    }

    pub async fn done(&self, who: &str, command: Command) -> Applied {
        self.act(who, command).await.expect("accepted")
    }

    /// The refusal's code; empty when the command was accepted.
    pub async fn code(&self, who: &str, command: Command) -> &'static str {
        match self.act(who, command).await {
            Ok(applied) => applied.but.map_or("", |refusal| refusal.code()),
            Err(ApplyError::Refused(refusal)) => refusal.code(),
            Err(ApplyError::Store(error)) => panic!("{error}"),
        }
    }

    pub fn new_task(&self, title: &str, deps: &[TaskId]) -> TaskCreate {
        TaskCreate {
            task: TaskId { id: next_id(), prefix: self.home.project.prefix },
            project: self.home.project.id,
            reference: None,
            title: title.into(),
            body: String::new(),
            priority: 500,
            parent: None,
            deps: deps.to_vec(),
            checks: Vec::new(),
            verification: None,
            execution_contract: None,
            over_quota: None,
            card: Default::default(),
            phase: Phase::Initial,
            is_plan: false,
            notes: Vec::new(),
        }
    }

    pub async fn create(&self, title: &str, deps: &[TaskId]) -> TaskId {
        let new = self.new_task(title, deps);
        let id = new.task;
        self.done("human:ana", Command::TaskCreate(new)).await;
        id
    }

    pub fn begin(&self, task: TaskId, key: &str, lease_s: Option<u32>) -> Command {
        let kind = if lease_s.is_some() { AttemptKind::Execution } else { AttemptKind::Graph };
        Command::AttemptBegin(AttemptBegin {
            attempt: AttemptId(next_id()),
            task,
            kind,
            key: Some(key.into()),
            expected_actor: None,
            client: Some("test".into()),
            bound_client: None,
            model: None,
            worktree: Some("../wt".into()),
            branch: Some("main".into()),
            head: Some("abc".into()),
            lease_s,
            takeover: false,
        })
    }

    pub fn to(&self, task: TaskId, to: &str) -> Command {
        Command::TaskTransition { task, to: to.into(), checked: None, work: None }
    }

    /// Titles of the tasks that could be started now; the first ten of the whole org unless `change` says
    /// otherwise.
    pub async fn free(&self, change: impl FnOnce(&mut FreeQuery)) -> Vec<String> {
        let org = self.home.org.clone();
        let mut query =
            FreeQuery { org, project: None, below: None, priority_max: None, limit: 10 };
        change(&mut query);
        let rows = self.store.tasks_free(query).await.expect("readable");
        rows.into_iter().map(|row| row.task.title).collect()
    }

    pub async fn record(&self, task: TaskId) -> TaskRecord {
        let found = self.store.task(&self.home.org, task).await.expect("readable");
        found.expect("there is such a task")
    }

    pub async fn assert_sound(&self) {
        assert_eq!(self.store.verify().await.expect("verifies"), Vec::new());
    }
}

pub fn place(org: &str) -> Place {
    Place {
        org: org.into(),
        project_name: "demo".into(),
        prefix: Some(Prefix::parse("DEMO").expect("a prefix")),
        repo: None,
        store_is_inside: false,
    }
}

pub fn task_of(applied: &Applied) -> &TaskRecord {
    match &applied.outcome {
        Outcome::Task(record) => record,
        other => panic!("expected a task, got {other:?}"),
    }
}

pub fn attempt_of(applied: &Applied) -> &callboard_domain::task::attempt::Attempt {
    match &applied.outcome {
        Outcome::Attempt(attempt) => attempt,
        other => panic!("expected an attempt, got {other:?}"),
    }
}
