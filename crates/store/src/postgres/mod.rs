//! The shared store: one PostgreSQL, used by any number of processes on any number of machines.
//!
//! One writer task per process groups commands into transactions. The database's row locks order the transactions of
//! several processes; their events are numbered after that, in one order (`log.rs`). The database's clock is the only
//! one.

mod address;
mod around;
mod batch;
mod bell;
mod board;
mod clock;
mod columns;
mod connections;
mod crew;
mod db;
mod errors;
mod fetch;
mod files;
mod find;
mod handles;
mod json;
mod keep;
mod knowledge;
mod log;
mod lookups;
mod orgs;
mod pages;
mod pulls;
mod quotas;
mod read;
mod records;
mod retention;
mod retries;
mod review;
mod rows;
mod runs;
mod schema;
mod settle;
mod shared;
mod task;
mod tick;
mod tls;
mod tokens;
mod transfer;
mod verify;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::event::LoggedEvent;
use callboard_domain::handle::{Handle, HandleChange, HandleId};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::knowledge::{KnowledgeEntry, KnowledgeId, KnowledgeUse};
use callboard_domain::needs::verify_key;
use callboard_domain::runs::job::{Job, JobId, JobKind};
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::comment::{Comment, CommentId};
use callboard_domain::task::{TaskRecord, TaskRow};
use callboard_domain::time::Timestamp;
use callboard_domain::token::{Token, TokenId};
use tokio::sync::{mpsc, oneshot};

use self::runs::jobs;
use self::task::{comments, free};
use crate::clock::Clock;
use crate::knowledge::vectors::VectorCache;
use crate::knowledge::{Embedded, KnowledgeHit, KnowledgeQuery, KnowledgeVersion, Unembedded};
use crate::migrations::{Migrated, refuse_newer};
use crate::replies::Caller;
use crate::table::Cells;
use crate::task::filter::Leg;
use crate::task::query::assignees_sql;
use crate::watch::Watch;
use crate::{
    Applied, ApplyError, AttemptQuery, Caps, DueJob, EventQuery, EventSink, FileError, FilePart,
    FileSpan, Finding, FreeQuery, Home, JobQuery, KeptToken, NewFile, Op, Overdue, OwnedRepo,
    Place, Project, Repo, Store, StoreError, TaskQuery, TasksByState, TokenGrant,
};
use connections::{ANSWER, Connections, SNAPSHOT, TRANSACTION, TRIAL, within};
use db::Db;
use records::Ask;
pub(crate) use shared::Shared;
use writer::Writer;

#[doc(hidden)]
pub use schema::schema_drop;

/// How long storing the largest file may take.
const FILE_PATIENCE: Duration = Duration::from_secs(60);

/// The store of one process on a shared database: a queue to the writer task and one to the task that groups reads.
pub struct PostgresStore {
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedSender<writer::WriteRequest>,
    asks: mpsc::UnboundedSender<Ask>,
    migrated: Option<Migrated>,
}

impl PostgresStore {
    /// Connects to the database at `url`, creating or migrating its tables. Without a `clock` the database's own is
    /// used.
    pub async fn open(url: &str, clock: Option<Arc<dyn Clock>>) -> Result<Self, StoreError> {
        let connections = Connections::open(address::Address::parse(url)?).await?;
        let clock = clock::SharedClock::new(clock);
        let (schema, migrated) = schema::migrate(&connections).await?;
        let shared = Arc::new(Shared {
            connections,
            clock,
            watch: Watch::default(),
            orgs: orgs::Orgs::default(),
            feed: Arc::default(),
            bell: bell::Bell::default(),
            sequencer: log::Sequencer::default(),
            fronts: task::front::Fronts::default(),
            channel: bell::channel(&schema),
            vectors: VectorCache::default(),
        });
        let clock = &shared.clock;
        // The first look at the server's clock: `now` must not be this machine's time.
        shared.read(|db| async move { clock::now(&db, clock).await }).await?;
        log::Sequencer::start(&shared);
        let (inbox, jobs) = mpsc::unbounded_channel();
        tokio::spawn(Writer::new(shared.clone()).run(jobs));
        let (asks, asked) = mpsc::unbounded_channel();
        tokio::spawn(records::run(shared.clone(), asked));
        Ok(Self { shared, inbox, asks, migrated })
    }
}

