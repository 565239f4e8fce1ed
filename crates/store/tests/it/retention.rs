//! What every store must do with what grows: remove what may go, in small steps, and know where the log begins to be whole.

use std::sync::Arc;

use callboard_domain::board::stats::{Measure, day_of};
use callboard_domain::command::{AgentAdd, Command, DecisionLog, MailSend, TaskCreate};
use callboard_domain::crew::{AgentId, DecisionId, MailId};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Policy;
use callboard_domain::retention::{Growing, LogFloor, days_before};
use callboard_domain::rights::AgentType;
use callboard_domain::runs::delivery::Receipt;
use callboard_domain::time::Timestamp;
use callboard_store::clock::ManualClock;
use callboard_store::sqlite::SqliteStore;
use callboard_store::transfer::{Address, transfer};
use callboard_store::{
    DecisionQuery, EventQuery, MailQuery, PruneStep, RetentionStore as _, StatsStore as _,
};

use crate::conformance::conformance;
use crate::deliveries::{canceled, tried};
use crate::fixture::{Database, Fixture, next_id};

conformance! {
    events_of_closed_tasks_go_and_those_of_open_tasks_stay,
    events_go_only_after_their_day_counted_them,
    the_newest_event_stays,
    a_step_is_bounded_and_a_look_changes_nothing,
    a_gap_above_the_floor_is_still_found,
    a_reopened_task_is_sound_without_its_beginning,
    unread_mail_and_decisions_of_open_work_stay,
    messages_go_when_they_are_over,
    a_move_carries_the_floor_and_the_counts,
    everything_that_grows_is_measured,
}

const DAY_MS: i64 = 86_400_000;

/// Events of a task; of every task and of none without one.
async fn seqs(f: &Fixture, task: Option<TaskId>) -> Vec<u64> {
    let org = Some(f.home.org.clone());
    let query = EventQuery { org, after: 0, task, limit: 1000 };
    f.store.events(query).await.unwrap().iter().map(|event| event.seq).collect()
}

async fn count_days(f: &Fixture) {
    while f.store.days_count(100).await.unwrap() > 0 {}
}

/// Walks through a kind with a setting of so many days, three rows at a time. Returns how many rows went.
async fn prune(f: &Fixture, kind: Growing, days: u32) -> usize {
    let mut step = PruneStep::first(kind, days_before(f.store.now(), days), 3);
    let mut all = 0;
    loop {
        let pruned = f.store.prune(step.clone()).await.unwrap();
        assert!(pruned.removed <= 3, "a step is bounded");
        all += pruned.removed;
        match pruned.next {
            Some(next) => step.after = Some(next),
            None => return all,
        }
    }
}

/// A task that is done.
async fn finished(f: &Fixture, title: &str) -> TaskId {
    let task = f.create(title, &[]).await;
    f.done("agent:w1", f.begin(task, "k", None)).await;
    f.done("agent:w1", f.to(task, "done")).await;
    task
}

async fn run_sql(f: &Fixture, sql: &str) {
    match &*f.place {
        Database::Folder(folder) => {
            let db = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
            db.execute_batch(sql).unwrap();
        }
        Database::Schema(schema) => schema.connect().await.batch_execute(sql).await.unwrap(),
    }
}

