//! Random commands of every kind. The office knows which rows there are from the replies it hears, so that many commands
//! hit; the others are refused, and refusals are compared, too.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use callboard_domain::actor::Actor;
use callboard_domain::board::card::{Mode, Terminal as CardTerminal};
use callboard_domain::board::plan::{PlanId, PlannedPriority, PlannedTask, Todo, TodoStatus};
use callboard_domain::board::settings::{BoardSettings, SettingKey};
use callboard_domain::command::{
    AgentAdd, AttemptBegin, Basis, Behind, CardUpdate, Checked, Command, CommentAdd, CrewAssign,
    CrewGiveUp, CrewLoss, CrewMove, CrewReturn, CrewSettle, DecisionLog, EpicFinish, EpicMove,
    EpicTaskAdd, Found, JobEnd, KnowledgeStore, LeaseComplete, LeaseTarget, LeaseUpdate, MailReply,
    MailSend, MergedBranch, NewCheck, NewRepo, PlanApprove, PlanPropose, ProjectCreate, PullOpen,
    PullSettle, PullStep, ReviewDecide, ReviewOutcome, ReviewSends, ReviewSettle, ReviewVerdict,
    RunEnd, RunLease, RunPr, RunSettle, RunSubmit, SessionBegin, SettingsUpdate, Start, TaskCreate,
    TaskEdit, TaskUpdate, TerminalStart, WorkPlace, WorkSubmit,
};
use callboard_domain::crew::state::{EpicState, TaskState};
use callboard_domain::crew::{AgentId, DecisionId, MailId};
use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::knowledge::{EdgeKind, KnowledgeId, NewKnowledge};
use callboard_domain::policy::Phase;
use callboard_domain::pulls::LOCAL;
use callboard_domain::relay::{FailReason, RunVerdict};
use callboard_domain::review::mark::ReviewMark;
use callboard_domain::review::{DiffSide, ReviewComment, ReviewCommentId};
use callboard_domain::rights::AgentType;
use callboard_domain::runs::delivery::{Receipt, Topic, Webhook};
use callboard_domain::runs::job::{JobId, JobKind};
use callboard_domain::runs::run::{Artifact, ArtifactName, NewArtifact, RunCommit, Terminal};
use callboard_domain::runs::usage::RunUsage;
use callboard_domain::runs::work::{Ending, Role, WorkEnd, WorkOrder};
use callboard_domain::task::attempt::AttemptKind;
use callboard_domain::task::comment::{CommentId, CommentKind};
use callboard_domain::task::contract::{VerificationContract, VerificationKind};
use callboard_domain::task::{CheckKind, TaskRecord, Verdict, VerdictSource};
use callboard_domain::time::Timestamp;
use callboard_store::Outcome;
use serde_json::json;

use crate::seeded::Rng;

/// Names every command once. A command that is missing here does not compile, and one without an arm in `Office::make`
/// does not either.
macro_rules! kinds {
    ($($kind:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $($kind),* }

        impl Kind {
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),*];

            pub fn of(command: &Command) -> Self {
                match command { $(Command::$kind { .. } => Kind::$kind),* }
            }
        }
    };
}

kinds! {
    TaskCreate, TaskCreateAll, TaskEdit, TaskUpdate, TaskRemove, TaskClaim, TaskClaimStartable, TaskRelease,
    TaskBlock, TaskUnblock, TaskTakeBack, TaskTransition, TaskNote, TaskTell, TaskHear, DependencyAdd,
    DependencyRemove, CheckRun, CheckAttest, AttemptBegin, AttemptHeartbeat, AttemptFinish, AttemptCancel,
    LeaseTake, LeaseUpdate, LeaseComplete, TaskReopen, CommentAdd, CommentResolve, VerificationQueue,
    VerificationJudge, JobQueue, JobTake, JobKeep, JobEnd, JobCancel, AttemptExpire, KnowledgeStore, RunSubmit,
    RunLease, RunKeep, RunHold, RunUse, RunCommit, RunSettle, RunEnd, RunCancel, RunArtifact, RunAsk, RunAnswer,
    RunPr, PullOpen, PullSettle, DeliveryTry, DeliveryAgain, CardUpdate, CardRemove, ScratchpadAppend,
    ReviewRequest, ReviewDecide, ReviewClear, ReviewSettle, SessionBegin, SessionEnd, CallRefuse, CallAnswer,
    SettingsUpdate, ProjectCreate, ProjectOpen, PlanPropose, PlanApprove, PlanReject, WorkSubmit, WorkUp, WorkEnd,
    WorkStop, WorkGone, AgentAdd, AgentRemove, AgentTouch, MailSend, MailReply, MailRead, DecisionLog, StopQueue,
    StopCancel, EpicTaskAdd, EpicMove, EpicFinish, CrewAssign, CrewMove, CrewReturn, CrewSettle, CrewGiveUp,
    CrewFree,
}

impl Kind {
    /// The everyday commands of agents, for tests of the disk.
    pub const EVERYDAY: &'static [Kind] = &[
        Kind::TaskCreate,
        Kind::TaskCreate,
        Kind::TaskClaim,
        Kind::TaskRelease,
        Kind::TaskNote,
        Kind::TaskNote,
        Kind::TaskTransition,
        Kind::TaskRemove,
        Kind::DependencyAdd,
        Kind::CheckAttest,
        Kind::AttemptBegin,
        Kind::AttemptHeartbeat,
        Kind::AttemptHeartbeat,
        Kind::AttemptFinish,
        Kind::AttemptExpire,
        Kind::LeaseTake,
        Kind::LeaseUpdate,
        Kind::LeaseComplete,
        Kind::CommentAdd,
        Kind::KnowledgeStore,
        Kind::JobQueue,
        Kind::JobTake,
        Kind::JobKeep,
        Kind::JobEnd,
        Kind::RunSubmit,
        Kind::RunLease,
        Kind::RunKeep,
        Kind::RunEnd,
    ];
}

const ACTORS: [&str; 6] =
    ["human:ana", "agent:w1", "agent:w2", "runner:r1", "runner:r2", "system:relay"];
const AGENTS: [&str; 4] = ["s1", "w1", "w2", "human:ana"];
const TEXTS: [&str; 5] =
    ["a", "two words", "umlaut \u{fc} and \u{1f600}", "'; DROP TABLE tasks", ""];

