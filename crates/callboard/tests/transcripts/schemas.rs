//! Schemas of PostgreSQL that scenes use one after another. To migrate a schema and to drop it takes longer than most
//! scenes, so a scene's rows are deleted and its schema is lent to the next one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use callboard_store::postgres::PostgresStore;
use tokio_postgres::Client;

use crate::schema::Schema;

pub struct LentSchema {
    schema: Schema,
    /// Statements that bring every table back to the rows it has after the migrations.
    reset: String,
    altered: AtomicBool,
}

static FREE: Mutex<Vec<LentSchema>> = Mutex::new(Vec::new());

impl LentSchema {
    pub fn url(&self) -> &str {
        self.schema.url()
    }

    /// A connection that may change tables. The schema is not lent again.
    pub async fn alter(&self) -> Client {
        self.altered.store(true, Ordering::SeqCst);
        self.schema.connect().await
    }
}

/// A schema as the migrations leave it.
pub fn lend() -> Arc<LentSchema> {
    let free = FREE.lock().expect("not poisoned").pop();
    Arc::new(free.unwrap_or_else(|| wait_for(new())))
}

/// Takes a schema back after everything that used it has ended.
pub fn take_back(schema: Arc<LentSchema>) {
    let Ok(schema) = Arc::try_unwrap(schema) else { return };
    if schema.altered.load(Ordering::SeqCst) {
        return;
    }
    wait_for(async {
        let client = schema.schema.connect().await;
        client.batch_execute(&schema.reset).await.expect("the rows of the scene are deleted");
    });
    FREE.lock().expect("not poisoned").push(schema);
}

/// Drops the schemas that no scene uses.
pub fn drop_free() {
    FREE.lock().expect("not poisoned").clear();
}

async fn new() -> LentSchema {
    let schema = Schema::new().expect("a server, or the scene would be skipped");
    PostgresStore::open(schema.url(), None).await.expect("the store opens");
    let reset = reset(&schema.connect().await).await;
    LentSchema { schema, reset, altered: AtomicBool::new(false) }
}

/// Triggers are off meanwhile, so that the order of tables does not matter.
async fn reset(db: &Client) -> String {
    let mut sql = String::from("BEGIN; SET LOCAL session_replication_role = replica;\n");
    let tables = "SELECT relname FROM pg_class \
                  WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'";
    let tables = db.query(tables, &[]).await.expect("a list of tables");
    for table in tables.iter().map(|row| row.get::<_, String>(0)) {
        sql.push_str(&format!("DELETE FROM {table};\n"));
        let rows = format!("SELECT json_agg(t)::text FROM {table} t");
        let rows = db.query_one(&rows, &[]).await.expect("the rows of a table");
        if let Some(rows) = rows.get::<_, Option<String>>(0) {
            let rows = rows.replace('\'', "''");
            sql.push_str(&format!(
                "INSERT INTO {table} OVERRIDING SYSTEM VALUE \
                 SELECT * FROM json_populate_recordset(NULL::{table}, '{rows}');\n"
            ));
        }
    }
    let counters = "SELECT sequencename::text, last_value FROM pg_sequences \
                    WHERE schemaname = current_schema()";
    for row in db.query(counters, &[]).await.expect("a list of sequences") {
        let (name, last) = (row.get::<_, String>(0), row.get::<_, Option<i64>>(1));
        sql.push_str(&match last {
            None => format!("ALTER SEQUENCE {name} RESTART;\n"),
            Some(last) => format!("SELECT setval('{name}', {last});\n"),
        });
    }
    sql + "COMMIT;"
}

fn wait_for<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(work)
}
