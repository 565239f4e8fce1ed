//! Randomness that can be repeated: everything a test chooses comes from one number, the seed of its round. The tests
//! with random input for the whole program use this file too.

use std::ops::Range;

/// The first seed of a run; a failed round prints its own.
const SEED: &str = "CALLBOARD_PROOF_SEED";
/// How many times longer than usual the tests run.
const TIMES: &str = "CALLBOARD_PROOF_TIMES";

/// SplitMix64: ten lines, the same numbers everywhere.
pub struct Rng(u64);

impl Rng {
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 for an empty range.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub fn name(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The seeds of a test's rounds. A given seed is the only round, unless a number of times is given, too.
pub fn seeds(rounds: u64) -> Range<u64> {
    match (number(SEED), number(TIMES)) {
        (None, None) => 1..1 + rounds,
        (None, Some(times)) => 1..1 + rounds * times,
        (Some(seed), None) => seed..seed + 1,
        (Some(seed), Some(times)) => seed..seed + rounds * times,
    }
}

/// Whether the seeds are those of a usual run.
pub fn is_usual() -> bool {
    number(SEED).is_none()
}

/// Says how to repeat a round that fails.
pub struct Round(pub u64);

impl Drop for Round {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or_default();
            let seed = self.0;
            let (package, binary) = (env!("CARGO_PKG_NAME"), env!("CARGO_CRATE_NAME"));
            eprintln!(
                "failed with seed {seed}; repeat it with \
                 {SEED}={seed} cargo test -p {package} --test {binary} {test}"
            );
        }
    }
}
