//! A crew on a real server: both interfaces, tokens, many concurrent agents, a large inbox.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};
use ureq::http::Response;
use ureq::{Agent, Body};

use crate::http::{Server, agent, answer_of, call_at, modern};
use crate::peer::{board, command, repository_of};
use crate::tokens::token;

struct Crew {
    server: Server,
    folder: tempfile::TempDir,
}

impl Crew {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(flags: &[&str]) -> Self {
        let folder = board();
        let mut serve = command(folder.path());
        serve.args(["serve", "--listen", "127.0.0.1:0"]).args(flags);
        serve.stderr(File::create(folder.path().join("log")).unwrap());
        Self { server: Server::over(serve), folder }
    }

    fn add(&self, id: &str, kind: &str) {
        cli(self.folder.path(), &["agent", "add", id, "--type", kind]);
    }

    fn post(&self, agent: &Agent, token: &str, body: &str) -> Response<Body> {
        let request = agent
            .post(format!("{}/mcp/execute", self.server.url))
            .header("Content-Type", "application/json");
        let request = match token {
            "" => request,
            token => request.header("Authorization", format!("Bearer {token}")),
        };
        request.send(body).unwrap()
    }

    fn execute(&self, agent: &Agent, who: &str, tool: &str, input: Value) -> (u16, Value) {
        let body = json!({"agentId": who, "toolName": tool, "input": input});
        status_and_answer(self.post(agent, "", &body.to_string()))
    }

