//! Jobs, the runs in which agents do them, and the messages about jobs that ended.

pub mod delivery;
pub mod job;
pub mod run;
pub mod steps;
pub mod usage;
pub mod work;
