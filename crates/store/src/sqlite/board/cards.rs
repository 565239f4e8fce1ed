//! Cards and scratchpads: reads and writes.

use async_trait::async_trait;
use callboard_domain::board::card::Card;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::StoreError;
use crate::board::card_page::{self, CardKey, CardPlan};
use crate::board::cards::{CardPage, CardQuery, CardRow, CardStore, Removed};
use crate::board::counts::{self, PhaseCounts};
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::{SqliteStore, fetch, read, rows};
use crate::table::Cells;
use crate::table::attempt::ATTEMPT;
use crate::table::card::{self, CARD, CARDS, SCRATCHPADS};
use crate::table::task::{TASK, TASK_FROM};
use crate::task::filter::{Filter, Value};

type Result<T, E = rusqlite::Error> = std::result::Result<T, E>;

/// The card of a task. A task of another toolset has no row; it has the default card.
pub(crate) fn of_task(db: &Connection, task: TaskId) -> Result<Card> {
    let sql = format!("SELECT {CARD} FROM cards c WHERE c.task = ?1");
    let card = db
        .prepare_cached(&sql)?
        .query_row([task.id.to_bytes()], |row| card::read(&mut row.reader()));
    card.optional().map(Option::unwrap_or_default)
}

/// The body; a task without a row has an empty one.
pub(crate) fn body_of(db: &Connection, task: TaskId) -> Result<String> {
    let body = db
        .prepare_cached("SELECT body FROM bodies WHERE task = ?1")?
        .query_row([task.id.to_bytes()], |row| row.get(0));
    body.optional().map(Option::unwrap_or_default)
}

/// The notes; a task without a row has none.
pub(crate) fn scratchpad_of(db: &Connection, task: TaskId) -> Result<String> {
    let text = db
        .prepare_cached("SELECT text FROM scratchpads WHERE task = ?1")?
        .query_row([task.id.to_bytes()], |row| row.get(0));
    text.optional().map(Option::unwrap_or_default)
}

/// Every task above `task`.
pub(crate) fn above(db: &Connection, task: TaskId) -> Result<Vec<TaskId>> {
    db.prepare_cached(
        "WITH RECURSIVE above (id) AS (
             SELECT parent FROM tasks WHERE id = ?1
             UNION SELECT t.parent FROM tasks t JOIN above a ON t.id = a.id)
         SELECT t.id, t.prefix FROM above JOIN tasks t ON t.id = above.id",
    )?
    .query_map([task.id.to_bytes()], |row| row.reader().task())?
    .collect()
}

pub(crate) fn put(db: &Connection, task: TaskId, card: &Card) -> Result<()> {
    rows::insert(db, &card::values(task, card), &CARDS.again(&["task"]))
}

/// Replaces the notes. Empty notes have no row.
pub(crate) fn scratchpad_put(db: &Connection, task: TaskId, text: &str) -> Result<()> {
    if text.is_empty() {
        let task = task.id.to_bytes();
        db.prepare_cached("DELETE FROM scratchpads WHERE task = ?1")?.execute([task])?;
        return Ok(());
    }
    rows::insert(db, &card::scratchpad_values(task, text), &SCRATCHPADS.again(&["task"]))
}

/// A page of cards, with the number of all that match.
pub(crate) fn list(
    db: &Connection,
    org: i64,
    query: &CardQuery,
    now: Timestamp,
) -> Result<CardPage> {
    // Counts and rows are those of one moment.
    let snapshot = db.unchecked_transaction()?;
    let db = &*snapshot;
    if !query.words.is_empty() {
        return search(db, org, query, now);
    }
    let plan = plan(db, org, query, now)?;
    let mut cards = Vec::new();
    for wanted in plan.wanted(read::SIGN, query.offset, query.limit) {
        let mut keys = Vec::new();
        for (sql, filter) in &wanted.statements {
            let mut found = db.prepare_cached(sql)?;
            let key = |row: &Row<'_>| CardKey::read(&mut row.reader());
            for key in found.query_map(params_from_iter(filter.values.iter()), key)? {
                keys.push(key?);
            }
        }
        cards.extend(cards_of(db, &wanted.page(keys), query.with_scratchpad)?);
    }
    let total = i64::try_from(plan.total()).unwrap_or(i64::MAX);
    Ok(CardPage::of(query, cards, total, now))
}

