//! The output of an agent as it prints it. On the machine of the run it is read from the run's file; elsewhere it is
//! read from the store. A reader of the store registers there, and the runner then writes new output within a third of
//! a second instead of every two seconds.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::ids::TaskId;
use callboard_domain::runs::job::JobId;
use callboard_domain::runs::run::RunRecord;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::context::{OpContext, Scope};
use crate::ports::{CUT, Printout, SO_FAR};
use crate::runs::look::RUNS_MAX;
use crate::{Engine, EngineError};

/// How often a file is polled: with the writer's own pause well below a second.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the store is asked for the state of the job, and for the output if there is no file.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// How often a reader registers in the store.
const FOLLOW_EVERY: Duration = Duration::from_secs(2);
/// How often new output is written to the store while no reader follows it there.
const KEEP_EVERY: Duration = Duration::from_secs(2);
/// How often it is written while a reader follows, and how often readers are looked for. With the runner's own pause
/// (200 ms) and the reader's, a line is seen within 0.75 s and two commits.
const KEEP_FOLLOWED_EVERY: Duration = Duration::from_millis(300);
/// How many of the last bytes shown are searched for in a text whose beginning was cut.
const OVERLAP_BYTES: usize = 256;

/// A reader of one job's output.
pub struct RunFollow {
    engine: Arc<Engine>,
    org: Arc<str>,
    job: JobId,
    live: Option<Box<dyn Printout>>,
    /// The newest attempt whose file was read to its end.
    read: u32,
    /// The text that the store had when it was last asked, if the output comes from there.
    kept: Option<String>,
    asked_at: Option<Instant>,
    /// When this reader last registered in the store.
    said_at: Option<Instant>,
}

impl Engine {
    pub async fn run_follow(
        self: &Arc<Self>,
        op: &OpContext,
        job: JobId,
    ) -> Result<RunFollow, EngineError> {
        self.run_find(op, job).await?;
        Ok(RunFollow {
            engine: self.clone(),
            org: op.principal.org.clone(),
            job,
            live: None,
            read: 0,
            kept: None,
            asked_at: None,
            said_at: None,
        })
    }

    /// The run on a task that is not over, else the newest one.
    pub async fn work_newest(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Option<RunRecord>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        Ok(self.parts.store.works(&op.principal.org, &[task], 1).await?.pop())
    }

    /// The newest runs on a task, the newest first.
    pub async fn work_runs(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Vec<RunRecord>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        Ok(self.parts.store.works(&op.principal.org, &[task], RUNS_MAX).await?)
    }

