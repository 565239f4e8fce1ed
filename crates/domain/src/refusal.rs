//! Every expected "no", as data: a code, a message, a way out.
//!
//! The codes are the graph toolset's, which the CLI and the web board speak too; other toolsets translate the
//! variant. `tests/refusals.rs` prints `docs/reference/refusals.md`.

mod code;
pub mod found;
mod given;
mod words;

pub use given::brief;

use crate::actor::Actor;
use crate::board::card::ReviewState;
use crate::board::plan::PlanId;
use crate::crew::{AgentId, MailId};
use crate::ids::{AttemptId, TaskId};
use crate::policy::Policy;
use crate::relay::Problem;
use crate::rights::Profile;
use crate::runs::job::{JobId, JobKind};
use crate::runs::run::OpenRuns;
use crate::task::attempt::{Attempt, AttemptKind, Health};
use crate::task::comment::CommentId;
use crate::task::standing::Standing;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    InvalidInput {
        /// The field that is at fault; `None` when the fault is in several fields or in none.
        field: Option<String>,
        message: String,
    },
    TaskNotFound {
        task: String,
    },
    SessionNotFound {
        session: String,
    },
    DanglingDependency {
        task: String,
    },
    UnknownState {
        given: String,
        known: Vec<String>,
    },
    DependencyCycle {
        path: Vec<TaskId>,
    },
    DepsNotClosed {
        task: TaskId,
        open: Vec<(TaskId, String)>,
    },
    ChecksNotPassed {
        task: TaskId,
        checks: Vec<UnmetCheck>,
    },
    AlreadyClaimed {
        task: TaskId,
        holder: Actor,
        hold: Hold,
    },
    /// Only the holder may do this.
    NotHolder {
        task: TaskId,
        actor: Actor,
        holder: Option<Actor>,
    },
    StaleFence {
        task: TaskId,
        given: u64,
        current: u64,
    },
    /// The task has no holder and still cannot be taken.
    NotActionable {
        task: TaskId,
        why: Unactionable,
    },
    /// Deps can be added only before work starts.
    AlreadyStarted {
        task: TaskId,
        label: String,
        at: Standing,
    },
    /// Deps can be removed only while the task is open.
    AlreadyOver {
        task: TaskId,
        label: String,
        at: Standing,
    },
    /// `to` is the caller's word for the target.
    IllegalMove {
        task: TaskId,
        from: Standing,
        to: &'static str,
        completed_by_caller: bool,
        /// Why the verification of the completed task failed, if it did.
        failed: Option<String>,
    },
    BlockersMax {
        task: TaskId,
        actor: Actor,
    },
    CommentNotFound {
        comment: String,
    },
    NotCommentAuthor {
        comment: CommentId,
        author: Actor,
    },
    /// Only the author of a task may correct it.
    NotTaskAuthor {
        task: TaskId,
        author: Option<Actor>,
    },
    QuotaExceeded(Quota),
    /// Another runner has the job, or it is over.
    JobLost {
        job: JobId,
    },
    JobNotFound {
        job: String,
    },
    /// Every problem of a job's spec.
    InvalidSpec {
        problems: Vec<Problem>,
    },
    /// The org has reached its limit of open jobs.
    TooManyJobs {
        open: OpenRuns,
        limit: u32,
    },
    /// The machine has reached its limit of running jobs.
    NoPlace {
        limit: u32,
    },
    /// The token has reached its limit of concurrent calls that may take long.
    TooManyCalls {
        limit: usize,
    },
    /// Only the server ends such a job.
    NotCancelable {
        job: JobId,
        kind: JobKind,
    },
    /// No question waits for this answer.
    NoQuestion {
        job: JobId,
    },
    TaskClosed {
        task: TaskId,
        label: String,
    },
    /// No work starts on a closed task unless the caller asks to reopen it.
    Closed {
        task: TaskId,
        label: String,
    },
    /// The program that plays this agent is not on the machine that would start it.
    ExecutorMissing {
        executor: String,
        /// The executors whose program is there.
        found: Vec<String>,
    },
    SessionActive {
        attempt: AttemptId,
        actor: Actor,
        health: Health,
    },
    ActorMismatch {
        expected: String,
        bound: Actor,
    },
    ClientMismatch {
        given: String,
        bound: String,
    },
    NotSessionOwner {
        owner: Actor,
    },
    SessionTerminal {
        health: Health,
    },
    Conflict {
        task: TaskId,
        what: &'static str,
    },
    CheckInfrastructure {
        message: String,
    },
    /// The worktree of a task is not ready for work: `workspace.setup` failed, or the recipe is not allowed.
    WorkspaceNotReady {
        message: String,
    },
    /// The repository has no commit yet, so no worktree can be made.
    NoCommit {
        message: String,
    },
    CheckLogNotFound {
        task: TaskId,
        index: usize,
        why: String,
    },
    /// Rows that were there once. A reader must not take what is left for all there was.
    RemovedByRetention {
        what: String,
        setting: &'static str,
    },
    AuthorizationDenied {
        verb: String,
        scope: &'static str,
    },
    ProfileDenied {
        verb: String,
        needed: Profile,
        held: Profile,
    },
    /// The protocol does not tell this caller from others of the same name.
    SharedActor {
        verb: String,
        actor: Actor,
    },
    ProjectNotFound {
        project: String,
    },
    ParentNotFound {
        task: String,
    },
    /// A task cannot stand below itself.
    ParentCycle {
        task: TaskId,
        parent: TaskId,
    },
    /// Open tasks depend on the task.
    HasDependents {
        task: TaskId,
        open: Vec<TaskId>,
    },
    /// The task is for an agent together with a person.
    NotAuto {
        task: TaskId,
    },
    /// The task is for an agent alone.
    NotPair {
        task: TaskId,
    },
    /// No agent works on the task, and none is queued.
    NotRunning {
        task: TaskId,
    },
    /// The task is not in review.
    ReviewNotReady {
        task: TaskId,
        label: String,
    },
    /// Another verdict stands than the one that the caller saw.
    ReviewDecided {
        task: TaskId,
        saw: ReviewState,
        /// The state of the review, the actor of its last step, and when; `None` where the review was withdrawn.
        now: Option<(ReviewState, Actor, Timestamp)>,
    },
    /// The files are others than those that the caller read.
    WorkMoved {
        task: TaskId,
        /// The commit that the caller read.
        read: String,
        /// The commit of the work now; `None` where it cannot be read.
        now: Option<String>,
    },
    /// Fields that the caller changes are others than those that it saw.
    TaskChanged {
        task: TaskId,
        fields: Vec<&'static str>,
    },
    /// The settings require an approval before work is merged.
    NotApproved {
        task: TaskId,
    },
    /// An agent may change the task's files at any moment.
    AgentAtWork {
        task: TaskId,
        agent: Actor,
        action: ReviewAction,
    },
    /// A caller that is bound to one task named another.
    OutsideTask {
        task: String,
        bound: TaskId,
    },
    /// Arguments of two tools that share a name.
    MixedArguments {
        verb: String,
        one: String,
        other: String,
    },
    /// A folder that cannot be a project's repository.
    InvalidRepoPath {
        path: String,
        why: String,
    },
    InvalidSetting {
        message: String,
    },
    PlanNotFound {
        plan: String,
    },
    /// The plan is approved or rejected already.
    PlanDecided {
        plan: PlanId,
        state: &'static str,
    },
    AgentNotFound {
        agent: String,
    },
    AgentExists {
        agent: AgentId,
    },
    MailNotFound {
        mail: String,
    },
    EpicNotFound {
        epic: String,
    },
    /// The state of the agent, its task or its epic does not allow the call.
    AgentState {
        message: String,
    },
    /// The input does not fit the state that the agent's task is in.
    CrewInput {
        message: String,
    },
    /// The work conflicts with the branch it goes to.
    MergeConflict {
        task: TaskId,
        /// Empty when the files are not known.
        files: Vec<String>,
    },
    /// The agent may not decide about this task.
    CrewDenied {
        message: String,
    },
    /// The mail is in another inbox.
    MailOfAnother {
        mail: MailId,
    },
    /// A call with other arguments used the retry key before.
    KeyReused {
        verb: String,
    },
    /// The first call with this retry key was carried out, but its answer was not kept.
    AnswerNotKept {
        verb: String,
    },
}

