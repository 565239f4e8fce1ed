//! Cards and scratchpads: reads, and rows to write.

use std::collections::HashMap;

use async_trait::async_trait;
use callboard_domain::board::card::Card;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::task::{Dep, TaskRow};
use callboard_domain::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::StoreError;
use crate::board::card_page::{self, CardKey, CardPlan};
use crate::board::cards::{CardPage, CardQuery, CardRow, CardStore, Removed};
use crate::board::counts::{self, PhaseCounts};
use crate::postgres::PostgresStore;
use crate::postgres::clock;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::read::{self, BoundValues};
use crate::postgres::rows::uuid;
use crate::table::Cells;
use crate::table::attempt::ATTEMPT;
use crate::table::card::{self, CARD};
use crate::table::task::{self, DEP, TASK, TASK_FROM};
use crate::task::filter::{Filter, Value};

/// Cards, bodies and scratchpads of the tasks `$1`, one row for each that has any; scratchpads only
/// if `$2`.
pub(crate) fn sql() -> String {
    format!(
        "SELECT {CARD}, b.body, s.text, w.id FROM unnest((SELECT $1::uuid[])) AS w (id)
             LEFT JOIN cards c ON c.task = w.id
             LEFT JOIN bodies b ON b.task = w.id
             LEFT JOIN scratchpads s ON s.task = w.id AND $2"
    )
}

/// Card, body and scratchpad of one task.
pub(crate) struct Beside {
    pub card: Card,
    pub body: String,
    pub scratchpad: String,
}

pub(crate) fn beside(row: &Row) -> Result<(Id, Beside)> {
    let mut row = row.reader();
    let beside = Beside {
        card: card::read(&mut row)?,
        body: row.text_if()?.unwrap_or_default(),
        scratchpad: row.text_if()?.unwrap_or_default(),
    };
    Ok((row.id()?, beside))
}

/// Every task above the task `$1`.
pub(crate) const ABOVE: &str = "WITH RECURSIVE above (id) AS (
         SELECT parent FROM tasks WHERE id = $1::uuid
         UNION SELECT t.parent FROM tasks t JOIN above a ON t.id = a.id)
     SELECT t.id, t.prefix FROM above JOIN tasks t ON t.id = above.id";

/// `None` where the org has no such task.
pub(crate) async fn of_task(db: &Db, org: i64, task: TaskId) -> Result<Option<Beside>> {
    let known = "SELECT 1 FROM tasks WHERE id = $1 AND org = $2 AND removed_at IS NULL";
    let (id, ids) = (uuid(task.id), [uuid(task.id)]);
    let values: [&(dyn ToSql + Sync); 2] = [&id, &org];
    let asked = tokio::try_join!(read::one(db, known, &values), of_tasks(db, &ids, true));
    let (known, mut found) = asked?;
    Ok(known.and_then(|_| found.remove(&task.id)))
}

pub(crate) async fn of_tasks(
    db: &Db,
    ids: &[Uuid],
    scratchpads: bool,
) -> Result<HashMap<Id, Beside>> {
    let found = read::all(db, &sql(), &[&ids, &scratchpads]).await?;
    found.iter().map(beside).collect()
}

/// A page of cards, with the number of all that match.
pub(crate) async fn list(db: &Db, org: i64, query: &CardQuery, now: Timestamp) -> Result<CardPage> {
    if !query.words.is_empty() {
        return search(db, org, query, now).await;
    }
    let plan = plan(db, org, query, now).await?;
    let mut ids: Vec<Id> = Vec::new();
    for mut wanted in plan.wanted(read::SIGN, query.offset, query.limit) {
        let mut keys = Vec::new();
        for (sql, filter) in std::mem::take(&mut wanted.statements) {
            for row in read::all(db, &sql, &BoundValues::from(filter).values()).await? {
                keys.push(CardKey::read(&mut row.reader())?);
            }
        }
        ids.extend(wanted.page(keys));
    }
    let cards = cards_of(db, &ids, query.with_scratchpad).await?;
    let total = i64::try_from(plan.total()).unwrap_or(i64::MAX);
    Ok(CardPage::of(query, cards, total, now))
}

async fn plan(db: &Db, org: i64, query: &CardQuery, now: Timestamp) -> Result<CardPlan> {
    let of_project = query.project.is_some();
    let with = |mut first: Vec<Value>| {
        first.extend(query.project.map(Value::Integer));
        BoundValues::from(Filter::of_values(read::SIGN, first))
    };
    let (kept, over) =
        (with(vec![Value::Integer(org)]), with([now.0, org].map(Value::Integer).into()));
    let (kept_sql, over_sql) =
        (counts::tasks_sql(read::SIGN, of_project), card_page::lapsed_sql(read::SIGN, of_project));
    let (kept, over) = (kept.values(), over.values());
    let (kept, over) =
        tokio::try_join!(read::all(db, &kept_sql, &kept), read::all(db, &over_sql, &over))?;
    let mut counts = PhaseCounts::default();
    for row in &kept {
        counts.add(&mut row.reader())?;
    }
    let left_out = card_page::left_out_sql(read::SIGN, of_project);
    for task in &query.without {
        let values = with(vec![Value::Integer(org), Value::Id(task.id)]);
        if let Some(row) = read::one(db, &left_out, &values.values()).await? {
            let mut row = row.reader();
            counts.without(row.int()?, row.word("phase", Phase::parse)?);
        }
    }
    let mut lapsed = Vec::new();
    for row in &over {
        let mut row = row.reader();
        lapsed.push((row.int()?, CardKey::read(&mut row)?));
    }
    Ok(CardPlan::of(query, counts, lapsed, now))
}

