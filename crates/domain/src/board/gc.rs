//! Which worktrees and branches can go, and why the others stay. A pure rule: the engine finds the facts and git
//! removes. A fact that is not known keeps the worktree.

use crate::words::words;

/// The facts about a worktree, or about a branch of ours without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeFacts {
    pub task: OwnerTask,
    /// An actor holds the task, or an agent's run on it is open.
    pub is_live: bool,
    pub work: WorkFact,
}

/// The task that a worktree was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerTask {
    Open,
    Closed,
    /// The task was removed, or belongs to another board.
    Unknown,
}

/// The work that would be lost without the worktree and its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkFact {
    /// The target has all of it.
    Merged,
    /// So many files are in no commit; ignored files do not count.
    Uncommitted(usize),
    /// There is another repository in this folder of the worktree, whose commits may stand nowhere else.
    Nested(String),
    /// The branch has commits whose changes the target lacks.
    Unmerged { target: String },
    /// A rebase is under way, or the worktree is locked, or stands on another branch.
    Busy(String),
    /// Git does not know the folder, or fails.
    Unreadable(String),
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum GcVerdict {
        Remove => "remove",
        Keep => "keep",
    }
}

/// The verdict on a worktree, with its reason in words.
pub fn judge(facts: &WorktreeFacts) -> (GcVerdict, String) {
    let keep = |reason: String| (GcVerdict::Keep, reason);
    if facts.is_live {
        return keep("an actor works on its task".into());
    }
    match &facts.work {
        WorkFact::Unreadable(words) | WorkFact::Busy(words) => return keep(words.clone()),
        WorkFact::Uncommitted(1) => return keep("1 file is not committed".into()),
        WorkFact::Uncommitted(files) => return keep(format!("{files} files are not committed")),
        WorkFact::Nested(folder) => return keep(format!("it holds the repository {folder}")),
        WorkFact::Unmerged { target } => {
            return keep(format!("it has commits that {target} lacks"));
        }
        WorkFact::Merged => {}
    }
    match facts.task {
        OwnerTask::Open => keep("its task is open".into()),
        OwnerTask::Closed => {
            (GcVerdict::Remove, "its task is closed, and all of its work is merged".into())
        }
        // Another board may have it, with an actor at work there.
        OwnerTask::Unknown => keep("no task of this board has it".into()),
    }
}
