//! The changes of a task, for its reviewers. The answer is bounded: a large change is shown in part and says so.

use callboard_domain::ids::TaskId;
use callboard_engine::WorkspaceDiff;
use serde_json::{Value, json};

/// How many files are named; all of them are counted.
const FILES_MAX: usize = 500;
/// How much of the diff is shown, up to a whole line.
const DIFF_BYTES_MAX: usize = 64 * 1024;

/// The change of a task over all of its repositories. Paths carry the repository's name only if there are several.
pub(super) fn shown(task: TaskId, diffs: &[WorkspaceDiff]) -> Value {
    let several = diffs.len() > 1;
    let (mut files, mut text) = (Vec::new(), String::new());
    let (mut count, mut insertions, mut deletions) = (0, 0, 0);
    for WorkspaceDiff { name, diff, .. } in diffs {
        for file in &diff.files {
            // A binary file has no lines; it counts as a file, and its numbers are `null`.
            let (added, removed) = file.lines.unwrap_or_default();
            (count, insertions, deletions) = (count + 1, insertions + added, deletions + removed);
            if files.len() < FILES_MAX {
                let below = if several { format!("{name}/") } else { String::new() };
                files.push(json!({
                    "path": format!("{below}{}", file.path),
                    "insertions": file.lines.map(|(added, _)| added),
                    "deletions": file.lines.map(|(_, removed)| removed),
                }));
            }
        }
        text.push_str(diff.patch.as_deref().unwrap_or_default());
    }
    let whole = text.len();
    let diff = cut(&text);
    json!({
        "taskId": task,
        "targetBranch": diffs.first().map(|first| &first.part.target),
        "files": files,
        "fileCount": count,
        "insertions": insertions,
        "deletions": deletions,
        "diff": diff,
        "diffBytes": whole,
        "truncated": diff.len() < whole || files.len() < count,
    })
}

/// As many whole lines as fit.
fn cut(text: &str) -> &str {
    if text.len() <= DIFF_BYTES_MAX {
        return text;
    }
    let room = &text.as_bytes()[..DIFF_BYTES_MAX];
    let end = room.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    // A line break is a whole character, so this is a character boundary.
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_diff_ends_with_a_whole_line() {
        assert_eq!(cut("+a\n"), "+a\n");
        let long = "+é é é\n".repeat(20_000);
        let shown = cut(&long);
        assert!(shown.len() <= DIFF_BYTES_MAX && shown.len() > DIFF_BYTES_MAX - 20);
        assert!(shown.ends_with("é\n") && long.starts_with(shown));
        assert_eq!(cut(&"x".repeat(DIFF_BYTES_MAX + 1)), "");
    }
}
