//! Which words changed between a removed line and the added line that took its place.

use std::ops::Range;

/// A longer line is not compared.
const LINE_CHARS_MAX: usize = 1_000;
/// The most pairs of words that are compared; beyond it the whole middle counts as changed.
const PAIRS_MAX: usize = 10_000;

/// Spans of bytes in a line.
pub type Marks = Vec<Range<usize>>;

/// The changed words of both lines. Empty where the lines have little in common: then everything changed.
pub fn marks(old: &str, new: &str) -> (Marks, Marks) {
    // A character has at most four bytes, so the length in bytes settles most long lines without counting.
    if [old, new].iter().any(|line| line.len() > 4 * LINE_CHARS_MAX || is_long(line)) {
        return Default::default();
    }
    let (a, b) = (tokens(old), tokens(new));
    let same = |(x, y): &(&Range<usize>, &Range<usize>)| old[(*x).clone()] == new[(*y).clone()];
    // Equal beginnings and ends are taken off first: most changes are one word in the middle, and cost little.
    let first = a.iter().zip(&b).take_while(same).count();
    // A token of the beginning must not count for the end once more.
    let left = a.len().min(b.len()) - first;
    let last = a.iter().rev().zip(b.iter().rev()).take(left).take_while(same).count();
    let (middle_a, middle_b) = (&a[first..a.len() - last], &b[first..b.len() - last]);
    let (kept_a, kept_b) = common(old, middle_a, new, middle_b);
    let has_word = |line: &str, token: &Range<usize>| !line[token.clone()].trim().is_empty();
    let ends = a[..first].iter().chain(&a[a.len() - last..]);
    let middle = middle_a.iter().zip(&kept_a).filter(|(_, kept)| **kept).map(|(token, _)| token);
    let shared = ends.chain(middle).filter(|token| has_word(old, token)).count();
    let words =
        |line: &str, all: &[Range<usize>]| all.iter().filter(|token| has_word(line, token)).count();
    // A mark on nearly everything says nothing.
    if shared * 4 < words(old, &a).max(words(new, &b)) {
        return Default::default();
    }
    (joined(old, middle_a, &kept_a), joined(new, middle_b, &kept_b))
}

fn is_long(line: &str) -> bool {
    line.chars().nth(LINE_CHARS_MAX).is_some()
}

/// Words, runs of spaces, and every other character by itself.
fn tokens(line: &str) -> Vec<Range<usize>> {
    #[derive(PartialEq)]
    enum Sort {
        Word,
        Space,
        Other,
    }
    let sort = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => Sort::Word,
        c if c.is_whitespace() => Sort::Space,
        _ => Sort::Other,
    };
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut before = Sort::Other;
    for (at, c) in line.char_indices() {
        let (sort, end) = (sort(c), at + c.len_utf8());
        match found.last_mut() {
            Some(last) if sort == before && sort != Sort::Other => last.end = end,
            _ => found.push(at..end),
        }
        before = sort;
    }
    found
}

/// Which tokens of each side are in a longest common subsequence.
fn common(old: &str, a: &[Range<usize>], new: &str, b: &[Range<usize>]) -> (Vec<bool>, Vec<bool>) {
    let (mut in_a, mut in_b) = (vec![false; a.len()], vec![false; b.len()]);
    if a.is_empty() || b.is_empty() || a.len() * b.len() > PAIRS_MAX {
        return (in_a, in_b);
    }
    let same = |i: usize, j: usize| old[a[i].clone()] == new[b[j].clone()];
    let width = b.len() + 1;
    // Lengths fit into 16 bits: a line has at most 1,000 tokens.
    let mut lengths = vec![0_u16; (a.len() + 1) * width];
    // From the end, so that the way from the start can follow the lengths without a second table.
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            let (down, right) = (lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
            let diagonal = lengths[(i + 1) * width + j + 1];
            lengths[i * width + j] = if same(i, j) { diagonal + 1 } else { down.max(right) };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if same(i, j) {
            (in_a[i], in_b[j]) = (true, true);
            (i, j) = (i + 1, j + 1);
        } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    (in_a, in_b)
}

/// The tokens that are not kept, joined over spaces between them.
fn joined(line: &str, tokens: &[Range<usize>], kept: &[bool]) -> Marks {
    let mut marks: Marks = Vec::new();
    for (token, _) in tokens.iter().zip(kept).filter(|(_, kept)| !**kept) {
        match marks.last_mut() {
            Some(last) if line[last.end..token.start].trim().is_empty() => last.end = token.end,
            _ => marks.push(token.clone()),
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str, marks: &Marks) -> String {
        let mut text = line.to_owned();
        for mark in marks.iter().rev() {
            text.insert(mark.end, ']');
            text.insert(mark.start, '[');
        }
        text
    }

    #[test]
    fn words_that_changed_are_marked() {
        let table = [
            ("let a = 1;", "let b = 1;", "let [a] = 1;", "let [b] = 1;"),
            ("same", "same", "same", "same"),
            ("f(x)", "f(x, y)", "f(x)", "f(x[, y])"),
            (
                "res.status);",
                "res.status, await text());",
                "res.status);",
                "res.status[, await text()]);",
            ),
            ("  a b", "    a b", "[  ]a b", "[    ]a b"),
            ("eins zwei drei", "one two three", "eins zwei drei", "one two three"),
            ("", "new", "", "new"),
            ("a ü c", "a ö c", "a [ü] c", "a [ö] c"),
            ("x = a + b + c", "x = b + c", "x = [a + ]b + c", "x = b + c"),
        ];
        for (old, new, old_shown, new_shown) in table {
            let (a, b) = marks(old, new);
            assert_eq!((&*shown(old, &a), &*shown(new, &b)), (old_shown, new_shown), "{old} {new}");
        }
    }

    #[test]
    fn a_long_line_is_not_marked_and_many_words_are_marked_as_one() {
        let long = "x".repeat(LINE_CHARS_MAX + 1);
        assert_eq!(marks(&long, &format!("{long}y")), Default::default());
        assert_eq!(marks(&"ü".repeat(LINE_CHARS_MAX), "u").0, Marks::new());
        let (old, new) = (".".repeat(LINE_CHARS_MAX), ".".repeat(400) + &";".repeat(400));
        assert_eq!(marks(&old, &new).1.first(), Some(&(400..800)));
        let (old, new) = (format!("{}a.,{}", ".".repeat(300), ".;".repeat(150)), ".".repeat(900));
        let (a, _) = marks(&old, &new);
        assert!(a.len() <= 1, "{a:?}");
    }
}
