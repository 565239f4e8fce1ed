//! The output of agents by lines. A long log is read in parts; no more than the window of lines is kept in memory.

use callboard_domain::ids::TaskId;
use callboard_domain::runs::job::JobId;
use callboard_domain::runs::run::RunRecord;
use callboard_domain::time::Timestamp;
use callboard_store::{FileSpan, RunSeen};

use crate::context::{OpContext, Scope};
use crate::log_window::PART_BYTES;
use crate::{Engine, EngineError, LogQuery, LogReader, LogWindow};

/// Lines of the output of one run of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkLogLines {
    /// The number of the run; 1 for a task's first.
    pub run: usize,
    /// How many runs of the task have output, or may have some soon.
    pub runs: usize,
    pub job: JobId,
    pub began_at: Timestamp,
    pub window: LogWindow,
}

impl Engine {
    /// Lines of the output of a job's agent, so far if it goes on; `None` when there is no output.
    pub async fn run_log_lines(
        &self,
        op: &OpContext,
        id: JobId,
        query: &LogQuery,
    ) -> Result<(RunSeen, Option<LogWindow>), EngineError> {
        let seen = self.run_find(op, id).await?;
        let window = self.log_lines(&op.principal.org, &seen.record, query).await?;
        Ok((seen, window))
    }

    /// Lines of the output of one run of a task: of the run with this number, or of the newest that has output.
    pub async fn work_log_lines(
        &self,
        op: &OpContext,
        task: TaskId,
        run: Option<usize>,
        query: &LogQuery,
    ) -> Result<Option<WorkLogLines>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let org = &op.principal.org;
        let runs = self.runs_with_output(org, task).await?;
        let wanted = runs.iter().enumerate().rev();
        for (index, record) in wanted.filter(|(index, _)| run.is_none_or(|run| run == index + 1)) {
            let Some(window) = self.log_lines(org, record, query).await? else { continue };
            let began_at = record.run.started_at.unwrap_or(record.job.created_at);
            let (run, runs, job) = (index + 1, runs.len(), record.job.id);
            return Ok(Some(WorkLogLines { run, runs, job, began_at, window }));
        }
        Ok(None)
    }

    async fn log_lines(
        &self,
        org: &str,
        record: &RunRecord,
        query: &LogQuery,
    ) -> Result<Option<LogWindow>, EngineError> {
        let (log, tail) = self.log_parts(org, record).await?;
        let mut reader = LogReader::new(query);
        let mut has_output = tail.is_some();
        if let Some(log) = &log {
            let mut start = 0;
            loop {
                let span = FileSpan::From { start, bytes_max: PART_BYTES };
                let Some(part) = self.parts.store.file_get(org, &log.file, span).await? else {
                    break;
                };
                has_output = true;
                reader.push(&part.bytes);
                start += part.bytes.len() as u64;
                if part.bytes.is_empty() || start >= part.size {
                    break;
                }
            }
        }
        if let Some(tail) = &tail {
            reader.push(tail.as_bytes());
        }
        Ok(has_output.then(|| reader.finish()))
    }
}
