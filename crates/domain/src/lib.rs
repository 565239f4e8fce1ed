//! The rules of Callboard, without a clock, a file, a process or a database.
//!
//! Glossary, used in every layer:
//! - **task**: what is wanted; title, body, status, priority, deps, checks.
//! - **attempt**: one actor's try at one task, with a fencing token and perhaps a lease.
//! - **card**: what the board knows of a task besides: its mode, acceptance criteria, its review.
//! - **check**: a command or an attestation that gates closing.
//! - **agent**: a member of a **crew**; its type says what it may call. It writes **mail** and a log of
//!   **decisions**. An **epic** is a plan that a crew works on.
//! - **contract**: what must be shown before a completed task is done; its **verification**.
//! - **job**: one piece of outside work, durable, leased, retried; a **run** lets an agent do it.
//! - **handle**: what the caller of a long call holds until the answer is there.
//! - **comment**: a remark about a task; a **blocker** keeps the task from being taken.
//! - **label**: a configured status word; its **phase** is what rules look at.
//! - **entry**: one line of a task's visible history; **event**: one row of the log.
//! - **actor**: the one who acts, `human:ana` or `agent:claude-1`.
//! - **knowledge**: what was learned, as entries that a search finds.
//! - **project**: where tasks belong; an actor may have one **open**. A **plan** proposes tasks.
//! - **rights**: what a caller may do; a **token** grants them over HTTP.
//! - **forge**: GitHub or GitLab; a **pull** is a pull request or a merge request there.
//! - **retry key**: a caller's name for one call; a repeat under that key gets the first result.
//! - **refusal**: an expected "no" with a code and a way out.
//!
//! `decide(world, command, now)` answers with a `Change` (rows and events to write) or a `Refusal`. The other
//! crates load the world and carry out the change.

pub mod actor;
pub mod board;
pub mod command;
pub mod crew;
pub mod decide;
pub mod desk;
pub mod event;
pub mod handle;
pub mod hex;
pub mod ids;
pub mod knowledge;
pub mod limits;
pub mod needs;
pub mod page;
pub mod policy;
pub mod pulls;
pub mod refusal;
pub mod relay;
pub mod retry;
pub mod rights;
pub mod runs;
pub mod task;
pub mod time;
pub mod token;
mod words;
pub mod world;

pub use board::{audit, branch, card, plan, project, settings};
pub use pulls::{self as pull, forge};
pub use runs::{delivery, job, run, work};
pub use task::{attempt, block, comment, contract, standing, watch};

pub use decide::decide;

#[cfg(test)]
mod tests;
