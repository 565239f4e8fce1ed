//! The rules of Callboard, without a clock, a file, a process or a database.
//!
//! Glossary. Each word has one meaning in every layer; toolsets translate at their own edge.
//! - **task**: a piece of work with title, body, status, priority, deps and checks. A **plan** or an **epic** is a task
//!   that other tasks belong to.
//! - **attempt**: one actor's try at one task, with a fencing token and perhaps a lease. ("Session" is the word of the
//!   graph toolset, and of a person who works with an agent in one terminal.)
//! - **label**: a configured status word. Its **phase** is the part that rules look at.
//! - **dep**: a task that must be closed first. **open deps** counts those that are not.
//! - **check**: a command or an attestation that gates closing. **contract**: what must be shown before a completed task
//!   is done. Its **verification** is the state of that proof.
//! - **comment**: a remark about a task. A **blocker** is a comment that keeps the task from being taken.
//! - **entry**: one line of a task's visible history. **event**: one row of the log.
//! - **card**: the board's part of a task: its mode, acceptance criteria, review and messages.
//! - **draft**: a reviewer's comment on lines of a task's work that is not sent yet. **round**: a rejection of the task,
//!   with the comments it sent.
//! - **project**: the repositories that tasks belong to. An actor may have one project **open**.
//! - **job**: one piece of durable outside work, leased by a runner and retried. **run**: an agent process that does a
//!   job; its kinds are `patch` (a job that returns a patch), `work` and `review` (on a task's workspace) and `crew`.
//! - **handle**: the id that the caller of a long call holds until the answer is there.
//! - **hook**: a moment in the session of an agent's client at which Callboard is asked. **client**: the program that a
//!   person works with, such as Claude Code.
//! - **agent**: a member of a **crew**. Its type decides which tools it may call. Agents write **mail** and a log of
//!   **decisions**.
//! - **forge**: GitHub or GitLab. **pull**: a pull request or merge request there, or a local one.
//! - **knowledge**: entries that agents learned, found again by search.
//! - **actor**: who acts, `human:ana` or `agent:claude-1`. **rights**: what an actor may do. A **token** grants rights
//!   over HTTP. An **issuer** makes tokens elsewhere, which its keys prove.
//! - **retry key**: a caller's name for one call. A repeat under the key gets the first result (idempotency).
//! - **retention**: how long a store keeps what grows. **floor**: the number from which on the log is whole.
//! - **refusal**: an expected "no" with a code and a way out.
//! - **desk**: rows in memory on which a store decides a command. **needs**: the rows that a command needs.
//! - **request**: what was read at an edge. **response**: what came back over a wire. **outcome**: the subject of a change
//!   after the commit.
//!
//! `decide(world, command, now)` answers with a `Change` (rows and events to write) or a `Refusal`. The
//! desk builds the world from rows and carries the change out on them; stores fetch and keep the rows.

pub mod actor;
pub mod board;
pub mod command;
pub mod crew;
pub mod decide;
pub mod desk;
pub mod event;
pub mod export;
pub mod forge;
pub mod handle;
pub mod hash;
pub mod hex;
pub mod hook;
pub mod ids;
pub mod import;
pub mod issuer;
pub mod knowledge;
pub mod limits;
pub mod needs;
pub mod page;
pub mod policy;
pub mod pulls;
pub mod refusal;
pub mod relay;
pub mod retention;
pub mod retry;
pub mod review;
pub mod rights;
pub mod runs;
pub mod surrogate;
pub mod task;
pub mod text;
pub mod time;
pub mod token;
mod words;
pub mod world;

pub use decide::decide;

#[cfg(test)]
mod tests;
