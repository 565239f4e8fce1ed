//! Settings: is the board healthy, what holds, who may come in, what is wired, and how pages look for this person.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Form, Path, Query};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use callboard_domain::board::card::Terminal;
use callboard_domain::board::settings::{AGENTS_MAX, BaseRef, SettingKey, WAIT_S_MAX};
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::Profile;
use callboard_domain::time::Timestamp;
use callboard_domain::token::Token;
use callboard_engine::context::Scope;
use callboard_engine::ports::{ConfinedBy, ExecutorSeen};
use callboard_engine::{EngineError, SettingOrigin, SettingSeen};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::doctor::{ClientsSeen, Doctor, DoctorLine, DoctorWord};
use super::frame::{Screen, View};
use super::parts::{Tone, ago, bare_name, icon, note, span, tag};
use super::settings_tokens::{NewToken, tokens};
use super::settings_webhooks::{Deliveries, webhooks};
use super::{Page, cookie_of, done, said};

/// A year, in seconds.
const COOKIE_LIVES_S: u32 = 31_536_000;

/// Everything that the page shows.
struct SettingsPage {
    doctor: Option<(Arc<Vec<DoctorLine>>, Duration)>,
    /// `None` for a server without clients to look at.
    clients: Option<ClientsSeen>,
    /// The parts for readers with more rights than a viewer.
    wired: Option<Wired>,
    now: Timestamp,
}

/// What holds and what is wired.
struct Wired {
    settings: Vec<SettingSeen>,
    executors: Vec<ExecutorSeen>,
    /// The names of executors where no process of this server starts agents.
    names: Vec<String>,
    /// `None` for readers that may not see tokens.
    tokens: Option<Vec<Token>>,
    deliveries: Deliveries,
}

/// The state of the page in its address.
#[derive(Default, Deserialize)]
pub(super) struct SettingsRequest {
    /// Messages behind this one are listed.
    #[serde(default)]
    before: String,
}

type DoctorHere = Option<Extension<Arc<Doctor>>>;

pub(super) async fn show(
    page: Page,
    doctor: DoctorHere,
    Query(asked): Query<SettingsRequest>,
) -> Response {
    shown(&page, doctor, StatusCode::OK, SettingsSaid::Nothing, &asked).await
}

/// What the page says about the form that was sent.
pub(super) enum SettingsSaid {
    Nothing,
    /// The form that was refused, as it was typed, and why.
    Fault {
        words: String,
        form: HashMap<String, String>,
    },
    /// A new token, which is shown this once.
    Token(Box<NewToken>),
}

async fn shown(
    page: &Page,
    doctor: DoctorHere,
    status: StatusCode,
    words: SettingsSaid,
    asked: &SettingsRequest,
) -> Response {
    match seen(page, doctor, asked).await {
        Ok(seen) => {
            let content = content(page, &seen, &words);
            let view = View {
                twin: "callboard doctor",
                ..View::of(Screen::Settings, Screen::Settings.title(), content)
            };
            page.show(status, view).await
        }
        Err(error) => page.failure(Screen::Settings, &error).await,
    }
}

async fn seen(
    page: &Page,
    doctor: DoctorHere,
    asked: &SettingsRequest,
) -> Result<SettingsPage, EngineError> {
    let (engine, op) = (&page.engine, page.op());
    let (lines, clients) = match doctor {
        Some(Extension(doctor)) => (Some(doctor.lines(false).await), doctor.clients(false).await),
        None => (None, None),
    };
    let wired = match page.reader.rights.profile() > Profile::Viewer {
        false => None,
        true => Some(Wired {
            settings: engine.settings_seen(&op).await?,
            executors: engine.executors_seen(),
            names: engine.board_rule().agents.clone(),
            tokens: match page.is_admin() {
                true => Some(engine.token_list_in(&op).await?),
                false => None,
            },
            deliveries: Deliveries::read(page, &asked.before).await?,
        }),
    };
    Ok(SettingsPage { doctor: lines, clients, wired, now: engine.store().now() })
}

impl Page {
    /// Whether the reader changes settings, and may add and revoke tokens.
    pub(super) fn is_admin(&self) -> bool {
        self.judge_admin("settings").is_ok()
    }

