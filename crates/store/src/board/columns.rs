//! The columns of the board and the sources of the inbox: queries, and the SQL that both databases share. Each statement
//! begins at an index of its own and stops at a limit, so that the number of other tasks does not matter.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::board::card::Card;
use callboard_domain::board::column::{COUNT_MAX, CardOrder, Column, DEPS_NAMED_MAX, OpenDep};
use callboard_domain::board::filter::{CheckFilter, FilterTerm, FilterWants};
use callboard_domain::board::plan::Plan;
use callboard_domain::event::{EventName, LoggedEvent};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::policy::Policy;
use callboard_domain::task::Task;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::comment::Comment;
use callboard_domain::task::standing::settle;
use callboard_domain::time::Timestamp;

use crate::StoreError;
use crate::board::cards::SEARCHED_MAX;
use crate::board::progress::EpicProgress;
use crate::board::rows::{ReviewRow, TaskTitle};
use crate::board::terms::{condition, fails, of_epic};
use crate::table::attempt::ATTEMPT;
use crate::table::comment::COMMENT;
use crate::table::event::EVENT;
use crate::table::task::{TASK, TASK_FROM, tasks_by_id};
use crate::table::{Cells, RowReader};
use crate::task::filter::{Filter, Value};

/// Reads for the board of a person.
#[async_trait]
pub trait BoardStore: Send + Sync {
    /// Columns of the board, as tasks stand now, leases judged. Plans are left out.
    async fn board_columns(&self, query: ColumnsQuery) -> Result<Vec<ColumnPage>, StoreError>;
    /// How many tasks of these columns have a failing check, at most `COUNT_MAX` of each. The query's limit is ignored.
    async fn tasks_failing(&self, query: ColumnsQuery) -> Result<usize, StoreError>;
    /// Open deps of open tasks as pairs of the dep and the task that waits for it. Plans are left out. The first
    /// `limit` tasks of each column but Ready and Done are looked at.
    async fn deps_open(&self, query: StuckQuery) -> Result<Vec<(TaskId, TaskId)>, StoreError>;
    /// Tasks that wait for an answer to their block, as they stand now; the oldest first.
    async fn tasks_stuck(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError>;
    /// Tasks that have not been handed over and whose holders have been silent for too long; the lease that ends first
    /// comes first.
    async fn tasks_silent(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError>;
    /// Tasks at work or in review with a failing check, as they stand now; the oldest first.
    async fn tasks_with_failing(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError>;
    /// Tasks in review, without epics, in the order of their column. A damaged row is left out.
    async fn tasks_in_review(&self, query: StuckQuery) -> Result<Vec<ReviewRow>, StoreError>;
    /// Actors with a live attempt that are not silent, in any order.
    async fn actors_at_work(&self, query: StuckQuery) -> Result<Vec<Actor>, StoreError>;
    /// Epics in review, the oldest first.
    async fn epics_in_review(&self, query: StuckQuery) -> Result<Vec<BoardRow>, StoreError>;
    /// These tasks as they stand now, in any order; unknown ones are left out.
    async fn board_tasks(
        &self,
        org: &str,
        tasks: &[TaskId],
        policy: &Policy,
    ) -> Result<Vec<BoardRow>, StoreError>;
    /// Names and titles of these tasks, in any order; unknown and removed ones are left out.
    async fn task_titles(&self, org: &str, tasks: &[TaskId]) -> Result<Vec<TaskTitle>, StoreError>;
    /// Tasks that wait for this one, as they stand now, the oldest first.
    async fn tasks_waiting_for(
        &self,
        org: &str,
        dep: TaskId,
        policy: &Policy,
        limit: usize,
    ) -> Result<Vec<BoardRow>, StoreError>;
    /// Cards of tasks, and their first open deps.
    async fn board_around(
        &self,
        org: &str,
        tasks: &[TaskId],
        policy: &Policy,
    ) -> Result<HashMap<Id, BoardAround>, StoreError>;
    /// Cards of tasks; tasks without one are left out.
    async fn board_cards(
        &self,
        org: &str,
        tasks: &[TaskId],
    ) -> Result<HashMap<Id, Card>, StoreError>;
    /// Titles and progress of epics.
    async fn epics_progress(
        &self,
        org: &str,
        epics: &[TaskId],
    ) -> Result<Vec<EpicProgress>, StoreError>;
    /// Unresolved blockers, and proposals to give a task up, of open tasks; the oldest first.
    async fn comments_open(&self, org: &str, limit: usize) -> Result<Vec<Comment>, StoreError>;
    /// The newest runs of a task's checks, the newest first, among the newest `CHECKS_LOOKED_AT` events of the task.
    async fn checks_ran(&self, org: &str, task: TaskId) -> Result<Vec<LoggedEvent>, StoreError>;
    /// Plans that wait for a decision, the oldest first.
    async fn plans_open(&self, org: &str, limit: usize) -> Result<Vec<Plan>, StoreError>;
}

/// The columns whose tasks may wait for others.
pub(crate) const WAITING: [Column; 3] = [Column::Blocked, Column::Working, Column::Review];
/// So many open deps of one task are read for a graph.
const EDGES_MAX: usize = 100;
/// How many events of a task are searched for runs of its checks.
pub(crate) const CHECKS_LOOKED_AT: usize = 500;

#[derive(Clone, Debug)]
pub struct ColumnsQuery {
    pub org: Arc<str>,
    /// `None`: of every project.
    pub project: Option<i64>,
    pub columns: Vec<Column>,
    /// Terms that say nothing of tasks are ignored. Other terms than an epic and a failing check look at the first
    /// `SEARCHED_MAX` tasks of each column.
    pub terms: Vec<FilterTerm>,
    /// Tasks that were closed before are left out.
    pub done_since: Timestamp,
    pub policy: Arc<Policy>,
    /// At most so many rows of each column. Working has up to `COUNT_MAX`: attempts decide on its order.
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckQuery {
    pub org: Arc<str>,
    /// `None`: of every project.
    pub project: Option<i64>,
    pub policy: Arc<Policy>,
    pub limit: usize,
}

/// The rows of one column in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnPage {
    pub column: Column,
    pub rows: Vec<BoardRow>,
    /// The number of all rows; exact up to `COUNT_MAX`.
    pub count: usize,
}

/// A task with its newest attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct BoardRow {
    pub task: Task,
    pub newest: Option<Attempt>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoardAround {
    pub card: Card,
    /// At most `DEPS_NAMED_MAX` of the open deps.
    pub deps: Vec<OpenDep>,
}

impl BoardRow {
    /// The row as it stands at `now`.
    pub fn as_of(mut self, policy: &Policy, now: Timestamp) -> Self {
        settle(&mut self.task, self.newest.as_mut(), policy, now);
        self
    }

    fn order(&self, policy: &Policy, now: Timestamp) -> CardOrder {
        CardOrder::of(&self.task, self.newest.as_ref(), false, policy, now)
    }
}

/// The part of the tasks that one statement lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    Column(Column),
    /// Tasks that are blocked with a reason.
    Stuck,
}

/// Whether a task that has not begun has something in its way. Must be the expression of the index `tasks_initial`.
const IN_THE_WAY: &str = "(CASE WHEN t.open_deps > 0 OR t.blocked IS NOT NULL \
     OR t.open_blockers > 0 THEN 1 ELSE 0 END)";

impl Shelf {
    /// The conditions; each repeats those of its index.
    fn terms(self, filter: &mut Filter, done_since: Timestamp) {
        if self != Shelf::Stuck {
            // Each database needs the form that its partial indexes have.
            filter.term(if filter.is_postgres() { "NOT t.is_plan" } else { "t.is_plan = 0" });
        }
        filter.term("t.removed_at IS NULL");
        // Inequalities: SQLite would take a list of phases for the column of the index.
        let under_way = "t.phase <> 'initial' AND t.phase <> 'closed_done' \
             AND t.phase <> 'closed_canceled'";
        match self {
            Shelf::Column(Column::Blocked) => {
                filter.term(&format!("t.phase = 'initial' AND {IN_THE_WAY} = 1"));
            }
            Shelf::Column(Column::Ready) => {
                filter.term(&format!("t.phase = 'initial' AND {IN_THE_WAY} = 0"));
            }
            Shelf::Column(Column::Working) => {
                filter.term(&format!("{under_way} AND t.phase = 'working'"));
            }
            Shelf::Column(Column::Review) => {
                filter.term(&format!("{under_way} AND t.phase = 'review'"));
            }
            Shelf::Column(Column::Done) => {
                filter.term("t.phase IN ('closed_done', 'closed_canceled')");
                filter.with("t.phase_at >= ?", Value::Integer(done_since.0));
            }
            Shelf::Stuck => filter.term("t.blocked IS NOT NULL"),
        }
    }

    /// The index that SQLite has to use: its planner knows nothing of the numbers of rows.
    fn index(self) -> &'static str {
        match self {
            Shelf::Column(Column::Blocked | Column::Ready) => "tasks_initial",
            Shelf::Column(Column::Working | Column::Review) => "tasks_under_way",
            Shelf::Column(Column::Done) => "tasks_closed",
            Shelf::Stuck => "tasks_blocked",
        }
    }

    fn order(self) -> &'static str {
        match self {
            Shelf::Column(Column::Blocked | Column::Ready) => "t.priority, t.id",
            Shelf::Column(Column::Working | Column::Review) => "t.phase_at, t.id",
            Shelf::Column(Column::Done) => "t.phase_at DESC, t.id DESC",
            Shelf::Stuck => "t.id",
        }
    }

