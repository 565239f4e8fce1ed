//! Everything that can be asked of the core, as data. Ids and outcomes of outside work come in
//! with the command, so that `decide` stays pure.

mod board;
mod crew;
mod epic;
mod holding;
mod pull;
mod reach;
mod work;

use crate::actor::Actor;
use crate::attempt::AttemptKind;
use crate::card::Card;
use crate::comment::{CommentId, CommentKind};
use crate::contract::VerificationContract;
use crate::crew::{AgentId, MailId};
use crate::delivery::{Receipt, Topic, Webhook};
use crate::ids::{AttemptId, TaskId};
use crate::job::{JobId, JobKind};
use crate::knowledge::{EdgeKind, KnowledgeId, NewKnowledge};
use crate::plan::PlanId;
use crate::policy::Phase;
use crate::refusal::Quota;
use crate::relay::{JobSpec, RunVerdict};
use crate::run::{Artifact, Terminal};
use crate::task::{Check, Verdict};
use crate::time::Timestamp;
use crate::work::WorkEnd;

pub use board::{
    CardUpdate, MergedBranch, NewRepo, PlanApprove, PlanPropose, ProjectCreate, ReviewDecide,
    ReviewOutcome, ReviewSettle, ReviewVerdict, SessionBegin, SettingsUpdate,
};
pub use crew::{AgentAdd, DecisionLog, MailReply, MailSend};
pub use epic::{
    Behind, CrewAssign, CrewGiveUp, CrewLoss, CrewMove, CrewReturn, CrewSettle, EpicFinish,
    EpicMove, EpicTaskAdd,
};
pub use pull::{PullOpen, PullSettle, PullStep};
pub use reach::{AGENTS, NEW_PROJECT, NEW_TASK, Reach};
pub use work::{Start, TerminalStart, WorkPlace, WorkSubmit};

