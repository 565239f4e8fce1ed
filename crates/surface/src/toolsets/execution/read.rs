//! Tools that read one task: its state, why its verification failed, its comments.

use callboard_domain::task::TaskRecord;
use callboard_domain::task::comment::Comment;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::tools::task_id;
use super::view;
use crate::page::{PageSize, cut, page};
use crate::tool::Call;
use callboard_engine::EngineError;
use callboard_engine::time::rfc3339_ms;

type Reply = Result<Value, EngineError>;

/// Comments on a page without `limit`.
const COMMENTS_DEFAULT: usize = 20;
/// How many comments come with a claim.
const REVIEW_MAX: usize = 5;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskGetRequest {
    task_id: String,
}

pub(super) async fn get_task(call: &Call<'_>, args: TaskGetRequest) -> Reply {
    let seen = call.engine.task_get(call.op, task_id(&args.task_id)?).await?;
    let mut task = view::task(&seen, call.engine.policy());
    task["review"] = review(call, &seen.it).await?;
    Ok(task)
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListComments {
    task_id: String,
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
}

pub(super) async fn list_comments(call: &Call<'_>, args: ListComments) -> Reply {
    // An unknown task is refused; a list of comments alone would be empty for it.
    let task = call.engine.task_get(call.op, task_id(&args.task_id)?).await?.it.task.id;
    let comments = call.engine.comment_list(call.op, task).await?;
    let size = PageSize::of(args.limit, COMMENTS_DEFAULT);
    let (shown, _) = page(&comments, size, comment);
    let more = comments.len() - shown.len();
    Ok(json!({"taskId": task, "comments": shown, "more": more}))
}

/// The changes that reviewers want, the newest first: the feedback of a rejection, and open comments of others than the
/// caller.
pub(super) async fn review(call: &Call<'_>, record: &TaskRecord) -> Reply {
    // The review of the board is on the card. A task that went through another toolset has its feedback there.
    let card = call.engine.card_of(call.op, record.task.id).await?;
    let said = card.review.as_ref().and_then(|review| {
        let text = review.feedback.as_deref()?;
        let at = review.decided_at.map(rfc3339_ms);
        let state = review.state.as_str();
        Some(json!({"author": review.by, "kind": state, "body": cut(text), "createdAt": at}))
    });
    let comments = call.engine.comment_list(call.op, record.task.id).await?;
    let of_others =
        |comment: &&Comment| comment.is_open() && comment.author != call.op.principal.actor;
    let open = comments.iter().filter(of_others).take(REVIEW_MAX).map(comment);
    Ok(said.into_iter().chain(open).collect())
}

/// A comment with long texts cut, in lists and beside a task.
fn comment(comment: &Comment) -> Value {
    let resolved = comment.resolved.as_ref();
    json!({
        "commentId": comment.id.to_string(),
        "kind": comment.kind.as_str(),
        "author": comment.author,
        "body": cut(&comment.body),
        "rationale": comment.rationale.as_deref().map(cut),
        "parentId": comment.parent.map(|parent| parent.to_string()),
        "open": comment.is_open(),
        "resolution": resolved.and_then(|resolved| resolved.words.as_deref()).map(cut),
        "createdAt": rfc3339_ms(comment.created_at),
    })
}
