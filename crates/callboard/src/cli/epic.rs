//! `callboard epic …`: the epics that a crew works on.

use callboard_domain::crew::state::EpicState;
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{CardSeen, TaskDraft};
use serde_json::{Value, json};

use super::context::Context;
use super::task::text_or_stdin;
use crate::output::{Failure, List, Object, Style, Table};

/// Add and list epics for a crew
#[derive(clap::Subcommand, Debug)]
pub enum EpicCommand {
    Add(EpicAddArgs),
    List(EpicListArgs),
}

impl EpicCommand {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            EpicCommand::Add(args) => cmd_epic_add(context, args).await,
            EpicCommand::List(args) => cmd_epic_list(context, args).await,
        }
    }
}

/// Add an epic
///
/// Prints its short name.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard epic add \"User management\"")]
pub struct EpicAddArgs {
    /// What it is called
    title: String,
    /// What is wanted, as Markdown; - reads standard input
    #[arg(long, default_value = "", hide_default_value = true)]
    description: String,
}

/// List epics, the newest first
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard epic list")]
pub struct EpicListArgs {
    /// At most this many
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

async fn cmd_epic_add(context: &Context, args: EpicAddArgs) -> Result<(), Failure> {
    let body = text_or_stdin(args.description)?;
    let open = context.open().await?;
    let draft = TaskDraft { title: args.title, body, is_plan: true, ..TaskDraft::default() };
    let op = open.op("epic_add");
    let added = open.engine().task_create(&op, draft).await?.it.task;
    if context.out.json {
        let seen = open.engine().card_get(&op, added.id).await?.it;
        return context.out.object(Object::Epic, document(&seen));
    }
    context.out.line(&added.name().to_string())
}

async fn cmd_epic_list(context: &Context, args: EpicListArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let epics = open.engine().epic_list(&open.op("epic_list"), args.limit).await?;
    if context.out.json {
        let items: Vec<Value> = epics.iter().map(document).collect();
        return context.out.list(List::Epics, items, Value::Null);
    }
    let mut table = Table::new(&["EPIC", "STATE", "TITLE"]);
    for CardSeen { record, .. } in &epics {
        table.row([
            (record.task.name().to_string(), Style::Plain),
            (EpicState::of(&record.task).as_str().into(), Style::Plain),
            (record.task.title.clone(), Style::Plain),
        ]);
    }
    if table.is_empty() {
        return context.out.line("no epics");
    }
    context.out.raw(&table.render(&context.out))
}

fn document(seen: &CardSeen) -> Value {
    let CardSeen { record, .. } = seen;
    json!({
        "id": record.task.id,
        "title": record.task.title,
        "description": record.body,
        "state": EpicState::of(&record.task).as_str(),
        "createdAt": rfc3339_ms(record.task.created_at),
        "updatedAt": rfc3339_ms(record.task.updated_at),
    })
}
