//! Pull requests of tasks and of jobs at a forge.

pub(crate) mod look;
pub(crate) mod merge;
pub(crate) mod open;
pub(crate) mod revoke;
pub(crate) mod track;
