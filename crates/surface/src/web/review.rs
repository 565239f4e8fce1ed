//! The review of a task: what its worker says, the checks for these files, how a merge would go, and the change itself
//! with comments that go back as one message.

use axum::extract::{Path, Query};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use callboard_domain::decide::MergeWaits;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::review::follow::DraftSeen;
use callboard_domain::review::merging::MergeOutcome;
use callboard_domain::review::range::CommitRange;
use callboard_domain::review::verdict::VerdictMark;
use callboard_domain::review::{LastLook, ViewedFile, judge_object};
use callboard_domain::rights::PersonVerb;
use callboard_domain::task::Task;
use callboard_domain::time::Timestamp;
use callboard_engine::ports::{ChangesQuery, PatchWish, WorkCommit, WorktreeFault};
use callboard_engine::{
    ConflictSeen, EngineError, MergeSeen, Overlaps, Rejection, ReviewComments, ReviewPlace,
    ReviewSeen, WorkspaceChanges,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::Page;
use super::frame::{Screen, View};
use super::parts::{State, Tone, actor, note, span};
use super::query::{address, encoded};
use super::review_bar::decide;
use super::review_checks::{CheckTail, tails};
use super::review_conflict::conflict_of;
use super::review_diff::{diff_of, place_of};
use super::review_merge::merge_lines;
use super::review_panels::panels;
use super::review_verbs::ReviewForm;
use super::task::found;
use super::task_verbs::why_not_on;

const KEYS: &[(&str, &str)] = &[
    ("] [", "next and previous file"),
    ("} {", "next and previous hunk"),
    ("j k", "next and previous line"),
    ("x", "fold the file"),
    ("u", "next review"),
    ("c", "comment on the line"),
    ("v", "viewed, and the next file"),
    ("a", "approve"),
    ("b", "send back"),
    ("m", "merge"),
];
/// How many of the keys only read. Merged work has no others.
const READING_KEYS: usize = 5;

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
    /// The file whose conflict stands above the changes.
    #[serde(default)]
    conflict: String,
    #[serde(default)]
    pub context: Option<u32>,
    /// The number of the first file that is shown; without it the first of all.
    #[serde(default)]
    pub from: Option<usize>,
    /// The words of a comment that was refused.
    #[serde(skip)]
    pub words: String,
}

impl ReviewAsked {
    /// The page that the form of a review stood on.
    pub fn of_form(verb: &str, form: &ReviewForm) -> Self {
        let uri = form.next.parse::<Uri>().ok();
        let asked = uri.and_then(|uri| Query::<Self>::try_from_uri(&uri).ok());
        let asked = asked.map(|Query(asked)| asked).unwrap_or_default();
        match verb {
            "draft" => Self { comment: form.place.clone(), words: form.text.clone(), ..asked },
            _ => asked,
        }
    }

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

