//! Tasks as one HTML file without scripts, to read and to print. Every text of a task is escaped.

use super::facts;
use crate::import::ImportedTask;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";

const STYLE: &str = "<style>\n\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }\n\
article { border-top: 1px solid #bbb; padding: 1rem 0; break-inside: avoid; }\n\
h2 { font-size: 1.1rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }\n\
.closed h2 { text-decoration: line-through; }\n\
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; margin: 0; color: #444; font-size: .9rem; }\n\
dd { margin: 0; overflow-wrap: anywhere; }\n\
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; margin: .75rem 0 0; }\n\
code { overflow-wrap: anywhere; }\n\
@media print { body { margin: 0; max-width: none; } }\n\
</style>\n";

pub(super) fn render(project: &str, tasks: &[ImportedTask]) -> String {
    let name = escaped(project);
    let mut text =
        format!("{HEAD}<title>{name}</title>\n{STYLE}</head>\n<body>\n<h1>{name}</h1>\n");
    text += &format!("<p>{} tasks</p>\n", tasks.len());
    for task in tasks {
        let class = if task.state.is_closed() { " class=\"closed\"" } else { "" };
        text += &format!("<article{class}>\n<h2>{}</h2>\n<dl>\n", escaped(&task.title));
        for (word, value) in facts(tasks, task) {
            text += &format!("<dt>{word}</dt><dd>{}</dd>\n", escaped(&value));
        }
        text += "</dl>\n";
        if !task.body.is_empty() {
            text += &format!("<pre>{}</pre>\n", escaped(&task.body));
        }
        let checks = task.checks.iter().map(|check| {
            let command = check.cmd.as_deref().map(|cmd| format!(" <code>{}</code>", escaped(cmd)));
            escaped(&check.desc) + &command.unwrap_or_default()
        });
        text += &list("Checks", checks);
        text += &list("Acceptance criteria", task.criteria.iter().map(|text| escaped(text)));
        text += &list("Notes", task.notes.iter().map(|text| escaped(text)));
        text += "</article>\n";
    }
    text + "</body>\n</html>\n"
}

fn list(heading: &str, items: impl Iterator<Item = String>) -> String {
    let items: String = items.map(|item| format!("<li>{item}</li>\n")).collect();
    if items.is_empty() {
        return items;
    }
    format!("<h3>{heading}</h3>\n<ul>\n{items}</ul>\n")
}

/// The text as HTML: marks escaped, characters that a browser would obey left out.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !crate::text::is_obeyed(*c)) {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}