    pub(super) fn judge_admin(&self, verb: &str) -> Result<(), EngineError> {
        let rights = &self.reader.rights;
        Ok(rights.judge_from(verb, Scope::TasksWrite, Profile::Maintainer)?)
    }
}

fn content(page: &Page, seen: &SettingsPage, words: &SettingsSaid) -> Markup {
    let sections = [
        ("doctor", "Doctor", true),
        ("general", "General", seen.wired.is_some()),
        ("executors", "Executors", seen.wired.is_some()),
        ("clients", "Clients", true),
        ("tokens", "Tokens", seen.wired.is_some()),
        ("webhooks", "Webhooks", seen.wired.is_some()),
        ("you", "You", true),
    ];
    let shown = sections.into_iter().filter(|(.., is_shown)| *is_shown);
    html! {
        div.pad.settings {
            nav.settings-nav aria-label="Sections" { @for (id, word, _) in shown {
                a href={ "#" (id) } { (word) @match id {
                    "doctor" => (worst(seen.doctor.iter().flat_map(|(lines, _)| lines.iter()))),
                    "clients" => (worst(client_lines(seen))),
                    _ => {}
                } }
            } }
            div.stack {
                @if let SettingsSaid::Fault { words, .. } = words {
                    (note(Tone::Failed, "warn", &html! { p role="alert" { (words) " Nothing was changed." } }))
                }
                (doctor_box(page, seen))
                @if let Some(wired) = &seen.wired { (general(page, &wired.settings, words, seen.now)) (executors(wired)) }
                (clients(page, seen))
                @if let Some(wired) = &seen.wired {
                    (tokens(page, wired.tokens.as_deref(), words, seen.now))
                    (webhooks(page, &wired.deliveries, seen.now))
                } @else {
                    p.soft { "Settings, executors, tokens and webhooks are for more than a viewer; you are " (page.reader.rights.profile().as_str()) "." }
                }
                (you(page))
            }
        }
    }
}

fn client_lines(seen: &SettingsPage) -> impl Iterator<Item = &DoctorLine> {
    let found = seen.clients.as_ref().and_then(|clients| clients.found.as_ref());
    found.into_iter().flat_map(|(lines, _)| lines.iter())
}

/// How many lines of the doctor need a person, by the worst of them.
fn worst<'l>(lines: impl Iterator<Item = &'l DoctorLine>) -> Markup {
    let (mut warns, mut fails) = (0, 0);
    for line in lines {
        match line.word {
            DoctorWord::Ok => {}
            DoctorWord::Warn => warns += 1,
            DoctorWord::Fail => fails += 1,
        }
    }
    html! { @match (fails, warns) {
        (0, 0) => {}
        (0, warns) => { " " span.tone.is-late { (warns) " warn" } }
        (fails, _) => { " " span.tone.is-failed { (fails) " fail" } }
    } }
}

/// A section with its head.
pub(super) fn section(id: &str, title: &str, about: &Markup, body: &Markup) -> Markup {
    html! {
        section.box id=(id) aria-label=(title) {
            div.box-head { h2 { (title) } span.faint.row-end { (about) } }
            (body)
        }
    }
}

fn doctor_box(page: &Page, seen: &SettingsPage) -> Markup {
    let Some((lines, age)) = &seen.doctor else {
        let words = html! { p.box-body.soft { "This server has no look of its own. Run " code { "callboard doctor" } "." } };
        return section("doctor", "Doctor", &html! {}, &words);
    };
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let about = html! { "looked " (span(age_ms)) " ago" };
    let body = html! {
        ul.lines { @for line in lines.iter() { (doctor_line(line)) } }
        div.box-body.row {
            p.faint { "Only quick checks run here. " code { "callboard doctor" } " also compares the log with the tables \
                and greets an agent's server." }
            @if page.acts() {
                form.row-end method="post" action="/settings/look" {
                    button.button.button-small data-busy="Looking" { (icon("again")) "Look again" }
                }
            }
        }
    };
    section("doctor", "Doctor", &about, &body)
}

