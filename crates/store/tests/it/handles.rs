//! What every store must do with the handles of long calls.

use callboard_domain::handle::{
    Handle, HandleChange, HandleEnd, HandleId, HandleState, KEPT_MS, LEASE_MS, Live, Seen,
};
use callboard_domain::rights::Scope;
use serde_json::{Map, Value, json};

use crate::conformance::conformance;
use crate::fixture::{Fixture, next_id, place};

conformance! {
    a_handle_is_read_back_by_every_process,
    a_handle_ends_once,
    a_handle_that_nobody_keeps_has_failed,
    answers_reach_whoever_asked,
    many_handles_are_kept_at_once,
    handles_are_forgotten_when_they_expire,
}

/// The handle of a call that has just become long.
pub async fn opened(f: &Fixture) -> Handle {
    let now = f.store.now();
    let handle = Handle {
        id: HandleId(next_id()),
        org: f.home.org.clone(),
        actor: "agent:w1".parse().unwrap(),
        tool: "run_checks".into(),
        scope: Scope::TasksWrite,
        runner: "runner:here".parse().unwrap(),
        state: HandleState::Live(Live::new(now)),
        message: Some("running \u{1f980} 'check' 0".into()),
        created_at: now,
        updated_at: now,
        expires_at: now.plus_ms(KEPT_MS),
    };
    f.store.handle_add(handle.clone()).await.unwrap();
    handle
}

pub fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

async fn change(f: &Fixture, id: HandleId, change: HandleChange) -> Handle {
    f.store.handle_change(id, change).await.unwrap().unwrap()
}

async fn read(f: &Fixture, id: HandleId) -> Handle {
    f.store.handle(&f.home.org, id).await.unwrap().unwrap()
}

fn end(end: HandleEnd) -> HandleChange {
    HandleChange::End(end)
}

async fn a_handle_is_read_back_by_every_process(f: Fixture) {
    let handle = opened(&f).await;
    let other = f.neighbour().await;
    assert_eq!(read(&other, handle.id).await, handle);
    let unknown = HandleId(next_id());
    assert_eq!(other.store.handle("default", unknown).await.unwrap(), None);
    assert_eq!(other.store.handle_change(unknown, HandleChange::Cancel).await.unwrap(), None);
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(other.store.handle("other", handle.id).await.unwrap(), None, "another org's");

    f.clock.advance_ms(1000);
    other.clock.advance_ms(1000);
    let cancelled = change(&other, handle.id, HandleChange::Cancel).await;
    assert_eq!(read(&f, handle.id).await, cancelled);
    assert!(cancelled.live(f.store.now()).unwrap().cancel_asked);
    assert_eq!(cancelled.updated_at, handle.updated_at.plus_ms(1000));
}

async fn a_handle_ends_once(f: Fixture) {
    let ends = [
        HandleEnd::Completed(json!({"content": [{"text": "\u{0} é \\"}], "isError": false})),
        HandleEnd::Failed(Some(json!({"code": -32603}))),
        HandleEnd::Failed(None),
        HandleEnd::Cancelled,
    ];
    for first in &ends {
        let handle = opened(&f).await;
        let ended = change(&f, handle.id, end(first.clone())).await;
        assert_eq!(read(&f, handle.id).await, ended);
        let seen = ended.seen(f.store.now());
        match first {
            HandleEnd::Completed(result) => assert_eq!(seen, Seen::Completed(result)),
            HandleEnd::Failed(error) => assert_eq!(seen, Seen::Failed(error.as_ref())),
            HandleEnd::Cancelled => assert_eq!(seen, Seen::Cancelled),
        }
        for late in &ends {
            assert_eq!(change(&f, handle.id, end(late.clone())).await, ended);
        }
        assert_eq!(change(&f, handle.id, HandleChange::Cancel).await, ended);
    }
    f.assert_sound().await;
}

