//! Work outside the store: processes, git, the checks that gate closing a task, agents, forges, embedding models, keys of
//! token issuers, boards that other processes serve, and collectors of traces and metrics.
//!
//! `process.rs` is the only place that spawns; all other files describe a `Program` and read how it ended. A program's
//! result is data (`CheckRan`, `CheckFault`), never a panic.
//!
//! Must never live here: SQL, axum, rmcp. The engine knows this crate only through its ports.

mod agent;
mod browser;
mod budget;
mod check_log;
mod check_places;
mod checks;
mod confined;
pub mod embed;
mod environment;
mod executor;
mod forge;
mod git;
mod guarded;
mod head;
mod issuer;
mod live;
mod merge;
mod otlp;
mod pair;
mod placing;
mod printed;
mod probe;
mod process;
mod recipe;
mod remote;
mod run_log;
mod sample;
mod sandbox;
mod scratch;
mod tail;
mod terminal;
mod tmux;
mod tracked;
mod tree;
mod turn;
mod webhook;
mod wire;
mod workspace;
mod worktree;
mod worktree_file;

pub use agent::{AgentSettings, LocalAgents, LocalRoots};
pub use browser::open_in_browser;
pub use check_places::CheckSandbox;
pub use checks::LocalChecks;
pub use confined::ProjectCommands;
pub use executor::{ExecutorKind, ExecutorSettings, Executors, OutputFrom, PromptBy, RawExecutor};
pub use forge::{ForgeClient, ForgeSettings, ForgeSettingsError, ForgeToken};
pub use issuer::{IssuerKeys, JwtIssuer, KeyTimes};
pub use otlp::{Exporting, MetricsText, Telemetry};
pub use pair::LocalPairs;
pub use probe::{ProbeReport, probe, program_on_path};
pub use recipe::Recipe;
pub use remote::{RemoteBoard, RemoteFault, forward};
pub use sample::make_repository;
pub use sandbox::{SandboxHeld, SandboxMode, SandboxPorts};
pub use tmux::tmux_is_installed;
pub use tracked::tracked;
pub use webhook::{Webhooks, judge_secret};
pub use worktree::LocalWorktrees;
