//! The command lines by which agents start a server of this program: `callboard mcp` with its arguments.

use std::sync::Arc;

use callboard_domain::rights::Lane;
use callboard_engine::ports::{ServerRequest, SessionServer};
use callboard_surface::toolsets::board;

use crate::config::{Settings, StoreUrl, without_password};
use crate::place::{self, Place};

/// The server of a run: it forwards messages to the door of the run.
pub fn of_run(url: &str, token_file: &str) -> Vec<String> {
    ["mcp", "--server", url, "--token-file", token_file].map(str::to_owned).into()
}

/// The server of a person's session with an agent.
pub fn of_session(settings: &Settings, place: Option<&Place>) -> SessionServer {
    let first = program(settings, place);
    Arc::new(move |request| {
        let ServerRequest { org, agent, task, profile } = request;
        let mut words = first.clone();
        if *org != "default" {
            words.extend(["--org".to_owned(), (*org).to_owned()]);
        }
        let (toolset, task) = (board::TOOLSET.name, task.to_string());
        let who = ["mcp", "--actor", agent.as_str(), "--toolsets", toolset, "--task", &task];
        let rights = ["--profile", profile.as_str(), "--lane", Lane::Kagan.as_str()];
        words.extend(who.iter().chain(&rights).map(|word| (*word).to_owned()));
        words
    })
}

/// This program and its first arguments. A password goes into no file that stays: the address of a session's store must
/// be in the configuration of the user who starts its agent.
fn program(settings: &Settings, place: Option<&Place>) -> Vec<String> {
    let program = std::env::current_exe().unwrap_or_else(|_| "callboard".into());
    let program = program.to_string_lossy().into_owned();
    let mut words = match place {
        Some(place) => {
            let root = place.root.display();
            vec!["env".into(), format!("{}={root}", place::ROOT_VARIABLE), program]
        }
        None => vec![program],
    };
    let store = match &settings.store {
        StoreUrl::Default => None,
        StoreUrl::File(path) => Some(path.display().to_string()),
        StoreUrl::Postgres(url) => Some(url.reveal().to_owned()),
    };
    // The command line ends in a file of the worktree, where an agent can read it.
    if let Some(store) = store.filter(|store| without_password(store) == *store) {
        words.extend(["--store".into(), store]);
    }
    words
}
