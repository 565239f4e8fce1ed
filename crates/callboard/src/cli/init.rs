//! `callboard init`: makes `.callboard/` and the database. Idempotent: a repeat changes nothing.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use callboard_domain::ids::Prefix;

use super::context::Context;
use crate::compose::App;
use crate::output::{Failure, Object};
use crate::place::Place;

/// Make this folder a callboard project
///
/// Writes .callboard/ in the repository's root: settings to commit, and a database that git
/// ignores. Running it again changes nothing.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard init --prefix SHOP")]
pub struct InitArgs {
    /// Word before the dash of task ids [default: from the folder's name]
    #[arg(long)]
    prefix: Option<String>,
    /// Agents whose settings files are written; only none so far
    #[arg(long, default_value = "none", hide_default_value = true, hide_possible_values = true)]
    #[arg(value_parser = ["none"])]
    clients: String,
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
    let done = make(context, args.prefix.as_deref()).await?;
    if context.out.json {
        return context.out.object(
            Object::Init,
            serde_json::json!({
                "root": done.place.root,
                "prefix": done.prefix.as_str(),
                "made": done.made,
            }),
        );
    }
    let folder = done.place.folder();
    let verb = if done.made.is_empty() { "already exists" } else { "is ready" };
    context.out.line(&format!("{} {verb}; new tasks are {}-…", folder.display(), done.prefix))?;
    context.out.note("next: callboard task add \"My first task\", then callboard up");
    Ok(())
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
