//! `decide`: the only place where a rule says yes or no. Total, deterministic, without I/O; it
//! knows the time only as an argument. The order of refusals is part of the contract.

mod board;
mod call;
mod crew;
mod draft;
mod input;
mod knowledge;
mod pulls;
mod review;
mod runs;
pub mod task;

pub use board::card::{label_of, same_column};
pub use board::session::{SessionGround, session_gate};
pub(crate) use knowledge::tags as judge_tags;
pub use review::reject::{Rejected, rejected};
pub use review::{
    AGENT_LINGERS, MergeGate, MergeNeeds, MergeWaits, agent_at_work, at_work, merge_gate,
    rebase_gate,
};
pub use task::attempt::{BeginGround, begin_gate, judge_actor, judge_session_key};
pub use task::check::{checks_to_run, checks_unknown, judge_run_request, log_of};
pub use task::verification;
pub use task::{TransitionGate, transition_gate};

use board::{card, plan, project, session, settings};
use crew::epic;
use runs::{delivery, job, output, run, stop_job, work};
use task::{attempt, block, check, comment, dependency, lease, tell, update};

use crate::command::Command;
use crate::event::Event;
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::world::{Change, World};

/// Judges a command on the rows of `world`, and answers with everything to write. Three rules look at the finished
/// change of any command: a block that the change answers is lifted, checks that its move into review asks for are
/// queued, and messages about it are addressed.
pub fn decide(world: &World<'_>, command: &Command, now: Timestamp) -> Result<Change, Refusal> {
    let mut change = judged(world, command, now)?;
    block::answered(world, command, &mut change);
    review::checks::checks_queued(world, command, &mut change, now);
    delivery::told(world, &mut change, now);
    // Readers of the log trust the table of keys in `event/names.rs`. A build with debug assertions, and so every test,
    // refuses an event that the table does not describe.
    debug_assert_eq!(unlisted(&change), None, "a key is missing in `event/names.rs`");
    Ok(change)
}

/// The first event with a key that the table of events does not list.
fn unlisted(change: &Change) -> Option<&Event> {
    change.events.iter().find(|event| !event.read().unlisted(event.name).is_empty())
}

