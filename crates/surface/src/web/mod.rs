//! The pages for people: a file for each screen, and the sign-in form. Plain HTML that works without a script; small scripts
//! of our own show changes without a reload and press buttons by key.
//!
//! Text of agents is hostile until shown: `maud` escapes every text, and the content security policy lets no other
//! script run and nothing load from elsewhere. Reading changes nothing; every change is a form, which only one of these
//! pages may send, for a signed-in person.

mod agent;
mod agents;
mod assets;
mod audit;
mod board;
mod board_bulk;
mod chart;
mod confirm;
mod decisions;
pub mod diff;
mod doctor;
mod events;
mod frame;
mod graph;
mod graph_layout;
mod inbox;
mod inbox_matter;
mod job;
mod job_facts;
mod job_log;
mod job_steps;
mod job_verbs;
mod jobs;
mod knowledge;
pub mod log;
mod login;
mod mail;
mod mail_rows;
mod packed;
mod parts;
mod plan;
mod plans;
mod project;
pub mod query;
mod review;
mod review_bar;
mod review_checks;
mod review_conflict;
mod review_diff;
mod review_merge;
mod review_panels;
mod review_refused;
mod review_verbs;
mod search;
mod settings;
mod settings_tokens;
mod settings_webhooks;
mod stats;
mod stats_by;
mod task;
mod task_comments;
mod task_feed;
mod task_form;
mod task_new;
mod task_new_deps;
mod task_side;
mod task_verbs;
mod timeline;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{FromRef, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use callboard_domain::crew::AgentId;
use callboard_domain::refusal::Refusal;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{Engine, EngineError};
use maud::html;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::http::{SignIn, refusal};
pub use assets::style;
use diff::PaintShop;
pub use doctor::{Doctor, DoctorLine, DoctorWord};
use frame::{Screen, View};
pub(crate) use login::{login_page, refused_page, routes as login_routes};
use parts::{Tone, icon, note};
use query::address;

const CONTENT_POLICY: &str = "default-src 'self'; script-src 'self'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'";
/// With a stricter policy, browsers do not say that a form comes from here.
const REFERRER_POLICY: &str = "same-origin";

/// One page for one reader.
struct Page {
    engine: Arc<Engine>,
    reader: Principal,
    sign_in: SignIn,
    headers: HeaderMap,
    /// The path of the address.
    path: String,
    /// The last event of the org before the page was read: the page is notified of later ones. `None` when the log
    /// cannot be read.
    seen: Option<u64>,
    /// The worst word of the last look of `callboard doctor`, and how many lines have that word; `None` when all is well.
    health: Option<(DoctorWord, usize)>,
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
        let doctor = parts.extensions.get::<Arc<Doctor>>();
        let health = doctor.and_then(|doctor| doctor.worst());
        let engine = Arc::<Engine>::from_ref(state);
        let seen = engine.last_seq_in(&reader.org).await.ok();
        let (headers, path) = (parts.headers.clone(), parts.uri.path().to_owned());
        Ok(Self { engine, reader, sign_in, headers, path, seen, health })
    }
}

/// Whether a path accepts page sessions, and answers under the pages' own name. All other paths are for agents and
/// programs.
pub(crate) fn is_for_people(path: &str) -> bool {
    const PAGES: &[&str] = &[
        "/agents",
        "/audit",
        "/audit.ndjson",
        "/board",
        "/decisions",
        "/events",
        "/inbox",
        "/jobs",
        "/knowledge",
        "/graph",
        "/login",
        "/logout",
        "/mail",
        "/open",
        "/search",
        "/plans",
        "/projects",
        "/settings",
        "/stats",
        "/tasks",
    ];
    let is_below = |page: &&str| path.strip_prefix(*page).is_some_and(|rest| rest.starts_with('/'));
    let is_page = path == "/" || PAGES.iter().any(|page| path == *page || is_below(page));
    is_page || assets::is_asset(path)
}

