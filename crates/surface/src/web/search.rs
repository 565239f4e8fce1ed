//! Search from everywhere: tasks by short name or words of the title, and the screens. The palette loads its part.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use callboard_domain::board::filter::FilterText;
use callboard_domain::task::Task;
use callboard_engine::{BoardProjects, BoardQuery, DoneSpan, EngineError};
use maud::html;
use serde::Deserialize;

use super::Page;
use super::frame::{Screen, View, places};
use super::parts::State;
use super::task::found;

const FOUND_SHOWN: usize = 8;
const PAGE_SHOWN: usize = 50;

#[derive(Default, Deserialize)]
pub(super) struct SearchAsked {
    #[serde(default)]
    q: String,
    /// Only the list, for the palette.
    #[serde(default)]
    part: String,
}

pub(super) async fn show(page: Page, Query(asked): Query<SearchAsked>) -> Response {
    let limit = if asked.part.is_empty() { PAGE_SHOWN } else { FOUND_SHOWN };
    let tasks = match tasks(&page, asked.q.trim(), limit).await {
        Ok(tasks) => tasks,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    let list = html! {
        @if !tasks.is_empty() {
            h2 { "Tasks" }
            ul { @for task in &tasks { li { a href={ "/tasks/" (task.name()) } {
                (State::of(task).mark()) bdi { (task.title) } span.id { (task.name()) }
            } } } }
        }
        (places(asked.q.trim()))
    };
    if !asked.part.is_empty() {
        return Html(html! { div data-found { (list) } }.into_string()).into_response();
    }
    let content = html! {
        form.bar role="search" action="/search" {
            div.filter { input.input name="q" value=(asked.q) aria-label="Search" placeholder="Short name or words"; }
            button.button { "Search" }
        }
        div.palette {
            @if tasks.is_empty() && !asked.q.is_empty() { p.pad.soft { "No open task matches " code { (asked.q) } "." } }
            (list)
        }
    };
    page.show(StatusCode::OK, View::of(Screen::Board, "Search", content)).await
}

/// The task with this short name, then tasks on the board whose titles have these words.
async fn tasks(page: &Page, words: &str, limit: usize) -> Result<Vec<Task>, EngineError> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let mut all: Vec<Task> = Vec::new();
    if let Ok(id) = found(page, words).await {
        all.push(page.engine.task_get(&page.op(), id).await?.it.task);
    }
    let query = BoardQuery {
        projects: BoardProjects::All,
        terms: FilterText::parse(words).terms,
        done: DoneSpan::Week,
        by_epic: false,
    };
    let board = page.engine.board_columns(&page.op(), query).await?.it;
    let cards = board.columns.into_iter().flat_map(|column| column.cards);
    all.extend(cards.map(|card| card.task));
    all.dedup_by_key(|task| task.id);
    all.truncate(limit);
    Ok(all)
}
