//! The columns of the board as a person sees them, and the why-line of each task. Reads only; git is not asked.

use std::collections::{HashMap, HashSet};

use callboard_domain::board::card::Card;
use callboard_domain::board::column::{
    COLUMN_CARDS_MAX, COUNT_MAX, CappedCount, CardOrder, Column, OpenDep, OpenDepState,
    has_failing, is_silent,
};
use callboard_domain::board::filter::FilterTerm;
use callboard_domain::board::view::{BoardView, ViewFacts};
use callboard_domain::board::why::{Why, WhyAround, WhyFacts, WhyQuestion, why};
use callboard_domain::ids::{Id, TaskId, TaskName};
use callboard_domain::runs::job::{JobId, JobState};
use callboard_domain::runs::run::RunRecord;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::{Task, TaskRow};
use callboard_domain::time::Timestamp;
use callboard_store::{
    BoardAround, BoardRow, ColumnPage, ColumnsQuery, EpicProgress, FreeQuery, StuckQuery,
};

use crate::board::inbox::Needing;
use crate::context::{OpContext, Scope};
use crate::{At, Engine, EngineError};

/// How many places of the queue are known by their number.
const PLACES_COUNTED: usize = 51;
/// How many open runs are looked at to find whether every place for agents is taken.
const RUNS_LOOKED_AT: usize = 200;

/// The board that a person wants to see.
#[derive(Clone, Debug, Default)]
pub struct BoardQuery {
    pub projects: BoardProjects,
    /// The terms of `FilterText`; terms that say nothing of tasks are ignored.
    pub terms: Vec<FilterTerm>,
    pub done: DoneSpan,
    /// Looks up the epic of each card, with its progress.
    pub by_epic: bool,
    pub view: BoardView,
    /// The column of which every task is wanted, those beyond the cards as `rest`.
    pub whole: Option<Column>,
}

/// The projects of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoardProjects {
    /// The project that the caller has open.
    #[default]
    Open,
    All,
    One(i64),
}

/// How long closed tasks stay on the board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DoneSpan {
    #[default]
    Day,
    Week,
}

impl DoneSpan {
    fn ms(self) -> i64 {
        let day_ms = 86_400_000;
        match self {
            DoneSpan::Day => day_ms,
            DoneSpan::Week => 7 * day_ms,
        }
    }
}

/// The five columns in the board's order.
#[derive(Clone, Debug)]
pub struct BoardColumns {
    pub columns: Vec<BoardColumn>,
    pub views: ViewCounts,
}

/// How many tasks each view of the board has. `None`: the rows that were read do not say, and a count would cost more
/// than the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewCounts {
    pub all: CappedCount,
    pub you: Option<CappedCount>,
    pub failing: Option<CappedCount>,
    pub silent: Option<CappedCount>,
}

impl ViewCounts {
    pub fn of(self, view: BoardView) -> Option<CappedCount> {
        match view {
            BoardView::All => Some(self.all),
            BoardView::You => self.you,
            BoardView::Failing => self.failing,
            BoardView::Silent => self.silent,
        }
    }

    fn set(&mut self, view: BoardView, count: usize) {
        let count = CappedCount::of(count);
        match view {
            BoardView::All => self.all = count,
            BoardView::You => self.you = Some(count),
            BoardView::Failing => self.failing = Some(count),
            BoardView::Silent => self.silent = Some(count),
        }
    }
}

#[derive(Clone, Debug)]
pub struct BoardColumn {
    pub column: Column,
    pub count: CappedCount,
    /// At most `COLUMN_CARDS_MAX`.
    pub cards: Vec<BoardCard>,
    /// How many cards were left out; a lower bound where the count is not exact.
    pub more: usize,
    /// The tasks that were left out, of the column that is wanted whole; at most `COUNT_MAX`.
    pub rest: Vec<Task>,
}

