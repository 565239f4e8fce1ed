//! JSON-RPC, one message a line, over the pipes of a program. This file does not interpret messages.

use callboard_domain::surrogate::whole_pairs;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::ChildStdin;

use crate::process::Pipes;

pub(super) struct Wire {
    to: ChildStdin,
    from: BufReader<pipe::Receiver>,
    /// The part of a line that was read so far.
    line: Vec<u8>,
    /// The cap of a line. An agent must not fill this process's memory.
    line_bytes_max: usize,
    last_id: u64,
}

pub(super) enum Message {
    Answer {
        id: u64,
        /// The error is the agent's message.
        result: Result<Value, String>,
    },
    Notice {
        method: String,
        params: Value,
    },
    Request {
        id: Value,
        method: String,
        params: Value,
    },
}

impl Wire {
    pub(super) fn new(pipes: Pipes, line_bytes_max: usize) -> Self {
        let from = BufReader::new(pipes.from);
        Self { to: pipes.to, from, line: Vec::new(), line_bytes_max, last_id: 0 }
    }

    /// Sends a request and returns its id; `None` when the other side is gone.
    pub(super) async fn request(&mut self, method: &str, params: Value) -> Option<u64> {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&message).await.map(|()| id)
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) -> Option<()> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    /// Answers a request; a `result` of `None` says that the method is not known.
    pub(super) async fn answer(&mut self, id: Value, result: Option<Value>) -> Option<()> {
        let message = match result {
            Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => {
                let error = json!({"code": -32601, "message": "Method not found"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        self.send(&message).await
    }

    async fn send(&mut self, message: &Value) -> Option<()> {
        let line = format!("{message}\n");
        self.to.write_all(line.as_bytes()).await.ok()?;
        self.to.flush().await.ok()
    }

    /// The next message; `None` at the end of the stream, or when a line exceeds the cap. Lines that are no messages
    /// are skipped. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Message> {
        loop {
            let room = self.line_bytes_max.saturating_sub(self.line.len());
            let mut some = (&mut self.from).take(room as u64);
            some.read_until(b'\n', &mut self.line).await.ok()?;
            // The end of the stream, or a line above the cap. The rest of such a line is no message.
            if self.line.last() != Some(&b'\n') {
                return None;
            }
            let message = read(&self.line);
            self.line.clear();
            if message.is_some() {
                return message;
            }
        }
    }
}

/// The message of a line; `None` for a line that is none.
pub(super) fn read(line: &[u8]) -> Option<Message> {
    let mut message: Value = serde_json::from_slice(&whole_pairs(line)).ok()?;
    let mut take = |name: &str| message.get_mut(name).map(Value::take);
    let (id, method) = (take("id"), take("method"));
    let method = method.and_then(|method| method.as_str().map(str::to_owned));
    match (id, method) {
        (Some(id), Some(method)) => {
            Some(Message::Request { id, method, params: take("params").unwrap_or_default() })
        }
        (None, Some(method)) => {
            Some(Message::Notice { method, params: take("params").unwrap_or_default() })
        }
        (Some(id), None) => {
            let result = match take("error").filter(|error| !error.is_null()) {
                Some(error) => Err(words(&error)),
                None => Ok(take("result").unwrap_or_default()),
            };
            Some(Message::Answer { id: id.as_u64()?, result })
        }
        (None, None) => None,
    }
}

fn words(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or("an error without a message");
    let detail = match &error["data"] {
        Value::String(detail) => detail.clone(),
        data => data["details"].as_str().unwrap_or_default().to_owned(),
    };
    let words = if detail.is_empty() { message.into() } else { format!("{message}: {detail}") };
    // Shown to people; an agent may put a whole trace into its error.
    words.chars().take(500).collect()
}
