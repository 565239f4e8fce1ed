//! Which commit changed lines that a reviewer commented on. Git follows each line forward from the commit that the
//! reviewer saw (`git blame --reverse`); the commit after the last one that still has the line is the answer.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use callboard_engine::ports::{Worktree, WorktreeFault};

use super::changes::{is_commit, is_commit_id};
use super::{is_ancestor, text};
use crate::guarded::AgentTree;

/// A reader of a page does not wait longer.
const TIME_MAX: Duration = Duration::from_secs(5);

pub(super) async fn lines_changed_in(
    worktree: &Worktree,
    since: &str,
    path: &str,
    lines: RangeInclusive<u32>,
) -> Result<Option<String>, WorktreeFault> {
    if !is_commit_id(since) {
        return Ok(None);
    }
    let tree = AgentTree::to_look_at(worktree).await?;
    let head = tree.head().await?;
    // After a rebase git cannot follow a line from one branch to the other.
    if !is_commit(tree.git(), since).await? || !is_ancestor(&worktree.repo, since, &head).await? {
        return Ok(None);
    }
    let git = || tree.git().within(TIME_MAX).with("GIT_LITERAL_PATHSPECS", "1");
    let (range, span) = (format!("{since}..{head}"), format!("{},{}", lines.start(), lines.end()));
    let blame =
        ["blame", "--reverse", "--first-parent", "--porcelain", "-L", &span, &range, "--", path];
    let blamed = git().answer(&blame).await?;
    // A file or a line that the commit does not have is answered by no commit.
    if blamed.code != 0 {
        return Ok(None);
    }
    let list = ["rev-list", "--reverse", "--first-parent", &range];
    let commits = text(&git().ask(&list).await?);
    let commits: Vec<&str> = commits.lines().collect();
    Ok(newest_change(since, &commits, &text(&blamed.stdout)).map(str::to_owned))
}

/// The newest commit that changed one of the blamed lines; `commits` come after `since`, the oldest first.
fn newest_change<'c>(since: &str, commits: &[&'c str], blamed: &str) -> Option<&'c str> {
    let places = commits.iter().enumerate().map(|(index, commit)| (*commit, index + 1));
    let places: HashMap<&str, usize> = places.chain([(since, 0)]).collect();
    let last_seen = blamed.lines().filter_map(|line| {
        let (id, _) = line.split_once(' ')?;
        places.get(id)
    });
    let after = last_seen.filter_map(|place| commits.get(*place).map(|commit| (place, *commit)));
    after.max_by_key(|(place, _)| **place).map(|(_, commit)| commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_changed_by_the_commit_after_the_last_that_has_it() {
        let commits = ["b1", "c2", "d3"];
        for (blamed, commit) in [
            ("", None),
            ("d3 4 3 1\nauthor x\n\tb1 9 9 1", None),
            ("a0 2 2 1\nboundary\n\ttext\nd3 4 3 1", Some("b1")),
            ("a0 2 2 1\nc2 4 3 1\nb1 5 5 1", Some("d3")),
            ("f9 2 2 1", None),
        ] {
            assert_eq!(newest_change("a0", &commits, blamed), commit, "{blamed:?}");
        }
    }
}
