//! The board: every open task in five columns, each with the reason why it waits.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::column::Column;
use callboard_domain::board::filter::FilterText;
use callboard_domain::board::view::BoardView;
use callboard_domain::board::why::{Why, WhyGlyph, WhyPart};
use callboard_domain::policy::Phase;
use callboard_domain::rights::PersonVerb;
use callboard_domain::task::attempt::AttemptKind;
use callboard_domain::time::Timestamp;
use callboard_engine::store::EpicProgress;
use callboard_engine::{
    BoardCard, BoardColumn, BoardColumns, BoardProjects, BoardQuery, DoneSpan, LongestWay,
    ViewCounts,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::board_bulk::{bulk_form, may_tick, menu_form};
use super::frame::{Screen, View};
use super::parts::{
    Choice, State, Tone, actor, age, empty, filter_field, filter_terms, icon, lease, pips, tabs,
    task_link,
};
use super::query::address;
use super::task_verbs::{Verb, why_not, write_words};

const KEYS: &[(&str, &str)] = &[
    ("j k", "next and previous card"),
    ("h l", "previous and next column"),
    ("Enter", "open the card"),
    ("r", "open the review of the card"),
    ("+ -", "sooner and later"),
    (".", "menu of the card"),
    ("f", "filter"),
];
/// How many epics the filter offers.
const EPICS_OFFERED: usize = 20;

/// The state of the board in its address.
#[derive(Clone, Default, Deserialize)]
pub(super) struct BoardAsked {
    /// The filter.
    #[serde(default)]
    q: String,
    /// `epic`: a lane for each epic.
    #[serde(default)]
    group: String,
    /// `24h` or `7d`: how long closed tasks are shown.
    #[serde(default)]
    done: String,
    /// `all`, `you`, `failing` or `silent`.
    #[serde(default)]
    view: String,
    /// The column that is shown whole.
    #[serde(default)]
    whole: String,
    /// `all`: every project. A number: the project with this id.
    #[serde(default)]
    projects: String,
}

impl BoardAsked {
    fn query(&self, filter: &FilterText) -> BoardQuery {
        BoardQuery {
            projects: match (self.projects.as_str(), self.projects.parse()) {
                ("all", _) => BoardProjects::All,
                (_, Ok(project)) => BoardProjects::One(project),
                (_, Err(_)) => BoardProjects::Open,
            },
            terms: filter.terms.clone(),
            done: if self.is_week() { DoneSpan::Week } else { DoneSpan::Day },
            by_epic: self.group == "epic",
            view: self.view(),
            whole: Column::parse(&self.whole),
        }
    }

    fn view(&self) -> BoardView {
        BoardView::parse(&self.view).unwrap_or_default()
    }

    /// Whether closed tasks of a week are shown.
    fn is_week(&self) -> bool {
        self.done == "7d"
    }

    /// The address with one field changed.
    fn with(&self, change: impl FnOnce(&mut Self)) -> String {
        let mut next = self.clone();
        change(&mut next);
        let Self { q, group, done, view, whole, projects } = &next;
        let fields = [
            ("q", q),
            ("view", view),
            ("group", group),
            ("done", done),
            ("whole", whole),
            ("projects", projects),
        ];
        let fields = fields.map(|(name, value)| (name, value.as_str()));
        let given: Vec<_> = fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        if given.is_empty() { "/board".into() } else { format!("/board{}", address(&given, &[])) }
    }
}

pub(super) async fn show(page: Page, Query(asked): Query<BoardAsked>) -> Response {
    let filter = FilterText::parse(&asked.q);
    let board = match page.engine.board_columns(&page.op(), asked.query(&filter)).await {
        Ok(board) => board,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    let (BoardColumns { columns, views }, now) = (board.it, board.now);
    // The graph shows the open project alone.
    let way = match asked.projects.is_empty() {
        true => page.engine.longest_way(&page.op()).await,
        false => Ok(None),
    };
    let way = match way {
        Ok(way) => way,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    let is_empty = columns.iter().all(|column| column.cards.is_empty());
    // A filter without epics to choose from still works.
    let epics = page.engine.epic_list(&page.op(), EPICS_OFFERED).await.unwrap_or_default();
    let epics: Vec<_> = epics.into_iter().map(|epic| epic.record.task).collect();
    let cards = columns.iter().flat_map(|column| &column.cards);
    let holders = cards.filter_map(|card| {
        card.task.assignee.as_ref().or(card.newest.as_ref().map(|attempt| &attempt.actor))
    });
    let terms = filter_terms(|_| true, holders, &epics);
    let content = html! {
        (bar(&page, &asked, &filter, terms, (views, way.as_ref())))
        div #board data-live {
            @if is_empty && asked.q.is_empty() && asked.view() == BoardView::All { (nothing()) }
            @else if is_empty { (no_match(&asked)) }
            @else if asked.group == "epic" {
                (strip(&columns))
                @for (n, lane) in lanes(&columns).iter().enumerate() { (lane_of(&page, &asked, n, lane, now)) }
            } @else {
                (strip(&columns))
                div.columns { @for column in &columns {
                    (column_of(&page, &asked, column, &column.cards.iter().collect::<Vec<_>>(), ("", ""), now))
                } }
            }
        }
    };
    let mut view = View::of(Screen::Board, Screen::Board.title(), content);
    view.facts = facts(&columns, now);
    view.says_at_work = true;
    view.keys = KEYS;
    view.twin = "callboard task list";
    page.show(StatusCode::OK, view).await
}

fn facts(columns: &[BoardColumn], now: Timestamp) -> Markup {
    let count = |column: Column| columns.iter().find(|one| one.column == column);
    let review = count(Column::Review).map_or(0, |column| column.count.number());
    let oldest = count(Column::Ready)
        .and_then(|column| column.cards.iter().map(|card| card.task.phase_at).min());
    html! {
        (review) @if review == 1 { " waits" } @else { " wait" } " for a review"
        @if let Some(oldest) = oldest { " · oldest ready task waits " (super::parts::span(now.ms_since(oldest))) }
    }
}

fn bar(
    page: &Page,
    asked: &BoardAsked,
    filter: &FilterText,
    terms: Vec<(String, &str)>,
    (views, way): (ViewCounts, Option<&LongestWay>),
) -> Markup {
    let choice = |word, view: BoardView| {
        let wanted = if view == BoardView::All { "" } else { view.as_str() };
        let href = asked.with(|next| {
            wanted.clone_into(&mut next.view);
            next.whole.clear();
        });
        let count = views.of(view).map(|count| count.to_string());
        Choice { href, word, count, is_current: asked.view() == view }
    };
    html! {
        div.bar {
            (filter_field(
                "/board", &asked.q, "Filter: words, actor:, epic:, check:fail",
                &[("view", &asked.view), ("group", &asked.group), ("done", &asked.done), ("projects", &asked.projects)],
                terms,
            ))
            div #views data-live { (tabs("Views", [
                choice("All", BoardView::All),
                choice("Needs you", BoardView::You),
                choice("Failing", BoardView::Failing),
                choice("Silent", BoardView::Silent),
            ])) }
            div.bar-end.row {
                span #way data-live { @if let Some(LongestWay { tasks, to }) = way {
                    a.button.button-bare.button-small.way href=(Screen::Graph.path()) title={ "Longest way: " (tasks) " tasks to " (to) } {
                        (icon("graph")) span { "Longest way: " (tasks) " tasks to " bdi { (to) } }
                    }
                } }
                a href=(asked.with(|next| next.group = if asked.group == "epic" { String::new() } else { "epic".into() })) {
                    @if asked.group == "epic" { "Without epics" } @else { "By epic" }
                }
                a href=(asked.with(|next| next.projects = if asked.projects == "all" { String::new() } else { "all".into() })) {
                    @if asked.projects == "all" { "This project" } @else { "All projects" }
                }
                @if page.acts() {
                    @let here = asked.with(|_| {});
                    (bulk_form(page, &here)) (menu_form(page, &here))
                }
            }
            @for hint in &filter.hints { p.filter-hint { (hint.message()) } }
        }
    }
}

