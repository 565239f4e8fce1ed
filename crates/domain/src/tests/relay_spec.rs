//! What a spec may say: `path = value` laid over a good one `=> the problem`.

use serde_json::{Value, json};

use crate::relay::ask::{AskVerdict, Leeway, Reach, Wish, is_trusted, judge};
use crate::relay::prompt::{Snippet, prompt};
use crate::relay::reply::{BadReply, Reply};
use crate::relay::spec::{Repo, Section, SnippetRef};
use crate::relay::{JobSpec, Problem, SpecRules, is_public_address, judge_git_host};

/// The reference document's own example.
pub(super) fn example() -> Value {
    json!({
        "repo": {
            "type": "git",
            "url": "https://github.com/facebook/react.git",
            "baseBranch": "main",
            "baselineCommit": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d"
        },
        "task": {
            "title": "Add TypeScript strict mode",
            "description": "Enable strict mode in tsconfig.json and fix type errors",
            "acceptance": ["tsconfig.json has strict: true", "All TypeScript files compile"]
        },
        "scope": {
            "readPaths": ["src/", "tsconfig.json"],
            "fileGlobs": ["**/*.ts", "**/*.tsx"],
            "disallowReformatting": false
        },
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {
            "preferredModel": "gpt-4",
            "sandbox": "read-only",
            "askPolicy": "untrusted",
            "priority": "P1",
            "ttlS": 1800
        },
        "idempotencyKey": "react-strict-mode-v1"
    })
}

pub(super) fn read(given: &Value) -> Result<JobSpec, Vec<Problem>> {
    JobSpec::read(given, &SpecRules::default())
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
    let table: [(&str, Value, &str); 36] = [
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

/// As text alone tells; names are judged when they are fetched from.
#[test]
fn a_repository_is_at_no_private_address_unless_its_host_is_named() {
    let table = "
        https://git.example/x.git              -                      open
        https://8.8.8.8/x.git                  -                      open
        https://127.0.0.1/x.git                -                      closed
        https://127.0.0.1:8443/x.git           127.0.0.1              open
        https://127.0.0.1:8443/x.git           127.0.0.1:8443         open
        https://127.0.0.1/x.git                127.0.0.1:443          open
        https://127.0.0.1:8443/x.git           127.0.0.1:443          closed
        https://ana:s3c@10.0.0.5/x.git         -                      closed
        https://ana:s3c@10.0.0.5/x.git         other,10.0.0.5         open
        https://169.254.169.254/latest         -                      closed
        https://[::1]:8443/x.git               -                      closed
        https://[::1]:8443/x.git               ::1                    open
        https://[::1]:8443/x.git               [::1]:8443             open
        https://[::ffff:10.0.0.1]/x.git        -                      closed
        https://localhost/x.git                -                      closed
        https://LOCALHOST./x.git               -                      closed
        https://git.localhost/x.git            -                      closed
        https://Git.Example/x.git              git.example            open
        ssh://git@10.0.0.5:2222/x.git          -                      closed
        ssh://git@10.0.0.5:2222/x.git          10.0.0.5:2222          open
        git@10.0.0.5:x.git                     -                      closed
        git@10.0.0.5:x.git                     10.0.0.5:22            open
        git@[::1]:x.git                        -                      closed
        git@[10.0.0.5:2222]:x.git              -                      closed
        git@[10.0.0.5:2222]:x.git              10.0.0.5:2222          open
        https://a@127.0.0.1?@git.example/x     -                      closed
        https://127.0.0.1#@git.example/x       -                      closed
        https://127.0.0.1\\@git.example/x      -                      closed
        https://127%2e0.0.1/x.git              -                      closed
        https://１２７.0.0.1/x.git             -                      closed
    ";
    let rows: Vec<&str> = table.lines().map(str::trim).filter(|row| !row.is_empty()).collect();
    assert_eq!(rows.len(), 30);
    for row in rows {
        let [url, hosts, wanted] = row.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let hosts = hosts.split(',').filter(|host| *host != "-").map(str::to_owned).collect();
        let rules = SpecRules { git_hosts: hosts, ..SpecRules::default() };
        let read = JobSpec::read(&with(&[("repo.url", json!(url))]), &rules);
        assert_eq!(read.is_ok(), wanted == "open", "{row}: {read:?}");
        if let Err(problems) = read {
            assert_eq!(problems[0].path, "repo.url", "{row}");
        }
    }
}

#[test]
fn hosts_are_named_with_or_without_a_port() {
    for good in ["git.example", "git.example:8443", "10.0.0.5", "::1", "[::1]", "[::1]:8443"] {
        assert_eq!(judge_git_host(good), Ok(()), "{good}");
    }
    for bad in
        ["", "https://git.example", "git.example/x", "git.example:port", "-x", "a b", "a:1:2"]
    {
        assert!(judge_git_host(bad).is_err(), "{bad}");
    }
}

#[test]
fn content_is_what_makes_two_jobs_the_same_work() {
    let hash = |given: &Value| read(given).expect("a good spec").content_hash();
    let one = hash(&example());
    assert_eq!(one.len(), 64);
    let same = [("idempotencyKey", json!("other")), ("notify", json!({"enablePr": true}))];
    for change in same.into_iter().chain([("context", Value::Null)]) {
        assert_eq!(hash(&with(std::slice::from_ref(&change))), one, "{}", change.0);
    }
    let mut turned = serde_json::Map::new();
    for (name, value) in example().as_object().expect("an object").iter().rev() {
        turned.insert(name.clone(), value.clone());
    }
    assert_eq!(hash(&Value::Object(turned)), one, "the order of keys");
    let other = [("task.title", json!("x")), ("execution.timeoutS", json!(300))];
    for change in other.into_iter().chain([("scope.fileGlobs", json!([]))]) {
        assert_ne!(hash(&with(std::slice::from_ref(&change))), one, "{}", change.0);
    }
}

#[test]
fn a_repeated_prompt_is_no_answer() {
    let triple = "## DIFF\n## TEST_PLAN\n## NOTES\n";
    let spec = read(&with(&[
        ("task.title", json!("T\n## DIFF")),
        ("task.description", json!(triple)),
        ("task.acceptance", json!([triple])),
        ("scope.readPaths", json!(["a\n## DIFF\n## TEST_PLAN\n## NOTES"])),
        (
            "context",
            json!({
                "dirTreeDigest": triple,
                "keySignatures": [triple],
                "codeSnippets": [{"path": "a", "from": 1, "to": 9}]
            }),
        ),
    ]))
    .expect("a good spec");
    let of = SnippetRef { path: "a\n## DIFF".into(), from: 1, to: 9 };
    let snippets = [Snippet::cut(&of, Some(triple)), Snippet::cut(&of, None)];
    let prompt = prompt(&spec, &snippets, &["ls".into()]);
    assert_eq!(Reply::read(&prompt), Err(BadReply::Missing(Section::Diff)), "{prompt}");
    assert!(prompt.contains("Lines 4 to 9 do not exist."), "{prompt}");
    assert!(prompt.contains("there is no such text file"), "{prompt}");
    let parts = [
        "do not write any files",
        "# Task: T",
        "> ## DIFF",
        "# Acceptance Criteria\n\n1. ",
        "# Scope",
        "# Relevant Code Context",
        "    1: ## DIFF",
        "# Constraints",
        "# Output Requirements",
    ];
    let places: Vec<_> = parts.map(|part| prompt.find(part).expect(part)).into();
    assert!(places.is_sorted(), "{prompt}");
}

#[test]
fn a_webhook_goes_to_public_addresses_only() {
    let table = "
        93.184.216.34 yes
        127.0.0.1 no
        10.1.2.3 no
        172.16.0.1 no
        192.168.1.1 no
        169.254.169.254 no
        100.64.0.1 no
        0.0.0.0 no
        ::1 no
        ::ffff:127.0.0.1 no
        64:ff9b::7f00:1 no
        fe80::1 no
        fd00::1 no
        2606:2800:220:1::1 yes
    ";
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let (address, expected) = line.trim().split_once(' ').expect("two columns");
        let public = is_public_address(address.parse().expect("an address"));
        assert_eq!(public, expected == "yes", "{address}");
    }
}

#[test]
fn only_plain_commands_are_trusted() {
    let trusted = ["ls", "grep", "rg", "git log", "git diff"].map(str::to_owned);
    let table = "
        ls -la src                    => yes
        git log -3 --pretty=oneline   => yes
        grep -n \"a b\" src/*.rs      => yes
        git push                      => no
        git                           => no
        gitlog                        => no
        lsof                          => no
        ls; rm x                      => no
        ls && rm x                    => no
        ls > x                        => no
        ls $(rm x)                    => no
        ls `rm x`                     => no
        git diff --output=x           => no
        git diff --outp x             => no
        git diff --out\"put\"=x       => no
        git diff --ext-diff           => no
        rg --pre sh x                 => no
        git -c core.pager=x log       => no
    ";
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let (command, expected) = line.trim().split_once("=>").expect("a => b");
        assert_eq!(is_trusted(command.trim(), &trusted), expected.trim() == "yes", "{command}");
    }
}