fn doctor_line(line: &DoctorLine) -> Markup {
    let (tone, glyph, word) = match line.word {
        DoctorWord::Ok => (Tone::Proved, "done", "ok"),
        DoctorWord::Warn => (Tone::Late, "warn", "warn"),
        DoctorWord::Fail => (Tone::Failed, "failed", "fail"),
    };
    html! {
        li.doctor-line {
            span class={ "row tone " (tone.class()) } { (icon(glyph)) (word) }
            span { (line.name) }
            span.stack-tight {
                span { bdi { (line.message) } }
                @if let Some(fix) = &line.fix { code.faint { (fix) } }
            }
        }
    }
}

/// The files of agents' clients, and the server that they start. A look that goes on is shown by the next page.
fn clients(page: &Page, seen: &SettingsPage) -> Markup {
    let Some(known) = &seen.clients else {
        let words = html! { p.box-body.soft { "This server has no project folder, so no client has a file here." } };
        return section("clients", "Clients", &html! {}, &words);
    };
    let about = html! { @match &known.found {
        Some((_, age)) => { "looked " (span(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))) " ago" }
        None => "not looked at yet",
    } };
    let is_none = client_lines(seen).next().is_none();
    let body = html! {
        div #clients-look data-live data-every=[known.is_looking.then_some("2")] {
            ul.lines { @for line in client_lines(seen) { (doctor_line(line)) } }
            @if known.is_looking {
                p.box-body.soft { "Asking the clients for their versions, and greeting the server that they start. "
                    a href="/settings#clients" { "Look at the result" } }
            } @else if is_none {
                p.box-body.soft { "No client of agents is installed or connected here. " code { "callboard init --clients all" } " writes their files." }
            }
        }
        div.box-body.row {
            p.faint { "A client is connected by its file in the project; the greeting is a real conversation with " code { "callboard mcp" } "." }
            @if page.acts() {
                form.row-end method="post" action="/settings/clients" {
                    button.button.button-small data-busy="Looking" { (icon("again")) "Look again" }
                }
            }
        }
    };
    section("clients", "Clients", &about, &body)
}

fn general(page: &Page, settings: &[SettingSeen], words: &SettingsSaid, now: Timestamp) -> Markup {
    let may = page.acts() && page.is_admin();
    let about = match (may, page.acts()) {
        (true, _) => html! { "kept in the store; they hold in every process at once" },
        (false, true) => {
            html! { "a maintainer changes them; you are " (page.reader.rights.profile().as_str()) }
        }
        (false, false) => html! { "sign in to change them" },
    };
    let rows = html! {
        table.table {
            thead { tr { th scope="col" { "Setting" } th scope="col" { "Value" } th scope="col" { "From" } } }
            tbody #general-rows data-live { @for setting in settings { (setting_row(page, setting, may, words, now)) } }
        }
    };
    let body = match may {
        true => html! {
            form method="post" action="/settings/update" {
                (rows)
                div.box-body { button.button.button-main data-busy="Saving" { "Save settings" } }
            }
        },
        false => rows,
    };
    section("general", "General", &about, &body)
}

/// A setting with its field. A form that was refused keeps what was typed, and the fault stands under its field.
fn setting_row(
    page: &Page,
    setting: &SettingSeen,
    may: bool,
    words: &SettingsSaid,
    now: Timestamp,
) -> Markup {
    let (key, value) = (setting.key, text_of(&setting.value));
    let (typed, fault) = match words {
        SettingsSaid::Fault { words, form } => {
            let typed = form.get(key.as_str()).map(|typed| typed.trim().to_owned());
            let is_its = words.contains(key.as_str()) && typed.is_some();
            (typed, is_its.then_some(words))
        }
        SettingsSaid::Nothing | SettingsSaid::Token(_) => (None, None),
    };
    let shown = typed.as_deref().unwrap_or(&value);
    let is_pinned = setting.origin == SettingOrigin::Pinned;
    let from = match setting.origin {
        SettingOrigin::Pinned => "a flag or variable of this server",
        SettingOrigin::Store => "store",
        SettingOrigin::File => "configuration file",
        SettingOrigin::Default => "default",
    };
    html! {
        tr {
            // A long name breaks between its words.
            td { label.mono for=(key.as_str()) { @for part in key.as_str().split_inclusive(['.', '_']) { (part) wbr; } } }
            td {
                @if may && !is_pinned {
                    (setting_field(page, key, &setting.value, shown))
                    @if let Some(fault) = fault { p.fault { (fault) } }
                }
                @else if value.is_empty() { span.faint { "none" } }
                @else { bdi { (said_of(&value)) } }
            }
            td.faint {
                (from)
                @if let Some((who, at)) = &setting.changed { ", " span title=(who) { bdi { (bare_name(who.as_str())) } } ", " (ago(*at, now)) }
            }
        }
    }
}