async fn events_of_closed_tasks_go_and_those_of_open_tasks_stay(f: Fixture) {
    assert_eq!(f.store.log_floor().await.unwrap().seq, 1);
    let old = finished(&f, "old").await;
    let open = f.create("open", &[]).await;
    let mail = MailSend {
        mail: MailId(next_id()),
        from: None,
        to: None,
        subject: "no task".into(),
        body: "no task".into(),
    };
    f.done("human:ana", Command::MailSend(mail)).await;
    f.clock.advance_ms(20 * DAY_MS);
    let young = finished(&f, "young").await;
    f.clock.advance_ms(20 * DAY_MS);
    count_days(&f).await;
    let before = seqs(&f, None).await;
    let (of_old, of_open) = (seqs(&f, Some(old)).await, seqs(&f, Some(open)).await);
    let of_young = seqs(&f, Some(young)).await;
    let removed = prune(&f, Growing::Event, 30).await;
    assert_eq!(removed, of_old.len() + 1, "the closed task's events, and the mail's");
    assert!(seqs(&f, Some(old)).await.is_empty());
    assert_eq!(seqs(&f, Some(open)).await, of_open, "an open task keeps its history");
    assert_eq!(seqs(&f, Some(young)).await, of_young, "closed lately");
    let floor = f.store.log_floor().await.unwrap();
    assert_eq!(floor.seq, of_young[0], "whole from the event after the last removed one");
    assert!(floor.at < days_before(f.store.now(), 30) && floor.at > Timestamp(0));
    assert_eq!(prune(&f, Growing::Event, 30).await, 0, "repeating it changes nothing");
    f.assert_sound().await;
    // Numbers go on without a gap, and the open task's events go once it is closed for long enough.
    let next = f.store.last_seq().await.unwrap() + 1;
    assert_eq!(next, before.last().unwrap() + 1);
    f.done("agent:w1", f.to(open, "done")).await;
    assert_eq!(seqs(&f, None).await.iter().filter(|seq| **seq >= next).min(), Some(&next));
    f.clock.advance_ms(31 * DAY_MS);
    finished(&f, "newest").await;
    count_days(&f.neighbour().await).await;
    prune(&f, Growing::Event, 30).await;
    assert_eq!((seqs(&f, Some(open)).await, seqs(&f, Some(young)).await), (vec![], vec![]));
    f.assert_sound().await;
}

async fn events_go_only_after_their_day_counted_them(f: Fixture) {
    finished(&f, "a").await;
    f.clock.advance_ms(40 * DAY_MS);
    f.create("b", &[]).await;
    assert_eq!(prune(&f, Growing::Event, 30).await, 0, "no event is counted yet");
    let first_day = day_of(f.store.now()) - 40;
    count_days(&f).await;
    assert!(prune(&f, Growing::Event, 30).await > 0);
    let kept = f.store.days(&f.home.org, first_day).await.unwrap();
    assert_eq!(kept.counts.count(first_day..=first_day, Measure::Lead), 1, "the day is counted");
}

async fn the_newest_event_stays(f: Fixture) {
    finished(&f, "a").await;
    let last = f.store.last_seq().await.unwrap();
    f.clock.advance_ms(400 * DAY_MS);
    count_days(&f).await;
    assert_eq!(prune(&f, Growing::Event, 30).await as u64, last - 1);
    assert_eq!(f.store.log_floor().await.unwrap().seq, last);
    f.assert_sound().await;
    let again = f.neighbour().await;
    again.create("b", &[]).await;
    assert_eq!(seqs(&again, None).await[..2], [last, last + 1]);
}

async fn a_step_is_bounded_and_a_look_changes_nothing(f: Fixture) {
    finished(&f, "a").await;
    finished(&f, "b").await;
    f.clock.advance_ms(40 * DAY_MS);
    count_days(&f).await;
    let all = seqs(&f, None).await;
    let first = PruneStep::first(Growing::Event, days_before(f.store.now(), 30), 3);
    let look = PruneStep { removes: false, limit: 1000, ..first.clone() };
    let found = f.store.prune(look).await.unwrap();
    assert_eq!((found.removed, found.next), (all.len() - 1, None));
    assert_eq!(seqs(&f, None).await, all, "a look removes nothing");
    assert_eq!(f.store.prune(first).await.unwrap().removed, 3);
    assert_eq!(seqs(&f, None).await, all[3..]);
    assert_eq!(f.store.log_floor().await.unwrap().seq, all[3]);
    f.assert_sound().await;
}

async fn a_gap_above_the_floor_is_still_found(f: Fixture) {
    finished(&f, "a").await;
    f.clock.advance_ms(40 * DAY_MS);
    let young = finished(&f, "b").await;
    count_days(&f).await;
    prune(&f, Growing::Event, 30).await;
    f.assert_sound().await;
    let lost = seqs(&f, Some(young)).await[1];
    run_sql(&f, &format!("DELETE FROM events WHERE seq = {lost}")).await;
    let found = f.store.verify().await.unwrap();
    let gap = found.iter().any(|finding| finding.what == "the event log has a gap: 1");
    assert!(gap, "{found:?}");
}

