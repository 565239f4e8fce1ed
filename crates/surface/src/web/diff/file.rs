//! The files of a diff, one below the other. A file that is not read line by line is folded, with the reason; beyond
//! the caps files are a list of links.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use callboard_domain::hash::fnv1a;
use maud::{Markup, html};

use super::kind::LARGE_LINES;
use super::table::{FileTable, VisibleText};
use super::tree::TreeEntry;
use super::{DiffFile, DiffKind, DiffSide, FilePaint};
use crate::web::parts::icon;
use crate::web::query::{Kept, address};

/// How many files the closing list names.
/// Names of files are short, but an agent may change any number of them.
const LISTED_MAX: usize = 2_000;
/// By how many lines "more lines around" grows.
pub(super) const MORE_LINES: u32 = 20;

/// How much is shown; the rest is behind links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffCaps {
    /// Lines of one file; the rest is behind a link.
    pub file_lines: usize,
    /// Lines of all files together.
    pub page_lines: usize,
    pub files: usize,
}

impl DiffCaps {
    /// The caps of a page with all files.
    pub const PAGE: Self = Self { file_lines: LARGE_LINES, page_lines: 20_000, files: 400 };
    /// The caps of a page with one file.
    pub const FILE: Self = Self { file_lines: 20_000, page_lines: 20_000, files: 1 };
}

/// What a reader knows of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    pub is_viewed: bool,
    /// The file changed since the reader's last look.
    pub is_news: bool,
    pub comments: usize,
}

/// Comments as rendered markup: by path, then by side and line.
pub type DiffSaid = HashMap<String, BTreeMap<(DiffSide, u32), Markup>>;

/// The classes of code in a file before and after its change.
#[derive(Clone, Debug, Default)]
pub struct PaintPair {
    pub old: Option<Arc<FilePaint>>,
    pub new: Option<Arc<FilePaint>>,
}

/// How a diff is shown to one reader.
pub struct DiffView<'v> {
    /// The number of the repository among those of the page.
    pub part: usize,
    /// The file with the form of a comment, which is never folded.
    pub written: Option<&'v str>,
    /// The parts of the query that links keep; without `file`, `comment` and `context`.
    pub kept: Kept<'v>,
    /// Both sides next to each other, instead of one column.
    pub is_split: bool,
    /// The number of lines around a change.
    pub context: u32,
    pub caps: DiffCaps,
    /// How many files stand on earlier pages.
    pub before: usize,
    /// The number of the file with which the next page begins.
    pub next: Option<usize>,
    /// Whether the reader may comment.
    pub may_comment: bool,
    /// Whether the tree says which files the reader viewed. Ticks have no meaning for work that is merged.
    pub has_ticks: bool,
    pub facts: &'v HashMap<String, FileFacts>,
    pub said: &'v DiffSaid,
    /// The classes of code before and after the change, by path.
    pub paints: &'v HashMap<String, PaintPair>,
    /// What a reader can do with a file, by path: rendered forms.
    pub acts: &'v HashMap<String, Markup>,
}

impl DiffView<'_> {
    /// Whether the page has one file, which the reader asked for.
    fn is_alone(&self) -> bool {
        self.caps == DiffCaps::FILE
    }

    /// The page of one file. The fragment lets a page that has the file already go to its place.
    pub(super) fn address_of(&self, path: &str) -> String {
        format!("{}#{}", address(self.kept, &[("file", path)]), anchor(path))
    }
}

/// The files of a patch within the caps, then a list of the others; `rest` are files that the patch leaves out.
pub fn files(files: &[DiffFile], rest: &[TreeEntry], view: &DiffView<'_>) -> Markup {
    let mut lines = view.caps.page_lines;
    let mut shown = 0;
    for file in files.iter().take(view.caps.files) {
        let wanted = line_count(file).min(view.caps.file_lines);
        // The list ends at the first file that does not fit, so that files keep their order.
        if wanted > lines {
            break;
        }
        (lines, shown) = (lines - wanted, shown + 1);
    }
    // One file that is too long for the page is still better than none.
    let shown = if shown == 0 { files.len().min(1) } else { shown };
    let others = files[shown..].iter().map(|file| {
        let lines = (file.kind != DiffKind::Binary).then_some((file.added, file.removed));
        (file.path.as_str(), lines)
    });
    let rest = rest.iter().map(|entry| {
        let lines = entry.lines.map(|(added, removed)| (added as usize, removed as usize));
        (entry.path.as_str(), lines)
    });
    let others: Vec<_> = others.chain(rest).collect();
    html! {
        @for file in &files[..shown] { (one(file, view)) }
        @if !others.is_empty() { (list(&others, shown, view)) }
    }
}

/// The lines of a file's patch, context included.
fn line_count(file: &DiffFile) -> usize {
    file.hunks.iter().map(|hunk| hunk.lines.len()).sum()
}

fn one(file: &DiffFile, view: &DiffView<'_>) -> Markup {
    let unknown = FileFacts::default();
    let facts = view.facts.get(&file.path).unwrap_or(&unknown);
    // A reader who asked for this one file wants to see it, whatever its kind.
    let is_asked_for = view.is_alone() || view.written == Some(&*file.path);
    let is_open = (file.kind.reason().is_none() && !facts.is_viewed) || is_asked_for;
    html! {
        section.file #(anchor(&file.path)) data-path=(file.path) {
            @if let Some(acts) = view.acts.get(&file.path) { (acts) }
            details open[is_open] {
                summary { (head(file, facts)) }
                (content(file, view))
            }
        }
    }
}

