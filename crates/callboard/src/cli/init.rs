//! `callboard init`: makes `.callboard/` and the database. Idempotent: a repeat changes nothing.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use callboard_domain::ids::Prefix;

use serde_json::json;

use super::connect::{self, ConnectArgs, Connected};
use super::context::Context;
use super::repository::{self, FIRST_COMMIT};
use crate::compose::App;
use crate::output::{Failure, Object};
use crate::place::Place;

/// Make this folder a callboard project, and connect the agents of this machine
///
/// Writes .callboard/ in the repository's root: settings to commit, and a database that git
/// ignores. With --clients it also writes the files by which agents find the board, and a block for
/// agents in AGENTS.md: what stands in those files stays. On a terminal it shows what would change
/// and asks; without one it asks nothing and writes what is named. Running it again changes nothing.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  callboard init --prefix SHOP\n  callboard init --clients claude,codex\n  callboard init --clients all --server https://board.example.org\n  callboard init --remove"
)]
pub struct InitArgs {
    /// Word before the dash of task ids [default: from the folder's name]
    #[arg(long)]
    prefix: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

const IGNORED: &str = "\
# Everything here but config.toml belongs to this machine.
config.local.toml
callboard.db*
runs/
worktrees/
jobs/
artifacts/
";

pub async fn cmd_init(context: &Context, args: InitArgs) -> Result<(), Failure> {
    // Files of clients are judged before anything is made.
    let connection = args.connect.plan(context)?;
    if args.connect.is_without_project() {
        let connected = connection.carry_out(context)?;
        if context.out.json {
            let (clients, files) = (connected.clients, connected.files);
            return context
                .out
                .object(Object::Clients, json!({"clients": clients, "files": files}));
        }
        return say(context, &args.connect, &connected);
    }
    let done = make(context, args.prefix.as_deref()).await?;
    let connected = connection.carry_out(context)?;
    if context.out.json {
        return context.out.object(
            Object::Init,
            json!({
                "root": done.place.root,
                "prefix": done.prefix.as_str(),
                "made": done.made,
                "clients": connected.clients,
                "files": connected.files,
            }),
        );
    }
    let folder = done.place.folder();
    let verb = if done.made.is_empty() { "already exists" } else { "is ready" };
    context.out.line(&format!("{} {verb}; new tasks are {}-…", folder.display(), done.prefix))?;
    if !connected.clients.is_empty() {
        say(context, &args.connect, &connected)?;
    } else if !done.made.is_empty() && !args.connect.names_clients() {
        // A newcomer may not know yet that agents are connected by this command, too.
        context.out.note(&format!(
            "no agent is connected; callboard init --clients NAME connects one of {}",
            connect::known()
        ));
    }
    context.out.note("next: callboard task add \"My first task\", then callboard up");
    Ok(())
}

fn say(context: &Context, args: &ConnectArgs, connected: &Connected) -> Result<(), Failure> {
    if connected.files.is_empty() {
        return context.out.line(match args.remove {
            true => "nothing to take out of the agents' files",
            false => "the agents' files are as they should be",
        });
    }
    let verb = if args.remove { "gave back" } else { "wrote" };
    context.out.line(&format!("{verb} {}", connected.shown.join(", ")))
}

pub(super) struct Made {
    pub place: Place,
    pub prefix: Prefix,
    /// The files that did not exist before.
    pub made: Vec<&'static str>,
}

pub(super) async fn make(context: &Context, prefix: Option<&str>) -> Result<Made, Failure> {
    let place = Place::to_make()?;
    let prefix = prefix.map(parse_prefix).transpose()?;
    if !place.is_in_git() {
        context.out.warning(&format!(
            "{} is not in a git repository; worktrees and reviews need git",
            place.root.display()
        ));
    } else if repository::lacks_commit(&place.root).await {
        context.out.warning(&format!(
            "the repository has no commit yet; agents work in worktrees, which start from one: {FIRST_COMMIT}"
        ));
    }
    let folder = place.folder();
    // Tasks, logs and the texts of agents are for the owner alone.
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|error| Failure::io(format!("cannot make {}", folder.display()), &error))?;
    let mut made = Vec::new();
    if write_new(&folder.join(".gitignore"), IGNORED)? {
        made.push(".gitignore");
    }
    let first = prefix.unwrap_or_else(|| Prefix::from_folder(&place.name()));
    if write_new(&folder.join("config.toml"), &first_config(first))? {
        made.push("config.toml");
    } else if let Some(prefix) = prefix {
        set_prefix(&folder.join("config.toml"), prefix)?;
    }
    let settings = context.settings(Some(&place), Vec::new())?;
    if !folder.join("callboard.db").exists() {
        made.push("callboard.db");
    }
    let app = App::open(&settings, Some(&place), context.org()).await?;
    context.say_migrated(&app);
    let prefix = app.engine.home().project.prefix;
    Ok(Made { place, prefix, made })
}

fn parse_prefix(text: &str) -> Result<Prefix, Failure> {
    Prefix::parse(text).ok_or_else(|| {
        Failure::usage(format!("--prefix '{text}' is not 1..12 letters, digits or '_'"))
    })
}

fn first_config(prefix: Prefix) -> String {
    format!(
        "\
# Settings of this callboard project; commit this file. What holds on one machine only goes to
# config.local.toml. `callboard config` shows every key, its value and where it came from.

[graph]
prefix = \"{prefix}\"
# finish_requires_checks = true
# attest_by = \"human\"
"
    )
}

/// Whether the file was made; an existing one stays as it is.
fn write_new(path: &Path, text: &str) -> Result<bool, Failure> {
    if path.exists() {
        return Ok(false);
    }
    fs::write(path, text)
        .map(|()| true)
        .map_err(|error| Failure::io(format!("cannot write {}", path.display()), &error))
}

/// Changes the prefix in an existing file and keeps the rest, comments included.
fn set_prefix(path: &Path, prefix: Prefix) -> Result<(), Failure> {
    let fault = |error| Failure::io(format!("cannot change {}", path.display()), &error);
    let text = fs::read_to_string(path).map_err(fault)?;
    let mut document: toml_edit::DocumentMut =
        text.parse().map_err(|error| Failure::config(format!("{}: {error}", path.display())))?;
    let graph = document.entry("graph").or_insert_with(toml_edit::table);
    let Some(graph) = graph.as_table_like_mut() else {
        return Err(Failure::config(format!("{}: graph is not a table", path.display())));
    };
    graph.insert("prefix", toml_edit::value(prefix.as_str()));
    let changed = document.to_string();
    if changed == text { Ok(()) } else { fs::write(path, changed).map_err(fault) }
}
