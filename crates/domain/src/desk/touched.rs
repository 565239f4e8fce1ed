//! The rows that a store writes back: each once, in the state it has on the desk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::actor::Actor;
use crate::board::plan::PlanId;
use crate::board::settings::SettingKey;
use crate::crew::{AgentId, Decision, MailId};
use crate::ids::{AttemptId, TaskId};
use crate::knowledge::{EdgeKind, KnowledgeEntry, KnowledgeId};
use crate::pulls::Pull;
use crate::review::{ReviewCommentId, SentComment};
use crate::runs::delivery::{Delivery, Tried};
use crate::runs::job::JobId;
use crate::task::Entry;
use crate::task::comment::CommentId;

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
    /// New files with their content: artifacts of runs.
    pub files_new: Vec<(String, Arc<[u8]>)>,
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
    pub org: OrgTouched,
    pub crew: CrewTouched,
}

/// The changed rows of `OrgRows`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OrgTouched {
    pub settings: BTreeSet<SettingKey>,
    pub projects_new: BTreeSet<i64>,
    pub projects_opened: BTreeSet<i64>,
    pub repos_new: BTreeSet<i64>,
    /// Actors that opened a project.
    pub opened: BTreeSet<Actor>,
    pub plans_new: BTreeSet<PlanId>,
    pub plans: BTreeSet<PlanId>,
}

/// The changed rows of a crew. An agent may be removed and added again in one batch, so the removed ones go first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CrewTouched {
    pub agents_gone: BTreeSet<AgentId>,
    pub agents_new: BTreeSet<AgentId>,
    pub agents: BTreeSet<AgentId>,
    pub mails_new: BTreeSet<MailId>,
    pub mails_read: BTreeSet<MailId>,
    /// New lines in the log of decisions, which no rule reads.
    pub decisions: Vec<Decision>,
}

impl OrgTouched {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl CrewTouched {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
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
