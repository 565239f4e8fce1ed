//! Two servers on their own hosts, and clients on a third one that do all tasks of a board together: each takes a task
//! under a lease, sends a heartbeat, adds to a task that all share, and completes the task under its fence.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::http::{HeaderValue, Request, Response};
use ureq::middleware::{Middleware, MiddlewareNext};
use ureq::{Body, SendBody};

use crate::history::{History, Logged, Op, Stored, assert_kept};
use crate::http::{Server, call_at};
use crate::net::{Host, Net};
use crate::peer::{CALLBOARD, board, clean};

pub const TASKS: usize = 40;
const WORKERS: usize = 4;
/// A call to a host that went silent is given up then, and repeated under its retry key at the other server.
const SILENCE: Duration = Duration::from_secs(2);
/// The time of each wait of a test.
const PATIENCE: Duration = Duration::from_secs(25);
/// The words of the three toolsets for a database that is away.
const AWAY: [&str; 3] = ["UNAVAILABLE", "system.unavailable", "DISCONNECTED"];

pub struct Fleet {
    /// Ended before their hosts are removed.
    pub servers: Vec<Server>,
    pub net: Net,
    pub tasks: Vec<String>,
    /// The task whose notes and deps all clients add to.
    hub: String,
    hosts: Vec<Host>,
    board: tempfile::TempDir,
    store: String,
    tokens: BTreeMap<String, String>,
    history: History,
    closed: Mutex<BTreeSet<String>>,
    progress: Condvar,
}

impl Fleet {
    pub fn start(mut net: Net, store: &str) -> Self {
        let hosts = vec![net.host("s1"), net.host("s2"), net.host("client")];
        let mut fleet = Self {
            servers: Vec::new(),
            net,
            tasks: Vec::new(),
            hub: String::new(),
            hosts,
            board: board(),
            store: store.to_owned(),
            tokens: BTreeMap::new(),
            history: History::default(),
            closed: Mutex::default(),
            progress: Condvar::new(),
        };
        let workers = (0..WORKERS).map(|n| format!("agent:w{n}"));
        for actor in workers.chain(["agent:waiter".into(), "human:ana".into()]) {
            let made = fleet.cli(&["token", "add", "--actor", &actor, "--json"]);
            fleet.tokens.insert(actor, made["token"].as_str().expect("a token").to_owned());
        }
        for host in &fleet.hosts[..2] {
            let mut serve = host.command(CALLBOARD);
            clean(&mut serve, fleet.board.path());
            serve.args(["serve", "--listen", &format!("{}:8080", host.address)]);
            serve.args(["--store", store]).stderr(Stdio::null());
            serve.env("CALLBOARD_EXECUTION_LEASE_MIN_SEC", "1");
            serve.env("CALLBOARD_HTTP_ALLOWED_HOSTS", &host.address);
            fleet.servers.push(Server::over(serve));
        }
        let hub = fleet.make("shared".into());
        let tasks = (0..TASKS).map(|n| fleet.make(format!("task {n}"))).collect();
        Self { hub, tasks, ..fleet }
    }

    fn make(&self, title: String) -> String {
        let (op, task) = (Op::Create { title: title.clone() }, json!({"title": title}));
        let made = self.client("human:ana", &[0, 1]).ask(op, "add_task", task, &title).unwrap();
        made["taskId"].as_str().unwrap().to_owned()
    }

    /// Runs the program on the host of the second server, which stays in reach of the database in every test.
    fn cli(&self, words: &[&str]) -> Value {
        let mut callboard = self.hosts[1].command(CALLBOARD);
        clean(&mut callboard, self.board.path());
        let printed = callboard.args(["--store", &self.store]).args(words).output().unwrap();
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        serde_json::from_slice(&printed.stdout).unwrap()
    }

