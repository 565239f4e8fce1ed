//! The board's verbs: fields and status at once, notes, reviews, lists.

use std::time::Duration;

use callboard_domain::board::card::Card;
use callboard_domain::command::{
    CardUpdate, Checked, Command, ReviewDecide, ReviewSends, ReviewVerdict,
};
use callboard_domain::decide::{label_of, same_column};
use callboard_domain::ids::TaskId;
use callboard_domain::limits::SCRATCHPAD_CHARS_MAX;
use callboard_domain::policy::Phase;
use callboard_domain::review::mark::ReviewMark;
use callboard_domain::runs::job::JobId;
use callboard_domain::task::TaskRecord;
use callboard_store::{CardPage, CardQuery};

use crate::board::workspace::head_of;
use crate::context::{OpContext, PersonVerb, Scope};
use crate::ports::{Turn, WorktreeFault};
use crate::task::place::WorkspaceFault;
use crate::{At, Engine, EngineError};

/// How long an agent may take to stop.
pub(crate) const STOPPED_WITHIN: Duration = Duration::from_secs(5);

/// A task with its card.
#[derive(Clone, Debug)]
pub struct CardSeen {
    pub record: TaskRecord,
    pub card: Card,
}

impl CardSeen {
    /// What the worker says was done.
    pub fn summary(&self) -> Option<&str> {
        self.card.summary(self.record.newest.as_ref())
    }

    /// The commit that a closed task's work was merged as.
    pub fn merged_as(&self) -> Option<&str> {
        let review = self.card.review.as_ref()?;
        let is_closed = self.record.task.phase.is_closed();
        review.merge_commit.as_deref().filter(|_| is_closed)
    }
}

/// A task whose review was requested.
#[derive(Clone, Debug)]
pub struct ReviewAsked {
    pub task: At<TaskRecord>,
    /// The job of the reviewer agent that `general.auto_review` started.
    pub reviewer: Option<JobId>,
}

#[derive(Clone, Debug, Default)]
pub struct CardFilter {
    pub project: Option<i64>,
    /// The phases of a column. Empty: all.
    pub phases: Vec<Phase>,
    pub without: Vec<TaskId>,
    /// Words from `search_words`.
    pub words: Vec<String>,
    pub with_scratchpad: bool,
    pub offset: usize,
    pub limit: usize,
}

impl Engine {
    pub async fn card_get(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<CardSeen>, EngineError> {
        // Both reads run at once; the error of a missing task comes first.
        let (record, card) = tokio::join!(self.task_get(op, task), self.card_of(op, task));
        let (At { it: record, now }, card) = (record?, card?);
        Ok(At { it: CardSeen { record, card }, now })
    }

    /// The card of a task.
    pub async fn card_of(&self, op: &OpContext, task: TaskId) -> Result<Card, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        Ok(self.parts.store.card(&op.principal.org, task).await?.unwrap_or_default())
    }

