//! The runner against real processes and a real git. No mocks; a test that expects a process to die polls until it has,
//! with a deadline.

#![allow(clippy::disallowed_methods, reason = "the tests call git themselves, to compare")]

mod agents;
mod checks;
mod embed;
mod fixture;
mod forge;
mod head;
mod issuer;
mod processes;
mod pulls;
#[path = "../../../store/tests/it/skipped.rs"]
mod skipped;
mod tree;
mod webhooks;
mod workspaces;
mod worktrees;
