//! One actor: its attempts, its decisions, its mail, and the forms that stop its agent and write to it.

use axum::Form;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::crew::{AgentId, Decision};
use callboard_domain::knowledge::KnowledgeEntry;
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::{PersonVerb, Scope};
use callboard_domain::task::Task;
use callboard_domain::time::Timestamp;
use callboard_engine::store::MailSeen;
use callboard_engine::{ActorSeen, EngineError, MailFilter, RosterFilter, WorkSpan};
use maud::{Markup, html};
use serde::Deserialize;

use super::agents::{AgentsView, SIGNS, SpanRequest, bar, state};
use super::confirm::Confirm;
use super::frame::{Screen, View};
use super::parts::{Tone, ago, icon, note, outcome, tag, task_link, title_link};
use super::task::found;
use super::task_verbs::{ELSEWHERE, once, plain, why_not};
use super::timeline::{Axis, Span, head as times, lane, took};
use super::{Page, done, said};

const DECISIONS_SHOWN: usize = 20;
const MAILS_SHOWN: usize = 20;
const LEARNED_SHOWN: usize = 10;
const WORDS_CHARS: usize = 400;
const KEYS: &[(&str, &str)] = &[("w", "write to the agent"), ("e", "earlier")];

/// Everything that the page shows of an actor.
struct AgentPage {
    id: AgentId,
    axis: Axis,
    seen: ActorSeen,
    decisions: Vec<Decision>,
    /// `None` where the actor has no inbox, or the reader may not read it.
    mails: Option<Vec<MailSeen>>,
    /// What it wrote down for others; none where the reader may not read knowledge.
    learned: Vec<KnowledgeEntry>,
    /// Whether the board can stop the agent on its task.
    stops: bool,
}

pub(super) async fn show(
    page: Page,
    Path(name): Path<String>,
    Query(asked): Query<SpanRequest>,
) -> Response {
    match read(&page, &name, &asked).await {
        Ok(agent) => shown(&page, StatusCode::OK, &agent, None).await,
        Err(error) => page.failure(Screen::Agents, &error).await,
    }
}

async fn read(page: &Page, name: &str, asked: &SpanRequest) -> Result<AgentPage, EngineError> {
    let missing = || EngineError::from(Refusal::AgentNotFound { agent: "no such name".into() });
    let id = AgentId::parse(name).ok_or_else(missing)?;
    let op = page.op();
    let axis = asked.axis(Span::ThreeDays, page.engine.now());
    let filter = RosterFilter { actor: Some(id.actor()), from: axis.from(), until: axis.until };
    let roster = page.engine.roster(&op, filter).await?.it;
    let seen = roster.actors.into_iter().next().ok_or_else(missing)?;
    let axis = asked.narrowed(axis, [&seen]);
    let decisions = page.engine.decision_list(&op, Some(id.clone()), None, DECISIONS_SHOWN).await?;
    let reads = page.inbox().is_none_or(|own| own == id);
    let mails = match seen.agent.is_some() && reads {
        true => {
            let to = Some(id.clone());
            let filter = MailFilter { to, include_read: true, before: None, limit: MAILS_SHOWN };
            Some(page.engine.mail_list(&op, filter).await?.mails)
        }
        false => None,
    };
    let learned = match page.reader.rights.judge("web", Scope::KnowledgeRead) {
        Ok(()) => page.engine.knowledge_by(&op, &seen.actor, LEARNED_SHOWN).await?,
        Err(_) => Vec::new(),
    };
    let stops = match seen.live(axis.now) {
        Some(live) => page.engine.agent_stops(&op, live.task.id).await?,
        None => false,
    };
    Ok(AgentPage { id, axis, seen, decisions: decisions.rows, mails, learned, stops })
}

async fn shown(
    page: &Page,
    status: StatusCode,
    agent: &AgentPage,
    fault: Option<&str>,
) -> Response {
    let now = agent.axis.now;
    let path = format!("{}/{}", Screen::Agents.path(), agent.id);
    let content = html! {
        @if let Some(words) = fault {
            div.pad-top { (note(Tone::Failed, "warn", &html! { p role="alert" { (words) " Nothing was changed." } })) }
        }
        div.head-row {
            div #head data-live { (head(agent)) }
            @if page.acts() { (acts(page, agent)) }
        }
        (bar(&path, &agent.axis, AgentsView::All, &html! {}))
        div #agent data-live data-moving {
            div.pad-top { div.box { ol.lanes.lanes-one {
                li { (times(&agent.axis)) }
                li { (lane(&agent.axis, &agent.seen)) }
            } p.box-body.faint { (SIGNS) } } }
            @match &agent.mails {
                None => div.pad.stack { (attempts(agent)) (decisions(agent)) (learned(agent)) },
                Some(mails) => div.sided.pad-top {
                    div.stack { (attempts(agent)) (decisions(agent)) (learned(agent)) }
                    aside.stack { (inbox(mails, now)) }
                },
            }
        }
    };
    let mut view = View::of(Screen::Agents, agent.id.as_str(), content);
    view.trail = vec![
        (Screen::Agents.path().into(), Screen::Agents.title().into()),
        (path.clone(), agent.id.to_string()),
    ];
    view.keys = KEYS;
    let twin = match agent.seen.agent {
        Some(_) => format!("callboard agent show {}", agent.id),
        None => "callboard status".into(),
    };
    view.twin = &twin;
    page.show(status, view).await
}

