//! A crew: agents, mail and decisions; epics, who gets which task, and merges into an epic.

pub(crate) mod agents;
pub(crate) mod assign;
pub(crate) mod epic;
pub(crate) mod letter_task;
pub(crate) mod merge;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod roster;
pub(crate) mod run;
pub(crate) mod task;
pub(crate) mod threads;
