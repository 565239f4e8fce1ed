//! The server is killed again and again while many clients write. An acknowledged write exists, once; an unacknowledged
//! one may exist, but not twice. Deps and notes of one task that all clients add to are a set, and a leased task is a
//! register with fences. Clients contend for a few registers. Reads show what was acknowledged before they began.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use callboard_domain::event::EventName;
use callboard_store::clock::SystemClock;
use callboard_store::postgres::PostgresStore;
use callboard_store::sqlite::SqliteStore;
use callboard_store::{EventQuery, Store};
use serde_json::{Value, json};

use crate::history::{History, Op, Stored, assert_kept, text};
use crate::http::{Server, agent, call_at};
use crate::peer::{Peer, board, command};

const CLIENTS: usize = 16;
const KILLS: usize = 50;
/// Deps that each client adds to the shared task, which can have 100.
const DEPS: usize = 5;
/// Tasks that clients lease from one another.
const CONTESTED: usize = 4;

/// The server's current address; clients that lost it wait here for the next one, unless the server stays where it is.
#[derive(Default)]
struct Address {
    current: Mutex<(u64, String)>,
    moved: Condvar,
    stays: bool,
}

impl Address {
    fn set(&self, url: String) {
        let mut current = self.current.lock().unwrap();
        *current = (current.0 + 1, url);
        self.moved.notify_all();
    }

    fn newer_than(&self, seen: u64) -> (u64, String) {
        let current = self.current.lock().unwrap();
        let is_old = |current: &mut (u64, String)| current.0 <= seen && !self.stays;
        self.moved.wait_while(current, is_old).unwrap().clone()
    }
}

#[derive(Default)]
pub struct Shared {
    address: Address,
    acknowledged: AtomicU64,
    progress: Condvar,
    lock: Mutex<()>,
    stop: AtomicBool,
    pub history: History,
}

impl Shared {
    /// Clients of a server that stays at this address and says `UNAVAILABLE` while its database is away.
    pub fn at(url: &str) -> Self {
        let current = Mutex::new((1, url.to_owned()));
        Self { address: Address { current, stays: true, ..Address::default() }, ..Self::default() }
    }

    fn acknowledge(&self) {
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
        let _guard = self.lock.lock().unwrap();
        self.progress.notify_all();
    }

    pub fn wait_for(&self, acknowledged: u64) {
        let guard = self.lock.lock().unwrap();
        let short = |_: &mut ()| self.acknowledged.load(Ordering::SeqCst) < acknowledged;
        drop(self.progress.wait_while(guard, short).unwrap());
    }

