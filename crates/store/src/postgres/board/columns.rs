//! The columns of the board and the sources of the inbox: reads.

use std::collections::HashMap;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::board::card::Card;
use callboard_domain::board::column::{Column, OpenDep};
use callboard_domain::board::plan::Plan;
use callboard_domain::event::LoggedEvent;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::policy::Policy;
use callboard_domain::task::comment::Comment;
use callboard_domain::time::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::StoreError;
use crate::board::columns::{
    BoardAround, BoardRow, BoardStore, ColumnPage, ColumnsQuery, DEPS_MAX, OPEN_DEPS, Shelf,
    ShelfSql, StuckQuery, WAITING, checks_ran_sql, comments_sql, read_edge, rows_sql,
};
use crate::board::progress::{EpicProgress, progress_sql};
use crate::board::rows::{ReviewRow, TITLE, TaskTitle};
use crate::postgres::PostgresStore;
use crate::postgres::board::cards;
use crate::postgres::clock;
use crate::postgres::db::Db;
use crate::postgres::errors::Result;
use crate::postgres::read::{self, BoundValues};
use crate::postgres::rows::uuid;
use crate::table::attempt::ATTEMPT;
use crate::table::plan::{self, PLAN};
use crate::table::task::{self, TASK};
use crate::table::{Cells, comment, event};
use crate::task::filter::Value;

/// The columns of the board, over all projects of the org or one of them: one statement for each shelf.
async fn columns(
    db: &Db,
    org: i64,
    query: &ColumnsQuery,
    now: Timestamp,
) -> Result<Vec<ColumnPage>> {
    let mut found = Vec::new();
    for column in query.shelves() {
        let (rows, count) = shelf(db, org, Shelf::Column(column), query).await?;
        found.push((column, rows, count));
    }
    Ok(query.pages(found, now))
}

/// The statements of a shelf over the projects of the query.
fn shelf_sql(org: i64, shelf: Shelf, query: &ColumnsQuery) -> ShelfSql {
    let first = [Some(org), query.project].into_iter().flatten().map(Value::Integer);
    ShelfSql::of(read::SIGN, org, shelf, query, first.collect())
}

/// The first rows of a shelf, and the number of all of its rows.
async fn shelf(
    db: &Db,
    org: i64,
    shelf: Shelf,
    query: &ColumnsQuery,
) -> Result<(Vec<BoardRow>, usize)> {
    let ShelfSql { rows, count, filter, .. } = shelf_sql(org, shelf, query);
    let values = BoundValues::from(filter);
    let rows = board_rows(db, &rows, &values.values()).await?;
    if rows.len() < shelf.limit(query.limit) {
        let count = rows.len();
        return Ok((rows, count));
    }
    let count: i64 = match read::one(db, &count, &values.values()).await? {
        Some(row) => row.try_get(0)?,
        None => 0,
    };
    Ok((rows, count.unsigned_abs() as usize))
}

/// How many tasks of the columns have a failing check.
async fn failing(db: &Db, org: i64, query: &ColumnsQuery) -> Result<usize> {
    let mut all = 0;
    for column in &query.columns {
        let ShelfSql { failing, filter, .. } = shelf_sql(org, Shelf::Column(*column), query);
        let values = BoundValues::from(filter);
        if let Some(row) = read::one(db, &failing, &values.values()).await? {
            let many: i64 = row.try_get(0)?;
            all += many.unsigned_abs() as usize;
        }
    }
    Ok(all)
}

/// The open deps of open tasks, each before the task that waits for it.
async fn edges(db: &Db, org: i64, query: &StuckQuery) -> Result<Vec<(TaskId, TaskId)>> {
    let (mut all, columns) = (Vec::new(), query.as_columns());
    for column in WAITING {
        let ShelfSql { deps, filter, .. } = shelf_sql(org, Shelf::Column(column), &columns);
        let values = BoundValues::from(filter);
        for row in read::all(db, &deps, &values.values()).await? {
            all.push(read_edge(&mut row.reader())?);
        }
    }
    Ok(all)
}

