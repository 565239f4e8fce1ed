//! What the log keeps of calls as such: those that were refused, and reads where that is wanted.

use callboard_domain::command::Command;
use callboard_domain::ids::TaskId;

use crate::Engine;
use crate::context::OpContext;

impl Engine {
    /// Writes down that a call was refused. The caller has its answer either way, and needs no right
    /// to be told no.
    pub async fn call_refuse(
        &self,
        op: &OpContext,
        action: Option<&'static str>,
        code: String,
        task: Option<TaskId>,
    ) {
        self.call_note(op, Command::CallRefuse { tool: op.tool, action, code, task }).await;
    }

    /// Writes down a read, where the settings want that.
    pub async fn call_answer(&self, op: &OpContext, task: Option<TaskId>) {
        if self.parts.board.audit_reads {
            self.call_note(op, Command::CallAnswer { tool: op.tool, task }).await;
        }
    }

    async fn call_note(&self, op: &OpContext, command: Command) {
        if let Err(error) = self.note(op, command).await {
            tracing::warn!(%error, tool = op.tool, "a call is not in the log");
        }
    }
}
