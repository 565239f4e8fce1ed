//! The form that asks for a token, and what somebody without one must be able to reach.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Form, Router};
use maud::html;
use serde::Deserialize;

use super::{document, inside, plain};
use crate::http::{Connection, Gate};

const STYLE: &str = include_str!("style.css");
const LIVE: &str = include_str!("live.js");

pub(crate) fn routes(gate: Arc<Gate>) -> Router {
    Router::new()
        .route("/login", post(login))
        .route("/logout", post(logout))
        .route("/style.css", get(async || plain("text/css; charset=utf-8", STYLE)))
        .route("/live.js", get(async || plain("text/javascript; charset=utf-8", LIVE)))
        .with_state(gate)
}

#[derive(Deserialize)]
struct Login {
    token: String,
    #[serde(default)]
    next: String,
}

async fn login(
    State(gate): State<Arc<Gate>>,
    Extension(connection): Extension<Arc<Connection>>,
    Form(login): Form<Login>,
) -> Response {
    let token = login.token.trim();
    if let Err((status, words)) = gate.opens(token, &connection).await {
        return login_page(status, Some(words), &login.next);
    }
    let cookie = [(header::SET_COOKIE, gate.cookie(Some(token)))];
    (cookie, Redirect::to(inside(&login.next))).into_response()
}

async fn logout(State(gate): State<Arc<Gate>>) -> Response {
    ([(header::SET_COOKIE, gate.cookie(None))], Redirect::to("/")).into_response()
}

pub(crate) fn login_page(status: StatusCode, words: Option<&str>, next: &str) -> Response {
    let content = html! {
        @if let Some(words) = words { p.fail role="alert" { (words) } }
        form.login method="post" action="/login" {
            label for="token" { "Token" }
            input #token name="token" type="password" autocomplete="off" required autofocus;
            input type="hidden" name="next" value=(inside(next));
            button { "Open the board" }
        }
        p { code { "callboard token add --actor human:NAME" } " makes one." }
    };
    document(status, "Sign in", None, &html! {}, &content)
}
