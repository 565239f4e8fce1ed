//! The judge of histories as a table: one good history, and for each promise a history that breaks it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::history::{Entry, Logged, Op, Row, Seen, Step, Stored};
use crate::violations::{Violation, WAKE_MAX, violations};

struct Run {
    history: Vec<Entry>,
    stored: Stored,
}

impl Run {
    fn step(&mut self, call: usize, client: &str, step: Step) {
        let at = Duration::from_millis(self.history.len() as u64);
        self.history.push(Entry { at, client: client.to_owned(), call, step });
    }

    fn invoke(&mut self, call: usize, client: &str, op: Op) {
        self.step(call, client, Step::Invoke(op));
    }

    fn call(&mut self, call: usize, client: &str, op: Op, end: Step) {
        self.invoke(call, client, op);
        self.step(call, client, end);
    }

    fn event(&mut self, actor: &str, name: &str, task: &str, data: Value) {
        let seq = self.stored.log.len() as u64 + 1;
        let (actor, name, task) = (actor.to_owned(), name.to_owned(), task.to_owned());
        self.stored.log.push(Logged { seq, at: format!("{seq:03}"), actor, name, task, data });
    }

    /// What a read showed.
    fn seen(&mut self, call: usize) -> &mut Seen {
        let Step::Read(seen) = &mut self.end_of(call).step else { panic!("{call} is a read") };
        seen
    }

    /// Writes an event again, at the end of the log.
    fn again(&mut self, seq: u64) {
        let Logged { actor, name, task, data, .. } = self.at(seq).clone();
        self.event(&actor, &name, &task, data);
    }

    fn at(&mut self, seq: u64) -> &mut Logged {
        &mut self.stored.log[seq as usize - 1]
    }

    /// The last entry of a call.
    fn end_of(&mut self, call: usize) -> &mut Entry {
        self.history.iter_mut().rev().find(|entry| entry.call == call).unwrap()
    }

    /// Takes an event out of the log and closes the gap.
    fn without(&mut self, seq: u64) {
        self.stored.log.remove(seq as usize - 1);
        for (n, event) in self.stored.log.iter_mut().enumerate() {
            event.seq = n as u64 + 1;
        }
    }

    /// Lets two events change places; each place keeps its number and its time.
    fn swap(&mut self, one: u64, other: u64) {
        self.stored.log.swap(one as usize - 1, other as usize - 1);
        for (n, event) in self.stored.log.iter_mut().enumerate() {
            event.seq = n as u64 + 1;
            event.at = format!("{:03}", event.seq);
        }
    }
}

const OK: Step = Step::Ok { fence: None };

fn refused() -> Step {
    Step::Fail("ALREADY_CLAIMED".into())
}

fn t(name: &str) -> String {
    name.to_owned()
}

fn note(task: &str, text: &str) -> Op {
    Op::Note { task: t(task), text: t(text) }
}

fn beat(fence: u64, text: &str) -> Op {
    Op::Beat { task: t("T1"), fence, text: t(text) }
}

fn close() -> Op {
    Op::Close { task: t("T1"), fence: None }
}

fn read(task: &str) -> Op {
    Op::Read { task: t(task) }
}

/// An answer in execution's words.
fn leased(holder: Option<&str>, fence: u64) -> Step {
    Step::Read(Seen { holder: holder.map(t), fence: Some(fence), ..Seen::default() })
}

/// An answer in graph's words.
fn shown(status: &str, holder: Option<&str>, deps: &[&str], note: &str) -> Step {
    Step::Read(Seen {
        status: Some(t(status)),
        holder: holder.map(t),
        fence: None,
        deps: Some(deps.iter().map(|dep| t(dep)).collect()),
        note: Some(t(note)),
    })
}

