//! What every store must do with the pull requests of tasks.

use callboard_domain::command::{Command, MergedBranch, PullOpen, PullSettle, PullStep};
use callboard_domain::command::{ReviewOutcome, ReviewSettle};
use callboard_domain::ids::TaskId;
use callboard_domain::pulls::{LOCAL, MERGED, OPEN, Pull};
use callboard_store::{EventQuery, OpenPulls, PullOf, PullQuery, PullsOf};

use crate::conformance::conformance;
use crate::fixture::{Fixture, place};

conformance! {
    a_pull_request_of_a_task_is_read_back_whole,
    a_branch_has_one_open_pull_request_whoever_opens_it,
    a_merge_of_the_board_merges_the_pull_request_too,
    open_ones_of_a_kind_are_gone_through_in_turn,
}

const NONE: [Vec<u64>; 1] = [Vec::new()];
const ODD: &str = "\u{1f980} 'pull' \\ \"é\"";

fn open(task: TaskId, branch: &str) -> PullOpen {
    PullOpen {
        task,
        forge: LOCAL.into(),
        repo: ODD.into(),
        at: None,
        branch: branch.into(),
        base: "epic".into(),
        head: "h".into(),
        title: ODD.into(),
        machine: Some("m1".into()),
    }
}

fn settle(pull: &Pull, step: PullStep) -> Command {
    Command::PullSettle(PullSettle {
        task: pull.task.unwrap(),
        forge: pull.forge.clone(),
        repo: pull.repo.clone(),
        number: pull.number,
        step,
        behind: None,
    })
}

async fn of_task(f: &Fixture, task: TaskId) -> Vec<Pull> {
    let query = PullQuery { task: Some(task), limit: 10, ..PullQuery::default() };
    f.store.pulls(query).await.unwrap().into_iter().map(|of| of.pull).collect()
}

async fn news(f: &Fixture, task: TaskId) -> Vec<String> {
    let query = EventQuery { task: Some(task), limit: 100, ..EventQuery::default() };
    let events = f.store.events(query).await.unwrap();
    let names = events.iter().map(|event| event.name.as_str());
    names.filter(|name| name.starts_with("pr.")).map(str::to_owned).collect()
}

async fn a_pull_request_of_a_task_is_read_back_whole(f: Fixture) {
    let task = f.create("A", &[]).await;
    f.done("agent:w1", Command::PullOpen(open(task, ODD))).await;
    let opened = of_task(&f, task).await;
    let [pull] = opened.as_slice() else { panic!("{opened:?}") };
    let wanted = Pull {
        forge: LOCAL.into(),
        repo: ODD.into(),
        number: 1,
        url: "callboard://pr/1".into(),
        status: OPEN.into(),
        branch: ODD.into(),
        base: "epic".into(),
        head: "h".into(),
        title: ODD.into(),
        is_awaited: false,
        is_revoked: false,
        merge_commit: None,
        task: Some(task),
        job: None,
        machine: Some("m1".into()),
        created_at: f.store.now(),
        changed_at: f.store.now(),
    };
    assert_eq!(*pull, wanted);
    let at = |url: &str| PullQuery { url: Some(url.into()), limit: 10, ..PullQuery::default() };
    assert_eq!(f.store.pulls(at("callboard://pr/1")).await.unwrap().len(), 1);
    assert_eq!(f.store.pulls(at("callboard://pr/2")).await.unwrap(), []);
    f.clock.advance_ms(1);
    f.done("agent:w1", settle(pull, PullStep::Awaited)).await;
    let other = f.neighbour().await;
    other
        .done(
            "runner:r1",
            settle(pull, PullStep::Merged { commit: Some(ODD.into()), asked: false }),
        )
        .await;
    let changed_at = other.store.now();
    let merged = Pull {
        status: MERGED.into(),
        is_awaited: true,
        merge_commit: Some(ODD.into()),
        changed_at,
        ..wanted
    };
    assert_eq!(of_task(&f, task).await, [merged]);
    assert_eq!(of_task(&f, f.create("B", &[]).await).await, []);
    assert_eq!(news(&f, task).await, ["pr.opened", "pr.updated", "pr.merged"]);
    f.store.settle(place("other")).await.unwrap();
    let elsewhere = PullQuery { org: Some("other".into()), limit: 10, ..PullQuery::default() };
    assert_eq!(f.store.pulls(elsewhere).await.unwrap(), []);
    f.assert_sound().await;
}

