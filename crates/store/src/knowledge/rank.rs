//! From two legs, words and vectors, to hits in order. Both legs are absolute in 0..1, so a threshold has one
//! meaning for every query.

use std::collections::HashSet;

use callboard_domain::knowledge::KnowledgeId;
use callboard_domain::time::Timestamp;

use super::index::{self, Counts, Posting};
use super::{Calibration, KnowledgeQuery};

/// How many candidates of each leg are read; more only where filters leave too few.
const LEG: usize = 100;
/// Three steps of four times as many: 100, 400, 1600, 6400. After that the search answers with what stands.
const LEG_MAX: usize = 6400;
/// The weight of words alone beside entries that have both legs.
const UNEMBEDDED: f64 = 0.8;
/// The fit of words that gives half a score, beside vectors and alone. Few texts about other subjects reach it, and
/// few right answers fail to; without vectors as a second opinion more is required.
const HALF_BESIDE: f32 = 0.5;
const HALF_ALONE: f32 = 0.6;

/// The columns that are read of a candidate before it is known to be a hit.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub number: u32,
    pub id: KnowledgeId,
    pub confidence: u8,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub is_superseded: bool,
}

pub(crate) struct Legs {
    /// Scores by the entry's number.
    words: Vec<f32>,
    /// Empty in keyword mode.
    vectors: Vec<Option<f32>>,
    /// `None`: no filter, every entry may be found.
    allowed: Option<Vec<bool>>,
}

impl Legs {
    /// `tags` holds the postings of each required tag; `without` the entries to leave out.
    pub fn new(
        counts: Counts,
        terms: &[Vec<Posting>],
        tags: &[Vec<Posting>],
        without: &[u32],
        cosines: Option<(Vec<Option<f32>>, Calibration)>,
    ) -> Self {
        let size = counts.entries as usize;
        let allowed = (!tags.is_empty() || !without.is_empty()).then(|| {
            let mut allowed = vec![true; size];
            for tag in tags {
                let tagged: HashSet<u32> = tag.iter().map(|posting| posting.entry).collect();
                for (number, allowed) in allowed.iter_mut().enumerate() {
                    // Every tag is required.
                    *allowed &= tagged.contains(&(number as u32));
                }
            }
            for number in without {
                if let Some(allowed) = allowed.get_mut(*number as usize) {
                    *allowed = false;
                }
            }
            allowed
        });
        let vectors = cosines.map_or(Vec::new(), |(cosines, calibration)| {
            let scaled = |cosine: Option<f32>| cosine.map(|cosine| calibration.score(cosine));
            cosines.into_iter().map(scaled).collect()
        });
        let half = if vectors.is_empty() { HALF_ALONE } else { HALF_BESIDE };
        let mut words = index::scores(counts, terms);
        words.iter_mut().for_each(|fit| *fit = bounded(*fit, half));
        Self { words, vectors, allowed }
    }

    /// The numbers of the best entries of each leg.
    pub fn candidates(&self, leg: usize) -> Vec<u32> {
        let mut numbers = self.best(leg, |number| self.words.get(number).copied());
        numbers.extend(self.best(leg, |number| self.vectors.get(number).copied().flatten()));
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    fn best(&self, leg: usize, score: impl Fn(usize) -> Option<f32>) -> Vec<u32> {
        let allowed = |number: usize| self.allowed.as_ref().is_none_or(|a| a[number]);
        let mut found: Vec<(f32, u32)> = (0..self.words.len())
            .filter_map(|number| Some((score(number)?, number as u32)))
            .filter(|(score, number)| *score > 0.0 && allowed(*number as usize))
            .collect();
        // A partial sort: linear in the entries, and candidates need no order among themselves.
        if found.len() > leg {
            found.select_nth_unstable_by(leg, |a, b| b.0.total_cmp(&a.0));
            found.truncate(leg);
        }
        found.into_iter().map(|(_, number)| number).collect()
    }

    pub fn score(&self, number: u32) -> f64 {
        let words = f64::from(self.words.get(number as usize).copied().unwrap_or(0.0));
        if self.vectors.is_empty() {
            return words;
        }
        match self.vectors.get(number as usize).copied().flatten() {
            // An entry without a vector is not taken for one that fits badly: its words alone decide, a little lower.
            Some(vector) => 0.5 * f64::from(vector) + 0.5 * words,
            None => UNEMBEDDED * words,
        }
    }
}

/// Maps a fit, which may exceed 1, to a score below 1 that keeps the order.
/// Linear up to `half`, which scores 0.5; above it the curve nears 1 with the slope that it has there.
fn bounded(fit: f32, half: f32) -> f32 {
    if fit <= half { 0.5 * fit / half } else { 1.0 - 0.5 * (1.0 - fit / half).exp() }
}

impl Calibration {
    fn score(self, cosine: f32) -> f32 {
        ((cosine - self.floor) / self.span).clamp(0.0, 1.0)
    }
}

/// The hits among the candidates, best first; or the larger number of candidates to read.
pub(crate) enum Ranked {
    Hits(Vec<(Candidate, f64)>),
    LookAt(usize),
}

pub(crate) fn first_look() -> usize {
    LEG
}

pub(crate) fn rank(
    legs: &Legs,
    looked_at: usize,
    candidates: Vec<Candidate>,
    query: &KnowledgeQuery,
    now: Timestamp,
) -> Ranked {
    let found = candidates.len();
    let stands = |candidate: &Candidate| {
        (query.include_superseded || !candidate.is_superseded)
            && (query.include_expired || candidate.expires_at.is_none_or(|at| now < at))
    };
    let standing: Vec<Candidate> = candidates.into_iter().filter(stands).collect();
    let filtered = found - standing.len();
    // Filters took candidates away, and entries below them were not looked at: they may be hits.
    if filtered > 0 && standing.len() < LEG && found >= looked_at && looked_at < LEG_MAX {
        return Ranked::LookAt(looked_at * 4);
    }
    let scored = standing.into_iter().map(|candidate| {
        let score = legs.score(candidate.number);
        (candidate, score)
    });
    let mut hits: Vec<(Candidate, f64)> =
        scored.filter(|(_, score)| *score > 0.0 && *score >= query.min_score).collect();
    hits.sort_by(|(a, a_score), (b, b_score)| {
        b_score
            .total_cmp(a_score)
            // Equal scores are common among short entries. The id makes the order total, so pages do not shuffle.
            .then(b.confidence.cmp(&a.confidence))
            .then(b.created_at.cmp(&a.created_at))
            .then(a.id.cmp(&b.id))
    });
    hits.truncate(query.limit);
    Ranked::Hits(hits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_fit_keeps_its_order() {
        for half in [HALF_BESIDE, HALF_ALONE] {
            let scores: Vec<f32> = (0..40).map(|n| bounded(n as f32 / 10.0, half)).collect();
            assert!(scores.is_sorted_by(|a, b| a < b), "{scores:?}");
            assert!(scores.iter().all(|score| (0.0..1.0).contains(score)));
            assert_eq!(bounded(half, half), 0.5);
        }
    }
}
