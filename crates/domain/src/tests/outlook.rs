//! The outlook of a new task as tables.

use super::model::Model;
use crate::board::outlook::{CheckUsed, OutlookLine, TaskOutlook, checks_used, dep_fits, outlook};
use crate::board::why::WhyPart;
use crate::policy::{Phase, Policy};
use crate::task::{Check, CheckKind, Task, Verdict, VerdictSource};
use crate::time::Timestamp;

fn task(title: &str, phase: Phase) -> Task {
    let mut model = Model::new(Policy::default());
    let create = model.command("create A");
    model.act("ana", &create).expect("created");
    Task { title: title.into(), phase, ..model.task("A").clone() }
}

fn shown(line: &OutlookLine) -> String {
    let words: String = line
        .words
        .iter()
        .map(|part| match part {
            WhyPart::Text(text) | WhyPart::Code(text) => text.clone(),
            WhyPart::Task(_) => "[task]".to_owned(),
        })
        .collect();
    format!("{} {}: {words}", line.tone.as_str(), line.sign.as_str())
}

#[test]
fn the_outlook_says_what_will_happen() {
    const PERSON: &str = "plain person: A person reviews and merges the work";
    const READY: &str = "proved starts: Starts ready: it can be taken at once";
    const UNGATED: &str = "late warns: Nothing gates closing: a check makes done mean proved";
    let (ready, done) = (task("Cache it", Phase::Initial), task("Old", Phase::ClosedDone));
    let used = [
        CheckUsed { command: "cargo test".into(), tasks: 2, has_run: true },
        CheckUsed { command: "make".into(), tasks: 1, has_run: false },
    ];
    let command = |line: &str| Some(line.to_owned());
    for (draft, wanted) in [
        (TaskOutlook::default(), vec![READY, UNGATED, PERSON]),
        (TaskOutlook { deps: vec![&done], ..TaskOutlook::default() }, vec![READY, UNGATED, PERSON]),
        (
            TaskOutlook { deps: vec![&ready, &done], ..TaskOutlook::default() },
            vec![
                "plain waits: Starts blocked: waits for [task] Cache it, which is ready",
                UNGATED,
                PERSON,
            ],
        ),
        (
            TaskOutlook {
                checks: vec![command("cargo test"), command("make"), command("new"), None],
                is_auto: true,
                ..TaskOutlook::default()
            },
            vec![
                "proved starts: Starts ready: an agent can take it at once",
                "proved proves: 3 commands and 1 look of a person gate closing",
                "late warns: Check 2 was never run here",
                "late warns: Check 3 was never run here",
                PERSON,
            ],
        ),
        (
            TaskOutlook { checks: vec![None], ..TaskOutlook::default() },
            vec![READY, "proved proves: 1 look of a person gates closing", PERSON],
        ),
        (
            TaskOutlook {
                unknown: vec!["x".into()],
                vague: vec!["y".into()],
                ..TaskOutlook::default()
            },
            vec![
                "failed warns: No task is called x",
                "late warns: Several tasks fit y; take the short name of one",
                READY,
                UNGATED,
                PERSON,
            ],
        ),
    ] {
        let lines: Vec<String> = outlook(&draft, &used).iter().map(shown).collect();
        assert_eq!(lines, wanted, "{draft:?}");
    }
}

#[test]
fn commands_of_other_tasks_are_counted() {
    let check = |cmd: &str, ran: bool| Check {
        desc: cmd.into(),
        kind: CheckKind::Command { cmd: cmd.into(), cwd: String::new(), timeout_s: None },
        verdict: ran.then(|| Verdict {
            pass: false,
            at: Timestamp(1),
            tree: None,
            source: VerdictSource::Run { exit_code: Some(1), log: String::new(), took_ms: None },
        }),
        is_stale: false,
    };
    let with = |checks: Vec<Check>| Task { checks, ..task("A", Phase::Initial) };
    let manual =
        Check { desc: "look".into(), kind: CheckKind::Manual, verdict: None, is_stale: false };
    let tasks = [
        with(vec![check("a", false), check("b", false)]),
        with(vec![check("b", true), manual]),
        with(Vec::new()),
    ];
    let found: Vec<(String, usize, bool)> = checks_used(&tasks)
        .into_iter()
        .map(|used| (used.command, used.tasks, used.has_run))
        .collect();
    assert_eq!(found, [("b".to_owned(), 2, true), ("a".to_owned(), 1, false)]);
}

#[test]
fn a_dep_is_found_by_its_title_or_the_end_of_its_id() {
    let task = task("Cache the badge", Phase::Initial);
    let id = task.id.to_string();
    for (typed, wanted) in [
        ("cache the badge", true),
        (" BADGE ", true),
        ("badges", false),
        ("", false),
        (" ", false),
        (&id[id.len() - 5..], true),
        (&id[id.len() - 3..], false),
    ] {
        assert_eq!(dep_fits(typed, &task), wanted, "{typed:?}");
    }
}
