//! Reads what `decide` needs, inside the transaction that will write. First every row that the batch decides on is
//! locked, in one order everywhere; what is read after that stays true until the commit.

use std::collections::BTreeSet;

use callboard_domain::actor::Actor;
use callboard_domain::desk::TaskRows;
use callboard_domain::ids::{Id, Prefix, TaskId};
use callboard_domain::needs::{OrgNeeds, verify_key};
use callboard_domain::runs::job::JobKind;
use callboard_domain::runs::run::{OpenRuns, RunRecord};
use futures_util::future;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::migrations::refuse_newer;
use crate::postgres::around::{self, Part};
use crate::postgres::batch::{Batch, CallKey};
use crate::postgres::board::cards::{self, Beside};
use crate::postgres::board::org;
use crate::postgres::clock::SharedClock;
use crate::postgres::db::{Db, Statement};
use crate::postgres::errors::Trouble;
use crate::postgres::lookups::Statements;
use crate::postgres::rows::uuid;
use crate::postgres::{crew, knowledge, pulls, review, schema};
use crate::table::{Cells, attempt, comment, job, retry, run, task};
use crate::{Op, StoreError};

/// The rows that a batch needs.
#[derive(Default)]
struct RowsWanted {
    orgs: BTreeSet<i64>,
    /// Tasks with everything around them: subjects, and tasks that earlier calls gave their callers.
    whole: BTreeSet<Id>,
    /// Tasks that are only named.
    named: BTreeSet<Id>,
    /// Tasks that may close or reopen, which changes the counts of their dependents.
    turning: BTreeSet<Id>,
    attempts: BTreeSet<Id>,
    comments: BTreeSet<Id>,
    jobs: BTreeSet<Id>,
    /// Jobs whose task may close.
    jobs_turning: BTreeSet<Id>,
    /// Keys of jobs that may be open, with their org.
    job_keys: BTreeSet<(i64, String)>,
    /// Whether a command needs open blockers.
    blockers: bool,
    keyed: Vec<(Id, String, String)>,
    retries: Vec<CallKey>,
    ancestry_of: BTreeSet<Id>,
    knowledge: BTreeSet<Id>,
    /// Tasks whose open run is needed.
    run_tasks: BTreeSet<Id>,
    /// Idempotency keys, with their org.
    run_keys: BTreeSet<(i64, String)>,
    /// Orgs whose open jobs for agents are counted.
    open_runs: BTreeSet<i64>,
    /// Machines whose runs of a kind are counted.
    runs_on: BTreeSet<(JobKind, String)>,
    /// The rows of an org, and the asking actor; such a command goes alone.
    org: Option<(i64, Actor, OrgNeeds)>,
    /// Tasks whose card, body and notes are needed.
    carded: BTreeSet<Id>,
    /// Jobs whose tasks' card, body and notes are needed.
    jobs_carded: BTreeSet<Id>,
    /// Every task above this one is needed; such a command goes alone.
    above: Option<TaskId>,
    crew: crew::CrewRowsWanted,
    /// Orgs and prefixes with new tasks, which get the next numbers.
    numbers: BTreeSet<(i64, Prefix)>,
    /// Orgs, projects and names of tasks that are imported.
    references: BTreeSet<(i64, i64, String)>,
    /// An org whose local pull requests get a new number; such a command goes alone.
    pulls_of: Option<i64>,
    /// Tasks whose pull requests are needed.
    pulled: BTreeSet<Id>,
    /// Tasks and authors whose drafts are needed.
    drafts: BTreeSet<(Id, String)>,
    /// Dependents that appeared while the batch waited for its locks.
    late: BTreeSet<Id>,
}

