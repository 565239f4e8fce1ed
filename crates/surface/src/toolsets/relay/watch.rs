//! The notices of jobs for one client: every step of the jobs it follows, in order and once, whichever process makes
//! it. One watch per client keeps the notices of a job in step.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use callboard_domain::job::JobId;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{Engine, RunEvent, RunFeed};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::resource::{JobUri, LIST};
use super::view;

/// How many notices wait for a slow client.
const NOTICES_QUEUED_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Notice {
    Updated {
        uri: String,
        version: u64,
    },
    /// A job has ended: the method and the parameters of the notice.
    Ended {
        method: &'static str,
        params: Value,
    },
}

/// A watch on jobs that ends when dropped.
pub(crate) struct JobWatch {
    wishes: mpsc::UnboundedSender<Wish>,
}

/// Resolves when the client has the answer to the request behind a wish.
pub(crate) type Answered = Option<oneshot::Receiver<()>>;

enum Wish {
    Follow(JobUri, String, Answered),
    /// All URIs of a job; from its start, or as it is now.
    FollowJob {
        job: JobId,
        from_start: bool,
        answered: Answered,
    },
    Leave(String),
}

impl JobWatch {
    pub(crate) fn start(
        engine: &Arc<Engine>,
        principal: &Principal,
    ) -> (Self, mpsc::Receiver<Notice>) {
        let (wishes, wished) = mpsc::unbounded_channel();
        let (notices, heard) = mpsc::channel(NOTICES_QUEUED_MAX);
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
        (Self { wishes }, heard)
    }

    pub(crate) fn follow(&self, uri: JobUri, text: &str, answered: Answered) {
        self.wish(Wish::Follow(uri, text.to_owned(), answered));
    }

    pub(crate) fn follow_job(&self, job: JobId, from_start: bool, answered: Answered) {
        self.wish(Wish::FollowJob { job, from_start, answered });
    }

    pub(crate) fn leave(&self, uri: &str) {
        self.wish(Wish::Leave(uri.to_owned()));
    }

    fn wish(&self, wish: Wish) {
        // The send fails when the watch has ended, because its client is gone.
        let _ = self.wishes.send(wish);
    }
}

struct Watching {
    engine: Arc<Engine>,
    op: OpContext,
    uris: HashSet<String>,
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
    async fn run(mut self, mut wished: mpsc::UnboundedReceiver<Wish>) {
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

    async fn granted(&mut self, wish: Wish) -> Result<(), Gone> {
        match wish {
            Wish::Leave(uri) => {
                self.uris.remove(&uri);
                // A client that follows a whole job and unsubscribes from its status wants no more notices of the job.
                if let Some(JobUri::Status(job)) = JobUri::parse(&uri) {
                    self.jobs.remove(&job);
                }
                self.told.remove(&uri);
                Ok(())
            }
            Wish::Follow(uri, text, answered) => {
                heard(answered).await;
                self.uris.insert(text.clone());
                self.as_it_is(uri, text).await
            }
            Wish::FollowJob { job, from_start, answered } => {
                heard(answered).await;
                self.jobs.insert(job);
                if !from_start {
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

    async fn tell(&self, notice: Notice) -> Result<(), Gone> {
        self.notices.send(notice).await.map_err(|_| Gone)
    }
}

async fn heard(answered: Answered) {
    if let Some(answered) = answered {
        // An answer that is never sent has no later notice to order.
        let _ = answered.await;
    }
}
