//! Jobs for agents.

use callboard_domain::ids::TaskId;
use callboard_domain::runs::run::{Run, RunRecord};

use super::cell::table;
use super::{Cells, RowReader, job, json};
use crate::{RunSeen, RunTail, RunnerSeen};

/// The columns of a run `r`; they follow those of its job.
pub(crate) const RUN: &str = "r.spec, r.content_hash, r.changed_at, r.summary, \
     r.attempt, r.fence, r.started_at, r.up_at, r.gone_at, r.expires_at, r.bound_to, r.runs_on, \
     r.artifacts, r.question, r.pr, r.webhook, r.terminal, r.usage";

/// Reads a job and its run.
pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<RunRecord, R::Error> {
    let job = job::read(row)?;
    let run = Run {
        job: job.id,
        order: row.json("spec")?,
        content_hash: row.text()?,
        changed_at: row.time()?,
        summary: row.text_if()?,
        attempt: row.count()?,
        fence: row.count()?,
        started_at: row.time_if()?,
        up_at: row.time_if()?,
        gone_at: row.time_if()?,
        expires_at: row.time()?,
        bound_to: row.text_if()?,
        runs_on: row.text_if()?,
        artifacts: row.json("artifacts")?,
        question: row.json_if("question")?,
        pr: row.json_if("pr")?,
        webhook: row.json_if("webhook")?,
        terminal: row.json_if("terminal")?,
        usage: row.json_if("usage")?,
    };
    Ok(RunRecord { job, run })
}

/// Reads a job and its run, with `crate::runs::POSITION` and the version behind them.
pub(crate) fn read_seen<R: Cells>(row: &mut RowReader<'_, R>) -> Result<RunSeen, R::Error> {
    Ok(RunSeen { record: read(row)?, position: row.count_if()?, version: row.count()? })
}

/// The version of a new row until its event is numbered, in the same transaction.
/// The schema asks for at least 1.
const UNNUMBERED: i64 = 1;

table! {
    RUNS = "runs";
    /// `task` is given for a new run only; the spec of a run never changes, and is left out of the values of a known one.
    fn values(org: i64, run: &'a Run, task: Option<TaskId>) {
        job: run.job,
        org: org,
        task: task,
        // A copy of a part of `spec`, for the index that finds the runs of one key.
        key: run.order.key(),
        // Tells a repeated submission from another request under the key of an earlier one.
        content_hash: &run.content_hash,
        spec: task.map(|_| json(&run.order)),
        version: UNNUMBERED,
        changed_at: run.changed_at,
        summary: &run.summary,
        attempt: run.attempt,
        fence: run.fence,
        started_at: run.started_at,
        // The end of the job's time to live, over all of its runs.
        expires_at: run.expires_at,
        // The machine that has the repository; NULL for one that any machine can fetch.
        bound_to: &run.bound_to,
        runs_on: &run.runs_on,
        artifacts: json(&run.artifacts),
        question: run.question.as_ref().map(json),
        pr: run.pr.as_ref().map(json),
        up_at: run.up_at,
        gone_at: run.gone_at,
        webhook: run.webhook.as_ref().map(json),
        terminal: run.terminal.as_ref().map(json),
        usage: run.usage.as_ref().map(json),
    }
}

/// The columns that change.
pub(crate) const STEPS: [&str; 14] = [
    // `version` is missing here: the log writes it, once the event of the step has its number.
    "changed_at",
    "summary",
    "attempt",
    "fence",
    "started_at",
    "runs_on",
    "artifacts",
    "question",
    "pr",
    "expires_at",
    "up_at",
    "gone_at",
    "terminal",
    "usage",
];

/// Reads the columns of `crate::runs::tail`.
pub(crate) fn read_tail<R: Cells>(row: &mut RowReader<'_, R>) -> Result<RunTail, R::Error> {
    Ok(RunTail { fence: row.count()?, text: row.text()? })
}

/// Reads the columns of `crate::runs::RUNNERS`.
pub(crate) fn read_runner<R: Cells>(row: &mut RowReader<'_, R>) -> Result<RunnerSeen, R::Error> {
    Ok(RunnerSeen { runner: row.actor()?, machine: row.text()?, seen_at: row.time()? })
}
