//! A pull request decides whether a task is done: the real server asks a fake forge on loopback that answers as GitHub
//! and GitLab do.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{Server, agent, call};
use crate::peer::{board, command};

/// Answers one request per connection, by path; an unknown path is 404.
fn forge(answers: &'static [(&'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let path = lines.next().unwrap_or_default();
            let path = path.split_whitespace().nth(1).unwrap_or_default().to_owned();
            let rest: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let known = rest.iter().any(|line| line.ends_with("Bearer forge-secret"));
            let found = answers.iter().find(|(known, _)| *known == path).filter(|_| known);
            let (status, body) = match found {
                Some((_, body)) => ("200 OK", *body),
                None => ("404 Not Found", r#"{"message": "Not Found"}"#),
            };
            let _ = write!(
                &stream,
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    url
}

const MERGED: &str = r#"{"number": 7, "state": "closed", "merged": true, "draft": false,
    "html_url": "https://github.com/acme/shop/pull/7", "title": "Add a flag",
    "user": {"login": "ada"}, "base": {"ref": "main", "sha": "a"},
    "head": {"ref": "flag", "sha": "b"}, "changed_files": 1}"#;
const CLOSED: &str = r#"{"number": 8, "state": "closed", "merged": false, "draft": false,
    "html_url": "https://github.com/acme/shop/pull/8", "title": "Add a flag",
    "user": {"login": "ada"}, "base": {"ref": "main", "sha": "a"},
    "head": {"ref": "flag", "sha": "b"}, "changed_files": 1}"#;

#[test]
fn a_merged_pull_request_closes_its_task() {
    let forge =
        forge(&[("/repos/acme/shop/pulls/7", MERGED), ("/repos/acme/shop/pulls/8", CLOSED)]);
    let board = board();
    let mut serve = command(board.path());
    serve.args(["serve", "--listen", "127.0.0.1:0"]).stderr(Stdio::null());
    serve.env("CALLBOARD_MCP_TOOLSETS", "all").env("CALLBOARD_FORGE_GITHUB_URL", forge);
    serve.env("GITHUB_TOKEN", "forge-secret").env_remove("GITLAB_TOKEN");
    let server = Server::over(serve);
    let ask = |tool: &str, arguments: Value| {
        call(&agent(), &server.url, "agent:ada", tool, &arguments, "").unwrap().unwrap()
    };
    let complete = |contract: Value, output: &str| {
        let task = json!({"title": "A flag", "verificationContract": contract});
        let task = ask("add_task", task)["taskId"].clone();
        ask("claim_task", json!({"taskId": task}));
        let done = ask("complete_task", json!({"taskId": task, "output": output}));
        assert_eq!(
            (&done["state"], &done["verificationEtaSec"]),
            (&json!("needs_review"), &json!(60))
        );
        task
    };
    let settled = |task: &Value, did: &str| {
        let start = Instant::now();
        loop {
            let seen = ask("get", json!({"id": task}));
            let last = seen["provenance"].as_array().unwrap().last().unwrap().clone();
            if last["did"] == did {
                return (seen["status"].clone(), last["text"].clone());
            }
            assert!(start.elapsed() < Duration::from_secs(20), "not {did}: {last}");
        }
    };
    let pull = json!({"kind": "github_pr", "branch": "main"});
    let merged = complete(pull.clone(), "see https://github.com/acme/shop/pull/7/files");
    assert_eq!(settled(&merged, "verified").0, "done");
    for (output, reason) in [
        ("see https://github.com/acme/shop/pull/8", "verification.pr_not_merged"),
        ("see https://github.com/acme/shop/pull/9", "verification.bad_external_ref"),
        ("nothing to see", "verification.missing_external_ref"),
    ] {
        let task = complete(pull.clone(), output);
        let settled = settled(&task, "verification failed");
        assert_eq!(settled, (json!("in_review"), json!(reason)), "{output}");
    }
    let other = complete(json!({"kind": "gitlab_mr", "externalRef": "acme/shop!1"}), "done");
    let (_, reason) = settled(&other, "verification failed");
    assert_eq!(reason, "verification.forge_unconfigured");
}

const GITHUB_ISSUES: &str = r##"[
    {"number": 3, "title": "A pull request", "body": null, "state": "open", "labels": [], "pull_request": {"url": "x"}},
    {"number": 2, "title": "Add logout", "body": "Blocked by #1.\n- [ ] tests pass", "state": "open",
     "labels": [{"name": "priority: high"}], "issue_dependencies_summary": {"blocked_by": 0, "total_blocked_by": 0}},
    {"number": 4, "title": "Add a map", "body": "Blocked by #2.", "state": "open", "labels": [],
     "issue_dependencies_summary": {"blocked_by": 1, "total_blocked_by": 2}, "parent_issue_url": "https://api.github.com/repos/acme/shop/issues/2"},
    {"number": 1, "title": "Add login", "body": null, "state": "open", "labels": [], "state_reason": null}]"##;
