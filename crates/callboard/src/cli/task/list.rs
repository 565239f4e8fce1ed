//! `callboard task list`.

use callboard_domain::ids::Id;
use callboard_domain::refusal::Refusal;
use callboard_domain::task::TaskRow;
use callboard_engine::{At, TaskFilter, TaskScope};

use crate::cli::context::{Context, Open};
use crate::output::Failure;

/// List tasks in the order they were made
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard task list --open --json")]
pub struct TaskListArgs {
    /// Only tasks with this status
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only tasks held by this actor; "" = tasks without a holder
    #[arg(long, value_name = "ACTOR")]
    assignee: Option<String>,
    /// Only tasks whose dependencies are closed
    #[arg(long)]
    ready: bool,
    /// Only tasks that are not closed
    #[arg(long)]
    open: bool,
    /// Only tasks whose title has this text in it, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Only tasks that are part of this epic or task
    #[arg(long, value_name = "ID")]
    epic: Option<String>,
    /// Only tasks after this one
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

const PAGE: usize = 500;

pub async fn cmd_task_list(context: &Context, args: TaskListArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let label = args.status.as_deref().map(|word| label(&open, word)).transpose()?;
    let after = match &args.after {
        Some(typed) => Some(open.task_id(typed).await?.id),
        None => None,
    };
    let parent = match &args.epic {
        Some(typed) => Some(open.task_id(typed).await?),
        None => None,
    };
    let filter = TaskFilter {
        label,
        assignee: args.assignee.map(|actor| (!actor.is_empty()).then_some(actor)),
        ready: args.ready.then_some(true),
        scope: if args.open { TaskScope::Open } else { TaskScope::Every },
        after,
        parent,
        ..TaskFilter::default()
    };
    let search = args.search.map(|text| text.to_lowercase());
    let limit = args.limit as usize;
    let wanted = |row: &TaskRow| {
        search.as_ref().is_none_or(|text| row.task.title.to_lowercase().contains(text))
    };
    // Every row of a list without a text is wanted.
    let page = if search.is_none() { PAGE.min(limit + 1) } else { PAGE };
    let (rows, more) = collect(&open, filter, (page, limit), wanted).await?;
    open.print_rows(&rows, more).await?;
    if rows.it.is_empty() && !context.out.json {
        context.out.note("no task matches; callboard task add \"…\" makes one");
    }
    Ok(())
}

/// Reads pages until there are enough rows; returns whether more follow.
async fn collect(
    open: &Open,
    filter: TaskFilter,
    (page_rows, limit): (usize, usize),
    wanted: impl Fn(&TaskRow) -> bool,
) -> Result<(At<Vec<TaskRow>>, bool), Failure> {
    let op = open.op("list");
    let mut after: Option<Id> = filter.after;
    let mut found: Vec<TaskRow> = Vec::new();
    loop {
        let page = TaskFilter { after, limit: page_rows, ..filter.clone() };
        let page = open.engine().task_list(&op, page).await?;
        let is_last = page.it.len() < page_rows;
        after = page.it.last().map(|row| row.task.id.id);
        found.extend(page.it.into_iter().filter(&wanted));
        if is_last || found.len() > limit {
            let more = found.len() > limit;
            found.truncate(limit);
            return Ok((At { it: found, now: page.now }, more));
        }
    }
}

fn label(open: &Open, word: &str) -> Result<String, Failure> {
    let known = || open.policy().names().join(", ");
    let label = open.policy().label(word).map(|label| label.name.clone());
    label.ok_or_else(|| {
        Refusal::invalid(format!("unknown status '{word}'; use one of {}", known())).into()
    })
}