async fn a_branch_has_one_open_pull_request_whoever_opens_it(f: Fixture) {
    let other = f.neighbour().await;
    let task = f.create("A", &[]).await;
    let mut asked = Vec::new();
    for n in 0..8 {
        let from = if n % 2 == 0 { &f } else { &other };
        let op = from.op("agent:w1", Command::PullOpen(open(task, "b")));
        let store = from.store.clone();
        asked.push(tokio::spawn(async move { store.apply(op).await.unwrap() }));
    }
    for asked in asked {
        asked.await.unwrap();
    }
    assert_eq!(of_task(&f, task).await.len(), 1);
    assert_eq!(news(&f, task).await, ["pr.opened"]);
    f.assert_sound().await;
}

async fn a_merge_of_the_board_merges_the_pull_request_too(f: Fixture) {
    let task = f.create("A", &[]).await;
    for branch in ["b", "other"] {
        f.done("agent:w1", Command::PullOpen(open(task, branch))).await;
    }
    let commit = Some("c1".to_owned());
    let branches =
        vec![MergedBranch { repo: ODD.into(), branch: "b".into(), commit: commit.clone() }];
    let outcome = ReviewOutcome::Merged { commit, pushed: None, branches };
    let settle = ReviewSettle { task, outcome, words: "c1".into() };
    f.done("human:ana", Command::ReviewSettle(settle)).await;
    let pulls = of_task(&f, task).await;
    let shown: Vec<_> = pulls
        .iter()
        .map(|pull| (pull.branch.as_str(), pull.status.as_str(), pull.merge_commit.as_deref()))
        .collect();
    assert_eq!(shown, [("other", OPEN, None), ("b", MERGED, Some("c1"))]);
    f.assert_sound().await;
}

async fn open_ones_of_a_kind_are_gone_through_in_turn(f: Fixture) {
    let task = f.create("A", &[]).await;
    let at = |number: u64| Some((number, format!("https://github.com/acme/shop/pull/{number}")));
    let there = |number| PullOpen {
        forge: "github".into(),
        repo: "acme/shop".into(),
        at: at(number),
        machine: None,
        ..open(task, &format!("b{number}"))
    };
    for number in 1..=5 {
        f.done("agent:w1", Command::PullOpen(there(number))).await;
        f.done("agent:w1", Command::PullOpen(open(task, &format!("here{number}")))).await;
    }
    let pages = async |of: PullsOf, limit: usize| {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let query = OpenPulls { of: of.clone(), after, limit };
            let page = f.store.pulls_open(query).await.unwrap();
            pages.push(page.iter().map(|of| of.pull.number).collect::<Vec<_>>());
            after = page.last().map(PullOf::turn);
            if page.len() < limit {
                return pages;
            }
        }
    };
    let others = PullsOf::Forges { awaited: false };
    assert_eq!(pages(others.clone(), 2).await, [vec![1, 2], vec![3, 4], vec![5]]);
    assert_eq!(pages(PullsOf::Machine("m1".into()), 3).await, [vec![1, 2, 3], vec![4, 5]]);
    assert_eq!(pages(PullsOf::Machine("m2".into()), 3).await, NONE);
    let all = of_task(&f, task).await;
    let find = |number| all.iter().find(|pull| pull.number == number && pull.forge != LOCAL);
    f.done("agent:w1", settle(find(2).unwrap(), PullStep::Awaited)).await;
    f.done("agent:w1", settle(find(4).unwrap(), PullStep::Closed)).await;
    assert_eq!(pages(others.clone(), 10).await, [vec![1, 3, 5]]);
    assert_eq!(pages(PullsOf::Forges { awaited: true }, 10).await, [vec![2]]);
    // The task is no crew's, so its awaited merge stays wanted outside of review too.
    assert_eq!(pages(PullsOf::Unwanted, 10).await, NONE);
    f.done("agent:w1", settle(find(2).unwrap(), PullStep::Revoked)).await;
    assert_eq!(pages(PullsOf::Unwanted, 10).await, [vec![2]]);
    assert_eq!(pages(PullsOf::Forges { awaited: true }, 10).await, NONE);
    f.done("agent:w1", settle(find(2).unwrap(), PullStep::CalledOff)).await;
    assert_eq!(pages(PullsOf::Unwanted, 10).await, NONE);
    assert_eq!(pages(others, 10).await, [vec![1, 2, 3, 5]]);
    f.assert_sound().await;
}