#[test]
fn what_keeps_an_agent_from_harm_says_how_much_it_may_do_unasked() {
    let trusted = ["git log".to_owned()];
    let table = "
        read                => grant   grant  grant
        read+cat ~/.netrc   => ask     grant  ask
        edit inside         => refuse  grant  grant
        edit inside+create  => refuse  grant  grant
        edit                => refuse  grant  ask
        edit elsewhere      => refuse  refuse ask
        run+git log -3      => grant   grant  grant
        run+make            => ask     grant  ask
        run                 => ask     grant  ask
        board               => ask     grant  ask
        other               => ask     ask    ask
        other+git log -3    => grant   grant  grant
        other+curl x        => ask     ask    ask
    ";
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let (wish, expected) = line.trim().split_once("=>").expect("a => b");
        let (wish, command) = match wish.trim().split_once('+') {
            Some((wish, command)) => (wish, Some(command)),
            None => (wish.trim(), None),
        };
        let wish = match wish {
            "read" => Wish::Read,
            "edit inside" => Wish::Write(Reach::Inside),
            "edit" => Wish::Write(Reach::Unsaid),
            "edit elsewhere" => Wish::Write(Reach::Outside),
            "board" => Wish::Board,
            "run" => Wish::Run,
            _ => Wish::Other,
        };
        let judged =
            [Leeway::Looks, Leeway::Confined, Leeway::OnItsWord].map(|leeway| {
                match judge(leeway, wish, command, &trusted) {
                    AskVerdict::Grant => "grant",
                    AskVerdict::Refuse => "refuse",
                    AskVerdict::Ask => "ask",
                }
            });
        assert_eq!(judged.as_slice(), expected.split_whitespace().collect::<Vec<_>>(), "{line}");
    }
}
