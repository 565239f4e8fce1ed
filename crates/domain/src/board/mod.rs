//! What the board knows besides tasks: cards, names of branches, plans, projects, settings, and the log as an audit.

pub mod audit;
pub mod branch;
pub mod card;
pub mod plan;
pub mod project;
pub mod settings;
