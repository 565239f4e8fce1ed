//! The state of the agents on tasks, without naming a job: which run, wait or review, their output, and whose work
//! touches the same files.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use callboard_domain::ids::TaskId;
use callboard_domain::runs::job::JobState;
use callboard_domain::runs::run::{Artifact, ArtifactName, RunRecord};
use callboard_domain::runs::work::Role;
use callboard_domain::time::Timestamp;

use callboard_store::DueJob;

use crate::context::{OpContext, Scope};
use crate::{Engine, EngineError};

/// How long the list of files that a task's work touches is cached: git is slow to compute it.
const FILES_FRESH: Duration = Duration::from_secs(5);
const LOGS: ArtifactName = ArtifactName::Logs;
/// The newest runs of a task: the one that is not over, and the ones whose processes are about to end.
const RUNS_SEEN: usize = 3;
/// How many runs of one task are counted or searched.
pub(crate) const RUNS_MAX: usize = 10_000;

/// The state of a task's agent.
#[derive(Clone, Debug, Default)]
pub struct WorkNow {
    /// A process of an agent that works on the task lives, whatever the task's status.
    pub is_running: bool,
    pub is_reviewing: bool,
    pub pending: Option<Pending>,
    /// Running tasks whose work touches the same files as this one's.
    pub overlaps: Vec<TaskId>,
}

/// A start that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    pub since: Timestamp,
    pub why: PendingFor,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingFor {
    /// Another agent has to end first.
    Place,
    Runner,
    /// Processes of an earlier run have to end first; they are named.
    Processes(String),
}

/// The output of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkLog {
    /// The number of the run; 1 for a task's first.
    pub run: usize,
    pub began_at: Timestamp,
    pub text: String,
}

type Files = Arc<BTreeSet<(PathBuf, String)>>;

/// The files that the work of tasks touches, as git said a moment ago.
#[derive(Default)]
pub(crate) struct FilesSeen(Mutex<HashMap<TaskId, (Instant, Files)>>);

impl FilesSeen {
    fn fresh(&self, task: TaskId) -> Option<Files> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, (at, _)| at.elapsed() < FILES_FRESH);
        seen.get(&task).map(|(_, files)| files.clone())
    }

    fn keep(&self, task: TaskId, files: Files) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(task, (Instant::now(), files));
    }
}

impl Engine {
    pub async fn work_now(&self, op: &OpContext, task: TaskId) -> Result<WorkNow, EngineError> {
        let (mut now, running) = self.works_open(op, &[task]).await?;
        let mut now = now.remove(&task).unwrap_or_default();
        now.overlaps = self.overlaps(&op.principal.org, task, &running).await?;
        Ok(now)
    }

    /// As `work_now`, for many tasks; overlaps are given only for tasks that run.
    pub async fn works_now(
        &self,
        op: &OpContext,
        tasks: &[TaskId],
    ) -> Result<HashMap<TaskId, WorkNow>, EngineError> {
        let (mut all, running) = self.works_open(op, tasks).await?;
        for task in tasks.iter().filter(|task| running.contains(task)) {
            let overlaps = self.overlaps(&op.principal.org, *task, &running).await?;
            all.entry(*task).or_default().overlaps = overlaps;
        }
        Ok(all)
    }