/// Tasks of a statement. A damaged row is left out of the list rather than failing it; `doctor` names it.
async fn board_rows(db: &Db, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<BoardRow>> {
    let mut rows = Vec::new();
    for row in read::all(db, sql, values).await? {
        match task::read_with_attempt(&mut row.reader()) {
            Ok((task, newest)) => rows.push(BoardRow { task, newest }),
            Err(trouble) => {
                tracing::error!(?trouble, "a task's row is damaged; run callboard doctor");
            }
        }
    }
    Ok(rows)
}

/// The ids as one array: a round trip per list, not per task.
fn uuids(tasks: &[TaskId]) -> Vec<Uuid> {
    tasks.iter().map(|task| uuid(task.id)).collect()
}

/// Cards and open deps of all these tasks, in two round trips. The LATERAL join cuts each task's deps at `DEPS_MAX` in
/// the database.
async fn around(
    db: &Db,
    tasks: &[TaskId],
    policy: &Policy,
    now: Timestamp,
) -> Result<HashMap<Id, BoardAround>> {
    let ids = uuids(tasks);
    let beside = cards::of_tasks(db, &ids, false).await?.into_iter();
    let mut all: HashMap<Id, BoardAround> = beside
        .map(|(id, beside)| (id, BoardAround { card: beside.card, deps: Vec::new() }))
        .collect();
    let sql = format!(
        "SELECT w.id, {TASK}, {ATTEMPT} FROM unnest((SELECT $1::uuid[])) AS w (id) \
         CROSS JOIN LATERAL (SELECT t.id, deps.position FROM deps JOIN tasks t ON t.id = deps.dep \
             WHERE deps.task = w.id AND {OPEN_DEPS} ORDER BY deps.position LIMIT {DEPS_MAX}) f \
         JOIN tasks t ON t.id = f.id LEFT JOIN tasks p ON p.id = t.parent \
         LEFT JOIN attempts a ON a.id = t.newest_attempt ORDER BY w.id, f.position"
    );
    for row in read::all(db, &sql, &[&ids]).await? {
        let mut row = row.reader();
        let of = row.id()?;
        let (task, newest) = task::read_with_attempt(&mut row)?;
        let row = BoardRow { task, newest }.as_of(policy, now);
        let dep = OpenDep::of(&row.task, row.newest.as_ref(), policy, now);
        all.entry(of).or_default().deps.extend(dep);
    }
    Ok(all)
}

/// How far these epics are, by counts of their tasks; removed ones are left out.
async fn progress(db: &Db, org: i64, epics: &[TaskId]) -> Result<Vec<EpicProgress>> {
    let sql = format!(
        "SELECT e.id, e.prefix, e.number, e.title, k.tasks, k.closed FROM tasks e \
         CROSS JOIN LATERAL ({}) k WHERE e.id = ANY ($1) AND e.org = $2 AND e.removed_at IS NULL",
        progress_sql("e.id")
    );
    let mut all = Vec::new();
    for row in read::all(db, &sql, &[&uuids(epics), &org]).await? {
        let mut row = row.reader();
        let id = row.task()?;
        let mut epic = EpicProgress::read(id, &mut row)?;
        epic.count(&mut row)?;
        all.push(epic);
    }
    Ok(all)
}

impl PostgresStore {
    /// Tasks of a statement whose only value is the org, as they stand now.
    async fn rows_of_org(
        &self,
        query: &StuckQuery,
        sql: &str,
    ) -> Result<Vec<BoardRow>, StoreError> {
        self.shared
            .read_in(&query.org, |db, org| async move {
                let now = clock::now(&db, &self.shared.clock).await?;
                let rows = board_rows(&db, sql, &[&org]).await?;
                Ok(rows.into_iter().map(|row| row.as_of(&query.policy, now)).collect())
            })
            .await
    }
}

#[async_trait]
impl BoardStore for PostgresStore {
    async fn board_columns(&self, query: ColumnsQuery) -> Result<Vec<ColumnPage>, StoreError> {
        let query = &query;
        self.shared
            .read_in(&query.org, |db, org| async move {
                columns(&db, org, query, clock::now(&db, &self.shared.clock).await?).await
            })
            .await
    }

    async fn tasks_failing(&self, query: ColumnsQuery) -> Result<usize, StoreError> {
        let query = &query;
        self.shared
            .read_in(&query.org, |db, org| async move { failing(&db, org, query).await })
            .await
    }

    async fn deps_open(&self, query: StuckQuery) -> Result<Vec<(TaskId, TaskId)>, StoreError> {
        let query = &query;
        self.shared.read_in(&query.org, |db, org| async move { edges(&db, org, query).await }).await
    }

    async fn tasks_stuck(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError> {
        let (query, columns) = (&query, &query.as_columns());
        self.shared
            .read_in(&query.org, |db, org| async move {
                let now = clock::now(&db, &self.shared.clock).await?;
                let (rows, _) = shelf(&db, org, Shelf::Stuck, columns).await?;
                Ok(rows.into_iter().map(|row| row.as_of(&query.policy, now)).collect())
            })
            .await
    }

    async fn tasks_silent(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError> {
        let (query, sql) = (&query, &query.silent_sql(read::SIGN));
        self.shared
            .read_in(&query.org, |db, org| async move {
                let now = clock::now(&db, &self.shared.clock).await?;
                board_rows(&db, sql, &[&org, &now.0, &query.silent_before(now)]).await
            })
            .await
    }

    async fn tasks_with_failing(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError> {
        self.rows_of_org(&query, &query.failing_sql(read::SIGN)).await
    }

    async fn tasks_in_review(&self, query: StuckQuery) -> Result<Vec<ReviewRow>, StoreError> {
        let query = &query.as_columns();
        self.shared
            .read_in(&query.org, |db, org| async move {
                let shelf = Shelf::Column(Column::Review);
                let ShelfSql { review, filter, .. } = shelf_sql(org, shelf, query);
                let values = BoundValues::from(filter);
                let found = read::all(&db, &review, &values.values()).await?;
                Ok(found
                    .iter()
                    .filter_map(|row| ReviewRow::read_sound(&mut row.reader()))
                    .collect())
            })
            .await
    }

    async fn actors_at_work(&self, query: StuckQuery) -> Result<Vec<Actor>, StoreError> {
        let (query, sql) = (&query, &query.at_work_sql(read::SIGN));
        self.shared
            .read_in(&query.org, |db, org| async move {
                let now = clock::now(&db, &self.shared.clock).await?;
                let values: [&(dyn ToSql + Sync); 3] = [&org, &now.0, &query.silent_before(now)];
                let found = read::all(&db, sql, &values).await?;
                found.iter().map(|row| row.reader().actor()).collect()
            })
            .await
    }

    async fn epics_in_review(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError> {
        self.rows_of_org(&query, &query.epics_sql(read::SIGN)).await
    }

    async fn board_tasks(
        &self,
        org: &str,
        tasks: &[TaskId],
        policy: &Policy,
    ) -> Result<Vec<BoardRow>, StoreError> {
        let (ids, sql) = (&uuids(tasks), rows_sql());
        let sql = &format!("{sql} WHERE t.id = ANY ($1) AND t.org = $2 AND t.removed_at IS NULL");
        self.shared
            .read_in(org, |db, org| async move {
                let now = clock::now(&db, &self.shared.clock).await?;
                let rows = board_rows(&db, sql, &[ids, &org]).await?;
                Ok(rows.into_iter().map(|row| row.as_of(policy, now)).collect())
            })
            .await
    }

    async fn task_titles(&self, org: &str, tasks: &[TaskId]) -> Result<Vec<TaskTitle>, StoreError> {
        let sql = &format!(
            "SELECT {TITLE} FROM tasks t WHERE t.id = ANY ($1) AND t.org = $2 AND t.removed_at IS NULL"
        );
        let ids = &uuids(tasks);
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::all(&db, sql, &[ids, &org]).await?;
                found.iter().map(|row| TaskTitle::read(&mut row.reader())).collect()
            })
            .await
    }

    async fn tasks_waiting_for(
        &self,
        org: &str,
        dep: TaskId,
        policy: &Policy,
        limit: usize,
    ) -> Result<Vec<BoardRow>, StoreError> {
        let sql = &format!(
            "{} WHERE t.id = ANY (SELECT d.task FROM deps d WHERE d.dep = $1) \
             AND t.org = $2 AND t.removed_at IS NULL ORDER BY t.id LIMIT $3",
            rows_sql()
        );
        self.shared
            .read_in(org, |db, org| async move {
                let now = clock::now(&db, &self.shared.clock).await?;
                let rows = board_rows(&db, sql, &[&uuid(dep.id), &org, &(limit as i64)]).await?;
                Ok(rows.into_iter().map(|row| row.as_of(policy, now)).collect())
            })
            .await
    }

    async fn board_around(
        &self,
        org: &str,
        tasks: &[TaskId],
        policy: &Policy,
    ) -> Result<HashMap<Id, BoardAround>, StoreError> {
        self.shared
            .read_in(org, |db, _| async move {
                around(&db, tasks, policy, clock::now(&db, &self.shared.clock).await?).await
            })
            .await
    }

    async fn board_cards(
        &self,
        org: &str,
        tasks: &[TaskId],
    ) -> Result<HashMap<Id, Card>, StoreError> {
        let ids = &uuids(tasks);
        self.shared
            .read_in(org, |db, _| async move {
                let found = cards::of_tasks(&db, ids, false).await?.into_iter();
                Ok(found.map(|(id, beside)| (id, beside.card)).collect())
            })
            .await
    }

    async fn epics_progress(
        &self,
        org: &str,
        epics: &[TaskId],
    ) -> Result<Vec<EpicProgress>, StoreError> {
        self.shared.read_in(org, |db, org| async move { progress(&db, org, epics).await }).await
    }

    async fn comments_open(&self, org: &str, limit: usize) -> Result<Vec<Comment>, StoreError> {
        let sql = &comments_sql(read::SIGN);
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::all(&db, sql, &[&org, &(limit as i64)]).await?;
                found.iter().map(|row| comment::read(&mut row.reader())).collect()
            })
            .await
    }

    async fn checks_ran(&self, org: &str, task: TaskId) -> Result<Vec<LoggedEvent>, StoreError> {
        let sql = &checks_ran_sql(read::SIGN);
        self.shared
            .read_log(|db| async move {
                let org = self.shared.orgs.get(&db, org).await?;
                let found = read::all(&db, sql, &[&uuid(task.id), &org]).await?;
                found.iter().map(|row| event::read(&mut row.reader())).collect()
            })
            .await
    }

    async fn plans_open(&self, org: &str, limit: usize) -> Result<Vec<Plan>, StoreError> {
        let sql = &format!(
            "SELECT {PLAN} FROM plans l WHERE l.org = $1 AND l.state = 'draft' ORDER BY l.id LIMIT $2"
        );
        self.shared
            .read_in(org, |db, org| async move {
                let found = read::all(&db, sql, &[&org, &(limit as i64)]).await?;
                found.iter().map(|row| plan::read(&mut row.reader())).collect()
            })
            .await
    }
}
