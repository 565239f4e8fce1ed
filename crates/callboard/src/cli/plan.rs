//! `callboard plan …`: the proposals of agents, and a person's yes or no.

use callboard_domain::board::plan::{Plan, PlanState};
use callboard_engine::time::rfc3339_ms;
use serde_json::{Value, json};

use super::context::Context;
use crate::output::{Failure, List, Object, Style, Table};

/// List, show, approve and reject plans that agents propose
#[derive(clap::Subcommand, Debug)]
pub enum PlanCommand {
    List(PlanListArgs),
    Show(PlanShowArgs),
    Approve(ApproveArgs),
    Reject(RejectArgs),
}

impl PlanCommand {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            PlanCommand::List(args) => cmd_plan_list(context, args).await,
            PlanCommand::Show(args) => cmd_plan_show(context, args).await,
            PlanCommand::Approve(args) => cmd_plan_approve(context, args).await,
            PlanCommand::Reject(args) => cmd_plan_reject(context, args).await,
        }
    }
}

/// List plans, the newest first
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard plan list")]
pub struct PlanListArgs {
    /// At most this many
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

/// Show what a plan proposes
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard plan show plan_01k0v3e8xq7rjw2m5c9n4d6t0z")]
pub struct PlanShowArgs {
    /// The plan's id, as plan list shows it
    plan: String,
}

/// Make the tasks of a plan, in its order
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard plan approve plan_01k0v3e8xq7rjw2m5c9n4d6t0z")]
pub struct ApproveArgs {
    /// The plan's id, as plan list shows it
    plan: String,
}

/// Reject a plan; no task is made from it
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  callboard plan reject plan_01k0v3e8xq7rjw2m5c9n4d6t0z --message \"Split the second task\""
)]
pub struct RejectArgs {
    /// The plan's id, as plan list shows it
    plan: String,
    /// Words for the planner: kept in the log, and sent as mail to a planner of the crew
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
}

async fn cmd_plan_list(context: &Context, args: PlanListArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let plans = open.engine().plan_list(&open.op("plan_list"), args.limit).await?;
    if context.out.json {
        let items: Vec<Value> = plans.iter().map(document).collect();
        return context.out.list(List::Plans, items, Value::Null);
    }
    let mut table = Table::new(&["PLAN", "STATE", "TASKS", "BY", "FIRST TASK"]);
    for plan in &plans {
        let first = plan.tasks.first().map(|task| task.title.clone());
        table.row([
            (plan.id.to_string(), Style::Plain),
            (plan.state.as_str().into(), Style::Plain),
            (plan.tasks.len().to_string(), Style::Plain),
            (plan.by.to_string(), Style::Plain),
            (first.unwrap_or_default(), Style::Plain),
        ]);
    }
    if table.is_empty() {
        return context.out.line("no plans");
    }
    context.out.raw(&table.render(&context.out))
}

async fn cmd_plan_show(context: &Context, args: PlanShowArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.plan_id(&args.plan).await?;
    let plan = open.engine().plan_get(&open.op("plan_get"), id).await?;
    if context.out.json {
        return context.out.object(Object::Plan, document(&plan));
    }
    let Plan { id, by, at, state, .. } = &plan;
    let out = &context.out;
    let at = out.when(*at, open.engine().store().now());
    out.line(&format!("{id}  {}  by {by}, {at}", state.as_str()))?;
    for (place, task) in document(&plan)["tasks"].as_array().into_iter().flatten().enumerate() {
        let text = |key: &str| task[key].as_str().unwrap_or_default();
        let (mode, priority, title) = (text("type"), text("priority"), text("title"));
        out.line(&format!("{}. {title}  [{mode}, {priority}]", place + 1))?;
        for line in text("description").lines() {
            out.line(&format!("   {line}"))?;
        }
        for criterion in task["acceptance_criteria"].as_array().into_iter().flatten() {
            out.line(&format!("   - {}", criterion.as_str().unwrap_or_default()))?;
        }
    }
    for task in made(&plan) {
        out.line(&open.names().in_text(&format!("made {task}")).await)?;
    }
    Ok(())
}

async fn cmd_plan_approve(context: &Context, args: ApproveArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.plan_id(&args.plan).await?;
    let plan = open.engine().plan_approve(&open.op("plan_approve"), id).await?;
    if context.out.json {
        return context.out.object(Object::Plan, document(&plan));
    }
    for task in made(&plan) {
        context.out.line(&open.names().in_text(&task).await)?;
    }
    Ok(())
}

async fn cmd_plan_reject(context: &Context, args: RejectArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.plan_id(&args.plan).await?;
    let op = open.op("plan_reject");
    let (plan, _) = open.engine().plan_put_away(&op, id, args.message).await?;
    if context.out.json {
        return context.out.object(Object::Plan, document(&plan));
    }
    context.out.line(&format!("{} is rejected", plan.id))
}

/// The tasks that an approval created, in the plan's order.
fn made(plan: &Plan) -> Vec<String> {
    match &plan.state {
        PlanState::Approved { tasks, .. } => tasks.iter().map(ToString::to_string).collect(),
        PlanState::Draft | PlanState::Rejected { .. } => Vec::new(),
    }
}

fn document(plan: &Plan) -> Value {
    let (decided_at, decided_by) = match &plan.state {
        PlanState::Draft => (None, None),
        PlanState::Approved { at, by, .. } | PlanState::Rejected { at, by } => {
            (Some(rfc3339_ms(*at)), Some(by))
        }
    };
    json!({
        "id": plan.id,
        // The name of this key in the tools of the board; `id` is the key of every list here.
        "plan_id": plan.id,
        "state": plan.state.as_str(),
        "by": plan.by,
        "at": rfc3339_ms(plan.at),
        "tasks": plan.tasks,
        "todos": plan.todos,
        "decided_at": decided_at,
        "decided_by": decided_by,
        "made": made(plan),
    })
}
