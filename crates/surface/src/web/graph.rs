//! The graph: what open tasks wait for, the longest way through them, and which task would help most. The picture has a
//! list beside it that says the same.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::actor::Actor;
use callboard_domain::board::stats::pace_ms;
use callboard_domain::board::why::{Why, WhyGlyph};
use callboard_domain::ids::TaskId;
use callboard_domain::task::graph::{Relief, TaskGraph};
use callboard_domain::task::{Task, TaskRow};
use callboard_domain::time::Timestamp;
use callboard_engine::{EngineError, GraphFilter, GraphSeen};
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::frame::{Screen, View};
use super::graph_layout::{Layout, NODE_HEIGHT, NODE_WIDTH, layout};
use super::parts::{State, Tone, empty, icon, span, task_link, title_link};
use super::task::found;

/// The days whose pace an estimate is made of.
const PACE_DAYS: i64 = 14;
const NODES_MAX: usize = 100;
const DEPTH_USUAL: usize = 2;
const DEPTH_MAX: usize = 9;
const EPICS_SHOWN: usize = 20;
const RELIEFS_SHOWN: usize = 5;
const ALONE_SHOWN: usize = 10;
const LISTED_MAX: usize = 500;
const LAYOUT_WITHIN: Duration = Duration::from_millis(300);
const KEYS: &[(&str, &str)] = &[
    ("← →", "along an edge: to a dep, to a task that waits"),
    ("↑ ↓", "the task above or below"),
    ("Enter", "open the task"),
    ("t", "picture or list"),
];

#[derive(Default, Deserialize)]
pub(super) struct GraphRequest {
    #[serde(default)]
    around: String,
    depth: Option<usize>,
    #[serde(default)]
    epic: String,
    #[serde(rename = "as", default)]
    form: String,
}

/// What a graph page shows.
struct GraphPage {
    seen: GraphSeen,
    now: Timestamp,
    around: Option<Task>,
    depth: usize,
    epic: Option<Task>,
    /// Epics with open tasks.
    epics: Vec<Task>,
    way: Vec<TaskId>,
    /// Why the tasks on the page stand where they stand.
    whys: HashMap<TaskId, Why>,
    /// How long a task takes once it is taken, in milliseconds; `None` while too few were closed.
    pace_ms: Option<i64>,
    is_list: bool,
}

pub(super) async fn show(page: Page, Query(asked): Query<GraphRequest>) -> Response {
    let graph = match read(&page, &asked).await {
        Ok(graph) => graph,
        Err(error) => return page.failure(Screen::Graph, &error).await,
    };
    let picture = if graph.is_list { None } else { laid_out(&graph.seen.shown).await };
    let has_edges = graph.seen.shown.edges().next().is_some();
    let content = html! {
        (bar(&graph))
        div #graph data-live data-slow {
            @if graph.seen.rows.is_empty() || (!has_edges && graph.seen.whole.tasks().is_empty()) { (nothing(&graph)) }
            @else {
                div.graph {
                    @match (&picture, has_edges) {
                        (_, false) => (alone_only(&graph)),
                        (Some(picture), true) => (drawn(&graph, picture)),
                        (None, true) => (listed(&graph)),
                    }
                    aside.graph-side.stack { (side(&graph)) }
                }
            }
        }
    };
    let mut view = View::of(Screen::Graph, Screen::Graph.title(), content);
    view.facts = facts(&graph);
    view.keys = KEYS;
    view.script = picture.is_some().then_some("/js/graph.js");
    view.twin = "callboard task list";
    page.show(StatusCode::OK, view).await
}

