//! Reads a `JobSpec` from JSON as clients write it: leniently about forms (`fields.rs`), strictly about values. The
//! domain has the limits and the rules of each value; rules that need a disk or a network are the engine's.

use callboard_domain::limits::RETRY_KEY_CHARS_MAX;
use callboard_domain::relay::rules;
use callboard_domain::relay::scope::ScopeRule;
use callboard_domain::relay::spec::{
    AskPolicy, BRANCH_CHARS_MAX, Context, DESCRIPTION_CHARS_MAX, Execution, JobSpec, Notify,
    PATH_CHARS_MAX, Priority, Problem, Repo, SPEC_BYTES_MAX, Sandbox, Scope, Section, SnippetRef,
    SpecRules, TIMEOUT_S_MAX, TITLE_CHARS_MAX, TTL_S_MAX, TaskRequest,
};
use serde_json::Value;

use super::fields::{Fields, ListLimits};

/// The spec, or every problem with it, not only the first.
pub(super) fn job_spec(given: &Value, rules: &SpecRules) -> Result<JobSpec, Vec<Problem>> {
    let mut problems = Vec::new();
    // The size is judged first: reading a huge spec would cost more than it is worth.
    let bytes = match given {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    };
    if bytes > SPEC_BYTES_MAX {
        let problem = format!("must have at most {SPEC_BYTES_MAX} bytes, got {bytes}");
        return Err(vec![Problem { path: "spec".into(), problem }]);
    }
    let spec = whole(given.clone(), rules, &mut problems);
    match spec {
        Some(spec) if problems.is_empty() => Ok(spec),
        _ => Err(problems),
    }
}

/// The whole spec; `None` with at least one problem.
fn whole(given: Value, rules: &SpecRules, problems: &mut Vec<Problem>) -> Option<JobSpec> {
    let known = [
        "repo",
        "task",
        "scope",
        "context",
        "outputContract",
        "execution",
        "idempotencyKey",
        "notify",
    ];
    let mut fields = Fields::open("", given, &known, problems)?;
    // All fields are read before a missing one ends the function, so that every problem is reported.
    let repo = fields.required("repo").and_then(|given| repo(given, rules, fields.problems()));
    let task = fields.required("task").and_then(|given| task(given, fields.problems()));
    let scope = fields.required("scope").and_then(|given| scope(given, fields.problems()));
    let context = fields.take("context").and_then(|given| context(given, fields.problems()));
    let contract = output_contract(&mut fields);
    let execution =
        fields.required("execution").and_then(|given| execution(given, fields.problems()));
    let key = fields.text("idempotencyKey", 1..=RETRY_KEY_CHARS_MAX);
    let key = fields.judged("idempotencyKey", key, rules::idempotency_key);
    let notify = fields.take("notify").and_then(|given| notify(given, rules, fields.problems()));
    Some(JobSpec {
        repo: repo?,
        task: task?,
        scope: scope?,
        context,
        output_contract: contract?,
        execution: execution?,
        idempotency_key: key?,
        notify,
    })
}

/// `url` and `path` may stand together: the type says which one is used.
fn repo(given: Value, rules: &SpecRules, problems: &mut Vec<Problem>) -> Option<Repo> {
    let known = ["type", "url", "path", "baseBranch", "baselineCommit"];
    let mut fields = Fields::open("repo", given, &known, problems)?;
    let kind = fields.word("type", &["git", "local"]);
    let base_branch = fields.text("baseBranch", 1..=BRANCH_CHARS_MAX);
    let base_branch = fields.judged("baseBranch", base_branch, rules::branch);
    let baseline_commit = fields.text("baselineCommit", 1..=usize::MAX);
    let baseline_commit = fields.judged("baselineCommit", baseline_commit, rules::commit);
    // Git prints ids in lower case, and ids are compared as text later.
    let baseline_commit = baseline_commit.map(|commit| commit.to_ascii_lowercase());
    // The rules of the place depend on the type, so a missing type ends here.
    match kind? {
        "git" => {
            // Judged, although unused: a malformed value is reported whichever type was chosen.
            let _unused = fields.text_if_given("path", 1..=PATH_CHARS_MAX);
            let url = fields.text("url", 1..=PATH_CHARS_MAX);
            let url = fields.judged("url", url, |url| rules::git_url(url, rules))?;
            Some(Repo::Git { url, base_branch: base_branch?, baseline_commit: baseline_commit? })
        }
        _ => {
            let _unused = fields.text_if_given("url", 1..=PATH_CHARS_MAX);
            let path = fields.text("path", 1..=PATH_CHARS_MAX);
            let path = fields.judged("path", path, rules::local_path)?;
            Some(Repo::Local { path, base_branch: base_branch?, baseline_commit: baseline_commit? })
        }
    }
}

fn task(given: Value, problems: &mut Vec<Problem>) -> Option<TaskRequest> {
    let known = ["title", "description", "acceptance"];
    let mut fields = Fields::open("task", given, &known, problems)?;
    let title = fields.text("title", 1..=TITLE_CHARS_MAX);
    let description = fields.text("description", 1..=DESCRIPTION_CHARS_MAX);
    let acceptance = fields.required("acceptance");
    let acceptance = fields.texts("acceptance", acceptance, ListLimits { items: 100, chars: 2000 });
    Some(TaskRequest { title: title?, description: description?, acceptance: acceptance? })
}

