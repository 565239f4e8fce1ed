//! The rows that a store writes back: each once, in the state it has on the desk.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{AttemptId, TaskId};
use crate::knowledge::{EdgeKind, KnowledgeEntry, KnowledgeId};
use crate::pulls::Pull;
use crate::review::{ReviewCommentId, SentComment};
use crate::runs::delivery::{Delivery, Tried};
use crate::runs::job::JobId;
use crate::task::Entry;
use crate::task::comment::CommentId;
use crate::world::{CrewWrite, OrgWrite};

/// The task and the number of a line of history.
pub type EntryKey = (TaskId, u32);

#[derive(Clone, Debug, Default)]
pub struct Touched {
    pub tasks_new: BTreeSet<TaskId>,
    pub tasks: BTreeSet<TaskId>,
    /// The part of `tasks` in which more changed than `Task::only_moves_to` covers.
    pub tasks_edited: BTreeSet<TaskId>,
    /// Tasks in `Rows::dependents` whose number of open deps changed.
    pub open_deps: BTreeSet<TaskId>,
    pub bodies: BTreeSet<TaskId>,
    pub cards: BTreeSet<TaskId>,
    pub scratchpads: BTreeSet<TaskId>,
    /// New edges (task, dep) with their position.
    pub deps_new: BTreeMap<(TaskId, TaskId), i32>,
    pub deps_gone: BTreeSet<(TaskId, TaskId)>,
    pub attempts_new: BTreeSet<AttemptId>,
    pub attempts: BTreeSet<AttemptId>,
    pub outputs: BTreeMap<AttemptId, String>,
    pub comments_new: BTreeSet<CommentId>,
    pub comments: BTreeSet<CommentId>,
    pub jobs_new: BTreeSet<JobId>,
    pub jobs: BTreeSet<JobId>,
    /// Jobs to insert, or to queue again where the store has them.
    pub jobs_put: BTreeSet<JobId>,
    /// New runs with their task.
    pub runs_new: BTreeMap<JobId, TaskId>,
    pub runs: BTreeSet<JobId>,
    pub deliveries_new: Vec<Delivery>,
    pub deliveries_tried: BTreeMap<JobId, Tried>,
    /// Pull requests to insert or to update, each once.
    pub pulls: Vec<Pull>,
    pub comments_sent: Vec<SentComment>,
    /// Drafts that were sent.
    pub drafts_gone: BTreeSet<ReviewCommentId>,
    /// Removed tasks, whose drafts, viewed files and looks go too.
    pub reviews_gone: BTreeSet<TaskId>,
    pub entries: BTreeMap<EntryKey, (Entry, Option<AttemptId>)>,
    /// The part of `entries` that replaces a stored line.
    pub entries_again: BTreeSet<EntryKey>,
    pub knowledge_new: Vec<KnowledgeEntry>,
    pub edges: Vec<(TaskId, KnowledgeId, EdgeKind)>,
    /// Entries with the entry that supersedes each.
    pub superseded: Vec<(KnowledgeId, KnowledgeId)>,
    /// In the order of the commands.
    pub org: Vec<OrgWrite>,
    pub crew: Vec<CrewWrite>,
}

impl Touched {
    /// Whether rows of reviews changed.
    pub fn has_reviews(&self) -> bool {
        !(self.comments_sent.is_empty()
            && self.drafts_gone.is_empty()
            && self.reviews_gone.is_empty())
    }

    /// Tasks that the store has, of which any column may have changed.
    pub fn tasks_edited(&self) -> impl Iterator<Item = &TaskId> {
        self.tasks_edited.difference(&self.tasks_new)
    }

    /// Tasks that the store has, of which only the columns of `Task::only_moves_to` changed.
    pub fn tasks_moved(&self) -> impl Iterator<Item = &TaskId> {
        let known = self.tasks.difference(&self.tasks_new);
        known.filter(|id| !self.tasks_edited.contains(*id))
    }
}
