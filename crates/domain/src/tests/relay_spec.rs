//! What makes two specs the same work, which addresses a spec may name, how a job is put to an agent, and what the agent
//! may do unasked.

use serde_json::{Value, json};

use crate::relay::ask::{AskVerdict, Leeway, Reach, ToolRequest, is_trusted, judge};
use crate::relay::prompt::{Snippet, prompt};
use crate::relay::reply::{BadReply, Reply};
use crate::relay::spec::{Section, SnippetRef};
use crate::relay::{JobSpec, SpecRules, is_public_address, judge_git_host, rules};

/// The reference document's own example.
pub(super) fn example() -> Value {
    serde_json::from_str(include_str!("relay_example.json")).expect("JSON")
}

fn read(given: &Value) -> JobSpec {
    serde_json::from_value(given.clone()).expect("a good spec")
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
        let judged = rules::git_url(url, &rules);
        assert_eq!(judged.is_ok(), wanted == "open", "{row}: {judged:?}");
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
    let hash = |given: &Value| read(given).content_hash();
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
    ]));
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
            "read" => ToolRequest::Read,
            "edit inside" => ToolRequest::Write(Reach::Inside),
            "edit" => ToolRequest::Write(Reach::Unsaid),
            "edit elsewhere" => ToolRequest::Write(Reach::Outside),
            "board" => ToolRequest::Board,
            "run" => ToolRequest::Run,
            _ => ToolRequest::Other,
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
