//! The pages for people: tasks, mail, agents, decisions, and the sign-in form. Plain HTML that works without a script;
//! one small script of our own shows changes without a reload.
//!
//! Text of agents is hostile until shown: `maud` escapes every text, and the content security policy lets no other
//! script run and nothing load from elsewhere. Reading changes nothing; every change is a form, which only one of these
//! pages may send, for a signed-in person.

mod agents;
mod decisions;
mod login;
mod mail;
mod tasks;

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use callboard_domain::crew::AgentId;
use callboard_domain::event::EventName;
use callboard_domain::refusal::Refusal;
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{Engine, EngineError};
use maud::{DOCTYPE, Markup, html};

use crate::http::{SignIn, refusal};
use callboard_engine::time::rfc3339_ms;
pub(crate) use login::{login_page, refused_page, routes as login_routes};

const CONTENT_POLICY: &str = "default-src 'self'; script-src 'self'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'";
/// With a stricter policy, browsers do not say that a form comes from here.
const REFERRER_POLICY: &str = "same-origin";

/// A part of the board that has a place in the navigation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tab {
    Tasks,
    Mail,
    Agents,
    Decisions,
}

impl Tab {
    const ALL: [Tab; 4] = [Tab::Tasks, Tab::Mail, Tab::Agents, Tab::Decisions];

    fn path(self) -> &'static str {
        match self {
            Tab::Tasks => "/",
            Tab::Mail => "/mail",
            Tab::Agents => "/agents",
            Tab::Decisions => "/decisions",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Tab::Tasks => "Tasks",
            Tab::Mail => "Mail",
            Tab::Agents => "Agents",
            Tab::Decisions => "Decisions",
        }
    }

    /// The events after which its pages may look different.
    fn concerned(self) -> &'static [EventName] {
        match self {
            Tab::Tasks => TASK_EVENTS,
            Tab::Mail => &[EventName::MailSent, EventName::MailRead],
            Tab::Agents => AGENT_EVENTS,
            Tab::Decisions => &[EventName::DecisionLogged],
        }
    }
}

const TASK_EVENTS: &[EventName] = &[
    EventName::TaskCreated,
    EventName::TaskUpdated,
    EventName::TaskDeleted,
    EventName::TaskCompleted,
    EventName::TaskCanceled,
    EventName::TaskReopened,
    EventName::TaskClaimed,
    EventName::TaskReleased,
    EventName::TaskStatusChanged,
    EventName::TaskReady,
    EventName::TaskNoted,
    EventName::TaskTold,
    EventName::TaskHeard,
    EventName::TaskBlocked,
    EventName::TaskUnblocked,
    EventName::CheckRan,
    EventName::CheckAttested,
    EventName::AttemptStarted,
    EventName::AttemptEnded,
    EventName::CommentAdded,
    EventName::EpicStatusChanged,
    EventName::EpicCompleted,
];

const AGENT_EVENTS: &[EventName] = &[
    EventName::AgentAdded,
    EventName::AgentRemoved,
    EventName::AgentFreed,
    EventName::TaskAssigned,
    EventName::TaskStatusChanged,
    EventName::TaskCompleted,
    EventName::TaskCanceled,
    EventName::EpicStatusChanged,
    EventName::EpicCompleted,
];

/// One page for one reader.
struct Page {
    engine: Arc<Engine>,
    reader: Principal,
    sign_in: SignIn,
    /// The last event of the org before the page was read: the page is notified of later ones. `None` when the log
    /// cannot be read.
    seen: Option<u64>,
}

impl<S: Send + Sync> FromRequestParts<S> for Page
where
    Arc<Engine>: FromRef<S>,
{
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, StatusCode> {
        let reader = parts.extensions.get::<Principal>().cloned();
        // The gate admits no request without a principal.
        let reader = reader.ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
        let sign_in = parts.extensions.get().copied().unwrap_or(SignIn::Local);
        let engine = Arc::<Engine>::from_ref(state);
        let seen = engine.last_seq_in(&reader.org).await.ok();
        Ok(Self { engine, reader, sign_in, seen })
    }
}

