//! A crew whose PostgreSQL refuses a write, or goes away during calls: the call is retried, answers TRANSIENT_ERROR
//! when that does not help, and is reported once the store is back.

use std::fs::File;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_postgres::NoTls;

use crate::crew::{cli, status_and_answer};
use crate::http::{Server, agent};
use crate::outage::Database;
use crate::peer::{Peer, board, command};

const SETTINGS: &str = "[crew]\nretry_delay_ms = 10\n\n[execution]\nsweep_interval_sec = 1\n";
const PATIENCE: Duration = Duration::from_secs(60);
const CRITICAL: &str = "⚠️ CRITICAL: Tool Failure - mcp__mail__send";

struct Crew {
    database: Database,
    server: Server,
    folder: tempfile::TempDir,
}

impl Crew {
    fn start(database: Database) -> Self {
        let folder = board();
        let config = folder.path().join(".callboard/config.local.toml");
        std::fs::write(config, SETTINGS).unwrap();
        let mut serve = command(folder.path());
        serve.args(["--store", &database.url, "serve", "--listen", "127.0.0.1:0"]);
        serve.stderr(File::create(folder.path().join("log")).unwrap());
        let server = Server::over(serve);
        let crew = Self { database, server, folder };
        crew.cli(&["agent", "add", "w1", "--type", "WORKER"]);
        crew
    }

    fn cli(&self, arguments: &[&str]) -> Value {
        let all = [&["--store", self.database.url.as_str()], arguments].concat();
        cli(self.folder.path(), &all)
    }

    /// Sends mail to people as this agent.
    fn send(&self, who: &str) -> (u16, Value) {
        let input = json!({"toHuman": true, "subject": "Help", "body": "x"});
        let body = json!({"agentId": who, "toolName": "mcp__mail__send", "input": input});
        let request = agent()
            .post(format!("{}/mcp/execute", self.server.url))
            .header("Content-Type", "application/json");
        status_and_answer(request.send(body.to_string()).unwrap())
    }

    /// Mail to people, the oldest first.
    fn mails(&self) -> Vec<Value> {
        let mut mails = self.cli(&["mail", "list"])["items"].as_array().unwrap().clone();
        mails.reverse();
        mails
    }

    /// Runs SQL directly on the database.
    fn sql(&self, sql: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (db, line) = tokio_postgres::connect(&self.database.url, NoTls).await.unwrap();
            let line = tokio::spawn(line);
            db.batch_execute(sql).await.unwrap();
            drop(db);
            line.await.unwrap().unwrap();
        });
    }

    /// Makes PostgreSQL report a full disk this many times when an agent sends mail.
    fn refuses(&self, times: u32) {
        self.sql(&format!(
            "CREATE SEQUENCE IF NOT EXISTS tries; ALTER SEQUENCE tries RESTART;
             CREATE OR REPLACE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF NEW.subject = 'Help' AND nextval('tries') <= {times} THEN
                     RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END IF;
                 RETURN NEW; END $$;
             CREATE OR REPLACE TRIGGER refuses BEFORE INSERT ON mails
                 FOR EACH ROW EXECUTE FUNCTION refuses()"
        ));
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

fn subjects(mails: &[Value]) -> Vec<&str> {
    mails.iter().map(|mail| mail["subject"].as_str().unwrap()).collect()
}

#[test]
fn transient_failure_is_retried_and_reported() {
    let Some(database) = Database::start("crew") else { return };
    let crew = Crew::start(database);

    crew.refuses(1000);
    let (status, answer) = crew.send("w1");
    assert_eq!((status, &answer["error"]["code"]), (400, &"TRANSIENT_ERROR".into()), "{answer}");
    assert_eq!(
        answer["error"]["details"],
        json!({"attempts": 4, "hint": "make the same call again later"})
    );
    assert_eq!(crew.log().matches("a call is tried again").count(), 3);
    let mails = crew.mails();
    assert_eq!(subjects(&mails), [CRITICAL]);
    let body = mails[0]["body"].as_str().unwrap();
    for said in ["TRANSIENT_ERROR", "no room", "w1 (WORKER)", "Current task: none"] {
        assert!(body.contains(said), "{said} is not in {body}");
    }
    let rows = crew.cli(&["decisions", "--agent", "w1"]);
    let rows: Vec<_> =
        rows["items"].as_array().unwrap().iter().map(|row| &row["decision"]).collect();
    assert_eq!(rows, ["Tool error: mcp__mail__send", "Invoked tool: mcp__mail__send"]);

    crew.refuses(2);
    let (status, answer) = crew.send("w1");
    assert_eq!((status, &answer["success"]), (200, &true.into()), "{answer}");
    assert_eq!(subjects(&crew.mails()), [CRITICAL, "Help"], "one mail of three tries");

    goes_away(&crew);
}

/// Nothing can be read or written, so not even the caller can be identified.
fn goes_away(crew: &Crew) {
    let before = crew.mails().len();
    let mut mcp = command(crew.folder.path());
    mcp.args(["--store", &crew.database.url, "mcp", "--toolsets", "crew", "--actor", "agent:w1"]);
    let mut worker = Peer::over(mcp);
    worker.hello();
    crew.database.kill();
    for who in ["w1", "w1", "nobody"] {
        let (status, answer) = crew.send(who);
        let error = &answer["error"];
        assert_eq!((status, &error["code"]), (400, &"TRANSIENT_ERROR".into()), "{answer}");
        assert_eq!(
            error["details"],
            json!({"attempts": 4, "hint": "make the same call again later"}),
            "{answer}"
        );
    }
    let inbox = worker.call("mcp__mail__list_inbox", json!({})).unwrap();
    assert_eq!(inbox["error"]["code"], "TRANSIENT_ERROR", "{inbox}");
    assert_eq!(
        inbox["error"]["details"],
        json!({"attempts": 4, "hint": "make the same call again later"}),
        "{inbox}"
    );
    assert!(crew.log().contains("the mail about a failure waits until the store is back"));
    crew.database.come_back();
    // A failure is reported once per agent and tool; calls from outside the crew are not reported.
    let begun = Instant::now();
    let mails = loop {
        let mails = crew.mails();
        if mails.len() >= before + 2 {
            break mails;
        }
        assert!(begun.elapsed() < PATIENCE, "{mails:?}\n{}", crew.log());
    };
    let late = &mails[before..];
    let mut told = subjects(late);
    told.sort_unstable();
    assert_eq!(told, ["Tool Failure: mcp__mail__list_inbox", CRITICAL]);
    for mail in late {
        let body = mail["body"].as_str().unwrap();
        assert!(
            body.contains("Error: TRANSIENT_ERROR: ") && body.contains("Failed at: "),
            "{body}"
        );
    }
}
