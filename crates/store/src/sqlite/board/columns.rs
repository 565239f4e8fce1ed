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
use rusqlite::{Connection, OptionalExtension, Result, Row, params, params_from_iter};

use crate::StoreError;
use crate::board::columns::{
    BoardAround, BoardRow, BoardStore, ColumnPage, ColumnsQuery, DEPS_MAX, OPEN_DEPS, Shelf,
    ShelfSql, StuckQuery, WAITING, checks_ran_sql, comments_sql, read_edge, rows_sql,
};
use crate::board::progress::{EpicProgress, progress_sql};
use crate::board::rows::{ReviewRow, TITLE, TaskTitle};
use crate::sqlite::board::cards;
use crate::sqlite::errors::from_sqlite;
use crate::sqlite::{SqliteStore, read};
use crate::table::attempt::ATTEMPT;
use crate::table::plan::{self, PLAN};
use crate::table::task::{self, TASK, TASKS_BY_ID};
use crate::table::{Cells, comment, event};
use crate::task::filter::Value;

/// The columns of the board, over all projects of the org or one of them. Each project has its own indexes, so each
/// shelf is read per project and merged by `ColumnsQuery::pages`.
fn columns(
    db: &Connection,
    org: i64,
    query: &ColumnsQuery,
    now: Timestamp,
) -> Result<Vec<ColumnPage>> {
    let mut found = Vec::new();
    for project in projects(db, org, query.project)? {
        for column in query.shelves() {
            let (rows, count) = shelf(db, org, project, Shelf::Column(column), query)?;
            found.push((column, rows, count));
        }
    }
    Ok(query.pages(found, now))
}

/// The org's projects, or only the named one if it is the org's.
fn projects(db: &Connection, org: i64, project: Option<i64>) -> Result<Vec<i64>> {
    let mut all = read::projects(db, org)?;
    all.retain(|known| project.is_none_or(|project| project == *known));
    Ok(all)
}

/// The first rows of a shelf in one project, and the number of all of its rows.
fn shelf(
    db: &Connection,
    org: i64,
    project: i64,
    shelf: Shelf,
    query: &ColumnsQuery,
) -> Result<(Vec<BoardRow>, usize)> {
    let sql = ShelfSql::of(read::SIGN, org, shelf, query, vec![Value::Integer(project)]);
    let values = &sql.filter.values;
    let rows = board_rows(db, &sql.rows, values)?;
    // A page that is not full holds every row, so the second statement is spared.
    if rows.len() < shelf.limit(query.limit) {
        let count = rows.len();
        return Ok((rows, count));
    }
    let count: i64 = db
        .prepare_cached(&sql.count)?
        .query_row(params_from_iter(values.iter()), |row| row.get(0))?;
    Ok((rows, count.unsigned_abs() as usize))
}

/// How many tasks of the columns have a failing check.
fn failing(db: &Connection, org: i64, query: &ColumnsQuery) -> Result<usize> {
    let mut all = 0;
    for project in projects(db, org, query.project)? {
        for column in &query.columns {
            let first = vec![Value::Integer(project)];
            let sql = ShelfSql::of(read::SIGN, org, Shelf::Column(*column), query, first);
            let mut found = db.prepare_cached(&sql.failing)?;
            let values = params_from_iter(sql.filter.values.iter());
            let many: i64 = found.query_row(values, |row| row.get(0))?;
            all += many.unsigned_abs() as usize;
        }
    }
    Ok(all)
}

/// The open deps of open tasks, each before the task that waits for it.
fn edges(db: &Connection, org: i64, query: &StuckQuery) -> Result<Vec<(TaskId, TaskId)>> {
    let (mut all, columns) = (Vec::new(), query.as_columns());
    for project in projects(db, org, query.project)? {
        for column in WAITING {
            let first = vec![Value::Integer(project)];
            let sql = ShelfSql::of(read::SIGN, org, Shelf::Column(column), &columns, first);
            let mut found = db.prepare_cached(&sql.deps)?;
            let values = params_from_iter(sql.filter.values.iter());
            for edge in found.query_map(values, |row| read_edge(&mut row.reader()))? {
                all.push(edge?);
            }
        }
    }
    Ok(all)
}

fn at_work(db: &Connection, sql: &str, values: [i64; 3]) -> Result<Vec<Actor>> {
    let mut select = db.prepare_cached(sql)?;
    select.query_map(values, |row| row.reader().actor())?.collect()
}

