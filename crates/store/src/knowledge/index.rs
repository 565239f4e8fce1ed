//! The keyword index: for each org and term the entries that hold it, in rows of 128 entries, and BM25 over them.
//! Rows and arithmetic are equal in every database.

use std::collections::BTreeMap;

use callboard_domain::knowledge::KnowledgeEntry;

use super::analyser;

/// How many entries' numbers one row covers.
pub(crate) const ROW_ENTRIES: u32 = 128;
/// A posting: place in the row, weight, length.
const POSTING_BYTES: usize = 5;

const TITLE_WEIGHT: u16 = 2;
/// The usual parameters of BM25: `K1` bounds the gain of a repeated term, `B` weighs the length of a text.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// The least number of entries for the IDF: a store of two entries scores like a large one.
const ENTRIES_LEAST: f64 = 1000.0;
/// Keeps a term that most entries hold from counting against them: the formula is negative above one half.
const IDF_LEAST: f64 = 1e-6;
/// How many of its rarest terms a query needs for full coverage.
const COVERED_BY: usize = 6;

/// Counters of an org's knowledge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub entries: u32,
    pub tokens: i64,
    /// Rises with every new entry and every superseded one.
    pub version: i64,
    /// Rises with every batch of vectors.
    pub stamp: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posting {
    pub entry: u32,
    /// How often the entry holds the term; a term in the title counts `TITLE_WEIGHT` times.
    weight: u16,
    /// The number of terms of the entry, at most `u16::MAX`.
    length: u16,
}

/// The contribution of an entry to the index.
pub(crate) struct Indexed {
    pub tokens: i64,
    /// Terms with the bytes that are added to their row.
    pub terms: BTreeMap<String, [u8; POSTING_BYTES]>,
}

pub(crate) fn row_of(entry: u32) -> i64 {
    i64::from(entry / ROW_ENTRIES)
}

/// The term of a tag; no text contains it.
pub(crate) fn tag_term(tag: &str) -> String {
    format!("#{tag}")
}

pub(crate) fn index(entry: &KnowledgeEntry, number: u32) -> Indexed {
    let title = analyser::terms(&entry.title);
    let rest = analyser::terms(&entry.body);
    let tags: Vec<String> = entry.tags.iter().flat_map(|tag| analyser::terms(tag)).collect();
    let tokens = title.len() + rest.len() + tags.len();
    let mut weights: BTreeMap<String, u16> = BTreeMap::new();
    let mut add = |term: String, weight: u16| {
        let sum = weights.entry(term).or_default();
        *sum = sum.saturating_add(weight);
    };
    title.into_iter().for_each(|term| add(term, TITLE_WEIGHT));
    rest.into_iter().chain(tags).for_each(|term| add(term, 1));
    entry.tags.iter().for_each(|tag| add(tag_term(tag), 1));
    let length = u16::try_from(tokens).unwrap_or(u16::MAX).to_le_bytes();
    // Below 128, so one byte holds it.
    let place = (number % ROW_ENTRIES) as u8;
    let posting = |weight: u16| {
        let weight = weight.to_le_bytes();
        [place, weight[0], weight[1], length[0], length[1]]
    };
    let terms = weights.into_iter().map(|(term, weight)| (term, posting(weight))).collect();
    Indexed { tokens: tokens as i64, terms }
}

/// Reads one row of a term. A damaged row gives the postings that can be read.
pub(crate) fn read_row(row: i64, bytes: &[u8], postings: &mut Vec<Posting>) {
    let first = u32::try_from(row).unwrap_or(0).saturating_mul(ROW_ENTRIES);
    postings.extend(bytes.chunks_exact(POSTING_BYTES).map(|posting| Posting {
        entry: first + u32::from(posting[0]),
        weight: u16::from_le_bytes([posting[1], posting[2]]),
        length: u16::from_le_bytes([posting[3], posting[4]]),
    }));
}

/// How well every entry of an org matches the terms of a query. No match is 0; an entry that holds the rarest terms
/// as often as an average text would is about 1.
pub(crate) fn scores(counts: Counts, terms: &[Vec<Posting>]) -> Vec<f32> {
    let mut sums = vec![0f32; counts.entries as usize];
    let total = f64::from(counts.entries).max(ENTRIES_LEAST);
    let average = (counts.tokens as f64 / f64::from(counts.entries.max(1))).max(1.0);
    let idf = |postings: &Vec<Posting>| {
        let holding = postings.len() as f64;
        ((total - holding + 0.5) / (holding + 0.5)).ln().max(IDF_LEAST)
    };
    let mut idfs: Vec<f64> = terms.iter().map(idf).collect();
    for (postings, idf) in terms.iter().zip(&idfs) {
        for posting in postings {
            let weight = f64::from(posting.weight);
            let norm = K1 * (1.0 - B + B * f64::from(posting.length) / average);
            if let Some(sum) = sums.get_mut(posting.entry as usize) {
                *sum += (idf * weight * (K1 + 1.0) / (weight + norm)) as f32;
            }
        }
    }
    // A long question holds many words that no answer repeats. Dividing by all of them would push every score down.
    idfs.sort_by(|a, b| b.total_cmp(a));
    let covered: f64 = idfs.iter().take(COVERED_BY).sum();
    if covered > 0.0 {
        sums.iter_mut().for_each(|sum| *sum /= covered as f32);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let mut postings = Vec::new();
        read_row(2, &[3, 5, 0, 0, 1, 9, 1, 0], &mut postings);
        assert_eq!(postings, [Posting { entry: 259, weight: 5, length: 256 }]);
    }

    #[test]
    fn rare_terms_count_more() {
        let posting = |entry, weight| Posting { entry, weight, length: 10 };
        let counts = Counts { entries: 4, tokens: 40, ..Counts::default() };
        let rare = vec![posting(0, 1)];
        let common = vec![posting(0, 1), posting(1, 1), posting(2, 1)];
        let found = scores(counts, &[rare.clone(), common]);
        assert!(found[0] > found[1] && found[1] == found[2] && found[3] == 0.0, "{found:?}");
        assert!(scores(counts, &[rare.clone(), vec![]])[0] < scores(counts, &[rare])[0]);
        assert_eq!(scores(counts, &[]), [0.0; 4]);
    }
}
