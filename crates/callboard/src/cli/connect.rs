//! The part of `callboard init` that connects the agents of this machine, and takes the connection out again.

use std::io::{BufRead, IsTerminal};
use std::net::IpAddr;
use std::path::Path;

use callboard_runner::program_on_path;

use super::context::Context;
use crate::clients::{self, CLIENTS, Client, FileScope, FilesPlan, FilesRoot, ServerReach};
use crate::output::{Failure, Out, Style};
use crate::place::Place;

const TOKEN_VARIABLE: &str = "CALLBOARD_TOKEN";
/// The words of `--clients` that are no client.
pub const ALL: &str = "all";
pub const NONE: &str = "none";

#[derive(clap::Args, Debug)]
pub struct ConnectArgs {
    /// Agents to connect: all, none, or some of claude, codex, cursor, gemini, vscode, copilot, opencode [default: on a
    /// terminal those that are installed, else none]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    clients: Vec<String>,
    /// Also write the agents' hooks: they say the task at hand, keep edits in its worktree, and send heartbeats
    #[arg(long)]
    hooks: bool,
    /// Write the user's own files instead of the project's
    #[arg(long)]
    global: bool,
    /// Connect the agents to this server instead of starting one for each; makes no .callboard/
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The environment variable with the token for the server [default: CALLBOARD_TOKEN; none on loopback]
    #[arg(long, value_name = "NAME", requires = "server")]
    token_variable: Option<String>,
    /// Take everything out of the clients' files again; tasks stay
    #[arg(long, conflicts_with_all = ["prefix", "server"])]
    pub remove: bool,
    /// Write without asking
    #[arg(long)]
    yes: bool,
}

/// The clients that were meant, and what was done to their files.
#[derive(Default)]
pub struct Connected {
    pub clients: Vec<&'static str>,
    /// Written or removed.
    pub files: Vec<String>,
    /// The files as people read them.
    pub shown: Vec<String>,
}

impl ConnectArgs {
    /// Whether the user said which clients are meant.
    pub fn names_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Whether only files of clients are meant, and no project.
    pub fn is_without_project(&self) -> bool {
        self.remove || self.global || self.server.is_some()
    }

    /// Judges every file; nothing is written yet.
    pub fn plan(&self, context: &Context) -> Result<PlannedConnection, Failure> {
        let root = match self.global {
            true => FilesRoot::of_user()?,
            false => FilesRoot::of_project(Place::to_make()?.root),
        };
        let is_person = !context.out.json && is_terminal();
        let asks = is_person && !self.yes;
        let chosen = self.chosen(is_person)?;
        if self.remove {
            let clients = if self.clients.is_empty() { CLIENTS.iter().collect() } else { chosen };
            let plan = FilesPlan::to_remove(&root, &clients::written_files(&clients, &root)?)?;
            return Ok(PlannedConnection {
                plan,
                clients,
                asks,
                heading: None,
                question: "Remove this?",
                notes: Vec::new(),
                root,
            });
        }
        if chosen.is_empty() && !self.names_clients() {
            self.may_connect_none(is_person)?;
        }
        let mut notes = Vec::new();
        let mut files = clients::files(&chosen, &root, &self.reach()?)?;
        if self.hooks {
            for client in &chosen {
                files.extend(client.hook_file(&root)?);
            }
        }
        let is_claude = chosen.iter().any(|client| client.name == "claude");
        if is_claude && root.scope == FileScope::Project && lacks_import(&root)? {
            match is_person {
                true => files.push(clients::for_claude()),
                false => notes.push("Claude Code reads CLAUDE.md; add the line @AGENTS.md to it"),
            }
        }
        if self.server.is_none() && program_on_path(clients::SERVER).is_none() {
            notes.push("callboard is not on PATH, so agents cannot start it; put it there");
        }
        if self.hooks && self.server.is_some() && Place::find()?.is_none() {
            notes.push(
                "the hooks do nothing here yet: they read a project, and this folder has no .callboard",
            );
        }
        let plan = FilesPlan::to_connect(&root, &files)?;
        let titles: Vec<&str> = chosen.iter().map(|client| client.title).collect();
        let heading = Some(format!("agents to connect: {}", titles.join(", ")));
        let question = "Write this?";
        Ok(PlannedConnection { plan, root, clients: chosen, asks, heading, question, notes })
    }

