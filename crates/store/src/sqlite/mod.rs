//! The embedded store: one SQLite file, shared by any number of processes on one machine.
//!
//! WAL, every commit flushed, one writer thread per process behind a turnstile between processes.
//! Reads use a few read-only connections and never wait for a writer.

mod bell;
mod board;
mod crew;
mod errors;
mod fetch;
mod files;
mod handles;
mod identity;
mod keep;
mod knowledge;
mod names;
mod pages;
mod pulls;
mod read;
mod restore;
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
mod tokens;
mod transfer;
mod turnstile;
mod verify;
mod writer;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::event::LoggedEvent;
use callboard_domain::handle::{Handle, HandleChange, HandleId};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::knowledge::{KnowledgeEntry, KnowledgeId, KnowledgeUse};
use callboard_domain::limits::COMMENTS_SHOWN_MAX;
use callboard_domain::needs::verify_key;
use callboard_domain::runs::job::{Job, JobId, JobKind};
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::comment::{Comment, CommentId};
use callboard_domain::task::{TaskRecord, TaskRow};
use callboard_domain::time::Timestamp;
use callboard_domain::token::{Token, TokenId};
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use self::runs::jobs;
use self::task::{comments, free};
use crate::clock::{Clock, Floor};
use crate::feed::Feed;
use crate::knowledge::vectors::VectorCache;
use crate::knowledge::{Embedded, KnowledgeHit, KnowledgeQuery, KnowledgeVersion, Unembedded};
use crate::migrations::{Migrated, refuse_newer};
use crate::replies::Caller;
use crate::table::Cells;
use crate::task::query::assignees_sql;
use crate::watch::Watch;
use crate::{
    Applied, ApplyError, AttemptQuery, Caps, DueJob, EventQuery, EventSink, FileError, FilePart,
    FileSpan, Finding, FreeQuery, Home, JobQuery, KeptToken, NewFile, Op, Overdue, OwnedRepo,
    Place, Project, Repo, Store, StoreError, TaskQuery, TasksByState, TokenGrant,
};
use errors::from_sqlite;
pub use names::{OfferedKind, OfferedName, offered_names};
pub use restore::{RestoreError, Restored};

/// The store of one process. Dropping it closes the queue and waits for the writer thread, so no accepted command is
/// lost.
pub struct SqliteStore {
    shared: Arc<Shared>,
    inbox: Option<Sender<writer::WriteRequest>>,
    writer: Option<JoinHandle<()>>,
    migrated: Option<Migrated>,
}

/// What the writer thread, the readers and the thread of the bell use together.
pub(crate) struct Shared {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    turnstile: turnstile::Turnstile,
    bell: bell::Bell,
    guard: identity::Guard,
    feed: Feed,
    floor: Floor,
    watch: Watch,
    readers: Mutex<Vec<Connection>>,
    /// The numbers of orgs by their names.
    orgs: Mutex<HashMap<Box<str>, i64>>,
    vectors: VectorCache,
    /// The last field, so that the list of open databases forgets this one after its connections are closed.
    _admitted: identity::Admitted,
}

#[async_trait]
impl Store for SqliteStore {
    // The writer answers after the commit. A dropped sender means that the store was closed first.
    async fn apply(&self, op: Op) -> Result<Applied, ApplyError> {
        let (reply, answer) = oneshot::channel();
        self.send(writer::WriteRequest::Apply(vec![op], Caller::One(reply)))?;
        answer.await.map_err(|_| StoreError::Unavailable("the store is closing".into()))?
    }

    async fn apply_all(&self, ops: Vec<Op>) -> Vec<Result<Applied, ApplyError>> {
        let (count, (reply, answer)) = (ops.len(), oneshot::channel());
        if count == 0 {
            return Vec::new();
        }
        let sent = self.send(writer::WriteRequest::Apply(ops, Caller::All(reply)));
        let error = match (sent, answer.await) {
            (Ok(()), Ok(verdicts)) => return verdicts,
            (Err(error), _) => error,
            (Ok(()), Err(_)) => StoreError::Unavailable("the store is closing".into()),
        };
        (0..count).map(|_| Err(error.clone().into())).collect()
    }

    async fn task(&self, org: &str, id: TaskId) -> Result<Option<TaskRecord>, StoreError> {
        self.shared.read_in(org, |db, org, _| fetch::record(db, org, id).map_err(from_sqlite))
    }

    async fn tasks(&self, query: TaskQuery) -> Result<Vec<TaskRow>, StoreError> {
        self.read(move |db, now| read::tasks(db, &query, now).map_err(from_sqlite)).await
    }

