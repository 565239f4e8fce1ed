//! What a review page keeps: the drafts of a reviewer, comments that were sent, viewed files, looks and snoozes. All
//! but the sent comments are private to their author.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_domain::refusal::found::Sought as _;
use callboard_domain::review::snooze::Snooze;
use callboard_domain::review::{
    LastLook, ReviewComment, ReviewCommentId, ReviewDraft, SentComment, ViewedFile,
};

use crate::{ApplyError, StoreError};

/// Writes on a removed or unknown task are refused. Reads of one are empty.
#[async_trait]
pub trait ReviewStore {
    /// Adds the draft with this id, or changes it. Refuses the id of another author's draft, and one draft too many.
    async fn review_draft_put(
        &self,
        of: ReviewerOf,
        id: ReviewCommentId,
        comment: ReviewComment,
    ) -> Result<ReviewDraft, ApplyError>;
    /// By file and line.
    async fn review_drafts(&self, of: ReviewerOf) -> Result<Vec<ReviewDraft>, StoreError>;
    /// Returns whether the author had this draft.
    async fn review_draft_remove(
        &self,
        of: ReviewerOf,
        id: ReviewCommentId,
    ) -> Result<bool, StoreError>;
    /// Comments that were sent: the newest round first, then by file and line.
    async fn review_comments(
        &self,
        org: &str,
        task: TaskId,
    ) -> Result<Vec<SentComment>, StoreError>;
    /// Ticks a file off, with its blob.
    async fn review_viewed_put(&self, of: ReviewerOf, file: ViewedFile) -> Result<(), ApplyError>;
    /// Takes the tick off. Idempotent.
    async fn review_viewed_remove(&self, of: ReviewerOf, path: String) -> Result<(), StoreError>;
    /// In the order of their paths.
    async fn review_viewed(&self, of: ReviewerOf) -> Result<Vec<ViewedFile>, StoreError>;
    async fn review_look_put(&self, of: ReviewerOf, head: String) -> Result<LastLook, ApplyError>;
    async fn review_look(&self, of: ReviewerOf) -> Result<Option<LastLook>, StoreError>;
    /// Adds a snooze, or replaces the one with its key. Forgets the actor's snoozes that are over.
    async fn snooze_put(
        &self,
        org: Arc<str>,
        actor: Actor,
        snooze: Snooze,
    ) -> Result<(), ApplyError>;
    /// Snoozes that are not over by the clock, in the order of their keys.
    async fn snoozes(&self, org: Arc<str>, actor: Actor) -> Result<Vec<Snooze>, StoreError>;
    /// Idempotent.
    async fn snooze_remove(
        &self,
        org: Arc<str>,
        actor: Actor,
        key: String,
    ) -> Result<(), StoreError>;
}

/// An author, and the task whose review the author's rows are about.
#[derive(Clone, Debug)]
pub struct ReviewerOf {
    pub org: Arc<str>,
    pub task: TaskId,
    pub author: Actor,
}

impl ReviewerOf {
    pub(crate) fn not_found(&self) -> Refusal {
        self.task.not_found()
    }

    /// Whether the draft is this author's, on this task.
    pub(crate) fn owns(&self, draft: &ReviewDraft) -> bool {
        draft.task == self.task && draft.author == self.author
    }
}

/// The refusal of an id that names another author's draft.
pub(crate) fn not_yours() -> Refusal {
    Refusal::invalid_field("id", "id names a draft of another author or task")
}

/// Drafts by file and line, in the order of bytes whatever the database's own is.
pub(crate) fn drafts_in_place(mut drafts: Vec<ReviewDraft>) -> Vec<ReviewDraft> {
    drafts.sort_by(|a, b| a.comment.place().cmp(&b.comment.place()).then(a.id.cmp(&b.id)));
    drafts
}

/// Sent comments, the newest round first, each round by file and line.
pub(crate) fn sent_in_place(mut sent: Vec<SentComment>) -> Vec<SentComment> {
    sent.sort_by(|a, b| {
        let place = a.comment.place().cmp(&b.comment.place());
        b.round.cmp(&a.round).then(place).then(a.id.cmp(&b.id))
    });
    sent
}
