//! The states of tasks and epics in a crew's words, and the moves between them, as tables.

use super::model::Model;
use crate::board::card::{Card, Failed};
use crate::crew::state::{EpicState, TaskState, failure_reason};
use crate::policy::Policy;
use crate::task::Task;
use crate::task::block::Blocked;
use crate::time::Timestamp;

/// Steps that bring `A` into a situation, whether it is blocked there, and the words for that.
const SITUATIONS: &[(&[&str], bool, &str, &str)] = &[
    (&[], false, "PENDING", "PLANNING"),
    (&["ana depend A D"], false, "PENDING", "PLANNING"),
    (&["ana depend A D", "w1 claim A"], false, "PENDING", "PLANNING"),
    (&["w1 claim A"], false, "ASSIGNED", "PLANNING"),
    (&["w1 claim A"], true, "ASSIGNED", "PLANNING"),
    (&["ana move A in_progress"], false, "IN_PROGRESS", "IN_PROGRESS"),
    (&["ana move A in_progress"], true, "BLOCKED", "BLOCKED"),
    (&["ana move A in_review"], false, "REVIEW", "IN_PROGRESS"),
    (&["ana move A in_review"], true, "REVIEW", "BLOCKED"),
    (&["ana move A done"], true, "COMPLETED", "COMPLETED"),
    (&["ana move A canceled"], true, "FAILED", "CANCELLED"),
];

fn played(steps: &[&str]) -> Model {
    let mut model = Model::new(Policy::default());
    for step in ["ana create A", "ana create D"].iter().chain(steps) {
        let (who, rest) = step.split_once(' ').expect("who does what");
        let command = model.command(rest);
        model.act(who, &command).expect("a situation can be reached");
    }
    model
}

#[test]
fn facts_have_words() {
    for (steps, is_blocked, task_word, epic_word) in SITUATIONS {
        let model = played(steps);
        let (by, at) = (super::model::actor("w1"), Timestamp(1));
        let blocked = is_blocked.then(|| Blocked { by, at, reason: "waits".into() });
        let task = &Task { blocked, ..model.task("A").clone() };
        let found = TaskState::of(task, task.assignee.is_some());
        assert_eq!(found.as_str(), *task_word, "{steps:?}");
        assert_eq!(EpicState::of(task).as_str(), *epic_word, "{steps:?}");
        assert_eq!(found.is_open(), !task.phase.is_closed(), "{steps:?}");
        assert_eq!(EpicState::of(task).is_open(), !task.phase.is_closed(), "{steps:?}");
    }
}

#[test]
fn words_are_read_in_any_shape() {
    for text in ["in-progress", " In Progress ", "IN_PROGRESS", "in_progress"] {
        assert_eq!(TaskState::parse(text), Some(TaskState::InProgress), "{text}");
        assert_eq!(EpicState::parse(text), Some(EpicState::InProgress), "{text}");
    }
    assert_eq!(TaskState::parse("done"), None);
    for state in TaskState::ALL {
        assert_eq!(TaskState::parse(state.as_str()), Some(*state));
    }
}

/// One line per state: where a worker may move its task, and whether the task may change hands.
#[test]
fn a_task_goes_where_the_machine_says() {
    let mut lines = Vec::new();
    for state in TaskState::ALL {
        let to: Vec<_> = state.by_worker().iter().map(|to| to.as_str()).collect();
        let hands = if state.may_change_hands() { " (other worker)" } else { "" };
        lines.push(format!("{state}: {}{hands}", to.join(" ")));
    }
    assert_eq!(
        lines,
        [
            "PENDING:  (other worker)",
            "ASSIGNED: IN_PROGRESS PENDING (other worker)",
            "IN_PROGRESS: REVIEW BLOCKED FAILED (other worker)",
            "REVIEW: IN_PROGRESS BLOCKED",
            "BLOCKED: IN_PROGRESS FAILED (other worker)",
            "COMPLETED: ",
            "FAILED: ",
        ]
    );
    let epic = |from: EpicState| {
        let to: Vec<_> = from.by_supervisor().iter().map(|to| to.as_str()).collect();
        format!("{from}: {}", to.join(" "))
    };
    let epics: Vec<_> = EpicState::ALL.iter().copied().map(epic).collect();
    assert_eq!(
        epics,
        [
            "PLANNING: IN_PROGRESS CANCELLED",
            "IN_PROGRESS: BLOCKED CANCELLED",
            "BLOCKED: IN_PROGRESS CANCELLED",
            "COMPLETED: ",
            "CANCELLED: ",
        ]
    );
}

