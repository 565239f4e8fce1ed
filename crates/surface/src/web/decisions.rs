//! The crew's log of decisions, the newest first.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::crew::{AgentId, Decision, DecisionId};
use callboard_domain::refusal::Refusal;
use callboard_engine::DecisionPage;
use maud::{Markup, html};
use serde::Deserialize;

use super::{Page, Tab, time};

const DECISIONS_SHOWN: usize = 50;
/// The cap of each text; the log at the terminal has the whole text.
const TEXT_CHARS_MAX: usize = 4000;

#[derive(Deserialize)]
pub(super) struct DecisionListRequest {
    #[serde(default)]
    agent: String,
    #[serde(default)]
    before: String,
}

pub(super) async fn list(page: Page, Query(asked): Query<DecisionListRequest>) -> Response {
    let given = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
    let (agent, before) = (given(&asked.agent), given(&asked.before));
    let before: Option<DecisionId> = match before.as_deref().map(str::parse).transpose() {
        Ok(before) => before,
        Err(_) => {
            let refused = Refusal::invalid("before: the log has no such line");
            return page.failure(Tab::Decisions, &refused.into()).await;
        }
    };
    // A name that no agent can have has decided nothing.
    let id = agent.as_deref().map(AgentId::parse);
    let found = match id {
        Some(None) => Ok(DecisionPage { rows: Vec::new(), more: false }),
        id => page.engine.decision_list(&page.op(), id.flatten(), before, DECISIONS_SHOWN).await,
    };
    match found {
        Ok(found) => {
            let content = html! {
                (filter(&asked.agent))
                div #decisions data-live { (decisions(&found, &asked.agent)) }
            };
            let title = Tab::Decisions.title();
            page.answer(Tab::Decisions, StatusCode::OK, title, &content).await
        }
        Err(error) => page.failure(Tab::Decisions, &error).await,
    }
}

fn filter(agent: &str) -> Markup {
    html! {
        form.filter method="get" action="/decisions" {
            label for="agent" { "Agent" }
            input #agent name="agent" autocomplete="off" value=(agent);
            button { "Show" }
        }
    }
}

fn decisions(found: &DecisionPage, agent: &str) -> Markup {
    let last = found.rows.last().filter(|_| found.more);
    html! {
        @if found.rows.is_empty() { p { "No decisions yet." } }
        ol.rows { @for row in &found.rows { (decision_item(row)) } }
        @if let Some(last) = last {
            form.filter method="get" action="/decisions" {
                input type="hidden" name="agent" value=(agent);
                input type="hidden" name="before" value=(last.id);
                button { "Older decisions" }
            }
        }
    }
}

fn decision_item(row: &Decision) -> Markup {
    html! {
        li {
            span.title { bdi { (row.decision) } }
            p.facts { span.who { (row.agent) } " " (time(row.at)) }
            @if row.reasoning.contains('\n') {
                pre { (bounded(&row.reasoning)) }
            } @else {
                p.excerpt { bdi { (bounded(&row.reasoning)) } }
            }
            @if let Some(context) = &row.context {
                details #{ "context-" (row.id) } {
                    summary { "Context" }
                    pre { (bounded(context)) }
                }
            }
        }
    }
}

fn bounded(text: &str) -> String {
    let shown: String = text.chars().take(TEXT_CHARS_MAX).collect();
    match text.len() - shown.len() {
        0 => shown,
        more => format!("{shown}… {more} more bytes: callboard decisions --json"),
    }
}