    fn database(&self) -> Connection {
        Connection::open(self.folder.path().join(".callboard/callboard.db")).unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

pub fn cli(folder: &Path, arguments: &[&str]) -> Value {
    let output = command(folder).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn status_and_answer(mut response: Response<Body>) -> (u16, Value) {
    let status = response.status().as_u16();
    (status, response.body_mut().read_json().unwrap())
}

#[test]
fn the_servers_log_says_of_every_mail_to_whom_and_nothing_of_its_body() {
    let crew = Crew::start();
    crew.add("s1", "SUPERVISOR");
    let send = |input| crew.execute(&agent(), "s1", "mcp__mail__send", input);
    let (_, sent) =
        send(json!({"toAgentId": "s1", "subject": "A \"quoted\"\nline", "body": "b0dy"}));
    let id = sent["data"]["mailId"].as_str().unwrap();
    let reply = json!({"originalMailId": id, "body": "b0dy"});
    crew.execute(&agent(), "s1", "mcp__mail__reply", reply);
    send(json!({"toHuman": true, "subject": "For people", "body": "b0dy"}));
    send(json!({"toAgentId": "nobody", "subject": "Lost", "body": "b0dy"}));
    let log = crew.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = lines.iter().map(|line| &line["fields"]);
    let said: Vec<_> = said.filter(|fields| fields["message"] == "mail.sent").collect();
    let facts =
        |fields: &&Value| json!([fields["toAgentId"], fields["isForHuman"], fields["subject"]]);
    assert_eq!(
        said.iter().map(facts).collect::<Vec<_>>(),
        [
            json!(["s1", false, "A \"quoted\"\nline"]),
            json!(["s1", false, "Re: A \"quoted\"\nline"]),
            json!([null, true, "For people"]),
        ]
    );
    assert_eq!(said[0]["mailId"], id);
    assert!(!log.contains("b0dy"), "{log}");
}

#[test]
fn malformed_request_gets_error_envelope() {
    let crew = Crew::start();
    crew.add("w1", "WORKER");
    let url = format!("{}/mcp/execute", crew.server.url);
    let call = r#"{"agentId": "w1", "toolName": "mcp__mail__list_inbox"}"#;
    let got = agent().get(&url).call().unwrap();
    assert_eq!(got.headers()["allow"], "POST");
    let plain = agent().post(&url).header("Content-Type", "text/plain").send(call).unwrap();
    let foreign = agent()
        .post(&url)
        .header("Content-Type", "application/json")
        .header("Origin", "http://evil.example")
        .send(call)
        .unwrap();
    let host = agent()
        .post(&url)
        .header("Content-Type", "application/json")
        .header("Host", "evil.example")
        .send(call)
        .unwrap();
    for (response, status, code) in [
        (got, 405, "INVALID_INPUT"),
        (plain, 415, "INVALID_INPUT"),
        (foreign, 403, "PERMISSION_DENIED"),
        (host, 403, "PERMISSION_DENIED"),
    ] {
        let (got, answer) = status_and_answer(response);
        assert_eq!((got, &answer["error"]["code"]), (status, &code.into()), "{answer}");
        assert_eq!(answer["success"], false);
        assert!(answer["timestamp"].is_string() && answer["error"]["details"].is_object());
    }
    let huge = vec![b' '; 11 * 1024 * 1024];
    let huge = agent().post(&url).header("Content-Type", "application/json").send(&huge[..]);
    let (status, answer) = status_and_answer(huge.unwrap());
    assert_eq!((status, &answer["error"]["code"]), (413, &"INVALID_INPUT".into()));
    let (status, answer) = status_and_answer(crew.post(&agent(), "", call));
    assert_eq!((status, &answer["data"]["count"]), (200, &0.into()), "{answer}");
}

#[test]
fn nobody_acts_as_another_agent() {
    let crew = Crew::start();
    let folder = crew.folder.path();
    crew.add("a", "WORKER");
    crew.add("b", "WORKER");
    let (_, own) = token(folder, &["--actor", "agent:a"]);
    let (_, admin) = token(folder, &["--actor", "human:ana", "--lane", "admin"]);
    let (_, lead) = token(folder, &["--actor", "agent:new", "--as-type", "ORCHESTRATOR"]);
    let (_, untyped) = token(folder, &["--actor", "agent:nobody"]);
    let call = |who: &str| {
        let body = json!({"agentId": who, "toolName": "mcp__agent__get_status"});
        body.to_string()
    };
    for (bearer, who, status, says) in [
        ("", "a", 401, "Missing or invalid token"),
        ("nonsense", "a", 401, "Missing or invalid token"),
        (&own, "b", 403, "Token does not belong to agent 'b'"),
        (&untyped, "nobody", 400, "Agent with ID 'nobody' not found"),
    ] {
        let response = crew.post(&agent(), bearer, &call(who));
        let challenged = response.headers().contains_key("www-authenticate");
        let (got, answer) = status_and_answer(response);
        assert_eq!((got, &answer["error"]["message"]), (status, &says.into()), "{answer}");
        assert_eq!(challenged, status == 401);
    }
    for (bearer, who) in [(&own, "a"), (&admin, "b"), (&admin, "a")] {
        let (status, answer) = status_and_answer(crew.post(&agent(), bearer, &call(who)));
        assert_eq!((status, &answer["data"]["id"]), (200, &who.into()), "{answer}");
    }
    // Over MCP a token's own type registers its agent; this interface registers none.
    let denied = status_and_answer(crew.post(&agent(), &lead, &call("new")));
    assert_eq!((denied.0, &denied.1["error"]["code"]), (400, &"AGENT_NOT_FOUND".into()));
    let over_mcp = |bearer: &str| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        let params = json!({"name": "mcp__agent__get_status", "arguments": {}, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let url = format!("{}/mcp/crew", crew.server.url);
        let request = modern(&agent(), &url, "tools/call")
            .header("Mcp-Name", "mcp__agent__get_status")
            .header("Authorization", format!("Bearer {bearer}"));
        answer_of(&mut request.send_json(&body).unwrap()).unwrap()["result"].clone()
    };
    let made = over_mcp(&lead);
    assert_eq!(made["isError"], false);
    assert_eq!(made["structuredContent"]["data"]["type"], "ORCHESTRATOR");
    let unknown = over_mcp(&untyped);
    assert_eq!(unknown["isError"], false, "an envelope is an answer");
    assert_eq!(unknown["structuredContent"]["error"]["code"], "AGENT_NOT_FOUND");
}

#[test]
fn whom_the_crew_does_not_know_is_what_the_server_says() {
    let crew = Crew::start_with(&["--as-type", "worker"]);
    let url = format!("{}/mcp/crew?actor=agent:new", crew.server.url);
    let status = call_at(&agent(), &url, "mcp__agent__get_status", &json!({}), "");
    assert_eq!(status.unwrap().unwrap()["data"]["type"], "WORKER");
    // A known agent keeps its type, also in its list of tools.
    crew.add("boss", "SUPERVISOR");
    let shown = |who: &str| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        });
        let params = json!({"_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
        let url = format!("{}/mcp/crew?actor=agent:{who}", crew.server.url);
        let answer = modern(&agent(), &url, "tools/list").send_json(&body);
        let answer = answer_of(&mut answer.unwrap()).unwrap();
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown("new").len(), 10);
    let boss = shown("boss");
    assert!(boss.len() == 20 && boss.contains(&"mcp__epic__approve_pr".into()), "{boss:?}");
}

/// A thousand mails in a ring of fifty: each arrives once, and only at its recipient.
#[test]
fn a_thousand_mails_between_fifty_agents_arrive() {
    const AGENTS: usize = 50;
    const EACH: usize = 20;
    const SENDERS: usize = 10;
    let crew = Crew::start();
    let name = |n: usize| format!("w{}", n % AGENTS);
    for n in 0..AGENTS {
        let url = format!("{}/mcp/crew?actor=agent:{}", crew.server.url, name(n));
        let status = call_at(&agent(), &url, "mcp__agent__get_status", &json!({}), "");
        assert_eq!(status.unwrap().unwrap()["success"], true);
    }
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let crew = &crew;
            scope.spawn(move || {
                let http = agent();
                for n in (sender..AGENTS).step_by(SENDERS) {
                    for count in 0..EACH {
                        let to = name(n + 1 + count);
                        let input =
                            json!({"toAgentId": to, "subject": format!("{n} {count}"), "body": to});
                        let (status, answer) =
                            crew.execute(&http, &name(n), "mcp__mail__send", input);
                        assert_eq!(status, 200, "{answer}");
                    }
                }
            });
        }
    });
    let http = agent();
    let mut ids = HashSet::new();
    for n in 0..AGENTS {
        let (_, inbox) = crew.execute(&http, &name(n), "mcp__mail__list_inbox", json!({}));
        let mails = inbox["data"]["mails"].as_array().unwrap();
        assert_eq!(mails.len(), EACH, "{inbox}");
        for mail in mails {
            assert_eq!(mail["body"], name(n), "it was sent to whom it reached");
            assert!(ids.insert(mail["id"].as_str().unwrap().to_owned()));
        }
        let foreign = json!({"mailId": mails[0]["id"]});
        let (status, answer) = crew.execute(&http, &name(n + 1), "mcp__mail__read", foreign);
        assert_eq!((status, &answer["error"]["code"]), (400, &"PERMISSION_DENIED".into()));
    }
    assert_eq!(ids.len(), AGENTS * EACH);
    let sends = "SELECT count(*) FROM decisions WHERE decision LIKE '%mcp__mail__send'";
    let rows: i64 = crew.database().query_row(sends, [], |row| row.get(0)).unwrap();
    assert_eq!(rows as usize, 2 * AGENTS * EACH, "two rows for each call");
}