impl RowsWanted {
    fn of(ops: &[(i64, &Op)]) -> Self {
        let mut wanted = Self::default();
        for (org, op) in ops {
            let needs = op.command.needs(&op.actor);
            wanted.orgs.insert(*org);
            wanted.whole.extend(needs.task.map(|task| task.id));
            wanted.named.extend(needs.named.iter().map(|task| task.id));
            wanted.turning.extend(needs.task.filter(|_| needs.dependents).map(|task| task.id));
            wanted.attempts.extend(needs.attempt.map(|attempt| attempt.0));
            wanted.comments.extend(needs.comment.map(|comment| comment.0));
            wanted.jobs.extend(needs.job.map(|job| job.0));
            wanted.jobs_turning.extend(needs.job.filter(|_| needs.dependents).map(|job| job.0));
            let verified = needs.task.filter(|_| needs.verify_job);
            wanted.job_keys.extend(verified.map(|task| (*org, verify_key(task))));
            wanted.job_keys.extend(needs.job_key.map(|key| (*org, key)));
            wanted.blockers |= needs.blockers;
            let keyed = needs
                .attempt_by_key
                .map(|(task, actor, key)| (task.id, actor.as_str().to_owned(), key));
            wanted.keyed.extend(keyed);
            wanted.retries.extend(CallKey::of(*org, op));
            wanted.knowledge.extend(needs.knowledge.map(|entry| entry.0));
            wanted.run_tasks.extend(needs.task.filter(|_| needs.run_of_task).map(|task| task.id));
            wanted.run_keys.extend(needs.run_key.map(|key| (*org, key)));
            wanted.open_runs.extend(needs.open_runs.then_some(*org));
            wanted.runs_on.extend(needs.runs_on);
            if !needs.org.is_empty() {
                wanted.org = Some((*org, op.actor.clone(), needs.org));
            }
            wanted.numbers.extend(needs.numbers.iter().map(|prefix| (*org, *prefix)));
            let names = needs.references.into_iter();
            wanted.references.extend(names.map(|(project, name)| (*org, project, name)));
            wanted.pulls_of = wanted.pulls_of.or(needs.pulls.then_some(*org));
            wanted.pulled.extend(needs.task.filter(|_| needs.task_pulls).map(|task| task.id));
            wanted.ancestry_of.extend(needs.ancestry_of.iter().map(|task| task.id));
            if needs.card || needs.scratchpad {
                wanted.carded.extend(needs.task.map(|task| task.id));
                wanted.jobs_carded.extend(needs.job.map(|job| job.0));
            }
            let drafted = needs.task.filter(|_| needs.drafts);
            wanted.drafts.extend(drafted.map(|task| (task.id, op.actor.as_str().to_owned())));
            wanted.above = wanted.above.or(needs.above);
            wanted.crew.add(*org, &needs.crew);
        }
        wanted
    }
}

fn uuids(ids: &BTreeSet<Id>) -> Vec<Uuid> {
    ids.iter().map(|id| uuid(*id)).collect()
}

type Values<'a> = [&'a (dyn ToSql + Sync)];

/// Runs the query only when there is something to ask for.
async fn rows_if(
    db: &Db,
    wanted: bool,
    statement: &Statement,
    values: &Values<'_>,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    if wanted { db.query(statement, values).await } else { Ok(Vec::new()) }
}

/// Begins a transaction, and locks and loads everything that these commands need.
pub(crate) async fn batch(
    db: &Db,
    begin: &str,
    statements: &Statements,
    clock: &SharedClock,
    ops: &[(i64, &Op)],
) -> Result<Batch, Trouble> {
    // `try_join` sends its first half first, and neither half waits for an answer before it goes on.
    let begin = async {
        let begun = db.batch_execute(begin);
        match &statements.settings {
            Some(settings) => drop(future::try_join(begun, db.query_one(settings, &[])).await?),
            None => begun.await?,
        }
        Ok(())
    };
    let ((), batch) = future::try_join(begin, fill(db, statements, clock, ops)).await?;
    Ok(batch)
}

async fn fill(
    db: &Db,
    statements: &Statements,
    clock: &SharedClock,
    ops: &[(i64, &Op)],
) -> Result<Batch, Trouble> {
    let mut wanted = RowsWanted::of(ops);
    let mut batch = Batch::default();
    if !wanted.ancestry_of.is_empty() || wanted.above.is_some() {
        // Without the lock, two edges that close a cycle only together would pass each other unseen.
        db.batch_execute(schema::ALONE).await?;
    }
    counted(db, statements, &wanted, &mut batch).await?;
    earlier(db, statements, &mut wanted, &mut batch).await?;
    if let Some((org, actor, needs)) = &wanted.org {
        batch.desk(*org).rows.org = org::rows(db, *org, actor, needs).await?;
    }
    crew::fetch(db, &wanted.crew, &mut batch).await?;
    numbers(db, statements, &wanted, &mut batch).await?;
    references(db, statements, &wanted, &mut batch).await?;
    if !wanted.knowledge.is_empty() {
        let found = knowledge::by_id(db, &uuids(&wanted.knowledge)).await?;
        for (org, entry) in found {
            batch.desk(org).rows.knowledge.insert(entry.id, entry);
        }
    }
    const ROUNDS: usize = 4;
    for _ in 0..ROUNDS {
        let late = lock_and_load(db, statements, clock, &wanted, &mut batch).await?;
        if late.is_empty() {
            review::fetch(db, &wanted.drafts, &mut batch).await?;
            return Ok(batch);
        }
        wanted.late.extend(late);
    }
    Err(StoreError::Unavailable("too many writers on the same tasks; try again".into()).into())
}

