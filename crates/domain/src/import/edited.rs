//! A Markdown export after an edit by hand, and any other plan. A task whose lines were left alone is taken from the
//! comment behind the document. Of an edited task the changed facts are read, and the rest is taken from the comment. What
//! the comment says counts only where the document shows the same, so it cannot hide a task or a command.

use std::collections::HashMap;

use super::markdown::{self, PlannedTask};
use super::{ImportFault, ImportedTask, SourceFile, judged};
use crate::export::{markdown_blocks, markdown_line};

/// What stands between the titles of a line `- Waits for: …`.
const BETWEEN: &str = "; ";

/// Reads a document; `known` are the tasks of its comment.
pub(super) fn read(
    file: &SourceFile,
    known: &[ImportedTask],
    tasks: &mut Vec<ImportedTask>,
) -> Result<(), ImportFault> {
    let blocks = markdown_blocks(known);
    let (mut found, rest) = unchanged(&file.text, known, &blocks);
    let rest = SourceFile { name: file.name.clone(), text: rest };
    let planned = markdown::planned(&rest)?;
    let references = references(&planned, known);
    let by_reference: HashMap<String, usize> = known
        .iter()
        .enumerate()
        .map(|(place, task)| (markdown_line(&task.reference), place))
        .collect();
    for PlannedTask { line, has_facts, task } in planned {
        let place = by_reference.get(&task.reference).filter(|_| has_facts);
        let task = match place {
            _ if !has_facts => task,
            None => resolved(task, &references),
            Some(place) => merged(file, task, &known[*place], &blocks[*place], &references),
        };
        found.push((line, judged(file, line, task)?));
    }
    if found.is_empty() {
        return Err(markdown::no_tasks(file));
    }
    found.sort_by_key(|(line, _)| *line);
    tasks.extend(found.into_iter().map(|(_, task)| task));
    Ok(())
}

/// The tasks whose lines stand as they were written, each with its line, and the text without these lines. Lines of a task
/// are indented, so the next line at the margin ends it.
fn unchanged(
    text: &str,
    known: &[ImportedTask],
    blocks: &[String],
) -> (Vec<(usize, ImportedTask)>, String) {
    let blocks: HashMap<&str, &ImportedTask> =
        blocks.iter().map(|block| block.trim_end()).zip(known).collect();
    let (mut found, mut rest) = (Vec::new(), String::with_capacity(text.len()));
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let is_margin = |line: &&str| !line.is_empty() && !line.starts_with([' ', '\t']);
        let length = 1 + lines[at + 1..].iter().take_while(|line| !is_margin(line)).count();
        let part = &lines[at..at + length];
        match blocks.get(part.join("\n").trim_end()) {
            Some(task) => {
                found.push((at + 1, (*task).clone()));
                // Empty lines keep the numbers of those behind them.
                rest.extend(std::iter::repeat_n('\n', length));
            }
            None => part.iter().for_each(|line| {
                rest.push_str(line);
                rest.push('\n');
            }),
        }
        at += length;
    }
    (found, rest)
}

/// The references of tasks by their titles: as the document has them now, and as it had them.
fn references(planned: &[PlannedTask], known: &[ImportedTask]) -> HashMap<String, String> {
    let before = known.iter().map(|task| (markdown_line(&task.title), task.reference.clone()));
    let now = planned.iter().map(|planned| &planned.task);
    before.chain(now.map(|task| (task.title.clone(), task.reference.clone()))).collect()
}

/// The task with references in the place of titles. A title that is not known is left, and the preview says so.
fn resolved(task: ImportedTask, references: &HashMap<String, String>) -> ImportedTask {
    let one = |title: &str| references.get(title).cloned();
    let parent = task.parent.map(|title| one(&title).unwrap_or(title));
    let mut deps = Vec::new();
    for listed in &task.deps {
        let words: Vec<&str> = listed.split(BETWEEN).collect();
        let mut at = 0;
        while at < words.len() {
            // A title may hold the separator itself: the longest one that is known counts.
            let long = (at + 1..=words.len()).rev();
            let known =
                long.into_iter().find_map(|end| Some((end, one(&words[at..end].join(BETWEEN))?)));
            let (end, dep) = known.unwrap_or_else(|| (at + 1, words[at].to_owned()));
            deps.push(dep);
            at = end;
        }
    }
    ImportedTask { parent, deps, ..task }
}

/// An edited task: what it shows now where that is another text than before, else what the comment says.
fn merged(
    file: &SourceFile,
    now: ImportedTask,
    known: &ImportedTask,
    block: &str,
    references: &HashMap<String, String>,
) -> ImportedTask {
    let text = SourceFile { name: file.name.clone(), text: block.to_owned() };
    let before = markdown::planned(&text).ok().and_then(|mut tasks| tasks.pop());
    let before = before.map(|before| before.task).unwrap_or_default();
    fn chosen<T: PartialEq + Clone>(now: T, before: &T, known: &T) -> T {
        if now == *before { known.clone() } else { now }
    }
    fn items<T: PartialEq + Clone>(now: Vec<T>, before: &[T], known: &[T]) -> Vec<T> {
        if now == before {
            return known.to_vec();
        }
        let known = |item: &T| known.get(before.iter().position(|shown| shown == item)?).cloned();
        now.into_iter().map(|item| known(&item).unwrap_or(item)).collect()
    }
    let are_links_kept = (now.parent == before.parent, now.deps == before.deps);
    let links = resolved(now.clone(), references);
    ImportedTask {
        reference: known.reference.clone(),
        title: chosen(now.title, &before.title, &known.title),
        body: chosen(now.body, &before.body, &known.body),
        state: chosen(now.state, &before.state, &known.state),
        priority: chosen(now.priority, &before.priority, &known.priority),
        parent: if are_links_kept.0 { known.parent.clone() } else { links.parent },
        deps: if are_links_kept.1 { known.deps.clone() } else { links.deps },
        checks: items(now.checks, &before.checks, &known.checks),
        criteria: items(now.criteria, &before.criteria, &known.criteria),
        notes: items(now.notes, &before.notes, &known.notes),
        is_epic: known.is_epic,
        labels: known.labels.clone(),
    }
}
