//! The review of a task: what its worker says, the checks for these files, how a merge would go, and the change itself
//! with comments that go back as one message.

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use callboard_domain::actor::Actor;
use callboard_domain::board::card::ReviewState;
use callboard_domain::decide::MergeWaits;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::review::follow::DraftSeen;
use callboard_domain::review::merging::MergeOutcome;
use callboard_domain::review::range::CommitRange;
use callboard_domain::review::verdict::VerdictMark;
use callboard_domain::review::{LastLook, ViewedFile, judge_object};
use callboard_domain::task::Task;
use callboard_domain::time::Timestamp;
use callboard_engine::ports::{ChangesQuery, PatchWish, WorkCommit, WorktreeFault};
use callboard_engine::{
    EngineError, MergeSeen, Overlaps, Rejection, ReviewComments, ReviewPlace, ReviewSeen,
    WorkspaceChanges,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Screen, View};
use super::parts::{State, Tone, actor, ago, note, span};
use super::query::{address, encoded};
use super::review_bar::decide;
use super::review_checks::{CheckTail, tails};
use super::review_diff::diff_of;
use super::review_merge::merge_lines;
use super::review_panels::panels;
use super::review_verbs::ReviewForm;
use super::task::found;
use super::{Page, said};

const KEYS: &[(&str, &str)] = &[
    ("] [", "next and previous file"),
    ("} {", "next and previous hunk"),
    ("j k", "next and previous line"),
    ("c", "comment on the line"),
    ("v", "viewed, and the next file"),
    ("x", "fold the file"),
    ("a", "approve"),
    ("b", "send back"),
    ("m", "merge"),
    ("u", "next review"),
];

/// How many tasks the confirmation of a merge names.
const WAITERS_SHOWN: usize = 5;
/// How much of a change comes at once. Git, the colours of the code and the browser take their time for each line; the
/// script fetches the next files when the reader gets near them.
const WINDOW_FILES: usize = 100;
const WINDOW_LINES: u64 = 3_000;

/// The state of the page in its address.
#[derive(Clone, Default, Deserialize)]
pub(super) struct ReviewAsked {
    /// `last`: only changes since the reader's last look. A commit: only changes since that.
    #[serde(default)]
    pub since: String,
    /// `A..B`: only changes between two commits of the work.
    #[serde(default)]
    pub range: String,
    /// The two commits of the form that chooses a range; the page leads on to `range`.
    #[serde(default)]
    first: String,
    #[serde(default)]
    last: String,
    /// One file, by its path.
    #[serde(default)]
    pub file: String,
    /// The form of a comment: `src/a.rs:R35-37`.
    #[serde(default)]
    pub comment: String,
    /// `split`: side by side.
    #[serde(default)]
    pub view: String,
    /// `0`: lines in which only spaces changed are left out.
    #[serde(default)]
    pub ws: String,
    #[serde(default)]
    pub context: Option<u32>,
    /// The number of the first file that is shown; without it the first of all.
    #[serde(default)]
    pub from: Option<usize>,
}

impl ReviewAsked {
    /// The commit since which changes are shown; `None` for all of the work.
    fn since<'a>(&'a self, look: Option<&'a LastLook>) -> Option<&'a str> {
        match &*self.since {
            "last" => look.map(|look| &*look.head),
            commit => self.since_commit().then_some(commit),
        }
    }

