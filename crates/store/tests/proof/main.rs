//! Proofs: random commands on a disk that loses power or fails, and upgrades of boards that earlier builds made.
//! docs/operate/reliability.md lists the claims.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod compare;
mod desk;
mod disk;
mod heard;
mod image;
mod model;
mod office;
mod power;
mod rows;
#[allow(dead_code, reason = "the conformance suite needs more of it")]
#[path = "../it/schema.rs"]
mod schema;
mod seeded;
#[path = "../it/skipped.rs"]
mod skipped;
mod story;
mod upgrade;
mod upgrade_board;
mod upgrade_cuts;
mod upgrade_kills;