    /// The newest run on a task that printed something or may print, else the newest one. A start that waits has printed
    /// nothing, and a run that never came up left nothing.
    pub async fn work_printed(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Option<RunRecord>, EngineError> {
        let mut runs = self.work_runs(op, task).await?;
        let begun = || runs.iter().position(|record| record.run.started_at.is_some());
        let printed = runs.iter().position(RunRecord::may_have_printed).or_else(begun);
        Ok((!runs.is_empty()).then(|| runs.swap_remove(printed.unwrap_or(0))))
    }
}

impl RunFollow {
    /// The output since the last call; waits until there is some. `None` when the job is over and all output was
    /// returned.
    pub async fn next(&mut self) -> Result<Option<String>, EngineError> {
        loop {
            if let Some(text) = self.read_live() {
                return Ok(Some(text));
            }
            let is_time = self.asked_at.is_none_or(|at| at.elapsed() >= ASK_EVERY);
            if self.live.is_none() && is_time {
                self.asked_at = Some(Instant::now());
                let seen = self.engine.parts.store.run(&self.org, self.job).await?;
                let Some(record) = seen.map(|seen| seen.record) else { return Ok(None) };
                let text = self.read_kept(&record).await?;
                if text.is_some() || (record.job.is_over() && self.live.is_none()) {
                    return Ok(text);
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Registers this reader. A failed write makes the output late, not wrong.
    async fn say_follow(&mut self) {
        if self.said_at.is_some_and(|at| at.elapsed() < FOLLOW_EVERY) {
            return;
        }
        self.said_at = Some(Instant::now());
        if let Err(error) = self.engine.parts.store.run_follow(&self.org, self.job).await {
            tracing::info!(%error, job = %self.job, "cannot tell the runner that a reader follows");
        }
    }

    fn read_live(&mut self) -> Option<String> {
        let live = self.live.as_mut()?;
        // Asked before the read, so that output printed in between is read.
        let is_over = live.is_over();
        let text = live.read().unwrap_or_default();
        if text.is_empty() && is_over {
            self.live = None;
        }
        Some(text).filter(|text| !text.is_empty())
    }

    /// Opens the file of an attempt that was not read yet. Without a file, returns the output from the store.
    async fn read_kept(&mut self, record: &RunRecord) -> Result<Option<String>, EngineError> {
        let attempt = record.run.attempt;
        if !record.job.is_over() && attempt > self.read && self.kept.is_none() {
            let shop = self.engine.parts.workshop.as_ref();
            let workers = shop.and_then(|shop| shop.workers.as_ref());
            self.live =
                workers.and_then(|workers| workers.printout(&self.job.to_string(), attempt));
            if self.live.is_some() {
                self.read = attempt;
                return Ok(None);
            }
        }
        if !record.job.is_over() {
            self.say_follow().await;
        }
        // Output that was read from a file is not repeated.
        let is_told = self.read > 0;
        let is_begun = record.run.up_at.is_some() || record.job.is_over();
        if is_told || !is_begun {
            return Ok(None);
        }
        let Some(text) = self.engine.log_so_far(&self.org, record).await? else { return Ok(None) };
        let fresh = fresh(self.kept.as_deref().unwrap_or_default(), &text).to_owned();
        self.kept = Some(text);
        Ok(Some(fresh).filter(|fresh| !fresh.is_empty()))
    }
}

/// Keeps the output of an agent so far for readers without the run's file.
#[async_trait]
pub(crate) trait TailKeeper: Sync {
    /// Whether a reader follows the output there.
    async fn is_followed(&self) -> bool;
    async fn keep(&self, text: String);
}

/// Keeps the newest output: the first at once, then every two seconds, and more often while a reader follows. Looks for
/// readers only while there is something to keep.
pub(crate) async fn keep_paced(keeper: &impl TailKeeper, mut heard: watch::Receiver<String>) {
    let mut kept_at: Option<Instant> = None;
    while heard.changed().await.is_ok() {
        while let Some(passed) = kept_at.map(|at| at.elapsed())
            && passed < KEEP_EVERY
        {
            if passed >= KEEP_FOLLOWED_EVERY && keeper.is_followed().await {
                break;
            }
            tokio::time::sleep(KEEP_FOLLOWED_EVERY.min(KEEP_EVERY - passed)).await;
        }
        let text = heard.borrow_and_update().clone();
        keeper.keep(text).await;
        kept_at = Some(Instant::now());
    }
}

/// The part of a text that was not in the one before. The beginning may have been cut since, and the final log is
/// composed anew: other notes stand before the output.
fn fresh<'t>(before: &str, now: &'t str) -> &'t str {
    if let Some(rest) = now.strip_prefix(before) {
        return rest;
    }
    let printed = before.split_once(SO_FAR).map_or(before, |(_, printed)| printed);
    let whole = Some(printed).filter(|printed| !printed.starts_with(CUT));
    if let Some(at) = whole.and_then(|printed| Some(now.find(printed)? + printed.len())) {
        return &now[at..];
    }
    let from = printed.ceil_char_boundary(printed.len().saturating_sub(OVERLAP_BYTES));
    let last = &printed[from..];
    now.rfind(last).map_or(now, |at| &now[at + last.len()..])
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Counts writes, with the longest time between two.
    struct Counted {
        is_followed: bool,
        kept: Mutex<(u32, Instant, Duration)>,
    }

    #[async_trait]
    impl TailKeeper for Counted {
        async fn is_followed(&self) -> bool {
            self.is_followed
        }

        async fn keep(&self, _: String) {
            let mut kept = self.kept.lock().expect("nobody panicked");
            let (count, at, longest) = *kept;
            *kept = (count + 1, Instant::now(), longest.max(at.elapsed()));
        }
    }

    /// A minute of an agent that prints all the time.
    async fn paced(is_followed: bool) -> (u32, Duration) {
        const MINUTE: Duration = Duration::from_secs(60);
        let (says, heard) = watch::channel(String::new());
        let start = Instant::now();
        let prints = async move {
            while start.elapsed() < MINUTE {
                says.send_replace(start.elapsed().as_millis().to_string());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let keeper = Counted { is_followed, kept: Mutex::new((0, start, Duration::ZERO)) };
        tokio::join!(prints, keep_paced(&keeper, heard));
        let (count, _, longest) = *keeper.kept.lock().expect("nobody panicked");
        (count, longest)
    }

    #[tokio::test(start_paused = true)]
    async fn a_chatty_agent_is_written_down_once_in_two_seconds_unless_somebody_follows() {
        let (writes, _) = paced(false).await;
        assert!((29..=31).contains(&writes), "{writes} writes in a minute");
        let (writes, longest) = paced(true).await;
        assert!((150..=201).contains(&writes), "{writes} writes in a minute");
        assert!(longest < Duration::from_millis(400), "{longest:?}");
    }

    #[test]
    fn only_what_is_new_is_told() {
        assert_eq!(fresh("", "one\n"), "one\n");
        assert_eq!(fresh("one\n", "one\ntwo\n"), "two\n");
        assert_eq!(fresh("one\n", "one\n"), "");
        let long = "x".repeat(OVERLAP_BYTES) + "one\n";
        let cut = format!("{CUT}{}two\n", &long[4..]);
        assert_eq!(fresh(&long, &cut), "two\n");
        assert_eq!(fresh("one\n", "another"), "another");
        let so_far = format!("note\n{SO_FAR}a\n");
        assert_eq!(fresh(&so_far, "note\nover\n----- stdout -----\na\nb\na\n"), "b\na\n");
    }
}
