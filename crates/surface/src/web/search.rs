//! Search from everywhere: tasks by short name or words of the title, agents, jobs by the end of their id or by their
//! task, and the screens. The palette loads its part; its script adds the verbs of the page that it is open on.

use std::collections::HashMap;

use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use callboard_domain::actor::Actor;
use callboard_domain::board::filter::FilterText;
use callboard_domain::crew::AgentId;
use callboard_domain::ids::TaskId;
use callboard_domain::task::Task;
use callboard_engine::{
    BoardProjects, BoardQuery, DoneSpan, EngineError, JobLine, JobSeen, JobsWanted, TaskFilter,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Screen, View, places};
use super::jobs::{short, state_words, title, what};
use super::parts::{State, actor, icon};
use super::task::found;
use super::{Page, inside};

/// Results of each kind in the palette.
const FOUND_SHOWN: usize = 8;
/// How many of the newest tasks stand there before a word is typed.
const NEWEST_SHOWN: usize = 5;
/// Results of each kind on the page of results.
const PAGE_SHOWN: usize = 50;
/// How many of the newest jobs are searched.
const JOBS_SEARCHED: usize = 200;

#[derive(Default, Deserialize)]
pub(super) struct SearchAsked {
    #[serde(default)]
    q: String,
    /// Only the list, for the palette.
    #[serde(default)]
    part: String,
}

/// What the words fit.
struct SearchFound {
    tasks: Vec<Task>,
    agents: Vec<Actor>,
    jobs: Vec<JobLine>,
}

/// The page of results, or only the list for the palette.
pub(super) async fn show(page: Page, Query(asked): Query<SearchAsked>) -> Response {
    let words = asked.q.trim();
    let limit = if asked.part.is_empty() { PAGE_SHOWN } else { FOUND_SHOWN };
    let found = match search(&page, words, limit).await {
        Ok(found) => found,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    let list = html! { (found.shown()) (places(words)) };
    if !asked.part.is_empty() {
        return Html(html! { div data-found { (list) } }.into_string()).into_response();
    }
    let content = html! {
        form.bar role="search" action="/search" {
            div.filter { input.input name="q" value=(asked.q) aria-label="Search" placeholder="Short name or words"; }
            button.button { "Search" }
        }
        div.palette {
            @if found.is_empty() && !words.is_empty() {
                p.pad.soft { "No open task, agent or job matches " code { (words) } "." }
            }
            @if let Some(path) = came_from(&page.headers) {
                h2 { "Here" }
                ul { li { a href=(path) { (icon("back")) "Back to the page and its verbs" span.id { (path) } } } }
            }
            (list)
        }
    };
    page.show(StatusCode::OK, View::of(Screen::Board, "Search", content)).await
}

/// The page of this site from which the form was sent.
fn came_from(headers: &HeaderMap) -> Option<String> {
    let from: Uri = headers.get(header::REFERER)?.to_str().ok()?.parse().ok()?;
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let path = inside(from.path_and_query()?.as_str()).to_owned();
    // Another site must not place its address on this page as "the page you came from".
    let is_here = from.authority().is_some_and(|authority| authority == host);
    (is_here && !path.starts_with("/search")).then_some(path)
}

impl SearchFound {
    fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.agents.is_empty() && self.jobs.is_empty()
    }

    fn shown(&self) -> Markup {
        html! {
            @if !self.tasks.is_empty() {
                h2 { "Tasks" }
                ul { @for task in &self.tasks { li { a href={ "/tasks/" (task.name()) } {
                    (State::of(task).mark()) bdi { (task.title) } span.id { (task.name()) }
                } } } }
            }
            @if !self.agents.is_empty() {
                h2 { "Agents" }
                ul { @for who in &self.agents { li {
                    a href={ "/agents/" (AgentId::of(who)) } { (actor(who)) }
                } } }
            }
            @if !self.jobs.is_empty() {
                h2 { "Jobs" }
                ul { @for line in &self.jobs {
                    @let job = &line.seen.job;
                    @let (tone, glyph, word) = state_words(&job.state);
                    li { a href={ "/jobs/" (job.id) } {
                        span class={ "tone " (tone.class()) } { span.glyph { (icon(glyph)) } }
                        span { (what(job, &line.seen)) ", " (word.to_lowercase()) ": " bdi { (title(line)) } }
                        span.id { (short(&job.id.to_string())) }
                    } }
                } }
            }
        }
    }
}

