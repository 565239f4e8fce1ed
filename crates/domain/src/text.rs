//! Text that agents and programs print, for people to read: which characters a terminal or a browser obeys, and lines
//! of logs without them.

use std::borrow::Cow;
use std::ops::Range;

/// Whether a character has an effect instead of a shape: controls, and marks that change the order in which text is
/// shown. Line ends and tabs are not among them.
pub fn is_obeyed(c: char) -> bool {
    let is_bidi = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_bidi || (c.is_control() && c != '\n' && c != '\t')
}

/// A line of output as a terminal would show its text: without escape sequences and control characters. Of a line that
/// was written over after a carriage return, the last version stays.
pub fn printed(line: &str) -> Cow<'_, str> {
    // Most lines of a log are plain ASCII, and a log has many lines.
    let is_plain = |byte: u8| matches!(byte, b'\t' | b' '..=b'~');
    if line.bytes().all(is_plain) || !line.contains(is_obeyed) {
        return Cow::Borrowed(line);
    }
    let mut kept = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                Some('[') => skip_parameters(&mut chars),
                Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&mut chars),
                // Two letters more, such as the choice of a character set.
                Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => drop(chars.next()),
                Some(_) | None => {}
            },
            '\u{9b}' => skip_parameters(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut chars),
            '\r' if chars.peek().is_some_and(|next| *next != '\r') => kept.clear(),
            c if is_obeyed(c) => {}
            c => kept.push(c),
        }
    }
    Cow::Owned(kept)
}

type Chars<'l> = std::iter::Peekable<std::str::Chars<'l>>;

/// Skips the rest of a control sequence (CSI), up to its last letter.
fn skip_parameters(chars: &mut Chars<'_>) {
    while chars.next_if(|c| matches!(c, '\u{20}'..='\u{3f}')).is_some() {}
    chars.next_if(|c| matches!(c, '\u{40}'..='\u{7e}'));
}

/// Skips a string for the terminal (OSC and its like), up to its end or the line's.
fn skip_string(chars: &mut Chars<'_>) {
    while let Some(c) = chars.next() {
        match c {
            '\u{7}' | '\u{9c}' => break,
            '\u{1b}' => {
                chars.next_if_eq(&'\\');
                break;
            }
            _ => {}
        }
    }
}

/// Whether a printed line reports a failure, by the words that compilers, test runners and shells use.
pub fn is_error(line: &str) -> bool {
    const WORDS: [&str; 8] =
        ["error", "fail", "failed", "failure", "fatal", "panicked", "traceback", "exception"];
    // "0 failed" and "no errors" report a success.
    const NONE: [&str; 4] = ["0", "no", "without", "zero"];
    if says_exit(line) {
        return true;
    }
    if !may_be_error(line) {
        return false;
    }
    let mut before = "";
    for word in line.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let is_word = WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
            || word.ends_with("Error")
            || word.ends_with("Exception")
            || word.eq_ignore_ascii_case("errors");
        if is_word && !NONE.iter().any(|none| before.eq_ignore_ascii_case(none)) {
            return true;
        }
        before = word;
    }
    line.contains(['✗', '✘'])
}

/// Whether a note of the server says that an agent's program ended with a code of failure.
fn says_exit(line: &str) -> bool {
    let note = line.strip_prefix("callboard: ");
    let code = note.and_then(|note| note.split_once(" exited with code ")).map(|(_, code)| code);
    code.is_some_and(|code| !code.starts_with('0'))
}

/// Whether a line can be one of `is_error`, at a glance: each of its words has one of these pairs of letters, and each of
/// its signs this byte.
fn may_be_error(line: &str) -> bool {
    let mut before = 0;
    for byte in line.bytes() {
        let letter = byte | 0x20;
        let is_pair =
            matches!((before, letter), (b'r', b'r') | (b'f', b'a') | (b'c', b'k') | (b'x', b'c'));
        if is_pair || byte == 0xe2 {
            return true;
        }
        before = letter;
    }
    false
}

/// Where a text holds these words, whatever the case of Latin letters; places do not overlap.
pub fn places_of(words: &str, text: &str) -> Vec<Range<usize>> {
    let (wanted, bytes) = (words.as_bytes(), text.as_bytes());
    let (mut found, mut at) = (Vec::new(), 0);
    let Some(first) = wanted.first().map(u8::to_ascii_lowercase) else { return found };
    while at + wanted.len() <= bytes.len() {
        let end = at + wanted.len();
        let begins = bytes[at].to_ascii_lowercase() == first;
        if begins && bytes[at..end].eq_ignore_ascii_case(wanted) {
            found.push(at..end);
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_printed_without_what_a_terminal_obeys() {
        for (line, shown) in [
            ("plain\ttext ü", "plain\ttext ü"),
            ("\u{1b}[1;31merror\u{1b}[0m: no", "error: no"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]52;c;never ended", ""),
            ("\u{1b}Pq#0\u{1b}\\after", "after"),
            ("\u{9b}31mred", "red"),
            ("\u{1b}(Bset", "set"),
            ("\u{1b}[", ""),
            ("\u{1b}", ""),
            ("\u{1b}[31;ü", "ü"),
            ("10 %\r 50 %\r100 %", "100 %"),
            ("windows\r", "windows"),
            ("bell\u{7}\u{8}\u{0}", "bell"),
            ("gpj.\u{202e}exe", "gpj.exe"),
        ] {
            assert_eq!(printed(line), shown, "{line:?}");
        }
    }

    #[test]
    fn lines_that_report_a_failure_are_known() {
        for line in [
            "error[E0382]: borrow of moved value",
            "Error: Cannot find package",
            "test it ... FAILED",
            " Test Files  1 failed (1)",
            "thread 'main' panicked at src/main.rs",
            "TypeError: x is not a function",
            "java.lang.NullPointerException",
            "fatal: not a git repository",
            "2 errors",
            "✗ 3 problems",
            "✘ lint",
            "FAIL src/a.test.ts",
            "1 failure",
            "Traceback (most recent call last):",
            "an exception was thrown",
            "callboard: Executor 'script' exited with code 3: no dictionary",
        ] {
            assert!(is_error(line), "{line}");
        }
        for line in [
            "callboard: it exited with code 0",
            "",
            "test it ... ok",
            "0 failed",
            "no errors",
            "mirrored",
            "terror",
            "failsafe on",
        ] {
            assert!(!is_error(line), "{line}");
        }
    }

    #[test]
    fn words_are_found_whatever_their_case() {
        for (words, text, places) in [
            ("error", "an Error, ERROR", vec![3..8, 10..15]),
            ("aa", "aaaa a", vec![0..2, 2..4]),
            ("ü", "Ü ü ü", vec![3..5, 6..8]),
            ("", "text", vec![]),
            ("long", "lon", vec![]),
        ] {
            assert_eq!(places_of(words, text), places, "{words} in {text}");
        }
    }
}
