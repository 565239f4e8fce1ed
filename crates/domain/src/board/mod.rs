//! What the board knows besides tasks: cards, names of branches, plans, projects, settings, daily counts, and the log as an
//! audit. Also what the board says about tasks: why each one waits, its column, and the inbox of a person.

pub mod alike;
pub mod audit;
pub mod branch;
pub mod card;
pub mod column;
pub mod edit;
pub mod feed;
pub mod filter;
pub mod gc;
pub mod inbox;
pub mod outlook;
pub mod plan;
pub mod project;
pub mod recipe;
pub mod settings;
pub mod stats;
pub mod view;
pub mod why;
mod why_brief;
