//! Jobs for coding agents: what a job asks for, how it is put to an agent, how the answer is read, and whether the
//! result may be kept. The toolset reads a client's JSON and judges each value by `rules`.
//!
//! The runner runs the agents; nothing here knows of processes, files or git.

pub mod ask;
pub mod ending;
pub mod fail;
pub mod patch;
pub mod prompt;
pub mod reply;
pub mod rules;
pub mod scope;
pub mod spec;

pub use fail::{FailReason, RunVerdict};
pub use rules::{GitAddress, is_public_address, judge_git_host, judge_webhook};
pub use spec::{JobSpec, Problem, SpecRules};