/// What the agent may look at. Empty paths mean the whole repository.
fn scope(given: Value, problems: &mut Vec<Problem>) -> Option<Scope> {
    let known = ["readPaths", "fileGlobs", "disallowReformatting"];
    let mut fields = Fields::open("scope", given, &known, problems)?;
    let paths = fields.required("readPaths");
    let paths = fields.texts("readPaths", paths, ListLimits { items: 500, chars: PATH_CHARS_MAX });
    let paths = fields.each_judged("readPaths", paths, rules::inner_path);
    let globs = fields.take("fileGlobs");
    let globs = fields.texts("fileGlobs", globs, ListLimits { items: 100, chars: 1000 });
    let globs = fields.each_judged("fileGlobs", globs, ScopeRule::judge_glob);
    let reformatting = fields.flag("disallowReformatting", true);
    let disallow_reformatting = reformatting?;
    Some(Scope { read_paths: paths?, file_globs: globs, disallow_reformatting })
}

/// What the caller already knows of the repository, so that the agent need not search for it.
fn context(given: Value, problems: &mut Vec<Problem>) -> Option<Context> {
    let known = ["dirTreeDigest", "keySignatures", "codeSnippets"];
    let mut fields = Fields::open("context", given, &known, problems)?;
    let dir_tree_digest = fields.text_if_given("dirTreeDigest", 0..=100_000);
    let signatures = fields.take("keySignatures");
    let limits = ListLimits { items: 1000, chars: 100_000 };
    let key_signatures = fields.texts("keySignatures", signatures, limits);
    let snippets = fields.take("codeSnippets");
    let snippets = snippets.and_then(|given| fields.items("codeSnippets", given, 200));
    let code_snippets = snippets.map(|given| {
        let read = given.into_iter().map(|(path, item)| snippet(&path, item, fields.problems()));
        read.collect::<Vec<_>>().into_iter().flatten().collect()
    });
    Some(Context { dir_tree_digest, key_signatures, code_snippets })
}

fn snippet(place: &str, given: Value, problems: &mut Vec<Problem>) -> Option<SnippetRef> {
    let mut fields = Fields::open(place, given, &["path", "from", "to"], problems)?;
    let path = fields.text("path", 1..=PATH_CHARS_MAX);
    let path = fields.judged("path", path, rules::inner_path);
    let from = fields.number("from", 1..=u32::MAX, true);
    // `to` is still judged when `from` is wrong.
    let lowest = from.unwrap_or(1);
    let to = fields.number("to", lowest..=u32::MAX, true);
    Some(SnippetRef { path: path?, from: from?, to: to? })
}

/// The sections of the answer. The reference allows one list, in one order.
fn output_contract(fields: &mut Fields<'_>) -> Option<[Section; 3]> {
    let given = fields.required("outputContract")?;
    let named =
        fields.texts("outputContract", Some(given), ListLimits { items: 100, chars: 100 })?;
    let wanted = Section::ALL.map(Section::as_str);
    let same = named.len() == wanted.len()
        && named.iter().zip(wanted).all(|(given, wanted)| given.eq_ignore_ascii_case(wanted));
    if !same {
        fields.problem("outputContract", r#"must be ["DIFF","TEST_PLAN","NOTES"], in this order"#);
        return None;
    }
    Some(Section::ALL)
}

/// How the job runs: the time of one run, and the time after which the result is not wanted any more.
fn execution(given: Value, problems: &mut Vec<Problem>) -> Option<Execution> {
    let known = ["preferredModel", "sandbox", "askPolicy", "timeoutS", "priority", "ttlS"];
    let mut fields = Fields::open("execution", given, &known, problems)?;
    let preferred_model = fields.text("preferredModel", 1..=200);
    // The reference has one value for each, and both are required.
    let sandbox = fields.word("sandbox", &["read-only"]).map(|_| Sandbox::ReadOnly);
    let ask_policy = fields.word("askPolicy", &["untrusted"]).map(|_| AskPolicy::Untrusted);
    let timeout_s = fields.number("timeoutS", 1..=TIMEOUT_S_MAX, false);
    let priority = fields.word("priority", &Priority::ALL.map(Priority::as_str));
    let priority =
        priority.and_then(|word| Priority::ALL.into_iter().find(|level| level.as_str() == word));
    let ttl_s = fields.number("ttlS", 1..=TTL_S_MAX, true);
    Some(Execution {
        preferred_model: preferred_model?,
        sandbox: sandbox?,
        ask_policy: ask_policy?,
        timeout_s,
        priority: priority?,
        ttl_s: ttl_s?,
    })
}

/// Where the end of the job is told besides the protocol. The address of a webhook is judged before the job is queued.
fn notify(given: Value, rules: &SpecRules, problems: &mut Vec<Problem>) -> Option<Notify> {
    let mut fields = Fields::open("notify", given, &["enablePr", "webhook"], problems)?;
    let enable_pr = fields.flag("enablePr", false);
    let webhook = fields.text_if_given("webhook", 1..=2000);
    let webhook = fields.judged("webhook", webhook, |url| rules::judge_webhook(url, rules));
    Some(Notify { enable_pr, webhook })
}
