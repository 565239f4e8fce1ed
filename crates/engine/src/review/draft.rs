//! What a reviewer keeps for itself: drafts of comments, viewed files, the last look, snoozes. These verbs give no
//! command and leave no event; every actor reads and writes its own rows alone.

use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_domain::review::snooze::Snooze;
use callboard_domain::review::{
    LastLook, ReviewComment, ReviewCommentId, ReviewDraft, ViewedFile, judge_object,
};
use callboard_store::ReviewerOf;

use crate::context::{OpContext, Scope};
use crate::{Engine, EngineError};

pub(super) fn reviewer(op: &OpContext, task: TaskId) -> ReviewerOf {
    let (org, author) = (op.principal.org.clone(), op.principal.actor.clone());
    ReviewerOf { org, task, author }
}

/// Judges a caller that keeps what it saw of a task.
fn judge_looking(op: &OpContext, task: TaskId) -> Result<(), Refusal> {
    op.principal.judge(op.tool, Scope::TasksRead)?;
    op.principal.rights.judge_task(task)
}

impl Engine {
    /// Adds a draft, or changes the one with this id. A caller that sends an id of its own may repeat the call.
    pub async fn review_draft_put(
        &self,
        op: &OpContext,
        task: TaskId,
        id: Option<ReviewCommentId>,
        comment: ReviewComment,
    ) -> Result<ReviewDraft, EngineError> {
        op.principal.judge_on(op.tool, task)?;
        let comment = comment.judged()?;
        let id = id.unwrap_or_else(|| self.review_comment_id());
        Ok(self.parts.store.review_draft_put(reviewer(op, task), id, comment).await?)
    }

    /// An id for a draft.
    pub fn review_comment_id(&self) -> ReviewCommentId {
        ReviewCommentId(self.parts.ids.next_id())
    }

    /// The caller's drafts on a task, by file and line.
    pub async fn review_draft_list(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Vec<ReviewDraft>, EngineError> {
        op.principal.judge_on(op.tool, task)?;
        Ok(self.parts.store.review_drafts(reviewer(op, task)).await?)
    }

    /// Removes a draft of the caller; returns whether there was one with this id.
    pub async fn review_draft_remove(
        &self,
        op: &OpContext,
        task: TaskId,
        id: ReviewCommentId,
    ) -> Result<bool, EngineError> {
        op.principal.judge_on(op.tool, task)?;
        Ok(self.parts.store.review_draft_remove(reviewer(op, task), id).await?)
    }

    /// Ticks a file off with its blob, or with `None` takes the tick off.
    pub async fn review_viewed_set(
        &self,
        op: &OpContext,
        task: TaskId,
        path: String,
        blob: Option<String>,
    ) -> Result<(), EngineError> {
        judge_looking(op, task)?;
        let (of, store) = (reviewer(op, task), &self.parts.store);
        match blob {
            Some(blob) => {
                let file = ViewedFile { path, blob }.judged()?;
                Ok(store.review_viewed_put(of, file).await?)
            }
            None => Ok(store.review_viewed_remove(of, path).await?),
        }
    }

    /// The files that the caller has ticked off. A file whose blob is another one now is not viewed any more.
    pub async fn review_viewed_list(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Vec<ViewedFile>, EngineError> {
        judge_looking(op, task)?;
        Ok(self.parts.store.review_viewed(reviewer(op, task)).await?)
    }

    /// Keeps the commit that the caller saw.
    pub async fn review_look_set(
        &self,
        op: &OpContext,
        task: TaskId,
        head: String,
    ) -> Result<LastLook, EngineError> {
        judge_looking(op, task)?;
        judge_object("head", &head)?;
        Ok(self.parts.store.review_look_put(reviewer(op, task), head).await?)
    }

    /// The commit that the caller saw last.
    pub async fn review_look_get(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Option<LastLook>, EngineError> {
        judge_looking(op, task)?;
        Ok(self.parts.store.review_look(reviewer(op, task)).await?)
    }

    /// Puts a row of the caller's inbox off.
    pub async fn snooze_set(&self, op: &OpContext, snooze: Snooze) -> Result<(), EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (org, actor) = (op.principal.org.clone(), op.principal.actor.clone());
        let snooze = snooze.judged(self.parts.store.now())?;
        Ok(self.parts.store.snooze_put(org, actor, snooze).await?)
    }

    /// The caller's snoozes that are not over by the clock. `Snooze::holds` also asks for the row's fingerprint.
    pub async fn snooze_list(&self, op: &OpContext) -> Result<Vec<Snooze>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (org, actor) = (op.principal.org.clone(), op.principal.actor.clone());
        Ok(self.parts.store.snoozes(org, actor).await?)
    }

    /// Idempotent.
    pub async fn snooze_remove(&self, op: &OpContext, key: String) -> Result<(), EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (org, actor) = (op.principal.org.clone(), op.principal.actor.clone());
        Ok(self.parts.store.snooze_remove(org, actor, key).await?)
    }
}
