//! Calls of two processes on PostgreSQL that certainly meet: a connection of the test holds a row until both calls wait for
//! it. A writer that decides before it has the row's lock then decides on what the other one is about to change.

use std::sync::Arc;

use callboard_domain::command::Command;
use callboard_domain::event::EventName;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::runs::job::JobId;
use callboard_store::EventQuery;
use uuid::Uuid;

use crate::fixture::{Fixture, next_id};
use crate::leases;
use crate::postgres::{assert_no_gaps, schema};

/// Gives each of two processes a command, at the same moment for a row. Returns the codes of their answers in order.
async fn met(
    f: &Arc<Fixture>,
    (table, row): (&str, Id),
    commands: [Command; 2],
) -> [&'static str; 2] {
    let servers = [f.clone(), Arc::new(f.neighbour().await)];
    let (holder, beside) = (schema(f).connect().await, schema(f).connect().await);
    holder.batch_execute("BEGIN").await.unwrap();
    let hold = format!("SELECT 1 FROM {table} WHERE id = $1 FOR NO KEY UPDATE");
    holder.query_one(&hold, &[&Uuid::from_u128(row.0)]).await.unwrap();
    let mut waiting = 0;
    let calls = servers.into_iter().zip(commands).enumerate().map(|(n, (server, command))| {
        tokio::spawn(async move { server.code(&format!("agent:w{n}"), command).await })
    });
    let calls: Vec<_> = calls.collect();
    while waiting < 2 {
        waiting = schema(f).waiting_for_rows(&beside).await;
        assert!(!calls.iter().any(|call| call.is_finished()), "it did not wait");
    }
    holder.batch_execute("COMMIT").await.unwrap();
    let mut codes = Vec::new();
    for call in calls {
        codes.push(call.await.unwrap());
    }
    codes.sort_unstable();
    codes.try_into().unwrap()
}

async fn happened(f: &Fixture, name: EventName) -> usize {
    let all = EventQuery { org: None, after: 0, task: None, limit: usize::MAX };
    let events = f.store.events(all).await.unwrap();
    events.iter().filter(|event| event.name == name).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_claims_that_meet_one_wins() {
    let Some(f) = Fixture::postgres().await.map(Arc::new) else { return };
    let task = f.create("wanted", &[]).await;
    let claim = || Command::TaskClaim { task };
    let codes = met(&f, ("tasks", task.id), [claim(), claim()]).await;
    assert_eq!(codes, ["", "ALREADY_CLAIMED"]);
    assert_eq!(happened(&f, EventName::TaskClaimed).await, 1);
    assert_no_gaps(&f).await;
    f.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_leases_that_meet_one_wins_and_the_fence_rises_once() {
    let Some(f) = Fixture::postgres().await.map(Arc::new) else { return };
    let task = f.create("wanted", &[]).await;
    let take = || leases::take(task, 60);
    let codes = met(&f, ("tasks", task.id), [take(), take()]).await;
    assert_eq!(codes, ["", "ALREADY_CLAIMED"]);
    assert_eq!(f.record(task).await.task.fence, 1);
    assert_no_gaps(&f).await;
    f.assert_sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_that_meet_are_both_kept() {
    let Some(f) = Fixture::postgres().await.map(Arc::new) else { return };
    let task = f.create("noted", &[]).await;
    let lines = f.record(task).await.entries.len();
    let note = |text: &str| Command::TaskNote { task, text: text.into() };
    assert_eq!(met(&f, ("tasks", task.id), [note("one"), note("two")]).await, ["", ""]);
    assert_eq!(f.record(task).await.entries.len(), lines + 2);
    assert_no_gaps(&f).await;
    f.assert_sound().await;
}

/// Each call closes a task of its own, and both change the count of the task that depends on the two.
#[tokio::test(flavor = "multi_thread")]
async fn deps_that_close_at_once_are_both_counted() {
    let Some(f) = Fixture::postgres().await.map(Arc::new) else { return };
    let deps: [TaskId; 2] = [f.create("a", &[]).await, f.create("b", &[]).await];
    let task = f.create("c", &deps).await;
    let close = deps.map(|dep| f.to(dep, "done"));
    assert_eq!(met(&f, ("tasks", task.id), close).await, ["", ""]);
    assert_eq!(f.record(task).await.task.open_deps, 0);
    assert_no_gaps(&f).await;
    f.assert_sound().await;
}

/// Only the row of such a job can be locked: it has no task.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_runners_that_meet_one_takes_the_job() {
    let Some(f) = Fixture::postgres().await.map(Arc::new) else { return };
    let job = JobId(next_id());
    let sql = "INSERT INTO jobs (id, org, kind, key, tries, created_at, state, due_at) \
         SELECT $1, id, 'embed', 'embed', 0, 0, 'queued', 0 FROM orgs";
    let beside = schema(&f).connect().await;
    beside.execute(sql, &[&Uuid::from_u128(job.0.0)]).await.unwrap();
    let take = || Command::JobTake { job, lease_s: 60 };
    assert_eq!(met(&f, ("jobs", job.0), [take(), take()]).await, ["", "JOB_LOST"]);
    let taken = beside.query_one("SELECT tries FROM jobs", &[]).await.unwrap();
    assert_eq!(taken.get::<_, i32>(0), 1);
    f.assert_sound().await;
}