    /// An answer that leaves open what happened: the server is gone, or it has lost its database.
    fn known(&self, answer: Option<Result<Value, Value>>) -> Option<Result<Value, Value>> {
        let is_away = |no: &Value| {
            ["UNAVAILABLE", "system.unavailable"].contains(&text(&no["code"]).as_str())
        };
        answer.filter(|answer| !(self.address.stays && answer.as_ref().is_err_and(is_away)))
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_happens_twice() {
    let board = board();
    let shared = Arc::new(Shared::default());
    let clients = begin(&shared, Peer::start(board.path(), "human:ana"));

    // The kills are timed by acknowledgements, so that every run kills during writes.
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..KILLS {
        let mut server = Server::start(board.path());
        shared.address.set(server.url.clone());
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let more = 1 + (random >> 33) % 60;
        shared.wait_for(shared.acknowledged.load(Ordering::SeqCst) + more);
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }
    let last = Server::start(board.path());
    shared.stop.store(true, Ordering::SeqCst);
    shared.address.set(last.url.clone());
    let acknowledged: Vec<String> =
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    drop(last);
    assert!(acknowledged.len() >= KILLS, "too little was written: {}", acknowledged.len());
    assert_kept(&shared.history, &stored(board.path(), &[]));
    check(board.path(), &acknowledged);
}

/// Tasks that every client writes to.
struct SharedTasks {
    /// Its notes and deps are a set.
    hub: String,
    contested: Vec<String>,
}

/// Makes the tasks and starts the clients. Each returns the words of its acknowledged writes.
pub fn begin(shared: &Arc<Shared>, mut maker: Peer) -> Vec<JoinHandle<Vec<String>>> {
    let mut make = |title: String| {
        let (op, task) = (Op::Create { title: title.clone() }, json!({"title": title}));
        let answer = || Some(maker.call("create", task.clone()));
        let made = shared.history.record("human:ana", &op, answer, || false);
        made.unwrap().unwrap()["id"].as_str().unwrap().to_owned()
    };
    let shared_tasks = SharedTasks {
        hub: make("of all clients".into()),
        contested: (0..CONTESTED).map(|n| make(format!("contested {n}"))).collect(),
    };
    let shared_tasks = Arc::new(shared_tasks);
    let tasks: Vec<String> = (0..CLIENTS).map(|n| make(format!("of client {n}"))).collect();
    drop(maker);
    let clients = tasks.into_iter().enumerate().map(|(n, task)| {
        let (shared, shared_tasks) = (shared.clone(), shared_tasks.clone());
        std::thread::spawn(move || write_until_stopped(n, &task, &shared_tasks, &shared))
    });
    clients.collect()
}

/// An agent's process that makes tasks in this database.
pub fn maker_on(folder: &Path, url: &str) -> Peer {
    let mut mcp = command(folder);
    mcp.args(["mcp", "--actor", "human:ana", "--store", url]);
    let mut maker = Peer::over(mcp);
    maker.hello();
    maker
}

/// Stops the clients of a board on PostgreSQL and judges their history, the log and the rows.
pub fn judge(shared: &Shared, clients: Vec<JoinHandle<Vec<String>>>, folder: &Path, url: &str) {
    shared.stop.store(true, Ordering::SeqCst);
    let acknowledged: Vec<String> =
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    assert_kept(&shared.history, &stored(folder, &["--store", url]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = PostgresStore::open(url, None).await.unwrap();
        check_store(&store, &acknowledged).await;
    });
}

/// The log and the rows of a board, as the program prints them.
pub fn stored(folder: &Path, global: &[&str]) -> Stored {
    Stored::read(|words| {
        let printed = command(folder).args(global).args(words).output().unwrap();
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        serde_json::from_slice(&printed.stdout).unwrap()
    })
}

/// Calls of one client, each write under its own retry key.
struct Client<'s> {
    actor: String,
    agent: ureq::Agent,
    place: RefCell<(u64, String)>,
    shared: &'s Shared,
}

impl Client<'_> {
    /// Repeats a call until it is answered. An empty key is none.
    fn try_to(
        &self,
        path: &str,
        op: Op,
        tool: &str,
        arguments: Value,
        key: &str,
    ) -> Result<Value, Value> {
        let answer = || {
            let url = format!("{}/mcp{path}?actor={}", self.place.borrow().1, self.actor);
            self.shared.known(call_at(&self.agent, &url, tool, &arguments, key))
        };
        let again = || {
            let seen = self.place.borrow().0;
            self.place.replace(self.shared.address.newer_than(seen));
            true
        };
        self.shared.history.record(&self.actor, &op, answer, again).expect("repeated")
    }

    /// A write that nothing refuses.
    fn ask(&self, path: &str, op: Op, tool: &str, arguments: Value, key: &str) -> Value {
        let answer = self.try_to(path, op, tool, arguments, key);
        let answer = answer.unwrap_or_else(|refusal| panic!("refused: {refusal}"));
        self.shared.acknowledge();
        answer
    }

    /// Reads a task in the words of graph, or of execution, which show the fence.
    fn read(&self, task: &str, with_fence: bool) {
        let op = Op::Read { task: task.to_owned() };
        let read = match with_fence {
            true => self.try_to("/execution", op, "get_task", json!({"taskId": task}), ""),
            false => self.try_to("", op, "get", json!({"id": task}), ""),
        };
        read.unwrap_or_else(|refusal| panic!("refused: {refusal}"));
    }

    fn beat(&self, task: &str, fence: u64, text: &str) {
        let op = Op::Beat { task: task.to_owned(), fence, text: text.to_owned() };
        let beat = json!({"taskId": task, "status": "in_progress", "note": text, "fence": fence});
        self.ask("/execution", op, "update_task_status", beat, text);
    }

