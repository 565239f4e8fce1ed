//! What a command requires of its caller: which profile, whether it writes commands for a shell, which task it changes,
//! and whether the actor must be one client.

use super::{Command, NewCheck, ReviewDecide, ReviewVerdict, TaskCreate};
use crate::ids::{AttemptId, TaskId};
use crate::rights::{Profile, Scope};
use crate::runs::job::JobId;
use crate::task::comment::CommentId;

/// What a command changes, for a caller that is bound to one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Task(TaskId),
    /// Changes the task of this attempt.
    Attempt(AttemptId),
    /// Changes the task of this comment.
    Comment(CommentId),
    /// Changes the task of this job, if the job has one.
    Job(JobId),
    /// Changes rows of the caller (mail, decisions, knowledge, its registration) or a draft that a
    /// person decides on; no task.
    Own,
    /// Changes what belongs to no single task. The words complete "not on …".
    Outside(&'static str),
}

/// What `Reach::Outside` calls a task that a command would make.
pub const NEW_TASK: &str = "a new task";
/// What `Reach::Outside` calls a project that a command would make.
pub const NEW_PROJECT: &str = "a new project";
/// What `Reach::Outside` calls the agents of a crew.
pub const AGENTS: &str = "the agents of the crew";

impl Command {
    /// The least profile that may give this command under a scope.
    pub fn least_profile(&self, scope: Scope) -> Profile {
        match self {
            Self::PlanPropose(_) => Profile::Planner,
            _ => scope.least_profile(),
        }
    }

    /// Whether the command writes a shell command into a check. A list of checks replaces the one
    /// before it, so a command that is only repeated counts too.
    pub fn writes_commands(&self) -> bool {
        let has_command = |checks: &[NewCheck]| checks.iter().any(|check| check.cmd.is_some());
        let creates = |new: &TaskCreate| has_command(&new.checks);
        match self {
            Self::TaskCreate(new) => creates(new),
            Self::TaskCreateAll(all) => all.iter().any(creates),
            Self::TaskEdit(edit) => edit.checks.as_deref().is_some_and(has_command),
            Self::TaskUpdate(update) => update.checks.as_deref().is_some_and(has_command),
            Self::CardUpdate(update) => update.checks.as_deref().is_some_and(has_command),
            _ => false,
        }
    }

