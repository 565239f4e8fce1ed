//! Lines that moved: removed in one place and added in another, in this file or a further one. As git does, a block
//! counts only if its lines have 20 letters and digits together, so that lone braces do not pair up.

use std::collections::HashMap;

use super::{DiffFile, DiffLine, DiffSign};

/// Fewer letters and digits are no sign of a move.
const ALNUM_MIN: usize = 20;
/// A text that was removed more often than this is compared with its first places only.
/// Without the bound, a line that was removed and added thousands of times would be compared millions of times.
const PLACES_MAX: usize = 32;

/// The place of a line: file, hunk, line.
type LinePlace = (usize, usize, usize);

/// Marks the lines of the page that moved.
pub fn mark_moved(files: &mut [DiffFile]) {
    for place in moved(files) {
        files[place.0].hunks[place.1].lines[place.2].is_moved = true;
    }
}

/// The places of both ends of each move.
fn moved(files: &[DiffFile]) -> Vec<LinePlace> {
    let mut removed: HashMap<&str, Vec<LinePlace>> = HashMap::new();
    for (place, line) in places(files) {
        if line.sign == DiffSign::Removed {
            // Trimmed: code that moved into another block is indented anew.
            let known = removed.entry(line.text.trim()).or_default();
            if known.len() < PLACES_MAX {
                known.push(place);
            }
        }
    }
    let mut found = Vec::new();
    // The end of the last block that was found. Its lines are not searched again.
    let mut behind: Option<LinePlace> = None;
    for (place, line) in places(files) {
        let is_done = behind.is_some_and(|end| place < end);
        if line.sign != DiffSign::Added || is_done {
            continue;
        }
        let candidates = removed.get(line.text.trim()).into_iter().flatten();
        let lengths = candidates.map(|from| (common(files, place, *from), *from));
        // Of several places that fit, the one with the longest common block is where the lines came from.
        let Some((length, from)) = lengths.max_by_key(|(length, _)| *length) else { continue };
        let block = |start: LinePlace| (0..length).map(move |n| (start.0, start.1, start.2 + n));
        let alnum: usize = block(place).filter_map(|at| line_at(files, at)).map(alnum).sum();
        if alnum >= ALNUM_MIN {
            found.extend(block(place).chain(block(from)));
            behind = Some((place.0, place.1, place.2 + length));
        }
    }
    found
}

/// Every line of the patch with its place, in order.
fn places(files: &[DiffFile]) -> impl Iterator<Item = (LinePlace, &DiffLine)> {
    files.iter().enumerate().flat_map(|(file, it)| {
        it.hunks.iter().enumerate().flat_map(move |(hunk, it)| {
            it.lines.iter().enumerate().map(move |(line, it)| ((file, hunk, line), it))
        })
    })
}

fn line_at(files: &[DiffFile], (file, hunk, line): LinePlace) -> Option<&DiffLine> {
    files.get(file)?.hunks.get(hunk)?.lines.get(line)
}

/// How many lines from here on were removed there, in the same order.
fn common(files: &[DiffFile], added: LinePlace, removed: LinePlace) -> usize {
    let is_same = |n: &usize| {
        let here = line_at(files, (added.0, added.1, added.2 + n));
        let there = line_at(files, (removed.0, removed.1, removed.2 + n));
        here.zip(there).is_some_and(|(here, there)| {
            here.sign == DiffSign::Added
                && there.sign == DiffSign::Removed
                && here.text.trim() == there.text.trim()
        })
    };
    (0..).take_while(is_same).count()
}

fn alnum(line: &DiffLine) -> usize {
    line.text.chars().filter(|c| c.is_alphanumeric()).count()
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    /// A patch with these lines; the numbers of its head fit.
    fn patch(lines: &str) -> String {
        let lines: Vec<&str> = lines.split('|').collect();
        let old = lines.iter().filter(|line| !line.starts_with('+')).count();
        let new = lines.iter().filter(|line| !line.starts_with('-')).count();
        format!(
            "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,{old} +1,{new} @@\n{}\n",
            lines.join("\n")
        )
    }

    #[test]
    fn a_block_moved_if_it_says_enough() {
        for (lines, moved) in [
            ("-let the_total = sum(&all_prices);| x|+let the_total = sum(&all_prices);", "m m"),
            ("-let the_total = sum(&all_prices);| x|+    let the_total = sum(&all_prices);", "m m"),
            ("-}| x|+}", "- +"),
            ("-a();|-b();|-}| x|+a();|+b();|+}", "- - - + + +"),
            (
                "-fn first_line() {|-    second_line();|-}| x|+fn first_line() {|+    second_line();|+}",
                "m m m m m m",
            ),
            (
                "-fn first_line() {|-    second_line();|-}| x|+fn first_line() {|+    other_line();|+}",
                "- - - + + +",
            ),
            ("-let the_total = sum(&all_prices);|+let total = sum(&costs);", "- +"),
        ] {
            let mut files = parse(&patch(lines), |_| false).expect("a patch");
            mark_moved(&mut files);
            let sign = |line: &DiffLine| match (line.is_moved, line.sign) {
                (true, _) => Some("m"),
                (false, DiffSign::Added) => Some("+"),
                (false, DiffSign::Removed) => Some("-"),
                (false, DiffSign::Context) => None,
            };
            let found: Vec<&str> = files[0].hunks[0].lines.iter().filter_map(sign).collect();
            assert_eq!(found.join(" "), moved, "{lines}");
        }
    }
}