/// The answer when the tasks behind the queues are gone.
fn closing() -> StoreError {
    StoreError::Unavailable("the store is closing".into())
}

#[async_trait]
impl Store for PostgresStore {
    // The writer task answers after the commit of its batch.
    async fn apply(&self, op: Op) -> Result<Applied, ApplyError> {
        let (reply, answer) = oneshot::channel();
        let request = writer::WriteRequest { ops: vec![op], caller: Caller::One(reply) };
        self.inbox.send(request).map_err(|_| closing())?;
        answer.await.map_err(|_| closing())?
    }

    async fn apply_all(&self, ops: Vec<Op>) -> Vec<Result<Applied, ApplyError>> {
        let (count, (reply, answer)) = (ops.len(), oneshot::channel());
        if count == 0 {
            return Vec::new();
        }
        // A request that cannot be sent drops its sender, and the answer fails.
        let _ = self.inbox.send(writer::WriteRequest { ops, caller: Caller::All(reply) });
        match answer.await {
            Ok(verdicts) => verdicts,
            Err(_) => (0..count).map(|_| Err(closing().into())).collect(),
        }
    }

    async fn task(&self, org: &str, id: TaskId) -> Result<Option<TaskRecord>, StoreError> {
        let (reply, answer) = oneshot::channel();
        // Reads of single tasks are grouped (`records.rs`), because agents ask for one task at a time, all at once.
        let ask = Ask { org: org.into(), task: id, reply };
        self.asks.send(ask).map_err(|_| closing())?;
        // A group before this one may take as long as that.
        let answered = within(ANSWER, async { Ok(answer.await.map_err(|_| closing())??) });
        Ok(answered.await?)
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<TaskRow>, StoreError> {
        let (query, clock, fronts) = (&query, &self.shared.clock, &self.shared.fronts);
        self.shared
            .read(|db| async move {
                let now = match Leg::of(query).as_slice() {
                    // A list that judges no lease needs no time of the server, and so saves a round trip.
                    [Leg::Every] if query.execution.is_none() => clock.now(),
                    _ => clock::now(&db, clock).await?,
                };
                read::tasks(&db, query, fronts, now).await
            })
            .await
    }

    async fn tasks_free(&self, query: FreeQuery) -> Result<Vec<TaskRow>, StoreError> {
        let (query, clock, fronts) = (&query, &self.shared.clock, &self.shared.fronts);
        self.shared
            .read_in(&query.org, |db, org| async move {
                free::tasks(&db, org, query, fronts, clock::now(&db, clock).await?).await
            })
            .await
    }

    async fn comments(&self, org: &str, task: TaskId) -> Result<Vec<Comment>, StoreError> {
        comments::list(&self.shared, org, task).await
    }

    async fn comment(&self, org: &str, id: CommentId) -> Result<Option<Comment>, StoreError> {
        comments::get(&self.shared, org, id).await
    }

    async fn output(&self, attempt: AttemptId) -> Result<Option<String>, StoreError> {
        self.shared.read(|db| async move { read::output(&db, attempt).await }).await
    }

    async fn job(&self, org: &str, id: JobId) -> Result<Option<Job>, StoreError> {
        self.shared.read_in(org, |db, org| async move { jobs::find(&db, org, id).await }).await
    }

    async fn verify_job(&self, org: &str, task: TaskId) -> Result<Option<Job>, StoreError> {
        self.shared
            .read_in(
                org,
                |db, org| async move { jobs::under_way(&db, org, &verify_key(task)).await },
            )
            .await
    }

    async fn jobs(&self, query: JobQuery) -> Result<Vec<Job>, StoreError> {
        let query = &query;
        self.shared
            .read_in(&query.org, |db, org| async move { jobs::list(&db, org, query).await })
            .await
    }

    async fn jobs_due(&self, kind: JobKind, limit: usize) -> Result<Vec<DueJob>, StoreError> {
        let clock = &self.shared.clock;
        self.shared
            .read(
                |db| async move { jobs::due(&db, kind, clock::now(&db, clock).await?, limit).await },
            )
            .await
    }

    async fn quota_used(&self, org: &str, metric: &str, period: &str) -> Result<u64, StoreError> {
        self.shared
            .read_in(org, |db, org| async move { quotas::used(&db, org, metric, period).await })
            .await
    }

    /// Not retried when the connection breaks: the amount could count twice, and too low a count is better than too
    /// high a one.
    async fn quota_add(
        &self,
        org: &str,
        metric: &str,
        period: &str,
        more: u64,
    ) -> Result<(), StoreError> {
        let db = self.shared.connections.begun(&TRANSACTION).await?;
        let org = self.shared.orgs.get(&db, org).await?;
        quotas::add(&db, org, metric, period, more).await?;
        Ok(db.commit().await?)
    }

    async fn tick(&self) -> Result<usize, StoreError> {
        self.shared.watch.stays();
        if !self.shared.read(|db| async move { tick::is_needed(&db).await }).await? {
            return Ok(0);
        }
        Ok(self.shared.judge_leases().await?)
    }

    async fn repo(&self, project: i64) -> Result<Option<Repo>, StoreError> {
        self.shared.read(|db| async move { read::repo(&db, project).await }).await
    }

    async fn repos_on(&self, org: &str, machine: &str) -> Result<Vec<OwnedRepo>, StoreError> {
        self.shared.read(|db| async move { read::repos_on(&db, org, machine).await }).await
    }

    async fn project_of_repo(&self, org: &str, repo: i64) -> Result<Option<Project>, StoreError> {
        self.shared.read(|db| async move { read::project_of_repo(&db, org, repo).await }).await
    }

    async fn tasks_by_state(&self) -> Result<TasksByState, StoreError> {
        let clock = &self.shared.clock;
        self.shared
            .read(
                |db| async move { read::tasks_by_state(&db, clock::now(&db, clock).await?).await },
            )
            .await
    }

    async fn task_free_since(
        &self,
        task: TaskId,
        up_to: u64,
    ) -> Result<Option<Timestamp>, StoreError> {
        let since = |db: Arc<Db>| async move { read::task_free_since(&db, task, up_to).await };
        self.shared.read_log(since).await
    }

    async fn assignees(&self, project: i64) -> Result<Vec<Actor>, StoreError> {
        let sql = &assignees_sql(read::SIGN);
        self.shared
            .read(|db| async move {
                let found = read::all(&db, sql, &[&project]).await?;
                found.iter().map(|row| row.reader().actor()).collect()
            })
            .await
    }

    async fn task_ids(
        &self,
        org: &str,
        typed: &str,
        limit: usize,
    ) -> Result<Vec<TaskId>, StoreError> {
        self.shared
            .read_in(org, |db, org| async move { find::task_ids(&db, org, typed, limit).await })
            .await
    }

    async fn attempt(&self, org: &str, id: AttemptId) -> Result<Option<Attempt>, StoreError> {
        self.shared.read_in(org, |db, org| async move { read::attempt(&db, org, id).await }).await
    }

    async fn attempts(&self, query: AttemptQuery) -> Result<Vec<Attempt>, StoreError> {
        let (query, clock) = (&query, &self.shared.clock);
        self.shared
            .read_in(&query.org, |db, org| async move {
                read::attempts(&db, org, query, clock::now(&db, clock).await?).await
            })
            .await
    }

    async fn attempts_overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        let clock = &self.shared.clock;
        self.shared
            .read(|db| async move {
                read::attempts_overdue(&db, clock::now(&db, clock).await?, limit).await
            })
            .await
    }

