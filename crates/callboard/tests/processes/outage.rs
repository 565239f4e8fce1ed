//! PostgreSQL is killed again and again under two servers and many clients. Callers hear that it is away and nothing
//! worse; an acknowledged write exists, once; the servers recover by themselves.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use callboard_domain::event::{EventName, LoggedEvent};
use callboard_store::postgres::PostgresStore;
use callboard_store::{EventQuery, Store};
use serde_json::{Value, json};

use crate::history::{History, Op, assert_kept};
use crate::http::{Server, agent, call};
use crate::kill::{self, begin, judge, maker_on, stored};
use crate::peer::{Peer, board, command};
use crate::schema::Schema;
use crate::skipped::skipped;

const CLIENTS: usize = 32;
const IMPATIENT: usize = 4;
const KILLS: usize = 10;
const REGISTER_KILLS: u64 = 5;
/// Acknowledged writes between one start of the database and the next kill.
const WRITES_BETWEEN: usize = 150;
const PATIENCE: Duration = Duration::from_secs(60);

/// A separate PostgreSQL, because the test kills it.
pub struct Database {
    name: String,
    pub url: String,
}

impl Database {
    /// `None` where the other tests run without PostgreSQL, too.
    pub fn start(what: &str) -> Option<Self> {
        if let Some(why) = Schema::missing() {
            skipped(why);
            return None;
        }
        let name = format!("{what}-{}", std::process::id());
        let url = script(&name, "start");
        Some(Self { name, url })
    }

    pub fn kill(&self) {
        script(&self.name, "kill");
    }

    pub fn come_back(&self) {
        assert_eq!(script(&self.name, "start"), self.url, "it is where it was");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        script(&self.name, "remove");
    }
}

fn script(name: &str, verb: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
    let output =
        Command::new(path).arg(verb).env("CALLBOARD_POSTGRES_NAME", name).output().unwrap();
    assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The acknowledged writes.
#[derive(Default)]
struct Seen {
    created: Vec<(String, String)>,
    claimed: Vec<(String, String)>,
    closed: Vec<String>,
    /// How many writes each server acknowledged.
    by_server: [usize; 2],
    /// How often callers heard that the database is away.
    unavailable: usize,
    is_down: bool,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
    history: History,
}

impl Shared {
    fn note<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        let changed = change(&mut self.seen.lock().unwrap());
        self.changed.notify_all();
        changed
    }

    fn wait(&self, what: &str, enough: impl Fn(&Seen) -> bool) {
        let seen = self.seen.lock().unwrap();
        let (_seen, late) =
            self.changed.wait_timeout_while(seen, PATIENCE, |seen| !enough(seen)).unwrap();
        assert!(!late.timed_out(), "{what} took too long");
    }
}

struct Client {
    server: usize,
    /// Whether the client waits for the database after an error, or repeats its call at once.
    is_patient: bool,
    url: String,
    actor: String,
    http: ureq::Agent,
    shared: Arc<Shared>,
}

impl Client {
    /// Records a call of the history and repeats it under one key until it is answered.
    fn ask(&self, op: &Op, tool: &str, arguments: Value, key: &str) -> Result<Value, Value> {
        let answer = || self.try_once(tool, &arguments, key);
        self.shared.history.record(&self.actor, op, answer, || self.again()).expect("repeated")
    }

    /// `None` when the database is away, which is the only accepted failure.
    fn try_once(&self, tool: &str, arguments: &Value, key: &str) -> Option<Result<Value, Value>> {
        let answer = call(&self.http, &self.url, &self.actor, tool, arguments, key);
        match answer.expect("the server answers, whatever its database does") {
            Err(refusal) if refusal["code"] == "UNAVAILABLE" => {
                assert_eq!(refusal["retryable"], true);
                self.shared.note(|seen| seen.unavailable += 1);
                None
            }
            answered => Some(answered),
        }
    }

    fn again(&self) -> bool {
        if self.is_patient {
            self.shared.wait("the next start", |seen| !seen.is_down);
        }
        true
    }

    /// Creates a task, claims one that another client created, and closes it if the claim was first.
    fn work_until_stopped(&self, client: usize) {
        let mut won = HashSet::new();
        for round in 0.. {
            if self.shared.seen.lock().unwrap().stop {
                return;
            }
            let title = format!("{client}/{round}");
            let create = Op::Create { title: title.clone() };
            let new = json!({"title": title});
            let made = self.ask(&create, "create", new, &format!("{title} new"));
            let id = made.unwrap()["id"].as_str().unwrap().to_owned();
            let wanted = self.shared.note(|seen| {
                seen.by_server[self.server] += 1;
                seen.created.push((title.clone(), id));
                let newest = seen.created.iter().rev().take(4).map(|(_, id)| id.clone());
                newest.cycle().nth(client + round).expect("one at least")
            });
            if !won.insert(wanted.clone()) {
                continue;
            }
            let claim = Op::Claim { task: wanted.clone() };
            let key = format!("{title} claim");
            match self.ask(&claim, "claim", json!({"id": wanted}), &key) {
                Ok(task) => assert_eq!(task["assignee"], self.actor),
                Err(refusal) => {
                    assert_eq!(refusal["code"], "ALREADY_CLAIMED", "{refusal}");
                    continue;
                }
            }
            self.shared.note(|seen| seen.claimed.push((wanted.clone(), self.actor.clone())));
            let op = Op::Read { task: wanted.clone() };
            let read = self.ask(&op, "get", json!({"id": wanted}), "").unwrap();
            assert_eq!(read["assignee"], self.actor, "who won it has it");
            let op = Op::Close { task: wanted.clone(), fence: None };
            let close = json!({"id": wanted, "to": "done"});
            let closed = self.ask(&op, "transition", close, &format!("{title} done")).unwrap();
            assert_eq!(closed["status"], "done");
            self.shared.note(|seen| {
                seen.by_server[self.server] += 2;
                seen.closed.push(wanted);
            });
        }
    }
}

