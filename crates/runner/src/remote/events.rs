//! The messages in the body of an answer: one JSON document, or a stream of events with one in each.

use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use serde_json::Value;

use crate::wire::cause;

pub(super) struct Events {
    body: Incoming,
    /// A server may answer a request either way, as Streamable HTTP of MCP allows.
    is_stream: bool,
    is_over: bool,
    unread: Unread,
}

impl Events {
    pub(super) fn of(response: Response<Incoming>) -> Self {
        let kind = response.headers().get(CONTENT_TYPE);
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        Self { body: response.into_body(), is_stream, is_over: false, unread: Unread::default() }
    }

    /// The next message; `None` at the end. The error says why the connection broke.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, String> {
        loop {
            if self.is_stream
                && let Some(data) = self.unread.event()
            {
                return self::message(&data).map(Some);
            }
            if self.is_over {
                return Ok(None);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.unread.bytes.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => return Err(cause(&error)),
                None => {
                    self.is_over = true;
                    let all = std::mem::take(&mut self.unread.bytes);
                    if !self.is_stream && !all.trim_ascii().is_empty() {
                        return self::message(&all).map(Some);
                    }
                }
            }
        }
    }
}

fn message(data: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(data).map_err(|_| "its answer is not JSON".into())
}

/// Received bytes that are no whole event yet.
#[derive(Default)]
struct Unread {
    bytes: Vec<u8>,
    /// Up to here the bytes hold no line end.
    looked_at: usize,
    /// The `data:` lines of the event that is being read.
    data: Vec<u8>,
}

impl Unread {
    /// The data of the next event that has some; comments, ids and waits are skipped.
    fn event(&mut self) -> Option<Vec<u8>> {
        while let Some(line) = self.line() {
            if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            } else if line.is_empty() && !self.data.is_empty() {
                return Some(std::mem::take(&mut self.data));
            }
        }
        None
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes[self.looked_at..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.looked_at = self.bytes.len();
            return None;
        };
        // What is left stays for the next line; `looked_at` saves a second look at bytes of a long line.
        let rest = self.bytes.split_off(self.looked_at + end + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        self.looked_at = 0;
        line.pop();
        line.pop_if(|byte| *byte == b'\r');
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_any_pieces() {
        let text = b": hello\n\nid: 0\nretry: 3000\ndata: \n\nid: 1\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:2\n\n";
        for size in [1, 2, 7, text.len()] {
            let mut unread = Unread::default();
            let mut seen = Vec::new();
            for piece in text.chunks(size) {
                unread.bytes.extend_from_slice(piece);
                while let Some(data) = unread.event() {
                    seen.push(String::from_utf8(data).expect("text"));
                }
            }
            assert_eq!(seen, ["{\"a\":\n1}", "2"], "in pieces of {size}");
        }
    }
}
