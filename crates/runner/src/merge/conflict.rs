//! How one file conflicts. Git merges into a folder of its own, so the repository gets no objects.

use callboard_domain::review::conflict::{ConflictHunk, FileConflict};
use callboard_engine::ports::{MergeFault, WorktreeFault};

use super::Sides;
use crate::git::Git;
use crate::worktree::text;

/// How `file` conflicts; without hunks and words if it does not.
pub(super) async fn conflict(sides: &Sides<'_>, file: &str) -> Result<FileConflict, MergeFault> {
    if sides.is_settled() {
        return Ok(FileConflict::default());
    }
    let scratch = sides.scratch().await?;
    let git = scratch.used_by(Git::at(sides.repo)).set("merge.conflictStyle=merge");
    let found = of_file(git, sides, file).await;
    scratch.close().await.map_err(WorktreeFault::from)?;
    Ok(found?)
}

async fn of_file(
    git: Git<'_>,
    sides: &Sides<'_>,
    file: &str,
) -> Result<FileConflict, WorktreeFault> {
    let git = git.patiently();
    let answer = git.answer(&sides.merge_tree("--messages")).await?;
    let merged = match answer.code {
        0 => return Ok(FileConflict::default()),
        1 => Merged::of(&answer.stdout),
        _ => return Err(WorktreeFault::Failed(answer.complaint)),
    };
    if !merged.files.iter().any(|known| known == file) {
        return Ok(FileConflict::default());
    }
    // The tree has no such file where the side without it won. A file that is no text has no markers.
    let blob = git.answer(&["cat-file", "blob", &format!("{}:{file}", merged.tree)]).await?;
    let marked = text(&blob.stdout);
    let hunks = ConflictHunk::all_of(&marked, &sides.onto, &sides.head);
    let words = match hunks.is_empty() {
        true => merged.words_on(file, sides),
        false => Vec::new(),
    };
    Ok(FileConflict { hunks, words })
}

/// The answer of `git merge-tree -z --name-only --messages` to a merge with conflicts: the tree, the files, an empty
/// field, then the messages. A message is the number of its paths, the paths, its kind and its words.
struct Merged {
    tree: String,
    files: Vec<String>,
    messages: Vec<Message>,
}

struct Message {
    paths: Vec<String>,
    kind: String,
    words: String,
}

impl Merged {
    fn of(answer: &[u8]) -> Self {
        let mut fields = answer
            .split(|byte| *byte == 0)
            .map(|field| String::from_utf8_lossy(field).into_owned());
        let tree = fields.next().unwrap_or_default();
        let files = fields.by_ref().take_while(|field| !field.is_empty()).collect();
        let mut messages = Vec::new();
        while let Some(count) = fields.next().and_then(|count| count.trim().parse::<usize>().ok()) {
            let paths = fields.by_ref().take(count).collect();
            let (Some(kind), Some(words)) = (fields.next(), fields.next()) else { break };
            messages.push(Message { paths, kind, words });
        }
        Self { tree, files, messages }
    }

    /// Git's words about the conflicts of a file, with names in the place of the commits.
    fn words_on(&self, file: &str, sides: &Sides<'_>) -> Vec<String> {
        let about = self.messages.iter().filter(|message| {
            message.kind.starts_with("CONFLICT") && message.paths.iter().any(|path| path == file)
        });
        let named = |words: &str| {
            words.trim().replace(&sides.onto, sides.target).replace(&sides.head, "the work")
        };
        about.map(|message| named(&message.words)).collect()
    }
}
