//! What blocks a task and what lifts a block, as a table: the steps after `w1 block A why=key`, and the state of
//! the task after them.

use super::model::Model;
use crate::event::EventName;
use crate::policy::Policy;
use crate::task::standing::Standing;

const TABLE: &[(&[&str], &str)] = &[
    (&[], "blocked by agent:w1: key"),
    // A comment, note or move by the blocked actor itself is no answer.
    (&["w1 note A text=still"], "blocked by agent:w1: key"),
    (&["w1 comment A note"], "blocked by agent:w1: key"),
    (&["w1 move A backlog"], "blocked by agent:w1: key"),
    (&["w1 edit A title=B"], "free"),
    (&["ana note A text=here"], "free"),
    (&["w2 note A text=here"], "free"),
    (&["ana edit A title=B"], "free"),
    (&["ana mend A title=B"], "free"),
    (&["ana tell A text=here"], "free"),
    (&["w1 tell A text=still"], "blocked by agent:w1: key"),
    (&["ana comment A note"], "free"),
    (&["ana depend A D"], "waits"),
    (&["ana move A backlog"], "free"),
    (&["ana unblock A"], "free"),
    (&["w1 unblock A"], "free"),
    // A claim goes on with the work.
    (&["w1 claim A"], "held"),
    (&["w2 begin A"], "held"),
    (&["w2 take A"], "held"),
    // Work that is handed over or closed waits for no answer.
    (&["w1 move A in_review"], "nobody's"),
    (&["w1 move A canceled"], "nobody's"),
    (&["w1 block A why=other"], "blocked by agent:w1: other"),
    (&["w2 block A why=other"], "blocked by agent:w2: other"),
];

fn played(steps: &[&str]) -> Model {
    let mut model = Model::new(Policy::default());
    for step in ["ana create A", "ana create D", "w1 block A why=key"].iter().chain(steps) {
        let (who, rest) = step.split_once(' ').expect("who does what");
        let command = model.command(rest);
        model.act(who, &command).expect("a situation can be reached");
    }
    model
}

#[test]
fn a_block_lasts_until_it_gets_an_answer() {
    for (steps, expected) in TABLE {
        let model = played(steps);
        let task = model.task("A");
        let newest = task.newest_attempt.map(|id| model.rows.attempts[&id].clone());
        let standing = Standing::of(task, newest.as_ref(), model.now);
        assert_eq!(standing.blocked, task.blocked.is_some(), "{steps:?}");
        let found = match (&task.blocked, standing) {
            (Some(blocked), _) => format!("blocked by {}: {}", blocked.by, blocked.reason),
            (None, it) if it.is_free() => "free".into(),
            (None, it) if it.held => "held".into(),
            (None, it) if it.deps_open => "waits".into(),
            (None, _) => "nobody's".into(),
        };
        assert_eq!(found, *expected, "{steps:?}");
        assert!(task.blocked.is_none() || !standing.is_free(), "{steps:?}");
    }
}

#[test]
fn a_closed_task_cannot_be_blocked_and_unblocking_twice_is_once() {
    let mut model = played(&["ana unblock A"]);
    let again = model.command("unblock A");
    let change = model.act("ana", &again).expect("nothing to do");
    assert!(change.is_empty(), "{change:?}");
    let blank = model.command("block A");
    assert!(model.act("w1", &blank).is_err(), "a block has a reason");
    let done = model.command("move A done");
    model.act("ana", &done).expect("closes");
    let late = model.command("block A why=late");
    assert!(model.act("w1", &late).is_err());
    let names = [EventName::TaskBlocked.as_str(), EventName::TaskUnblocked.as_str()];
    let told: Vec<_> = model.events.iter().filter(|name| names.contains(name)).collect();
    assert_eq!(told, names.iter().collect::<Vec<_>>(), "each once");
}

#[test]
fn a_reason_is_trimmed_cut_and_never_empty() {
    use crate::task::block::{NO_REASON, reason_of};
    let max = crate::limits::REASON_CHARS_MAX;
    for (words, reason) in [
        ("no key", "no key".to_owned()),
        ("  no key\n", "no key".to_owned()),
        ("", NO_REASON.to_owned()),
        (" \n", NO_REASON.to_owned()),
        (&"é".repeat(max + 1), "é".repeat(max)),
    ] {
        assert_eq!(reason_of(words), reason);
    }
}
