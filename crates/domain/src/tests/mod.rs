//! The rules as tables. `model` is a world in memory that carries out changes.

mod blocks;
mod cards;
mod crew;
mod crew_merges;
mod crew_runs;
mod crew_states;
mod crew_tasks;
mod events;
mod explore;
mod explore_bugs;
mod feed;
mod filters;
mod forge;
mod gates;
mod import;
mod inbox;
mod invariants;
mod knowledge;
mod model;
mod on_review;
mod org;
mod outlook;
mod pulls;
mod refusals;
mod relay_patch;
mod relay_reply;
mod relay_spec;
mod retention;
mod retries;
mod review_comments;
mod rights;
mod rules;
mod runs;
mod standing;
mod states;
mod verify;
mod watch;
mod why;
mod work;
mod workspaces;

use std::path::PathBuf;

/// Compares a generated document with the committed one; `CALLBOARD_BLESS=1` rewrites it.
fn check_document(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("CALLBOARD_BLESS").is_some() {
        std::fs::write(&path, text).expect("docs can be written");
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "docs/{name} is out of date; run the tests with CALLBOARD_BLESS=1");
}