fn plan(db: &Connection, org: i64, query: &CardQuery, now: Timestamp) -> Result<CardPlan> {
    let of_project = query.project.is_some();
    let values = |first: Vec<Value>| first.into_iter().chain(query.project.map(Value::Integer));
    let mut counts = PhaseCounts::default();
    let mut kept = db.prepare_cached(&counts::tasks_sql(read::SIGN, of_project))?;
    let mut rows = kept.query(params_from_iter(values(vec![Value::Integer(org)])))?;
    while let Some(row) = rows.next()? {
        counts.add(&mut row.reader())?;
    }
    let mut left_out = db.prepare_cached(&card_page::left_out_sql(read::SIGN, of_project))?;
    for task in &query.without {
        let found = |row: &Row<'_>| {
            let mut row = row.reader();
            Ok((row.int()?, row.word("phase", Phase::parse)?))
        };
        let values = values(vec![Value::Integer(org), Value::Id(task.id)]);
        if let Some((project, phase)) =
            left_out.query_row(params_from_iter(values), found).optional()?
        {
            counts.without(project, phase);
        }
    }
    let lapsed = |row: &Row<'_>| {
        let mut row = row.reader();
        Ok((row.int()?, CardKey::read(&mut row)?))
    };
    let values = values(vec![Value::Integer(now.0), Value::Integer(org)]);
    let lapsed: Result<_> = db
        .prepare_cached(&card_page::lapsed_sql(read::SIGN, of_project))?
        .query_map(params_from_iter(values), lapsed)?
        .collect();
    Ok(CardPlan::of(query, counts, lapsed?, now))
}

/// A page of the cards with the query's words, which are searched for among the newest ones.
fn search(db: &Connection, org: i64, query: &CardQuery, now: Timestamp) -> Result<CardPage> {
    let (filter, column) = Filter::of_cards(read::SIGN, org, query, now);
    let key = |row: &Row<'_>| {
        let mut row = row.reader();
        Ok((row.int()?, CardKey::read(&mut row)?))
    };
    let found: Result<_> = db
        .prepare_cached(&card_page::found_sql(&column, &filter.sql()))?
        .query_map(params_from_iter(filter.values), key)?
        .collect();
    let (ids, total) = card_page::found_page(found?, query);
    Ok(CardPage::of(query, cards_of(db, &ids, query.with_scratchpad)?, total, now))
}

/// These cards in their order; each is looked up by itself.
fn cards_of(db: &Connection, ids: &[Id], with_scratchpad: bool) -> Result<Vec<CardRow>> {
    let mut cards = Vec::new();
    for id in ids {
        cards.extend(page_of(db, "t.id = ?1", vec![Value::Id(*id)], with_scratchpad)?);
    }
    Ok(cards)
}

/// `page` holds the conditions, the order and the limit.
pub(crate) fn page_of(
    db: &Connection,
    page: &str,
    values: Vec<Value>,
    with_scratchpad: bool,
) -> Result<Vec<CardRow>> {
    let sql = format!(
        "SELECT {}, {} FROM {} LEFT JOIN attempts a ON a.id = t.newest_attempt WHERE {page}",
        TASK, ATTEMPT, TASK_FROM,
    );
    let mut cards = Vec::new();
    for row in read::task_rows(db, &sql, values)? {
        let id = row.task.id;
        cards.push(CardRow {
            body: body_of(db, id)?,
            card: of_task(db, id)?,
            deps: fetch::deps(db, id)?,
            scratchpad: match with_scratchpad {
                true => Some(scratchpad_of(db, id)?),
                false => None,
            },
            newest: row.newest,
            task: row.task,
        });
    }
    Ok(cards)
}

/// When a task was removed and in which phase: a wait for it ends with this answer.
pub(crate) fn removed(db: &Connection, org: i64, task: TaskId) -> Result<Option<Removed>> {
    let read = |row: &Row<'_>| card::read_removed(&mut row.reader());
    db.prepare_cached(
        "SELECT removed_at, phase FROM tasks WHERE id = ?1 AND org = ?2 AND removed_at IS NOT NULL",
    )?
    .query_row(params![task.id.to_bytes(), org], read)
    .optional()
}

#[async_trait]
impl CardStore for SqliteStore {
    async fn card(&self, org: &str, task: TaskId) -> Result<Option<Card>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let is_known = fetch::has_task(db, org, task).map_err(from_sqlite)?;
            is_known.then(|| of_task(db, task).map_err(from_sqlite)).transpose()
        })
    }

    async fn scratchpad(&self, org: &str, task: TaskId) -> Result<Option<String>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let is_known = fetch::has_task(db, org, task).map_err(from_sqlite)?;
            is_known.then(|| scratchpad_of(db, task).map_err(from_sqlite)).transpose()
        })
    }

    async fn cards(&self, query: CardQuery) -> Result<CardPage, StoreError> {
        self.read_in(query.org.clone(), move |db, org, now| {
            list(db, org, &query, now).map_err(from_sqlite)
        })
        .await
    }

    async fn removed(&self, org: &str, task: TaskId) -> Result<Option<Removed>, StoreError> {
        self.shared.read_in(org, |db, org, _| removed(db, org, task).map_err(from_sqlite))
    }
}
