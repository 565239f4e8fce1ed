//! The review of a task: what its worker says, the checks for these files, how a merge would go, and the change itself
//! with comments that go back as one message.

use std::collections::{BTreeMap, HashMap};

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::card::{Review, ReviewState};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::review::{DiffSide, LastLook, ReviewDraft, ViewedFile};
use callboard_domain::time::Timestamp;
use callboard_engine::ports::{ChangesQuery, ChangesSince, PatchWish};
use callboard_engine::{
    CommentSeen, EngineError, Rejection, ReviewComments, ReviewSeen, WorkspaceChanges,
    WorkspaceFault,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::diff::{
    self, DiffCaps, DiffFile, DiffSaid, DiffView, FileFacts, PaintOrder, PaintPair, TreeEntry,
};
use super::frame::{Screen, View};
use super::parts::{State, Tone, actor, ago, icon, note, pip, prose, span};
use super::review_panels::{decide, panels};
use super::task::found;
use super::{Page, said};

const KEYS: &[(&str, &str)] = &[
    ("] [", "next and previous file"),
    ("j k", "next and previous line"),
    ("c", "comment on the line"),
    ("v", "viewed, and the next file"),
    ("a", "approve"),
    ("b", "send back"),
    ("m", "merge"),
];

/// The state of the page in its address.
#[derive(Clone, Default, Deserialize)]
pub(super) struct ReviewAsked {
    /// `last`: only changes since the reader's last look.
    #[serde(default)]
    since: String,
    /// One file, by its path.
    #[serde(default)]
    file: String,
    /// The form of a comment: `src/a.rs:R35-37`.
    #[serde(default)]
    comment: String,
    /// `split`: side by side.
    #[serde(default)]
    view: String,
    /// `0`: lines in which only spaces changed are left out.
    #[serde(default)]
    ws: String,
    #[serde(default)]
    context: Option<u32>,
}

impl ReviewAsked {
    /// The parts of the query that links keep.
    fn kept(&self) -> Vec<(&str, &str)> {
        let fields = [("since", &*self.since), ("view", &*self.view), ("ws", &*self.ws)];
        fields.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// Everything that the page shows.
pub(super) struct Reviewing {
    pub seen: ReviewSeen,
    pub now: Timestamp,
    pub changes: Result<Vec<WorkspaceChanges>, WorkspaceFault>,
    pub drafts: Vec<ReviewDraft>,
    pub sent: ReviewComments,
    viewed: Vec<ViewedFile>,
    pub look: Option<LastLook>,
    /// The exact text of a rejection with the drafts, without the reviewer's own words.
    pub preview: String,
}

impl Reviewing {
    pub fn task(&self) -> &callboard_domain::task::Task {
        &self.seen.card.record.task
    }

    /// The changed files of all repositories: path, blob after the change.
    pub fn files(&self) -> Vec<(String, Option<&str>)> {
        let all = self.changes.iter().flatten();
        let files = all.flat_map(|part| {
            part.changes
                .files
                .iter()
                .map(|file| (format!("{}{}", part.below, file.path), file.new_blob.as_deref()))
        });
        files.collect()
    }

    pub fn is_viewed(&self, path: &str, blob: Option<&str>) -> bool {
        self.viewed.iter().any(|viewed| viewed.path == path && Some(&*viewed.blob) == blob)
    }

    pub fn head(&self) -> Option<&str> {
        self.changes.iter().flatten().next().map(|part| part.changes.head.as_str())
    }
}

pub(super) async fn show(
    page: Page,
    Path(text): Path<String>,
    Query(asked): Query<ReviewAsked>,
) -> Response {
    match found(&page, &text).await {
        Ok(id) => shown(&page, id, &asked, StatusCode::OK, None).await,
        Err(error) => page.failure(Screen::Board, &error).await,
    }
}

pub(super) async fn reviewing(
    page: &Page,
    id: TaskId,
    asked: &ReviewAsked,
) -> Result<Reviewing, EngineError> {
    let op = page.op();
    let seen = page.engine.review_get(&op, id).await?;
    let (seen, now) = (seen.it, seen.now);
    let look = page.engine.review_look_get(&op, id).await?;
    let patch = match asked.file.as_str() {
        "" => PatchWish::Page {
            files_max: DiffCaps::PAGE.files,
            lines_max: DiffCaps::PAGE.page_lines as u64,
        },
        path => PatchWish::File(path.to_owned()),
    };
    let query = ChangesQuery {
        since: look.as_ref().filter(|_| asked.since == "last").map(|look| look.head.clone()),
        ignore_space: asked.ws == "0",
        context: asked.context.unwrap_or(3).min(1_000),
        patch,
        texts: true,
        ..ChangesQuery::default()
    };
    let changes = page.engine.workspace_changes(&op, &seen.card, &query).await?;
    let sent = page.engine.review_comments_list(&op, id).await?;
    let viewed = page.engine.review_viewed_list(&op, id).await?;
    let drafts = match page.acts() {
        true => page.engine.review_draft_list(&op, id).await?,
        false => Vec::new(),
    };
    let rejection = Rejection { with_drafts: true, ..Rejection::of(String::new(), Phase::Working) };
    let preview = match drafts.is_empty() {
        true => String::new(),
        false => page.engine.review_reject_preview(&op, id, &rejection).await?,
    };
    Ok(Reviewing { seen, now, changes, drafts, sent, viewed, look, preview })
}

/// The page of a review. `fault` is the message about a form that was refused.
pub(super) async fn shown(
    page: &Page,
    id: TaskId,
    asked: &ReviewAsked,
    status: StatusCode,
    fault: Option<&str>,
) -> Response {
    let reviewing = match reviewing(page, id, asked).await {
        Ok(reviewing) => reviewing,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    let task = reviewing.task();
    let diff = diff_of(page, &reviewing, asked).await;
    let content = html! {
        @if let Some(words) = fault {
            div.pad-top { (note(Tone::Failed, "warn", &html! { p role="alert" { (words) " Nothing was changed." } })) }
        }
        div #review-head data-live { (head(&reviewing)) (panels(page, &reviewing)) }
        (decide(page, &reviewing, asked.since == "last"))
        (diff)
    };
    let mut view = View::of(Screen::Board, &task.title, content);
    let name = task.name().to_string();
    let here = format!("/tasks/{name}/review");
    let path = (Screen::Board.path().to_owned(), Screen::Board.title().to_owned());
    view.trail = vec![path, (format!("/tasks/{name}"), name.clone()), (here, "Review".into())];
    view.keys = KEYS;
    let twin = format!("callboard review {name}");
    view.twin = &twin;
    view.script = Some("/js/review.js");
    page.show(status, view).await
}

fn head(reviewing: &Reviewing) -> Markup {
    let task = reviewing.task();
    let part = reviewing.changes.iter().flatten().next();
    let (added, removed) =
        reviewing.changes.iter().flatten().flat_map(|part| &part.changes.files).fold(
            (0, 0),
            |(added, removed), file| {
                let (plus, minus) = file.lines.unwrap_or_default();
                (added + plus, removed + minus)
            },
        );
    let newest = reviewing.seen.card.record.newest.as_ref();
    let rounds =
        reviewing.sent.comments.iter().map(|comment| comment.sent.round).max().unwrap_or(0);
    html! {
        div.head {
            h1 { bdi { (task.title) } }
            div.dots {
                (State::of(task).badge())
                @if let Some(attempt) = newest { (actor(&attempt.actor)) span { "fence " (attempt.fence) } }
                @if rounds > 0 { span { "round " (rounds + 1) } }
                @if let Some(part) = part {
                    span { @if let Some(worktree) = &part.part.worktree { code { (worktree.branch) } } " into " code { (part.part.target) } }
                }
                span { (reviewing.files().len()) " files " span.added { "+" (added) } " " span.removed { "−" (removed) } }
                span { "waits " (span(reviewing.now.ms_since(task.phase_at))) }
            }
        }
    }
}

/// The tree and the files, or why there are none.
async fn diff_of(page: &Page, reviewing: &Reviewing, asked: &ReviewAsked) -> Markup {
    let parts = match &reviewing.changes {
        Ok(parts) => parts,
        Err(fault) => {
            let words = fault.to_string();
            let words = html! { p { (words) } };
            return html! { div.pad { (note(Tone::Quiet, "file", &words)) } };
        }
    };
    let news: Vec<&str> = match (asked.since.as_str(), &reviewing.look) {
        ("last", Some(_)) => parts
            .iter()
            .flat_map(|part| part.changes.files.iter().map(|file| &*file.path))
            .collect(),
        _ => Vec::new(),
    };
    let mut facts: HashMap<String, FileFacts> = HashMap::new();
    for (path, blob) in reviewing.files() {
        let drafts = reviewing.drafts.iter().filter(|draft| draft.comment.path == path).count();
        let sent =
            reviewing.sent.comments.iter().filter(|seen| seen.sent.comment.path == path).count();
        let is_viewed = reviewing.is_viewed(&path, blob);
        let is_news = news.contains(&path.as_str());
        facts.insert(path, FileFacts { is_viewed, is_news, comments: drafts + sent });
    }
    let said = said_in(page, reviewing, asked);
    let acts = acts_in(page, reviewing);
    let kept = asked.kept();
    let caps = if asked.file.is_empty() { DiffCaps::PAGE } else { DiffCaps::FILE };
    let mut shown = Vec::new();
    for part in parts {
        let marked: Vec<&str> = part
            .changes
            .files
            .iter()
            .filter(|file| file.is_generated)
            .map(|file| &*file.path)
            .collect();
        let files = match &part.changes.patch {
            Some(patch) => diff::parse(patch, |path| marked.contains(&path)).unwrap_or_default(),
            None => Vec::new(),
        };
        let paints = painted(page, part, &files).await;
        let view = DiffView {
            kept: &kept,
            is_split: asked.view == "split",
            context: asked.context.unwrap_or(3),
            caps,
            may_comment: page.acts(),
            facts: &facts,
            said: &said,
            paints: &paints,
            acts: &acts,
        };
        let here: Vec<&str> = files.iter().map(|file| &*file.path).collect();
        let entries: Vec<TreeEntry> = part
            .changes
            .files
            .iter()
            .map(|file| TreeEntry {
                path: file.path.clone(),
                lines: file.lines,
                kind: diff::kind_of(&file.path, file.lines, file.is_generated),
                is_here: here.contains(&&*file.path),
            })
            .collect();
        let rest: Vec<TreeEntry> = entries.iter().filter(|entry| !entry.is_here).cloned().collect();
        shown.push(html! {
            @if parts.len() > 1 { h2.repo { bdi { (part.name) } } }
            @match part.changes.since {
                ChangesSince::Rebased => p.soft { "The branch was rebased. Shown is what changed besides." },
                ChangesSince::Unknown => p.soft { "The branch was rebased and your last look cannot be compared; everything is shown." },
                ChangesSince::Base | ChangesSince::Look => {}
            }
            @if part.changes.files.is_empty() {
                p.soft { "No change against " code { (part.part.target) } "." }
            }
            div.review-body {
                (diff::tree(&entries, &view))
                div.files { (diff::files(&files, &rest, &view)) }
            }
        });
    }
    html! { div.pad.review { @for part in shown { (part) } } }
}

/// The colours of the code, by path: before and after the change.
async fn painted(
    page: &Page,
    part: &WorkspaceChanges,
    files: &[DiffFile],
) -> HashMap<String, PaintPair> {
    let changed = |path: &str| part.changes.files.iter().find(|file| file.path == path);
    let blobs = |path: &str| {
        changed(path)
            .map_or((None, None), |file| (file.old_blob.as_deref(), file.new_blob.as_deref()))
    };
    let mut orders = Vec::new();
    for file in files {
        let (old, new) = blobs(&file.path);
        for blob in [old, new].into_iter().flatten() {
            if let Some(text) = part.changes.texts.get(blob) {
                orders.push(PaintOrder {
                    blob: blob.into(),
                    path: file.path.clone(),
                    text: text.clone(),
                });
            }
        }
    }
    let painted = page.paints().paint(orders).await;
    let of = |blob: Option<&str>| blob.and_then(|blob| painted.get(blob)).cloned();
    let both = |file: &DiffFile| {
        let (old, new) = blobs(&file.path);
        (file.path.clone(), PaintPair { old: of(old), new: of(new) })
    };
    files.iter().map(both).collect()
}

/// The comments under their lines: drafts of the reader, comments of earlier rounds, and the form that was asked for.
fn said_in(page: &Page, reviewing: &Reviewing, asked: &ReviewAsked) -> DiffSaid {
    let mut said: HashMap<String, BTreeMap<(diff::DiffSide, u32), Markup>> = HashMap::new();
    let mut put = |path: &str, side: DiffSide, line: u32, markup: Markup| {
        let side = match side {
            DiffSide::Old => diff::DiffSide::Left,
            DiffSide::New => diff::DiffSide::Right,
        };
        let place = said
            .entry(path.to_owned())
            .or_default()
            .entry((side, line))
            .or_insert_with(|| html! {});
        *place = html! { (place) (markup) };
    };
    for CommentSeen { sent, state } in &reviewing.sent.comments {
        let line = match state {
            Some(callboard_domain::review::answer::CommentState::Moved { line }) => *line,
            _ => sent.comment.last_line,
        };
        put(&sent.comment.path, sent.comment.side, line, sent_box(sent, *state, reviewing));
    }
    for draft in &reviewing.drafts {
        let comment = &draft.comment;
        put(&comment.path, comment.side, comment.last_line, draft_box(page, reviewing, draft));
    }
    if let Some((path, side, first, last)) = place_of(&asked.comment).filter(|_| page.acts()) {
        put(&path, side, last, comment_form(page, reviewing, &asked.comment, (&path, first, last)));
    }
    said
}

/// Reads `src/a.rs:R35-37`.
pub(super) fn place_of(text: &str) -> Option<(String, DiffSide, u32, u32)> {
    let (path, lines) = text.rsplit_once(':')?;
    let (side, lines) = match lines.split_at_checked(1)? {
        ("L", lines) => (DiffSide::Old, lines),
        ("R", lines) => (DiffSide::New, lines),
        _ => return None,
    };
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first >= 1 && first <= last).then(|| (path.to_owned(), side, first, last))
}

fn lines_words(first: u32, last: u32) -> String {
    if first == last { format!("line {first}") } else { format!("lines {first} to {last}") }
}

fn sent_box(
    sent: &callboard_domain::review::SentComment,
    state: Option<callboard_domain::review::answer::CommentState>,
    reviewing: &Reviewing,
) -> Markup {
    use callboard_domain::review::answer::CommentState;
    let (tone, word) = match state {
        Some(CommentState::Answered) => (Tone::Proved, "answered: these lines changed"),
        Some(CommentState::NotTouched) => (Tone::Late, "not touched"),
        Some(CommentState::Moved { .. }) => (Tone::Late, "not touched, moved"),
        None => (Tone::Quiet, "sent"),
    };
    html! {
        div.comment {
            p.comment-head {
                (actor(&sent.author)) span.faint { "round " (sent.round) ", " (ago(sent.sent_at, reviewing.now)) }
                span class={ "tag row-end " (tone.class()) } { (word) }
            }
            (prose(&sent.comment.text))
        }
    }
}

fn draft_box(page: &Page, reviewing: &Reviewing, draft: &ReviewDraft) -> Markup {
    let comment = &draft.comment;
    html! {
        div.comment.is-draft id={ "draft-" (draft.id) } {
            p.comment-head {
                (actor(&draft.author))
                span.faint { "on " (lines_words(comment.first_line, comment.last_line)) }
                span.row-end.faint { "draft, only you see it" }
            }
            (prose(&comment.text))
            @if page.acts() {
                form method="post" action={ "/tasks/" (reviewing.task().name()) "/review/undraft" } {
                    input type="hidden" name="draft" value=(draft.id);
                    button.button.button-bare.button-small { "Delete the draft" }
                }
            }
        }
    }
}

fn comment_form(
    page: &Page,
    reviewing: &Reviewing,
    place: &str,
    (path, first, last): (&str, u32, u32),
) -> Markup {
    html! {
        form.comment.is-draft.stack-tight #comment method="post"
            action={ "/tasks/" (reviewing.task().name()) "/review/draft" } {
            input type="hidden" name="draft" value=(page.engine.review_comment_id());
            input type="hidden" name="place" value=(place);
            label for="comment-text" { "Comment on " code { (path) } ", " (lines_words(first, last)) }
            textarea.input #comment-text name="text" rows="3" required autofocus {}
            div.row {
                button.button.button-main data-busy="Keeping" { "Keep as draft" }
                a.button href={ "/tasks/" (reviewing.task().name()) "/review" } { "Cancel" }
                span.faint { "Drafts go to the agent as one message when you send the work back." }
            }
        }
    }
}

/// The tick of each file.
fn acts_in(page: &Page, reviewing: &Reviewing) -> HashMap<String, Markup> {
    if !page.acts() {
        return HashMap::new();
    }
    let action = format!("/tasks/{}/review/viewed", reviewing.task().name());
    let form = |(path, blob): (String, Option<&str>)| {
        let is_viewed = reviewing.is_viewed(&path, blob);
        let markup = html! {
            form method="post" action=(action) {
                input type="hidden" name="path" value=(path);
                input type="hidden" name="blob" value=[blob];
                input type="hidden" name="head" value=[reviewing.head()];
                @if is_viewed { input type="hidden" name="off" value="1"; }
                button.button.button-bare.button-small aria-pressed=(is_viewed) data-viewed {
                    (icon(if is_viewed { "pip-pass" } else { "pip-open" })) "Viewed"
                }
            }
        };
        (path, markup)
    };
    reviewing.files().into_iter().map(form).collect()
}

/// The verdict that a form was made for. A form that meets another one says so.
pub(super) fn fingerprint(review: Option<&Review>) -> String {
    let Some(review) = review else { return "none".into() };
    let decided = review.decided_at.map_or(0, |at| at.0);
    format!("{}-{decided}", review.state.as_str())
}

/// Whether the review is approved and not merged.
pub(super) fn is_approved(reviewing: &Reviewing) -> bool {
    let review = reviewing.seen.card.card.review.as_ref();
    review.is_some_and(|review| review.state == ReviewState::Approved && !review.is_advice)
}

/// The first word of each check, for the panel.
pub(super) fn check_lines(page: &Page, reviewing: &Reviewing) -> Markup {
    let task = reviewing.task();
    html! {
        ol.lines { @for (index, check) in task.checks.iter().enumerate() {
            li.row {
                (pip(check)) span.check-result { (check.result()) }
                bdi { (check.desc) }
                @if page.acts() && !check.is_command() && !check.is_pass() {
                    form.row-end method="post" action={ "/tasks/" (task.name()) "/attest" } {
                        input type="hidden" name="check" value=(index);
                        input type="hidden" name="next" value={ "/tasks/" (task.name()) "/review" };
                        button.button.button-small name="result" value="pass" { "I looked: pass" }
                    }
                }
            }
        } }
    }
}

/// The page again with the reason why nothing changed.
pub(super) async fn refused(page: &Page, id: TaskId, error: &EngineError) -> Response {
    let (status, words) = said(error);
    shown(page, id, &ReviewAsked::default(), status, Some(&words)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_path_side_and_lines() {
        let table = [
            ("src/a.rs:R35-37", Some(("src/a.rs", DiffSide::New, 35, 37))),
            ("a:b.rs:L2", Some(("a:b.rs", DiffSide::Old, 2, 2))),
            ("a.rs:R0", None),
            ("a.rs:R5-3", None),
            ("a.rs:X1", None),
            ("a.rs", None),
            ("a.rs:", None),
        ];
        for (text, wanted) in table {
            let wanted =
                wanted.map(|(path, side, first, last)| (path.to_owned(), side, first, last));
            assert_eq!(place_of(text), wanted, "{text}");
        }
    }
}
