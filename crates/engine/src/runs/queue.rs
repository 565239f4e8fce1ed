//! Jobs for agents from the submitter's side: submit, look, cancel, answer, read the artifacts. The runner's side is
//! `patch.rs`.

use std::time::Duration;

use callboard_domain::command::{Command, NEW_TASK, RunSubmit};
use callboard_domain::forge::ForgeKind;
use callboard_domain::hex::hex;
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_domain::refusal::found::{OrNotFound as _, Sought as _, artifact_removed};
use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{JobSpec, Problem, SpecRules};
use callboard_domain::runs::delivery::Webhook;
use callboard_domain::runs::job::{JobId, JobState};
use callboard_domain::runs::run::{Artifact, ArtifactName, NewArtifact, RunRecord};
use callboard_store::{
    FileError, FileSpan, NewFile, Outcome, PART_BYTES, RunOrder, RunPage, RunQuery, RunSeen,
};
use sha2::{Digest, Sha256};
use std::sync::Arc;

use crate::context::{OpContext, Scope};
use crate::ports::NOT_ALLOWED;
use crate::{Engine, EngineError};

/// The folder of artifacts among the store's files.
pub(crate) const ARTIFACTS: &str = "artifacts";

/// `JobState::as_str` of jobs that an agent works on.
const RUNNING: &str = "running";
/// How many runs of each kind are searched for questions.
const QUESTIONS_MAX: usize = 1000;

/// The fallback poll, behind the nudges that wake a worker at once.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The configuration of a server for jobs for agents.
#[derive(Clone, Debug)]
pub struct RunRule {
    /// The number of runs on one machine at a time.
    pub running_max: u32,
    /// The number of open jobs that an org may have.
    pub open_max: u32,
    pub lease_s: u32,
    pub heartbeat: Duration,
    /// How long a lost worker may still report.
    pub hold_s: u32,
    pub attempts_max: u32,
    /// The time limit of a run whose job does not set one.
    pub timeout_s: u32,
    /// How long after its end a key still finds its job.
    pub window_s: u32,
    /// How long a question waits for its answer.
    pub ask_timeout: Duration,
    /// How often a worker polls the queue.
    pub look_every: Duration,
    /// How long runs go on when their process is asked to end.
    pub drain: Duration,
    /// How long jobs are kept after their end.
    pub kept: Duration,
    pub spec: SpecRules,
    /// Whether the settings say where local repositories may be. If not, they may be anywhere until the first token is
    /// added, and nowhere from then on.
    pub has_roots: bool,
    /// The address that is told of the end of a job without one of its own.
    pub webhook_default: Option<String>,
    /// The forge at which pull requests are opened; `None`: in Callboard itself.
    pub forge: Option<ForgeKind>,
    /// How long a call waits for a merge at a forge.
    pub merge_wait: Duration,
}

impl Default for RunRule {
    fn default() -> Self {
        Self {
            running_max: 3,
            open_max: 1000,
            lease_s: 60,
            heartbeat: Duration::from_secs(15),
            hold_s: 5,
            attempts_max: 3,
            timeout_s: 300,
            window_s: 86_400,
            ask_timeout: Duration::from_secs(120),
            look_every: LOOK_EVERY,
            drain: Duration::from_secs(10),
            kept: Duration::from_secs(30 * 86_400),
            spec: SpecRules::default(),
            has_roots: false,
            webhook_default: None,
            forge: None,
            merge_wait: Duration::from_secs(30),
        }
    }
}

/// The result of a submit.
#[derive(Clone, Debug)]
pub struct Submitted {
    pub record: RunRecord,
    /// The key was known, so no job was made.
    pub deduplicated: bool,
    /// Parts of the known job's content that differ from the ones submitted now; empty for a new job.
    pub differs_in: Vec<&'static str>,
}

#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// `JobState::as_str`.
    pub state: Option<&'static str>,
    pub limit: usize,
    pub offset: usize,
}

/// The content of an artifact.
#[derive(Clone, Debug, PartialEq)]
pub enum ArtifactText {
    Text(String),
    /// There is no such artifact; with the job as it is.
    Missing(Box<RunSeen>),
}

impl Engine {
    /// The rules for the spec of a job, for a caller that may submit one.
    pub fn spec_rules(&self, op: &OpContext) -> Result<&SpecRules, Refusal> {
        op.principal.judge_outside(op.tool, NEW_TASK)?;
        Ok(&self.parts.runs.spec)
    }

