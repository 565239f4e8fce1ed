//! Agents played by shell scripts, on real repositories.

mod acp;
mod bed;
mod branches;
mod choice;
mod confined;
mod endings;
#[cfg(target_os = "linux")]
mod network;
mod replies;
mod repositories;
mod sandbox;
mod verdicts;
mod work;
