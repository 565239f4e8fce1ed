//! Agents: who does what now, who is silent, whose work is enough at the first try.

use axum::Form;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::command::AgentAdd;
use callboard_domain::crew::{Agent, AgentId, AgentState};
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::{AgentType, PersonVerb};
use callboard_domain::time::Timestamp;
use callboard_engine::time::{parse_rfc3339, rfc3339_ms};
use callboard_engine::{ActorSeen, EngineError, Roster, RosterFilter};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Screen, View};
use super::parts::{
    Choice, Tone, actor, age, cost, empty, icon, lease, note, span as length, tabs, title_link,
    tokens,
};
use super::task::found;
use super::task_verbs::{once, why_not};
use super::timeline::{Axis, Span, head, lane};
use super::{Page, done, query, said};

/// So many idle actors are listed; more than that are folded.
const IDLE_SHOWN: usize = 10;
/// How to read a lane.
pub(super) const SIGNS: &str = "ticks: heartbeats · hatched: lease left · UTC";
const KEYS: &[(&str, &str)] = &[("e", "earlier")];

#[derive(Default, Deserialize)]
pub(super) struct SpanRequest {
    span: Option<String>,
    until: Option<String>,
    view: Option<String>,
}

/// The agents that the page lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AgentsView {
    #[default]
    All,
    /// Busy agents without a heartbeat for longer than their limit.
    Silent,
}

impl AgentsView {
    /// The view in an address; the usual one is not named.
    fn key(self) -> Option<&'static str> {
        match self {
            Self::All => None,
            Self::Silent => Some("silent"),
        }
    }

    fn lists(self, seen: &ActorSeen) -> bool {
        match self {
            Self::All => true,
            Self::Silent => seen.silent_since.is_some(),
        }
    }
}

impl SpanRequest {
    /// An unknown span is the usual one, and a time that cannot be read or lies ahead is now.
    pub fn axis(&self, usual: Span, now: Timestamp) -> Axis {
        let span = self.span.as_deref().and_then(Span::parse).unwrap_or(usual);
        Axis { span, until: self.looks_back(now).unwrap_or(now), now }
    }

    /// The shortest span with everything that began in the usual one, for a reader who chose none: most of a longer
    /// picture would be empty.
    pub fn narrowed<'s>(
        &self,
        axis: Axis,
        actors: impl IntoIterator<Item = &'s ActorSeen>,
    ) -> Axis {
        let work = actors.into_iter().flat_map(|seen| &seen.work);
        let first = work.map(|work| work.seen.attempt.started_at).min();
        let (Some(first), None, None) = (first, &self.span, &self.until) else { return axis };
        let shorter = Span::ALL.into_iter().filter(|span| span.ms() <= axis.span.ms());
        let mut axes = shorter.map(|span| Axis { span, ..axis });
        axes.find(|axis| axis.from() <= first).unwrap_or(axis)
    }

    /// An unknown view is the usual one.
    fn view(&self) -> AgentsView {
        match self.view.as_deref() == AgentsView::Silent.key() {
            true => AgentsView::Silent,
            false => AgentsView::All,
        }
    }

    fn looks_back(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.as_deref().and_then(parse_rfc3339).filter(|until| *until < now)
    }
}

pub(super) async fn list(page: Page, Query(asked): Query<SpanRequest>) -> Response {
    shown(&page, StatusCode::OK, &asked, &AddForm::default(), None).await
}

