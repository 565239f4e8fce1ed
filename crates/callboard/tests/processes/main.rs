//! The real program in real processes: races, kills, broken input, full disks. A behaviour that one process can show is
//! a transcript instead.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "tests play the user who starts programs")]

mod agents;
mod board;
mod bounds;
mod calls;
mod crew;
mod crew_outage;
mod crew_story;
mod crew_terminal;
mod disk;
mod doors;
mod events;
mod files;
mod forge;
mod forward;
mod gate;
mod handles;
mod history;
mod history_rules;
mod hostile;
mod http;
mod issuer;
mod job_losses;
mod jobs;
mod kill;
mod leases;
mod links;
mod logs;
mod metrics;
mod notify;
mod office;
mod one_agent;
mod otlp;
mod outage;
mod pages;
mod peer;
mod questions;
mod race;
mod reads;
mod relay;
mod review_comments;
mod rights;
#[path = "../../../store/tests/it/schema.rs"]
#[allow(dead_code, reason = "the store's own tests use the rest")]
mod schema;
mod sessions;
#[path = "../../../store/tests/it/skipped.rs"]
mod skipped;
mod stdin;
mod story;
mod terminal;
mod tokens;
mod unkillable;
mod unplaced;
mod versions;
mod violations;
mod wait_handles;
mod waits;
mod watch;
mod web;
mod web_agents;
mod web_graph;
mod web_jobs;
mod web_knowledge;
mod web_mail;
mod web_plans;
mod web_record;
mod web_review;
mod web_review_forms;
mod web_settings;
mod workspaces;
