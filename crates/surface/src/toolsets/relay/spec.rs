//! A job's spec as clients see it: the published schema. `read.rs` reads and judges a spec, and reports every problem
//! instead of the first.

#![allow(dead_code, reason = "only the schema of these types is used")]

use schemars::JsonSchema;

#[derive(JsonSchema)]
pub(super) struct Submit {
    spec: Spec,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct Spec {
    repo: RepoArgument,
    task: Task,
    scope: Scope,
    context: Option<ContextArgument>,
    /// exactly DIFF, TEST_PLAN, NOTES
    #[schemars(length(min = 3, max = 3))]
    output_contract: Vec<Section>,
    execution: Execution,
    /// the same key finds the same job until a day after its end
    #[schemars(length(min = 1, max = 500))]
    idempotency_key: String,
    notify: Option<Notify>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct RepoArgument {
    r#type: RepoType,
    /// https or ssh; for type git
    url: Option<String>,
    /// for type local
    path: Option<String>,
    #[schemars(length(min = 1, max = 255))]
    base_branch: String,
    /// all 40 characters
    #[schemars(regex(pattern = "^[0-9a-fA-F]{40}$"))]
    baseline_commit: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum RepoType {
    Git,
    Local,
}

#[derive(JsonSchema)]
struct Task {
    #[schemars(length(min = 1, max = 200))]
    title: String,
    #[schemars(length(min = 1, max = 10_000))]
    description: String,
    acceptance: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct Scope {
    /// relative; empty is the whole repository
    read_paths: Vec<String>,
    /// like **/*.ts
    file_globs: Option<Vec<String>>,
    disallow_reformatting: bool,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct ContextArgument {
    dir_tree_digest: Option<String>,
    key_signatures: Option<Vec<String>>,
    code_snippets: Option<Vec<Snippet>>,
}

#[derive(JsonSchema)]
struct Snippet {
    path: String,
    #[schemars(range(min = 1))]
    from: u32,
    to: u32,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "SCREAMING_SNAKE_CASE")]
enum Section {
    Diff,
    TestPlan,
    Notes,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct Execution {
    /// a model's name, or executor:model; any other word takes the default
    preferred_model: String,
    sandbox: Sandbox,
    ask_policy: AskPolicy,
    /// seconds one run may take, 300 if left out
    #[schemars(range(min = 1, max = 86_400))]
    timeout_s: Option<u32>,
    priority: PriorityArgument,
    /// seconds until nobody wants it any more; up to 3600 recommended
    #[schemars(range(min = 1, max = 86_400))]
    ttl_s: u32,
}

#[derive(JsonSchema)]
enum Sandbox {
    #[schemars(rename = "read-only")]
    ReadOnly,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
enum AskPolicy {
    Untrusted,
}

#[derive(JsonSchema)]
enum PriorityArgument {
    P0,
    P1,
    P2,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
struct Notify {
    enable_pr: Option<bool>,
    /// http or https
    webhook: Option<String>,
}
