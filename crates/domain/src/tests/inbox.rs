//! The inbox as tables: causes, precedence, order, words, snoozes and streaks.

use serde_json::json;

use crate::board::inbox::{
    Inbox, InboxCause, InboxFact, InboxItem, InboxKind, InboxTask, InboxWanted, arrange,
    failing_streak,
};
use crate::board::plan::PlanId;
use crate::crew::{AgentId, MailId};
use crate::event::{EventName, LoggedEvent};
use crate::ids::{Id, Prefix, TaskId, TaskName};
use crate::policy::Phase;
use crate::runs::job::JobId;
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp(10_000_000_000);

fn minutes(count: i64) -> i64 {
    count * 60_000
}

fn task(number: u32) -> Option<InboxTask> {
    let prefix = Prefix::parse("SHOP").expect("a prefix");
    let id = TaskId { id: Id(u128::from(number)), prefix };
    Some(InboxTask {
        id,
        name: TaskName { prefix, number },
        title: format!("Task {number}"),
        phase: Phase::Initial,
    })
}

/// An item of a cause: a task or none, its age in minutes, and the minutes until its deadline.
fn item(cause: &str, of: u32, age: i64, left: Option<i64>) -> InboxItem {
    let job = JobId(Id(7));
    let fact = match InboxCause::parse(cause).expect("a cause") {
        InboxCause::Question => InboxFact::Question {
            job,
            number: 2,
            text: "may I?".into(),
            command: Some("npm install".into()),
        },
        InboxCause::Silent => InboxFact::Silent,
        InboxCause::Conflict => InboxFact::Conflict { files: 2 },
        InboxCause::Checks => InboxFact::CheckStreak { check: "cargo test".into(), times: 3 },
        InboxCause::Merge => InboxFact::Approved,
        InboxCause::Review => InboxFact::Review { checks: 4, passed: 3, for_person: 1 },
        InboxCause::Run => InboxFact::RunFailed { job, reason: "no disk".into() },
        InboxCause::Worker => {
            InboxFact::WorkerFailed { agent: AgentId::parse("w1").expect("an agent") }
        }
        InboxCause::Blocker => InboxFact::Blocked { reason: "no key".into() },
        InboxCause::Disk => InboxFact::DiskOver { used_mb: 2100, quota_mb: 2048 },
        InboxCause::Plan => InboxFact::Plan { plan: PlanId(Id(u128::from(of))), tasks: 4 },
        InboxCause::Mail => InboxFact::Mail {
            mail: MailId(Id(u128::from(of))),
            subject: "Which zone?".into(),
            begins: "Berlin\nor UTC?".into(),
        },
    };
    let has_task = !matches!(cause, "worker" | "disk" | "plan" | "mail");
    InboxItem {
        task: task(of).filter(|_| has_task && of > 0),
        actor: Some("agent:claude-1".parse().expect("an actor")),
        since: NOW.plus_ms(-minutes(age)),
        deadline: left.map(|left| NOW.plus_ms(minutes(left))),
        fact,
    }
}

fn keys(inbox: &Inbox) -> Vec<&str> {
    inbox.rows.iter().map(|row| row.key.as_str()).collect()
}

