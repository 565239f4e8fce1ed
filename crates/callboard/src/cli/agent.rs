//! `callboard agent …`: the agents of the crew.

use callboard_domain::actor::Actor;
use callboard_domain::command::AgentAdd;
use callboard_domain::crew::{Agent, AgentId};
use callboard_domain::ids::TaskId;
use callboard_domain::rights::AgentType;
use callboard_domain::runs::run::Terminal;
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{AgentStanding, Holder, Holders};
use serde_json::{Value, json};

use super::context::{Context, Open};
use super::rights;
use super::view::short_id;
use crate::output::{Failure, List, Object, Style, Table};

/// Add, list, show and remove agents of the crew
#[derive(clap::Subcommand, Debug)]
pub enum AgentCommand {
    Add(AgentAddArgs),
    List(AgentListArgs),
    Show(AgentShowArgs),
    Rm(RmArgs),
}

impl AgentCommand {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            AgentCommand::Add(args) => cmd_agent_add(context, args).await,
            AgentCommand::List(args) => cmd_agent_list(context, args).await,
            AgentCommand::Show(args) => cmd_agent_show(context, args).await,
            AgentCommand::Rm(args) => cmd_agent_rm(context, args).await,
        }
    }
}

/// Add an agent
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard agent add worker-123 --type WORKER")]
pub struct AgentAddArgs {
    /// What it is called: letters, digits, '.', '_' or '-'
    id: String,
    /// SUPERVISOR, ORCHESTRATOR or WORKER
    #[arg(long = "type", value_name = "TYPE", value_parser = rights::agent_type)]
    kind: AgentType,
    /// What a supervisor or an orchestrator looks after
    #[arg(long, value_name = "ID", conflicts_with = "task")]
    epic: Option<String>,
    /// The task that the worker gets at once, also from another worker
    #[arg(long, value_name = "ID")]
    task: Option<String>,
}