    /// The states of the kept counts that make up this shelf; `None` where a time bounds it, or a block.
    fn states(self) -> Option<&'static str> {
        match self {
            Shelf::Column(Column::Blocked) => Some("'blocked', 'blocker'"),
            Shelf::Column(Column::Ready) => Some("'ready'"),
            Shelf::Column(Column::Working) => Some("'working'"),
            Shelf::Column(Column::Review) => Some("'review'"),
            Shelf::Column(Column::Done) | Shelf::Stuck => None,
        }
    }

    /// How many rows are read.
    pub fn limit(self, wanted: usize) -> usize {
        if self == Shelf::Column(Column::Working) { COUNT_MAX + 1 } else { wanted }
    }
}

/// The index of SQLite for tasks with a failing check.
const FAILING: &str = "tasks_failing_by_phase";

/// Whether the tasks that a term wants are found by an index of their own.
fn has_index(term: &FilterTerm) -> bool {
    let is_indexed =
        matches!(term.wants, FilterWants::Epic(_) | FilterWants::Check(CheckFilter::Fail));
    is_indexed && !term.is_not
}

/// The statements of a shelf. Each uses every value.
pub(crate) struct ShelfSql {
    pub rows: String,
    /// The number of all rows.
    pub count: String,
    /// How many rows have a failing check, at most `COUNT_MAX`.
    pub failing: String,
    /// The first rows as `ReviewRow` reads them.
    pub review: String,
    /// The open deps of the first rows, each beside the task that waits for it: the columns of `read_edge`.
    pub deps: String,
    pub filter: Filter,
}