/// The page of all actors. `fault` is the message about a form that was refused.
async fn shown(
    page: &Page,
    status: StatusCode,
    asked: &SpanRequest,
    form: &AddForm,
    fault: Option<&str>,
) -> Response {
    let axis = asked.axis(Span::default(), page.engine.now());
    let filter = RosterFilter { actor: None, from: axis.from(), until: axis.until };
    let roster = match page.engine.roster(&page.op(), filter).await {
        Ok(roster) => roster.it,
        Err(error) => return page.failure(Screen::Agents, &error).await,
    };
    let (axis, view) = (asked.narrowed(axis, &roster.actors), asked.view());
    let facts = facts(&roster);
    let all = roster.actors.len();
    let silent = roster.actors.iter().filter(|seen| AgentsView::Silent.lists(seen)).count();
    let views = [(AgentsView::All, "All", all), (AgentsView::Silent, "Silent", silent)];
    let views = views.map(|(choice, word, count)| Choice {
        href: address(Screen::Agents.path(), &axis, choice),
        word,
        count: Some(count.to_string()),
        is_current: choice == view,
    });
    let views = html! { div #views data-live { (tabs("Views", views)) } };
    let listed = roster.actors.into_iter().filter(|seen| view.lists(seen)).collect();
    let roster = Roster { actors: listed, ..roster };
    let content = html! {
        (bar(Screen::Agents.path(), &axis, view, &views))
        div #agents data-live data-moving {
            @if all == 0 { (nobody()) }
            @else if roster.actors.is_empty() { (none_silent()) }
            @else { div.pad.stack { (lanes(&axis, &roster)) (table(page, &roster, axis.now)) } }
        }
        @if page.acts() { (add_form(page, form, fault)) }
    };
    let mut page_view = View::of(Screen::Agents, Screen::Agents.title(), content);
    page_view.facts = facts;
    page_view.says_at_work = true;
    page_view.says_places = true;
    page_view.keys = KEYS;
    page_view.twin = "callboard agent list";
    page.show(status, page_view).await
}

/// An agent for the crew, as its form sends it.
#[derive(Default, Deserialize)]
pub(super) struct AddForm {
    #[serde(default)]
    once: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: String,
    /// The name of an epic; empty for none.
    #[serde(default)]
    epic: String,
}

fn add_form(page: &Page, form: &AddForm, fault: Option<&str>) -> Markup {
    html! {
        details.box.agent-add open[fault.is_some()] {
            summary.box-head { (icon("plus")) "Add an agent to the crew" }
            form.box-body.stack-tight method="post" action=(Screen::Agents.path()) {
                @if let Some(words) = fault { (note(Tone::Failed, "warn", &html! { p role="alert" { (words) " Nothing was changed." } })) }
                input type="hidden" name="once" value=(page.engine.fresh_id());
                div.row {
                    div.field { label for="add-name" { "Name" } input.input #add-name name="name" required autocomplete="off" value=(form.name); }
                    div.field {
                        label for="add-kind" { "Kind" }
                        select.input #add-kind name="kind" { @for kind in AgentType::ALL {
                            option selected[kind.as_str() == form.kind] { (kind.as_str()) }
                        } }
                    }
                    div.field { label for="add-epic" { "Epic" } input.input #add-epic name="epic" placeholder="none" autocomplete="off" value=(form.epic); }
                }
                @let why = why_not(page, PersonVerb::ChangeCrew);
                div.row {
                    button.button data-busy="Adding" disabled[why.is_some()] { "Add the agent" }
                    span.faint { @match &why {
                        Some(why) => (why),
                        None => "The crew gives its agents work and mail; agents that connect by themselves need no entry.",
                    } }
                }
            }
        }
    }
}

/// Adds an agent, then shows its page.
pub(super) async fn add(page: Page, Form(form): Form<AddForm>) -> Response {
    match added(&page, &form).await {
        Ok(agent) => done(&format!("{}/{}", Screen::Agents.path(), agent.id), "Added to the crew."),
        Err(error) => {
            let (status, words) = said(&error);
            shown(&page, status, &SpanRequest::default(), &form, Some(&words)).await
        }
    }
}