/// An action on the work of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewAction {
    Merge,
    Rebase,
}

impl ReviewAction {
    pub fn done(self) -> &'static str {
        match self {
            ReviewAction::Merge => "merged",
            ReviewAction::Rebase => "rebased",
        }
    }
}

/// How an actor holds a task. An assignee without an attempt has neither kind nor expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    pub kind: Option<AttemptKind>,
    pub until: Option<Timestamp>,
    /// A session that has been silent for too long; another actor may take over.
    pub is_stalled: bool,
}

impl Hold {
    /// `live` is the task's attempt, which need not be the holder's.
    pub fn of(live: Option<&Attempt>, holder: &Actor, policy: &Policy, now: Timestamp) -> Self {
        live.filter(|live| live.actor == *holder).map_or(Self::default(), |live| Self {
            kind: Some(live.kind),
            until: live.lease().map(|lease| lease.expires_at),
            is_stalled: live.may_be_taken_over(policy, now),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unactionable {
    Blocker(CommentId),
    Plan,
    /// The task's current standing.
    Standing(Standing),
}

/// A monthly count that would pass its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub metric: &'static str,
    pub limit: u64,
    pub used: u64,
    pub requested: u64,
    /// The month, like `2026-06`.
    pub period: String,
    pub next_reset_at: Timestamp,
}

impl Quota {
    /// Judged last: any other fault of a call is reported first.
    pub fn judge(over: Option<&Quota>) -> Result<(), Refusal> {
        over.map_or(Ok(()), |quota| Err(Refusal::QuotaExceeded(quota.clone())))
    }
}

/// A check that stands in the way of closing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetCheck {
    /// `None`: the task's verification contract, which is no check of its list.
    pub index: Option<usize>,
    pub desc: String,
    pub result: &'static str,
    pub log: Option<String>,
}

impl UnmetCheck {
    /// `0 (tests pass)`, or `verification manual` for a contract.
    pub fn short(&self) -> String {
        match self.index {
            Some(index) => format!("{index} ({})", self.desc),
            None => self.desc.clone(),
        }
    }

    /// `check 0 (tests pass)`, or `verification manual` for a contract.
    pub fn name(&self) -> String {
        match self.index {
            Some(index) => format!("check {index} ({})", self.desc),
            None => self.desc.clone(),
        }
    }
}

impl Refusal {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidInput { field: None, message: message.into() }
    }

    /// Refuses one field. The message names the field in the caller's words.
    pub fn invalid_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::InvalidInput { field: Some(field.into()), message: message.into() }
    }

    /// Names the place of the refused task in a list. Other refusals name their task themselves.
    pub fn of_task_at(self, place: usize) -> Self {
        match self {
            Self::InvalidInput { field, message } => {
                Self::InvalidInput { field, message: format!("task {place}: {message}") }
            }
            other => other,
        }
    }
}
