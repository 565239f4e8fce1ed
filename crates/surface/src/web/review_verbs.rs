//! The verbs of a reviewer: drafts of comments, ticks, and the verdicts.

use std::time::Duration;

use axum::Form;
use axum::extract::Path;
use axum::response::Response;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::review::mark::{ReviewMark, WorkRead};
use callboard_domain::review::verdict::VerdictMark;
use callboard_domain::review::{DiffSide, ReviewComment, quoted};
use callboard_engine::ports::{ChangesQuery, MergeWish, PatchWish};
use callboard_engine::{EngineError, Rejection, ReviewEnd, Reviewed, WorkspaceFault};
use serde::Deserialize;

use super::review_diff::place_of;
use super::review_refused::refused;
use super::task::found;
use super::task_verbs::{once, plain};
use super::{Page, Screen, done};

/// How long a form waits for a merge before it says that the merge runs.
const MERGE_WAIT: Duration = Duration::from_secs(2);

#[derive(Default, Deserialize)]
pub(super) struct ReviewForm {
    #[serde(default)]
    once: String,
    /// The page to go on with: the review as the form's page showed it.
    #[serde(default)]
    pub next: String,
    #[serde(default)]
    pub text: String,
    /// The head that the reviewer saw.
    #[serde(default)]
    pub head: String,
    /// The state of the files that the reviewer read.
    #[serde(default)]
    tree: String,
    /// The verdict that stood when the page was made.
    #[serde(default)]
    seen: String,
    /// `src/a.rs:R35-37`.
    #[serde(default)]
    pub place: String,
    #[serde(default)]
    draft: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    blob: String,
    #[serde(default)]
    off: String,
    /// `queue`: any worker may take the task; else it goes on as it was.
    #[serde(default)]
    pub to: String,
    #[serde(default)]
    pub merge: String,
}

impl ReviewForm {
    /// The review as the page of the form showed it.
    fn seen(&self) -> Result<ReviewMark, Refusal> {
        let verdict = match self.seen.as_str() {
            "" => None,
            text => Some(text.parse()?),
        };
        let (tree, head) = (self.tree.clone(), self.head.clone());
        let work = (!tree.is_empty()).then_some(WorkRead { tree, head, head_now: None });
        Ok(ReviewMark { verdict, work })
    }
}

