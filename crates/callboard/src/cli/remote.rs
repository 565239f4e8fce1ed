//! `--server`: a board that another process serves, instead of a store that this one opens.

use std::path::PathBuf;

use callboard_runner::{RemoteBoard, RemoteFault};

use super::context::Context;
use crate::output::{Exit, Failure};

const SERVER_VARIABLE: &str = "CALLBOARD_SERVER";
const TOKEN_VARIABLE: &str = "CALLBOARD_TOKEN";
const TOKEN_FILE_VARIABLE: &str = "CALLBOARD_TOKEN_FILE";

#[derive(clap::Args, Debug)]
pub struct ServerArgs {
    /// Speak to this server instead of opening a store [default: $CALLBOARD_SERVER]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// File with the token for the server [default: $CALLBOARD_TOKEN_FILE, else the token in $CALLBOARD_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl ServerArgs {
    /// Whether a flag names a server, not only a variable.
    pub fn is_typed(&self) -> bool {
        self.server.is_some()
    }

    /// The board of that server; `None` when no server is named, or a store is.
    pub async fn board(
        &self,
        context: &Context,
        toolsets: Option<&str>,
    ) -> Result<Option<RemoteBoard>, Failure> {
        let url = match (&self.server, context.names_store()) {
            (Some(_), true) => {
                let words = "--server and --store name two different boards";
                return Err(Failure::usage(words).hint("leave one of them out"));
            }
            (Some(url), false) => url.clone(),
            // A typed --store is stronger than the variable of a server.
            (None, true) => return Ok(None),
            (None, false) => match variable(SERVER_VARIABLE) {
                Some(url) => url,
                None => return Ok(None),
            },
        };
        let (token, actor) = (self.token()?, context.actor_named()?);
        let actor = actor.as_ref().map(|actor| actor.as_str());
        let board = RemoteBoard::new(&url, toolsets, actor, token.as_deref()).await;
        board.map(Some).map_err(|words| Failure::usage(words).hint("--server http://HOST:PORT"))
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        let file = self.token_file.clone();
        let file = file.or_else(|| variable(TOKEN_FILE_VARIABLE).map(PathBuf::from));
        // No flag takes the token itself: other users of the machine can read the arguments of a process.
        let Some(file) = file else { return Ok(variable(TOKEN_VARIABLE)) };
        let text = std::fs::read_to_string(&file).map_err(|error| {
            Failure::io(format!("cannot read the token in {}", file.display()), &error)
        })?;
        match text.trim() {
            "" => Err(Failure::usage(format!("{} holds no token", file.display()))),
            token => Ok(Some(token.to_owned())),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok()?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The failure for a server's board that did not answer.
pub fn failure(fault: &RemoteFault) -> Failure {
    let (exit, hint) = match fault {
        RemoteFault::Away { .. } => (Exit::Unavailable, "callboard serve starts a server"),
        RemoteFault::Token { .. } => (
            Exit::Auth,
            "give a token with --token-file or CALLBOARD_TOKEN; callboard token add makes one",
        ),
        RemoteFault::Session { .. } => (Exit::Unavailable, "start the command again"),
        RemoteFault::Refused { .. } => {
            return Failure::new(Exit::Failure, fault.code(), fault.to_string());
        }
    };
    Failure::new(exit, fault.code(), fault.to_string()).hint(hint)
}