    /// A client that asks these servers in turn.
    pub fn client<'f>(&'f self, actor: &str, servers: &[usize]) -> Client<'f> {
        let urls = servers.iter().map(|n| format!("http://{}:8080", self.hosts[*n].address));
        Client {
            fleet: self,
            actor: actor.to_owned(),
            urls: urls.collect(),
            current: Mutex::new(0),
            http: self.http(actor, SILENCE),
        }
    }

    fn http(&self, actor: &str, patience: Duration) -> ureq::Agent {
        let token = HeaderValue::from_str(&format!("Bearer {}", self.tokens[actor])).unwrap();
        ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(patience))
            .middleware(Bearer(token))
            .build()
            .into()
    }

    /// Lets all clients work until every task is closed; `trouble` happens meanwhile. Each half of the clients prefers
    /// one server.
    pub fn work(&self, trouble: impl FnOnce(&Self)) {
        std::thread::scope(|scope| {
            for n in 0..WORKERS {
                scope.spawn(move || {
                    let order = if n % 2 == 0 { [0, 1] } else { [1, 0] };
                    self.client(&format!("agent:w{n}"), &order).work(n * TASKS / WORKERS);
                });
            }
            for task in self.tasks.iter().rev().take(3) {
                scope.spawn(move || self.client("agent:waiter", &[1]).wait(task));
            }
            trouble(self);
            self.until_closed(TASKS);
        });
    }

    pub fn closed(&self, task: &str) {
        self.closed.lock().unwrap().insert(task.to_owned());
        self.progress.notify_all();
    }

    pub fn until_closed(&self, count: usize) {
        let closed = self.closed.lock().unwrap();
        let is_short = |closed: &mut BTreeSet<String>| closed.len() < count;
        let (closed, late) = self.progress.wait_timeout_while(closed, PATIENCE, is_short).unwrap();
        assert!(!late.timed_out(), "only {} tasks of {count} are closed", closed.len());
    }

    fn is_over(&self) -> bool {
        self.closed.lock().unwrap().len() >= self.tasks.len()
    }

    /// Returns when a client has progress, or soon: a refused connection is answered at once, and tries without a pause
    /// would keep the processor from the others.
    fn pause(&self) {
        let closed = self.closed.lock().unwrap();
        drop(self.progress.wait_timeout(closed, Duration::from_millis(50)).unwrap());
    }

    /// Returns when a server takes a write by itself.
    pub fn until_answered(&self, server: usize) {
        let text = format!("server {server} is back");
        self.client("human:ana", &[server]).note(&text).expect("a note is not refused");
    }

    /// Every task is done once, and the history keeps every promise.
    pub fn judge(&self) {
        let stored = Stored::read(|words| self.cli(words));
        assert_kept(&self.history, &stored);
        for task in &self.tasks {
            let is_end = |event: &&Logged| {
                &event.task == task
                    && event.name == "task.status_changed"
                    && event.data["to"] == "done"
            };
            assert_eq!(stored.log.iter().filter(is_end).count(), 1, "{task} is done once");
            let row = stored.rows.iter().find(|row| row.task == *task).expect("a row");
            assert_eq!(row.status, "done", "{task}");
        }
        let looked = self.cli(&["doctor", "--json"]);
        let mut checks = looked["checks"].as_array().unwrap().iter();
        let database = checks.find(|check| check["name"] == "database").expect("a check");
        assert_eq!(database["status"], "ok", "{database}");
    }
}

/// Sends the token of an actor with every request.
struct Bearer(HeaderValue);

impl Middleware for Bearer {
    fn handle(
        &self,
        mut request: Request<SendBody<'_>>,
        next: MiddlewareNext<'_>,
    ) -> Result<Response<Body>, ureq::Error> {
        request.headers_mut().insert("Authorization", self.0.clone());
        next.handle(request)
    }
}

pub struct Client<'f> {
    fleet: &'f Fleet,
    actor: String,
    urls: Vec<String>,
    current: Mutex<usize>,
    http: ureq::Agent,
}

