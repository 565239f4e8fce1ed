//! `callboard mcp`: one agent over standard input and output.

use std::io::IsTerminal;
use std::sync::Arc;

use callboard_engine::Alert;
use callboard_surface::stdio::{StdioIdentity, serve_stdio};
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::rights::RightsArgs;
use super::{signal, trust};
use crate::compose;
use crate::config::FlagValue;
use crate::output::{Exit, Failure};
use crate::place::Place;

/// Serve one agent over standard input and output
///
/// This is the command an agent's MCP settings name. Nobody calls it by hand.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard mcp --actor agent:claude-1")]
pub struct McpArgs {
    /// Vocabularies to serve, separated by commas, or all [default: mcp.toolsets]
    #[arg(long)]
    toolsets: Option<String>,
    /// Bind the connection to this client's name
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// What the agent may do: tasks:read, tasks:write, commands:run, … [default: everything]
    #[arg(long, value_delimiter = ',')]
    scopes: Vec<String>,
    #[command(flatten)]
    rights: RightsArgs,
    /// The one task the agent works on; it may change no other and create none
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Do no background work in this process
    #[arg(long)]
    no_runner: bool,
    #[arg(long, hide = true)]
    conformance_fixtures: bool,
}

pub async fn cmd_mcp(context: &Context, args: McpArgs) -> Result<(), Failure> {
    let mut connection = context.connection(&args.scopes, args.client)?;
    let capped = args.rights.apply(&mut connection.rights);
    if let Some(words) = &capped {
        context.out.note(words);
    }
    let flags =
        args.toolsets.map(|value| FlagValue { flag: "--toolsets", key: "mcp.toolsets", value });
    let place = Place::find()?;
    let settings = context.settings(place.as_ref(), flags)?;
    let caller = connection.principal(context.actor()?);
    let open = context.open_as(&settings, place, context.org(), caller).await?;
    connection.rights.task = match &args.task {
        Some(typed) => Some(open.task_id(typed).await?),
        None => None,
    };
    let identity = match context.actor_named()? {
        Some(actor) => StdioIdentity::Fixed(connection.principal(actor)),
        None => StdioIdentity::FromClient(Arc::new(move |actor| connection.principal(actor))),
    };
    let app = open.app;
    let stop = CancellationToken::new();
    signal::cancel_on_signal(&stop)?;
    let working = match args.no_runner {
        true => None,
        false => app.work_until(&stop, Alert::Own).await?,
    };
    if std::io::stdin().is_terminal() {
        context.out.note("waiting for an agent's messages on standard input; Ctrl-C ends it");
    }
    let front = app.front(&settings.toolsets);
    let notes: Vec<String> =
        [capped, trust::words(&settings, &app)].into_iter().flatten().collect();
    let note = Some(notes.join("\n\n")).filter(|note| !note.is_empty());
    let options = compose::mcp_options(&settings, note, args.conformance_fixtures);
    let served = serve_stdio(front, options, identity, stop.clone()).await;
    stop.cancel();
    if let Some(agents) = signal::agents_at_work(&app.engine) {
        signal::say_stopping(context.out, &agents);
    }
    app.engine.handles_stop().await;
    if let Some(working) = working {
        working.ended().await;
    }
    served.map_err(|error| Failure::new(Exit::Failure, "IO_ERROR", error.to_string()))
}
