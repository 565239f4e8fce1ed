//! How a file conflicts: the places at which both sides changed it, read from the file that git wrote with markers.

use std::collections::VecDeque;

/// How many lines are shown around a place.
const CONTEXT: usize = 3;

/// Why one file cannot be merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileConflict {
    pub hunks: Vec<ConflictHunk>,
    /// Git's own message, for a conflict that has no lines: one side deleted the file, or git cannot read it as text.
    pub words: Vec<String>,
}

/// One place at which both sides changed a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConflictHunk {
    pub before: Vec<String>,
    /// The lines of the target.
    pub target: Vec<String>,
    /// The lines of the work.
    pub work: Vec<String>,
    pub after: Vec<String>,
}

/// Where a line of a marked file stands.
enum Side {
    Both,
    Target,
    Work,
}

impl ConflictHunk {
    /// The places in a file that git merged with markers, in the style `merge`. Git puts the commits of both sides behind
    /// the markers, so a line of the file itself that looks like a marker is not taken for one.
    pub fn all_of(marked: &str, target: &str, work: &str) -> Vec<Self> {
        let (mut found, mut side, mut size) = (Vec::<Self>::new(), Side::Both, 0);
        let mut before = VecDeque::new();
        for line in marked.split_terminator('\n') {
            // Git ends its markers as the file ends its lines.
            let plain = line.strip_suffix('\r').unwrap_or(line);
            match side {
                Side::Both => match marker(plain, '<', target) {
                    Some(length) => {
                        let before = before.drain(..).collect();
                        found.push(Self { before, ..Self::default() });
                        (side, size) = (Side::Target, length);
                    }
                    None => {
                        if let Some(hunk) = found.last_mut()
                            && hunk.after.len() < CONTEXT
                        {
                            hunk.after.push(line.to_owned());
                        }
                        if before.len() == CONTEXT {
                            before.pop_front();
                        }
                        before.push_back(line.to_owned());
                    }
                },
                Side::Target if plain.len() == size && plain.bytes().all(|byte| byte == b'=') => {
                    side = Side::Work;
                }
                Side::Work if marker(plain, '>', work) == Some(size) => side = Side::Both,
                Side::Target | Side::Work => {
                    let hunk = found.last_mut().expect("a side begins with its hunk");
                    match side {
                        Side::Target => hunk.target.push(line.to_owned()),
                        _ => hunk.work.push(line.to_owned()),
                    }
                }
            }
        }
        found
    }
}

/// The length of a marker in front of this commit. Behind the commit git names the path of a file that was moved.
fn marker(line: &str, sign: char, commit: &str) -> Option<usize> {
    let label = line.trim_start_matches(sign);
    let length = line.len() - label.len();
    let rest = label.strip_prefix(' ')?.strip_prefix(commit)?;
    (length > 0 && (rest.is_empty() || rest.starts_with(':'))).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::ConflictHunk;

    /// Each place as `before | target | work | after`, lines divided by a space. A space of a line is written `_`.
    fn places(marked: &str) -> Vec<String> {
        let lines = |lines: &[String]| lines.join("\n").replace(' ', "_").replace('\n', " ");
        let shown = |hunk: &ConflictHunk| {
            [&hunk.before, &hunk.target, &hunk.work, &hunk.after].map(|part| lines(part)).join("|")
        };
        ConflictHunk::all_of(&marked.replace(' ', "\n").replace('_', " "), "aa", "bb")
            .iter()
            .map(shown)
            .collect()
    }

    #[test]
    fn places_of_a_marked_file() {
        for (marked, wanted) in [
            ("", vec![]),
            ("1 2 3", vec![]),
            ("1 2 3 4 <<<<<<<_aa x ======= y z >>>>>>>_bb 5 6 7 8", vec!["2 3 4|x|y z|5 6 7"]),
            // One side is empty.
            ("<<<<<<<_aa ======= y >>>>>>>_bb", vec!["||y|"]),
            ("<<<<<<<_aa x ======= >>>>>>>_bb", vec!["|x||"]),
            // Two places share the lines between them.
            (
                "<<<<<<<_aa 1 ======= 2 >>>>>>>_bb - <<<<<<<_aa 3 ======= 4 >>>>>>>_bb",
                vec!["|1|2|-", "-|3|4|"],
            ),
            // A moved file has its path behind the commit, and an attribute can make markers longer.
            ("<<<<<<<<<_aa:old.txt x ========= y >>>>>>>>>_bb:new.txt", vec!["|x|y|"]),
            // Lines of the file itself that look like markers.
            ("<<<<<<<_HEAD x ======= y >>>>>>>_other", vec![]),
            (
                "<<<<<<<_aa <<<<<<<_HEAD ===== ======= >>>>>>>_other >>>>>_bb >>>>>>>_bb",
                vec!["|<<<<<<<_HEAD =====|>>>>>>>_other >>>>>_bb|"],
            ),
            ("<<<<<<<_aardvark x", vec![]),
            // A file that ends within a place.
            ("<<<<<<<_aa x ======= y", vec!["|x|y|"]),
        ] {
            assert_eq!(places(marked), wanted, "{marked}");
        }
    }
}
