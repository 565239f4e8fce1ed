//! What a spec may say: `path = value` laid over a good one `=> the problem`.

use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{JobSpec, Problem, SpecRules};
use serde_json::{Value, json};

use super::read::job_spec;

/// The reference document's own example.
fn example() -> Value {
    let text = include_str!("../../../../domain/src/tests/relay_example.json");
    serde_json::from_str(text).expect("JSON")
}

fn read(given: &Value) -> Result<JobSpec, Vec<Problem>> {
    job_spec(given, &SpecRules::default())
}

/// The example with these changes; `null` removes a field.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut spec = example();
    for (path, value) in changes {
        let mut at = &mut spec;
        for name in path.split('.') {
            at = &mut at[name];
        }
        *at = value.clone();
    }
    spec
}

fn problems(given: &Value) -> String {
    let found = read(given).err().unwrap_or_default();
    let found: Vec<String> =
        found.into_iter().map(|found| format!("{} {}", found.path, found.problem)).collect();
    found.join("; ")
}

#[test]
fn the_reference_example_is_read_and_written_back() {
    let spec = read(&example()).expect("a good spec");
    assert_eq!(spec.repo.baseline_commit(), "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d");
    let written = serde_json::to_value(&spec).expect("plain values");
    assert_eq!(serde_json::from_value::<JobSpec>(written.clone()).expect("as written"), spec);
    assert_eq!(read(&written).expect("our own words"), spec);
}

/// `type` says which of `url` and `path` is used; the other one changes nothing.
#[test]
fn url_and_path_may_stand_together() {
    let mut both = example();
    let git = read(&both).expect("as the reference has it");
    both["repo"]["path"] = json!("/srv/app");
    assert_eq!(read(&both).expect("a path beside the url"), git);
    both["repo"]["type"] = json!("local");
    let local = read(&both).expect("a url beside the path");
    assert!(matches!(&local.repo, Repo::Local { path, .. } if path == "/srv/app"), "{local:?}");
    both["repo"]["url"] = Value::Null;
    let alone = read(&both).expect("the path alone");
    assert_eq!(local.content_hash(), alone.content_hash());
}

#[test]
fn each_rule_names_its_field() {
    let table: [(&str, Value, &str); 37] = [
        ("repo.baselineCommit", json!("7fd1a60b01f91b314f59955a4e4d4e80d8edf11"), "40 hex"),
        ("repo.baselineCommit", json!("gfd1a60b01f91b314f59955a4e4d4e80d8edf11d"), "40 hex"),
        ("repo.url", Value::Null, "is required"),
        ("repo.url", json!("ext::sh -c id"), "spaces"),
        ("repo.url", json!("ext::sh"), "transport program"),
        ("repo.url", json!("--upload-pack=x"), "'-'"),
        ("repo.url", json!("file:///srv/x"), "scheme 'file' is not allowed"),
        ("repo.url", json!("http://host/x"), "scheme 'http' is not allowed"),
        ("repo.url", json!("ssh://-oProxyCommand=x/y"), "host"),
        ("repo.url", json!("/srv/x"), "must be an address such as"),
        ("repo.path", json!(7), "must be a string"),
        ("repo.type", json!("svn"), "one of git, local"),
        ("repo.baseBranch", json!("a..b"), "branch name"),
        ("repo.baseBranch", json!("-x"), "branch name"),
        ("repo.baseBranch", json!("HEAD"), "branch name"),
        ("repo.baseBranch", json!(""), "empty"),
        ("task.title", json!("x".repeat(201)), "at most 200 characters, got 201"),
        ("task.title", json!(""), "empty"),
        ("task.description", json!("x".repeat(10_001)), "at most 10000 characters"),
        ("task.acceptance", Value::Null, "is required"),
        ("scope.readPaths", json!("../x"), "'..'"),
        ("scope.readPaths", json!(["/etc"]), "relative"),
        ("scope.fileGlobs", json!(["src/[a"]), "glob"),
        ("scope.disallowReformatting", json!("perhaps"), "true or false"),
        ("outputContract", json!(["DIFF", "NOTES", "TEST_PLAN"]), "in this order"),
        ("outputContract", Value::Null, "is required"),
        ("execution.sandbox", json!("write"), "one of read-only, got 'write'"),
        ("execution.askPolicy", json!("never"), "one of untrusted"),
        ("execution.priority", json!("P3"), "one of P0, P1, P2"),
        ("execution.ttlS", Value::Null, "is required"),
        ("execution.ttlS", json!(0), "1..86400"),
        ("execution.ttlS", json!(86_401), "1..86400"),
        ("execution.timeoutS", json!(0.5), "1..86400"),
        ("idempotencyKey", json!("k".repeat(501)), "at most 500"),
        ("tasks", json!({}), "is not known; did you mean 'task'?"),
        ("context", json!({"codeSnippets": [{"path": "a", "from": 3, "to": 2}]}), "at least 3"),
        ("notify", json!({"webhook": "http://127.0.0.1/x"}), "loopback"),
    ];
    for (path, value, expected) in table {
        let found = problems(&with(&[(path, value)]));
        assert!(found.starts_with(path), "{path}: {found}");
        assert!(found.contains(expected), "{path}: {found}");
        assert!(!found.contains("; r"), "{path} alone: {found}");
    }
}