async fn added(page: &Page, form: &AddForm) -> Result<Agent, EngineError> {
    let invalid =
        |field: &str, words: &str| EngineError::from(Refusal::invalid_field(field, words));
    let name = form.name.trim();
    let agent = AgentId::parse(name)
        .ok_or_else(|| invalid("name", "name takes 1..100 letters, digits, '.', '_' or '-'"))?;
    let kind = AgentType::parse(&form.kind).ok_or_else(|| invalid("kind", "kind is unknown"))?;
    let epic = match form.epic.trim() {
        "" => None,
        text => Some(found(page, text).await?),
    };
    let (task, or_keep, workers_max) = (None, false, None);
    page.reader.rights.judge_verb("web", PersonVerb::ChangeCrew)?;
    let op = once(page, &form.once)?;
    page.engine.agent_add(&op, AgentAdd { agent, kind, epic, task, or_keep, workers_max }).await
}

/// The address of a timeline with this span and view. A timeline that looks back names its end.
fn address(path: &str, axis: &Axis, view: AgentsView) -> String {
    let until = (axis.until < axis.now).then(|| rfc3339_ms(axis.until));
    let until = until.as_deref().map(|until| ("until", until));
    let view = view.key().map(|key| ("view", key));
    let more: Vec<(&str, &str)> = until.into_iter().chain(view).collect();
    format!("{path}{}", query::address(&[("span", axis.span.key())], &more))
}

/// The second bar: the views of the page, the span, the key of the colours, and the way back in time.
pub(super) fn bar(path: &str, axis: &Axis, view: AgentsView, views: &Markup) -> Markup {
    let of_span = |span: Span| address(path, &Axis { span, ..*axis }, view);
    let earlier = address(path, &Axis { until: axis.from(), ..*axis }, view);
    let present = address(path, &Axis { until: axis.now, ..*axis }, view);
    let key = [
        (Tone::Now, "at work"),
        (Tone::Proved, "finished"),
        (Tone::Failed, "lease ran out"),
        (Tone::Quiet, "released, canceled"),
        (Tone::Late, "silent"),
    ];
    html! {
        div.bar {
            (views)
            nav.segments aria-label="Span" { @for span in Span::ALL {
                a href=(of_span(span)) aria-current=[(span == axis.span).then_some("page")] { (span.word()) }
            } }
            a.button.button-small href=(earlier) data-key="e" { (icon("back")) "Earlier" }
            @if axis.until < axis.now { a.button.button-small href=(present) { "Now" } }
            ul.swatches { @for (tone, word) in key { li class=(tone.class()) { (word) } } }
        }
    }
}

fn facts(roster: &Roster) -> Markup {
    let count = |state| roster.actors.iter().filter(|seen| seen.state == state).count();
    let silent = roster.actors.iter().filter(|seen| seen.silent_since.is_some()).count();
    let asking = roster.actors.iter().filter(|seen| seen.asks).count();
    // Those at work stand before, as on every screen.
    let parts = [
        (silent, "silent"),
        (asking, "asking you"),
        (count(AgentState::Waiting), "waiting"),
        (count(AgentState::Failed), "failed"),
        (count(AgentState::Idle), "idle"),
    ];
    let parts: Vec<String> = parts.into_iter().filter_map(counted).collect();
    html! { (parts.join(" · ")) }
}

/// A count with its word; nothing for none.
fn counted((count, word): (usize, &str)) -> Option<String> {
    (count > 0).then(|| format!("{count} {word}"))
}

fn nobody() -> Markup {
    let words = html! {
        p { "An agent appears here with its first attempt. " code { "callboard init --clients all" }
            " writes the files that connect agents in this repository." }
        p { "For a crew, " code { "callboard agent add boss --type SUPERVISOR" } " adds one." }
    };
    empty("agents", "Nobody has worked here yet", &words)
}

fn none_silent() -> Markup {
    let words = html! { p { "Every busy agent sent a heartbeat within its limit. " a href=(Screen::Agents.path()) { "All agents" } } };
    empty("agents", "No agent is silent", &words)
}

