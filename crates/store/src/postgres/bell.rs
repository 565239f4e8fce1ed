//! The doorbell: every commit sends one NOTIFY, and processes with a waiting call read the log at once. A slow poll
//! backs it up, for poolers that pass no notifications on and for the time until a lost connection is restored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio_postgres::AsyncMessage;

use crate::postgres::connections::within;
use crate::postgres::errors::Trouble;
use crate::postgres::{Shared, read};
use crate::{EventQuery, LOOKS, StoreError};

const POLL: Duration = Duration::from_secs(1);
/// Backoff before a lost connection is made again; doubled each time.
const BACKOFF: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// How long a new connection may take until it listens.
const PATIENCE: Duration = Duration::from_secs(10);
/// Events read at once after a long silence.
const PAGE: usize = 1000;

/// PostgreSQL's longest name.
const NAME_BYTES_MAX: usize = 63;

/// The channel on which commits of a schema are announced.
pub(crate) fn channel(schema: &str) -> String {
    let mut name = format!("callboard_{schema}");
    // Two schemas on one channel only cause needless wake-ups.
    while name.len() > NAME_BYTES_MAX {
        name.pop();
    }
    name
}

#[derive(Default)]
pub(crate) struct Bell {
    /// Rung by notifications, and by this process when it has reason to look.
    pub ring: Arc<Notify>,
    heard: AtomicBool,
}

impl Bell {
    /// Starts one listening task, at the first wait.
    pub fn listen(&self, shared: &Arc<Shared>) {
        if !self.heard.swap(true, Ordering::SeqCst) {
            tokio::spawn(listen(Arc::downgrade(shared), self.ring.clone()));
        }
    }
}

async fn listen(shared: Weak<Shared>, ring: Arc<Notify>) {
    let mut line: Option<JoinHandle<()>> = None;
    let mut pause = BACKOFF;
    let mut next_try = tokio::time::Instant::now();
    let mut by = "start";
    loop {
        let Some(here) = shared.upgrade() else { break };
        let silent =
            here.connections.is_direct() && line.as_ref().is_none_or(JoinHandle::is_finished);
        if silent && tokio::time::Instant::now() >= next_try {
            match within(PATIENCE, connect(&here, &ring)).await {
                Ok(opened) => (line, pause) = (Some(opened), BACKOFF),
                Err(trouble) => {
                    tracing::warn!(?trouble, "no doorbell; looking once a second instead");
                    next_try = tokio::time::Instant::now() + pause;
                    pause = (pause * 2).min(BACKOFF_MAX);
                }
            }
        }
        if let Err(error) = look(&here).await {
            tracing::warn!(%error, "cannot read the event log");
        }
        tracing::trace!(target: LOOKS, by, seen = here.feed.seen());
        drop(here);
        let wait = if silent { POLL.min(pause) } else { POLL };
        // Both a ring and the timeout lead to a look.
        by = match tokio::time::timeout(wait, ring.notified()).await {
            Ok(()) => "bell",
            Err(_) => "poll",
        };
    }
    if let Some(line) = line {
        line.abort();
    }
}

/// Hands over the events that other processes committed since the last look.
async fn look(shared: &Shared) -> Result<(), StoreError> {
    while let Some(seen) = shared.feed.seen() {
        let query = EventQuery { org: None, after: seen, task: None, limit: PAGE };
        let query = &query;
        let news = shared.read_log(|db| async move { read::events(&db, query).await }).await?;
        shared.feed.hand_over(&news);
        if news.len() < PAGE {
            break;
        }
    }
    Ok(())
}

/// A connection of its own that rings for every notification until it breaks.
async fn connect(shared: &Shared, ring: &Arc<Notify>) -> Result<JoinHandle<()>, Trouble> {
    let address = &shared.connections.address;
    let (client, mut connection) = address.config.connect(address.tls.clone()).await?;
    let (ring, feed) = (ring.clone(), shared.feed.clone());
    // The driver task ends with this future when LISTEN is not answered.
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        loop {
            match std::future::poll_fn(|context| connection.poll_message(context)).await {
                Some(Ok(AsyncMessage::Notification(said))) => {
                    // Events that this process committed itself are handed over already.
                    let last: Option<u64> = said.payload().parse().ok();
                    if feed.seen().is_some_and(|seen| last.is_none_or(|last| last > seen)) {
                        ring.notify_one();
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "the doorbell's connection broke");
                    break;
                }
                None => break,
            }
        }
        // One more ring lets the listening task notice the broken connection.
        ring.notify_one();
    });
    client.batch_execute(&format!("LISTEN \"{}\"", shared.channel)).await?;
    // The client must live as long as its connection.
    Ok(tokio::spawn(async move {
        let _client = client;
        driver.join_next().await;
    }))
}
