//! An event wakes only the waits for its task; sweeps may run at any time and any number of times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use callboard_domain::command::{AttemptBegin, CardUpdate, Command};
use callboard_domain::event::EventTerms;
use callboard_domain::ids::{AttemptId, Id, Prefix, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::retention::{Growing, Retention};
use callboard_domain::retry::{Digest, RetryKey};
use callboard_domain::task::attempt::AttemptKind;
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal, Progress};
use callboard_engine::ports::IdSource;
use callboard_engine::store::clock::ManualClock;
use callboard_engine::store::sqlite::SqliteStore;
use callboard_engine::store::{Op, Place, Store};
use callboard_engine::{
    AuditFilter, CardWait, CardWaited, Engine, EngineError, EventsWanted, Parts, TaskDraft,
    WaitEnd, WaitOutcome, Watch,
};
use tokio::task::JoinHandle;

struct Counting(AtomicU64);

impl IdSource for Counting {
    fn next_id(&self) -> Id {
        Id(u128::from(self.0.fetch_add(1, Ordering::SeqCst)) << 64)
    }
}

struct World {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    _folder: tempfile::TempDir,
}

async fn world() -> World {
    world_that_keeps(Retention::default()).await
}

async fn world_that_keeps(retention: Retention) -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::at(Timestamp(1_700_000_000_000_000)));
    let store = SqliteStore::open(&folder.path().join("test.db"), clock.clone()).expect("opens");
    let store: Arc<dyn Store> = Arc::new(store);
    let place = Place {
        org: "default".into(),
        project_name: "demo".into(),
        prefix: Some(Prefix::parse("DEMO").expect("a prefix")),
        repo: None,
        store_is_inside: false,
    };
    let home = store.settle(place).await.expect("settles");
    let engine = Engine::new(Parts {
        retention,
        ..Parts::bare(home, store, Arc::new(Counting(AtomicU64::new(1))))
    });
    World { engine, clock, _folder: folder }
}

fn op(who: &str) -> OpContext {
    OpContext::new(Principal::local(who.parse().expect("an actor")), "test")
}

impl World {
    async fn task(&self, title: &str) -> TaskId {
        let draft = TaskDraft { title: title.into(), ..TaskDraft::default() };
        self.engine.task_create(&op("human:ana"), draft).await.expect("created").it.task.id
    }

    /// Leases a task, as other toolsets do.
    async fn lease(&self, task: TaskId, seconds: u32) {
        let begin = AttemptBegin {
            attempt: AttemptId(Id(task.id.0 + 1)),
            task,
            kind: AttemptKind::Execution,
            key: None,
            expected_actor: None,
            client: None,
            bound_client: None,
            model: None,
            worktree: None,
            branch: None,
            head: None,
            lease_s: Some(seconds),
            takeover: false,
        };
        let leased = self.engine.store().apply(Op {
            org: "default".into(),
            actor: "agent:w1".parse().expect("an actor"),
            tool: "test",
            retry_key: None,
            policy: self.engine.policy().clone(),
            command: Command::AttemptBegin(begin),
        });
        leased.await.expect("leased");
    }
}

async fn has_changed(watch: &Watch) -> bool {
    // Watches of all events are woken last, and the caller has waited for one: one look, without any time, is enough.
    tokio::time::timeout(Duration::ZERO, watch.changed()).await.is_ok()
}

#[tokio::test]
async fn a_change_wakes_only_who_watches_its_task() {
    let w = world().await;
    let (a, b) = (w.task("a").await, w.task("b").await);
    let watch_a = w.engine.task_watch(a).await.expect("watches");
    let watch_b = w.engine.task_watch(b).await.expect("watches");
    let any = w.engine.event_watch().await.expect("watches");
    w.engine.task_note(&op("agent:x"), a, "hello".into()).await.expect("noted");
    watch_a.changed().await;
    any.changed().await;
    assert!(!has_changed(&watch_b).await, "b did not change");
    w.engine.task_note(&op("agent:x"), b, "hello".into()).await.expect("noted");
    watch_b.changed().await;
}

