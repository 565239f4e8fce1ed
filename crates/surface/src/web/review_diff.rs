//! The change itself on the page of a review: the tree of files, the diff with its comments, and the forms on lines
//! and files.

use std::collections::{BTreeMap, HashMap};

use callboard_domain::review::DiffSide;
use callboard_domain::review::answer::CommentState;
use callboard_domain::review::follow::{DraftLines, DraftSeen};
use callboard_engine::ports::ChangesSince;
use callboard_engine::{CommentSeen, WorkspaceChanges};
use maud::{Markup, html};

use super::Page;
use super::diff::{
    self, DiffCaps, DiffFile, DiffSaid, DiffView, FileFacts, PaintOrder, PaintPair, TreeEntry,
    anchor,
};
use super::parts::{Tone, actor, ago, icon, note, prose};
use super::review::{ReviewAsked, Reviewing, short};
use super::review_panels::answer_tag;

/// The tree and the files, or why there are none.
pub(super) async fn diff_of(page: &Page, reviewing: &Reviewing, asked: &ReviewAsked) -> Markup {
    let parts = match &reviewing.changes {
        Ok(parts) => parts,
        Err(fault) => {
            let words = match merge_commit(reviewing) {
                Some(commit) => html! {
                    p { "The work was merged as " code { (short(commit)) } ". Git cannot show that commit here: " (fault.to_string()) }
                },
                None => html! { p { (fault.to_string()) } },
            };
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
        let drafts = reviewing.drafts.iter().filter(|seen| seen.draft.comment.path == path).count();
        let sent =
            reviewing.sent.comments.iter().filter(|seen| seen.sent.comment.path == path).count();
        let is_viewed = reviewing.is_viewed(&path, blob);
        let is_news = news.contains(&path.as_str());
        facts.insert(path, FileFacts { is_viewed, is_news, comments: drafts + sent });
    }
    // Comments and ticks are on the work as it is now; a range may end before, and a merge is decided.
    let is_read_only = reviewing.range.is_some() || reviewing.seen.merged_as().is_some();
    let (said, acts) = match is_read_only {
        true => (DiffSaid::default(), HashMap::new()),
        false => (said_in(page, reviewing, asked), acts_in(page, reviewing)),
    };
    let kept = asked.kept();
    let written = place_of(&asked.comment).map(|(path, ..)| path);
    let (caps, before) = match asked.file.is_empty() {
        true => (DiffCaps::PAGE, asked.from.unwrap_or_default()),
        false => (DiffCaps::FILE, 0),
    };
    let mut shown = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let marked: Vec<&str> = part
            .changes
            .files
            .iter()
            .filter(|file| file.is_generated)
            .map(|file| &*file.path)
            .collect();
        let mut files = match &part.changes.patch {
            Some(patch) => diff::parse(patch, |path| marked.contains(&path)).unwrap_or_default(),
            None => Vec::new(),
        };
        diff::mark_moved(&mut files);
        // The files stand in the order of the tree.
        files.sort_by_cached_key(|file| diff::place_in_tree(&file.path, &file.kind));
        let paints = painted(page, part, &files).await;
        // Comments, ticks and addresses tell files of one path in several repositories apart.
        for file in &mut files {
            for path in std::iter::once(&mut file.path).chain(&mut file.old_path) {
                *path = part.whole(path);
            }
        }
        let view = DiffView {
            part: number,
            written: written.as_deref(),
            kept: &kept,
            is_split: asked.view == "split",
            context: asked.context.unwrap_or(3),
            caps,
            before,
            next: part.changes.next,
            may_comment: reviewing.may_write && !is_read_only,
            has_ticks: reviewing.seen.merged_as().is_none(),
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
            .map(|file| {
                let path = part.whole(&file.path);
                let kind = diff::kind_of(&file.path, file.lines, file.is_generated);
                TreeEntry { is_here: here.contains(&&*path), path, lines: file.lines, kind }
            })
            .collect();
        // Files of earlier pages stand there.
        let rest = entries.iter().skip(before).filter(|entry| !entry.is_here);
        let rest: Vec<TreeEntry> = rest.cloned().collect();
        shown.push(html! {
            @if parts.len() > 1 { h2.repo { bdi { (part.name) } } }
            @if let Some((from, to)) = &reviewing.range {
                p.soft {
                    "Shown are the changes after " code { (short(from)) } " up to " code { (short(to)) }
                    ". Comments and ticks are on the work as it is now: " a href=(reviewing.address()) { "show all of it" } "."
                }
            }
            @match part.changes.since {
                ChangesSince::Rebased => p.soft { "The branch was rebased. Shown is what changed besides." },
                ChangesSince::Unknown => p.soft { "The branch was rebased and your last look cannot be compared; everything is shown." },
                ChangesSince::Base | ChangesSince::Look => {}
            }
            @if before > 0 {
                p.soft { (before) " files stand before these. " a href=(reviewing.address()) { "From the first file" } }
            }
            @if part.changes.files.is_empty() && reviewing.range.is_some() {
                p.soft { "No file differs between these two commits." }
            } @else if let Some(commit) = merge_commit(reviewing) {
                p.soft {
                    "Shown is commit " code { (short(commit)) } " in " code { (part.part.target) }
                    ", compared with the commit before it."
                    @if part.changes.files.is_empty() { " It changed no file." }
                }
            } @else if part.changes.files.is_empty() {
                p.soft {
                    "No change against " code { (part.part.target) } ": the work begins at "
                    code { (short(&part.changes.base)) } " and is at " code { (short(&part.changes.head)) } "."
                }
            }
            div.review-body {
                (diff::tree(&entries, &view))
                div.files { (diff::files(&files, &rest, &view)) }
            }
        });
    }
    html! {
        div.pad.review data-head=[reviewing.head()] data-tree=[reviewing.shown_tree()]
            data-comments[reviewing.may_write && !is_read_only] {
            @for part in shown { (part) }
        }
    }
}

/// The commit that the work was merged as.
fn merge_commit(reviewing: &Reviewing) -> Option<&str> {
    reviewing.seen.merged_as()
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
        (part.whole(&file.path), PaintPair { old: of(old), new: of(new) })
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
    for seen in &reviewing.sent.comments {
        let comment = &seen.sent.comment;
        let line = match seen.state {
            Some(CommentState::Moved { line }) => line,
            _ => comment.last_line,
        };
        put(&comment.path, comment.side, line, sent_box(seen, reviewing));
    }
    for seen in &reviewing.drafts {
        let comment = &seen.draft.comment;
        put(&comment.path, comment.side, comment.last_line, draft_box(reviewing, seen));
    }
    let asked_for = place_of(&asked.comment).filter(|_| reviewing.may_write);
    if let Some((path, side, first, last)) = asked_for {
        put(&path, side, last, comment_form(page, reviewing, asked, (&path, first, last)));
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

fn sent_box(seen: &CommentSeen, reviewing: &Reviewing) -> Markup {
    let sent = &seen.sent;
    html! {
        div.comment {
            p.comment-head {
                (actor(&sent.author)) span.faint { "round " (sent.round) ", " (ago(sent.sent_at, reviewing.now)) }
                span.row-end { (answer_tag(seen)) }
            }
            (prose(&sent.comment.text))
        }
    }
}

fn draft_box(reviewing: &Reviewing, seen: &DraftSeen) -> Markup {
    let (draft, comment) = (&seen.draft, &seen.draft.comment);
    let next = format!("{}#{}", reviewing.here, anchor(&comment.path));
    html! {
        div.comment.is-draft id={ "draft-" (draft.id) } {
            p.comment-head {
                (actor(&draft.author))
                span.faint { "on " (lines_words(comment.first_line, comment.last_line)) }
                @match seen.lines {
                    DraftLines::Here => {}
                    DraftLines::Moved => span.tag { "moved with its lines" },
                    DraftLines::Older => span class={ "tag " (Tone::Late.class()) } { "on older lines" },
                }
                span.row-end.faint { "draft, only you see it" }
            }
            (prose(&comment.text))
            form method="post" action={ (reviewing.address()) "/undraft" } {
                input type="hidden" name="draft" value=(draft.id);
                input type="hidden" name="next" value=(next);
                button.button.button-bare.button-small { "Delete the draft" }
            }
        }
    }
}

fn comment_form(
    page: &Page,
    reviewing: &Reviewing,
    asked: &ReviewAsked,
    (path, first, last): (&str, u32, u32),
) -> Markup {
    let (id, here) = (page.engine.review_comment_id(), &reviewing.here);
    html! {
        form.comment.is-draft.stack-tight #comment method="post" action={ (reviewing.address()) "/draft" } {
            input type="hidden" name="draft" value=(id);
            input type="hidden" name="place" value=(asked.comment);
            input type="hidden" name="next" value={ (here) "#draft-" (id) };
            label for="comment-text" { "Comment on " code { (path) } ", " (lines_words(first, last)) }
            textarea.input #comment-text name="text" rows="3" required autofocus { (asked.words) }
            div.row {
                button.button.button-main data-busy="Keeping" { "Keep as draft" kbd aria-hidden="true" { "Ctrl Enter" } }
                a.button href={ (here) "#" (anchor(path)) } { "Cancel" }
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
            form.acts #{ "tick-" (anchor(&path)) } data-live method="post" action=(action) {
                input type="hidden" name="path" value=(path);
                input type="hidden" name="next" value={ (reviewing.here) "#" (anchor(&path)) };
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
