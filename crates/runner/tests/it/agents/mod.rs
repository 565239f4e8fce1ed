//! Agents played by shell scripts, on real repositories.

mod acp;
mod bed;
mod branches;
mod choice;
mod endings;
mod replies;
mod repositories;
mod sandbox;
mod verdicts;
mod work;
