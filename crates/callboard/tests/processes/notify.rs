//! A job reports its end and opens its pull request: a real server, a real repository, receivers on loopback.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::http::{Server, agent};
use crate::peer::{Peer, board, clean, command};
use crate::relay::{job_spec, next_end};

/// A received request: the path, the other lines of the head, the body.
type Asked = (String, Vec<String>, String);

/// Answers every request by its path.
fn listener(answer: fn(&str) -> (&'static str, String)) -> (String, Receiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, asked) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let mut head: Vec<String> = Vec::new();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap() == 0 || line.trim().is_empty() {
                    break;
                }
                head.push(line.trim().to_owned());
            }
            let length = head.iter().find_map(|line| {
                line.to_lowercase().strip_prefix("content-length: ").map(|n| n.parse().unwrap())
            });
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            let path = head[0].split(' ').nth(1).unwrap().to_owned();
            let (status, text) = answer(&path);
            let _ = write!(
                &stream,
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            );
            let _ = tell.send((path, head, String::from_utf8(body).unwrap()));
        }
    });
    (url, asked)
}

/// A repository with a board beside the work in it, and an agent that changes `a.txt`.
struct Shop {
    board: tempfile::TempDir,
    commit: String,
}

impl Shop {
    fn open() -> Self {
        let board = board();
        let shop = Self { commit: String::new(), board };
        fs::write(shop.at("a.txt"), "one\n").unwrap();
        shop.git(&["init", "-q", "-b", "main"]);
        shop.git(&["add", "a.txt"]);
        shop.git(&["commit", "-q", "-m", "first"]);
        let commit = shop.git(&["rev-parse", "HEAD"]);
        // A person's unfinished work.
        fs::write(shop.at("a.txt"), "stashed\n").unwrap();
        shop.git(&["stash", "-q"]);
        fs::write(shop.at("a.txt"), "dirty\n").unwrap();
        let agent = r"#!/bin/sh
cat > /dev/null
printf '## DIFF\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1,2 @@\n one\n+more\n\n'
printf '## TEST_PLAN\nnone\n\n## NOTES\nnone\n'
";
        fs::create_dir(shop.at("bin")).unwrap();
        let program = shop.at("bin/opencode");
        fs::write(&program, agent).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { commit, ..shop }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.board.path().join(name)
    }

    fn git(&self, arguments: &[&str]) -> String {
        git_in(self.board.path(), arguments)
    }

    /// The state that must not change.
    fn state(&self) -> Vec<String> {
        let asked: [&[&str]; 6] = [
            &["status", "--porcelain"],
            &["symbolic-ref", "HEAD"],
            &["rev-parse", "HEAD"],
            &["stash", "list"],
            &["worktree", "list"],
            &["config", "--list", "--local"],
        ];
        asked.map(|arguments| self.git(arguments)).into()
    }

    fn server(&self, settings: &[(&str, &str)]) -> Peer {
        let mut mcp = command(self.board.path());
        mcp.args(["mcp", "--toolsets", "relay", "--actor", "agent:w"]);
        let path = std::env::var("PATH").unwrap();
        mcp.env("PATH", format!("{}:{path}", self.at("bin").display()));
        mcp.env("CALLBOARD_RELAY_SANDBOX", "executor");
        mcp.env("CALLBOARD_RELAY_WEBHOOK_ALLOW_PRIVATE", "true");
        mcp.env_remove("GITHUB_TOKEN").envs(settings.iter().copied());
        let mut peer = Peer::over(mcp);
        peer.hello();
        peer
    }

    fn submit(&self, peer: &mut Peer, notify: &Value) -> String {
        let mut spec = job_spec(self.board.path(), &self.commit, "k");
        spec["task"]["title"] = "One more".into();
        spec["notify"] = notify.clone();
        let answer = peer.call("jobs_submit", json!({ "spec": spec })).unwrap();
        answer["jobId"].as_str().unwrap().to_owned()
    }

    fn said(&self, arguments: &[&str]) -> Value {
        let Output { stdout, stderr, status } =
            command(self.board.path()).args(arguments).arg("--json").output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        serde_json::from_slice(&stdout).unwrap()
    }
}

fn git_in(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    clean(&mut git, folder);
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "ana");
        git.env(format!("GIT_{role}_EMAIL"), "ana@example.org");
    }
    let done = git.args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

