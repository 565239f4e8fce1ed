//! Reads what `decide` wants to know, inside the transaction that will write. First every row the
//! batch decides on is locked, in one order everywhere; what is read after that stays true until
//! the commit.

use std::collections::{BTreeSet, HashSet};

use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::time::Timestamp;
use callboard_domain::world::Reply;
use futures_util::future;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::clock::{NOW, SharedClock};
use super::db::{Db, Statement};
use super::desk::{Desk, Line, RetryKey, Sheet};
use super::errors::Trouble;
use super::lookups::Statements;
use super::rows::{self, uuid};
use super::schema;
use crate::{Op, StoreError};

/// Which rows a batch wants.
#[derive(Default)]
struct Wanted {
    /// Tasks with everything around them: subjects, and what earlier replies were about.
    whole: BTreeSet<Id>,
    /// Tasks that are only named.
    named: BTreeSet<Id>,
    /// Tasks that may close or reopen, so that their dependents count anew.
    turning: BTreeSet<Id>,
    attempts: BTreeSet<Id>,
    keyed: Vec<(Id, String, String)>,
    retries: Vec<RetryKey>,
    ancestry_of: Option<TaskId>,
    /// Dependents that appeared while the batch waited for its locks.
    late: BTreeSet<Id>,
}

impl Wanted {
    fn of(ops: &[(i64, &Op)]) -> Self {
        let mut wanted = Self::default();
        for (org, op) in ops {
            let needs = op.command.needs(&op.actor);
            wanted.whole.extend(needs.task.map(|task| task.id));
            wanted.named.extend(needs.named.iter().map(|task| task.id));
            wanted.turning.extend(needs.task.filter(|_| needs.dependents).map(|task| task.id));
            wanted.attempts.extend(needs.attempt.map(|attempt| attempt.0));
            let keyed = needs
                .attempt_by_key
                .map(|(task, actor, key)| (task.id, actor.as_str().to_owned(), key));
            wanted.keyed.extend(keyed);
            wanted.retries.extend(RetryKey::of(*org, op));
            wanted.ancestry_of = wanted.ancestry_of.or(needs.ancestry_of);
        }
        wanted
    }
}

fn uuids(ids: &BTreeSet<Id>) -> Vec<Uuid> {
    ids.iter().map(|id| uuid(*id)).collect()
}

type Values<'a> = [&'a (dyn ToSql + Sync)];

/// Asks only when there is something to ask for.
async fn rows_if(
    db: &Db,
    wanted: bool,
    statement: &Statement,
    values: &Values<'_>,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    if wanted { db.query(statement, values).await } else { Ok(Vec::new()) }
}

/// Locks and loads all that these commands need.
pub(super) async fn desk(
    db: &Db,
    statements: &Statements,
    clock: &SharedClock,
    ops: &[(i64, &Op)],
) -> Result<Desk, Trouble> {
    let mut wanted = Wanted::of(ops);
    let mut desk = Desk::default();
    if wanted.ancestry_of.is_some() {
        // Two edges that close a cycle only together would pass each other unseen.
        db.batch_execute(schema::ALONE).await?;
    }
    earlier(db, statements, &mut wanted, &mut desk).await?;
    const ROUNDS: usize = 4;
    for _ in 0..ROUNDS {
        let locked = lock_and_load(db, statements, clock, &wanted, &mut desk).await?;
        let turning = wanted.turning.iter().filter_map(|id| desk.tasks.get(id));
        let late: Vec<Id> = turning
            .flat_map(|sheet| sheet.dependents.iter().copied())
            .filter(|id| !locked.contains(id))
            .collect();
        if late.is_empty() {
            return Ok(desk);
        }
        wanted.late.extend(late);
    }
    Err(StoreError::Unavailable("too many writers on the same tasks; try again".into()).into())
}

/// What was answered before, and which tasks the named attempts belong to.
async fn earlier(
    db: &Db,
    statements: &Statements,
    wanted: &mut Wanted,
    desk: &mut Desk,
) -> Result<(), Trouble> {
    let keys = &wanted.retries;
    let orgs: Vec<i64> = keys.iter().map(|key| key.org).collect();
    let actors: Vec<&str> = keys.iter().map(|key| key.actor.as_str()).collect();
    let tools: Vec<&str> = keys.iter().map(|key| key.tool.as_str()).collect();
    let texts: Vec<&str> = keys.iter().map(|key| key.key.as_str()).collect();
    let retries: [&(dyn ToSql + Sync); 4] = [&orgs, &actors, &tools, &texts];
    let attempts = uuids(&wanted.attempts);
    let attempts: [&(dyn ToSql + Sync); 1] = [&attempts];
    let (replies, tasks) = future::try_join(
        rows_if(db, !keys.is_empty(), &statements.retries, &retries),
        rows_if(db, !wanted.attempts.is_empty(), &statements.attempt_tasks, &attempts),
    )
    .await?;
    for row in &replies {
        let key = RetryKey {
            org: row.try_get(0)?,
            actor: row.try_get(1)?,
            tool: row.try_get(2)?,
            key: row.try_get(3)?,
        };
        let id = rows::id(row, 5)?;
        let reply = match row.try_get(4)? {
            "attempt" => {
                wanted.attempts.insert(id);
                Reply::Attempt(AttemptId(id))
            }
            _ => {
                wanted.whole.insert(id);
                let prefix = Prefix::parse(row.try_get(6)?).unwrap_or_else(Prefix::fallback);
                Reply::Task(TaskId { id, prefix })
            }
        };
        desk.retries.insert(key, reply);
    }
    for row in &tasks {
        wanted.whole.insert(rows::id(row, 0)?);
    }
    Ok(())
}