    /// The two commits of `range`, each a commit of the work in one repository.
    fn range_in(&self, commits: &[Vec<WorkCommit>]) -> Result<Option<(String, String)>, Refusal> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let range = CommitRange::parse(&self.range)?;
        let mut fault = Refusal::invalid_field("range", "this work has no commits here");
        for commits in commits {
            let ids: Vec<String> = commits.iter().map(|commit| commit.id.clone()).collect();
            match range.within(&ids) {
                Ok((from, to)) => return Ok(Some((from.to_owned(), to.to_owned()))),
                Err(refused) => fault = refused,
            }
        }
        Err(fault)
    }

    /// Whether the address names a commit.
    pub fn since_commit(&self) -> bool {
        judge_object("since", &self.since).is_ok()
    }

    /// The parts of the query that links keep.
    pub fn kept(&self) -> Vec<(&str, &str)> {
        let fields = [
            ("since", &*self.since),
            ("range", &*self.range),
            ("view", &*self.view),
            ("ws", &*self.ws),
        ];
        fields.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// Everything that the page shows.
pub(super) struct Reviewing {
    pub seen: ReviewSeen,
    pub now: Timestamp,
    pub changes: Result<Vec<WorkspaceChanges>, WorktreeFault>,
    pub drafts: Vec<DraftSeen>,
    pub sent: ReviewComments,
    viewed: Vec<ViewedFile>,
    pub look: Option<LastLook>,
    /// The state of the files, read before the changes.
    tree: Option<String>,
    /// The exact text of a rejection with the drafts, without the reviewer's own words.
    pub preview: String,
    /// The ends of the logs of checks that fail.
    pub tails: Vec<CheckTail>,
    pub overlaps: Overlaps,
    /// The place among the reviews that wait for a person.
    pub place: ReviewPlace,
    /// What a merge waits for from people.
    pub waits: MergeWaits,
    /// The tasks that wait for this one alone.
    pub lets_start: Vec<Task>,
    /// The commits of the work in each repository, the newest first, then the commit at which the work begins.
    pub commits: Vec<Vec<WorkCommit>>,
    /// The two commits between which changes are shown.
    pub range: Option<(String, String)>,
    /// The merge that runs, or ended a short time ago.
    pub merging: Option<MergeSeen>,
}

impl Reviewing {
    pub fn task(&self) -> &Task {
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

    /// The head of the work, whichever part of it is shown.
    pub fn head(&self) -> Option<&str> {
        if self.range.is_some() {
            let looked = self.seen.work.iter().find_map(|work| work.looked.as_ref().ok());
            return looked.map(|look| look.state.head.as_str());
        }
        self.changes.iter().flatten().next().map(|part| part.changes.head.as_str())
    }

    /// The fields of a form that decides: the review as this page shows it. A page without changes showed no files.
    pub fn marks(&self, page: &Page) -> Markup {
        let head = self.head();
        html! {
            input type="hidden" name="once" value=(page.engine.fresh_id());
            @if let Some(head) = head {
                input type="hidden" name="head" value=(head);
                @if let Some(tree) = &self.tree { input type="hidden" name="tree" value=(tree); }
            }
            input type="hidden" name="seen" value=(VerdictMark::of(self.seen.card.card.review.as_ref()));
        }
    }

    pub fn address(&self) -> String {
        format!("/tasks/{}/review", self.task().name())
    }
}

/// A git id in the length that people compare.
pub(super) fn short(id: &str) -> &str {
    id.get(..7).unwrap_or(id)
}

pub(super) async fn show(
    page: Page,
    Path(text): Path<String>,
    Query(asked): Query<ReviewAsked>,
) -> Response {
    if !asked.first.is_empty() && !asked.last.is_empty() {
        let range = format!("{}..{}", asked.first, asked.last);
        let kept: Vec<_> = asked.kept().into_iter().filter(|(name, _)| *name != "since").collect();
        let query = address(&kept, &[("range", &range)]);
        return Redirect::to(&format!("/tasks/{}/review{query}", encoded(&text))).into_response();
    }
    match found(&page, &text).await {
        Ok(id) => shown(&page, id, &asked, StatusCode::OK, |_| None).await,
        Err(error) => page.failure(Screen::Board, &error).await,
    }
}

async fn reviewing(page: &Page, id: TaskId, asked: &ReviewAsked) -> Result<Reviewing, EngineError> {
    let op = page.op();
    let seen = page.engine.review_get(&op, id).await?;
    let (seen, now) = (seen.it, seen.now);
    let look = page.engine.review_look_get(&op, id).await?;
    let tree = page.engine.review_work(&op, id).await?;
    let patch = match asked.file.as_str() {
        "" => PatchWish::Page {
            from: asked.from.unwrap_or_default(),
            files_max: WINDOW_FILES,
            lines_max: WINDOW_LINES,
        },
        path => PatchWish::File(path.to_owned()),
    };
    let commits = page.engine.review_commits(&op, &seen).await?;
    let range = asked.range_in(&commits)?;
    let (since, until) = match &range {
        Some((from, to)) => (Some(from.clone()), Some(to.clone())),
        None => (asked.since(look.as_ref()).map(str::to_owned), None),
    };
    let merging = page.engine.merge_seen(&op, id)?.filter(|merge| is_news(merge, &seen));
    let query = ChangesQuery {
        since,
        until,
        ignore_space: asked.ws == "0",
        context: asked.context.unwrap_or(3).min(1_000),
        patch,
        texts: true,
    };
    let (changes, overlaps) = tokio::join!(
        page.engine.review_changes(&op, &seen, &query),
        page.engine.review_overlaps(&op, &seen)
    );
    let changes = match changes {
        Ok(changes) => Ok(changes),
        Err(fault) => Err(fault.of_worktree()?),
    };
    let overlaps = overlaps?;
    let sent = page.engine.review_comments_list(&op, id).await?;
    let viewed = page.engine.review_viewed_list(&op, id).await?;
    let drafts = match page.acts() {
        true => page.engine.review_drafts_now(&op, id).await?,
        false => Vec::new(),
    };
    let rejection = Rejection { with_drafts: true, ..Rejection::of(String::new(), Phase::Working) };
    let preview = match drafts.is_empty() {
        true => String::new(),
        false => page.engine.review_reject_preview(&op, id, &rejection).await?,
    };
    let tails = tails(page, &seen.card.record.task).await;
    let place = page.engine.review_place(&op, id).await?;
    let waits = page.engine.merge_waits(&op, &seen.card, tree.as_deref()).await?;
    let mut lets_start = page.engine.task_waiters(&op, id, WAITERS_SHOWN).await?;
    lets_start.retain(|task| task.open_deps == 1);
    Ok(Reviewing {
        seen,
        now,
        changes,
        drafts,
        sent,
        viewed,
        look,
        tree,
        preview,
        tails,
        overlaps,
        place,
        waits,
        lets_start,
        commits,
        range,
        merging,
    })
}

/// Whether the end of a merge still says something: a failure is over once the task went on or got another verdict.
fn is_news(merge: &MergeSeen, seen: &ReviewSeen) -> bool {
    let (task, review) = (&seen.card.record.task, seen.card.card.review.as_ref());
    let decided = review.and_then(|review| review.decided_at);
    match &merge.outcome {
        Some(MergeOutcome::Failed { .. }) => {
            task.phase == Phase::Review && decided.is_none_or(|at| at <= merge.began_at)
        }
        Some(MergeOutcome::Merged { .. }) | None => true,
    }
}

/// The page of a review. `fault` is the note about a form that was refused.
async fn shown(
    page: &Page,
    id: TaskId,
    asked: &ReviewAsked,
    status: StatusCode,
    fault: impl FnOnce(&Reviewing) -> Option<Markup>,
) -> Response {
    let (mut asked, mut status, mut bad_range) = (asked.clone(), status, None);
    let found = match reviewing(page, id, &asked).await {
        // A range that is no part of the work: all of the work stands below the reason.
        Err(EngineError::Refused(refusal @ Refusal::InvalidInput { .. }))
            if !asked.range.is_empty() =>
        {
            asked.range.clear();
            (status, bad_range) = (StatusCode::BAD_REQUEST, Some(refusal.message()));
            reviewing(page, id, &asked).await
        }
        found => found,
    };
    let reviewing = match found {
        Ok(reviewing) => reviewing,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    let task = reviewing.task();
    let diff = diff_of(page, &reviewing, &asked).await;
    let content = html! {
        @if let Some(note) = fault(&reviewing) { div.pad-top { (note) } }
        @if let Some(words) = bad_range {
            div.pad-top { (note(Tone::Failed, "warn", &html! { p role="alert" { (words) ". All changes are shown." } })) }
        }
        div #review-head data-live data-head=[reviewing.head()] {
            (head(&reviewing)) (merge_lines(&reviewing)) (panels(page, &reviewing))
        }
        (moved_line(&reviewing))
        (decide(page, &reviewing, &asked))
        (diff)
    };
    let mut view = View::of(Screen::Board, &task.title, content);
    let name = task.name().to_string();
    let path = (Screen::Board.path().to_owned(), Screen::Board.title().to_owned());
    let here = (reviewing.address(), "Review".into());
    view.trail = vec![path, (format!("/tasks/{name}"), name.clone()), here];
    view.facts = place(&reviewing);
    view.keys = KEYS;
    let twin = format!("callboard review {name}");
    view.twin = &twin;
    view.script = Some("/js/review.js");
    page.show(status, view).await
}

/// The place among the reviews, with a link to the next one.
fn place(reviewing: &Reviewing) -> Markup {
    let ReviewPlace { number, of, next } = &reviewing.place;
    html! {
        @if let Some(number) = number { (number) " of " (of) }
        @if let Some(next) = next {
            " " a href={ "/tasks/" (next.name()) "/review" } title=(next.title) data-key="u" {
                kbd { "u" } " next" span.hidden { " review" }
            }
        }
    }
}

fn head(reviewing: &Reviewing) -> Markup {
    let task = reviewing.task();
    let part = reviewing.changes.iter().flatten().next();
    let files = || reviewing.changes.iter().flatten().flat_map(|part| &part.changes.files);
    let (added, removed) = files().fold((0, 0), |(added, removed), file| {
        let (plus, minus) = file.lines.unwrap_or_default();
        (added + plus, removed + minus)
    });
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
                @let count = reviewing.files().len();
                @if count > 0 || !task.phase.is_closed() {
                    span { (count) @if count == 1 { " file " } @else { " files " } span.added { "+" (added) } " " span.removed { "−" (removed) } }
                }
                @match State::of(task) {
                    State::Review => span { "waits " (span(reviewing.now.ms_since(task.phase_at))) },
                    state => span { (state.word().to_lowercase()) " for " (span(reviewing.now.ms_since(task.phase_at))) },
                }
            }
        }
    }
}

