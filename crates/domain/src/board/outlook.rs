//! What will come of a task that is being written: whether it starts at once, what proves it, and what was never tried
//! here. Every line says one thing.

use std::collections::HashMap;

use crate::board::column::Column;
use crate::board::why::{Tone, WhyPart};
use crate::task::{CheckKind, Task, VerdictSource};
use crate::words::words;

words! {
    /// The sign before a line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OutlookSign {
        Waits => "waits",
        Starts => "starts",
        Proves => "proves",
        Warns => "warns",
        Person => "person",
    }
}

/// One line of the outlook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlookLine {
    pub tone: Tone,
    pub sign: OutlookSign,
    pub words: Vec<WhyPart>,
}

/// The task as its form has it.
#[derive(Clone, Debug, Default)]
pub struct TaskOutlook<'t> {
    /// The tasks that it is to wait for.
    pub deps: Vec<&'t Task>,
    /// What was typed for a dep and names no task.
    pub unknown: Vec<String>,
    /// What was typed for a dep and fits several tasks.
    pub vague: Vec<String>,
    /// The lines of its checks: a command, or `None` for a person.
    pub checks: Vec<Option<String>>,
    /// An agent works alone.
    pub is_auto: bool,
}

/// A command that tasks here have as a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckUsed {
    pub command: String,
    pub tasks: usize,
    /// Whether it ever ran.
    pub has_run: bool,
}

/// The commands that these tasks have as checks, the most used first.
pub fn checks_used<'t>(tasks: impl IntoIterator<Item = &'t Task>) -> Vec<CheckUsed> {
    let mut used: HashMap<&str, (usize, bool)> = HashMap::new();
    for check in tasks.into_iter().flat_map(|task| &task.checks) {
        let CheckKind::Command { cmd, .. } = &check.kind else { continue };
        let ran = check
            .verdict
            .as_ref()
            .is_some_and(|verdict| matches!(verdict.source, VerdictSource::Run { .. }));
        let (tasks, has_run) = used.entry(cmd).or_default();
        *tasks += 1;
        *has_run |= ran;
    }
    let mut found: Vec<CheckUsed> = used
        .into_iter()
        .map(|(command, (tasks, has_run))| CheckUsed {
            command: command.to_owned(),
            tasks,
            has_run,
        })
        .collect();
    found.sort_by(|one, other| (other.tasks, &one.command).cmp(&(one.tasks, &other.command)));
    found
}

/// The lines of the outlook.
pub fn outlook(task: &TaskOutlook<'_>, used: &[CheckUsed]) -> Vec<OutlookLine> {
    let mut lines = Vec::new();
    let text = |words: String| vec![WhyPart::Text(words)];
    for typed in &task.unknown {
        let words = text(format!("No task is called {typed}"));
        lines.push(OutlookLine { tone: Tone::Failed, sign: OutlookSign::Warns, words });
    }
    for typed in &task.vague {
        let words = text(format!("Several tasks fit {typed}; take the short name of one"));
        lines.push(OutlookLine { tone: Tone::Late, sign: OutlookSign::Warns, words });
    }
    lines.push(start(task));
    lines.push(proof(&task.checks));
    let has_run =
        |command: &str| used.iter().any(|known| known.command == command && known.has_run);
    for (number, command) in (1..).zip(&task.checks) {
        if command.as_deref().is_some_and(|command| !has_run(command)) {
            let words = text(format!("Check {number} was never run here"));
            lines.push(OutlookLine { tone: Tone::Late, sign: OutlookSign::Warns, words });
        }
    }
    let words = text("A person reviews and merges the work".into());
    lines.push(OutlookLine { tone: Tone::Plain, sign: OutlookSign::Person, words });
    lines
}

/// Whether the task can start.
fn start(task: &TaskOutlook<'_>) -> OutlookLine {
    let open: Vec<&&Task> = task.deps.iter().filter(|dep| !dep.phase.is_closed()).collect();
    if open.is_empty() {
        let words = match task.is_auto {
            true => "Starts ready: an agent can take it at once",
            false => "Starts ready: it can be taken at once",
        };
        let words = vec![WhyPart::Text(words.into())];
        return OutlookLine { tone: Tone::Proved, sign: OutlookSign::Starts, words };
    }
    let mut words = vec![WhyPart::Text("Starts blocked: waits for ".into())];
    for (place, dep) in open.iter().enumerate() {
        if place > 0 {
            words.push(WhyPart::Text(", ".into()));
        }
        words.push(WhyPart::Task(dep.name()));
        let state = match Column::of(dep) {
            Column::Blocked => "blocked",
            Column::Ready => "ready",
            Column::Working => "at work",
            Column::Review => "in review",
            Column::Done => "done",
        };
        words.push(WhyPart::Text(format!(" {}, which is {state}", dep.title)));
    }
    OutlookLine { tone: Tone::Plain, sign: OutlookSign::Waits, words }
}

/// What gates closing.
fn proof(checks: &[Option<String>]) -> OutlookLine {
    let commands = checks.iter().flatten().count();
    let looks = checks.len() - commands;
    let many = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    let words = match (commands, looks) {
        (0, 0) => {
            let words = "Nothing gates closing: a check makes done mean proved".to_owned();
            let words = vec![WhyPart::Text(words)];
            return OutlookLine { tone: Tone::Late, sign: OutlookSign::Warns, words };
        }
        (commands, 0) => many(commands, "command"),
        (0, looks) => format!("{} of a person", many(looks, "look")),
        (commands, looks) => {
            format!("{} and {} of a person", many(commands, "command"), many(looks, "look"))
        }
    };
    let verb = if commands + looks == 1 { "gates" } else { "gate" };
    let words = vec![WhyPart::Text(format!("{words} {verb} closing"))];
    OutlookLine { tone: Tone::Proved, sign: OutlookSign::Proves, words }
}

/// Whether a typed dep fits a task: by its title or a part of it, or by the end of its id.
pub fn dep_fits(typed: &str, task: &Task) -> bool {
    /// Fewer characters fit too many ids.
    const END_CHARS_MIN: usize = 4;
    let typed = typed.trim().to_lowercase();
    let is_end = typed.len() >= END_CHARS_MIN && task.id.to_string().ends_with(&typed);
    is_end || (!typed.is_empty() && task.title.to_lowercase().contains(&typed))
}