fn status(peer: &mut Peer, job: &str) -> Value {
    peer.call("jobs_get", json!({ "jobId": job })).unwrap()
}

#[test]
fn a_job_opens_its_pull_request_and_tells_of_its_end() {
    let (url, letters) = listener(|_| ("204 No Content", String::new()));
    let shop = Shop::open();
    let before = shop.state();
    let mut server = shop.server(&[]);
    let hook = format!("{url}/s3cret?key=s3cret");
    let job = shop.submit(&mut server, &json!({"enablePr": true, "webhook": hook}));
    let end = next_end(&mut server);
    assert_eq!(end["method"], "notifications/job/finished", "{end}");
    let uri = format!("mcp://jobs/{job}/artifacts/pr.json");
    assert_eq!(end["params"]["artifacts"]["pr"], uri);
    let seen = status(&mut server, &job);
    let pr = json!({"url": "callboard://pr/1", "number": 1, "status": "open"});
    assert_eq!((&seen["pr"], &seen["summary"]), (&pr, &end["params"]["summary"]));

    let branch = format!("callboard/{job}");
    assert_eq!(shop.git(&["show", &format!("{branch}:a.txt")]), "one\nmore");
    assert_eq!(shop.git(&["rev-parse", &format!("{branch}^")]), shop.commit);
    let message = shop.git(&["log", "-1", "--format=%B", &branch]);
    assert_eq!(message, format!("One more\n\nd\n\nCallboard job: {job}"));
    assert_eq!(shop.state(), before);
    let file = server.request("resources/read", json!({ "uri": uri }));
    let file: Value =
        serde_json::from_str(file["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(file["head"], shop.git(&["rev-parse", &branch]));

    let (path, head, body) = letters.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(path, "/s3cret?key=s3cret");
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&told["type"], &told["data"]), (&json!("job.finished"), &end["params"]));
    let header = |name: &str| {
        let line = head.iter().find_map(|line| line.split_once(": ").filter(|(n, _)| *n == name));
        line.unwrap_or_else(|| panic!("{name}: {head:?}")).1.to_owned()
    };
    let secret = shop.said(&["webhook", "secret"])["secret"].as_str().unwrap().to_owned();
    let at = header("webhook-timestamp").parse().unwrap();
    let signed =
        Webhook::new(&secret).unwrap().sign(&header("webhook-id"), at, body.as_bytes()).unwrap();
    assert_eq!(signed, header("webhook-signature"));
    // The delivery is recorded after the answer came.
    let listed = loop {
        let listed = shop.said(&["webhook", "list"])["items"][0].clone();
        if listed["state"] == "delivered" {
            break listed;
        }
    };
    assert_eq!((&listed["to"], &listed["job"]), (&json!(url), &json!(job)));
    assert!(!listed.to_string().contains("s3cret"), "{listed}");
}

#[test]
fn news_of_a_mail_outlives_the_server_it_came_from() {
    let (url, letters) = listener(|_| ("204 No Content", String::new()));
    let board = board();
    let said = |arguments: &[&str]| -> Value {
        let asked = command(board.path()).args(arguments).arg("--json").output().unwrap();
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
        serde_json::from_slice(&asked.stdout).unwrap()
    };
    said(&["agent", "add", "boss", "--type", "SUPERVISOR"]);
    let serve = |more: &[&str]| {
        let mut serve = command(board.path());
        serve.args(["serve", "--listen", "127.0.0.1:0"]).args(more).stderr(Stdio::null());
        serve.env("CALLBOARD_CREW_WEBHOOK", format!("{url}/s3cret"));
        serve.env("CALLBOARD_RELAY_WEBHOOK_ALLOW_PRIVATE", "true");
        Server::over(serve)
    };
    // The server records the delivery, sends nothing, and is killed.
    let writer = serve(&["--no-runner"]);
    let call = json!({
        "agentId": "boss",
        "toolName": "mcp__mail__send",
        "input": {"toHuman": true, "subject": "Which one?", "body": "b0dy"},
    });
    let execute = format!("{}/mcp/execute", writer.url);
    let mut sent = agent().post(execute).send_json(&call).unwrap();
    let sent: Value = sent.body_mut().read_json().unwrap();
    drop(writer);
    let waiting = &said(&["webhook", "list"])["items"][0];
    assert_eq!((&waiting["state"], &waiting["type"]), (&json!("waiting"), &json!("mail.sent")));
    assert_eq!((&waiting["mail"], &waiting["to"]), (&sent["data"]["mailId"], &json!(url)));
    let _sender = serve(&[]);
    let (path, _, body) = letters.recv_timeout(Duration::from_secs(30)).unwrap();
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((path.as_str(), &told["type"]), ("/s3cret", &json!("mail.sent")));
    let data = json!({
        "mailId": sent["data"]["mailId"],
        "toAgentId": null,
        "isForHuman": true,
        "subject": "Which one?",
    });
    assert_eq!(told["data"], data);
    while said(&["webhook", "list"])["items"][0]["state"] != "delivered" {}
    assert!(letters.try_recv().is_err(), "it was told twice");
}