/// The line that the script shows when the head of the work is another than the one whose diff stands below. The diff
/// itself never changes under its reader.
fn moved_line(reviewing: &Reviewing) -> Markup {
    html! {
        div.pad-top #review-moved hidden {
            (note(Tone::Late, "warn", &html! {
                p role="status" {
                    "The work moved on while you were reading. "
                    @let since = reviewing.head().map(|head| address(&[], &[("since", head)]));
                    a href={ (reviewing.address()) (since.unwrap_or_default()) } { "Show what is new" }
                }
            }))
        }
    }
}

/// The page again with the reason why nothing changed.
pub(super) async fn refused(
    page: &Page,
    id: TaskId,
    (verb, form): (&str, &ReviewForm),
    error: &EngineError,
) -> Response {
    let mut asked = ReviewAsked::default();
    match error {
        EngineError::Refused(Refusal::ReviewDecided { saw, now, .. }) => {
            let note =
                |reviewing: &Reviewing| Some(decided(page, reviewing, (verb, form), (*saw, now)));
            shown(page, id, &asked, StatusCode::CONFLICT, note).await
        }
        EngineError::Refused(Refusal::WorkMoved { read, now, .. }) => {
            asked.since.clone_from(read);
            let heads = (read.as_str(), now.as_deref());
            let note = |reviewing: &Reviewing| Some(moved(page, reviewing, (verb, form), heads));
            shown(page, id, &asked, StatusCode::CONFLICT, note).await
        }
        _ => {
            let (status, words) = said(error);
            let untouched = if is_merge(verb, form) { "published" } else { "changed" };
            let words = html! { p role="alert" { (words.trim_end_matches('.')) ". Nothing was " (untouched) "." } };
            shown(page, id, &asked, status, |_| Some(note(Tone::Failed, "warn", &words))).await
        }
    }
}

