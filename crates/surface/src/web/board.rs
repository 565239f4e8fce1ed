//! The board: every open task in five columns, each with the reason why it waits.

use axum::Form;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::column::Column;
use callboard_domain::board::filter::{FILTER_KEYS, FilterText};
use callboard_domain::board::why::{Why, WhyGlyph, WhyPart};
use callboard_domain::policy::Phase;
use callboard_domain::task::attempt::AttemptKind;
use callboard_domain::time::Timestamp;
use callboard_engine::{BoardCard, BoardColumn, BoardColumns, BoardProjects, BoardQuery, DoneSpan};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Screen, View};
use super::parts::{Choice, State, Tone, actor, age, empty, icon, lease, pips, tabs, task_link};
use super::query::address;
use super::task::found;
use super::task_verbs::{Verb, VerbForm, carry_out};
use super::{Page, done, said};

const KEYS: &[(&str, &str)] = &[
    ("j k", "next and previous card"),
    ("h l", "previous and next column"),
    ("+ -", "sooner and later"),
    (".", "menu of the card"),
    ("f", "filter"),
];
/// The most tasks that one form changes.
const BULK_MAX: usize = 50;

/// The state of the board in its address.
#[derive(Clone, Default, Deserialize)]
pub(super) struct BoardAsked {
    /// The filter.
    #[serde(default)]
    q: String,
    /// `epic`: a lane for each epic.
    #[serde(default)]
    group: String,
    /// `7d`: closed tasks of a week instead of a day.
    #[serde(default)]
    done: String,
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
            done: if self.done == "7d" { DoneSpan::Week } else { DoneSpan::Day },
            by_epic: self.group == "epic",
        }
    }

    /// The address with one field changed.
    fn with(&self, change: impl FnOnce(&mut Self)) -> String {
        let mut next = self.clone();
        change(&mut next);
        let Self { q, group, done, projects } = &next;
        let fields = [("q", q), ("group", group), ("done", done), ("projects", projects)];
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
    let (BoardColumns { columns }, now) = (board.it, board.now);
    let is_empty = columns.iter().all(|column| column.cards.is_empty());
    let content = html! {
        (bar(&page, &asked, &filter))
        div #board data-live {
            @match (is_empty, asked.q.is_empty()) {
                (true, true) => (nothing()),
                (true, false) => (no_match(&asked)),
                (false, _) => {
                    (strip(&columns))
                    div.columns { @for column in &columns { (column_of(&page, &asked, column, now)) } }
                }
            }
        }
    };
    let mut view = View::of(Screen::Board, Screen::Board.title(), content);
    view.facts = facts(&columns, now);
    view.keys = KEYS;
    view.twin = "callboard task list";
    page.show(StatusCode::OK, view).await
}

fn facts(columns: &[BoardColumn], now: Timestamp) -> Markup {
    let count = |column: Column| columns.iter().find(|one| one.column == column);
    let working = count(Column::Working).map_or(0, |column| column.count.number());
    let review = count(Column::Review).map_or(0, |column| column.count.number());
    let oldest = count(Column::Ready)
        .and_then(|column| column.cards.iter().map(|card| card.task.phase_at).min());
    html! {
        (working) " at work, " (review) @if review == 1 { " waits" } @else { " wait" } " for a review"
        @if let Some(oldest) = oldest { " · oldest ready task waits " (super::parts::span(now.ms_since(oldest))) }
    }
}

fn bar(page: &Page, asked: &BoardAsked, filter: &FilterText) -> Markup {
    let choice = |word, query: &str| Choice {
        href: asked.with(|next| query.clone_into(&mut next.q)),
        word,
        count: None,
        is_current: asked.q == query,
    };
    let me = page.reader.actor.as_str();
    let mine = format!("actor:{me}");
    html! {
        div.bar {
            form.filter role="search" action="/board" {
                (icon("search"))
                input.input name="q" value=(asked.q) aria-label="Filter" placeholder="Filter: words, actor:, epic:, check:fail"
                    list="filter-keys" autocomplete="off" data-key="f";
                @if !asked.group.is_empty() { input type="hidden" name="group" value=(asked.group); }
                @if !asked.projects.is_empty() { input type="hidden" name="projects" value=(asked.projects); }
                datalist #filter-keys { @for (key, takes) in FILTER_KEYS { option value={ (key) ":" } { (takes) } } }
            }
            (tabs("Views", [
                choice("All", ""),
                choice("Yours", &mine),
                choice("Failing", "check:fail"),
            ]))
            div.bar-end.row {
                a href=(asked.with(|next| next.group = if asked.group == "epic" { String::new() } else { "epic".into() })) {
                    @if asked.group == "epic" { "Without epics" } @else { "By epic" }
                }
                a href=(asked.with(|next| next.projects = if asked.projects == "all" { String::new() } else { "all".into() })) {
                    @if asked.projects == "all" { "This project" } @else { "All projects" }
                }
                @if page.acts() { (bulk_form(page)) (menu_form(page)) }
            }
            @for hint in &filter.hints { p.filter-hint { (hint.message()) } }
        }
    }
}

