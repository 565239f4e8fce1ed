//! `callboard log`: past events, and new ones as they happen.

use std::collections::HashMap;

use callboard_domain::event::{LoggedEvent, sentence};
use callboard_domain::ids::TaskId;
use callboard_domain::time::Timestamp;
use callboard_engine::EngineError;
use callboard_surface::events::document;
use serde_json::{Value, json};

use super::context::{Context, Open};
use crate::output::{Exit, Failure, List, Object, Style};

/// Show who did what, when
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard log SHOP-01j8x2k7\n  callboard log --follow --json")]
pub struct LogArgs {
    /// Only this task
    id: Option<String>,
    /// Go on printing what happens
    #[arg(short, long)]
    follow: bool,
    /// The newest N events only
    #[arg(long, value_name = "N", default_value_t = 50)]
    tail: usize,
    /// Also heartbeats and renewals of leases
    #[arg(long)]
    all: bool,
}

/// Events that are read at a time; the log may have millions.
const PAGE: usize = 1000;

pub async fn cmd_log(context: &Context, args: LogArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let task = match &args.id {
        Some(typed) => Some(open.task_id(typed).await?),
        None => None,
    };
    let mut log = Log { open: &open, task, all: args.all, called: HashMap::new() };
    if args.follow {
        return log.follow(args.tail).await;
    }
    let events = log.newest(args.tail).await?;
    if context.out.json {
        let shown: Vec<Value> = events.iter().map(document).collect();
        let more = log.whole_from(events.len(), args.tail).await?;
        let more = more.map_or(json!({}), |seq| json!({ "whole_from": seq }));
        return context.out.list_with(List::Events, shown, Value::Null, more);
    }
    if let Some(seq) = log.whole_from(events.len(), args.tail).await? {
        context.out.note(&format!(
            "the log is whole from event {seq} on; older events of closed tasks were removed \
             (retention.events_days)"
        ));
    }
    let now = open.engine().store().now();
    for event in &events {
        log.print(event, now).await?;
    }
    Ok(())
}

/// The log of a project or of one task.
struct Log<'o> {
    open: &'o Open,
    task: Option<TaskId>,
    all: bool,
    /// Names and titles that were looked up; `None` for tasks that are gone.
    called: HashMap<TaskId, Option<String>>,
}

impl Log<'_> {
    async fn follow(&mut self, tail: usize) -> Result<(), Failure> {
        let (open, task) = (self.open, self.task);
        let op = open.op_long("log")?;
        // Watching starts before reading, so that no event is missed between the two.
        let watch = match task {
            Some(task) => open.engine().task_watch(task).await?,
            None => open.engine().event_watch().await?,
        };
        // Read before the events, so that repeated events can be told from new ones.
        let mut seen = open.engine().last_seq().await?;
        let mut fresh = self.newest(tail).await?;
        seen = seen.max(fresh.last().map_or(0, |event| event.seq));
        loop {
            for event in &fresh {
                self.print(event, open.engine().store().now()).await?;
            }
            tokio::select! {
                () = watch.changed() => {}
                () = op.cancel.cancelled() => return Err(Failure::Silent(Exit::Interrupted as u8)),
            }
            fresh.clear();
            loop {
                let page = open.engine().event_list(&op, seen, task, PAGE).await?;
                seen = page.last().map_or(seen, |event| event.seq);
                let is_last = page.len() < PAGE;
                fresh.extend(page.into_iter().filter(|event| self.shows(event)));
                if is_last {
                    break;
                }
            }
        }
    }

    /// The last `tail` events that are shown. The log is read from its end, further back while there are too few.
    async fn newest(&self, tail: usize) -> Result<Vec<LoggedEvent>, Failure> {
        let last = self.open.engine().last_seq().await?;
        let mut span = tail as u64;
        loop {
            // The events of one task have an index of their own. Those of a project are found by going back in the log.
            let after = if self.task.is_some() { 0 } else { last.saturating_sub(span) };
            let mut events = self.since(after, tail).await?;
            if after == 0 || events.len() >= tail {
                events.drain(..events.len().saturating_sub(tail));
                return Ok(events);
            }
            // Most of the events were heartbeats, which are not shown.
            span = span.saturating_mul(4);
        }
    }

    /// Set when the printed events reach back to where events were removed: the log is whole from this number on.
    async fn whole_from(&self, printed: usize, tail: usize) -> Result<Option<u64>, Failure> {
        let floor = self.open.engine().log_floor().await?;
        Ok(Some(floor.seq).filter(|_| printed < tail && floor.is_raised()))
    }

    async fn since(&self, mut after: u64, tail: usize) -> Result<Vec<LoggedEvent>, Failure> {
        let op = self.open.op("log");
        let mut events: Vec<LoggedEvent> = Vec::new();
        loop {
            let page = self.open.engine().event_list(&op, after, self.task, PAGE).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map_or(after, |event| event.seq);
            events.extend(page.into_iter().filter(|event| self.shows(event)));
            events.drain(..events.len().saturating_sub(tail));
            if is_last {
                return Ok(events);
            }
        }
    }

    fn shows(&self, event: &LoggedEvent) -> bool {
        self.all || !event.name.is_renewal()
    }

    async fn print(&mut self, event: &LoggedEvent, now: Timestamp) -> Result<(), Failure> {
        let out = self.open.out;
        if out.json {
            return out.object_line(Object::Event, document(event));
        }
        let called = match event.task() {
            Some(task) => self.called(task).await?,
            None => None,
        };
        let at = out.when(event.at, now);
        let at = if out.terminal { format!("{at:>10}") } else { at };
        out.line(&format!(
            "{}  {}",
            out.styled(Style::Dim, &at),
            sentence(event, called.as_deref())
        ))
    }

    /// The name and the title of a task: `SHOP-12 Add flag`.
    async fn called(&mut self, task: TaskId) -> Result<Option<String>, Failure> {
        if let Some(known) = self.called.get(&task) {
            return Ok(known.clone());
        }
        let found = match self.open.engine().task_get(&self.open.op("log"), task).await {
            Ok(seen) => Some(format!("{} {}", seen.it.task.name(), seen.it.task.title)),
            // A removed task has events, but no name any more.
            Err(EngineError::Refused(_)) => None,
            Err(error) => return Err(error.into()),
        };
        self.called.insert(task, found.clone());
        Ok(found)
    }
}