    async fn tasks_free(&self, query: FreeQuery) -> Result<Vec<TaskRow>, StoreError> {
        self.shared.read_in(&query.org, |db, org, now| {
            free::tasks(db, org, &query, now).map_err(from_sqlite)
        })
    }

    async fn comments(&self, org: &str, task: TaskId) -> Result<Vec<Comment>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            match fetch::has_task(db, org, task).map_err(from_sqlite)? {
                true => comments::of_task(db, task, COMMENTS_SHOWN_MAX).map_err(from_sqlite),
                false => Ok(Vec::new()),
            }
        })
    }

    async fn comment(&self, org: &str, id: CommentId) -> Result<Option<Comment>, StoreError> {
        self.shared.read_in(org, |db, org, _| comments::find(db, org, id).map_err(from_sqlite))
    }

    async fn output(&self, attempt: AttemptId) -> Result<Option<String>, StoreError> {
        self.shared.look_up(|db| read::output(db, attempt))
    }

    async fn job(&self, org: &str, id: JobId) -> Result<Option<Job>, StoreError> {
        self.shared.read_in(org, |db, org, _| jobs::find(db, org, id).map_err(from_sqlite))
    }

    async fn verify_job(&self, org: &str, task: TaskId) -> Result<Option<Job>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            jobs::under_way(db, org, &verify_key(task)).map_err(from_sqlite)
        })
    }

    async fn jobs(&self, query: JobQuery) -> Result<Vec<Job>, StoreError> {
        self.shared
            .read_in(&query.org, |db, org, _| jobs::list(db, org, &query).map_err(from_sqlite))
    }

    async fn jobs_due(&self, kind: JobKind, limit: usize) -> Result<Vec<DueJob>, StoreError> {
        self.shared.read(|db, now| jobs::due(db, kind, now, limit).map_err(from_sqlite))
    }

    async fn quota_used(&self, org: &str, metric: &str, period: &str) -> Result<u64, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            read::quota_used(db, org, metric, period).map_err(from_sqlite)
        })
    }

    // Counts have no events and no rule that reads them in a transaction, so they are added beside the commands.
    async fn quota_add(
        &self,
        org: &str,
        metric: &str,
        period: &str,
        more: u64,
    ) -> Result<(), StoreError> {
        let (org, metric, period) = (org.to_owned(), metric.to_owned(), period.to_owned());
        self.on_writer(move |db| {
            let org = read::org(db, &org)?;
            let sql = "INSERT INTO quotas (org, metric, period, used) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (org, metric, period) DO UPDATE SET used = used + excluded.used";
            let added = db.execute(sql, params![org, metric, period, more as i64]);
            added.map(|_| ()).map_err(from_sqlite)
        })
        .await
    }

    async fn tick(&self) -> Result<usize, StoreError> {
        // A process that ticks stays, and counts as one that watches the leases.
        self.shared.watch.stays();
        if !self.shared.look_up(tick::is_needed)? {
            return Ok(0);
        }
        let shared = self.shared.clone();
        self.on_writer(move |db| tick::tick(db, &shared).map_err(from_sqlite)).await
    }

    async fn repo(&self, project: i64) -> Result<Option<Repo>, StoreError> {
        self.shared.look_up(|db| read::repo(db, project))
    }

    async fn repos_on(&self, org: &str, machine: &str) -> Result<Vec<OwnedRepo>, StoreError> {
        self.shared.look_up(|db| read::repos_on(db, org, machine))
    }

    async fn project_of_repo(&self, org: &str, repo: i64) -> Result<Option<Project>, StoreError> {
        self.shared.look_up(|db| read::project_of_repo(db, org, repo))
    }

    async fn tasks_by_state(&self) -> Result<TasksByState, StoreError> {
        self.read(|db, now| read::tasks_by_state(db, now).map_err(from_sqlite)).await
    }

    async fn task_free_since(
        &self,
        task: TaskId,
        up_to: u64,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.shared.look_up(|db| read::task_free_since(db, task, up_to))
    }

    async fn assignees(&self, project: i64) -> Result<Vec<Actor>, StoreError> {
        self.shared.look_up(|db| {
            db.prepare_cached(&assignees_sql(read::SIGN))?
                .query_map([project], |row| row.reader().actor())?
                .collect()
        })
    }

    async fn task_ids(
        &self,
        org: &str,
        typed: &str,
        limit: usize,
    ) -> Result<Vec<TaskId>, StoreError> {
        let (org, typed) = (org.to_owned(), typed.to_owned());
        self.read(move |db, _| {
            let org = read::org(db, &org)?;
            read::task_ids(db, org, &typed, limit).map_err(from_sqlite)
        })
        .await
    }

    async fn attempt(&self, org: &str, id: AttemptId) -> Result<Option<Attempt>, StoreError> {
        self.shared.read_in(org, |db, org, _| fetch::attempt(db, org, id).map_err(from_sqlite))
    }

    async fn attempts(&self, query: AttemptQuery) -> Result<Vec<Attempt>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, now| {
            read::attempts(db, org, &query, now).map_err(from_sqlite)
        })
        .await
    }

    async fn attempts_overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        self.read(move |db, now| read::attempts_overdue(db, now, limit).map_err(from_sqlite)).await
    }

    async fn events(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        self.read(move |db, _| read::events(db, &query).map_err(from_sqlite)).await
    }

    async fn last_seq(&self) -> Result<u64, StoreError> {
        self.shared.look_up(read::last_seq)
    }

    async fn knowledge(
        &self,
        org: &str,
        id: KnowledgeId,
    ) -> Result<Option<KnowledgeEntry>, StoreError> {
        self.shared.read_in(org, |db, org, _| knowledge::find(db, org, id).map_err(from_sqlite))
    }

    async fn knowledge_newest(
        &self,
        org: &str,
        limit: usize,
    ) -> Result<Vec<KnowledgeEntry>, StoreError> {
        self.shared
            .read_in(org, |db, org, _| knowledge::newest(db, org, limit).map_err(from_sqlite))
    }

    async fn knowledge_search(
        &self,
        query: KnowledgeQuery,
    ) -> Result<Vec<KnowledgeHit>, StoreError> {
        let shared = self.shared.clone();
        self.read_in(query.org.clone(), move |db, org, now| {
            knowledge::search(db, org, &shared.vectors, &query, now).map_err(from_sqlite)
        })
        .await
    }

    async fn knowledge_version(&self, org: &str) -> Result<KnowledgeVersion, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            knowledge::counts(db, org).map(Into::into).map_err(from_sqlite)
        })
    }

    async fn knowledge_use(&self, uses: Vec<KnowledgeUse>) -> Result<(), StoreError> {
        self.on_writer(move |db| knowledge::put_uses(db, &uses).map_err(from_sqlite)).await
    }

    async fn knowledge_uses(
        &self,
        entries: Vec<KnowledgeId>,
        each: usize,
    ) -> Result<Vec<KnowledgeUse>, StoreError> {
        self.shared.read(|db, _| knowledge::uses(db, &entries, each).map_err(from_sqlite))
    }

    async fn knowledge_orgs_unembedded(
        &self,
        model: &str,
        limit: usize,
    ) -> Result<Vec<Arc<str>>, StoreError> {
        self.shared.read(|db, _| knowledge::orgs_unembedded(db, model, limit).map_err(from_sqlite))
    }

    async fn knowledge_unembedded(
        &self,
        org: &str,
        model: &str,
        limit: usize,
    ) -> Result<Vec<Unembedded>, StoreError> {
        let (org, model) = (org.to_owned(), model.to_owned());
        self.read(move |db, _| {
            let org = read::org(db, &org)?;
            knowledge::unembedded(db, org, &model, limit).map_err(from_sqlite)
        })
        .await
    }

    async fn knowledge_vectors_put(
        &self,
        model: &str,
        embedded: Vec<Embedded>,
    ) -> Result<(), StoreError> {
        let model = model.to_owned();
        self.on_writer(move |db| knowledge::put_vectors(db, &model, &embedded).map_err(from_sqlite))
            .await
    }

    async fn settle(&self, place: Place) -> Result<Home, StoreError> {
        // Most starts find everything in its place and need no turn at the writer.
        if let Some(home) = self.shared.look_up(|db| settle::settled(db, &place))? {
            return Ok(home);
        }
        let now = self.now().0;
        self.on_writer(move |db| settle::settle(db, &place, now).map_err(from_sqlite)).await
    }

    async fn project_of_org(&self, org: &str) -> Result<Option<Project>, StoreError> {
        self.shared.read_in(org, |db, org, _| settle::oldest(db, org).map_err(from_sqlite))
    }

    async fn project(&self, id: i64) -> Result<Option<Project>, StoreError> {
        self.shared.look_up(|db| read::project(db, id))
    }

    async fn repo_path(&self, project: i64, machine: &str) -> Result<Option<PathBuf>, StoreError> {
        self.shared.look_up(|db| read::repo_path(db, project, machine))
    }

    async fn token_add(&self, grant: TokenGrant) -> Result<Token, StoreError> {
        let now = self.now();
        self.on_writer(move |db| tokens::add(db, &grant, now).map_err(from_sqlite)).await
    }

    async fn token_revoke(&self, id: TokenId, by: Actor) -> Result<Option<Token>, StoreError> {
        let now = self.now();
        self.on_writer(move |db| tokens::revoke(db, id, &by, now).map_err(from_sqlite)).await
    }

    async fn token(&self, id: TokenId) -> Result<Option<KeptToken>, StoreError> {
        self.shared.look_up(|db| tokens::find(db, id))
    }

    async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.read(|db, _| tokens::all(db).map_err(from_sqlite)).await
    }

    async fn has_tokens(&self) -> Result<bool, StoreError> {
        self.shared.look_up(tokens::any)
    }

    async fn file_put(&self, file: NewFile) -> Result<(), FileError> {
        file.judge()?;
        let at = self.now();
        self.on_writer(move |db| Ok(files::put(db, &file, at))).await?
    }

    async fn file_get(
        &self,
        org: &str,
        name: &str,
        span: FileSpan,
    ) -> Result<Option<FilePart>, StoreError> {
        let (org, name) = (org.to_owned(), name.to_owned());
        self.read(move |db, _| {
            let org = read::org(db, &org)?;
            files::get(db, org, &name, span).map_err(from_sqlite)
        })
        .await
    }

    async fn files_prune(&self, under: &str, before: Timestamp) -> Result<usize, StoreError> {
        let under = under.to_owned();
        self.on_writer(move |db| files::prune(db, &under, before)).await
    }

    async fn handle_add(&self, handle: Handle) -> Result<(), StoreError> {
        self.on_writer(move |db| handles::add(db, &handle)).await
    }

    async fn handle(&self, org: &str, id: HandleId) -> Result<Option<Handle>, StoreError> {
        // A handle is looked up by its id alone, so its org is compared here: another org's handle does not exist.
        let found = self.shared.look_up(|db| handles::find(db, id))?;
        Ok(found.filter(|handle| *handle.org == *org))
    }

    async fn handles_change(
        &self,
        changes: Vec<(HandleId, HandleChange)>,
    ) -> Result<Vec<Handle>, StoreError> {
        let now = self.now();
        self.on_writer(move |db| handles::change(db, changes, now).map_err(from_sqlite)).await
    }

    async fn handles_prune(&self, before: Timestamp) -> Result<(), StoreError> {
        self.on_writer(move |db| handles::prune(db, before).map_err(from_sqlite)).await
    }

    fn now(&self) -> Timestamp {
        self.shared.now()
    }

    fn publish_to(&self, sink: Arc<dyn EventSink>) {
        self.shared.feed.set_sink(sink);
    }

    async fn listen(&self) -> Result<(), StoreError> {
        if self.shared.feed.is_started() {
            return Ok(());
        }
        // The watch begins before the position is read, so a commit in between rings and is found.
        self.shared.bell.watch(&self.shared)?;
        self.shared.read(|db, _| self.shared.feed.start(|| read::last_seq(db).map_err(from_sqlite)))
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.on_writer(|db| {
            let version = schema::version(db).map_err(from_sqlite)?;
            refuse_newer(version)?;
            db.execute_batch("BEGIN IMMEDIATE; ROLLBACK").map_err(from_sqlite)
        })
        .await?;
        // The statements above write nothing, so they succeed on a full disk.
        self.shared.turnstile.try_disk().map_err(|error| {
            StoreError::Unavailable(format!("the disk of the database cannot be written: {error}"))
        })
    }

    async fn verify(&self) -> Result<Vec<Finding>, StoreError> {
        // The memory is read before the log: events committed before a ring are in every later snapshot.
        let kept = self.shared.bell.memory();
        let shared = self.shared.clone();
        self.read(move |db, _| {
            let mut findings = verify::verify(db).map_err(from_sqlite)?;
            let end = read::last_seq(db).map_err(from_sqlite)?;
            findings.extend(shared.bell.loss(&kept, end));
            Ok(findings)
        })
        .await
    }

    async fn backup(&self, to: PathBuf) -> Result<(), StoreError> {
        self.read(move |db, _| schema::copy_to(db, &to)).await
    }

    fn caps(&self) -> Caps {
        Caps { kind: "sqlite", shared: false }
    }
}