    pub async fn card_list(
        &self,
        op: &OpContext,
        filter: CardFilter,
    ) -> Result<At<CardPage>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let query = CardQuery {
            org: op.principal.org.clone(),
            project: filter.project,
            phases: filter.phases,
            without: filter.without,
            words: filter.words,
            with_scratchpad: filter.with_scratchpad,
            policy: self.parts.policy.clone(),
            offset: filter.offset,
            limit: filter.limit,
        };
        let it = self.parts.store.cards(query).await?;
        Ok(At { it, now: self.parts.store.now() })
    }

    /// Changes fields and status, or nothing. Closing runs the command checks that do not pass for the current files.
    pub async fn card_update(
        &self,
        op: &OpContext,
        mut update: CardUpdate,
    ) -> Result<At<TaskRecord>, EngineError> {
        op.principal.judge_on(op.tool, update.task)?;
        let record = self.task_get(op, update.task).await?.it;
        if let Some(project) = update.project {
            self.project_of_new(op, Some(project), None).await?;
        }
        let to = update.to.filter(|to| !same_column(*to, record.task.phase));
        let (work, checks) = match to {
            Some(to) => self.seen_towards(op, &record, to).await?,
            None => (None, None),
        };
        let (checked, _turn) = checks.unzip();
        (update.checked, update.work) = (checked, work);
        let updated = self.act_on_task(op, Command::CardUpdate(Box::new(update))).await?;
        self.session_close_if_over(&op.principal.org, &record, &updated.it).await?;
        Ok(updated)
    }

    /// Removes a task unless an open one waits for it, then its worktrees and branches as far as no work is lost;
    /// returns what stays. Git is asked first: the task stays while git fails.
    pub async fn card_remove(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Vec<String>, EngineError> {
        op.principal.judge_verb_on(op.tool, PersonVerb::Remove, task)?;
        let seen = self.card_get(op, task).await?.it;
        let (org, record) = (&op.principal.org, &seen.record);
        let parts = match self.workspace_find(org, &record.task, &seen.card).await {
            Ok(parts) => Ok(parts),
            // Git knows this folder, and nothing is removed from it.
            Err(fault @ WorkspaceFault::Worktree(WorktreeFault::Elsewhere { .. })) => {
                Err(fault.to_string())
            }
            Err(fault) => return Err(fault.into()),
        };
        let open = self.work_open(org, task).await?;
        self.act(op, Command::CardRemove { task }).await?;
        if let Some(open) = open {
            // An agent that still writes would keep the worktree from being removed.
            self.work_gone(org, &open, STOPPED_WITHIN).await?;
        }
        let mut kept = Vec::new();
        let places = self.workspace_places(org, &record.task, &seen.card).await?;
        if let Err(fault) = self.session_close(&places, task).await {
            kept.push(format!("the task's session cannot be ended: {fault}"));
        }
        match parts {
            Ok(parts) => match self.workspace_remove(&record.task, &parts).await {
                Ok(stays) => kept.extend(stays),
                Err(fault) => kept.push(fault.to_string()),
            },
            Err(words) => kept.push(words),
        }
        Ok(kept)
    }

    pub async fn scratchpad_get(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<String, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let text = self.parts.store.scratchpad(&op.principal.org, task).await?;
        Ok(text.unwrap_or_default())
    }

    /// Returns whether the notes are full, so that the oldest text was dropped.
    pub async fn scratchpad_append(
        &self,
        op: &OpContext,
        task: TaskId,
        text: String,
    ) -> Result<bool, EngineError> {
        self.act(op, Command::ScratchpadAppend { task, text }).await?;
        let kept = self.parts.store.scratchpad(&op.principal.org, task).await?;
        Ok(kept.is_some_and(|text| text.chars().count() >= SCRATCHPAD_CHARS_MAX))
    }

    pub async fn review_request(
        &self,
        op: &OpContext,
        task: TaskId,
        summary: String,
    ) -> Result<ReviewAsked, EngineError> {
        let requested = self.act_on_task(op, Command::ReviewRequest { task, summary }).await?;
        let reviewer = self.review_queue(op, task).await?;
        Ok(ReviewAsked { task: requested, reviewer })
    }

    pub async fn review_approve(
        &self,
        op: &OpContext,
        task: TaskId,
        feedback: String,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.approve(op, task, feedback, (true, ReviewMark::default())).await
    }

    /// Approves a task as any caller that may write, without the standing of a reviewer. The approval of a caller
    /// that saw another verdict than the one that stands, or read other files, is refused.
    pub async fn task_approve(
        &self,
        op: &OpContext,
        task: TaskId,
        feedback: String,
        seen: ReviewMark,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.approve(op, task, feedback, (false, seen)).await
    }

    async fn approve(
        &self,
        op: &OpContext,
        task: TaskId,
        feedback: String,
        (as_reviewer, mut mark): (bool, ReviewMark),
    ) -> Result<At<TaskRecord>, EngineError> {
        op.principal.judge_verb_on(op.tool, PersonVerb::Approve, task)?;
        op.principal.judge_one_client(op.tool)?;
        let seen = self.card_get(op, task).await?.it;
        let unmerged = self.is_unmerged(&op.principal.org, &seen).await?;
        let (work, checks) = match seen.record.task.phase {
            Phase::Review => {
                // An approval is always bound to the files, even if nothing else needs them.
                let work = self.work_beside(op, &seen, &mut mark).await?;
                // No check runs for an approval that the transaction refuses.
                let checks = match mark.judge_work(task, work.as_deref()) {
                    Ok(()) => self.seen_towards(op, &seen.record, Phase::ClosedDone).await?.1,
                    Err(_) => None,
                };
                (work, checks)
            }
            Phase::Initial | Phase::Working | Phase::ClosedDone | Phase::ClosedCanceled => {
                (None, None)
            }
        };
        let (checked, _turn) = checks.unzip();
        let verdict = ReviewVerdict::Approve { unmerged, as_reviewer };
        let sends = ReviewSends::default();
        let decision = ReviewDecide { task, verdict, feedback, checked, work, sends, seen: mark };
        self.review_decide(op, &seen.record, decision).await
    }

    /// The state of a task's files now. A mark of other files gets the commit of now, which its refusal names.
    pub(crate) async fn work_beside(
        &self,
        op: &OpContext,
        seen: &CardSeen,
        mark: &mut ReviewMark,
    ) -> Result<Option<String>, EngineError> {
        let work = self.work_of(&op.principal.org, &seen.record).await?;
        if let Some(read) = mark.work.as_mut().filter(|read| Some(&read.tree) != work.as_ref()) {
            read.head_now = head_of(&self.workspace_get(op, seen).await?);
        }
        Ok(work)
    }

    pub(crate) async fn review_decide(
        &self,
        op: &OpContext,
        before: &TaskRecord,
        decision: ReviewDecide,
    ) -> Result<At<TaskRecord>, EngineError> {
        let decided = self.act_on_task(op, Command::ReviewDecide(decision)).await?;
        self.session_close_if_over(&op.principal.org, before, &decided.it).await?;
        Ok(decided)
    }

    /// The state of the task's files and the results of the checks that a move to a column needs, if it needs any.
    async fn seen_towards(
        &self,
        op: &OpContext,
        record: &TaskRecord,
        to: Phase,
    ) -> Result<(Option<String>, Option<(Checked, Turn)>), EngineError> {
        let label = label_of(&self.parts.policy, to)?;
        let work = self.work_for_label(&op.principal.org, record, &label.name).await?;
        Ok((work, self.checks_for_label(op, record, &label.name).await?))
    }
}
