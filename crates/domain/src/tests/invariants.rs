//! Invariants that hold for any commands in any order.

use proptest::prelude::*;

use super::model::Model;
use crate::desk::TaskRows;
use crate::policy::Policy;
use crate::task::attempt::AttemptState;

const VERBS: &[&str] = &[
    "claim T",
    "release T",
    "begin T",
    "begin T takeover",
    "begin T lease",
    "note T text=x",
    "move T backlog",
    "move T in_progress",
    "move T in_review",
    "move T done",
    "move T canceled",
    "depend T U",
    "undepend T U",
    "remove T",
    "beat s1",
    "finish s2",
    "cancel s3",
    "expire s4",
    "take T",
    "update T",
    "update T free",
    "update T canceled",
    "complete T",
    "reopen T",
    "comment T blocker",
    "resolve c5",
    "card T to=initial",
    "card T to=working",
    "card T to=review",
    "card T to=closed_done",
    "card T mode=auto title=x",
    "card T mode=pair parent=U",
    "ask T",
    "approve T",
    "reject T",
    "reject T back",
    "scribble T text=x",
    "discard T",
    "clock",
];

fn steps() -> impl Strategy<Value = Vec<(usize, usize, usize, usize)>> {
    prop::collection::vec((0..3usize, 0..VERBS.len(), 0..4usize, 0..4usize), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn hold_after_every_command(steps in steps()) {
        let mut model = Model::new(Policy::default());
        for name in ["A", "B", "C", "D"] {
            let create = model.command(&format!("create {name}"));
            model.act("ana", &create).expect("a new name");
        }
        for (who, verb, task, other) in steps {
            let name = |n: usize| ["A", "B", "C", "D"][n];
            let line = VERBS[verb].replace('T', name(task)).replace('U', name(other));
            if line == "clock" {
                model.now = model.now.plus_s(100);
                continue;
            }
            let command = model.command(&line);
            let before = (model.events.len(), model.touched.entries.len());
            let change = model.act(["ana", "w1", "w2"][who], &command);
            let wrote = change.is_ok_and(|change| !change.writes.is_empty());
            prop_assert_eq!(wrote, model.events.len() > before.0, "{}", line);
            check(&model)?;
        }
    }
}

fn check(model: &Model) -> Result<(), TestCaseError> {
    let tasks = &model.rows.tasks;
    for (id, TaskRows { task, deps, .. }) in tasks.iter().filter(|(_, t)| t.removed_at.is_none()) {
        let open = deps.iter().filter(|(_, dep)| {
            tasks[dep].removed_at.is_none() && !tasks[dep].task.phase.is_closed()
        });
        prop_assert_eq!(task.open_deps as usize, open.count(), "open deps of {}", id);
        let live = model.rows.attempts.values().filter(|attempt| {
            attempt.task == *id && matches!(attempt.state, AttemptState::Live { .. })
        });
        prop_assert!(live.clone().count() <= 1, "two live attempts on {}", id);
        for attempt in live {
            prop_assert_eq!(attempt.fence, task.fence, "a live attempt has the highest fence");
        }
        let blockers = model.rows.comments.values().filter(|c| c.task == *id && c.blocks()).count();
        prop_assert_eq!(task.open_blockers as usize, blockers, "blockers of {}", id);
        let entries = model.touched.entries.range((*id, 0)..=(*id, u32::MAX)).count();
        prop_assert_eq!(task.entries as usize, entries, "entries of {}", id);
    }
    Ok(())
}
