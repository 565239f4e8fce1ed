//! What every store must do with time: a machine that slept, a clock that was wrong, leases that
//! ended without a word.

use callboard_domain::command::{Command, LeaseTarget, LeaseUpdate};
use callboard_domain::policy::Phase;
use callboard_store::{CardQuery, TaskQuery};

use crate::conformance::conformance;
use crate::fixture::Fixture;
use crate::leases::take;

conformance! {
    a_clock_that_was_ahead_does_not_stop_time,
    time_given_by_a_clock_that_was_ahead_ends_too,
    a_lease_survives_a_sleep_whoever_writes_first,
    a_sweep_after_a_sleep_ends_no_lease,
    where_no_server_runs_a_lease_ends_too,
    a_server_gives_time_after_every_sleep,
    lists_show_no_holder_whose_lease_is_over,
}

const DAY_MS: i64 = 24 * 3600 * 1000;

/// One write came from a clock that was a day ahead. Below that time the steady clock counts.
async fn a_clock_that_was_ahead_does_not_stop_time(f: Fixture) {
    let task = f.create("a", &[]).await;
    f.clock.advance_ms(DAY_MS);
    let taken = f.done("agent:w1", take(task, 60)).await;
    f.clock.advance_ms(-DAY_MS);
    assert!(f.store.now() >= taken.at, "time never goes back");
    f.clock.advance_ms(59_999);
    assert_eq!(f.code("agent:w2", take(task, 60)).await, "ALREADY_CLAIMED");
    f.clock.advance_ms(1);
    let again = f.done("agent:w2", take(task, 60)).await;
    assert_eq!(again.at, taken.at.plus_s(60), "time went on");
    assert_eq!(f.store.now(), again.at, "for readers too");

    let neighbour = f.neighbour().await;
    let noted = Command::TaskNote { task, text: "n".into() };
    assert_eq!(neighbour.done("human:ana", noted).await.at, again.at, "a process that starts");
    neighbour.clock.advance_ms(5_000);
    assert_eq!(neighbour.store.now(), again.at.plus_s(5));
    f.clock.advance_ms(2 * DAY_MS);
    let caught_up = f.done("human:ana", Command::TaskNote { task, text: "n".into() }).await;
    assert_eq!(caught_up.at, again.at.plus_ms(2 * DAY_MS), "time never jumps back to the clock");
    f.assert_sound().await;
}

/// A clock that jumps ahead looks like a sleep, so the holder gets grace. No event is written for that, and still
/// the store knows the time it counts from when the clock is set right.
async fn time_given_by_a_clock_that_was_ahead_ends_too(f: Fixture) {
    let task = f.create("a", &[]).await;
    f.done("agent:w1", take(task, 60)).await;
    f.clock.sleep_ms(DAY_MS);
    assert_eq!(f.code("agent:w2", take(task, 60)).await, "ALREADY_CLAIMED");
    f.clock.advance_ms(-DAY_MS);
    assert_eq!(f.code("agent:w2", take(task, 60)).await, "ALREADY_CLAIMED");
    f.clock.advance_ms(60_000);
    f.done("agent:w2", take(task, 60)).await;
    f.assert_sound().await;
}

/// A claim, a sweep and a tick all notice a sleep.
async fn a_lease_survives_a_sleep_whoever_writes_first(f: Fixture) {
    let (task, other) = (f.create("a", &[]).await, f.create("b", &[]).await);
    f.done("agent:w1", take(task, 30)).await;
    f.done("agent:w2", take(other, 30)).await;
    f.clock.advance_ms(10_000);
    f.clock.sleep_ms(DAY_MS);
    assert_eq!(f.code("agent:w3", take(task, 60)).await, "ALREADY_CLAIMED");
    f.clock.advance_ms(59_000);
    let beat = LeaseUpdate {
        task,
        fence: None,
        to: LeaseTarget::Working,
        asked: "in_progress",
        extend: true,
        note: None,
    };
    f.done("agent:w1", Command::LeaseUpdate(beat)).await;
    assert_eq!(f.code("agent:w3", take(other, 60)).await, "ALREADY_CLAIMED");
    f.clock.advance_ms(1_000);
    f.done("agent:w3", take(other, 60)).await;
    f.assert_sound().await;
}

async fn a_sweep_after_a_sleep_ends_no_lease(f: Fixture) {
    let task = f.create("a", &[]).await;
    f.done("agent:w1", take(task, 30)).await;
    f.clock.sleep_ms(DAY_MS);
    for overdue in f.store.attempts_overdue(10).await.unwrap() {
        f.done("system:clock", Command::AttemptExpire { attempt: overdue.attempt }).await;
    }
    let holder = f.record(task).await.task.assignee.map(|actor| actor.to_string());
    assert_eq!(holder.as_deref(), Some("agent:w1"));
}