/// Whether a form asked for a merge.
fn is_merge(verb: &str, form: &ReviewForm) -> bool {
    verb == "merge" || (verb == "approve" && !form.merge.is_empty())
}

/// Which verdict the reader saw, which one stands now, and one button to go on.
fn decided(
    page: &Page,
    reviewing: &Reviewing,
    form: (&str, &ReviewForm),
    (saw, now): (ReviewState, &Option<(ReviewState, Actor, Timestamp)>),
) -> Markup {
    let before = match saw {
        ReviewState::Requested => "no verdict",
        ReviewState::Approved => "an approval",
        ReviewState::Rejected => "a rejection",
    };
    let words = html! {
        p role="alert" {
            "Nothing was changed: the review that you opened had " (before) ". "
            @match now {
                Some((ReviewState::Approved, by, at)) => { (actor(by)) " approved it " (ago(*at, reviewing.now)) "." }
                Some((ReviewState::Rejected, by, at)) => { (actor(by)) " sent it back " (ago(*at, reviewing.now)) "." }
                Some((ReviewState::Requested, by, at)) => { (actor(by)) " requested a new review " (ago(*at, reviewing.now)) "." }
                None => "The verdict was withdrawn since.",
            }
        }
        (go_on(page, reviewing, form))
    };
    note(Tone::Late, "warn", &words)
}

/// Which head the reader read, which one stands now, and one button to go on. The diff below begins at the head that
/// was read.
fn moved(
    page: &Page,
    reviewing: &Reviewing,
    form: (&str, &ReviewForm),
    (read, now): (&str, Option<&str>),
) -> Markup {
    let words = html! {
        p role="alert" {
            "Nothing was changed: you read commit " code { (short(read)) } ". "
            @match now {
                Some(now) if now == read => "Files changed since, and the changes are not committed.",
                Some(now) => { "The work is at commit " code { (short(now)) } " now." }
                None => "The work cannot be read now.",
            }
            @if now.is_some() { " Below stands what is new; " a href=(reviewing.address()) { "show all of it" } "." }
        }
        (go_on(page, reviewing, form))
    };
    note(Tone::Late, "warn", &words)
}

/// The form that was refused, once more for the review as it stands now. The words of the form are kept.
fn go_on(page: &Page, reviewing: &Reviewing, (verb, form): (&str, &ReviewForm)) -> Markup {
    let button = match verb {
        "approve" if form.merge.is_empty() => "Approve all the same",
        "approve" => "Approve and merge all the same",
        "reject" => "Send back all the same",
        _ => "Merge all the same",
    };
    let again = reviewing.task().phase == Phase::Review;
    html! {
        @if !form.text.is_empty() && !again { pre.code { (form.text) } }
        @if again {
            form method="post" action={ (reviewing.address()) "/" (verb) } {
                (reviewing.marks(page))
                @for (name, value) in [("text", &form.text), ("to", &form.to), ("merge", &form.merge)] {
                    @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
                }
                button.button { (button) }
            }
        } @else {
            p { a.button href=(reviewing.address()) { "Go on with the review as it stands" } }
        }
    }
}
