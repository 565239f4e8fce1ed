//! Jobs for agents and the loop that runs them: what makes that loop look at the queue.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::event::EventName;
use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{JobSpec, Problem, RunVerdict};
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::ports::{AgentRunner, Asks, RunOrder, RunReport};
use callboard_engine::store::clock::SystemClock;
use callboard_engine::store::sqlite::SqliteStore;
use callboard_engine::store::{EventQuery, Place, Store};
use callboard_engine::{Alert, Engine, LogQuery, LogSpan, Parts, RunRule};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};

/// An agent that reports which job it begins, and ends when it may.
struct Agent {
    begun: mpsc::UnboundedSender<String>,
    may_end: Semaphore,
}

#[async_trait]
impl AgentRunner for Agent {
    async fn repo_problems(&self, _: &Repo) -> Vec<Problem> {
        Vec::new()
    }

    async fn run(&self, order: RunOrder, _: Arc<dyn Asks>, stop: CancellationToken) -> RunReport {
        let lines = if order.spec.idempotency_key == "long" { 100_001 } else { 1 };
        let logs = (0..lines).map(|n| format!("line {n} of what an agent printed\n")).collect();
        let _ = self.begun.send(order.spec.idempotency_key);
        let verdict = tokio::select! {
            _ = self.may_end.acquire() => RunVerdict::Succeeded,
            () = stop.cancelled() => RunVerdict::Stopped,
        };
        let (patch, out) = (None, None);
        RunReport { verdict, summary: "done".into(), patch, out, logs, usage: None }
    }

    async fn clean_up(&self) {}
}

/// One process of several on a store; its own clock makes it look at the queue only once an hour.
struct Process {
    engine: Arc<Engine>,
    agent: Arc<Agent>,
    begun: mpsc::UnboundedReceiver<String>,
    working: Option<DropGuard>,
}

impl Process {
    async fn start(folder: &Path, alert: Option<Alert>) -> Self {
        let look_every = Duration::from_secs(3600);
        let rule = RunRule { look_every, running_max: 1, ..RunRule::default() };
        Self::start_with(folder, alert, rule).await
    }

    async fn start_with(folder: &Path, alert: Option<Alert>, runs: RunRule) -> Self {
        let store = SqliteStore::open(&folder.join("test.db"), Arc::new(SystemClock));
        let store: Arc<dyn Store> = Arc::new(store.expect("opens"));
        let (sender, begun) = mpsc::unbounded_channel();
        let agent = Arc::new(Agent { begun: sender, may_end: Semaphore::new(0) });
        let home = store.settle(Place::of_org("default")).await.expect("settles");
        let engine = Engine::new(Parts {
            runs,
            agents: Some(agent.clone()),
            ..Parts::bare(home, store, Arc::new(TimeOrderedIds))
        });
        let stop = CancellationToken::new();
        if let Some(alert) = alert {
            tokio::spawn(engine.clone().run_agents_until(stop.clone(), alert));
        }
        Self { engine, agent, begun, working: Some(stop.drop_guard()) }
    }

    async fn submit(&self, key: &str) {
        let op = OpContext::new(Principal::local("agent:a".parse().expect("an actor")), "test");
        self.engine.run_submit(&op, spec(key)).await.expect("a good spec");
    }

    async fn begins(&mut self) -> String {
        self.begun.recv().await.expect("the agent lives")
    }
}

/// The times and the jobs of all events of this name, in their order, once there are `count`.
async fn told(engine: &Engine, name: EventName, count: usize) -> Vec<(Timestamp, String)> {
    let watch = engine.event_watch().await.expect("a watch");
    loop {
        let query = EventQuery { limit: 1000, ..EventQuery::default() };
        let events = engine.store().events(query).await.expect("a log");
        let found = events.into_iter().filter(|event| event.name == name);
        let found: Vec<_> = found.map(|event| (event.at, event.data["job"].to_string())).collect();
        if found.len() >= count {
            return found;
        }
        watch.changed().await;
    }
}

