//! Loops that run beside the calls of a process: the table, and the set of tasks they run in.
//!
//! Correctness does not depend on any of them: they write early what every read already judges, or do work that any
//! process may do. A loop that panics is logged and restarted.

pub(crate) mod deliver;
pub(crate) mod jobs;
pub(crate) mod leases;
pub(crate) mod prune;
pub(crate) mod sessions;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::world::Queued;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Engine;
use crate::runs::patch::Alert;

/// The pause before a loop that panicked is restarted.
const RESTART_AFTER: Duration = Duration::from_secs(1);

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A loop that ends when the token is canceled.
struct Loop {
    name: &'static str,
    run: fn(Arc<Engine>, CancellationToken, Alert) -> Running,
    /// Whether a process that stops waits for the end of the loop.
    is_awaited: bool,
}

const LOOPS: [Loop; 11] = [
    Loop {
        name: "runs of agents",
        run: |engine, stop, alert| Box::pin(engine.run_agents_until(stop, alert)),
        is_awaited: true,
    },
    Loop {
        name: "reports of this runner",
        run: |engine, stop, _| Box::pin(async move { engine.runner_say_until(stop).await }),
        is_awaited: true,
    },
    Loop {
        name: "leases, sessions and crews",
        run: |engine, stop, _| Box::pin(async move { engine.sweep_until(stop).await }),
        is_awaited: false,
    },
    Loop {
        name: "verifications and checks",
        run: |engine, stop, _| Box::pin(async move { engine.run_jobs_until(stop).await }),
        is_awaited: false,
    },
    Loop {
        name: "messages",
        run: |engine, stop, _| Box::pin(engine.deliver_until(stop)),
        is_awaited: false,
    },
    Loop {
        name: "pull requests",
        run: |engine, stop, _| Box::pin(engine.pulls_look_until(stop)),
        is_awaited: false,
    },
    Loop {
        name: "embeddings",
        run: |engine, stop, _| Box::pin(async move { engine.embed_until(stop).await }),
        is_awaited: false,
    },
    Loop {
        name: "daily counts",
        run: |engine, stop, _| Box::pin(async move { engine.days_count_until(stop).await }),
        is_awaited: false,
    },
    Loop {
        name: "retention",
        run: |engine, stop, _| Box::pin(async move { engine.prune_until(stop).await }),
        is_awaited: false,
    },
    Loop {
        name: "disk space of worktrees",
        run: |engine, stop, _| Box::pin(async move { engine.disk_measure_until(stop).await }),
        is_awaited: false,
    },
    Loop {
        name: "outlook of reviews",
        run: |engine, stop, _| Box::pin(async move { engine.reviews_foresee_until(stop).await }),
        is_awaited: false,
    },
];

/// Wakes loops at once when this process queued work for them. Work of other processes is found by polling.
#[derive(Default)]
pub(crate) struct Nudges {
    pub jobs: Notify,
    pub messages: Notify,
}

impl Nudges {
    pub fn wake(&self, queued: Queued) {
        if queued.jobs {
            self.jobs.notify_one();
        }
        if queued.messages {
            self.messages.notify_one();
        }
    }
}

/// The background loops of a process. Dropping this ends them all.
pub struct Working {
    /// Each task returns whether its end is awaited.
    loops: JoinSet<bool>,
}

impl Working {
    /// Returns when this process, told to stop, runs no agent any more.
    pub async fn ended(mut self) {
        let mut awaited = LOOPS.iter().filter(|one| one.is_awaited).count();
        while awaited > 0 {
            match self.loops.join_next().await {
                Some(Ok(is_awaited)) => awaited -= usize::from(is_awaited),
                Some(Err(error)) => tracing::error!(%error, "a background task failed"),
                None => return,
            }
        }
    }
}

impl Engine {
    /// Runs the background loops of this process until canceled.
    pub fn work_until(self: Arc<Self>, stop: &CancellationToken, alert: Alert) -> Working {
        let mut loops = JoinSet::new();
        for one in &LOOPS {
            let (engine, stop) = (self.clone(), stop.clone());
            loops.spawn(async move {
                let start = || (one.run)(engine.clone(), stop.clone(), alert);
                keep_running(one.name, start, &stop).await;
                one.is_awaited
            });
        }
        Working { loops }
    }
}

/// Runs a loop until it returns. A panic is logged, and the loop starts anew unless the process stops.
async fn keep_running(name: &str, start: impl Fn() -> Running, stop: &CancellationToken) {
    loop {
        let mut attempt = JoinSet::new();
        attempt.spawn(start());
        match attempt.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!(%error, name, "a background loop panicked and is restarted");
            }
            _ => return,
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RESTART_AFTER) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_is_restarted_until_the_process_stops() {
        static STARTS: AtomicUsize = AtomicUsize::new(0);
        let start = || -> Running {
            Box::pin(async {
                assert_eq!(STARTS.fetch_add(1, Ordering::SeqCst), 2, "the third start goes well");
            })
        };
        keep_running("a test", start, &CancellationToken::new()).await;
        assert_eq!(STARTS.load(Ordering::SeqCst), 3);
        let stopped = CancellationToken::new();
        stopped.cancel();
        keep_running("a test", start, &stopped).await;
        assert_eq!(STARTS.load(Ordering::SeqCst), 4, "no restart after the stop");
    }
}