/// w1 loses the lease of T1 to w2, who closes it; T2 gets notes, a dep and an assignee. ana reads both.
fn good() -> Run {
    let mut run = Run { history: Vec::new(), stored: Stored::default() };
    run.call(0, "ana", Op::Create { title: t("A") }, OK);
    run.call(1, "ana", Op::Create { title: t("B") }, OK);
    run.call(2, "w1", Op::Lease { task: t("T1") }, Step::Ok { fence: Some(1) });
    run.call(3, "w1", beat(1, "b1"), OK);
    run.call(14, "ana", read("T1"), shown("backlog", Some("w1"), &[], "b1"));
    run.call(4, "w2", Op::Lease { task: t("T1") }, refused());
    // Repeated under its retry key: one call.
    run.call(5, "w1", note("T2", "n1"), Step::Unknown);
    run.call(5, "w1", note("T2", "n1"), OK);
    run.call(6, "w2", note("T2", "n2"), Step::Unknown);
    run.call(7, "w1", Op::Depend { task: t("T2"), dep: t("T1") }, OK);
    run.call(15, "ana", read("T2"), shown("backlog", None, &["T1"], "n1"));
    // The lease is over by the clock. The log says that with the next lease.
    run.call(16, "ana", read("T1"), leased(None, 1));
    run.call(8, "w2", Op::Lease { task: t("T1") }, Step::Ok { fence: Some(2) });
    run.call(9, "w1", beat(1, "b2"), refused());
    run.invoke(10, "w3", Op::Wait { task: t("T1") });
    run.call(17, "ana", read("T1"), leased(Some("w2"), 2));
    run.invoke(11, "w2", Op::Close { task: t("T1"), fence: Some(2) });
    // Committed, but not acknowledged yet.
    run.call(18, "ana", read("T1"), shown("done", Some("w2"), &[], "b1"));
    run.call(19, "ana", read("T1"), shown("done", Some("w2"), &[], "b1"));
    run.step(11, "w2", OK);
    run.step(10, "w3", OK);
    run.call(12, "w4", Op::Claim { task: t("T2") }, OK);
    run.call(13, "w2", Op::Claim { task: t("T2") }, refused());

    run.event("ana", "task.created", "T1", json!({"title": "A", "status": "backlog", "deps": []}));
    run.event("ana", "task.created", "T2", json!({"title": "B", "status": "backlog", "deps": []}));
    run.event("w1", "attempt.started", "T1", json!({"kind": "execution", "fence": 1}));
    run.event("w1", "task.claimed", "T1", json!({"assignee": "w1"}));
    run.event("w1", "task.noted", "T1", json!({"text": "b1"}));
    run.event("w1", "task.noted", "T2", json!({"text": "n1"}));
    run.event("w1", "task.dependency_added", "T2", json!({"dep": "T1"}));
    run.event("system:clock", "attempt.ended", "T1", json!({"how": "expired"}));
    run.event("w2", "attempt.started", "T1", json!({"kind": "execution", "fence": 2}));
    run.event("w2", "task.claimed", "T1", json!({"assignee": "w2"}));
    run.event("w2", "attempt.ended", "T1", json!({"how": "finished"}));
    run.event("w2", "task.status_changed", "T1", json!({"from": "backlog", "to": "done"}));
    run.event("w4", "task.claimed", "T2", json!({"assignee": "w4"}));

    let row = |task: &str, title: &str, status: &str, assignee: &str, deps: &[&str]| Row {
        task: t(task),
        title: t(title),
        status: t(status),
        assignee: Some(t(assignee)),
        deps: deps.iter().map(|dep| t(dep)).collect(),
    };
    run.stored.rows.push(row("T1", "A", "done", "w2", &[]));
    run.stored.rows.push(row("T2", "B", "backlog", "w4", &["T1"]));
    run
}

#[test]
fn a_history_that_keeps_every_promise_has_no_violations() {
    let run = good();
    assert_eq!(violations(&run.history, &run.stored), []);
    // An unknown call may also have happened.
    let mut run = good();
    run.event("w2", "task.noted", "T2", json!({"text": "n2"}));
    assert_eq!(violations(&run.history, &run.stored), []);
}