/// Counts jobs for agents and pull requests, under a lock: batches that might add to a count wait their turn.
async fn counted(
    db: &Db,
    statements: &Statements,
    wanted: &RowsWanted,
    batch: &mut Batch,
) -> Result<(), Trouble> {
    let count = |row: &Row, column| Ok::<u32, Trouble>(row.try_get::<_, i64>(column)? as u32);
    // The locks are taken in one order everywhere; each count sees what was committed before its lock.
    for org in &wanted.open_runs {
        let alone = schema::alone_with(&format!("runs of {org}"));
        let values: [&(dyn ToSql + Sync); 1] = [org];
        let asked = db.query_one(&statements.open_runs, &values);
        let ((), row) = future::try_join(db.batch_execute(&alone), asked).await?;
        batch.desk(*org).rows.counts.open =
            Some(OpenRuns { queued: count(&row, 0)?, running: count(&row, 1)? });
    }
    for place @ (kind, machine) in &wanted.runs_on {
        let alone = schema::alone_with(&format!("runs on {machine}"));
        let values: [&(dyn ToSql + Sync); 2] = [&kind.as_str(), machine];
        let asked = db.query_one(&statements.runs_here, &values);
        let ((), row) = future::try_join(db.batch_execute(&alone), asked).await?;
        let here = count(&row, 0)?;
        for org in &wanted.orgs {
            batch.desk(*org).rows.counts.here.insert(place.clone(), here);
        }
    }
    if let Some(org) = wanted.pulls_of {
        db.batch_execute(&schema::alone_with(&format!("pulls of {org}"))).await?;
        let row = db.query_one(&statements.pulls_last, &[&org]).await?;
        batch.desk(org).rows.pulls_last = row.try_get::<_, i64>(0)?.unsigned_abs();
    }
    Ok(())
}

/// The newest numbers of tasks. One batch at a time gives the next ones of a prefix; the locks are
/// taken in one order everywhere.
async fn numbers(
    db: &Db,
    statements: &Statements,
    wanted: &RowsWanted,
    batch: &mut Batch,
) -> Result<(), Trouble> {
    if wanted.numbers.is_empty() {
        return Ok(());
    }
    let alone =
        |(org, prefix): &(i64, Prefix)| schema::alone_with(&format!("numbers of {org} {prefix}"));
    let locks: Vec<String> = wanted.numbers.iter().map(alone).collect();
    let orgs: Vec<i64> = wanted.numbers.iter().map(|(org, _)| *org).collect();
    let prefixes: Vec<&str> = wanted.numbers.iter().map(|(_, prefix)| prefix.as_str()).collect();
    let values: [&(dyn ToSql + Sync); 2] = [&orgs, &prefixes];
    // `try_join` sends its first half first; the second sees what was committed before the locks.
    let locks = locks.join("; ");
    let asked = db.query(&statements.numbers, &values);
    let ((), rows) = future::try_join(db.batch_execute(&locks), asked).await?;
    for ((org, prefix), row) in wanted.numbers.iter().zip(&rows) {
        batch.desk(*org).rows.numbers.insert(*prefix, row.reader().count()?);
    }
    Ok(())
}