    /// Leases a task that other clients lease, too, writes to it and gives it back. Returns the words of its notes; none
    /// if another client has the task.
    fn contend(&self, task: &str, words: &str) -> Vec<String> {
        let op = Op::Lease { task: task.to_owned() };
        let lease = json!({"taskId": task});
        let leased = match self.try_to("/execution", op, "claim_task", lease, words) {
            Ok(leased) => leased,
            Err(refusal) => {
                assert_eq!(refusal["code"], "task.already_claimed", "{refusal}");
                return Vec::new();
            }
        };
        self.shared.acknowledge();
        let fence = leased["fence"].as_u64().expect("a fence");
        let [beat, text] = ["beat", "back"].map(|what| format!("{words}/{what}"));
        self.beat(task, fence, &beat);
        self.read(task, true);
        let op = Op::Release { task: task.to_owned(), fence, text: text.clone() };
        let back = json!({"taskId": task, "status": "ready", "note": text, "fence": fence});
        self.ask("/execution", op, "update_task_status", back, &text);
        vec![beat, text]
    }
}

/// Writes of every kind in turn, with reads between them. Returns the words of the notes and the new tasks.
fn write_until_stopped(n: usize, task: &str, all: &SharedTasks, shared: &Shared) -> Vec<String> {
    let place = RefCell::new(shared.address.newer_than(0));
    let client = Client { actor: format!("agent:w{n}"), agent: agent(), place, shared };
    let own = || task.to_owned();
    let lease = json!({"taskId": task});
    let key = format!("{n} lease");
    let leased = client.ask("/execution", Op::Lease { task: own() }, "claim_task", lease, &key);
    let fence = leased["fence"].as_u64().expect("a fence");
    let (mut acknowledged, mut made) = (Vec::new(), String::new());
    for turn in 0.. {
        if shared.stop.load(Ordering::SeqCst) {
            break;
        }
        let words = format!("{n}/{turn}");
        let text = words.clone();
        let (round, step) = (turn / 9, turn % 9);
        match step {
            0 => {
                let op = Op::Create { title: text.clone() };
                let answer = client.ask("", op, "create", json!({"title": text}), &words);
                made = answer["id"].as_str().expect("an id").to_owned();
                acknowledged.push(words);
            }
            1 if round < DEPS => {
                let op = Op::Depend { task: all.hub.clone(), dep: made.clone() };
                let arguments = json!({"taskId": all.hub, "dependsOn": made});
                client.ask("/execution", op, "set_dependency", arguments, &words);
            }
            2 => {
                client.beat(task, fence, &text);
                acknowledged.push(words);
            }
            3 => {
                let op = Op::Claim { task: made.clone() };
                client.ask("", op, "claim", json!({"id": made}), &words);
            }
            4 => {
                let op = Op::Close { task: made.clone(), fence: None };
                client.ask("", op, "transition", json!({"id": made, "to": "done"}), &words);
            }
            5 => {
                let task = &all.contested[(n + round) % CONTESTED];
                acknowledged.extend(client.contend(task, &words));
            }
            6 => {
                let others = &all.contested[(n + round + 1) % CONTESTED];
                let read = [&all.hub, &made, others, &own()][round % 4].clone();
                client.read(&read, round % 2 == 0);
            }
            step => {
                let place = if step == 7 { &all.hub } else { task };
                let op = Op::Note { task: place.to_owned(), text: text.clone() };
                client.read(place, false);
                client.ask("", op, "note", json!({"id": place, "text": text}), &words);
                client.read(place, false);
                acknowledged.push(words);
            }
        }
    }
    acknowledged
}

fn check(folder: &Path, acknowledged: &[String]) {
    let path = folder.join(".callboard/callboard.db");
    let store = SqliteStore::open(&path, Arc::new(SystemClock)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(check_store(&store, acknowledged));
}

/// The store is sound, and each of these writes is in its log once.
async fn check_store(store: &impl Store, acknowledged: &[String]) {
    let findings = store.verify().await.unwrap();
    assert!(findings.is_empty(), "{findings:?}");
    let all = EventQuery { org: None, after: 0, task: None, limit: usize::MAX >> 1 };
    let events = store.events(all).await.unwrap();
    let mut happened: HashMap<String, u32> = HashMap::new();
    for event in &events {
        let words = match event.name {
            EventName::TaskNoted => &event.data["text"],
            EventName::TaskCreated => &event.data["title"],
            _ => &Value::Null,
        };
        *happened.entry(words.as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    for words in acknowledged {
        assert_eq!(happened.get(words), Some(&1), "{words} was acknowledged");
    }
    let twice: Vec<_> =
        happened.iter().filter(|(words, times)| words.contains('/') && **times > 1).collect();
    assert!(twice.is_empty(), "happened twice: {twice:?}");
}
