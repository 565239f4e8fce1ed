//! Running checks around a change: look, run outside any transaction, then let `decide` judge the results together with
//! changes made meanwhile.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::board::recipe;
use callboard_domain::command::{Basis, Checked, Command};
use callboard_domain::decide::{
    TransitionGate, checks_to_run, checks_unknown, judge_run_request, transition_gate,
};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::{CheckKind, Task, TaskRecord, Verdict, VerdictSource};

use crate::context::OpContext;
use crate::ports::{CheckFault, CheckRun, CheckRunner, FilesState, Turn};
use crate::task::place::place_of;
use crate::{At, Engine, EngineError};

/// How often a long check reports progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The runner and the folder for a task's checks in this process.
struct Site {
    runner: Arc<dyn CheckRunner>,
    repo: PathBuf,
    root: PathBuf,
}

impl Engine {
    /// Moves a task. Closing runs the command checks that do not pass for the current files.
    pub async fn task_transition(
        &self,
        op: &OpContext,
        task: TaskId,
        to: String,
    ) -> Result<At<TaskRecord>, EngineError> {
        op.principal.judge_on(op.tool, task)?;
        let record = self.task_get(op, task).await?.it;
        let work = self.work_for_label(&op.principal.org, &record, &to).await?;
        let (checked, _turn) = self.checks_for_label(op, &record, &to).await?.unzip();
        self.act_on_task(op, Command::TaskTransition { task, to, checked, work }).await
    }

    /// The state of a task's own files, if a move to the label needs attestations or approvals. Read before checks run,
    /// which may leave files behind.
    pub(crate) async fn work_for_label(
        &self,
        org: &str,
        record: &TaskRecord,
        to: &str,
    ) -> Result<Option<String>, EngineError> {
        match transition_gate(&self.parts.policy, &record.task, &record.deps, to)? {
            TransitionGate::Checks(_) => self.work_of(org, record).await,
            TransitionGate::Free(_) => Ok(None),
        }
    }

    /// The results of the command checks that a move to the label needs; `None` if it needs none.
    pub(crate) async fn checks_for_label(
        &self,
        op: &OpContext,
        record: &TaskRecord,
        to: &str,
    ) -> Result<Option<(Checked, Turn)>, EngineError> {
        let gate = transition_gate(&self.parts.policy, &record.task, &record.deps, to)?;
        let has_commands = record.task.checks.iter().any(|check| check.is_command());
        match gate {
            TransitionGate::Checks(_) if has_commands => {
                Ok(Some(self.checks_for_closing(op, record).await?))
            }
            TransitionGate::Checks(_) | TransitionGate::Free(_) => Ok(None),
        }
    }

    /// Runs the command checks that do not pass for the current files. No other process runs the task's checks until
    /// the turn is dropped.
    pub(crate) async fn checks_for_closing(
        &self,
        op: &OpContext,
        record: &TaskRecord,
    ) -> Result<(Checked, Turn), EngineError> {
        let site = self.site(&op.principal.org, record).await?;
        self.checks_at(op, record, site).await
    }

    /// As `checks_for_closing`, in a folder with the files as a merge would make them.
    pub(crate) async fn checks_for_merging(
        &self,
        op: &OpContext,
        record: &TaskRecord,
        root: PathBuf,
    ) -> Result<(Checked, Turn), EngineError> {
        let site = Site { root, ..self.site(&op.principal.org, record).await? };
        self.checks_at(op, record, site).await
    }

    /// Waits for the task's turn, then runs the checks that do not pass for the files as they are now.
    async fn checks_at(
        &self,
        op: &OpContext,
        record: &TaskRecord,
        site: Site,
    ) -> Result<(Checked, Turn), EngineError> {
        let task = record.task.id;
        let turn = site.runner.turn(&site.repo, task).await.map_err(infrastructure)?;
        // Another run may have ended while this one waited for its turn.
        let record = self.task_get(op, task).await?.it;
        let files = site.runner.files(&site.repo, &site.root).await.map_err(infrastructure)?;
        let wanted = checks_to_run(&record.task, files.tree.as_deref());
        Ok((self.run(op, &site, &record, files, &wanted).await?, turn))
    }

