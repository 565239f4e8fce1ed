//! A fake forge on loopback: answers by path, and records its requests.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub struct FakeForge {
    pub url: String,
    desk: Arc<Desk>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Desk {
    /// The next replies of a path; the last one stays.
    replies: Mutex<HashMap<String, VecDeque<Reply>>>,
    seen: Mutex<Vec<Seen>>,
}

pub struct Seen {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    manner: Manner,
}

#[derive(Clone, Copy)]
enum Manner {
    Plain,
    /// Delays the reply.
    After(Duration),
    /// Sends its body and then nothing, without an end.
    Stalls,
    /// Sends its body again and again.
    Endless,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), manner: Manner::Plain }
    }

    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, body).with("content-type", "application/json; charset=utf-8")
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn after(self, wait: Duration) -> Self {
        Self { manner: Manner::After(wait), ..self }
    }

    pub fn stalling(self) -> Self {
        Self { manner: Manner::Stalls, ..self }
    }

    pub fn endless(self) -> Self {
        Self { manner: Manner::Endless, ..self }
    }
}

impl FakeForge {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let desk = Arc::<Desk>::default();
        let app = Router::new().fallback(answer).with_state(desk.clone());
        let serving = tokio::spawn(async move {
            axum::serve(listener, app).await.expect("serves");
        });
        Self { url, desk, serving }
    }

    /// The reply at a path with its query.
    pub fn on(&self, path: impl Into<String>, reply: Reply) {
        self.on_each(path, [reply]);
    }

    /// The replies to successive requests at a path; the last one stays.
    pub fn on_each(&self, path: impl Into<String>, replies: impl IntoIterator<Item = Reply>) {
        let replies = replies.into_iter().collect();
        self.desk.replies.lock().expect("no panic").insert(path.into(), replies);
    }

    /// Spreads a list over pages, linked as both forges do.
    pub fn on_pages(&self, path: &str, pages: &[String]) {
        for (page, body) in (1..).zip(pages) {
            let mut reply = Reply::ok(body.clone());
            let link = |page: usize, rel: &str| {
                format!("<{}{path}?per_page=100&page={page}>; rel=\"{rel}\"", self.url)
            };
            if page < pages.len() {
                let links = [link(page + 1, "next"), link(pages.len(), "last")];
                reply = reply.with("link", links.join(", "));
            } else if page > 1 {
                let links = [link(page - 1, "prev"), link(1, "first")];
                reply = reply.with("link", links.join(", "));
            }
            self.on(format!("{path}?per_page=100&page={page}"), reply);
        }
    }

    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.desk.seen.lock().expect("no panic"))
    }

    pub fn paths(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.path).collect()
    }
}

impl Drop for FakeForge {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.expect("a short body");
    let reply = desk.replies.lock().expect("no panic").get_mut(&path).and_then(|replies| {
        if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() }
    });
    desk.seen.lock().expect("no panic").push(Seen { method, path, headers, body });
    let not_found = || Reply::new(404, include_str!("github/not_found.json"));
    let reply = reply.unwrap_or_else(not_found);
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    let piece = stream::once(std::future::ready(Ok::<_, Infallible>(reply.body.clone())));
    let body = match reply.manner {
        Manner::Plain => Body::from(reply.body),
        Manner::After(wait) => {
            tokio::time::sleep(wait).await;
            Body::from(reply.body)
        }
        Manner::Stalls => Body::from_stream(piece.chain(stream::pending())),
        Manner::Endless => {
            Body::from_stream(stream::repeat_with(move || Ok::<_, Infallible>(reply.body.clone())))
        }
    };
    response.body(body).expect("a response")
}
