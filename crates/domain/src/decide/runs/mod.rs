//! Rules of jobs, and of the runs in which agents do them.

pub mod delivery;
pub mod job;
pub mod output;
pub mod run;
pub mod start;
pub mod stop;
pub mod stop_job;
pub mod work;