#[tokio::test]
async fn a_wait_ends_with_its_goal_or_its_time() {
    let w = world().await;
    let task = w.task("awaited").await;
    let states = ["in_review".to_owned(), "closed".to_owned()];
    let soon = w.engine.task_wait(&op("human:ana"), task, &states, Duration::ZERO).await;
    assert!(matches!(soon, Ok(WaitOutcome::TimedOut(_))));

    let (engine, goal) = (w.engine.clone(), states.clone());
    let waiting = tokio::spawn(async move {
        engine.task_wait(&op("human:ana"), task, &goal, Duration::from_secs(60)).await
    });
    w.engine.task_note(&op("agent:x"), task, "not yet".into()).await.expect("noted");
    w.engine.task_transition(&op("agent:x"), task, "canceled".into()).await.expect("moved");
    match waiting.await.expect("it ends") {
        Ok(WaitOutcome::Reached(seen)) => assert_eq!(seen.it.task.label, "canceled"),
        other => panic!("not reached: {other:?}"),
    }

    let unknown = ["nowhere".to_owned()];
    let refused = w.engine.task_wait(&op("human:ana"), task, &unknown, Duration::ZERO).await;
    assert!(
        matches!(refused, Err(EngineError::Refused(refusal)) if refusal.code() == "UNKNOWN_STATE")
    );
}

#[tokio::test]
async fn a_cancelled_wait_ends_at_once() {
    let w = world().await;
    let task = w.task("awaited").await;
    let cancelled = op("human:ana");
    cancelled.cancel.cancel();
    let states = ["done".to_owned()];
    let ended = w.engine.task_wait(&cancelled, task, &states, Duration::from_secs(60)).await;
    assert!(matches!(ended, Err(EngineError::Canceled)));
}

#[tokio::test]
async fn sweeping_writes_each_expired_lease_down_once() {
    let w = world().await;
    for title in ["a", "b"] {
        let task = w.task(title).await;
        w.lease(task, 60).await;
    }
    assert_eq!(w.engine.sweep_leases().await.expect("sweeps"), 0);
    w.clock.advance_ms(60_000);
    assert_eq!(w.engine.sweep_leases().await.expect("sweeps"), 2);
    let events = w.engine.last_seq().await.expect("readable");
    assert_eq!(w.engine.sweep_leases().await.expect("sweeps"), 0);
    assert_eq!(w.engine.last_seq().await.expect("readable"), events, "nothing new to write");
    assert_eq!(w.engine.task_next(&op("agent:w2"), 10).await.expect("read").it.len(), 2);
    assert_eq!(w.engine.store().verify().await.expect("verifies"), Vec::new());
}

/// After a sleep of the machine the sweep may run before the watch; the holder keeps its task either way.
#[tokio::test]
async fn a_sweep_right_after_a_sleep_takes_no_task() {
    let w = world().await;
    let task = w.task("a").await;
    w.lease(task, 60).await;
    w.clock.advance_ms(10_000);
    w.clock.sleep_ms(8 * 3_600_000);
    let holder = async || {
        let seen = w.engine.task_get(&op("human:ana"), task).await.expect("readable");
        seen.it.task.assignee.map(|who| who.to_string())
    };
    assert_eq!(holder().await, None, "before the first write the lease is over for readers");
    w.engine.sweep_leases().await.expect("sweeps");
    assert!(holder().await.is_some(), "the sweep gave the holder time");
    w.engine.watch_leases().await.expect("watches");
    w.clock.advance_ms(59_999);
    w.engine.sweep_leases().await.expect("sweeps");
    assert!(holder().await.is_some());
    w.clock.advance_ms(1);
    assert_eq!(w.engine.sweep_leases().await.expect("sweeps"), 1);
    assert_eq!(holder().await, None);
    assert_eq!(w.engine.store().verify().await.expect("verifies"), Vec::new());
}

#[tokio::test]
async fn sweeping_leftovers_forgets_old_retry_keys_only() {
    let w = world().await;
    let keyed = |key: &str| OpContext {
        retry_key: RetryKey::new("key", key, Digest::of(&serde_json::Value::Null)).ok(),
        ..op("agent:x")
    };
    let draft = || TaskDraft { title: "once".into(), ..TaskDraft::default() };
    let id = |key: &'static str| {
        let (engine, op) = (w.engine.clone(), keyed(key));
        async move { engine.task_create(&op, draft()).await.expect("created").it.task.id }
    };
    let old = id("old").await;
    w.clock.advance_ms(23 * 3_600_000);
    let young = id("young").await;
    w.clock.advance_ms(2 * 3_600_000);
    w.engine.sweep_leftovers().await.expect("sweeps");
    w.engine.sweep_leftovers().await.expect("sweeps again");
    assert_eq!(id("young").await, young);
    assert_ne!(id("old").await, old);
}