#[test]
fn an_inbox_of_ten_thousand_is_read_page_by_page() {
    let crew = Crew::start();
    crew.add("w1", "WORKER");
    let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) \
         INSERT INTO mails (id, org, to_agent, subject, body, created_at) \
         SELECT randomblob(16), (SELECT id FROM orgs WHERE name = 'default'), 'w1', 'Note ' || i, \
             printf('%.*c', 300, 'x'), 0 FROM n";
    crew.database().execute(fill, []).unwrap();
    let (http, mut cursor, mut seen, mut pages) = (agent(), Value::Null, HashSet::new(), 0);
    loop {
        let input = json!({"limit": 500, "cursor": cursor});
        let (status, answer) = crew.execute(&http, "w1", "mcp__mail__list_inbox", input);
        assert_eq!(status, 200);
        assert!(answer.to_string().len() < 160 * 1024, "a page of {}", answer.to_string().len());
        assert_eq!(answer["data"]["unreadCount"], 10_000);
        for mail in answer["data"]["mails"].as_array().unwrap() {
            assert!(seen.insert(mail["id"].as_str().unwrap().to_owned()), "each once");
        }
        pages += 1;
        cursor = answer["data"]["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen.len(), 10_000);
    assert!(pages >= 20, "{pages} pages");
}

/// Six concurrent approvals of one pull request: one merges, the others find the task completed.
#[test]
fn of_six_approvals_at_once_one_merges() {
    let crew = Crew::start();
    let folder = crew.folder.path();
    repository_of(folder, "");
    let epic = cli(folder, &["epic", "add", "Login"])["id"].as_str().unwrap().to_owned();
    cli(folder, &["agent", "add", "s1", "--type", "SUPERVISOR", "--epic", &epic]);
    crew.add("w1", "WORKER");
    let task = json!({"title": "Form", "description": "A form."});
    let (_, made) = crew.execute(&agent(), "s1", "mcp__epic__create_task", task);
    let task = made["data"]["taskId"].as_str().unwrap();
    for status in ["IN_PROGRESS", "REVIEW"] {
        if status == "REVIEW" {
            let worktrees = std::fs::read_dir(folder.join(".callboard/worktrees")).unwrap();
            let place = worktrees.map(|entry| entry.unwrap().path()).next().unwrap();
            // Uncommitted files are merged too.
            std::fs::write(place.join("form"), "form").unwrap();
        }
        let input = json!({"status": status});
        let (code, moved) = crew.execute(&agent(), "w1", "mcp__task__update_status", input);
        assert_eq!(code, 200, "{moved}");
    }
    let approve = || {
        let input = json!({"taskId": task});
        crew.execute(&agent(), "s1", "mcp__epic__approve_pr", input).1
    };
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let racing: Vec<_> = (0..6).map(|_| scope.spawn(approve)).collect();
        racing.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let merged = answers.iter().filter(|answer| answer["data"]["merged"] == true).count();
    let late = |answer: &&Value| answer["error"]["code"] == "INVALID_AGENT_STATE";
    let late = answers.iter().filter(late).count();
    assert_eq!((merged, late), (1, 5), "{answers:#?}");
    let count = |name: &str| -> u32 {
        let counted = "SELECT count(*) FROM events WHERE name = ?1";
        crew.database().query_row(counted, [name], |row| row.get(0)).unwrap()
    };
    let events = ["review.merged", "pr.merged", "pr.opened"].map(count);
    assert_eq!(events, [1, 1, 1], "{answers:#?}");
}