/// Tasks in review, with what tells whether they wait for a person.
fn in_review(db: &Connection, org: i64, query: &StuckQuery) -> Result<Vec<ReviewRow>> {
    let (mut rows, columns) = (Vec::new(), query.as_columns());
    for project in projects(db, org, query.project)? {
        let (shelf, first) = (Shelf::Column(Column::Review), vec![Value::Integer(project)]);
        let sql = ShelfSql::of(read::SIGN, org, shelf, &columns, first);
        let mut found = db.prepare_cached(&sql.review)?;
        let values = params_from_iter(sql.filter.values.iter());
        for row in found.query_map(values, |row| Ok(ReviewRow::read_sound(&mut row.reader())))? {
            rows.extend(row?);
        }
    }
    rows.sort_by_key(|row| (row.phase_at, row.id.id));
    rows.truncate(query.limit);
    Ok(rows)
}

/// Tasks of a statement. A damaged row is left out of the list rather than failing it; `doctor` names it.
fn board_rows(db: &Connection, sql: &str, values: &[Value]) -> Result<Vec<BoardRow>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut found = statement.query(params_from_iter(values.iter()))?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        match task::read_with_attempt(&mut row.reader()) {
            Ok((task, newest)) => rows.push(BoardRow { task, newest }),
            Err(error) => {
                tracing::error!(%error, "a task's row is damaged; run callboard doctor");
            }
        }
    }
    Ok(rows)
}

/// Blocked tasks, the oldest first. Each project is cut at the limit before the merge, so the result is the same as
/// from one list.
fn stuck(db: &Connection, org: i64, query: &StuckQuery, now: Timestamp) -> Result<Vec<BoardRow>> {
    let (mut rows, columns) = (Vec::new(), query.as_columns());
    for project in projects(db, org, query.project)? {
        rows.extend(shelf(db, org, project, Shelf::Stuck, &columns)?.0);
    }
    rows.sort_by_key(|row| row.task.id.id);
    rows.truncate(query.limit);
    Ok(rows.into_iter().map(|row| row.as_of(&query.policy, now)).collect())
}

/// The named tasks, without those that were removed; in the order of `ids`.
fn tasks(db: &Connection, org: i64, ids: &[TaskId]) -> Result<Vec<BoardRow>> {
    let sql = format!("{} WHERE t.id = ?1 AND t.org = ?2 AND t.removed_at IS NULL", rows_sql());
    let mut rows = Vec::new();
    for task in ids {
        rows.extend(board_rows(db, &sql, &[Value::Id(task.id), Value::Integer(org)])?);
    }
    Ok(rows)
}

/// Names and titles, a lookup by key for each.
fn titles(db: &Connection, org: i64, ids: &[TaskId]) -> Result<Vec<TaskTitle>> {
    let sql = format!(
        "SELECT {TITLE} FROM tasks t WHERE t.id = ?1 AND t.org = ?2 AND t.removed_at IS NULL"
    );
    let mut found = db.prepare_cached(&sql)?;
    let mut title = |task: &TaskId| {
        let read = |row: &Row<'_>| TaskTitle::read(&mut row.reader());
        found.query_row(params![task.id.to_bytes(), org], read).optional().transpose()
    };
    ids.iter().filter_map(&mut title).collect()
}

/// The open deps of a task, at most `DEPS_MAX`, as they stand at `now`. `CROSS JOIN` keeps SQLite from starting at the
/// table of tasks.
fn deps(db: &Connection, task: TaskId, policy: &Policy, now: Timestamp) -> Result<Vec<OpenDep>> {
    let sql = format!(
        "SELECT {TASK}, {ATTEMPT} FROM deps CROSS JOIN {TASKS_BY_ID} ON t.id = deps.dep \
         LEFT JOIN tasks p ON p.id = t.parent LEFT JOIN attempts a ON a.id = t.newest_attempt \
         WHERE deps.task = ?1 AND {OPEN_DEPS} ORDER BY deps.position LIMIT {DEPS_MAX}"
    );
    let rows = board_rows(db, &sql, &[Value::Id(task.id)])?.into_iter();
    let rows = rows.map(|row| row.as_of(policy, now));
    Ok(rows.filter_map(|row| OpenDep::of(&row.task, row.newest.as_ref(), policy, now)).collect())
}

