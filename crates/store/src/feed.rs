//! Carries committed events, of this process and of others, to the waits in this process.
//!
//! Without a listener the feed keeps no position and costs nothing. With one, every event committed after `start`
//! reaches the sink exactly once and in order: events of this process are handed over directly, events of other
//! processes are read from the log.

use std::sync::{Arc, Mutex, OnceLock};

use callboard_domain::event::LoggedEvent;

use crate::StoreError;

pub trait EventSink: Send + Sync {
    /// Called with rising numbers, and under the feed's lock: it must return at once.
    fn publish(&self, events: &[LoggedEvent]);
    /// Whether any wait needs events.
    fn is_listening(&self) -> bool;
}

#[derive(Default)]
pub(crate) struct Feed {
    sink: OnceLock<Arc<dyn EventSink>>,
    /// The last event handed over; `None` without a listener.
    position: Mutex<Option<u64>>,
}

impl Feed {
    pub fn set_sink(&self, sink: Arc<dyn EventSink>) {
        // A second sink would be a wiring mistake; the first one stays.
        let _ = self.sink.set(sink);
    }

    fn position(&self) -> std::sync::MutexGuard<'_, Option<u64>> {
        self.position.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Starts at the end of the log unless already started.
    pub fn start(
        &self,
        last_seq: impl FnOnce() -> Result<u64, StoreError>,
    ) -> Result<(), StoreError> {
        let mut position = self.position();
        if position.is_none() {
            *position = Some(last_seq()?);
        }
        Ok(())
    }

    /// Hands over the events that this process just committed, after the earlier ones of other processes.
    pub fn committed(
        &self,
        events: &[LoggedEvent],
        read_after: impl FnOnce(u64) -> Result<Vec<LoggedEvent>, StoreError>,
    ) -> Result<(), StoreError> {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(()) };
        let mut position = self.position();
        let Some(seen) = *position else { return Ok(()) };
        let Some(sink) = self.listening_sink(&mut position) else { return Ok(()) };
        // The usual case: no other process committed in between, so the log need not be read.
        if first.seq == seen + 1 {
            sink.publish(events);
            *position = Some(last.seq);
            return Ok(());
        }
        Self::catch_up(sink, &mut position, seen, read_after)
    }

    /// Hands over the events that other processes committed since the last look.
    pub fn look(
        &self,
        read_after: impl FnOnce(u64) -> Result<Vec<LoggedEvent>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut position = self.position();
        let Some(seen) = *position else { return Ok(()) };
        let Some(sink) = self.listening_sink(&mut position) else { return Ok(()) };
        Self::catch_up(sink, &mut position, seen, read_after)
    }

    /// The last event handed over, while there is a listener. For backends with asynchronous reads: they read the
    /// log after this event and hand over the result, without holding the lock meanwhile.
    pub fn seen(&self) -> Option<u64> {
        let mut position = self.position();
        let seen = (*position)?;
        self.listening_sink(&mut position).map(|_| seen)
    }

    /// Hands over the new ones among consecutive events; `false` when earlier events are missing, so that the log
    /// must be read first.
    pub fn hand_over(&self, events: &[LoggedEvent]) -> bool {
        let Some(first) = events.first() else { return true };
        let mut position = self.position();
        let Some(seen) = *position else { return true };
        let Some(sink) = self.listening_sink(&mut position) else { return true };
        if first.seq > seen + 1 {
            return false;
        }
        let news = &events[events.partition_point(|event| event.seq <= seen)..];
        if let Some(last) = news.last() {
            sink.publish(news);
            *position = Some(last.seq);
        }
        true
    }

    /// Whether there is a listener; lets pollers stay quiet.
    pub fn is_started(&self) -> bool {
        self.position().is_some()
    }

    /// Without a listener the position is dropped: the next `start` begins at the end of the log again.
    fn listening_sink(&self, position: &mut Option<u64>) -> Option<&Arc<dyn EventSink>> {
        let sink = self.sink.get().filter(|sink| sink.is_listening());
        if sink.is_none() {
            *position = None;
        }
        sink
    }

    fn catch_up(
        sink: &Arc<dyn EventSink>,
        position: &mut Option<u64>,
        seen: u64,
        read_after: impl FnOnce(u64) -> Result<Vec<LoggedEvent>, StoreError>,
    ) -> Result<(), StoreError> {
        let missed = read_after(seen)?;
        if let Some(last) = missed.last() {
            sink.publish(&missed);
            *position = Some(last.seq);
        }
        Ok(())
    }
}