/// List the crew's agents, the oldest first, and every other actor that holds a task
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard agent list --type WORKER")]
pub struct AgentListArgs {
    /// Only agents of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = rights::agent_type)]
    kind: Option<AgentType>,
    /// At most this many
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

/// Show an agent and its task
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard agent show worker-123")]
pub struct AgentShowArgs {
    /// The agent's id, as agent list shows it
    id: String,
}

/// Remove an agent; its mail and its log stay
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard agent rm worker-123")]
pub struct RmArgs {
    /// The agent's id, as agent list shows it
    id: String,
}

async fn cmd_agent_add(context: &Context, args: AgentAddArgs) -> Result<(), Failure> {
    let agent = AgentId::parse(args.id.trim()).ok_or_else(|| {
        Failure::usage(format!(
            "'{}' is not an agent id: use 1..100 letters, digits, '.', '_' or '-'",
            args.id
        ))
    })?;
    let open = context.open().await?;
    let (op, kind) = (open.op("agent_add"), args.kind);
    let mut epic = None;
    if let Some(typed) = &args.epic {
        epic = Some(open.task_id(typed).await?);
    }
    let added = match &args.task {
        Some(typed) => {
            let task = open.task_id(typed).await?;
            open.engine().agent_add_on(&op, (agent, kind), task).await?
        }
        None => {
            let (task, or_keep, workers_max) = (None, false, None);
            let add = AgentAdd { agent, kind, epic, task, or_keep, workers_max };
            open.engine().agent_add(&op, add).await?
        }
    };
    show(context, &open, &added).await
}

async fn cmd_agent_list(context: &Context, args: AgentListArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let (op, engine) = (open.op("agent_list"), open.engine());
    let agents = engine.agent_list(&op, args.kind, None, args.limit).await?;
    let mut seen = Vec::with_capacity(agents.len());
    for agent in &agents {
        seen.push((agent, engine.agent_standing(&op, agent).await?));
    }
    // A person may have the name of an agent; only the agent belongs to the crew.
    let is_crew = |actor: &Actor| {
        agents.iter().any(|agent| agent.id == AgentId::of(actor) && !actor.is_human())
    };
    let others = match args.kind {
        None => engine.holders_besides(&op, is_crew, args.limit).await?,
        // Only agents of the crew have types.
        Some(_) => Holders { first: Vec::new(), is_cut: false },
    };
    if others.is_cut {
        context.out.note("more tasks are held; --limit N shows more of them");
    }
    let others = others.first;
    if context.out.json {
        let crew = seen.iter().map(|(agent, at)| document(agent, at));
        let items: Vec<Value> = crew.chain(others.iter().map(held)).collect();
        return context.out.list(List::Agents, items, Value::Null);
    }
    let current: Vec<TaskId> = seen.iter().filter_map(|(_, at)| at.task).collect();
    let titles = engine.task_titles(&op, &current).await?;
    let mut table = Table::new(&["AGENT", "TYPE", "STATE", "EPIC", "TASK", "TITLE"])
        .shorten(3, short_id)
        .shorten(4, short_id)
        .keep(3)
        .keep(4);
    let names = open.names();
    for (agent, at) in &seen {
        let name = async |id: Option<TaskId>| match id {
            Some(id) => names.in_text(&id.to_string()).await,
            None => "-".to_owned(),
        };
        let state = match at.silent_since {
            Some(_) => format!("{}, silent", at.state.as_str()),
            None => at.state.as_str().to_owned(),
        };
        table.row([
            (agent.id.to_string(), Style::Plain),
            (agent.kind.as_str().into(), Style::Plain),
            (state, Style::Plain),
            (name(at.epic).await, Style::Plain),
            (name(at.task).await, Style::Plain),
            (at.task.and_then(|id| titles.get(&id)).cloned().unwrap_or_default(), Style::Plain),
        ]);
    }
    for Holder { actor, row } in others {
        let epic = row.task.parent.map(|id| id.to_string()).unwrap_or_else(|| "-".to_owned());
        table.row([
            (actor.to_string(), Style::Plain),
            ("-".into(), Style::Dim),
            (row.task.label.clone(), Style::Plain),
            (names.in_text(&epic).await, Style::Plain),
            (row.task.name().to_string(), Style::Plain),
            (row.task.title.clone(), Style::Plain),
        ]);
    }
    if table.is_empty() {
        return context.out.line("no agents");
    }
    context.out.raw(&table.render(&context.out))?;
    let terminals = seen.iter().filter_map(|(agent, at)| Some((agent, at.terminal.as_ref()?)));
    for (at, (agent, terminal)) in terminals.enumerate() {
        if at == 0 {
            context.out.line("")?;
        }
        context.out.line(&format!("{}: {}", agent.id, terminal.attach()))?;
    }
    Ok(())
}

async fn cmd_agent_show(context: &Context, args: AgentShowArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.agent_id(&args.id).await?;
    let agent = open.engine().agent_get(&open.op("agent_get"), &id).await?;
    show(context, &open, &agent).await
}

async fn cmd_agent_rm(context: &Context, args: RmArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let id = open.agent_id(&args.id).await?;
    open.engine().agent_remove(&open.op("agent_remove"), &id).await?;
    if context.out.json {
        return context.out.object(Object::AgentRemoved, json!({ "removed": id }));
    }
    context.out.line(&format!("{id} is removed"))
}

async fn show(context: &Context, open: &Open, agent: &Agent) -> Result<(), Failure> {
    let at = open.engine().agent_standing(&open.op("agent_get"), agent).await?;
    let document = document(agent, &at);
    if context.out.json {
        return context.out.object(Object::Agent, document);
    }
    // The keys of the JSON are the words for people, too, so the two never differ.
    let words = document.as_object().into_iter().flatten();
    words.filter(|(_, value)| !value.is_null()).try_for_each(|(key, value)| {
        context.out.line(&format!("{key:<15} {}", value.as_str().unwrap_or_default()))
    })
}

/// A holder of a task that is no agent of the crew.
fn held(holder: &Holder) -> Value {
    let task = &holder.row.task;
    json!({
        "id": holder.actor,
        "type": null,
        "state": task.label,
        "currentEpicId": task.parent,
        "currentTaskId": task.id,
        "updatedAt": rfc3339_ms(task.updated_at),
    })
}

fn document(agent: &Agent, at: &AgentStanding) -> Value {
    json!({
        "id": agent.id,
        "type": agent.kind,
        "state": at.state.as_str(),
        "currentEpicId": at.epic,
        "currentTaskId": at.task,
        "tmuxSessionName": at.terminal.as_ref().map(|terminal| &terminal.session),
        "attach": at.terminal.as_ref().map(Terminal::attach),
        "silentSince": at.silent_since.map(rfc3339_ms),
        "lastActiveAt": rfc3339_ms(agent.last_active_at),
        "createdAt": rfc3339_ms(agent.created_at),
        "updatedAt": rfc3339_ms(agent.updated_at),
    })
}
