//! Use cases: the write path of commands, read models that page, waits, sweeps.
//!
//! A verb here is a verb of the domain (`task_claim`) with the outside work around it. No SQL, no
//! protocol, no process: stores, ids and check runners come in through traits.

mod act;
mod background;
mod board;
mod call;
pub mod context;
pub mod counts;
mod crew;
pub mod error;
mod foreseen;
mod handle;
pub mod ids;
mod issued;
mod job;
mod knowledge;
mod lease;
mod log_window;
mod page;
pub mod ports;
mod pulls;
mod quota;
mod retry;
mod review;
mod runs;
mod task;
pub mod time;
mod token;
pub mod trace;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::policy::Policy;
use callboard_domain::retention::Retention;
use callboard_domain::time::Timestamp;
use callboard_store::{Home, Store};

pub use background::Working;
pub use background::leases::SWEEP_EVERY;
pub use board::audit::{AuditFilter, AuditPage};
pub use board::card::{CardFilter, CardSeen, ReviewAsked};
pub use board::card_wait::{CardWait, CardWaited, WaitEnd};
pub use board::columns::{
    BoardCard, BoardColumn, BoardColumns, BoardProjects, BoardQuery, CardQuestion, DoneSpan,
    ViewCounts,
};
pub use board::feed::{FeedEntry, TaskFeed};
pub use board::gc::GcRow;
pub use board::import::Imported;
pub use board::inbox::{InboxQuery, NavCounts};
pub use board::overview::{Holder, Holders};
pub use board::plan::PlanOverlap;
pub use board::project::{ProjectDraft, ProjectSeen, RepoSeen};
pub use board::repository::Repository;
pub use board::session::{SessionFault, SessionFound, SessionMade};
pub use board::settings::{BoardRule, SettingOrigin, SettingSeen, SettingsUpdated};
pub use board::stats::{StatsByGroup, StatsGroup, StatsSeen};
pub use board::workspace::{Workshop, WorkspacePart, WorkspaceSeen};
pub use callboard_store as store;
pub use crew::agents::{AgentStanding, CallLine, CrewRule, DecisionPage, MailFilter, MailPage};
pub use crew::epic::{EpicFileFault, EpicMoved, EpicTask, EpicTaskMade, task_state};
pub use crew::letter_task::LetterTask;
pub use crew::merge::{CrewApproved, EpicFinished};
pub use crew::report::BrokenCall;
pub use crew::roster::{ActorSeen, Roster, RosterFilter, WorkSpan};
pub use crew::task::{CrewMoved, CrewSaid};
pub use crew::threads::{MailBox, MailThread, MailThreads, answerable};
pub use error::EngineError;
pub use handle::{LongCall, Words};
pub use knowledge::digest::{Digest, DigestRule, DigestTask};
pub use knowledge::look::{KnowledgeForce, KnowledgeLine, KnowledgeLook, USES_SHOWN};
pub use knowledge::store::{KnowledgeDraft, KnowledgeFound, KnowledgeStored};
pub use log_window::{LinesWanted, LogLine, LogQuery, LogReader, LogSpan, LogWindow, WINDOW_LINES};
pub use page::{CODE_LIVES, PageBook, PageSessionId, PageText};
pub use pulls::look::{PullLook, PullLookFault, PullNamed};
pub use pulls::merge::PullEnd;
pub use pulls::open::{PullDraft, PullFault};
pub use quota::{Metric, Quotas};
pub use review::changes::WorkspaceChanges;
pub use review::comment::{CommentSeen, Rejection, ReviewComments};
pub use review::look::{
    ConflictSeen, Foresight, ReviewLook, ReviewSeen, ReviewWork, WorkspaceDiff,
};
pub use review::merge::{Merged, ReviewEnd, Reviewed, merge_message};
pub use review::merging::MergeSeen;
pub use review::overlap::{Overlap, Overlaps, ReviewPlace};
pub use runs::call::CrewTerminal;
pub use runs::follow::RunFollow;
pub use runs::here::HELD_S;
pub use runs::job_look::{JOBS_SEARCHED, JobLine, JobLook, JobWait, JobWaitsFor};
pub use runs::lines::WorkLogLines;
pub use runs::list::{JobCanceled, JobSeen, JobsWanted, crew_worker};
pub use runs::look::{Pending, PendingFor, WorkLog, WorkNow};
pub use runs::notes::RunLimits;
pub use runs::patch::Alert;
pub use runs::queue::{ArtifactText, RunFilter, RunRule, Submitted};
pub use runs::stop::{NOT_RUNNING, Stopped};
pub use runs::token::RunTokens;
pub use runs::work::{WorkJob, WorkSeen, WorkWaited, WorkWish};
pub use task::attempt::{AttemptDraft, NEW_WORKTREE};
pub use task::check_log::{CheckLog, CheckLogLines, LOG_TAIL_BYTES};
pub use task::comment::CommentDraft;
pub use task::event_follow::{EventFollow, EventsWanted};
pub use task::event_page::{EventPage, EventTask};
pub use task::graph::{GraphFilter, GraphSeen, LongestWay};
pub use task::lease::{Completion, FreeFilter, Learning, Leased};
pub use task::place::WorkspaceFault;
pub use task::query::{AsWork, AttemptFilter, TaskFilter, TaskScope};
pub use task::verbs::TaskDraft;
pub use task::wait::{RunEvent, RunFeed, WaitOutcome, Watch};
pub use token::{TokenBook, TokenCheckFault, TokenFault, TokenText, TokenWish};

