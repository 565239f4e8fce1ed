//! The port that lets agents work in a task's workspace.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::board::recipe::PortBlock;
use callboard_domain::runs::run::Terminal;
use callboard_domain::runs::usage::RunUsage;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{Asks, DoorKey, Worktree};

/// Stands before the output of an agent so far, after the notes of the run.
pub const SO_FAR: &str = "----- so far -----\n";
/// Marks the place where the beginning of an output was cut.
pub const CUT: &str = "[more was written here]\n";

#[async_trait]
pub trait Workers: Send + Sync {
    /// Lets an agent work to its end, the time limit or `stop`. `up` hears when the agent is at work. `printed` gets
    /// the end of its output so far, with secrets replaced, a moment after it was printed. The agent is told at once
    /// what arrives on `says`; for an agent that cannot be told anything that channel is closed. No process of the run
    /// is left when this returns or is dropped.
    async fn work(
        &self,
        call: WorkCall,
        up: oneshot::Sender<Up>,
        printed: watch::Sender<String>,
        asks: Arc<dyn Asks>,
        says: mpsc::Receiver<Saying>,
        stop: CancellationToken,
    ) -> WorkReport;

    /// The output of a run on this machine, while it goes on; `None` when there is none to read. A job's id and its
    /// attempt name the run.
    fn printout(&self, _job: &str, _attempt: u32) -> Option<Box<dyn Printout>> {
        None
    }

    /// The names of the executors whose program is on this machine; `None` where that is not known.
    fn executors(&self) -> Option<Vec<String>> {
        None
    }

    /// Every executor as the settings and this machine have it; empty where that is not known.
    fn executors_seen(&self) -> Vec<ExecutorSeen> {
        Vec::new()
    }
}

/// An executor as the settings and this machine have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorSeen {
    pub name: String,
    pub program: String,
    pub is_found: bool,
    pub confined: ConfinedBy,
    /// The names of the variables that the settings pass on to it.
    pub variables: Vec<String>,
}

/// What keeps an agent from writing outside its folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfinedBy {
    /// The system: files and TCP ports.
    FilesAndPorts,
    /// The system: files alone.
    Files,
    /// A sandbox of the program, which does not work inside ours.
    OwnSandbox,
    /// The switches with which the program is called, and nothing else.
    OwnSwitches,
    /// The settings want the system to confine, and this one cannot: no run starts.
    NoRun,
}

/// Sent when an agent is at work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Up {
    /// The terminal in which a person sees it, if one was requested and could be made.
    pub terminal: Option<Terminal>,
}

/// A message to an agent while it works.
#[derive(Debug)]
pub struct Saying {
    /// The words that the agent hears.
    pub text: String,
    /// Notified when the agent has the message.
    pub heard: oneshot::Sender<()>,
}

#[derive(Clone, Debug)]
pub struct WorkCall {
    /// `job_…`; names the folder for files of the run outside the workspace.
    pub job: String,
    pub attempt: u32,
    /// The name of an executor.
    pub executor: String,
    /// Empty: the executor's own choice.
    pub model: String,
    pub prompt: String,
    /// The folder in which it starts; one of the worktrees.
    pub folder: PathBuf,
    /// The worktrees in which it may write and commit. Empty for an agent that only reads.
    pub worktrees: Vec<Worktree>,
    pub variables: Vec<(String, String)>,
    /// The ports of the task, which a confined agent may connect to.
    pub ports: Option<PortBlock>,
    /// The door through which it reaches the board; `None` where there is none.
    pub door: Option<DoorKey>,
    pub timeout: Duration,
    pub terminal: Option<TerminalWish>,
}

/// A terminal in which a person sees what the agent prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalWish {
    /// Its name, in a form that tmux takes.
    pub session: String,
    /// Its first line.
    pub title: String,
}

#[derive(Clone, Debug)]
pub struct WorkReport {
    pub end: Worked,
    /// The output, with secrets replaced; never empty.
    pub logs: String,
    /// The tokens and the cost, if the executor reported them.
    pub usage: Option<RunUsage>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Worked {
    /// There is no such executor, no program or no folder.
    NotStarted(String),
    Failed(String),
    /// The agent's last message.
    Replied(String),
    Stopped,
}

/// The output of a run, for a reader that polls.
pub trait Printout: Send {
    /// The output since the last call, with secrets replaced.
    fn read(&mut self) -> std::io::Result<String>;

    /// Whether the run is over. The rest of the output can still be read.
    fn is_over(&self) -> bool;
}