#[tokio::test]
async fn readers_of_the_log_are_told_of_removed_events() {
    let kept = Retention { events_days: Some(30), ..Retention::default() };
    let w = world_that_keeps(kept).await;
    let ana = op("human:ana");
    let old = w.task("old").await;
    w.engine.task_remove(&ana, old).await.expect("removed");
    w.clock.advance_ms(40 * 86_400_000);
    w.task("new").await;
    let newest = w.engine.last_seq().await.expect("a number");
    let follow = async |after| {
        w.engine.event_follow(&ana, Some(after), EventsWanted::default()).await.map(|_| ())
    };
    let page = async || {
        let page = w.engine.event_page(&ana, &EventTerms::default(), None, 10).await;
        let filter = AuditFilter { capability: None, before: None, limit: 10 };
        let audit = w.engine.audit_tail(&ana, filter).await.expect("an audit");
        (page.expect("a page").whole_from, audit.whole_from)
    };
    assert_eq!(w.engine.prune().await.expect("prunes"), 0, "no event is counted yet");
    assert!(follow(0).await.is_ok(), "the log is whole");
    assert_eq!(page().await, (None, None));
    w.engine.days_count().await.expect("counts");
    let going = w.engine.prunable(Growing::Event).await.expect("looks");
    assert_eq!(w.engine.prune().await.ok(), going);
    let first = w.engine.log_floor().await.expect("a floor").seq;
    assert!(going.is_some_and(|going| going > 0) && first <= newest, "{going:?} {first}");
    assert_eq!(w.engine.prunable(Growing::Event).await.expect("looks"), Some(0));
    assert_eq!(w.engine.prunable(Growing::Mail).await.expect("looks"), None, "kept for ever");
    for after in [0, first - 2] {
        let EngineError::Refused(refused) = follow(after).await.expect_err("events are missing")
        else {
            panic!("a refusal")
        };
        assert_eq!(refused.code(), "REMOVED_BY_RETENTION");
        let whole = format!("whole after {}", first - 1);
        assert!(refused.message().contains(&whole), "{}", refused.message());
    }
    assert!(follow(first - 1).await.is_ok() && follow(newest).await.is_ok());
    assert_eq!(page().await, (Some(first), Some(first)));
    assert_eq!(w.engine.store().verify().await.expect("verifies"), Vec::new());
}

#[tokio::test]
async fn who_may_not_write_changes_nothing() {
    let w = world().await;
    let task = w.task("a").await;
    let mut reader = op("agent:x");
    reader.principal.rights.scopes = vec![callboard_engine::context::Scope::TasksRead];
    let refused = w.engine.task_claim(&reader, task).await;
    assert!(matches!(refused, Err(EngineError::Refused(r)) if r.code() == "AUTHORIZATION_DENIED"));
    reader.principal.rights.scopes.clear();
    let refused = w.engine.task_get(&reader, task).await;
    assert!(matches!(refused, Err(EngineError::Refused(r)) if r.code() == "AUTHORIZATION_DENIED"));
}

/// Starts a wait of the board and returns when it is under way.
async fn card_wait(w: &World, op: &OpContext, task: TaskId) -> JoinHandle<CardWaited> {
    let (engine, op) = (w.engine.clone(), op.clone());
    let wait = CardWait { task, goals: Vec::new(), since: None, timeout: Duration::from_secs(900) };
    let waiting =
        tokio::spawn(async move { engine.card_wait(&op, &wait).await.expect("it can be waited") });
    while w.engine.card_waits() == 0 {
        tokio::task::yield_now().await;
    }
    waiting
}

#[tokio::test]
async fn a_canceled_wait_of_the_board_is_gone_at_once() {
    let w = world().await;
    let task = w.task("a").await;
    let waiter = op("agent:x");
    let waiting = card_wait(&w, &waiter, task).await;
    waiter.cancel.cancel();
    let waited = waiting.await.expect("it ends");
    assert_eq!(waited.why, WaitEnd::Interrupted);
    assert!(waited.task.is_some(), "for its cursor");
    assert_eq!(w.engine.card_waits(), 0);
}