    /// The query of the page as it is shown, without the form of a comment.
    fn own(&self) -> String {
        let number = |number: Option<usize>| number.map(|it| it.to_string()).unwrap_or_default();
        let context = number(self.context.map(|lines| lines as usize));
        let places = [
            ("file", self.file.clone()),
            ("conflict", self.conflict.clone()),
            ("context", context),
            ("from", number(self.from)),
        ];
        let places = places.iter().map(|(name, value)| (*name, value.as_str()));
        let places: Vec<_> = places.filter(|(_, value)| !value.is_empty()).collect();
        let kept = self.kept();
        if kept.is_empty() && places.is_empty() { String::new() } else { address(&kept, &places) }
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
    /// How many files changed since that look; `None` where git cannot tell.
    pub since_look: Option<usize>,
    /// Whether the reader may write comments.
    pub may_write: bool,
    /// The address of the page as it is shown, to which its forms lead back.
    pub here: String,
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
    /// The file whose conflict the reader asked for; without a conflict where merging that file meets none.
    pub conflict: Option<(String, Option<ConflictSeen>)>,
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
            part.changes.files.iter().map(|file| (part.whole(&file.path), file.new_blob.as_deref()))
        });
        files.collect()
    }

    /// The added and removed lines of each file of the whole work, whichever part of it is shown.
    fn sizes(&self) -> Vec<Option<(u64, u64)>> {
        let looked: Vec<_> =
            self.seen.work.iter().filter_map(|work| work.looked.as_ref().ok()).collect();
        if looked.is_empty() || self.seen.merged_as().is_some() {
            let shown = self.changes.iter().flatten().flat_map(|part| &part.changes.files);
            return shown.map(|file| file.lines).collect();
        }
        looked.iter().flat_map(|look| &look.files).map(|file| file.lines).collect()
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
            input type="hidden" name="next" value=(self.here);
            input type="hidden" name="seen" value=(VerdictMark::of(self.seen.card.card.review.as_ref()));
        }
    }

    pub fn address(&self) -> String {
        format!("/tasks/{}/review", self.task().name())
    }

    /// The state of the files that the page shows. The bar with the verdicts is live and the changes are not, so the
    /// script puts these marks into the forms of the bar.
    pub fn shown_tree(&self) -> Option<&str> {
        self.head().and(self.tree.as_deref())
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

/// Everything that the page shows. A comment on a file beyond the first window chooses the window of that file.
async fn reviewing(
    page: &Page,
    id: TaskId,
    asked: &mut ReviewAsked,
) -> Result<Reviewing, EngineError> {
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
    let conflict = match asked.conflict.as_str() {
        "" => None,
        path => {
            let met = page.engine.review_conflict(&op, &seen, path).await?;
            Some((path.to_owned(), met))
        }
    };
    let merging = page.engine.merge_seen(&op, id)?.filter(|merge| is_news(merge, &seen));
    let mut query = ChangesQuery {
        since,
        until,
        ignore_space: asked.ws == "0",
        context: asked.context.unwrap_or(3).min(1_000),
        patch,
        texts: true,
    };
    let since_look = look.as_ref().filter(|_| seen.merged_as().is_none());
    let since_look = since_look
        .map(|look| ChangesQuery { since: Some(look.head.clone()), ..ChangesQuery::default() });
    let (mut changes, since_look, overlaps) = tokio::join!(
        page.engine.review_changes(&op, &seen, &query),
        async { page.engine.review_changes(&op, &seen, since_look.as_ref()?).await.ok() },
        page.engine.review_overlaps(&op, &seen)
    );
    if let Some(patch) = changes.as_deref().ok().and_then(|parts| beyond(parts, asked)) {
        query.patch = patch;
        changes = page.engine.review_changes(&op, &seen, &query).await;
    }
    let changes = match changes {
        Ok(changes) => Ok(changes),
        Err(fault) => Err(fault.of_worktree()?),
    };
    let since_look =
        since_look.map(|parts| parts.iter().map(|part| part.changes.files.len()).sum());
    let overlaps = overlaps?;
    let sent = page.engine.review_comments_list(&op, id).await?;
    let viewed = page.engine.review_viewed_list(&op, id).await?;
    let may_write = page.acts() && why_not_on(page, PersonVerb::Write, id).is_none();
    let drafts = match may_write {
        true => page.engine.review_drafts_now(&op, id).await?,
        false => Vec::new(),
    };
    let rejection = Rejection { with_drafts: true, ..Rejection::of(String::new(), Phase::Working) };
    let preview = match drafts.is_empty() || why_not_on(page, PersonVerb::SendBack, id).is_some() {
        true => String::new(),
        false => page.engine.review_reject_preview(&op, id, &rejection).await?,
    };
    let tails = tails(page, &seen.card.record.task).await;
    let place = page.engine.review_place(&op, id).await?;
    let waits = page.engine.merge_waits(&op, &seen.card, tree.as_deref()).await?;
    let mut lets_start = page.engine.task_waiters(&op, id, WAITERS_SHOWN).await?;
    lets_start.retain(|task| task.open_deps == 1);
    let here = format!("/tasks/{}/review{}", seen.card.record.task.name(), asked.own());
    Ok(Reviewing {
        since_look,
        may_write,
        here,
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
        conflict,
        merging,
    })
}

/// The patch with the file of a comment that the first patch leaves out: the window that begins with it, or a file too
/// long for every window by itself.
fn beyond(parts: &[WorkspaceChanges], asked: &mut ReviewAsked) -> Option<PatchWish> {
    if !asked.file.is_empty() {
        return None;
    }
    let (path, ..) = place_of(&asked.comment)?;
    let all = parts.iter().find_map(|part| {
        let inner = part.inner(&path)?;
        let at = part.changes.files.iter().position(|file| file.path == inner)?;
        Some((at, &part.changes.files[at]))
    });
    let (at, file) = all.filter(|(_, file)| !file.is_in_patch)?;
    let lines = file.lines.map_or(0, |(added, removed)| added + removed);
    if lines > WINDOW_LINES {
        asked.file.clone_from(&path);
        return Some(PatchWish::File(path));
    }
    asked.from = Some(at);
    Some(PatchWish::Page { from: at, files_max: WINDOW_FILES, lines_max: WINDOW_LINES })
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
pub(super) async fn shown(
    page: &Page,
    id: TaskId,
    asked: &ReviewAsked,
    status: StatusCode,
    fault: impl FnOnce(&Reviewing) -> Option<Markup>,
) -> Response {
    let (mut asked, mut status, mut bad_range) = (asked.clone(), status, None);
    let found = match reviewing(page, id, &mut asked).await {
        // A range that is no part of the work: all of the work stands below the reason.
        Err(EngineError::Refused(refusal @ Refusal::InvalidInput { .. }))
            if !asked.range.is_empty() =>
        {
            asked.range.clear();
            (status, bad_range) = (StatusCode::BAD_REQUEST, Some(refusal.message()));
            reviewing(page, id, &mut asked).await
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
        (conflict_of(&reviewing))
        (diff)
    };
    let mut view = View::of(Screen::Board, &task.title, content);
    let name = task.name().to_string();
    let path = (Screen::Board.path().to_owned(), Screen::Board.title().to_owned());
    let here = (reviewing.address(), "Review".into());
    view.trail = vec![path, (format!("/tasks/{name}"), name.clone()), here];
    view.facts = place(&reviewing);
    view.keys = if reviewing.seen.merged_as().is_some() { &KEYS[..READING_KEYS] } else { KEYS };
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
    let sizes = reviewing.sizes();
    let (added, removed) = sizes.iter().fold((0, 0), |(added, removed), lines| {
        let (plus, minus) = lines.unwrap_or_default();
        (added + plus, removed + minus)
    });
    let newest = reviewing.seen.card.record.newest.as_ref();
    let review = reviewing.seen.card.card.review.as_ref();
    html! {
        div.head {
            h1 { bdi { (task.title) } }
            div.dots {
                (State::of(task).badge())
                @if let Some(attempt) = newest { (actor(&attempt.actor)) span { "attempt " (attempt.fence) ", fence " (attempt.fence) } }
                @if let Some(review) = review { span { "round " (review.rounds + 1) } }
                @if let Some(part) = part {
                    span { @if let Some(worktree) = &part.part.worktree { code { (worktree.branch) } } " into " code { (part.part.target) } }
                }
                @let count = sizes.len();
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
