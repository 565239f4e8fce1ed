//! Shared parts of tests of jobs for agents: a spec, and the notification of an end.

use std::path::Path;

use serde_json::{Value, json};

use crate::peer::Peer;

/// A job on a local repository, for any agent that serves `fake/model`.
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

/// The next notification of a job's end for this client.
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
