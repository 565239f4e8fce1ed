//! An ID argument: the short name of a task, its id, or a part of the id that only one task has.

use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;

use super::context::Open;
use super::id_ref::{NEAR_AMONG, SHOWN_MAX, ambiguous, near};
use crate::output::Failure;

impl Open {
    pub async fn task_id(&self, typed: &str) -> Result<TaskId, Failure> {
        self.find(typed, |task| Refusal::TaskNotFound { task }).await
    }

    /// The tasks for which another one is to wait.
    pub async fn dep_ids(&self, typed: &[String]) -> Result<Vec<TaskId>, Failure> {
        let mut ids = Vec::with_capacity(typed.len());
        for typed in typed {
            ids.push(self.find(typed, |task| Refusal::DanglingDependency { task }).await?);
        }
        Ok(ids)
    }

    async fn find(
        &self,
        typed: &str,
        refusal: impl FnOnce(String) -> Refusal,
    ) -> Result<TaskId, Failure> {
        let op = self.op("get");
        let typed = typed.trim();
        let found = match typed {
            "" => Vec::new(),
            typed => self.engine().task_ids(&op, typed, SHOWN_MAX + 1).await?,
        };
        match found.as_slice() {
            [only] => Ok(*only),
            [] => {
                let known = self.engine().task_ids(&op, "", NEAR_AMONG).await?;
                let known: Vec<String> = known.iter().map(TaskId::to_string).collect();
                Err(near(refusal(typed.into()).into(), typed, &known))
            }
            several => Err(ambiguous(typed, "task", several)),
        }
    }
}
