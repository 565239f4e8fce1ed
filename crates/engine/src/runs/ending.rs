//! The end of a patch job's run, with everything that the run leaves: one commit, unless a pull request comes in between.

use callboard_domain::command::{Command, RunEnd};
use callboard_domain::refusal::Refusal;
use callboard_domain::relay::RunVerdict;
use callboard_domain::runs::run::{ArtifactName, Run, holder};

use crate::ports::RunReport;
use crate::runs::patch::LeasedRun;
use crate::{Engine, EngineError};

impl Engine {
    /// The end of a run, with everything that it leaves. A stopped run leaves only its output; the output of earlier runs
    /// stays before it.
    pub(super) async fn run_ending(
        &self,
        taken: &LeasedRun,
        run: &Run,
        report: RunReport,
    ) -> Result<RunEnd, EngineError> {
        let RunReport { verdict, summary, patch, out, logs, usage } = report;
        let mut files = Vec::new();
        if verdict != RunVerdict::Stopped {
            files.extend(patch.map(|text| (ArtifactName::Patch, text)));
            files.extend(out.map(|text| (ArtifactName::Out, text)));
        }
        let earlier = match run.artifact(ArtifactName::Logs) {
            Some(earlier) => self.artifact_text(&taken.org, earlier).await?.unwrap_or_default(),
            None => String::new(),
        };
        files.push((ArtifactName::Logs, earlier + &logs));
        let LeasedRun { org, job, fence } = taken;
        let mut artifacts = Vec::new();
        for (name, text) in files {
            artifacts.push(self.artifact_new(org, *job, *fence, name, text).await?);
        }
        let used = usage.map(|usage| (holder(), usage));
        Ok(RunEnd { job: *job, fence: *fence, verdict, summary, artifacts, used })
    }

    /// Stores what a run leaves, before its end. False when the run is lost or over.
    pub(super) async fn run_report_keep(
        &self,
        taken: &LeasedRun,
        end: &mut RunEnd,
    ) -> Result<bool, EngineError> {
        let artifacts = std::mem::take(&mut end.artifacts);
        let (job, fence) = (taken.job, taken.fence);
        let used =
            end.used.take().map(|(agent, usage)| Command::RunUse { job, fence, agent, usage });
        let kept = artifacts.into_iter().map(|new| Command::RunArtifact { job, fence, new });
        self.run_steps(taken, used.into_iter().chain(kept).collect()).await
    }

    /// Records steps of one run in one commit. False when one was refused because the run is lost or over.
    pub(crate) async fn run_steps(
        &self,
        taken: &LeasedRun,
        steps: Vec<Command>,
    ) -> Result<bool, EngineError> {
        let steps = steps.into_iter().map(|step| (taken.org.clone(), step)).collect();
        let mut is_ours = true;
        for answer in self.act_all_as_runner(steps).await {
            match answer {
                Ok(_) => {}
                Err(EngineError::Refused(Refusal::JobLost { .. })) => is_ours = false,
                Err(error) => return Err(error),
            }
        }
        Ok(is_ours)
    }

    /// Records the result of a run with everything it leaves, in one commit: a client that hears of the end finds
    /// everything. A run that was canceled meanwhile leaves only its output and its usage.
    pub(super) async fn run_over(&self, taken: &LeasedRun, end: RunEnd) -> Result<(), EngineError> {
        let (verdict, over) = (end.verdict, Command::RunEnd(Box::new(end.clone())));
        match self.act_as_runner(&taken.org, over).await {
            Ok(_) if verdict == RunVerdict::Stopped => self.runs_settle().await.map(|_| ()),
            Ok(_) => Ok(()),
            Err(EngineError::Refused(Refusal::JobLost { .. })) => {
                let mut left = end;
                left.artifacts.retain(|new| new.artifact.name == ArtifactName::Logs);
                self.run_report_keep(taken, &mut left).await.map(|_| ())
            }
            Err(error) => Err(error),
        }
    }
}

/// The end of a run whose agent never started.
pub(super) fn stopped(taken: &LeasedRun) -> RunEnd {
    let (artifacts, used) = (Vec::new(), None);
    let (verdict, summary) = (RunVerdict::Stopped, "Stopped".into());
    RunEnd { job: taken.job, fence: taken.fence, verdict, summary, artifacts, used }
}