/// A process that writes without ticking, like a command of the CLI, gives grace once. Otherwise a task would stay
/// with a holder that is gone for as long as no server runs.
async fn where_no_server_runs_a_lease_ends_too(f: Fixture) {
    let task = f.create("a", &[]).await;
    f.done("agent:w1", take(task, 30)).await;
    let command = async |slept_ms: i64| {
        let process = f.neighbour().await;
        process.clock.sleep_ms(slept_ms);
        process.code("agent:w2", take(task, 60)).await
    };
    assert_eq!(command(DAY_MS).await, "ALREADY_CLAIMED", "the machine may have slept");
    assert_eq!(command(DAY_MS + 59_000).await, "ALREADY_CLAIMED");
    assert_eq!(command(DAY_MS + 120_000).await, "", "no server came back to hear the holder");
    f.assert_sound().await;
}

/// A server that noticed one sleep notices the next one, whatever the holder did in between.
async fn a_server_gives_time_after_every_sleep(f: Fixture) {
    let task = f.create("a", &[]).await;
    f.done("agent:w1", take(task, 30)).await;
    f.store.tick().await.unwrap();
    for _ in 0..3 {
        f.clock.sleep_ms(DAY_MS);
        assert_eq!(f.code("agent:w2", take(task, 60)).await, "ALREADY_CLAIMED");
    }
    f.clock.advance_ms(60_000);
    f.done("agent:w2", take(task, 60)).await;
}

/// Label, assignee and filters are judged at the time of the read; nothing is written for that.
async fn lists_show_no_holder_whose_lease_is_over(f: Fixture) {
    let (task, other) = (f.create("a", &[]).await, f.create("b", &[]).await);
    let waits = f.create("c", &[other]).await;
    f.done("agent:w1", take(task, 60)).await;
    let work = |task| {
        let to = LeaseTarget::Working;
        let asked = "in_progress";
        Command::LeaseUpdate(LeaseUpdate { task, fence: None, to, asked, extend: true, note: None })
    };
    f.done("agent:w1", work(task)).await;
    f.done("agent:w2", take(other, 3600)).await;
    f.done("agent:w2", work(other)).await;
    let events = f.store.last_seq().await.unwrap();
    let list = async |change: &dyn Fn(&mut TaskQuery)| {
        let mut query = TaskQuery::of(f.home.project.id, f.policy.clone());
        change(&mut query);
        let found = f.store.tasks(query).await.unwrap();
        let shown = found.iter().map(|row| {
            let task = &row.task;
            let holder = task.assignee.as_ref().map_or("-", |who| who.as_str());
            format!("{} {} {holder}", task.title, task.label)
        });
        shown.collect::<Vec<_>>()
    };
    let label = |label: &'static str| move |query: &mut TaskQuery| query.label = Some(label.into());
    let of = |who: Option<&'static str>| {
        move |query: &mut TaskQuery| query.assignee = Some(who.map(Into::into))
    };
    let startable = |query: &mut TaskQuery| {
        (query.label, query.ready) = (Some("backlog".into()), Some(true));
        query.assignee = Some(None);
    };
    let column = async |phase: Phase| {
        let query = CardQuery {
            org: f.home.org.clone(),
            project: None,
            phases: vec![phase],
            without: Vec::new(),
            words: Vec::new(),
            with_scratchpad: false,
            policy: f.policy.clone(),
            offset: 0,
            limit: 10,
        };
        let page = f.store.cards(query).await.unwrap();
        assert_eq!(page.total, page.cards.len() as u64);
        page.cards.into_iter().map(|row| row.task.title).collect::<Vec<_>>()
    };
    f.clock.advance_ms(59_999);
    assert_eq!(
        list(&label("in_progress")).await,
        ["a in_progress agent:w1", "b in_progress agent:w2"]
    );
    assert_eq!(list(&startable).await, Vec::<String>::new());
    assert_eq!(column(Phase::Working).await, ["a", "b"]);
    f.clock.advance_ms(1);
    assert_eq!(list(&|_| {}).await, ["a backlog -", "b in_progress agent:w2", "c backlog -"]);
    assert_eq!(list(&label("in_progress")).await, ["b in_progress agent:w2"]);
    assert_eq!(list(&label("backlog")).await, ["a backlog -", "c backlog -"]);
    assert_eq!(list(&of(Some("agent:w1"))).await, Vec::<String>::new());
    assert_eq!(list(&of(Some("agent:w2"))).await, ["b in_progress agent:w2"]);
    assert_eq!(list(&of(None)).await, ["a backlog -", "c backlog -"]);
    assert_eq!(list(&startable).await, ["a backlog -"]);
    assert_eq!(column(Phase::Working).await, ["b"]);
    assert_eq!(column(Phase::Initial).await, ["a", "c"]);
    let counts = f.store.tasks_by_state().await.unwrap();
    assert_eq!((counts.ready, counts.blocked, counts.working), (1, 1, 1));
    let first = |query: &mut TaskQuery| {
        label("backlog")(query);
        query.limit = 1;
    };
    assert_eq!(list(&first).await, ["a backlog -"]);
    let next = |query: &mut TaskQuery| {
        first(query);
        query.after = Some(task.id);
    };
    assert_eq!(list(&next).await, ["c backlog -"], "pages go on where they stopped");
    let newest = |query: &mut TaskQuery| {
        first(query);
        query.newest_first = true;
    };
    assert_eq!(list(&newest).await, ["c backlog -"]);
    assert_eq!(f.record(waits).await.task.open_deps, 1);
    assert_eq!(f.store.last_seq().await.unwrap(), events, "a read writes nothing");
}
