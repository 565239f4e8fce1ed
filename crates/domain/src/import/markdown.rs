//! A plan in Markdown: each checkbox at the margin is a task, indented checkboxes are its acceptance criteria, other
//! indented lines its text. A heading is a label of the tasks below it. Lines such as `- Waits for: Add login`, with which
//! an export begins the text of a task, are facts of the task.

use std::collections::HashMap;

use super::{ImportFault, ImportState, ImportedCheck, ImportedTask, SourceFile, judged};

/// Levels of indented checkboxes; a plan that people read has two.
const DEPTH_MAX: usize = 8;
/// Columns of one level. Two or four spaces are usual; a deeper level than `DEPTH_MAX` of the narrow kind is refused.
const INDENT: usize = 2;

struct Checkbox<'l> {
    is_checked: bool,
    text: &'l str,
}

/// Reads `- [ ] text`, also with `*`, `+` or a number.
fn checkbox(line: &str) -> Option<Checkbox<'_>> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = match line.as_bytes().get(digits)? {
        b'.' | b')' if digits > 0 => &line[digits + 1..],
        b'-' | b'*' | b'+' if digits == 0 => &line[1..],
        _ => return None,
    };
    let rest = rest.trim_start().strip_prefix('[')?;
    let is_checked = match rest.as_bytes().first()? {
        b' ' => false,
        b'x' | b'X' => true,
        _ => return None,
    };
    let text = rest.get(1..)?.strip_prefix(']')?;
    let is_apart = text.is_empty() || text.starts_with([' ', '\t']);
    is_apart.then_some(Checkbox { is_checked, text: text.trim() })
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let text = line[level..].strip_prefix(' ')?;
    (1..=6).contains(&level).then(|| (level, text.trim().trim_end_matches('#').trim_end()))
}

/// How many columns a line is indented.
fn indent(line: &str) -> usize {
    let blanks = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
    blanks.map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

/// The part of a reference that stands for a title: its letters and digits, in lower case.
fn slug(title: &str) -> String {
    let lower = title.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let slug = words.collect::<Vec<_>>().join("-");
    slug.chars().take(200).collect()
}

/// A task of a plan, with the number of its line. Where an export wrote its facts, `parent` and the only one of `deps` are
/// the lines' values: titles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedTask {
    pub line: usize,
    pub has_facts: bool,
    pub task: ImportedTask,
}

/// The value of a line such as `- Reference: beads:bd-1`.
fn fact(line: &str) -> Option<(&str, &str)> {
    let (word, value) = line.strip_prefix("- ")?.split_once(": ")?;
    Some((word, value.trim()))
}

/// Moves the facts that an export wrote out of the body. They are known by a state in the first line and a reference
/// below it, because a plan of a person may have a line with one of the words.
fn take_facts(task: &mut ImportedTask, body: &mut Vec<String>) -> bool {
    let head = body.iter().take_while(|line| !line.is_empty()).count();
    let facts = || body[..head].iter().filter_map(|line| fact(line));
    let state = facts().next().filter(|(word, _)| *word == "State");
    let state = state.and_then(|(_, value)| ImportState::parse(value));
    let (Some(state), true) = (state, facts().any(|(word, _)| word == "Reference")) else {
        return false;
    };
    // A box that was ticked counts more than the word, which its author may have overlooked.
    if state.is_closed() == task.state.is_closed() {
        task.state = state;
    }
    let mut kept = Vec::new();
    for line in body.drain(..head) {
        let owned = |value: &str| value.to_owned();
        match fact(&line) {
            Some(("State", _)) => {}
            Some(("Priority", value)) => task.priority = value.parse().ok(),
            Some(("Part of", value)) => task.parent = Some(owned(value)),
            Some(("Waits for", value)) => task.deps = vec![owned(value)],
            Some(("Reference", value)) => task.reference = owned(value),
            Some(("Check", value)) => task.checks.push(check(value)),
            Some(("Note", value)) => task.notes.push(owned(value)),
            _ => kept.push(line),
        }
    }
    kept.append(body);
    *body = kept;
    true
}

/// Reads ``tests pass: `cargo test` ``; without a command the check is attested.
fn check(value: &str) -> ImportedCheck {
    let command = value.strip_suffix('`').and_then(|value| value.split_once(": `"));
    let (desc, cmd) = command.map_or((value, None), |(desc, cmd)| (desc, Some(cmd.to_owned())));
    ImportedCheck { desc: desc.to_owned(), cmd, ..ImportedCheck::default() }
}