/// Whether a path accepts page sessions, and answers under the pages' own name. All other paths are for agents and
/// programs.
pub(crate) fn is_for_people(path: &str) -> bool {
    const PAGES: [&str; 10] = [
        "/tasks",
        "/mail",
        "/agents",
        "/decisions",
        "/events",
        "/login",
        "/logout",
        "/open",
        "/style.css",
        "/live.js",
    ];
    let is_below = |page: &&str| path.strip_prefix(*page).is_some_and(|rest| rest.starts_with('/'));
    path == "/" || PAGES.iter().any(|page| path == *page || is_below(page))
}

/// All pages, read with the rights of the caller.
pub fn routes(engine: Arc<Engine>) -> Router {
    Router::new()
        .route("/", get(tasks::list))
        .route("/tasks/{id}", get(tasks::show))
        .route("/mail", get(mail::list).post(mail::send))
        .route("/mail/{id}", get(mail::show))
        .route("/mail/{id}/read", post(mail::read))
        .route("/mail/{id}/reply", post(mail::reply))
        .route("/agents", get(agents::list))
        .route("/decisions", get(decisions::list))
        .layer(middleware::from_fn(signed_in))
        .layer(middleware::from_fn(from_here))
        .with_state(engine)
}

/// Refuses a form that was not sent from one of our own pages; `Origin` was judged before. A client that is no browser
/// sends neither header.
async fn from_here(request: Request, next: Next) -> Response {
    if request.method() != Method::GET
        && request.method() != Method::HEAD
        && is_foreign(request.headers())
    {
        let words = "this form was sent from another site; open the board and send it from there";
        return refusal(StatusCode::FORBIDDEN, "ORIGIN_NOT_ALLOWED", words);
    }
    next.run(request).await
}

/// The local user reads without signing in, as every program of that user can. A form needs a sign-in, which shows that
/// a person at the terminal opened the page.
async fn signed_in(request: Request, next: Next) -> Response {
    let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
    match request.extensions().get() {
        Some(SignIn::Token | SignIn::Session) => next.run(request).await,
        _ if is_read => next.run(request).await,
        _ => refused_page(StatusCode::FORBIDDEN, NOT_SIGNED_IN),
    }
}

const NOT_SIGNED_IN: &str = "Nothing was changed, because you are not signed in: run callboard open in a terminal \
     and use the address that it prints.";

