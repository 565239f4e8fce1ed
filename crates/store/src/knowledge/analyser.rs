//! Turns text into terms, in one way for every store, for entries and for queries. Nothing a user types is ever an
//! operator: only letters and digits come out.

use std::collections::HashSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;

/// More terms of a query would only cost time.
pub const QUERY_TERMS_MAX: usize = 32;
/// Longer words are keys and hashes; their beginning tells them apart.
const TERM_CHARS_MAX: usize = 40;

/// Words that say nothing about a text's subject.
const STOP_WORDS: &str = "a about above after again all also am an and any are as at be because \
    been before being below between both but by can could did do does doing down during each few \
    for from further had has have having he her here hers him his how i if in into is it its \
    itself just me more most my no nor not now of off on once only or other our out over own same \
    she should so some such than that the their them then there these they this those through to \
    too under until up very was we were what when where which while who whom why will with would \
    you your";

static STOPPED: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP_WORDS.split_whitespace().collect());
static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

/// Every term of a text, in order, as often as it occurs.
pub fn terms(text: &str) -> Vec<String> {
    // NFKC makes one term of forms that look alike, such as a ligature and its letters.
    let normal: String = text.nfkc().collect();
    let mut terms = Vec::new();
    for word in normal.split(|c: char| !c.is_alphanumeric() && c != '_') {
        let parts: Vec<&str> = word.split('_').flat_map(humps).collect();
        if parts.len() > 1 {
            let joined: String = parts.iter().flat_map(|part| lower(part)).collect();
            // The whole identifier is a term besides its parts, so an exact name ranks above texts with its words.
            push(&mut terms, joined, false);
        }
        for part in parts {
            push(&mut terms, lower(part).collect(), true);
        }
    }
    terms
}

/// The terms of a query, each once; of a long query only the first ones.
pub fn query_terms(text: &str) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for term in terms(text) {
        if !distinct.contains(&term) {
            distinct.push(term);
        }
        if distinct.len() == QUERY_TERMS_MAX {
            break;
        }
    }
    distinct
}

fn lower(part: &str) -> impl Iterator<Item = char> {
    part.chars().flat_map(char::to_lowercase).filter(|c| c.is_alphanumeric())
}

/// A joined identifier is neither stopped nor stemmed: it is a name, not English.
fn push(terms: &mut Vec<String>, word: String, is_word: bool) {
    if word.is_empty() || (is_word && STOPPED.contains(word.as_str())) {
        return;
    }
    // Cut by characters, because a cut by bytes could fall inside one.
    let word = match word.char_indices().nth(TERM_CHARS_MAX) {
        Some((end, _)) => word[..end].to_owned(),
        None => word,
    };
    terms.push(if is_word { STEMMER.stem(&word).into_owned() } else { word });
}

/// Splits at capitals: `parseHTTPRequest` is `parse`, `HTTP`, `Request`.
fn humps(word: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    let mut cuts = vec![0];
    for at in 1..chars.len() {
        let (before, here) = (chars[at - 1].1, chars[at].1);
        let begins_word = chars.get(at + 1).is_some_and(|(_, next)| next.is_lowercase());
        // Two cuts: `parse|HTTP` where capitals begin, and `HTTP|Request` before the last capital of a run of them.
        let rises = here.is_uppercase() && (before.is_lowercase() || before.is_numeric());
        if rises || (here.is_uppercase() && before.is_uppercase() && begins_word) {
            cuts.push(chars[at].0);
        }
    }
    cuts.push(word.len());
    cuts.windows(2).map(|cut| &word[cut[0]..cut[1]]).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_terms() {
        for (text, expected) in [
            ("", ""),
            ("how to be", ""),
            ("Retrying the webhooks", "retri webhook"),
            ("parseHTTPRequest", "parsehttprequest pars http request"),
            ("snake_case __init__", "snakecas snake case init"),
            ("utf8 sha256Sum", "utf8 sha256sum sha256 sum"),
            ("ﬁle Ⅷ straße", "file viii straße"),
            ("\" OR 1=1 NEAR(a*) -x ^y :z {q}", "1 1 near x y z q"),
            ("日本語 テスト", "日本語 テスト"),
        ] {
            let expected = expected.replace("snakecas ", "snakecase ");
            assert_eq!(terms(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn only_letters_and_digits_come_out() {
        let odd = "a\"b'c\\d\0e:f|g&h!i(j)k*l^m-n~o<p>q$r%s#t@u\u{202e}v\u{1f600}w";
        assert!(terms(odd).iter().all(|term| term.chars().all(char::is_alphanumeric)));
    }

    #[test]
    fn a_query_is_short_and_says_nothing_twice() {
        let long: String = (0..100).map(|n| format!("word{n} word{n} ")).collect();
        assert_eq!(query_terms(&long).len(), QUERY_TERMS_MAX);
        assert_eq!(terms(&"x".repeat(1000))[0].len(), TERM_CHARS_MAX);
    }
}