pub(super) async fn act(
    page: Page,
    Path((text, verb)): Path<(String, String)>,
    Form(form): Form<ReviewForm>,
) -> Response {
    let id = match found(&page, &text).await {
        Ok(id) => id,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    let here = match form.next.as_str() {
        "" => format!("/tasks/{text}/review"),
        next => next.to_owned(),
    };
    match carry_out(&page, id, &verb, &form).await {
        Ok(Some(words)) if matches!(verb.as_str(), "reject") => done("/", &words),
        Ok(Some(words)) => done(&here, &words),
        Ok(None) => done(&here, ""),
        Err(error) => refused(&page, id, (&verb, &form), &error).await,
    }
}

/// Carries a form out. Returns a word about it, if one is due.
async fn carry_out(
    page: &Page,
    id: TaskId,
    verb: &str,
    form: &ReviewForm,
) -> Result<Option<String>, EngineError> {
    let engine = &page.engine;
    let op = once(page, &form.once)?;
    let seen = form.seen()?;
    match verb {
        "draft" => {
            let comment = comment(page, id, form).await?;
            engine.review_draft_put(&op, id, form.draft.parse().ok(), comment).await?;
            Ok(None)
        }
        "undraft" => {
            let draft = form.draft.parse().map_err(|_| unknown("draft"))?;
            engine.review_draft_remove(&op, id, draft).await?;
            Ok(None)
        }
        "viewed" => {
            let blob = Some(form.blob.clone()).filter(|_| form.off.is_empty());
            engine.review_viewed_set(&op, id, form.path.clone(), blob).await?;
            looked(page, id, form).await?;
            Ok(None)
        }
        "approve" => {
            engine.task_approve(&op, id, plain(&form.text), seen.clone()).await?;
            looked(page, id, form).await?;
            match form.merge.is_empty() {
                true => Ok(Some("Approved.".into())),
                false => {
                    let review = engine.card_of(&page.op(), id).await?.review;
                    let approved = review.as_ref().filter(|review| review.is_approved());
                    // A verdict that came between the approval and its merge is not the one that was seen.
                    let verdict = approved.map(|review| VerdictMark::of(Some(review)));
                    let verdict = verdict.or(seen.verdict);
                    merge(page, id, ReviewMark { verdict, ..seen }).await.map(Some)
                }
            }
        }
        "reject" => {
            let to = if form.to == "queue" { Phase::Initial } else { Phase::Working };
            let rejection = Rejection {
                with_drafts: true,
                head: Some(form.head.clone()).filter(|head| !head.is_empty()),
                seen,
                ..Rejection::of(plain(&form.text), to)
            };
            engine.review_reject(&op, id, rejection).await?;
            looked(page, id, form).await?;
            Ok(Some("Sent back, with your comments in one message.".into()))
        }
        "merge" => merge(page, id, seen).await.map(Some),
        "rebase" => {
            let Reviewed { end, .. } = engine.review_rebase(&op, id).await?;
            Ok(Some(ended(end)))
        }
        _ => Err(unknown("verb")),
    }
}

/// Keeps the head that the reviewer saw, for "since your last look".
async fn looked(page: &Page, id: TaskId, form: &ReviewForm) -> Result<(), EngineError> {
    if !form.head.is_empty() {
        page.engine.review_look_set(&page.op(), id, form.head.clone()).await?;
    }
    Ok(())
}

/// Merges. A merge that takes longer goes on after the answer, and the review shows its steps.
async fn merge(page: &Page, id: TaskId, seen: ReviewMark) -> Result<String, EngineError> {
    let wish = MergeWish { push: false, settings: false, seen };
    let (engine, op) = (page.engine.clone(), page.op());
    let run = tokio::spawn(async move { engine.review_merge_with(&op, id, wish).await });
    match tokio::time::timeout(MERGE_WAIT, run).await {
        Ok(Ok(reviewed)) => Ok(ended(reviewed?.end)),
        Ok(Err(error)) => Err(EngineError::Internal(error.to_string())),
        Err(_) => Ok("The merge runs. Its steps are shown here.".into()),
    }
}

fn ended(end: ReviewEnd) -> String {
    match end {
        ReviewEnd::Merged(merged) => match merged.commit {
            Some(commit) => format!("Merged as {commit}."),
            None => "There was nothing to merge.".into(),
        },
        ReviewEnd::MergeFailed { words, files } if files.is_empty() => {
            format!("Not merged: {words}. Nothing was published.")
        }
        ReviewEnd::MergeFailed { files, .. } => {
            format!("Not merged: conflicts in {}. Nothing was published.", files.join(", "))
        }
        ReviewEnd::Rebased { onto } => format!("Rebased onto {onto}."),
        ReviewEnd::RebaseConflict { files } => {
            format!("Not rebased: conflicts in {}.", files.join(", "))
        }
        ReviewEnd::RebaseFailed { words } => format!("Not rebased: {words}"),
    }
}

/// The comment of a form, with the code that it is about as it stands now.
async fn comment(page: &Page, id: TaskId, form: &ReviewForm) -> Result<ReviewComment, EngineError> {
    let (path, side, first_line, last_line) =
        place_of(&form.place).ok_or_else(|| unknown("place"))?;
    let card = page.engine.review_get(&page.op(), id).await?.it.card;
    let query = ChangesQuery {
        patch: PatchWish::File(path.clone()),
        texts: true,
        ..ChangesQuery::default()
    };
    let changes = match page.engine.workspace_changes(&page.op(), &card, &query).await {
        Err(WorkspaceFault::Worktree(_)) => return Err(unknown("place")),
        changes => changes?,
    };
    let part = changes.first().ok_or_else(|| unknown("place"))?;
    let inner = part.inner(&path).ok_or_else(|| unknown("place"))?;
    let file = part
        .changes
        .files
        .iter()
        .find(|file| file.path == inner)
        .ok_or_else(|| unknown("place"))?;
    let blob = match side {
        DiffSide::Old => file.old_blob.clone(),
        DiffSide::New => file.new_blob.clone(),
    };
    let blob = blob.ok_or_else(|| unknown("place"))?;
    let text = part.changes.texts.get(&blob).map(String::as_str).unwrap_or_default();
    let count = (last_line - first_line + 1) as usize;
    let quote = quoted(text.lines().skip(first_line as usize - 1).take(count));
    Ok(ReviewComment { path, side, first_line, last_line, blob, quote, text: plain(&form.text) })
}

fn unknown(field: &str) -> EngineError {
    let message = format!("{field} is missing or unknown; open the review again and use its forms");
    Refusal::InvalidInput { field: Some(field.into()), message }.into()
}
