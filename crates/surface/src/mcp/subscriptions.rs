//! Resource changes for one client: `resources/subscribe` of the legacy era, `subscriptions/listen` of the modern one.
//! `front` decides what changed, and who may know.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use callboard_engine::context::Principal;
use callboard_engine::error::EngineError;
use futures_util::FutureExt;
use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::answers::Answers;
use super::notices::{self, NoticeStream};
use super::render;
use super::sessions::Streams;
use crate::front::{Front, NoResource};
use crate::hooks::{Answered, NoticeWatch, Notices, Started};
use crate::lookup::LookupError;
use crate::tool::Toolset;

/// How many changes wait for a slow client; front merges the rest.
const CHANGES_QUEUED_MAX: usize = 64;
/// How many notices wait for a slow client.
const NOTICES_QUEUED_MAX: usize = 64;
/// Each subscription is a spawned task and a watch of the store, so one client gets a bounded number.
const SUBSCRIPTIONS_MAX: usize = 1000;

/// How unsolicited messages reach a client.
pub(super) enum Hearing {
    /// On the one line, after the answers they belong to.
    Line(Arc<Answers>),
    /// On a separate stream, which may not be open.
    Session(Streams),
}

/// One connection's subscriptions; dropping it ends them.
pub(super) struct Subscriptions {
    hearing: Hearing,
    /// The watch of each toolset that has notices, by the toolset's name, created on first use.
    told: Mutex<HashMap<&'static str, Box<dyn NoticeWatch>>>,
    /// The legacy subscriptions by URI; dropping a guard ends its forwarding task.
    subscribed: Mutex<HashMap<String, DropGuard>>,
    /// Watches prepared while a listen request was judged, until its stream takes them.
    prepared: Mutex<Vec<(Vec<String>, ResourceWatch)>>,
}

/// Changes of some resources.
pub(super) struct ResourceWatch {
    changes: mpsc::Receiver<String>,
    /// Keeps `changes` open when nothing is watched.
    _open: mpsc::Sender<String>,
}

impl ResourceWatch {
    pub(super) async fn changed(&mut self) -> Option<String> {
        self.changes.recv().await
    }

    /// Watches `uris` and returns those that exist.
    async fn over(
        front: &Front,
        principal: &Principal,
        uris: &[String],
    ) -> Result<(Self, Vec<String>), EngineError> {
        let (open, changes) = mpsc::channel(CHANGES_QUEUED_MAX);
        let mut accepted = Vec::new();
        for uri in uris.iter().take(SUBSCRIPTIONS_MAX) {
            match front.resource_watch(principal, uri, open.clone()).await {
                Ok(()) => accepted.push(uri.clone()),
                // An unknown URI is left out of the accepted filter, which is how the modern era reports it.
                Err(LookupError::Absent(_)) => {}
                Err(LookupError::Failed(error)) => return Err(error),
            }
        }
        Ok((Self { changes, _open: open }, accepted))
    }
}

impl Subscriptions {
    pub(super) fn new(hearing: Hearing) -> Self {
        let (told, subscribed, prepared) = Default::default();
        Self { hearing, told, subscribed, prepared }
    }

    /// What notices have to wait for: on a line the answer of this request, on a separate stream nothing.
    fn answered(&self, ctx: &RequestContext<RoleServer>) -> Answered {
        match &self.hearing {
            Hearing::Line(answers) => Some(answers.after(ctx.id.clone())),
            Hearing::Session(_) => None,
        }
    }

