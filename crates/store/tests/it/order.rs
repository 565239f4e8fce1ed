//! The order of the log while several processes write: numbers without gaps, the commits of a task in their order, and
//! nothing that a reader misses.

use std::collections::HashMap;
use std::sync::Arc;

use callboard_domain::command::Command;
use callboard_domain::event::{EventName, LoggedEvent};
use callboard_domain::ids::TaskId;
use callboard_store::{EventQuery, TaskQuery};
use tokio_postgres::Client;

use crate::conformance::conformance;
use crate::fixture::Fixture;
use crate::postgres::{assert_no_gaps, schema};

conformance! {
    readers_follow_what_several_processes_write,
}

const PROCESSES: usize = 4;
const WRITERS: usize = 4;
/// Notes of each writer on each of the tasks.
const NOTES: usize = 4;
const TASKS: usize = 3;

async fn after(f: &Fixture, seen: u64, task: Option<TaskId>) -> Vec<LoggedEvent> {
    let query = EventQuery { org: None, after: seen, task, limit: usize::MAX };
    f.store.events(query).await.unwrap()
}

fn text(event: &LoggedEvent) -> Option<&str> {
    (event.name == EventName::TaskNoted).then(|| event.data["text"].as_str().unwrap())
}

/// Writers of four processes add notes to the same three tasks, so that commits of different processes meet on each
/// task. A reader in every process follows meanwhile.
async fn readers_follow_what_several_processes_write(f: Fixture) {
    let mut processes = vec![Arc::new(f)];
    for _ in 1..PROCESSES {
        let neighbour = processes[0].neighbour().await;
        processes.push(Arc::new(neighbour));
    }
    let mut tasks = Vec::new();
    for n in 0..TASKS {
        tasks.push(processes[0].create(&format!("task {n}"), &[]).await);
    }
    let all = (TASKS + PROCESSES * WRITERS * NOTES * TASKS) as u64;
    let readers: Vec<_> = processes.iter().cloned().map(|f| tokio::spawn(follow(f, all))).collect();
    let writers = processes.iter().enumerate().flat_map(|(process, f)| {
        let tasks = &tasks;
        (0..WRITERS).map(move |writer| {
            tokio::spawn(write(f.clone(), format!("{process}-{writer}"), tasks.clone()))
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let mut told = Vec::new();
    for reader in readers {
        told.push(reader.await.unwrap());
    }
    for other in &told[1..] {
        assert_eq!(told[0], *other, "every reader is told the same");
    }
    let f = &processes[0];
    for task in tasks {
        // A line of history is numbered while its task is locked: this is the order of the commits.
        let lines: Vec<String> =
            f.record(task).await.entries.into_iter().filter_map(|entry| entry.text).collect();
        let events = after(f, 0, Some(task)).await;
        let events: Vec<&str> = events.iter().filter_map(text).collect();
        assert_eq!(events.len(), PROCESSES * WRITERS * NOTES);
        // Only the newest lines are shown.
        assert_eq!(events[events.len() - lines.len()..], lines);
    }
    f.assert_sound().await;
}

/// Adds notes; each one is in the log when its call was answered.
async fn write(f: Arc<Fixture>, who: String, tasks: Vec<TaskId>) {
    for n in 0..NOTES {
        for task in &tasks {
            let note = format!("{who} {n}");
            let command = Command::TaskNote { task: *task, text: note.clone() };
            f.done(&format!("agent:w{who}"), command).await;
            let events = after(&f, 0, Some(*task)).await;
            assert!(events.iter().filter_map(text).any(|text| text == note), "{note} is missing");
        }
    }
}

/// Reads until the log has `all` events. None is missed, none comes twice.
async fn follow(f: Arc<Fixture>, all: u64) -> Vec<(u64, String)> {
    let mut told = Vec::new();
    while (told.len() as u64) < all {
        let seen = told.len() as u64;
        for event in after(&f, seen, None).await {
            assert_eq!(event.seq, told.len() as u64 + 1, "a number is missing or came twice");
            told.push((event.seq, event.data.to_string()));
        }
    }
    told
}

const LOG: &str = "hashtextextended('callboard:' || current_schema() || ':log', 0)";

/// Holds the lock of the log, as a process does until its commit is on disk.
async fn hold(f: &Fixture) -> Client {
    let holder = schema(f).connect().await;
    holder.batch_execute(&format!("SELECT pg_advisory_lock({LOG})")).await.unwrap();
    holder
}

async fn parked(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM log_parked", &[]).await.unwrap().get(0)
}

/// No commit waits for the lock of the log; afterwards the events stand in the order of the commits.
#[tokio::test(flavor = "multi_thread")]
async fn commits_do_not_wait_for_the_log() {
    let Some(f) = Fixture::postgres().await else { return };
    let other = f.neighbour().await;
    let task = f.create("a", &[]).await;
    let holder = hold(&f).await;
    let mut lasts = Vec::new();
    for (n, process) in [&f, &other, &f, &other].into_iter().enumerate() {
        let note = Command::TaskNote { task, text: format!("{n}") };
        lasts.push(process.done("agent:w", note).await.last_seq);
    }
    assert_eq!(lasts, [None; 4], "these numbers are given later");
    assert_eq!(parked(&holder).await, 4);
    holder.batch_execute(&format!("SELECT pg_advisory_unlock({LOG})")).await.unwrap();
    // The first read after the commits finds them, whichever process asks.
    let events = after(&other, 0, Some(task)).await;
    let texts: Vec<&str> = events.iter().filter_map(text).collect();
    assert_eq!(texts, ["0", "1", "2", "3"]);
    assert_eq!(parked(&holder).await, 0);
    assert_no_gaps(&f).await;
    f.assert_sound().await;
}

/// A process that ends after its commit leaves events without numbers; the next commit of any other gives them.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_left_behind_is_numbered_by_the_next() {
    let Some(f) = Fixture::postgres().await else { return };
    let other = f.neighbour().await;
    let tasks = [f.create("a", &[]).await, f.create("b", &[]).await];
    let holder = hold(&f).await;
    other.done("agent:w", Command::TaskClaim { task: tasks[0] }).await;
    drop(other);
    holder.batch_execute(&format!("SELECT pg_advisory_unlock({LOG})")).await.unwrap();
    // Removing a task waits for the lock, because its caller reads the events back.
    let removed = f.done("human:ana", Command::TaskRemove { task: tasks[1] }).await;
    assert_eq!(removed.last_seq, Some(4));
    let names: Vec<_> = after(&f, 2, None).await.iter().map(|event| event.name).collect();
    assert_eq!(names, [EventName::TaskClaimed, EventName::TaskDeleted]);
}

/// Events that no step would ever number are damage; everything else is compared with them included.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_reads_parked_events_as_part_of_the_log() {
    let Some(f) = Fixture::postgres().await else { return };
    let task = f.create("a", &[]).await;
    let holder = hold(&f).await;
    f.done("agent:w", Command::TaskClaim { task }).await;
    let numbered = "UPDATE log_steps SET seen = pg_current_snapshot()";
    holder.batch_execute(numbered).await.unwrap();
    holder.batch_execute(&format!("SELECT pg_advisory_unlock({LOG})")).await.unwrap();
    let found: Vec<String> =
        f.store.verify().await.unwrap().into_iter().map(|finding| finding.what).collect();
    assert_eq!(found, ["events never got their numbers: 1"]);
}

/// A dump brings a snapshot of another server, whose transaction ids were higher.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_from_a_dump_numbers_its_events() {
    let Some(f) = Fixture::postgres().await else { return };
    let task = f.create("a", &[]).await;
    let holder = hold(&f).await;
    let far = "UPDATE log_steps SET seen = '9000000000:9000000000:'";
    holder.batch_execute(far).await.unwrap();
    f.done("agent:w", Command::TaskClaim { task }).await;
    holder.batch_execute(&format!("SELECT pg_advisory_unlock({LOG})")).await.unwrap();
    assert_eq!(after(&f, 0, None).await.len(), 2);
    f.assert_sound().await;
}

/// Free tasks are listed as a process without a memory of them would, whatever happened to them since the last list.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_remembered_of_free_tasks_stays_true() {
    const FREE: usize = 100;
    let Some(f) = Fixture::postgres().await else { return };
    let other = f.neighbour().await;
    let mut tasks = HashMap::new();
    let new = |n: usize| {
        let mut new = f.new_task(&format!("{n}"), &[]);
        new.priority = 100 + (n as u16 % 7) * 50;
        new
    };
    let first: Vec<_> = (0..FREE).map(new).collect();
    for (n, task) in first.iter().enumerate() {
        tasks.insert(n, task.task);
    }
    f.done("human:ana", Command::TaskCreateAll(first)).await;
    let mut seed = 7_usize;
    for step in 0..120 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let task = tasks[&((seed >> 33) % tasks.len())];
        let (who, process) = if step % 2 == 0 { ("agent:a", &f) } else { ("agent:b", &other) };
        let command = match (seed >> 20) % 6 {
            0 | 1 => Command::TaskClaim { task },
            2 => Command::TaskRelease { task },
            3 => f.to(task, "done"),
            4 => Command::TaskBlock { task, reason: "why".into() },
            _ => {
                let new = new(FREE + step);
                tasks.insert(tasks.len(), new.task);
                Command::TaskCreate(new)
            }
        };
        // A refusal changes nothing, and the lists must agree all the same.
        let _ = process.act(who, command).await;
        if step % 5 == 0 {
            assert_eq!(listed(&f).await, listed(&f.neighbour().await).await, "step {step}");
        }
    }
    assert!(!listed(&f).await.0.is_empty());
}

/// The free tasks in both forms.
async fn listed(f: &Fixture) -> (Vec<String>, Vec<String>) {
    let project = Some(f.home.project.id);
    let next = f
        .free(|query| {
            query.project = project;
            query.limit = 90;
        })
        .await;
    assert_eq!(f.free(|query| query.limit = 90).await, next, "the org has one project");
    let mut query = TaskQuery::of(f.home.project.id, f.policy.clone());
    query.label = Some(f.policy.initial().name.clone());
    query.assignee = Some(None);
    query.ready = Some(true);
    query.as_work = Some(Default::default());
    query.limit = 90;
    let rows = f.store.tasks(query).await.unwrap();
    (next, rows.into_iter().map(|row| row.task.title).collect())
}
