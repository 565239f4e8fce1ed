//! What tests of jobs for agents share: a spec, and the end that a client hears of.

use std::path::Path;

use serde_json::{Value, json};

use crate::peer::Peer;

/// A job on a local repository, for whatever agent serves `fake/model`.
pub fn job_spec(repo: &Path, commit: &str, key: &str) -> Value {
    json!({
        "repo": {
            "type": "local",
            "path": repo,
            "baseBranch": "main",
            "baselineCommit": commit,
        },
        "task": {"title": "t", "description": "d", "acceptance": []},
        "scope": {"readPaths": [], "disallowReformatting": false},
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {
            "preferredModel": "fake/model",
            "sandbox": "read-only",
            "askPolicy": "untrusted",
            "priority": "P1",
            "ttlS": 600,
        },
        "idempotencyKey": key,
    })
}

/// The next end of a job that this client hears of.
pub fn next_end(peer: &mut Peer) -> Value {
    let ended = |note: &Value| note["method"].as_str().unwrap_or("").contains("/job/");
    if let Some(at) = peer.notes.iter().position(ended) {
        return peer.notes.remove(at);
    }
    loop {
        let message = peer.receive().expect("the server lives");
        if ended(&message) {
            return message;
        }
    }
}
