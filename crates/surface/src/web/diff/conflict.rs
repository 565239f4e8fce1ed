//! A file that a merge cannot join: at each place the lines of the target, and beside them the lines of the work.

use std::collections::BTreeSet;

use callboard_domain::review::conflict::{ConflictHunk, FileConflict};
use maud::{Markup, html};

use super::table::{FileTable, VisibleText};
use super::{DiffFile, DiffLine, DiffSign};

/// How many lines of a conflict are shown.
const CONFLICT_LINES_MAX: usize = 1_000;

/// The places of a conflict as one table, or the words of git where a conflict has no lines.
pub fn conflict(path: &str, target: &str, conflict: &FileConflict) -> Markup {
    let file = DiffFile::of(path.to_owned());
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
            p.limit {
                (missing) @if missing == 1 { " place is" } @else { " places are" }
                " not shown: the page has at most " (CONFLICT_LINES_MAX) " lines of a conflict."
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(target: &[&str], work: &[&str]) -> ConflictHunk {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        ConflictHunk { target: lines(target), work: lines(work), ..ConflictHunk::default() }
    }

    fn shown(hunks: Vec<ConflictHunk>, words: &[&str]) -> String {
        let words = words.iter().map(|words| (*words).to_owned()).collect();
        conflict("a.txt", "main", &FileConflict { hunks, words }).into_string()
    }

    #[test]
    fn both_sides_stand_in_one_row_and_hidden_characters_are_shown() {
        let sides = shown(vec![hunk(&["old <b>"], &["old\u{202e} <i>\r"])], &[]);
        assert!(sides.contains("on main") && sides.contains("this work"), "{sides}");
        assert!(sides.contains("old &lt;<mark>b</mark>&gt;"), "{sides}");
        assert!(sides.contains("U+202E") && sides.contains("␍"), "{sides}");
        assert!(!sides.contains("not shown"), "{sides}");
    }

    #[test]
    fn a_conflict_that_is_too_long_says_what_is_missing() {
        let long = vec!["line"; CONFLICT_LINES_MAX];
        let cut = shown(vec![hunk(&["one"], &["two"]), hunk(&long, &[]), hunk(&["x"], &[])], &[]);
        assert!(cut.contains("2 places are not shown"), "{cut}");
        assert_eq!(cut.matches("<tbody>").count(), 1, "{cut}");
    }

    #[test]
    fn a_conflict_without_lines_has_the_words_of_git() {
        let words = shown(Vec::new(), &["a.txt deleted in main and modified in <the work>"]);
        assert!(words.contains("&lt;the work&gt;") && !words.contains("<table"), "{words}");
        assert!(shown(Vec::new(), &[]).contains("Git merges this file now."));
    }
}