    pub fn reach(&self) -> Reach {
        match self {
            Self::TaskCreate(_)
            | Self::TaskCreateAll(_)
            | Self::RunSubmit(_)
            | Self::PlanApprove(_)
            | Self::EpicTaskAdd(_) => Reach::Outside(NEW_TASK),
            Self::ProjectCreate(_) => Reach::Outside(NEW_PROJECT),
            Self::ProjectOpen { .. } => Reach::Outside("the open project"),
            Self::SettingsUpdate(_) => Reach::Outside("the settings"),
            Self::DeliveryAgain { .. } => Reach::Outside("webhooks"),
            Self::PlanReject { .. } => Reach::Outside("plans"),
            Self::AgentAdd(add) if add.or_keep => Reach::Own,
            Self::AgentAdd(_) | Self::AgentRemove { .. } => Reach::Outside(AGENTS),
            Self::JobQueue { .. } => Reach::Outside("a new job"),
            Self::PlanPropose(_)
            | Self::AgentTouch { .. }
            | Self::MailSend(_)
            | Self::MailReply(_)
            | Self::MailRead { .. }
            | Self::DecisionLog(_)
            | Self::CallRefuse { .. }
            | Self::CallAnswer { .. } => Reach::Own,
            Self::KnowledgeStore(new) => new.task.map_or(Reach::Own, |(task, _)| Reach::Task(task)),
            Self::AttemptHeartbeat { attempt, .. }
            | Self::AttemptFinish { attempt, .. }
            | Self::AttemptCancel { attempt, .. }
            | Self::AttemptExpire { attempt } => Reach::Attempt(*attempt),
            Self::CommentResolve { comment, .. } => Reach::Comment(*comment),
            Self::VerificationJudge { job, .. }
            | Self::JobTake { job, .. }
            | Self::JobKeep { job, .. }
            | Self::JobEnd { job, .. }
            | Self::JobCancel { job }
            | Self::RunKeep { job, .. }
            | Self::RunHold { job, .. }
            | Self::RunUse { job, .. }
            | Self::RunCommit(job, ..)
            | Self::RunCancel { job }
            | Self::RunArtifact { job, .. }
            | Self::RunAsk { job, .. }
            | Self::RunAnswer { job, .. }
            | Self::DeliveryTry { job, .. }
            | Self::WorkUp { job, .. }
            | Self::WorkEnd { job, .. }
            | Self::WorkStop { job }
            | Self::WorkGone { job, .. }
            | Self::StopCancel { job } => Reach::Job(*job),
            Self::RunLease(lease) => Reach::Job(lease.job),
            Self::RunEnd(end) => Reach::Job(end.job),
            Self::RunSettle(settle) => Reach::Job(settle.job),
            Self::RunPr(pr) => Reach::Job(pr.job),
            Self::TaskRemove { task }
            | Self::TaskClaim { task }
            | Self::TaskClaimStartable { task }
            | Self::TaskRelease { task }
            | Self::TaskBlock { task, .. }
            | Self::TaskUnblock { task }
            | Self::TaskTakeBack { task }
            | Self::TaskTransition { task, .. }
            | Self::TaskNote { task, .. }
            | Self::TaskTell { task, .. }
            | Self::TaskHear { task, .. }
            | Self::TaskReopen { task }
            | Self::DependencyAdd { task, .. }
            | Self::DependencyRemove { task, .. }
            | Self::CheckRun { task, .. }
            | Self::CheckAttest { task, .. }
            | Self::LeaseTake { task, .. }
            | Self::VerificationQueue { task, .. }
            | Self::CardRemove { task }
            | Self::ScratchpadAppend { task, .. }
            | Self::ReviewRequest { task, .. }
            | Self::ReviewClear { task, .. }
            | Self::SessionEnd { task }
            | Self::StopQueue { task, .. }
            | Self::CrewFree { task, .. } => Reach::Task(*task),
            Self::TaskEdit(edit) => Reach::Task(edit.task),
            Self::TaskUpdate(update) => Reach::Task(update.task),
            Self::AttemptBegin(begin) => Reach::Task(begin.task),
            Self::LeaseUpdate(update) => Reach::Task(update.task),
            Self::LeaseComplete(complete) => Reach::Task(complete.task),
            Self::CommentAdd(comment) => Reach::Task(comment.task),
            Self::CardUpdate(update) => Reach::Task(update.task),
            Self::ReviewDecide(decision) => Reach::Task(decision.task),
            Self::ReviewSettle(settle) => Reach::Task(settle.task),
            Self::SessionBegin(begin) => Reach::Task(begin.task),
            Self::PullOpen(open) => Reach::Task(open.task),
            Self::PullSettle(settle) => Reach::Task(settle.task),
            Self::WorkSubmit(submit) => Reach::Task(submit.task),
            Self::EpicMove(moved) => Reach::Task(moved.epic),
            Self::EpicFinish(finish) => Reach::Task(finish.epic),
            Self::CrewAssign(assign) => Reach::Task(assign.task),
            Self::CrewMove(moved) => Reach::Task(moved.task),
            Self::CrewReturn(returned) => Reach::Task(returned.task),
            Self::CrewSettle(settle) => Reach::Task(settle.task),
            Self::CrewGiveUp(give_up) => Reach::Task(give_up.task),
        }
    }

