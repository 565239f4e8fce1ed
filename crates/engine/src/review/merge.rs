//! Merging and rebasing the work of a review. Git does its part outside any transaction; the result is recorded
//! afterwards. A merge that was published but not recorded is found again by the next call.

use callboard_domain::board::card::Mode;
use callboard_domain::command::{Checked, Command, MergedBranch, ReviewOutcome, ReviewSettle};
use callboard_domain::decide::{
    AGENT_LINGERS, MergeGate, MergeNeeds, MergeWaits, TransitionGate, at_work, label_of,
    merge_gate, rebase_gate, transition_gate,
};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::{Refusal, ReviewAction};
use callboard_domain::review::mark::ReviewMark;
use callboard_domain::review::merging::MergeStep;
use callboard_domain::task::{Task, TaskRecord};

use crate::board::card::CardSeen;
use crate::board::card::STOPPED_WITHIN;
use crate::board::workspace::{Workshop, WorkspacePart, leftovers, worktree_of_task};
use crate::context::{OpContext, PersonVerb};
use crate::ports::{
    MergeFault, MergeFrom, MergeOrder, MergeWish, MergedPart, PreparedMerge, PreparedPart, Rebased,
    Turn, Worktree, WorktreeFault,
};
use crate::runs::stop::Stopped;
use crate::runs::work::WorkWish;
use crate::task::place::WorkspaceFault;
use crate::{Engine, EngineError};

/// How often a merge is tried whose target moves meanwhile.
const TRIES_MAX: u32 = 3;

/// A task after a merge or a rebase, with the result.
#[derive(Clone, Debug)]
pub struct Reviewed {
    pub record: TaskRecord,
    pub end: ReviewEnd,
}

/// The result of a merge or a rebase. Words are for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewEnd {
    Merged(Merged),
    MergeFailed { words: String, files: Vec<String> },
    Rebased { onto: String },
    RebaseConflict { files: Vec<String> },
    RebaseFailed { words: String },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The commit in the primary repository, or in the first that has one; `None` when there was nothing to merge.
    pub commit: Option<String>,
    /// `None` when no push was requested or there is no `origin`; else git's words if the push failed.
    pub pushed: Option<Result<(), String>>,
    /// The branches that were pushed, like `origin/main`; after the repository's name if there are several.
    pub pushed_to: Vec<String>,
}

/// Why a try to merge came to nothing: by a fault of git, which is the result of the merge, or by an error.
/// Faults are recorded on the task and shown; errors and refusals are answered, and nothing is recorded.
enum MergeStop {
    Fault(MergeFault),
    Error(EngineError),
}

