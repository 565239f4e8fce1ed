//! The real binary as people and scripts use it: forms, exit codes, settings, places, goldens.

mod backlogs;
mod blocks;
mod clients;
mod commands;
mod completion;
mod config;
mod crew;
mod demo;
mod envelopes;
mod escapes;
mod exit_codes;
mod first_steps;
mod fixture;
mod goldens;
mod hooks;
mod import;
mod killed_merge;
mod knowledge;
mod migrate;
mod notices;
mod places;
mod plan;
mod pulls;
mod reading;
mod rebase;
mod review;
mod review_work;
#[path = "../../../store/tests/it/schema.rs"]
#[allow(dead_code, reason = "the store's own tests ask more of it")]
mod schema;
mod servers;
mod serving;
mod shells;
#[path = "../../../store/tests/it/skipped.rs"]
mod skipped;
mod stale_checks;
mod start_pages;
mod stores;
mod terminal;
mod time;
mod tokens;
mod trust;
mod workspaces;
