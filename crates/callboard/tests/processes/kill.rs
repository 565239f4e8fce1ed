//! The server is killed again and again while many clients write. An acknowledged write exists, once; an unacknowledged
//! one may exist, but not twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use callboard_domain::event::EventName;
use callboard_store::clock::SystemClock;
use callboard_store::sqlite::SqliteStore;
use callboard_store::{EventQuery, Store};
use serde_json::{Value, json};

use crate::http::{Server, agent, call};
use crate::peer::{Peer, board};

const CLIENTS: usize = 16;
const KILLS: usize = 50;

/// The server's current address; clients that lost it wait here for the next one.
#[derive(Default)]
struct Address {
    current: Mutex<(u64, String)>,
    moved: Condvar,
}

impl Address {
    fn set(&self, url: String) {
        let mut current = self.current.lock().unwrap();
        *current = (current.0 + 1, url);
        self.moved.notify_all();
    }

    fn newer_than(&self, seen: u64) -> (u64, String) {
        let current = self.current.lock().unwrap();
        self.moved.wait_while(current, |current| current.0 <= seen).unwrap().clone()
    }
}

#[derive(Default)]
struct Shared {
    address: Address,
    acknowledged: AtomicU64,
    progress: Condvar,
    lock: Mutex<()>,
    stop: AtomicBool,
}

impl Shared {
    fn acknowledge(&self) {
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
        let _guard = self.lock.lock().unwrap();
        self.progress.notify_all();
    }

    fn wait_for(&self, acknowledged: u64) {
        let guard = self.lock.lock().unwrap();
        let short = |_: &mut ()| self.acknowledged.load(Ordering::SeqCst) < acknowledged;
        drop(self.progress.wait_while(guard, short).unwrap());
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_happens_twice() {
    let board = board();
    let mut maker = Peer::start(board.path(), "human:ana");
    let tasks: Vec<String> =
        (0..CLIENTS).map(|n| maker.create(json!({"title": format!("of client {n}")}))).collect();
    drop(maker);
    let shared = Arc::new(Shared::default());
    let clients: Vec<_> = tasks
        .iter()
        .enumerate()
        .map(|(n, task)| {
            let (shared, task) = (shared.clone(), task.clone());
            std::thread::spawn(move || write_until_stopped(n, &task, &shared))
        })
        .collect();

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
    check(board.path(), &acknowledged);
}

/// Writes notes and new tasks in turn, each under its own retry key; repeats a call until it is answered.
fn write_until_stopped(client: usize, task: &str, shared: &Shared) -> Vec<String> {
    let (actor, agent) = (format!("agent:w{client}"), agent());
    let (mut seen, mut url) = shared.address.newer_than(0);
    let mut acknowledged = Vec::new();
    for n in 0.. {
        if shared.stop.load(Ordering::SeqCst) {
            break;
        }
        let words = format!("{client}/{n}");
        let (tool, arguments) = match n % 3 {
            0 => ("create", json!({"title": words})),
            _ => ("note", json!({"id": task, "text": words})),
        };
        loop {
            match call(&agent, &url, &actor, tool, &arguments, &words) {
                Some(Ok(_)) => break,
                Some(Err(refusal)) => panic!("refused: {refusal}"),
                None => (seen, url) = shared.address.newer_than(seen),
            }
        }
        acknowledged.push(words);
        shared.acknowledge();
    }
    acknowledged
}

fn check(folder: &std::path::Path, acknowledged: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let path = folder.join(".callboard/callboard.db");
    let store = SqliteStore::open(&path, Arc::new(SystemClock)).unwrap();
    runtime.block_on(async {
        let findings = store.verify().await.unwrap();
        assert!(findings.is_empty(), "{findings:?}");
        let events = store
            .events(EventQuery { org: None, after: 0, task: None, limit: usize::MAX >> 1 })
            .await
            .unwrap();
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
    });
}
