//! Runs of agents: jobs that return a patch, and work in the worktree of a task.

pub(crate) mod admit;
pub(crate) mod call;
pub(crate) mod earlier;
pub(crate) mod ending;
pub(crate) mod follow;
pub(crate) mod here;
pub(crate) mod job_look;
pub(crate) mod lines;
pub(crate) mod list;
pub(crate) mod look;
pub(crate) mod notes;
pub(crate) mod patch;
pub(crate) mod queue;
pub(crate) mod runner;
pub(crate) mod start;
pub(crate) mod stop;
pub(crate) mod tell;
pub(crate) mod token;
pub(crate) mod work;
pub(crate) mod work_log;
