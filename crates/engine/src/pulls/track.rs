//! Pull requests for the patches of jobs, opened before a job's end; a pull request that cannot be opened does not make
//! a job fail. Also looks at all open pull requests, those of tasks too, and records how they ended.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use callboard_domain::command::{Behind, Command, PullSettle, PullStep, RunPr};
use callboard_domain::crew::MailId;
use callboard_domain::crew::state::worker_of;
use callboard_domain::forge::{ForgeKind, ForgeRef, project_of};
use callboard_domain::pulls::{CLOSED, LOCAL, MERGED, OPEN, Pull};
use callboard_domain::refusal::Refusal;
use callboard_domain::relay::spec::TaskRequest;
use callboard_domain::runs::job::JobId;
use callboard_domain::runs::run::Run;
use callboard_store::{OpenPulls, PullOf, PullTurn, PullsOf};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::ports::{AgentRunner, Branch, BranchState, NewPull, PatchOrder, PullStateRequest};
use crate::{Engine, EngineError};

/// The time limit from the patch to the pull request.
const TIME_MAX: Duration = Duration::from_secs(60);
/// How often repositories of this machine are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Forges are asked at every tenth look: each request counts against the rate limit of a token.
const FORGES_EVERY: u32 = 10;
/// How many pull requests of a kind are looked at each time.
const BATCH: usize = 100;

/// The cursor of each kind of open pull requests.
#[derive(Default)]
pub(crate) struct PullTurns([Option<PullTurn>; 4]);

impl PullTurns {
    fn of(&mut self, kind: &PullsOf) -> &mut Option<PullTurn> {
        let place = match kind {
            PullsOf::Machine(_) => 0,
            PullsOf::Forges { awaited: true } => 1,
            PullsOf::Forges { awaited: false } => 2,
            PullsOf::Unwanted => 3,
        };
        &mut self.0[place]
    }
}

