//! The `callboard` program: reads flags and settings, wires the crates together, prints.
//!
//! No rule lives in this crate. What a command may do is decided in `domain`; a subcommand reads flags, calls
//! verbs of the engine and prints.

mod agent_server;
mod cli;
mod clients;
mod compose;
mod config;
mod door;
mod embedder;
mod holders;
mod hook;
mod identity;
mod limits;
mod logging;
mod output;
mod place;
mod prompts;
mod served;
mod service;
mod trust;

fn main() -> std::process::ExitCode {
    cli::run()
}