fn spec(key: &str) -> JobSpec {
    let spec = json!({
        "repo": {
            "type": "git",
            "url": "https://example.org/x.git",
            "baseBranch": "main",
            "baselineCommit": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
        },
        "task": {"title": "t", "description": "d", "acceptance": []},
        "scope": {"readPaths": [], "disallowReformatting": false},
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {
            "preferredModel": "m",
            "sandbox": "read-only",
            "askPolicy": "untrusted",
            "priority": "P1",
            "ttlS": 600,
        },
        "idempotencyKey": key,
    });
    serde_json::from_value(spec).expect("a good spec")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_wakes_the_worker_of_its_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut process = Process::start(folder.path(), Some(Alert::Own)).await;
    for key in ["a", "b"] {
        process.submit(key).await;
        assert_eq!(process.begins().await, key);
        process.agent.may_end.add_permits(1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submit_elsewhere_wakes_a_worker_that_hears_everybody() {
    let folder = tempfile::tempdir().expect("a folder");
    let submitter = Process::start(folder.path(), None).await;
    let mut worker = Process::start(folder.path(), Some(Alert::Everybody)).await;
    // The worker hears of other processes from its first look on.
    worker.submit("first").await;
    assert_eq!(worker.begins().await, "first");
    worker.agent.may_end.add_permits(2);
    submitter.submit("second").await;
    assert_eq!(worker.begins().await, "second");
}

/// With one run at a time on a machine, a place that another process frees is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_gets_free_elsewhere_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut one = Process::start(folder.path(), Some(Alert::Own)).await;
    one.submit("first").await;
    assert_eq!(one.begins().await, "first");
    let mut two = Process::start(folder.path(), Some(Alert::Everybody)).await;
    two.submit("second").await;
    // The first process takes no further job; its run may end.
    drop(one.working.take());
    one.agent.may_end.add_permits(1);
    assert_eq!(two.begins().await, "second");
}

/// Every commit has a time of its own, so equal times are one commit.
#[tokio::test(flavor = "multi_thread")]
async fn due_jobs_are_leased_and_renewed_in_one_commit_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let submitter = Process::start(folder.path(), None).await;
    for key in ["a", "b", "c", "d", "e"] {
        submitter.submit(key).await;
    }
    let heartbeat = Duration::from_millis(500);
    let rule = RunRule { running_max: 4, heartbeat, ..RunRule::default() };
    let mut worker = Process::start_with(folder.path(), Some(Alert::Own), rule).await;
    for _ in 0..4 {
        worker.begins().await;
    }
    let leased = told(&worker.engine, EventName::JobStarted, 4).await;
    assert_eq!(leased.len(), 4, "the machine has four places");
    assert!(leased.iter().all(|(at, _)| *at == leased[0].0), "{leased:?}");
    let kept = told(&worker.engine, EventName::JobKept, 4).await;
    let mut jobs: Vec<&String> = kept[..4].iter().map(|(_, job)| job).collect();
    jobs.sort();
    jobs.dedup();
    assert_eq!(jobs.len(), 4, "each lease once");
    assert!(kept[..4].iter().all(|(at, _)| *at == kept[0].0), "{kept:?}");
    // A place that gets free is taken by the job that waits.
    worker.agent.may_end.add_permits(1);
    assert_eq!(told(&worker.engine, EventName::JobStarted, 5).await.len(), 5);
}

/// The log is longer than a page, and than one part of a file.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_is_read_by_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut process = Process::start(folder.path(), Some(Alert::Own)).await;
    let op = OpContext::new(Principal::local("agent:a".parse().expect("an actor")), "test");
    let engine = process.engine.clone();
    let job = engine.run_submit(&op, spec("long")).await.expect("a good spec").record.job.id;
    assert_eq!(process.begins().await, "long");
    let query = LogQuery::default();
    let (_, none) = engine.run_log_lines(&op, job, &query).await.expect("a run");
    assert_eq!(none, None);
    process.agent.may_end.add_permits(1);
    let mut follow = engine.run_follow(&op, job).await.expect("a run");
    while follow.next().await.expect("a log").is_some() {}
    let (_, text) = engine.run_log(&op, job).await.expect("a run");
    let text = text.expect("a log");
    assert!(text.len() > 3 * 1024 * 1024, "{}", text.len());
    for (span, first, last) in [
        (LogSpan::Last, 99_502, 100_001),
        (LogSpan::From { first: 1, last: 500 }, 1, 500),
        (LogSpan::UpTo(50_000), 49_501, 50_000),
    ] {
        let query = LogQuery { span, ..LogQuery::default() };
        let (_, window) = engine.run_log_lines(&op, job, &query).await.expect("a run");
        let window = window.expect("a log");
        let ends = [window.lines.first(), window.lines.last()].map(|line| line.expect("a line"));
        assert_eq!(ends.map(|line| line.number), [first, last], "{span:?}");
        for line in ends {
            assert_eq!(Some(&*line.text), text.lines().nth(line.number as usize - 1), "{span:?}");
        }
        assert_eq!(window.total, 100_001);
    }
}
