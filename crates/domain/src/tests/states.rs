//! Prints docs/reference/states.md: what every command does to a task in every situation.

use super::check_document;
use super::model::Model;
use crate::policy::Policy;

/// A name for a situation, and how a task `A` gets there. `me` is the caller, `bob` is another actor.
const SITUATIONS: &[(&str, &[&str])] = &[
    ("initial, free", &[]),
    ("initial, open dependency", &["ana depend A D"]),
    ("initial, claimed by the caller", &["me claim A"]),
    ("initial, claimed by another", &["bob claim A"]),
    ("initial, leased by the caller", &["me take A as=s"]),
    ("initial, leased by another", &["bob take A as=s"]),
    ("working, leased by the caller", &["me take A as=s", "me update A"]),
    ("working, the caller's session", &["me begin A as=s"]),
    ("working, another's session", &["bob begin A as=s"]),
    ("working, another's stalled session", &["bob begin A as=s", "clock"]),
    ("working, free", &["me move A in_progress"]),
    ("working, given up", &["me begin A as=s", "me cancel s"]),
    ("working, sent back", &["me begin A as=s", "me finish s", "ana reject A"]),
    ("review, the caller's finished session", &["me begin A as=s", "me finish s"]),
    ("review, the caller's session", &["me begin A as=s", "me ask A"]),
    ("done", &["me move A done"]),
    ("canceled", &["me move A canceled"]),
];

/// A name for a command, the command on `A`, and the words that callers use for it.
const COMMANDS: &[(&str, &str, &str)] = &[
    (
        "claim",
        "claim A",
        "`claim` of graph: the caller becomes the assignee. `callboard claim` does the same, but refuses a closed task and one with an open dependency unless `--anyway` is given.",
    ),
    (
        "release",
        "release A",
        "`release` of graph, `callboard release`: the caller gives up the claim.",
    ),
    ("begin", "begin A as=n", "`begin` of graph: the caller starts a session."),
    (
        "begin, takeover",
        "begin A as=n takeover",
        "`begin` of graph with `takeover`: the caller starts a session in the place of a stalled one.",
    ),
    ("heartbeat", "beat s", "`heartbeat` of graph: the caller still works."),
    ("finish", "finish s", "`finish` of graph: the caller ends the session with a result."),
    ("cancel", "cancel s", "`cancel` of graph: the caller ends the session without a result."),
    ("take a lease", "take A", "`claim_task` of execution: the caller leases the task."),
    (
        "lease: work",
        "update A",
        "`update_task_status` of execution with `in_progress`: the caller works and renews the lease.",
    ),
    (
        "lease: give back",
        "update A free",
        "`update_task_status` of execution with `ready`: the caller gives the task back.",
    ),
    ("complete", "complete A", "`complete_task` of execution: the caller hands over the result."),
    ("to initial", "move A backlog", "`transition` of graph to a label of the phase initial."),
    ("to working", "move A in_progress", "`transition` of graph to a label of the phase working."),
    ("to review", "move A in_review", "`transition` of graph to a label of the phase review."),
    (
        "to done",
        "move A done",
        "`transition` of graph to a label of the phase closed_done, `callboard done`.",
    ),
    (
        "to canceled",
        "move A canceled",
        "`transition` of graph to a label of the phase closed_canceled.",
    ),
    ("board: BACKLOG", "card A to=initial", "`tasks_move` of board to `BACKLOG`."),
    ("board: IN_PROGRESS", "card A to=working", "`tasks_move` of board to `IN_PROGRESS`."),
    ("board: REVIEW", "card A to=review", "`tasks_move` of board to `REVIEW`."),
    ("board: DONE", "card A to=closed_done", "`tasks_move` of board to `DONE`."),
    ("request review", "ask A", "`request_review` of board."),
    ("approve", "approve A", "`review` of board with `approve`, `callboard approve`."),
    ("reject", "reject A", "`review` of board with `reject`, `callboard reject`."),
    (
        "reject to BACKLOG",
        "reject A back",
        "`review` of board with `reject` to `BACKLOG`, `callboard reject --to backlog`.",
    ),
];

#[test]
fn the_state_table_is_documented() {
    let mut text = String::from(
        "# States of a task\n\nThis page is generated from the rules in `domain/src/decide/`. `CALLBOARD_BLESS=1 cargo \
         test --lib` rewrites it.\n\nA task is in one of five phases. Each toolset has its own words for them; \
         `graph.statuses` may give other labels to graph.\n\n\
         | phase | graph | execution | board | crew | what moves a task out of the phase |\n|---|---|---|---|---|---|\n\
         | initial | `backlog` | `ready`; `claimed` with a holder; `blocked` with an open dependency | `BACKLOG` | \
         `PENDING`; `ASSIGNED` with a holder | `begin` or a transition, once every dependency is closed |\n\
         | working | `in_progress` | `in_progress`; `ready` after the work was given up | `IN_PROGRESS` | \
         `IN_PROGRESS`; `BLOCKED` with a reason | `finish` or a transition |\n\
         | review | `in_review` | `needs_review` | `REVIEW` | `REVIEW` | a review or a transition |\n\
         | closed_done | `done` | `done` | `DONE` | `COMPLETED` | a transition that reopens it |\n\
         | closed_canceled | `canceled` | `cancelled` | `DONE` with `closed_as: \"canceled\"` | `FAILED` | a transition \
         that reopens it |\n\nThe tables below say for every command what happens to a task in every situation. \
         Statuses are graph's default labels. The task has no checks; a task with checks closes as done only when they \
         pass, and is refused with `CHECKS_NOT_PASSED` otherwise. [refusals.md](refusals.md) explains the codes.\n",
    );
    for (name, command, words) in COMMANDS {
        text += &format!(
            "\n## {name}\n\n{words}\n\n| task before | task after, or refusal |\n|---|---|\n"
        );
        let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
        for (situation, steps) in SITUATIONS {
            let found = outcome(steps, command);
            match rows.iter_mut().find(|(known, _)| *known == found) {
                Some((_, situations)) => situations.push(situation),
                None => rows.push((found, vec![situation])),
            }
        }
        rows.sort_by_key(|(found, _)| found.contains("refused"));
        for (found, situations) in rows {
            text += &format!("| {} | {found} |\n", situations.join("; "));
        }
    }
    check_document("reference/states.md", &text);
}

fn outcome(steps: &[&str], command: &str) -> String {
    let mut model = Model::new(Policy::default());
    for step in ["ana create A", "ana create D"].iter().chain(steps) {
        match step.split_once(' ') {
            None => model.now = model.now.plus_s(181),
            Some((who, rest)) => {
                let command = model.command(rest);
                model.act(who, &command).expect("a situation can be reached");
            }
        }
    }
    let command = model.command(command);
    match model.act("me", &command) {
        Err(refusal) => format!("refused with `{}`", refusal.code()),
        Ok(change) if change.writes.is_empty() => "nothing changes".into(),
        Ok(_) => sentence(&model.summary("A")),
    }
}

/// `in_progress me skipped` for a reader.
fn sentence(summary: &str) -> String {
    let mut words = summary.split(' ');
    let status = words.next().unwrap_or_default();
    let holder = match words.next() {
        Some("me") => "held by the caller",
        Some("bob") => "held by the other actor",
        Some("-") => "held by no actor",
        other => panic!("{other:?} holds the task"),
    };
    let more = words.map(|word| match word {
        "open=1" => ", one dependency open",
        "skipped" => ", verification skipped",
        other => panic!("say {other} in a sentence"),
    });
    format!("`{status}`, {holder}{}", more.collect::<String>())
}
