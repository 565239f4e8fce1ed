//! The spec of a job, and its limits. The toolset makes a spec from a client's JSON and keeps to the limits.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::hex::hex;
use crate::refusal::Refusal;
use crate::retry::sorted;
use crate::words::words;

pub const SPEC_BYTES_MAX: usize = 1024 * 1024;
pub const TITLE_CHARS_MAX: usize = 200;
pub const DESCRIPTION_CHARS_MAX: usize = 10_000;
pub const BRANCH_CHARS_MAX: usize = 255;
pub const PATH_CHARS_MAX: usize = 4096;
pub const TTL_S_MAX: u32 = 86_400;
pub const TIMEOUT_S_MAX: u32 = 86_400;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    pub repo: Repo,
    pub task: TaskRequest,
    pub scope: Scope,
    pub context: Option<Context>,
    pub output_contract: [Section; 3],
    pub execution: Execution,
    pub idempotency_key: String,
    pub notify: Option<Notify>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Repo {
    Git { url: String, base_branch: String, baseline_commit: String },
    Local { path: String, base_branch: String, baseline_commit: String },
}

impl Repo {
    pub fn base_branch(&self) -> &str {
        match self {
            Repo::Git { base_branch, .. } | Repo::Local { base_branch, .. } => base_branch,
        }
    }

    /// 40 lower-case hex digits.
    pub fn baseline_commit(&self) -> &str {
        match self {
            Repo::Git { baseline_commit, .. } | Repo::Local { baseline_commit, .. } => {
                baseline_commit
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRequest {
    pub title: String,
    pub description: String,
    pub acceptance: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    pub read_paths: Vec<String>,
    pub file_globs: Option<Vec<String>>,
    pub disallow_reformatting: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    pub dir_tree_digest: Option<String>,
    pub key_signatures: Option<Vec<String>>,
    pub code_snippets: Option<Vec<SnippetRef>>,
}

/// Lines of a file at the baseline commit, counted from 1, both ends included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnippetRef {
    pub path: String,
    pub from: u32,
    pub to: u32,
}

words! {
    /// Sections, in the order of an answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
    pub enum Section {
        Diff => "DIFF",
        TestPlan => "TEST_PLAN",
        Notes => "NOTES",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    pub preferred_model: String,
    pub sandbox: Sandbox,
    pub ask_policy: AskPolicy,
    pub timeout_s: Option<u32>,
    pub priority: Priority,
    pub ttl_s: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sandbox {
    #[serde(rename = "read-only")]
    ReadOnly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AskPolicy {
    #[serde(rename = "untrusted")]
    Untrusted,
}

words! {
    /// The priority of a job; P0 goes first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Priority {
        P0 => "P0",
        P1 => "P1",
        P2 => "P2",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notify {
    pub enable_pr: Option<bool>,
    pub webhook: Option<String>,
}

/// What a server allows; servers differ in this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecRules {
    /// The allowed schemes of `repo.url`, in lower case; `git@host:path` counts as ssh.
    pub git_schemes: Vec<String>,
    /// Hosts of `repo.url` that may have a private address, some with a port.
    pub git_hosts: Vec<String>,
    pub webhook_allow_private: bool,
}

impl Default for SpecRules {
    fn default() -> Self {
        let git_schemes = ["https", "ssh"].map(str::to_owned).into();
        Self { git_schemes, git_hosts: Vec::new(), webhook_allow_private: false }
    }
}

/// One thing wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// `repo.url`, `scope.readPaths[0]`; `spec` for the whole spec.
    pub path: String,
    pub problem: String,
}

impl Problem {
    /// Refuses a spec with all of its problems at once, so that a client mends them in one go.
    pub fn judge(problems: Vec<Self>) -> Result<(), Refusal> {
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Refusal::InvalidSpec { problems }),
        }
    }
}

impl JobSpec {
    /// The parts of the content in which two specs differ.
    pub fn differs_in(&self, other: &Self) -> Vec<&'static str> {
        let parts = [
            ("repo", self.repo == other.repo),
            ("task", self.task == other.task),
            ("scope", self.scope == other.scope),
            ("context", self.context == other.context),
            ("execution", self.execution == other.execution),
        ];
        parts.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }

    /// SHA-256 in hex of everything that makes two jobs the same work. Under one idempotency key, an equal hash is
    /// a repeat and another hash a clash.
    pub fn content_hash(&self) -> String {
        let mut whole = serde_json::to_value(self).expect("a spec is made of plain values");
        if let Value::Object(fields) = &mut whole {
            fields.shift_remove("idempotencyKey");
            fields.shift_remove("notify");
        }
        let digest = Sha256::digest(sorted(whole).to_string());
        hex(digest)
    }
}
