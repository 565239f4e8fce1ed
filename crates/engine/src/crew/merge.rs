//! Merging the work of workers into their epic's branch, and presenting the whole epic to people. Git and forges do
//! their part outside any transaction; a call that is repeated after a crash finds what is done and only finishes.

use callboard_domain::board::project::ProjectRepo;
use callboard_domain::board::settings::BoardSettings;
use callboard_domain::command::{Behind, Command, CrewSettle, EpicFinish};
use callboard_domain::crew::merge::{self, EpicBranch, FinishGate};
use callboard_domain::crew::state::{EpicState, TaskState, failure_reason, worker_of};
use callboard_domain::crew::{Agent, MailId};
use callboard_domain::decide::{TransitionGate, label_of, transition_gate};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::pulls::review::{self, ReviewPull};
use callboard_domain::pulls::{LOCAL, Pull};
use callboard_domain::refusal::Refusal;
use callboard_domain::review::mark::ReviewMark;

use crate::board::card::CardSeen;
use crate::board::workspace::leftovers;
use crate::context::OpContext;
use crate::crew::epic::{EpicTask, task_state};
use crate::ports::{MergeFault, MergeFrom, MergeOrder, MergePlan, Turn, WorktreeFault};
use crate::pulls::merge::PullEnd;
use crate::pulls::open::{PullDraft, PullFault};
use crate::task::check::infrastructure;
use crate::{At, Engine, EngineError};

#[derive(Clone, Debug)]
pub struct CrewApproved {
    pub url: String,
    /// Merged now. If not, the forge merges it as soon as it may, or there is nothing to merge.
    pub merged: bool,
    /// The task is completed without a merge: its branch has nothing that the epic's lacks.
    pub is_empty: bool,
    /// How many workers were told to rebase.
    pub told: usize,
}

#[derive(Clone, Debug)]
pub struct EpicFinished {
    pub epic: TaskId,
    pub url: String,
    pub number: u64,
}

impl Engine {
    /// Merges the work of a task in review into its epic's branch, if its checks pass.
    pub async fn crew_approve(
        &self,
        op: &OpContext,
        by: &Agent,
        task: TaskId,
    ) -> Result<CrewApproved, EngineError> {
        op.principal.judge_on(op.tool, task)?;
        let approved = match self.crew_merged(op, by, task).await {
            Ok(approved) => approved,
            Err(error) => {
                // Another approval may have been first, perhaps in another process. Then that is the reason to give,
                // whatever error this one got.
                self.in_review(op, by, task).await?;
                return Err(error);
            }
        };
        // The task's worker is free now, and other workers got mail.
        self.crew_go_on(op).await;
        Ok(approved)
    }

    async fn crew_merged(
        &self,
        op: &OpContext,
        by: &Agent,
        task: TaskId,
    ) -> Result<CrewApproved, EngineError> {
        let seen = self.in_review(op, by, task).await?;
        // One approval of an epic's tasks at a time: a second one of this task finds it completed.
        let _turn = self.approval_turn(&seen).await?;
        let seen = self.in_review(op, by, task).await?;
        // The agent has handed its work over; later changes of it were not reviewed.
        let seen = self.agent_made_way(op, &seen).await?.ok_or_else(merge::agent_lingers)?;
        let pulls = self.pulls_of_task(op, task).await?;
        let pull = match ReviewPull::of(pulls, seen.record.task.phase_at) {
            ReviewPull::Merged(pull) if !self.went_on(&op.principal.org, &seen, &pull).await? => {
                // A merge made elsewhere ran no checks.
                self.crew_clear(op, &seen).await?;
                let merged = Some(pull.merge_commit.clone());
                let told = self.crew_settle(op, &seen, &pull, merged, true).await?;
                return Ok(CrewApproved { url: pull.url, merged: true, is_empty: false, told });
            }
            ReviewPull::Named(pull) => pull,
            ReviewPull::Merged(_) | ReviewPull::OfWorktree => {
                self.crew_pull_of_worktree(op, &seen).await?
            }
        };
        self.crew_clear(op, &seen).await?;
        let head = Some(pull.head.as_str()).filter(|head| !head.is_empty());
        match self.pull_merge(op, &pull, head).await? {
            PullEnd::Merged { commit } => {
                let told = self.crew_settle(op, &seen, &pull, Some(commit), true).await?;
                Ok(CrewApproved { url: pull.url, merged: true, is_empty: false, told })
            }
            PullEnd::Nothing => {
                self.crew_settle(op, &seen, &pull, None, true).await?;
                Ok(CrewApproved { url: pull.url, merged: false, is_empty: true, told: 0 })
            }
            PullEnd::Waiting => {
                Ok(CrewApproved { url: pull.url, merged: false, is_empty: false, told: 0 })
            }
            PullEnd::Conflicts { files } => Err(merge::conflict(task, files).into()),
            PullEnd::Refused { why } => Err(EngineError::Internal(why)),
        }
    }