    /// Submits a job whose spec obeys `spec_rules`.
    pub async fn run_submit(
        &self,
        op: &OpContext,
        spec: JobSpec,
    ) -> Result<Submitted, EngineError> {
        op.principal.judge_outside(op.tool, NEW_TASK)?;
        Problem::judge(self.repo_problems(&spec.repo).await?)?;
        let bound_to = match spec.repo {
            Repo::Git { .. } => None,
            Repo::Local { .. } => Some(self.parts.machine.clone()),
        };
        let project = match self.owner_of(&op.principal.org, &spec.repo).await? {
            Some(project) => project,
            None => self.project_of_new(op, None, None).await?,
        };
        let wished = spec.notify.as_ref().and_then(|notify| notify.webhook.clone());
        let webhook = wished.or_else(|| self.parts.runs.webhook_default.clone());
        let submit = RunSubmit {
            job: JobId(self.parts.ids.next_id()),
            task: TaskId { id: self.parts.ids.next_id(), prefix: project.prefix },
            project: project.id,
            spec: spec.clone(),
            bound_to,
            webhook: webhook.map(|url| Webhook { delivery: JobId(self.parts.ids.next_id()), url }),
            window_s: self.parts.runs.window_s,
            open_max: self.parts.runs.open_max,
        };
        let applied = self.act(op, Command::RunSubmit(Box::new(submit))).await?;
        let deduplicated = !applied.changed;
        let record = run_of(applied.outcome)?;
        if !deduplicated {
            self.runs_nudge();
        }
        let known = record.run.order.patch();
        let differs_in = known.map_or_else(Vec::new, |known| known.differs_in(&spec));
        Ok(Submitted { record, deduplicated, differs_in })
    }

    /// Problems with the repository that only the agent runner of this machine can find.
    async fn repo_problems(&self, repo: &Repo) -> Result<Vec<Problem>, EngineError> {
        let path =
            |problem: &str| Ok(vec![Problem { path: "repo.path".into(), problem: problem.into() }]);
        match (&self.parts.agents, repo) {
            (None, Repo::Git { .. }) => Ok(Vec::new()),
            (None, Repo::Local { .. }) => path("cannot be used: this server runs no agents"),
            // Tokens may have been added since this process began.
            (Some(_), Repo::Local { .. })
                if !self.parts.runs.has_roots && self.needs_tokens().await? =>
            {
                path(NOT_ALLOWED)
            }
            (Some(agents), repo) => Ok(agents.repo_problems(repo).await),
        }
    }

    pub async fn run_get(&self, op: &OpContext, id: JobId) -> Result<RunSeen, EngineError> {
        let seen = self.run_find(op, id).await?;
        match seen.record.run.order.patch() {
            Some(_) => Ok(seen),
            None => Err(id.not_found().into()),
        }
    }

