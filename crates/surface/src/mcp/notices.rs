//! Notices of toolsets as notifications: on the line, on a session's stream when it is open, or on the stream of a listen
//! request.

use rmcp::RoleServer;
use rmcp::model::{CustomNotification, ServerNotification};
use rmcp::service::{Peer, RequestContext};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::hooks::{Notice, NoticeWatch};

/// How many notices are kept for a session whose stream is not open.
const KEPT_MAX: usize = 1000;
/// The modern era names in every notification of a listen stream the request that opened it.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// `stateVersion` is a key of our own beside the protocol's `uri`: it tells a newer state from an older one.
fn message(notice: Notice) -> (&'static str, Value) {
    match notice {
        Notice::Updated { uri, version } => {
            ("notifications/resources/updated", json!({"uri": uri, "stateVersion": version}))
        }
        Notice::Ended { method, params } => (method, params),
    }
}

async fn send(peer: &Peer<RoleServer>, method: &str, params: Value) -> bool {
    let notification = CustomNotification::new(method, Some(params));
    peer.send_notification(ServerNotification::CustomNotification(notification)).await.is_ok()
}

/// Forwards notices until the receiver is gone.
pub(super) async fn forward(
    mut notices: mpsc::Receiver<Notice>,
    peer: Peer<RoleServer>,
    mut streams: Option<watch::Receiver<usize>>,
) {
    let mut kept: Vec<Notice> = Vec::new();
    loop {
        // A line is always open. For a session without an open stream the notices are kept here.
        let is_open = streams.as_ref().is_none_or(|streams| *streams.borrow() > 0);
        if is_open {
            for notice in kept.drain(..) {
                let (method, params) = message(notice);
                if !send(&peer, method, params).await {
                    return;
                }
            }
        }
        let opened = async {
            match &mut streams {
                Some(streams) => streams.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            notice = notices.recv() => match notice {
                Some(notice) => keep(&mut kept, notice),
                None => return,
            },
            open = opened => if !open {
                return;
            },
        }
    }
}

/// Only the newest notice of a URI is kept, in its new place; ends of work are all kept.
fn keep(kept: &mut Vec<Notice>, notice: Notice) {
    if let Notice::Updated { uri, .. } = &notice {
        kept.retain(|old| !matches!(old, Notice::Updated { uri: of, .. } if of == uri));
    }
    // The oldest goes: a client that comes back can read the present state.
    if kept.len() >= KEPT_MAX {
        kept.remove(0);
    }
    kept.push(notice);
}

/// The notices for one listen request.
pub(super) struct NoticeStream {
    notices: mpsc::Receiver<Notice>,
    /// The sources of the notices, kept until the stream ends.
    _watches: Vec<Box<dyn NoticeWatch>>,
    peer: Peer<RoleServer>,
    id: Value,
    /// Whether the end of work has a message of its own.
    ends: bool,
}

impl NoticeStream {
    pub(super) fn new(
        notices: mpsc::Receiver<Notice>,
        watches: Vec<Box<dyn NoticeWatch>>,
        request: &RequestContext<RoleServer>,
        ends: bool,
    ) -> Self {
        let id = serde_json::to_value(&request.id).unwrap_or_default();
        Self { notices, _watches: watches, peer: request.peer.clone(), id, ends }
    }

    /// Forwards the next notice; pending forever when there will be none.
    pub(super) async fn next(&mut self) {
        let Some(notice) = self.notices.recv().await else { return std::future::pending().await };
        if matches!(notice, Notice::Ended { .. }) && !self.ends {
            return;
        }
        let (method, mut params) = message(notice);
        params["_meta"] = json!({ SUBSCRIPTION_ID: self.id });
        send(&self.peer, method, params).await;
    }
}