/// On a phone, links to the columns, in the order in which they stand there.
fn strip(columns: &[BoardColumn]) -> Markup {
    html! {
        nav.strip aria-label="Columns" { @for column in columns {
            @let state = State::at(column.column);
            a class={ "is-" (state.glyph()) } href={ "#at-" (state.glyph()) } {
                (state.glyph_only()) (state.word()) " " (column.count)
            }
        } }
    }
}

/// What a new project shows: the ways to the first task.
pub(super) fn nothing() -> Markup {
    let way = |glyph: &str, title: &str, words: Markup| {
        html! { li.box { h3.box-head { (icon(glyph)) (title) } div.box-body.stack-tight { (words) } } }
    };
    let words = html! {
        p { "A task says what is wanted and which checks prove it. Agents take tasks; you review and merge." }
        ol.charts {
            (way("plus", "Write a task", html! {
                p { "Here or in a terminal:" }
                pre.code { "callboard task add \"My first task\" --check \"make test\"" }
                p { a.button href="/tasks/new" { (icon("plus")) "New task" } }
            }))
            (way("agents", "Connect your agent", html! {
                p { "This writes the files of its client. The agent can then make tasks and take them:" }
                pre.code { "callboard init --clients all" }
            }))
            (way("run", "Watch the whole loop", html! {
                p { "A board of its own with scripted agents, a question and reviews; no agent is needed:" }
                pre.code { "callboard demo" }
            }))
        }
    };
    empty("board", "No task yet: three ways to begin", &words)
}