/// The line that names a file. Every text of the patch goes through `VisibleText`: a path may hold control characters.
fn head(file: &DiffFile, facts: &FileFacts) -> Markup {
    let (folder, name) = file.path.rsplit_once('/').map_or(("", &*file.path), |(f, n)| (f, n));
    html! {
        (icon("right"))
        bdi.path {
            @if let Some(old) = &file.old_path { (VisibleText(old)) " → " }
            @if !folder.is_empty() { (VisibleText(folder)) "/" }
            b { (VisibleText(name)) }
        }
        (counts(Some((file.added, file.removed)).filter(|_| file.kind != DiffKind::Binary)))
        @if let Some(word) = file.status.word() { " " span.tag { (word) } }
        @if let Some((old, new)) = &file.modes {
            " " span.tag { "mode " (VisibleText(old)) " → " (VisibleText(new)) }
        }
        @if let Some(reason) = file.kind.reason() { " " span.tag { (reason) } }
        @if facts.is_news { " " span.tag.news { "new since your look" } }
        @if facts.comments > 0 { " " span.tag { (comments(facts.comments)) } }
    }
}

/// `1 comment`, `2 comments`.
pub(super) fn comments(count: usize) -> String {
    if count == 1 { "1 comment".into() } else { format!("{count} comments") }
}

/// The numbers of added and removed lines, with signs; nothing for a file that is no text.
pub(super) fn counts(lines: Option<(usize, usize)>) -> Markup {
    html! { @if let Some((added, removed)) = lines {
        @if added > 0 { " " span.plus { "+" (added) } }
        @if removed > 0 { " " span.minus { "−" (removed) } }
    } }
}

/// The lines of a file, the caps that were reached, and comments on lines that are not shown.
fn content(file: &DiffFile, view: &DiffView<'_>) -> Markup {
    let paints = view.paints.get(&file.path);
    let old_paint = paints.and_then(|pair| pair.old.as_deref());
    let new_paint = paints.and_then(|pair| pair.new.as_deref());
    let around = view.context.to_string();
    let comment = |lines: &str| {
        let place = format!("{}:{lines}", file.path);
        let alone = [("file", &*file.path), ("context", &*around), ("comment", &*place)];
        // A page with one file stays a page with one file.
        address(view.kept, if view.is_alone() { &alone } else { &alone[2..] })
    };
    let context = view.context.saturating_add(MORE_LINES).to_string();
    let more = address(view.kept, &[("file", &*file.path), ("context", &*context)]);
    // The page that loads begins at the file that the reader was looking at.
    let more = format!("{more}#{}", anchor(&file.path));
    let table = FileTable {
        file,
        is_split: view.is_split,
        lines_max: view.caps.file_lines,
        said: view.said.get(&file.path),
        old_paint,
        new_paint,
        comment: view.may_comment.then_some(&comment),
        more: Some(&more),
        context: view.context as usize,
    };
    // A comment must not vanish because its line is beyond a cap.
    let (rows, astray) = table.render();
    let all = line_count(file);
    html! {
        @if file.kind == DiffKind::Binary {
            p.limit { "A binary file has no lines to show." }
        } @else if file.hunks.is_empty() {
            p.limit { "No line changed." }
        } @else { (rows) }
        @if all > view.caps.file_lines {
            p.limit {
                (view.caps.file_lines) " of " (all) " lines are shown. "
                @if !view.is_alone() {
                    a href=(view.address_of(&file.path)) { "Load this file" }
                }
            }
        }
        @if !astray.is_empty() {
            div.said { p { "On lines that are not shown:" } @for said in astray { (said) } }
        }
    }
}

/// Files that are not on the page.
fn list(others: &[(&str, Option<(usize, usize)>)], shown: usize, view: &DiffView<'_>) -> Markup {
    html! {
        section.others {
            p.limit {
                @match (shown, view.before) {
                    (0, _) => { (others.len()) " files are not shown here:" }
                    (_, 0) => { "The first " (shown) " files are shown. " (others.len()) " more:" }
                    (_, before) => {
                        "Files " (before + 1) " to " (before + shown) " are shown. " (others.len()) " more:"
                    }
                }
            }
            @if let Some(next) = view.next {
                @let next = next.to_string();
                p { a.button data-next href=(address(view.kept, &[("from", &*next)])) { "Show the next files" } }
            }
            ul { @for (path, lines) in others.iter().take(LISTED_MAX) {
                li { a href=(view.address_of(path)) { bdi { (VisibleText(path)) } } (counts(*lines)) }
            } }
            @if others.len() > LISTED_MAX {
                p.limit { "And " (others.len() - LISTED_MAX) " files that are not listed." }
            }
        }
    }
}

/// The id of a file's place on the page; the same on every page.
pub fn anchor(path: &str) -> String {
    // An id is no secret, and two files with one id only share a link.
    format!("f-{:016x}", fnv1a(path.bytes()))
}
