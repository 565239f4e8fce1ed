//! Random input for the real program: calls of every tool over stdio and HTTP on both databases, frames, requests,
//! forms, settings, hooks and imports. The program refuses what it cannot use; it never panics, hangs, answers with an
//! internal error or grows. All choices come from seeds (`seeded.rs` says how to repeat one).

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "tests play the user who starts programs")]

mod arguments;
#[path = "../cli/backlogs.rs"]
mod backlogs;
mod called;
mod calls;
mod config;
mod forms;
mod frames;
mod ground;
mod hook;
#[path = "../processes/http.rs"]
#[allow(dead_code, reason = "the process tests use the rest")]
mod http;
mod import;
mod lanes;
mod memory;
mod parsers;
#[path = "../processes/peer.rs"]
#[allow(dead_code, reason = "the process tests use the rest")]
mod peer;
mod process;
mod request_words;
mod requests;
#[path = "../../../store/tests/it/schema.rs"]
#[allow(dead_code, reason = "the store's own tests use the rest")]
mod schema;
#[path = "../../../store/tests/proof/seeded.rs"]
#[allow(dead_code, reason = "the proofs of the store use the rest")]
mod seeded;
#[path = "../../../store/tests/it/skipped.rs"]
mod skipped;
mod wild;