fn setting_field(page: &Page, key: SettingKey, value: &Value, text: &str) -> Markup {
    let name = key.as_str();
    let choices: Vec<&str> = match key {
        SettingKey::WorktreeBaseRefStrategy => BaseRef::ALL.map(BaseRef::as_str).to_vec(),
        SettingKey::DefaultPairTerminalBackend => Terminal::ALL.map(Terminal::as_str).to_vec(),
        SettingKey::DefaultWorkerAgent => {
            page.engine.board_rule().agents.iter().map(String::as_str).collect()
        }
        _ if value.is_boolean() => vec!["true", "false"],
        _ => Vec::new(),
    };
    let most = match key {
        SettingKey::MaxConcurrentAgents => Some(AGENTS_MAX),
        SettingKey::TasksWaitDefaultTimeoutSeconds | SettingKey::TasksWaitMaxTimeoutSeconds => {
            Some(WAIT_S_MAX)
        }
        _ => None,
    };
    html! {
        @if !choices.is_empty() {
            select.input id=(name) name=(name) { @for choice in choices {
                option value=(choice) selected[choice == text] { (said_of(choice)) }
            } }
        } @else if let Some(most) = most {
            input.input id=(name) name=(name) type="number" min="1" max=(most) value=(text);
        } @else {
            input.input id=(name) name=(name) value=(text) autocomplete="off";
        }
    }
}

/// The word of a choice for people.
fn said_of(choice: &str) -> &str {
    match choice {
        "true" => "on",
        "false" => "off",
        other => other,
    }
}

/// A value as a form has it; nothing for none.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What keeps an agent from writing outside its folders, in words.
fn confined(by: ConfinedBy) -> (Tone, &'static str) {
    match by {
        ConfinedBy::FilesAndPorts => (Tone::Proved, "Landlock: files and TCP ports"),
        ConfinedBy::Files => (Tone::Proved, "Landlock: files"),
        ConfinedBy::OwnSandbox => (Tone::Plain, "its own sandbox"),
        ConfinedBy::OwnSwitches => (Tone::Late, "its own switches only"),
        ConfinedBy::NoRun => (Tone::Failed, "cannot be confined here, so it does not start"),
    }
}

fn executors(wired: &Wired) -> Markup {
    let about = html! { "agents that this server can start" };
    if wired.executors.is_empty() {
        let body = html! {
            p.box-body.soft { "This server starts no agents. Its settings name " bdi { (wired.names.join(", ")) } "." }
        };
        return section("executors", "Executors", &about, &body);
    }
    let body = html! {
        table.table.executors {
            thead { tr {
                th scope="col" { "Name" } th scope="col" { "Program" } th scope="col" { "Confined by" }
                th scope="col" { "Variables it gets" }
            } }
            tbody { @for one in &wired.executors {
                @let (tone, words) = confined(one.confined);
                tr {
                    td { bdi { (one.name) } }
                    td { code { (one.program) } " " @match one.is_found {
                        true => (tag(Tone::Proved, "found")),
                        false => (tag(Tone::Quiet, "not on PATH")),
                    } }
                    td class=(tone.class()) { span.tone { (words) } }
                    td.faint { @match one.variables.len() {
                        0 => "the usual ones",
                        many => details {
                            summary { "the usual ones and " (many) " more" }
                            code { (one.variables.join(" ")) }
                        },
                    } }
                }
            } }
        }
    };
    section("executors", "Executors", &about, &body)
}

fn you(page: &Page) -> Markup {
    let theme = cookie_of(&page.headers, "callboard_theme").unwrap_or("system");
    let keys = cookie_of(&page.headers, "callboard_keys").unwrap_or("on");
    let choice = |name: &str, label: &str, now: &str, all: &[(&str, &str)]| {
        html! {
            div.field {
                label for={ "you-" (name) } { (label) }
                select.input id={ "you-" (name) } name=(name) { @for (value, words) in all {
                    option value=(value) selected[*value == now] { (words) }
                } }
            }
        }
    };
    let body = match page.acts() {
        false => {
            html! { p.box-body.soft { "Sign in to choose a theme. Pages follow the system until then." } }
        }
        true => html! {
            form.box-body.stack-tight method="post" action="/settings/you" {
                div.row {
                    (choice("theme", "Theme", theme, &[("system", "as the system"), ("light", "light"), ("dark", "dark")]))
                    (choice("keys", "Single-letter keys", keys, &[("on", "on"), ("off", "off")]))
                }
                div { button.button { "Save for this browser" } }
            }
        },
    };
    section("you", "You", &html! { "kept in this browser" }, &body)
}