async fn a_reopened_task_is_sound_without_its_beginning(f: Fixture) {
    let task = f.create("a", &[]).await;
    f.done("agent:w1", Command::TaskClaim { task }).await;
    f.done("agent:w1", f.to(task, "done")).await;
    f.clock.advance_ms(40 * DAY_MS);
    f.create("b", &[]).await;
    count_days(&f).await;
    prune(&f, Growing::Event, 30).await;
    f.done("human:ana", f.to(task, "backlog")).await;
    f.assert_sound().await;
    f.done("agent:w1", f.begin(task, "l", None)).await;
    f.assert_sound().await;
    // The rows themselves are still compared: an assignee that no event gave is found.
    run_sql(&f, "UPDATE tasks SET assignee = 'agent:other' WHERE title = 'b'").await;
    let found = f.store.verify().await.unwrap();
    assert!(found.iter().any(|one| one.what.starts_with("a task's assignee")), "{found:?}");
}

fn agent(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

async fn decide(f: &Fixture, who: &str) {
    let log = DecisionLog {
        decision: DecisionId(next_id()),
        agent: agent(who),
        words: "w".into(),
        reasoning: "r".into(),
        context: None,
        by_hand: true,
    };
    f.done("agent:s1", Command::DecisionLog(log)).await;
}

async fn unread_mail_and_decisions_of_open_work_stay(f: Fixture) {
    let mut epics = Vec::new();
    for name in ["s1", "s2"] {
        let epic = TaskCreate { is_plan: true, ..f.new_task(name, &[]) };
        epics.push(epic.task);
        f.done("human:ana", Command::TaskCreate(epic.clone())).await;
        let add = AgentAdd {
            agent: agent(name),
            kind: AgentType::Supervisor,
            epic: Some(epic.task),
            task: None,
            or_keep: false,
            workers_max: None,
        };
        f.done("human:ana", Command::AgentAdd(add)).await;
        decide(&f, name).await;
    }
    let mut mails = Vec::new();
    for _ in 0..2 {
        let mail = MailId(next_id());
        mails.push(mail);
        let (from, to) = (Some(agent("s2")), Some(agent("s1")));
        let send = MailSend { mail, from, to, subject: "s".into(), body: "b".into() };
        f.done("agent:s2", Command::MailSend(send)).await;
    }
    f.done("agent:s1", Command::MailRead { mail: mails[0], by: Some(agent("s1")) }).await;
    f.done("human:ana", f.to(epics[1], "done")).await;
    f.clock.advance_ms(40 * DAY_MS);
    decide(&f, "s2").await;
    assert_eq!(
        (prune(&f, Growing::Mail, 50).await, prune(&f, Growing::Decision, 50).await),
        (0, 0)
    );
    assert_eq!(
        (prune(&f, Growing::Mail, 30).await, prune(&f, Growing::Decision, 30).await),
        (1, 1)
    );
    let org = f.home.org.clone();
    let to = Some(agent("s1"));
    let query = MailQuery { org: org.clone(), to, unread_only: false, before: None, limit: 9 };
    let kept: Vec<MailId> =
        f.store.mails(query).await.unwrap().iter().map(|seen| seen.mail.id).collect();
    assert_eq!(kept, [mails[1]], "unread mail stays");
    let query = DecisionQuery { org, agent: None, before: None, limit: 9 };
    let kept = f.store.decisions(query).await.unwrap();
    let kept: Vec<&str> = kept.iter().map(|one| one.agent.as_str()).collect();
    assert_eq!(kept, ["s2", "s1"], "the young one, and that of the open epic");
    f.assert_sound().await;
}

async fn messages_go_when_they_are_over(mut f: Fixture) {
    let sent = canceled(&f, "a").await;
    tried(&f, sent, 1, Receipt::Taken).await;
    let mut policy = Policy::default();
    policy.webhook = Some("https://x".into());
    f.policy = Arc::new(policy);
    f.create("told", &[]).await;
    f.clock.advance_ms(40 * DAY_MS);
    assert_eq!(prune(&f, Growing::Delivery, 30).await, 1, "the other one is still to be sent");
    let left = f.store.deliveries(&f.home.org, 9).await.unwrap();
    assert_eq!(left.iter().map(|(job, _)| job.state.as_str()).collect::<Vec<_>>(), ["queued"]);
    assert_eq!(f.store.job(&f.home.org, sent.1).await.unwrap(), None, "with the job that sent it");
    f.assert_sound().await;
}

async fn a_move_carries_the_floor_and_the_counts(f: Fixture) {
    finished(&f, "a").await;
    f.clock.advance_ms(40 * DAY_MS);
    f.create("b", &[]).await;
    count_days(&f).await;
    prune(&f, Growing::Event, 30).await;
    let from = match &*f.place {
        Database::Folder(folder) => Address::Sqlite(folder.path().join("test.db")),
        Database::Schema(schema) => Address::Postgres(schema.url().to_owned()),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("moved.db");
    let clock = Arc::new(ManualClock::at(f.store.now()));
    let to = Address::Sqlite(path.clone());
    let moved = transfer(&from, &to, clock.clone(), Arc::new(|_| {})).await.unwrap();
    assert_eq!(moved.findings, []);
    let copy = SqliteStore::open(&path, clock).unwrap();
    assert_eq!(copy.log_floor().await.unwrap(), f.store.log_floor().await.unwrap());
    let org = &f.home.org;
    assert_eq!(copy.days(org, 0).await.unwrap(), f.store.days(org, 0).await.unwrap());
}

async fn everything_that_grows_is_measured(f: Fixture) {
    finished(&f, "a").await;
    let sent = canceled(&f, "a").await;
    let grown = f.store.grown().await.unwrap();
    let of = |kind: &str| grown.iter().find(|one| one.kind == kind).unwrap();
    assert_eq!(of("events").rows, f.store.last_seq().await.unwrap());
    assert!(of("events").bytes > 100 && of("events").oldest.is_some());
    assert_eq!((of("deliveries").rows, of("jobs").rows), (1, 1), "{sent:?}");
    assert_eq!((of("mail").rows, of("mail").bytes, of("mail").oldest), (0, 0, None));
    assert!(f.store.space().await.unwrap().bytes > 0);
}

fn pragma(path: &std::path::Path, name: &str) -> i64 {
    let db = rusqlite::Connection::open(path).unwrap();
    db.pragma_query_value(None, name, |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_file_gives_pages_back_in_steps() {
    let f = Fixture::sqlite().await;
    let path = f.folder().join("test.db");
    assert_eq!(pragma(&path, "auto_vacuum"), 2, "a new file is made for it");
    let big = "CREATE TABLE big (x); INSERT INTO big VALUES (zeroblob(4000000)); DELETE FROM big";
    run_sql(&f, big).await;
    let before = f.store.space().await.unwrap();
    assert!(before.shrinks && before.free_bytes > 3_900_000, "{before:?}");
    assert_eq!(f.store.pages_give_back(100).await.unwrap(), 100);
    while f.store.pages_give_back(300).await.unwrap() > 0 {}
    let after = f.store.space().await.unwrap();
    assert_eq!(after.free_bytes, 0);
    assert!(after.bytes < before.bytes - 3_900_000, "{before:?} {after:?}");
}

#[tokio::test]
async fn a_backup_of_an_older_file_can_give_pages_back() {
    let f = Fixture::sqlite().await;
    let path = f.folder().join("test.db");
    // An older callboard made files without it.
    run_sql(&f, "PRAGMA auto_vacuum = NONE; VACUUM").await;
    assert_eq!(pragma(&path, "auto_vacuum"), 0);
    f.create("kept", &[]).await;
    assert!(!f.store.space().await.unwrap().shrinks);
    assert_eq!(f.store.pages_give_back(100).await.unwrap(), 0);
    for copy in ["one.db", "two.db"] {
        let copy = f.folder().join(copy);
        f.store.backup(copy.clone()).await.unwrap();
        assert_eq!(pragma(&copy, "auto_vacuum"), 2);
        assert_eq!(pragma(&path, "auto_vacuum"), 0, "the file itself stays as it is");
    }
}

/// A floor that is not raised hides nothing.
#[tokio::test]
async fn a_new_log_is_whole() {
    let f = Fixture::sqlite().await;
    let floor = f.store.log_floor().await.unwrap();
    assert_eq!(floor, LogFloor { seq: 1, at: Timestamp(0) });
    assert!(!floor.is_raised());
}
