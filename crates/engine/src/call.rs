//! What the log keeps of calls that were refused.

use callboard_domain::command::Command;
use callboard_domain::ids::TaskId;
use callboard_store::Op;

use crate::Engine;
use crate::context::OpContext;

impl Engine {
    /// Writes down that a call was refused. The caller has its answer either way, and needs no right
    /// to be told no.
    pub async fn call_refuse(&self, op: &OpContext, code: String, task: Option<TaskId>) {
        let noted = self.parts.store.apply(Op {
            org: op.principal.org.clone(),
            actor: op.principal.actor.clone(),
            tool: op.tool,
            retry_key: None,
            policy: self.parts.policy.clone(),
            command: Command::CallRefuse { tool: op.tool, code, task },
        });
        if let Err(error) = noted.await {
            tracing::warn!(%error, tool = op.tool, "a refused call is not in the log");
        }
    }
}