impl ShelfSql {
    /// `first` holds a project for SQLite; for PostgreSQL the org, and the query's project if it has one.
    pub fn of(sign: char, org: i64, shelf: Shelf, query: &ColumnsQuery, first: Vec<Value>) -> Self {
        let mut inner = Filter::of_values(sign, first);
        let is_postgres = inner.is_postgres();
        inner.term(if is_postgres { "t.project = j.id" } else { "t.project = ?1" });
        shelf.terms(&mut inner, query.done_since);
        let (mut is_of_epic, mut is_failing) = (false, false);
        for term in query.terms.iter().filter(|term| has_index(term)) {
            match &term.wants {
                FilterWants::Epic(epic) => {
                    let of_epic = of_epic(&mut inner, org, epic);
                    inner.term(&format!("t.parent IS NOT NULL AND {of_epic}"));
                    is_of_epic = true;
                }
                _ => {
                    inner.term(fails(is_postgres));
                    is_failing = true;
                }
            }
        }
        let (found, mut outer) = inner.split();
        for term in query.terms.iter().filter(|term| !has_index(term)) {
            let Some(wanted) = condition(&mut outer, org, &term.wants) else { continue };
            // A condition on a column without a value is neither true nor false.
            let not = if term.is_not { "NOT " } else { "" };
            outer.term(&format!(
                "{not}coalesce({wanted}, {})",
                if is_postgres { "false" } else { "0" }
            ));
        }
        // `FAILING` has no plans, and a plan may be blocked.
        let of_failing = if shelf == Shelf::Stuck { shelf.index() } else { FAILING };
        let index = match (is_of_epic, is_failing) {
            _ if is_postgres => String::new(),
            (true, _) => "INDEXED BY tasks_by_parent".to_owned(),
            (false, true) => format!("INDEXED BY {of_failing}"),
            (false, false) => format!("INDEXED BY {}", shelf.index()),
        };
        let (wanted, order) = (outer.sql(), shelf.order());
        let is_searched = !wanted.is_empty();
        let of_project = if query.project.is_some() { "AND j.id = $2" } else { "" };
        let wanted = match (is_postgres, is_searched) {
            (true, true) => format!("WHERE j.org = $1 {of_project} AND {wanted}"),
            (true, false) => format!("WHERE j.org = $1 {of_project}"),
            (false, true) => format!("WHERE {wanted}"),
            (false, false) => String::new(),
        };
        let best = |columns: &str, limit: usize| {
            let limit = if is_searched { SEARCHED_MAX } else { limit };
            format!(
                "(SELECT {columns} FROM tasks t {index} WHERE {found} ORDER BY {order} LIMIT {limit})"
            )
        };
        let from = |limit: usize| match is_postgres {
            // Whole rows: a join of the found ids with all tasks could be planned as a scan of them.
            true => format!("projects j CROSS JOIN LATERAL {} t", best("t.*", limit)),
            // SQLite would sort whole rows. A CROSS JOIN goes from the few found ids to their rows.
            false => {
                let (found, tasks) = (best("t.id", limit), tasks_by_id(sign));
                format!("{found} f CROSS JOIN {tasks} ON t.id = f.id")
            }
        };
        let limit = shelf.limit(query.limit);
        // SQLite goes through the found ids in their order, and stops at the limit. Another ORDER BY would read all of
        // them first. `pages` sorts the rows of every project.
        let order = match (is_postgres, is_searched) {
            (false, true) => String::new(),
            _ => format!("ORDER BY {order}"),
        };
        let rows = format!(
            "SELECT {TASK}, {ATTEMPT} FROM {} LEFT JOIN tasks p ON p.id = t.parent \
             LEFT JOIN attempts a ON a.id = t.newest_attempt {wanted} {order} LIMIT {limit}",
            from(limit)
        );
        let most = COUNT_MAX + 1;
        let counted = match (is_postgres, is_searched) {
            // Without a filter the index alone counts.
            (false, false) => format!("{} f", best("t.id", most)),
            _ => from(most),
        };
        let count = match shelf.states() {
            // Without a filter the kept counts know the number.
            Some(states) if !is_searched && !is_of_epic && !is_failing => {
                let (project, of) = match is_postgres {
                    true => ("projects j JOIN list_counts c ON c.scope = j.id", &*wanted),
                    false => ("list_counts c", "WHERE c.scope = ?1"),
                };
                format!(
                    "SELECT CAST(coalesce(sum(c.count), 0) AS bigint) FROM {project} {of} \
                     AND c.list = 'task' AND c.state IN ({states})"
                )
            }
            _ => format!("SELECT count(*) FROM (SELECT 1 FROM {counted} {wanted} LIMIT {most}) c"),
        };
        let fails = fails(is_postgres);
        let failing = match (is_postgres, is_searched || is_of_epic) {
            (_, true) => format!(
                "SELECT count(c.fails) FROM (SELECT CASE WHEN {fails} THEN 1 END AS fails FROM {} {wanted} \
                 LIMIT {COUNT_MAX}) c",
                from(COUNT_MAX)
            ),
            (true, false) => format!(
                "SELECT count(*) FROM projects j CROSS JOIN LATERAL \
                 (SELECT 1 FROM tasks t WHERE {found} AND {fails} LIMIT {COUNT_MAX}) c {wanted}"
            ),
            (false, false) => format!(
                "SELECT count(*) FROM (SELECT 1 FROM tasks t INDEXED BY {of_failing} \
                 WHERE {found} AND {fails} LIMIT {COUNT_MAX}) c"
            ),
        };
        let best_tasks = best("t.id, t.prefix, t.number, t.phase_at, t.verification", limit);
        let review = match is_postgres {
            true => format!(
                "SELECT t.id, t.prefix, t.number, t.phase_at, t.verification \
                 FROM projects j CROSS JOIN LATERAL {best_tasks} t {wanted} ORDER BY t.phase_at, t.id LIMIT {limit}"
            ),
            false => format!("SELECT * FROM {best_tasks} t"),
        };
        let is_plan = if is_postgres { "NOT d.is_plan" } else { "d.is_plan = 0" };
        let open = format!(
            "d.removed_at IS NULL AND {is_plan} AND d.phase NOT IN ('closed_done', 'closed_canceled')"
        );
        let deps = match is_postgres {
            // The limit keeps the join a look-up for each task; without it PostgreSQL may read every dep.
            true => format!(
                "CROSS JOIN LATERAL (SELECT d.id, d.prefix FROM deps w JOIN tasks d ON d.id = w.dep \
                 WHERE w.task = t.id AND {open} LIMIT {EDGES_MAX}) d {wanted} AND t.open_deps > 0"
            ),
            false => format!(
                "CROSS JOIN deps w ON w.task = t.id CROSS JOIN tasks d ON d.id = w.dep AND {open} {} t.open_deps > 0",
                if wanted.is_empty() { "WHERE".to_owned() } else { format!("{wanted} AND") }
            ),
        };
        let deps = format!("SELECT d.id, d.prefix, t.id, t.prefix FROM {} {deps}", from(limit));
        Self { rows, count, failing, review, deps, filter: outer }
    }
}

