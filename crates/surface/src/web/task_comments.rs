//! The comments of a task that wait to be settled: a blocker, a question, a proposal to give the task up.

use callboard_domain::rights::PersonVerb;
use callboard_domain::task::comment::{Comment, CommentKind};
use maud::{Markup, html};

use super::Page;
use super::parts::{Tone, actor, ago, icon, note, prose};
use super::task::TaskSeen;
use super::task_verbs::why_not;

/// Each comment with the form that resolves it; `next` is the page that follows, the task's own if it is empty.
pub(super) fn open_comments(page: &Page, seen: &TaskSeen, next: &str) -> Markup {
    html! { @for comment in &seen.comments { (open_comment(page, seen, comment, next)) } }
}

fn open_comment(page: &Page, seen: &TaskSeen, comment: &Comment, next: &str) -> Markup {
    let may = page.acts() && why_not(page, PersonVerb::Write).is_none();
    let words = html! {
        p { (actor(&comment.author)) " " (did(comment.kind)) " " (ago(comment.created_at, seen.now)) ":" }
        (prose(&comment.body))
        @if let Some(rationale) = &comment.rationale { p.soft { "Reason: " bdi { (rationale) } } }
        @if may {
            form.row method="post" action={ "/tasks/" (seen.task().name()) "/resolve" } {
                input type="hidden" name="once" value=(page.engine.fresh_id());
                input type="hidden" name="comment" value=(comment.id);
                @if !next.is_empty() { input type="hidden" name="next" value=(next); }
                input.input name="text" autocomplete="off" aria-label="How it is settled" placeholder="How it is settled, if you like";
                button.button data-busy="Sending" { (icon("check")) "Resolve" }
            }
        }
    };
    note(Tone::Late, "comment", &words)
}

fn did(kind: CommentKind) -> &'static str {
    match kind {
        CommentKind::Blocker => "named a blocker",
        CommentKind::Question => "asked",
        CommentKind::Nack => "proposed to give the task up",
        CommentKind::Note | CommentKind::Reference => "wrote",
    }
}
