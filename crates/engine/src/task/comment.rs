//! Verbs on comments.

use callboard_domain::command::{Command, CommentAdd};
use callboard_domain::ids::TaskId;
use callboard_domain::task::comment::{Comment, CommentId, CommentKind};
use callboard_store::Outcome;

use crate::context::{OpContext, Scope};
use crate::{At, Engine, EngineError};

#[derive(Clone, Debug)]
pub struct CommentDraft {
    pub task: TaskId,
    pub kind: CommentKind,
    pub body: String,
    pub rationale: Option<String>,
    pub parent: Option<CommentId>,
}

impl Engine {
    pub async fn comment_add(
        &self,
        op: &OpContext,
        draft: CommentDraft,
    ) -> Result<At<Comment>, EngineError> {
        let add = CommentAdd {
            comment: CommentId(self.parts.ids.next_id()),
            task: draft.task,
            kind: draft.kind,
            body: draft.body,
            rationale: draft.rationale,
            parent: draft.parent,
        };
        self.act_on_comment(op, Command::CommentAdd(add)).await
    }

    pub async fn comment_resolve(
        &self,
        op: &OpContext,
        comment: CommentId,
        words: Option<String>,
    ) -> Result<At<Comment>, EngineError> {
        self.act_on_comment(op, Command::CommentResolve { comment, words }).await
    }

    /// The comments of a task, newest first.
    pub async fn comment_list(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Vec<Comment>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        Ok(self.parts.store.comments(&op.principal.org, task).await?)
    }

    async fn act_on_comment(
        &self,
        op: &OpContext,
        command: Command,
    ) -> Result<At<Comment>, EngineError> {
        let applied = self.act(op, command).await?;
        let Outcome::Comment(comment) = applied.outcome else {
            return Err(EngineError::Internal(format!("{} answered with no comment", op.tool)));
        };
        Ok(At { it: *comment, now: applied.at })
    }
}
