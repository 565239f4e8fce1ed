//! Which rows each command needs.

use std::collections::BTreeSet;

use crate::actor::Actor;
use crate::board::plan::PlanId;
use crate::command::{
    Command, LeaseTarget, PlanApprove, ReviewDecide, RunSettle, Start, TaskCreate,
};
use crate::crew::{AgentId, MailId};
use crate::ids::{AttemptId, Id, Prefix, TaskId};
use crate::knowledge::KnowledgeId;
use crate::runs::job::{JobId, JobKind};
use crate::runs::work::stop_key;
use crate::task::comment::CommentId;

/// The rows that a store loads before `decide` judges a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    pub task: Option<TaskId>,
    pub attempt: Option<AttemptId>,
    pub attempt_by_key: Option<(TaskId, Actor, String)>,
    /// Tasks of which only existence and phase matter.
    pub named: Vec<TaskId>,
    /// Tasks that depend on the subject: needed when it may close or reopen.
    pub dependents: bool,
    /// Everything these tasks depend on, at any depth: needed for the cycle check.
    pub ancestry_of: Vec<TaskId>,
    /// The newest line of the subject's history.
    pub last_entry: bool,
    /// The subject's open blockers.
    pub blockers: bool,
    /// A comment. If `task` is `None`, the comment's task is the subject.
    pub comment: Option<CommentId>,
    /// A job. If `task` is `None`, the job's task is the subject.
    pub job: Option<JobId>,
    /// The subject's open verify job.
    pub verify_job: bool,
    /// The open job with this key.
    pub job_key: Option<String>,
    /// An entry of which only the existence matters.
    pub knowledge: Option<KnowledgeId>,
    /// The subject's open run, with its job: needed when the subject may close.
    pub run_of_task: bool,
    /// The newest run with this idempotency key, with its job.
    pub run_key: Option<String>,
    /// How many jobs of the org are open.
    pub open_runs: bool,
    /// How many runs of a kind are on this machine.
    pub runs_on: Option<(JobKind, String)>,
    /// The newest task number of each prefix in the org: needed when the command creates tasks.
    pub numbers: BTreeSet<Prefix>,
    /// Projects and references: needed when the command imports tasks.
    pub references: BTreeSet<(i64, String)>,
    /// The newest number of the org's local pull requests.
    pub pulls: bool,
    /// The subject's pull requests.
    pub task_pulls: bool,
    pub org: OrgNeeds,
    /// The subject's card and body.
    pub card: bool,
    /// The subject's notes.
    pub scratchpad: bool,
    /// The actor's drafts on the subject.
    pub drafts: bool,
    /// Every task above this one: needed when it becomes a parent.
    pub above: Option<TaskId>,
    pub crew: CrewNeeds,
    /// The number of the command's last event: needed when the caller reads these events back.
    pub number: bool,
}

impl Needs {
    /// Whether the command decides on edges, counts or rows of its org that commands on other tasks might change. A store
    /// that decides several commands on one desk must not decide such a command beside others. Counts of runs are no
    /// reason: the desk keeps them up to date.
    pub fn is_wide(&self) -> bool {
        !self.ancestry_of.is_empty() || self.above.is_some() || self.pulls || !self.org.is_empty()
    }
}

/// Rows of a crew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrewNeeds {
    pub agents: Vec<AgentId>,
    /// Each mail with its sender.
    pub mails: Vec<MailId>,
    /// How many workers there are.
    pub workers: bool,
}