#[test]
fn every_problem_is_found_at_once() {
    let found = problems(&with(&[
        ("repo.baselineCommit", json!("abc")),
        ("execution.ttlS", Value::Null),
        ("execution.priority", json!("P9")),
        ("scope.readPaths", json!(["ok", "../a", "../b"])),
    ]));
    let places = ["repo.baselineCommit", "execution.ttlS", "execution.priority"];
    for place in places.into_iter().chain(["scope.readPaths[1]", "scope.readPaths[2]"]) {
        assert!(found.contains(place), "{place} in {found}");
    }
    let local = problems(&with(&[("repo", json!({"type": "local"}))]));
    for place in ["repo.path", "repo.baseBranch", "repo.baselineCommit"] {
        assert!(local.contains(&format!("{place} is required")), "{place} in {local}");
    }
    assert_eq!(problems(&json!(7)), "spec must be an object, got 7");
    let large = problems(&with(&[("task.description", json!("x".repeat(1 << 20)))]));
    assert!(large.starts_with("spec must have at most 1048576 bytes"), "{large}");
}

#[test]
fn limits_themselves_pass_and_other_forms_are_put_up_with() {
    let strict = read(&example()).expect("a good spec");
    let lenient = with(&[
        ("execution.ttlS", json!("1800")),
        ("execution.priority", json!("p1")),
        ("execution.sandbox", json!("READ_ONLY")),
        ("execution.timeoutS", Value::Null),
        ("repo.type", json!("GIT")),
        ("repo.path", Value::Null),
        ("repo.baselineCommit", json!("7FD1A60B01F91B314F59955A4E4D4E80D8EDF11D")),
        ("scope.disallowReformatting", json!("false")),
        ("scope.fileGlobs", json!(r#"["**/*.ts", "**/*.tsx"]"#)),
        ("context", Value::Null),
    ]);
    assert_eq!(read(&lenient).expect("read leniently"), strict);
    assert_eq!(read(&json!(example().to_string())).expect("as text"), strict);
    let one = read(&with(&[("task.acceptance", json!("a, b"))])).expect("one criterion");
    assert_eq!(one.task.acceptance, ["a, b"]);
    let edge = with(&[
        ("task.title", json!("\u{e9}".repeat(200))),
        ("task.description", json!("x".repeat(10_000))),
        ("task.acceptance", json!([])),
        ("scope.readPaths", json!([])),
        ("repo.url", json!("git@github.com:acme/shop.git")),
        ("notify", json!({"enablePr": true, "webhook": "https://hooks.example/x"})),
    ]);
    assert_eq!(problems(&edge), "");
}

/// For each limit the last value that passes, and the first that does not.
#[test]
fn every_limit_has_two_sides() {
    let text = |chars: usize| json!("x".repeat(chars));
    let list = |items: usize, item: Value| Value::Array(vec![item; items]);
    let context = |name: &str, value: Value| json!({ name: value });
    let snippet = |from: i64, to: i64| json!([{"path": "a", "from": from, "to": to}]);
    let table: [(&str, Value, Value, &str); 22] = [
        ("repo.baseBranch", text(255), text(256), "at most 255 characters"),
        ("task.title", text(200), text(201), "at most 200 characters"),
        ("task.title", text(1), text(0), "empty"),
        ("task.description", text(10_000), text(10_001), "at most 10000 characters"),
        ("task.description", text(1), text(0), "empty"),
        ("task.acceptance", list(100, text(2000)), list(101, text(1)), "at most 100 entries"),
        ("task.acceptance", json!([]), list(1, text(2001)), "[0] must have at most 2000"),
        ("scope.readPaths", list(500, json!("a")), list(501, json!("a")), "at most 500 entries"),
        ("scope.readPaths", json!(["."]), json!(["a/../b"]), "'..'"),
        ("scope.fileGlobs", list(100, json!("**/*.rs")), list(101, json!("*")), "at most 100"),
        ("execution.preferredModel", text(200), text(201), "at most 200 characters"),
        ("execution.preferredModel", text(1), text(0), "empty"),
        ("execution.timeoutS", json!(1), json!(0), "1..86400"),
        ("execution.timeoutS", json!(86_400), json!(86_401), "1..86400"),
        ("execution.ttlS", json!(1), json!(0), "1..86400"),
        ("execution.ttlS", json!(86_400), json!(86_401), "1..86400"),
        ("idempotencyKey", text(500), text(501), "at most 500 characters"),
        ("idempotencyKey", text(1), text(0), "empty"),
        (
            "context",
            context("dirTreeDigest", text(100_000)),
            context("dirTreeDigest", text(100_001)),
            "dirTreeDigest must have at most 100000",
        ),
        (
            "context",
            context("keySignatures", list(1000, text(1))),
            context("keySignatures", list(1001, text(1))),
            "keySignatures must have at most 1000 entries",
        ),
        (
            "context",
            context("codeSnippets", list(200, snippet(1, 1)[0].clone())),
            context("codeSnippets", list(201, snippet(1, 1)[0].clone())),
            "codeSnippets must have at most 200 entries",
        ),
        (
            "context",
            context("codeSnippets", snippet(1, 1)),
            context("codeSnippets", snippet(0, 1)),
            "codeSnippets[0].from must be a whole number of at least 1",
        ),
    ];
    for (path, last, first, expected) in table {
        assert_eq!(problems(&with(&[(path, last)])), "", "{path} {expected}");
        let found = problems(&with(&[(path, first)]));
        assert!(found.starts_with(path) && found.contains(expected), "{path}: {found}");
    }
}

#[test]
fn what_is_required_is_missed_by_name() {
    let required = "
        repo repo.type repo.baseBranch repo.baselineCommit
        task task.title task.description task.acceptance
        scope scope.readPaths scope.disallowReformatting
        outputContract
        execution execution.preferredModel execution.sandbox execution.askPolicy
        execution.priority execution.ttlS
        idempotencyKey
    ";
    for path in required.split_whitespace() {
        let found = problems(&with(&[(path, Value::Null)]));
        assert_eq!(found, format!("{path} is required"));
    }
    let unknown = [
        ("repo.branch", "repo.branch is not known"),
        ("task.tittle", "did you mean 'title'?"),
        ("scope.read_paths", "did you mean 'readPaths'?"),
        ("execution.ttl", "did you mean 'ttlS'?"),
    ];
    for (path, expected) in unknown {
        let found = problems(&with(&[(path, json!("x"))]));
        assert!(found.contains(expected), "{path}: {found}");
    }
    let paths = ["a", "a/b", "./a", "", "a..b"];
    assert_eq!(problems(&with(&[("scope.readPaths", json!(paths))])), "");
    for path in ["../x", "a/..", "/etc", "C:\\x", "\\\\host", "a\\..\\b"] {
        let snippets = json!({"codeSnippets": [{"path": path, "from": 1, "to": 1}]});
        for (place, value) in [("scope.readPaths", json!([path])), ("context", snippets)] {
            let found = problems(&with(&[(place, value)]));
            assert!(found.starts_with(place), "{path} in {place}: {found}");
        }
    }
    for url in ["ftp://host/x", "https://", "//host/x", "https://10.0.0.1/x", "http://[::1]/"] {
        let found = problems(&with(&[("notify", json!({ "webhook": url }))]));
        assert!(found.starts_with("notify.webhook must"), "{url}: {found}");
    }
}
