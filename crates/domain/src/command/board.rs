//! Commands of the board: cards and their reviews, sessions, settings, projects, plans.

use std::path::PathBuf;

use serde_json::Value;

use super::{Checked, NewCheck};
use crate::actor::Actor;
use crate::board::card::{Mode, Terminal};
use crate::board::edit::EditMark;
use crate::board::plan::{PlanId, PlannedTask, Todo};
use crate::board::settings::{BoardSettings, SettingKey};
use crate::ids::{AttemptId, TaskId};
use crate::policy::Phase;
use crate::review::mark::ReviewMark;
use crate::review::{ReviewComment, ReviewCommentId};

#[derive(Clone, Debug, PartialEq)]
pub struct SettingsUpdate {
    /// The settings without stored changes.
    pub base: BoardSettings,
    /// The executors that exist.
    pub agents: Vec<String>,
    pub set: Vec<(SettingKey, Value)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectCreate {
    pub name: String,
    pub description: String,
    /// The machine of the repositories.
    pub machine: String,
    /// The first is the primary one.
    pub repos: Vec<NewRepo>,
}

/// A repository that the caller has inspected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRepo {
    pub path: PathBuf,
    pub default_branch: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPropose {
    pub plan: PlanId,
    pub tasks: Vec<PlannedTask>,
    pub todos: Vec<Todo>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanApprove {
    pub plan: PlanId,
    pub project: i64,
    /// An id for each task of the plan.
    pub tasks: Vec<TaskId>,
}

/// An update of a card: `None` leaves a field as it is; `Some(None)` and empty texts clear it.
#[derive(Clone, Debug, PartialEq)]
pub struct CardUpdate {
    pub task: TaskId,
    pub title: Option<String>,
    pub body: Option<String>,
    pub priority: Option<u16>,
    pub mode: Option<Mode>,
    pub criteria: Option<Vec<String>>,
    pub terminal: Option<Option<Terminal>>,
    pub agent: Option<String>,
    pub base_branch: Option<String>,
    pub parent: Option<Option<TaskId>>,
    pub project: Option<i64>,
    /// The whole list; each check starts as pending.
    pub checks: Option<Vec<NewCheck>>,
    /// The fields as the caller saw them; `None` updates whatever stands.
    pub shown: Option<EditMark>,
    pub to: Option<Phase>,
    pub checked: Option<Checked>,
    /// As in `TaskTransition`.
    pub work: Option<String>,
}

impl CardUpdate {
    /// An update that changes nothing yet.
    pub fn of(task: TaskId) -> Self {
        Self {
            task,
            title: None,
            body: None,
            priority: None,
            mode: None,
            criteria: None,
            terminal: None,
            agent: None,
            base_branch: None,
            parent: None,
            project: None,
            checks: None,
            shown: None,
            to: None,
            checked: None,
            work: None,
        }
    }

    /// The names of the given fields that a mark can tell.
    pub fn edited(&self) -> Vec<&'static str> {
        let given = [
            (self.title.is_some(), "title"),
            (self.body.is_some(), "body"),
            (self.priority.is_some(), "priority"),
            (self.checks.is_some(), "checks"),
            (self.mode.is_some(), "mode"),
            (self.criteria.is_some(), "criteria"),
            (self.agent.is_some(), "agent"),
            (self.base_branch.is_some(), "base_branch"),
            (self.parent.is_some(), "parent"),
        ];
        given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| name).collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReviewDecide {
    pub task: TaskId,
    pub verdict: ReviewVerdict,
    pub feedback: String,
    pub checked: Option<Checked>,
    /// As in `TaskTransition`; the files that an approval is given for.
    pub work: Option<String>,
    pub sends: ReviewSends,
    /// The review as the reviewer saw it.
    pub seen: ReviewMark,
}

/// The comments that a rejection sends, besides the reviewer's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewSends {
    pub comments: Vec<(ReviewCommentId, ReviewComment)>,
    /// Also sends every draft of the actor on the task.
    pub drafts: bool,
    /// The commit that the reviewer saw.
    pub head: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVerdict {
    /// Unmerged work stays in review. A contract accepts the approval of a reviewer; of other actors only a
    /// human's.
    Approve { unmerged: bool, as_reviewer: bool },
    /// Back to the actor that works on it, or to the start.
    Reject { to: Phase },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewSettle {
    pub task: TaskId,
    pub outcome: ReviewOutcome,
    /// For the task's history.
    pub words: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewOutcome {
    /// Without a commit there was nothing to merge.
    Merged {
        commit: Option<String>,
        pushed: Option<bool>,
        /// One per repository.
        branches: Vec<MergedBranch>,
    },
    /// `files` are in conflict.
    MergeFailed {
        files: Vec<String>,
    },
    Rebased,
    /// The task goes back to the actor that works on it.
    RebaseConflict {
        files: Vec<String>,
    },
    RebaseFailed,
}

/// A branch whose work is in its target now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedBranch {
    /// The path of its repository.
    pub repo: String,
    pub branch: String,
    pub commit: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionBegin {
    pub attempt: AttemptId,
    pub task: TaskId,
    /// The agent that works there; never the caller.
    pub agent: Actor,
    pub worktree: Option<String>,
    pub branch: Option<String>,
}
