//! `callboard doctor`: one line per requirement, with the exact fix if it is not met.

mod clients;
mod growth;
mod handshake;
mod machine;
mod page;
mod project;

pub use page::on_pages;

use std::borrow::Cow;

use serde_json::{Value, json};

use super::context::Context;
use crate::output::{Failure, Object, Style, Table};
use crate::place::Place;

/// Check this installation, and say how to mend what is wrong
///
/// Exit code 1 says that something must be fixed; warnings do not. --fix writes outdated hooks, also those
/// of init --global, and the outdated block in AGENTS.md anew, and closes .callboard/ to other users; it
/// changes no setting and no task.
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
    name: Cow<'static, str>,
    health: Health,
    message: String,
    fix: Option<String>,
    /// Figures beside the words, for `--json`.
    figures: Option<Value>,
}

impl Finding {
    fn ok(name: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            health: Health::Ok,
            message: message.into(),
            fix: None,
            figures: None,
        }
    }

    fn warn(
        name: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { health: Health::Warn, fix: Some(fix.into()), ..Self::ok(name, message) }
    }

    fn fail(
        name: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { health: Health::Fail, ..Self::warn(name, message, fix) }
    }

    fn with(self, figures: Value) -> Self {
        Self { figures: Some(figures), ..self }
    }

    /// A failure that kept a check from running becomes its result.
    fn failed(name: impl Into<Cow<'static, str>>, failure: &Failure) -> Self {
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
    if args.fix {
        mend(context)?;
    }
    let mut found = vec![machine::git(), machine::sandbox()];
    found.extend(project::look(context).await);
    print(context, &found)?;
    let failed = found.iter().any(|finding| finding.health == Health::Fail);
    if failed { Err(Failure::Silent(1)) } else { Ok(()) }
}

fn mend(context: &Context) -> Result<(), Failure> {
    let mut written = clients::mend_user()?;
    if let Some(place) = Place::find()? {
        let folder = place.folder();
        project::close_to_others(&folder)
            .map_err(|error| Failure::io(format!("cannot change {}", folder.display()), &error))?;
        written.extend(clients::mend(&place)?);
    }
    written.iter().for_each(|path| context.out.note(&format!("wrote {path}")));
    Ok(())
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
            (finding.name.to_string(), Style::Bold),
            (format!("{}{fix}", finding.message), Style::Plain),
        ]);
    }
    context.out.raw(&table.render(&context.out))
}