fn lanes(axis: &Axis, roster: &Roster) -> Markup {
    let with_work = roster.actors.iter().filter(|seen| !seen.work.is_empty());
    let with_work: Vec<&ActorSeen> = with_work.collect();
    html! {
        section.box aria-labelledby="lanes-title" {
            h2.hidden #lanes-title { "Attempts in time; the table below has the facts of now" }
            @if with_work.is_empty() {
                p.box-body.soft { "No attempt in these " (axis.span.word()) ". " a href="?span=3d" { "Look at 3 days" } }
            } @else {
                ol.lanes {
                    li { span {} (head(axis)) }
                    @for seen in with_work { li #{ "lane-" (AgentId::of(&seen.actor)) } {
                        span.lane-name { (link(seen)) (state(seen, axis.now, false)) }
                        (lane(axis, seen))
                    } }
                }
            }
            p.box-body.faint { (SIGNS) }
            @if roster.is_cut { p.box-body.faint { "Only the newest attempts of the span are shown." } }
        }
    }
}

/// The actor as a link to its page.
fn link(seen: &ActorSeen) -> Markup {
    html! { a.plain href={ "/agents/" (AgentId::of(&seen.actor)) } { (actor(&seen.actor)) } }
}

fn tone(seen: &ActorSeen) -> Tone {
    match seen.state {
        _ if seen.silent_since.is_some() => Tone::Late,
        _ if seen.asks => Tone::Person,
        AgentState::Busy => Tone::Now,
        AgentState::Waiting => Tone::Person,
        AgentState::Failed => Tone::Failed,
        AgentState::Idle => Tone::Quiet,
    }
}

/// The state as a glyph and a word; `whole` has the words of the crew.
pub(super) fn state(seen: &ActorSeen, now: Timestamp, whole: bool) -> Markup {
    let glyph = match seen.state {
        AgentState::Busy if seen.asks => "ask",
        AgentState::Busy => "working",
        AgentState::Waiting => "review",
        AgentState::Failed => "failed",
        AgentState::Idle => "ready",
    };
    let word = seen.state.as_str();
    let silent = seen.silent_since.map(|since| length(now.ms_since(since)));
    html! {
        span class={ "row tone " (tone(seen).class()) } {
            span.glyph { (icon(glyph)) }
            @match (whole, silent) {
                (true, None) if seen.asks => { (word) ", asks you" }
                (false, None) if seen.asks => "asks you",
                (true, Some(silent)) => { (word) ", silent " (silent) }
                (true, None) => (word),
                (false, Some(silent)) => { "silent " (silent) }
                (false, None) => (word.to_lowercase()),
            }
        }
    }
}

fn table(page: &Page, roster: &Roster, now: Timestamp) -> Markup {
    let (idle, at_work): (Vec<&ActorSeen>, Vec<&ActorSeen>) =
        roster.actors.iter().partition(|seen| seen.is_idle());
    let folds = idle.len() > IDLE_SHOWN;
    let shown = at_work.into_iter().chain(idle.iter().copied().filter(|_| !folds));
    html! {
        section.box aria-labelledby="table-title" {
            h2.box-head #table-title { "Who is at what" span.faint { (roster.actors.len()) } }
            (rows(page, shown, now))
            @if folds {
                details #idle { summary.box-body.soft { (idle.len()) " idle agents" } (rows(page, idle, now)) }
            }
            @if roster.left_out > 0 {
                p.box-body.faint { (roster.left_out) " more are in " code { "callboard agent list" } "." }
            }
        }
    }
}

fn rows<'a>(page: &Page, shown: impl IntoIterator<Item = &'a ActorSeen>, now: Timestamp) -> Markup {
    html! {
        table.table.agents {
            thead { tr {
                th scope="col" { "Agent" } th scope="col" { "State" } th scope="col" { "On" } th scope="col" { "Lease" }
                th scope="col" { "Heard" } th scope="col" { "Finished" } th scope="col" { "First-try pass" } th scope="col" { "Cost" }
                @if page.acts() { th scope="col" { span.hidden { "Write" } } }
            } }
            tbody { @for seen in shown { (row(page, seen, now)) } }
        }
    }
}