/// A card of the board. The prefix of its project is that of `task.name()`.
#[derive(Clone, Debug)]
pub struct BoardCard {
    pub task: Task,
    pub newest: Option<Attempt>,
    /// Holds the review; conflicts are those of the last merge or rebase.
    pub card: Card,
    pub question: Option<CardQuestion>,
    /// The first open deps; `task.open_deps` counts all of them.
    pub deps: Vec<OpenDep>,
    /// Set only if the query asked for epics.
    pub epic: Option<EpicProgress>,
    pub why: Why,
}

/// The open question of a task's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardQuestion {
    pub job: JobId,
    /// The number of the question in its run.
    pub number: u32,
    pub asked_at: Timestamp,
    /// When no answer counts as no.
    pub deadline: Timestamp,
    pub asks: WhyQuestion,
}

/// The facts of an org that why-lines of several tasks share.
struct Surroundings {
    questions: HashMap<Id, CardQuestion>,
    /// The tasks of those questions.
    asking: HashSet<TaskName>,
    /// The places of tasks in the queue, 1 for the next one.
    queue: HashMap<Id, usize>,
    /// The number of places for agents, when all are taken.
    places_taken: Option<u32>,
}

impl Surroundings {
    fn why(&self, engine: &Engine, row: &BoardRow, around: &BoardAround, now: Timestamp) -> Why {
        let id = row.task.id.id;
        let BoardAround { card, deps } = around;
        let mut deps = deps.clone();
        for dep in deps.iter_mut().filter(|dep| self.asking.contains(&dep.name)) {
            dep.state = OpenDepState::Asks;
        }
        let foreseen = engine.foreseen.of(&row.task);
        let around = WhyAround {
            card,
            deps: &deps,
            question: self.questions.get(&id).map(|question| &question.asks),
            queue_place: self.queue.get(&id).copied(),
            places_taken: self.places_taken,
            foreseen: foreseen.as_ref(),
        };
        why(&WhyFacts::of(&row.task, row.newest.as_ref(), around, &engine.parts.policy, now))
    }
}