    /// Whether two clients under one name would get in each other's way: both would hold the task, or one would
    /// answer for the other. That is so for commands that hold a task for the actor, give it back, or depend on who
    /// approved or attested.
    pub fn needs_one_client(&self) -> bool {
        match self {
            Self::TaskClaim { .. }
            | Self::TaskClaimStartable { .. }
            | Self::TaskUpdate(_)
            | Self::TaskRelease { .. }
            | Self::TaskTakeBack { .. }
            | Self::CheckAttest { .. }
            | Self::AttemptBegin(_)
            | Self::AttemptHeartbeat { .. }
            | Self::AttemptFinish { .. }
            | Self::AttemptCancel { .. }
            | Self::LeaseTake { .. }
            | Self::LeaseUpdate(_)
            | Self::LeaseComplete(_)
            | Self::ReviewDecide(ReviewDecide { verdict: ReviewVerdict::Approve { .. }, .. })
            | Self::SessionBegin(_)
            | Self::SessionEnd { .. }
            | Self::AgentAdd(_)
            | Self::AgentTouch { .. }
            | Self::MailRead { .. }
            | Self::CrewMove(_)
            | Self::CrewReturn(_)
            | Self::CrewSettle(_)
            | Self::EpicMove(_)
            | Self::EpicFinish(_) => true,
            Self::TaskCreate(_)
            | Self::TaskCreateAll(_)
            | Self::TaskEdit(_)
            | Self::TaskRemove { .. }
            | Self::TaskTransition { .. }
            | Self::TaskNote { .. }
            | Self::TaskTell { .. }
            | Self::TaskHear { .. }
            | Self::TaskBlock { .. }
            | Self::TaskUnblock { .. }
            | Self::DependencyAdd { .. }
            | Self::DependencyRemove { .. }
            | Self::CheckRun { .. }
            | Self::JobCancel { .. }
            | Self::TaskReopen { .. }
            | Self::CommentAdd(_)
            | Self::CommentResolve { .. }
            | Self::VerificationQueue { .. }
            | Self::VerificationJudge { .. }
            | Self::JobQueue { .. }
            | Self::JobTake { .. }
            | Self::JobKeep { .. }
            | Self::JobEnd { .. }
            | Self::AttemptExpire { .. }
            | Self::KnowledgeStore(_)
            | Self::RunSubmit(_)
            | Self::RunLease(_)
            | Self::RunKeep { .. }
            | Self::RunHold { .. }
            | Self::RunUse { .. }
            | Self::RunCommit(..)
            | Self::RunSettle(_)
            | Self::RunEnd(_)
            | Self::RunCancel { .. }
            | Self::RunArtifact { .. }
            | Self::RunAsk { .. }
            | Self::RunAnswer { .. }
            | Self::RunPr(_)
            | Self::PullOpen(_)
            | Self::PullSettle(_)
            | Self::DeliveryTry { .. }
            | Self::DeliveryAgain { .. }
            | Self::CardUpdate(_)
            | Self::CardRemove { .. }
            | Self::ScratchpadAppend { .. }
            | Self::ReviewRequest { .. }
            | Self::ReviewDecide(ReviewDecide { verdict: ReviewVerdict::Reject { .. }, .. })
            | Self::ReviewClear { .. }
            | Self::ReviewSettle(_)
            | Self::CallRefuse { .. }
            | Self::CallAnswer { .. }
            | Self::SettingsUpdate(_)
            | Self::ProjectCreate(_)
            | Self::ProjectOpen { .. }
            | Self::PlanPropose(_)
            | Self::PlanApprove(_)
            | Self::PlanReject { .. }
            | Self::WorkSubmit(_)
            | Self::WorkUp { .. }
            | Self::WorkEnd { .. }
            | Self::WorkStop { .. }
            | Self::WorkGone { .. }
            | Self::AgentRemove { .. }
            | Self::MailSend(_)
            | Self::MailReply(_)
            | Self::DecisionLog(_)
            | Self::StopQueue { .. }
            | Self::StopCancel { .. }
            | Self::EpicTaskAdd(_)
            | Self::CrewAssign(_)
            | Self::CrewGiveUp(_)
            | Self::CrewFree { .. } => false,
        }
    }
}
