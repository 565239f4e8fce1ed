//! Pull requests for what jobs made, opened before a job's end; a pull request that cannot be opened is
//! no reason for a job to fail. What became of open ones, those of tasks too, is looked at here.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::command::{Command, PullSettle, PullStep, RunPr};
use callboard_domain::forge::{ForgeKind, PullRef, project_of};
use callboard_domain::job::JobId;
use callboard_domain::pull::{CLOSED, LOCAL, MERGED, OPEN, Pull};
use callboard_domain::refusal::Refusal;
use callboard_domain::relay::spec::Wanted as Asked;
use callboard_domain::run::Run;
use callboard_store::{PullOf, PullQuery};
use tokio_util::sync::CancellationToken;

use crate::ports::{AgentRunner, Branch, BranchState, NewPull, PatchOrder, Wanted};
use crate::{Engine, EngineError};

/// From the patch to the pull request.
const TIME_MAX: Duration = Duration::from_secs(60);
/// How often repositories of this machine are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How often forges are asked, in looks: each answer counts against somebody's limit.
const FORGES_EVERY: u32 = 10;
const BATCH: usize = 100;

/// The word for a forge in settings and answers.
pub(crate) fn word(kind: ForgeKind) -> &'static str {
    match kind {
        ForgeKind::GitHub => "github",
        ForgeKind::GitLab => "gitlab",
    }
}

pub(crate) fn kind_of(forge: &str) -> Option<ForgeKind> {
    [ForgeKind::GitHub, ForgeKind::GitLab].into_iter().find(|kind| word(*kind) == forge)
}