#[test]
fn rows_say_what_is_wanted_and_what_happens_otherwise() {
    for (cause, left, key, title, consequence) in [
        (
            "question",
            Some(3),
            "question:SHOP-1.2",
            "May claude-1 run npm install?",
            "refused in 3 min; no answer counts as no",
        ),
        (
            "question",
            None,
            "question:SHOP-1.2",
            "May claude-1 run npm install?",
            "the agent waits for an answer",
        ),
        (
            "silent",
            Some(1),
            "silent:SHOP-1",
            "Task 1",
            "lease ends in 1 min, then the task is free again",
        ),
        (
            "silent",
            None,
            "silent:SHOP-1",
            "Task 1",
            "the task stays held until a person releases it",
        ),
        (
            "conflict",
            None,
            "conflict:SHOP-1",
            "Task 1",
            "2 files conflict; no merge before a rebase",
        ),
        ("checks", None, "checks:SHOP-1", "Task 1", "cargo test failed 3 times in a row"),
        ("merge", None, "merge:SHOP-1", "Task 1", "approved; not merged before a person merges it"),
        ("review", None, "review:SHOP-1", "Task 1", "3/4 checks pass, 1 is for a person"),
        ("run", None, "run:SHOP-1", "Task 1", "failed: no disk"),
        ("worker", None, "worker:w1", "Look at the worker w1", "failed; gets no other task"),
        ("blocker", None, "blocker:SHOP-1", "Task 1", "stuck: no key"),
        (
            "disk",
            None,
            "disk:worktrees",
            "Make room: the worktrees are over their quota",
            "2100 MB of 2048 MB are used; callboard gc shows what can be removed",
        ),
        (
            "plan",
            None,
            "plan:plan_00000000000000000000000001",
            "Decide on a plan of 4 tasks",
            "no task is created before a person approves",
        ),
        (
            "mail",
            None,
            "mail:mail-00000000000000000000000001",
            "Which zone?",
            "unread: Berlin or UTC?",
        ),
    ] {
        let inbox = arrange(vec![item(cause, 1, 5, left)], &InboxWanted::default(), NOW);
        let [row] = &inbox.rows[..] else { panic!("{cause}: one row") };
        let shown = (row.key.as_str(), row.title.as_str(), row.consequence.as_str());
        assert_eq!(shown, (key, title, consequence));
        assert_eq!(row.cause.as_str(), cause);
    }
}

/// Of two causes of one task the first one wins, whatever their ages and their order.
#[test]
fn the_strongest_cause_of_a_task_wins() {
    let of_tasks =
        ["question", "silent", "conflict", "checks", "merge", "review", "run", "blocker"];
    for (place, strong) in of_tasks.iter().enumerate() {
        for weak in &of_tasks[place + 1..] {
            let both = [item(strong, 1, 1, None), item(weak, 1, 99, None)];
            for both in [both.to_vec(), both.iter().rev().cloned().collect()] {
                let inbox = arrange(both, &InboxWanted::default(), NOW);
                let causes: Vec<_> = inbox.rows.iter().map(|row| row.cause.as_str()).collect();
                assert_eq!(causes, [*strong], "{strong} over {weak}");
            }
        }
    }
    let twice = vec![item("blocker", 1, 1, None), item("blocker", 1, 9, None)];
    let inbox = arrange(twice, &InboxWanted::default(), NOW);
    assert_eq!(inbox.rows[0].since, NOW.plus_ms(-minutes(9)), "of equal causes the oldest");
}

#[test]
fn agents_that_stand_still_come_first_and_the_rest_by_age() {
    let items = vec![
        item("mail", 9, 18, None),
        item("review", 1, 42, None),
        item("silent", 2, 9, Some(1)),
        item("silent", 3, 90, None),
        item("question", 4, 1, Some(4)),
        item("question", 5, 3, Some(2)),
        item("conflict", 6, 72, None),
        item("merge", 7, 6, None),
        item("plan", 8, 26, None),
        item("run", 0, 30, None),
    ];
    let inbox = arrange(items, &InboxWanted::default(), NOW);
    assert_eq!(
        keys(&inbox),
        [
            "question:SHOP-5.2",
            "question:SHOP-4.2",
            "silent:SHOP-2",
            "silent:SHOP-3",
            "conflict:SHOP-6",
            "review:SHOP-1",
            "run:job_00000000000000000000000007",
            "plan:plan_00000000000000000000000008",
            "mail:mail-00000000000000000000000009",
            "merge:SHOP-7",
        ]
    );
    let count = |kind| inbox.counts.get(&kind).copied().unwrap_or_default();
    assert_eq!(InboxKind::ALL.map(count), [3, 2, 3, 1, 1]);
}

