//! Titles that are much alike: the work that a plan proposes may stand on the board already.

/// Titles are alike when this share of their words is in both, in hundredths.
const SHARE_MIN: usize = 50;
/// Titles that share one word are about one thing only if they have no other word.
const SHARED_MIN: usize = 2;

/// The share of two titles' words that is in both, in hundredths; `None` for titles that are not alike. `one` and `other`
/// are the terms of the titles, as a search has them: without common words, and each word by its stem.
pub fn likeness(one: &[String], other: &[String]) -> Option<usize> {
    let distinct = |terms: &[String]| {
        let mut terms = terms.to_vec();
        terms.sort();
        terms.dedup();
        terms
    };
    let (one, other) = (distinct(one), distinct(other));
    let shared = one.iter().filter(|term| other.contains(term)).count();
    let all = one.len() + other.len();
    let share = 200 * shared / all.max(1);
    let is_alike = share >= SHARE_MIN && (shared >= SHARED_MIN || share == 100);
    is_alike.then_some(share)
}

#[cfg(test)]
mod tests {
    use super::likeness;

    #[test]
    fn titles_are_alike_by_the_words_they_share() {
        for (one, other, wanted) in [
            ("export incident csv", "export incident csv", Some(100)),
            ("export incident csv", "export incident csv json", Some(85)),
            ("add dark mode", "dark mode status page", Some(57)),
            ("mode dark dark", "dark mode", Some(100)),
            ("queue", "queue", Some(100)),
            ("queue", "queue probe", None),
            ("queue probe due time", "queue monitor page", None),
            ("a b c d", "a b e f", Some(50)),
            ("a b c d e", "a b f g", None),
            ("clock", "queue", None),
            ("", "", None),
            ("", "clock", None),
        ] {
            let terms = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(likeness(&terms(one), &terms(other)), wanted, "{one} | {other}");
            assert_eq!(likeness(&terms(other), &terms(one)), wanted, "{other} | {one}");
        }
    }
}
