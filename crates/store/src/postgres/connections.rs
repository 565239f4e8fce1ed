//! The connections of one process and how work is run on them: within a time limit, in a
//! transaction when it asks for one, again when its connection broke.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};

use super::address::Address;
use super::db::Db;
use super::errors::Trouble;
use crate::StoreError;

/// Connections of one process, the writer's included; one more listens.
const CONNECTIONS_MAX: usize = 8;
/// How long a call waits for a free connection, and for a new one to be made.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a call waits for its answer, all tries together. The server gives up before.
const ANSWER: Duration = Duration::from_secs(15);
/// How long the server works on a statement, unless its transaction says otherwise.
pub(super) const STATEMENT_MS: u64 = 10_000;
/// How often work is tried on another connection when its own broke.
const TRIES_MAX: usize = 3;

pub(super) struct Connections {
    pool: Pool,
    pub address: Address,
}

/// What is done before and after a piece of work, and how long it may take.
pub(super) struct Manner {
    /// Opens a transaction; without one each statement is its own.
    begin: Option<&'static str>,
    end: &'static str,
    limited: bool,
}

/// Short statements, each for itself.
pub(super) const STATEMENTS: Manner = Manner { begin: None, end: "COMMIT", limited: true };
/// A short transaction.
pub(super) const TRANSACTION: Manner =
    Manner { begin: Some("BEGIN"), end: "COMMIT", limited: true };
/// A transaction that leaves nothing behind.
pub(super) const TRIAL: Manner = Manner { begin: Some("BEGIN"), end: "ROLLBACK", limited: true };
/// A transaction that takes as long as it takes.
pub(super) const MIGRATION: Manner = Manner { begin: Some("BEGIN"), end: "COMMIT", limited: false };
/// The same, on one state of the data.
pub(super) const SNAPSHOT: Manner = Manner {
    begin: Some("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    end: "COMMIT",
    limited: false,
};

impl Connections {
    pub fn new(address: Address) -> Result<Self, StoreError> {
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(address.config.clone(), address.tls.clone(), how);
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS_MAX)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(PATIENCE))
            .create_timeout(Some(PATIENCE))
            .build()
            .map_err(|error| StoreError::Internal(error.to_string()))?;
        Ok(Self { pool, address })
    }

    pub async fn get(&self) -> Result<Db, Trouble> {
        Ok(Db::new(self.pool.get().await?))
    }

    /// A connection with a transaction under way, for work that cannot be repeated. `Db::commit`
    /// ends it.
    pub async fn begun(&self, manner: &Manner) -> Result<Db, Trouble> {
        let db = self.get().await?;
        if let Some(begin) = begin_as(manner) {
            db.batch_execute(&begin).await?;
        }
        Ok(db)
    }

    /// Runs work that may be repeated.
    pub async fn run<T, F>(
        &self,
        manner: &Manner,
        work: impl Fn(Arc<Db>) -> F + Send,
    ) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Trouble>> + Send,
    {
        let tries = async {
            let mut tries = 1;
            loop {
                match self.once(manner, &work).await {
                    Err(trouble) if trouble.is_lost() && tries < TRIES_MAX => tries += 1,
                    done => return done,
                }
            }
        };
        if manner.limited { within(ANSWER, tries).await } else { tries.await }
    }

    async fn once<T, F>(
        &self,
        manner: &Manner,
        work: &(impl Fn(Arc<Db>) -> F + Send),
    ) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Trouble>> + Send,
    {
        let db = Arc::new(self.get().await?);
        let begin = begin_as(manner);
        if let Some(begin) = &begin {
            db.batch_execute(begin).await?;
        }
        let done = work(db.clone()).await;
        if begin.is_some() {
            let ended = db.batch_execute(if done.is_ok() { manner.end } else { "ROLLBACK" }).await;
            if done.is_ok() {
                ended?;
            }
        }
        db.is_over();
        done
    }
}

fn begin_as(manner: &Manner) -> Option<String> {
    manner.begin.map(|begin| match manner.limited {
        true => begin.to_owned(),
        false => format!("{begin}; SET LOCAL statement_timeout = 0"),
    })
}

/// Ends work that takes too long; its connection is closed with it.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => Err(late()),
    }
}

pub(super) fn late() -> Trouble {
    StoreError::Unavailable("PostgreSQL did not answer in time; try again".into()).into()
}
