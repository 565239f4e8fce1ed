//! The agents of the crew with their states, and a form to write to each.

use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::crew::{Agent, AgentState};
use callboard_domain::ids::TaskId;
use callboard_engine::{AgentStanding, EngineError};
use maud::{Markup, html};

use super::{Page, Tab, time};

const AGENTS_SHOWN_MAX: usize = 100;

pub(super) async fn list(page: Page) -> Response {
    match crew(&page).await {
        Ok(crew) => {
            let content = html! { div #agents data-live { (agents(&page, &crew)) } };
            page.answer(Tab::Agents, StatusCode::OK, Tab::Agents.title(), &content).await
        }
        Err(error) => page.failure(Tab::Agents, &error).await,
    }
}

/// The agents, one more than is shown when there are more.
async fn crew(page: &Page) -> Result<Vec<(Agent, AgentStanding)>, EngineError> {
    let op = page.op();
    let mut crew = Vec::new();
    for agent in page.engine.agent_list(&op, None, None, AGENTS_SHOWN_MAX + 1).await? {
        let standing = page.engine.agent_standing(&op, &agent).await?;
        crew.push((agent, standing));
    }
    Ok(crew)
}

fn agents(page: &Page, crew: &[(Agent, AgentStanding)]) -> Markup {
    let shown = &crew[..crew.len().min(AGENTS_SHOWN_MAX)];
    html! {
        @if shown.is_empty() {
            p { "Nobody yet. " code { "callboard agent add boss --type SUPERVISOR" } " adds one." }
        }
        @if crew.len() > shown.len() { p.counts { "The first " (shown.len()) "." } }
        ul.rows { @for (agent, standing) in shown { (agent_item(page, agent, standing)) } }
    }
}

fn agent_item(page: &Page, agent: &Agent, standing: &AgentStanding) -> Markup {
    html! {
        li {
            span.title { (agent.id) } " " span { (agent.kind.as_str()) }
            p.facts {
                (state(standing.state))
                @if let Some(task) = standing.task { " on " (link(task)) }
                @if let Some(epic) = standing.epic { " for epic " (link(epic)) }
                @if let Some(terminal) = &standing.terminal { " in " code { (terminal.attach()) } }
                " seen " (time(agent.last_active_at)) " "
                @if page.acts() {
                    a href={ "/mail?to=" (agent.id) "#write" } { "Write to " (agent.id) }
                }
            }
        }
    }
}

fn link(task: TaskId) -> Markup {
    html! { a href={ "/tasks/" (task) } { code.id { (task) } } }
}

/// A word and a glyph, so that nothing depends on colour.
fn state(state: AgentState) -> Markup {
    let (glyph, class) = match state {
        AgentState::Idle => ("○", "initial"),
        AgentState::Busy => ("◐", "working"),
        AgentState::Waiting => ("◑", "review"),
        AgentState::Failed => ("✗", "fail"),
    };
    html! { span class=(class) { (glyph) " " (state.as_str()) } }
}