/// A row of `ShelfSql::deps`: the dep, and the task that waits for it.
pub(crate) fn read_edge<R: Cells>(
    row: &mut RowReader<'_, R>,
) -> Result<(TaskId, TaskId), R::Error> {
    Ok((row.task()?, row.task()?))
}

impl ColumnsQuery {
    /// The pages of what was read: each row in the column in which its task stands now. A lease that is over takes a
    /// task from Working to another column.
    pub(crate) fn pages(
        &self,
        found: Vec<(Column, Vec<BoardRow>, usize)>,
        now: Timestamp,
    ) -> Vec<ColumnPage> {
        let mut pages: Vec<ColumnPage> = Vec::new();
        let page = |column| ColumnPage { column, rows: Vec::new(), count: 0 };
        pages.extend(self.columns.iter().map(|column| page(*column)));
        for (column, rows, count) in found {
            let mut moved = 0;
            for row in rows {
                let row = row.as_of(&self.policy, now);
                let stands_in = Column::of(&row.task);
                let is_moved = stands_in != column;
                moved += usize::from(is_moved);
                if let Some(page) =
                    pages.iter_mut().find(|page| page.column == stands_in && self.wants(stands_in))
                {
                    page.rows.push(row);
                    page.count += usize::from(is_moved);
                }
            }
            if let Some(page) =
                pages.iter_mut().find(|page| page.column == column && self.wants(column))
            {
                page.count += count.saturating_sub(moved);
            }
        }
        for page in &mut pages {
            page.rows.sort_by_cached_key(|row| row.order(&self.policy, now));
            page.rows.truncate(Shelf::Column(page.column).limit(self.limit));
        }
        pages
    }

