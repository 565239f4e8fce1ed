//! A task, its checks, and the facts about its neighbours.

pub mod attempt;
pub mod block;
pub mod comment;
pub mod contract;
pub mod goal;
pub mod graph;
pub mod standing;
pub mod watch;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::ids::{AttemptId, TaskId, TaskName};
use crate::policy::Phase;
use crate::task::attempt::Attempt;
use crate::task::block::Blocked;
use crate::task::contract::{Verification, VerificationContract};
use crate::time::Timestamp;

pub const PRIORITY_DEFAULT: u16 = 500;
pub const PRIORITY_MAX: u16 = 1000;

/// A task's row. Prose (`body`) is kept apart: no rule reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    /// Counts the tasks of an org with this id's prefix, from 1. A number is never given twice. 0 in answers that
    /// were kept for a repeated call before tasks had numbers.
    #[serde(default)]
    pub number: u32,
    pub project: i64,
    /// The name of the task in the backlog that it was imported from, such as `github:acme/shop#7`. No two tasks of a
    /// project share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    pub title: String,
    /// The configured word, and the phase it had when it was written.
    pub label: String,
    pub phase: Phase,
    /// Since when the task is in that phase, whatever else changed meanwhile.
    pub phase_at: Timestamp,
    /// 0..=1000, smaller first.
    pub priority: u16,
    pub assignee: Option<Actor>,
    pub parent: Option<TaskId>,
    /// A plan or epic: never offered or leased as work.
    pub is_plan: bool,
    pub checks: Vec<Check>,
    /// The explicit contract; `None` derives one from the checks.
    pub contract: Option<VerificationContract>,
    /// Set once the task was completed.
    pub verification: Option<Verification>,
    /// Why the task is stuck, until it gets an answer.
    pub blocked: Option<Blocked>,
    /// Unresolved blocker comments.
    pub open_blockers: u32,
    /// Deps that are not closed; maintained in the transaction that closes or reopens them.
    pub open_deps: u32,
    /// The highest fencing token given to an attempt so far.
    pub fence: u64,
    /// The attempt with that token.
    pub newest_attempt: Option<AttemptId>,
    pub entries: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Task {
    /// The short name for people.
    pub fn name(&self) -> TaskName {
        TaskName { prefix: self.id.prefix, number: self.number }
    }

    /// Whether `after` differs at most in the columns that most commands change. A column that is added later must be
    /// put on one of the two sides here.
    pub fn only_moves_to(&self, after: &Self) -> bool {
        let Self {
            id,
            number,
            project,
            title,
            priority,
            parent,
            is_plan,
            checks,
            contract,
            verification,
            blocked,
            open_blockers,
            reference,
            created_at,
            // The columns that may differ.
            label: _,
            phase: _,
            phase_at: _,
            assignee: _,
            open_deps: _,
            fence: _,
            newest_attempt: _,
            entries: _,
            updated_at: _,
        } = self;
        *id == after.id
            && *number == after.number
            && *project == after.project
            && *title == after.title
            && *priority == after.priority
            && *parent == after.parent
            && *is_plan == after.is_plan
            && *checks == after.checks
            && *contract == after.contract
            && *verification == after.verification
            && *blocked == after.blocked
            && *open_blockers == after.open_blockers
            && *reference == after.reference
            && *created_at == after.created_at
    }

    /// Whether the task can start: every dep is closed and it is not blocked.
    pub fn is_ready(&self) -> bool {
        self.open_deps == 0 && self.blocked.is_none()
    }

    /// Whether the files decide which passes count. A closed task keeps the results it was closed with: later work
    /// on the files is not its own.
    pub fn passes_depend_on_files(&self) -> bool {
        !self.phase.is_closed() && self.checks.iter().any(Check::is_pass)
    }

    /// Marks the passes that were given for other files than `tree` (of commands) and `work` (of
    /// attestations). Where the files are not known, a result stays as it was recorded.
    pub fn judge_passes(&mut self, tree: Option<&str>, work: Option<&str>) {
        if self.phase.is_closed() {
            return;
        }
        for check in &mut self.checks {
            let known = if check.is_command() { tree } else { work };
            check.is_stale = known.is_some() && check.is_pass() && !check.passes_for(tree, work);
        }
    }

    /// Whether an approval still holds: the files are those it was given for. Where no files can be seen, an
    /// approval counts until the task moves.
    pub fn is_as_approved(&self, at: Timestamp, tree: Option<&str>, work: Option<&str>) -> bool {
        match (tree, work) {
            (None, None) => at >= self.phase_at,
            (tree, work) => tree == work,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub desc: String,
    pub kind: CheckKind,
    /// `None` while pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Set by readers that looked at the files: the pass was given for other files. Never written.
    #[serde(skip)]
    pub is_stale: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    Command {
        cmd: String,
        cwd: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_s: Option<u32>,
    },
    Manual,
}

/// The result of a check that was run or attested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub pass: bool,
    pub at: Timestamp,
    /// The state of the files that were judged; `None` outside git.
    pub tree: Option<String>,
    pub source: VerdictSource,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictSource {
    Run {
        exit_code: Option<i32>,
        log: String,
        /// How long the command ran; runs that older servers recorded have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_ms: Option<u64>,
    },
    Attested {
        by: Actor,
    },
}

impl Verdict {
    /// How long the command of the check ran.
    pub fn took_ms(&self) -> Option<u64> {
        match self.source {
            VerdictSource::Run { took_ms, .. } => took_ms,
            VerdictSource::Attested { .. } => None,
        }
    }
}

impl Check {
    pub fn is_command(&self) -> bool {
        match self.kind {
            CheckKind::Command { .. } => true,
            CheckKind::Manual => false,
        }
    }

    pub fn result(&self) -> &'static str {
        match &self.verdict {
            None => "pending",
            Some(verdict) if verdict.pass && self.is_stale => "stale",
            Some(verdict) if verdict.pass => "pass",
            Some(_) => "fail",
        }
    }

    pub fn is_pass(&self) -> bool {
        self.verdict.as_ref().is_some_and(|verdict| verdict.pass)
    }

    /// Whether the result belongs to these files, so that another run would find nothing new. Outside git only a
    /// pass is trusted.
    pub fn is_known_for(&self, tree: Option<&str>) -> bool {
        match (&self.verdict, tree) {
            (None, _) => false,
            (Some(verdict), None) => verdict.pass,
            (Some(verdict), tree) => verdict.tree.as_deref() == tree,
        }
    }

    /// Whether the check passes for these files. A command's pass belongs to the tree it ran on; outside git
    /// (`tree` is `None`) it is trusted. An attestation belongs to the task's own files as they were (`work`).
    pub fn passes_for(&self, tree: Option<&str>, work: Option<&str>) -> bool {
        let Some(verdict) = self.verdict.as_ref().filter(|v| v.pass) else { return false };
        match self.kind {
            CheckKind::Manual => verdict.tree.as_deref() == work,
            CheckKind::Command { .. } => tree.is_none() || verdict.tree.as_deref() == tree,
        }
    }

    /// Whether both checks have one definition, whatever their results are.
    pub fn same_definition(&self, other: &Self) -> bool {
        self.desc == other.desc && self.kind == other.kind
    }
}

/// A dep as seen from its dependent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dep {
    pub id: TaskId,
    pub label: String,
    pub phase: Phase,
    /// A removed dep counts as closed.
    pub removed: bool,
    /// When the lease on it ends, according to the stored row.
    pub lease_expires_at: Option<Timestamp>,
}

impl Dep {
    pub fn is_open(&self) -> bool {
        !self.removed && !self.phase.is_closed()
    }
}

/// A task that depends on the subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependent {
    pub id: TaskId,
    pub project: i64,
    pub open_deps: u32,
    pub phase: Phase,
}

/// One line of a task's visible history: exactly one per write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub who: Actor,
    pub at: Timestamp,
    pub did: String,
    pub text: Option<String>,
}

/// A task as the single read shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    pub task: Task,
    pub body: String,
    pub execution_contract: Option<String>,
    /// Includes removed deps; views leave them out.
    pub deps: Vec<Dep>,
    /// The newest entries, oldest first; `task.entries` counts all of them.
    pub entries: Vec<Entry>,
    pub newest: Option<Attempt>,
}

/// A task as lists show it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    pub task: Task,
    pub deps: Vec<TaskId>,
    pub newest: Option<Attempt>,
}
