//! `callboard up`: from nothing to a running server in one command.

use super::context::Context;
use super::init;
use super::serve::{Server, bind};
use crate::output::Failure;
use crate::place::Place;

/// Make this folder a project if it is none, and serve it
///
/// Takes another port when the usual one is taken.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard up")]
pub struct UpArgs {
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
    let settings = context.settings(Some(&place), None)?;
    let listener = match bind(settings.listen).await {
        Err(taken) if settings.listen.ip().is_loopback() && settings.listen.port() != 0 => {
            let mut free = settings.listen;
            free.set_port(0);
            // When even that fails, the first reason is the better one.
            bind(free).await.map_err(|_| taken)?
        }
        bound => bound?,
    };
    let server = Server {
        settings,
        place: Some(place),
        listener,
        scopes: Vec::new(),
        trust: Default::default(),
        no_runner: args.no_runner,
        fixtures: false,
    };
    let announce = |url: &str| {
        context.out.line(&format!("callboard listens on {url}"))?;
        context.out.note(&format!(
            "agents connect to {url}/mcp?actor=agent:NAME, or start `callboard mcp`"
        ));
        context.out.note("next, in another terminal: callboard task add \"My first task\"");
        Ok(())
    };
    server.run(context, announce).await
}