/// A page of the cards with the query's words, which are searched for among the newest ones.
async fn search(db: &Db, org: i64, query: &CardQuery, now: Timestamp) -> Result<CardPage> {
    let (filter, column) = Filter::of_cards(read::SIGN, org, query, now);
    let sql = card_page::found_sql(&column, &filter.sql());
    let mut found = Vec::new();
    for row in read::all(db, &sql, &BoundValues::from(filter).values()).await? {
        let mut row = row.reader();
        found.push((row.int()?, CardKey::read(&mut row)?));
    }
    let (ids, total) = card_page::found_page(found, query);
    Ok(CardPage::of(query, cards_of(db, &ids, query.with_scratchpad).await?, total, now))
}

/// These cards in their order. Each task is looked up by itself; a join of the ids with all tasks could be planned as a
/// scan of them.
async fn cards_of(db: &Db, ids: &[Id], with_scratchpad: bool) -> Result<Vec<CardRow>> {
    let sql = format!(
        "SELECT {TASK}, {ATTEMPT} FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY AS w (id, place) \
         CROSS JOIN LATERAL (SELECT * FROM tasks o WHERE o.id = w.id OFFSET 0) t \
         LEFT JOIN tasks p ON p.id = t.parent LEFT JOIN attempts a ON a.id = t.newest_attempt \
         ORDER BY w.place"
    );
    let ids: Vec<Uuid> = ids.iter().copied().map(uuid).collect();
    beside_tasks(db, read::task_rows(db, &sql, &[&ids]).await?, with_scratchpad).await
}

/// `page` holds the conditions, the order and the limit.
pub(crate) async fn page_of(
    db: &Db,
    page: &str,
    values: &[&(dyn ToSql + Sync)],
    with_scratchpad: bool,
) -> Result<Vec<CardRow>> {
    let sql = format!(
        "SELECT {}, {} FROM {} LEFT JOIN attempts a ON a.id = t.newest_attempt WHERE {page}",
        TASK, ATTEMPT, TASK_FROM,
    );
    beside_tasks(db, read::task_rows(db, &sql, values).await?, with_scratchpad).await
}

/// Tasks with everything that a card shows beside them, in their order.
async fn beside_tasks(db: &Db, tasks: Vec<TaskRow>, with_scratchpad: bool) -> Result<Vec<CardRow>> {
    let ids: Vec<Uuid> = tasks.iter().map(|row| uuid(row.task.id.id)).collect();
    let mut beside = of_tasks(db, &ids, with_scratchpad).await?;
    let mut deps = deps_of(db, &ids).await?;
    let mut cards = Vec::with_capacity(tasks.len());
    for row in tasks {
        let id = row.task.id.id;
        let Some(Beside { card, body, scratchpad }) = beside.remove(&id) else { continue };
        cards.push(CardRow {
            task: row.task,
            body,
            card,
            deps: deps.remove(&id).unwrap_or_default(),
            newest: row.newest,
            scratchpad: with_scratchpad.then_some(scratchpad),
        });
    }
    Ok(cards)
}

async fn deps_of(db: &Db, ids: &[Uuid]) -> Result<HashMap<Id, Vec<Dep>>> {
    let sql = format!(
        "SELECT deps.task, {DEP} FROM deps JOIN tasks d ON d.id = deps.dep \
         WHERE deps.task = ANY ($1) ORDER BY deps.task, deps.position"
    );
    let mut deps: HashMap<Id, Vec<Dep>> = HashMap::new();
    for row in &read::all(db, &sql, &[&ids]).await? {
        let mut row = row.reader();
        deps.entry(row.id()?).or_default().push(task::read_dep(&mut row)?);
    }
    Ok(deps)
}

pub(crate) async fn removed(db: &Db, org: i64, task: TaskId) -> Result<Option<Removed>> {
    let sql = "SELECT removed_at, phase FROM tasks \
         WHERE id = $1 AND org = $2 AND removed_at IS NOT NULL";
    let Some(row) = read::one(db, sql, &[&uuid(task.id), &org]).await? else { return Ok(None) };
    card::read_removed(&mut row.reader()).map(Some)
}

#[async_trait]
impl CardStore for PostgresStore {
    async fn card(&self, org: &str, task: TaskId) -> Result<Option<Card>, StoreError> {
        Ok(self.beside(org, task).await?.map(|beside| beside.card))
    }

    async fn scratchpad(&self, org: &str, task: TaskId) -> Result<Option<String>, StoreError> {
        Ok(self.beside(org, task).await?.map(|beside| beside.scratchpad))
    }

    async fn cards(&self, query: CardQuery) -> Result<CardPage, StoreError> {
        let query = &query;
        self.shared
            .read_in(&query.org, |db, org| async move {
                list(&db, org, query, clock::now(&db, &self.shared.clock).await?).await
            })
            .await
    }

    async fn removed(&self, org: &str, task: TaskId) -> Result<Option<Removed>, StoreError> {
        self.shared.read_in(org, |db, org| async move { removed(&db, org, task).await }).await
    }
}

impl PostgresStore {
    async fn beside(&self, org: &str, task: TaskId) -> Result<Option<Beside>, StoreError> {
        self.shared.read_in(org, |db, org| async move { of_task(&db, org, task).await }).await
    }
}
