//! A file that a merge cannot join: at each place the lines of the target, and beside them the lines of the work.

use std::collections::BTreeSet;

use callboard_domain::review::conflict::{ConflictHunk, FileConflict};
use maud::{Markup, html};

use super::table::{FileTable, VisibleText};
use super::{DiffFile, DiffKind, DiffLine, DiffSign, DiffStatus};

/// How many lines of a conflict are shown.
const CONFLICT_LINES_MAX: usize = 1_000;

/// The places of a conflict as one table, or the words of git where a conflict has no lines.
pub fn conflict(path: &str, target: &str, conflict: &FileConflict) -> Markup {
    let file = DiffFile {
        path: path.to_owned(),
        old_path: None,
        status: DiffStatus::Modified,
        modes: None,
        added: 0,
        removed: 0,
        hunks: Vec::new(),
        kind: DiffKind::Normal,
    };
    let table = FileTable::of_sides(&file);
    let mut left = CONFLICT_LINES_MAX;
    let mut shown = Vec::new();
    let mut missing = 0;
    for hunk in &conflict.hunks {
        let lines = lines_of(hunk);
        if lines.len() > left {
            (left, missing) = (0, missing + 1);
        } else {
            left -= lines.len();
            shown.push(table.body(&lines, &mut BTreeSet::new()));
        }
    }
    html! {
        @if !shown.is_empty() {
            table.diff.sides {
                thead { tr.hunk { th scope="col" colspan="3" { "on " (VisibleText(target)) } th scope="col" colspan="3" { "this work" } } }
                @for rows in shown { tbody { (rows) } }
            }
        }
        @if missing > 0 {
            p.limit { (missing) @if missing == 1 { " place is" } @else { " places are" } " too long to show here." }
        }
        @for words in &conflict.words { p.limit { (VisibleText(words)) } }
        @if conflict.hunks.is_empty() && conflict.words.is_empty() {
            p.limit { "Git merges this file now." }
        }
    }
}

/// The lines of a place in the order of a patch that leads from the target to the work.
fn lines_of(hunk: &ConflictHunk) -> Vec<DiffLine> {
    let parts = [
        (DiffSign::Context, &hunk.before),
        (DiffSign::Removed, &hunk.target),
        (DiffSign::Added, &hunk.work),
        (DiffSign::Context, &hunk.after),
    ];
    let lines = parts.into_iter().flat_map(|(sign, lines)| lines.iter().map(move |it| (sign, it)));
    let line = |(sign, text): (DiffSign, &String)| DiffLine {
        sign,
        old: None,
        new: None,
        text: text.strip_suffix('\r').unwrap_or(text).to_owned(),
        has_return: text.ends_with('\r'),
        is_unended: false,
        is_moved: false,
    };
    lines.map(line).collect()
}