impl Client<'_> {
    /// Repeats a call under one key until it is answered, at the next server each time.
    pub fn ask(&self, op: Op, tool: &str, arguments: Value, key: &str) -> Result<Value, Value> {
        self.fleet.hosts[2].enter();
        let deadline = Instant::now() + PATIENCE;
        let answer = || {
            let url = &self.urls[*self.current.lock().unwrap() % self.urls.len()];
            known(call_at(&self.http, &format!("{url}/mcp/execution"), tool, &arguments, key))
        };
        let again = || {
            assert!(Instant::now() < deadline, "{tool} {key} is not answered");
            *self.current.lock().unwrap() += 1;
            self.fleet.pause();
            true
        };
        let answer = self.fleet.history.record(&self.actor, &op, answer, again);
        answer.expect("it is repeated until it is answered")
    }

    pub fn beat(&self, task: &str, fence: u64, text: &str) -> Result<Value, Value> {
        let op = Op::Beat { task: task.to_owned(), fence, text: text.to_owned() };
        let beat = json!({"taskId": task, "status": "in_progress", "note": text, "fence": fence});
        self.ask(op, "update_task_status", beat, &format!("{} {text}", self.actor))
    }

    fn read(&self, task: &str) -> Result<Value, Value> {
        let op = Op::Read { task: task.to_owned() };
        self.ask(op, "get_task", json!({"taskId": task}), "")
    }

    pub fn close(&self, task: &str, fence: u64, key: &str) -> Result<Value, Value> {
        let op = Op::Close { task: task.to_owned(), fence: Some(fence) };
        let output = json!({"taskId": task, "output": key, "fence": fence});
        self.ask(op, "complete_task", output, &format!("{} {key}", self.actor))
    }

    fn note(&self, text: &str) -> Result<Value, Value> {
        self.fleet.hosts[2].enter();
        let (hub, url) = (&self.fleet.hub, format!("{}/mcp/graph", self.urls[0]));
        let op = Op::Note { task: hub.clone(), text: text.to_owned() };
        let arguments = json!({"id": hub, "text": text});
        let answer = || known(call_at(&self.http, &url, "note", &arguments, text));
        let deadline = Instant::now() + PATIENCE;
        let again = || {
            assert!(Instant::now() < deadline, "{text}: never");
            self.fleet.pause();
            true
        };
        self.fleet.history.record(&self.actor, &op, answer, again).expect("it is repeated")
    }

    /// Waits until a lease on the task is over, without a claim.
    pub fn until_free(&self, task: &str) {
        self.fleet.hosts[2].enter();
        let url = format!("{}/mcp/execution", self.urls[0]);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (op, arguments) = (Op::Read { task: task.to_owned() }, json!({"taskId": task}));
            let answer = || known(call_at(&self.http, &url, "get_task", &arguments, ""));
            match self.fleet.history.record(&self.actor, &op, answer, || false) {
                Some(Ok(seen)) if seen["holder"].is_null() => return,
                _ => assert!(Instant::now() < deadline, "{task} is never free"),
            }
        }
    }

    fn wait(&self, task: &str) {
        self.fleet.hosts[2].enter();
        let http = self.fleet.http(&self.actor, PATIENCE + PATIENCE);
        let url = format!("{}/mcp/board", self.urls[0]);
        let seconds = PATIENCE.as_secs();
        let arguments =
            json!({"task_id": task, "wait_for_status": ["DONE"], "timeout_seconds": seconds});
        let op = Op::Wait { task: task.to_owned() };
        let answer = || match known(call_at(&http, &url, "tasks_wait", &arguments, "")) {
            Some(Ok(late)) if late["timed_out"] == true => Some(Err(late)),
            answer => answer,
        };
        self.fleet.history.record(&self.actor, &op, answer, || false);
    }

    /// Does tasks, beginning with that number, until all are closed by one client or another.
    fn work(&self, first: usize) {
        let tasks = self.fleet.tasks.iter().cycle().skip(first).take(TASKS);
        for (n, task) in tasks.cycle().enumerate() {
            if self.fleet.is_over() {
                return;
            }
            if !self.fleet.closed.lock().unwrap().contains(task) {
                let done = self.complete(task, n);
                if let Err(refusal) = done {
                    let code = refusal["code"].as_str().unwrap_or_default();
                    let known =
                        ["task.already_claimed", "task.not_actionable", "task.invariant_violated"];
                    assert!(known.contains(&code), "{refusal}");
                }
            }
        }
    }

    fn complete(&self, task: &str, n: usize) -> Result<(), Value> {
        let key = format!("{} {n}", self.actor);
        let owned = || task.to_owned();
        let lease = json!({"taskId": task, "leaseSec": 5});
        let lease =
            self.ask(Op::Lease { task: owned() }, "claim_task", lease, &format!("{key} l"))?;
        let fence = lease["fence"].as_u64().expect("a fence");
        self.beat(task, fence, &format!("{key} beat"))?;
        self.read(task)?;
        let hub = &self.fleet.hub;
        let op = Op::Depend { task: hub.clone(), dep: owned() };
        let dep = json!({"taskId": hub, "dependsOn": task});
        self.ask(op, "set_dependency", dep, &format!("{key} d"))?;
        self.read(hub)?;
        self.close(task, fence, &format!("{key} end"))?;
        self.fleet.closed(task);
        Ok(())
    }
}

/// `None` for an answer that leaves open what happened. A repeated call whose first answer was lost with the database is
/// refused in words, and says that the call was carried out: the judge then looks for the write.
fn known(answer: Option<Result<Value, Value>>) -> Option<Result<Value, Value>> {
    match answer? {
        Err(refusal) if AWAY.iter().any(|code| refusal["code"] == *code) => None,
        Err(refusal) if refusal["code"] == "input.answer_not_kept" => Some(Ok(Value::Null)),
        answer => Some(answer),
    }
}