fn is_foreign(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

impl Page {
    fn op(&self) -> OpContext {
        OpContext::new(self.reader.clone(), "web")
    }

    /// Whether forms of this reader are accepted; otherwise none is shown.
    fn acts(&self) -> bool {
        self.sign_in != SignIn::Local
    }

    /// The reader's inbox: people share one, an agent has its own.
    fn inbox(&self) -> Option<AgentId> {
        let actor = &self.reader.actor;
        (!actor.is_human()).then(|| AgentId::of(actor))
    }

    async fn failure(&self, tab: Tab, error: &EngineError) -> Response {
        let (status, words) = said(error);
        let content = html! {
            p role="alert" { (words) }
            p { a href=(tab.path()) { "All " (tab.title().to_lowercase()) } }
        };
        let mut response = self.answer(tab, status, "Not shown", &content).await;
        if let EngineError::Refused(Refusal::AuthorizationDenied { scope, .. }) = error {
            let bearer = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            let bearer = HeaderValue::try_from(bearer).expect("scopes are plain words");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }

    async fn answer(
        &self,
        tab: Tab,
        status: StatusCode,
        title: &str,
        content: &Markup,
    ) -> Response {
        // An org without a task has no project yet, and a store that is away names none.
        let project = self.engine.project_of(&self.reader).await.ok().flatten();
        let unread = self.engine.mail_unread(&self.op(), self.inbox().as_ref()).await.ok();
        let about = html! {
            @if let Some(project) = &project { span.project { (project.name) } }
            nav aria-label="Board" { @for item in Tab::ALL {
                a href=(item.path()) aria-current=[(item == tab).then_some("page")] {
                    (item.title())
                }
                @if item == Tab::Mail {
                    span #unread data-live role="status" {
                        @if let Some(unread) = unread.filter(|unread| *unread > 0) {
                            (unread) " unread"
                        }
                    }
                }
            } }
            @match self.sign_in {
                SignIn::Session => form.logout method="post" action="/logout" {
                    (self.reader.actor) " " button { "Sign out" }
                },
                SignIn::Token => span.logout { (self.reader.actor) },
                SignIn::Local => span.logout { "read only: " code { "callboard open" } " signs you in" },
            }
        };
        document(status, title, self.seen.map(|seen| (tab, seen)), &about, content)
    }
}

/// The message for a person about an error, and its status.
fn said(error: &EngineError) -> (StatusCode, String) {
    match error {
        EngineError::Refused(refusal) => {
            let status = match refusal {
                Refusal::TaskNotFound { .. }
                | Refusal::MailNotFound { .. }
                | Refusal::AgentNotFound { .. } => StatusCode::NOT_FOUND,
                Refusal::InvalidInput { .. } => StatusCode::BAD_REQUEST,
                _ => StatusCode::FORBIDDEN,
            };
            (status, refusal.message())
        }
        EngineError::Unavailable(words) => (StatusCode::SERVICE_UNAVAILABLE, words.clone()),
        EngineError::Git(words) => (StatusCode::INTERNAL_SERVER_ERROR, words.clone()),
        EngineError::Canceled => (StatusCode::SERVICE_UNAVAILABLE, "canceled".into()),
        EngineError::Damaged(words) => {
            tracing::error!(error = words, "the database is damaged");
            (StatusCode::INTERNAL_SERVER_ERROR, words.clone())
        }
        EngineError::Internal(words) => {
            tracing::error!(error = words, "a page failed");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "an internal error occurred; the server's log has it".into(),
            )
        }
    }
}

fn document(
    status: StatusCode,
    title: &str,
    live: Option<(Tab, u64)>,
    about: &Markup,
    content: &Markup,
) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Callboard" }
                link rel="stylesheet" href="/style.css";
                @if live.is_some() { script src="/live.js" defer {} }
            }
            body data-stream=[live.map(|_| stream())] data-seen=[live.map(|(_, seen)| seen)]
                data-events=[live.map(|(tab, _)| concerned(tab))] {
                header { a.home href="/" { "Callboard" } (about) }
                main { h1 { (title) } (content) }
            }
        }
    };
    let headers = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, REFERRER_POLICY),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, Html(page.into_string())).into_response()
}

/// The one stream that all open pages share.
fn stream() -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in Tab::ALL.iter().flat_map(|tab| tab.concerned()) {
        if !names.contains(&name.as_str()) {
            names.push(name.as_str());
        }
    }
    format!("/events?names={}", names.join(","))
}

/// The events after which a page is renewed; the navigation of every page counts mail.
fn concerned(tab: Tab) -> String {
    let names = tab.concerned().iter().chain(Tab::Mail.concerned());
    names.map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
}

fn time(at: Timestamp) -> Markup {
    let text = rfc3339_ms(at);
    html! { time datetime=(text) { (text) } }
}

/// The target of a form, which cannot lead to another site.
fn inside(path: &str) -> &str {
    // Browsers drop tabs and line ends from an address before they parse it.
    let is_odd = |c: char| c == '\\' || c.is_control();
    if path.starts_with('/') && !path.starts_with("//") && !path.contains(is_odd) {
        path
    } else {
        "/"
    }
}

/// Static assets are served with `no-cache`, so a new binary is never shown with an old stylesheet.
fn plain(kind: &'static str, text: &'static str) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    (headers, text).into_response()
}