fn no_match(asked: &BoardAsked) -> Markup {
    let title = match asked.view() {
        BoardView::All => "Nothing found",
        BoardView::You => "No task needs you",
        BoardView::Failing => "No check fails",
        BoardView::Silent => "No agent is silent",
    };
    let words = html! {
        @if !asked.q.is_empty() { p { "No task here matches " code { (asked.q) } "." } }
        p.row {
            @if !asked.q.is_empty() { a.button href=(asked.with(|next| next.q.clear())) { "Drop the filter" } }
            @if asked.view() != BoardView::All { a.button href=(asked.with(|next| next.view.clear())) { "Show all tasks" } }
        }
    };
    empty("search", title, &words)
}

/// The cards of each column that belong together.
type LaneCards<'b> = Vec<(&'b BoardColumn, Vec<&'b BoardCard>)>;

/// The cards of an epic, or those without one.
struct Lane<'b> {
    epic: Option<&'b EpicProgress>,
    columns: LaneCards<'b>,
}

/// A lane for each epic by its title, and one for the cards without an epic at the end.
fn lanes(columns: &[BoardColumn]) -> Vec<Lane<'_>> {
    let cards = || columns.iter().flat_map(|column| &column.cards);
    let mut epics: Vec<&EpicProgress> = cards().filter_map(|card| card.epic.as_ref()).collect();
    epics.sort_by(|one, other| (&one.title, one.id).cmp(&(&other.title, other.id)));
    epics.dedup_by_key(|epic| epic.id);
    let mut lanes: Vec<Lane<'_>> = epics
        .into_iter()
        .map(|epic| Lane { epic: Some(epic), columns: cards_of(columns, Some(epic)) })
        .collect();
    let rest = cards_of(columns, None);
    if rest.iter().any(|(_, cards)| !cards.is_empty()) {
        lanes.push(Lane { epic: None, columns: rest });
    }
    lanes
}

/// The cards of an epic in each column; `None`: those without one.
fn cards_of<'b>(columns: &'b [BoardColumn], epic: Option<&EpicProgress>) -> LaneCards<'b> {
    let epic = epic.map(|epic| epic.id);
    let mut lane = Vec::with_capacity(columns.len());
    for column in columns {
        let of = |card: &&BoardCard| card.epic.as_ref().map(|of| of.id) == epic;
        lane.push((column, column.cards.iter().filter(of).collect()));
    }
    lane
}