use ports::{AgentRunner, CheckRunner, Courier, Embedder, Forge, IdSource, Issuer};

/// The parts of a process. The binary fills them in; tests fill in their own.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub ids: Arc<dyn IdSource>,
    pub policy: Arc<Policy>,
    pub quotas: Quotas,
    /// How often expired leases are swept.
    pub sweep_every: Duration,
    /// How long the store keeps what grows.
    pub retention: Retention,
    /// The org and the project of this process.
    pub home: Home,
    /// The machine's name, under which its repositories are stored.
    pub machine: String,
    /// The actor under which this process runs jobs; no two processes share it.
    pub runner: Actor,
    /// `None` where no forge can be asked about pull requests.
    pub forge: Option<Arc<dyn Forge>>,
    /// `None` on a server that runs no commands.
    pub checks: Option<Arc<dyn CheckRunner>>,
    pub check_shell: String,
    pub check_log_tail_bytes: usize,
    pub digest: DigestRule,
    /// `None`: knowledge is searched by words alone.
    pub embedder: Option<Arc<dyn Embedder>>,
    pub runs: RunRule,
    pub board: BoardRule,
    pub crew: CrewRule,
    /// `None` on a server that runs no agents.
    pub agents: Option<Arc<dyn AgentRunner>>,
    /// `None` on a server that accepts only its own tokens.
    pub issuer: Option<Issuer>,
    /// `None` on a server that sends no webhooks.
    pub courier: Option<Arc<dyn Courier>>,
    /// `None` on a server that touches no repositories.
    pub workshop: Option<Workshop>,
    /// Whether an earlier runner process on this machine has ended.
    pub is_gone: fn(&Actor) -> bool,
}

impl Parts {
    /// The parts of an engine that reaches nothing but its store, with every rule as it is by default. Benchmarks and
    /// tests add what they need; the binary names every part itself.
    pub fn bare(home: Home, store: Arc<dyn Store>, ids: Arc<dyn IdSource>) -> Self {
        Self {
            store,
            ids,
            policy: Arc::new(Policy::default()),
            quotas: Quotas::default(),
            sweep_every: SWEEP_EVERY,
            retention: Retention::default(),
            home,
            machine: "here".into(),
            runner: "runner:here".parse().expect("a constant actor is well formed"),
            forge: None,
            checks: None,
            check_shell: "sh".into(),
            check_log_tail_bytes: 0,
            digest: DigestRule::default(),
            embedder: None,
            runs: RunRule::default(),
            board: BoardRule::default(),
            crew: CrewRule::default(),
            agents: None,
            issuer: None,
            courier: None,
            workshop: None,
            is_gone: |_| false,
        }
    }
}

pub struct Engine {
    /// For work that goes on when the call that began it is dropped.
    me: Weak<Engine>,
    parts: Parts,
    waits: Arc<task::wait::Waits>,
    tails: task::event_follow::Tails,
    digests: knowledge::digest::Digests,
    embedding: knowledge::embed::Embedding,
    newest_events: task::query::NewestEvents,
    origins: board::repository::Origins,
    long_calls: handle::Running,
    /// `None` without an issuer.
    issued: Option<Arc<issued::IssuedTokens>>,
    run_tokens: Arc<runs::token::RunTokens>,
    runs: runs::patch::RunQueue,
    leases: lease::Leases,
    card_waits: AtomicUsize,
    files_seen: runs::look::FilesSeen,
    /// Held during a sweep of the crew: one at a time.
    crew_turn: tokio::sync::Mutex<()>,
    reports: crew::report::Reports,
    pull_turns: std::sync::Mutex<pulls::track::PullTurns>,
    merging: review::merging::Merging,
    foreseen: foreseen::Foreseen,
    /// Notified when merges may have become unwanted, so that forges are told soon.
    pulls_unwanted: tokio::sync::Notify,
    nudges: background::Nudges,
}

/// A value with the time at which it was true; health and staleness are judged against that time.
#[derive(Clone, Debug)]
pub struct At<T> {
    pub it: T,
    pub now: Timestamp,
}

impl Engine {
    pub fn new(parts: Parts) -> Arc<Self> {
        let waits = Arc::new(task::wait::Waits::default());
        let issued = parts.issuer.clone();
        let issued = issued
            .map(|issuer| Arc::new(issued::IssuedTokens::new(issuer, parts.home.org.clone())));
        parts.store.publish_to(waits.clone());
        let (digests, embedding, origins, long_calls, runs) = Default::default();
        let (card_waits, files_seen) = (AtomicUsize::new(0), runs::look::FilesSeen::default());
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            parts,
            waits,
            tails: task::event_follow::Tails::default(),
            digests,
            embedding,
            newest_events: Default::default(),
            origins,
            long_calls,
            issued,
            run_tokens: Default::default(),
            runs,
            leases: Default::default(),
            card_waits,
            files_seen,
            crew_turn: tokio::sync::Mutex::new(()),
            reports: Default::default(),
            pull_turns: Default::default(),
            merging: Default::default(),
            foreseen: Default::default(),
            pulls_unwanted: Default::default(),
            nudges: Default::default(),
        })
    }

    /// Whether this process runs on the machine of this name.
    pub fn is_here(&self, machine: &str) -> bool {
        self.parts.machine == machine
    }

    pub fn policy(&self) -> &Arc<Policy> {
        &self.parts.policy
    }

    pub fn home(&self) -> &Home {
        &self.parts.home
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.parts.store
    }
}
