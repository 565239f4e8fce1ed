//! JSON-RPC messages as lines, for stdio and any pair of byte streams.
//!
//! The SDK's own line transport silently drops unreadable lines, gives up on a stray first message, and writes each
//! answer by itself. This one answers every bad line and survives it; `outbox` writes. No method of the protocol is
//! interpreted here.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use callboard_domain::surrogate::whole_pairs;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, ClientJsonRpcMessage, ClientRequest, ErrorCode, GetMeta, JsonRpcRequest,
    ProtocolVersion, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio_util::sync::CancellationToken;

use super::answers::Answers;
use super::outbox::Outbox;

/// Longer lines are refused, and never held in memory.
/// 16 MiB is the limit of the SDK's own transport, too.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A line buffer that grew beyond this is released after use.
const LINE_BYTES_KEPT: usize = 256 * 1024;
/// Bytes per read of the input.
const READ_BYTES: usize = 64 * 1024;
/// Tolerated at the start of a line, although JSON does not allow it.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The transport of one connection: lines in, and lines out through `outbox`.
pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    line: Vec<u8>,
    /// The rest of an overlong line is still coming.
    skipping: bool,
    /// Whether a conversation began: the SDK takes notifications only from then on.
    begun: bool,
    outbox: Arc<Outbox<W>>,
    /// Cancelled when the output is gone.
    unheard: CancellationToken,
    /// Cancelled by the program: the input counts as ended.
    stop: CancellationToken,
    /// Tells the calls in flight that the connection ends.
    closing: CancellationToken,
    answers: Arc<Answers>,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// The input ends at its end, or when `stop` is cancelled; `closing` is cancelled then.
    pub(super) fn new(
        input: R,
        output: W,
        stop: CancellationToken,
        closing: CancellationToken,
        answers: Arc<Answers>,
    ) -> Self {
        let unheard = CancellationToken::new();
        Self {
            input: BufReader::with_capacity(READ_BYTES, input),
            line: Vec::new(),
            skipping: false,
            begun: false,
            outbox: Arc::new(Outbox::new(output, unheard.clone())),
            unheard,
            stop,
            closing,
            answers,
        }
    }

    /// The next message. Cancel safe: bytes that were read stay in `self`.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            match self.read_line().await.ok()? {
                LineRead::Whole => {}
                LineRead::TooLong => {
                    let message = format!("a line is longer than {LINE_BYTES_MAX} bytes");
                    self.refuse(&Value::Null, ErrorCode::PARSE_ERROR, &message);
                    continue;
                }
                LineRead::End => return None,
            }
            let message = self.parse();
            self.line.clear();
            // One large call must not cost this connection its memory for good.
            self.line.shrink_to(LINE_BYTES_KEPT);
            if let Some(message) = message.filter(|message| self.may_pass(message)) {
                return Some(message);
            }
        }
    }

    /// Reads one line. The rest of a line that is too long is consumed without being kept.
    async fn read_line(&mut self) -> io::Result<LineRead> {
        loop {
            let chunk = self.input.fill_buf().await?;
            if chunk.is_empty() {
                // A last line without a line end is still a line.
                let left = !self.line.is_empty() && !self.skipping;
                return Ok(if left { LineRead::Whole } else { LineRead::End });
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(chunk.len(), |at| at + 1);
            let was_skipping = self.skipping;
            if !was_skipping {
                self.line.extend_from_slice(&chunk[..end.unwrap_or(taken)]);
            }
            self.input.consume(taken);
            if was_skipping {
                self.skipping = end.is_none();
            } else if self.line.len() > LINE_BYTES_MAX {
                self.line = Vec::new();
                self.skipping = end.is_none();
                return Ok(LineRead::TooLong);
            } else if end.is_some() {
                return Ok(LineRead::Whole);
            }
        }
    }

    /// The message of a line; `None` for an empty line, and for one that was refused.
    fn parse(&self) -> Option<ClientJsonRpcMessage> {
        let line = self.line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.line).trim_ascii();
        if line.is_empty() { None } else { self.message(line) }
    }

    fn message(&self, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        // Most lines are calls. The SDK's own type tries 13 kinds of requests before the call, and builds an error for each.
        if let Ok(call) = serde_json::from_slice::<JsonRpcRequest<CallToolRequest>>(line) {
            let request = ClientRequest::CallToolRequest(call.request);
            return Some(ClientJsonRpcMessage::request(request, call.id));
        }
        let error = match serde_json::from_slice(line) {
            Ok(message) => return Some(message),
            Err(error) => error,
        };
        // The text of a call may end in half of an emoji. That is no reason to refuse the call.
        if let Cow::Owned(whole) = whole_pairs(line) {
            return self.message(&whole);
        }
        // JSON-RPC tells two faults apart: no JSON at all (-32700), and JSON that is no message (-32600).
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => {
                let id = value.get("id").filter(|id| id.is_string() || id.is_number());
                let id = id.unwrap_or(&Value::Null);
                self.refuse(id, ErrorCode::INVALID_REQUEST, "not a JSON-RPC 2.0 message");
            }
            Err(_) => self.refuse(&id_of(line), ErrorCode::PARSE_ERROR, &error.to_string()),
        }
        None
    }

    /// Answers a bad line. JSON-RPC wants the id of the request if it can be read, else null.
    fn refuse(&self, id: &Value, code: ErrorCode, message: &str) {
        let error = json!({ "code": code.0, "message": message });
        let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        self.outbox.put(answer.to_string().as_bytes());
        let outbox = self.outbox.clone();
        // Reading goes on meanwhile; a failed write ends the connection by itself.
        tokio::spawn(async move { outbox.flush().await });
    }

    /// Whether a message may pass: before the first real request there is nothing to notify about or to respond to.
    fn may_pass(&mut self, message: &ClientJsonRpcMessage) -> bool {
        if let ClientJsonRpcMessage::Request(request) = message {
            self.begun |= begins(&request.request);
            return true;
        }
        self.begun
    }
}

/// The id of a message that is JSON by its grammar but cannot be read, such as one that is nested too deeply: its sender waits
/// for an answer with that id.
pub(super) fn id_of(line: &[u8]) -> Value {
    #[derive(Deserialize)]
    struct UnreadMessage {
        id: Value,
    }
    let id = serde_json::from_slice(line).map(|UnreadMessage { id }| id).unwrap_or_default();
    if id.is_string() || id.is_number() { id } else { Value::Null }
}

/// Whether the SDK leaves its opening phase with this request.
fn begins(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_) => false,
        request => {
            let meta = request.get_meta();
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && meta
                    .protocol_version()
                    .is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version))
        }
    }
}

enum LineRead {
    Whole,
    TooLong,
    End,
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (outbox, answers) = (self.outbox.clone(), self.answers.clone());
        async move {
            // The order is fixed by `put`; `sent` may then release notices, which queue behind the answer.
            outbox.put(&serde_json::to_vec(&message)?);
            answers.sent(&message);
            outbox.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let (unheard, stop) = (self.unheard.clone(), self.stop.clone());
        let message = tokio::select! {
            message = self.next() => message,
            () = unheard.cancelled() => None,
            () = stop.cancelled() => None,
        };
        if message.is_none() {
            self.closing.cancel();
        }
        message
    }

    /// Returns when every answer is written.
    async fn close(&mut self) -> io::Result<()> {
        self.outbox.close().await
    }
}