async fn a_handle_that_nobody_keeps_has_failed(f: Fixture) {
    let (kept, left) = (opened(&f).await, opened(&f).await);
    f.clock.advance_ms(LEASE_MS - 1);
    let keep = HandleChange::Keep { message: Some("still there".into()) };
    change(&f, kept.id, keep.clone()).await;
    f.clock.advance_ms(1);
    let now = f.store.now();
    assert_eq!(read(&f, kept.id).await.seen(now), Seen::Working);
    assert_eq!(read(&f, kept.id).await.message.as_deref(), Some("still there"));
    assert_eq!(read(&f, left.id).await.seen(now), Seen::Failed(None));
    let late = change(&f, left.id, keep).await;
    assert_eq!(late.seen(f.store.now()), Seen::Failed(None), "nothing brings it back");
    let late = change(&f, left.id, end(HandleEnd::Completed(json!(1)))).await;
    assert_eq!(late.seen(f.store.now()), Seen::Failed(None));
}

async fn answers_reach_whoever_asked(f: Fixture) {
    let id = opened(&f).await.id;
    let questions = map(json!({"ask_1": {"method": "elicitation/create"}, "ask_2": {}}));
    change(&f, id, HandleChange::Ask { questions }).await;
    let other = f.neighbour().await;
    let answer = |answers| HandleChange::Answer { answers: map(answers) };
    change(&other, id, answer(json!({"ask_2": {"action": "accept"}, "else": 1}))).await;
    let left = map(json!({"ask_1": {"method": "elicitation/create"}}));
    assert_eq!(read(&f, id).await.seen(f.store.now()), Seen::Asking(&left));
    change(&other, id, answer(json!({"ask_1": 1, "ask_2": "too late"}))).await;
    let seen = read(&f, id).await;
    assert_eq!(seen.seen(f.store.now()), Seen::Working);
    let answers = &seen.live(f.store.now()).unwrap().answers;
    assert_eq!(*answers, map(json!({"ask_1": 1, "ask_2": {"action": "accept"}})));
}

async fn many_handles_are_kept_at_once(f: Fixture) {
    let (mut handles, keep) =
        (Vec::new(), |message: String| HandleChange::Keep { message: Some(message) });
    for _ in 0..20 {
        handles.push(opened(&f).await);
    }
    change(&f, handles[3].id, HandleChange::Cancel).await;
    change(&f, handles[7].id, end(HandleEnd::Failed(None))).await;
    f.clock.advance_ms(LEASE_MS - 1);
    let unknown = HandleId(next_id());
    let ids = [unknown].into_iter().chain(handles.iter().rev().map(|handle| handle.id));
    let changes = ids.clone().enumerate().map(|(n, id)| (id, keep(format!("step {n}"))));
    let kept = f.store.handles_change(changes.collect()).await.unwrap();
    assert!(kept.iter().map(|handle| handle.id).eq(ids.skip(1)), "in the order asked for");
    f.clock.advance_ms(1);
    let now = f.store.now();
    for (handle, told) in handles.iter().rev().zip(&kept) {
        assert_eq!(read(&f, handle.id).await, *told);
        let live = told.live(now);
        assert_eq!(live.is_some(), handle.id != handles[7].id, "one was over");
        assert_eq!(live.is_some_and(|live| live.cancel_asked), handle.id == handles[3].id);
    }
    assert_eq!(kept[0].message.as_deref(), Some("step 1"));
    assert_eq!(f.store.handles_change(Vec::new()).await.unwrap(), Vec::new());
}

async fn handles_are_forgotten_when_they_expire(f: Fixture) {
    let (ended, lost) = (opened(&f).await, opened(&f).await);
    f.clock.advance_ms(5000);
    change(&f, ended.id, end(HandleEnd::Cancelled)).await;
    let there = async |id| f.store.handle("default", id).await.unwrap().is_some();
    f.clock.advance_ms(KEPT_MS - 5000);
    f.store.handles_prune(f.store.now()).await.unwrap();
    assert!(there(ended.id).await && there(lost.id).await, "not a moment too early");
    f.clock.advance_ms(1);
    f.store.handles_prune(f.store.now()).await.unwrap();
    assert!(there(ended.id).await && !there(lost.id).await);
    f.clock.advance_ms(5000);
    let mut long = opened(&f).await;
    long.id = HandleId(next_id());
    long.expires_at = long.created_at;
    f.store.handle_add(long.clone()).await.unwrap();
    f.clock.advance_ms(1);
    f.store.handles_prune(f.store.now()).await.unwrap();
    assert!(!there(ended.id).await && there(long.id).await, "one at work is not forgotten");
}
