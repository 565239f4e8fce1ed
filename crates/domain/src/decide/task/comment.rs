//! Comments: added, resolved. An open blocker keeps a task from being taken and verified.

use serde_json::json;

use crate::command::CommentAdd;
use crate::decide::draft::Draft;
use crate::decide::input;
use crate::decide::task::verification;
use crate::event::EventName;
use crate::limits::{BLOCKERS_MAX, COMMENT_CHARS_MAX, RATIONALE_CHARS_MAX};
use crate::refusal::Refusal;
use crate::refusal::found::OrNotFound as _;
use crate::task::comment::{Comment, CommentId, CommentKind, Resolved};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// Adds a comment to a task, open or closed. A blocker also raises the task's count of open blockers in the same
/// change, so a claim never has to read the comments.
pub(crate) fn comment_add(
    world: &World<'_>,
    new: &CommentAdd,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let kind = new.kind.as_str();
    input::said("body", &new.body, COMMENT_CHARS_MAX, "body cannot be blank")?;
    if new.rationale.is_none() && new.kind.needs_rationale() {
        return Err(Refusal::invalid(format!("rationale is required for a {kind}")));
    }
    input::optional("rationale", new.rationale.as_ref(), RATIONALE_CHARS_MAX)?;
    let mut draft = Draft::of_task(world, new.task, now)?;
    // Threads have one level: a reply to a reply is refused with the comment that can be answered.
    if let Some(parent) = new.parent {
        let of_task = |comment: &&Comment| comment.task == new.task;
        let known = world.comment.as_ref().filter(of_task).or_not_found(&parent)?;
        if known.parent.is_some() {
            let words = format!("{parent} is itself a reply; reply to the comment it answers");
            return Err(Refusal::invalid(words));
        }
    }
    let blocks = new.kind == CommentKind::Blocker;
    // The limit is per actor, so that one agent cannot bury a task, and cannot use up the blockers of others either.
    let own = draft.subject.blockers.iter().filter(|blocker| blocker.author == *world.actor);
    if blocks && own.count() >= BLOCKERS_MAX {
        return Err(Refusal::BlockersMax { task: new.task, actor: world.actor.clone() });
    }
    let comment = Comment {
        id: new.comment,
        task: new.task,
        kind: new.kind,
        body: new.body.clone(),
        rationale: new.rationale.clone(),
        parent: new.parent,
        author: world.actor.clone(),
        created_at: now,
        resolved: None,
    };
    draft.task.open_blockers += u32::from(blocks);
    draft.write(Write::CommentInsert { comment });
    let data = json!({"comment": new.comment.to_string(), "kind": kind});
    draft.event(EventName::CommentAdded, data);
    draft.entry(format!("commented ({kind})"), Some(new.body.clone()));
    Ok(Change { reply: Reply::Comment(new.comment), ..draft.done() })
}

/// Resolves a comment, once. Its author and any person may do so. Idempotent: a second call changes nothing and keeps
/// the first words.
pub(crate) fn comment_resolve(
    world: &World<'_>,
    id: CommentId,
    words: Option<&String>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    input::optional("resolution", words, RATIONALE_CHARS_MAX)?;
    let comment = world.comment.as_ref().or_not_found(&id)?;
    if comment.author != *world.actor && !world.actor.is_human() {
        return Err(Refusal::NotCommentAuthor { comment: id, author: comment.author.clone() });
    }
    let mut draft = Draft::of_task(world, comment.task, now)?;
    if !comment.is_open() {
        return Ok(draft.unchanged(Reply::Comment(id)));
    }
    let resolved = Resolved { at: now, by: world.actor.clone(), words: words.cloned() };
    let last_blocker = comment.blocks() && draft.task.open_blockers == 1;
    draft.task.open_blockers -= u32::from(comment.blocks());
    draft.write(Write::CommentUpdate {
        comment: Comment { resolved: Some(resolved), ..comment.clone() },
    });
    draft.event(EventName::CommentResolved, json!({"comment": id.to_string()}));
    // A verification that waited for the blocker is due now, and `task.ready` says that the task can be taken.
    if last_blocker {
        verification::nudge(&mut draft, verification::BLOCKED_BY_REVIEW);
        if draft.standing().is_free() {
            draft.event(EventName::TaskReady, json!({"unblocked_by": id.to_string()}));
        }
    }
    draft.entry("resolved a comment", words.cloned());
    Ok(Change { reply: Reply::Comment(id), ..draft.done() })
}
