//! The one place where two texts differ: what was there, and what stands there now. A record of a change keeps a splice
//! instead of the whole text, because files of a user hold things that must not be copied.

/// `removed` at byte `at` became `inserted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    pub at: usize,
    pub removed: String,
    pub inserted: String,
}

impl Splice {
    /// The smallest splice that makes `after` of `before`.
    pub fn between(before: &str, after: &str) -> Self {
        let head: usize = before
            .chars()
            .zip(after.chars())
            .take_while(|(one, other)| one == other)
            .map(|(one, _)| one.len_utf8())
            .sum();
        let (old, new) = (&before[head..], &after[head..]);
        let tail: usize = old
            .chars()
            .rev()
            .zip(new.chars().rev())
            .take_while(|(one, other)| one == other)
            .map(|(one, _)| one.len_utf8())
            .sum();
        Self {
            at: head,
            removed: old[..old.len() - tail].to_owned(),
            inserted: new[..new.len() - tail].to_owned(),
        }
    }

    /// The text after the splice; `None` when the text at its place is another one.
    pub fn apply(&self, text: &str) -> Option<String> {
        let rest = text.get(self.at..)?.strip_prefix(self.removed.as_str())?;
        Some(format!("{}{}{rest}", &text[..self.at], self.inserted))
    }
}

/// Carries a change over to a text that has other line ends: `before` and `after` have `\n`, `text` is `before` with
/// line ends of its own and perhaps without the last one. `None` when `text` differs in more than that.
pub fn with_line_ends_of(text: &str, before: &str, after: &str) -> Option<String> {
    let splice = Splice::between(before, after);
    let at = place_in(text, before, splice.at)?;
    let end = place_in(text, before, splice.at + splice.removed.len())?;
    place_in(text, before, before.len())?;
    let is_crlf = text.contains("\r\n");
    let ends = |text: &str| if is_crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
    // A text without a last line end gets one before the first line that is added behind it.
    let lacks_end = end == text.len() && before.ends_with('\n') && !text.ends_with('\n');
    let gap = if lacks_end && !splice.inserted.is_empty() { ends("\n") } else { String::new() };
    Some(format!("{}{gap}{}{}", &text[..at], ends(&splice.inserted), &text[end..]))
}

/// The place in `text` that corresponds to byte `at` of `canonical`.
fn place_in(text: &str, canonical: &str, at: usize) -> Option<usize> {
    let mut place = 0;
    for wanted in canonical[..at].chars() {
        let rest = &text[place..];
        if wanted == '\n' && rest.starts_with("\r\n") {
            place += 2;
        } else if rest.starts_with(wanted) {
            place += wanted.len_utf8();
        } else if !(wanted == '\n' && rest.is_empty()) {
            return None;
        }
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_splice_is_small_and_can_be_undone() {
        let rows = [
            ("", "abc", 0, "", "abc"),
            ("abc", "", 0, "abc", ""),
            ("a\nc\n", "a\nb\nc\n", 2, "", "b\n"),
            ("aaa", "aa", 2, "a", ""),
            ("größe", "grüße", 2, "ö", "ü"),
            ("same", "same", 4, "", ""),
        ];
        for (before, after, at, removed, inserted) in rows {
            let splice = Splice::between(before, after);
            assert_eq!((splice.at, &*splice.removed, &*splice.inserted), (at, removed, inserted));
            assert_eq!(splice.apply(before).as_deref(), Some(after), "{before}");
            let Splice { at, removed, inserted } = splice;
            let undo = Splice { at, removed: inserted, inserted: removed };
            assert_eq!(undo.apply(after).as_deref(), Some(before), "{before}");
        }
        assert_eq!(Splice::between("abc", "ac").apply("xyz"), None);
    }

    #[test]
    fn line_ends_of_the_file_are_kept() {
        let rows = [
            ("a\r\nb\r\n", "a\nb\n", "a\nx\nb\n", Some("a\r\nx\r\nb\r\n")),
            ("a\r\nb\n", "a\nb\n", "a\nb\nx\n", Some("a\r\nb\nx\r\n")),
            ("a", "a\n", "a\nx\n", Some("a\nx\n")),
            ("a\r\nb", "a\nb\n", "a\nb\nx\n", Some("a\r\nb\r\nx\r\n")),
            ("a\nx\n", "a\nx\n", "a\n", Some("a\n")),
            ("other", "a\n", "a\nx\n", None),
        ];
        for (text, before, after, wanted) in rows {
            assert_eq!(with_line_ends_of(text, before, after).as_deref(), wanted, "{text:?}");
        }
    }
}