/// Carries out a form of the page.
pub(super) async fn act(
    page: Page,
    doctor: DoctorHere,
    Path(verb): Path<String>,
    Form(form): Form<HashMap<String, String>>,
) -> Response {
    let fault = |error: EngineError| {
        let (status, words) = said(&error);
        (status, SettingsSaid::Fault { words, form: form.clone() })
    };
    let (status, words) = match verb.as_str() {
        "look" => {
            if let Some(Extension(doctor)) = doctor {
                doctor.lines(true).await;
            }
            return done("/settings#doctor", "The server looked again.");
        }
        "clients" => {
            if let Some(Extension(doctor)) = doctor {
                doctor.clients(true).await;
            }
            return done("/settings#clients", "The server looks at the clients again.");
        }
        "you" => return chosen(&form),
        "update" => match update(&page, &form).await {
            Ok(words) => return done("/settings#general", &words),
            Err(error) => fault(error),
        },
        "token" => match super::settings_tokens::add(&page, &form).await {
            Ok(made) => (StatusCode::OK, SettingsSaid::Token(Box::new(made))),
            Err(error) => fault(error),
        },
        "revoke" => match super::settings_tokens::revoke(&page, &form).await {
            Ok(words) => return done("/settings#tokens", &words),
            Err(error) => fault(error),
        },
        _ => fault(Refusal::invalid("this form is unknown; open the page again").into()),
    };
    shown(&page, doctor, status, words, &SettingsRequest::default()).await
}

/// Sends a message once more.
pub(super) async fn redeliver(page: Page, doctor: DoctorHere, Path(job): Path<String>) -> Response {
    let again = async {
        page.judge_admin("redeliver")?;
        let unknown = || Refusal::JobNotFound { job: "no such message".into() };
        let job = job.parse().map_err(|_| EngineError::from(unknown()))?;
        page.engine.delivery_again(&page.op(), job).await
    };
    match again.await {
        Ok(()) => done("/settings#webhooks", "The message is sent again."),
        Err(error) => {
            let (status, words) = said(&error);
            let words = SettingsSaid::Fault { words, form: HashMap::new() };
            shown(&page, doctor, status, words, &SettingsRequest::default()).await
        }
    }
}

/// Keeps the choices of this browser.
fn chosen(form: &HashMap<String, String>) -> Response {
    let mut response = done("/settings#you", "Kept for this browser.");
    let known = [("theme", ["system", "light", "dark"].as_slice()), ("keys", &["on", "off"])];
    for (name, values) in known {
        let Some(value) = form.get(name).filter(|value| values.contains(&value.as_str())) else {
            continue;
        };
        let cookie = format!(
            "callboard_{name}={value}; Path=/; Max-Age={COOKIE_LIVES_S}; HttpOnly; SameSite=Strict"
        );
        let cookie = HeaderValue::try_from(cookie).expect("the values are plain words");
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// Changes the settings that differ from the page.
async fn update(page: &Page, form: &HashMap<String, String>) -> Result<String, EngineError> {
    page.judge_admin("settings_update")?;
    let op = page.op();
    let now = page.engine.settings_seen(&op).await?;
    let changed = now.iter().filter_map(|setting| {
        let given = form.get(setting.key.as_str())?.trim();
        (given != text_of(&setting.value)).then(|| (setting.key, Value::from(given)))
    });
    let changed: Vec<_> = changed.collect();
    if changed.is_empty() {
        return Ok("Nothing was changed.".into());
    }
    let updated = page.engine.settings_update(&op, changed).await?;
    let keys: Vec<&str> = updated.updated.iter().map(|(key, _)| key.as_str()).collect();
    Ok(format!("Saved: {}.", keys.join(", ")))
}