    /// Runs the command checks that have no result for the current files.
    pub(crate) async fn checks_for_review(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Option<(Checked, Turn)>, EngineError> {
        let record = self.task_get(op, task).await?.it;
        if record.task.phase != Phase::Review {
            return Ok(None);
        }
        let site = self.site(&op.principal.org, &record).await?;
        let turn = site.runner.turn(&site.repo, task).await.map_err(infrastructure)?;
        // Another run may have ended while this one waited for its turn.
        let record = self.task_get(op, task).await?.it;
        let files = site.runner.files(&site.repo, &site.root).await.map_err(infrastructure)?;
        let wanted = checks_unknown(&record.task, files.tree.as_deref());
        Ok(Some((self.run(op, &site, &record, files, &wanted).await?, turn)))
    }

    /// Whether this process can run a task's command checks.
    pub(crate) async fn runs_checks_of(
        &self,
        org: &str,
        record: &TaskRecord,
    ) -> Result<bool, EngineError> {
        if !record.task.checks.iter().any(|check| check.is_command()) {
            return Ok(true);
        }
        match self.site(org, record).await {
            Ok(_) => Ok(true),
            Err(EngineError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Runs command checks and records the results; moves nothing.
    pub async fn check_run(
        &self,
        op: &OpContext,
        task: TaskId,
        only: Vec<usize>,
    ) -> Result<At<TaskRecord>, EngineError> {
        op.principal.judge_on(op.tool, task)?;
        let record = self.task_get(op, task).await?.it;
        let wanted = judge_run_request(&record.task, &only)?;
        if wanted.is_empty() {
            let checked = Checked { basis: basis(&record), tree: None, runs: Vec::new() };
            return self.act_on_task(op, Command::CheckRun { task, checked }).await;
        }
        let site = self.site(&op.principal.org, &record).await?;
        let _turn = site.runner.turn(&site.repo, task).await.map_err(infrastructure)?;
        let files = site.runner.files(&site.repo, &site.root).await.map_err(infrastructure)?;
        let checked = self.run(op, &site, &record, files, &wanted).await?;
        self.act_on_task(op, Command::CheckRun { task, checked }).await
    }

    /// Records a person's or an agent's verdict on a manual check, for the files as they are now: another state of the
    /// files makes the verdict stale.
    pub async fn check_attest(
        &self,
        op: &OpContext,
        task: TaskId,
        index: usize,
        pass: bool,
    ) -> Result<At<TaskRecord>, EngineError> {
        op.principal.judge_on(op.tool, task)?;
        let record = self.task_get(op, task).await?.it;
        let tree = self.work_of(&op.principal.org, &record).await?;
        self.act_on_task(op, Command::CheckAttest { task, index, pass, tree }).await
    }

    /// The state of a task's own files, for which attestations and approvals are given: of all its workspaces, else of
    /// its session's worktree, else of the repository. `None` outside git or where the files are not on this machine.
    pub(crate) async fn work_of(
        &self,
        org: &str,
        record: &TaskRecord,
    ) -> Result<Option<String>, EngineError> {
        let Some(runner) = &self.parts.checks else { return Ok(None) };
        let task = &record.task;
        let card = self.parts.store.card(org, task.id).await?.unwrap_or_default();
        let mut roots = Vec::new();
        let parts = self.worktrees_known(org, task, &card).await?;
        roots.extend(
            parts
                .into_iter()
                .filter_map(|part| part.worktree)
                .map(|place| (place.repo, place.path)),
        );
        if roots.is_empty() {
            let repo = self.parts.store.repo_path(task.project, &self.parts.machine).await?;
            let Some(repo) = repo else { return Ok(None) };
            let root = runner.root(&repo, self.worktree(record)).await;
            let root = root.map_err(infrastructure)?;
            roots.push((repo, root));
        }
        let mut trees = Vec::with_capacity(roots.len());
        for (repo, root) in &roots {
            match runner.files(repo, root).await {
                Ok(files) => trees.extend(files.tree),
                // Unless the files can be read, no attestation and no approval counts.
                Err(fault) => {
                    tracing::warn!(%fault, task = %task.id, "the files of a task cannot be read");
                    return Ok(None);
                }
            }
        }
        Ok(Some(trees.join("+")).filter(|trees| !trees.is_empty()))
    }

    /// The state of a task's files; `None` outside git or where they are not on this machine.
    pub(crate) async fn tree_of(
        &self,
        op: &OpContext,
        task: TaskId,
        worktree: Option<&str>,
    ) -> Result<Option<String>, EngineError> {
        let (Some(runner), Some(repo)) = (&self.parts.checks, self.repo_of(op, task).await?) else {
            return Ok(None);
        };
        let root = runner.root(&repo, worktree).await.map_err(infrastructure)?;
        Ok(runner.files(&repo, &root).await.map_err(infrastructure)?.tree)
    }

    /// The worktree of a task's current session, also while its result waits for review.
    fn worktree<'r>(&self, record: &'r TaskRecord) -> Option<&'r str> {
        self.worktree_of(&record.task, record.newest.as_ref())
    }

    /// As `worktree`, for a task without its record. A session that is over has no say about the place of checks.
    pub(crate) fn worktree_of<'r>(
        &self,
        task: &Task,
        newest: Option<&'r Attempt>,
    ) -> Option<&'r str> {
        let attempt = newest?;
        attempt.execution_state(task.phase, &self.parts.policy, self.parts.store.now())?;
        attempt.worktree.as_deref()
    }

