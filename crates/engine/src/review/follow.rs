//! Drafts of comments whose file changed since they were written: they move with their lines, or stand on older lines.

use std::collections::HashMap;

use callboard_domain::ids::TaskId;
use callboard_domain::review::answer::{CommentState, comment_state};
use callboard_domain::review::{DiffSide, ReviewDraft};

use super::draft::reviewer;
use crate::context::OpContext;
use crate::ports::ChangesQuery;
use crate::{Engine, EngineError};

/// A draft where its lines are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftSeen {
    pub draft: ReviewDraft,
    pub lines: DraftLines,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftLines {
    /// As they were when the draft was written.
    Here,
    /// The lines are as they were, and the draft has their new numbers.
    Moved,
    /// The lines changed or are gone; the draft keeps its numbers.
    Older,
}

impl Engine {
    /// The caller's drafts on a task, each with the lines that it is about now. Nothing is written.
    pub async fn review_drafts_now(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<Vec<DraftSeen>, EngineError> {
        let drafts = self.review_draft_list(op, task).await?;
        let here = |draft| DraftSeen { draft, lines: DraftLines::Here };
        if !drafts.iter().any(|draft| draft.comment.side == DiffSide::New) {
            return Ok(drafts.into_iter().map(here).collect());
        }
        let card = self.card_get(op, task).await?.it;
        let places = self.workspace_get(op, &card).await?;
        let changes = self.workspace_changes(op, &card, &ChangesQuery::default()).await?;
        let mut blobs = HashMap::new();
        for part in changes.iter().flatten() {
            for file in &part.changes.files {
                blobs.insert(format!("{}{}", part.below, file.path), file.new_blob.clone());
            }
        }
        let mut seen = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let blob = blobs.get(&draft.comment.path).cloned().flatten();
            let is_known = changes.is_ok() && draft.comment.side == DiffSide::New;
            if !is_known || blob.as_ref() == Some(&draft.comment.blob) {
                seen.push(here(draft));
                continue;
            }
            let text = self.file_now(&places, &draft.comment.path).await;
            seen.push(match text {
                Some(text) => followed(draft, text.as_deref(), blob),
                None => here(draft),
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

/// A draft on a file with other content than the one it was written for.
fn followed(draft: ReviewDraft, text: Option<&str>, blob: Option<String>) -> DraftSeen {
    let lines: Option<Vec<&str>> = text.map(|text| text.lines().collect());
    match (comment_state(&draft.comment, lines.as_deref()), blob) {
        (CommentState::Answered, _) => DraftSeen { draft, lines: DraftLines::Older },
        (CommentState::Moved { line }, Some(blob)) => {
            DraftSeen { draft: draft.moved_to(line, blob), lines: DraftLines::Moved }
        }
        (CommentState::NotTouched | CommentState::Moved { .. }, _) => {
            DraftSeen { draft, lines: DraftLines::Here }
        }
    }
}
