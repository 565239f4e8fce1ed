//! The list of plans: what planners propose. Nothing is made before a yes.

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::plan::{Plan, PlanState};
use callboard_domain::time::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::frame::{Screen, View};
use super::parts::{Choice, Tone, actor, ago, badge, empty, tabs};

/// The newest plans; the counts of the tabs are over these.
const PLANS_SHOWN: usize = 100;

#[derive(Default, Deserialize)]
pub(super) struct PlanListRequest {
    #[serde(default)]
    state: String,
}

pub(super) async fn list(page: Page, Query(asked): Query<PlanListRequest>) -> Response {
    let plans = match page.engine.plan_list(&page.op(), PLANS_SHOWN).await {
        Ok(plans) => plans,
        Err(error) => return page.failure(Screen::Plans, &error).await,
    };
    let now = page.engine.now();
    let states = [("draft", "To decide"), ("approved", "Made"), ("rejected", "Put away")];
    // An unknown word in the address shows all plans.
    let chosen = states.iter().find(|(state, _)| *state == asked.state).map(|(state, _)| *state);
    let of = |state: &str| plans.iter().filter(|plan| plan.state.as_str() == state).count();
    let mut choices = vec![Choice {
        href: Screen::Plans.path().into(),
        word: "All",
        count: Some(plans.len().to_string()),
        is_current: chosen.is_none(),
    }];
    choices.extend(states.map(|(state, word)| Choice {
        href: format!("{}?state={state}", Screen::Plans.path()),
        word,
        count: Some(of(state).to_string()),
        is_current: chosen == Some(state),
    }));
    let shown: Vec<&Plan> = plans
        .iter()
        .filter(|plan| chosen.is_none_or(|state| plan.state.as_str() == state))
        .collect();
    let content = html! {
        div.bar #kinds data-live { (tabs("Which plans", choices)) }
        div #plans data-live {
            @if plans.is_empty() { (none_yet()) }
            @else { div.pad { section.box {
                @if shown.is_empty() { p.box-body.soft { "No plan is here. " a href=(Screen::Plans.path()) { "All plans" } } }
                ul.lines #plan-rows data-rows { @for plan in shown { (plan_item(plan, now)) } }
            } } }
            @if plans.len() == PLANS_SHOWN { p.pad.faint { "The newest " (PLANS_SHOWN) "; older ones are in " code { "callboard plan list --limit 1000" } "." } }
        }
    };
    let mut view = View::of(Screen::Plans, Screen::Plans.title(), content);
    view.facts = html! { (of("draft")) " to decide" };
    view.twin = "callboard plan list";
    page.show(StatusCode::OK, view).await
}

fn none_yet() -> Markup {
    let words = html! {
        p { "An agent proposes tasks with the tool " code { "propose_plan" } ". They are made when a person says yes here." }
        p { "A connection with " code { "--profile planner" } " can propose, and change nothing." }
    };
    empty("plan", "No plan yet", &words)
}

/// A plan goes by its first task.
pub(super) fn name(plan: &Plan) -> String {
    let first = plan.tasks.first().map_or("", |task| task.title.as_str());
    match plan.tasks.len() {
        0 | 1 => first.to_owned(),
        many => format!("{first} and {} more", many - 1),
    }
}

/// The end of the id, which tells plans apart in little room.
pub(super) fn short(plan: &Plan) -> String {
    let id = plan.id.to_string();
    id[id.len().saturating_sub(5)..].to_owned()
}

pub(super) fn state_badge(state: &PlanState) -> Markup {
    match state {
        PlanState::Draft => badge(Tone::Person, "plan", "Draft"),
        PlanState::Approved { .. } => badge(Tone::Proved, "done", "Made"),
        PlanState::Rejected { .. } => badge(Tone::Quiet, "canceled", "Put away"),
    }
}

fn plan_item(plan: &Plan, now: Timestamp) -> Markup {
    html! {
        li.row #{ "plan-" (plan.id) } {
            (state_badge(&plan.state))
            a href={ "/plans/" (plan.id) } data-row { bdi { (name(plan)) } }
            span.row-end.row.faint { (actor(&plan.by)) (count(plan.tasks.len(), "task")) ", " (ago(plan.at, now)) }
        }
    }
}

/// `1 task`, `2 tasks`.
pub(super) fn count(n: usize, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}