    /// Where a task's checks run: in its session's worktree, else in its own, else in the repository. Refused where
    /// this machine has no repository of the project.
    async fn site(&self, org: &str, record: &TaskRecord) -> Result<Site, EngineError> {
        let missing = |message: String| Refusal::CheckInfrastructure { message };
        let runner = self
            .parts
            .checks
            .clone()
            .ok_or_else(|| missing("this server runs no commands".into()))?;
        let repo = self
            .parts
            .store
            .repo_path(record.task.project, &self.parts.machine)
            .await?
            .ok_or_else(|| {
                missing(format!("no repository is registered for task {}", record.task.id))
            })?;
        let root = match (self.worktree(record), &self.parts.workshop) {
            (None, Some(shop)) => {
                let card = self.parts.store.card(org, record.task.id).await?.unwrap_or_default();
                let (name, branch) = place_of(&record.task, &card);
                let own = shop.worktrees.worktree_find(&repo, &name, &branch).await;
                let own = own.map_err(|fault| missing(fault.to_string()))?;
                own.map_or_else(|| repo.clone(), |own| own.path)
            }
            (worktree, _) => runner.root(&repo, worktree).await.map_err(infrastructure)?,
        };
        Ok(Site { runner, repo, root })
    }

    async fn run(
        &self,
        op: &OpContext,
        site: &Site,
        record: &TaskRecord,
        files: FilesState,
        wanted: &[usize],
    ) -> Result<Checked, EngineError> {
        // All commands of all checks start below, for any verb.
        op.principal.rights.judge_task(record.task.id)?;
        let mut runs = Vec::with_capacity(wanted.len());
        for (done, index) in wanted.iter().enumerate() {
            let check = &record.task.checks[*index];
            let CheckKind::Command { cmd, cwd, timeout_s } = &check.kind else { continue };
            let timeout_s = timeout_s.unwrap_or(self.parts.policy.check_timeout_default_s);
            let (variables, ports) = match site.root == site.repo {
                true => (recipe::variables(&recipe::slug(&record.task), None), None),
                false => self.workspace_variables(&record.task, &site.root).await,
            };
            let run = CheckRun {
                variables,
                ports,
                task: record.task.id,
                index: *index,
                cmd: cmd.clone(),
                cwd: cwd.clone(),
                timeout: Duration::from_secs(timeout_s.into()),
                repo: site.repo.clone(),
                root: site.root.clone(),
                files: files.clone(),
                shell: self.parts.check_shell.clone(),
                log_tail_bytes: self.parts.check_log_tail_bytes,
            };
            let what = format!("check {index} ({})", check.desc);
            let started = self.parts.store.now();
            let ran = self.run_one(op, site, run, done, wanted.len(), &what).await?;
            let took_ms = u64::try_from(self.parts.store.now().ms_since(started)).ok();
            self.keep_log(op, &*site.runner, &site.repo, record.task.id, &ran.log).await?;
            let verdict = Verdict {
                pass: ran.passed(),
                at: self.parts.store.now(),
                tree: files.tree.clone(),
                source: VerdictSource::Run { exit_code: ran.exit_code, log: ran.log, took_ms },
            };
            runs.push((*index, verdict));
        }
        Ok(Checked { basis: basis(record), tree: files.tree, runs })
    }

    async fn run_one(
        &self,
        op: &OpContext,
        site: &Site,
        run: CheckRun,
        done: usize,
        total: usize,
        what: &str,
    ) -> Result<crate::ports::CheckRan, EngineError> {
        let index = run.index;
        let total = Some(total as f64);
        op.progress.report(done as f64, total, format!("running {what}"));
        let mut tick =
            tokio::time::interval_at(tokio::time::Instant::now() + PROGRESS_EVERY, PROGRESS_EVERY);
        let running = site.runner.run(run, op.cancel.clone());
        tokio::pin!(running);
        let mut ticks = 0u32;
        let ran = loop {
            tokio::select! {
                ran = &mut running => break ran,
                _ = tick.tick() => {
                    ticks += 1;
                    // Progress must rise: the fraction approaches the next whole check.
                    let part = 1.0 - 1.0 / f64::from(ticks + 1);
                    let seconds = u64::from(ticks) * PROGRESS_EVERY.as_secs();
                    let words = format!("running {what}, {seconds} s");
                    op.progress.report(done as f64 + part, total, words);
                }
            }
        };
        ran.map_err(|fault| match fault {
            CheckFault::LeavesRepo => {
                Refusal::invalid(format!("check {index}: cwd leaves the repo")).into()
            }
            fault @ (CheckFault::Infrastructure(_) | CheckFault::Canceled) => infrastructure(fault),
        })
    }
}

pub(crate) fn infrastructure(fault: CheckFault) -> EngineError {
    match fault {
        CheckFault::Canceled => EngineError::Canceled,
        CheckFault::Infrastructure(message) => Refusal::CheckInfrastructure { message }.into(),
        CheckFault::LeavesRepo => Refusal::invalid("cwd leaves the repo").into(),
    }
}

fn basis(record: &TaskRecord) -> Basis {
    Basis {
        label: record.task.label.clone(),
        deps: record.deps.iter().map(|dep| dep.id).collect(),
        checks: record.task.checks.clone(),
    }
}
