//! What `decide` may look at, and what it may ask for. Stores load the world and write the change.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::actor::Actor;
use crate::board::card::Card;
use crate::board::plan::{Plan, PlanId};
use crate::board::project::{Project, ProjectRepo, ProjectRoom};
use crate::board::settings::{SettingKey, SettingsKept};
use crate::crew::{Agent, AgentId, Decision, DecisionId, Mail, MailId};
use crate::event::Event;
use crate::ids::{AttemptId, Prefix, TaskId};
use crate::knowledge::{EdgeKind, KnowledgeEntry, KnowledgeId};
use crate::policy::Policy;
use crate::pulls::Pull;
use crate::refusal::Refusal;
use crate::review::{ReviewCommentId, ReviewDraft, SentComment};
use crate::runs::delivery::{Delivery, Tried};
use crate::runs::job::{Job, JobId, JobKind, JobState};
use crate::runs::run::{OpenRuns, Run};
use crate::task::attempt::{Attempt, AttemptState};
use crate::task::comment::{Comment, CommentId};
use crate::task::standing::Standing;
use crate::task::{Dep, Dependent, Entry, Task};
use crate::time::Timestamp;

/// The rows a command needs (`Command::needs`), read in the transaction that will write.
#[derive(Clone, Debug)]
pub struct World<'a> {
    pub policy: &'a Policy,
    /// The acting actor.
    pub actor: &'a Actor,
    pub subject: Option<Subject>,
    /// The attempt the command names, or the one its key finds.
    pub attempt: Option<Attempt>,
    /// The comment the command names.
    pub comment: Option<Comment>,
    /// The job the command names, or the subject's open verify job.
    pub job: Option<Job>,
    /// The named tasks that exist.
    pub named: Vec<Dep>,
    /// Edges (task, dep) reachable from `Needs::ancestry_of`.
    pub ancestry: Vec<(TaskId, TaskId)>,
    /// The entry the command names, if its org has it.
    pub knowledge: Option<KnowledgeEntry>,
    /// The run of `job`, if the job has one.
    pub run: Option<Run>,
    pub open_runs: OpenRuns,
    /// How many runs there are on the machine the command names.
    pub runs_here: u32,
    /// The newest number of each prefix in `Needs::numbers`; a prefix without tasks may be missing.
    pub numbers: BTreeMap<Prefix, u32>,
    /// The tasks that stand under the names in `Needs::references`.
    pub references: BTreeMap<(i64, String), TaskId>,
    /// The newest number of the org's local pull requests; 0 without any.
    pub pulls_last: u64,
    /// The subject's pull requests, the oldest first; empty unless `Needs::task_pulls`.
    pub pulls: Vec<Pull>,
    /// The actor's drafts on the subject; empty unless `Needs::drafts`.
    pub drafts: Vec<ReviewDraft>,
    pub org: OrgWorld,
    /// Every task above `Needs::above`, at any depth.
    pub above: Vec<TaskId>,
    pub crew: CrewWorld,
}

/// The rows of a crew that the command needs.
#[derive(Clone, Debug, Default)]
pub struct CrewWorld {
    pub agents: Vec<Agent>,
    pub mails: Vec<Mail>,
    /// How many workers there are; 0 unless `Needs` asks for it.
    pub workers: u32,
}

impl CrewWorld {
    pub fn agent(&self, id: &AgentId) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.id == *id)
    }

    pub fn mail(&self, id: MailId) -> Option<&Mail> {
        self.mails.iter().find(|mail| mail.id == id)
    }
}

/// The rows of the org, outside its tasks, that the command needs.
#[derive(Clone, Debug, Default)]
pub struct OrgWorld {
    pub settings: SettingsKept,
    pub project: Option<Project>,
    /// The project the actor has open.
    pub opened: Option<i64>,
    pub room: Option<ProjectRoom>,
    pub plan: Option<Plan>,
}

