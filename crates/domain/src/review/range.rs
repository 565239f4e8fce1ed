//! The part of the work between two of its commits, as a reader names it: `3f2a1c9..8b1d2e0`.

use crate::refusal::Refusal;

/// The shortest beginning of an id that names a commit.
const ID_CHARS_MIN: usize = 4;
const ID_CHARS_MAX: usize = 64;

/// Two commits, each by its id or the beginning of it. Holds nothing but lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRange {
    pub from: String,
    pub to: String,
}

impl CommitRange {
    /// Reads `A..B`.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_id = |id: &str| {
            let digits = id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            digits && (ID_CHARS_MIN..=ID_CHARS_MAX).contains(&id.len())
        };
        match text.split_once("..") {
            Some((from, to)) if is_id(from) && is_id(to) => {
                Ok(Self { from: from.to_owned(), to: to.to_owned() })
            }
            _ => Err(bad("range must be A..B, two commits of the work by 4 to 64 hex digits each")),
        }
    }

    /// The whole ids of both ends among the commits of the work, which are the newest first. Commits that are not of
    /// the work are refused, and so is a range that goes back in time.
    pub fn within<'c>(&self, commits: &'c [String]) -> Result<(&'c str, &'c str), Refusal> {
        let place = |end: &str| {
            let mut fits = (0..).zip(commits).filter(|(_, id)| id.starts_with(end));
            match (fits.next(), fits.next()) {
                (Some((place, id)), None) => Ok((place, id.as_str())),
                (Some(_), Some(_)) => {
                    Err(bad(format!("several commits of the work begin with {end}")))
                }
                (None, _) => Err(bad(format!("{end} is no commit of this work"))),
            }
        };
        let (from, to): ((usize, &str), (usize, &str)) = (place(&self.from)?, place(&self.to)?);
        if from.0 <= to.0 {
            let words = format!("{} does not come before {}", self.from, self.to);
            return Err(bad(words));
        }
        Ok((from.1, to.1))
    }
}

impl std::fmt::Display for CommitRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}..{}", self.from, self.to)
    }
}

fn bad(words: impl Into<String>) -> Refusal {
    Refusal::invalid_field("range", words.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_two_commits_by_hex_digits() {
        for (text, wanted) in [
            ("3f2a..8b1d2e0", Some(("3f2a", "8b1d2e0"))),
            ("3f2..8b1d", None),
            ("3f2a...8b1d", None),
            ("3F2A..8b1d", None),
            ("3f2a..", None),
            ("..8b1d", None),
            ("3f2a", None),
            ("", None),
            ("--output=x..8b1d", None),
            ("main..HEAD", None),
            ("3f2a..8b1d;id", None),
            ("3f2a ..8b1d", None),
            ("3f2a..8b1d\n", None),
        ] {
            let found = CommitRange::parse(text).ok();
            let found = found.as_ref().map(|range| (range.from.as_str(), range.to.as_str()));
            assert_eq!(found, wanted, "{text:?}");
        }
        let long = "a".repeat(65);
        assert!(CommitRange::parse(&format!("{long}..3f2a")).is_err(), "longer than an id");
    }

    #[test]
    fn both_ends_are_commits_of_the_work_in_their_order() {
        // The newest first, the commit at which the work begins last.
        let commits = ["ccc1", "ccc2", "bbbb", "aaaa"].map(|id| id.repeat(10));
        for (range, wanted) in [
            ("aaaa..ccc1", Ok((3, 0))),
            ("bbbb..ccc2", Ok((2, 1))),
            ("ccc1..aaaa", Err("ccc1 does not come before aaaa")),
            ("aaaa..aaaa", Err("aaaa does not come before aaaa")),
            ("dddd..ccc1", Err("dddd is no commit of this work")),
            ("aaaa..dddd", Err("dddd is no commit of this work")),
        ] {
            let range = CommitRange::parse(range).expect("a range");
            let found = range.within(&commits).map_err(|refusal| refusal.message());
            let wanted = wanted
                .map(|(from, to): (usize, usize)| (commits[from].as_str(), commits[to].as_str()));
            assert_eq!(found, wanted.map_err(str::to_owned), "{range}");
        }
        let alike = ["ccc1".repeat(10), format!("ccc1{}", "0".repeat(36)), "aaaa".repeat(10)];
        let range = CommitRange::parse("aaaa..ccc1").expect("a range");
        assert!(range.within(&alike).is_err(), "two commits begin alike");
    }
}