impl CrewNeeds {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Rows that belong to the org and to no task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrgNeeds {
    pub settings: bool,
    /// A project, and the project that the actor has open.
    pub project: Option<i64>,
    /// Numbers for a new project with this many repositories.
    pub room: Option<usize>,
    pub plan: Option<PlanId>,
}

impl OrgNeeds {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Command {
    pub fn needs(&self, actor: &Actor) -> Needs {
        let subject = |task: &TaskId| Needs { task: Some(*task), ..Needs::default() };
        let attempt = |attempt: &AttemptId| Needs {
            attempt: Some(*attempt),
            last_entry: true,
            ..Needs::default()
        };
        let of_org = |org| Needs { org, ..Needs::default() };
        let none = OrgNeeds::default();
        // Any end of the task concerns its dependents, the agent that may run on it, and the forge that may be
        // about to merge it.
        let crew_task = |task: &TaskId, agents: Vec<AgentId>| Needs {
            dependents: true,
            run_of_task: true,
            card: true,
            task_pulls: true,
            crew: CrewNeeds { agents, ..CrewNeeds::default() },
            ..subject(task)
        };
        let of_crew = |agents, mails| Needs {
            crew: CrewNeeds { agents, mails, ..CrewNeeds::default() },
            ..Needs::default()
        };
        match self {
            Command::TaskCreate(c) => Needs {
                named: c.deps.iter().chain(&c.parent).copied().collect(),
                numbers: [c.task.prefix].into(),
                references: c.named().into_iter().collect(),
                ..Needs::default()
            },
            Command::TaskCreateAll(all) => Needs {
                named: all.iter().flat_map(|c| c.deps.iter().chain(&c.parent)).copied().collect(),
                numbers: all.iter().map(|c| c.task.prefix).collect(),
                references: all.iter().filter_map(TaskCreate::named).collect(),
                ..Needs::default()
            },
            Command::TaskEdit(c) => subject(&c.task),
            Command::TaskUpdate(c) => {
                let deps = c.deps.clone().unwrap_or_default();
                Needs { named: deps.clone(), ancestry_of: deps, ..subject(&c.task) }
            }
            Command::TaskClaim { task }
            | Command::TaskClaimStartable { task }
            | Command::TaskRelease { task }
            | Command::TaskBlock { task, .. }
            | Command::TaskUnblock { task }
            | Command::TaskNote { task, .. }
            | Command::CheckRun { task, .. } => subject(task),
            Command::TaskTell { task, .. } | Command::TaskHear { task, .. } => {
                Needs { card: true, ..subject(task) }
            }
            Command::TaskReopen { task } => Needs { run_of_task: true, ..subject(task) },
            Command::CheckAttest { task, .. } | Command::VerificationQueue { task, .. } => {
                Needs { verify_job: true, ..subject(task) }
            }
            Command::LeaseTake { task, .. } => Needs { blockers: true, ..subject(task) },
            Command::LeaseUpdate(c) => {
                let run_of_task = c.to == LeaseTarget::Canceled;
                Needs { dependents: true, last_entry: true, run_of_task, ..subject(&c.task) }
            }
            Command::LeaseComplete(c) => {
                Needs { dependents: true, verify_job: true, ..subject(&c.task) }
            }
            Command::CommentAdd(c) => {
                Needs { blockers: true, comment: c.parent, ..subject(&c.task) }
            }
            Command::CommentResolve { comment, .. } => Needs {
                comment: Some(*comment),
                blockers: true,
                verify_job: true,
                ..Needs::default()
            },
            Command::VerificationJudge { job, .. } => {
                Needs { job: Some(*job), dependents: true, blockers: true, ..Needs::default() }
            }
            Command::JobQueue { key, .. } => {
                Needs { job_key: Some(key.clone()), ..Needs::default() }
            }
            Command::JobTake { job, .. }
            | Command::JobKeep { job, .. }
            | Command::JobEnd { job, .. }
            | Command::DeliveryTry { job, .. }
            | Command::DeliveryAgain { job, .. }
            | Command::JobCancel { job }
            | Command::StopCancel { job } => Needs { job: Some(*job), ..Needs::default() },
            Command::TaskRemove { task } => {
                Needs { dependents: true, run_of_task: true, number: true, ..subject(task) }
            }
            Command::TaskTakeBack { task } | Command::TaskTransition { task, .. } => {
                Needs { dependents: true, run_of_task: true, ..subject(task) }
            }
            Command::DependencyAdd { task, dep } => {
                Needs { named: vec![*dep], ancestry_of: vec![*dep], ..subject(task) }
            }
            Command::DependencyRemove { task, dep } => Needs { named: vec![*dep], ..subject(task) },
            Command::AttemptBegin(c) => Needs {
                attempt_by_key: c.key.clone().map(|key| (c.task, actor.clone(), key)),
                ..subject(&c.task)
            },
            Command::AttemptHeartbeat { attempt: id, .. }
            | Command::AttemptFinish { attempt: id, .. }
            | Command::AttemptCancel { attempt: id, .. }
            | Command::AttemptExpire { attempt: id } => attempt(id),
            Command::RunSubmit(c) => Needs {
                run_key: Some(c.spec.idempotency_key.clone()),
                open_runs: true,
                numbers: [c.task.prefix].into(),
                ..Needs::default()
            },
            Command::StopQueue { task, .. } => {
                Needs { card: true, job_key: Some(stop_key(*task)), ..subject(task) }
            }
            Command::WorkSubmit(c) => Needs {
                run_of_task: true,
                card: true,
                // A task that is reopened has dependents again.
                dependents: c.start != Start::Board,
                ..subject(&c.task)
            },
            Command::RunLease(c) => Needs {
                job: Some(c.job),
                dependents: true,
                // The rules of a patch job do not look at a card.
                card: c.kind.is_in_workspace(),
                runs_on: Some((c.kind, c.machine.clone())),
                ..Needs::default()
            },
            // What a run reports and leaves does not touch its task.
            Command::RunArtifact { job, .. }
            | Command::RunAsk { job, .. }
            | Command::RunAnswer { job, .. }
            | Command::RunHold { job, .. }
            | Command::RunUse { job, .. }
            | Command::RunCommit(job, ..) => Needs { job: Some(*job), ..Needs::default() },
            Command::RunEnd(c) => Needs { job: Some(c.job), dependents: true, ..Needs::default() },
            Command::RunKeep { job, .. }
            | Command::RunSettle(RunSettle { job, .. })
            | Command::RunCancel { job }
            | Command::WorkUp { job, .. }
            | Command::WorkEnd { job, .. }
            | Command::WorkStop { job }
            | Command::WorkGone { job, .. } => Needs {
                job: Some(*job),
                dependents: true,
                card: true,
                scratchpad: true,
                ..Needs::default()
            },
            Command::CallRefuse { .. } | Command::CallAnswer { .. } => Needs::default(),
            Command::SettingsUpdate(_) => {
                Needs { number: true, ..of_org(OrgNeeds { settings: true, ..none }) }
            }
            Command::ProjectCreate(c) => of_org(OrgNeeds { room: Some(c.repos.len()), ..none }),
            Command::ProjectOpen { project } => {
                of_org(OrgNeeds { project: Some(*project), ..none })
            }
            Command::PlanPropose(_) => Needs::default(),
            Command::PlanApprove(PlanApprove { plan, tasks, .. }) => Needs {
                numbers: tasks.iter().map(|task| task.prefix).collect(),
                ..of_org(OrgNeeds { plan: Some(*plan), ..none })
            },
            Command::PlanReject { plan, .. } => of_org(OrgNeeds { plan: Some(*plan), ..none }),
            Command::CardUpdate(c) => {
                let parent = c.parent.flatten();
                Needs {
                    named: parent.into_iter().collect(),
                    above: parent,
                    dependents: true,
                    run_of_task: true,
                    card: true,
                    ..subject(&c.task)
                }
            }
            Command::CardRemove { task } => {
                Needs { dependents: true, run_of_task: true, ..subject(task) }
            }
            Command::ScratchpadAppend { task, .. } => Needs { scratchpad: true, ..subject(task) },
            Command::ReviewRequest { task, .. } => {
                Needs { dependents: true, run_of_task: true, card: true, ..subject(task) }
            }
            Command::ReviewDecide(ReviewDecide { task, sends, .. }) => Needs {
                dependents: true,
                run_of_task: true,
                card: true,
                drafts: sends.drafts,
                ..subject(task)
            },
            Command::RunPr(c) => Needs {
                job: Some(c.job),
                dependents: true,
                pulls: c.at.is_none(),
                ..Needs::default()
            },
            Command::ReviewClear { task, .. } => {
                Needs { card: true, run_of_task: true, ..subject(task) }
            }
            Command::SessionEnd { task } => subject(task),
            Command::PullOpen(c) => {
                Needs { pulls: c.at.is_none(), task_pulls: true, ..subject(&c.task) }
            }
            Command::PullSettle(c) => Needs {
                task_pulls: true,
                crew: CrewNeeds {
                    agents: c.behind.iter().map(|behind| behind.worker.clone()).collect(),
                    ..CrewNeeds::default()
                },
                ..subject(&c.task)
            },
            Command::ReviewSettle(c) => Needs {
                dependents: true,
                run_of_task: true,
                card: true,
                scratchpad: true,
                task_pulls: true,
                ..subject(&c.task)
            },
            Command::SessionBegin(c) => Needs { card: true, ..subject(&c.task) },
            Command::AgentAdd(c) => {
                let had = c.task.iter().flat_map(|given| &given.from);
                let agents = had.chain([&c.agent]).cloned().collect();
                let needs = match &c.task {
                    Some(given) => crew_task(&given.task, agents),
                    None => of_crew(agents, Vec::new()),
                };
                let crew = CrewNeeds { workers: c.workers_max.is_some(), ..needs.crew };
                Needs { named: c.epic.into_iter().collect(), crew, ..needs }
            }
            Command::AgentRemove { agent } | Command::AgentTouch { agent } => {
                of_crew(vec![agent.clone()], Vec::new())
            }
            Command::MailSend(c) => of_crew(c.to.iter().cloned().collect(), vec![c.mail]),
            Command::MailReply(c) => of_crew(Vec::new(), vec![c.mail, c.original]),
            Command::MailRead { mail, .. } => of_crew(Vec::new(), vec![*mail]),
            Command::DecisionLog(_) => Needs::default(),
            Command::EpicTaskAdd(c) => {
                let (named, numbers) = (vec![c.epic], [c.task.prefix].into());
                Needs { named, numbers, ..crew_task(&c.epic, vec![c.by.clone()]) }
            }
            Command::EpicMove(c) => crew_task(&c.epic, vec![c.by.clone()]),
            Command::EpicFinish(c) => crew_task(&c.epic, vec![c.by.clone()]),
            Command::CrewAssign(c) => {
                let others = c.by.iter().chain(&c.from);
                let agents = others.chain([&c.worker]).cloned().collect();
                Needs { named: c.was_on.into_iter().collect(), ..crew_task(&c.task, agents) }
            }
            Command::CrewMove(c) => {
                let agents = c.supervisor.iter().chain([&c.by]).cloned().collect();
                crew_task(&c.task, agents)
            }
            Command::CrewReturn(c) => {
                let agents = c.worker.iter().chain([&c.by]).cloned().collect();
                crew_task(&c.task, agents)
            }
            Command::CrewSettle(c) => {
                let behind = c.behind.iter().map(|behind| &behind.worker);
                let agents = c.worker.iter().chain(&c.sender).chain(behind).cloned().collect();
                crew_task(&c.task, agents)
            }
            Command::CrewGiveUp(c) => {
                let hears = c.lost.as_ref().and_then(|lost| lost.supervisor.as_ref());
                crew_task(&c.task, c.worker.iter().chain(hears).cloned().collect())
            }
            Command::CrewFree { agent, task } => crew_task(task, vec![agent.clone()]),
            Command::KnowledgeStore(c) => Needs {
                task: c.task.map(|(task, _)| task),
                knowledge: c.supersedes,
                ..Needs::default()
            },
        }
    }
}

/// The key of the one job that runs the checks of a task in review.
pub fn check_key(task: TaskId) -> String {
    format!("check-{task}")
}

/// The id of that job, made from the task's. A task has one such job, which is queued again whenever its checks
/// have to run.
pub fn check_job(task: TaskId) -> JobId {
    JobId(Id(task.id.0 ^ CHECK_MARK))
}

/// Any constant works, as long as it never changes.
const CHECK_MARK: u128 = 0x6368_6563_6b5f_6a6f_625f;

/// The key of the one verify job a task may have under way.
pub fn verify_key(task: TaskId) -> String {
    format!("verify-{task}")
}
