//! What a hook of an agent's client answers. The rule is pure: an edge reads the facts, and puts the answer into the
//! words of the client. A hook says what is open and keeps edits apart; it never stops an agent for a fault of its own.

use crate::actor::Actor;
use crate::words::words;

/// How often an agent that wants to stop is told what is open.
pub const STOPS_MAX: u32 = 2;

words! {
    /// A moment in an agent's session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum HookEvent {
        SessionStart => "session-start",
        BeforeEdit => "before-edit",
        AfterTool => "after-tool",
        BeforeCompact => "before-compact",
        TurnEnd => "turn-end",
        StatusLine => "status-line",
    }
}

/// What is known when the hook runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookFacts {
    /// Tasks that the actor works on: its live attempts, and the open tasks assigned to it.
    pub held: Vec<HookTask>,
    /// The task to take next, if the actor holds none.
    pub next: Option<HookTask>,
    pub mail_unread: u64,
    /// Where each file lies that is about to be edited.
    pub edits: Vec<EditPlace>,
    /// The setting `hooks.require_claim`.
    pub requires_claim: bool,
    /// How often the actor was told already what is open in these tasks.
    pub stops: u32,
    /// Tasks whose lease was lost, with their holder now.
    pub lost: Vec<(String, Option<Actor>)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookTask {
    /// The short name.
    pub name: String,
    pub title: String,
    /// The worktree of the attempt; `None` for work in the shared checkout.
    pub worktree: Option<String>,
    /// Seconds until the lease ends, if there is one.
    pub lease_left_s: Option<u64>,
    pub checks: u32,
    pub checks_passed: u32,
    /// What was learned that matters to the task: titles.
    pub knowledge: Vec<String>,
}

/// Where a file lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditPlace {
    /// Outside of the project: nothing of ours.
    Elsewhere,
    /// In a worktree of the actor.
    Own,
    /// In the project, and in no worktree of a live attempt.
    Project { path: String },
    /// In the worktree of another actor's live attempt.
    Other { path: String, task: String, actor: Actor },
}

/// What the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    Nothing,
    /// Words for the agent.
    Say(String),
    /// The edit is refused, with the reason.
    Refuse(String),
    /// The agent should not stop yet, for this reason.
    GoOn(String),
    /// The status line.
    Show(String),
}

/// The answer to an event.
pub fn answer(event: HookEvent, facts: &HookFacts) -> HookAnswer {
    match event {
        HookEvent::SessionStart => at_start(facts),
        HookEvent::BeforeEdit => before_edit(facts),
        HookEvent::AfterTool => match facts.lost.as_slice() {
            [] => HookAnswer::Nothing,
            lost => HookAnswer::Say(lost.iter().map(lost_words).collect::<Vec<_>>().join("\n")),
        },
        HookEvent::BeforeCompact => match facts.held.as_slice() {
            [] => HookAnswer::Nothing,
            held => HookAnswer::Say(held.iter().map(held_words).collect::<Vec<_>>().join("\n")),
        },
        HookEvent::TurnEnd => at_end(facts),
        HookEvent::StatusLine => HookAnswer::Show(status_line(facts)),
    }
}

fn at_start(facts: &HookFacts) -> HookAnswer {
    let mut lines: Vec<String> = facts.held.iter().map(held_words).collect();
    if let (true, Some(next)) = (facts.held.is_empty(), &facts.next) {
        let task = task_words(next);
        lines.push(format!("The next task on the Callboard is {task}. Begin it before you edit."));
    }
    let known = facts.held.iter().chain(&facts.next).flat_map(|task| &task.knowledge);
    let known: Vec<&str> = known.map(String::as_str).collect();
    if !known.is_empty() {
        lines.push(format!("Worth knowing: {}.", known.join("; ")));
    }
    if facts.mail_unread > 0 {
        lines.push(format!("You have {} unread mails on the Callboard.", facts.mail_unread));
    }
    if lines.is_empty() { HookAnswer::Nothing } else { HookAnswer::Say(lines.join("\n")) }
}

