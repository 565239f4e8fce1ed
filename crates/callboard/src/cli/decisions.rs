//! `callboard decisions`: the log of what agents did and why, written by their calls and by the agents themselves.

use callboard_domain::crew::{AgentId, Decision};
use callboard_engine::time::rfc3339_ms;
use serde_json::{Value, json};

use super::context::Context;
use crate::output::{Failure, List, Style, Table};

/// List the decision log, the newest first
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard decisions --agent worker-123 --json")]
pub struct DecisionsArgs {
    /// Of this agent alone
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Only what is older than this row
    #[arg(long, value_name = "LOG")]
    before: Option<String>,
}

pub async fn cmd_decisions(context: &Context, args: DecisionsArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    // The log of an agent outlives the agent, so every name is valid.
    let agent = args.agent.as_deref().map(|typed| {
        let no_name = || Failure::usage(format!("--agent '{typed}' is not an agent id"));
        AgentId::parse(typed.trim()).ok_or_else(no_name)
    });
    let agent = agent.transpose()?;
    let before = match &args.before {
        Some(typed) => Some(open.decision_id(typed).await?),
        None => None,
    };
    let op = open.op("decision_list");
    let page = open.engine().decision_list(&op, agent, before, args.limit).await?;
    let next = page.rows.last().map(|row| row.id).filter(|_| page.more);
    if context.out.json {
        let items: Vec<Value> = page.rows.iter().map(document).collect();
        return context.out.list(List::Decisions, items, json!(next));
    }
    let now = open.engine().store().now();
    let mut table = Table::new(&["AT", "AGENT", "DECISION", "REASONING"]);
    for row in &page.rows {
        table.row([
            (context.out.when(row.at, now), Style::Plain),
            (row.agent.to_string(), Style::Plain),
            (row.decision.clone(), Style::Plain),
            (row.reasoning.clone(), Style::Dim),
        ]);
    }
    if table.is_empty() {
        return context.out.line("no decisions");
    }
    context.out.raw(&table.render(&context.out))
}

fn document(row: &Decision) -> Value {
    json!({
        "id": row.id,
        "agentId": row.agent,
        "decision": row.decision,
        "reasoning": row.reasoning,
        "context": row.context,
        "timestamp": rfc3339_ms(row.at),
    })
}
