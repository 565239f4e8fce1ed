//! Traits for what the engine needs from outside; the binary implements them: ids, the checks that a call itself must
//! run, forges (`forge.rs`), agents that make patches (`run.rs`) or work on tasks (`work.rs`), the door through which
//! those agents reach the board (`door.rs`), the places where tasks are worked on (`worktree.rs`), alone or in pairs
//! (`pair.rs`), merges into a branch (`merge.rs`), delivery of messages (`deliver.rs`), tokens that are made elsewhere
//! (`issuer.rs`), and embedding of texts as vectors. The engine never names the runner.

mod deliver;
mod door;
mod forge;
mod issuer;
mod merge;
mod pair;
mod run;
mod work;
mod worktree;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::board::recipe::PortBlock;
use callboard_domain::ids::{Id, TaskId};
use callboard_store::FileSpan;
use callboard_store::knowledge::Calibration;
use tokio_util::sync::CancellationToken;

pub use deliver::{Courier, Letter};
pub use door::{Door, DoorKey};
pub use forge::{Forge, ForgeFault, ForgeMerge, ForgeOff, NewPull, OpenedPull, PullStateRequest};
pub use issuer::{Issuer, TokenIssuer};
pub use merge::{
    MergeFault, MergeFrom, MergeOrder, MergeOutlook, MergePlan, MergeWish, MergedPart, Merges,
    PreparedMerge, PreparedPart, settings_files,
};
pub use pair::{
    PairBackend, PairFault, PairOrder, PairSession, PairSessions, SESSION_RECORD, ServerRequest,
    SessionServer,
};
pub use run::{
    AgentRunner, Answer, Asks, Branch, BranchState, EarlierRuns, NOT_ALLOWED, PatchOrder, Question,
    RunOrder, RunReport,
};
pub use work::{
    CUT, ConfinedBy, ExecutorSeen, Printout, SO_FAR, Saying, TerminalWish, Up, WorkCall,
    WorkReport, Worked, Workers,
};
pub use worktree::{
    Base, BaseFrom, BranchMade, BranchOrder, ChangeStatus, ChangedFile, ChangesQuery, ChangesSince,
    DiffStats, DiskUsage, FIRST_COMMIT, FileDiff, FileFault, ListedWork, PatchWish, Rebased,
    Removal, ShareOrder, TaskBranch, TaskWorktree, WorkCommit, Worktree, WorktreeChanges,
    WorktreeDiff, WorktreeFault, WorktreeMade, WorktreeOrder, WorktreeReady, WorktreeRemoved,
    WorktreeState, Worktrees,
};

/// Where a repository keeps the logs of its checks.
pub const RUNS: &str = ".callboard/runs";

/// Makes 128-bit ids that rise within a process.
pub trait IdSource: Send + Sync {
    fn next_id(&self) -> Id;
}

/// Runs command checks and reads the state of the files they check.
#[async_trait]
pub trait CheckRunner: Send + Sync {
    /// The folder in which a task's checks run: its repository, or the session's worktree if that is a registered git
    /// worktree of the same repository on this machine.
    async fn root(&self, repo: &Path, worktree: Option<&str>) -> Result<PathBuf, CheckFault>;

    /// Head and working tree at a root; both `None` outside git. A root that is not `repo` itself is a
    /// worktree of `repo` that agents write.
    async fn files(&self, repo: &Path, root: &Path) -> Result<FilesState, CheckFault>;

    /// Branch and head of such a root alone, which cost little; never fails.
    async fn head(&self, repo: &Path, root: &Path) -> Head;

    /// The address of the repository's `origin`, and its main branch.
    async fn origin(&self, repo: &Path) -> Result<Origin, RepositoryFault>;

    /// The repository that has its top folder here, links resolved.
    async fn repository(&self, path: &Path) -> Result<RepositoryFound, RepositoryFault>;

    /// Waits until no other run of this task is under way on this machine.
    async fn turn(&self, repo: &Path, task: TaskId) -> Result<Turn, CheckFault>;

    /// Runs one command to its end, its time limit, or cancellation. No process of it is left when this returns or is
    /// dropped.
    async fn run(&self, run: CheckRun, cancel: CancellationToken) -> Result<CheckRan, CheckFault>;

    /// Reads part of a log in a repository's `.callboard/runs/`, and nothing outside that folder whatever the name
    /// says; `None` when there is no such log.
    async fn read_log(
        &self,
        repo: &Path,
        log: &str,
        span: FileSpan,
    ) -> Result<Option<LogPart>, CheckFault>;

    /// Deletes logs older than this.
    async fn prune_logs(&self, repo: &Path, older_than: Duration);
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub branch: Option<String>,
    pub head: Option<String>,
}

/// The origin of a repository; without secrets, and fit for others to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub url: Option<String>,
    pub default_branch: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryFound {
    pub path: PathBuf,
    /// The main branch by the remote's word, else the branch that is checked out.
    pub default_branch: Option<String>,
}

/// Why a folder is not the top of a usable git repository. The words are for the caller and begin with a verb: the
/// folder "is not a git repository".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepositoryFault {
    /// No repository has its top folder here.
    #[error("{0}")]
    None(String),
    /// Git, or the file system, failed; in its words. There may be a repository.
    #[error("{0}")]
    Failed(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesState {
    pub head: Option<String>,
    /// Git's tree id of the files as they are, including uncommitted and untracked ones.
    pub tree: Option<String>,
}

/// Held while one task's checks run, or during one merge; dropping it lets the next one begin.
pub struct Turn(#[allow(dead_code, reason = "held for its Drop")] Box<dyn Send + Sync>);

impl Turn {
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

#[derive(Clone, Debug)]
pub struct CheckRun {
    pub task: TaskId,
    pub index: usize,
    pub cmd: String,
    /// Relative to `root`; judged again after links are resolved.
    pub cwd: String,
    pub timeout: Duration,
    /// The task's repository, whose `.callboard/runs/` takes the log.
    pub repo: PathBuf,
    pub root: PathBuf,
    pub files: FilesState,
    pub shell: String,
    pub log_tail_bytes: usize,
    /// Variables of the task that the command sees.
    pub variables: Vec<(String, String)>,
    /// The ports of the task, which a confined command may connect to.
    pub ports: Option<PortBlock>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRan {
    /// `None` when a signal or the time limit ended the command.
    pub exit_code: Option<i32>,
    pub timed_out: bool,
    /// The log's path relative to the repository.
    pub log: String,
}

impl CheckRan {
    pub fn passed(&self) -> bool {
        !self.timed_out && self.exit_code == Some(0)
    }
}

/// Some bytes of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPart {
    /// The size of the whole log.
    pub size: u64,
    pub start: u64,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckFault {
    /// The check could not be run at all. The words say why and are for the caller.
    #[error("{0}")]
    Infrastructure(String),
    #[error("cwd leaves the repo")]
    LeavesRepo,
    #[error("canceled")]
    Canceled,
}

/// Turns texts into vectors; a smaller angle means a closer meaning.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// The model's name. Vectors of different models are never compared; a model that changes gets another name.
    fn model(&self) -> &str;

    /// How to read the cosines of this model's vectors.
    fn calibration(&self) -> Calibration;

    /// One vector per text, in order. Loads nothing before the first call; goes on in the background when the caller
    /// stops waiting.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedFault>;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedFault {
    /// The embedder cannot be used now. The words say why and are for the log.
    #[error("{0}")]
    Unavailable(String),
    /// These texts will never become vectors.
    #[error("{0}")]
    Unusable(String),
}