impl From<MergeFault> for MergeStop {
    fn from(fault: MergeFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<EngineError> for MergeStop {
    fn from(error: EngineError) -> Self {
        Self::Error(error)
    }
}

impl From<Refusal> for MergeStop {
    fn from(refusal: Refusal) -> Self {
        Self::Error(refusal.into())
    }
}

impl Engine {
    /// Merges a task and pushes only if `board.push_after_merge` says so.
    pub async fn review_merge(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Reviewed, EngineError> {
        self.review_merge_with(op, task, MergeWish::default()).await
    }

    /// Merges a task's work into its target as one commit per repository, if its checks pass on the merged files.
    pub async fn review_merge_with(
        &self,
        op: &OpContext,
        task: TaskId,
        wish: MergeWish,
    ) -> Result<Reviewed, EngineError> {
        let (by, now) = (op.principal.actor.clone(), self.parts.store.now());
        let turn = self.merging.begin(task, by, now);
        let ended = self.merge_in_steps(op, task, wish).await;
        turn.end(&ended);
        ended
    }

    async fn merge_in_steps(
        &self,
        op: &OpContext,
        task: TaskId,
        wish: MergeWish,
    ) -> Result<Reviewed, EngineError> {
        let wish = MergeWish { push: wish.push || self.parts.board.push_after_merge, ..wish };
        op.principal.judge_verb_on(op.tool, PersonVerb::Merge, task)?;
        let org = &op.principal.org;
        let seen = self.card_get(op, task).await?.it;
        let settings = self.board_settings(org).await?;
        let needs_approval = settings.require_review_approval;
        // Judged before git does anything; the transaction judges again.
        // A merge that was published by an earlier call, whose answer was lost, is answered again.
        match self.gate_of(op, &seen, needs_approval, &wish.seen).await? {
            MergeGate::Open | MergeGate::Occupied(_) => {}
            MergeGate::Merged(commit) => {
                let merged = Merged { commit: Some(commit), ..Merged::default() };
                let end = ReviewEnd::Merged(merged);
                return Ok(Reviewed { record: seen.record, end });
            }
        }
        // The agent that the board started is stopped for the merge. Any other agent at work is not: the gate below
        // refuses then.
        let Some(seen) = self.agent_made_way(op, &seen).await? else {
            let end = ReviewEnd::MergeFailed { words: AGENT_LINGERS.into(), files: Vec::new() };
            return Ok(Reviewed { record: seen.record, end });
        };
        if let MergeGate::Occupied(agent) =
            self.gate_of(op, &seen, needs_approval, &wish.seen).await?
        {
            return Err(at_work(&seen.record.task, agent, ReviewAction::Merge).into());
        }
        let (shop, parts) = match self.workshop_of(org, &seen).await {
            Ok(found) => found,
            Err(fault) => {
                let words = fault.of_worktree()?.to_string();
                let end = ReviewEnd::MergeFailed { words, files: Vec::new() };
                return Ok(Reviewed { record: seen.record, end });
            }
        };
        let orders: Vec<MergeOrder> = parts
            .iter()
            .filter_map(|part| {
                Some(MergeOrder {
                    from: MergeFrom::Worktree {
                        worktree: part.worktree.clone()?,
                        leftovers_message: leftovers(task),
                    },
                    task: task.to_string(),
                    target: part.target.clone(),
                    message: merge_message(&seen.record),
                    fetch: settings.auto_sync_base_branch,
                    one_at_a_time: settings.serialize_merges,
                    settings_seen: wish.settings,
                })
            })
            .collect();
        let parts_of_task = parts;
        let mut tries = 0;
        let merged = loop {
            tries += 1;
            match self.merge_once(op, shop, task, orders.clone(), (needs_approval, &wish)).await {
                Ok(parts) => break Ok(parts),
                // The target moved between the checks and the publication, so the merged files were not the checked
                // ones.
                Err(MergeStop::Fault(MergeFault::Moved { .. })) if tries < TRIES_MAX => {}
                Err(MergeStop::Fault(fault)) => break Err(fault),
                Err(MergeStop::Error(error)) => return Err(error),
            }
        };
        match merged {
            Ok(parts) => {
                let merged = Merged::of(&parts);
                let outcome = ReviewOutcome::Merged {
                    commit: merged.commit.clone(),
                    pushed: merged.pushed.as_ref().map(Result::is_ok),
                    branches: parts.into_iter().map(branch).collect(),
                };
                let words = merged.commit.clone().unwrap_or_else(|| "nothing to merge".into());
                let reviewed = self.settle(op, task, outcome, words, ReviewEnd::Merged(merged));
                let reviewed = reviewed.await?;
                self.session_close_if_over(org, &seen.record, &reviewed.record).await?;
                self.workspace_tidy(org, &reviewed.record.task, &parts_of_task).await;
                Ok(reviewed)
            }
            Err(fault) => {
                let (words, files) = (fault.to_string(), fault.files().to_vec());
                let outcome = ReviewOutcome::MergeFailed { files: files.clone() };
                let end = ReviewEnd::MergeFailed { words: words.clone(), files };
                self.settle(op, task, outcome, words, end).await
            }
        }
    }

    /// What a merge of this task waits for from people. `work` is the state of the task's own files.
    pub async fn merge_waits(
        &self,
        op: &OpContext,
        seen: &CardSeen,
        work: Option<&str>,
    ) -> Result<MergeWaits, EngineError> {
        let needs_approval = self.settings_get(op).await?.require_review_approval;
        Ok(MergeWaits::of(&seen.record.task, &seen.card, needs_approval, work))
    }

    /// Whether the task may be merged, judged by its own files as they are now.
    async fn gate_of(
        &self,
        op: &OpContext,
        seen: &CardSeen,
        approval: bool,
        mark: &ReviewMark,
    ) -> Result<MergeGate, EngineError> {
        let CardSeen { record, card } = seen;
        let mut mark = mark.clone();
        let work = match approval || mark.work.is_some() {
            true => self.work_beside(op, seen, &mut mark).await?,
            false => None,
        };
        let agent = self.agent_at_work(&op.principal.org, seen).await?;
        let needs = MergeNeeds { approval, work: work.as_deref(), seen: Some(&mark) };
        Ok(merge_gate(&record.task, card, agent, needs)?)
    }

    /// One try to merge into the current targets. Checks that do not pass are a refusal, and nothing is published.
    /// The order matters: prepare, check the merged files, let `decide` clear the merge, publish. Only the last step
    /// changes a branch.
    async fn merge_once(
        &self,
        op: &OpContext,
        shop: &Workshop,
        task: TaskId,
        orders: Vec<MergeOrder>,
        (needs_approval, wish): (bool, &MergeWish),
    ) -> Result<Vec<MergedPart>, MergeStop> {
        self.merging.at(task, MergeStep::Prepare);
        let prepared = shop.merges.merge_prepare(orders).await?;
        self.merging.at(task, MergeStep::Look);
        let cleared = async {
            let checks = self.checks_of_merge(op, shop, task, &prepared).await?;
            let (checked, _turn) = checks.unzip();
            Ok(self.merge_cleared(op, task, (needs_approval, wish.seen.clone()), checked).await?)
        };
        match cleared.await {
            Ok(()) => {
                self.merging.at(task, MergeStep::Publish);
                Ok(shop.merges.merge_publish(prepared, wish.push).await?)
            }
            Err(stop) => {
                shop.merges.merge_abandon(prepared).await;
                Err(stop)
            }
        }
    }

    /// Asks `decide` with the task's own files as they are now. A commit made until now is either part of the prepared
    /// merge, or it makes the approval stale, or it is not the work that the person read.
    async fn merge_cleared(
        &self,
        op: &OpContext,
        task: TaskId,
        (needs_approval, mut seen): (bool, ReviewMark),
        checked: Option<Checked>,
    ) -> Result<(), EngineError> {
        let card = self.card_get(op, task).await?.it;
        let work = self.work_beside(op, &card, &mut seen).await?;
        let clear = Command::ReviewClear { task, needs_approval, checked, work, seen };
        self.act(&op.unkeyed(), clear).await?;
        Ok(())
    }

    /// The results of the command checks on the merged files, if closing needs any.
    async fn checks_of_merge(
        &self,
        op: &OpContext,
        shop: &Workshop,
        task: TaskId,
        prepared: &PreparedMerge,
    ) -> Result<Option<(Checked, Turn)>, MergeStop> {
        let record = self.task_get(op, task).await?.it;
        let done = label_of(&self.parts.policy, Phase::ClosedDone)?;
        let gate = transition_gate(&self.parts.policy, &record.task, &record.deps, &done.name)?;
        let has_commands = record.task.checks.iter().any(|check| check.is_command());
        // Without command checks nothing has to be checked out.
        if !has_commands || matches!(gate, TransitionGate::Free(_)) {
            return Ok(None);
        }
        // Checks belong to the primary repository.
        let Some(part) = prepared.parts.first() else { return Ok(None) };
        let place = self.merge_place(op, shop, &record.task, part).await?;
        let checked = self.checks_for_merging(op, &record, place.path.clone()).await;
        self.merge_place_leave(shop, &record.task, part, &place).await;
        Ok(Some(checked?))
    }

    /// A folder with the files of a merge, ready for commands: the task's worktree, or one that is made for this and
    /// prepared as a worktree is.
    pub(crate) async fn merge_place(
        &self,
        op: &OpContext,
        shop: &Workshop,
        task: &Task,
        part: &PreparedPart,
    ) -> Result<Worktree, MergeFault> {
        let path = shop.merges.merge_look(part).await?;
        let (repo, branch) = (part.from.repo().to_owned(), part.from.branch().to_owned());
        let place = Worktree { repo, path, branch };
        let of = worktree_of_task(task, &place);
        match shop.worktrees.worktree_ready(of, op.cancel.clone()).await {
            Ok(_) => Ok(place),
            Err(fault) => {
                // A setup that failed may have started services.
                self.merge_place_leave(shop, task, part, &place).await;
                Err(fault.into())
            }
        }
    }

    /// Tears down a folder that was made for the checks of a merge; the worktree of the task stays as it is.
    pub(crate) async fn merge_place_leave(
        &self,
        shop: &Workshop,
        task: &Task,
        part: &PreparedPart,
        place: &Worktree,
    ) {
        let is_own = matches!(&part.from, MergeFrom::Worktree { worktree, .. } if worktree.path == place.path);
        if !is_own {
            shop.worktrees.worktree_tear_down(&worktree_of_task(task, place)).await;
        }
    }

    /// Rebases a task's work onto the newest target. On a conflict, the task goes back to work.
    pub async fn review_rebase(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Reviewed, EngineError> {
        op.principal.judge_verb_on(op.tool, PersonVerb::Rebase, task)?;
        let org = &op.principal.org;
        let seen = self.card_get(op, task).await?.it;
        rebase_gate(&seen.record.task, None)?;
        let failed = |words: String| ReviewEnd::RebaseFailed { words };
        let Some(seen) = self.agent_made_way(op, &seen).await? else {
            return Ok(Reviewed { record: seen.record, end: failed(AGENT_LINGERS.into()) });
        };
        let agent = self.agent_at_work(org, &seen).await?;
        if let MergeGate::Occupied(agent) = rebase_gate(&seen.record.task, agent)? {
            return Err(at_work(&seen.record.task, agent, ReviewAction::Rebase).into());
        }
        let (shop, parts) = match self.workshop_of(org, &seen).await {
            Ok(found) => found,
            Err(fault) => {
                let end = failed(fault.of_worktree()?.to_string());
                return Ok(Reviewed { record: seen.record, end });
            }
        };
        let fetch = self.board_settings(org).await?.auto_sync_base_branch;
        let mut onto = Vec::new();
        for part in &parts {
            match rebase(shop, part, task, fetch).await {
                Ok(Rebased::Onto { target, .. }) => onto.push(target),
                Ok(Rebased::Conflict { target, files }) => {
                    let words = format!("Rebase onto {target} conflicts in: {}", files.join(", "));
                    let outcome = ReviewOutcome::RebaseConflict { files: files.clone() };
                    let end = ReviewEnd::RebaseConflict { files };
                    let reviewed = self.settle(op, task, outcome, words, end).await?;
                    // An agent that works alone is started again with the conflict in its prompt.
                    if seen.card.mode == Mode::Auto {
                        self.work_again(op, task).await;
                    }
                    return Ok(reviewed);
                }
                Err(words) => {
                    let outcome = ReviewOutcome::RebaseFailed;
                    return self.settle(op, task, outcome, words.clone(), failed(words)).await;
                }
            }
        }
        onto.dedup();
        let onto = onto.join(", ");
        let end = ReviewEnd::Rebased { onto: onto.clone() };
        self.settle(op, task, ReviewOutcome::Rebased, format!("onto {onto}"), end).await
    }

    /// The task after the board's agent on it has stopped; `None` when that agent does not end.
    pub(crate) async fn agent_made_way(
        &self,
        op: &OpContext,
        seen: &CardSeen,
    ) -> Result<Option<CardSeen>, EngineError> {
        let (org, task) = (&op.principal.org, seen.record.task.id);
        Ok(match self.work_stop(org, task, STOPPED_WITHIN).await? {
            Stopped::Nothing => Some(seen.clone()),
            Stopped::Gone => Some(self.card_get(op, task).await?.it),
            Stopped::Lingers => None,
        })
    }

    /// Queues an agent to resolve the conflicts. If that fails, another actor may.
    async fn work_again(&self, op: &OpContext, task: TaskId) {
        if let Err(error) = self.work_submit(&op.unkeyed(), task, WorkWish::default()).await {
            tracing::info!(%error, %task, "cannot start an agent on a rebase that conflicts");
        }
    }

    /// The worktrees of a task: at least one.
    async fn workshop_of(
        &self,
        org: &str,
        seen: &CardSeen,
    ) -> Result<(&Workshop, Vec<WorkspacePart>), WorkspaceFault> {
        let none = || WorktreeFault::Failed("the task has no workspace on this machine".into());
        let shop = self.parts.workshop.as_ref().ok_or_else(none)?;
        let parts = self.workspace_find(org, &seen.record.task, &seen.card).await?;
        if parts.is_empty() { Err(none().into()) } else { Ok((shop, parts)) }
    }

    async fn settle(
        &self,
        op: &OpContext,
        task: TaskId,
        outcome: ReviewOutcome,
        words: String,
        end: ReviewEnd,
    ) -> Result<Reviewed, EngineError> {
        let settle = ReviewSettle { task, outcome, words };
        let settle = Command::ReviewSettle(settle);
        let record = self.act_on_task(&op.unkeyed(), settle).await?.it;
        // A target or a branch may have moved, which changes how other merges would go.
        self.foreseen.forget();
        Ok(Reviewed { record, end })
    }
}

impl Merged {
    pub(crate) fn of(parts: &[MergedPart]) -> Self {
        let commit = parts.iter().find_map(|part| part.commit.clone());
        let pushed: Vec<_> = parts.iter().filter_map(|part| part.pushed.clone()).collect();
        let pushed = match pushed.iter().find(|pushed| pushed.is_err()) {
            Some(failed) => Some(failed.clone()),
            None => pushed.first().cloned(),
        };
        let done = parts.iter().filter(|part| part.pushed == Some(Ok(())));
        let pushed_to = done.map(|part| pushed_to(part, parts.len() > 1)).collect();
        Self { commit, pushed, pushed_to }
    }
}

fn pushed_to(part: &MergedPart, several: bool) -> String {
    let name = part.repo.file_name().filter(|_| several);
    let name = name.map(|name| format!("{}: ", name.to_string_lossy())).unwrap_or_default();
    format!("{name}origin/{}", part.target)
}

fn branch(part: MergedPart) -> MergedBranch {
    let MergedPart { repo, branch, commit, .. } = part;
    MergedBranch { repo: repo.display().to_string(), branch, commit }
}

async fn rebase(
    shop: &Workshop,
    part: &WorkspacePart,
    task: TaskId,
    fetch: bool,
) -> Result<Rebased, String> {
    let place = part.worktree.as_ref().ok_or("the worktree is gone")?;
    let leftovers = shop.worktrees.leftovers_commit(place, &leftovers(task)).await;
    leftovers.map_err(|fault| fault.to_string())?;
    let rebased = shop.worktrees.worktree_rebase(place, &part.target, fetch).await;
    rebased.map_err(|fault| fault.to_string())
}

pub fn merge_message(record: &TaskRecord) -> String {
    let title = record.task.title.split_whitespace().collect::<Vec<_>>().join(" ");
    let subject = format!("{title} (callboard {})", record.task.name());
    match record.body.trim() {
        "" => subject,
        body => format!("{subject}\n\n{body}"),
    }
}
