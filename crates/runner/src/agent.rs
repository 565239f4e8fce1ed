//! The engine's port for agents on this machine: a place to work, a prompt, an executor, and a verdict on the agent's
//! answer. Each step either hands on to the next or ends the run.

mod branch;
mod judge;
mod local;
mod quiet_git;
mod settings;
mod traced;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::relay::ask::Leeway;
use callboard_domain::relay::prompt::{Snippet, prompt};
use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{FailReason, JobSpec, Problem, RunVerdict};
use callboard_domain::runs::notes::SANDBOX;
use callboard_engine::ports::{
    AgentRunner, Asks, Branch, BranchState, ConfinedBy, EarlierRuns, PatchOrder, RunOrder,
    RunReport, Saying,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::budget::Budget;
use crate::environment::{self, Variables};
use crate::executor::command::Call;
use crate::executor::{Chosen, ExecutorKind, ExecutorReport, ExecutorSettings, Ran, acp, command};
use crate::live::Live;
use crate::otlp::traceparent_here;
use crate::printed::Printed;
use crate::process::Leash;
use crate::run_log::RunLog;
use crate::sandbox::{Confinement, SandboxHeld, SandboxPorts, port_of_its_own};
use crate::workspace::{self, Access, Caches, Folder, Workspace};

pub use local::LocalRoots;
pub use settings::AgentSettings;

/// Runs agents as processes of this machine, with this server's rights unless confined.
pub struct LocalAgents {
    settings: AgentSettings,
    caches: Caches,
}

/// How a run ended, and what is kept of it.
struct Outcome {
    verdict: RunVerdict,
    summary: String,
    patch: Option<String>,
    out: Option<String>,
}

impl Outcome {
    /// A failure before there were artifacts.
    fn failed(reason: FailReason, summary: impl Into<String>) -> Self {
        let verdict = RunVerdict::Failed(reason);
        Self { verdict, summary: summary.into(), patch: None, out: None }
    }

    fn stopped() -> Self {
        let summary = "Stopped".to_owned();
        Self { verdict: RunVerdict::Stopped, summary, patch: None, out: None }
    }
}

#[async_trait]
impl AgentRunner for LocalAgents {
    async fn repo_problems(&self, repo: &Repo) -> Vec<Problem> {
        local::problems(&self.settings, repo).await
    }

    async fn lies_in(&self, path: &str, folder: &Path) -> bool {
        local::lies_in(&self.settings, path, folder)
    }

    async fn run(
        &self,
        order: RunOrder,
        asks: Arc<dyn Asks>,
        stop: CancellationToken,
    ) -> RunReport {
        let mut log = RunLog::default();
        log.note(format!("{}, attempt {}", order.job, order.attempt));
        // An address may hold a password; it is hidden in every text that leaves this function.
        if let Repo::Git { url, .. } = &order.spec.repo {
            log.secrets.add_url(url);
        }
        let span = traced::run_span("patch", &order.job, order.attempt);
        let attempt = self.attempt(&order, &*asks, &stop, &mut log);
        let outcome = attempt.instrument(span.clone()).await;
        let summary = log.secrets.hidden(&outcome.summary).replace(['\n', '\r'], " ");
        log.note(&summary);
        let out = outcome.out.map(|out| log.secrets.hidden(&out));
        let usage = log.usage;
        traced::run_ended(
            &span,
            usage,
            match &outcome.verdict {
                RunVerdict::Succeeded => Ok("succeeded"),
                RunVerdict::Failed(_) => Err("failed"),
                RunVerdict::Stopped => Ok("stopped"),
            },
        );
        let logs = log.finish(self.settings.artifact_bytes_max);
        RunReport { verdict: outcome.verdict, summary, patch: outcome.patch, out, logs, usage }
    }

    async fn branch(&self, order: PatchOrder) -> Result<Branch, String> {
        self.make_branch(order).await
    }

    async fn branch_state(&self, branch: &Branch, base: &str) -> Option<BranchState> {
        self.look_at_branch(branch, base).await
    }

    async fn clean_up(&self) {
        let jobs = self.jobs();
        let _ = tokio::task::spawn_blocking(move || workspace::clean_up(&jobs)).await;
    }

    async fn end_earlier(&self, runs: Vec<EarlierRuns>) -> Vec<String> {
        let jobs = self.jobs();
        let ended = tokio::task::spawn_blocking(move || workspace::end_earlier(&jobs, &runs)).await;
        ended.unwrap_or_else(|error| vec![error.to_string()])
    }

    async fn are_left(&self, runs: Vec<EarlierRuns>) -> bool {
        let jobs = self.jobs();
        let left = tokio::task::spawn_blocking(move || workspace::are_left(&jobs, &runs)).await;
        // A look that failed proves nothing, so the processes count as alive.
        left.unwrap_or(true)
    }
}

impl LocalAgents {
    pub fn new(settings: AgentSettings) -> Self {
        let caches = Caches::new(&settings.git_schemes, &settings.git_hosts);
        Self { settings, caches }
    }

    /// The folder with a folder for each job, and below it one for each run.
    fn jobs(&self) -> PathBuf {
        self.settings.home.join("jobs")
    }

    /// One run of a patch job: choose an executor, prepare a workspace, run the agent there, close the workspace in
    /// every case.
    async fn attempt(
        &self,
        order: &RunOrder,
        asks: &dyn Asks,
        stop: &CancellationToken,
        log: &mut RunLog,
    ) -> Outcome {
        let model = &order.spec.execution.preferred_model;
        let path = environment::value(&self.settings.environment, "PATH");
        let AgentSettings { executors, default_executor, .. } = &self.settings;
        let Some(chosen) = executors.choose(model, default_executor, path) else {
            let summary = format!("No executor for model {model}");
            return Outcome::failed(FailReason::ExecutorError, summary);
        };
        note_choice(log, model, &chosen);
        traced::run_by(&chosen.executor.name);
        let prepared = tokio::select! {
            biased;
            () = stop.cancelled() => return Outcome::stopped(),
            prepared = self.workspace(order) => prepared,
        };
        let workspace = match prepared {
            Ok(workspace) => workspace,
            Err(cause) => return Outcome::failed(FailReason::InternalError, cause),
        };
        let outcome = self.in_workspace(order, &chosen, &workspace, asks, stop, log).await;
        workspace.close().await;
        outcome
    }

    /// The run's own folder.
    async fn folder(&self, job: &str, attempt: u32) -> Result<Folder, String> {
        let (jobs, job) = (self.jobs(), job.to_owned());
        let opened = tokio::task::spawn_blocking(move || Folder::open(&jobs, &job, attempt)).await;
        let opened = opened.map_err(std::io::Error::other).flatten();
        opened.map_err(|error| format!("cannot make the run's folder: {error}"))
    }

    /// A copy of the repository for this run. A local path is judged again here: settings may have changed since the
    /// job was submitted.
    async fn workspace(&self, order: &RunOrder) -> Result<Workspace, String> {
        let folder = self.folder(&order.job, order.attempt).await?;
        let local = match &order.spec.repo {
            Repo::Local { path, .. } => local::allowed(&self.settings, path)?,
            Repo::Git { .. } => PathBuf::new(),
        };
        let access = Access { local: &local, has_tokens: order.has_tokens, caches: &self.caches };
        Workspace::prepare(folder, &order.spec.repo, access).await
    }

    /// Runs the agent in the prepared copy, and judges its answer. The agent only looks: its patch is applied by the
    /// server, so changes it made to the files are discarded and noted.
    async fn in_workspace(
        &self,
        order: &RunOrder,
        chosen: &Chosen<'_>,
        workspace: &Workspace,
        asks: &dyn Asks,
        stop: &CancellationToken,
        log: &mut RunLog,
    ) -> Outcome {
        let prompt = self.prompt(&order.spec, workspace).await;
        let variables = environment::for_agent(&self.settings.environment, &chosen.executor.env);
        log.secrets.add_variables(&variables.named);
        let scratch = workspace.folder().scratch();
        let folder = workspace.folder();
        let port = port_of_its_own(&chosen.executor.command);
        let ports = self.settings.sandbox_ports.of_run(&variables.named, None, port);
        let confinement = match self.confinement(chosen.executor, folder, (Vec::new(), ports), log)
        {
            Ok(confinement) => confinement,
            Err(summary) => return Outcome::failed(FailReason::ExecutorError, summary),
        };
        let own = own_variables(&order.job, order.attempt, &scratch);
        let env = [variables.base, variables.named, own].concat();
        log.variables(&env);
        let mut leash = self.leash(folder);
        let lines = Arc::new(Printed::new());
        leash.printed = Some(lines.clone());
        let call = Call {
            executor: chosen.executor,
            command: &chosen.executor.command,
            server: None,
            model: &chosen.model,
            port,
            prompt,
            workdir: &workspace.worktree(),
            scratch: &scratch,
            env,
            leash,
            confinement,
            // The output holds the patch inside of other text, perhaps escaped as JSON.
            output_bytes_max: self.settings.artifact_bytes_max.saturating_mul(4),
        };
        let mut live = Live::create(workspace.folder().path());
        let (ran, timed_out) = tokio::select! {
            ran = self.executed(call, order.timeout, (asks, None), &[], stop) => ran,
            never = work::told(&lines, log, &mut live, None) => match never {},
        };
        live.finish(lines.fresh(), &log.secrets);
        log.usage = ran.usage;
        log.exit(ran.exit.as_deref());
        log.stream("stdout", &log.shown(&ran.stdout));
        log.stream("stderr", &log.shown(&ran.stderr));
        let strays = workspace.strays().await;
        if !strays.is_empty() {
            log.note(format!("changed in the worktree and discarded: {}", strays.join(", ")));
        }
        match ran.said {
            ExecutorReport::Stopped if timed_out && !stop.is_cancelled() => {
                let seconds = order.timeout.as_secs();
                let summary = format!("Executor timeout after {seconds}s");
                Outcome::failed(FailReason::Timeout, summary)
            }
            ExecutorReport::Stopped => Outcome::stopped(),
            ExecutorReport::NotStarted(summary) | ExecutorReport::Failed(summary) => {
                Outcome::failed(FailReason::ExecutorError, summary)
            }
            ExecutorReport::Output(Err(bad)) => Outcome::failed(FailReason::BadArtifacts, bad),
            ExecutorReport::Output(Ok(output)) => {
                let bytes_max = self.settings.artifact_bytes_max;
                judge::judge(&order.spec.scope, workspace, &output, bytes_max, log).await
            }
        }
    }

    /// Runs the executor until it ends, is stopped, or has spent its time; the second value says whether its time was
    /// spent. `places` are the run's own folders; a run that only reads has none.
    async fn executed(
        &self,
        call: Call<'_>,
        limit: Duration,
        (asks, says): (&dyn Asks, Option<mpsc::Receiver<Saying>>),
        places: &[PathBuf],
        stop: &CancellationToken,
    ) -> (Ran, bool) {
        let (end, budget) = (stop.child_token(), Budget::new(limit));
        let (leeway, places) = match (places.is_empty(), &call.confinement) {
            (true, _) => (Leeway::Looks, Vec::new()),
            (false, Some(confinement)) => (Leeway::Confined, confinement.writable().to_vec()),
            (false, None) => (Leeway::OnItsWord, places.to_vec()),
        };
        let running = async {
            match call.executor.kind {
                ExecutorKind::Command => {
                    // A command takes no messages once it runs.
                    drop(says);
                    command::run(call, &end).await
                }
                ExecutorKind::Acp => {
                    let trusted = &self.settings.trusted_commands;
                    let budget = &budget;
                    let company = acp::Company { asks, budget, trusted, leeway, places: &places };
                    acp::run(call, company, says, &end).await
                }
            }
        };
        tokio::pin!(running);
        tokio::select! {
            biased;
            ran = &mut running => (ran, false),
            () = budget.spent() => {
                end.cancel();
                (running.await, true)
            }
        }
    }

    /// The confinement of a run. `places` are writable besides the executor's own needs; `ports` may be connected to.
    fn confinement(
        &self,
        executor: &ExecutorSettings,
        folder: &Folder,
        (places, ports): (Vec<PathBuf>, SandboxPorts),
        log: &mut RunLog,
    ) -> Result<Option<Confinement>, String> {
        let home = environment::value(&self.settings.environment, "HOME").map(Path::new);
        let writable = executor.writable.iter().filter_map(|path| match path.strip_prefix("~/") {
            Some(rest) => home.map(|home| home.join(rest)),
            None => Some(PathBuf::from(path)),
        });
        let writable = std::iter::once(folder.scratch()).chain(places).chain(writable).collect();
        let by = self.settings.sandbox.confines(executor.own_sandbox, SandboxHeld::here());
        let confinement = match by {
            ConfinedBy::NoRun => {
                return Err("This machine cannot confine an agent (relay.sandbox = os)".into());
            }
            ConfinedBy::OwnSandbox | ConfinedBy::OwnSwitches => None,
            ConfinedBy::Files | ConfinedBy::FilesAndPorts => Confinement::new(writable, ports),
        };
        match &confinement {
            None => log.note(format!("{SANDBOX}only the agent's own switches confine it")),
            Some(confinement) => {
                log.note(format!(
                    "{SANDBOX}the system lets the agent write only in its own folders"
                ));
                log.note(format!("{SANDBOX}{}", confinement.network()));
            }
        }
        Ok(confinement)
    }

    /// How the processes of a run are found again: by a mark in their environment and by a record on disk, also after
    /// this server is gone.
    fn leash(&self, folder: &Folder) -> Leash {
        Leash {
            mark: folder.path().into(),
            grace: self.settings.kill_grace,
            record: folder.record(),
            started: None,
            printed: None,
        }
    }

    /// The prompt of a patch job, with the snippets that the spec asked for cut from the copy.
    async fn prompt(&self, spec: &JobSpec, workspace: &Workspace) -> String {
        let wanted = spec.context.as_ref().and_then(|context| context.code_snippets.as_deref());
        let mut snippets = Vec::new();
        for of in wanted.unwrap_or_default() {
            let file = workspace.file(&of.path).await;
            snippets.push(Snippet::cut(of, file.as_deref()));
        }
        prompt(spec, &snippets, &self.settings.trusted_commands)
    }
}

/// Notes which executor and model a run has, and whether they were the wanted ones.
fn note_choice(log: &mut RunLog, wanted: &str, chosen: &Chosen<'_>) {
    let name = &chosen.executor.name;
    let model = if chosen.model.is_empty() { "its own model" } else { &chosen.model };
    log.note(format!("executor {name} with {model}"));
    if chosen.is_fallback {
        log.note(format!("no executor serves model {wanted}; the default executor is used"));
    }
}

/// Variables of the run itself. They come after those of the settings, which cannot replace them. `TRACEPARENT` names the
/// span of the run, while traces are exported.
fn own_variables(job: &str, attempt: u32, scratch: &Path) -> Variables {
    let mut own = vec![
        ("TMPDIR".into(), scratch.into()),
        ("CALLBOARD_JOB_ID".into(), job.into()),
        ("CALLBOARD_ATTEMPT".into(), attempt.to_string().into()),
    ];
    own.extend(traceparent_here().map(|parent| ("TRACEPARENT".into(), parent.into())));
    own
}
