//! One conformance suite for every database, and tests of what only one of them has.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod blocks;
mod cards;
mod checks;
mod columns;
mod conformance;
mod crew;
mod deliveries;
mod deps;
mod epics;
mod fixture;
mod handles;
mod knowledge;
mod leases;
mod limits;
mod locks;
mod numbers;
mod order;
mod org;
mod pages;
mod plan_rows;
mod plans;
mod pooler;
mod postgres;
mod proxy;
mod pulls;
mod retention;
mod retries;
mod review;
mod runs;
mod schema;
mod skipped;
mod spans;
mod sqlite;
mod stats;
mod time;
mod tls;
mod together;
mod transfer;