impl Engine {
    /// The five columns of the board. Epics are no cards.
    pub async fn board_columns(
        &self,
        op: &OpContext,
        query: BoardQuery,
    ) -> Result<At<BoardColumns>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let project = self.project_read(op, query.projects).await?;
        let columns = ColumnsQuery {
            org: org.clone(),
            project,
            columns: Column::ALL.to_vec(),
            terms: query.terms.clone(),
            done_since: store.now().plus_ms(-query.done.ms()),
            policy: self.parts.policy.clone(),
            // A view chooses among all tasks of a column, and so does a column that is wanted whole.
            limit: match query.view == BoardView::All && query.whole.is_none() {
                true => COLUMN_CARDS_MAX,
                false => COUNT_MAX,
            },
        };
        let mut pages = store.board_columns(columns).await?;
        let now = store.now();
        let needing = self.tasks_needing(op, project).await?;
        let mut views = self.view_counts(op, (&query, project), &pages, &needing, now).await?;
        if query.view != BoardView::All {
            for page in &mut pages {
                page.rows.retain(|row| query.view.has(self.view_facts(row, &needing.tasks, now)));
                page.count = page.rows.len();
            }
            // The tab that is open counts the tasks below it.
            views.set(query.view, pages.iter().map(|page| page.count).sum());
        }
        let around = self.surroundings(op, project, now).await?;
        let mut rests: HashMap<Column, Vec<Task>> = HashMap::new();
        for ColumnPage { column, rows, .. } in &mut pages {
            rows.sort_by_cached_key(|row| {
                let asks = around.questions.contains_key(&row.task.id.id);
                CardOrder::of(&row.task, row.newest.as_ref(), asks, &self.parts.policy, now)
            });
            if query.whole == Some(*column) {
                let rest = rows.iter().skip(COLUMN_CARDS_MAX).map(|row| row.task.clone());
                rests.insert(*column, rest.collect());
            }
            rows.truncate(COLUMN_CARDS_MAX);
        }
        let shown = pages.iter().flat_map(|page| &page.rows);
        let tasks: Vec<TaskId> = shown.clone().map(|row| row.task.id).collect();
        let mut beside = store.board_around(org, &tasks, &self.parts.policy).await?;
        let mut epics: Vec<TaskId> = shown.filter_map(|row| row.task.parent).collect();
        epics.sort();
        epics.dedup();
        let epics = match query.by_epic {
            true => store.epics_progress(org, &epics).await?,
            false => Vec::new(),
        };
        let mut card = |row: BoardRow| {
            let id = row.task.id.id;
            let known = beside.remove(&id).unwrap_or_default();
            let why = around.why(self, &row, &known, now);
            let is_above = |epic: &&EpicProgress| row.task.parent == Some(epic.id);
            BoardCard {
                epic: epics.iter().find(is_above).cloned(),
                question: around.questions.get(&id).cloned(),
                task: row.task,
                newest: row.newest,
                card: known.card,
                deps: known.deps,
                why,
            }
        };
        let mut columns = Vec::with_capacity(pages.len());
        for ColumnPage { column, rows, count } in pages {
            let cards: Vec<BoardCard> = rows.into_iter().map(&mut card).collect();
            let count = CappedCount::of(count);
            let more = count.number().saturating_sub(cards.len());
            let rest = rests.remove(&column).unwrap_or_default();
            columns.push(BoardColumn { column, count, cards, more, rest });
        }
        Ok(At { it: BoardColumns { columns, views }, now })
    }

    /// What views ask of a task. The rules are the inbox, `has_failing` and `is_silent` of the domain.
    fn view_facts(&self, row: &BoardRow, needing: &HashSet<TaskId>, now: Timestamp) -> ViewFacts {
        let BoardRow { task, newest } = row;
        ViewFacts {
            is_closed: task.phase.is_closed(),
            needs_person: needing.contains(&task.id),
            is_failing: has_failing(&task.checks),
            is_silent: is_silent(newest.as_ref(), &self.parts.policy, now),
        }
    }

    /// The counts of the views. The rows that were read for the page say them where they are all of its open tasks.
    async fn view_counts(
        &self,
        op: &OpContext,
        (query, project): (&BoardQuery, Option<i64>),
        pages: &[ColumnPage],
        needing: &Needing,
        now: Timestamp,
    ) -> Result<ViewCounts, EngineError> {
        let mut views = ViewCounts::default();
        views.set(BoardView::All, pages.iter().map(|page| page.count).sum());
        let open = || pages.iter().filter(|page| page.column != Column::Done);
        if open().all(|page| page.rows.len() >= page.count) {
            let rows = || open().flat_map(|page| &page.rows);
            for view in [BoardView::You, BoardView::Failing, BoardView::Silent] {
                let has = |row: &&BoardRow| view.has(self.view_facts(row, &needing.tasks, now));
                views.set(view, rows().filter(has).count());
            }
            return Ok(views);
        }
        // A filter has to look at the text of each task; a second look at thousands of rows for three numbers is too much.
        if !query.terms.is_empty() {
            return Ok(views);
        }
        let store = &self.parts.store;
        let is_here = |row: &&BoardRow| {
            !row.task.is_plan && project.is_none_or(|project| project == row.task.project)
        };
        let others = needing.tasks.difference(&needing.open).copied().collect();
        let others = self.tasks_by_id(op, others).await?;
        let is_open = |row: &&BoardRow| !row.task.phase.is_closed();
        let others = others.values().filter(is_here).filter(is_open).count();
        views.set(BoardView::You, needing.open.len() + others);
        // Silence begins at live attempts, which are as many as agents.
        let silent = StuckQuery { limit: COUNT_MAX + 1, ..self.stuck(op, project) };
        let silent = store.tasks_silent(silent).await?;
        views.set(BoardView::Silent, silent.iter().filter(is_here).count());
        let columns = ColumnsQuery {
            org: op.principal.org.clone(),
            project,
            columns: Column::ALL.into_iter().filter(|column| *column != Column::Done).collect(),
            terms: Vec::new(),
            done_since: now,
            policy: self.parts.policy.clone(),
            limit: COUNT_MAX,
        };
        views.set(BoardView::Failing, store.tasks_failing(columns).await?);
        Ok(views)
    }

    /// The why-lines of these tasks, in their order. The rows are as they stand at `now`.
    pub async fn whys(
        &self,
        op: &OpContext,
        rows: &[TaskRow],
        now: Timestamp,
    ) -> Result<Vec<Why>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let project = self.project_read(op, BoardProjects::Open).await?;
        let around = self.surroundings(op, project, now).await?;
        let tasks: Vec<TaskId> = rows.iter().map(|row| row.task.id).collect();
        let (store, org) = (&self.parts.store, &op.principal.org);
        let beside = store.board_around(org, &tasks, &self.parts.policy).await?;
        let nothing = BoardAround::default();
        let line = |row: &TaskRow| {
            let known = beside.get(&row.task.id.id).unwrap_or(&nothing);
            let row = BoardRow { task: row.task.clone(), newest: row.newest.clone() };
            around.why(self, &row, known, now)
        };
        Ok(rows.iter().map(line).collect())
    }

    /// The project of a read; `None` for every project of the org.
    pub(crate) async fn project_read(
        &self,
        op: &OpContext,
        projects: BoardProjects,
    ) -> Result<Option<i64>, EngineError> {
        Ok(match projects {
            BoardProjects::All => None,
            BoardProjects::One(id) => Some(id),
            BoardProjects::Open => self.project_of(&op.principal).await?.map(|known| known.id),
        })
    }

    async fn surroundings(
        &self,
        op: &OpContext,
        project: Option<i64>,
        now: Timestamp,
    ) -> Result<Surroundings, EngineError> {
        let (store, org) = (&self.parts.store, &op.principal.org);
        let questions = self.questions(op).await?;
        let asked = questions.iter().filter_map(|record| record.job.task).collect();
        let questions = questions
            .iter()
            .filter_map(|record| Some((record.job.task?.id, self.card_question(record, now)?)));
        let questions: HashMap<Id, CardQuestion> = questions.collect();
        let asking = self.tasks_by_id(op, asked).await?;
        let asking = asking.values().map(|row| row.task.name()).collect();
        let query = FreeQuery {
            org: org.clone(),
            project,
            below: None,
            priority_max: None,
            limit: PLACES_COUNTED,
        };
        let free = store.tasks_free(query).await?;
        let queue = free.iter().zip(1..).map(|(row, place)| (row.task.id.id, place)).collect();
        let places = self.board_settings(org).await?.max_concurrent_agents;
        let (running, _) = self.agents_running(org).await?;
        let places_taken = (running >= places as usize).then_some(places);
        Ok(Surroundings { questions, asking, queue, places_taken })
    }

    /// How many runs in workspaces are under way, and how many of them wait for an answer.
    pub(crate) async fn agents_running(&self, org: &str) -> Result<(usize, usize), EngineError> {
        let open = self.parts.store.works_open(org, RUNS_LOOKED_AT).await?;
        let is_running = |record: &&RunRecord| {
            matches!(record.job.state, JobState::Running { .. } | JobState::Stale { .. })
        };
        let asks = |record: &&RunRecord| record.asks().is_some();
        Ok((open.iter().filter(is_running).count(), open.iter().filter(asks).count()))
    }

    /// The question that a run waits on.
    pub(crate) fn card_question(&self, record: &RunRecord, now: Timestamp) -> Option<CardQuestion> {
        let question = record.asks()?;
        // The question is the newest step of a run that waits for its answer.
        let asked_at = record.run.changed_at;
        let timeout_ms = i64::try_from(self.parts.runs.ask_timeout.as_millis());
        let deadline = asked_at.plus_ms(timeout_ms.unwrap_or(i64::MAX));
        let asks = WhyQuestion {
            text: question.text.clone(),
            command: question.command.clone(),
            left_ms: Some(deadline.ms_since(now)),
        };
        let (job, number) = (record.job.id, question.number);
        Some(CardQuestion { job, number, asked_at, deadline, asks })
    }
}
