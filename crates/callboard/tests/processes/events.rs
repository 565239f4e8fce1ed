//! The event stream of a real server: commits of other processes, once and in order, for readers with the right.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Value, json};
use ureq::BodyReader;

use crate::http::{Server, agent};
use crate::pages::session_of;
use crate::peer::{board, command};
use crate::schema::Schema;
use crate::tokens::token;

/// An open stream, read block by block.
struct Stream(BufReader<BodyReader<'static>>);

/// One event: its number, its name, its body.
#[derive(Debug)]
struct Said {
    id: u64,
    name: String,
    body: Value,
}

impl Stream {
    fn open(server: &Server, query: &str, headers: &[(&str, &str)]) -> Self {
        let mut request = agent().get(format!("{}/events{query}", server.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.call().unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self(BufReader::new(response.into_body().into_reader()))
    }

    /// The next block with content; `None` when the stream is over.
    fn next(&mut self) -> Option<Said> {
        loop {
            let mut fields = [const { String::new() }; 3];
            loop {
                let mut line = String::new();
                if self.0.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                let line = line.trim_end();
                if line.is_empty() {
                    break;
                }
                for (at, name) in ["id: ", "event: ", "data: "].iter().enumerate() {
                    if let Some(value) = line.strip_prefix(name) {
                        fields[at] = value.to_owned();
                    }
                }
            }
            let [id, name, data] = fields;
            if !data.is_empty() {
                let body = serde_json::from_str(&data).unwrap();
                return Some(Said { id: id.parse().unwrap(), name, body });
            }
        }
    }

    /// The number and the subject of the next event.
    fn subject(&mut self) -> (u64, String) {
        let said = self.next().expect("an event");
        (said.id, said.body["data"]["subject"].as_str().unwrap_or_default().to_owned())
    }
}

fn cli(folder: &Path, arguments: &[&str]) -> Value {
    let output = command(folder).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn mail(folder: &Path, to: &str, subject: &str) {
    cli(folder, &["mail", "send", to, subject, "text"]);
}

#[test]
fn a_stream_goes_on_where_it_ended_without_gap_or_repeat() {
    goes_on(&[]);
}

#[test]
fn a_stream_goes_on_where_it_ended_without_gap_or_repeat_on_postgres() {
    if let Some(schema) = Schema::new() {
        goes_on(&["--store", schema.url()]);
    }
}

fn goes_on(store: &[&str]) {
    let folder = board();
    let folder = folder.path();
    let server = Server::start_with(folder, store);
    let cli = |arguments: &[&str]| cli(folder, &[store, arguments].concat());
    let mail = |subject: &str| drop(cli(&["mail", "send", "human", subject, "text"]));
    let mut first = Stream::open(&server, "?names=mail.sent,task.created", &[]);
    let task = cli(&["task", "add", "A <b>task</b>"])["id"].as_str().unwrap().to_owned();
    mail("one");
    let made = first.next().unwrap();
    assert_eq!((made.name.as_str(), &made.body["task"]), ("task.created", &json!(task)));
    assert_eq!(made.body["data"]["title"], "A <b>task</b>");
    let sent = first.next().unwrap();
    assert_eq!((sent.name.as_str(), sent.body["seq"].as_u64()), ("mail.sent", Some(sent.id)));
    let data = &sent.body["data"];
    assert_eq!((&data["isForHuman"], &data["subject"]), (&json!(true), &json!("one")));
    assert!(data.get("body").is_none(), "{data}");
    drop(first);
    mail("two");
    mail("three");
    let id = sent.id.to_string();
    // The header of a browser is newer than the address.
    let mut again = Stream::open(&server, "?names=mail.sent&after=0", &[("Last-Event-ID", &id)]);
    let (two, subject) = again.subject();
    assert_eq!(subject, "two");
    let (three, subject) = again.subject();
    assert_eq!((subject.as_str(), two < three), ("three", true));
    mail("four");
    assert_eq!(again.subject().1, "four");
    let mut whole = Stream::open(&server, "?names=mail.sent&after=0", &[]);
    let subjects: Vec<String> = (0..4).map(|_| whole.subject().1).collect();
    assert_eq!(subjects, ["one", "two", "three", "four"]);
    // A number of another log does not belong to ours.
    let mut foreign = Stream::open(&server, "?names=mail.sent&after=999999", &[]);
    mail("five");
    assert_eq!(foreign.subject().1, "five");
}

#[test]
fn an_agent_hears_of_its_own_mail_and_people_of_all() {
    let folder = board();
    let folder = folder.path();
    cli(folder, &["agent", "add", "w1", "--type", "WORKER"]);
    cli(folder, &["agent", "add", "w2", "--type", "WORKER"]);
    let (_, own) = token(folder, &["--actor", "agent:w1"]);
    let (_, ana) = token(folder, &["--actor", "human:ana"]);
    let (_, boss) = token(folder, &["--actor", "agent:ops", "--lane", "kagan_admin"]);
    let (_, writer) = token(folder, &["--actor", "agent:w3", "--scopes", "tasks:write"]);
    let server = Server::start(folder);
    let refused = |query: &str, token: &str| {
        let request = agent().get(format!("{}/events{query}", server.url));
        let mut answer = request.header("Authorization", format!("Bearer {token}")).call().unwrap();
        let said: Value = answer.body_mut().read_json().unwrap();
        (answer.status().as_u16(), said["error"]["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(refused("", "").0, 401);
    assert_eq!(refused("", &writer).0, 403);
    let (status, words) = refused("?names=mail.snet", &ana);
    assert_eq!(status, 400);
    assert_eq!(words, "names: there is no event 'mail.snet'; did you mean 'mail.sent'?");
    assert_eq!(refused("?after=x", &ana), (400, "after: 'x' is not the number of an event".into()));
    let bearer = |token: &str| format!("Bearer {token}");
    let open = |query: &str, token: &str| {
        Stream::open(&server, query, &[("Authorization", &bearer(token))])
    };
    let mut streams = [
        (open("?names=mail.sent", &own), vec!["to w1", "end w1"]),
        // A request for another agent's events yields nothing.
        (open("?names=mail.sent,task.created&agent=w2", &own), vec![]),
        (open("?names=mail.sent", &ana), vec!["to people", "to w2", "to w1", "end w1"]),
        (open("?agent=w2", &ana), vec!["to w2"]),
        (open("?names=mail.sent", &boss), vec!["to people", "to w2", "to w1", "end w1"]),
    ];
    mail(folder, "human", "to people");
    mail(folder, "w2", "to w2");
    mail(folder, "w1", "to w1");
    mail(folder, "w1", "end w1");
    for (stream, subjects) in &mut streams {
        for subject in subjects.iter() {
            assert_eq!(stream.subject().1, *subject);
        }
    }
    let [_, (mut none, _), ..] = streams;
    stop(server);
    assert!(none.next().is_none(), "it said something before it ended");
}

/// All orgs share one sequence of numbers, so the last number would reveal how much others do.
#[test]
fn a_stream_names_no_event_of_another_org() {
    names_no_other(&[]);
}

#[test]
fn a_stream_names_no_event_of_another_org_on_postgres() {
    if let Some(schema) = Schema::new() {
        names_no_other(&["--store", schema.url()]);
    }
}

fn names_no_other(store: &[&str]) {
    let folder = board();
    let folder = folder.path();
    let cli = |arguments: &[&str]| cli(folder, &[store, arguments].concat());
    let added = |arguments: &[&str]| {
        let made = cli(&[&["token", "add"], arguments].concat());
        made["token"].as_str().unwrap().to_owned()
    };
    let theirs = added(&["--actor", "human:eve", "--org", "rivals"]);
    (0..3).for_each(|n| drop(cli(&["task", "add", &format!("ours {n}")])));
    let server = Server::start_with(folder, store);
    let first = |query: &str| {
        let request = agent().get(format!("{}/events{query}", server.url));
        let request = request.header("Authorization", format!("Bearer {theirs}"));
        let mut lines = BufReader::new(request.call().unwrap().into_body().into_reader()).lines();
        lines.next().unwrap().unwrap()
    };
    assert_eq!((first(""), first("?after=999")), ("id: 0".into(), "id: 0".into()));
    let page = agent().get(format!("{}/", server.url)).header("Accept", "text/html");
    let page = page.header("Cookie", session_of(&server, &theirs)).call().unwrap();
    let page = page.into_body().read_to_string().unwrap();
    assert!(page.contains("data-seen=\"0\""), "{page}");
    cli(&["--org", "rivals", "task", "add", "theirs"]);
    let own = cli(&["--org", "rivals", "log"])["items"][0]["seq"].as_u64().unwrap();
    cli(&["task", "add", "ours again"]);
    assert_eq!(first(""), format!("id: {own}"));
}

/// Asks a server to end and waits until it has.
fn stop(mut server: Server) {
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_server_that_ends_ends_its_streams() {
    let folder = board();
    let server = Server::start(folder.path());
    let mut stream = Stream::open(&server, "", &[]);
    let start = std::time::Instant::now();
    stop(server);
    assert!(stream.next().is_none());
    assert!(start.elapsed() < std::time::Duration::from_secs(4), "it was waited for");
}
