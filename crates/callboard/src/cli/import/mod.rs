//! `callboard import`: a backlog of another tool becomes tasks. A preview comes first.

mod source;

use std::io::{IsTerminal, Write};

use callboard_domain::import::ImportFormat;
use callboard_domain::import::plan::{ImportChoice, ImportPlan};
use serde_json::{Value, json};

use super::context::{Context, Open};
use crate::output::{Failure, Object, Out};

/// Bring a backlog onto the board
///
/// Shows the tasks that would come and asks before it makes them. Without a terminal nothing is
/// made unless --yes is given. A repeated import adds only tasks that are not on the board yet;
/// titles and bodies that changed meanwhile are reported, and taken over with --update.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  callboard import plan.md --dry-run\n  callboard import .beads --label backend\n  callboard import acme/shop --from github\n  callboard import backlog.jsonl --yes"
)]
pub struct ImportArgs {
    /// A file or folder; with --from github or gitlab a repository such as acme/shop
    source: String,
    /// The format of the source: markdown, jsonl, html, beads, backlog, task-master, vibe-kanban, github, gitlab
    /// [default: from its name]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    #[arg(value_parser = ImportFormat::ALL.map(ImportFormat::as_str))]
    from: Option<String>,
    /// Only tasks with this label
    #[arg(long)]
    label: Option<String>,
    /// Closed tasks too
    #[arg(long)]
    closed: bool,
    /// Give tasks that are on the board already the titles and bodies of the backlog
    #[arg(long)]
    update: bool,
    /// Show the tasks that would come, and make none
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Make the tasks without asking
    #[arg(long)]
    yes: bool,
}

pub async fn cmd_import(context: &Context, args: ImportArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let from = args.from.as_deref().and_then(ImportFormat::parse);
    let items = source::read(&open, &args.source, from).await?;
    let choice = ImportChoice { label: args.label, closed: args.closed };
    let op = open.op("import");
    let plan = open.engine().import_plan(&op, items.clone(), &choice).await?;
    let has_work = !plan.new.is_empty() || (args.update && !plan.changed.is_empty());
    let out = &context.out;
    if !out.json {
        preview(&open, &plan, args.update).await?;
    }
    let asks = !args.dry_run && !args.yes && !out.json;
    let is_agreed = has_work && !args.dry_run && (args.yes || (asks && agreed(out)?));
    if !is_agreed {
        if out.json {
            return out.object(Object::Import, document(&plan, &[], false));
        }
        if has_work && !args.yes {
            out.note("nothing was imported; --yes imports");
        }
        return Ok(());
    }
    let done = open.engine().task_import(&op, items, &choice, args.update).await?;
    let made: Vec<String> = done.made.iter().map(ToString::to_string).collect();
    if out.json {
        return out.object(Object::Import, document(&done.plan, &made, done.updated));
    }
    let updated = if done.updated { done.plan.changed.len() } else { 0 };
    out.line(&format!("imported {} new, {updated} updated", made.len()))
}

async fn preview(open: &Open, plan: &ImportPlan, update: bool) -> Result<(), Failure> {
    let out = &open.out;
    for task in &plan.new {
        let state = if task.state.is_closed() { ", closed" } else { "" };
        out.line(&format!("+ {}  ({}{state})", task.title, task.reference))?;
        if let Some(parent) = &task.parent {
            out.line(&format!("    below: {parent}"))?;
        }
        if !task.deps.is_empty() {
            out.line(&format!("    after: {}", task.deps.join(", ")))?;
        }
        // A command of a check is run on this machine later: it is shown before it is taken.
        for check in task.checks.iter().filter_map(|check| check.cmd.as_ref()) {
            out.line(&format!("    runs: {check}"))?;
        }
    }
    for changed in &plan.changed {
        let name = open.names().in_text(&changed.task.to_string()).await;
        let fields = [("title", &changed.title), ("body", &changed.body)];
        let fields = fields.iter().filter(|(_, text)| text.is_some());
        let fields: Vec<&str> = fields.map(|(field, _)| *field).collect();
        let then = if update { "is taken over" } else { "changed; --update takes it over" };
        out.line(&format!("~ {name}  {} {then} ({})", fields.join(" and "), changed.reference))?;
    }
    for lost in &plan.lost {
        out.line(&format!("! {}: {} {}", lost.reference, lost.to, lost.why))?;
    }
    let (new, changed) = (plan.new.len(), plan.changed.len());
    let mut line = format!("{new} new, {changed} changed, {} known", plan.known);
    for (count, words) in [(plan.closed, "closed"), (plan.unlabelled, "without the label")] {
        if count > 0 {
            line += &format!(", {count} {words} left out");
        }
    }
    out.line(&line)
}

/// Asks at a terminal; without one the answer is no.
fn agreed(out: &Out) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() || !out.terminal {
        return Ok(false);
    }
    let failed = |error: &std::io::Error| Failure::io("cannot ask at the terminal", error);
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "Import these tasks? [y/N] ")
        .and_then(|()| stderr.flush())
        .map_err(|error| failed(&error))?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| failed(&error))?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn document(plan: &ImportPlan, made: &[String], updated: bool) -> Value {
    let lost = plan
        .lost
        .iter()
        .map(|lost| json!({"reference": lost.reference, "to": lost.to, "why": lost.why}));
    let changed = plan.changed.iter().map(|changed| {
        json!({
            "id": changed.task,
            "reference": changed.reference,
            "title": changed.title,
            "body": changed.body.is_some(),
        })
    });
    json!({
        "new": plan.new,
        "changed": changed.collect::<Vec<_>>(),
        "lost": lost.collect::<Vec<_>>(),
        "known": plan.known,
        "closed": plan.closed,
        "unlabelled": plan.unlabelled,
        "made": made,
        "updated": updated,
    })
}
