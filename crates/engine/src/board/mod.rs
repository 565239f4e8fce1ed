//! The board of an org: cards and their columns, plans, projects, settings, sessions and worktrees.

pub(crate) mod audit;
pub(crate) mod card;
pub(crate) mod card_wait;
pub(crate) mod columns;
pub(crate) mod feed;
pub(crate) mod gc;
pub(crate) mod import;
pub(crate) mod inbox;
pub(crate) mod overview;
pub(crate) mod plan;
pub(crate) mod project;
pub(crate) mod repository;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod workspace;
