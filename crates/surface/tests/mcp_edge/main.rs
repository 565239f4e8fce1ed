//! The protocol edge as a client sees it: lines over a pipe, requests over a socket.
//!
//! The meaning of tools is not tested here. No sleeps: a test waits for its condition.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod actors;
mod bodies;
mod events;
mod http;
mod job_tasks;
mod jobs;
mod lines;
mod office;
mod probe;
mod stdio;
mod tasks;
mod web;
mod world;
