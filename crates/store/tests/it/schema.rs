//! A fresh PostgreSQL schema for one test, in the database that `CALLBOARD_TEST_POSTGRES` names.
//! The transcripts use this file too.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio_postgres::{Client, NoTls};

use crate::skipped::skipped;

const POSTGRES: &str = "CALLBOARD_TEST_POSTGRES";
const PGBOUNCER: &str = "CALLBOARD_TEST_PGBOUNCER";
const NO_POSTGRES: &str = "CALLBOARD_TEST_POSTGRES is not set (scripts/postgres start prints it)";
const NO_PGBOUNCER: &str =
    "CALLBOARD_TEST_PGBOUNCER is not set (scripts/postgres pooler prints it)";

pub struct Schema {
    database: String,
    name: String,
    url: String,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|url| !url.is_empty())
}

impl Schema {
    /// Why no test can have a schema here.
    pub fn missing() -> Option<&'static str> {
        variable(POSTGRES).is_none().then_some(NO_POSTGRES)
    }

    /// A new schema; `None` without a database, and the test is then skipped.
    pub fn new() -> Option<Self> {
        if let Some(why) = Self::missing() {
            skipped(why);
        }
        let database = variable(POSTGRES)?;
        Some(Self::by_way_of(&database.clone(), database))
    }

    /// A schema whose stores go through a pooler in transaction mode.
    pub fn pooled() -> Option<Self> {
        match (variable(POSTGRES), variable(PGBOUNCER)) {
            (Some(database), Some(pooler)) => Some(Self::by_way_of(&pooler, database)),
            _ => {
                skipped(NO_PGBOUNCER);
                None
            }
        }
    }

    fn by_way_of(way: &str, database: String) -> Self {
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("test_{}_{number}", std::process::id());
        let mark = if way.contains('?') { '&' } else { '?' };
        let url = format!("{way}{mark}search_path={name}&application_name={name}");
        Self { database, name, url }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Host and port of the server.
    pub fn server(&self) -> &str {
        let (_, rest) = self.database.split_once('@').expect("postgres://USER@HOST:PORT/DATABASE");
        rest.split_once('/').expect("postgres://USER@HOST:PORT/DATABASE").0
    }

    /// The address of this schema on another server, given as host and port.
    pub fn url_via(&self, server: &str) -> String {
        self.url.replacen(&format!("@{}/", self.server()), &format!("@{server}/"), 1)
    }

    /// Ends every connection of the stores on this schema. Returns how many there were.
    pub async fn end_connections(&self, by: &Client) -> usize {
        let sql =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
        by.query(sql, &[&self.name]).await.expect("a superuser").len()
    }

    /// How many connections of the stores on this schema wait for a row that another transaction holds.
    pub async fn waiting_for_rows(&self, by: &Client) -> usize {
        let sql = "SELECT DISTINCT pid FROM pg_locks JOIN pg_stat_activity USING (pid) \
             WHERE application_name = $1 AND NOT granted AND locktype IN ('transactionid', 'tuple')";
        by.query(sql, &[&self.name]).await.expect("a superuser").len()
    }

    /// A connection beside the store's.
    pub async fn connect(&self) -> Client {
        let (client, connection) =
            tokio_postgres::connect(&self.database, NoTls).await.expect("PostgreSQL answers");
        tokio::spawn(connection);
        let path = format!("SET search_path = {}", self.name);
        client.batch_execute(&path).await.expect("a search path");
        client
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let (database, name) = (self.database.clone(), self.name.clone());
        let drop_it = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime starts").block_on(async {
                let Ok((client, connection)) = tokio_postgres::connect(&database, NoTls).await
                else {
                    return;
                };
                tokio::spawn(connection);
                let sql = format!("SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS {name} CASCADE");
                // A schema that is left behind does no harm.
                let _ = client.batch_execute(&sql).await;
            });
        };
        // A runtime cannot be awaited from inside another one.
        let _ = std::thread::spawn(drop_it).join();
    }
}