/// The tasks that stand under the names of an import. Batches that create tasks with one prefix wait for each other
/// (`numbers`), so this sees every task of an import that was quicker.
async fn references(
    db: &Db,
    statements: &Statements,
    wanted: &RowsWanted,
    batch: &mut Batch,
) -> Result<(), Trouble> {
    if wanted.references.is_empty() {
        return Ok(());
    }
    let orgs: Vec<i64> = wanted.references.iter().map(|(org, ..)| *org).collect();
    let projects: Vec<i64> = wanted.references.iter().map(|(_, project, _)| *project).collect();
    let names: Vec<&str> = wanted.references.iter().map(|(.., name)| name.as_str()).collect();
    let values: [&(dyn ToSql + Sync); 3] = [&orgs, &projects, &names];
    for row in db.query(&statements.references, &values).await? {
        let mut row = row.reader();
        let (org, project, name) = (row.int()?, row.int()?, row.text()?);
        batch.desk(org).rows.references.insert((project, name), row.task()?);
    }
    Ok(())
}

/// The stored rows of earlier calls, and the tasks of the named attempts, comments and jobs.
async fn earlier(
    db: &Db,
    statements: &Statements,
    wanted: &mut RowsWanted,
    batch: &mut Batch,
) -> Result<(), Trouble> {
    let keys = &wanted.retries;
    let orgs: Vec<i64> = keys.iter().map(|key| key.org).collect();
    let actors: Vec<&str> = keys.iter().map(|key| key.actor.as_str()).collect();
    let tools: Vec<&str> = keys.iter().map(|key| key.tool.as_str()).collect();
    let texts: Vec<&str> = keys.iter().map(|key| key.key.as_str()).collect();
    let retries: [&(dyn ToSql + Sync); 4] = [&orgs, &actors, &tools, &texts];
    let attempts = uuids(&wanted.attempts);
    let attempts: [&(dyn ToSql + Sync); 1] = [&attempts];
    let (comments, jobs) = (uuids(&wanted.comments), uuids(&wanted.jobs));
    let comments: [&(dyn ToSql + Sync); 1] = [&comments];
    let jobs: [&(dyn ToSql + Sync); 1] = [&jobs];
    let run_orgs: Vec<i64> = wanted.run_keys.iter().map(|(org, _)| *org).collect();
    let run_keys: Vec<&str> = wanted.run_keys.iter().map(|(_, key)| key.as_str()).collect();
    let keyed: [&(dyn ToSql + Sync); 2] = [&run_orgs, &run_keys];
    let (replies, tasks, commented, worked, runs) = tokio::try_join!(
        rows_if(db, !keys.is_empty(), &statements.retries, &retries),
        rows_if(db, !wanted.attempts.is_empty(), &statements.attempt_tasks, &attempts),
        rows_if(db, !wanted.comments.is_empty(), &statements.comment_tasks, &comments),
        rows_if(db, !wanted.jobs.is_empty(), &statements.job_tasks, &jobs),
        rows_if(db, !run_keys.is_empty(), &statements.run_keys, &keyed),
    )?;
    for row in &runs {
        wanted.jobs.insert(row.reader().id()?);
    }
    for row in &replies {
        let mut row = row.reader();
        let (org, actor, tool, key) = (row.int()?, row.text()?, row.text()?, row.text()?);
        let key = CallKey { org, actor, tool, key };
        let row = retry::read(&mut row)?;
        if let Some(held) = row.parsed().and_then(|kept| kept.held) {
            wanted.whole.insert(held.task.id);
            wanted.attempts.extend(held.attempt.map(|attempt| attempt.0));
        }
        let known = batch.retries.entry(key).or_default();
        // Two commands of the batch may have one key.
        if !known.iter().any(|old| old.step == row.step) {
            known.push(row);
        }
    }
    for row in &tasks {
        wanted.whole.insert(row.reader().id()?);
    }
    for row in &commented {
        let mut row = row.reader();
        let (task, org) = (row.task()?, row.int()?);
        wanted.whole.insert(task.id);
        wanted.job_keys.insert((org, verify_key(task)));
    }
    for row in &worked {
        let mut row = row.reader();
        let (job, task) = (row.id()?, row.id()?);
        wanted.whole.insert(task);
        if wanted.jobs_turning.contains(&job) {
            wanted.turning.insert(task);
        }
        if wanted.jobs_carded.contains(&job) {
            wanted.carded.insert(task);
        }
    }
    Ok(())
}