    /// Whether the terms allow this column.
    fn wants(&self, column: Column) -> bool {
        self.terms.iter().all(|term| match term.wants {
            FilterWants::Phase(wanted) => (wanted == column) != term.is_not,
            _ => true,
        })
    }

    /// The shelves to read: lapsed leases of Working stand in Blocked and Ready.
    pub(crate) fn shelves(&self) -> Vec<Column> {
        let mut columns = self.columns.clone();
        columns.retain(|column| self.wants(*column));
        let has = |columns: &[Column], column| columns.contains(&column);
        let is_initial = has(&columns, Column::Blocked) || has(&columns, Column::Ready);
        if is_initial && !has(&columns, Column::Working) {
            columns.push(Column::Working);
        }
        columns
    }
}

impl StuckQuery {
    /// Values: the org, now, and the moment before which a heartbeat counts as silence. The statement begins at the live
    /// attempts; a CROSS JOIN keeps that order in SQLite.
    pub(crate) fn silent_sql(&self, sign: char) -> String {
        let index = if sign == '?' { "INDEXED BY attempts_live" } else { "" };
        let project = self.project.map(|project| format!("AND t.project = {project}"));
        let far = i64::MAX;
        format!(
            "SELECT {TASK}, {ATTEMPT} FROM attempts a {index} CROSS JOIN {} \
             LEFT JOIN tasks p ON p.id = t.parent \
             WHERE a.ended_at IS NULL AND t.id = a.task AND t.newest_attempt = a.id \
             AND t.org = {sign}1 AND t.removed_at IS NULL AND t.phase IN ('initial', 'working') \
             AND (a.lease_expires_at IS NULL OR a.lease_expires_at > {sign}2) \
             AND a.heartbeat_at < {sign}3 AND a.started_at < {sign}3 {} \
             ORDER BY coalesce(a.lease_expires_at, {far}), a.id LIMIT {}",
            tasks_by_id(sign),
            project.unwrap_or_default(),
            self.limit
        )
    }