pub fn actor(name: &str) -> Actor {
    name.parse().unwrap()
}

/// Every actor that may have drafts.
pub fn authors() -> impl Iterator<Item = Actor> {
    ACTORS.iter().map(|name| actor(name))
}

fn agent_id(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

/// A job or run as the office last heard of it.
#[derive(Clone, Copy)]
struct SeenJob {
    id: JobId,
    kind: JobKind,
    tries: u32,
    fence: u64,
}

pub struct Office {
    pub rng: Rng,
    /// Chooses comments on lines.
    reviews: Rng,
    pub project: i64,
    pub prefix: Prefix,
    pub now: Timestamp,
    next: u128,
    tasks: Vec<TaskId>,
    seen: BTreeMap<TaskId, TaskRecord>,
    attempts: Vec<(AttemptId, Actor)>,
    comments: Vec<CommentId>,
    jobs: Vec<SeenJob>,
    knowledge: Vec<KnowledgeId>,
    plans: Vec<(PlanId, usize)>,
    mails: Vec<MailId>,
    projects: Vec<i64>,
    /// The epic that the supervisor leads.
    epic: Option<TaskId>,
    /// The worker that got a task last, and the task.
    assigned: Option<(AgentId, TaskId)>,
    /// The run that asked last.
    asking: Option<JobId>,
    /// Drafts with their tasks and authors.
    drafts: Vec<(TaskId, Actor, ReviewCommentId)>,
}

/// The newest rows are named most often, so that commands meet on them.
fn newest<'a, T>(rng: &mut Rng, of: &'a [T]) -> Option<&'a T> {
    let from = if rng.percent(85) { of.len().saturating_sub(6) } else { 0 };
    of.get(from + rng.below(of.len() - from))
}

impl Office {
    pub fn new(seed: u64, project: i64, prefix: Prefix) -> Self {
        Self {
            rng: Rng::of(seed),
            reviews: Rng::of(!seed),
            project,
            prefix,
            now: Timestamp(0),
            next: 1,
            tasks: Vec::new(),
            seen: BTreeMap::new(),
            attempts: Vec::new(),
            comments: Vec::new(),
            jobs: Vec::new(),
            knowledge: Vec::new(),
            plans: Vec::new(),
            mails: Vec::new(),
            projects: vec![project],
            epic: None,
            assigned: None,
            asking: None,
            drafts: Vec::new(),
        }
    }

    /// Notes what a command that was carried out, and its reply, tell of the rows.
    pub fn hear(&mut self, command: &Command, outcome: &Outcome) {
        match command {
            Command::AgentAdd(new) => {
                self.epic = new.epic.or(self.epic);
                let assigned = new.task.as_ref().map(|new| (new.worker.clone(), new.task));
                self.assigned = assigned.or_else(|| self.assigned.take());
            }
            Command::CrewAssign(new) => self.assigned = Some((new.worker.clone(), new.task)),
            Command::RunAsk { job, .. } => self.asking = Some(*job),
            _ => {}
        }
        match outcome {
            Outcome::Task(record) => {
                if let Some(newest) = &record.newest {
                    self.hear_attempt(newest.id, newest.actor.clone());
                }
                self.hear_task(record.task.id);
                self.seen.insert(record.task.id, (**record).clone());
            }
            Outcome::Attempt(attempt) => self.hear_attempt(attempt.id, attempt.actor.clone()),
            Outcome::Comment(comment) => self.comments.push(comment.id),
            Outcome::Job(job) => self.hear_job(job.id, job.kind, job.tries, u64::from(job.tries)),
            Outcome::Run(run) => {
                let job = &run.job;
                self.hear_job(job.id, job.kind, job.tries, run.run.fence);
                if let Some(task) = job.task {
                    self.hear_task(task);
                }
            }
            Outcome::Knowledge(entry) => self.knowledge.push(entry.id),
            Outcome::Plan(plan) => self.plans.push((plan.id, plan.tasks.len())),
            Outcome::Mail(mail) => self.mails.push(mail.id),
            Outcome::Project(project) => self.projects.push(project.id),
            Outcome::Settings(_) | Outcome::Decision(_) | Outcome::Removed(_) | Outcome::Noted => {}
        }
    }

    fn hear_task(&mut self, id: TaskId) {
        if !self.tasks.contains(&id) {
            self.tasks.push(id);
        }
    }

    fn hear_attempt(&mut self, id: AttemptId, by: Actor) {
        if !self.attempts.iter().any(|(known, _)| *known == id) {
            self.attempts.push((id, by));
        }
    }

    fn hear_job(&mut self, id: JobId, kind: JobKind, tries: u32, fence: u64) {
        self.jobs.retain(|job| job.id != id);
        self.jobs.push(SeenJob { id, kind, tries, fence });
    }

    pub fn id(&mut self) -> Id {
        self.next += 1;
        Id(self.next << 32)
    }

    fn text(&mut self) -> String {
        match self.rng.percent(3) {
            true => "long ".repeat(1 + self.rng.below(900)),
            false => (*self.rng.pick(&TEXTS)).to_owned(),
        }
    }

    fn word(&mut self) -> String {
        (*self.rng.pick(&TEXTS[..4])).to_owned()
    }

    fn task(&mut self) -> TaskId {
        newest(&mut self.rng, &self.tasks)
            .copied()
            .unwrap_or(TaskId { id: Id(7), prefix: self.prefix })
    }

    pub fn new_task_id(&mut self) -> TaskId {
        TaskId { id: self.id(), prefix: self.prefix }
    }

    fn attempt(&mut self) -> AttemptId {
        newest(&mut self.rng, &self.attempts).map_or(AttemptId(Id(7)), |(id, _)| *id)
    }

    fn comment(&mut self) -> CommentId {
        newest(&mut self.rng, &self.comments).copied().unwrap_or(CommentId(Id(7)))
    }

    /// A job of one of these kinds; of any kind in one case of ten.
    fn job(&mut self, kinds: &[JobKind]) -> SeenJob {
        let any = self.rng.percent(10);
        let fitting: Vec<SeenJob> =
            self.jobs.iter().filter(|job| any || kinds.contains(&job.kind)).copied().collect();
        let unknown = SeenJob { id: JobId(Id(7)), kind: JobKind::Run, tries: 1, fence: 1 };
        let mut job = newest(&mut self.rng, &fitting).copied().unwrap_or(unknown);
        // A late runner has an older fence.
        if self.rng.percent(10) {
            (job.tries, job.fence) = (job.tries.saturating_sub(1), job.fence.saturating_sub(1));
        }
        job
    }

