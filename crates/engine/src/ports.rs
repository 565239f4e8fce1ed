//! What the engine needs from outside, as traits that the binary fills: ids, the checks that a
//! call itself must run, forges (`forge.rs`), agents that make patches (`run.rs`) or work on tasks
//! (`work.rs`), the door at which those reach the board (`door.rs`), the places where tasks are worked on (`worktree.rs`), alone or in pairs (`pair.rs`),
//! how work gets from there into a branch (`merge.rs`), and whoever carries
//! messages (`deliver.rs`) or turns texts into vectors. The engine never names the runner.

mod deliver;
mod door;
mod forge;
mod merge;
mod pair;
mod run;
mod work;
mod worktree;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::ids::{Id, TaskId};
use callboard_store::FileSpan;
use callboard_store::knowledge::Calibration;
use tokio_util::sync::CancellationToken;

pub use deliver::{Courier, Letter};
pub use door::{Door, DoorKey};
pub use forge::{Forge, ForgeFault, ForgeMerge, ForgeOff, NewPull, OpenedPull, Wanted};
pub use merge::{
    MergeFault, MergeFrom, MergeOrder, MergeOutlook, MergePlan, MergeWish, MergedPart, Merges,
    PreparedMerge, PreparedPart, settings_files,
};
pub use pair::{PairBackend, PairFault, PairOrder, PairSession, PairSessions, SESSION_RECORD};
pub use run::{
    AgentRunner, Answer, Asks, Branch, BranchState, EarlierRuns, NOT_ALLOWED, PatchOrder, Question,
    RunOrder, RunReport,
};
pub use work::{
    CUT, Printout, SO_FAR, Saying, TerminalWish, Up, WorkCall, WorkReport, Worked, Workers,
};
pub use worktree::{
    Base, BaseFrom, BranchMade, BranchOrder, DiffStats, FileDiff, FileFault, Rebased, Removal,
    ShareOrder, TaskBranch, Worktree, WorktreeDiff, WorktreeFault, WorktreeMade, WorktreeOrder,
    WorktreeRemoved, WorktreeState, Worktrees,
};

/// Where a repository keeps the logs of its checks.
pub const RUNS: &str = ".callboard/runs";

/// Makes 128-bit ids that rise within a process.
pub trait IdSource: Send + Sync {
    fn next_id(&self) -> Id;
}

/// Runs command checks and looks at the files they speak of.
#[async_trait]
pub trait CheckRunner: Send + Sync {
    /// Where a task's checks run: its repository, or the session's worktree when that is a
    /// registered git worktree of the same repository on this machine.
    async fn root(&self, repo: &Path, worktree: Option<&str>) -> Result<PathBuf, CheckFault>;

    /// Head and working tree at a root; both `None` outside git. A root that is not `repo` itself is a
    /// worktree of `repo` that agents write.
    async fn files(&self, repo: &Path, root: &Path) -> Result<FilesState, CheckFault>;

    /// Branch and head of such a root alone, which cost little; never fails.
    async fn head(&self, repo: &Path, root: &Path) -> Head;

    /// Where others find the repository, and its main branch.
    async fn origin(&self, repo: &Path) -> Result<Origin, RepositoryFault>;

    /// The repository whose top folder this is, links resolved.
    async fn repository(&self, path: &Path) -> Result<RepositoryFound, RepositoryFault>;

    /// Waits until no other run of this task is under way on this machine.
    async fn turn(&self, repo: &Path, task: TaskId) -> Result<Turn, CheckFault>;

    /// Runs one command to its end, its time limit, or cancellation. Nothing of it is left
    /// running when this returns or is dropped.
    async fn run(&self, run: CheckRun, cancel: CancellationToken) -> Result<CheckRan, CheckFault>;

    /// Reads some of a log in a repository's `.callboard/runs/`, and nothing outside of it whatever
    /// the name says; `None` when it is not there.
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

/// What a repository says of where it came from; without secrets, and fit for others to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    pub url: Option<String>,
    pub default_branch: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryFound {
    pub path: PathBuf,
    /// What the remote calls its main one, else the branch that is checked out.
    pub default_branch: Option<String>,
}

/// Why a folder is not the top of a git repository that can be used. Words are for the caller, and
/// begin with a verb: the folder "is no git repository".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepositoryFault {
    /// There is no repository with its top here.
    #[error("{0}")]
    None(String),
    /// Git, or the file system, failed; in its words. There may be a repository.
    #[error("{0}")]
    Failed(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesState {
    pub head: Option<String>,
    /// Git's tree id of the files as they are, uncommitted and untracked ones included.
    pub tree: Option<String>,
}

/// Held while one task's checks run, or one merge; dropping it lets the next one begin.
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
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRan {
    /// `None` when a signal or the time limit ended it.
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
    /// Of the whole log.
    pub size: u64,
    pub start: u64,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckFault {
    /// The check could not be run at all; says why in words for the caller.
    #[error("{0}")]
    Infrastructure(String),
    #[error("cwd leaves the repo")]
    LeavesRepo,
    #[error("canceled")]
    Canceled,
}

/// Turns texts into vectors whose angle says how near their meanings are.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Vectors of different models never meet; one that changes is another model.
    fn model(&self) -> &str;

    /// What its cosines mean.
    fn calibration(&self) -> Calibration;

    /// One vector per text, in order. Costs nothing before it is first called; goes on in the
    /// background when the caller stops waiting.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedFault>;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedFault {
    /// Cannot be used now; says why in words for the log.
    #[error("{0}")]
    Unavailable(String),
    /// These texts will never become vectors.
    #[error("{0}")]
    Unusable(String),
}
