//! The answer to a planner: a plan is put away with a message.

use callboard_domain::board::plan::{Plan, PlanId};
use callboard_domain::command::MailSend;
use callboard_domain::crew::{AgentId, MailId};

use crate::context::OpContext;
use crate::{Engine, EngineError};

impl Engine {
    /// Puts a plan away with a message for its planner. The message stands in the log; a planner of the crew gets the
    /// message as mail too. Returns the plan, and whether mail was sent.
    pub async fn plan_put_away(
        &self,
        op: &OpContext,
        id: PlanId,
        words: Option<String>,
    ) -> Result<(Plan, bool), EngineError> {
        let plan = self.plan_reject(op, id, words.clone()).await?;
        let planner = AgentId::of(&plan.by);
        let (Some(body), Some(_)) = (words, self.agent_find(op, &planner).await?) else {
            return Ok((plan, false));
        };
        // A plan is put away once, so the number of the plan makes one mail of a form that is sent twice.
        let mail = MailId(id.0);
        let subject = "Your plan was put away".to_owned();
        let send = MailSend { mail, from: None, to: Some(planner), subject, body };
        self.mail_send(&op.unkeyed(), send).await?;
        Ok((plan, true))
    }
}