async fn read(page: &Page, asked: &GraphRequest) -> Result<GraphPage, EngineError> {
    let op = page.op();
    let around = named(page, &asked.around).await?;
    let epic = named(page, &asked.epic).await?;
    let depth = asked.depth.unwrap_or(DEPTH_USUAL).min(DEPTH_MAX);
    let filter = GraphFilter {
        around: around.as_ref().map(|task| task.id),
        depth,
        epic: epic.as_ref().map(|task| task.id),
        limit: NODES_MAX,
    };
    let graph = page.engine.task_graph(&op, filter).await?;
    let seen = graph.it;
    let mut parents: Vec<TaskId> = seen.rows.values().filter_map(|row| row.task.parent).collect();
    parents.sort();
    parents.dedup();
    let mut epics = Vec::new();
    for parent in parents.into_iter().rev().take(EPICS_SHOWN) {
        epics.push(page.engine.task_get(&op, parent).await?.it.task);
    }
    let way = seen.shown.longest_way();
    let stats = page.engine.stats(&op, PACE_DAYS).await?;
    let pace_ms = pace_ms(&stats.counts, stats.today - PACE_DAYS + 1..=stats.today);
    let is_list = asked.form == "list";
    let whys = whys(page, &seen, graph.now).await?;
    Ok(GraphPage { seen, now: graph.now, around, depth, epic, epics, way, whys, pace_ms, is_list })
}

/// The why-lines of the first tasks; the others are listed with their state alone.
async fn whys(
    page: &Page,
    seen: &GraphSeen,
    now: Timestamp,
) -> Result<HashMap<TaskId, Why>, EngineError> {
    let alone = seen.whole.alone().take(ALONE_SHOWN);
    let relieved = seen.whole.reliefs(RELIEFS_SHOWN).into_iter().map(|relief| relief.task);
    let mut tasks: Vec<TaskId> =
        seen.shown.tasks().iter().copied().chain(alone).chain(relieved).collect();
    tasks.sort_unstable();
    tasks.dedup();
    let rows: Vec<TaskRow> = tasks.iter().filter_map(|task| seen.rows.get(task).cloned()).collect();
    let whys = page.engine.whys(&page.op(), &rows, now).await?;
    Ok(rows.iter().map(|row| row.task.id).zip(whys).collect())
}

async fn named(page: &Page, text: &str) -> Result<Option<Task>, EngineError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let id = found(page, text.trim()).await?;
    Ok(Some(page.engine.task_get(&page.op(), id).await?.it.task))
}

/// The picture, unless it is too large or takes too long.
async fn laid_out(graph: &TaskGraph) -> Option<Layout> {
    let places: HashMap<TaskId, usize> =
        graph.tasks().iter().enumerate().map(|(place, task)| (*task, place)).collect();
    let edges: Vec<(usize, usize)> =
        graph.edges().map(|(dep, task)| (places[&dep], places[&task])).collect();
    let count = graph.tasks().len();
    let work = tokio::task::spawn_blocking(move || layout(count, &edges));
    tokio::time::timeout(LAYOUT_WITHIN, work).await.ok()?.ok()?
}

impl GraphPage {
    fn row(&self, task: TaskId) -> Option<&TaskRow> {
        self.seen.rows.get(&task)
    }

    /// The address of this graph in another form.
    fn address(&self, is_list: bool) -> String {
        let mut parts = Vec::new();
        if let Some(task) = &self.around {
            parts.push(format!("around={}&depth={}", task.name(), self.depth));
        }
        if let Some(epic) = &self.epic {
            parts.push(format!("epic={}", epic.name()));
        }
        parts.extend(is_list.then(|| "as=list".to_owned()));
        match parts.is_empty() {
            true => Screen::Graph.path().to_owned(),
            false => format!("{}?{}", Screen::Graph.path(), parts.join("&")),
        }
    }
}

