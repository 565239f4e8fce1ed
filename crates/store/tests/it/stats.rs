//! What every store must do with the counts of each day.

use callboard_domain::board::stats::{DayCounts, Measure, day_of};
use callboard_domain::command::{Command, ReviewDecide, ReviewVerdict, TaskCreate};
use callboard_domain::event::EventName;
use callboard_domain::policy::Phase;
use callboard_store::DaysKept;

use crate::conformance::conformance;
use crate::fixture::{Fixture, place};

conformance! {
    every_event_counts_once_and_again_gives_the_same,
    counts_belong_to_an_org_and_a_day,
    events_count_for_an_agent_and_an_epic,
    tries_and_late_calls_are_counted,
}

/// A task that waits a minute, and is done four minutes after that.
async fn finish(f: &Fixture, title: &str) {
    let task = f.create(title, &[]).await;
    f.clock.advance_ms(60_000);
    f.done("agent:w1", Command::TaskClaim { task }).await;
    f.clock.advance_ms(240_000);
    f.done("agent:w1", f.to(task, "done")).await;
}

/// All that is counted so far, by one call after the other.
async fn count(f: &Fixture) -> u64 {
    let mut all = 0;
    loop {
        match f.store.days_count(2).await.unwrap() {
            0 => return all,
            read => all += read,
        }
    }
}

async fn again(f: &Fixture, to: u64) -> DayCounts {
    f.store.days_ahead(&f.home.org, 0, to).await.unwrap()
}

async fn every_event_counts_once_and_again_gives_the_same(f: Fixture) {
    let empty = f.store.days(&f.home.org, 0).await.unwrap();
    assert_eq!(empty, DaysKept::default());
    finish(&f, "a").await;
    let lost = f.create("b", &[]).await;
    f.clock.advance_ms(1000);
    f.done("agent:w1", f.begin(lost, "k", Some(60))).await;
    f.clock.advance_ms(61_000);
    f.done("agent:w2", f.begin(lost, "l", Some(60))).await;
    let newest = f.store.last_seq().await.unwrap();
    assert_eq!(count(&f).await, newest);
    assert_eq!(count(&f.neighbour().await).await, 0, "another process counts nothing twice");
    let kept = f.store.days(&f.home.org, 0).await.unwrap();
    assert_eq!(kept, DaysKept { counts: again(&f, newest).await, up_to: newest });
    let days = i64::MIN..=i64::MAX;
    let numbers = Measure::ALL.map(|measure| kept.counts.count(days.clone(), measure));
    // lead, wait, canceled, sent back, expired, passed, failed, ran, priced, cost, first try, late
    assert_eq!(numbers, [1, 3, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0]);
    let lead = kept.counts.spans(days.clone(), Measure::Lead);
    assert_eq!((lead.between(60.0, 300.0), lead.count()), (1, 1), "five minutes");
    let wait = kept.counts.spans(days, Measure::Wait);
    assert_eq!((wait.between(0.0, 1.0), wait.between(15.0, 60.0)), (2, 1));
    finish(&f, "c").await;
    let last = f.store.last_seq().await.unwrap();
    let ahead = f.store.days_ahead(&f.home.org, newest, last).await.unwrap();
    let mut both = kept.counts;
    both.merge(&ahead);
    assert_eq!(count(&f).await, last - newest);
    assert_eq!(f.store.days(&f.home.org, 0).await.unwrap().counts, both);
}

async fn counts_belong_to_an_org_and_a_day(f: Fixture) {
    finish(&f, "a").await;
    f.clock.advance_ms(86_400_000);
    finish(&f, "b").await;
    count(&f).await;
    let today = day_of(f.store.now());
    let kept = f.store.days(&f.home.org, today).await.unwrap();
    assert_eq!(kept.counts.count(today..=today, Measure::Lead), 1);
    assert_eq!(
        kept.counts.count(today - 9..=today - 1, Measure::Lead),
        0,
        "the range begins today"
    );
    f.store.settle(place("other")).await.unwrap();
    let theirs = f.store.days("other", 0).await.unwrap();
    assert_eq!(theirs, DaysKept { up_to: kept.up_to, ..DaysKept::default() });
}

