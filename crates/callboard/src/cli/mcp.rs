//! `callboard mcp`: one agent over standard input and output, on a store that this process opens or on the board of a
//! server.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use callboard_domain::actor::Actor;
use callboard_engine::Alert;
use callboard_runner::{RemoteBoard, forward};
use callboard_surface::stdio::{self, StdioIdentity, serve_stdio};
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::remote::{self, ServerArgs};
use super::rights::RightsArgs;
use super::{signal, trust};
use crate::compose;
use crate::config::FlagValue;
use crate::hook::ClientNote;
use crate::output::{Exit, Failure};
use crate::place::Place;

/// Serve one agent over standard input and output
///
/// This is the command that an agent's MCP settings name; people do not call it by hand. With --server it opens no
/// store and needs no project: it passes the agent's messages on to a server, also on another machine.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  callboard mcp --actor agent:claude-1\n  callboard mcp --server https://board.example.org --token-file ~/.callboard-token"
)]
pub struct McpArgs {
    #[command(flatten)]
    server: ServerArgs,
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
    if args.server.is_typed() && args.names_rights() {
        let words = "with --server the token decides the actor and the rights of the agent";
        return Err(Failure::usage(words).hint("leave out the flags that name rights"));
    }
    if let Some(board) = args.server.board(context, args.toolsets.as_deref()).await? {
        return forwarded(context, board).await;
    }
    let mut connection = context.connection(&args.scopes, args.client)?;
    let capped = args.rights.apply(&mut connection.rights);
    if let Some(words) = &capped {
        context.out.note(words);
    }
    let flags =
        args.toolsets.map(|value| FlagValue { flag: "--toolsets", key: "mcp.toolsets", value });
    let place = Place::find()?;
    let settings = context.settings(place.as_ref(), flags)?;
    let note_place = place.clone();
    let caller = connection.principal(context.actor()?);
    let open = context.open_as(&settings, place, context.org(), caller).await?;
    connection.rights.task = match &args.task {
        Some(typed) => Some(open.task_id(typed).await?),
        None => None,
    };
    // Hooks of the same client act for this actor. Every new name replaces the note.
    let client_note = Arc::new(Mutex::new(None));
    let noted = client_note.clone();
    let say_actor = move |actor: &Actor| {
        let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
        // The note before goes first: it removes its file, which is the file of the next one, too.
        *noted = None;
        *noted = note_place.as_ref().and_then(|place| ClientNote::write(place, actor));
    };
    let identity = match context.actor_named()? {
        Some(actor) => {
            say_actor(&actor);
            StdioIdentity::Fixed(connection.principal(actor))
        }
        None => StdioIdentity::FromClient(Arc::new(move |actor| {
            say_actor(&actor);
            connection.principal(actor)
        })),
    };
    let app = open.app;
    let stop = CancellationToken::new();
    signal::cancel_on_signal(&stop)?;
    let working = match args.no_runner {
        true => None,
        false => app.work_until(&stop, Alert::Own).await?,
    };
    say_waiting(context);
    let front = app.front(&settings.toolsets);
    let notes: Vec<String> =
        [capped, trust::words(&settings, &app)].into_iter().flatten().collect();
    let note = Some(notes.join("\n\n")).filter(|note| !note.is_empty());
    let options = compose::mcp_options(&settings, note, args.conformance_fixtures);
    let served = serve_stdio(front, options, identity, stop.clone()).await;
    stop.cancel();
    drop(client_note.lock().unwrap_or_else(PoisonError::into_inner).take());
    if let Some(agents) = signal::agents_at_work(&app.engine) {
        signal::say_stopping(context.out, &agents);
    }
    app.engine.handles_stop().await;
    if let Some(working) = working {
        working.ended().await;
    }
    served.map_err(|error| Failure::new(Exit::Failure, "IO_ERROR", error.to_string()))
}

impl McpArgs {
    fn names_rights(&self) -> bool {
        let names_task = self.task.is_some() || self.client.is_some();
        names_task || !self.scopes.is_empty() || self.rights.is_typed() || self.no_runner
    }
}

async fn forwarded(context: &Context, board: RemoteBoard) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    signal::cancel_on_signal(&stop)?;
    say_waiting(context);
    let (input, output) =
        stdio::open().map_err(|error| Failure::io("cannot open standard input", &error))?;
    forward(board, input, output, stop).await.map_err(|fault| remote::failure(&fault))
}

fn say_waiting(context: &Context) {
    if std::io::stdin().is_terminal() {
        context.out.note("waiting for MCP messages on standard input; Ctrl-C ends the server");
    }
}