    async fn events(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        let query = &query;
        self.shared.read_log(|db| async move { read::events(&db, query).await }).await
    }

    async fn last_seq(&self) -> Result<u64, StoreError> {
        self.shared.read_log(|db| async move { read::last_seq(&db).await }).await
    }

    async fn knowledge(
        &self,
        org: &str,
        id: KnowledgeId,
    ) -> Result<Option<KnowledgeEntry>, StoreError> {
        self.shared.read_in(org, |db, org| async move { knowledge::find(&db, org, id).await }).await
    }

    async fn knowledge_newest(
        &self,
        org: &str,
        limit: usize,
    ) -> Result<Vec<KnowledgeEntry>, StoreError> {
        self.shared
            .read_in(org, |db, org| async move { knowledge::newest(&db, org, limit).await })
            .await
    }

    async fn knowledge_search(
        &self,
        query: KnowledgeQuery,
    ) -> Result<Vec<KnowledgeHit>, StoreError> {
        let (query, shared) = (&query, &self.shared);
        self.shared
            .read_in(&query.org, |db, org| async move {
                let now = clock::now(&db, &shared.clock).await?;
                knowledge::search(&db, org, &shared.vectors, query, now).await
            })
            .await
    }

    async fn knowledge_version(&self, org: &str) -> Result<KnowledgeVersion, StoreError> {
        self.shared
            .read_in(org, |db, org| async move { Ok(knowledge::counts(&db, org).await?.into()) })
            .await
    }

