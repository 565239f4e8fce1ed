//! What the engine asks of whoever lets agents work in a task's workspace.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::run::Terminal;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{Asks, DoorKey, Worktree};

/// Stands before what an agent printed so far, behind the notes of the run.
pub const SO_FAR: &str = "----- so far -----\n";
/// Stands where the beginning of an output is missing.
pub const CUT: &str = "[more was written here]\n";

#[async_trait]
pub trait Workers: Send + Sync {
    /// Lets an agent work to its end, the time limit or `stop`; `up` hears when it is at work, `printed`
    /// what it printed so far: the end of it, with secrets replaced, a moment after it was printed.
    /// What comes by `says` is told to it at once; whoever cannot be told anything closes that. Nothing of
    /// it is left running when this returns or is dropped.
    async fn work(
        &self,
        call: WorkCall,
        up: oneshot::Sender<Up>,
        printed: watch::Sender<String>,
        asks: Arc<dyn Asks>,
        says: mpsc::Receiver<Saying>,
        stop: CancellationToken,
    ) -> WorkReport;

    /// What a run of this machine prints, while it goes on; `None` where nothing of it is to be read. A
    /// job's id and its attempt name it.
    fn printout(&self, _job: &str, _attempt: u32) -> Option<Box<dyn Printout>> {
        None
    }

    /// The names of the executors whose program is on this machine; `None` where nobody can tell.
    fn executors(&self) -> Option<Vec<String>> {
        None
    }
}

/// An agent is at work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Up {
    /// Where a person sees it, if that was asked for and could be made.
    pub terminal: Option<Terminal>,
}

/// Something that an agent is told while it works.
#[derive(Debug)]
pub struct Saying {
    /// In the words that it hears.
    pub text: String,
    /// Hears when the agent has it.
    pub heard: oneshot::Sender<()>,
}

#[derive(Clone, Debug)]
pub struct WorkCall {
    /// `job_…`; names the folder of what it needs besides the workspace.
    pub job: String,
    pub attempt: u32,
    /// The name of an executor.
    pub executor: String,
    /// Empty: the executor's own choice.
    pub model: String,
    pub prompt: String,
    /// Where it starts; one of the worktrees.
    pub folder: PathBuf,
    /// Where it may write and commit. Empty for one that only looks.
    pub worktrees: Vec<Worktree>,
    pub variables: Vec<(String, String)>,
    /// Where it reaches the board; `None` where there is no door.
    pub door: Option<DoorKey>,
    pub timeout: Duration,
    pub terminal: Option<TerminalWish>,
}

/// A terminal in which a person sees what the agent prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalWish {
    /// What it is called; a name that tmux takes.
    pub session: String,
    /// Its first line.
    pub title: String,
}

#[derive(Clone, Debug)]
pub struct WorkReport {
    pub end: Worked,
    /// What it printed, with secrets replaced; never empty.
    pub logs: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Worked {
    /// No such executor, no program, no folder.
    NotStarted(String),
    Failed(String),
    /// Its last message.
    Replied(String),
    Stopped,
}

/// What a run prints, for a reader that looks again and again.
pub trait Printout: Send {
    /// What is new since the last time, with secrets replaced.
    fn read(&mut self) -> std::io::Result<String>;

    /// The run is over; what was not read yet still can be.
    fn is_over(&self) -> bool;
}