    /// Runs `wish` on the toolset's watch for this client. The watch and its forwarding task are made on first use.
    fn with_notices(
        &self,
        front: &Front,
        principal: &Principal,
        (toolset, hook): (&'static Toolset, &dyn Notices),
        peer: &Peer<RoleServer>,
        wish: impl FnOnce(&dyn NoticeWatch),
    ) {
        let mut told = self.told();
        let watch = told.entry(toolset.name).or_insert_with(|| {
            let (notices, heard) = mpsc::channel(NOTICES_QUEUED_MAX);
            let streams = match &self.hearing {
                Hearing::Line(_) => None,
                Hearing::Session(streams) => Some(streams.subscribe()),
            };
            tokio::spawn(notices::forward(heard, peer.clone(), streams));
            hook.watch(front.engine(), principal, notices)
        });
        wish(&**watch);
    }

    /// Follows the work that a call of this client started.
    pub(super) fn follow_work(
        &self,
        front: &Front,
        principal: &Principal,
        toolset: &'static Toolset,
        started: &Started,
        ctx: &RequestContext<RoleServer>,
    ) {
        let (Some(hook), Some(from)) = (toolset.hooks.notices, started.notices) else { return };
        let answered = self.answered(ctx);
        self.with_notices(front, principal, (toolset, hook), &ctx.peer, |watch| {
            watch.follow_work(&started.id, from, answered);
        });
    }

    /// The stream of notices for a listen request.
    pub(super) fn notice_stream(
        &self,
        front: &Front,
        principal: &Principal,
        context: &SubscriptionContext,
    ) -> NoticeStream {
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let (notices, heard) = mpsc::channel(NOTICES_QUEUED_MAX);
        let mut watches = Vec::new();
        for (_, hook) in front.hooked(|hooks| hooks.notices) {
            let told: Vec<&String> = uris.iter().filter(|uri| hook.tell_of(uri)).collect();
            if told.is_empty() {
                continue;
            }
            let watch = hook.watch(front.engine(), principal, notices.clone());
            for uri in told {
                watch.follow(uri, None);
            }
            watches.push(watch);
        }
        // That revision allows no other message on a separate stream.
        let ends = matches!(self.hearing, Hearing::Line(_));
        NoticeStream::new(heard, watches, context.request_context(), ends)
    }

    /// Subscribes a legacy client to a URI. A URI of a toolset with notices is followed there.
    pub(super) async fn subscribe(
        &self,
        front: &Front,
        principal: &Principal,
        uri: String,
        ctx: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut hooks = front.hooked(|hooks| hooks.notices);
        if let Some(hook) = hooks.find(|(_, hook)| hook.tell_of(&uri)) {
            let answered = self.answered(ctx);
            self.with_notices(front, principal, hook, &ctx.peer, |watch| {
                watch.follow(&uri, answered);
            });
            return Ok(());
        }
        let peer = ctx.peer.clone();
        if self.subscribed().len() >= SUBSCRIPTIONS_MAX {
            let message = format!("at most {SUBSCRIPTIONS_MAX} subscriptions; unsubscribe first");
            return Err(ErrorData::invalid_params(message, None));
        }
        let uris = std::slice::from_ref(&uri);
        let (watch, accepted) =
            ResourceWatch::over(front, principal, uris).await.map_err(render::failure)?;
        if accepted.is_empty() {
            return Err(render::no_such_resource(&NoResource::unknown(&uri)));
        }
        let stop = CancellationToken::new();
        tokio::spawn(forward(watch, peer, stop.clone()));
        // A second subscription replaces the first, whose guard ends its task.
        self.subscribed().insert(uri, stop.drop_guard());
        Ok(())
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        self.subscribed().remove(uri);
        for watch in self.told().values() {
            watch.leave(uri);
        }
    }

    /// Prepares the watches of a listen request before it is acknowledged, so that no change after the acknowledgement
    /// is missed, and returns the part of the filter that will be honoured.
    ///
    /// The SDK calls this synchronously. The embedded store answers at once; another store is awaited briefly, on a
    /// thread that handed off its other work. Where neither works, the stream itself prepares the watches, and every
    /// URI counts as honoured.
    pub(super) fn accept(
        &self,
        front: &Front,
        principal: &Principal,
        requested: &SubscriptionFilter,
    ) -> SubscriptionFilter {
        let mut accepted = requested.clone();
        let uris = requested.resource_subscriptions.as_deref().unwrap_or_default();
        if uris.is_empty() {
            return accepted;
        }
        let runtime = Handle::current();
        let watching = match ResourceWatch::over(front, principal, uris).now_or_never() {
            Some(watching) => watching,
            None if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
                tokio::task::block_in_place(|| {
                    runtime.block_on(ResourceWatch::over(front, principal, uris))
                })
            }
            None => return accepted,
        };
        match watching {
            Ok((watch, known)) => {
                self.prepared().push((uris.to_vec(), watch));
                accepted.resource_subscriptions = Some(known);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot watch resources");
                accepted.resource_subscriptions = None;
            }
        }
        accepted
    }

    /// The watch of an accepted listen request.
    pub(super) async fn watch(
        &self,
        front: &Front,
        principal: &Principal,
        requested: &SubscriptionFilter,
    ) -> Result<ResourceWatch, ErrorData> {
        let uris = requested.resource_subscriptions.as_deref().unwrap_or_default();
        if let Some(watch) = self.take_prepared(uris) {
            return Ok(watch);
        }
        let (watch, _) =
            ResourceWatch::over(front, principal, uris).await.map_err(render::failure)?;
        Ok(watch)
    }

    fn take_prepared(&self, uris: &[String]) -> Option<ResourceWatch> {
        let mut prepared = self.prepared();
        // Two listen requests with one list of URIs may exchange their watches, which are alike.
        let at = prepared.iter().position(|(of, _)| of == uris)?;
        Some(prepared.swap_remove(at).1)
    }

    fn told(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Box<dyn NoticeWatch>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribed(&self) -> std::sync::MutexGuard<'_, HashMap<String, DropGuard>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prepared(&self) -> std::sync::MutexGuard<'_, Vec<(Vec<String>, ResourceWatch)>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes the changes of one subscription on, until it is ended or the client is gone.
async fn forward(mut watch: ResourceWatch, peer: Peer<RoleServer>, stop: CancellationToken) {
    loop {
        let changed = tokio::select! {
            changed = watch.changed() => changed,
            () = stop.cancelled() => return,
        };
        let Some(uri) = changed else { return };
        // A client that does not read must not keep an ended subscription alive in a send.
        let sent = tokio::select! {
            sent = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)) => sent,
            () = stop.cancelled() => return,
        };
        if sent.is_err() {
            return;
        }
    }
}
