//! The notices of jobs for one client: every step of the jobs it follows, in order and once, whichever process makes
//! it. One watch per client keeps the notices of a job in step.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use callboard_domain::runs::job::JobId;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{Engine, RunEvent, RunFeed};
use tokio::sync::mpsc;

use super::resource::{JobUri, LIST};
use super::view;
use crate::hooks::{Answered, Notice, NoticeWatch, Notices, NoticesFrom};

pub(super) struct JobNotices;

impl Notices for JobNotices {
    fn tell_of(&self, uri: &str) -> bool {
        JobUri::parse(uri).is_some()
    }

    fn watch(
        &self,
        engine: &Arc<Engine>,
        principal: &Principal,
        notices: mpsc::Sender<Notice>,
    ) -> Box<dyn NoticeWatch> {
        Box::new(JobWatch::start(engine, principal, notices))
    }
}

/// A watch on jobs that ends when dropped.
struct JobWatch {
    wishes: mpsc::UnboundedSender<WatchRequest>,
}

/// What a client asks of its watch. `answered` is done when the answer to that request was sent: notices come after it.
enum WatchRequest {
    Follow(JobUri, String, Answered),
    /// All URIs of a job.
    FollowJob {
        job: JobId,
        from: NoticesFrom,
        answered: Answered,
    },
    Leave(String),
}

impl JobWatch {
    /// Starts the task of one client. It ends when the watch is dropped or the client is gone.
    fn start(engine: &Arc<Engine>, principal: &Principal, notices: mpsc::Sender<Notice>) -> Self {
        let (wishes, wished) = mpsc::unbounded_channel();
        let watching = Watching {
            engine: engine.clone(),
            op: OpContext::new(principal.clone(), "resources"),
            uris: HashSet::new(),
            jobs: HashSet::new(),
            told: HashMap::new(),
            visible: HashMap::new(),
            notices,
        };
        tokio::spawn(watching.run(wished));
        Self { wishes }
    }

    fn wish(&self, wish: WatchRequest) {
        // The send fails when the watch has ended, because its client is gone.
        let _ = self.wishes.send(wish);
    }
}

impl NoticeWatch for JobWatch {
    fn follow(&self, uri: &str, answered: Answered) {
        if let Some(job) = JobUri::parse(uri) {
            self.wish(WatchRequest::Follow(job, uri.to_owned(), answered));
        }
    }

    fn follow_work(&self, id: &str, from: NoticesFrom, answered: Answered) {
        if let Ok(job) = id.parse() {
            self.wish(WatchRequest::FollowJob { job, from, answered });
        }
    }

    fn leave(&self, uri: &str) {
        self.wish(WatchRequest::Leave(uri.to_owned()));
    }
}

/// The state of one client's watch.
struct Watching {
    engine: Arc<Engine>,
    op: OpContext,
    /// Addresses that the client subscribed to.
    uris: HashSet<String>,
    /// Jobs that are followed as a whole, because the client submitted them.
    jobs: HashSet<JobId>,
    /// The newest version that was sent of each URI.
    told: HashMap<String, u64>,
    /// Whether this client may know of a job.
    visible: HashMap<JobId, bool>,
    notices: mpsc::Sender<Notice>,
}

/// The client is gone.
struct Gone;

impl Watching {
    /// Serves wishes before events: a notice must not overtake the subscription that it belongs to.
    async fn run(mut self, mut wished: mpsc::UnboundedReceiver<WatchRequest>) {
        // The feed begins before the first wish is served, so no event falls between a look and the feed.
        let mut feed: RunFeed = match self.engine.run_feed(None).await {
            Ok(feed) => feed,
            Err(error) => {
                tracing::warn!(%error, "cannot follow jobs");
                return;
            }
        };
        loop {
            let done = tokio::select! {
                biased;
                wish = wished.recv() => match wish {
                    Some(wish) => self.granted(wish).await,
                    None => return,
                },
                event = feed.next() => match event {
                    Some(event) => self.event(&event).await,
                    None => return,
                },
                () = self.notices.closed() => return,
            };
            if done.is_err() {
                return;
            }
        }
    }