#[test]
fn a_reason_speaks_of_the_last_end_alone() {
    let mut model = played(&["ana move A canceled"]);
    let at = model.task("A").phase_at;
    let card = Card { failed: Some(Failed { reason: "no way".into(), at }), ..Card::default() };
    assert_eq!(failure_reason(model.task("A"), &card), Some("no way"));
    model.now = model.now.plus_s(1);
    for step in ["move A backlog", "move A canceled"] {
        let command = model.command(step);
        model.act("ana", &command).expect("it can be moved");
    }
    assert_eq!(failure_reason(model.task("A"), &card), None);
}

#[test]
fn a_phase_is_dated_by_whatever_brought_it_about() {
    let mut model = played(&[]);
    let made = model.task("A").phase_at;
    for (step, moves) in [
        ("claim A", false),
        ("card A title=x", false),
        ("begin A as=s", true),
        ("finish s", true),
        ("reject A", true),
        ("ask A", true),
        ("ask A", false),
        ("note A text=x", false),
        ("move A done", true),
    ] {
        model.now = model.now.plus_s(1);
        let before = model.task("A").phase_at;
        let command = model.command(step);
        model.act("w1", &command).expect("it can be done");
        let after = model.task("A").phase_at;
        assert_eq!(after == model.now, moves, "{step}");
        assert_eq!(after == before, !moves, "{step}");
        assert!(after >= made);
    }
}

#[test]
fn a_worker_hands_over_and_blocks_from_the_states_of_its_work() {
    use TaskState::*;
    for (state, hands_over, steps, phases) in [
        (Pending, false, "", "initial working"),
        (Assigned, false, "IN_PROGRESS BLOCKED", "initial working"),
        (InProgress, true, "BLOCKED", "working"),
        (Review, false, "", "review"),
        (Blocked, false, "", "working"),
        (Completed, false, "", "closed_done"),
        (Failed, false, "", "closed_canceled"),
    ] {
        assert_eq!(state.hands_over(Review), hands_over, "{state}");
        assert!(!state.hands_over(Blocked), "{state}");
        let words: Vec<&str> = state.steps_to_blocked().iter().map(|to| to.as_str()).collect();
        assert_eq!(words.join(" "), steps, "{state}");
        let words: Vec<&str> = state.phases().iter().map(|phase| phase.as_str()).collect();
        assert_eq!(words.join(" "), phases, "{state}");
    }
}

#[test]
fn a_worker_in_review_is_left_alone_until_it_gets_mail() {
    use crate::crew::shift::{is_overdue, may_start};
    use crate::policy::Phase;
    for (phase, has_run, has_mail, starts) in [
        (Phase::Initial, false, false, true),
        (Phase::Working, false, false, true),
        (Phase::Working, true, true, false),
        (Phase::Review, false, false, false),
        (Phase::Review, false, true, true),
        (Phase::Review, true, true, false),
    ] {
        assert_eq!(may_start(phase, has_run, has_mail), starts, "{phase:?} {has_run} {has_mail}");
    }
    let heard_at = Timestamp(0);
    for (phase, after_s, overdue) in [
        (Phase::Working, 59, false),
        (Phase::Working, 60, true),
        (Phase::Initial, 60, true),
        (Phase::Review, 60, false),
    ] {
        assert_eq!(is_overdue(phase, heard_at, 60, heard_at.plus_s(after_s)), overdue, "{phase:?}");
    }
}