/// How far an epic is, by counts of its tasks; `None` when the epic was removed or is of another org.
fn progress(db: &Connection, org: i64, epic: TaskId) -> Result<Option<EpicProgress>> {
    let named = "SELECT id, prefix, number, title FROM tasks \
         WHERE id = ?1 AND org = ?2 AND removed_at IS NULL";
    let read = |row: &Row<'_>| {
        let mut row = row.reader();
        let id = row.task()?;
        EpicProgress::read(id, &mut row)
    };
    let values = params![epic.id.to_bytes(), org];
    let Some(mut found) = db.prepare_cached(named)?.query_row(values, read).optional()? else {
        return Ok(None);
    };
    let counts = |row: &Row<'_>| found.count(&mut row.reader());
    db.prepare_cached(&progress_sql("?1"))?.query_row([epic.id.to_bytes()], counts)?;
    Ok(Some(found))
}

impl SqliteStore {
    /// Tasks of a statement whose only value is the org, as they stand now.
    async fn rows_of_org(
        &self,
        query: StuckQuery,
        sql: String,
    ) -> Result<Vec<BoardRow>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, now| {
            let rows = board_rows(db, &sql, &[Value::Integer(org)]).map_err(from_sqlite)?;
            Ok(rows.into_iter().map(|row| row.as_of(&query.policy, now)).collect())
        })
        .await
    }
}

