//! What changes in a file, line by line, for the person who is asked.

use super::plan::FileChange;

/// Unchanged lines that are shown around a change.
const CONTEXT: usize = 2;
/// Beyond this many pairs of lines, the lines between the first and the last change are not compared.
/// The table of pairs then has 16 MB at most.
const PAIRS_MAX: usize = 4_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineMark {
    Kept,
    Removed,
    Added,
}

/// The change as lines that begin with a blank, `-` or `+`.
pub fn shown(change: &FileChange) -> Vec<String> {
    let old: Vec<&str> = change.before.as_deref().unwrap_or_default().lines().collect();
    let new: Vec<&str> = change.after.as_deref().unwrap_or_default().lines().collect();
    let marked = compared(&old, &new);
    let is_near = |place: usize| {
        let from = place.saturating_sub(CONTEXT);
        let to = (place + CONTEXT + 1).min(marked.len());
        marked[from..to].iter().any(|(mark, _)| *mark != LineMark::Kept)
    };
    let mut lines = Vec::new();
    let mut is_gap = false;
    for (place, (mark, line)) in marked.iter().enumerate() {
        if !is_near(place) {
            is_gap = true;
            continue;
        }
        if std::mem::take(&mut is_gap) && !lines.is_empty() {
            lines.push("  …".to_owned());
        }
        let sign = match mark {
            LineMark::Kept => ' ',
            LineMark::Removed => '-',
            LineMark::Added => '+',
        };
        lines.push(format!("{sign} {line}"));
    }
    lines
}

/// Common lines at both ends are set aside first: an edit of a long file compares a few lines only.
fn compared<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(LineMark, &'a str)> {
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let pairs = old_rest.iter().rev().zip(new_rest.iter().rev());
    let tail = pairs.take_while(|(one, other)| one == other).count();
    let (old_part, new_part) =
        (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    let mut marked: Vec<_> = old[..head].iter().map(|line| (LineMark::Kept, *line)).collect();
    marked.extend(between(old_part, new_part));
    marked.extend(old_rest[old_rest.len() - tail..].iter().map(|line| (LineMark::Kept, *line)));
    marked
}

/// The lines between the first and the last change, by their longest common subsequence.
fn between<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(LineMark, &'a str)> {
    let width = new.len() + 1;
    let is_large = old.len().saturating_mul(new.len()) > PAIRS_MAX;
    // `common[i][j]` is the length of the longest common subsequence of `old[i..]` and `new[j..]`.
    let mut common = vec![0u32; if is_large { 0 } else { (old.len() + 1) * width }];
    if !is_large {
        for i in (0..old.len()).rev() {
            for j in (0..new.len()).rev() {
                common[i * width + j] = match old[i] == new[j] {
                    true => common[(i + 1) * width + j + 1] + 1,
                    false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
                };
            }
        }
    }
    let (mut i, mut j, mut marked) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if !is_large && i < old.len() && j < new.len() && old[i] == new[j] {
            marked.push((LineMark::Kept, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || i < old.len()
                && (is_large || common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            // At equal lengths a line is removed first, so that a replaced one shows as `-` above `+`.
            marked.push((LineMark::Removed, old[i]));
            i += 1;
        } else {
            marked.push((LineMark::Added, new[j]));
            j += 1;
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_with_two_around_them() {
        let change = |before: &str, after: &str| FileChange {
            path: "f".into(),
            before: Some(before.into()),
            after: Some(after.into()),
        };
        let rows = [
            ("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nX\nd\ne\nf\n", "  b|  c|+ X|  d|  e"),
            ("a\n", "", "- a"),
            (
                "1\n2\n3\n4\n5\n6\n7\n8\n",
                "X\n1\n2\n3\n4\n5\n6\n7\n8\nY\n",
                "+ X|  1|  2|  …|  7|  8|+ Y",
            ),
            ("a\nb\n", "a\nB\n", "  a|- b|+ B"),
        ];
        for (before, after, wanted) in rows {
            assert_eq!(shown(&change(before, after)).join("|"), wanted, "{before:?}");
        }
    }
}