fn before_edit(facts: &HookFacts) -> HookAnswer {
    for place in &facts.edits {
        match place {
            EditPlace::Elsewhere | EditPlace::Own => {}
            EditPlace::Other { path, task, actor } => {
                return HookAnswer::Refuse(format!(
                    "{path} is in the worktree of {task}, which {actor} holds. Edit files of your own task only."
                ));
            }
            EditPlace::Project { path } => {
                let of_own =
                    facts.held.iter().find_map(|task| Some((task, task.worktree.as_ref()?)));
                if let Some((task, worktree)) = of_own {
                    return HookAnswer::Refuse(format!(
                        "{path} is outside the worktree of {}, the task you hold. Edit the file in {worktree}.",
                        task.name
                    ));
                }
                if facts.held.is_empty() && facts.requires_claim {
                    return HookAnswer::Refuse(format!(
                        "You hold no task, so {path} must not be edited. Take one first: list with ready: true, then begin."
                    ));
                }
            }
        }
    }
    HookAnswer::Nothing
}

fn at_end(facts: &HookFacts) -> HookAnswer {
    if facts.held.is_empty() || facts.stops >= STOPS_MAX {
        return HookAnswer::Nothing;
    }
    let open = facts.held.iter().map(task_words).collect::<Vec<_>>().join(", ");
    HookAnswer::GoOn(format!(
        "You still hold {open}. Finish the task. If you cannot go on, cancel its session with the reason, or release \
         the task if it has no session; then stop."
    ))
}

fn status_line(facts: &HookFacts) -> String {
    let Some(task) = facts.held.first() else { return "callboard: no task".to_owned() };
    let mut parts = vec![format!("{} {}", task.name, task.title)];
    match task.lease_left_s {
        Some(0) => parts.push("lease over".to_owned()),
        Some(left) => parts.push(format!("lease {}", minutes(left))),
        None => {}
    }
    if task.checks > 0 {
        parts.push(format!("checks {}/{}", task.checks_passed, task.checks));
    }
    parts.join(" · ")
}

fn held_words(task: &HookTask) -> String {
    let mut words = format!("You hold {}.", task_words(task));
    if let Some(worktree) = &task.worktree {
        words.push_str(&format!(" Work in {worktree}."));
    }
    match task.lease_left_s {
        // The task is held until another actor takes it, so an agent that woke up late can still keep it.
        Some(0) => words.push_str(
            " You were silent for too long, and another actor may take it: send a heartbeat first.",
        ),
        Some(left) => words.push_str(&format!(" The lease ends in {}.", minutes(left))),
        None => {}
    }
    words
}

fn task_words(task: &HookTask) -> String {
    let checks = match task.checks {
        0 => String::new(),
        all => format!(" ({} of {all} checks pass)", task.checks_passed),
    };
    format!("{} \"{}\"{checks}", task.name, task.title)
}

fn lost_words((task, holder): &(String, Option<Actor>)) -> String {
    let now = match holder {
        Some(actor) => format!("{actor} holds it now"),
        None => "it is free now".to_owned(),
    };
    format!("Your lease on {task} is lost; {now}. Stop working on it and write nothing more.")
}