/// The name of a forge in settings and answers.
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
    /// Opens a pull request for a job's patch. The fault is the cause, for the job's summary.
    pub(crate) async fn pull_open(
        &self,
        agents: &dyn AgentRunner,
        org: &Arc<str>,
        run: &Run,
        patch: String,
    ) -> Result<(), String> {
        let opened = tokio::time::timeout(TIME_MAX, self.pull_opened(agents, run, patch)).await;
        let too_long = |_| format!("opening it took more than {} s", TIME_MAX.as_secs());
        let pr = opened.map_err(too_long)??;
        match self.act_as_runner(org, Command::RunPr(pr)).await {
            // The job was lost or ended meanwhile; its end says why.
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
        let spec = run.order.patch().ok_or("this job makes no patch")?;
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
            has_tokens: self.needs_tokens().await.map_err(|error| error.to_string())?,
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
            let forge = self.parts.forge.as_ref().ok_or("this server is connected to no forge")?;
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
        let mut tick = tokio::time::interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_look = tokio::select! {
                () = stop.cancelled() => return,
                () = self.pulls_unwanted.notified() => false,
                _ = tick.tick() => true,
            };
            let looked = async {
                if !is_look {
                    return self.pulls_call_off().await;
                }
                looks += 1;
                self.pulls_look(looks % FORGES_EVERY == 0).await
            };
            tokio::select! {
                () = stop.cancelled() => return,
                done = looked => if let Err(error) = done {
                    tracing::warn!(%error, "cannot look at pull requests");
                },
            }
        }
    }

    /// Records how open pull requests ended: those in repositories of this machine, those whose merge is awaited, and
    /// with `at_forges` all others too. Looks at a limited number of each kind; the next look goes on after them.
    /// Returns how many changed.
    pub async fn pulls_look(&self, at_forges: bool) -> Result<usize, EngineError> {
        let mut changed = self.pulls_call_off().await?;
        let others = at_forges.then_some(PullsOf::Forges { awaited: false });
        let kinds = [PullsOf::Machine(self.parts.machine.clone())];
        let kinds = kinds.into_iter().chain([PullsOf::Forges { awaited: true }]).chain(others);
        for kind in kinds {
            for PullOf { org, pull } in self.pulls_in_turn(kind).await? {
                let step = match kind_of(&pull.forge) {
                    Some(kind) => self.step_at(kind, &pull).await,
                    None => self.step_here(&pull).await,
                };
                let Some(step) = step else { continue };
                changed += usize::from(self.pull_step(&org, &pull, step).await?);
            }
        }
        Ok(changed)
    }

    /// The open pull requests of a kind that have not been looked at for longest.
    pub(crate) async fn pulls_in_turn(&self, of: PullsOf) -> Result<Vec<PullOf>, EngineError> {
        let turns = || self.pull_turns.lock().unwrap_or_else(PoisonError::into_inner);
        let after = turns().of(&of).take();
        let query = OpenPulls { of: of.clone(), after, limit: BATCH };
        let page = self.parts.store.pulls_open(query).await?;
        if page.len() == BATCH {
            *turns().of(&of) = page.last().map(PullOf::turn);
        }
        Ok(page)
    }

    /// Records a step of a pull request; false when there is nothing to record it for, or `decide` refuses it.
    pub(crate) async fn pull_step(
        &self,
        org: &Arc<str>,
        pull: &Pull,
        step: PullStep,
    ) -> Result<bool, EngineError> {
        let mut behind = None;
        if let PullStep::Merged { .. } = step {
            self.base_follow(org, pull).await;
            behind = self.pull_behind(org, pull).await?;
        }
        let Some(command) = settle(pull, step, behind) else { return Ok(false) };
        match self.act_as_runner(org, command).await {
            Ok(_) => Ok(true),
            Err(EngineError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The worker of the crew that has the task of a pull request.
    async fn pull_behind(&self, org: &str, pull: &Pull) -> Result<Option<Behind>, EngineError> {
        let Some(task) = pull.task.filter(|_| pull.job.is_none()) else { return Ok(None) };
        let Some(record) = self.parts.store.task(org, task).await? else { return Ok(None) };
        let worker = worker_of(record.newest.as_ref(), self.parts.store.now());
        let mail = || MailId(self.parts.ids.next_id());
        let title = record.task.title;
        Ok(worker.map(|worker| Behind { task, title, worker, mail: mail() }))
    }

    /// `None` while the pull request is open, and when its state is not known.
    async fn step_here(&self, pull: &Pull) -> Option<PullStep> {
        let agents = self.parts.agents.as_ref()?;
        pull.machine.as_ref().filter(|machine| **machine == self.parts.machine)?;
        let (name, head) = (pull.branch.clone(), pull.head.clone());
        let branch = Branch { name, head, repo: pull.repo.clone(), remote: None };
        match agents.branch_state(&branch, &pull.base).await? {
            BranchState::Open => None,
            // A branch without a commit of its own is in its base from the start. Only Callboard merges into its own
            // branches, as one commit; so here that is no merge.
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
        let named = ForgeRef { project: pull.repo.clone(), number: pull.number };
        match self.parts.forge.as_ref()?.pull(kind, &named, &PullStateRequest::default()).await {
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

/// The command that records a step of a pull request, for its job or its task.
pub(crate) fn settle(pull: &Pull, step: PullStep, behind: Option<Behind>) -> Option<Command> {
    let Pull { forge, repo, number, url, branch, base, head, .. } = pull.clone();
    match (pull.job, pull.task) {
        (Some(job), _) => {
            let status = match step {
                PullStep::Awaited | PullStep::Revoked | PullStep::CalledOff => OPEN,
                PullStep::Merged { .. } => MERGED,
                PullStep::Closed => CLOSED,
            };
            let (at, status) = (Some((number, url)), status.to_owned());
            Some(Command::RunPr(RunPr { job, forge, repo, at, status, branch, base, head }))
        }
        (None, Some(task)) => {
            Some(Command::PullSettle(PullSettle { task, forge, repo, number, step, behind }))
        }
        (None, None) => None,
    }
}

/// The forge's name of the repository to which a branch was pushed.
pub(crate) fn project(kind: ForgeKind, branch: &Branch) -> Result<String, String> {
    let remote = branch.remote.as_deref().ok_or("the repository has no remote called origin")?;
    project_of(kind, remote).ok_or_else(|| format!("{remote} names no project of {kind}"))
}

/// The body of a pull request.
fn body(asked: &TaskRequest, job: JobId) -> String {
    let mut text = asked.description.trim_end().to_owned();
    if !asked.acceptance.is_empty() {
        text.push_str("\n\nAcceptance:\n");
        for item in &asked.acceptance {
            text.push_str(&format!("- {item}\n"));
        }
    }
    format!("{}\n\nCallboard job: {job}\n", text.trim_end())
}