#[test]
fn a_pull_request_is_opened_at_a_forge() {
    fn answer(path: &str) -> (&'static str, String) {
        match path.strip_prefix("/repos/acme/shop/pulls") {
            Some("") => (
                "201 Created",
                r#"{"number": 7, "state": "open", "html_url": "https://github.com/acme/shop/pull/7"}"#
                    .into(),
            ),
            Some(query) if query.starts_with('?') => ("200 OK", "[]".into()),
            _ => ("404 Not Found", "{}".into()),
        }
    }
    let (url, asked) = listener(answer);
    let shop = Shop::open();
    let bare = shop.at("remotes/shop.git");
    let place = bare.display().to_string();
    shop.git(&["clone", "-q", "--bare", ".", &place]);
    shop.git(&["remote", "add", "origin", "https://github.com/acme/shop.git"]);
    let rewrite = format!("url.file://{}/.insteadOf", shop.at("remotes").display());
    shop.git(&["config", &rewrite, "https://github.com/acme/"]);
    let settings = [
        ("CALLBOARD_FORGE_KIND", "github"),
        ("CALLBOARD_FORGE_GITHUB_URL", url.as_str()),
        ("CALLBOARD_RELAY_GIT_SCHEMES", "https,ssh,file"),
        ("GITHUB_TOKEN", "forge-secret"),
    ];
    let mut server = shop.server(&settings);
    let job = shop.submit(&mut server, &json!({"enablePr": true}));
    next_end(&mut server);
    let seen = status(&mut server, &job);
    let page = "https://github.com/acme/shop/pull/7";
    assert_eq!(seen["pr"], json!({"url": page, "number": 7, "status": "open"}), "{seen}");
    let branch = format!("callboard/{job}");
    assert_eq!(git_in(&bare, &["show", &format!("{branch}:a.txt")]), "one\nmore");
    let opened = asked.iter().find(|(path, ..)| path.ends_with("/pulls")).unwrap();
    let opened: Value = serde_json::from_str(&opened.2).unwrap();
    assert_eq!((&opened["head"], &opened["base"]), (&json!(branch), &json!("main")));
    assert_eq!(opened["title"], "One more");
}

#[test]
fn a_forge_that_is_down_is_named_in_the_summary() {
    let shop = Shop::open();
    let bare = shop.at("remotes/shop.git").display().to_string();
    shop.git(&["clone", "-q", "--bare", ".", &bare]);
    shop.git(&["remote", "add", "origin", "https://github.com/acme/shop.git"]);
    let rewrite = format!("url.file://{}/.insteadOf", shop.at("remotes").display());
    shop.git(&["config", &rewrite, "https://github.com/acme/"]);
    let settings = [
        ("CALLBOARD_FORGE_KIND", "github"),
        ("CALLBOARD_FORGE_GITHUB_URL", "http://127.0.0.1:1"),
        ("CALLBOARD_RELAY_GIT_SCHEMES", "https,ssh,file"),
        ("GITHUB_TOKEN", "forge-secret"),
    ];
    let mut server = shop.server(&settings);
    let job = shop.submit(&mut server, &json!({"enablePr": true}));
    assert_eq!(next_end(&mut server)["params"]["state"], "SUCCEEDED");
    let seen = status(&mut server, &job);
    let summary = seen["summary"].as_str().unwrap();
    assert!(summary.contains("; pull request not opened: GitHub: "), "{summary}");
    assert_eq!((&seen["pr"], &seen["artifacts"]["pr"]), (&Value::Null, &Value::Null));
}
