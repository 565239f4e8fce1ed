//! The port for a person and an agent who work on a task together: a worktree that is ready for both, with a terminal
//! that waits there or a command that opens an editor.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::actor::Actor;
use callboard_domain::ids::TaskId;
use callboard_domain::rights::Profile;

use super::{Worktree, WorktreeFault};

/// The file in `.callboard` of a worktree in which its session is recorded.
pub const SESSION_RECORD: &str = "session.json";

#[async_trait]
pub trait PairSessions: Send + Sync {
    /// Writes the files that the agent finds there and, for a terminal, starts it. A session that is open is returned
    /// as it is.
    async fn pair_open(&self, order: PairOrder) -> Result<PairSession, PairFault>;

    /// The backend of the task's session in this worktree, if its terminal is still alive.
    async fn pair_find(&self, worktree: &Worktree, task: &str) -> Option<PairBackend>;

    /// Ends the terminal with every process in it, which may include the caller. Returns whether there was a terminal
    /// to end. The worktree stays.
    async fn pair_end(&self, worktree: &Worktree, task: &str) -> Result<bool, PairFault>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairBackend {
    Tmux,
    Vscode,
    Cursor,
}

impl PairBackend {
    pub const ALL: [Self; 3] = [Self::Tmux, Self::Vscode, Self::Cursor];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tmux => "tmux",
            Self::Vscode => "vscode",
            Self::Cursor => "cursor",
        }
    }
}

#[derive(Clone, Debug)]
pub struct PairOrder {
    pub task: String,
    pub title: String,
    pub backend: PairBackend,
    pub worktree: Worktree,
    /// The folder that contains `.callboard`.
    pub project_root: PathBuf,
    /// The first prompt of the agent.
    pub prompt: String,
    /// An executor's name: decides how the agent is started and told about the server.
    pub agent: String,
    /// The program of an executor that is not built in.
    pub program: Option<String>,
    /// The command with which the agent reaches this board: a program and its arguments.
    pub server: Vec<String>,
    /// Variables of the task that the session sees.
    pub variables: Vec<(String, String)>,
}

/// A server for the agent of a person's session: it acts under the agent's name and may change only this task.
#[derive(Clone, Copy, Debug)]
pub struct ServerRequest<'a> {
    pub org: &'a str,
    pub agent: &'a Actor,
    pub task: TaskId,
    pub profile: Profile,
}

/// The command that starts such a server: a program and its arguments.
pub type SessionServer = Arc<dyn Fn(&ServerRequest<'_>) -> Vec<String> + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairSession {
    /// `callboard-<task>`.
    pub name: String,
    pub backend: PairBackend,
    pub already_exists: bool,
    pub prompt_path: PathBuf,
    /// The command with which a person gets there.
    pub primary_command: String,
    /// Further useful commands.
    pub commands: Vec<String>,
    /// Names with their addresses.
    pub links: Vec<(&'static str, String)>,
    /// A tracked file that should name our server and was left unchanged.
    pub left_alone: Option<String>,
}

/// Why a session failed. Words are for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairFault {
    #[error("tmux is not installed: install it, or use the backend vscode or cursor")]
    NoTmux,
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Worktree(#[from] WorktreeFault),
}