/// Without words every task would fit: the newest ones are a start.
async fn search(page: &Page, words: &str, limit: usize) -> Result<SearchFound, EngineError> {
    if words.is_empty() {
        let newest =
            TaskFilter { newest_first: true, limit: NEWEST_SHOWN, ..TaskFilter::default() };
        let tasks = page.engine.task_list(&page.op(), newest).await?.it;
        let tasks = tasks.into_iter().map(|row| row.task).collect();
        return Ok(SearchFound { tasks, agents: Vec::new(), jobs: Vec::new() });
    }
    let tasks = tasks(page, words, limit).await?;
    let agents = page.engine.actor_search(&page.op(), words, limit).await?;
    let jobs = jobs(page, words, &tasks, limit).await?;
    Ok(SearchFound { tasks, agents, jobs })
}

/// The task with this short name, then tasks on the board whose titles have these words.
async fn tasks(page: &Page, words: &str, limit: usize) -> Result<Vec<Task>, EngineError> {
    let mut all: Vec<Task> = Vec::new();
    // A short name or an id finds its task in every state; words find what the board shows.
    if let Ok(id) = found(page, words).await {
        all.push(page.engine.task_get(&page.op(), id).await?.it.task);
    }
    let query = BoardQuery {
        projects: BoardProjects::All,
        terms: FilterText::parse(words).terms,
        done: DoneSpan::Week,
        ..BoardQuery::default()
    };
    let board = page.engine.board_columns(&page.op(), query).await?.it;
    let named = all.first().map(|task| task.id);
    let cards = board.columns.into_iter().flat_map(|column| column.cards).map(|card| card.task);
    all.extend(cards.filter(|task| Some(task.id) != named));
    all.truncate(limit);
    Ok(all)
}

/// Jobs whose ids end with the words, and those of the tasks that were found.
async fn jobs(
    page: &Page,
    words: &str,
    tasks: &[Task],
    limit: usize,
) -> Result<Vec<JobLine>, EngineError> {
    let op = page.op();
    let known: HashMap<TaskId, &Task> = tasks.iter().map(|task| (task.id, task)).collect();
    let wanted = JobsWanted { state: None, every_kind: false, limit: JOBS_SEARCHED };
    // Ids are written in lower case.
    let end = words.to_lowercase();
    let fits = |seen: &JobSeen| {
        seen.job.id.to_string().ends_with(&end)
            || seen.job.task.is_some_and(|task| known.contains_key(&task))
    };
    let mut lines = Vec::new();
    let jobs = page.engine.job_list(&op, wanted).await?;
    for seen in jobs.into_iter().filter(fits).take(limit) {
        let task = match seen.job.task {
            Some(id) => match known.get(&id) {
                Some(task) => Some((*task).clone()),
                None => page.engine.task_get(&op, id).await.ok().map(|seen| seen.it.task),
            },
            None => None,
        };
        lines.push(JobLine { seen, task, wait: None });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_of_this_site_leads_back() {
        for (from, path) in [
            (
                "http://board:3001/tasks/LAN-1/review?view=split",
                Some("/tasks/LAN-1/review?view=split"),
            ),
            ("http://board:3001/", Some("/")),
            ("http://board:3001/search?q=a", None),
            ("http://other/tasks/LAN-1", None),
            ("/tasks/LAN-1", None),
            ("no address", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "board:3001".parse().expect("a header"));
            headers.insert(header::REFERER, from.parse().expect("a header"));
            assert_eq!(came_from(&headers).as_deref(), path, "{from}");
        }
    }
}