    /// The clients that were named, or for a person at a terminal those that are installed.
    fn chosen(&self, is_person: bool) -> Result<Vec<&'static Client>, Failure> {
        let names: Vec<&str> = self.clients.iter().map(|name| name.trim()).collect();
        match names.as_slice() {
            [] if is_person && !self.remove => Ok(installed()),
            [] | [NONE] => Ok(Vec::new()),
            [ALL] => Ok(CLIENTS.iter().collect()),
            names => match names.iter().find(|name| [ALL, NONE].contains(name)) {
                Some(word) => {
                    let words = format!("--clients: '{word}' stands alone, without other names");
                    Err(Failure::usage(words).hint(format!("--clients {word}")))
                }
                None => names.iter().map(|name| find(name)).collect(),
            },
        }
    }

    /// Options that are about agents do nothing without one: a caller who forgot to name them is told.
    fn may_connect_none(&self, is_person: bool) -> Result<(), Failure> {
        let options = [
            ("--hooks", self.hooks),
            ("--global", self.global),
            ("--server", self.server.is_some()),
        ];
        let Some((option, _)) = options.into_iter().find(|(_, is_set)| *is_set) else {
            return Ok(());
        };
        let words = match is_person {
            true => format!("{option} connects agents, and none that is known is installed here"),
            false => format!("{option} connects agents, and none is named"),
        };
        Err(Failure::usage(words).hint(format!("--clients {ALL}, or some of {}", known())))
    }

    fn reach(&self) -> Result<ServerReach, Failure> {
        let Some(typed) = &self.server else { return Ok(ServerReach::Stdio) };
        let typed = typed.trim_end_matches('/');
        let (scheme, rest) = typed.split_once("://").unwrap_or_default();
        let host = rest.split('/').next().unwrap_or_default();
        if host.contains('@') {
            let words = "--server must not hold a user or a password: the files are committed";
            return Err(Failure::usage(words)
                .hint("leave out the part before @; a token goes into a variable of each user"));
        }
        if !matches!(scheme, "http" | "https") || host.is_empty() {
            return Err(Failure::usage(format!("--server '{typed}' is not an http(s) address"))
                .hint("--server https://board.example.org"));
        }
        let url = if rest.contains('/') { typed.to_owned() } else { format!("{typed}/mcp") };
        let token_variable = match &self.token_variable {
            Some(name) if !is_variable(name) => {
                // The value is not repeated: it may be the token itself.
                let words = "--token-variable is not the name of a variable";
                return Err(Failure::usage(words).hint(
                    "--token-variable BOARD_TOKEN; the files hold the name, never the token",
                ));
            }
            Some(name) => Some(name.clone()),
            None => (!is_loopback(host)).then(|| TOKEN_VARIABLE.to_owned()),
        };
        Ok(ServerReach::Http { url, token_variable })
    }
}

/// Whether a host, perhaps with a port, is this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_variable(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

fn find(name: &str) -> Result<&'static Client, Failure> {
    Client::find(name).ok_or_else(|| {
        let words = format!("--clients '{name}' is no client; clients are {}", known());
        Failure::usage(words).hint("--clients all, or --clients none")
    })
}

/// The names of all clients, as a sentence lists them.
pub fn known() -> String {
    CLIENTS.iter().map(|client| client.name).collect::<Vec<_>>().join(", ")
}

/// The clients that have a program on this machine.
pub fn installed() -> Vec<&'static Client> {
    CLIENTS.iter().filter(|client| client.program().is_some()).collect()
}

/// Whether there is a CLAUDE.md that does not read AGENTS.md. A link between the two makes them one file.
fn lacks_import(root: &FilesRoot) -> Result<bool, Failure> {
    let real = |name: &str| root.folder.join(name).canonicalize().ok();
    if real("CLAUDE.md").is_some_and(|file| Some(file) == real("AGENTS.md")) {
        return Ok(false);
    }
    let text = root.read(Path::new("CLAUDE.md"))?;
    Ok(text.is_some_and(|text| !text.lines().any(|line| line.trim() == "@AGENTS.md")))
}

fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// A plan that was judged, and whether the user is asked about it.
pub struct PlannedConnection {
    plan: FilesPlan,
    root: FilesRoot,
    clients: Vec<&'static Client>,
    asks: bool,
    /// Words above the changes that are shown.
    heading: Option<String>,
    question: &'static str,
    /// Words for the user once something was written.
    notes: Vec<&'static str>,
}

impl PlannedConnection {
    pub fn carry_out(self, context: &Context) -> Result<Connected, Failure> {
        let out = &context.out;
        let clients = self.clients.iter().map(|client| client.name).collect();
        let left: Vec<String> = self.plan.left().iter().map(|path| self.root.shown(path)).collect();
        let say_left = || {
            for path in &left {
                out.note(&format!(
                    "{path} keeps an entry of Callboard that init did not write here"
                ));
            }
        };
        if self.plan.changes().is_empty() {
            // What stands already is recorded: a removal must not take it.
            self.plan.carry_out()?;
            say_left();
            return Ok(Connected { clients, ..Connected::default() });
        }
        if self.asks {
            self.heading.iter().for_each(|heading| out.note(heading));
            show(out, &self.plan, &self.root);
            if !is_granted(out, self.question)? {
                out.note("no file of an agent was written");
                return Ok(Connected::default());
            }
        }
        let paths = || self.plan.changes().iter().map(|change| &change.path);
        let files = paths().map(|path| path.display().to_string()).collect();
        let shown = paths().map(|path| self.root.shown(path)).collect();
        self.plan.carry_out()?;
        say_left();
        self.notes.iter().for_each(|note| out.warning(note));
        Ok(Connected { clients, files, shown })
    }
}

fn show(out: &Out, plan: &FilesPlan, root: &FilesRoot) {
    for change in plan.changes() {
        let verb = match (&change.before, &change.after) {
            (None, _) => "new",
            (_, None) => "removed",
            _ => "changed",
        };
        let path = root.shown(&change.path);
        out.note(&out.styled(Style::Bold, &format!("{path} ({verb})")));
        for line in clients::shown(change) {
            out.note(&format!("  {line}"));
        }
    }
}

/// Enter means no: the files belong to other programs.
fn is_granted(out: &Out, question: &str) -> Result<bool, Failure> {
    out.note(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::io("cannot read the answer", &error))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