/// A lane: the epic with its progress, and its cards in the five columns.
fn lane_of(page: &Page, asked: &BoardAsked, n: usize, lane: &Lane<'_>, now: Timestamp) -> Markup {
    let place = if n == 0 { String::new() } else { format!("-{n}") };
    let title = lane.epic.map_or("without an epic", |epic| &epic.title);
    html! {
        section.board-lane aria-labelledby={ "lane-" (n) } {
            div.epic-head {
                h2 #{ "lane-" (n) } {
                    @match lane.epic {
                        Some(epic) => a href={ "/tasks/" (epic.name) } { bdi { (epic.title) } },
                        None => "Without an epic",
                    }
                }
                @if let Some(epic) = lane.epic {
                    @let share = epic.closed * 100 / epic.tasks.max(1);
                    svg.meter role="img" aria-label={ (epic.closed) " of " (epic.tasks) " tasks closed" } {
                        rect width={ (share) "%" } height="6" {}
                    }
                    span.faint { (epic.closed) " of " (epic.tasks) " closed" }
                }
            }
            div.columns { @for (column, cards) in &lane.columns {
                (column_of(page, asked, column, cards, (&place, title), now))
            } }
        }
    }
}

/// A column, or the part of it in a lane: then `place` ends its ids, and the title of the lane its name.
fn column_of(
    page: &Page,
    asked: &BoardAsked,
    column: &BoardColumn,
    cards: &[&BoardCard],
    (place, lane): (&str, &str),
    now: Timestamp,
) -> Markup {
    let state = State::at(column.column);
    let is_done = column.column == Column::Done;
    let is_lane = asked.group == "epic";
    html! {
        section class={ "column is-" (state.glyph()) } id={ "at-" (state.glyph()) (place) }
            aria-label={ (state.word()) @if is_lane { ", " (lane) } } {
            h2.column-head {
                (state.mark()) (state.word()) " "
                span.faint { @if is_lane { (cards.len()) } @else { (column.count) } }
                @if is_done && place.is_empty() { (done_span(asked)) }
            }
            ul id={ "column-" (state.glyph()) (place) } data-rows {
                @for card in cards {
                    @if is_done { (closed(card, now)) } @else { (card_of(page, card, now)) }
                }
            }
            @if place.is_empty() { (more_of(asked, column, now)) }
        }
    }
}

/// How long closed tasks are shown.
fn done_span(asked: &BoardAsked) -> Markup {
    let link = |word: &str, done: &str, is_current: bool| {
        let href = asked.with(|next| done.clone_into(&mut next.done));
        html! { a href=(href) aria-current=[is_current.then_some("true")] { (word) } }
    };
    html! {
        span.done-span.row-end {
            (link("24 h", "", !asked.is_week())) (link("7 d", "7d", asked.is_week()))
        }
    }
}

/// The tasks of a column beyond its cards: their number, or a list of them.
fn more_of(asked: &BoardAsked, column: &BoardColumn, now: Timestamp) -> Markup {
    let word = column.column.as_str();
    let left = column.more.saturating_sub(column.rest.len());
    html! {
        @if !column.rest.is_empty() {
            ul.rest { @for task in &column.rest {
                li.closed {
                    (State::of(task).mark())
                    a href={ "/tasks/" (task.name()) } data-row { bdi { (task.title) } }
                    (age(task.phase_at, now))
                }
            } }
            p.faint {
                @if left > 0 { (left) " more; a filter narrows them down. " }
                a href=(asked.with(|next| next.whole.clear())) { "Fewer" }
            }
        } @else if column.more > 0 {
            p.faint { a href=(asked.with(|next| word.clone_into(&mut next.whole))) { (column.more) " more" } }
        }
    }
}