    async fn knowledge_use(&self, uses: Vec<KnowledgeUse>) -> Result<(), StoreError> {
        let uses = &uses;
        let put = |db: Arc<Db>| async move { knowledge::put_uses(&db, uses).await };
        Ok(self.shared.connections.run(&TRANSACTION, put).await?)
    }

    async fn knowledge_uses(
        &self,
        entries: Vec<KnowledgeId>,
        each: usize,
    ) -> Result<Vec<KnowledgeUse>, StoreError> {
        let entries = &entries;
        self.shared.read(|db| async move { knowledge::uses(&db, entries, each).await }).await
    }

    async fn knowledge_orgs_unembedded(
        &self,
        model: &str,
        limit: usize,
    ) -> Result<Vec<Arc<str>>, StoreError> {
        let orgs = |db: Arc<Db>| async move { knowledge::orgs_unembedded(&db, model, limit).await };
        self.shared.read(orgs).await
    }

    async fn knowledge_unembedded(
        &self,
        org: &str,
        model: &str,
        limit: usize,
    ) -> Result<Vec<Unembedded>, StoreError> {
        self.shared
            .read_in(
                org,
                |db, org| async move { knowledge::unembedded(&db, org, model, limit).await },
            )
            .await
    }

    async fn knowledge_vectors_put(
        &self,
        model: &str,
        embedded: Vec<Embedded>,
    ) -> Result<(), StoreError> {
        let embedded = &embedded;
        let put = |db: Arc<Db>| async move { knowledge::put_vectors(&db, model, embedded).await };
        Ok(self.shared.connections.run(&TRANSACTION, put).await?)
    }

    async fn settle(&self, place: Place) -> Result<Home, StoreError> {
        let place = &place;
        let there = self.shared.read(|db| async move { settle::settled(&db, place).await });
        if let Some(home) = there.await? {
            return Ok(home);
        }
        let now = self.now().0;
        let settle = |db: Arc<Db>| async move { settle::settle(&db, place, now).await };
        Ok(self.shared.connections.run(&TRANSACTION, settle).await?)
    }

    async fn project_of_org(&self, org: &str) -> Result<Option<Project>, StoreError> {
        self.shared.read_in(org, |db, org| async move { settle::oldest(&db, org).await }).await
    }

    async fn project(&self, id: i64) -> Result<Option<Project>, StoreError> {
        self.shared.read(|db| async move { read::project(&db, id).await }).await
    }

    async fn repo_path(&self, project: i64, machine: &str) -> Result<Option<PathBuf>, StoreError> {
        self.shared.read(|db| async move { read::repo_path(&db, project, machine).await }).await
    }

    async fn token_add(&self, grant: TokenGrant) -> Result<Token, StoreError> {
        let (grant, clock) = (&grant, &self.shared.clock);
        let add = |db: Arc<Db>| async move {
            let now = clock::now(&db, clock).await?;
            tokens::add(&db, grant, now).await
        };
        Ok(self.shared.connections.run(&TRANSACTION, add).await?)
    }

    async fn token_revoke(&self, id: TokenId, by: Actor) -> Result<Option<Token>, StoreError> {
        let (by, clock) = (&by, &self.shared.clock);
        self.shared
            .read(|db| async move {
                let now = clock::now(&db, clock).await?;
                tokens::revoke(&db, id, by, now).await
            })
            .await
    }

    async fn token(&self, id: TokenId) -> Result<Option<KeptToken>, StoreError> {
        self.shared.read(|db| async move { tokens::find(&db, id).await }).await
    }

