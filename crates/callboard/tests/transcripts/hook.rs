//! A receiver of webhooks: a server on loopback that answers as the transcript says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::post;
use standardwebhooks::Webhook;

/// A letter, and its answer.
pub struct Got {
    pub headers: HeaderMap,
    pub body: String,
    pub status: StatusCode,
}

#[derive(Default)]
struct Desk {
    /// The next answers; after them 200.
    answers: VecDeque<u16>,
    got: Vec<Got>,
}

pub struct Hook {
    pub url: String,
    desk: Arc<Mutex<Desk>>,
}

impl Hook {
    pub async fn open() -> Self {
        let desk = Arc::<Mutex<Desk>>::default();
        let app = Router::new().route("/", post(take)).with_state(desk.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, desk }
    }

    pub fn answers(&self, line: &str) {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        desk.answers =
            line.split_whitespace().map(|word| word.parse().expect("a status")).collect();
    }

    /// The letters since the last call.
    pub fn got(&self) -> Vec<Got> {
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut desk.got)
    }
}

async fn take(
    State(desk): State<Arc<Mutex<Desk>>>,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let mut desk = desk.lock().unwrap_or_else(PoisonError::into_inner);
    let status = StatusCode::from_u16(desk.answers.pop_front().unwrap_or(200)).expect("a status");
    let body = String::from_utf8(body.to_vec()).expect("text");
    desk.got.push(Got { headers, body, status });
    (status, [(header::LOCATION, "/")])
}

impl Got {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// Whether another implementation computes the same signature.
    pub fn is_signed(&self, secret: &str) -> bool {
        let judge = Webhook::new(secret).expect("a secret");
        let at = self.header("webhook-timestamp").parse().expect("seconds");
        let signed = judge.sign(self.header("webhook-id"), at, self.body.as_bytes());
        signed.expect("can be signed") == self.header("webhook-signature")
    }
}
