//! How people sign in: the form for a token, the address with a code, and the pages that must be reachable before that.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Form, Router};
use callboard_engine::PageText;
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Chosen, document};
use super::parts::icon;
use super::{assets, inside, is_foreign};
use crate::http::{Connection, Gate};

pub(crate) fn routes(gate: Arc<Gate>) -> Router {
    Router::new()
        .route("/login", get(sign_in).post(login))
        .route("/logout", post(logout))
        .route("/open", get(open))
        .with_state(gate)
        .merge(assets::routes())
}

#[derive(Deserialize)]
struct Login {
    token: String,
    #[serde(default)]
    next: String,
}

#[derive(Deserialize)]
struct SignInRequest {
    /// The page to go on with.
    #[serde(default)]
    next: String,
}

/// The form for a token, for readers who come by its address.
async fn sign_in(Query(asked): Query<SignInRequest>) -> Response {
    login_page(StatusCode::OK, None, &asked.next)
}

async fn login(
    State(gate): State<Arc<Gate>>,
    Extension(connection): Extension<Arc<Connection>>,
    headers: HeaderMap,
    Form(login): Form<Login>,
) -> Response {
    match gate.sign_in(login.token.trim(), &connection).await {
        Ok(session) => {
            let cookie = cookies(&gate, Some(&session), &headers);
            (cookie, Redirect::to(inside(&login.next))).into_response()
        }
        Err((status, words)) => login_page(status, Some(words), &login.next),
    }
}

async fn logout(State(gate): State<Arc<Gate>>, headers: HeaderMap) -> Response {
    match gate.sign_out(&headers).await {
        Ok(()) => {
            let cookie = cookies(&gate, None, &headers);
            (cookie, Redirect::to("/")).into_response()
        }
        Err((status, words)) => refused_page(status, words),
    }
}

/// The cookies that keep or remove a session. Earlier versions kept the token itself in a cookie, which browsers send
/// to every program on this host name until the cookie ends.
fn cookies(
    gate: &Gate,
    session: Option<&PageText>,
    headers: &HeaderMap,
) -> AppendHeaders<[(HeaderName, HeaderValue); 2]> {
    let former = HeaderValue::from_static("callboard_token=; Path=/; Max-Age=0");
    let cookie = gate.cookie(session, headers);
    AppendHeaders([(header::SET_COOKIE, cookie), (header::SET_COOKIE, former)])
}

#[derive(Deserialize)]
struct Code {
    #[serde(default)]
    code: String,
}

/// Opens a session by a code. The code stays in no history and in no `Referer`: the answer redirects, and is not
/// cached.
async fn open(
    State(gate): State<Arc<Gate>>,
    Extension(connection): Extension<Arc<Connection>>,
    method: Method,
    headers: HeaderMap,
    Query(Code { code }): Query<Code>,
) -> Response {
    if method != Method::GET {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let mut response = match gate.open(&code, &connection).await {
        Ok(session) => {
            let cookie = cookies(&gate, Some(&session), &headers);
            // Browsers withhold the cookie from a redirect that began on another site, like the page of a terminal in a
            // browser.
            let next = match is_foreign(&headers) {
                false => Redirect::to("/").into_response(),
                true => {
                    let content = html! { p { a href="/" { "Open the board" } } };
                    alone(StatusCode::OK, "Signed in", &content)
                }
            };
            (cookie, next).into_response()
        }
        Err((status, words)) => {
            let content = html! {
                p.fault role="alert" { (words) }
                p { a href="/" { "Read the board" } }
            };
            alone(status, "Not signed in", &content)
        }
    };
    let kept = response.headers_mut();
    kept.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    kept.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A page outside the frame, for readers who are not signed in.
fn alone(status: StatusCode, title: &str, content: &Markup) -> Response {
    let body = html! {
        main.alone {
            p.row { (icon("mark")) b { "Callboard" } }
            div.box { div.box-body.stack { h1 { (title) } (content) } }
        }
    };
    document(status, title, "Callboard", Chosen::default(), None, None, &body)
}

/// A page of one sentence for people who are refused, or whose form is.
pub(crate) fn refused_page(status: StatusCode, words: &str) -> Response {
    let content = html! { p.fault role="alert" { (words) } };
    alone(status, "Not allowed", &content)
}

pub(crate) fn login_page(status: StatusCode, words: Option<&str>, next: &str) -> Response {
    let content = html! {
        @if let Some(words) = words { p.fault role="alert" { (words) } }
        p.soft { "Once a board has a token, only the owners of its tokens may open it." }
        form.stack method="post" action="/login" {
            div.field {
                label for="token" { "Token" }
                input.input.mono #token name="token" type="password" autocomplete="off" required autofocus;
            }
            input type="hidden" name="next" value=(inside(next));
            div { button.button.button-main { "Open the board" } }
        }
        div.stack-tight.soft {
            p { "No token yet? The person who runs the server makes one:" }
            pre.code { "callboard token add --actor human:NAME" }
            p { "On the server's own machine no token is needed:" }
            pre.code { "callboard open" }
        }
    };
    alone(status, "Sign in", &content)
}
