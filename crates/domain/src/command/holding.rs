//! Which commands need an actor that is one client: those that hold a task for the actor, give it back, or depend
//! on who approved or attested.

use super::{Command, ReviewDecide, ReviewVerdict};

impl Command {
    /// Whether two clients under one name would get in each other's way: both would hold the task, or one would
    /// answer for the other.
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
