//! Checks as callers write them, and the results of running them.

use crate::ids::TaskId;
use crate::task::{Check, Verdict};

/// A check as a caller wrote it; `decide` judges it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewCheck {
    pub desc: String,
    pub cmd: Option<String>,
    pub manual: bool,
    pub cwd: Option<String>,
    pub timeout_s: Option<u32>,
}

impl NewCheck {
    /// How much of a command describes the check.
    const DESC_CHARS: usize = 200;

    /// Reads a check as people write one: a shell command, or `manual: TEXT`.
    pub fn of_line(line: &str) -> Self {
        if let Some(desc) = line.trim_start().strip_prefix("manual:") {
            return Self { desc: desc.trim().into(), manual: true, ..Self::default() };
        }
        let first_line = line.trim().lines().next().unwrap_or_default();
        let desc = first_line.chars().take(Self::DESC_CHARS).collect();
        Self { desc, cmd: Some(line.into()), ..Self::default() }
    }
}

/// The results of running checks, and the task as it was when they started.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    pub basis: Basis,
    pub tree: Option<String>,
    pub runs: Vec<(usize, Verdict)>,
}

/// The task as the checks saw it. If this no longer holds, the results may be kept but the move is off.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    pub label: String,
    pub deps: Vec<TaskId>,
    pub checks: Vec<Check>,
}
