//! Prints docs/reference/states.md: what every command does to a task in every situation.

use super::check_document;
use super::model::Model;
use crate::policy::Policy;

/// A name for a situation, and how a task `A` gets there. `me` asks, `bob` is another actor.
const SITUATIONS: &[(&str, &[&str])] = &[
    ("initial, free", &[]),
    ("initial, open dep", &["ana depend A D"]),
    ("initial, claimed by me", &["me claim A"]),
    ("initial, claimed by another", &["bob claim A"]),
    ("initial, leased by me", &["me take A as=s"]),
    ("initial, leased by another", &["bob take A as=s"]),
    ("working, leased by me", &["me take A as=s", "me update A"]),
    ("working, my session", &["me begin A as=s"]),
    ("working, another's session", &["bob begin A as=s"]),
    ("working, another's stalled session", &["bob begin A as=s", "clock"]),
    ("working, free", &["me move A in_progress"]),
    ("working, given up", &["me begin A as=s", "me cancel s"]),
    ("working, sent back", &["me begin A as=s", "me finish s", "ana reject A"]),
    ("review, my finished session", &["me begin A as=s", "me finish s"]),
    ("review, my session", &["me begin A as=s", "me ask A"]),
    ("done", &["me move A done"]),
    ("canceled", &["me move A canceled"]),
];

const COMMANDS: &[(&str, &str)] = &[
    ("claim", "claim A"),
    ("release", "release A"),
    ("begin", "begin A as=n"),
    ("begin, takeover", "begin A as=n takeover"),
    ("heartbeat", "beat s"),
    ("finish", "finish s"),
    ("cancel", "cancel s"),
    ("take a lease", "take A"),
    ("lease: work", "update A"),
    ("lease: give back", "update A free"),
    ("complete", "complete A"),
    ("to initial", "move A backlog"),
    ("to working", "move A in_progress"),
    ("to review", "move A in_review"),
    ("to done", "move A done"),
    ("to canceled", "move A canceled"),
    ("board: BACKLOG", "card A to=initial"),
    ("board: IN_PROGRESS", "card A to=working"),
    ("board: REVIEW", "card A to=review"),
    ("board: DONE", "card A to=closed_done"),
    ("request review", "ask A"),
    ("approve", "approve A"),
    ("reject", "reject A"),
    ("reject to BACKLOG", "reject A back"),
];

#[test]
fn the_state_table_is_documented() {
    let mut text = String::from(
        "# States\n\nPrinted by a test from the rules in `domain/src/decide/`. A cell is the task's status and \
         holder after\n`me` gave the command, `=` when nothing changes, or the refusal's code. The task has no \
         checks; a\nclosed(done) label is further gated by them (docs/reference/refusals.md, `CHECKS_NOT_PASSED`).\n\n\
         | phase | graph's default word | who moves a task out of it |\n|---|---|---|\n\
         | initial | `backlog` | `begin` or a transition, once every dep is closed |\n\
         | working | `in_progress` | `finish` or a transition |\n\
         | review | `in_review` | a transition |\n\
         | closed_done | `done` | a transition that reopens it |\n\
         | closed_canceled | `canceled` | a transition that reopens it |\n\n| situation |",
    );
    for (name, _) in COMMANDS {
        text += &format!(" {name} |");
    }
    text += "\n|---|";
    text += &"---|".repeat(COMMANDS.len());
    for (situation, steps) in SITUATIONS {
        text += &format!("\n| {situation} |");
        for (_, command) in COMMANDS {
            text += &format!(" {} |", outcome(steps, command));
        }
    }
    text.push('\n');
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
        Err(refusal) => format!("`{}`", refusal.code()),
        Ok(change) if change.writes.is_empty() => "=".into(),
        Ok(_) => model.summary("A"),
    }
}
