//! Tracks when answers are sent: messages that must follow an answer wait for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::{RequestId, ServerJsonRpcMessage};
use tokio::sync::oneshot;

/// On one line a notice could overtake the answer that names its subject, so such notices wait here.
#[derive(Default)]
pub(super) struct Answers {
    waiting: Mutex<HashMap<RequestId, oneshot::Sender<()>>>,
}

impl Answers {
    /// Resolves after the answer of this request. A request that is never answered leaves its sender here until the
    /// connection ends.
    pub(super) fn after(&self, request: RequestId) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.waiting().insert(request, sender);
        receiver
    }

    /// Called when a message has its place in the order of messages.
    pub(super) fn sent(&self, message: &ServerJsonRpcMessage) {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
        };
        if let Some(waiting) = id.and_then(|id| self.waiting().remove(id)) {
            let _ = waiting.send(());
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<RequestId, oneshot::Sender<()>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
