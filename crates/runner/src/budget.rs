//! A time budget that can be paused.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How long an agent may work. Waiting for a person's answer is not working.
pub(crate) struct Budget {
    clock: Mutex<Clock>,
    changed: Notify,
}

struct Clock {
    /// What was left when `running_since` began.
    left: Duration,
    /// `None` while the run waits for a person.
    running_since: Option<Instant>,
    /// How many questions are open. The budget runs again when the last one is answered.
    waits: usize,
}

impl Budget {
    /// A running budget.
    pub(crate) fn new(limit: Duration) -> Self {
        let clock = Clock { left: limit, running_since: Some(Instant::now()), waits: 0 };
        Self { clock: Mutex::new(clock), changed: Notify::new() }
    }

    /// Returns when the budget is spent.
    pub(crate) async fn spent(&self) {
        loop {
            // Registered before the clock is read: a pause in between would otherwise be missed.
            let changed = self.changed.notified();
            let until = {
                let clock = self.clock();
                clock.running_since.map(|since| since + clock.left)
            };
            match until {
                None => changed.await,
                Some(until) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(until) => return,
                },
            }
        }
    }

    /// Pauses the budget until the guard is dropped.
    pub(crate) fn pause(&self) -> Paused<'_> {
        {
            let mut clock = self.clock();
            clock.waits += 1;
            if let Some(since) = clock.running_since.take() {
                clock.left = clock.left.saturating_sub(since.elapsed());
            }
        }
        self.changed.notify_waiters();
        Paused(self)
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Paused<'a>(&'a Budget);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        {
            let mut clock = self.0.clock();
            clock.waits -= 1;
            if clock.waits == 0 {
                clock.running_since = Some(Instant::now());
            }
        }
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_costs_nothing() {
        let budget = Budget::new(Duration::from_secs(10));
        let started = Instant::now();
        let ask = async {
            tokio::time::sleep(Duration::from_secs(4)).await;
            let first = budget.pause();
            tokio::time::sleep(Duration::from_secs(60)).await;
            let second = budget.pause();
            drop(first);
            tokio::time::sleep(Duration::from_secs(60)).await;
            drop(second);
        };
        tokio::join!(ask, budget.spent());
        assert_eq!(started.elapsed(), Duration::from_secs(130));
    }
}