/// The forge's own links count more than words, and may lead to another repository.
const GITHUB_BLOCKERS: &str = r##"[
    {"number": 1, "title": "Add login", "state": "open", "repository_url": "https://api.github.com/repos/acme/shop"},
    {"number": 9, "title": "Tiles", "state": "open", "repository_url": "https://api.github.com/repos/acme/maps"}]"##;
const GITLAB_LINKS: &str = r##"[
    {"iid": 7, "project_id": 3, "title": "Add a filter", "link_type": "blocks", "issue_link_id": 1},
    {"iid": 8, "project_id": 3, "title": "Unlike", "link_type": "relates_to", "issue_link_id": 2},
    {"iid": 4, "project_id": 99, "title": "Elsewhere", "link_type": "is_blocked_by", "issue_link_id": 3}]"##;
const GITLAB_ISSUES: &str = r##"[{"iid": 4, "title": "Add search", "description": "Depends on #5", "state": "opened",
    "labels": ["now"], "project_id": 3, "blocking_issues_count": 1},
    {"iid": 7, "title": "Add a filter", "description": "Depends on #5", "state": "opened", "labels": [],
     "project_id": 3, "blocking_issues_count": 0}, {"iid": 5, "title": "Old", "description": null, "state": "closed", "labels": []}]"##;

#[test]
fn issues_of_github_and_gitlab_come_once() {
    let forge = forge(&[
        ("/repos/acme/shop/issues?state=all&per_page=100&page=1", GITHUB_ISSUES),
        ("/repos/acme/shop/issues/4/dependencies/blocked_by?per_page=100&page=1", GITHUB_BLOCKERS),
        ("/projects/acme%2Fweb%2Fshop/issues?scope=all&per_page=100&page=1", GITLAB_ISSUES),
        ("/projects/acme%2Fweb%2Fshop/issues/4/links?per_page=100&page=1", GITLAB_LINKS),
    ]);
    let board = board();
    let import = |arguments: &[&str], token: &str| {
        let mut import = command(board.path());
        import.arg("import").args(arguments).args(["--yes", "--json"]);
        import.env("CALLBOARD_FORGE_GITHUB_URL", &forge).env("CALLBOARD_FORGE_GITLAB_URL", &forge);
        import.env("GITHUB_TOKEN", token).env("GITLAB_TOKEN", token);
        import.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
        import.output().unwrap()
    };
    let made = |arguments: &[&str]| -> Value {
        let ended = import(arguments, "forge-secret");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        serde_json::from_slice(&ended.stdout).unwrap()
    };
    for (arguments, count) in
        [(["acme/shop", "--from", "github"], 3), (["acme/web/shop", "--from", "gitlab"], 2)]
    {
        let first = made(&arguments);
        assert_eq!(first["made"].as_array().map(Vec::len), Some(count), "{first}");
        let again = made(&arguments);
        assert_eq!((&again["made"], &again["known"]), (&json!([]), &json!(count)));
        if count == 2 {
            assert_eq!(first["lost"], json!([]));
            assert_eq!(first["new"][1]["reference"], "gitlab:acme/web/shop#7");
            assert_eq!(first["new"][1]["deps"], json!(["gitlab:acme/web/shop#4"]));
        } else {
            let map = &first["new"][2];
            assert_eq!(
                (&map["title"], &map["deps"]),
                (&json!("Add a map"), &json!(["github:acme/shop#1"]),)
            );
            assert_eq!(map["parent"], "github:acme/shop#2");
            assert_eq!(first["lost"][0]["to"], "github:acme/maps#9");
            let logout = &first["new"][1];
            assert_eq!(logout["reference"], "github:acme/shop#2");
            assert_eq!(logout["deps"], json!(["github:acme/shop#1"]));
            assert_eq!(
                (&logout["priority"], &logout["criteria"]),
                (&json!(100), &json!(["tests pass"]))
            );
        }
    }
    for (source, token, words) in [
        ("acme/shop", "wrong", "the token may not see the issues of acme/shop"),
        ("acme/shop", "", "set GITHUB_TOKEN"),
        ("../../user", "forge-secret", "is no repository at"),
    ] {
        let ended = import(&[source, "--from", "github"], token);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains(words), "{source}: {said}");
    }
}