#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    TaskCreate(TaskCreate),
    /// All of these tasks, or none.
    TaskCreateAll(Vec<TaskCreate>),
    TaskEdit(TaskEdit),
    /// What the author of a task may mend.
    TaskUpdate(TaskUpdate),
    TaskRemove {
        task: TaskId,
    },
    TaskClaim {
        task: TaskId,
    },
    /// Takes a task that work can start on; refused of one that is closed or waits for others.
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
        /// The state of the task's own files, which attestations and approvals are held against.
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
    /// The agent of a run has the messages up to this time.
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
    /// Back from review to the start, free for anybody.
    TaskReopen {
        task: TaskId,
    },
    CommentAdd(CommentAdd),
    CommentResolve {
        comment: CommentId,
        words: Option<String>,
    },
    /// Judges a task's contract once more.
    VerificationQueue {
        task: TaskId,
        job: JobId,
    },
    /// What the run of a verify job found.
    VerificationJudge {
        job: JobId,
        tries: u32,
        found: Found,
        checked: Option<Checked>,
        /// As in `TaskTransition`.
        work: Option<String>,
    },
    /// Asks for a job without a task; nothing when one with its key is under way.
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
    /// Nobody wants this job of the server's own any more.
    JobCancel {
        job: JobId,
    },
    /// Writes down that a lease is over; nothing when it is not.
    AttemptExpire {
        attempt: AttemptId,
    },
    KnowledgeStore(KnowledgeStore),
    /// Asks for an agent's work; finds the job again when its key is known.
    RunSubmit(Box<RunSubmit>),
    RunLease(RunLease),
    /// The heartbeat of a run.
    RunKeep {
        job: JobId,
        fence: u64,
        lease_s: u32,
    },
    /// Writes down which processes of earlier runs cannot be ended, so that this run cannot start.
    RunHold {
        job: JobId,
        fence: u64,
        /// Each by number and name; empty once all have ended.
        left: Vec<String>,
    },
    /// Writes down what time did to a job; nothing when it did nothing.
    RunSettle(RunSettle),
    RunEnd {
        job: JobId,
        fence: u64,
        verdict: RunVerdict,
        summary: String,
    },
    RunCancel {
        job: JobId,
    },
    RunArtifact {
        job: JobId,
        fence: u64,
        artifact: Artifact,
    },
    RunAsk {
        job: JobId,
        fence: u64,
        text: String,
        command: Option<String>,
    },
    RunAnswer {
        job: JobId,
        /// `None`: whichever is open.
        number: Option<u32>,
        granted: bool,
    },
    /// A pull request for what a job made, or how it stands now.
    RunPr(RunPr),
    PullOpen(PullOpen),
    PullSettle(PullSettle),
    /// How a receiver answered the message of a deliver job.
    DeliveryTry {
        job: JobId,
        tries: u32,
        about: Topic,
        /// `destination` of its address.
        to: String,
        receipt: Receipt,
    },
    /// Changes fields and status of a task at once, as the board does.
    CardUpdate(Box<CardUpdate>),
    /// Removes a task unless others wait for it.
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
    /// Asks whether work may be merged, by the checks that ran on what it would become.
    ReviewClear {
        task: TaskId,
        /// Whether the settings ask for an approval first.
        needs_approval: bool,
        checked: Option<Checked>,
        /// As in `TaskTransition`.
        work: Option<String>,
    },
    /// What came of a merge or a rebase.
    ReviewSettle(ReviewSettle),
    /// An agent and a person work on a task together from now on.
    SessionBegin(SessionBegin),
    /// They do not any more.
    SessionEnd {
        task: TaskId,
    },
    /// Writes down that somebody was told no.
    CallRefuse {
        tool: &'static str,
        /// What a tool with several actions was asked for.
        action: Option<&'static str>,
        code: String,
        task: Option<TaskId>,
    },
    /// Writes down that somebody read something.
    CallAnswer {
        tool: &'static str,
        task: Option<TaskId>,
    },
    SettingsUpdate(Box<SettingsUpdate>),
    ProjectCreate(ProjectCreate),
    /// Makes it the one the actor works in.
    ProjectOpen {
        project: i64,
    },
    PlanPropose(PlanPropose),
    PlanApprove(PlanApprove),
    PlanReject {
        plan: PlanId,
    },
    /// Asks for an agent's work on a task; finds the run that waits for its turn.
    WorkSubmit(WorkSubmit),
    /// The agent is at work.
    WorkUp {
        job: JobId,
        fence: u64,
        place: WorkPlace,
        terminal: Option<Terminal>,
    },
    /// What came of a run; of one that was ended meanwhile, that nothing is left of it.
    WorkEnd {
        job: JobId,
        fence: u64,
        end: WorkEnd,
        /// Who worked or looked.
        agent: Actor,
        /// The id of the review to queue, if reviews are wanted.
        reviewer: Option<JobId>,
    },
    /// Ends a run, and the task is free again.
    WorkStop {
        job: JobId,
    },
    /// No process is left of a run that is over.
    WorkGone {
        job: JobId,
        fence: u64,
    },
    AgentAdd(AgentAdd),
    AgentRemove {
        agent: AgentId,
    },
    /// It was seen just now.
    AgentTouch {
        agent: AgentId,
    },
    MailSend(MailSend),
    MailReply(MailReply),
    MailRead {
        mail: MailId,
        /// Whose inbox it is in; `None`: people's.
        by: Option<AgentId>,
    },
    DecisionLog(DecisionLog),
    /// Asks for the end of whatever agent works on a task; finds the job that is about to do it.
    StopQueue {
        job: JobId,
        task: TaskId,
        /// What there is to stop, as far as anybody knows.
        open: Option<JobId>,
    },
    /// Takes it back.
    StopCancel {
        job: JobId,
    },
    /// A task for an epic's workers.
    EpicTaskAdd(Box<EpicTaskAdd>),
    EpicMove(EpicMove),
    EpicFinish(Box<EpicFinish>),
    /// Gives a task to a worker.
    CrewAssign(Box<CrewAssign>),
    CrewMove(CrewMove),
    CrewReturn(CrewReturn),
    CrewSettle(Box<CrewSettle>),
    CrewGiveUp(CrewGiveUp),
    /// Writes down that a worker has nothing to do; nothing when it has.
    CrewFree {
        agent: AgentId,
        /// What it was on.
        task: TaskId,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct RunSubmit {
    pub job: JobId,
    pub task: TaskId,
    pub project: i64,
    pub spec: JobSpec,
    /// The only machine that can run it.
    pub bound_to: Option<String>,
    pub webhook: Option<Webhook>,
    /// How long a key finds its job after the end.
    pub window_s: u32,
    /// How many jobs of an org may be open.
    pub open_max: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLease {
    pub job: JobId,
    pub kind: JobKind,
    /// Who works, when it is not the relay.
    pub agent: Option<Actor>,
    pub attempt: AttemptId,
    /// Where the runner is.
    pub machine: String,
    /// How many runs there may be on it.
    pub running_max: u32,
    pub lease_s: u32,
    /// By the process that the run is held for, before others may have it.
    pub early: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPr {
    pub job: JobId,
    pub forge: String,
    /// As `Pull` has it.
    pub repo: String,
    /// Number and page; `None` where Callboard itself is the forge, which gives them.
    pub at: Option<(u64, String)>,
    pub status: String,
    pub branch: String,
    pub base: String,
    pub head: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSettle {
    pub job: JobId,
    /// How long a lost worker may still speak up.
    pub hold_s: u32,
    pub attempts_max: u32,
    /// The process that ran it is known to be gone.
    pub is_gone: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TaskCreate {
    pub task: TaskId,
    pub project: i64,
    pub title: String,
    pub body: String,
    pub priority: u16,
    pub parent: Option<TaskId>,
    pub deps: Vec<TaskId>,
    pub checks: Vec<NewCheck>,
    pub verification: Option<VerificationContract>,
    /// Free JSON for whoever does the work; kept as it is.
    pub execution_contract: Option<String>,
    /// The limit that one more would pass.
    pub over_quota: Option<Quota>,
    pub card: Box<Card>,
    /// Where it starts out.
    pub phase: Phase,
    /// It is there to have children.
    pub is_plan: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TaskEdit {
    pub task: TaskId,
    pub title: Option<String>,
    pub body: Option<String>,
    pub priority: Option<u16>,
    pub checks: Option<Vec<NewCheck>>,
}

/// The body is not among the fields: what was asked for stays as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskUpdate {
    pub task: TaskId,
    /// Who made the task, by the log.
    pub author: Option<Actor>,
    pub title: Option<String>,
    /// All of them.
    pub deps: Option<Vec<TaskId>>,
    /// All of them; each starts as pending.
    pub checks: Option<Vec<NewCheck>>,
}

/// A check as somebody wrote it down; `decide` judges it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewCheck {
    pub desc: String,
    pub cmd: Option<String>,
    pub manual: bool,
    pub cwd: Option<String>,
    pub timeout_s: Option<u32>,
}

/// What came back from running checks, and what the task looked like when they started.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    pub basis: Basis,
    pub tree: Option<String>,
    pub runs: Vec<(usize, Verdict)>,
}

/// If this no longer holds, the results may be kept but the move is off.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    pub label: String,
    pub deps: Vec<TaskId>,
    pub checks: Vec<Check>,
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

/// What the holder of a lease says about its task.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseUpdate {
    pub task: TaskId,
    pub fence: Option<u64>,
    pub to: LeaseTarget,
    /// The caller's own word for that.
    pub asked: &'static str,
    /// Whether the lease starts anew.
    pub extend: bool,
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseTarget {
    Working,
    /// Given back.
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
    /// The limit that these learnings would pass.
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

/// What looking at a task's contract came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Passed,
    Pending { reason: String },
    Failed { reason: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    Done,
    /// Not now; try again after this.
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
    /// The task it has to do with, and how.
    pub task: Option<(TaskId, EdgeKind)>,
    /// The entry it takes the place of.
    pub supersedes: Option<KnowledgeId>,
    pub over_quota: Option<Quota>,
}
