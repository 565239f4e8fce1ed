//! Drafts of comments on the files as they are now. The rule is `DraftSeen` of the domain.

use std::collections::HashMap;

use callboard_domain::ids::TaskId;
use callboard_domain::review::DiffSide;
use callboard_domain::review::follow::{DraftLines, DraftSeen};

use super::draft::reviewer;
use crate::context::OpContext;
use crate::ports::ChangesQuery;
use crate::{Engine, EngineError};

impl Engine {
    /// The caller's drafts on a task, each with the lines that it is about now. Nothing is written.
    pub async fn review_drafts_now(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Vec<DraftSeen>, EngineError> {
        let drafts = self.review_draft_list(op, task).await?;
        if !drafts.iter().any(|draft| draft.comment.side == DiffSide::New) {
            return Ok(drafts.into_iter().map(DraftSeen::here).collect());
        }
        let card = self.card_get(op, task).await?.it;
        let places = self.workspace_get(op, &card).await?;
        let changes = match self.workspace_changes(op, &card, &ChangesQuery::default()).await {
            Ok(changes) => Some(changes),
            Err(fault) => {
                let fault = fault.of_worktree()?;
                tracing::debug!(%fault, %task, "cannot tell where draft comments stand now");
                None
            }
        };
        let mut blobs = HashMap::new();
        for part in changes.iter().flatten() {
            for file in &part.changes.files {
                blobs.insert(part.whole(&file.path), file.new_blob.clone());
            }
        }
        let mut seen = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let blob = blobs.get(&draft.comment.path).cloned().flatten();
            let is_known = changes.is_some() && draft.comment.side == DiffSide::New;
            if !is_known || blob.as_ref() == Some(&draft.comment.blob) {
                seen.push(DraftSeen::here(draft));
                continue;
            }
            let text = self.file_now(&places, &draft.comment.path).await;
            seen.push(match text {
                Some(text) => DraftSeen::followed(draft, text.as_deref(), blob),
                None => DraftSeen::here(draft),
            });
        }
        Ok(seen)
    }

    /// Writes down where drafts moved to, so that a message names the lines of the work as it is now.
    pub(super) async fn review_drafts_follow(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<(), EngineError> {
        for DraftSeen { draft, lines } in self.review_drafts_now(op, task).await? {
            if lines == DraftLines::Moved {
                let (id, comment) = (draft.id, draft.comment);
                self.parts.store.review_draft_put(reviewer(op, task), id, comment).await?;
            }
        }
        Ok(())
    }
}