    /// A draft of a review now and then, sometimes the change of a known one. Most are of the actor that decides reviews.
    pub fn draft(&mut self) -> Option<(TaskId, Actor, ReviewCommentId, ReviewComment)> {
        let rng = &mut self.reviews;
        if !rng.percent(4) {
            return None;
        }
        let known = newest(rng, &self.drafts).cloned();
        let (task, author, id) = match known.filter(|_| rng.percent(25)) {
            Some(known) => known,
            None => {
                let task = newest(rng, &self.tasks).copied();
                let author = if rng.percent(80) { "human:ana" } else { rng.name(&ACTORS) };
                let unknown = TaskId { id: Id(7), prefix: self.prefix };
                (task.unwrap_or(unknown), actor(author), ReviewCommentId(self.id()))
            }
        };
        self.drafts.push((task, author.clone(), id));
        Some((task, author, id, self.review_comment()))
    }

    fn review_comment(&mut self) -> ReviewComment {
        let rng = &mut self.reviews;
        let first_line = 1 + rng.below(9) as u32;
        ReviewComment {
            path: rng.name(&["a.rs", "b/c.rs"]).to_owned(),
            side: *rng.pick(&[DiffSide::Old, DiffSide::New]),
            first_line,
            last_line: first_line + rng.below(3) as u32,
            blob: "c0ffee".into(),
            quote: rng.name(&TEXTS).to_owned(),
            text: rng.name(&TEXTS[..4]).to_owned(),
        }
    }

    /// The comments that go along with a rejection.
    pub fn sends(&mut self) -> ReviewSends {
        let own = self.reviews.percent(40);
        ReviewSends {
            comments: own
                .then(|| (ReviewCommentId(self.id()), self.review_comment()))
                .into_iter()
                .collect(),
            drafts: self.reviews.percent(60),
            head: self.reviews.percent(50).then(|| "c0ffee".into()),
        }
    }

    fn agent(&mut self) -> AgentId {
        agent_id(self.rng.name(&AGENTS))
    }

    fn worker(&mut self) -> AgentId {
        agent_id(self.rng.name(&["w1", "w2"]))
    }

    /// A worker and its task; any two in one case of five.
    fn assignment(&mut self) -> (AgentId, TaskId) {
        let known = self.maybe(80, |office| office.assigned.clone()).flatten();
        known.unwrap_or_else(|| (self.worker(), self.task()))
    }

    /// The state of a crew's task as the office last saw the task; any state in one case of three.
    fn crew_state(&mut self, task: TaskId) -> TaskState {
        let any = *self.rng.pick(TaskState::ALL);
        let seen = self.seen.get(&task).filter(|_| self.rng.percent(66));
        seen.map_or(any, |seen| TaskState::at(&seen.task, seen.newest.as_ref(), self.now))
    }

    /// The epic of the supervisor; any task in one case of five.
    fn epic(&mut self) -> TaskId {
        let known = self.maybe(80, |office| office.epic).flatten();
        known.unwrap_or_else(|| self.task())
    }

    fn maybe<T>(&mut self, chance: usize, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.rng.percent(chance).then(|| make(self))
    }

    fn checks(&mut self) -> Vec<NewCheck> {
        let count = self.rng.below(3);
        let check = |n: usize| match n {
            0 => NewCheck { desc: "tests".into(), cmd: Some("true".into()), ..NewCheck::default() },
            _ => NewCheck { desc: "looked at".into(), manual: true, ..NewCheck::default() },
        };
        (0..count).map(check).collect()
    }

    /// Results of the checks of a task, as the office last saw that task.
    fn checked(&mut self, task: TaskId) -> Option<Checked> {
        let record = self.seen.get(&task).cloned().filter(|_| self.rng.percent(60))?;
        let tree = Some((*self.rng.pick(&["t1", "t2"])).to_owned());
        let pass = self.rng.percent(80);
        let (at, log) = (self.now, "log".to_owned());
        let source =
            VerdictSource::Run { exit_code: Some(i32::from(!pass)), log, took_ms: Some(5) };
        let verdict = Verdict { pass, at, tree: tree.clone(), source };
        let commands = record
            .task
            .checks
            .iter()
            .enumerate()
            .filter(|(_, check)| matches!(check.kind, CheckKind::Command { .. }));
        let runs = commands.map(|(index, _)| (index, verdict.clone())).collect();
        let deps = record.deps.iter().map(|dep| dep.id).collect();
        let basis = Basis { label: record.task.label.clone(), deps, checks: record.task.checks };
        Some(Checked { basis, tree, runs })
    }

    fn work(&mut self) -> Option<String> {
        self.maybe(60, |office| (*office.rng.pick(&["t1", "t2"])).to_owned())
    }