/// One round trip: the server takes the locks first and answers the rest with what it then sees.
async fn lock_and_load(
    db: &Db,
    statements: &Statements,
    clock: &SharedClock,
    wanted: &Wanted,
    desk: &mut Desk,
) -> Result<HashSet<Id>, Trouble> {
    let all = wanted.whole.iter().chain(&wanted.named).chain(&wanted.late);
    let all: Vec<Uuid> = all.collect::<BTreeSet<_>>().into_iter().map(|id| uuid(*id)).collect();
    let (whole, turning) = (uuids(&wanted.whole), uuids(&wanted.turning));
    let attempts = uuids(&wanted.attempts);
    let key_tasks: Vec<Uuid> = wanted.keyed.iter().map(|(task, _, _)| uuid(*task)).collect();
    let key_actors: Vec<&str> = wanted.keyed.iter().map(|(_, actor, _)| actor.as_str()).collect();
    let keys: Vec<&str> = wanted.keyed.iter().map(|(_, _, key)| key.as_str()).collect();
    let lock_values: [&(dyn ToSql + Sync); 2] = [&all, &turning];
    let task_values: [&(dyn ToSql + Sync); 3] = [&all, &whole, &turning];
    let whole_values: [&(dyn ToSql + Sync); 1] = [&whole];
    let turning_values: [&(dyn ToSql + Sync); 1] = [&turning];
    let attempt_values: [&(dyn ToSql + Sync); 2] = [&whole, &attempts];
    let keyed_values: [&(dyn ToSql + Sync); 3] = [&key_tasks, &key_actors, &keys];
    let start = wanted.ancestry_of.map(|task| uuid(task.id)).unwrap_or_default();
    let start_values: [&(dyn ToSql + Sync); 1] = [&start];
    let (any, any_whole) = (!all.is_empty(), !whole.is_empty());
    let any_attempt = any_whole || !attempts.is_empty();
    // `try_join` sends its first half first.
    let loads = async {
        tokio::try_join!(
            biased;
            db.query_one(&statements.state, &[]),
            rows_if(db, any, &statements.tasks, &task_values),
            rows_if(db, any_whole, &statements.deps, &whole_values),
            rows_if(db, !turning.is_empty(), &statements.dependents, &turning_values),
            rows_if(db, any_attempt, &statements.attempts, &attempt_values),
            rows_if(db, !keys.is_empty(), &statements.keyed, &keyed_values),
            rows_if(db, any_whole, &statements.bodies, &whole_values),
            rows_if(db, any_whole, &statements.lines, &whole_values),
            rows_if(db, wanted.ancestry_of.is_some(), &statements.ancestry, &start_values),
        )
    };
    let lock = rows_if(db, any, &statements.lock, &lock_values);
    let (locked, loaded) = future::try_join(lock, loads).await?;
    let (state, tasks, deps, dependents, attempts, keyed, bodies, lines, ancestry) = loaded;
    let version = state.try_get(2)?;
    if version > schema::latest() {
        return Err(schema::newer(version).into());
    }
    desk.now = clock.learn(state.try_get(0)?, state.try_get(1)?);
    desk.tasks.clear();
    desk.attempts.clear();
    for row in &tasks {
        let task = rows::task(row)?;
        let (org, removed_at) =
            (row.try_get(rows::TASK_COLUMNS)?, row.try_get(rows::TASK_COLUMNS + 1)?);
        desk.tasks.insert(task.id.id, Sheet::row(org, task, removed_at));
    }
    for row in &deps {
        let edge = (row.try_get(1)?, rows::id(row, 2)?);
        desk.tasks.entry(rows::id(row, 0)?).and_modify(|sheet| sheet.deps.push(edge));
    }
    for row in &dependents {
        let dependent = rows::id(row, 1)?;
        desk.tasks.entry(rows::id(row, 0)?).and_modify(|sheet| sheet.dependents.push(dependent));
    }
    for row in &bodies {
        let body: String = row.try_get(1)?;
        desk.tasks.entry(rows::id(row, 0)?).and_modify(|sheet| sheet.body = body);
    }
    for row in &lines {
        let attempt = rows::optional_id(row, 5)?.map(AttemptId);
        let line = Line { number: rows::count(row, 4)?, entry: rows::entry(row)?, attempt };
        desk.tasks.entry(rows::id(row, 6)?).and_modify(|sheet| sheet.lines.push(line));
    }
    for row in attempts.iter().chain(&keyed) {
        let attempt = rows::attempt(row)?;
        let org = row.try_get(rows::ATTEMPT_COLUMNS)?;
        desk.attempts.insert(attempt.id.0, (org, attempt));
    }
    let edge = |row: &Row| Ok((rows::task_id(row, 0, 1)?, rows::task_id(row, 2, 3)?));
    desk.ancestry = ancestry.iter().map(edge).collect::<Result<_, Trouble>>()?;
    locked.iter().map(|row| rows::id(row, 0)).collect()
}

/// The time a read is judged at, fresh from the database.
pub(super) async fn now(db: &Db, clock: &SharedClock) -> Result<Timestamp, Trouble> {
    let sql = format!("SELECT {NOW}, last_at FROM log_position WHERE one");
    let row = db.query_one(&db.prepare_cached(&sql).await?, &[]).await?;
    Ok(clock.learn(row.try_get(0)?, row.try_get(1)?))
}
