//! The list of changed files beside a diff: folders with their files, and generated files by themselves at the end.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::parts::icon;
use super::file::{anchor, comments, counts};
use super::table::VisibleText;
use super::{DiffKind, DiffView, FileFacts};

/// How many files the tree names.
const FILES_MAX: usize = 2_000;

/// A changed file in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    pub path: String,
    /// Added and removed lines; `None` for a file that is no text.
    pub lines: Option<(u64, u64)>,
    pub kind: DiffKind,
    /// Whether the page shows the file; if not, its link loads it.
    pub is_here: bool,
}

/// The navigation beside the diff. Folders are one level deep: a nested tree would be wider than its column.
pub fn tree(entries: &[TreeEntry], view: &DiffView<'_>) -> Markup {
    let mut folders = BTreeMap::<(bool, String), Vec<(&str, &TreeEntry)>>::new();
    for entry in entries.iter().take(FILES_MAX) {
        let place = place_in_tree(&entry.path, &entry.kind);
        let below = if place.1.is_empty() { 0 } else { place.1.len() + 1 };
        folders.entry(place).or_default().push((&entry.path[below..], entry));
    }
    html! {
        nav.tree #{ "tree-" (view.part) } data-live aria-label="Files" {
            @for ((is_generated, folder), files) in &folders {
                @if *is_generated { p.folder { "generated" } }
                @else if !folder.is_empty() { p.folder { bdi { (VisibleText(folder)) } } }
                ul { @for (name, entry) in files { (row(name, entry, view)) } }
            }
            @if entries.len() > FILES_MAX {
                p.limit { "And " (entries.len() - FILES_MAX) " files that are not listed." }
            }
        }
    }
}

/// The group of a file in the tree: whether the file is generated, and its folder. `false` sorts before `true`, so
/// generated files come last, by their whole paths.
pub fn place_in_tree(path: &str, kind: &DiffKind) -> (bool, String) {
    let is_generated = matches!(kind, DiffKind::Generated(_));
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    (is_generated, if is_generated { String::new() } else { folder.to_owned() })
}

fn row(name: &str, entry: &TreeEntry, view: &DiffView<'_>) -> Markup {
    let unknown = FileFacts::default();
    let facts = view.facts.get(&entry.path).unwrap_or(&unknown);
    let address = if entry.is_here {
        format!("#{}", anchor(&entry.path))
    } else {
        view.address_of(&entry.path)
    };
    let lines = entry.lines.map(|(added, removed)| (added as usize, removed as usize));
    html! {
        li class=[(facts.is_viewed && view.has_ticks).then_some("viewed")] {
            @if view.has_ticks {
                span.tick role="img" aria-label=(if facts.is_viewed { "viewed" } else { "not viewed" }) {
                    (icon(if facts.is_viewed { "pip-pass" } else { "pip-open" }))
                }
            }
            a href=(address) { bdi { (VisibleText(name)) } }
            @if facts.is_news { " " span.tag.news { "new" } }
            @if facts.comments > 0 {
                " " span.tag.is-person title=(comments(facts.comments)) { (facts.comments) }
            }
            (counts(lines))
        }
    }
}