/// All pages, read with the rights of the caller.
pub fn routes(engine: Arc<Engine>) -> Router {
    Router::new()
        .route("/", get(inbox::show))
        .route("/inbox/snooze", post(inbox::snooze))
        .route("/board", get(board::show))
        .route("/board/bulk", post(board_bulk::bulk))
        .route("/tasks/new", get(task_new::new).post(task_new::create))
        .route("/tasks/{id}", get(task::show))
        .route("/tasks/{id}/review", get(review::show))
        .route("/tasks/{id}/review/{verb}", post(review_verbs::act))
        .route("/tasks/{id}/checks/{index}", get(review_checks::log_page))
        .route("/tasks/{id}/{verb}", post(task_verbs::act))
        .route("/search", get(search::show))
        .route("/mail", get(mail::list).post(mail::send))
        .route("/mail/{id}", get(mail::show))
        .route("/mail/{id}/read", post(mail::read))
        .route("/mail/{id}/reply", post(mail::reply))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{id}", get(job::show))
        .route("/jobs/{id}/{verb}", post(job_verbs::act))
        .route("/jobs/{id}/files/{name}", get(job_facts::file))
        .route("/knowledge", get(knowledge::list).post(knowledge::keep))
        .route("/agents", get(agents::list).post(agents::add))
        .route("/agents/{name}", get(agent::show))
        .route("/agents/{name}/{verb}", post(agent::act))
        .route("/graph", get(graph::show))
        .route("/plans", get(plans::list))
        .route("/plans/{id}", get(plan::show))
        .route("/plans/{id}/{verb}", post(plan::act))
        .route("/projects/open", post(project::open))
        .route("/audit", get(audit::list))
        .route("/audit.ndjson", get(audit::export))
        .route("/decisions", get(decisions::list))
        .route("/stats", get(stats::show))
        .route("/settings", get(settings::show))
        .route("/settings/{verb}", post(settings::act))
        .route("/settings/redeliver/{job}", post(settings::redeliver))
        .layer(middleware::from_fn(signed_in))
        .layer(middleware::from_fn(from_here))
        .layer(middleware::from_fn(packed::pages))
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

    /// The classes of code, kept for all readers.
    fn paints(&self) -> &'static PaintShop {
        static PAINTS: LazyLock<PaintShop> = LazyLock::new(PaintShop::default);
        &PAINTS
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

    /// The page of an error: the message, and the way out.
    async fn failure(&self, screen: Screen, error: &EngineError) -> Response {
        let (status, words) = said(error);
        let is_missing = status == StatusCode::NOT_FOUND;
        // `/tasks/SHOP-3/review`: the second part of the address is what the reader looked for.
        let wanted = self.path.split('/').nth(2).filter(|_| is_missing);
        let wanted = wanted.map(|part| percent_decode_str(part).decode_utf8_lossy());
        let words = html! {
            p role="alert" { (words) }
            p.row {
                a.button href=(screen.path()) { "To " (screen.title()) }
                @if let Some(wanted) = &wanted {
                    a.button href={ "/search" (address(&[], &[("q", wanted.as_ref())])) } { (icon("search")) "Search for it" }
                }
            }
        };
        let tone = if is_missing { Tone::Late } else { Tone::Failed };
        let content = html! { div.pad { (note(tone, "warn", &words)) } };
        let title = if is_missing { "Not found" } else { "Not shown" };
        let mut response = self.show(status, View::of(screen, title, content)).await;
        if let EngineError::Refused(Refusal::AuthorizationDenied { scope, .. }) = error {
            let bearer = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            let bearer = HeaderValue::try_from(bearer).expect("scopes are plain words");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

/// A cookie of the request.
fn cookie_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// The words about the form that led to this page.
fn flash(headers: &HeaderMap) -> Option<String> {
    let kept = cookie_of(headers, "callboard_flash")?;
    let words = percent_decode_str(kept).decode_utf8().ok().filter(|words| !words.is_empty())?;
    Some(words.chars().take(300).collect())
}

/// Redirects to a page, which then says these words once.
fn done(next: &str, words: &str) -> Response {
    let kept = utf8_percent_encode(words, NON_ALPHANUMERIC);
    let cookie = format!("callboard_flash={kept}; Path=/; Max-Age=30; HttpOnly; SameSite=Strict");
    let cookie = HeaderValue::try_from(cookie).expect("percent-encoded words are plain");
    ([(header::SET_COOKIE, cookie)], Redirect::to(inside(next))).into_response()
}

/// The message for a person about an error, and its status.
fn said(error: &EngineError) -> (StatusCode, String) {
    match error {
        EngineError::Refused(refusal) => {
            let status = match refusal {
                Refusal::TaskNotFound { .. }
                | Refusal::MailNotFound { .. }
                | Refusal::JobNotFound { .. }
                | Refusal::PlanNotFound { .. }
                | Refusal::CheckLogNotFound { .. }
                | Refusal::RemovedByRetention { .. }
                | Refusal::AgentNotFound { .. } => StatusCode::NOT_FOUND,
                Refusal::InvalidInput { .. } | Refusal::InvalidSetting { .. } => {
                    StatusCode::BAD_REQUEST
                }
                Refusal::ReviewDecided { .. }
                | Refusal::WorkMoved { .. }
                | Refusal::TaskChanged { .. } => StatusCode::CONFLICT,
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
