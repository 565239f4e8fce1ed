//! The statements that load a batch: each looks rows up by key, for all commands at once.

use crate::postgres::board::cards;
use crate::postgres::db::{Db, Statement};
use crate::postgres::errors::Trouble;
use crate::postgres::{around, pulls, runs};
use crate::table::attempt::ATTEMPT;
use crate::table::comment::COMMENT;
use crate::table::job::{JOB, JOB_FROM};
use crate::table::retry::RETRY;
use crate::table::task::{TASK, TASK_FROM};

/// The statements of every batch, prepared once per connection. They must all be ready before the
/// first is sent: only then does the server see them in the order they are written here.
pub(crate) struct Statements {
    /// `None` when the connection keeps its settings.
    pub settings: Option<Statement>,
    pub retries: Statement,
    pub attempt_tasks: Statement,
    pub comment_tasks: Statement,
    pub job_tasks: Statement,
    pub lock: Statement,
    pub lock_jobs: Statement,
    pub around: Statement,
    pub attempts: Statement,
    pub keyed: Statement,
    pub comments: Statement,
    pub jobs: Statement,
    pub ancestry: Statement,
    pub runs: Statement,
    pub run_keys: Statement,
    pub open_runs: Statement,
    pub runs_here: Statement,
    pub beside: Statement,
    pub above: Statement,
    pub numbers: Statement,
    pub references: Statement,
    pub pulls_last: Statement,
    pub pulls: Statement,
}

/// The settings of a batch's transaction. A batch only looks rows up by key, so plans that read whole tables are
/// never right, however small the tables are while a plan is made. (Forbidding such plans makes plans look
/// expensive enough to be compiled, which takes longer than they run; hence no JIT.) A process that stops in the
/// middle, on a paused machine say, must not keep its locks, nor make others wait without end.
const SETTINGS: [(&str, &str); 8] = [
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
    ("idle_in_transaction_session_timeout", "10s"),
    ("lock_timeout", "20s"),
    ("statement_timeout", "30s"),
];

/// The settings for one transaction. One statement that is parsed once; `SET LOCAL` would be eight that are parsed
/// every time.
pub(crate) fn settings() -> String {
    set(true)
}

/// The settings for every transaction of a connection. Behind a pooler no connection is the writer's own.
pub(crate) fn settings_of_connection() -> String {
    set(false)
}

fn set(is_local: bool) -> String {
    let set = SETTINGS.map(|(name, value)| format!("set_config('{name}', '{value}', {is_local})"));
    format!("SELECT {}", set.join(", "))
}