#[derive(Default)]
struct PlanReader {
    /// The headings above, by level.
    headings: Vec<(usize, String)>,
    /// How many tasks of this file have a slug.
    slugs: HashMap<String, usize>,
    /// The task in the making, with the number of its line.
    task: Option<(usize, ImportedTask)>,
    body: Vec<String>,
}

impl PlanReader {
    fn begin(&mut self, file: &SourceFile, number: usize, found: &Checkbox<'_>) {
        let slug = slug(found.text);
        let count = self.slugs.entry(slug.clone()).or_default();
        *count += 1;
        let again = if *count > 1 { format!("-{count}") } else { String::new() };
        let task = ImportedTask {
            reference: format!("markdown:{}#{slug}{again}", file.name),
            title: found.text.to_owned(),
            state: if found.is_checked { ImportState::Done } else { ImportState::Open },
            labels: self.headings.iter().map(|(_, text)| text.clone()).collect(),
            ..ImportedTask::default()
        };
        self.task = Some((number, task));
    }

    /// Whether an export wrote the lines above, up to the text of the task: its checkboxes are part of the text.
    fn is_in_text_of_export(&self) -> bool {
        let is_export = self.body.first().is_some_and(|line| line.starts_with("- State: "));
        is_export && self.body.contains(&String::new())
    }

    fn end(&mut self, file: &SourceFile, tasks: &mut Vec<PlannedTask>) -> Result<(), ImportFault> {
        let mut body = std::mem::take(&mut self.body);
        if let Some((line, mut task)) = self.task.take() {
            let has_facts = take_facts(&mut task, &mut body);
            let body = body.join("\n").trim_matches('\n').to_owned();
            let task = judged(file, line, ImportedTask { body, ..task })?;
            tasks.push(PlannedTask { line, has_facts, task });
        }
        Ok(())
    }
}

/// The tasks of a plan; none is not a fault here.
pub(super) fn planned(file: &SourceFile) -> Result<Vec<PlannedTask>, ImportFault> {
    let mut tasks = Vec::new();
    let mut reader = PlanReader::default();
    let mut fence: Option<&str> = None;
    for (number, line) in (1..).zip(file.text.lines()) {
        let (columns, text) = (indent(line), line.trim_start());
        let marker = ["```", "~~~"].into_iter().find(|marker| text.starts_with(marker));
        let is_code = fence.is_some() || marker.is_some();
        match (fence, marker) {
            (None, Some(marker)) => fence = Some(marker),
            (Some(open), Some(marker)) if open == marker => fence = None,
            _ => {}
        }
        let is_text = columns >= INDENT && reader.is_in_text_of_export();
        let found = if is_code || is_text { None } else { checkbox(text) };
        if columns > DEPTH_MAX * INDENT * 2 && found.is_some() {
            return Err(ImportFault::at(file, number, "the checkbox is indented too deep"));
        }
        match found {
            Some(found) if columns < INDENT || reader.task.is_none() => {
                reader.end(file, &mut tasks)?;
                reader.begin(file, number, &found);
                continue;
            }
            Some(found) => {
                if let Some((_, task)) = &mut reader.task {
                    task.criteria.push(found.text.to_owned());
                }
                continue;
            }
            None => {}
        }
        if !is_code && columns == 0 {
            if let Some((level, text)) = heading(line) {
                reader.end(file, &mut tasks)?;
                reader.headings.retain(|(above, _)| *above < level);
                reader.headings.push((level, text.to_owned()));
                continue;
            }
            // A paragraph at the margin is of the plan, not of the task above it.
            if !text.is_empty() {
                reader.end(file, &mut tasks)?;
                continue;
            }
        }
        if reader.task.is_some() {
            let margin = line.len() - text.len();
            reader.body.push(line[margin.min(INDENT)..].trim_end().to_owned());
        }
    }
    if fence.is_some() {
        let end = file.text.lines().count();
        return Err(ImportFault::at(file, end, "a block of code has no end"));
    }
    reader.end(file, &mut tasks)?;
    Ok(tasks)
}

/// The fault of a plan without tasks.
pub(super) fn no_tasks(file: &SourceFile) -> ImportFault {
    let message = "no checkboxes: a task is a line like '- [ ] Add a flag'";
    ImportFault { file: file.name.clone(), ..ImportFault::whole(message) }
}
