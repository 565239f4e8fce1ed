//! One connection, as reads and writes see it: statements by their text, values beside them. Behind a pooler the
//! server changes from one transaction to the next, so nothing may be left there: statements have no names, and all
//! work is in transactions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use deadpool_postgres::Object;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

use crate::STATEMENTS;
use crate::postgres::errors::Trouble;

type Values<'a> = [&'a (dyn ToSql + Sync)];

pub(crate) enum Statement {
    /// The server knows the statement by a name.
    Named(tokio_postgres::Statement),
    /// Sent anew with its values each time; the server determined the types once.
    Unnamed { sql: String, types: Arc<[Type]> },
}

/// The value types of statements without names.
#[derive(Default)]
pub(crate) struct Types(Mutex<HashMap<String, Arc<[Type]>>>);

impl Types {
    async fn of(&self, line: &Object, sql: &str) -> Result<Arc<[Type]>, Error> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(types) = known {
            return Ok(types);
        }
        // The statement is prepared and closed in one transaction, so its name is gone before the pooler lends the
        // server to another client.
        let types: Arc<[Type]> = line.prepare(sql).await?.params().into();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(sql.to_owned(), types.clone());
        Ok(types)
    }
}

fn typed<'a>(values: &'a Values<'a>, types: &[Type]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    values.iter().copied().zip(types.iter().cloned()).collect()
}

/// A connection that goes back to the pool only when its work is over. One that is dropped in the middle, by a time
/// limit or a caller that went away, is closed; that rolls its transaction back.
pub(crate) struct Db {
    /// `Some` until the drop.
    line: Option<Object>,
    over: AtomicBool,
    /// Set when a pooler is in front of the server.
    pooled: Option<Arc<Types>>,
}

impl Db {
    pub fn new(line: Object, pooled: Option<Arc<Types>>) -> Self {
        Self { line: Some(line), over: AtomicBool::new(false), pooled }
    }

    fn line(&self) -> &Object {
        self.line.as_ref().expect("only drop takes it")
    }

    /// Whether a pooler is in front of the server.
    pub fn is_pooled(&self) -> bool {
        self.pooled.is_some()
    }

    /// Marks the work as over, so that the connection may be reused.
    pub fn done(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// The driver's own connection, for streams: rows without end, and COPY. Its prepared statements end with it.
    pub fn client(&self) -> &Client {
        self.line()
    }

    /// Commits the open transaction, which ends the work.
    pub async fn commit(self) -> Result<(), Trouble> {
        self.batch_execute("COMMIT").await?;
        self.done();
        Ok(())
    }

    pub fn is_closed(&self) -> bool {
        self.line().is_closed()
    }

    /// Runs statements without values, or several at once.
    pub async fn batch_execute(&self, sql: &str) -> Result<(), Error> {
        self.line().batch_execute(sql).await
    }

    pub async fn prepare_cached(&self, sql: &str) -> Result<Statement, Error> {
        tracing::trace!(target: STATEMENTS, sql);
        Ok(match &self.pooled {
            None => Statement::Named(self.line().prepare_cached(sql).await?),
            Some(types) => {
                let types = types.of(self.line(), sql).await?;
                Statement::Unnamed { sql: sql.to_owned(), types }
            }
        })
    }

    pub async fn query(&self, what: &Statement, values: &Values<'_>) -> Result<Vec<Row>, Error> {
        match what {
            Statement::Named(statement) => self.line().query(statement, values).await,
            Statement::Unnamed { sql, types } => {
                self.line().query_typed(sql, &typed(values, types)).await
            }
        }
    }

    pub async fn query_opt(
        &self,
        what: &Statement,
        values: &Values<'_>,
    ) -> Result<Option<Row>, Error> {
        match what {
            Statement::Named(statement) => self.line().query_opt(statement, values).await,
            Statement::Unnamed { sql, types } => {
                self.line().query_typed_opt(sql, &typed(values, types)).await
            }
        }
    }

    pub async fn query_one(&self, what: &Statement, values: &Values<'_>) -> Result<Row, Error> {
        match what {
            Statement::Named(statement) => self.line().query_one(statement, values).await,
            Statement::Unnamed { sql, types } => {
                self.line().query_typed_one(sql, &typed(values, types)).await
            }
        }
    }

    pub async fn execute(&self, what: &Statement, values: &Values<'_>) -> Result<u64, Error> {
        match what {
            Statement::Named(statement) => self.line().execute(statement, values).await,
            Statement::Unnamed { sql, types } => {
                self.line().execute_typed(sql, &typed(values, types)).await
            }
        }
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
