//! Paths in the head of a file's patch. Git quotes a path with odd characters as C does.

/// The path that a text begins with and the rest behind it. A path without quotes ends with the text.
pub(super) fn first_path(text: &str) -> Option<(String, &str)> {
    match text.strip_prefix('"') {
        Some(inside) => unquoted(inside),
        None => Some((text.to_owned(), "")),
    }
}

/// A path alone on its line. Git puts a tab behind a path with spaces.
pub(super) fn path(text: &str) -> String {
    match first_path(text) {
        Some((path, _)) if text.starts_with('"') => path,
        _ => text.strip_suffix('\t').unwrap_or(text).to_owned(),
    }
}

/// The two paths of the line `diff --git`. They are the same path unless the file moved; the paths of a moved file
/// stand on lines of their own.
pub(super) fn path_of_both(text: &str) -> Option<String> {
    if text.starts_with('"') {
        let (first, _) = first_path(text)?;
        return Some(without_side(&first).to_owned());
    }
    if text.ends_with('"') {
        // Only one of the two paths needs quotes, so they differ.
        return None;
    }
    // `a/PATH b/PATH`
    // Blanks in a path make the blank between both paths ambiguous; equal paths have it in the middle.
    let middle = text.len().checked_sub(1)? / 2;
    let (first, second) = (text.get(..middle)?, text.get(middle + 1..)?);
    let is_pair = without_side(first) == without_side(second) && text.get(middle..=middle)? == " ";
    is_pair.then(|| without_side(second).to_owned())
}

/// The path without `a/` or `b/`.
pub(super) fn without_side(path: &str) -> &str {
    path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path)
}

/// Reads up to the closing quote.
fn unquoted(inside: &str) -> Option<(String, &str)> {
    let bytes = inside.as_bytes();
    let (mut path, mut at) = (Vec::new(), 0);
    loop {
        match *bytes.get(at)? {
            b'"' => break,
            b'\\' => {
                at += 1;
                let escaped = *bytes.get(at)?;
                let plain = match escaped {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    // Three octal digits are one byte, so a letter beyond ASCII is several of them.
                    b'0'..=b'3' => {
                        let digits = inside.get(at..at + 3)?;
                        at += 2;
                        u8::from_str_radix(digits, 8).ok()?
                    }
                    other => other,
                };
                path.push(plain);
            }
            byte => path.push(byte),
        }
        at += 1;
    }
    // A path of git is bytes. What is no UTF-8 is shown with replacement characters.
    let path = String::from_utf8_lossy(&path).into_owned();
    Some((path, inside.get(at + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_paths_are_read_as_git_writes_them() {
        for (written, read) in [
            ("a/plain.rs", "a/plain.rs"),
            ("a/with space.rs\t", "a/with space.rs"),
            (r#""a/t\303\274r.rs""#, "a/tür.rs"),
            (r#""a/quo\"te\\\t\n""#, "a/quo\"te\\\t\n"),
            (r#""a/not closed"#, r#""a/not closed"#),
            (r#""a/\3"#, r#""a/\3"#),
            ("", ""),
        ] {
            assert_eq!(path(written), read, "{written}");
        }
    }

    #[test]
    fn both_paths_of_the_first_line_are_one() {
        for (written, read) in [
            ("a/x.rs b/x.rs", Some("x.rs")),
            ("a/x b/y b/x b/y", Some("x b/y")),
            (r#""a/\303\274" "b/\303\274""#, Some("ü")),
            ("a/x.rs b/y.rs", None),
            (r#"a/x "b/\303\274""#, None),
            ("", None),
            ("ü", None),
        ] {
            assert_eq!(path_of_both(written).as_deref(), read, "{written}");
        }
    }
}