fn bar(graph: &GraphPage) -> Markup {
    let is_all = graph.around.is_none() && graph.epic.is_none();
    let around = graph.around.as_ref().map(|task| task.name().to_string());
    html! {
        div.bar {
            nav.segments aria-label="Which tasks" {
                a href=(Screen::Graph.path()) aria-current=[is_all.then_some("page")] { "Open tasks" }
            }
            form.row action=(Screen::Graph.path()) {
                input.input.graph-field name="around" aria-label="Around one task" placeholder="Around one task"
                    autocomplete="off" value=[around];
                @if !graph.epics.is_empty() {
                    select.input.graph-field name="epic" aria-label="Of one epic" {
                        option value="" { "Every epic" }
                        @for epic in &graph.epics {
                            @let is_chosen = graph.epic.as_ref().is_some_and(|chosen| chosen.id == epic.id);
                            option value=(epic.name()) selected[is_chosen] { (epic.title) }
                        }
                    }
                }
                @if graph.is_list { input type="hidden" name="as" value="list"; }
                button.button.button-small { "Show" }
            }
            ul.graph-key { li.is-way { "longest way, bold" } li.is-blocked { "blocked, dashed" } }
            a.button.button-bare.button-small.bar-end href=(graph.address(!graph.is_list)) data-key="t" {
                (icon(if graph.is_list { "graph" } else { "words" }))
                (if graph.is_list { "As a picture" } else { "As a list" }) kbd { "t" }
            }
        }
    }
}

fn facts(graph: &GraphPage) -> Markup {
    let (whole, shown) = (graph.seen.whole.tasks().len(), graph.seen.shown.tasks().len());
    let alone = graph.seen.whole.alone().count();
    html! {
        (shown) " of " (whole) " open tasks"
        @if graph.seen.is_cut { ", and more that are not read" }
        @if alone > 0 { "; " (alone) " without dependencies" }
    }
}

fn nothing(graph: &GraphPage) -> Markup {
    let words = html! { p { @match (&graph.around, &graph.epic) {
        (Some(task), _) => { (title_link(task)) " is closed, and nothing waits for it." }
        (None, Some(epic)) => { "Every task of " (title_link(epic)) " is closed." }
        (None, None) => { "A task that waits for another one is made with " code { "callboard task add TITLE --dep ID" } "." }
    } } };
    empty("graph", "No open task", &words)
}

fn alone_only(graph: &GraphPage) -> Markup {
    let words = html! { p {
        @if let Some(task) = &graph.around { (title_link(task)) " waits for no open task, and none waits for it." }
        @else { "Each of them can be worked on by itself." }
    } };
    empty("graph", "No task waits for another", &words)
}

fn drawn(graph: &GraphPage, picture: &Layout) -> Markup {
    let tasks = graph.seen.shown.tasks();
    let steps: HashSet<(TaskId, TaskId)> =
        graph.way.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let edges: Vec<(TaskId, TaskId)> = graph.seen.shown.edges().collect();
    // Bold edges are drawn last, above the others.
    let way = |bold: bool| {
        let ways = edges.iter().zip(&picture.ways);
        ways.filter(move |(edge, _)| steps.contains(*edge) == bold).map(|(_, way)| way.as_str())
    };
    let bold: Vec<&str> = way.clone()(true).collect();
    let ends = |ends: Vec<&TaskId>| {
        ends.into_iter().map(|task| format!("node-{task}")).collect::<Vec<_>>().join(" ")
    };
    let deps = |node: &TaskId| {
        ends(edges.iter().filter(|(_, task)| task == node).map(|(dep, _)| dep).collect())
    };
    let next = |node: &TaskId| {
        ends(edges.iter().filter(|(dep, _)| dep == node).map(|(_, task)| task).collect())
    };
    html! {
        div.graph-box tabindex="0" role="region" aria-label="Tasks and what they wait for; the list says the same" {
            @if graph.seen.is_part {
                p.faint { "The picture shows the " (tasks.len()) " tasks nearest to "
                    @match &graph.around { Some(task) => (task_link(task.name())), None => "the longest way" }
                    ". " a href=(graph.address(true)) { "The list has all of them." } }
            }
            svg width=(format!("{:.0}", picture.width + 8.0)) height=(format!("{:.0}", picture.height + 8.0)) {
                defs {
                    marker #arrow viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto" { path d="M0 0L8 4L0 8z" {} }
                    marker #arrow-way viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" markerHeight="5" orient="auto" { path d="M0 0L8 4L0 8z" {} }
                }
                g.graph-edges transform="translate(4 4)" aria-hidden="true" {
                    @for way in way(false) { path d=(way) marker-end="url(#arrow)" {} }
                    @for way in bold { path.is-way d=(way) marker-end="url(#arrow-way)" {} }
                }
                g transform="translate(4 4)" { @for (task, (x, y)) in tasks.iter().zip(&picture.nodes) {
                    foreignObject #{ "node-" (task) } x=(format!("{x:.0}")) y=(format!("{y:.0}")) width=(NODE_WIDTH) height=(NODE_HEIGHT)
                        data-deps=(deps(task)) data-next=(next(task)) {
                        @if let Some(row) = graph.row(*task) { (node(graph, row)) }
                    }
                } }
            }
        }
    }
}