fn card_of(page: &Page, card: &BoardCard, now: Timestamp) -> Markup {
    let BoardCard { task, newest, why, .. } = card;
    let live = newest.as_ref().filter(|attempt| attempt.is_live(now));
    // Work in review is shown with the actor that did the work.
    let worker = newest.as_ref().filter(|_| task.phase == Phase::Review);
    let holder = task.assignee.as_ref().or(live.or(worker).map(|attempt| &attempt.actor));
    html! {
        li.card id={ "card-" (task.id) } .is-dashed[State::of(task) == State::Blocked] {
            div.card-head {
                span.id { (task.name()) }
                @if task.priority == 0 { span.urgent { "P0" } }
                @match live {
                    Some(attempt) if task.phase == Phase::Working && attempt.lease().is_some() => (lease(attempt, now)),
                    _ => (age(task.phase_at, now)),
                }
                @if page.acts() {
                    div.tools.above {
                        @if may_tick(page) {
                            input type="checkbox" form="bulk" name="task" value=(task.name())
                                aria-label={ "Tick " (task.name()) };
                        }
                        @if task.phase == Phase::Review || why_not(page, PersonVerb::Write).is_none() {
                            (menu(page, card))
                        }
                    }
                }
            }
            h3 { a.cover href={ "/tasks/" (task.name()) } data-row { bdi { (task.title) } } }
            (why_line(why))
            @if holder.is_some() || !task.checks.is_empty() {
                div.card-foot {
                    @if let Some(who) = holder { (actor(who)) }
                    (pips(&task.checks))
                }
            }
        }
    }
}

fn closed(card: &BoardCard, now: Timestamp) -> Markup {
    let state = State::of(&card.task);
    html! {
        li.closed id={ "card-" (card.task.id) } .is-canceled[state == State::Canceled] {
            (state.mark())
            a href={ "/tasks/" (card.task.name()) } data-row { bdi { (card.task.title) } }
            (age(card.task.phase_at, now))
        }
    }
}

/// The verbs of a card that the reader may use. The buttons of all cards belong to one form, so that a card stays small.
fn menu(page: &Page, card: &BoardCard) -> Markup {
    let task = &card.task;
    // An agent that connected by itself has no process that the board could end.
    let is_ours = card.newest.as_ref().is_some_and(|newest| newest.kind == AttemptKind::Job);
    let item = |verb: Verb, key: Option<&str>| {
        let (path, _, words) = verb.words();
        if why_not(page, verb.needs()).is_some() {
            return html! {};
        }
        html! { button form="card" formaction={ "/tasks/" (task.name()) "/" (path) } data-row-key=[key] { (words) } }
    };
    html! {
        details.menu {
            summary data-row-key="." aria-label={ "Verbs of " (task.name()) } { (icon("dots")) }
            div {
                (item(Verb::Sooner, Some("+"))) (item(Verb::Later, Some("-")))
                @if task.phase == Phase::Working {
                    @if is_ours { (item(Verb::Stop, None)) }
                    (item(Verb::Release, None))
                }
                @else if task.phase == Phase::Initial { (item(Verb::Run, None)) }
                @else if task.phase == Phase::Review {
                    a href={ "/tasks/" (task.name()) "/review" } data-row-key="r" { "Open review" }
                }
                @if why_not(page, PersonVerb::Write).is_none() {
                    a href={ "/tasks/" (task.name()) "#write-text" } { (write_words(task.assignee.is_some() || task.phase == Phase::Working)) }
                }
            }
        }
    }
}

/// The why-line of a task.
pub(super) fn why_line(why: &Why) -> Markup {
    let glyph = match why.glyph {
        WhyGlyph::Waits => "lock",
        WhyGlyph::Next => "next",
        WhyGlyph::Free => "clock",
        WhyGlyph::Held => "person",
        WhyGlyph::Asks => "ask",
        WhyGlyph::Works => "working",
        WhyGlyph::Says => "words",
        WhyGlyph::Silent => "sleep",
        WhyGlyph::Fails => "failed",
        WhyGlyph::Conflict | WhyGlyph::Stuck => "warn",
        WhyGlyph::Review => "eye",
        WhyGlyph::Merge => "merge",
        WhyGlyph::Done => "done",
        WhyGlyph::Canceled => "canceled",
    };
    html! {
        p class={ "why " (Tone::of(why.tone).class()) } {
            (icon(glyph))
            span { @for part in &why.words { @match part {
                WhyPart::Text(text) => bdi { (text) },
                WhyPart::Task(name) => (task_link(*name)),
                WhyPart::Code(code) => code { (code) },
            } } }
        }
    }
}
