//! Jobs for agents, as those see them who want something done: submit, look, cancel, answer, read
//! what came of it. Who does the work is `run_work.rs`.

use std::time::Duration;

use callboard_domain::command::{Command, NEW_TASK, RunSubmit};
use callboard_domain::delivery::Webhook;
use callboard_domain::forge::ForgeKind;
use callboard_domain::ids::TaskId;
use callboard_domain::job::{JobId, JobState};
use callboard_domain::refusal::Refusal;
use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{JobSpec, Problem, SpecRules};
use callboard_domain::run::{Artifact, ArtifactName, RunRecord};
use callboard_store::{
    FileError, FileSpan, NewFile, Outcome, RunOrder, RunPage, RunQuery, RunSeen,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

use crate::context::{OpContext, Scope};
use crate::ports::NOT_ALLOWED;
use crate::{Engine, EngineError};

/// Where artifacts lie among the store's files.
pub(crate) const ARTIFACTS: &str = "artifacts";

/// `JobState::as_str` of those that an agent is at.
const RUNNING: &str = "running";
/// Runs that are looked at for questions, of each kind.
const QUESTIONS_MAX: usize = 1000;

/// Behind what tells a worker at once.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a server does with jobs for agents.
#[derive(Clone, Debug)]
pub struct RunRule {
    /// Runs on one machine at a time.
    pub running_max: u32,
    /// Jobs of an org that may be open.
    pub open_max: u32,
    pub lease_s: u32,
    pub heartbeat: Duration,
    /// How long a lost worker may still speak up.
    pub hold_s: u32,
    pub attempts_max: u32,
    /// Of a run whose job does not say.
    pub timeout_s: u32,
    /// How long a key finds its job after the end.
    pub window_s: u32,
    /// How long a question waits.
    pub ask_timeout: Duration,
    /// How often a worker looks at the queue when nothing told it to.
    pub look_every: Duration,
    /// How long runs go on when their process is asked to end.
    pub drain: Duration,
    /// How long jobs are kept after their end.
    pub kept: Duration,
    pub spec: SpecRules,
    /// Somebody said where local repositories may be. Else they may be anywhere while nobody needs
    /// a token, and nowhere from then on.
    pub has_roots: bool,
    /// Who is told of the end of a job that names nobody.
    pub webhook_default: Option<String>,
    /// Where pull requests are opened; `None`: in Callboard itself.
    pub forge: Option<ForgeKind>,
    /// How long a merge at a forge is waited for.
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

/// What became of a submit.
#[derive(Clone, Debug)]
pub struct Submitted {
    pub record: RunRecord,
    /// The key was known, so nothing was made.
    pub deduplicated: bool,
    /// Parts of the known job's content that are not what was submitted now; empty when it is new.
    pub differs_in: Vec<&'static str>,
}

#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// `JobState::as_str`.
    pub state: Option<&'static str>,
    pub limit: usize,
    pub offset: usize,
}

/// What is behind an artifact's name.
#[derive(Clone, Debug, PartialEq)]
pub enum ArtifactText {
    Text(String),
    /// Not there, as the job is.
    Missing(Box<RunSeen>),
}

impl Engine {
    pub async fn run_submit(
        &self,
        op: &OpContext,
        given: &Value,
    ) -> Result<Submitted, EngineError> {
        op.principal.judge_outside(op.tool, NEW_TASK)?;
        let invalid = |problems| Refusal::InvalidSpec { problems };
        let spec = JobSpec::read(given, &self.parts.runs.spec).map_err(invalid)?;
        let problems = self.repo_problems(&spec.repo).await?;
        if !problems.is_empty() {
            return Err(invalid(problems).into());
        }
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
        let differs_in = known.map_or_else(Vec::new, |known| differences(known, &spec));
        Ok(Submitted { record, deduplicated, differs_in })
    }

    /// What only whoever runs agents here can say.
    async fn repo_problems(&self, repo: &Repo) -> Result<Vec<Problem>, EngineError> {
        let path =
            |problem: &str| Ok(vec![Problem { path: "repo.path".into(), problem: problem.into() }]);
        match (&self.parts.agents, repo) {
            (None, Repo::Git { .. }) => Ok(Vec::new()),
            (None, Repo::Local { .. }) => path("cannot be used: this server runs no agents"),
            // Tokens may have come since this process began.
            (Some(_), Repo::Local { .. })
                if !self.parts.runs.has_roots && self.parts.store.has_tokens().await? =>
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
            None => Err(Refusal::JobNotFound { job: id.to_string() }.into()),
        }
    }

    /// The same for whatever an agent was asked to do, by whichever toolset.
    pub async fn run_find(&self, op: &OpContext, id: JobId) -> Result<RunSeen, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let seen = self.parts.store.run(&op.principal.org, id).await?;
        seen.ok_or_else(|| Refusal::JobNotFound { job: id.to_string() }.into())
    }

    /// Runs whose agents wait to be told something.
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

    /// The newest first, from behind `after`.
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

    /// The job as it then is, and whether this call canceled it.
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
            // Nobody is left who would say what happened.
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
            None => Ok(ArtifactText::Missing(Box::new(seen))),
        }
    }

    /// What a job's agent printed, so far if it goes on.
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

    /// Keeps an artifact's content and then says that it is there.
    pub(crate) async fn artifact_put(
        &self,
        org: &Arc<str>,
        job: JobId,
        fence: u64,
        name: ArtifactName,
        text: String,
    ) -> Result<(), EngineError> {
        self.artifact_put_of(org, job, (fence, fence), name, text).await
    }

    /// The same of another run than the one that stores it.
    pub(crate) async fn artifact_put_of(
        &self,
        org: &Arc<str>,
        job: JobId,
        (fence, of): (u64, u64),
        name: ArtifactName,
        text: String,
    ) -> Result<(), EngineError> {
        // A name of its own: nothing that was read before changes.
        let file = format!("{ARTIFACTS}/{job}/{}/{}", self.parts.ids.next_id(), name.as_str());
        let bytes = text.into_bytes();
        let artifact = Artifact {
            name,
            file: file.clone(),
            size: bytes.len() as u64,
            sha256: Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect(),
            fence: of,
        };
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
        self.act_as_runner(org, Command::RunArtifact { job, fence, artifact }).await?;
        Ok(())
    }

    /// A job that ended without anybody running it has one line of log: why.
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

/// Which parts of a job's content are not the same.
fn differences(known: &JobSpec, given: &JobSpec) -> Vec<&'static str> {
    let parts = [
        ("repo", known.repo == given.repo),
        ("task", known.task == given.task),
        ("scope", known.scope == given.scope),
        ("context", known.context == given.context),
        ("execution", known.execution == given.execution),
    ];
    parts.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}
