//! Jobs, the runs in which agents do them, and the messages about jobs that ended.

pub mod delivery;
pub mod filter;
pub mod job;
pub mod notes;
pub mod run;
pub mod steps;
pub mod together;
pub mod usage;
pub mod work;