    /// The task, if it waits for this agent's review.
    async fn in_review(
        &self,
        op: &OpContext,
        by: &Agent,
        task: TaskId,
    ) -> Result<CardSeen, EngineError> {
        let At { it: seen, now } = self.epic_task_of(op, by, task).await?;
        merge::judge_review(task_state(&seen, now))?;
        Ok(seen)
    }

    /// Keeps other approvals in the epic out, also those of other processes on this machine. Only the epic's own checks
    /// wait for the same turn.
    async fn approval_turn(&self, seen: &CardSeen) -> Result<Option<Turn>, EngineError> {
        let task = &seen.record.task;
        let repo = self.parts.store.repo_path(task.project, &self.parts.machine).await?;
        let (Some(runner), Some(repo), Some(epic)) = (&self.parts.checks, repo, task.parent) else {
            return Ok(None);
        };
        runner.turn(&repo, epic).await.map(Some).map_err(infrastructure)
    }

    /// Runs the checks that do not pass for the files of the worktree. A check that fails is a refusal.
    async fn crew_clear(&self, op: &OpContext, seen: &CardSeen) -> Result<(), EngineError> {
        let task = seen.record.task.id;
        let done = label_of(&self.parts.policy, Phase::ClosedDone)?.name.clone();
        let work = self.work_for_label(&op.principal.org, &seen.record, &done).await?;
        let (checked, _turn) = self.checks_for_label(op, &seen.record, &done).await?.unzip();
        let (needs_approval, seen) = (false, ReviewMark::default());
        let clear = Command::ReviewClear { task, needs_approval, checked, work, seen };
        self.act(&op.unkeyed(), clear).await?;
        Ok(())
    }

