//! The connections of one process and how work runs on them: within a time limit, in a transaction if the work asks
//! for one or a pooler is in front of the server, and again when the connection broke.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};

use futures_util::future;
use tokio_postgres::{Config, SimpleQueryMessage};

use crate::StoreError;
use crate::postgres::address::{Address, MARK, MARKED};
use crate::postgres::db::{Db, Types};
use crate::postgres::errors::Trouble;

/// Connections of one process, including the writer's; one more listens.
/// PostgreSQL allows 100 clients by default; several processes share them.
const CONNECTIONS_MAX: usize = 8;
/// How long a call waits for a free connection, and for a new one to be made.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a call waits for its answer, all tries together. The server's own limit is shorter.
pub(crate) const ANSWER: Duration = Duration::from_secs(15);
/// How long the server works on a statement, unless its transaction says otherwise.
pub(crate) const STATEMENT_MS: u64 = 10_000;
/// How often work is tried when its connection breaks.
const TRIES_MAX: usize = 3;

pub(crate) struct Connections {
    pool: Pool,
    pub address: Address,
    /// Set when a pooler is in front of the server, which lends it for one transaction at a time.
    pooled: Option<Arc<Types>>,
}

/// How a piece of work begins and ends, and whether its time is limited.
pub(crate) struct Manner {
    /// Opens a transaction; without one each statement is its own.
    begin: Option<&'static str>,
    /// The statement after work that succeeded; work that failed is rolled back in any case.
    end: &'static str,
    /// Work whose length depends on the size of the store has no limit.
    limited: bool,
}

/// Short statements, each in its own transaction.
pub(crate) const STATEMENTS: Manner = Manner { begin: None, end: "COMMIT", limited: true };
/// A short transaction.
pub(crate) const TRANSACTION: Manner =
    Manner { begin: Some("BEGIN"), end: "COMMIT", limited: true };
/// A transaction that leaves nothing behind.
pub(crate) const TRIAL: Manner = Manner { begin: Some("BEGIN"), end: "ROLLBACK", limited: true };
/// A transaction without a time limit.
pub(crate) const MIGRATION: Manner = Manner { begin: Some("BEGIN"), end: "COMMIT", limited: false };
/// A read-only transaction on one snapshot, without a time limit.
pub(crate) const SNAPSHOT: Manner = Manner {
    begin: Some("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
    end: "COMMIT",
    limited: false,
};

impl Connections {
    pub async fn open(address: Address) -> Result<Self, Trouble> {
        let pool = pool(&address, address.direct())?;
        // One connection is made and asked, once per process: a pooler does not come and go.
        if within(ANSWER, is_direct(&pool)).await? {
            return Ok(Self { pool, address, pooled: None });
        }
        tracing::info!("a pooler stands in front of PostgreSQL; looking for news once a second");
        let pool = self::pool(&address, address.config.clone())?;
        Ok(Self { pool, address, pooled: Some(Arc::default()) })
    }

    /// Whether the session outlives a transaction; notifications need that.
    pub fn is_direct(&self) -> bool {
        self.pooled.is_none()
    }

    pub async fn get(&self) -> Result<Db, Trouble> {
        Ok(Db::new(self.pool.get().await?, self.pooled.clone()))
    }

    /// The statements that begin a transaction: `begin`, and behind a pooler the schema.
    pub fn begin(&self, begin: &str) -> String {
        match &self.address.schema {
            Some(schema) if !self.is_direct() => {
                format!("{begin}; SET LOCAL search_path = {schema}")
            }
            _ => begin.to_owned(),
        }
    }

    fn begin_as(&self, manner: &Manner) -> Option<String> {
        let begin = match (manner.begin, self.is_direct()) {
            (None, true) => return None,
            (begin, _) => self.begin(begin.unwrap_or("BEGIN")),
        };
        let limit = if manner.limited { STATEMENT_MS } else { 0 };
        Some(match (manner.limited, self.is_direct()) {
            (true, true) => begin,
            _ => format!("{begin}; SET LOCAL statement_timeout = {limit}"),
        })
    }

    /// A connection with an open transaction, for work that cannot be repeated. `Db::commit` ends the transaction.
    pub async fn begun(&self, manner: &Manner) -> Result<Db, Trouble> {
        let db = self.get().await?;
        if let Some(begin) = self.begin_as(manner) {
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
                    // Only a lost connection is tried again. Any other error would only come back.
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
        let done = match self.begin_as(manner) {
            None => work(db.clone()).await,
            Some(begin) => {
                // The first statement is sent before BEGIN is confirmed, which saves a round trip.
                let begin = async { Ok(db.batch_execute(&begin).await?) };
                let done = future::try_join(begin, work(db.clone())).await;
                // The transaction is ended in any case, so that the connection can go back to the pool.
                let end = if done.is_ok() { manner.end } else { "ROLLBACK" };
                let ended = db.batch_execute(end).await;
                done.and_then(|((), done)| ended.map(|()| done).map_err(Trouble::from))
            }
        };
        db.done();
        done
    }
}

fn pool(address: &Address, config: Config) -> Result<Pool, StoreError> {
    // Fast asks the server nothing when a connection is reused. A broken one shows in its first statement, and `run`
    // tries again.
    let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(config, address.tls.clone(), how))
        .max_size(CONNECTIONS_MAX)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(PATIENCE))
        .create_timeout(Some(PATIENCE))
        .build()
        .map_err(|error| StoreError::Internal(error.to_string()))
}

/// Looks for the mark in the connection's startup options.
async fn is_direct(pool: &Pool) -> Result<bool, Trouble> {
    let line = match pool.get().await.map_err(Trouble::from) {
        Err(trouble) if trouble.is_of_a_pooler() => return Ok(false),
        line => line?,
    };
    let said = line.simple_query(&format!("SELECT current_setting('{MARK}', true)")).await?;
    let is_mark = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some(MARKED));
    Ok(said.iter().any(is_mark))
}

/// Ends work that takes too long and closes its connection.
pub(crate) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => Err(late()),
    }
}

pub(crate) fn late() -> Trouble {
    StoreError::Unavailable("PostgreSQL did not answer in time; try again".into()).into()
}