#[test]
fn a_database_that_is_killed_ten_times_loses_nothing_acknowledged() {
    let Some(database) = Database::start("outage") else { return };
    let board = board();
    let mut servers = [0, 1].map(|_| Server::start_with(board.path(), &["--store", &database.url]));
    let shared = Arc::new(Shared::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let client = Client {
                server: n % 2,
                is_patient: n >= IMPATIENT,
                url: servers[n % 2].url.clone(),
                actor: format!("agent:w{n}"),
                http: agent(),
                shared: shared.clone(),
            };
            std::thread::spawn(move || client.work_until_stopped(n))
        })
        .collect();
    // After every start both servers must acknowledge writes again, by themselves.
    let let_work = || {
        let before = shared.seen.lock().unwrap().by_server;
        let more =
            |seen: &Seen| (0..2).all(|n| seen.by_server[n] >= before[n] + WRITES_BETWEEN / 2);
        shared.wait("work after a start", more);
    };
    for _ in 0..KILLS {
        let_work();
        shared.note(|seen| seen.is_down = true);
        database.kill();
        database.come_back();
        shared.note(|seen| seen.is_down = false);
    }
    let_work();
    shared.note(|seen| seen.stop = true);
    clients.into_iter().for_each(|client| client.join().unwrap());
    for server in &mut servers {
        assert!(server.child.try_wait().unwrap().is_none(), "the server lived through it");
        let ready = agent().get(format!("{}/readyz", server.url)).call().unwrap();
        assert_eq!(ready.status().as_u16(), 200);
    }
    assert_kept(&shared.history, &stored(board.path(), &["--store", &database.url]));
    check(&database.url, &shared.seen.lock().unwrap());
}

fn check(url: &str, seen: &Seen) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let events = runtime.block_on(async {
        let store = PostgresStore::open(url, None).await.unwrap();
        assert_eq!(store.verify().await.unwrap(), Vec::new());
        let all = EventQuery { org: None, after: 0, task: None, limit: usize::MAX >> 1 };
        store.events(all).await.unwrap()
    });
    let count = |name, word: &dyn Fn(&LoggedEvent) -> String| {
        let mut times: HashMap<String, usize> = HashMap::new();
        for event in events.iter().filter(|event| event.name == name) {
            *times.entry(word(event)).or_default() += 1;
        }
        times
    };
    let created =
        count(EventName::TaskCreated, &|event| event.data["title"].as_str().unwrap().to_owned());
    let task = |event: &LoggedEvent| event.task().unwrap().to_string();
    let claimed = count(EventName::TaskClaimed, &task);
    let closed = count(EventName::TaskStatusChanged, &task);
    for (what, times) in [("created", &created), ("claimed", &claimed), ("closed", &closed)] {
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "{what} twice: {twice:?}");
    }
    for (title, _) in &seen.created {
        assert!(created.contains_key(title), "{title} was acknowledged");
    }
    let mut holders: HashMap<&str, &str> = HashMap::new();
    for (task, actor) in &seen.claimed {
        assert!(claimed.contains_key(task), "the claim of {task} was acknowledged");
        assert_eq!(holders.insert(task, actor), None, "{task} was claimed twice");
    }
    for task in &seen.closed {
        assert!(closed.contains_key(task), "that {task} is done was acknowledged");
    }
    assert!(seen.unavailable >= KILLS, "nobody noticed: {}", seen.unavailable);
    assert!(seen.closed.len() > KILLS, "only {} were closed", seen.closed.len());
}

#[test]
fn sets_and_registers_outlive_a_database_that_is_killed() {
    let Some(database) = Database::start("register") else { return };
    let board = board();
    let server = Server::start_with(board.path(), &["--store", &database.url]);
    let shared = Arc::new(kill::Shared::at(&server.url));
    let clients = begin(&shared, maker_on(board.path(), &database.url));
    for kills in 1..=REGISTER_KILLS {
        shared.wait_for(kills * WRITES_BETWEEN as u64);
        database.kill();
        database.come_back();
    }
    shared.wait_for((REGISTER_KILLS + 1) * WRITES_BETWEEN as u64);
    judge(&shared, clients, board.path(), &database.url);
}

#[test]
fn on_the_board_a_database_that_is_away_is_disconnected() {
    let Some(database) = Database::start("board") else { return };
    let board = board();
    let mut mcp = command(board.path());
    mcp.args(["mcp", "--toolsets", "board", "--lane", "admin", "--store", &database.url]);
    let mut boss = Peer::over(mcp);
    boss.hello();
    let task = json!({"title": "A"});
    assert_eq!(boss.call("tasks_create", task.clone()).unwrap()["success"], true);
    database.kill();
    for (tool, arguments) in [("tasks_create", task.clone()), ("tasks_list", json!({}))] {
        let away = boss.call(tool, arguments).unwrap_err();
        let (code, retryable) = (&away["code"], &away["retryable"]);
        assert_eq!((code, retryable), (&json!("DISCONNECTED"), &json!(true)), "{tool}: {away}");
        assert!(away["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{away}");
    }
    database.come_back();
    let again = std::iter::repeat_with(|| boss.call("tasks_create", task.clone()));
    let made = again.take(1000).find_map(Result::ok).expect("the server goes on by itself");
    assert_eq!(made["success"], true);
}
