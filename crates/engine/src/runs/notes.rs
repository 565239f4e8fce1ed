//! What a job's log says about the run before its output, and the limits that hold for the job.

use callboard_domain::runs::job::JobKind;
use callboard_domain::runs::notes::{NOTES_BYTES_MAX, RunNotes};
use callboard_domain::runs::run::RunRecord;
use callboard_store::FileSpan;

use crate::runs::list::JobSeen;
use crate::{Engine, EngineError};

/// The limits of a job, in seconds where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// How long one run may take; `None`: as long as the job may.
    pub run_s: Option<u64>,
    /// How long a question of the agent waits before it counts as refused.
    pub answer_s: u64,
    /// How many runs a job has at most when runners are lost.
    pub runs_max: u32,
    /// How long a runner may be silent.
    pub lease_s: u32,
}

impl Engine {
    /// The limits by the settings of this server. A job of the server itself has none.
    pub(super) fn run_limits(&self, seen: &JobSeen) -> Option<RunLimits> {
        let run = seen.run.as_ref()?;
        let (runs, board) = (&self.parts.runs, &self.parts.board);
        let answer_s = runs.ask_timeout.as_secs();
        Some(match seen.job.kind {
            JobKind::Run => {
                let own = run.order.patch().and_then(|spec| spec.execution.timeout_s);
                RunLimits {
                    run_s: Some(own.unwrap_or(runs.timeout_s).into()),
                    answer_s,
                    runs_max: runs.attempts_max,
                    lease_s: runs.lease_s,
                }
            }
            JobKind::Work
            | JobKind::Crew
            | JobKind::Verify
            | JobKind::Embed
            | JobKind::Deliver
            | JobKind::Stop
            | JobKind::Check => RunLimits {
                run_s: None,
                answer_s,
                runs_max: board.attempts_max,
                lease_s: board.lease_s,
            },
        })
    }

    /// The notes at the beginning of a job's log; empty before the first run. Reads no more than the notes take.
    pub(super) async fn run_notes(
        &self,
        org: &str,
        seen: &JobSeen,
    ) -> Result<RunNotes, EngineError> {
        let Some(run) = &seen.run else { return Ok(RunNotes::default()) };
        let record = RunRecord { job: seen.job.clone(), run: run.clone() };
        let (log, tail) = self.log_parts(org, &record).await?;
        let Some(log) = log else { return Ok(RunNotes::read(&tail.unwrap_or_default())) };
        let span = FileSpan::From { start: 0, bytes_max: NOTES_BYTES_MAX as u64 };
        let part = self.parts.store.file_get(org, &log.file, span).await?;
        let text = part.map(|part| String::from_utf8_lossy(&part.bytes).into_owned());
        Ok(RunNotes::read(&text.unwrap_or_default()))
    }
}