fn minutes(seconds: u64) -> String {
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m", seconds / 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, worktree: Option<&str>) -> HookTask {
        let worktree = worktree.map(str::to_owned);
        HookTask { name: name.into(), title: "Add --json".into(), worktree, ..HookTask::default() }
    }

    fn project() -> EditPlace {
        EditPlace::Project { path: "src/a.rs".into() }
    }

    fn other() -> EditPlace {
        let actor = "agent:w2".parse().expect("an actor");
        EditPlace::Other { path: "/w/S-2/a.rs".into(), task: "S-2".into(), actor }
    }

    /// Held tasks, places, `hooks.require_claim`, and the beginning of the refusal.
    #[test]
    fn edits() {
        let own = || vec![task("S-1", Some("/w/S-1"))];
        let shared = || vec![task("S-1", None)];
        let outside = Some("src/a.rs is outside the worktree of S-1");
        let foreign = Some("/w/S-2/a.rs is in the worktree of S-2, which agent:w2 holds");
        let rows = [
            (vec![], vec![], true, None),
            (vec![], vec![project()], false, None),
            (vec![], vec![project()], true, Some("You hold no task, so src/a.rs")),
            (vec![], vec![EditPlace::Elsewhere], true, None),
            (vec![], vec![other()], false, foreign),
            (shared(), vec![project()], true, None),
            (shared(), vec![other()], true, foreign),
            (own(), vec![EditPlace::Own], true, None),
            (own(), vec![EditPlace::Elsewhere], true, None),
            (own(), vec![project()], false, outside),
            (own(), vec![other()], false, foreign),
            (own(), vec![EditPlace::Own, project()], false, outside),
        ];
        for (held, edits, requires_claim, wanted) in rows {
            let facts = HookFacts { held, edits, requires_claim, ..HookFacts::default() };
            let said = match answer(HookEvent::BeforeEdit, &facts) {
                HookAnswer::Nothing => None,
                HookAnswer::Refuse(words) => Some(words),
                other => panic!("{other:?} is no answer to an edit"),
            };
            let fits = match (&said, wanted) {
                (None, None) => true,
                (Some(said), Some(wanted)) => said.starts_with(wanted),
                _ => false,
            };
            assert!(fits, "{facts:?}: {said:?}");
        }
    }

    #[test]
    fn the_end_of_a_turn_is_delayed_twice_at_most() {
        let rows = [(0, true, true), (1, true, true), (2, true, false), (0, false, false)];
        for (stops, holds, goes_on) in rows {
            let held = if holds { vec![task("S-1", None)] } else { Vec::new() };
            let facts = HookFacts { held, stops, ..HookFacts::default() };
            let said = answer(HookEvent::TurnEnd, &facts);
            assert_eq!(matches!(said, HookAnswer::GoOn(_)), goes_on, "{stops} {holds}: {said:?}");
        }
    }

    #[test]
    fn words() {
        let checked = HookTask { checks: 2, checks_passed: 1, ..task("S-1", Some("/w/S-1")) };
        let leased = HookTask { lease_left_s: Some(660), ..checked.clone() };
        let late = HookTask { lease_left_s: Some(0), ..task("S-1", None) };
        let known = HookTask { knowledge: vec!["Dates are UTC".into()], ..task("S-3", None) };
        let held = |held| HookFacts { held, ..HookFacts::default() };
        let next = HookFacts { next: Some(known), mail_unread: 2, ..HookFacts::default() };
        let lost = vec![("S-1".to_owned(), Some("agent:w2".parse().expect("an actor")))];
        let lost = HookFacts { lost, ..HookFacts::default() };
        let rows = [
            (HookEvent::StatusLine, held(vec![]), "callboard: no task"),
            (
                HookEvent::StatusLine,
                held(vec![leased.clone()]),
                "S-1 Add --json · lease 11m · checks 1/2",
            ),
            (
                HookEvent::SessionStart,
                held(vec![leased.clone()]),
                "You hold S-1 \"Add --json\" (1 of 2 checks pass). Work in /w/S-1. The lease ends in 11m.",
            ),
            (HookEvent::StatusLine, held(vec![late.clone()]), "S-1 Add --json · lease over"),
            (
                HookEvent::SessionStart,
                held(vec![late]),
                "You hold S-1 \"Add --json\". You were silent for too long, and another actor may take it: send a heartbeat first.",
            ),
            (
                HookEvent::SessionStart,
                next,
                "The next task on the Callboard is S-3 \"Add --json\". Begin it before you edit.\nWorth knowing: Dates are UTC.\nYou have 2 unread mails on the Callboard.",
            ),
            (
                HookEvent::BeforeCompact,
                held(vec![checked]),
                "You hold S-1 \"Add --json\" (1 of 2 checks pass). Work in /w/S-1.",
            ),
            (
                HookEvent::AfterTool,
                lost,
                "Your lease on S-1 is lost; agent:w2 holds it now. Stop working on it and write nothing more.",
            ),
        ];
        for (event, facts, wanted) in rows {
            match answer(event, &facts) {
                HookAnswer::Say(said) | HookAnswer::Show(said) => assert_eq!(said, wanted),
                other => panic!("{event:?}: {other:?}"),
            }
        }
        for event in [HookEvent::SessionStart, HookEvent::AfterTool, HookEvent::BeforeCompact] {
            assert_eq!(answer(event, &HookFacts::default()), HookAnswer::Nothing, "{event:?}");
        }
    }
}