    pub fn create(&mut self) -> TaskCreate {
        let task = self.new_task_id();
        let verification = self
            .maybe(30, |office| VerificationContract::of(*office.rng.pick(&VerificationKind::ALL)));
        TaskCreate {
            task,
            project: self.project,
            reference: self.maybe(10, |office| format!("ref-{}", office.rng.below(8))),
            title: self.text(),
            body: self.text(),
            priority: *self.rng.pick(&[100, 500, 900]),
            parent: self.maybe(15, Self::task),
            deps: self.maybe(25, Self::task).into_iter().collect(),
            checks: self.checks(),
            verification,
            execution_contract: self.maybe(10, |_| r#"{"a": 1}"#.to_owned()),
            over_quota: None,
            card: Box::default(),
            phase: Phase::Initial,
            is_plan: self.rng.percent(5),
            notes: self.maybe(10, Self::word).into_iter().collect(),
        }
    }

    fn new_knowledge(&mut self) -> NewKnowledge {
        NewKnowledge {
            id: KnowledgeId(self.id()),
            title: self.word(),
            body: self.word(),
            tags: vec!["Tag".into(), self.word()],
            confidence: self.maybe(50, |office| office.rng.below(110) as u8),
        }
    }

    pub fn place(&mut self) -> WorkPlace {
        let text = |text: &str| Some(text.to_owned());
        WorkPlace { worktree: text("../wt"), branch: text("b"), head: text("c0ffee") }
    }

    fn mail(&mut self) -> MailId {
        newest(&mut self.rng, &self.mails).copied().unwrap_or(MailId(Id(7)))
    }

    fn assign(&mut self) -> CrewAssign {
        CrewAssign {
            by: self.maybe(50, Self::agent),
            task: self.task(),
            worker: self.worker(),
            was_on: self.maybe(20, Self::task),
            from: self.maybe(20, Self::worker),
            sender: self.maybe(50, |_| agent_id("s1")),
            attempt: AttemptId(self.id()),
            place: self.place(),
            misses: self.maybe(10, Self::word),
            mails: [MailId(self.id()), MailId(self.id())],
        }
    }

    fn artifact(&mut self, fence: u64) -> NewArtifact {
        let bytes: Arc<[u8]> = self.text().into_bytes().into();
        let name = *self.rng.pick(&[ArtifactName::Patch, ArtifactName::Out, ArtifactName::Logs]);
        let file = format!("files/{}", self.id().0);
        let artifact =
            Artifact { name, file, size: bytes.len() as u64, sha256: "ab".repeat(32), fence };
        NewArtifact { artifact, bytes: Some(bytes) }
    }

    /// A command of this kind, and who gives it.
    pub fn command(&mut self, kind: Kind) -> (Actor, Command) {
        let command = self.make(kind);
        assert_eq!(Kind::of(&command), kind, "the arm of another command");
        (self.caller(&command), command)
    }

    /// The actor that would give this command; any other in one case of eight.
    fn caller(&mut self, command: &Command) -> Actor {
        if self.rng.percent(12) {
            return actor(self.rng.name(&ACTORS));
        }
        let holder = match command {
            Command::AttemptHeartbeat { attempt, .. }
            | Command::AttemptFinish { attempt, .. }
            | Command::AttemptCancel { attempt, .. } => {
                self.attempts.iter().find(|(id, _)| id == attempt).map(|(_, by)| by.clone())
            }
            Command::LeaseUpdate(LeaseUpdate { task, .. })
            | Command::LeaseComplete(LeaseComplete { task, .. })
            | Command::TaskTransition { task, .. }
            | Command::TaskRelease { task } => {
                self.seen.get(task).and_then(|record| record.task.assignee.clone())
            }
            _ => None,
        };
        let name = format!("{:?}", Kind::of(command));
        let usual: &[&str] = match name.as_str() {
            name if name.starts_with("Job") || name.starts_with("Run") => &["runner:r1"],
            name if name.starts_with("Work") || name.starts_with("Delivery") => &["runner:r1"],
            "VerificationJudge" => &["runner:r1"],
            name if name.starts_with("Review") || name.starts_with("Plan") => &["human:ana"],
            "CheckAttest" | "TaskTakeBack" | "TaskReopen" | "CardUpdate" => &["human:ana"],
            "TaskUpdate" | "SettingsUpdate" => &["human:ana"],
            _ => &["agent:w1", "agent:w2", "human:ana"],
        };
        holder.unwrap_or_else(|| actor(self.rng.name(usual)))
    }

    #[allow(clippy::too_many_lines, reason = "a table: one arm for each command")]
    fn make(&mut self, kind: Kind) -> Command {
        const RUNS: [JobKind; 3] = [JobKind::Run, JobKind::Work, JobKind::Crew];
        const PLAIN: [JobKind; 3] = [JobKind::Verify, JobKind::Embed, JobKind::Check];
        const WORKS: [JobKind; 2] = [JobKind::Work, JobKind::Crew];
        let task = self.task();
        match kind {
            Kind::TaskCreate => Command::TaskCreate(self.create()),
            Kind::TaskCreateAll => {
                let (one, mut two) = (self.create(), self.create());
                // The second may depend on the first, which is not there yet.
                if self.rng.percent(50) {
                    two.deps = vec![one.task];
                }
                Command::TaskCreateAll(vec![one, two])
            }
            Kind::TaskEdit => Command::TaskEdit(TaskEdit {
                task,
                title: self.maybe(50, Self::text),
                body: self.maybe(30, Self::text),
                priority: self.maybe(30, |office| office.rng.below(1200) as u16),
                checks: self.maybe(20, Self::checks),
            }),
            Kind::TaskUpdate => Command::TaskUpdate(TaskUpdate {
                task,
                author: self.maybe(80, |_| actor("human:ana")),
                title: self.maybe(50, Self::text),
                deps: self.maybe(30, |office| vec![office.task()]),
                checks: self.maybe(20, Self::checks),
            }),
            Kind::TaskRemove => Command::TaskRemove { task },
            Kind::TaskClaim => Command::TaskClaim { task },
            Kind::TaskClaimStartable => Command::TaskClaimStartable { task },
            Kind::TaskRelease => Command::TaskRelease { task },
            Kind::TaskBlock => Command::TaskBlock { task, reason: self.text() },
            Kind::TaskUnblock => Command::TaskUnblock { task },
            Kind::TaskTakeBack => Command::TaskTakeBack { task },
            Kind::TaskTransition => {
                let labels = ["backlog", "in_progress", "in_review", "done", "canceled", "nowhere"];
                let to = (*self.rng.pick(&labels)).to_owned();
                Command::TaskTransition { task, to, checked: self.checked(task), work: self.work() }
            }
            Kind::TaskNote => Command::TaskNote { task, text: self.text() },
            Kind::TaskTell => Command::TaskTell { task, text: self.text() },
            Kind::TaskHear => Command::TaskHear { task, job: self.job(&WORKS).id, upto: self.now },
            Kind::DependencyAdd => Command::DependencyAdd { task, dep: self.task() },
            Kind::DependencyRemove => {
                let deps = self.seen.get(&task).map(|record| record.deps.clone());
                let dep = deps.and_then(|deps| deps.first().map(|dep| dep.id));
                Command::DependencyRemove { task, dep: dep.unwrap_or_else(|| self.task()) }
            }
            Kind::CheckRun => match self.checked(task) {
                Some(checked) => Command::CheckRun { task, checked },
                None => {
                    let basis =
                        Basis { label: "backlog".into(), deps: Vec::new(), checks: Vec::new() };
                    Command::CheckRun { task, checked: Checked { basis, tree: None, runs: vec![] } }
                }
            },
            Kind::CheckAttest => Command::CheckAttest {
                task,
                index: self.rng.below(2),
                pass: self.rng.percent(80),
                tree: self.work(),
            },
            Kind::AttemptBegin => {
                let lease_s = self.maybe(50, |office| 10 + office.rng.below(300) as u32);
                Command::AttemptBegin(AttemptBegin {
                    attempt: AttemptId(self.id()),
                    task,
                    kind: if lease_s.is_some() {
                        AttemptKind::Execution
                    } else {
                        AttemptKind::Graph
                    },
                    key: self.maybe(70, |office| format!("key-{}", office.rng.below(6))),
                    expected_actor: self.maybe(5, |_| "agent:w1".into()),
                    client: self.maybe(50, Self::word),
                    bound_client: None,
                    model: self.maybe(20, Self::word),
                    worktree: Some("../wt".into()),
                    branch: Some("main".into()),
                    head: Some("abc".into()),
                    lease_s,
                    takeover: self.rng.percent(20),
                })
            }
            Kind::AttemptHeartbeat => {
                let attempt = self.attempt();
                Command::AttemptHeartbeat { attempt, progress: self.maybe(40, Self::text) }
            }
            Kind::AttemptFinish => {
                let (attempt, summary) = (self.attempt(), self.text());
                Command::AttemptFinish { attempt, summary, head: None, tree: self.work() }
            }
            Kind::AttemptCancel => {
                Command::AttemptCancel { attempt: self.attempt(), reason: self.text() }
            }
            Kind::AttemptExpire => Command::AttemptExpire { attempt: self.attempt() },
            Kind::LeaseTake => {
                let lease_s = 10 + self.rng.below(300) as u32;
                Command::LeaseTake { attempt: AttemptId(self.id()), task, lease_s }
            }
            Kind::LeaseUpdate => {
                let targets = [
                    LeaseTarget::Working,
                    LeaseTarget::Working,
                    LeaseTarget::Free,
                    LeaseTarget::Canceled,
                    LeaseTarget::Elsewhere,
                ];
                Command::LeaseUpdate(LeaseUpdate {
                    task,
                    fence: self.fence(task),
                    to: self.rng.pick(&targets).clone(),
                    asked: "there",
                    extend: self.rng.percent(70),
                    note: self.maybe(40, Self::text),
                })
            }
            Kind::LeaseComplete => Command::LeaseComplete(LeaseComplete {
                task,
                fence: self.fence(task),
                output: self.text(),
                external_ref: self.maybe(20, |_| "https://example.org/pull/1".into()),
                learnings: self.maybe(20, Self::new_knowledge).into_iter().collect(),
                over_quota: None,
                job: JobId(self.id()),
            }),
            Kind::TaskReopen => Command::TaskReopen { task },
            Kind::CommentAdd => Command::CommentAdd(CommentAdd {
                comment: CommentId(self.id()),
                task,
                kind: *self.rng.pick(&CommentKind::ALL),
                body: self.word(),
                rationale: self.maybe(70, Self::word),
                parent: self.maybe(30, Self::comment),
            }),
            Kind::CommentResolve => Command::CommentResolve {
                comment: self.comment(),
                words: self.maybe(50, Self::word),
            },
            Kind::VerificationQueue => Command::VerificationQueue { task, job: JobId(self.id()) },
            Kind::VerificationJudge => {
                let SeenJob { id: job, tries, .. } = self.job(&[JobKind::Verify]);
                let reason = self.word();
                let found = match self.rng.below(3) {
                    0 => Found::Passed,
                    1 => Found::Pending { reason },
                    _ => Found::Failed { reason },
                };
                let (checked, work) = (self.checked(task), self.work());
                Command::VerificationJudge { job, tries, found, checked, work }
            }
            Kind::JobQueue => Command::JobQueue {
                job: JobId(self.id()),
                kind: *self.rng.pick(&[JobKind::Embed, JobKind::Check]),
                key: format!("key-{}", self.rng.below(4)),
            },
            Kind::JobTake => Command::JobTake {
                job: self.job(&PLAIN).id,
                lease_s: 30 + self.rng.below(60) as u32,
            },
            Kind::JobKeep => {
                let SeenJob { id: job, tries, .. } = self.job(&PLAIN);
                Command::JobKeep { job, tries, lease_s: 60 }
            }
            Kind::JobEnd => {
                let SeenJob { id: job, tries, .. } = self.job(&PLAIN);
                let end = match self.rng.below(4) {
                    0 => JobEnd::Done,
                    1 => JobEnd::Again { after_s: self.rng.below(60) as u32 },
                    2 => JobEnd::Failed { reason: self.word() },
                    _ => JobEnd::Checked { asked_at: self.now, passed: self.rng.percent(50) },
                };
                Command::JobEnd { job, tries, end }
            }
            Kind::JobCancel => Command::JobCancel { job: self.job(&PLAIN).id },
            Kind::KnowledgeStore => {
                let edge = *self.rng.pick(&[EdgeKind::Produced, EdgeKind::References]);
                let known = newest(&mut self.rng, &self.knowledge).copied();
                Command::KnowledgeStore(KnowledgeStore {
                    new: self.new_knowledge(),
                    expires_at: self.maybe(20, |office| office.now.plus_s(60)),
                    task: self.maybe(50, |_| (task, edge)),
                    supersedes: known.filter(|_| self.rng.percent(40)),
                    over_quota: None,
                })
            }
            Kind::RunSubmit => self.run_submit(),
            Kind::RunLease => {
                let SeenJob { id: job, kind, .. } = self.job(&RUNS);
                Command::RunLease(RunLease {
                    job,
                    kind,
                    agent: self.maybe(50, |_| actor("agent:w1")),
                    attempt: AttemptId(self.id()),
                    machine: (*self.rng.pick(&["m1", "m2"])).to_owned(),
                    running_max: 2,
                    lease_s: 60,
                    early: self.rng.percent(20),
                })
            }
            Kind::RunKeep => {
                let SeenJob { id: job, fence, .. } = self.job(&RUNS);
                Command::RunKeep { job, fence, lease_s: 60 }
            }
            Kind::RunHold => {
                let SeenJob { id: job, fence, .. } = self.job(&WORKS);
                let left = self.maybe(60, |_| "7 (cat)".to_owned()).into_iter().collect();
                Command::RunHold { job, fence, left }
            }
            Kind::RunUse => {
                let SeenJob { id: job, fence, .. } = self.job(&RUNS);
                let usage = RunUsage {
                    input_tokens: 5,
                    output_tokens: 7,
                    cost_micros: self.maybe(50, |_| 9),
                };
                Command::RunUse { job, fence, agent: actor("agent:w1"), usage }
            }
            Kind::RunCommit => {
                let SeenJob { id: job, fence, .. } = self.job(&WORKS);
                let commit = RunCommit {
                    head: "c0ffee".into(),
                    commits: self.rng.below(3) as u64,
                    is_leftovers: self.rng.percent(50),
                };
                Command::RunCommit(job, fence, commit)
            }
            Kind::RunSettle => Command::RunSettle(RunSettle {
                job: self.job(&RUNS).id,
                hold_s: 30,
                attempts_max: 2,
                is_gone: self.rng.percent(20),
            }),
            Kind::RunEnd => {
                let SeenJob { id: job, fence, .. } = self.job(&[JobKind::Run]);
                let verdict = match self.rng.below(4) {
                    0 | 1 => RunVerdict::Succeeded,
                    2 => RunVerdict::Failed(FailReason::ALL[0]),
                    _ => RunVerdict::Stopped,
                };
                let artifacts =
                    self.maybe(60, |office| office.artifact(fence)).into_iter().collect();
                let (summary, used) = (self.word(), None);
                Command::RunEnd(Box::new(RunEnd { job, fence, verdict, summary, artifacts, used }))
            }
            Kind::RunCancel => Command::RunCancel { job: self.job(&RUNS).id },
            Kind::RunArtifact => {
                let SeenJob { id: job, fence, .. } = self.job(&RUNS);
                Command::RunArtifact { job, fence, new: self.artifact(fence) }
            }
            Kind::RunAsk => {
                let SeenJob { id: job, fence, .. } = self.job(&RUNS);
                let text = self.word();
                Command::RunAsk { job, fence, text, command: self.maybe(50, Self::word) }
            }
            Kind::RunAnswer => Command::RunAnswer {
                job: match self.maybe(70, |office| office.asking).flatten() {
                    Some(job) => job,
                    None => self.job(&RUNS).id,
                },
                number: self.maybe(30, |office| office.rng.below(3) as u32),
                granted: self.rng.percent(50),
            },
            Kind::RunPr => {
                let job = self.job(&[JobKind::Run]).id;
                let at = self.maybe(50, |office| {
                    (1 + office.rng.below(5) as u64, "https://example.org/1".to_owned())
                });
                Command::RunPr(RunPr {
                    job,
                    forge: if at.is_some() { "github" } else { LOCAL }.into(),
                    repo: "r".into(),
                    at,
                    status: (*self.rng.pick(&["open", "merged", "closed"])).to_owned(),
                    branch: "b".into(),
                    base: "main".into(),
                    head: "c0ffee".into(),
                })
            }
            Kind::PullOpen => {
                let at = self.maybe(50, |office| {
                    (1 + office.rng.below(5) as u64, "https://example.org/1".to_owned())
                });
                Command::PullOpen(PullOpen {
                    task,
                    forge: if at.is_some() { "github" } else { LOCAL }.into(),
                    repo: "r".into(),
                    at,
                    branch: "b".into(),
                    base: "main".into(),
                    head: "c0ffee".into(),
                    title: self.word(),
                    machine: self.maybe(50, |_| "m1".into()),
                })
            }
            Kind::PullSettle => {
                let step = match self.rng.below(5) {
                    0 => PullStep::Awaited,
                    1 => PullStep::Revoked,
                    2 => PullStep::CalledOff,
                    3 => PullStep::Merged { commit: Some("c0ffee".into()), asked: true },
                    _ => PullStep::Closed,
                };
                Command::PullSettle(PullSettle {
                    task,
                    forge: (*self.rng.pick(&["github", LOCAL])).to_owned(),
                    repo: "r".into(),
                    number: 1 + self.rng.below(5) as u64,
                    step,
                    behind: None,
                })
            }
            Kind::DeliveryTry => {
                let SeenJob { id: job, tries, .. } = self.job(&[JobKind::Deliver]);
                let receipt = match self.rng.below(3) {
                    0 => Receipt::Taken,
                    1 => Receipt::Unwanted,
                    _ => Receipt::Failed(self.word()),
                };
                let about = Topic::Job(job);
                Command::DeliveryTry {
                    job,
                    tries,
                    about,
                    to: "https://example.org".into(),
                    receipt,
                }
            }
            Kind::DeliveryAgain => {
                let job = self.job(&[JobKind::Deliver]).id;
                let to = "https://example.org".into();
                Command::DeliveryAgain { job, about: Topic::Job(job), to }
            }
            Kind::CardUpdate => Command::CardUpdate(Box::new(CardUpdate {
                title: self.maybe(30, Self::text),
                body: self.maybe(20, Self::text),
                priority: self.maybe(20, |_| 100),
                mode: self.maybe(40, |office| *office.rng.pick(&[Mode::Auto, Mode::Pair])),
                criteria: self.maybe(20, |office| vec![office.word()]),
                terminal: self.maybe(20, |_| Some(CardTerminal::Tmux)),
                agent: self.maybe(20, Self::word),
                base_branch: self.maybe(20, |_| "main".into()),
                parent: self.maybe(20, |office| office.maybe(70, Self::task)),
                to: self.maybe(40, |office| {
                    *office.rng.pick(&[
                        Phase::Initial,
                        Phase::Working,
                        Phase::Review,
                        Phase::ClosedDone,
                    ])
                }),
                checked: self.checked(task),
                work: self.work(),
                ..CardUpdate::of(task)
            })),
            Kind::CardRemove => Command::CardRemove { task },
            Kind::ScratchpadAppend => Command::ScratchpadAppend { task, text: self.text() },
            Kind::ReviewRequest => Command::ReviewRequest { task, summary: self.text() },
            Kind::ReviewDecide => Command::ReviewDecide(ReviewDecide {
                task,
                verdict: match self.rng.percent(60) {
                    true => ReviewVerdict::Approve {
                        unmerged: self.rng.percent(50),
                        as_reviewer: self.rng.percent(50),
                    },
                    false => ReviewVerdict::Reject {
                        to: *self.rng.pick(&[Phase::Initial, Phase::Working]),
                    },
                },
                feedback: self.text(),
                checked: self.checked(task),
                work: self.work(),
                sends: self.sends(),
                seen: ReviewMark::default(),
            }),
            Kind::ReviewClear => Command::ReviewClear {
                task,
                needs_approval: self.rng.percent(50),
                checked: self.checked(task),
                work: self.work(),
                seen: ReviewMark::default(),
            },
            Kind::ReviewSettle => {
                let files = vec!["a.rs".to_owned()];
                let commit = Some("c0ffee".to_owned());
                let branch =
                    MergedBranch { repo: "r".into(), branch: "b".into(), commit: commit.clone() };
                let outcome = match self.rng.below(5) {
                    0 => {
                        ReviewOutcome::Merged { commit, pushed: Some(true), branches: vec![branch] }
                    }
                    1 => ReviewOutcome::MergeFailed { files },
                    2 => ReviewOutcome::Rebased,
                    3 => ReviewOutcome::RebaseConflict { files },
                    _ => ReviewOutcome::RebaseFailed,
                };
                Command::ReviewSettle(ReviewSettle { task, outcome, words: self.word() })
            }
            Kind::SessionBegin => Command::SessionBegin(SessionBegin {
                attempt: AttemptId(self.id()),
                task,
                agent: actor("agent:pair"),
                worktree: self.maybe(50, Self::word),
                branch: self.maybe(50, Self::word),
            }),
            Kind::SessionEnd => Command::SessionEnd { task },
            Kind::CallRefuse => Command::CallRefuse {
                tool: "claim",
                action: self.maybe(30, |_| "act"),
                code: "NOT_FOUND".into(),
                task: self.maybe(50, |_| task),
            },
            Kind::CallAnswer => {
                Command::CallAnswer { tool: "list", task: self.maybe(50, |_| task) }
            }
            Kind::SettingsUpdate => {
                let key = *self.rng.pick(SettingKey::ALL);
                let values = [json!(true), json!(3), json!("main"), json!(null)];
                Command::SettingsUpdate(Box::new(SettingsUpdate {
                    base: BoardSettings::default(),
                    agents: vec!["claude".into()],
                    set: vec![(key, self.rng.pick(&values).clone())],
                }))
            }
            Kind::ProjectCreate => Command::ProjectCreate(ProjectCreate {
                name: self.word(),
                description: self.text(),
                machine: "m1".into(),
                repos: vec![NewRepo {
                    path: PathBuf::from(format!("/r/{}", self.id().0)),
                    default_branch: self.maybe(50, |_| "main".into()),
                }],
            }),
            Kind::ProjectOpen => {
                let project = newest(&mut self.rng, &self.projects).copied();
                Command::ProjectOpen { project: project.unwrap_or(99) }
            }
            Kind::PlanPropose => {
                let planned = PlannedTask {
                    title: self.word(),
                    mode: Mode::Auto,
                    description: self.text(),
                    acceptance_criteria: vec![self.word()],
                    priority: PlannedPriority::High,
                };
                let todo = Todo { content: self.word(), status: TodoStatus::Pending };
                let tasks = vec![planned; 1 + self.rng.below(2)];
                Command::PlanPropose(PlanPropose {
                    plan: PlanId(self.id()),
                    tasks,
                    todos: vec![todo],
                })
            }
            Kind::PlanApprove => {
                let (plan, count) =
                    newest(&mut self.rng, &self.plans).copied().unwrap_or((PlanId(Id(7)), 1));
                let tasks = (0..count).map(|_| self.new_task_id()).collect();
                Command::PlanApprove(PlanApprove { plan, project: self.project, tasks })
            }
            Kind::PlanReject => {
                let plan =
                    newest(&mut self.rng, &self.plans).map_or(PlanId(Id(7)), |(plan, _)| *plan);
                Command::PlanReject { plan, words: self.maybe(50, Self::word) }
            }
            Kind::WorkSubmit => {
                let role = *self.rng.pick(&[Role::Worker, Role::Reviewer, Role::Crew]);
                let start = match self.rng.percent(50) {
                    true => Start::Board,
                    false => Start::Terminal(TerminalStart {
                        agent: self.maybe(30, |_| "claude".into()),
                        take: self.rng.percent(50),
                        reopen: self.rng.percent(50),
                        held_s: 30,
                    }),
                };
                Command::WorkSubmit(WorkSubmit {
                    job: JobId(self.id()),
                    task,
                    order: WorkOrder {
                        role,
                        asked_by: actor(self.rng.name(&ACTORS)),
                        instructions: self.maybe(30, Self::word),
                        model: None,
                    },
                    bound_to: self.maybe(50, |_| "m1".into()),
                    waits: self.rng.percent(30),
                    ttl_s: 3600,
                    start,
                })
            }
            Kind::WorkUp => {
                let SeenJob { id: job, fence, .. } = self.job(&WORKS);
                let terminal =
                    self.maybe(50, |_| Terminal { session: "s".into(), socket: "/tmp/s".into() });
                Command::WorkUp { job, fence, place: self.place(), terminal }
            }
            Kind::WorkEnd => {
                let SeenJob { id: job, fence, .. } = self.job(&WORKS);
                let reason = self.word();
                let ending = match self.rng.below(6) {
                    0 => None,
                    1 => Some(Ending::Complete),
                    2 => Some(Ending::Blocked { reason: reason.clone() }),
                    3 => Some(Ending::Continue),
                    4 => Some(Ending::Approve { summary: reason.clone() }),
                    _ => Some(Ending::Reject { reason: reason.clone() }),
                };
                let end = match self.rng.below(5) {
                    0 => WorkEnd::NotStarted { reason },
                    1 => WorkEnd::Failed { reason },
                    2 => WorkEnd::Stopped,
                    _ => WorkEnd::Replied { reply: reason, ending },
                };
                let reviewer = self.maybe(50, |office| JobId(office.id()));
                Command::WorkEnd { job, fence, end, agent: actor("agent:w1"), reviewer }
            }
            Kind::WorkStop => Command::WorkStop { job: self.job(&WORKS).id },
            Kind::WorkGone => {
                let SeenJob { id: job, fence, .. } = self.job(&WORKS);
                Command::WorkGone { job, fence }
            }
            Kind::AgentAdd => {
                let agent = self.agent();
                let is_boss = agent == agent_id("s1");
                let worker = agent.clone();
                Command::AgentAdd(AgentAdd {
                    agent,
                    kind: if is_boss { AgentType::Supervisor } else { AgentType::Worker },
                    epic: self.maybe(if is_boss { 90 } else { 10 }, |_| task),
                    task: self
                        .maybe(20, |office| Box::new(CrewAssign { worker, ..office.assign() })),
                    or_keep: self.rng.percent(50),
                    workers_max: self.maybe(30, |_| 2),
                })
            }
            Kind::AgentRemove => Command::AgentRemove { agent: self.agent() },
            Kind::AgentTouch => Command::AgentTouch { agent: self.agent() },
            Kind::MailSend => Command::MailSend(MailSend {
                mail: MailId(self.id()),
                from: self.maybe(50, Self::agent),
                to: self.maybe(70, Self::agent),
                subject: self.word(),
                body: self.text(),
            }),
            Kind::MailReply => Command::MailReply(MailReply {
                mail: MailId(self.id()),
                original: self.mail(),
                by: self.maybe(60, Self::agent),
                body: self.word(),
            }),
            Kind::MailRead => {
                Command::MailRead { mail: self.mail(), by: self.maybe(60, Self::agent) }
            }
            Kind::DecisionLog => Command::DecisionLog(DecisionLog {
                decision: DecisionId(self.id()),
                agent: self.agent(),
                words: self.word(),
                reasoning: self.word(),
                context: self.maybe(50, Self::word),
                by_hand: self.rng.percent(50),
            }),
            Kind::StopQueue => Command::StopQueue {
                job: JobId(self.id()),
                task,
                open: self.maybe(70, |office| office.job(&WORKS).id),
            },
            Kind::StopCancel => Command::StopCancel { job: self.job(&[JobKind::Stop]).id },
            Kind::EpicTaskAdd => Command::EpicTaskAdd(Box::new(EpicTaskAdd {
                by: agent_id("s1"),
                epic: self.epic(),
                task: self.new_task_id(),
                title: self.word(),
                body: self.text(),
                workspace: "ws".into(),
                branch: "b".into(),
                epic_branch: "epic".into(),
            })),
            Kind::EpicMove => Command::EpicMove(EpicMove {
                by: agent_id("s1"),
                epic: self.epic(),
                to: *self.rng.pick(EpicState::ALL),
            }),
            Kind::EpicFinish => Command::EpicFinish(Box::new(EpicFinish {
                by: agent_id("s1"),
                epic: self.epic(),
                url: "https://example.org/1".into(),
                completed: 1,
                failed: 0,
                checked: self.checked(task),
                work: self.work(),
                mail: MailId(self.id()),
            })),
            Kind::CrewAssign => Command::CrewAssign(Box::new(self.assign())),
            Kind::CrewMove => {
                let (by, task) = self.assignment();
                Command::CrewMove(CrewMove {
                    by,
                    task,
                    from: self.crew_state(task),
                    to: *self.rng.pick(TaskState::ALL),
                    reason: self.maybe(50, Self::word),
                    url: self.maybe(30, |_| "https://example.org/1".into()),
                    supervisor: self.maybe(50, |_| agent_id("s1")),
                    mail: MailId(self.id()),
                })
            }
            Kind::CrewReturn => {
                let (worker, task) = self.assignment();
                Command::CrewReturn(CrewReturn {
                    by: agent_id("s1"),
                    task,
                    feedback: self.word(),
                    worker: self.maybe(90, |_| worker),
                    mail: MailId(self.id()),
                })
            }
            Kind::CrewSettle => Command::CrewSettle(Box::new(CrewSettle {
                task,
                commit: self.maybe(70, |_| "c0ffee".into()),
                is_approval: self.rng.percent(50),
                is_merged: self.rng.percent(70),
                worker: self.maybe(70, Self::worker),
                behind: self
                    .maybe(20, |office| Behind {
                        task: office.task(),
                        title: office.word(),
                        worker: office.worker(),
                        mail: MailId(office.id()),
                    })
                    .into_iter()
                    .collect(),
                sender: self.maybe(50, |_| agent_id("s1")),
                epic_branch: "epic".into(),
                is_remote: self.rng.percent(50),
            })),
            Kind::CrewGiveUp => Command::CrewGiveUp(CrewGiveUp {
                task,
                reason: self.word(),
                worker: self.maybe(70, Self::worker),
                lost: self.maybe(50, |office| CrewLoss {
                    supervisor: Some(agent_id("s1")),
                    mails: [MailId(office.id()), MailId(office.id())],
                }),
            }),
            Kind::CrewFree => {
                let (agent, task) = self.assignment();
                Command::CrewFree { agent, task }
            }
        }
    }

    /// The fence of a task's newest attempt, sometimes an older one or none.
    fn fence(&mut self, task: TaskId) -> Option<u64> {
        let newest = self.seen.get(&task).and_then(|record| record.newest.as_ref());
        let fence = newest.map_or(1, |attempt| attempt.fence);
        self.maybe(60, |office| fence.saturating_sub(u64::from(office.rng.percent(15))))
    }

    fn run_submit(&mut self) -> Command {
        let key = format!("run-{}", self.rng.below(12));
        let spec = json!({
            "repo": {
                "type": "git",
                "url": "https://example.org/x.git",
                "baseBranch": "main",
                "baselineCommit": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
            },
            "task": {"title": self.word(), "description": self.word(), "acceptance": []},
            "scope": {"readPaths": ["src"], "fileGlobs": null, "disallowReformatting": true},
            "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
            "execution": {
                "preferredModel": "m",
                "sandbox": "read-only",
                "askPolicy": "untrusted",
                "priority": "P1",
                "ttlS": 600,
            },
            "idempotencyKey": key,
        });
        let webhook = self.maybe(40, |office| Webhook {
            delivery: JobId(office.id()),
            url: "https://example.org/hook".into(),
        });
        if let Some(webhook) = &webhook {
            self.hear_job(webhook.delivery, JobKind::Deliver, 1, 1);
        }
        Command::RunSubmit(Box::new(RunSubmit {
            job: JobId(self.id()),
            task: self.new_task_id(),
            project: self.project,
            spec: serde_json::from_value(spec).unwrap(),
            bound_to: self.maybe(30, |_| "m1".into()),
            webhook,
            window_s: 600,
            open_max: 6,
        }))
    }
}

#[test]
fn an_office_makes_every_command() {
    let prefix = Prefix::fallback();
    let mut office = Office::new(1, 1, prefix);
    for kind in Kind::ALL {
        office.command(*kind);
    }
}