type Case = (&'static str, fn(&mut Run), Violation);

#[test]
fn every_broken_promise_is_found() {
    let cases: [Case; 25] = [
        (
            "the log has a gap",
            |run| run.stored.log.iter_mut().skip(4).for_each(|event| event.seq += 1),
            Violation::Gap { after: 4, next: 6 },
        ),
        ("time goes back", |run| run.at(7).at = t("000"), Violation::TimeWentBack { seq: 7 }),
        (
            "an acknowledged note is not there",
            |run| run.without(6),
            Violation::Lost { client: t("w1"), op: note("T2", "n1") },
        ),
        (
            "an acknowledged lease is not there",
            |run| run.without(3),
            Violation::Lost { client: t("w1"), op: Op::Lease { task: t("T1") } },
        ),
        (
            "an acknowledged close is not there",
            |run| run.without(12),
            Violation::Lost { client: t("w2"), op: close() },
        ),
        (
            "a repeated call happens twice",
            |run| run.again(6),
            Violation::Twice { client: t("w1"), op: note("T2", "n1"), times: 2 },
        ),
        (
            "an unknown call happens twice",
            |run| {
                run.event("w2", "task.noted", "T2", json!({"text": "n2"}));
                run.event("w2", "task.noted", "T2", json!({"text": "n2"}));
            },
            Violation::Twice { client: t("w2"), op: note("T2", "n2"), times: 2 },
        ),
        (
            "a task is made twice",
            |run| run.event("ana", "task.created", "T3", json!({"title": "A"})),
            Violation::Twice { client: t("ana"), op: Op::Create { title: t("A") }, times: 2 },
        ),
        (
            "a refused claim happens",
            |run| run.event("w2", "task.claimed", "T2", json!({"assignee": "w2"})),
            Violation::RefusedButDone { client: t("w2"), op: Op::Claim { task: t("T2") } },
        ),
        (
            "a note comes from nowhere",
            |run| run.event("w9", "task.noted", "T2", json!({"text": "?"})),
            Violation::NotAsked { seq: 14 },
        ),
        (
            "a lease begins before the former one ended",
            |run| run.without(8),
            Violation::TwoHolders { task: t("T1"), seq: 8 },
        ),
        (
            "a claimed task is claimed by another client",
            |run| run.event("w2", "task.claimed", "T2", json!({"assignee": "w2"})),
            Violation::TwoHolders { task: t("T2"), seq: 14 },
        ),
        (
            "two clients are told one fence",
            |run| run.end_of(8).step = Step::Ok { fence: Some(1) },
            Violation::OneFenceTwoHolders { task: t("T1"), fence: 1 },
        ),
        (
            "a fence is given again",
            |run| run.at(9).data["fence"] = 1.into(),
            Violation::FenceNotRising { task: t("T1"), seq: 9 },
        ),
        (
            "a late write under the former fence is accepted",
            |run| {
                run.end_of(9).step = OK;
                run.event("w1", "task.noted", "T1", json!({"text": "b2"}));
            },
            Violation::StaleWrite { client: t("w1"), op: beat(1, "b2"), seq: 14 },
        ),
        (
            "a late write without an answer is committed after the next lease",
            |run| {
                run.end_of(9).step = Step::Unknown;
                run.event("w1", "task.noted", "T1", json!({"text": "b2"}));
            },
            Violation::StaleWrite { client: t("w1"), op: beat(1, "b2"), seq: 14 },
        ),
        (
            "the log turns the order of two writes to a task around",
            |run| run.swap(6, 7),
            Violation::Reordered {
                client: t("w1"),
                op: Op::Depend { task: t("T2"), dep: t("T1") },
                seq: 6,
                behind: 7,
            },
        ),
        (
            "a task of the log has no row",
            |run| drop(run.stored.rows.pop()),
            Violation::RowsOfTask { task: t("T2"), rows: 0 },
        ),
        (
            "a writer overwrote the set of another writer",
            |run| run.stored.rows[1].deps.clear(),
            Violation::LostUpdate { task: t("T2"), what: "deps" },
        ),
        (
            "a read does not show an acknowledged note",
            |run| run.seen(15).note = Some(t("")),
            Violation::StaleRead { client: t("ana"), task: t("T2"), since: 7 },
        ),
        (
            "a read does not show an acknowledged dep",
            |run| run.seen(15).deps = Some([].into()),
            Violation::StaleRead { client: t("ana"), task: t("T2"), since: 7 },
        ),
        (
            "a read shows the holder before an acknowledged lease",
            |run| run.end_of(17).step = leased(Some("w1"), 1),
            Violation::StaleRead { client: t("ana"), task: t("T1"), since: 9 },
        ),
        (
            "a read shows what was before an earlier read",
            |run| run.end_of(19).step = shown("backlog", Some("w2"), &[], "b1"),
            Violation::StaleRead { client: t("ana"), task: t("T1"), since: 12 },
        ),
        (
            "a read does not find a task that is there",
            |run| run.end_of(14).step = refused(),
            Violation::StaleRead { client: t("ana"), task: t("T1"), since: 5 },
        ),
        (
            "a wait goes on after the change",
            |run| run.end_of(10).at += WAKE_MAX + WAKE_MAX,
            Violation::NotWoken { client: t("w3"), task: t("T1") },
        ),
    ];
    for (what, spoil, expected) in cases {
        let mut run = good();
        spoil(&mut run);
        let found = violations(&run.history, &run.stored);
        assert!(found.contains(&expected), "{what}: {found:#?}");
    }
    for what in ["title", "status", "assignee"] {
        let mut run = good();
        let row = &mut run.stored.rows[1];
        match what {
            "title" => row.title = t("C"),
            "status" => row.status = t("done"),
            _ => row.assignee = None,
        }
        let expected = Violation::LostUpdate { task: t("T2"), what };
        assert_eq!(violations(&run.history, &run.stored), [expected]);
    }
}