    /// The state of each of these tasks with a run that is not over or has a process left, and the tasks of the org
    /// that run here.
    async fn works_open(
        &self,
        op: &OpContext,
        tasks: &[TaskId],
    ) -> Result<(HashMap<TaskId, WorkNow>, Vec<TaskId>), EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let org = &op.principal.org;
        let mut all = HashMap::new();
        let store = &self.parts.store;
        let (records, here) = match tasks {
            [_] => {
                let both = tokio::try_join!(
                    store.works(org, tasks, RUNS_SEEN),
                    store.runs_on(&self.parts.machine)
                );
                let (records, here) = both?;
                (records, Some(here))
            }
            _ => (store.works(org, tasks, RUNS_SEEN).await?, None),
        };
        for record in records {
            let has_process = self.has_process(&record).await;
            let is_left = has_process || !record.job.is_over();
            let Some(task) = record.job.task.filter(|_| is_left) else { continue };
            let now = self.now_of(org, &record, has_process).await?;
            let known: &mut WorkNow = all.entry(task).or_default();
            known.is_running |= now.is_running;
            known.is_reviewing |= now.is_reviewing;
            known.pending = known.pending.take().or(now.pending);
        }
        let here = match here {
            Some(here) => here,
            None if all.is_empty() => return Ok((all, Vec::new())),
            None => store.runs_on(&self.parts.machine).await?,
        };
        let of_task = |due: &&DueJob| due.job.kind.is_in_workspace();
        let work = here.iter().filter(of_task).filter(|due| !due.job.is_over());
        let running = work.filter(|due| due.org == *org).filter_map(|due| due.job.task).collect();
        Ok((all, running))
    }

    async fn now_of(
        &self,
        org: &str,
        record: &RunRecord,
        has_process: bool,
    ) -> Result<WorkNow, EngineError> {
        let role = record.run.order.work().map(|order| order.role);
        let waits = matches!(record.job.state, JobState::Queued { .. });
        let why = match (waits, role) {
            (true, Some(Role::Worker)) => {
                let machine = record.run.bound_to.as_deref();
                let for_place = self.before_a_place(org, machine, Some(record.job.id)).await?;
                Some(if for_place { PendingFor::Place } else { PendingFor::Runner })
            }
            _ => record.held().map(|words| PendingFor::Processes(words.to_owned())),
        };
        let since = record.run.changed_at;
        let is_reviewer = role == Some(Role::Reviewer);
        Ok(WorkNow {
            is_running: has_process && !is_reviewer,
            is_reviewing: !waits && is_reviewer && !record.job.is_over(),
            pending: why.map(|why| Pending { since, why }),
            overlaps: Vec::new(),
        })
    }

    async fn overlaps(
        &self,
        org: &str,
        task: TaskId,
        running: &[TaskId],
    ) -> Result<Vec<TaskId>, EngineError> {
        let mut found = Vec::new();
        let others = || running.iter().filter(|other| **other != task);
        if others().next().is_none() {
            return Ok(found);
        }
        let files = self.files_of(org, task).await?;
        if files.is_empty() {
            return Ok(found);
        }
        for other in others() {
            let theirs = self.files_of(org, *other).await?;
            if theirs.intersection(&files).next().is_some() {
                found.push(*other);
            }
        }
        found.sort();
        Ok(found)
    }

    /// The files that a task's work touches; empty if git fails. They are a hint for people.
    async fn files_of(&self, org: &str, task: TaskId) -> Result<Files, EngineError> {
        if let Some(files) = self.files_seen.fresh(task) {
            return Ok(files);
        }
        let mut files = BTreeSet::new();
        let record = self.parts.store.task(org, task).await?;
        if let (Some(record), Some(shop)) = (record, &self.parts.workshop) {
            let card = self.parts.store.card(org, task).await?.unwrap_or_default();
            let parts = self.worktrees_known(org, &record.task, &card).await?;
            for part in &parts {
                let Some(place) = &part.worktree else { continue };
                let state = shop.worktrees.worktree_state(place, &part.target).await;
                let changed = state.map(|state| state.changed).unwrap_or_default();
                files.extend(changed.into_iter().map(|file| (part.repo.path.clone(), file)));
            }
        }
        let files = Arc::new(files);
        self.files_seen.keep(task, files.clone());
        Ok(files)
    }

    /// The output of a task's newest runs, oldest first.
    pub async fn work_logs(
        &self,
        op: &OpContext,
        task: TaskId,
        newest: usize,
    ) -> Result<Vec<WorkLog>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let org = &op.principal.org;
        let runs = self.runs_with_output(org, task).await?;
        let mut logs = Vec::new();
        // A run without output is the newest, and does not count towards `newest`.
        for (index, record) in runs.iter().enumerate().rev() {
            let Some(text) = self.log_so_far(org, record).await? else { continue };
            let began_at = record.run.started_at.unwrap_or(record.job.created_at);
            logs.push(WorkLog { run: index + 1, began_at, text });
            if logs.len() == newest {
                break;
            }
        }
        logs.reverse();
        Ok(logs)
    }

    /// The runs of a task that have output, or may have some soon; oldest first.
    pub(super) async fn runs_with_output(
        &self,
        org: &str,
        task: TaskId,
    ) -> Result<Vec<RunRecord>, EngineError> {
        let mut runs = self.parts.store.works(org, &[task], RUNS_MAX).await?;
        runs.retain(|record| !record.job.is_over() || record.run.artifact(LOGS).is_some());
        runs.sort_by_key(|record| record.job.id);
        Ok(runs)
    }

    /// The output of a run, so far if it goes on; `None` when there is none.
    pub(crate) async fn log_so_far(
        &self,
        org: &str,
        record: &RunRecord,
    ) -> Result<Option<String>, EngineError> {
        let (log, tail) = self.log_parts(org, record).await?;
        let kept = match &log {
            Some(log) => self.artifact_text(org, log).await?,
            None => None,
        };
        Ok(match (kept, tail) {
            (None, None) => None,
            (kept, None) => kept,
            (kept, Some(tail)) => Some(kept.unwrap_or_default() + &tail),
        })
    }

    /// Where the output of a run is: the stored log of what is over, and the text of what goes on.
    pub(super) async fn log_parts(
        &self,
        org: &str,
        record: &RunRecord,
    ) -> Result<(Option<Artifact>, Option<String>), EngineError> {
        let (store, job) = (&self.parts.store, record.job.id);
        let tail = match record.run.order.work() {
            Some(_) => store.run_tail(org, job).await?,
            None => None,
        };
        // The tail may just have become the log.
        let newer = match (&tail, record.job.is_over()) {
            (None, false) => store.run(org, job).await?.map(|seen| seen.record),
            _ => None,
        };
        let log = newer.as_ref().unwrap_or(record).run.artifact(LOGS).cloned();
        let tail = tail.filter(|tail| log.as_ref().is_none_or(|log| log.fence < tail.fence));
        Ok((log, tail.map(|tail| tail.text)))
    }
}