/// The form that acts on every card whose box is ticked.
fn bulk_form(page: &Page) -> Markup {
    html! {
        form.row #bulk method="post" action="/board/bulk" {
            input type="hidden" name="once" value=(page.engine.fresh_id());
            select.input name="verb" aria-label="With the ticked cards" {
                option value="" { "With the ticked cards" }
                option value="sooner" { "Sooner" }
                option value="later" { "Later" }
                option value="run" { "Start agents" }
                option value="release" { "Take back" }
                option value="remove" { "Remove" }
            }
            button.button.button-small { "Do" }
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
    let words = html! {
        p { "Write one here or in a terminal, or let an agent make tasks with its tools." }
        pre.code { "callboard task add \"My first task\"" }
        p { "To see the whole loop without an agent, run " code { "callboard demo" } "." }
        p { a.button href="/tasks/new" { (icon("plus")) "New task" } }
    };
    empty("board", "No task yet", &words)
}

fn no_match(asked: &BoardAsked) -> Markup {
    let words = html! {
        p { "No task matches " code { (asked.q) } "." }
        p { a.button href=(asked.with(|next| next.q.clear())) { "Drop the filter" } }
    };
    empty("search", "Nothing found", &words)
}

fn column_of(page: &Page, asked: &BoardAsked, column: &BoardColumn, now: Timestamp) -> Markup {
    let state = State::at(column.column);
    let is_done = column.column == Column::Done;
    let mut cards: Vec<&BoardCard> = column.cards.iter().collect();
    // Lanes: the cards of an epic stand together, in the order of the column.
    cards.sort_by_key(|card| card.epic.as_ref().map(|epic| epic.title.clone()));
    html! {
        section class={ "column is-" (state.glyph()) } id={ "at-" (state.glyph()) } aria-label=(state.word()) {
            h2.column-head {
                (state.mark()) (state.word()) " " span.faint { (column.count) }
                @if is_done {
                    @let week = asked.done == "7d";
                    a.faint.row-end href=(asked.with(|next| next.done = if week { String::new() } else { "7d".into() })) {
                        @if week { "7 d" } @else { "24 h" }
                    }
                }
            }
            ul id={ "column-" (state.glyph()) } data-rows {
                @for (n, card) in cards.iter().enumerate() {
                    @if let Some(epic) = lane_begins(&cards, n) { (epic) }
                    @if is_done { (closed(card, now)) } @else { (card_of(page, card, now)) }
                }
            }
            @if column.more > 0 { p.faint { (column.more) " more; a filter narrows them down" } }
        }
    }
}

/// The head of an epic's lane, before its first card.
fn lane_begins(cards: &[&BoardCard], n: usize) -> Option<Markup> {
    let epic = cards[n].epic.as_ref()?;
    let before = n.checked_sub(1).and_then(|before| cards[before].epic.as_ref());
    if before.is_some_and(|before| before.name == epic.name) {
        return None;
    }
    Some(html! {
        li.epic-head id={ "lane-" (cards[n].task.id) } {
            a href={ "/tasks/" (epic.name) } { bdi { (epic.title) } } span.faint.row-end { (epic.closed) "/" (epic.tasks) }
        }
    })
}

fn card_of(page: &Page, card: &BoardCard, now: Timestamp) -> Markup {
    let BoardCard { task, newest, why, .. } = card;
    let live = newest.as_ref().filter(|attempt| attempt.is_live(now));
    let holder = task.assignee.as_ref().or(live.map(|live| &live.actor));
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
                        input type="checkbox" form="bulk" name="task" value=(task.name())
                            aria-label={ "Tick " (task.name()) };
                        (menu(card))
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

/// The verbs of a card. The buttons of all cards belong to one form, so that a card stays small.
fn menu(card: &BoardCard) -> Markup {
    let task = &card.task;
    // An agent that connected by itself has no process that the board could end.
    let is_ours = card.newest.as_ref().is_some_and(|newest| newest.kind == AttemptKind::Job);
    let item = |verb: Verb, key: Option<&str>| {
        let (path, _, words) = verb.words();
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
            }
        }
    }
}

/// The form of the menus of all cards.
fn menu_form(page: &Page) -> Markup {
    html! {
        form #card method="post" action="/board/bulk" {
            input type="hidden" name="once" value=(page.engine.fresh_id());
            input type="hidden" name="next" value="/board";
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

/// Acts on every ticked card.
pub(super) async fn bulk(page: Page, Form(fields): Form<Vec<(String, String)>>) -> Response {
    let value =
        |name: &str| fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
    let verb = value("verb").to_owned();
    let names: Vec<&String> = fields
        .iter()
        .filter(|(name, _)| name == "task")
        .map(|(_, value)| value)
        .take(BULK_MAX)
        .collect();
    if names.is_empty() || !["sooner", "later", "run", "release", "remove"].contains(&verb.as_str())
    {
        return done("/board", "Nothing was changed: tick cards and choose what to do with them.");
    }
    let (mut changed, mut refused) = (0, Vec::new());
    for name in &names {
        let form = VerbForm::keyed(value("once").to_owned());
        let acted = match found(&page, name).await {
            Ok(id) => carry_out(&page, id, &verb, &form).await,
            Err(error) => Err(error),
        };
        match acted {
            Ok(_) => changed += 1,
            Err(error) => refused.push(format!("{name}: {}", said(&error).1)),
        }
    }
    let tasks = if changed == 1 { "task was" } else { "tasks were" };
    let mut words = format!("{changed} {tasks} changed.");
    if let Some(first) = refused.first() {
        words.push_str(&format!(" {} refused; {first}", refused.len()));
    }
    done("/board", &words)
}
