//! Resource changes for one client: `resources/subscribe` of the legacy era, `subscriptions/listen` of the modern one.
//! `front` decides what changed, and who may know.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use callboard_domain::job::JobId;
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
use super::notices::{self, JobStream};
use super::render;
use super::sessions::Streams;
use crate::front::{Front, NoResource};
use crate::toolsets::relay::resource::{JobUri, is_ours};
use crate::toolsets::relay::watch::{Answered, JobWatch};

/// How many changes wait for a slow client; front merges the rest.
const CHANGES_QUEUED_MAX: usize = 64;
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
    /// The watch on jobs, created on first use.
    jobs: Mutex<Option<JobWatch>>,
    subscribed: Mutex<HashMap<String, DropGuard>>,
    /// Watches prepared while a listen request was judged, until its stream takes them.
    prepared: Mutex<Vec<(Vec<String>, Watch)>>,
}

/// Changes of some resources.
pub(super) struct Watch {
    changes: mpsc::Receiver<String>,
    /// Keeps `changes` open when nothing is watched.
    _open: mpsc::Sender<String>,
}

impl Watch {
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
            let known = if front.has_jobs() && is_ours(uri) {
                // Jobs have a watch of their own; a job may be created later.
                JobUri::parse(uri).is_some()
            } else {
                front.resource_watch(principal, uri, open.clone()).await?.is_ok()
            };
            if known {
                accepted.push(uri.clone());
            }
        }
        Ok((Self { changes, _open: open }, accepted))
    }
}

impl Subscriptions {
    pub(super) fn new(hearing: Hearing) -> Self {
        let (jobs, subscribed, prepared) = Default::default();
        Self { hearing, jobs, subscribed, prepared }
    }

    fn answered(&self, ctx: &RequestContext<RoleServer>) -> Answered {
        match &self.hearing {
            Hearing::Line(answers) => Some(answers.after(ctx.id.clone())),
            Hearing::Session(_) => None,
        }
    }

    fn with_jobs(
        &self,
        front: &Front,
        principal: &Principal,
        peer: &Peer<RoleServer>,
        wish: impl FnOnce(&JobWatch),
    ) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = jobs.get_or_insert_with(|| {
            let (watch, notices) = JobWatch::start(front.engine(), principal);
            let streams = match &self.hearing {
                Hearing::Line(_) => None,
                Hearing::Session(streams) => Some(streams.subscribe()),
            };
            tokio::spawn(notices::forward(notices, peer.clone(), streams));
            watch
        });
        wish(watch);
    }

    /// Follows every step of a job that this client submitted.
    pub(super) fn follow_job(
        &self,
        front: &Front,
        principal: &Principal,
        job: JobId,
        is_new: bool,
        ctx: &RequestContext<RoleServer>,
    ) {
        let answered = self.answered(ctx);
        self.with_jobs(front, principal, &ctx.peer, |watch| {
            watch.follow_job(job, is_new, answered);
        });
    }

    /// The stream of jobs' notices for a listen request.
    pub(super) fn job_stream(
        &self,
        front: &Front,
        principal: &Principal,
        context: &SubscriptionContext,
    ) -> JobStream {
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let uris = uris.into_iter().filter_map(|uri| Some((JobUri::parse(&uri)?, uri)));
        let uris: Vec<_> = uris.filter(|_| front.has_jobs()).collect();
        let watched = (!uris.is_empty()).then(|| JobWatch::start(front.engine(), principal));
        for (uri, text) in &uris {
            if let Some((watch, _)) = &watched {
                watch.follow(*uri, text, None);
            }
        }
        // That revision allows no other message on a separate stream.
        let ends = matches!(self.hearing, Hearing::Line(_));
        JobStream::new(watched, context.request_context(), ends)
    }

    pub(super) async fn subscribe(
        &self,
        front: &Front,
        principal: &Principal,
        uri: String,
        ctx: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if front.has_jobs() && is_ours(&uri) {
            let Some(asked) = JobUri::parse(&uri) else {
                return Err(render::no_such_resource(&NoResource::unknown(&uri)));
            };
            let answered = self.answered(ctx);
            self.with_jobs(front, principal, &ctx.peer, |watch| {
                watch.follow(asked, &uri, answered);
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
            Watch::over(front, principal, uris).await.map_err(render::failure)?;
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
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watch) = &*jobs {
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
        let watching = match Watch::over(front, principal, uris).now_or_never() {
            Some(watching) => watching,
            None if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
                tokio::task::block_in_place(|| {
                    runtime.block_on(Watch::over(front, principal, uris))
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
    ) -> Result<Watch, ErrorData> {
        let uris = requested.resource_subscriptions.as_deref().unwrap_or_default();
        if let Some(watch) = self.take_prepared(uris) {
            return Ok(watch);
        }
        let (watch, _) = Watch::over(front, principal, uris).await.map_err(render::failure)?;
        Ok(watch)
    }

    fn take_prepared(&self, uris: &[String]) -> Option<Watch> {
        let mut prepared = self.prepared();
        let at = prepared.iter().position(|(of, _)| of == uris)?;
        Some(prepared.swap_remove(at).1)
    }

    fn subscribed(&self) -> std::sync::MutexGuard<'_, HashMap<String, DropGuard>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn prepared(&self) -> std::sync::MutexGuard<'_, Vec<(Vec<String>, Watch)>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn forward(mut watch: Watch, peer: Peer<RoleServer>, stop: CancellationToken) {
    loop {
        let changed = tokio::select! {
            changed = watch.changed() => changed,
            () = stop.cancelled() => return,
        };
        let Some(uri) = changed else { return };
        let sent = tokio::select! {
            sent = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)) => sent,
            () = stop.cancelled() => return,
        };
        if sent.is_err() {
            return;
        }
    }
}