    async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.shared.read(|db| async move { tokens::all(&db).await }).await
    }

    async fn has_tokens(&self) -> Result<bool, StoreError> {
        self.shared.read(|db| async move { tokens::any(&db).await }).await
    }

    /// Tried once: after a commit of unknown outcome a retry would find the name taken.
    async fn file_put(&self, file: NewFile) -> Result<(), FileError> {
        file.judge()?;
        let kept = within(FILE_PATIENCE, async {
            let db = self.shared.connections.begun(&TRANSACTION).await?;
            let org = self.shared.orgs.get(&db, &file.org).await?;
            let kept = files::put(&db, org, &file, self.now()).await?;
            db.commit().await?;
            Ok(kept)
        });
        match kept.await.map_err(StoreError::from)? {
            true => Ok(()),
            false => Err(FileError::Taken(file.name)),
        }
    }

    async fn file_get(
        &self,
        org: &str,
        name: &str,
        span: FileSpan,
    ) -> Result<Option<FilePart>, StoreError> {
        self.shared
            .read_in(org, |db, org| async move { files::get(&db, org, name, span).await })
            .await
    }

    async fn files_prune(&self, under: &str, before: Timestamp) -> Result<usize, StoreError> {
        self.shared.read(|db| async move { files::prune(&db, under, before).await }).await
    }

    async fn handle_add(&self, handle: Handle) -> Result<(), StoreError> {
        let handle = &handle;
        self.shared
            .read_in(&handle.org, |db, org| async move { handles::add(&db, org, handle).await })
            .await
    }

    async fn handle(&self, org: &str, id: HandleId) -> Result<Option<Handle>, StoreError> {
        let clock = &self.shared.clock;
        self.shared
            .read(|db| async move {
                clock::now(&db, clock).await?;
                Ok(handles::find(&db, id).await?.filter(|handle| *handle.org == *org))
            })
            .await
    }

    async fn handles_change(
        &self,
        changes: Vec<(HandleId, HandleChange)>,
    ) -> Result<Vec<Handle>, StoreError> {
        let (changes, clock) = (&changes, &self.shared.clock);
        let change = |db: Arc<Db>| async move {
            let now = clock::now(&db, clock).await?;
            handles::change(&db, changes, now).await
        };
        Ok(self.shared.connections.run(&TRANSACTION, change).await?)
    }

    async fn handles_prune(&self, before: Timestamp) -> Result<(), StoreError> {
        self.shared.read(|db| async move { handles::prune(&db, before).await }).await
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    fn publish_to(&self, sink: Arc<dyn EventSink>) {
        self.shared.feed.set_sink(sink);
    }

    async fn listen(&self) -> Result<(), StoreError> {
        if self.shared.feed.is_started() {
            return Ok(());
        }
        let last = self.last_seq().await?;
        self.shared.feed.start(|| Ok(last))?;
        self.shared.bell.listen(&self.shared);
        // Commits between the two lines above were not announced to this process.
        self.shared.bell.ring.notify_one();
        Ok(())
    }

    async fn ping(&self) -> Result<(), StoreError> {
        let clock = &self.shared.clock;
        let ping = |db: Arc<Db>| async move {
            let version = schema::version(&db).await?;
            refuse_newer(version)?;
            clock::now(&db, clock).await?;
            // Takes the lock that orders the log, and a transaction id, which fails on a standby.
            db.batch_execute(&schema::alone_with("log")).await?;
            db.batch_execute("SELECT pg_current_xact_id()").await?;
            Ok(())
        };
        Ok(self.shared.connections.run(&TRIAL, ping).await?)
    }

    async fn verify(&self) -> Result<Vec<Finding>, StoreError> {
        // An event that its writer could not number any more is no damage.
        self.shared.number_all().await?;
        let verify = |db: Arc<Db>| async move { verify::verify(&db).await };
        Ok(self.shared.connections.run(&SNAPSHOT, verify).await?)
    }

    async fn backup(&self, to: PathBuf) -> Result<(), StoreError> {
        crate::transfer::into_file(self, &to).await
    }

    fn caps(&self) -> Caps {
        Caps { kind: "postgres", shared: true }
    }
}