#[tokio::test]
async fn whoever_waits_at_the_board_hears_every_15_seconds_that_the_wait_goes_on() {
    let w = world().await;
    let task = w.task("a").await;
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = said.clone();
    let mut waiter = op("agent:x");
    waiter.progress = Progress::new(move |report| heard.lock().expect("no panic").push(report));
    tokio::time::pause();
    let waiting = card_wait(&w, &waiter, task).await;
    while said.lock().expect("no panic").is_empty() {
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    for _ in 0..61 {
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    waiter.cancel.cancel();
    waiting.await.expect("it ends");
    let said = said.lock().expect("no panic");
    assert!(said.iter().all(|report| report.total == Some(900.0)), "{said:?}");
    let mut times: Vec<f64> = said.iter().map(|report| report.done).collect();
    assert!(times[0] < 1.0, "at the start: {times:?}");
    times.push(61.0);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 15.0), "{times:?}");
}

#[tokio::test]
async fn a_status_that_came_and_went_ends_a_wait_of_the_board() {
    let w = world().await;
    let task = w.task("a").await;
    let waiting = card_wait(&w, &op("agent:x"), task).await;
    for to in [Phase::Working, Phase::Initial] {
        let update = CardUpdate { to: Some(to), ..CardUpdate::of(task) };
        w.engine.card_update(&op("agent:y"), update).await.expect("moved");
    }
    let waited = waiting.await.expect("it ends");
    assert!(matches!(waited.why, WaitEnd::Changed(_)), "{:?}", waited.why);
    assert_eq!(waited.before, Phase::Initial);
}

#[tokio::test]
async fn among_many_waits_only_the_one_that_is_meant_looks_again() {
    const WAITS: usize = 2_000;
    let w = world().await;
    let mut tasks = Vec::with_capacity(WAITS);
    for n in 0..WAITS {
        tasks.push(w.task(&format!("task {n}")).await);
    }
    let mut waiting = Vec::with_capacity(WAITS);
    for task in tasks {
        waiting.push((task, card_wait(&w, &op("agent:x"), task).await));
    }
    while w.engine.card_waits() < WAITS {
        tokio::task::yield_now().await;
    }
    let (task, one) = waiting.swap_remove(WAITS / 2);
    let any = w.engine.event_watch().await.expect("watches");
    // A watch of all events is woken last, and a tokio task of its own also runs last.
    let all_were_woken = tokio::spawn(async move { any.changed().await });
    let update = CardUpdate { to: Some(Phase::Working), ..CardUpdate::of(task) };
    w.engine.card_update(&op("agent:y"), update).await.expect("moved");
    let waited = one.await.expect("it ends");
    all_were_woken.await.expect("it ends");
    assert!(matches!(waited.why, WaitEnd::Changed(_)), "{:?}", waited.why);
    assert_eq!(w.engine.wait_looks(), 1, "nobody else had a reason to look");
    assert_eq!(w.engine.card_waits(), WAITS - 1);
}

#[tokio::test]
async fn whoever_follows_the_log_hears_everything_once_however_slow() {
    let w = world().await;
    let op = op("human:ana");
    let before = w.engine.last_seq().await.expect("a number");
    let all = EventsWanted::default;
    let mut quick = w.engine.event_follow(&op, None, all()).await.expect("follows");
    // More events happen than the tail keeps for this reader.
    let mut slow = w.engine.event_follow(&op, None, all()).await.expect("follows");
    let heard = tokio::spawn(async move {
        let mut heard = Vec::new();
        while heard.len() < 400 {
            heard.push(quick.next().await.expect("an event").seq);
        }
        (heard, quick)
    });
    for n in 0..400 {
        w.task(&n.to_string()).await;
    }
    let wanted: Vec<u64> = (before + 1..=before + 400).collect();
    let (heard, quick) = heard.await.expect("it hears");
    assert_eq!(heard, wanted);
    assert_eq!(quick.position(), before + 400);
    let mut late = w.engine.event_follow(&op, Some(before), all()).await.expect("follows");
    for follow in [&mut slow, &mut late] {
        let mut heard = Vec::new();
        while heard.len() < wanted.len() {
            heard.push(follow.next().await.expect("an event").seq);
        }
        assert_eq!(heard, wanted);
    }
    // A new reader comes after all readers have left.
    drop((quick, slow, late));
    let mut again = w.engine.event_follow(&op, None, all()).await.expect("follows");
    w.task("one more").await;
    assert_eq!(again.next().await.expect("an event").seq, before + 401);
}
