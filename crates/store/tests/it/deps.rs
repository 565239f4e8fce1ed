//! What every store must do with the deps of tasks.

use std::sync::Arc;

use callboard_domain::command::{Command, TaskUpdate};
use callboard_domain::ids::TaskId;

use crate::conformance::conformance;
use crate::fixture::{Fixture, place, task_of};

conformance! {
    lists_of_deps_given_at_once_never_close_a_cycle,
    the_lease_of_a_dep_is_shown_in_the_answer_too,
    tasks_that_wait_for_one_are_found_oldest_first,
}

fn deps(task: TaskId, deps: &[TaskId]) -> Command {
    let author = Some("human:ana".parse().expect("an actor"));
    let deps = Some(deps.to_vec());
    Command::TaskUpdate(TaskUpdate { task, author, title: None, deps, checks: None })
}

async fn lists_of_deps_given_at_once_never_close_a_cycle(f: Fixture) {
    let f = Arc::new(f);
    for round in 0..20 {
        let (x, y) = (f.create("x", &[]).await, f.create("y", &[]).await);
        let give = |task, dep| {
            let f = f.clone();
            tokio::spawn(async move { f.code("human:ana", deps(task, &[dep])).await })
        };
        let mut said = Vec::new();
        for given in [give(x, y), give(y, x)] {
            said.push(given.await.expect("no panic"));
        }
        said.sort_unstable();
        assert_eq!(said, ["", "DEPENDENCY_CYCLE"], "round {round}");
    }
    f.assert_sound().await;
}

async fn the_lease_of_a_dep_is_shown_in_the_answer_too(f: Fixture) {
    let (task, dep) = (f.create("a", &[]).await, f.create("b", &[]).await);
    f.done("agent:w1", f.begin(dep, "k1", Some(60))).await;
    let applied = f.done("human:ana", Command::DependencyAdd { task, dep }).await;
    let answered = task_of(&applied);
    assert!(answered.deps[0].lease_expires_at.is_some());
    assert_eq!(*answered, f.record(task).await, "the answer is what a later read sees");
    let new = f.new_task("c", &[dep]);
    let applied = f.done("human:ana", Command::TaskCreate(new.clone())).await;
    assert_eq!(*task_of(&applied), f.record(new.task).await);
}

async fn tasks_that_wait_for_one_are_found_oldest_first(f: Fixture) {
    let dep = f.create("dep", &[]).await;
    let waiting = [f.create("first", &[dep]).await, f.create("second", &[dep]).await];
    let gone = f.create("gone", &[dep]).await;
    f.done("human:ana", Command::TaskRemove { task: gone }).await;
    f.create("other", &[]).await;
    f.store.settle(place("other")).await.expect("an org");
    let found = |org: &Arc<str>, limit| {
        let (store, policy, org) = (f.store.clone(), f.policy.clone(), org.clone());
        async move {
            let rows = store.tasks_waiting_for(&org, dep, &policy, limit).await.expect("a list");
            rows.into_iter().map(|row| row.task.id).collect::<Vec<_>>()
        }
    };
    assert_eq!(found(&f.home.org, 10).await, waiting);
    assert_eq!(found(&f.home.org, 1).await, waiting[..1]);
    assert!(found(&"other".into(), 10).await.is_empty(), "no org sees the tasks of another");
}
