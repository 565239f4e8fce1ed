//! Text for a terminal. Agents write titles, mails and logs; a terminal obeys control characters in
//! them: it moves the cursor, hides text, fills the clipboard. Bidirectional controls show text in
//! another order than it has.

use std::borrow::Cow;
use std::fmt::Write as _;

use callboard_domain::text::is_obeyed;

use super::Style;

/// The text with every control character in a visible form. New lines, tabs and our own colours stay.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(colour) = our_colour(rest) {
            cleaned.push_str(colour);
            rest = &rest[colour.len()..];
            continue;
        }
        match first {
            c if !is_obeyed(c) => cleaned.push(c),
            // `^[` for escape, as terminals themselves show it.
            c if c.is_ascii() => {
                cleaned.push('^');
                cleaned.push((c as u8 ^ 0x40) as char);
            }
            c => {
                let _ = write!(cleaned, "<U+{:04X}>", u32::from(c));
            }
        }
        rest = &rest[first.len_utf8()..];
    }
    Cow::Owned(cleaned)
}

/// The colour that a text begins with, if this program prints such a colour. None of them hides text.
fn our_colour(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("\x1b[")?;
    let (code, _) = inside.split_once('m')?;
    let is_ours = Style::ALL.iter().any(|style| code == style.code().to_string());
    is_ours.then(|| &text[.."\x1b[m".len() + code.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let cases = [
            ("a\tb\nc ü 漢", "a\tb\nc ü 漢"),
            ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
            ("\x1b[8mhidden", "^[[8mhidden"),
            ("\x1b[1;31mtwo", "^[[1;31mtwo"),
            ("\x1b]52;c;eA==\x07", "^[]52;c;eA==^G"),
            ("\x1b[2J\x1b[", "^[[2J^[["),
            ("over\rwritten\x08", "over^Mwritten^H"),
            ("\x7f\u{9b}31m", "^?<U+009B>31m"),
            ("gpj.\u{202e}exe", "gpj.<U+202E>exe"),
        ];
        for (text, shown) in cases {
            assert_eq!(clean(text), shown, "{text:?}");
        }
    }
}