fn head(agent: &AgentPage) -> Markup {
    let AgentPage { seen, axis, .. } = agent;
    html! {
        div.head {
            h1 { bdi { (agent.id) } }
            div.dots {
                (state(seen, axis.now, true))
                @if let Some((known, _)) = &seen.agent { span { (known.kind.as_str()) } }
                @if let Some(task) = &seen.task { span { "on " (title_link(task)) } }
                @if let Some(at) = seen.heard_at { span { "heard " (ago(at, axis.now)) } }
                span { (seen.record.finished) " finished" }
                @if let Some(share) = seen.record.first_try_percent() { span { (share) " % passed at the first try" } }
            }
        }
    }
}

/// The forms, outside of the live part: a form that is being written stays as it is.
fn acts(page: &Page, agent: &AgentPage) -> Markup {
    let task = agent.seen.live(agent.axis.now).map(|live| &live.task);
    html! {
        section.acts.row aria-label="What you can do" {
            @if let Some(task) = task {
                @if why_not(page, PersonVerb::Write).is_none() { (tell_form(page, agent, task)) }
                @let (once, name) = (page.engine.fresh_id().to_string(), task.name().to_string());
                @let stop = Confirm {
                    id: "stop", glyph: "stop", verb: "Stop its agent", busy: "Stopping",
                    action: &format!("/agents/{}/stop", agent.id),
                    fields: &[("once", &once), ("task", &name)], is_small: false,
                };
                @if let Some(why) = why_not(page, PersonVerb::RunAgent) {
                    button.button disabled { (icon("stop")) "Stop its agent" } span.faint { (why) }
                } @else if agent.stops {
                    (stop.shown(&html! {
                        p { "The processes of the agent end, and " (title_link(task)) " is free again." }
                        p { "The worktree and the branch stay." }
                    }))
                } @else {
                    button.button disabled { (icon("stop")) "Stop its agent" } span.faint { (ELSEWHERE) }
                }
            }
            @if agent.seen.agent.is_some() {
                a.button href={ "/mail?to=" (agent.id) "#write" } data-key=[task.is_none().then_some("w")] {
                    (icon("mail")) "Write to " (agent.id)
                }
                @let once = page.engine.fresh_id().to_string();
                @let remove = Confirm {
                    id: "remove", glyph: "cross", verb: "Remove from the crew", busy: "Removing",
                    action: &format!("/agents/{}/remove", agent.id), fields: &[("once", &once)], is_small: false,
                };
                @if why_not(page, PersonVerb::ChangeCrew).is_none() {
                    (remove.shown(&html! {
                        p { "The crew gives " bdi { (agent.id) } " no more work, and nobody can write to it." }
                        p { "Its attempts, its decisions and its letters stay in the record." }
                    }))
                }
            }
        }
    }
}

fn tell_form(page: &Page, agent: &AgentPage, task: &Task) -> Markup {
    html! {
        details.menu.verb {
            summary.button data-key="w" { (icon("comment")) "Write about its task" }
            form.stack-tight method="post" action={ "/agents/" (agent.id) "/tell" } {
                input type="hidden" name="once" value=(page.engine.fresh_id());
                input type="hidden" name="task" value=(task.name());
                div.field {
                    label for="tell-text" { "The agent reads this with its next step" }
                    textarea.input #tell-text name="text" rows="3" required {}
                }
                div { button.button.button-main data-busy="Sending" { "Send" } }
            }
        }
    }
}

fn attempts(agent: &AgentPage) -> Markup {
    html! {
        section.box {
            div.box-head { h2 { "Attempts" } span.faint { (agent.seen.work.len()) } }
            @if agent.seen.work.is_empty() {
                p.box-body.soft { "None in these " (agent.axis.span.word()) "." }
            }
            ul.lines { @for work in agent.seen.work.iter().rev() { (attempt_line(work, agent.axis.now)) } }
        }
    }
}

