//! Log entries about calls as such: refused calls, and reads if the settings want those logged.

use callboard_domain::command::Command;
use callboard_domain::ids::TaskId;

use crate::Engine;
use crate::context::OpContext;

impl Engine {
    /// Logs that a call was refused. The caller gets its answer even if that fails, and being refused needs no right.
    pub async fn call_refuse(
        &self,
        op: &OpContext,
        action: Option<&'static str>,
        code: String,
        task: Option<TaskId>,
    ) {
        self.call_note(op, Command::CallRefuse { tool: op.tool, action, code, task }).await;
    }

    /// Logs a read, if the settings say so.
    pub async fn call_answer(&self, op: &OpContext, task: Option<TaskId>) {
        if self.parts.board.audit_reads {
            self.call_note(op, Command::CallAnswer { tool: op.tool, task }).await;
        }
    }

    async fn call_note(&self, op: &OpContext, command: Command) {
        if let Err(error) = self.note(op, command).await {
            tracing::warn!(%error, tool = op.tool, "cannot write a call to the event log");
        }
    }
}