#[test]
fn a_reader_narrows_the_inbox() {
    let items = || (1..=130).map(|n| item("review", n, i64::from(n), None)).collect::<Vec<_>>();
    let inbox = arrange(items(), &InboxWanted::default(), NOW);
    assert_eq!((inbox.rows.len(), inbox.more, inbox.total()), (100, 30, 130));
    assert_eq!(inbox.rows[0].key, "review:SHOP-130");
    let few = InboxWanted { limit: 2, ..InboxWanted::default() };
    assert_eq!(arrange(items(), &few, NOW).more, 128);
    let mail = InboxWanted { kinds: vec![InboxKind::Mail], ..InboxWanted::default() };
    let both = || vec![item("mail", 1, 1, None), item("review", 2, 2, None)];
    let inbox = arrange(both(), &mail, NOW);
    assert_eq!(keys(&inbox), ["mail:mail-00000000000000000000000001"]);
    assert_eq!(inbox.counts[&InboxKind::Review], 1, "counts are those of the tabs");
}

#[test]
fn a_snoozed_row_comes_back_in_time() {
    let until = |at| vec![("review:SHOP-1".to_owned(), at)];
    let items = || {
        vec![item("review", 1, 5, None), item("blocker", 1, 9, None), item("review", 2, 1, None)]
    };
    for (snoozed, shown, count) in [
        (until(NOW.plus_ms(1)), &["review:SHOP-2"][..], 1),
        (until(NOW), &["review:SHOP-1", "review:SHOP-2"], 0),
        (
            vec![("review:SHOP-9".to_owned(), NOW.plus_ms(1))],
            &["review:SHOP-1", "review:SHOP-2"],
            0,
        ),
    ] {
        let wanted = InboxWanted { snoozed, ..InboxWanted::default() };
        let inbox = arrange(items(), &wanted, NOW);
        assert_eq!((keys(&inbox), inbox.snoozed), (shown.to_vec(), count));
    }
    let snoozed = until(NOW.plus_ms(1));
    let wanted = InboxWanted { snoozed, only_snoozed: true, ..InboxWanted::default() };
    assert_eq!(keys(&arrange(items(), &wanted, NOW)), ["review:SHOP-1"]);
}

/// Runs of checks, the newest first: `0-` is a failure of the check 0, `1+` a pass of the check 1, `|` the begin of the
/// attempt.
#[test]
fn a_check_that_fails_again_and_again_is_found() {
    for (runs, expected) in [
        ("", None),
        ("0- 0-", None),
        ("0- 0- 0-", Some((0, 3))),
        ("0- 0- | 0-", None),
        ("0- 0- 0- 0- | 0-", Some((0, 4))),
        ("0+ 0- 0- 0-", None),
        ("0- 0- 0+ 0- 0-", None),
        ("0- 0- 0- 0+ 0-", Some((0, 3))),
        ("0- 1- 0- 1+ 0-", Some((0, 3))),
        ("1- 0- 1- 0- 1- 0- 1-", Some((1, 4))),
        ("1- 0- 1- 0- 1- 0-", Some((0, 3))),
    ] {
        let mut at = 100;
        let (mut events, mut since) = (Vec::new(), Timestamp(0));
        for run in runs.split_whitespace() {
            at -= 1;
            if run == "|" {
                since = Timestamp(at);
                continue;
            }
            let (index, result) = run.split_at(1);
            let result = if result == "+" { "pass" } else { "fail" };
            let index: u64 = index.parse().expect("an index");
            events.push(LoggedEvent {
                seq: at as u64,
                at: Timestamp(at),
                actor: "agent:w1".parse().expect("an actor"),
                name: EventName::CheckRan,
                about: None,
                data: json!({"index": index, "result": result}),
            });
        }
        assert_eq!(failing_streak(&events, since), expected, "{runs}");
    }
}