fn attempt_line(WorkSpan { seen, .. }: &WorkSpan, now: Timestamp) -> Markup {
    let (tone, word) = outcome(&seen.attempt, now);
    html! {
        li.row #{ "attempt-" (seen.attempt.id.0) } {
            (tag(tone, word)) (title_link(&seen.task)) (task_link(seen.task.name()))
            span.faint.row-end {
                (took(&seen.attempt, now)) ", began " (ago(seen.attempt.started_at, now))
                @if let Some(model) = &seen.attempt.model { ", " (model) }
            }
        }
    }
}

fn decisions(agent: &AgentPage) -> Markup {
    html! {
        section.box {
            div.box-head {
                h2 { "Decisions" }
                a.row-end.faint href={ "/decisions?agent=" (agent.id) } { "All of them" }
            }
            @if agent.decisions.is_empty() { p.box-body.soft { "None written down." } }
            ul.lines { @for row in &agent.decisions { li {
                p { bdi { (excerpt(&row.decision)) } " " span.faint { (ago(row.at, agent.axis.now)) } }
                p.soft { bdi { (excerpt(&row.reasoning)) } }
            } } }
        }
    }
}

fn learned(agent: &AgentPage) -> Markup {
    html! {
        section.box {
            div.box-head { h2 { "Learned" } a.row-end.faint href="/knowledge" { "All knowledge" } }
            @if agent.learned.is_empty() { p.box-body.soft { "It wrote nothing down lately." } }
            ul.lines { @for entry in &agent.learned { li {
                p { bdi { (entry.title) } " " span.faint { "sure " (entry.confidence) " %, " (ago(entry.created_at, agent.axis.now)) } }
                @if entry.superseded_by.is_some() { p.faint { "superseded since" } }
                @else if entry.body.trim() != entry.title.trim() { p.soft { bdi { (excerpt(&entry.body)) } } }
            } } }
        }
    }
}

fn inbox(mails: &[MailSeen], now: Timestamp) -> Markup {
    html! {
        section.box {
            h2.box-head { "Mail to it" }
            @if mails.is_empty() { p.box-body.soft { "None." } }
            ul.lines { @for MailSeen { mail, .. } in mails { li {
                p { @match &mail.from {
                    // People open the letters that people wrote.
                    None => a href={ "/mail/" (mail.id) } { bdi { (mail.subject) } },
                    Some(_) => bdi { (mail.subject) },
                } }
                p.faint {
                    "from " @match &mail.from { Some(from) => (from), None => "people" } ", " (ago(mail.created_at, now))
                    @if mail.read_at.is_none() { ", unread" }
                }
            } } }
        }
    }
}

fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(WORDS_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[derive(Deserialize)]
pub(super) struct AgentForm {
    #[serde(default)]
    once: String,
    #[serde(default)]
    task: String,
    #[serde(default)]
    text: String,
}

/// Carries out a form of an actor, then shows the actor with a word about it.
pub(super) async fn act(
    page: Page,
    Path((name, verb)): Path<(String, String)>,
    Form(form): Form<AgentForm>,
) -> Response {
    let agent = match read(&page, &name, &SpanRequest::default()).await {
        Ok(agent) => agent,
        Err(error) => return page.failure(Screen::Agents, &error).await,
    };
    match carry_out(&page, &agent.id, &verb, &form).await {
        // An actor without an attempt has no page of its own once it left the crew.
        Ok(words) if verb == "remove" => done(Screen::Agents.path(), words),
        Ok(words) => done(&format!("{}/{}", Screen::Agents.path(), agent.id), words),
        Err(error) => {
            let (status, words) = said(&error);
            shown(&page, status, &agent, Some(&words)).await
        }
    }
}

async fn carry_out(
    page: &Page,
    id: &AgentId,
    verb: &str,
    form: &AgentForm,
) -> Result<&'static str, EngineError> {
    let needs = match verb {
        "remove" => PersonVerb::ChangeCrew,
        "stop" => PersonVerb::RunAgent,
        _ => PersonVerb::Write,
    };
    page.reader.rights.judge_verb("web", needs)?;
    let op = once(page, &form.once)?;
    match verb {
        "remove" => {
            page.engine.agent_remove(&op, id).await?;
            Ok("Removed from the crew.")
        }
        "stop" => {
            let task = found(page, &form.task).await?;
            page.engine.agent_stop(&op, task).await?;
            Ok("The agent was stopped.")
        }
        "tell" => {
            let task = found(page, &form.task).await?;
            page.engine.task_tell(&op, task, plain(&form.text)).await?;
            Ok("Sent. The agent reads your words with its next step.")
        }
        _ => {
            let message = "verb is unknown; open the page again and use its buttons".into();
            Err(Refusal::InvalidInput { field: Some("verb".into()), message }.into())
        }
    }
}
