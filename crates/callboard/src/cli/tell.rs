//! `callboard tell`: a message for the agent of a task.

use std::time::Duration;

use callboard_domain::ids::TaskId;
use callboard_engine::context::OpContext;
use serde_json::json;
use tokio::time::Instant;

use super::context::{Context, Open};
use crate::output::{Failure, Object};

/// Send a message to a task's agent
///
/// An agent that speaks the Agent Client Protocol gets it at once: its turn is interrupted, and the
/// next one begins with the message. Otherwise the next agent that starts on the task gets the message.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard tell SHOP-01j8x2k7 \"Leave the tests alone\"")]
pub struct TellArgs {
    /// The task, or the beginning of its id
    id: String,
    /// What to tell it
    text: String,
}

/// How long an agent at work may take to get the message before it counts as one for the next agent.
const HEARD_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub async fn cmd_tell(context: &Context, args: TellArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.task_id(&args.id).await?;
    let op = open.op("tell");
    let told = open.engine().task_tell(&op, id, args.text).await;
    told.map_err(|error| Failure::from(error).about(id))?;
    let is_heard = open.is_heard(&op, id).await?;
    if context.out.json {
        return context.out.object(Object::TaskTold, json!({"task": id, "heard": is_heard}));
    }
    context.out.line(match is_heard {
        true => "the agent has the message",
        false => "the next agent that starts on the task gets the message",
    })
}

impl Open {
    /// Whether an agent at work has got every message.
    async fn is_heard(&self, op: &OpContext, id: TaskId) -> Result<bool, Failure> {
        let until = Instant::now() + HEARD_WITHIN;
        let works = |record: callboard_domain::runs::run::RunRecord| !record.job.is_over();
        while self.engine().work_newest(op, id).await?.is_some_and(works) && Instant::now() < until
        {
            if self.engine().card_get(op, id).await?.it.card.told.is_empty() {
                return Ok(true);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(self.engine().card_get(op, id).await?.it.card.told.is_empty())
    }
}
