//! `callboard doctor`: one line per requirement, with the exact fix if it is not met.

mod clients;
mod growth;
mod handshake;
mod machine;
mod page;
mod project;

pub use page::on_pages;

use serde_json::{Value, json};

use super::context::Context;
use crate::output::{Failure, Object, Style, Table};
use crate::place::Place;

/// Look for what keeps callboard from working here
///
/// Exit code 1 says that something must be fixed; warnings do not. --fix writes outdated hooks and the
/// outdated block in AGENTS.md anew, and closes .callboard/ to other users; it changes no setting and
/// no task.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard doctor --json\n  callboard doctor --fix")]
pub struct DoctorArgs {
    /// Mend what can be mended without a question, then look again
    #[arg(long)]
    fix: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Ok,
    Warn,
    Fail,
}

/// The result of one check.
struct Finding {
    name: &'static str,
    health: Health,
    message: String,
    fix: Option<String>,
    /// Figures beside the words, for `--json`.
    figures: Option<Value>,
}

impl Finding {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, health: Health::Ok, message: message.into(), fix: None, figures: None }
    }

    fn warn(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        let fix = Some(fix.into());
        Self { name, health: Health::Warn, message: message.into(), fix, figures: None }
    }

    fn fail(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        let fix = Some(fix.into());
        Self { name, health: Health::Fail, message: message.into(), fix, figures: None }
    }

    fn with(self, figures: Value) -> Self {
        Self { figures: Some(figures), ..self }
    }

    /// A failure that kept a check from running becomes its result.
    fn failed(name: &'static str, failure: &Failure) -> Self {
        let Failure::Said(complaint) = failure else { return Self::ok(name, "not checked") };
        let fix = complaint.hint.clone().filter(|hint| hint != "callboard doctor");
        let fix = fix.unwrap_or_else(|| "see the message".into());
        Self::fail(name, complaint.message.clone(), fix)
    }
}

impl Health {
    fn word(self) -> &'static str {
        match self {
            Health::Ok => "ok",
            Health::Warn => "warn",
            Health::Fail => "fail",
        }
    }

    fn style(self) -> Style {
        match self {
            Health::Ok => Style::Green,
            Health::Warn => Style::Yellow,
            Health::Fail => Style::Red,
        }
    }
}

pub async fn cmd_doctor(context: &Context, args: DoctorArgs) -> Result<(), Failure> {
    if let (true, Some(place)) = (args.fix, Place::find()?) {
        let folder = place.folder();
        project::close_to_others(&folder)
            .map_err(|error| Failure::io(format!("cannot change {}", folder.display()), &error))?;
        for path in clients::mend(&place)? {
            context.out.note(&format!("wrote {path}"));
        }
    }
    let mut found = vec![machine::git(), machine::sandbox()];
    found.extend(project::look(context).await);
    print(context, &found)?;
    let failed = found.iter().any(|finding| finding.health == Health::Fail);
    if failed { Err(Failure::Silent(1)) } else { Ok(()) }
}

fn print(context: &Context, found: &[Finding]) -> Result<(), Failure> {
    if context.out.json {
        let checks: Vec<Value> = found
            .iter()
            .map(|finding| {
                let mut check = json!({
                    "name": finding.name,
                    "status": finding.health.word(),
                    "message": finding.message,
                    "fix": finding.fix,
                });
                if let Some(figures) = &finding.figures {
                    check["figures"] = figures.clone();
                }
                check
            })
            .collect();
        let ok = found.iter().all(|finding| finding.health != Health::Fail);
        return context.out.object(Object::Doctor, json!({"ok": ok, "checks": checks}));
    }
    let mut table = Table::new(&["", "WHAT", "FOUND"]).whole();
    for finding in found {
        let fix = finding.fix.as_ref().map(|fix| format!("; fix: {fix}")).unwrap_or_default();
        table.row([
            (finding.health.word().to_owned(), finding.health.style()),
            (finding.name.to_owned(), Style::Bold),
            (format!("{}{fix}", finding.message), Style::Plain),
        ]);
    }
    context.out.raw(&table.render(&context.out))
}