    /// As `run_get`, for a run of any kind, from any toolset.
    pub async fn run_find(&self, op: &OpContext, id: JobId) -> Result<RunSeen, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let seen = self.parts.store.run(&op.principal.org, id).await?;
        Ok(seen.or_not_found(&id)?)
    }

    /// Runs whose agents wait for an answer.
    pub async fn questions(&self, op: &OpContext) -> Result<Vec<RunRecord>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let query = RunQuery {
            org: org.clone(),
            state: Some(RUNNING),
            order: RunOrder::Queue { offset: 0 },
            limit: QUESTIONS_MAX,
        };
        let patches = store.runs(query).await?.runs.into_iter().map(|seen| seen.record);
        let works = store.works_open(org, QUESTIONS_MAX).await?;
        Ok(patches.chain(works).filter(|record| record.asks().is_some()).collect())
    }

    pub async fn run_list(
        &self,
        op: &OpContext,
        filter: RunFilter,
    ) -> Result<RunPage, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let query = RunQuery {
            org: op.principal.org.clone(),
            state: filter.state,
            order: RunOrder::Queue { offset: filter.offset },
            limit: filter.limit,
        };
        Ok(self.parts.store.runs(query).await?)
    }

    /// Runs from after `after` on, newest first.
    pub async fn run_history(
        &self,
        op: &OpContext,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<RunSeen>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let query = RunQuery {
            org: op.principal.org.clone(),
            state: None,
            order: RunOrder::NewestFirst { after },
            limit,
        };
        Ok(self.parts.store.runs(query).await?.runs)
    }

    /// Cancels a job; returns it with whether this call canceled it.
    pub async fn run_cancel(
        &self,
        op: &OpContext,
        id: JobId,
    ) -> Result<(RunRecord, bool), EngineError> {
        let before = self.run_get(op, id).await?;
        let applied = self.act(op, Command::RunCancel { job: id }).await?;
        let changed = applied.changed;
        let record = run_of(applied.outcome)?;
        let canceled = changed && matches!(record.job.state, JobState::Canceled { .. });
        if changed && !matches!(before.record.job.state, JobState::Running { .. }) {
            // No runner is left to write the log.
            self.run_note(&op.principal.org, &record).await?;
        }
        Ok((record, canceled))
    }

    /// Answers the open question, or the one with this number.
    pub async fn run_answer(
        &self,
        op: &OpContext,
        id: JobId,
        number: Option<u32>,
        granted: bool,
    ) -> Result<RunRecord, EngineError> {
        self.run_find(op, id).await?;
        let applied = self.act(op, Command::RunAnswer { job: id, number, granted }).await?;
        run_of(applied.outcome)
    }

    /// The content of an artifact. One that retention removed is refused: its row stays and says that it was there.
    pub async fn run_artifact(
        &self,
        op: &OpContext,
        id: JobId,
        name: ArtifactName,
    ) -> Result<ArtifactText, EngineError> {
        let seen = self.run_get(op, id).await?;
        if let (ArtifactName::Pr, Some(pr)) = (name, &seen.record.run.pr) {
            let text =
                serde_json::to_string(pr).map_err(|e| EngineError::Internal(e.to_string()))?;
            return Ok(ArtifactText::Text(text));
        }
        let Some(artifact) = seen.record.run.artifact(name) else {
            return Ok(ArtifactText::Missing(Box::new(seen)));
        };
        match self.artifact_text(&op.principal.org, artifact).await? {
            Some(text) => Ok(ArtifactText::Text(text)),
            None => Err(artifact_removed(id, name).into()),
        }
    }

    /// The output of a job's agent, so far if it goes on.
    pub async fn run_log(
        &self,
        op: &OpContext,
        id: JobId,
    ) -> Result<(RunSeen, Option<String>), EngineError> {
        let seen = self.run_find(op, id).await?;
        let text = self.log_so_far(&op.principal.org, &seen.record).await?;
        Ok((seen, text))
    }

    pub(crate) async fn artifact_text(
        &self,
        org: &str,
        artifact: &Artifact,
    ) -> Result<Option<String>, EngineError> {
        let found = self.parts.store.file_get(org, &artifact.file, FileSpan::WHOLE).await?;
        Ok(found.map(|file| String::from_utf8_lossy(&file.bytes).into_owned()))
    }

    /// Stores an artifact's content and records it.
    pub(crate) async fn artifact_put(
        &self,
        org: &Arc<str>,
        job: JobId,
        fence: u64,
        name: ArtifactName,
        text: String,
    ) -> Result<(), EngineError> {
        let new = self.artifact_new(org, job, fence, name, text).await?;
        self.act_as_runner(org, Command::RunArtifact { job, fence, new }).await?;
        Ok(())
    }

    /// An artifact of a run, for the command that records it. Content of up to one row goes with that command, in one
    /// commit; larger content is stored at once, so that no commit grows long.
    pub(crate) async fn artifact_new(
        &self,
        org: &Arc<str>,
        job: JobId,
        fence: u64,
        name: ArtifactName,
        text: String,
    ) -> Result<NewArtifact, EngineError> {
        // Each artifact gets a new file name, so a file that was read before never changes.
        let file = format!("{ARTIFACTS}/{job}/{}/{}", self.parts.ids.next_id(), name.as_str());
        let bytes = text.into_bytes();
        let artifact = Artifact {
            name,
            file: file.clone(),
            size: bytes.len() as u64,
            sha256: hex(Sha256::digest(&bytes)),
            fence,
        };
        if bytes.len() <= PART_BYTES {
            return Ok(NewArtifact { artifact, bytes: Some(bytes.into()) });
        }
        let new = NewFile {
            org: org.clone(),
            task: None,
            name: file,
            media_type: "text/plain".into(),
            bytes,
        };
        self.parts.store.file_put(new).await.map_err(|error| match error {
            FileError::Store(error) => EngineError::from(error),
            FileError::Taken(_) | FileError::TooLarge { .. } => {
                EngineError::Internal(error.to_string())
            }
        })?;
        Ok(NewArtifact { artifact, bytes: None })
    }

    /// Gives a job that ended without a run one line of log: why.
    pub(crate) async fn run_note(
        &self,
        org: &Arc<str>,
        record: &RunRecord,
    ) -> Result<(), EngineError> {
        let run = &record.run;
        if run.artifact(ArtifactName::Logs).is_some() {
            return Ok(());
        }
        let line = format!("{}\n", run.summary.as_deref().unwrap_or("Nothing ran"));
        match self.artifact_put(org, run.job, run.fence, ArtifactName::Logs, line).await {
            Err(EngineError::Refused(Refusal::JobLost { .. })) => Ok(()),
            done => done,
        }
    }
}

pub(crate) fn run_of(outcome: Outcome) -> Result<RunRecord, EngineError> {
    match outcome {
        Outcome::Run(record) => Ok(*record),
        _ => Err(EngineError::Internal("a command about a job answered with no job".into())),
    }
}
