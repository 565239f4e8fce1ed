//! One connection, as reads and writes see it: statements by their text, values beside them.

use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::Object;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::errors::Trouble;

type Values<'a> = [&'a (dyn ToSql + Sync)];

/// Goes back to the pool only when what was begun on it is over. A connection that is dropped in
/// the middle, by a time limit or a caller who went away, is closed; that undoes what it began.
pub(super) struct Db {
    /// There until it is dropped.
    line: Option<Object>,
    over: AtomicBool,
}

impl Db {
    pub fn new(line: Object) -> Self {
        Self { line: Some(line), over: AtomicBool::new(false) }
    }

    fn line(&self) -> &Object {
        self.line.as_ref().expect("only drop takes it")
    }

    /// Somebody else may have it next.
    pub fn is_over(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// The connection as the driver has it, for what flows: rows without end, and COPY. What is
    /// prepared on it is gone when it is dropped.
    pub fn client(&self) -> &Client {
        self.line()
    }

    /// Ends the transaction that is under way, and with it the work.
    pub async fn commit(self) -> Result<(), Trouble> {
        self.batch_execute("COMMIT").await?;
        self.is_over();
        Ok(())
    }

    pub fn is_closed(&self) -> bool {
        self.line().is_closed()
    }

    /// Statements without values, or several at once.
    pub async fn batch_execute(&self, sql: &str) -> Result<(), Error> {
        self.line().batch_execute(sql).await
    }

    pub async fn prepare_cached(&self, sql: &str) -> Result<Statement, Error> {
        self.line().prepare_cached(sql).await
    }

    pub async fn query(&self, what: &Statement, values: &Values<'_>) -> Result<Vec<Row>, Error> {
        self.line().query(what, values).await
    }

    pub async fn query_opt(
        &self,
        what: &Statement,
        values: &Values<'_>,
    ) -> Result<Option<Row>, Error> {
        self.line().query_opt(what, values).await
    }

    pub async fn query_one(&self, what: &Statement, values: &Values<'_>) -> Result<Row, Error> {
        self.line().query_one(what, values).await
    }

    pub async fn execute(&self, what: &Statement, values: &Values<'_>) -> Result<u64, Error> {
        self.line().execute(what, values).await
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        if let Some(line) = self.line.take()
            && !self.over.load(Ordering::SeqCst)
        {
            drop(Object::take(line));
        }
    }
}
