//! What every store must do with blocked tasks.

use callboard_domain::command::Command;
use callboard_domain::ids::TaskId;
use callboard_store::{TaskQuery, TasksByState};

use crate::conformance::conformance;
use crate::fixture::Fixture;

conformance! {
    a_blocked_task_is_not_offered,
    a_block_is_read_back_whole,
}

fn block(task: TaskId, reason: &str) -> Command {
    Command::TaskBlock { task, reason: reason.into() }
}

async fn listed(f: &Fixture, change: impl FnOnce(&mut TaskQuery)) -> Vec<String> {
    let mut query = TaskQuery::of(f.home.project.id, f.policy.clone());
    change(&mut query);
    let rows = f.store.tasks(query).await.unwrap();
    rows.into_iter().map(|row| row.task.title).collect()
}

async fn a_blocked_task_is_not_offered(f: Fixture) {
    let (a, b) = (f.create("a", &[]).await, f.create("b", &[]).await);
    let next = || f.free(|query| query.project = Some(f.home.project.id));
    let anywhere = || f.free(|query| query.project = None);
    f.done("agent:w1", block(a, "no key")).await;
    assert_eq!((next().await, anywhere().await), (vec!["b".into()], vec!["b".into()]));
    let start = f.policy.initial().name.clone();
    let startable = |query: &mut TaskQuery| {
        (query.label, query.ready) = (Some(start.clone()), Some(true));
    };
    assert_eq!(listed(&f, startable).await, ["b"]);
    assert_eq!(listed(&f, |query| query.ready = Some(true)).await, ["b"]);
    assert_eq!(listed(&f, |query| query.ready = Some(false)).await, ["a"]);
    assert_eq!(listed(&f, |query| query.blocked = true).await, ["a"]);
    let counted = TasksByState { ready: 1, blocked: 1, ..TasksByState::default() };
    assert_eq!(f.store.tasks_by_state().await.unwrap(), counted);
    // A blocked task whose work has begun is not offered either.
    f.done("agent:w1", f.to(b, "in_progress")).await;
    f.done("agent:w1", block(b, "no key either")).await;
    assert_eq!(next().await, Vec::<String>::new());
    f.assert_sound().await;
    f.done("human:ana", Command::TaskNote { task: a, text: "it is in the safe".into() }).await;
    assert_eq!(next().await, ["a"]);
    f.done("human:ana", Command::TaskUnblock { task: b }).await;
    assert_eq!(listed(&f, |query| query.blocked = true).await, Vec::<String>::new());
    f.assert_sound().await;
}

async fn a_block_is_read_back_whole(f: Fixture) {
    const ODD: &str = "\u{1f980} 'why' \\ \"é\"\nand more";
    let task = f.create("a", &[]).await;
    f.done("agent:w1", block(task, ODD)).await;
    let kept = f.neighbour().await.record(task).await.task.blocked.expect("a block");
    assert_eq!((kept.by.as_str(), kept.reason.as_str()), ("agent:w1", ODD));
    f.done("agent:w2", Command::TaskClaim { task }).await;
    assert_eq!(f.record(task).await.task.blocked, None, "who takes it goes on with it");
    f.assert_sound().await;
}