#[async_trait]
impl BoardStore for SqliteStore {
    async fn board_columns(&self, query: ColumnsQuery) -> Result<Vec<ColumnPage>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, now| {
            columns(db, org, &query, now).map_err(from_sqlite)
        })
        .await
    }

    async fn tasks_failing(&self, query: ColumnsQuery) -> Result<usize, StoreError> {
        self.read_in(query.org.clone(), move |db, org, _| {
            failing(db, org, &query).map_err(from_sqlite)
        })
        .await
    }

    async fn deps_open(&self, query: StuckQuery) -> Result<Vec<(TaskId, TaskId)>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, _| {
            edges(db, org, &query).map_err(from_sqlite)
        })
        .await
    }

    async fn tasks_stuck(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, now| {
            stuck(db, org, &query, now).map_err(from_sqlite)
        })
        .await
    }

    async fn tasks_silent(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, now| {
            let values = [org, now.0, query.silent_before(now)].map(Value::Integer);
            board_rows(db, &query.silent_sql(read::SIGN), &values).map_err(from_sqlite)
        })
        .await
    }

    async fn tasks_with_failing(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError> {
        let sql = query.failing_sql(read::SIGN);
        self.rows_of_org(query, sql).await
    }

    async fn tasks_in_review(&self, query: StuckQuery) -> Result<Vec<ReviewRow>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, _| {
            in_review(db, org, &query).map_err(from_sqlite)
        })
        .await
    }

    async fn actors_at_work(&self, query: StuckQuery) -> Result<Vec<Actor>, StoreError> {
        self.read_in(query.org.clone(), move |db, org, now| {
            let values = [org, now.0, query.silent_before(now)];
            at_work(db, &query.at_work_sql(read::SIGN), values).map_err(from_sqlite)
        })
        .await
    }

    async fn epics_in_review(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError> {
        let sql = query.epics_sql(read::SIGN);
        self.rows_of_org(query, sql).await
    }

    async fn board_tasks(
        &self,
        org: &str,
        ids: &[TaskId],
        policy: &Policy,
    ) -> Result<Vec<BoardRow>, StoreError> {
        self.shared.read_in(org, |db, org, now| {
            let rows = tasks(db, org, ids).map_err(from_sqlite)?;
            Ok(rows.into_iter().map(|row| row.as_of(policy, now)).collect())
        })
    }

    async fn task_titles(&self, org: &str, tasks: &[TaskId]) -> Result<Vec<TaskTitle>, StoreError> {
        self.shared.read_in(org, |db, org, _| titles(db, org, tasks).map_err(from_sqlite))
    }

    async fn tasks_waiting_for(
        &self,
        org: &str,
        dep: TaskId,
        policy: &Policy,
        limit: usize,
    ) -> Result<Vec<BoardRow>, StoreError> {
        self.shared.read_in(org, |db, org, now| {
            let sql = format!(
                "SELECT {TASK}, {ATTEMPT} FROM deps CROSS JOIN {TASKS_BY_ID} ON t.id = deps.task \
                 LEFT JOIN tasks p ON p.id = t.parent \
                 LEFT JOIN attempts a ON a.id = t.newest_attempt \
                 WHERE deps.dep = ?1 AND t.org = ?2 AND t.removed_at IS NULL \
                 ORDER BY deps.task LIMIT ?3"
            );
            let values = [Value::Id(dep.id), Value::Integer(org), Value::Integer(limit as i64)];
            let rows = board_rows(db, &sql, &values).map_err(from_sqlite)?;
            Ok(rows.into_iter().map(|row| row.as_of(policy, now)).collect())
        })
    }

    async fn board_around(
        &self,
        org: &str,
        tasks: &[TaskId],
        policy: &Policy,
    ) -> Result<HashMap<Id, BoardAround>, StoreError> {
        self.shared.read_in(org, |db, _, now| {
            let around = |task: &TaskId| {
                let card = cards::of_task(db, *task)?;
                Ok((task.id, BoardAround { card, deps: deps(db, *task, policy, now)? }))
            };
            tasks.iter().map(around).collect::<Result<_>>().map_err(from_sqlite)
        })
    }

    async fn board_cards(
        &self,
        org: &str,
        tasks: &[TaskId],
    ) -> Result<HashMap<Id, Card>, StoreError> {
        self.shared.read_in(org, |db, _, _| {
            let card = |task: &TaskId| Ok((task.id, cards::of_task(db, *task)?));
            tasks.iter().map(card).collect::<Result<_>>().map_err(from_sqlite)
        })
    }

    async fn epics_progress(
        &self,
        org: &str,
        epics: &[TaskId],
    ) -> Result<Vec<EpicProgress>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let found = epics.iter().filter_map(|epic| progress(db, org, *epic).transpose());
            found.collect::<Result<_>>().map_err(from_sqlite)
        })
    }

    async fn comments_open(&self, org: &str, limit: usize) -> Result<Vec<Comment>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let read = |row: &Row<'_>| comment::read(&mut row.reader());
            let found = db
                .prepare_cached(&comments_sql(read::SIGN))
                .and_then(|mut found| found.query_map(params![org, limit as i64], read)?.collect());
            found.map_err(from_sqlite)
        })
    }

    async fn checks_ran(&self, org: &str, task: TaskId) -> Result<Vec<LoggedEvent>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let read = |row: &Row<'_>| event::read(&mut row.reader());
            let found = db.prepare_cached(&checks_ran_sql(read::SIGN)).and_then(|mut found| {
                found.query_map(params![task.id.to_bytes(), org], read)?.collect()
            });
            found.map_err(from_sqlite)
        })
    }

    async fn plans_open(&self, org: &str, limit: usize) -> Result<Vec<Plan>, StoreError> {
        self.shared.read_in(org, |db, org, _| {
            let sql = format!(
                "SELECT {PLAN} FROM plans l WHERE l.org = ?1 AND l.state = 'draft' \
                 ORDER BY l.id LIMIT ?2"
            );
            let read = |row: &Row<'_>| plan::read(&mut row.reader());
            let found = db
                .prepare_cached(&sql)
                .and_then(|mut found| found.query_map(params![org, limit as i64], read)?.collect());
            found.map_err(from_sqlite)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use callboard_domain::board::filter::FilterText;

    use super::*;
    use crate::sqlite::schema;
    use crate::sqlite::turnstile::Turnstile;

    fn migrated() -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("test.db");
        let mut db = Connection::open(&path).expect("opens");
        let turnstile = Turnstile::open(&path).expect("locks");
        schema::migrate(&mut db, &path, &turnstile).expect("migrates");
        (folder, db)
    }

    fn plan(db: &Connection, sql: &str, values: &[Value]) -> Vec<String> {
        db.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .and_then(|mut plan| {
                plan.query_map(params_from_iter(values.iter()), |row| row.get(3))?.collect()
            })
            .expect("a plan")
    }

    /// Each shelf begins at its index and is in its order without a sort, however many tasks there are.
    #[test]
    fn every_shelf_is_found_by_its_own_index() {
        let (_folder, db) = migrated();
        let query = |filter: &str| ColumnsQuery {
            org: "default".into(),
            project: None,
            columns: Column::ALL.to_vec(),
            terms: FilterText::parse(filter).terms,
            done_since: Timestamp(0),
            policy: Arc::default(),
            limit: 51,
        };
        let everything =
            "word -other actor:a -check:fail label:x phase:ready priority:P0 project:p";
        let columns = Column::ALL.map(Shelf::Column);
        for shelf in columns.into_iter().chain([Shelf::Stuck]) {
            for (filter, index) in [
                ("", None),
                (everything, None),
                ("check:pass -check:open -epic:x", None),
                ("check:fail", Some("tasks_failing_by_phase")),
                ("epic:x", Some("tasks_by_parent")),
                ("epic:SHOP-3 word", Some("tasks_by_parent")),
            ] {
                let query = query(filter);
                let sql = ShelfSql::of('?', 1, shelf, &query, vec![Value::Integer(1)]);
                let own = match shelf {
                    Shelf::Column(Column::Blocked | Column::Ready) => "tasks_initial",
                    Shelf::Column(Column::Working | Column::Review) => "tasks_under_way",
                    Shelf::Column(Column::Done) => "tasks_closed",
                    Shelf::Stuck => "tasks_blocked",
                };
                // A plan may be blocked, and the index of failing checks has no plans.
                let index = match (shelf, filter) {
                    (Shelf::Stuck, "check:fail") => own,
                    _ => index.unwrap_or(own),
                };
                for statement in [&sql.rows, &sql.count, &sql.failing, &sql.deps] {
                    // Without a filter the kept counts know the number.
                    if statement.contains("list_counts") {
                        continue;
                    }
                    // The number of tasks with a failing check is that of their index.
                    let counts_failing = statement == &sql.failing && filter.is_empty();
                    let index = match counts_failing && shelf != Shelf::Stuck {
                        true => "tasks_failing_by_phase",
                        false => index,
                    };
                    let steps = plan(&db, statement, &sql.filter.values);
                    let found = steps.iter().any(|step| step.contains(&format!("INDEX {index} ")));
                    assert!(found, "{shelf:?} {filter}: {steps:#?}");
                    let scans = steps.iter().any(|step| step.starts_with("SCAN t"));
                    assert!(!scans, "{shelf:?} {filter}: {steps:#?}");
                }
            }
            let query = query("word");
            let sql = ShelfSql::of('?', 1, shelf, &query, vec![Value::Integer(1)]);
            // The count has no order of its own: a sort in it would be one of the shelf.
            let steps = plan(&db, &sql.count, &sql.filter.values);
            assert!(
                !steps.iter().any(|step| step.contains("TEMP B-TREE")),
                "{shelf:?}: {steps:#?}"
            );
        }
    }

    #[test]
    fn reviews_are_counted_in_their_order() {
        let (_folder, db) = migrated();
        let (org, policy) = ("default".into(), Arc::default());
        let columns = StuckQuery { org, project: Some(1), policy, limit: 10 }.as_columns();
        let (shelf, first) = (Shelf::Column(Column::Review), vec![Value::Integer(1)]);
        let sql = ShelfSql::of('?', 1, shelf, &columns, first);
        let steps = plan(&db, &sql.review, &sql.filter.values);
        assert!(steps.iter().any(|step| step.contains("INDEX tasks_under_way ")), "{steps:#?}");
        assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{steps:#?}");
    }

    #[test]
    fn silence_and_epics_have_indexes() {
        let (_folder, db) = migrated();
        let (org, policy) = ("default".into(), Arc::default());
        let query = StuckQuery { org, project: Some(1), policy, limit: 10 };
        let values = [1, 1, 1].map(Value::Integer);
        let steps = plan(&db, &query.silent_sql('?'), &values);
        assert!(steps[0].contains("USING INDEX attempts_live"), "{steps:#?}");
        assert!(steps[1].starts_with("SEARCH t "), "{steps:#?}");
        let steps = plan(&db, &query.epics_sql('?'), &[Value::Integer(1)]);
        assert!(steps[0].contains("USING INDEX tasks_plans"), "{steps:#?}");
    }

    #[test]
    fn open_comments_and_plans_have_indexes() {
        let (_folder, db) = migrated();
        let two = [Value::Integer(1), Value::Integer(1)];
        let plans = format!(
            "SELECT {PLAN} FROM plans l WHERE l.org = ?1 AND l.state = 'draft' ORDER BY l.id LIMIT ?2"
        );
        let epics = crate::crew::epics_sql('?');
        let comments = comments_sql('?');
        for (sql, index) in
            [(&comments, "comments_open"), (&plans, "plans_open"), (&epics, "tasks_plans")]
        {
            let steps = plan(&db, sql, &two);
            assert!(steps[0].contains(index), "{steps:#?}");
            assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{steps:#?}");
        }
    }
}