    /// Carries out a wish. An event may come twice, from a job's history and from the feed; `told` drops the second.
    async fn granted(&mut self, wish: WatchRequest) -> Result<(), Gone> {
        match wish {
            WatchRequest::Leave(uri) => {
                self.uris.remove(&uri);
                // A client that follows a whole job and unsubscribes from its status wants no more notices of the job.
                if let Some(JobUri::Status(job)) = JobUri::parse(&uri) {
                    self.jobs.remove(&job);
                }
                self.told.remove(&uri);
                Ok(())
            }
            WatchRequest::Follow(uri, text, answered) => {
                heard(answered).await;
                self.uris.insert(text.clone());
                self.as_it_is(uri, text).await
            }
            WatchRequest::FollowJob { job, from, answered } => {
                heard(answered).await;
                self.jobs.insert(job);
                if from == NoticesFrom::Now {
                    return self.as_it_is(JobUri::Status(job), view::status_uri(job)).await;
                }
                match self.engine.run_events(&self.op, job).await {
                    Ok(events) => {
                        for event in &events {
                            self.event(event).await?;
                        }
                    }
                    Err(error) => tracing::warn!(%error, %job, "cannot read a job's events"),
                }
                Ok(())
            }
        }
    }

    /// Follows a URI from its current version, so that nothing is missed between looking at a job and following it.
    async fn as_it_is(&mut self, uri: JobUri, text: String) -> Result<(), Gone> {
        let version = match uri.job() {
            Some(job) => match self.engine.run_get(&self.op, job).await {
                Ok(seen) => seen.version,
                // The job may be created later.
                Err(_) => return Ok(()),
            },
            None => self.engine.last_seq_in(&self.op.principal.org).await.unwrap_or_default(),
        };
        self.updated(text, version).await.map(|_| ())
    }

    /// Sends the notices of one event: the status, an artifact, the end of the job, the list, in this order.
    async fn event(&mut self, event: &RunEvent) -> Result<(), Gone> {
        let job = event.job;
        let status = view::status_uri(job);
        let all = self.jobs.contains(&job);
        let artifact = event.read().artifact().map(|name| view::artifact_uri(job, name));
        let artifact = artifact.filter(|uri| all || self.uris.contains(uri));
        let follows = all || self.uris.contains(&status);
        let lists = self.uris.contains(LIST);
        if !(follows || lists || artifact.is_some()) || !self.is_visible(job).await {
            return Ok(());
        }
        let version = event.seq;
        // The end is told only with a status that is news, so that it is told once.
        let is_news = follows && self.updated(status, version).await?;
        if let Some(artifact) = artifact {
            self.updated(artifact, version).await?;
        }
        if is_news && let Some((method, params)) = view::ended(event) {
            self.tell(Notice::Ended { method, params }).await?;
        }
        if lists {
            self.updated(LIST.into(), version).await?;
        }
        Ok(())
    }

    /// Jobs of other orgs do not exist for this client.
    async fn is_visible(&mut self, job: JobId) -> bool {
        if let Some(visible) = self.visible.get(&job) {
            return *visible;
        }
        let visible = self.engine.run_get(&self.op, job).await.is_ok();
        self.visible.insert(job, visible);
        visible
    }

    /// Sends a notice; `false` when this version or a newer one was sent before.
    async fn updated(&mut self, uri: String, version: u64) -> Result<bool, Gone> {
        let told = self.told.entry(uri.clone()).or_default();
        if version <= *told {
            return Ok(false);
        }
        *told = version;
        self.tell(Notice::Updated { uri, version }).await?;
        Ok(true)
    }

    /// Sends a notice. A full channel makes the watch wait; the log keeps the events meanwhile.
    async fn tell(&self, notice: Notice) -> Result<(), Gone> {
        self.notices.send(notice).await.map_err(|_| Gone)
    }
}

/// Waits until the client has the answer to its request.
async fn heard(answered: Answered) {
    if let Some(answered) = answered {
        // An answer that is never sent has no later notice to order.
        let _ = answered.await;
    }
}
