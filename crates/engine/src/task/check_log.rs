//! Logs of checks: kept in the database if several machines share a store, else only in the repository of the machine
//! that ran the check. Both places are read.

use std::path::Path;

use callboard_domain::decide::log_of;
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_domain::refusal::found::check_log_elsewhere;
use callboard_domain::task::Task;
use callboard_store::{FileError, FileSpan, NewFile};

use crate::context::OpContext;
use crate::log_window::PART_BYTES;
use crate::ports::{CheckRunner, LogPart};
use crate::task::check::infrastructure;
use crate::{Engine, EngineError, LogQuery, LogReader, LogWindow};

/// How much of a log is shown by default.
pub const LOG_TAIL_BYTES: u64 = 64 * 1024;

/// Part of a log, with the log's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckLog {
    /// Its path in the repository of the machine that ran the check.
    pub name: String,
    pub part: LogPart,
}

/// Lines of a log, with the log's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckLogLines {
    pub name: String,
    pub window: LogWindow,
}

impl CheckLog {
    pub fn is_whole(&self) -> bool {
        self.part.bytes.len() as u64 == self.part.size
    }

    /// The part as text; bytes of a character that was cut in two are dropped at its beginning.
    pub fn text(&self) -> String {
        let is_rest = |byte: &&u8| self.part.start > 0 && **byte & 0b1100_0000 == 0b1000_0000;
        let rest = self.part.bytes.iter().take(3).take_while(is_rest).count();
        String::from_utf8_lossy(&self.part.bytes[rest..]).into_owned()
    }
}

impl Engine {
    /// The output of a command check's last run.
    pub async fn check_log(
        &self,
        op: &OpContext,
        task: TaskId,
        index: usize,
        span: FileSpan,
    ) -> Result<CheckLog, EngineError> {
        let record = self.task_get(op, task).await?.it;
        let name = log_of(&record.task, index)?.to_owned();
        let part = self.log_part(op, &record.task, &name, span).await?;
        let part = part.ok_or_else(|| check_log_elsewhere(task, index, &name))?;
        Ok(CheckLog { name, part })
    }

    /// Lines of the output of a command check's last run. The log is read in parts.
    pub async fn check_log_lines(
        &self,
        op: &OpContext,
        task: TaskId,
        index: usize,
        query: &LogQuery,
    ) -> Result<CheckLogLines, EngineError> {
        let record = self.task_get(op, task).await?.it;
        let name = log_of(&record.task, index)?.to_owned();
        let (mut reader, mut start) = (LogReader::new(query), 0);
        loop {
            let span = FileSpan::From { start, bytes_max: PART_BYTES };
            let part = self.log_part(op, &record.task, &name, span).await?;
            let part = part.ok_or_else(|| check_log_elsewhere(task, index, &name))?;
            reader.push(&part.bytes);
            start += part.bytes.len() as u64;
            if part.bytes.is_empty() || start >= part.size {
                break;
            }
        }
        Ok(CheckLogLines { name, window: reader.finish() })
    }

    async fn log_part(
        &self,
        op: &OpContext,
        task: &Task,
        name: &str,
        span: FileSpan,
    ) -> Result<Option<LogPart>, EngineError> {
        match self.log_in_store(op, name, span).await? {
            Some(part) => Ok(Some(part)),
            None => self.log_in_repo(task.project, name, span).await,
        }
    }

    /// Looks also on a store of one machine: a board that moved there brought its logs along.
    async fn log_in_store(
        &self,
        op: &OpContext,
        name: &str,
        span: FileSpan,
    ) -> Result<Option<LogPart>, EngineError> {
        let found = self.parts.store.file_get(&op.principal.org, name, span).await?;
        Ok(found.map(|file| LogPart { size: file.size, start: file.start, bytes: file.bytes }))
    }

    async fn log_in_repo(
        &self,
        project: i64,
        name: &str,
        span: FileSpan,
    ) -> Result<Option<LogPart>, EngineError> {
        let repo = self.parts.store.repo_path(project, &self.parts.machine).await?;
        let (Some(runner), Some(repo)) = (&self.parts.checks, repo) else { return Ok(None) };
        runner.read_log(&repo, name, span).await.map_err(infrastructure)
    }

    /// Keeps a log in a shared store, so that every server can show it, not only the one that wrote it.
    pub(crate) async fn keep_log(
        &self,
        op: &OpContext,
        runner: &dyn CheckRunner,
        repo: &Path,
        task: TaskId,
        name: &str,
    ) -> Result<(), EngineError> {
        if !self.parts.store.caps().shared {
            return Ok(());
        }
        let fault = |message: String| Refusal::CheckInfrastructure { message };
        let log = runner.read_log(repo, name, FileSpan::WHOLE).await.map_err(infrastructure)?;
        let log = log.ok_or_else(|| fault(format!("the log {name} is gone")))?;
        let file = NewFile {
            org: op.principal.org.clone(),
            task: Some(task),
            name: name.to_owned(),
            media_type: "text/plain".into(),
            bytes: log.bytes,
        };
        self.parts.store.file_put(file).await.map_err(|error| match error {
            FileError::Taken(_) => {
                fault(format!("two servers wrote {name} at once; run the checks again")).into()
            }
            FileError::TooLarge { .. } => fault(error.to_string()).into(),
            FileError::Store(error) => error.into(),
        })
    }
}
