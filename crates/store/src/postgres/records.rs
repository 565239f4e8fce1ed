//! Single reads of tasks, in groups: the requests that arrive while one group is read form the next. This costs the
//! database less per read, and a lone request takes no longer than by itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use callboard_domain::ids::{Id, TaskId};
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::{Dep, Entry, Task, TaskRecord};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::StoreError;
use crate::postgres::around::{self, IDS, Part};
use crate::postgres::db::Db;
use crate::postgres::errors::Trouble;
use crate::postgres::rows::uuid;
use crate::postgres::{Shared, orgs, read};
use crate::table::Cells;
use crate::table::attempt::ATTEMPT;
use crate::table::task::{self, TASK, TASK_FROM};

/// The largest group. A bound, because the answer to one request waits for the rows of all.
const GROUP_MAX: usize = 64;

/// `None` where no such task is visible in the org.
type Answer = Result<Option<TaskRecord>, StoreError>;

pub(crate) struct Ask {
    pub org: Arc<str>,
    pub task: TaskId,
    pub reply: oneshot::Sender<Answer>,
}

/// Reads groups until the store is dropped. One group at a time: the next one fills while this one is read.
pub(crate) async fn run(shared: Arc<Shared>, mut asked: mpsc::UnboundedReceiver<Ask>) {
    let mut asks = Vec::with_capacity(GROUP_MAX);
    while asked.recv_many(&mut asks, GROUP_MAX).await > 0 {
        // Callers that ran out of patience are gone.
        asks.retain(|ask| !ask.reply.is_closed());
        if asks.is_empty() {
            continue;
        }
        let (group, orgs) = (&asks, &shared.orgs);
        let found = shared.read(|db| async move {
            let mut numbers = Vec::with_capacity(group.len());
            for ask in group {
                // An unknown org fails its own request, not the group.
                numbers.push(orgs.find(&db, &ask.org).await?);
            }
            Ok((numbers, load(&db, group).await?))
        });
        match found.await {
            Ok((numbers, records)) => {
                for (ask, org) in asks.drain(..).zip(numbers) {
                    let answer = match org {
                        Some(org) => visible(&records, org, ask.task),
                        None => Err(orgs::unknown(&ask.org)),
                    };
                    // A caller that went away does not need its answer.
                    let _ = ask.reply.send(answer);
                }
            }
            Err(error) => {
                for ask in asks.drain(..) {
                    let _ = ask.reply.send(Err(error.clone()));
                }
            }
        }
    }
}

/// The records by task. A damaged row fails only the requests for its task.
type Records = HashMap<Id, Result<Found, StoreError>>;

fn visible(records: &Records, org: i64, task: TaskId) -> Answer {
    match records.get(&task.id) {
        // The rows were loaded by id alone, for requests of any org. A task of another org is not visible, and neither
        // is one that was named with a wrong prefix.
        Some(Ok(found)) if found.org == org && found.task.id == task => Ok(Some(found.record())),
        Some(Err(error)) => Err(error.clone()),
        Some(Ok(_)) | None => Ok(None),
    }
}

/// Loads the tasks with everything around them and the newest part of their history. Each task is looked up by
/// itself: a cached plan that joins the whole table may stem from a time when it was empty.
async fn load(db: &Db, asks: &[Ask]) -> Result<Records, Trouble> {
    let ids: BTreeSet<Id> = asks.iter().map(|ask| ask.task.id).collect();
    let ids: Vec<Uuid> = ids.into_iter().map(uuid).collect();
    let task = format!(
        "SELECT found.* FROM ({IDS}) AS wanted (id) CROSS JOIN LATERAL ( \
             SELECT {}, {}, t.org FROM {} LEFT JOIN attempts a ON a.id = t.newest_attempt \
             WHERE t.id = wanted.id AND t.removed_at IS NULL LIMIT 1) AS found",
        TASK, ATTEMPT, TASK_FROM
    );
    // The statement is shared with commands, which also need the tasks that depend on theirs. A record shows none.
    let (around, no_dependents) = (around::sql(), Vec::<Uuid>::new());
    let of_tasks: [&(dyn ToSql + Sync); 1] = [&ids];
    let around_tasks: [&(dyn ToSql + Sync); 2] = [&ids, &no_dependents];
    let (tasks, around) =
        tokio::try_join!(read::all(db, &task, &of_tasks), read::all(db, &around, &around_tasks),)?;
    let mut records = Records::with_capacity(tasks.len());
    for row in &tasks {
        records.insert(row.reader().id()?, read_task(row).map_err(StoreError::from));
    }
    for row in &around {
        let owner = around::owner(row)?;
        let Some(slot) = owner.and_then(|id| records.get_mut(&id)) else { continue };
        match (slot, around::part(row)) {
            (Ok(found), Ok(part)) => found.add(part),
            (slot @ Ok(_), Err(trouble)) => *slot = Err(trouble.into()),
            (Err(_), _) => {}
        }
    }
    Ok(records)
}

/// A record in the making.
struct Found {
    org: i64,
    task: Task,
    newest: Option<Attempt>,
    body: String,
    execution_contract: Option<String>,
    /// Deps by position.
    deps: BTreeMap<i32, Dep>,
    /// Lines by number.
    lines: BTreeMap<u32, Entry>,
}

fn read_task(row: &Row) -> Result<Found, Trouble> {
    let (body, execution_contract, deps, lines) = Default::default();
    let mut row = row.reader();
    let (task, newest) = task::read_with_attempt(&mut row)?;
    Ok(Found { org: row.int()?, task, newest, body, execution_contract, deps, lines })
}

impl Found {
    fn add(&mut self, part: Part) {
        match part {
            Part::Body(body, contract) => {
                (self.body, self.execution_contract) = (body, contract);
            }
            Part::Line(line) => drop(self.lines.insert(line.number, line.entry)),
            Part::Dep(position, dep) => drop(self.deps.insert(position, dep)),
            Part::State(..) | Part::Dependent(_) => {}
        }
    }

    fn record(&self) -> TaskRecord {
        TaskRecord {
            task: self.task.clone(),
            body: self.body.clone(),
            execution_contract: self.execution_contract.clone(),
            deps: self.deps.values().cloned().collect(),
            entries: self.lines.values().cloned().collect(),
            newest: self.newest.clone(),
        }
    }
}