    /// Whether the worktree has work after the head with which a pull request was merged.
    async fn went_on(&self, org: &str, seen: &CardSeen, pull: &Pull) -> Result<bool, EngineError> {
        let Some(shop) = self.parts.workshop.as_ref().filter(|_| !pull.head.is_empty()) else {
            return Ok(false);
        };
        for part in self.workspace_find(org, &seen.record.task, &seen.card).await? {
            let Some(place) = part.worktree.filter(|place| review::may_go_on(pull, &place.branch))
            else {
                continue;
            };
            let state = shop.worktrees.worktree_state(&place, &part.target).await?;
            if review::went_on(pull, &state.head, state.uncommitted.is_empty()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The open pull request with all the work of the worktree.
    async fn crew_pull_of_worktree(
        &self,
        op: &OpContext,
        seen: &CardSeen,
    ) -> Result<Pull, EngineError> {
        let CardSeen { record, card } = seen;
        for part in self.workspace_find(&op.principal.org, &record.task, card).await? {
            if let (Some(shop), Some(place)) = (&self.parts.workshop, &part.worktree) {
                let words = leftovers(record.task.id);
                shop.worktrees.leftovers_commit(place, &words).await?;
            }
        }
        self.crew_pull(op, seen, None).await.map_err(|error| match error {
            EngineError::Refused(Refusal::AgentState { .. }) => merge::nothing_to_merge().into(),
            error => error,
        })
    }

    /// Records all consequences of a merge, in one change; `merged` is its commit, or `None` when there was nothing to
    /// merge. Returns how many workers were told to rebase.
    async fn crew_settle(
        &self,
        op: &OpContext,
        seen: &CardSeen,
        pull: &Pull,
        merged: Option<Option<String>>,
        is_approval: bool,
    ) -> Result<usize, EngineError> {
        let (task, parent) = (seen.record.task.id, seen.record.task.parent);
        let reviews = match parent.filter(|_| merged.is_some()) {
            Some(epic) => self.epic_tasks(op, epic, Some(TaskState::Review)).await?,
            None => Vec::new(),
        };
        let others = reviews.into_iter().filter(|other| other.row.task.id != task);
        let behind: Vec<Behind> = others
            .filter_map(|other| {
                Some(Behind {
                    task: other.row.task.id,
                    title: other.row.task.title,
                    worker: other.worker?,
                    mail: MailId(self.parts.ids.next_id()),
                })
            })
            .collect();
        let mails: Vec<MailId> = behind.iter().map(|behind| behind.mail).collect();
        let settle = CrewSettle {
            task,
            is_merged: merged.is_some(),
            commit: merged.flatten(),
            is_approval,
            worker: worker_of(seen.record.newest.as_ref(), self.parts.store.now()),
            behind,
            sender: self.epic_supervisor(&op.principal.org, parent).await?,
            epic_branch: pull.base.clone(),
            is_remote: pull.forge != LOCAL,
        };
        self.act(&op.unkeyed(), Command::CrewSettle(Box::new(settle))).await?;
        // A worker that no longer exists gets no mail.
        let mut told = 0;
        for mail in mails {
            let sent = self.parts.store.mail(&op.principal.org, mail).await?;
            told += usize::from(sent.is_some());
        }
        Ok(told)
    }

    /// Completes a task whose pull request was merged meanwhile; returns whether one was.
    pub(crate) async fn crew_merge_settle(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<bool, EngineError> {
        let seen = self.card_get(op, task).await?.it;
        let pulls = self.pulls_of_task(op, task).await?;
        let Some(pull) = review::done_by(&seen.record.task, pulls) else { return Ok(false) };
        self.crew_settle(op, &seen, &pull, Some(pull.merge_commit.clone()), false).await?;
        Ok(true)
    }

    /// The target branch of an epic.
    pub(crate) async fn epic_base(
        &self,
        org: &str,
        epic: TaskId,
        repo: &ProjectRepo,
        settings: &BoardSettings,
    ) -> Result<String, EngineError> {
        let mut card = self.parts.store.card(org, epic).await?.unwrap_or_default();
        card.base_branch = card.base_branch.or_else(|| self.parts.crew.base_branch.clone());
        Ok(self.target_of(repo, &card, settings).await?)
    }

    /// Asks people to review a whole epic, once its tasks are over. Idempotent: a repeat returns the same pull request.
    pub async fn epic_finish(
        &self,
        op: &OpContext,
        by: &Agent,
        (title, description): (Option<String>, Option<String>),
        mail: MailId,
    ) -> Result<EpicFinished, EngineError> {
        let seen = self.epic_of(op, by).await?.it;
        let epic = seen.record.task.id;
        op.principal.judge_on(op.tool, epic)?;
        let finished = |pull: Pull| EpicFinished { epic, url: pull.url, number: pull.number };
        let stands = EpicState::of(&seen.record.task);
        if merge::finish_gate(stands)? == FinishGate::Finished {
            let pull = self.pulls_of_task(op, epic).await?.into_iter().next();
            return Ok(finished(pull.ok_or_else(|| merge::epic_is(stands))?));
        }
        let tasks = self.epic_tasks(op, epic, None).await?;
        merge::judge_finished(tasks.iter().map(|task| (&*task.row.task.title, task.state)))?;
        let repo = self.epic_repo(op, &seen).await?;
        let settings = self.board_settings(&op.principal.org).await?;
        let branch = seen.card.branch.clone().ok_or_else(merge::no_changes)?;
        let base = self.epic_base(&op.principal.org, epic, &repo, &settings).await?;
        self.judge_changes(&repo, &branch, &base).await?;
        let work = self.work_of(&op.principal.org, &seen.record).await?;
        let checked = self.epic_checks(op, &seen, &repo, &branch, &base).await?;
        let draft = PullDraft {
            task: epic,
            branch,
            base,
            title: title.unwrap_or_else(|| format!("[Epic] {}", seen.record.task.title)),
            body: description.unwrap_or_else(|| summary(&tasks)),
            may_rewrite: false,
        };
        let pull = match self.pull_open_for_task(op, draft).await {
            Ok(pull) => pull,
            Err(PullFault::Engine(error)) => return Err(error),
            Err(PullFault::NoBranch(_)) => return Err(merge::no_changes().into()),
            Err(fault) => return Err(EngineError::Internal(fault.to_string())),
        };
        let count = |of| tasks.iter().filter(|task| task.state == of).count();
        let finish = EpicFinish {
            by: by.id.clone(),
            epic,
            url: pull.url.clone(),
            completed: count(TaskState::Completed),
            failed: count(TaskState::Failed),
            checked,
            work,
            mail,
        };
        self.act(&op.unkeyed(), Command::EpicFinish(Box::new(finish))).await?;
        self.epic_tidy(op, &tasks).await;
        self.crew_go_on(op).await;
        Ok(finished(pull))
    }

    async fn epic_repo(&self, op: &OpContext, seen: &CardSeen) -> Result<ProjectRepo, EngineError> {
        let here = self.repos_here(&op.principal.org, seen.record.task.project).await?;
        here.into_iter().next().ok_or_else(|| {
            EngineError::Internal("the project has no git repository on this machine".into())
        })
    }

    async fn judge_changes(
        &self,
        repo: &ProjectRepo,
        branch: &str,
        base: &str,
    ) -> Result<(), EngineError> {
        let Some(shop) = &self.parts.workshop else { return Ok(()) };
        let branch = match shop.worktrees.branch_contains(&repo.path, base, branch).await {
            Ok(true) => EpicBranch::Merged,
            Ok(false) => EpicBranch::Ahead,
            Err(WorktreeFault::NoBranch(_)) => EpicBranch::Missing,
            Err(fault) => return Err(fault.into()),
        };
        Ok(merge::judge_changes(branch)?)
    }

    /// Runs the epic's own checks on the files as its pull request would make them.
    async fn epic_checks(
        &self,
        op: &OpContext,
        seen: &CardSeen,
        repo: &ProjectRepo,
        branch: &str,
        base: &str,
    ) -> Result<Option<callboard_domain::command::Checked>, EngineError> {
        let record = &seen.record;
        let done = label_of(&self.parts.policy, Phase::ClosedDone)?;
        let gate = transition_gate(&self.parts.policy, &record.task, &record.deps, &done.name)?;
        let has_commands = record.task.checks.iter().any(|check| check.is_command());
        let Some(shop) = self.parts.workshop.as_ref().filter(|_| has_commands) else {
            return Ok(None);
        };
        if matches!(gate, TransitionGate::Free(_)) {
            return Ok(None);
        }
        let order = MergeOrder {
            from: MergeFrom::Branch { repo: repo.path.clone(), name: branch.to_owned() },
            task: record.task.id.to_string(),
            target: base.to_owned(),
            message: record.task.title.clone(),
            fetch: false,
            one_at_a_time: true,
            // Nothing is merged here; the merge itself is judged later.
            settings_seen: true,
        };
        let failed = |fault: MergeFault| match fault {
            MergeFault::Conflict { files, .. } => merge::conflict(record.task.id, files).into(),
            MergeFault::Worktree(fault) => fault.into(),
            fault => EngineError::Internal(fault.to_string()),
        };
        let prepared = shop.merges.merge_prepare(vec![order]).await.map_err(failed)?;
        let Some(part) = prepared.parts.first() else { return Ok(None) };
        if part.plan == MergePlan::Nothing {
            shop.merges.merge_abandon(prepared).await;
            return Err(merge::no_changes().into());
        }
        let checked = match self.merge_place(op, shop, &record.task, part).await {
            Ok(place) => {
                let checked = self.checks_for_merging(op, record, place.path.clone()).await;
                self.merge_place_leave(shop, &record.task, part, &place).await;
                checked
            }
            Err(fault) => Err(failed(fault)),
        };
        shop.merges.merge_abandon(prepared).await;
        let (checked, _turn) = checked?;
        Ok(Some(checked))
    }

    /// Removes the workspaces of an epic's tasks, as far as no work is lost.
    async fn epic_tidy(&self, op: &OpContext, tasks: &[EpicTask]) {
        for EpicTask { row, .. } in tasks {
            let tidied = async {
                let found = self.workspace_find(&op.principal.org, &row.task, &row.card).await?;
                Ok::<_, EngineError>(self.workspace_remove(&row.task, &found).await?)
            };
            match tidied.await {
                Ok(kept) if kept.is_empty() => {}
                Ok(kept) => {
                    tracing::info!(task = %row.task.id, ?kept, "kept a workspace with unmerged work")
                }
                Err(error) => {
                    tracing::warn!(task = %row.task.id, %error, "cannot remove a workspace")
                }
            }
        }
    }
}

/// The body of an epic's pull request.
fn summary(tasks: &[EpicTask]) -> String {
    merge::summary(tasks.iter().map(|EpicTask { row, state, .. }| {
        (&*row.task.title, *state, failure_reason(&row.task, &row.card))
    }))
}