/// Locks and loads in one round trip: the server takes the locks first and answers the rest with what it sees then.
async fn lock_and_load(
    db: &Db,
    statements: &Statements,
    clock: &SharedClock,
    wanted: &RowsWanted,
    batch: &mut Batch,
) -> Result<BTreeSet<Id>, Trouble> {
    let all = wanted.whole.iter().chain(&wanted.named).chain(&wanted.late);
    let all: Vec<Uuid> = all.collect::<BTreeSet<_>>().into_iter().map(|id| uuid(*id)).collect();
    let (whole, turning) = (uuids(&wanted.whole), uuids(&wanted.turning));
    // The leases of tasks that are only named are shown with their dependents.
    let known: BTreeSet<Id> = wanted.whole.union(&wanted.named).copied().collect();
    let known = uuids(&known);
    let attempts = uuids(&wanted.attempts);
    let key_tasks: Vec<Uuid> = wanted.keyed.iter().map(|(task, _, _)| uuid(*task)).collect();
    let key_actors: Vec<&str> = wanted.keyed.iter().map(|(_, actor, _)| actor.as_str()).collect();
    let keys: Vec<&str> = wanted.keyed.iter().map(|(_, _, key)| key.as_str()).collect();
    let (comments, jobs) = (uuids(&wanted.comments), uuids(&wanted.jobs));
    let blocked = if wanted.blockers { whole.clone() } else { Vec::new() };
    let job_orgs: Vec<i64> = wanted.job_keys.iter().map(|(org, _)| *org).collect();
    let job_keys: Vec<&str> = wanted.job_keys.iter().map(|(_, key)| key.as_str()).collect();
    let lock_values: [&(dyn ToSql + Sync); 2] = [&all, &turning];
    let lock_job_values: [&(dyn ToSql + Sync); 1] = [&jobs];
    let comment_values: [&(dyn ToSql + Sync); 2] = [&comments, &blocked];
    let job_values: [&(dyn ToSql + Sync); 3] = [&jobs, &job_orgs, &job_keys];
    let around_values: [&(dyn ToSql + Sync); 2] = [&whole, &turning];
    let attempt_values: [&(dyn ToSql + Sync); 2] = [&known, &attempts];
    let keyed_values: [&(dyn ToSql + Sync); 3] = [&key_tasks, &key_actors, &keys];
    let start = uuids(&wanted.ancestry_of);
    let start_values: [&(dyn ToSql + Sync); 1] = [&start];
    let any_attempt = !known.is_empty() || !attempts.is_empty();
    let any_comment = !comments.is_empty() || !blocked.is_empty();
    let run_tasks = uuids(&wanted.run_tasks);
    let run_values: [&(dyn ToSql + Sync); 2] = [&jobs, &run_tasks];
    let any_run = !jobs.is_empty() || !run_tasks.is_empty();
    let any_job = !jobs.is_empty() || !job_keys.is_empty();
    let carded = uuids(&wanted.carded);
    let beside_values: [&(dyn ToSql + Sync); 2] = [&carded, &true];
    let pulled = uuids(&wanted.pulled);
    let pull_values: [&(dyn ToSql + Sync); 1] = [&pulled];
    let below = wanted.above.map(|task| uuid(task.id)).unwrap_or_default();
    let above_values: [&(dyn ToSql + Sync); 1] = [&below];
    // `try_join` sends its first half first.
    let loads = async {
        tokio::try_join!(
            biased;
            rows_if(db, !jobs.is_empty(), &statements.lock_jobs, &lock_job_values),
            db.query(&statements.around, &around_values),
            rows_if(db, any_attempt, &statements.attempts, &attempt_values),
            rows_if(db, !keys.is_empty(), &statements.keyed, &keyed_values),
            rows_if(db, any_comment, &statements.comments, &comment_values),
            rows_if(db, any_job, &statements.jobs, &job_values),
            rows_if(db, any_run, &statements.runs, &run_values),
            rows_if(db, !wanted.ancestry_of.is_empty(), &statements.ancestry, &start_values),
            rows_if(db, !carded.is_empty(), &statements.beside, &beside_values),
            rows_if(db, wanted.above.is_some(), &statements.above, &above_values),
            rows_if(db, !pulled.is_empty(), &statements.pulls, &pull_values),
        )
    };
    let lock = rows_if(db, !all.is_empty(), &statements.lock, &lock_values);
    let (locked, loaded) = future::try_join(lock, loads).await?;
    let (_, around, attempts, keyed, comments, jobs, runs, ancestry, beside, above, pulls) = loaded;
    batch.tasks.clear();
    for desk in batch.desks.values_mut() {
        let rows = &mut desk.rows;
        rows.tasks.clear();
        rows.attempts.clear();
        rows.comments.clear();
        rows.jobs.clear();
        rows.runs.clear();
        rows.pulls.clear();
    }
    for row in &locked {
        let mut row = row.reader();
        let (task, org) = (task::read(&mut row)?, row.int()?);
        let task = TaskRows::of(task, row.time_if()?);
        let id = task.task.id;
        batch.tasks.insert(id.id, (org, id));
        batch.desk(org).rows.tasks.insert(id, task);
    }
    let mut late = BTreeSet::new();
    for row in &around {
        lay_out(batch, clock, around::owner(row)?, around::part(row)?, &mut late)?;
    }
    for row in attempts.iter().chain(&keyed) {
        let mut row = row.reader();
        let attempt = attempt::read(&mut row)?;
        batch.desk(row.int()?).rows.attempts.insert(attempt.id, attempt);
    }
    for row in &comments {
        let comment = comment::read(&mut row.reader())?;
        if let Some((rows, _)) = batch.rows_with(comment.task.id) {
            rows.comments.insert(comment.id, comment);
        }
    }
    for row in &jobs {
        let mut row = row.reader();
        let job = job::read(&mut row)?;
        batch.desk(row.int()?).rows.jobs.insert(job.id, job);
    }
    for row in &runs {
        let mut row = row.reader();
        let RunRecord { job, run } = run::read(&mut row)?;
        let rows = &mut batch.desk(row.int()?).rows;
        rows.jobs.insert(job.id, job);
        rows.runs.insert(run.job, run);
    }
    for row in &beside {
        let (task, Beside { card, scratchpad, .. }) = cards::beside(row)?;
        let rows = batch.rows_with(task).and_then(|(rows, id)| rows.tasks.get_mut(&id));
        if let Some(rows) = rows {
            (rows.card, rows.scratchpad) = (card, scratchpad);
        }
    }
    for row in &pulls {
        let (org, pull) = pulls::of_task(row)?;
        batch.desk(org).rows.pulls.push(pull);
    }
    let above: Vec<TaskId> =
        above.iter().map(|row| row.reader().task()).collect::<Result<_, _>>()?;
    let edge = |row: &Row| {
        let mut row = row.reader();
        Ok((row.task()?, row.task()?))
    };
    let ancestry: Vec<_> = ancestry.iter().map(edge).collect::<Result<_, Trouble>>()?;
    for desk in batch.desks.values_mut() {
        desk.now = batch.now;
        desk.rows.tasks.values_mut().for_each(TaskRows::sort);
        // A command that needs either goes alone, so there is one desk then.
        (desk.rows.above, desk.rows.ancestry) = (above.clone(), ancestry.clone());
    }
    Ok(late)
}