impl Statements {
    pub async fn prepare(db: &Db) -> Result<Self, Trouble> {
        let attempt =
            format!("SELECT {ATTEMPT}, t.org FROM attempts a JOIN tasks t ON t.id = a.task");
        let prepare = async |sql: &str| db.prepare_cached(sql).await;
        Ok(Self {
            settings: match db.is_pooled() {
                true => Some(prepare(&settings()).await?),
                false => None,
            },
            retries: prepare(&format!(
                "SELECT r.org, r.actor, r.tool, r.key, {RETRY}
                 FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
                         AS k (org, actor, tool, key)
                     JOIN retries r USING (org, actor, tool, key)"
            ))
            .await?,
            attempt_tasks: prepare("SELECT task FROM attempts WHERE id = ANY ($1)").await?,
            comment_tasks: prepare(
                "SELECT t.id, t.prefix, t.org FROM comments c JOIN tasks t ON t.id = c.task
                 WHERE c.id = ANY ($1)",
            )
            .await?,
            job_tasks: prepare(
                "SELECT id, task FROM jobs WHERE id = ANY ($1) AND task IS NOT NULL",
            )
            .await?,
            lock_jobs: prepare(
                "SELECT id FROM jobs WHERE id = ANY ($1) AND task IS NULL
                 ORDER BY id FOR NO KEY UPDATE",
            )
            .await?,
            lock: prepare(&format!(
                "SELECT {}, t.org, t.removed_at FROM {} WHERE t.id = ANY (ARRAY(
                     SELECT unnest($1::uuid[])
                     UNION SELECT task FROM deps WHERE dep = ANY ($2::uuid[])))
                 ORDER BY t.id FOR NO KEY UPDATE OF t",
                TASK, TASK_FROM
            ))
            .await?,
            around: prepare(&around::sql()).await?,
            attempts: prepare(&format!(
                "{attempt} WHERE a.id = ANY (ARRAY(
                     SELECT unnest($2::uuid[])
                     UNION SELECT newest_attempt FROM tasks WHERE id = ANY ($1::uuid[])))"
            ))
            .await?,
            keyed: prepare(&format!(
                "{attempt} JOIN unnest($1::uuid[], $2::text[], $3::text[]) AS k (task, actor, key)
                     ON a.task = k.task AND a.actor = k.actor AND a.key = k.key"
            ))
            .await?,
            comments: prepare(&format!(
                "SELECT {} WHERE c.id = ANY (ARRAY(
                     SELECT unnest($1::uuid[])
                     UNION SELECT b.id FROM tasks s JOIN comments b ON b.task = s.id
                         WHERE s.id = ANY ($2::uuid[]) AND s.open_blockers > 0
                             AND b.kind = 'blocker' AND b.resolved_at IS NULL))",
                COMMENT
            ))
            .await?,
            jobs: prepare(&format!(
                "SELECT {}, j.org FROM {} WHERE j.id = ANY (ARRAY(
                     SELECT unnest($1::uuid[])
                     UNION SELECT n.id FROM unnest($2::bigint[], $3::text[]) AS k (org, key)
                         CROSS JOIN LATERAL (SELECT id FROM jobs
                             WHERE org = k.org AND key = k.key AND due_at IS NOT NULL
                             LIMIT 1) n))",
                JOB, JOB_FROM
            ))
            .await?,
            runs: prepare(&runs::lookup()).await?,
            run_keys: prepare(
                "SELECT n.job FROM unnest($1::bigint[], $2::text[]) AS k (org, key)
                 CROSS JOIN LATERAL (SELECT job FROM runs WHERE org = k.org AND key = k.key
                     ORDER BY job DESC LIMIT 1) n",
            )
            .await?,
            open_runs: prepare(
                "SELECT count(*) FILTER (WHERE state = 'queued'),
                     count(*) FILTER (WHERE state <> 'queued')
                 FROM jobs WHERE kind = 'run' AND due_at IS NOT NULL AND org = $1",
            )
            .await?,
            runs_here: prepare(&crate::runs::count_on("$1", "$2")).await?,
            beside: prepare(&cards::sql()).await?,
            above: prepare(cards::ABOVE).await?,
            numbers: prepare(
                "SELECT coalesce((SELECT max(t.number) FROM tasks t \
                     WHERE t.org = n.org AND t.prefix = n.prefix), 0) \
                 FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS n (org, prefix, place) \
                 ORDER BY n.place",
            )
            .await?,
            references: prepare(
                "SELECT t.org, t.project, t.reference, t.id, t.prefix \
                 FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS n (org, project, reference) \
                 JOIN tasks t ON t.org = n.org AND t.project = n.project \
                     AND t.reference = n.reference AND t.removed_at IS NULL",
            )
            .await?,
            pulls_last: prepare(
                "SELECT coalesce(max(number), 0) FROM pulls WHERE org = $1 AND forge = 'local'",
            )
            .await?,
            pulls: prepare(&pulls::sql()).await?,
            ancestry: prepare(
                "WITH RECURSIVE above (id) AS (
                     SELECT unnest($1::uuid[])
                     UNION SELECT deps.dep FROM deps JOIN above ON deps.task = above.id)
                 SELECT t.id, t.prefix, d.id, d.prefix
                 FROM above JOIN deps ON deps.task = above.id
                     JOIN tasks t ON t.id = deps.task JOIN tasks d ON d.id = deps.dep",
            )
            .await?,
        })
    }
}
