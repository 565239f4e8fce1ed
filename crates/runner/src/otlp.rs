//! Traces and metrics over OTLP, for a program whose environment names a collector. Spans come from `tracing`, metrics
//! from the text of `/metrics`. Calls never wait for an export: spans go into a bounded queue, and two tasks send.
//!
//! Without a variable that names an endpoint nothing of this starts.

mod context;
mod layer;
mod points;
mod post;
mod proto;
mod settings;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

pub(crate) use layer::traceparent_here;

use layer::SpanLayer;
use points::PointTimes;
use post::CollectorClient;
use proto::{Proto, ProtoValue};
use settings::OtlpSettings;

/// Spans that were dropped because the queue was full or the collector did not take them.
const DROPPED: &str = "callboard_otlp_spans_dropped_total";
/// How long the last export may delay the end of the process.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// The text of `/metrics`, as it is now.
pub type MetricsText = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

/// The export of this process: what the environment wants, and the queue between calls and the sender.
pub struct Telemetry {
    settings: OtlpSettings,
    ended: mpsc::Sender<Proto>,
    /// Taken by `start`.
    queue: Mutex<Option<mpsc::Receiver<Proto>>>,
    metrics: watch::Sender<Option<MetricsText>>,
    started_at: u64,
}

impl Telemetry {
    /// `None` when the environment names no collector.
    pub fn of_environment() -> Option<Self> {
        let settings = OtlpSettings::read(|name| std::env::var(name).ok())?;
        let (ended, queue) = mpsc::channel(settings.queue_max);
        let (metrics, _) = watch::channel(None);
        let queue = Mutex::new(Some(queue));
        Some(Self { settings, ended, queue, metrics, started_at: layer::now() })
    }

    /// The layer that takes spans; `None` when only metrics are exported.
    pub fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let OtlpSettings { traces, sampler, .. } = &self.settings;
        traces.as_ref().map(|_| SpanLayer::filtered(*sampler, self.ended.clone()))
    }

    /// Names the source of metrics, once there is one. A later source replaces it.
    pub fn measure(&self, text: MetricsText) {
        self.metrics.send_replace(Some(text));
    }

    pub fn wants_metrics(&self) -> bool {
        self.settings.metrics.is_some()
    }

    /// Begins to send; must be called inside the runtime, once.
    pub fn start(&self) -> Exporting {
        for complaint in &self.settings.complaints {
            tracing::warn!("{complaint}");
        }
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        let OtlpSettings { traces, metrics, .. } = &self.settings;
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(target), Some(queue)) = (traces, queue) {
            let client = CollectorClient::new("traces", target.clone());
            let sender = SpanSender { settings: self.settings.clone(), client, stop: stop.clone() };
            tasks.spawn(sender.send_all(queue));
        }
        if let Some(target) = metrics {
            let client = CollectorClient::new("metrics", target.clone());
            let (settings, stop) = (self.settings.clone(), stop.clone());
            let (source, started_at) = (self.metrics.subscribe(), self.started_at);
            tasks.spawn(MetricSender { settings, client, started_at, stop }.send_all(source));
        }
        Exporting { tasks, stop }
    }
}

/// The running export.
pub struct Exporting {
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Exporting {
    /// Sends what is left, for at most two seconds.
    pub async fn finish(mut self) {
        self.stop.cancel();
        let sent = tokio::time::timeout(FLUSH_MAX, async {
            while self.tasks.join_next().await.is_some() {}
        });
        if sent.await.is_err() {
            tracing::warn!("the last traces or metrics were not exported in time");
        }
    }
}

/// Sends spans in batches.
struct SpanSender {
    settings: OtlpSettings,
    client: CollectorClient,
    stop: CancellationToken,
}

impl SpanSender {
    async fn send_all(self, mut queue: mpsc::Receiver<Proto>) {
        metrics::describe_counter!(DROPPED, "Spans that no collector took");
        let OtlpSettings { batch_max, batch_delay, .. } = self.settings;
        while !self.stop.is_cancelled() {
            let mut batch = Vec::new();
            tokio::select! {
                _ = queue.recv_many(&mut batch, batch_max) => {}
                () = self.stop.cancelled() => break,
            }
            let full = async {
                while batch.len() < batch_max {
                    let room = batch_max - batch.len();
                    if queue.recv_many(&mut batch, room).await == 0 {
                        return;
                    }
                }
            };
            tokio::select! {
                () = full => {}
                () = tokio::time::sleep(batch_delay) => {}
                () = self.stop.cancelled() => {}
            }
            self.send(batch).await;
        }
        loop {
            let mut batch = Vec::new();
            while let (true, Ok(span)) = (batch.len() < batch_max, queue.try_recv()) {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            self.send(batch).await;
        }
    }

    async fn send(&self, spans: Vec<Proto>) {
        let count = spans.len() as u64;
        let request = request(["resourceSpans", "scopeSpans", "spans"], &self.settings, spans);
        if !self.client.send(&request, self.settings.batch_within, &self.stop).await {
            metrics::counter!(DROPPED).increment(count);
        }
    }
}

/// Sends the metrics of the process, now and then and at the end.
struct MetricSender {
    settings: OtlpSettings,
    client: CollectorClient,
    started_at: u64,
    stop: CancellationToken,
}

impl MetricSender {
    async fn send_all(self, mut source: watch::Receiver<Option<MetricsText>>) {
        let known = async { source.wait_for(Option::is_some).await.is_ok() };
        tokio::select! {
            true = known => {}
            () = self.stop.cancelled() => {}
        }
        let start = tokio::time::Instant::now() + self.settings.metrics_every;
        let mut tick = tokio::time::interval_at(start, self.settings.metrics_every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.stop.is_cancelled() {
            tokio::select! {
                _ = tick.tick() => self.send(&source).await,
                () = self.stop.cancelled() => {}
            }
        }
        self.send(&source).await;
    }

    async fn send(&self, source: &watch::Receiver<Option<MetricsText>>) {
        let Some(text) = source.borrow().clone() else { return };
        let times = PointTimes { started_at: self.started_at, now: layer::now() };
        let metrics = points::metrics(&text().await, times);
        let names = ["resourceMetrics", "scopeMetrics", "metrics"];
        let request = request(names, &self.settings, metrics);
        // Not repeated: the next export has these numbers, too.
        self.client.send(&request, Duration::ZERO, &self.stop).await;
    }
}

/// A whole request: spans or metrics of this program, in one scope of one resource.
fn request(names: [&'static str; 3], settings: &OtlpSettings, items: Vec<Proto>) -> Proto {
    let [in_request, in_resource, in_scope] = names;
    let attributes = settings.resource.iter();
    let attributes =
        attributes.map(|(key, value)| Proto::attribute(key, ProtoValue::Text(value.clone())));
    let resource = Proto::default().many(1, "attributes", attributes.collect());
    let scope =
        Proto::default().text(1, "name", "callboard").text(2, "version", env!("CARGO_PKG_VERSION"));
    let scoped = Proto::default().one(1, "scope", scope).many(2, in_scope, items);
    let whole = Proto::default().one(1, "resource", resource).many(2, in_resource, vec![scoped]);
    Proto::default().many(1, in_request, vec![whole])
}
