//! The settings for running agents on a machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::LocalRoots;
use crate::environment::Variables;
use crate::executor::Executors;
use crate::recipe::Recipe;
use crate::sandbox::{SandboxMode, SandboxPorts};

#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// The folder `.callboard`, or its substitute; runs live in its `jobs/`.
    pub home: PathBuf,
    /// The base of relative paths of local repositories.
    pub folder: PathBuf,
    pub executors: Executors,
    /// Empty: the first one found.
    pub default_executor: String,
    pub sandbox: SandboxMode,
    /// Ports besides the ones that every run may use.
    pub sandbox_ports: SandboxPorts,
    pub trusted_commands: Vec<String>,
    /// The workspace recipe, which may open linked folders to agents.
    pub recipe: Arc<Recipe>,
    pub artifact_bytes_max: usize,
    pub kill_grace: Duration,
    pub git_schemes: Vec<String>,
    /// Hosts of repositories that may have private addresses and get this user's git credentials.
    pub git_hosts: Vec<String>,
    pub local_roots: LocalRoots,
    /// This program, by which an agent reaches its board.
    pub program: PathBuf,
    /// The arguments with which the program forwards messages to the door at an address, with the token in a file.
    pub server_args: fn(url: &str, token_file: &str) -> Vec<String>,
    /// This process's variables; agents see some of them.
    pub environment: Variables,
}

impl AgentSettings {
    /// The documented defaults, with every built-in executor and this process's environment.
    pub fn new(home: PathBuf, folder: PathBuf) -> Self {
        let trusted = "ls, cat, head, tail, wc, grep, rg, git log, git show, git diff, git status, \
                       git ls-files, git blame";
        Self {
            home,
            folder,
            executors: Executors::new(Vec::new()).unwrap_or_default(),
            default_executor: String::new(),
            sandbox: SandboxMode::Auto,
            sandbox_ports: SandboxPorts::default(),
            trusted_commands: trusted.split(", ").map(str::to_owned).collect(),
            recipe: Arc::default(),
            artifact_bytes_max: 10 * 1024 * 1024,
            kill_grace: Duration::from_secs(10),
            git_schemes: ["https", "ssh"].map(str::to_owned).into(),
            git_hosts: Vec::new(),
            local_roots: LocalRoots::Any,
            program: std::env::current_exe().unwrap_or_else(|_| "callboard".into()),
            server_args: |_, _| Vec::new(),
            environment: std::env::vars_os().collect(),
        }
    }
}