async fn events_count_for_an_agent_and_an_epic(f: Fixture) {
    let epic = TaskCreate { is_plan: true, ..f.new_task("epic", &[]) };
    let part = TaskCreate { parent: Some(epic.task), ..f.new_task("part", &[]) };
    let (epic_id, part_id) = (epic.task, part.task);
    f.done("human:ana", Command::TaskCreate(epic)).await;
    f.done("human:ana", Command::TaskCreate(part)).await;
    let alone = f.create("alone", &[]).await;
    f.clock.advance_ms(1000);
    f.done("agent:w1", f.begin(part_id, "k", Some(60))).await;
    f.clock.advance_ms(61_000);
    f.done("agent:w2", f.begin(part_id, "l", Some(60))).await;
    f.done("human:ana", Command::TaskClaim { task: alone }).await;
    let to = f.store.last_seq().await.unwrap();
    let found = f.store.days_attributed(&f.home.org, 0, to).await.unwrap();
    let mut counts = DayCounts::default();
    found.iter().for_each(|one| counts.measure(&one.event));
    assert_eq!(counts, again(&f, to).await, "the same events as those of the counts");
    let of = |name: EventName| {
        let of_name = found.iter().filter(move |one| one.event.name == name);
        of_name.map(|one| (one.agent().unwrap().to_string(), one.epic)).collect::<Vec<_>>()
    };
    let of_part = |agent: &str| (agent.to_owned(), Some(epic_id));
    assert_eq!(of(EventName::AttemptExpired), [of_part("agent:w1")]);
    assert_eq!(
        of(EventName::TaskClaimed),
        [of_part("agent:w1"), of_part("agent:w2"), ("human:ana".into(), None)]
    );
    assert_eq!(f.store.days_attributed(&f.home.org, to, to).await.unwrap(), []);
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(f.store.days_attributed("other", 0, to).await.unwrap(), []);
}

async fn tries_and_late_calls_are_counted(f: Fixture) {
    let to_review = async |title: &str| {
        let task = f.create(title, &[]).await;
        f.done("agent:w1", f.begin(task, title, Some(60))).await;
        f.done("agent:w1", f.to(task, "in_review")).await;
        task
    };
    let reject = |task| {
        Command::ReviewDecide(ReviewDecide {
            task,
            verdict: ReviewVerdict::Reject { to: Phase::Working },
            feedback: "Not yet.".into(),
            checked: None,
            work: None,
            sends: Default::default(),
            seen: Default::default(),
        })
    };
    // Once accepted as it came, once sent back and accepted then, once finished by a second attempt.
    let first = to_review("first").await;
    f.done("human:ana", f.to(first, "done")).await;
    let back = to_review("back").await;
    f.done("human:ana", reject(back)).await;
    f.done("human:ana", f.to(back, "done")).await;
    let lost = f.create("lost", &[]).await;
    f.done("agent:w1", f.begin(lost, "k", Some(60))).await;
    f.clock.advance_ms(61_000);
    f.done("agent:w2", f.begin(lost, "l", Some(60))).await;
    f.done("agent:w2", f.to(lost, "done")).await;
    for code in ["ALREADY_CLAIMED", "TASK_NOT_FOUND"] {
        let (tool, action) = ("tasks_update", None);
        let refuse = Command::CallRefuse { tool, action, code: code.into(), task: Some(lost) };
        f.done("agent:w1", refuse).await;
    }
    let counts = again(&f, f.store.last_seq().await.unwrap()).await;
    let of = |measure| counts.count(i64::MIN..=i64::MAX, measure);
    assert_eq!((of(Measure::Lead), of(Measure::FirstTry), of(Measure::Late)), (3, 1, 1));
}
