//! The part of a body that shows why it was found.

use super::analyser;

const CHARS_MAX: usize = 240;
/// How much text comes before the first match.
const LEAD_CHARS: usize = 60;

/// At most 240 characters around the first word that holds a term of the query.
pub(crate) fn snippet(body: &str, terms: &[String]) -> String {
    let matches = |word: &&str| analyser::terms(word).iter().any(|term| terms.contains(term));
    let first = body.split_whitespace().find(matches);
    // `word` is a slice of `body`, so the distance of their pointers is its offset.
    let at = first.map_or(0, |word| word.as_ptr() as usize - body.as_ptr() as usize);
    let before = body[..at].chars().rev().take(LEAD_CHARS).map(char::len_utf8).sum::<usize>();
    let start = at - before;
    // The snippet begins at a word, unless there is none before the match.
    let start = match body[start..at].find(char::is_whitespace) {
        Some(blank) if start > 0 => start + blank,
        _ => start,
    };
    let mut text = String::new();
    for word in body[start..].split_whitespace() {
        let room = CHARS_MAX - text.chars().count();
        if room <= 1 {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        let room = CHARS_MAX - text.chars().count();
        text.extend(word.chars().take(room));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_around_the_first_match() {
        let terms = |text: &str| analyser::query_terms(text);
        assert_eq!(snippet("one\n\n two", &terms("nothing")), "one two");
        let long = format!("{}the provider retries {}", "é ".repeat(500), "x ".repeat(500));
        let found = snippet(&long, &terms("retry"));
        assert!(found.contains("provider retries") && found.chars().count() <= 240, "{found}");
        assert_eq!(snippet(&"y".repeat(1000), &[]).chars().count(), 240);
        assert_eq!(snippet("", &[]), "");
    }
}
