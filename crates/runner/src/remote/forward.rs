//! Forwards standard input and output of an agent that speaks only stdio to a board over HTTP.
//!
//! Each line is a message and is sent by itself; each message that comes back is a line. A broken connection becomes an
//! error answer: nothing is sent twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use callboard_domain::surrogate::whole_pairs;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{RemoteBoard, RemoteFault, modern_version};

/// How long running calls may go on after the input ended, as in a stdio server.
const CLEAN_UP: Duration = Duration::from_secs(5);
const GOODBYE: Duration = Duration::from_secs(1);
const PARSE_ERROR: i32 = -32700;

/// Forwards messages until the input ends, `stop` is cancelled, or the server accepts no more. A server that answered
/// nothing at all is a fault.
pub async fn forward(
    board: RemoteBoard,
    input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), RemoteFault> {
    let line = Arc::new(BoardLink {
        board,
        output: tokio::sync::Mutex::new(Box::new(output)),
        running: Mutex::default(),
        met: Mutex::default(),
        over: CancellationToken::new(),
    });
    let mut tasks = JoinSet::new();
    let mut input = BufReader::new(input);
    let mut text = Vec::new();
    let everything = async {
        while input.read_until(b'\n', &mut text).await.is_ok_and(|bytes| bytes > 0) {
            let words = text.trim_ascii();
            if !words.is_empty() {
                match serde_json::from_slice::<Value>(&whole_pairs(words)) {
                    Ok(message) => line.take(message, &mut tasks).await,
                    Err(error) => {
                        let error = json!({"code": PARSE_ERROR, "message": error.to_string()});
                        let id = id_of(words);
                        line.say(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
                    }
                }
            }
            text.clear();
            while tasks.try_join_next().is_some() {}
        }
    };
    tokio::select! {
        () = everything => {}
        () = line.over.cancelled() => {}
        () = stop.cancelled() => {}
    }
    let answered = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        _ = tokio::time::timeout(CLEAN_UP, answered) => {}
        () = line.over.cancelled() => {}
    }
    tasks.shutdown().await;
    let _ = tokio::time::timeout(GOODBYE, line.board.close()).await;
    let met = line.met.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match met {
        Met::Fault(fault) => Err(fault),
        Met::Nobody | Met::Board => Ok(()),
    }
}

/// The id of a line that is JSON by its grammar but cannot be read: its sender waits for an answer with that id.
fn id_of(line: &[u8]) -> Value {
    #[derive(Deserialize)]
    struct UnreadLine {
        id: Value,
    }
    let id = serde_json::from_slice(line).map(|UnreadLine { id }| id).unwrap_or_default();
    if id.is_string() || id.is_number() { id } else { Value::Null }
}

/// What the forwarder knows of the server.
#[derive(Clone, Default)]
enum Met {
    #[default]
    Nobody,
    Board,
    /// The server never answered, or answers no more.
    Fault(RemoteFault),
}

struct BoardLink {
    board: RemoteBoard,
    output: tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Requests under way, by their ids as JSON.
    running: Mutex<HashMap<String, CancellationToken>>,
    met: Mutex<Met>,
    over: CancellationToken,
}

impl BoardLink {
    /// Handles one message of the client. An `initialize` or a notification is sent before the next line is read, so
    /// that the server gets them in order; other requests run concurrently.
    async fn take(self: &Arc<Self>, message: Value, tasks: &mut JoinSet<()>) {
        let method = message["method"].as_str().unwrap_or_default();
        let is_request = message.get("method").is_some() && message.get("id").is_some();
        if method == "initialize" {
            return self.ask(message).await;
        }
        if is_request {
            let line = self.clone();
            // Registered before the next line is read, which may cancel the request.
            let cancel = line.begin(&message["id"]);
            tasks.spawn(async move {
                let id = message["id"].clone();
                tokio::select! {
                    () = cancel.cancelled() => {}
                    () = line.ask(message) => {}
                }
                line.running().remove(&id.to_string());
            });
            return;
        }
        let began = method == "notifications/initialized";
        if method == "notifications/cancelled" {
            let id = message["params"]["requestId"].to_string();
            if let Some(running) = self.running().remove(&id) {
                // In the modern era, closing the connection cancels a request.
                running.cancel();
            }
        }
        // Without a session the server has no state to notify.
        if self.board.session().id.is_none() || modern_version(&message).is_some() {
            return;
        }
        if let Err(fault) = self.board.send(&message).await {
            return self.note(fault);
        }
        if began {
            let line = self.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = line.listen() => {}
                    () = line.over.cancelled() => {}
                }
            });
        }
    }

    async fn listen(&self) {
        let Some(mut events) = self.board.listen().await else { return };
        while let Ok(Some(said)) = events.next().await {
            self.say(&said).await;
        }
    }

    fn begin(&self, id: &Value) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.running().insert(id.to_string(), cancel.clone());
        cancel
    }

    async fn ask(&self, message: Value) {
        match self.asked(&message).await {
            Ok(()) => self.meet(Met::Board),
            Err(fault) => {
                self.say(&fault.answer(&message["id"])).await;
                self.note(fault);
            }
        }
    }

    async fn asked(&self, message: &Value) -> Result<(), RemoteFault> {
        let mut replies = self.board.ask(message).await?;
        while let Some(said) = replies.next().await? {
            self.say(&said).await;
        }
        Ok(())
    }

    fn note(&self, fault: RemoteFault) {
        let is_final = fault.is_final();
        let is_news = is_final || !matches!(*self.met(), Met::Board);
        if is_news {
            self.meet(Met::Fault(fault));
        }
        if is_final {
            self.over.cancel();
        }
    }

    async fn say(&self, message: &Value) {
        let mut output = self.output.lock().await;
        let text = format!("{message}\n");
        let written = async {
            output.write_all(text.as_bytes()).await?;
            output.flush().await
        };
        if written.await.is_err() {
            // The reader of the output is gone.
            self.over.cancel();
        }
    }

    fn meet(&self, met: Met) {
        *self.met() = met;
    }

    fn met(&self) -> std::sync::MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
