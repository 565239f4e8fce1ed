//! Sending work back: the reviewer's words and comments become one message, which is the feedback of the review.

use serde_json::{Value, json};

use crate::command::{ReviewDecide, ReviewSends};
use crate::decide::board::card::{go, label_of};
use crate::decide::draft::Draft;
use crate::decide::review;
use crate::event::EventName;
use crate::limits::{REVIEW_DRAFTS_MAX, REVIEW_MESSAGE_BYTES_MAX};
use crate::policy::Phase;
use crate::refusal::Refusal;
use crate::review::message::message;
use crate::review::{ReviewComment, ReviewCommentId, ReviewDraft, SentComment, judge_object};
use crate::world::{Change, Write};

pub(super) fn reject(
    mut draft: Draft<'_>,
    decision: &ReviewDecide,
    to: Phase,
) -> Result<Change, Refusal> {
    let label = label_of(draft.world.policy, to)?.clone();
    let Rejected { text, comments } =
        rejected(&decision.feedback, &decision.sends, &draft.world.drafts)?;
    let rejection = review::sent_back(&draft, &text);
    let round = rejection.rounds;
    draft.card.review = Some(rejection);
    // Work that is done again is judged again.
    draft.task.verification = None;
    let count = comments.len();
    draft.event(EventName::ReviewRejected, event_data(count));
    go(&mut draft, &label);
    if draft.live.is_none() && draft.task.assignee.is_some() {
        draft.unassign();
    }
    let (author, sent_at) = (draft.actor().clone(), draft.now);
    for (id, comment) in comments {
        let (task, author, head) = (decision.task, author.clone(), decision.sends.head.clone());
        let sent = SentComment { id, task, author, comment, round, head, sent_at };
        draft.write(Write::ReviewCommentInsert { sent });
    }
    for sent in &draft.world.drafts {
        draft.write(Write::ReviewDraftDelete { draft: sent.id });
    }
    draft.entry("rejected", review::said(&text));
    Ok(draft.done())
}

fn event_data(comments: usize) -> Value {
    match comments {
        0 => json!({}),
        count => json!({"comments": count}),
    }
}

/// A rejection as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The words and comments, in one text.
    pub text: String,
    /// By file and line.
    pub comments: Vec<(ReviewCommentId, ReviewComment)>,
}

/// Composes the message of a rejection. `drafts` are those of the reviewer, which go along if `sends` says so. A page
/// shows this text before it is sent.
pub fn rejected(
    words: &str,
    sends: &ReviewSends,
    drafts: &[ReviewDraft],
) -> Result<Rejected, Refusal> {
    let drafts = drafts.iter().filter(|_| sends.drafts);
    let mut comments: Vec<_> = drafts.map(|draft| (draft.id, draft.comment.clone())).collect();
    for (id, comment) in &sends.comments {
        comments.push((*id, comment.clone().judged()?));
    }
    if comments.len() > REVIEW_DRAFTS_MAX {
        let got = comments.len();
        let words = format!("comments must be at most {REVIEW_DRAFTS_MAX}, got {got}");
        return Err(Refusal::invalid_field("comments", words));
    }
    comments.sort_by(|(a, one), (b, other)| one.place().cmp(&other.place()).then(a.cmp(b)));
    let head = sends.head.as_deref();
    head.map_or(Ok(()), |head| judge_object("head", head))?;
    let text = message(words, comments.iter().map(|(_, comment)| comment), head);
    if !comments.is_empty() && text.len() > REVIEW_MESSAGE_BYTES_MAX {
        let words = format!(
            "comments and feedback must be at most {REVIEW_MESSAGE_BYTES_MAX} bytes together, got {}; \
             send fewer comments",
            text.len()
        );
        return Err(Refusal::invalid_field("comments", words));
    }
    Ok(Rejected { text, comments })
}
