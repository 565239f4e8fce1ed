//! `callboard mcp`: one agent over standard input and output, on a store that this process opens or on the board of a
//! server.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use callboard_domain::actor::Actor;
use callboard_engine::{Alert, Working};
use callboard_runner::{RemoteBoard, forward};
use callboard_surface::catalog::Catalog;
use callboard_surface::stdio::{
    self, NoProject, OpenedProject, ProjectRequest, StdioError, StdioIdentity, UnplacedOptions,
    serve_stdio,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::remote::{self, ServerArgs};
use super::rights::RightsArgs;
use super::{signal, trust};
use crate::compose::{self, App};
use crate::config::{FlagValue, Settings, StoreUrl};
use crate::hook::ClientNote;
use crate::identity::Connection;
use crate::output::{Exit, Failure};
use crate::place::{Place, ROOT_VARIABLE};

/// Serve one agent over standard input and output
///
/// This is the command that an agent's MCP settings name; people do not call it by hand. Outside a project it answers
/// all the same: each tool then takes project_root, and the client's roots and CALLBOARD_PROJECT_ROOT name the project,
/// too. With --server it opens no store and needs no project: it passes the agent's messages on to a server, also on
/// another machine.
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
    let toolsets =
        args.toolsets.map(|value| FlagValue { flag: "--toolsets", key: "mcp.toolsets", value });
    let stop = CancellationToken::new();
    let mut wish = ProjectWish {
        connection,
        capped,
        toolsets,
        task: args.task,
        no_runner: args.no_runner,
        fixtures: args.conformance_fixtures,
        stop: stop.clone(),
        hears_signals: false,
    };
    let place = Place::for_client()?;
    let settings = wish.settings(context, place.as_ref())?;
    // A store that the settings name needs no project: it is opened as it is.
    let (served, project) = if place.is_none() && settings.store == StoreUrl::Default {
        signal::cancel_on_signal(&stop)?;
        wish.hears_signals = true;
        unplaced(context, &wish, &settings).await?
    } else {
        let (opened, project) = wish.open(context, place).await?;
        say_waiting(context);
        let served = serve_stdio(opened.front, opened.options, opened.identity, stop.clone());
        (served.await, Some(project))
    };
    // The connection is over, so background work of this process ends as after a signal.
    stop.cancel();
    if let Some(project) = project {
        project.end(context).await;
    }
    served.map_err(|error| Failure::new(Exit::Failure, "IO_ERROR", error.to_string()))
}

/// The flags with which a project is opened, also after the connection began.
struct ProjectWish {
    connection: Connection,
    capped: Option<String>,
    toolsets: Option<FlagValue>,
    task: Option<String>,
    no_runner: bool,
    fixtures: bool,
    stop: CancellationToken,
    /// Whether a signal already cancels `stop`.
    hears_signals: bool,
}

/// The open project of a connection.
struct ServedProject {
    app: App,
    working: Option<Working>,
    client_note: Arc<Mutex<Option<ClientNote>>>,
}

impl ProjectWish {
    fn settings(&self, context: &Context, place: Option<&Place>) -> Result<Settings, Failure> {
        context.settings(place, self.toolsets.clone())
    }

    async fn open(
        &self,
        context: &Context,
        place: Option<Place>,
    ) -> Result<(OpenedProject, ServedProject), Failure> {
        let settings = self.settings(context, place.as_ref())?;
        let mut connection = self.connection.clone();
        let caller = connection.principal(context.actor()?);
        let root = place.as_ref().map(|place| place.root.clone()).unwrap_or_default();
        let note_place = place.clone();
        let open = context.open_as(&settings, place, context.org(), caller).await?;
        connection.rights.task = match &self.task {
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
        context.export_metrics(&app.engine);
        if !self.hears_signals {
            signal::cancel_on_signal(&self.stop)?;
        }
        let working = match self.no_runner {
            true => None,
            false => app.work_until(&self.stop, Alert::Own).await?,
        };
        let front = app.front(&settings.toolsets);
        let notes: Vec<String> =
            [self.capped.clone(), trust::words(&settings, &app)].into_iter().flatten().collect();
        let note = Some(notes.join("\n\n")).filter(|note| !note.is_empty());
        let options = compose::mcp_options(&settings, note, self.fixtures);
        Ok((
            OpenedProject { root, front, options, identity },
            ServedProject { app, working, client_note },
        ))
    }
}

impl ServedProject {
    async fn end(self, context: &Context) {
        drop(self.client_note.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(agents) = signal::agents_at_work(&self.app.engine) {
            signal::say_stopping(context.out, &agents);
        }
        // Long calls of this connection end now, instead of when their lease runs out.
        self.app.engine.handles_stop().await;
        if let Some(working) = self.working {
            working.ended().await;
        }
    }
}

/// Serves a client that started this process outside every project, and opens the project that the client names.
async fn unplaced(
    context: &Context,
    wish: &ProjectWish,
    settings: &Settings,
) -> Result<(Result<(), StdioError>, Option<ServedProject>), Failure> {
    let (open, mut requests) = mpsc::channel(1);
    let looked = Place::looked_at()?;
    let options = UnplacedOptions {
        mcp: compose::mcp_options(settings, None, false),
        catalog: Catalog::of(&settings.toolsets),
        principal: wish.connection.principal(context.actor()?),
        missing: missing(&format!("no .callboard folder {looked}")),
        open,
    };
    say_waiting(context);
    let mut project = None;
    let mut serving = std::pin::pin!(stdio::serve_unplaced(options, wish.stop.clone()));
    loop {
        tokio::select! {
            served = &mut serving => return Ok((served, project)),
            Some(ProjectRequest { folders, answer }) = requests.recv() => {
                let answered = match folders.iter().find_map(|folder| Place::of_folder(folder)) {
                    None => {
                        let names: Vec<_> =
                            folders.iter().map(|folder| folder.display().to_string()).collect();
                        let folders = names.join(", ");
                        Err(missing(&format!(
                            "no .callboard folder in {folders} or in any folder above; at the start none {looked}"
                        )))
                    }
                    Some(place) => match wish.open(context, Some(place)).await {
                        Ok((opened, opened_project)) => {
                            project = Some(opened_project);
                            Ok(opened)
                        }
                        Err(failure) => Err(not_opened(&failure)),
                    },
                };
                // A client that is gone needs no answer; the connection then ends by itself.
                let _ = answer.send(answered);
            }
        }
    }
}

fn missing(message: &str) -> NoProject {
    NoProject {
        code: "PROJECT_NOT_FOUND".into(),
        message: message.to_owned(),
        hint: Some(format!(
            "run callboard init in the project; then start the server there, set {ROOT_VARIABLE} in the client's settings of the server, or pass project_root, the absolute path of the project, to a tool"
        )),
    }
}

/// The refusal of a project that is there and cannot be opened.
fn not_opened(failure: &Failure) -> NoProject {
    match failure {
        Failure::Said(said) => NoProject {
            code: said.code.clone(),
            message: said.message.clone(),
            hint: said.hint.clone(),
        },
        Failure::Silent(_) => missing("the project cannot be opened"),
    }
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
    // Only a person has a terminal there.
    if std::io::stdin().is_terminal() {
        context.out.note("waiting for MCP messages on standard input; Ctrl-C ends the server");
    }
}
