//! The rows of the large fixture: tasks come from commands, everything that grows beside them from bulk statements, one
//! text for both databases. Values need not make sense together; only their number and spread matter to a planner.

use crate::fixture::{Database, Fixture};

/// So many that PostgreSQL finds it cheaper to look rows up than to read them all.
const ROWS: usize = 8_000;

const BULK: &[&str] = &[
    "INSERT INTO mails (id, org, from_agent, to_agent, subject, body, in_reply_to, created_at, read_at)
         SELECT {id}, 1, 'w' || (i % 50), CASE WHEN i % 2 = 0 THEN 'w' || (i % 50) END, 's', 'b',
             CASE WHEN i % 9 = 0 THEN {id} END, i, CASE WHEN i % 10 <> 0 THEN i END FROM {series}",
    "INSERT INTO decisions (id, org, agent, decision, reasoning, at)
         SELECT {id}, 1, 'w' || (i % 50), 'd', 'r', i FROM {series}",
    "INSERT INTO jobs (id, org, kind, key, tries, created_at, state, reason, ended_at, priority)
         SELECT {id}, 1, CASE WHEN i % 2 = 0 THEN 'run' ELSE 'verify' END, 'k' || i, 1, i,
             CASE WHEN i % 3 = 0 THEN 'failed' ELSE 'done' END, CASE WHEN i % 3 = 0 THEN 'r' END, i, 500 FROM {series}",
    "INSERT INTO knowledge (id, org, number, title, body, tags, confidence, source, created_at, created_by)
         SELECT {id}, 1, i - 1, 't', 'b', '[]', 50, 'agent', i, 'agent:w1' FROM {series}",
    "INSERT INTO attempts (id, task, kind, fence, actor, started_at, heartbeat_at, ended_at, outcome)
         SELECT t.id, t.id, 'graph', 1000, 'agent:w' || (t.number % 50), t.number, t.number, t.number,
             CASE WHEN t.number % 3 = 0 THEN 'canceled' ELSE 'finished' END FROM tasks t",
    "INSERT INTO comments (id, task, kind, body, author, created_at)
         SELECT t.id, t.id, 'note', 'b', 'agent:w1', t.number FROM tasks t",
    "INSERT INTO knowledge_uses (entry, task, attempt, actor, at)
         SELECT t.id, t.id, t.id, 'agent:w1', t.number FROM tasks t",
];

impl Fixture {
    /// Adds mail, decisions, jobs, knowledge, attempts and comments behind the store's back.
    pub async fn grow(&self) {
        for sql in BULK {
            match &*self.place {
                Database::Folder(folder) => {
                    let series = format!(
                        "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) \
                         SELECT i FROM n)"
                    );
                    let sql = sql.replace("{id}", "unhex(printf('%032x', i))");
                    let db = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
                    db.execute_batch(&sql.replace("{series}", &series)).unwrap();
                }
                Database::Schema(schema) => {
                    let series = format!("generate_series(1, {ROWS}) AS n (i)");
                    let sql = sql.replace("{id}", "lpad(to_hex(i), 32, '0')::uuid");
                    let client = schema.connect().await;
                    client.batch_execute(&sql.replace("{series}", &series)).await.unwrap();
                }
            }
        }
    }
}
