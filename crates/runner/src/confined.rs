//! Commands that people wrote for a project, such as checks and the setup of a worktree: which variables they see, and
//! how they are confined in the worktree of an agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::board::recipe::PortBlock;
use callboard_engine::ports::CheckFault;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::check_places::{self, CheckSandbox};
use crate::environment::{self, Variables};
use crate::process::{self, Ended, Output, Program};
use crate::recipe::Recipe;
use crate::sandbox::{Confinement, SandboxPorts};
use crate::tree;

type BoardPort = dyn Fn() -> Option<u16> + Send + Sync;

/// How the commands of a project run on this machine.
#[derive(Clone)]
pub struct ProjectCommands {
    /// Variables that commands see besides the usual ones.
    env: Vec<String>,
    sandbox: CheckSandbox,
    /// Folders that confined commands may write besides the usual ones.
    writable: Vec<String>,
    /// TCP ports that confined commands may connect to besides the usual ones.
    ports: SandboxPorts,
    /// The port on which the board of this project is served now.
    board_port: Arc<BoardPort>,
    recipe: Arc<Recipe>,
}

impl Default for ProjectCommands {
    fn default() -> Self {
        Self {
            env: Vec::new(),
            sandbox: CheckSandbox::default(),
            writable: Vec::new(),
            ports: SandboxPorts::default(),
            board_port: Arc::new(|| None),
            recipe: Arc::default(),
        }
    }
}

/// One command.
pub(crate) struct ProjectCommand<'a> {
    /// The person's own checkout.
    pub(crate) repo: &'a Path,
    /// The working tree: `repo` itself, or a worktree of agents.
    pub(crate) root: &'a Path,
    pub(crate) cwd: PathBuf,
    pub(crate) shell: &'a str,
    pub(crate) cmd: &'a str,
    pub(crate) timeout: Duration,
    pub(crate) log_tail_bytes: usize,
    pub(crate) variables: &'a [(String, String)],
    pub(crate) ports: Option<PortBlock>,
}

/// Why a command did not run.
pub(crate) enum CommandFault {
    /// It cannot be confined, and must be.
    Confinement(CheckFault),
    Shell(std::io::Error),
}

impl ProjectCommands {
    /// Lets commands see these variables too.
    pub fn with_env(mut self, names: Vec<String>) -> Self {
        self.env = names;
        self
    }

    /// Confines commands in agents' worktrees, and lets those commands write these folders too.
    pub fn with_sandbox(mut self, sandbox: CheckSandbox, writable: Vec<String>) -> Self {
        (self.sandbox, self.writable) = (sandbox, writable);
        self
    }

    /// Lets confined commands connect to these ports too, and in no case to the port of the board.
    pub fn with_ports(
        mut self,
        ports: SandboxPorts,
        board_port: impl Fn() -> Option<u16> + Send + Sync + 'static,
    ) -> Self {
        (self.ports, self.board_port) = (ports, Arc::new(board_port));
        self
    }

    /// Lets confined commands write through the links that the recipe opens.
    pub fn with_recipe(mut self, recipe: Arc<Recipe>) -> Self {
        self.recipe = recipe;
        self
    }

    pub(crate) fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Runs a command to its end, and says whether it was confined.
    pub(crate) async fn run(
        &self,
        command: ProjectCommand<'_>,
        cancel: &CancellationToken,
    ) -> Result<(Ended, bool), CommandFault> {
        let mut env = environment::for_check(std::env::vars_os(), &self.env);
        let cell = self.cell(&command, &env).map_err(CommandFault::Confinement)?;
        if let Some(cell) = &cell {
            env = check_places::with_temporary(env, cell.temporary.path());
        }
        env.extend(command.variables.iter().map(|(name, value)| (name.into(), value.into())));
        let program = Program {
            name: command.shell.into(),
            args: vec!["-c".into(), command.cmd.into()],
            cwd: command.cwd,
            env,
            input: Vec::new(),
            timeout: command.timeout,
            output: Output::Merged { bytes_max: command.log_tail_bytes },
            dies_with_us: true,
            leash: None,
            keeps: None,
            confinement: cell.as_ref().map(|cell| cell.confinement.clone()),
        };
        let ended = process::run(program, cancel).await.map_err(CommandFault::Shell)?;
        Ok((ended, cell.is_some()))
    }

    /// The confinement of a command. `None`: the command has this server's rights.
    fn cell(
        &self,
        command: &ProjectCommand<'_>,
        seen: &Variables,
    ) -> Result<Option<CommandCell>, CheckFault> {
        if self.sandbox == CheckSandbox::Off || !tree::is_of_agents(command.repo, command.root) {
            return Ok(None);
        }
        let infrastructure = |why: String| CheckFault::Infrastructure(why);
        let cannot = |error| infrastructure(format!("cannot make a folder for a check: {error}"));
        let temporary = tempfile::Builder::new().prefix("callboard-check-").tempdir();
        let temporary = temporary.map_err(cannot)?;
        let root = command.root.canonicalize().map_err(cannot)?;
        let mut places = check_places::places(&root, temporary.path(), seen, &self.writable);
        places.extend(self.recipe.writable_in(command.repo, &root));
        let ports = self.ports.of_check((self.board_port)()).and(command.ports);
        match (Confinement::new(places, ports), self.sandbox) {
            (Some(confinement), _) => Ok(Some(CommandCell { confinement, temporary })),
            (None, CheckSandbox::On) => Err(infrastructure(
                "this machine cannot confine a check (checks.sandbox = on)".into(),
            )),
            (None, _) => Ok(None),
        }
    }
}

/// The confinement and the temporary folder of a confined command.
struct CommandCell {
    confinement: Confinement,
    temporary: TempDir,
}
