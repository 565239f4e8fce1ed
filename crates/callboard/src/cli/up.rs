//! `callboard up`: from nothing to a running server in one command.

use std::net::SocketAddr;

use callboard_engine::Engine;
use callboard_engine::context::OpContext;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::serve::{self, Server, bind};
use super::{init, open, trust, waiting};
use crate::config::{FlagValue, Settings};
use crate::output::{Exit, Failure};
use crate::place::Place;
use crate::served::Served;

/// Serve the board of this folder, and make the folder a project first if needed
///
/// If a server already serves this project, prints its address. Otherwise listens on the port of the
/// last time, or on another one if that port is taken. On a terminal it prints an address that signs you
/// in on the pages, once, and opens it in a browser; callboard open makes another.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard up")]
pub struct UpArgs {
    /// Address and port [default: those of the last time, else http.listen]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Open no browser
    #[arg(long)]
    no_open: bool,
    /// Do no background work in this process
    #[arg(long)]
    no_runner: bool,
}

pub async fn cmd_up(context: &Context, args: UpArgs) -> Result<(), Failure> {
    let place = match Place::find()? {
        Some(place) => place,
        None => {
            let made = init::make(context, None).await?;
            context.out.note(&format!("made {}", made.place.folder().display()));
            made.place
        }
    };
    let is_fixed = args.listen.is_some();
    let listen = args.listen.map(|value| FlagValue { flag: "--listen", key: "http.listen", value });
    let settings = context.settings(Some(&place), listen)?;
    if context.out.terminal {
        trust::show(&context.out, &place, &settings)?;
    }
    let opens = !args.no_open && open::may_open(context);
    if let Some(served) = Served::running(&place, &settings, context.org()) {
        return found(context, &settings, &served, is_fixed, opens).await;
    }
    let listener = match is_fixed {
        true => bind(settings.listen).await?,
        false => listener(&place, &settings).await?,
    };
    let server = Server {
        settings,
        place: Some(place),
        listener,
        scopes: Vec::new(),
        rights: Default::default(),
        no_runner: args.no_runner,
        fixtures: false,
        stop: CancellationToken::new(),
    };
    let announce = |url: &str, page: Option<&str>| {
        context.out.line(&format!("callboard listens on {url}"))?;
        context.out.note(&format!(
            "agents connect to {url}/mcp?actor=agent:NAME, or start `callboard mcp`"
        ));
        context.out.note("next, in another terminal: callboard task add \"My first task\"");
        serve::say_page(context, page)?;
        open::show(context, page.unwrap_or(url), opens, "--no-open");
        Ok(())
    };
    server.run(context, announce).await
}

/// Binds the port of the last time, else the one in the settings, else any.
async fn listener(place: &Place, settings: &Settings) -> Result<TcpListener, Failure> {
    if let Some(last) = Served::last_address(place, settings)
        && let Ok(listener) = bind(last).await
    {
        return Ok(listener);
    }
    match bind(settings.listen).await {
        Err(taken) if settings.listen.ip().is_loopback() && settings.listen.port() != 0 => {
            let mut free = settings.listen;
            free.set_port(0);
            // When even that fails, the first reason is the better one.
            bind(free).await.map_err(|_| taken)
        }
        bound => bound,
    }
}

/// Reports the server that serves this project already. A second one would only be a second address of one board.
async fn found(
    context: &Context,
    settings: &Settings,
    served: &Served,
    is_fixed: bool,
    opens: bool,
) -> Result<(), Failure> {
    let url = served.url();
    if is_fixed && !fits(settings.listen, served.address) {
        let words =
            format!("a server already serves this project on {url}, not on {}", settings.listen);
        let failure = Failure::new(Exit::Conflict, "ALREADY_SERVED", words);
        return Err(failure.hint("end that server first, or callboard serve --listen ADDRESS"));
    }
    context.out.line(&format!("callboard listens on {url}"))?;
    context.out.note("that server already runs; this command starts no second server");
    let board = context.open().await?;
    say_waiting(context, board.engine(), &board.op("status")).await?;
    if context.out.terminal {
        let person = context.person()?;
        let page = open::code_address(board.engine(), &person, served, settings).await?;
        serve::say_page(context, Some(&page))?;
        open::show(context, &page, opens, "--no-open");
    }
    Ok(())
}

fn fits(wanted: SocketAddr, found: SocketAddr) -> bool {
    wanted.ip() == found.ip() && (wanted.port() == 0 || wanted.port() == found.port())
}

/// Prints the tasks that wait for a returning person.
pub(super) async fn say_waiting(
    context: &Context,
    engine: &Engine,
    op: &OpContext,
) -> Result<(), Failure> {
    if let Some(words) = waiting::counts(&waiting::inbox(engine, op).await?.it) {
        context.out.note(&format!("waiting for you: {words}; callboard status shows them"));
    }
    Ok(())
}
