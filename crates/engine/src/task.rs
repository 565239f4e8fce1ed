//! Verbs on tasks that need nothing from outside.

use callboard_domain::command::{Command, NewCheck, TaskCreate, TaskEdit};
use callboard_domain::ids::TaskId;
use callboard_domain::task::TaskRecord;
use callboard_store::Place;

use crate::context::{OpContext, Scope};
use crate::{At, Engine, EngineError};

/// A task somebody wants; the engine adds id and project.
#[derive(Clone, Debug, Default)]
pub struct TaskDraft {
    pub title: String,
    pub body: String,
    pub priority: Option<u16>,
    pub parent: Option<TaskId>,
    pub deps: Vec<TaskId>,
    pub checks: Vec<NewCheck>,
}

impl Engine {
    pub async fn task_create(
        &self,
        op: &OpContext,
        draft: TaskDraft,
    ) -> Result<At<TaskRecord>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksWrite)?;
        let project = match self.project_of(&op.principal).await? {
            Some(project) => project,
            None => self.parts.store.settle(Place::of_org(&op.principal.org)).await?.project,
        };
        let create = TaskCreate {
            task: TaskId { id: self.parts.ids.next_id(), prefix: project.prefix },
            project: project.id,
            title: draft.title,
            body: draft.body,
            priority: draft.priority.unwrap_or(callboard_domain::task::PRIORITY_DEFAULT),
            parent: draft.parent,
            deps: draft.deps,
            checks: draft.checks,
        };
        self.act_on_task(op, Command::TaskCreate(create)).await
    }

    pub async fn task_edit(
        &self,
        op: &OpContext,
        edit: TaskEdit,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskEdit(edit)).await
    }

    pub async fn task_remove(&self, op: &OpContext, task: TaskId) -> Result<(), EngineError> {
        self.act(op, Command::TaskRemove { task }).await.map(|_| ())
    }

    pub async fn task_claim(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskClaim { task }).await
    }

    pub async fn task_release(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskRelease { task }).await
    }

    pub async fn task_note(
        &self,
        op: &OpContext,
        task: TaskId,
        text: String,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskNote { task, text }).await
    }

    pub async fn dependency_add(
        &self,
        op: &OpContext,
        task: TaskId,
        dep: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::DependencyAdd { task, dep }).await
    }

    pub async fn dependency_remove(
        &self,
        op: &OpContext,
        task: TaskId,
        dep: TaskId,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::DependencyRemove { task, dep }).await
    }
}
