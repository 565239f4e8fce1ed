//! Messages for the agents of tasks: kept beside the task, passed to an agent at work that can be spoken to, or put
//! into the prompt of the next one.

use std::convert::Infallible;

use callboard_domain::board::card::{AgentMessage, Card};
use callboard_domain::command::Command;
use callboard_domain::ids::TaskId;
use callboard_domain::runs::work::prompt::interruption;
use callboard_domain::task::TaskRecord;
use callboard_domain::time::Timestamp;
use tokio::sync::{mpsc, oneshot};

use crate::context::OpContext;
use crate::ports::Saying;
use crate::runs::patch::LeasedRun;
use crate::{At, Engine, EngineError};

impl Engine {
    pub async fn task_tell(
        &self,
        op: &OpContext,
        task: TaskId,
        text: String,
    ) -> Result<At<TaskRecord>, EngineError> {
        self.act_on_task(op, Command::TaskTell { task, text }).await
    }

    /// Records that the agent of a run has the messages up to this time.
    pub(crate) async fn task_hear(&self, taken: &LeasedRun, task: TaskId, upto: Timestamp) {
        let hear = Command::TaskHear { task, job: taken.job, upto };
        if let Err(error) = self.act_as_runner(&taken.org, hear).await {
            // The agent then gets them again, which is better than never.
            tracing::info!(%error, job = %taken.job, "cannot write down that an agent got a message");
        }
    }

    /// Passes messages on to the agent of a run while it works; `after` is the time of the last message it has.
    pub(crate) async fn work_tell(
        &self,
        taken: &LeasedRun,
        task: TaskId,
        mut after: Timestamp,
        says: mpsc::Sender<Saying>,
    ) -> Infallible {
        if let Ok(watch) = self.task_watch(task).await {
            while !says.is_closed() {
                let card = self.parts.store.card(&taken.org, task).await.ok().flatten();
                let next = card.unwrap_or_default().told.into_iter().find(|told| told.at > after);
                if let Some(told) = next
                    && said(&says, &told).await
                {
                    after = told.at;
                    self.task_hear(taken, task, after).await;
                    continue;
                }
                tokio::select! {
                    () = watch.changed() => {}
                    () = says.closed() => {}
                }
            }
        }
        std::future::pending().await
    }
}

/// Whether the agent got the message.
async fn said(says: &mpsc::Sender<Saying>, told: &AgentMessage) -> bool {
    let (heard, is_heard) = oneshot::channel();
    let text = interruption(told.by.as_str(), &told.text);
    says.send(Saying { text, heard }).await.is_ok() && is_heard.await.is_ok()
}

/// The messages in the form of a prompt.
pub(crate) fn in_prompt(card: &Card) -> Vec<String> {
    card.told.iter().map(|told| format!("From {}: {}", told.by, told.text)).collect()
}
