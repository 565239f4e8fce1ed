//! The crew's log of decisions, the newest first.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::actor::Actor;
use callboard_domain::board::filter::{FilterHint, FilterTerm, FilterText, FilterWants};
use callboard_domain::crew::{AgentId, Decision, DecisionId};
use callboard_domain::event::EventTerms;
use callboard_domain::refusal::Refusal;
use callboard_domain::time::Timestamp;
use callboard_engine::DecisionPage;
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::audit::{RecordPart, parts_of_record};
use super::frame::{Screen, View};
use super::parts::{actor_named, ago, empty, filter_field, filter_terms};
use super::query::address;

const DECISIONS_SHOWN: usize = 50;
const KEYS: &[(&str, &str)] = &[("f", "filter")];
/// The cap of each text; the log at the terminal has the whole text.
const TEXT_CHARS_MAX: usize = 4000;

#[derive(Default, Deserialize)]
pub(super) struct DecisionListRequest {
    /// The filter of the record; an actor is the only term for decisions.
    #[serde(default)]
    q: String,
    /// As `q=actor:…`, in links to one agent.
    #[serde(default)]
    agent: String,
    #[serde(default)]
    before: String,
}

impl DecisionListRequest {
    /// The agent whose decisions are wanted, and a hint for each part of the filter that has no effect.
    fn agent(&self) -> (Option<String>, Vec<String>) {
        let filter = FilterText::parse(&self.q);
        let mut hints: Vec<String> = filter.hints.iter().map(FilterHint::message).collect();
        let mut agent = Some(self.agent.trim().to_owned()).filter(|agent| !agent.is_empty());
        for FilterTerm { is_not, wants } in filter.terms {
            match wants {
                FilterWants::Actor(name) if !is_not => {
                    agent = Some(name.strip_prefix("agent:").unwrap_or(&name).to_owned());
                }
                _ => hints.push("Decisions are found by actor; another term was left out.".into()),
            }
        }
        hints.dedup();
        (agent, hints)
    }
}

pub(super) async fn list(page: Page, Query(asked): Query<DecisionListRequest>) -> Response {
    let (agent, hints) = asked.agent();
    let before = Some(asked.before.trim()).filter(|before| !before.is_empty());
    let before: Option<DecisionId> = match before.map(str::parse).transpose() {
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
    let refused = page.engine.calls_refused(&page.op(), &EventTerms::default()).await;
    let found = found.and_then(|found| Ok((found, refused?)));
    match found {
        Ok((found, refused)) => {
            let typed = match (asked.q.trim(), &agent) {
                ("", Some(agent)) => format!("actor:{agent}"),
                (typed, _) => typed.to_owned(),
            };
            let content = html! {
                (bar(&typed, &hints, &found, refused))
                div.pad.text.stack {
                    div #decisions data-live { (decisions(&found, &typed, page.engine.now())) }
                }
            };
            let view = View {
                keys: KEYS,
                twin: "callboard decisions",
                ..View::of(Screen::Audit, "Decisions", content)
            };
            page.show(StatusCode::OK, view).await
        }
        Err(error) => page.failure(Screen::Audit, &error).await,
    }
}

fn bar(typed: &str, hints: &[String], found: &DecisionPage, refused: (usize, bool)) -> Markup {
    let actors: Vec<Actor> = found.rows.iter().map(|row| row.agent.actor()).collect();
    html! {
        div.bar {
            (filter_field("/decisions", typed, "actor:lead", &[], filter_terms(|key| key == "actor", &actors, &[])))
            (parts_of_record(RecordPart::Decisions, "", refused))
            @for hint in hints { p.filter-hint { (hint) } }
        }
    }
}

fn decisions(found: &DecisionPage, typed: &str, now: Timestamp) -> Markup {
    let last = found.rows.last().filter(|_| found.more);
    html! {
        @if found.rows.is_empty() {
            (empty("audit", "No decisions yet.", &html! {
                p { "Agents of a crew write down why they chose something, with the tool log_decision." }
            }))
        } @else {
            div.box { ol.lines #decided data-rows { @for row in &found.rows { (decision_item(row, now)) } } }
        }
        @if let Some(last) = last {
            @let before = last.id.to_string();
            @let parts = [("q", typed), ("before", &*before)];
            @let kept: Vec<(&str, &str)> = parts.into_iter().filter(|(_, text)| !text.is_empty()).collect();
            p.audit-next { a href={ "/decisions" (address(&kept, &[])) } { "Older decisions" } }
        }
    }
}

fn decision_item(row: &Decision, now: Timestamp) -> Markup {
    html! {
        li.stack-tight #{ "d-" (row.id) } {
            div.row { strong.title { bdi { (row.decision) } } }
            p.row { (actor_named(row.agent.as_str())) span.faint { (ago(row.at, now)) } }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_chooses_and_other_terms_are_a_hint() {
        for (q, agent, found, hints) in [
            ("", "", None, 0),
            ("actor:lead", "", Some("lead"), 0),
            ("actor:agent:lead", "", Some("lead"), 0),
            ("", "boss", Some("boss"), 0),
            ("actor:lead since:1d word", "boss", Some("lead"), 1),
            ("-actor:lead colour:red", "", None, 2),
        ] {
            let (q, agent) = (q.to_owned(), agent.to_owned());
            let asked = DecisionListRequest { q, agent, before: String::new() };
            let (name, said) = asked.agent();
            assert_eq!((name.as_deref(), said.len()), (found, hints), "{}: {said:?}", asked.q);
        }
    }
}
