//! Numbers of tasks: counted per org and prefix, without gaps, never given twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use callboard_domain::command::Command;
use callboard_domain::ids::{Prefix, TaskId};

use crate::conformance::conformance;
use crate::fixture::{Fixture, task_of};

conformance! {
    tasks_are_numbered_per_prefix,
    the_number_of_a_removed_task_is_not_given_again,
    a_task_is_found_by_its_name,
    writers_at_once_give_each_number_once,
}

async fn create(f: &Fixture, prefix: &str) -> (TaskId, u32) {
    let mut new = f.new_task("a", &[]);
    new.task.prefix = Prefix::parse(prefix).unwrap();
    let made = f.done("human:ana", Command::TaskCreate(new)).await;
    let task = &task_of(&made).task;
    (task.id, task.number)
}

async fn tasks_are_numbered_per_prefix(f: Fixture) {
    let numbers = [
        create(&f, "SHOP").await.1,
        create(&f, "SHOP").await.1,
        create(&f, "DOCS").await.1,
        create(&f, "SHOP").await.1,
    ];
    assert_eq!(numbers, [1, 2, 1, 3]);
}

async fn the_number_of_a_removed_task_is_not_given_again(f: Fixture) {
    let (task, first) = create(&f, "SHOP").await;
    f.done("human:ana", Command::TaskRemove { task }).await;
    assert_eq!(f.store.task_ids("default", "SHOP-1", 9).await.unwrap(), []);
    assert_eq!((first, create(&f, "SHOP").await.1), (1, 2));
}

async fn a_task_is_found_by_its_name(f: Fixture) {
    let (one, _) = create(&f, "SHOP").await;
    let (other, _) = create(&f, "DOCS").await;
    for (typed, found) in [("SHOP-1", vec![one]), ("docs-1", vec![other]), ("SHOP-3", vec![])] {
        assert_eq!(f.store.task_ids("default", typed, 9).await.unwrap(), found, "{typed}");
    }
    let read = f.store.task("default", one).await.unwrap().unwrap();
    assert_eq!(read.task.name().to_string(), "SHOP-1");
}

async fn writers_at_once_give_each_number_once(f: Fixture) {
    let servers = [Arc::new(f.neighbour().await), Arc::new(f.neighbour().await)];
    let mut making = Vec::new();
    for n in 0..40 {
        let server = servers[n % 2].clone();
        making.push(tokio::spawn(async move { create(&server, "SHOP").await.1 }));
    }
    let mut numbers = BTreeSet::new();
    for made in making {
        numbers.insert(made.await.unwrap());
    }
    assert_eq!(numbers, (1..=40).collect());
}
