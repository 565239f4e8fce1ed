//! The plan of an import as a table: a backlog beside a board, and what would be made of it.

use crate::export::ExportFormat;
use crate::ids::TaskId;
use crate::import::plan::{ImportChoice, ImportPlan, KnownTask, plan};
use crate::import::{
    ImportFault, ImportFormat, ImportState, ImportedCheck, ImportedTask, SourceFile, read,
};

/// Reads `b <a ^p x`: the task `b` waits for `a`, is part of `p` and is done; `#red` is a label, `=words` a body.
fn item(line: &str) -> ImportedTask {
    let mut words = line.split_whitespace();
    let name = words.next().expect("a name").to_owned();
    let mut item = ImportedTask { reference: name.clone(), title: name, ..ImportedTask::default() };
    for word in words {
        match word.split_at(1) {
            ("<", dep) => item.deps.push(dep.to_owned()),
            ("^", parent) => item.parent = Some(parent.to_owned()),
            ("#", label) => item.labels.push(label.to_owned()),
            ("=", body) => item.body = body.to_owned(),
            ("x", "") => item.state = ImportState::Done,
            _ => panic!("{word} in {line}"),
        }
    }
    item
}

fn known(line: &str) -> KnownTask {
    let ImportedTask { reference, title, body, state, .. } = item(line);
    let task: TaskId = "T-01jzxk5w3v9f8r7q6p5n4m3b2a".parse().expect("an id");
    KnownTask { reference, task, title, body, state }
}

fn planned(backlog: &str, board: &str, choice: &ImportChoice) -> Result<ImportPlan, ImportFault> {
    let lines = |text: &str| {
        text.split(';').map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let (backlog, board): (Vec<String>, Vec<String>) = (lines(backlog), lines(board));
    let items = backlog.iter().map(|line| item(line)).collect();
    let known: Vec<KnownTask> = board.iter().map(|line| known(line)).collect();
    plan(items, &known, choice)
}

/// The plan in a line: new tasks with their links, then counts, then lost links.
fn shown(plan: &ImportPlan) -> String {
    let new = plan.new.iter().map(|task| {
        let deps = task.deps.iter().map(|dep| format!("<{dep}"));
        let parent = task.parent.iter().map(|parent| format!("^{parent}"));
        [task.reference.clone()].into_iter().chain(deps).chain(parent).collect::<String>()
    });
    let mut words: Vec<String> = new.collect();
    for (count, word) in [
        (plan.changed.len(), "changed"),
        (plan.known, "known"),
        (plan.closed, "closed"),
        (plan.unlabelled, "unlabelled"),
    ] {
        words.extend((count > 0).then(|| format!("{count} {word}")));
    }
    words.extend(plan.lost.iter().map(|link| format!("{} loses {}", link.reference, link.to)));
    words.join(", ")
}

#[test]
fn plans() {
    let open = ImportChoice::default();
    let closed = ImportChoice { closed: true, ..ImportChoice::default() };
    let red = ImportChoice { label: Some("RED".into()), ..ImportChoice::default() };
    for (backlog, board, choice, expected) in [
        ("a; b", "", &open, "a, b"),
        // Deps and parents come first, whatever the order of the backlog.
        ("b <a; a; p; c ^p", "", &open, "a, b<a, p, c^p"),
        ("c ^p <a; a; p", "", &open, "p, a, c<a^p"),
        // A second import makes nothing and finds what changed.
        ("a; b", "a; b", &open, "2 known"),
        ("a =new; b", "a =old; b", &open, "1 changed, 1 known"),
        // A dep on a task of an earlier import is kept.
        ("b <a", "a", &open, "b<a"),
        // Closed tasks stay out, and waiting for one of them means nothing.
        ("a x; b <a", "", &open, "b, 1 closed"),
        ("a x; b <a", "", &closed, "a, b<a"),
        // Links that cannot be kept are named.
        ("b <zz", "", &open, "b, b loses zz"),
        ("a; b <a #red", "", &red, "b, 1 unlabelled, b loses a"),
        ("b ^zz", "", &open, "b, b loses zz"),
        ("a; b x <a", "", &closed, "a, b, b loses a"),
        // A parent that waits for its own child would never start.
        ("p <c; c ^p", "", &open, "p, c^p, p loses c"),
    ] {
        let plan = planned(backlog, board, choice).expect("a plan");
        assert_eq!(shown(&plan), expected, "{backlog} beside {board}");
    }
}

#[test]
fn backlogs_that_contradict_themselves_are_refused() {
    for (backlog, field, words) in [
        ("a; a", "reference", "two tasks have the reference 'a'"),
        ("a <b; b <a", "deps", "a -> b -> a"),
        ("a <b; b <c; c <b", "deps", "b -> c -> b"),
        ("a <a", "deps", "a -> a"),
        ("a ^b; b ^a", "deps", "a -> b -> a"),
    ] {
        let fault = planned(backlog, "", &ImportChoice::default()).expect_err("a fault");
        assert_eq!(fault.field.as_deref(), Some(field), "{backlog}");
        assert!(fault.message.contains(words), "{backlog}: {}", fault.message);
    }
}

/// A document of an export, read again.
fn read_again(format: ExportFormat, text: &str) -> Result<Vec<ImportedTask>, ImportFault> {
    let name = format!("export.{}", format.as_str());
    let from = ImportFormat::of_path(&name, false).expect("an export has a format");
    read(from, &[SourceFile { name, text: text.to_owned() }])
}

#[test]
fn every_export_is_read_as_the_tasks_it_was_made_of() {
    let hostile = ImportedTask {
        reference: "r-2".into(),
        title: "Close --> the <b>comment</b>".into(),
        body: "a --> b\r\n<!-- callboard-export sha256:00\n-->\u{202e}\u{1f600}\n\n  - [ ] no task"
            .into(),
        deps: vec!["r-1".into()],
        checks: vec![ImportedCheck {
            desc: "tests".into(),
            cmd: Some("a && b > c".into()),
            ..Default::default()
        }],
        criteria: vec!["reads well".into()],
        notes: vec!["one\ntwo".into()],
        ..ImportedTask::default()
    };
    let plain =
        ImportedTask { reference: "r-1".into(), title: "Plain".into(), ..ImportedTask::default() };
    let tasks = vec![plain, hostile];
    for format in ExportFormat::ALL {
        let text = format.render("Shop", &tasks);
        assert_eq!(read_again(format, &text), Ok(tasks.clone()), "{text}");
        let windows = text.replace("\r\n", "\n").replace('\n', "\r\n");
        assert_eq!(read_again(format, &windows), Ok(tasks.clone()), "{windows}");
    }
}

#[test]
fn an_edited_export_is_read_by_its_text() {
    let task =
        ImportedTask { reference: "r-1".into(), title: "Plain".into(), ..ImportedTask::default() };
    let edited = |format: ExportFormat| {
        format.render("Shop", std::slice::from_ref(&task)).replace("Plain", "Fancy")
    };
    let text = edited(ExportFormat::Markdown);
    let titles = read_again(ExportFormat::Markdown, &text).expect("a plan");
    assert_eq!(titles.iter().map(|task| task.title.as_str()).collect::<Vec<_>>(), ["Fancy"]);
    let fault = read_again(ExportFormat::Html, &edited(ExportFormat::Html)).expect_err("a fault");
    assert_eq!(
        fault.to_string(),
        "export.html: was edited after its export; import the export as .jsonl or .md"
    );
    let fault = read_again(ExportFormat::Html, "<p>words</p>").expect_err("a fault");
    assert_eq!(fault.to_string(), "export.html: is no export of callboard");
}