fn node(graph: &GraphPage, row: &TaskRow) -> Markup {
    let state = State::of(&row.task);
    let is_way = graph.way.contains(&row.task.id);
    html! {
        div.node .is-way[is_way] .is-blocked[state == State::Blocked] {
            (state.mark())
            div {
                p.node-title { a.cover href={ "/tasks/" (row.task.name()) } data-row { bdi { (row.task.title) } } }
                p.node-facts { span.id { (row.task.name()) } " " (standing(graph, row)) }
            }
        }
    }
}

fn holder(row: &TaskRow, now: Timestamp) -> Option<&Actor> {
    let live = row.newest.as_ref().filter(|attempt| attempt.is_live(now));
    row.task.assignee.as_ref().or(live.map(|live| &live.actor))
}

/// Where a task stands, in a few words.
fn standing(graph: &GraphPage, row: &TaskRow) -> Markup {
    let state = State::of(&row.task);
    let holder = holder(row, graph.now);
    let why = graph.whys.get(&row.task.id);
    if let Some((words, tone)) = why.and_then(|why| Some((why.brief()?, Tone::of(why.tone)))) {
        return html! { span class={ "tone " (tone.class()) } { (words) } };
    }
    html! {
        span class={ "tone " (state.tone().class()) } { @match state {
            State::Blocked if row.task.open_deps > 0 => { "waits for " (row.task.open_deps) }
            State::Blocked => "blocked",
            State::Review => "waits for review",
            State::Working | State::Ready if holder.is_some() => {
                @if let Some(holder) = holder { bdi { (holder.as_str().split_once(':').map_or("", |(_, name)| name)) } }
            }
            State::Working | State::Ready | State::Done | State::Canceled => (state.word().to_lowercase()),
        } }
    }
}

/// All tasks with what they wait for and what waits for them.
fn listed(graph: &GraphPage) -> Markup {
    let (mut deps, mut next) = (HashMap::new(), HashMap::new());
    for (dep, task) in graph.seen.whole.edges() {
        deps.entry(task).or_insert_with(Vec::new).push(dep);
        next.entry(dep).or_insert_with(Vec::new).push(task);
    }
    let names = |tasks: Option<&Vec<TaskId>>| {
        let rows = tasks.into_iter().flatten().filter_map(|task| graph.row(*task));
        html! { @for row in rows { (task_link(row.task.name())) " " } }
    };
    let shown = graph
        .seen
        .whole
        .tasks()
        .iter()
        .filter(|task| deps.contains_key(task) || next.contains_key(task));
    html! {
        div.pad { section.box aria-label="Tasks that wait for each other" {
            @if !graph.is_list {
                p.box-body.soft { "These tasks have too many dependencies for a picture. "
                    "A picture around one task is smaller." }
            }
            table.table.graph-list {
                thead { tr { th scope="col" { "Task" } th scope="col" { "State" } th scope="col" { "Waits for" } th scope="col" { "Lets start" } } }
                tbody { @for task in shown.take(LISTED_MAX) { @if let Some(row) = graph.row(*task) {
                    tr #{ "row-" (task) } {
                        td { (title_link(&row.task)) " " (task_link(row.task.name()))
                            @if graph.way.contains(task) { " " span.faint { "on the longest way" } } }
                        td { (State::of(&row.task).mark()) (standing(graph, row)) }
                        td data-label="waits for" { (names(deps.get(task))) }
                        td data-label="lets start" { (names(next.get(task))) }
                    }
                } } }
            }
        } }
    }
}