fn row(page: &Page, seen: &ActorSeen, now: Timestamp) -> Markup {
    let crew = seen.agent.as_ref();
    html! {
        tr #{ "agent-" (AgentId::of(&seen.actor)) } {
            td { (link(seen)) @if let Some((agent, _)) = crew { span.faint.agent-kind { " " (agent.kind.as_str()) } } }
            td { (state(seen, now, true)) }
            td {
                @if let Some(task) = &seen.task { (title_link(task)) }
                @else if let Some((_, standing)) = crew.filter(|(_, standing)| standing.epic.is_some()) {
                    @if let Some(epic) = standing.epic { "leads " a href={ "/tasks/" (epic) } { "its epic" } }
                } @else { span.faint { "nothing" } }
                @if let Some(terminal) = crew.and_then(|(_, standing)| standing.terminal.as_ref()) {
                    div { code { (terminal.attach()) } }
                }
            }
            td data-label="lease" { @match seen.live(now).filter(|live| live.attempt.lease().is_some()) {
                Some(live) => (lease(&live.attempt, now)),
                None => span.faint { "none" },
            } }
            td.number data-label="heard" { @match seen.heard_at { Some(at) => (age(at, now)), None => span.faint { "never" } } }
            td.number data-label="finished" { (seen.record.finished) }
            td.number data-label="first-try pass" { @match seen.record.first_try_percent() {
                Some(share) => { (share) " %" }
                None => span.faint { "none judged" },
            } }
            td.number data-label="cost" { @match seen.usage {
                Some(used) => span title={ (tokens(used.input_tokens)) " tokens read, " (tokens(used.output_tokens)) " written" } {
                    (cost(used.cost_micros))
                },
                None => span.faint { "unknown" },
            } }
            @if page.acts() {
                td { @if let Some((agent, _)) = crew {
                    a.button.button-bare.button-small href={ "/mail?to=" (agent.id) "#write" } {
                        (icon("mail")) "Write to " (agent.id)
                    }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_looks_back_only() {
        let now = parse_rfc3339("2026-11-17T12:00:00Z").expect("a time");
        for (span, until, said) in [
            (None, None, ("3h", "2026-11-17T12:00:00.000Z")),
            (Some("12h"), Some("2026-11-16T12:00:00Z"), ("12h", "2026-11-16T12:00:00.000Z")),
            (Some("9y"), Some("soon"), ("3h", "2026-11-17T12:00:00.000Z")),
            (Some("1h"), Some("2027-01-01T00:00:00Z"), ("1h", "2026-11-17T12:00:00.000Z")),
        ] {
            let [span, until] = [span, until].map(|text| text.map(str::to_owned));
            let axis = SpanRequest { span, until, view: None }.axis(Span::default(), now);
            assert_eq!((axis.span.key(), rfc3339_ms(axis.until).as_str()), said);
        }
    }

    #[test]
    fn an_address_names_the_view_and_the_end_of_a_look_back() {
        let now = parse_rfc3339("2026-11-17T12:00:00Z").expect("a time");
        let past = parse_rfc3339("2026-11-16T12:00:00Z").expect("a time");
        for (view, until, wanted) in [
            (None, now, "/agents?span=1h"),
            (Some("loud"), now, "/agents?span=1h"),
            (Some("silent"), now, "/agents?span=1h&view=silent"),
            (Some("silent"), past, "/agents?span=1h&until=2026-11-16T12:00:00.000Z&view=silent"),
        ] {
            let asked = SpanRequest { view: view.map(str::to_owned), ..SpanRequest::default() };
            let axis = Axis { span: Span::Hour, until, now };
            assert_eq!(address("/agents", &axis, asked.view()), wanted);
        }
    }
}