/// One line for each command: the rule has the name of its command. No rule stands here.
fn judged(world: &World<'_>, command: &Command, now: Timestamp) -> Result<Change, Refusal> {
    match command {
        Command::TaskCreate(c) => task::task_create(world, c, now),
        Command::TaskCreateAll(all) => task::task_create_all(world, all, now),
        Command::TaskEdit(c) => task::task_edit(world, c, now),
        Command::TaskUpdate(c) => update::task_update(world, c, now),
        Command::TaskRemove { task } => task::task_remove(world, *task, now),
        Command::TaskClaim { task } => task::task_claim(world, *task, false, now),
        Command::TaskClaimStartable { task } => task::task_claim(world, *task, true, now),
        Command::TaskRelease { task } => task::task_release(world, *task, now),
        Command::TaskTakeBack { task } => task::task_take_back(world, *task, now),
        Command::TaskBlock { task, reason } => block::task_block(world, *task, reason, now),
        Command::TaskUnblock { task } => block::task_unblock(world, *task, now),
        Command::TaskTransition { task, to, checked, work } => {
            task::task_transition(world, *task, to, checked.as_ref(), work.as_deref(), now)
        }
        Command::TaskTell { task, text } => tell::task_tell(world, *task, text, now),
        Command::TaskHear { task, job, upto } => tell::task_hear(world, *task, *job, *upto, now),
        Command::TaskNote { task, text } => task::task_note(world, *task, text, now),
        Command::DependencyAdd { task, dep } => dependency::dependency_add(world, *task, *dep, now),
        Command::DependencyRemove { task, dep } => {
            dependency::dependency_remove(world, *task, *dep, now)
        }
        Command::CheckRun { task, checked } => check::check_run(world, *task, checked, now),
        Command::CheckAttest { task, index, pass, tree } => {
            check::check_attest(world, *task, *index, *pass, tree.clone(), now)
        }
        Command::AttemptBegin(c) => attempt::attempt_begin(world, c, now),
        Command::AttemptHeartbeat { attempt, progress } => {
            attempt::attempt_heartbeat(world, *attempt, progress.as_deref(), now)
        }
        Command::AttemptFinish { attempt, summary, head, tree } => {
            attempt::attempt_finish(world, *attempt, summary, head.clone(), tree.as_deref(), now)
        }
        Command::AttemptCancel { attempt, reason } => {
            attempt::attempt_cancel(world, *attempt, reason, now)
        }
        Command::LeaseTake { attempt, task, lease_s } => {
            lease::lease_take(world, *attempt, *task, *lease_s, now)
        }
        Command::LeaseUpdate(c) => lease::lease_update(world, c, now),
        Command::LeaseComplete(c) => lease::lease_complete(world, c, now),
        Command::TaskReopen { task } => lease::task_reopen(world, *task, now),
        Command::CommentAdd(c) => comment::comment_add(world, c, now),
        Command::CommentResolve { comment, words } => {
            comment::comment_resolve(world, *comment, words.as_ref(), now)
        }
        Command::VerificationQueue { task, job } => {
            verification::verification_queue(world, *task, *job, now)
        }
        Command::VerificationJudge { job, tries, found, checked, work } => {
            let seen = (checked.as_ref(), work.as_deref());
            verification::verification_judge(world, *job, *tries, found, seen, now)
        }
        Command::JobQueue { job, kind, key } => job::job_queue(world, *job, *kind, key, now),
        Command::JobTake { job, lease_s } => job::job_take(world, *job, *lease_s, now),
        Command::JobKeep { job, tries, lease_s } => {
            job::job_keep(world, *job, *tries, *lease_s, now)
        }
        Command::JobCancel { job } => job::job_cancel(world, *job, now),
        Command::JobEnd { job, tries, end } => job::job_end(world, *job, *tries, end, now),
        Command::AttemptExpire { attempt } => attempt::attempt_expire(world, *attempt, now),
        Command::RunSubmit(c) => run::run_submit(world, c, now),
        Command::RunLease(c) => run::run_lease(world, c, now),
        Command::RunKeep { job, fence, lease_s } => {
            run::run_keep(world, *job, *fence, *lease_s, now)
        }
        Command::RunUse { job, fence, agent, usage } => {
            output::run_use(world, (*job, *fence), agent, *usage, now)
        }
        Command::RunCommit(job, fence, commit) => {
            output::run_commit(world, (*job, *fence), commit, now)
        }
        Command::RunHold { job, fence, left } => output::run_hold(world, *job, *fence, left, now),
        Command::RunSettle(c) => run::run_settle(world, c, now),
        Command::RunEnd(c) => run::run_end(world, c, now),
        Command::RunCancel { job } => run::run_cancel(world, *job, now),
        Command::RunArtifact { job, fence, new } => {
            output::run_artifact(world, *job, *fence, new, now)
        }
        Command::RunAsk { job, fence, text, command } => {
            output::run_ask(world, *job, *fence, text, command.as_deref(), now)
        }
        Command::RunAnswer { job, number, granted } => {
            output::run_answer(world, *job, *number, *granted, now)
        }
        Command::CardUpdate(c) => card::card_update(world, c, now),
        Command::CardRemove { task } => card::card_remove(world, *task, now),
        Command::ScratchpadAppend { task, text } => card::scratchpad_append(world, *task, text),
        Command::ReviewRequest { task, summary } => {
            review::review_request(world, *task, summary, now)
        }
        Command::ReviewDecide(c) => review::review_decide(world, c, now),
        Command::ReviewClear { task, needs_approval, checked, work, seen } => {
            let (approval, work, seen) = (*needs_approval, work.as_deref(), Some(seen));
            let needs = MergeNeeds { approval, work, seen };
            review::review_clear(world, *task, checked.as_ref(), needs, now)
        }
        Command::ReviewSettle(c) => review::review_settle(world, c, now),
        Command::SessionBegin(c) => session::session_begin(world, c, now),
        Command::SessionEnd { task } => session::session_end(world, *task, now),
        Command::CallRefuse { tool, action, code, task } => {
            Ok(call::call_refuse(world, tool, *action, code, *task))
        }
        Command::CallAnswer { tool, task } => Ok(call::call_answer(world, tool, *task)),
        Command::WorkSubmit(c) => work::work_submit(world, c, now),
        Command::WorkUp { job, fence, place, terminal } => {
            work::work_up(world, *job, *fence, (place, terminal.as_ref()), now)
        }
        Command::WorkEnd { job, fence, end, agent, reviewer } => {
            work::work_end(world, *job, *fence, end, agent, *reviewer, now)
        }
        Command::WorkStop { job } => work::work_stop(world, *job, now),
        Command::WorkGone { job, fence } => work::work_gone(world, *job, *fence, now),
        Command::StopQueue { job, task, open } => {
            stop_job::stop_queue(world, *job, *task, *open, now)
        }
        Command::StopCancel { job } => stop_job::stop_cancel(world, *job, now),
        Command::RunPr(c) => pulls::run_pr(world, c, now),
        Command::PullOpen(c) => pulls::pull_open(world, c, now),
        Command::PullSettle(c) => pulls::pull_settle(world, c, now),
        Command::DeliveryTry { job, tries, about, to, receipt } => {
            delivery::delivery_try(world, *job, *tries, (*about, to), receipt, now)
        }
        Command::DeliveryAgain { job, about, to } => {
            delivery::delivery_again(world, *job, (*about, to), now)
        }
        Command::AgentAdd(c) => crew::agent_add(world, c, now),
        Command::AgentRemove { agent } => crew::agent_remove(world, agent),
        Command::AgentTouch { agent } => Ok(crew::agent_touch(world, agent, now)),
        Command::MailSend(c) => crew::mail_send(world, c, now),
        Command::MailReply(c) => crew::mail_reply(world, c, now),
        Command::MailRead { mail, by } => crew::mail_read(world, *mail, by.as_ref(), now),
        Command::DecisionLog(c) => crew::decision_log(world, c, now),
        Command::EpicTaskAdd(c) => epic::epic_task_add(world, c, now),
        Command::EpicMove(c) => epic::epic_move(world, c, now),
        Command::EpicFinish(c) => epic::epic_finish(world, c, now),
        Command::CrewAssign(c) => crew::task::crew_assign(world, c, now),
        Command::CrewMove(c) => crew::task::crew_move(world, c, now),
        Command::CrewReturn(c) => crew::task::crew_return(world, c, now),
        Command::CrewSettle(c) => crew::task::crew_settle(world, c, now),
        Command::CrewGiveUp(c) => crew::task::crew_give_up(world, c, now),
        Command::CrewFree { agent, task } => crew::task::crew_free(world, agent, *task, now),
        Command::KnowledgeStore(c) => knowledge::knowledge_store(world, c, now),
        Command::SettingsUpdate(c) => settings::settings_update(world, c),
        Command::ProjectCreate(c) => project::project_create(world, c, now),
        Command::ProjectOpen { project } => project::project_open(world, *project),
        Command::PlanPropose(c) => plan::plan_propose(world, c, now),
        Command::PlanApprove(c) => plan::plan_approve(world, c, now),
        Command::PlanReject { plan, words } => {
            plan::plan_reject(world, *plan, words.as_deref(), now)
        }
    }
}
