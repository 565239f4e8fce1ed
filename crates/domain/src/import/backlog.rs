//! Backlog.md: a folder of Markdown files, a task each, with front matter. The front matter is read as the part of YAML
//! that the tool writes: `key: value`, lists in one line or in several, folded titles.

use super::{ImportFault, ImportState, ImportedTask, SourceFile, judged, priority_word};

/// The value of a key: one text, or the items of a list.
#[derive(Default)]
struct Field {
    line: usize,
    text: String,
    items: Vec<String>,
}

struct FrontMatter {
    fields: Vec<(String, Field)>,
    /// The number of the line after the closing marks.
    body_from: usize,
}

impl FrontMatter {
    fn text(&self, key: &str) -> Option<&str> {
        let (_, field) = self.fields.iter().find(|(known, _)| known == key)?;
        Some(field.text.as_str()).filter(|text| !text.is_empty())
    }

    fn list(&self, key: &str) -> Vec<String> {
        let found = self.fields.iter().find(|(known, _)| known == key);
        let Some((_, field)) = found else { return Vec::new() };
        match field.text.as_str() {
            "" => field.items.clone(),
            one => vec![one.to_owned()],
        }
    }
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    for quote in ['\'', '"'] {
        let inner = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            let doubled = if quote == '\'' { "''" } else { "\\\"" };
            return inner.replace(doubled, &quote.to_string());
        }
    }
    text.to_owned()
}

fn front_matter(file: &SourceFile) -> Result<FrontMatter, ImportFault> {
    let mut lines = (1..).zip(file.text.lines());
    if lines.next().is_none_or(|(_, line)| line.trim_end() != "---") {
        return Err(ImportFault::at(file, 1, "must start with front matter between lines of ---"));
    }
    let mut fields: Vec<(String, Field)> = Vec::new();
    for (number, line) in lines {
        let text = line.trim();
        if line.trim_end() == "---" {
            return Ok(FrontMatter { fields, body_from: number });
        }
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let is_item = text == "-" || text.starts_with("- ");
        if is_item || line.starts_with([' ', '\t']) {
            let Some((_, field)) = fields.last_mut() else {
                return Err(ImportFault::at(file, number, "a value without a key"));
            };
            match is_item {
                true => field.items.push(unquoted(&text[1..])),
                false if field.text.is_empty() => field.text = unquoted(text),
                false => field.text = format!("{} {text}", field.text),
            }
            continue;
        }
        let Some((key, value)) = text.split_once(':') else {
            return Err(ImportFault::at(file, number, "must be 'key: value'"));
        };
        let mut field = Field { line: number, ..Field::default() };
        let value = value.trim();
        match value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(list) => {
                let items = list.split(',').map(unquoted).filter(|item| !item.is_empty());
                field.items = items.collect();
            }
            // Marks of a text that goes on in the lines below.
            None if matches!(value, ">" | ">-" | "|" | "|-") => {}
            None => field.text = unquoted(value),
        }
        fields.push((key.trim().to_owned(), field));
    }
    Err(ImportFault::at(file, 1, "the front matter has no end"))
}

pub(super) fn read(file: &SourceFile, tasks: &mut Vec<ImportedTask>) -> Result<(), ImportFault> {
    // The tool puts a readme into each of its folders.
    let name = file.name.rsplit('/').next().unwrap_or_default();
    if name.eq_ignore_ascii_case("readme.md") {
        return Ok(());
    }
    let front = front_matter(file)?;
    // The case of ids differs between the versions of the tool.
    let name = |id: &str| format!("backlog:{}", id.trim().to_lowercase());
    let missing = |key: &str| ImportFault::at(file, 1, "is missing").field(key);
    let id = front.text("id").ok_or_else(|| missing("id"))?;
    let title = front.text("title").ok_or_else(|| missing("title"))?;
    let status = front.text("status").unwrap_or_default().to_lowercase();
    let (body, criteria) = body(file, front.body_from);
    let task = ImportedTask {
        reference: name(id),
        title: title.to_owned(),
        body,
        state: match status.as_str() {
            "done" | "completed" => ImportState::Done,
            "cancelled" | "canceled" => ImportState::Canceled,
            _ => ImportState::Open,
        },
        priority: priority_word(front.text("priority")),
        parent: front.text("parent_task_id").or(front.text("parent")).map(name),
        deps: front.list("dependencies").iter().map(|dep| name(dep)).collect(),
        criteria,
        labels: front.list("labels"),
        ..ImportedTask::default()
    };
    let line =
        front.fields.iter().find(|(key, _)| key == "title").map_or(1, |(_, field)| field.line);
    tasks.push(judged(file, line, task)?);
    Ok(())
}

/// The text below the front matter, and the checkboxes of its acceptance criteria.
fn body(file: &SourceFile, after: usize) -> (String, Vec<String>) {
    let (mut body, mut criteria, mut is_criteria) = (Vec::new(), Vec::new(), false);
    for line in file.text.lines().skip(after) {
        let text = line.trim();
        if let Some(heading) = text.strip_prefix("## ") {
            is_criteria = heading.starts_with("Acceptance Criteria");
            if is_criteria {
                continue;
            }
        }
        // Marks that the tool leaves for itself.
        if text.starts_with("<!--") && text.ends_with("-->") {
            continue;
        }
        let found = ["- [ ]", "- [x]", "- [X]"].iter().find_map(|mark| text.strip_prefix(mark));
        match found.filter(|_| is_criteria) {
            Some(criterion) => criteria.push(without_number(criterion.trim()).to_owned()),
            None => body.push(line.trim_end()),
        }
    }
    (body.join("\n").trim().to_owned(), criteria)
}

/// A criterion without the `#1` that the tool counts with.
fn without_number(text: &str) -> &str {
    let rest = text.strip_prefix('#').and_then(|rest| rest.split_once(' '));
    match rest {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest.trim(),
        _ => text,
    }
}
