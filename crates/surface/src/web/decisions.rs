//! The crew's log of decisions, the newest first.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::crew::{AgentId, Decision, DecisionId};
use callboard_domain::refusal::Refusal;
use callboard_engine::DecisionPage;
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::audit::parts_of_record;
use super::frame::{Screen, View};
use super::parts::{actor_named, empty, moment as time};

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
            return page.failure(Screen::Audit, &refused.into()).await;
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
                div.bar { (parts_of_record("Decisions")) }
                div.pad.text.stack {
                    (filter(&asked.agent))
                    div #decisions data-live { (decisions(&found, &asked.agent)) }
                }
            };
            let view = View {
                twin: "callboard decisions",
                ..View::of(Screen::Audit, "Decisions", content)
            };
            page.show(StatusCode::OK, view).await
        }
        Err(error) => page.failure(Screen::Audit, &error).await,
    }
}

fn filter(agent: &str) -> Markup {
    html! {
        form.row method="get" action="/decisions" role="search" {
            label for="agent" { "Agent" }
            input.input #agent name="agent" autocomplete="off" value=(agent);
            button.button { "Show" }
        }
    }
}

fn decisions(found: &DecisionPage, agent: &str) -> Markup {
    let last = found.rows.last().filter(|_| found.more);
    html! {
        @if found.rows.is_empty() {
            (empty("audit", "No decisions yet.", &html! {
                p { "Agents of a crew write down why they chose something, with the tool log_decision." }
            }))
        } @else {
            div.box { ol.lines #decided data-rows { @for row in &found.rows { (decision_item(row)) } } }
        }
        @if let Some(last) = last {
            form.audit-next method="get" action="/decisions" {
                input type="hidden" name="agent" value=(agent);
                input type="hidden" name="before" value=(last.id);
                button.button { "Older decisions" }
            }
        }
    }
}

fn decision_item(row: &Decision) -> Markup {
    html! {
        li.stack-tight #{ "d-" (row.id) } {
            div.row { strong.title { bdi { (row.decision) } } }
            p.row { (actor_named(row.agent.as_str())) span.faint { (time(row.at)) } }
            @if row.reasoning.contains('\n') {
                pre.code { (bounded(&row.reasoning)) }
            } @else {
                p.soft { bdi { (bounded(&row.reasoning)) } }
            }
            @if let Some(context) = &row.context {
                details #{ "context-" (row.id) } {
                    summary { "Context" }
                    pre.code { (bounded(context)) }
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
