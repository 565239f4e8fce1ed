//! Rules of the board: cards, plans, projects, settings and sessions.

pub mod card;
pub mod plan;
pub mod project;
pub mod session;
pub mod settings;
