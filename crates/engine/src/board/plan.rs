//! Plans: kept as drafts until a person decides on them.

use callboard_domain::board::alike::likeness;
use callboard_domain::board::outlook::{CheckUsed, checks_used, dep_fits};
use callboard_domain::board::plan::{Plan, PlanId, PlannedTask, Todo};
use callboard_domain::command::{Command, NEW_TASK, PlanApprove, PlanPropose};
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::found::OrNotFound as _;
use callboard_domain::task::Task;
use callboard_store::Outcome;
use callboard_store::knowledge::analyser::terms;

use crate::context::{OpContext, Scope};
use crate::task::graph::GraphFilter;
use crate::task::query::TaskFilter;
use crate::{Engine, EngineError};

/// How many open tasks are shown as much alike.
const OVERLAPS_MAX: usize = 20;
/// How many tasks are asked for their checks.
const TASKS_LOOKED_AT: usize = 200;

/// An open task whose title is much like that of a task of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanOverlap {
    /// The place of the proposed task in the plan, from 0.
    pub place: usize,
    pub task: Task,
    /// In hundredths.
    pub likeness: usize,
}

impl Engine {
    pub async fn plan_propose(
        &self,
        op: &OpContext,
        tasks: Vec<PlannedTask>,
        todos: Vec<Todo>,
    ) -> Result<Plan, EngineError> {
        let plan = PlanId(self.parts.ids.next_id());
        let propose = Command::PlanPropose(PlanPropose { plan, tasks, todos });
        plan_of(self.act(op, propose).await?.outcome)
    }

    /// Plans, newest first.
    pub async fn plan_list(&self, op: &OpContext, limit: usize) -> Result<Vec<Plan>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        Ok(self.parts.store.plans(&op.principal.org, limit).await?)
    }

    pub async fn plan_get(&self, op: &OpContext, id: PlanId) -> Result<Plan, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let found = self.parts.store.plan(&op.principal.org, id).await?;
        Ok(found.or_not_found(&id)?)
    }

    /// Open tasks whose titles are much like those of a plan's tasks, the most alike first.
    pub async fn plan_overlaps(
        &self,
        op: &OpContext,
        plan: &Plan,
    ) -> Result<Vec<PlanOverlap>, EngineError> {
        let filter = GraphFilter::default();
        let open = self.task_graph(op, filter).await?.it.rows;
        let open: Vec<_> = open.into_values().map(|row| (terms(&row.task.title), row)).collect();
        let mut found = Vec::new();
        for (place, planned) in plan.tasks.iter().enumerate() {
            let words = terms(&planned.title);
            found.extend(open.iter().filter_map(|(others, row)| {
                let likeness = likeness(&words, others)?;
                Some(PlanOverlap { place, task: row.task.clone(), likeness })
            }));
        }
        found.sort_by_key(|one| (usize::MAX - one.likeness, one.place, one.task.id));
        found.truncate(OVERLAPS_MAX);
        Ok(found)
    }

    /// Open tasks whose titles are much like this one, the most alike first.
    pub async fn task_alike(&self, op: &OpContext, title: &str) -> Result<Vec<Task>, EngineError> {
        let open = self.task_graph(op, GraphFilter::default()).await?.it.rows;
        let words = terms(title);
        let alike = open.into_values().filter_map(|row| {
            let likeness = likeness(&words, &terms(&row.task.title))?;
            Some((likeness, row.task))
        });
        let mut found: Vec<(usize, Task)> = alike.collect();
        found.sort_by_key(|(likeness, task)| (usize::MAX - likeness, task.id));
        found.truncate(OVERLAPS_MAX);
        Ok(found.into_iter().map(|(_, task)| task).collect())
    }

    /// Open tasks that a text names by a part of the title or by the end of the id; a title that is equal wins.
    pub async fn tasks_called(
        &self,
        op: &OpContext,
        typed: &str,
    ) -> Result<Vec<Task>, EngineError> {
        let open = self.task_graph(op, GraphFilter::default()).await?.it.rows;
        let mut found: Vec<Task> =
            open.into_values().map(|row| row.task).filter(|task| dep_fits(typed, task)).collect();
        let is_equal = |task: &Task| task.title.eq_ignore_ascii_case(typed.trim());
        if found.iter().filter(|task| is_equal(task)).count() == 1 {
            found.retain(is_equal);
        }
        found.sort_by_key(|task| task.id);
        found.truncate(OVERLAPS_MAX);
        Ok(found)
    }

    /// The commands that the newest tasks have as checks, the most used first.
    pub async fn checks_used(&self, op: &OpContext) -> Result<Vec<CheckUsed>, EngineError> {
        let newest =
            TaskFilter { newest_first: true, limit: TASKS_LOOKED_AT, ..TaskFilter::default() };
        let tasks = self.task_list(op, newest).await?.it;
        Ok(checks_used(tasks.iter().map(|row| &row.task)))
    }

    /// Approves a plan and creates its tasks in the project of the caller's new tasks.
    pub async fn plan_approve(&self, op: &OpContext, id: PlanId) -> Result<Plan, EngineError> {
        op.principal.judge_outside(op.tool, NEW_TASK)?;
        let plan = self.plan_get(op, id).await?;
        let project = self.project_of_new(op, None, None).await?;
        let task = |_| TaskId { id: self.parts.ids.next_id(), prefix: project.prefix };
        let tasks = plan.tasks.iter().map(task).collect();
        let approve = PlanApprove { plan: id, project: project.id, tasks };
        plan_of(self.act(op, Command::PlanApprove(approve)).await?.outcome)
    }

    /// Puts a plan away. The words stand in the log.
    pub async fn plan_reject(
        &self,
        op: &OpContext,
        id: PlanId,
        words: Option<String>,
    ) -> Result<Plan, EngineError> {
        plan_of(self.act(op, Command::PlanReject { plan: id, words }).await?.outcome)
    }
}

fn plan_of(outcome: Outcome) -> Result<Plan, EngineError> {
    match outcome {
        Outcome::Plan(plan) => Ok(*plan),
        other => Err(EngineError::Internal(format!("not a plan: {other:?}"))),
    }
}