impl Engine {
    /// Opens a pull request for a job's patch. The fault is the cause, for its summary.
    pub(crate) async fn pull_open(
        &self,
        agents: &dyn AgentRunner,
        org: &Arc<str>,
        run: &Run,
        patch: String,
    ) -> Result<(), String> {
        let opened = tokio::time::timeout(TIME_MAX, self.pull_opened(agents, run, patch)).await;
        let too_long = |_| format!("it took more than {} s", TIME_MAX.as_secs());
        let pr = opened.map_err(too_long)??;
        match self.job_act(org, Command::RunPr(pr)).await {
            // Nobody wants it any more, and who says so says why.
            Ok(_) | Err(EngineError::Refused(Refusal::JobLost { .. })) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn pull_opened(
        &self,
        agents: &dyn AgentRunner,
        run: &Run,
        patch: String,
    ) -> Result<RunPr, String> {
        let spec = run.order.patch().ok_or("it made no patch")?;
        let kind = self.parts.runs.forge;
        let base = spec.repo.base_branch().to_owned();
        let order = PatchOrder {
            job: run.job.to_string(),
            attempt: run.attempt,
            repo: spec.repo.clone(),
            name: format!("callboard/{}", run.job),
            patch,
            message: format!("{}\n\n{}", spec.task.title, body(&spec.task, run.job)),
            push: kind.is_some(),
        };
        let branch = agents.branch(order).await?;
        let mut pr = RunPr {
            job: run.job,
            forge: LOCAL.into(),
            repo: branch.repo.clone(),
            at: None,
            status: OPEN.into(),
            branch: branch.name.clone(),
            base: base.clone(),
            head: branch.head.clone(),
        };
        if let Some(kind) = kind {
            let project = project(kind, &branch)?;
            let forge = self.parts.forge.as_ref().ok_or("this server asks no forge")?;
            let new = NewPull {
                project: project.clone(),
                branch: branch.name,
                base,
                title: spec.task.title.clone(),
                body: body(&spec.task, run.job),
            };
            let opened =
                forge.open(kind, &new).await.map_err(|fault| format!("{kind}: {fault}"))?;
            pr.forge = word(kind).into();
            pr.repo = project;
            pr.at = Some((opened.number, opened.url));
        }
        Ok(pr)
    }

    /// Looks at open pull requests until canceled.
    pub async fn pulls_look_until(self: Arc<Self>, stop: CancellationToken) {
        let mut looks = 0;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            looks += 1;
            tokio::select! {
                () = stop.cancelled() => return,
                done = self.pulls_look(looks % FORGES_EVERY == 0) => if let Err(error) = done {
                    tracing::warn!(%error, "cannot look at pull requests");
                },
            }
        }
    }

    /// Writes down what became of open pull requests: of those in repositories of this machine,
    /// of those that somebody waits for, and `at_forges` of all others too. Returns how many changed.
    pub async fn pulls_look(&self, at_forges: bool) -> Result<usize, EngineError> {
        let query = PullQuery { status: Some(OPEN), limit: BATCH, ..PullQuery::default() };
        let mut changed = 0;
        for PullOf { org, pull } in self.parts.store.pulls(query).await? {
            let step = match kind_of(&pull.forge) {
                Some(kind) if at_forges || pull.is_awaited => self.step_at(kind, &pull).await,
                Some(_) => None,
                None => self.step_here(&pull).await,
            };
            if let Some(PullStep::Merged { .. }) = step {
                self.base_follow(&org, &pull).await;
            }
            let Some(command) = step.and_then(|step| settle(&pull, step)) else { continue };
            match self.job_act(&org, command).await {
                Ok(_) => changed += 1,
                Err(EngineError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(changed)
    }

    /// `None` while it is open, and when that cannot be told.
    async fn step_here(&self, pull: &Pull) -> Option<PullStep> {
        let agents = self.parts.agents.as_ref()?;
        pull.machine.as_ref().filter(|machine| **machine == self.parts.machine)?;
        let (name, head) = (pull.branch.clone(), pull.head.clone());
        let branch = Branch { name, head, repo: pull.repo.clone(), remote: None };
        match agents.branch_state(&branch, &pull.base).await? {
            BranchState::Open => None,
            // A branch without a commit of its own is in its base from the start. Into branches
            // of ours nobody merges but we, as one commit.
            BranchState::Merged { commit: None }
                if pull.job.is_none() && self.is_ours(&pull.base) =>
            {
                None
            }
            BranchState::Merged { commit } => Some(PullStep::Merged { commit, asked: false }),
            BranchState::Gone => Some(PullStep::Closed),
        }
    }

    async fn step_at(&self, kind: ForgeKind, pull: &Pull) -> Option<PullStep> {
        let named = PullRef { project: pull.repo.clone(), number: pull.number };
        match self.parts.forge.as_ref()?.pull(kind, &named, &Wanted::default()).await {
            Ok(state) if state.merged => {
                Some(PullStep::Merged { commit: state.merge_commit, asked: false })
            }
            Ok(state) if state.open => None,
            Ok(_) => Some(PullStep::Closed),
            Err(fault) => {
                tracing::info!(url = pull.url, %fault, "the forge gave no answer");
                None
            }
        }
    }
}

/// What writes down a step of a pull request: for whoever knows it, a job or a task.
pub(crate) fn settle(pull: &Pull, step: PullStep) -> Option<Command> {
    let Pull { forge, repo, number, url, branch, base, head, .. } = pull.clone();
    match (pull.job, pull.task) {
        (Some(job), _) => {
            let status = match step {
                PullStep::Awaited => OPEN,
                PullStep::Merged { .. } => MERGED,
                PullStep::Closed => CLOSED,
            };
            let (at, status) = (Some((number, url)), status.to_owned());
            Some(Command::RunPr(RunPr { job, forge, repo, at, status, branch, base, head }))
        }
        (None, Some(task)) => {
            Some(Command::PullSettle(PullSettle { task, forge, repo, number, step }))
        }
        (None, None) => None,
    }
}

/// What the forge calls the repository that a branch was pushed to.
pub(crate) fn project(kind: ForgeKind, branch: &Branch) -> Result<String, String> {
    let remote = branch.remote.as_deref().ok_or("the repository has no remote called origin")?;
    project_of(kind, remote).ok_or_else(|| format!("{remote} names no project of {kind}"))
}

/// What a pull request says of itself.
fn body(asked: &Asked, job: JobId) -> String {
    let mut text = asked.description.trim_end().to_owned();
    if !asked.acceptance.is_empty() {
        text.push_str("\n\nAcceptance:\n");
        for item in &asked.acceptance {
            text.push_str(&format!("- {item}\n"));
        }
    }
    format!("{}\n\nCallboard job: {job}\n", text.trim_end())
}