    /// Values: the org, now, and the moment before which a heartbeat counts as silence. The statement begins at the live
    /// attempts; a CROSS JOIN keeps that order in SQLite.
    pub(crate) fn at_work_sql(&self, sign: char) -> String {
        let index = if sign == '?' { "INDEXED BY attempts_live" } else { "" };
        let project = self.project.map(|project| format!("AND t.project = {project}"));
        format!(
            "SELECT DISTINCT a.actor FROM attempts a {index} CROSS JOIN {} \
             WHERE a.ended_at IS NULL AND t.id = a.task AND t.newest_attempt = a.id \
             AND t.org = {sign}1 AND t.removed_at IS NULL AND t.phase = 'working' \
             AND (a.lease_expires_at IS NULL OR a.lease_expires_at > {sign}2) \
             AND (a.heartbeat_at >= {sign}3 OR a.started_at >= {sign}3) {} LIMIT {}",
            tasks_by_id(sign),
            project.unwrap_or_default(),
            self.limit
        )
    }

    /// Values: the org. The conditions are those of the index `tasks_failing`.
    pub(crate) fn failing_sql(&self, sign: char) -> String {
        let project = self.project.map(|project| format!("AND t.project = {project}"));
        let (rows, is_task) = match sign {
            '?' => (
                rows_sql().replacen("tasks t", "tasks t INDEXED BY tasks_failing", 1),
                "t.is_plan = 0",
            ),
            _ => (rows_sql(), "NOT t.is_plan"),
        };
        let has_failing = fails(sign != '?');
        format!(
            "{rows} WHERE t.org = {sign}1 AND t.removed_at IS NULL AND {is_task} \
             AND t.phase IN ('working', 'review') AND {has_failing} {} ORDER BY t.id LIMIT {}",
            project.unwrap_or_default(),
            self.limit
        )
    }

    /// Values: the org.
    pub(crate) fn epics_sql(&self, sign: char) -> String {
        let project = self.project.map(|project| format!("AND t.project = {project}"));
        // Epics are fewer than tasks in review.
        let rows = match sign {
            '?' => rows_sql().replacen("tasks t", "tasks t INDEXED BY tasks_plans", 1),
            _ => rows_sql(),
        };
        format!(
            "{rows} WHERE t.org = {sign}1 AND t.is_plan AND t.removed_at IS NULL \
             AND t.phase = 'review' {} ORDER BY t.id LIMIT {}",
            project.unwrap_or_default(),
            self.limit
        )
    }

    /// The moment before which a heartbeat counts as silence.
    pub(crate) fn silent_before(&self, now: Timestamp) -> i64 {
        now.plus_ms(-i64::from(self.policy.stale_after_s) * 1000).0
    }

    pub(crate) fn as_columns(&self) -> ColumnsQuery {
        ColumnsQuery {
            org: self.org.clone(),
            project: self.project,
            columns: Vec::new(),
            terms: Vec::new(),
            done_since: Timestamp(0),
            policy: self.policy.clone(),
            limit: self.limit,
        }
    }
}

/// Open deps `t` of tasks, with their newest attempts: the first ones of a task by their positions. Conditions on `deps` go
/// behind it.
pub(crate) const OPEN_DEPS: &str = "t.removed_at IS NULL \
     AND t.phase NOT IN ('closed_done', 'closed_canceled')";

pub(crate) const DEPS_MAX: usize = DEPS_NAMED_MAX;

/// A task `t` beside its newest attempt.
pub(crate) fn rows_sql() -> String {
    format!(
        "SELECT {TASK}, {ATTEMPT} FROM {TASK_FROM} LEFT JOIN attempts a ON a.id = t.newest_attempt"
    )
}

/// Values: the org and the limit. The `+` keeps SQLite from beginning at the tasks of the org.
pub(crate) fn comments_sql(sign: char) -> String {
    format!(
        "SELECT {COMMENT} WHERE c.resolved_at IS NULL AND c.kind IN ('blocker', 'nack') \
         AND +t.org = {sign}1 AND t.removed_at IS NULL \
         AND t.phase NOT IN ('closed_done', 'closed_canceled') \
         ORDER BY c.created_at, c.id LIMIT {sign}2"
    )
}

/// Values: the task and the org.
pub(crate) fn checks_ran_sql(sign: char) -> String {
    format!(
        "SELECT {EVENT} FROM (SELECT * FROM events n WHERE n.task = {sign}1 \
             ORDER BY n.seq DESC LIMIT {CHECKS_LOOKED_AT}) e JOIN tasks t ON t.id = e.task \
         WHERE t.org = {sign}2 AND e.name = '{}' ORDER BY e.seq DESC",
        EventName::CheckRan.as_str()
    )
}