/// Puts a part of a task where it belongs. Dependents that are not locked go into `late`.
fn lay_out(
    batch: &mut Batch,
    clock: &SharedClock,
    owner: Option<Id>,
    part: Part,
    late: &mut BTreeSet<Id>,
) -> Result<(), Trouble> {
    if let Part::State(state) = part {
        refuse_newer(state.version)?;
        batch.now = clock.learn(state.now, state.last_at.max(state.ticked_at));
        batch.ticked_at = state.ticked_at;
        return Ok(());
    }
    let dependent = match part {
        Part::Dependent(id) => batch.tasks.get(&id).map(|(_, dependent)| *dependent),
        _ => None,
    };
    let Some((of_org, id)) = owner.and_then(|id| batch.rows_with(id)) else { return Ok(()) };
    let Some(rows) = of_org.tasks.get_mut(&id) else { return Ok(()) };
    match part {
        Part::Body(body, contract) => (rows.body, rows.execution_contract) = (body, contract),
        Part::Line(line) => rows.entries.push(line),
        Part::Dep(position, dep) => {
            rows.deps.push((position, dep.id));
            of_org.deps.insert(dep.id, dep);
        }
        Part::Dependent(id) => match dependent {
            Some(dependent) => rows.dependents.push(dependent),
            None => drop(late.insert(id)),
        },
        Part::State(..) => {}
    }
    Ok(())
}
