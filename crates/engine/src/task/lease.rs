//! Work under a lease: what can be started, taking a task, keeping it, handing it over.

use callboard_domain::command::{Command, LeaseComplete, LeaseUpdate};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::knowledge::{KnowledgeId, NewKnowledge};
use callboard_domain::refusal::found::OrNotFound as _;
use callboard_domain::retry::judge_first;
use callboard_domain::runs::job::JobId;
use callboard_domain::task::TaskRecord;
use callboard_domain::task::standing::Standing;
use callboard_store::{Applied, FreeQuery, Outcome};

use crate::context::{OpContext, Scope};
use crate::quota::Metric;
use crate::{At, Engine, EngineError};

/// The task before and after the change.
#[derive(Clone, Debug)]
pub struct Leased {
    pub seen: At<TaskRecord>,
    pub before: Option<Standing>,
    /// False when the task already was as requested.
    pub changed: bool,
    /// An earlier call with the same retry key did it.
    pub replayed: bool,
    /// The verify job that is under way.
    pub job: Option<JobId>,
    /// The knowledge that the call stored.
    pub knowledge: Vec<KnowledgeId>,
}

#[derive(Clone, Debug, Default)]
pub struct FreeFilter {
    pub below: Option<TaskId>,
    pub priority_max: Option<u16>,
    pub limit: usize,
}

#[derive(Clone, Debug)]
pub struct Completion {
    pub task: TaskId,
    pub fence: Option<u64>,
    pub output: String,
    pub external_ref: Option<String>,
    pub learnings: Vec<Learning>,
}

/// A lesson of the work on a task.
#[derive(Clone, Debug, Default)]
pub struct Learning {
    pub title: String,
    pub body: String,
    pub tags: Vec<String>,
    pub confidence: Option<u8>,
}

impl Engine {
    /// The tasks that can be started, in the whole org, best first.
    pub async fn lease_list(
        &self,
        op: &OpContext,
        filter: FreeFilter,
    ) -> Result<At<Vec<TaskRecord>>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let store = &self.parts.store;
        if let Some(plan) = filter.below {
            store.task(&op.principal.org, plan).await?.or_not_found(&plan)?;
        }
        let query = FreeQuery {
            org: op.principal.org.clone(),
            project: None,
            below: filter.below,
            priority_max: filter.priority_max,
            limit: filter.limit,
        };
        let mut found = Vec::new();
        for row in store.tasks_free(query).await? {
            // A task removed since the query is left out.
            found.extend(store.task(&op.principal.org, row.task.id).await?);
        }
        let now = store.now();
        let it = found.into_iter().map(|record| record.as_of(&self.parts.policy, now)).collect();
        Ok(At { it, now })
    }

    pub async fn lease_take(
        &self,
        op: &OpContext,
        task: TaskId,
        lease_s: u32,
    ) -> Result<Leased, EngineError> {
        let attempt = AttemptId(self.parts.ids.next_id());
        self.leased(op, Command::LeaseTake { attempt, task, lease_s }).await
    }

    pub async fn lease_update(
        &self,
        op: &OpContext,
        update: LeaseUpdate,
    ) -> Result<Leased, EngineError> {
        self.leased(op, Command::LeaseUpdate(update)).await
    }

    pub async fn lease_complete(
        &self,
        op: &OpContext,
        completion: Completion,
    ) -> Result<Leased, EngineError> {
        let (id, org) = (JobId(self.parts.ids.next_id()), &op.principal.org);
        let learnings = self.drafted(completion.learnings);
        let count = learnings.len() as u64;
        let over_quota = match count {
            0 => None,
            count => self.over_quota(org, Metric::KnowledgeStored, count).await?,
        };
        let knowledge = learnings.iter().map(|learning| learning.id).collect();
        let complete = LeaseComplete {
            task: completion.task,
            fence: completion.fence,
            output: completion.output,
            external_ref: completion.external_ref,
            learnings,
            over_quota,
            job: id,
        };
        let leased = self.leased(op, Command::LeaseComplete(complete)).await?;
        // The ids above are new; the ids of the first call were in its answer alone.
        judge_first(leased.replayed, op.tool)?;
        if count > 0 {
            self.learned(org, count).await;
        }
        // A task that is closed now has no verification to wait for.
        let job = match leased.seen.it.task.phase.is_closed() {
            true => None,
            false => self.verification_of(org, completion.task, id).await?,
        };
        Ok(Leased { job, knowledge, ..leased })
    }

    /// The job that verifies a task: the one of this id, or one that was under way before.
    async fn verification_of(
        &self,
        org: &str,
        task: TaskId,
        id: JobId,
    ) -> Result<Option<JobId>, EngineError> {
        let store = &self.parts.store;
        // A quick runner may have ended the new job by now; it still counts.
        let job = match store.job(org, id).await? {
            Some(job) => Some(job),
            None => store.verify_job(org, task).await?,
        };
        Ok(job.map(|job| job.id))
    }

    fn drafted(&self, learnings: Vec<Learning>) -> Vec<NewKnowledge> {
        let drafted = learnings.into_iter().map(|learning| NewKnowledge {
            id: KnowledgeId(self.parts.ids.next_id()),
            title: learning.title,
            body: learning.body,
            tags: learning.tags,
            confidence: learning.confidence,
        });
        drafted.collect()
    }

    async fn leased(&self, op: &OpContext, command: Command) -> Result<Leased, EngineError> {
        let Applied { outcome, before, changed, at, replayed, .. } = self.act(op, command).await?;
        let Outcome::Task(record) = outcome else {
            return Err(EngineError::Internal(format!("{} answered with no task", op.tool)));
        };
        let seen = At { it: record.as_of(&self.parts.policy, at), now: at };
        Ok(Leased { seen, before, changed, replayed, job: None, knowledge: Vec::new() })
    }

    /// Moves a task back from review to the start.
    pub async fn task_reopen(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskReopen { task }).await
    }

    /// Queues another verification of a task's contract.
    pub async fn verification_queue(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        let job = JobId(self.parts.ids.next_id());
        self.act_on_task(op, Command::VerificationQueue { task, job }).await
    }
}
