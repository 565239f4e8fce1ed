//! Everything that can be asked of the core, as data. Ids and outcomes of outside work come in
//! with the command, so that `decide` stays pure.

mod board;
mod caller;
mod check;
mod crew;
mod epic;
mod pull;
mod run;
mod work;

use crate::actor::Actor;
use crate::board::card::Card;
use crate::board::plan::PlanId;
use crate::crew::{AgentId, MailId};
use crate::ids::{AttemptId, TaskId};
use crate::knowledge::{EdgeKind, KnowledgeId, NewKnowledge};
use crate::policy::Phase;
use crate::refusal::Quota;
use crate::review::mark::ReviewMark;
use crate::runs::delivery::{Receipt, Topic};
use crate::runs::job::{JobId, JobKind};
use crate::runs::run::{NewArtifact, RunCommit, Terminal};
use crate::runs::usage::RunUsage;
use crate::runs::work::WorkEnd;
use crate::task::attempt::AttemptKind;
use crate::task::comment::{CommentId, CommentKind};
use crate::task::contract::VerificationContract;
use crate::time::Timestamp;

pub use board::{
    CardUpdate, MergedBranch, NewRepo, PlanApprove, PlanPropose, ProjectCreate, ReviewDecide,
    ReviewOutcome, ReviewSends, ReviewSettle, ReviewVerdict, SessionBegin, SettingsUpdate,
};
pub use caller::{AGENTS, NEW_PROJECT, NEW_TASK, Reach};
pub use check::{Basis, Checked, NewCheck};
pub use crew::{AgentAdd, DecisionLog, MailReply, MailSend};
pub use epic::{
    Behind, CrewAssign, CrewGiveUp, CrewLoss, CrewMove, CrewReturn, CrewSettle, EpicFinish,
    EpicMove, EpicTaskAdd,
};
pub use pull::{PullOpen, PullSettle, PullStep};
pub use run::{RunEnd, RunLease, RunPr, RunSettle, RunSubmit};
pub use work::{Start, TerminalStart, WorkPlace, WorkSubmit};

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    TaskCreate(TaskCreate),
    /// Creates all of these tasks, or none.
    TaskCreateAll(Vec<TaskCreate>),
    TaskEdit(TaskEdit),
    /// Corrects a task; for its author.
    TaskUpdate(TaskUpdate),
    TaskRemove {
        task: TaskId,
    },
    TaskClaim {
        task: TaskId,
    },
    /// Claims a task that work can start on; refused if the task is closed or waits for others.
    TaskClaimStartable {
        task: TaskId,
    },
    TaskRelease {
        task: TaskId,
    },
    TaskBlock {
        task: TaskId,
        reason: String,
    },
    TaskUnblock {
        task: TaskId,
    },
    /// A person takes a task from its holder.
    TaskTakeBack {
        task: TaskId,
    },
    TaskTransition {
        task: TaskId,
        to: String,
        checked: Option<Checked>,
        /// The state of the task's own files, to which attestations and approvals are compared.
        work: Option<String>,
    },
    TaskNote {
        task: TaskId,
        text: String,
    },
    /// A message for the agent of a task: the one at work, else the next one.
    TaskTell {
        task: TaskId,
        text: String,
    },
    /// The agent of a run has received the messages up to this time.
    TaskHear {
        task: TaskId,
        job: JobId,
        upto: Timestamp,
    },
    DependencyAdd {
        task: TaskId,
        dep: TaskId,
    },
    DependencyRemove {
        task: TaskId,
        dep: TaskId,
    },
    CheckRun {
        task: TaskId,
        checked: Checked,
    },
    CheckAttest {
        task: TaskId,
        index: usize,
        pass: bool,
        tree: Option<String>,
    },
    AttemptBegin(AttemptBegin),
    AttemptHeartbeat {
        attempt: AttemptId,
        progress: Option<String>,
    },
    AttemptFinish {
        attempt: AttemptId,
        summary: String,
        head: Option<String>,
        tree: Option<String>,
    },
    AttemptCancel {
        attempt: AttemptId,
        reason: String,
    },
    /// Takes a free task under a lease.
    LeaseTake {
        attempt: AttemptId,
        task: TaskId,
        lease_s: u32,
    },
    LeaseUpdate(LeaseUpdate),
    LeaseComplete(LeaseComplete),
    /// Moves a task from review back to the start, free for any actor.
    TaskReopen {
        task: TaskId,
    },
    CommentAdd(CommentAdd),
    CommentResolve {
        comment: CommentId,
        words: Option<String>,
    },
    /// Queues another verification of the task's contract.
    VerificationQueue {
        task: TaskId,
        job: JobId,
    },
    /// Records the finding of a verify job's run.
    VerificationJudge {
        job: JobId,
        tries: u32,
        found: Found,
        checked: Option<Checked>,
        /// As in `TaskTransition`.
        work: Option<String>,
    },
    /// Queues a job without a task; does nothing when one with its key is under way.
    JobQueue {
        job: JobId,
        kind: JobKind,
        key: String,
    },
    JobTake {
        job: JobId,
        lease_s: u32,
    },
    JobKeep {
        job: JobId,
        tries: u32,
        lease_s: u32,
    },
    JobEnd {
        job: JobId,
        tries: u32,
        end: JobEnd,
    },
    /// Cancels a job of the server's own.
    JobCancel {
        job: JobId,
    },
    /// Records that a lease is over; does nothing when it is not.
    AttemptExpire {
        attempt: AttemptId,
    },
    KnowledgeStore(KnowledgeStore),
    /// Submits a job for an agent; finds the job again when its key is known.
    RunSubmit(Box<RunSubmit>),
    RunLease(RunLease),
    /// The heartbeat of a run.
    RunKeep {
        job: JobId,
        fence: u64,
        lease_s: u32,
    },
    /// Records which processes of earlier runs cannot be ended, so that this run cannot start.
    RunHold {
        job: JobId,
        fence: u64,
        /// Each process by number and name; empty once all have ended.
        left: Vec<String>,
    },
    /// Records the tokens and the cost that an agent reported at the end of its run.
    RunUse {
        job: JobId,
        fence: u64,
        agent: Actor,
        usage: RunUsage,
    },
    /// Records the head at which the run of a job left its task's work. The number is the run's fence.
    RunCommit(JobId, u64, RunCommit),
    /// Records the effects of time on a job; does nothing when there are none.
    RunSettle(RunSettle),
    RunEnd(Box<RunEnd>),
    RunCancel {
        job: JobId,
    },
    RunArtifact {
        job: JobId,
        fence: u64,
        new: NewArtifact,
    },
    RunAsk {
        job: JobId,
        fence: u64,
        text: String,
        command: Option<String>,
    },
    RunAnswer {
        job: JobId,
        /// `None`: the open question, whatever its number.
        number: Option<u32>,
        granted: bool,
    },
    /// Records a pull request for a job's result, or its current state.
    RunPr(RunPr),
    PullOpen(PullOpen),
    PullSettle(PullSettle),
    /// Records how a receiver answered the message of a deliver job.
    DeliveryTry {
        job: JobId,
        tries: u32,
        about: Topic,
        /// The `destination` of the webhook's address.
        to: String,
        receipt: Receipt,
    },
    /// Queues the message of a deliver job once more, now.
    DeliveryAgain {
        job: JobId,
        about: Topic,
        /// The `destination` of the webhook's address.
        to: String,
    },
    /// Changes fields and status of a task at once, as the board does.
    CardUpdate(Box<CardUpdate>),
    /// Removes a task unless open tasks depend on it.
    CardRemove {
        task: TaskId,
    },
    ScratchpadAppend {
        task: TaskId,
        text: String,
    },
    ReviewRequest {
        task: TaskId,
        summary: String,
    },
    ReviewDecide(ReviewDecide),
    /// Asks whether work may be merged, by checks that ran on the result of the merge.
    ReviewClear {
        task: TaskId,
        /// Whether the settings ask for an approval first.
        needs_approval: bool,
        checked: Option<Checked>,
        /// As in `TaskTransition`.
        work: Option<String>,
        /// As in `ReviewDecide`.
        seen: ReviewMark,
    },
    /// Records the outcome of a merge or a rebase.
    ReviewSettle(ReviewSettle),
    /// Begins a session of an agent and a person on a task.
    SessionBegin(SessionBegin),
    /// Ends that session.
    SessionEnd {
        task: TaskId,
    },
    /// Logs that a call was refused.
    CallRefuse {
        tool: &'static str,
        /// The action of a tool that has several.
        action: Option<&'static str>,
        code: String,
        task: Option<TaskId>,
    },
    /// Logs that a call read something.
    CallAnswer {
        tool: &'static str,
        task: Option<TaskId>,
    },
    SettingsUpdate(Box<SettingsUpdate>),
    ProjectCreate(ProjectCreate),
    /// Makes the project the one that the actor works in.
    ProjectOpen {
        project: i64,
    },
    PlanPropose(PlanPropose),
    PlanApprove(PlanApprove),
    PlanReject {
        plan: PlanId,
        /// A message for the planner.
        words: Option<String>,
    },
    /// Requests an agent's work on a task; finds the run that waits for its turn.
    WorkSubmit(WorkSubmit),
    /// Records that the agent is at work.
    WorkUp {
        job: JobId,
        fence: u64,
        place: WorkPlace,
        terminal: Option<Terminal>,
    },
    /// Records the outcome of a run; for a run that was ended meanwhile, that nothing of it is left.
    WorkEnd {
        job: JobId,
        fence: u64,
        end: WorkEnd,
        /// The agent that worked or reviewed.
        agent: Actor,
        /// The id of the review to queue, if reviews are wanted.
        reviewer: Option<JobId>,
    },
    /// Ends a run and frees its task.
    WorkStop {
        job: JobId,
    },
    /// Records that no process of an ended run is left.
    WorkGone {
        job: JobId,
        fence: u64,
    },
    AgentAdd(AgentAdd),
    AgentRemove {
        agent: AgentId,
    },
    /// Records that the agent was seen just now.
    AgentTouch {
        agent: AgentId,
    },
    MailSend(MailSend),
    MailReply(MailReply),
    MailRead {
        mail: MailId,
        /// The owner of the inbox; `None`: people.
        by: Option<AgentId>,
    },
    DecisionLog(DecisionLog),
    /// Requests the end of an agent's work on a task; finds the stop job that is queued already.
    StopQueue {
        job: JobId,
        task: TaskId,
        /// The run to stop, as far as the caller knows.
        open: Option<JobId>,
    },
    /// Cancels a stop job.
    StopCancel {
        job: JobId,
    },
    /// Adds a task for an epic's workers.
    EpicTaskAdd(Box<EpicTaskAdd>),
    EpicMove(EpicMove),
    EpicFinish(Box<EpicFinish>),
    /// Assigns a task to a worker.
    CrewAssign(Box<CrewAssign>),
    CrewMove(CrewMove),
    CrewReturn(CrewReturn),
    CrewSettle(Box<CrewSettle>),
    CrewGiveUp(CrewGiveUp),
    /// Records that a worker has nothing to do; does nothing when it has a task.
    CrewFree {
        agent: AgentId,
        /// The task that the worker was on.
        task: TaskId,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct TaskCreate {
    pub task: TaskId,
    pub project: i64,
    /// The name of the task in the backlog that it comes from.
    pub reference: Option<String>,
    pub title: String,
    pub body: String,
    pub priority: u16,
    pub parent: Option<TaskId>,
    pub deps: Vec<TaskId>,
    pub checks: Vec<NewCheck>,
    pub verification: Option<VerificationContract>,
    /// Free JSON for the actor that does the work; stored as it is.
    pub execution_contract: Option<String>,
    /// The limit that one more task would exceed.
    pub over_quota: Option<Quota>,
    pub card: Box<Card>,
    /// The phase that the task starts in.
    pub phase: Phase,
    /// The task only groups its children.
    pub is_plan: bool,
    /// Notes that came with the task, the oldest first.
    pub notes: Vec<String>,
}

impl TaskCreate {
    /// The name under which no other task of the project may stand.
    pub(crate) fn named(&self) -> Option<(i64, String)> {
        Some((self.project, self.reference.clone()?))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct TaskEdit {
    pub task: TaskId,
    pub title: Option<String>,
    pub body: Option<String>,
    pub priority: Option<u16>,
    pub checks: Option<Vec<NewCheck>>,
}

/// An update by the author. The body is not among the fields: the request stays as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskUpdate {
    pub task: TaskId,
    /// The actor that created the task, according to the log.
    pub author: Option<Actor>,
    pub title: Option<String>,
    /// The whole list.
    pub deps: Option<Vec<TaskId>>,
    /// The whole list; each check starts as pending.
    pub checks: Option<Vec<NewCheck>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AttemptBegin {
    pub attempt: AttemptId,
    pub task: TaskId,
    pub kind: AttemptKind,
    pub key: Option<String>,
    /// Compared with the actor of the connection; `None` where a toolset has no such argument.
    pub expected_actor: Option<String>,
    pub client: Option<String>,
    pub bound_client: Option<String>,
    pub model: Option<String>,
    pub worktree: Option<String>,
    pub branch: Option<String>,
    pub head: Option<String>,
    pub lease_s: Option<u32>,
    pub takeover: bool,
}

/// An update of its task by the holder of a lease.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseUpdate {
    pub task: TaskId,
    pub fence: Option<u64>,
    pub to: LeaseTarget,
    /// The caller's own word for the target.
    pub asked: &'static str,
    /// Whether the lease is renewed.
    pub extend: bool,
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseTarget {
    Working,
    /// The task is given back.
    Free,
    Canceled,
    /// A state that a holder cannot bring about.
    Elsewhere,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LeaseComplete {
    pub task: TaskId,
    pub fence: Option<u64>,
    pub output: String,
    pub external_ref: Option<String>,
    pub learnings: Vec<NewKnowledge>,
    /// The limit that these learnings would exceed.
    pub over_quota: Option<Quota>,
    /// The id of the verify job, if one is needed and none is under way.
    pub job: JobId,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CommentAdd {
    pub comment: CommentId,
    pub task: TaskId,
    pub kind: CommentKind,
    pub body: String,
    pub rationale: Option<String>,
    pub parent: Option<CommentId>,
}

/// The finding of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Passed,
    Pending { reason: String },
    Failed { reason: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    Done,
    /// The job is not done yet; retry after this delay.
    Again {
        after_s: u32,
    },
    Failed {
        reason: String,
    },
    /// The checks of a task ran, as they were asked for at `asked_at`.
    Checked {
        asked_at: Timestamp,
        passed: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct KnowledgeStore {
    pub new: NewKnowledge,
    pub expires_at: Option<Timestamp>,
    /// The related task, and the kind of relation.
    pub task: Option<(TaskId, EdgeKind)>,
    /// The entry that this one replaces.
    pub supersedes: Option<KnowledgeId>,
    pub over_quota: Option<Quota>,
}