#[derive(Clone, Debug)]
pub struct Subject {
    pub task: Task,
    pub deps: Vec<Dep>,
    pub dependents: Vec<Dependent>,
    /// The attempt with the highest fence, the only one that can be live.
    pub newest: Option<Attempt>,
    pub last_entry: Option<LastEntry>,
    /// Open blockers, oldest first.
    pub blockers: Vec<Comment>,
    /// The default card unless `Needs::card`; the body likewise.
    pub card: Card,
    pub body: Option<String>,
    /// Empty unless `Needs::scratchpad`.
    pub scratchpad: String,
}

impl Subject {
    /// The one attempt that is live as written; its lease may be over.
    pub fn live(&self) -> Option<&Attempt> {
        self.newest.as_ref().filter(|attempt| match attempt.state {
            AttemptState::Live { .. } => true,
            AttemptState::Ended { .. } => false,
        })
    }
}

/// The newest line of a task's history, for folding idle heartbeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEntry {
    pub did: String,
    pub has_text: bool,
    pub attempt: Option<AttemptId>,
}

impl Change {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.events.is_empty()
    }
}

impl World<'_> {
    /// The subject's standing before the command.
    pub fn standing(&self, now: Timestamp) -> Option<Standing> {
        let subject = self.subject.as_ref()?;
        Some(Standing::of(&subject.task, subject.newest.as_ref(), now))
    }
}

/// The effect of a command. Applied as a whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub writes: Vec<Write>,
    pub events: Vec<Event>,
    pub reply: Reply,
    /// A refusal that leaves a trace: the writes stand (check results, say), and this is the answer.
    pub but: Option<Refusal>,
}

/// Work that a change leaves to loops in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Verifications, and checks of tasks in review.
    pub jobs: bool,
    /// Webhooks.
    pub messages: bool,
}

