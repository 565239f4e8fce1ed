//! The real binary as people and scripts meet it: forms, exit codes, settings, places, goldens.

mod commands;
mod config;
mod exit_codes;
mod fixture;
mod goldens;
mod places;
mod servers;
mod stores;