/// The lists beside the picture.
fn side(graph: &GraphPage) -> Markup {
    let last = graph.way.last().and_then(|task| graph.row(*task));
    let alone: Vec<TaskId> = graph.seen.whole.alone().collect();
    let rows = |tasks: &[TaskId]| {
        tasks.iter().filter_map(|task| graph.row(*task)).cloned().collect::<Vec<_>>()
    };
    html! {
        @if let Some(last) = last {
            section.stack-tight {
                h2 { "Longest way to " bdi { (last.task.title) } }
                p.faint {
                    (graph.way.len()) " tasks, one after the other"
                    @match graph.pace_ms {
                        Some(pace) => { ", about " (span(pace.saturating_mul(graph.way.len() as i64))) " at the median pace of " (PACE_DAYS) " days." }
                        None => ". An estimate comes with 10 closed tasks.",
                    }
                }
                ol.graph-items { @for row in rows(&graph.way) { (item(&row, &standing(graph, &row))) } }
            }
        }
        @let reliefs = graph.seen.whole.reliefs(RELIEFS_SHOWN);
        @if !reliefs.is_empty() {
            section.stack-tight {
                h2 { "What would help most" }
                ul.graph-items { @for relief in reliefs { @if let Some(row) = graph.row(relief.task) {
                    (item(row, &help(graph, row, relief)))
                } } }
            }
        }
        @if !alone.is_empty() {
            section.stack-tight {
                h2 { "Without dependencies" }
                ul.graph-items { @for row in rows(&alone[..alone.len().min(ALONE_SHOWN)]) {
                    (item(&row, &standing(graph, &row)))
                } }
                @if alone.len() > ALONE_SHOWN {
                    p { a href=(Screen::Board.path()) { (alone.len() - ALONE_SHOWN) " more on the board" } }
                }
            }
        }
    }
}

fn item(row: &TaskRow, words: &Markup) -> Markup {
    html! { li { (State::of(&row.task).mark()) div { (title_link(&row.task)) p.faint { (words) } } } }
}

/// The step that a person can take, and what the end of the task brings.
fn help(graph: &GraphPage, row: &TaskRow, relief: Relief) -> Markup {
    let glyph = graph.whys.get(&row.task.id).map(|why| why.glyph);
    let step = match (State::of(&row.task), glyph) {
        (State::Done | State::Canceled, _) => "Look at it",
        (_, Some(WhyGlyph::Asks)) => "Answer its question",
        (State::Review, Some(WhyGlyph::Conflict)) => "Rebase it",
        (State::Review, Some(WhyGlyph::Merge)) => "Merge it",
        (State::Review, _) => "Review it",
        (State::Working, Some(WhyGlyph::Silent)) => "Take it over",
        (State::Ready, _) if holder(row, graph.now).is_none() => "Start it",
        (State::Ready | State::Working, _) => "Let it finish",
        (State::Blocked, _) => "Unblock it",
    };
    let brings = match (relief.starts, relief.behind) {
        (0, 1) => "1 task waits for it and for others".to_owned(),
        (0, behind) => format!("{behind} tasks wait for it and for others"),
        (1, _) => "1 task can start then".to_owned(),
        (starts, _) => format!("{starts} tasks can start then"),
    };
    html! { (step) ": " (brings) }
}