impl Change {
    pub fn queued(&self) -> Queued {
        let mut queued = Queued::default();
        for write in &self.writes {
            let (Write::JobInsert { job } | Write::JobUpdate { job } | Write::JobPut { job }) =
                write
            else {
                continue;
            };
            if !matches!(job.state, JobState::Queued { .. }) {
                continue;
            }
            match job.kind {
                JobKind::Verify | JobKind::Check => queued.jobs = true,
                JobKind::Deliver => queued.messages = true,
                JobKind::Embed | JobKind::Run | JobKind::Work | JobKind::Crew | JobKind::Stop => {}
            }
        }
        queued
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Task(TaskId),
    Attempt(AttemptId),
    Comment(CommentId),
    Job(JobId),
    Knowledge(KnowledgeId),
    Run(JobId),
    /// The command only added to the history.
    Noted,
    Settings,
    Project(i64),
    Plan(PlanId),
    Mail(MailId),
    Decision(DecisionId),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    TaskInsert {
        task: Task,
        body: String,
        execution_contract: Option<String>,
        deps: Vec<TaskId>,
    },
    TaskUpdate {
        task: Task,
    },
    /// Also deletes what reviewers kept of the task for themselves: drafts, viewed files, looks.
    TaskTombstone {
        task: TaskId,
    },
    BodyReplace {
        task: TaskId,
        body: String,
    },
    CardPut {
        task: TaskId,
        card: Card,
    },
    /// An empty text counts as no text.
    ScratchpadPut {
        task: TaskId,
        text: String,
    },
    DepInsert {
        task: TaskId,
        dep: TaskId,
    },
    DepDelete {
        task: TaskId,
        dep: TaskId,
    },
    /// Adjusts the open deps of every task that depends on this one and is not removed.
    DependentsAdjust {
        dep: TaskId,
        delta: i32,
    },
    /// Marks a task that has children now.
    PlanMark {
        task: TaskId,
    },
    /// The whole output of a completed attempt.
    OutputPut {
        attempt: AttemptId,
        output: String,
    },
    CommentInsert {
        comment: Comment,
    },
    CommentUpdate {
        comment: Comment,
    },
    JobInsert {
        job: Job,
    },
    JobUpdate {
        job: Job,
    },
    /// Creates the one job with this id, or queues it again as given. A running job goes on; its changed
    /// `created_at` tells its end that it was requested again.
    JobPut {
        job: Job,
    },
    /// Comes after the insert of its job.
    RunInsert {
        run: Run,
        task: TaskId,
    },
    RunUpdate {
        run: Run,
    },
    /// Stores the content of an artifact under a new name.
    ArtifactInsert {
        file: String,
        bytes: Arc<[u8]>,
    },
    /// Comes after the insert of its job.
    DeliveryInsert {
        delivery: Delivery,
    },
    DeliveryTried {
        job: JobId,
        tried: Tried,
    },
    /// Inserts a pull request, or updates a known one.
    PullPut {
        pull: Pull,
    },
    ReviewCommentInsert {
        sent: SentComment,
    },
    ReviewDraftDelete {
        draft: ReviewCommentId,
    },
    AttemptInsert {
        attempt: Attempt,
    },
    AttemptUpdate {
        attempt: Attempt,
    },
    EntryPut {
        task: TaskId,
        number: u32,
        entry: Entry,
        attempt: Option<AttemptId>,
    },
    /// Inserts the entry with everything that makes it findable.
    KnowledgeInsert {
        entry: KnowledgeEntry,
    },
    KnowledgeLink {
        task: TaskId,
        entry: KnowledgeId,
        kind: EdgeKind,
    },
    KnowledgeSupersede {
        entry: KnowledgeId,
        by: KnowledgeId,
    },
    Org(OrgWrite),
    Crew(CrewWrite),
}

#[derive(Clone, Debug, PartialEq)]
pub enum CrewWrite {
    AgentInsert {
        agent: Agent,
    },
    /// The type of an agent never changes.
    AgentUpdate {
        agent: Agent,
    },
    AgentRemove {
        agent: AgentId,
    },
    MailInsert {
        mail: Mail,
    },
    MailRead {
        mail: MailId,
        at: Timestamp,
    },
    DecisionInsert {
        decision: Decision,
    },
}

/// Writes of an org outside its tasks.
#[derive(Clone, Debug, PartialEq)]
pub enum OrgWrite {
    SettingPut {
        key: SettingKey,
        value: serde_json::Value,
    },
    ProjectInsert {
        project: Project,
    },
    RepoInsert {
        repo: ProjectRepo,
    },
    /// Also records when the project was last opened.
    ProjectOpen {
        project: i64,
        actor: Actor,
    },
    PlanInsert {
        plan: Plan,
    },
    /// Only the state of a plan ever changes.
    PlanUpdate {
        plan: Plan,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id;
    use crate::time::Timestamp;

    #[test]
    fn a_change_tells_which_queues_it_filled() {
        let (queued, over) =
            (JobState::Queued { due_at: Timestamp(0) }, JobState::Done { at: Timestamp(0) });
        let job = |kind, state: &JobState| Job {
            id: JobId(Id(1)),
            kind,
            key: String::new(),
            task: None,
            priority: 0,
            tries: 0,
            created_at: Timestamp(0),
            state: state.clone(),
        };
        let of = |write| {
            let change =
                Change { writes: vec![write], events: Vec::new(), reply: Reply::Noted, but: None };
            let Queued { jobs, messages } = change.queued();
            (jobs, messages)
        };
        let insert = |kind, state| of(Write::JobInsert { job: job(kind, state) });
        assert_eq!(insert(JobKind::Verify, &queued), (true, false));
        assert_eq!(insert(JobKind::Check, &queued), (true, false));
        assert_eq!(insert(JobKind::Deliver, &queued), (false, true));
        assert_eq!(insert(JobKind::Run, &queued), (false, false), "runs have a nudge of their own");
        assert_eq!(insert(JobKind::Verify, &over), (false, false));
        assert_eq!(of(Write::JobUpdate { job: job(JobKind::Verify, &queued) }), (true, false));
        assert_eq!(of(Write::JobPut { job: job(JobKind::Check, &queued) }), (true, false));
    }
}
