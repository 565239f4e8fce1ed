//! Use cases: the write path of commands, read models that page, waits, sweeps.
//!
//! A verb here is a verb of the domain (`task_claim`) with the outside work around it. No SQL, no
//! protocol, no process: stores, ids and check runners come in through traits.

mod act;
mod attempt;
mod audit;
mod call;
mod card;
mod card_wait;
mod check;
mod check_job;
mod check_log;
mod check_look;
mod comment;
pub mod context;
pub mod counts;
mod crew;
mod crew_assign;
mod crew_merge;
mod crew_report;
mod crew_run;
mod crew_task;
mod delivery;
mod digest;
mod embedding;
mod epic;
pub mod error;
mod event_follow;
mod handle;
pub mod ids;
mod job;
mod job_list;
mod knowledge;
mod lease;
mod overview;
mod plan;
pub mod ports;
mod project;
mod pull;
mod pull_look;
mod pull_merge;
mod pull_open;
mod pull_revoke;
mod query;
mod quota;
mod repository;
mod retry;
mod review;
mod review_look;
mod run;
mod run_follow;
mod run_token;
mod run_way;
mod run_work;
mod runner;
mod session;
mod session_sweep;
mod settings;
mod sweep;
mod task;
mod tell;
mod token;
mod verify;
mod wait;
mod work;
mod work_call;
mod work_here;
mod work_look;
mod work_run;
mod work_stop;
mod workspace;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::policy::Policy;
use callboard_domain::time::Timestamp;
use callboard_store::{Home, Store};

pub use attempt::{AttemptDraft, NEW_WORKTREE};
pub use audit::{AuditFilter, AuditPage};
pub use callboard_store as store;
pub use card::{CardFilter, CardSeen, ReviewAsked};
pub use card_wait::{CardWait, CardWaited, WaitEnd};
pub use check_log::{CheckLog, LOG_TAIL_BYTES};
pub use comment::CommentDraft;
pub use crew::{
    AgentStanding, CallLine, CrewRule, CrewTerminal, DecisionPage, MailFilter, MailPage,
};
pub use crew_merge::{CrewApproved, EpicFinished};
pub use crew_report::BrokenCall;
pub use crew_task::{CrewMoved, CrewSaid};
pub use digest::{Digest, DigestRule, DigestTask};
pub use epic::{EpicFileFault, EpicMoved, EpicTask, EpicTaskMade, task_state};
pub use error::EngineError;
pub use event_follow::{EventFollow, EventsWanted};
pub use handle::{LongCall, Words};
pub use job_list::{JobCanceled, JobSeen, JobsWanted, crew_worker};
pub use knowledge::{KnowledgeAsk, KnowledgeDraft, KnowledgeFound, KnowledgeStored};
pub use lease::{Completion, FreeFilter, Learning, Leased};
pub use overview::Holder;
pub use project::{ProjectDraft, ProjectSeen, RepoSeen};
pub use pull_look::{PullLook, PullNamed};
pub use pull_merge::PullEnd;
pub use pull_open::{PullDraft, PullFault};
pub use query::{AsWork, AttemptFilter, TaskFilter};
pub use quota::{Metric, Quotas};
pub use repository::Repository;
pub use review::{Merged, ReviewEnd, Reviewed};
pub use review_look::{Foresight, ReviewLook, ReviewSeen, ReviewWork, WorkspaceDiff};
pub use run::{ArtifactText, RunFilter, RunRule, Submitted};
pub use run_follow::RunFollow;
pub use run_token::RunTokens;
pub use run_work::Alert;
pub use session::{SessionFault, SessionFound, SessionMade};
pub use settings::{BoardRule, SettingsUpdated};
pub use sweep::{SWEEP_EVERY, Working};
pub use task::TaskDraft;
pub use token::{TokenBook, TokenFault, TokenText, TokenWish};
pub use wait::{RunEvent, RunFeed, WaitOutcome, Watch};
pub use work::{WorkJob, WorkSeen, WorkWaited, WorkWish};
pub use work_here::HELD_S;
pub use work_look::{Pending, PendingFor, WorkLog, WorkNow};
pub use work_stop::{NOT_RUNNING, Stopped};
pub use workspace::{Workshop, WorkspaceFault, WorkspacePart, WorkspaceSeen};

use ports::{AgentRunner, CheckRunner, Courier, Embedder, Forge, IdSource};

/// What a process is made of. The binary fills it, tests fill it with their own doors.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub ids: Arc<dyn IdSource>,
    pub policy: Arc<Policy>,
    pub quotas: Quotas,
    /// How often leases that are over are written down.
    pub sweep_every: Duration,
    /// Where this process works: its org and project.
    pub home: Home,
    /// The name repository rows on this machine carry.
    pub machine: String,
    /// Who runs jobs in this process; no two processes share it.
    pub runner: Actor,
    /// `None` where nobody can be asked about pull requests.
    pub forge: Option<Arc<dyn Forge>>,
    /// `None` on a server that runs no commands.
    pub checks: Option<Arc<dyn CheckRunner>>,
    pub check_shell: String,
    pub check_log_tail_bytes: usize,
    pub digest: DigestRule,
    /// `None`: knowledge is searched by its words alone.
    pub embedder: Option<Arc<dyn Embedder>>,
    pub runs: RunRule,
    pub board: BoardRule,
    pub crew: CrewRule,
    /// `None` on a server that runs no agents.
    pub agents: Option<Arc<dyn AgentRunner>>,
    /// `None` on a server that tells nobody of the end of jobs.
    pub courier: Option<Arc<dyn Courier>>,
    /// `None` on a server that touches no repositories.
    pub workshop: Option<Workshop>,
    /// Whether a process of this machine that ran jobs has ended.
    pub is_gone: fn(&Actor) -> bool,
}

pub struct Engine {
    parts: Parts,
    waits: Arc<wait::Waits>,
    tails: event_follow::Tails,
    digests: digest::Digests,
    embedding: embedding::Embedding,
    counted: counts::Counted,
    origins: repository::Origins,
    long_calls: handle::Running,
    run_tokens: Arc<run_token::RunTokens>,
    runs: run_work::RunQueue,
    card_waits: AtomicUsize,
    files_seen: work_look::FilesSeen,
    /// One look at a time at who works on what.
    crew_turn: tokio::sync::Mutex<()>,
    reports: crew_report::Reports,
    pull_turns: std::sync::Mutex<pull::PullTurns>,
    /// Rung when nobody wants a pull request merged any more.
    pulls_unwanted: tokio::sync::Notify,
}

/// A value with the time it was true at; health and staleness are judged against that.
#[derive(Clone, Debug)]
pub struct At<T> {
    pub it: T,
    pub now: Timestamp,
}

impl Engine {
    pub fn new(parts: Parts) -> Arc<Self> {
        let waits = Arc::new(wait::Waits::default());
        parts.store.publish_to(waits.clone());
        let (digests, embedding, counted, origins, long_calls, runs) = Default::default();
        let (card_waits, files_seen) = (AtomicUsize::new(0), work_look::FilesSeen::default());
        Arc::new(Self {
            parts,
            waits,
            tails: event_follow::Tails::default(),
            digests,
            embedding,
            counted,
            origins,
            long_calls,
            run_tokens: Default::default(),
            runs,
            card_waits,
            files_seen,
            crew_turn: tokio::sync::Mutex::new(()),
            reports: Default::default(),
            pull_turns: Default::default(),
            pulls_unwanted: Default::default(),
        })
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
