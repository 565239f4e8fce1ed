//! The part of `callboard init` that connects the agents of this machine, and takes the connection out again.

use std::io::{BufRead, IsTerminal};
use std::net::IpAddr;
use std::path::Path;

use callboard_runner::program_on_path;

use super::context::Context;
use crate::clients::{
    self, CLIENTS, Client, ClientFile, FileScope, FilesPlan, FilesRoot, ServerReach,
};
use crate::output::{Failure, Out, Style};
use crate::place::Place;

const TOKEN_VARIABLE: &str = "CALLBOARD_TOKEN";

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
        let asks = !self.yes && !context.out.json && is_terminal();
        let chosen = self.chosen(asks)?;
        if self.remove {
            let clients = if self.clients.is_empty() { CLIENTS.iter().collect() } else { chosen };
            let plan = FilesPlan::to_remove(&root, &removed(&clients, root.scope))?;
            return Ok(PlannedConnection {
                plan,
                clients,
                asks,
                question: "Remove this?",
                notes: Vec::new(),
                below: self.below(),
            });
        }
        let mut notes = Vec::new();
        let mut files = clients::files(&chosen, &root, &self.reach()?);
        if self.hooks {
            files.extend(chosen.iter().filter_map(|client| client.hook_file(root.scope)));
        }
        let is_claude = chosen.iter().any(|client| client.name == "claude");
        if is_claude && root.scope == FileScope::Project && lacks_import(&root)? {
            match asks {
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
        let (question, below) = ("Write this?", self.below());
        Ok(PlannedConnection { plan, clients: chosen, asks, question, notes, below })
    }

    /// What stands before a path for people: the user's own files are not below the current folder.
    pub fn below(&self) -> &'static str {
        if self.global { "~/" } else { "" }
    }

    /// The clients that were named, or that are installed if the user can be asked.
    fn chosen(&self, asks: bool) -> Result<Vec<&'static Client>, Failure> {
        let names: Vec<&str> = self.clients.iter().map(|name| name.trim()).collect();
        match names.as_slice() {
            [] if asks && !self.remove => Ok(installed()),
            [] | ["none"] => Ok(Vec::new()),
            ["all"] => Ok(CLIENTS.iter().collect()),
            names => names.iter().map(|name| find(name)).collect(),
        }
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

/// Every file that may hold something of ours for these clients.
fn removed(clients: &[&'static Client], scope: FileScope) -> Vec<ClientFile> {
    let servers = clients.iter().flat_map(|client| client.server_files(scope, &ServerReach::Stdio));
    let hooks = clients.iter().filter_map(|client| client.hook_file(scope));
    let mut files: Vec<_> = servers.chain(hooks).collect();
    let is_project = scope == FileScope::Project;
    // The block for agents serves every client.
    if is_project && clients.len() == CLIENTS.len() {
        files.push(clients::for_agents());
    }
    if is_project && clients.iter().any(|client| client.name == "claude") {
        files.push(clients::for_claude());
    }
    files
}

fn find(name: &str) -> Result<&'static Client, Failure> {
    Client::find(name).ok_or_else(|| {
        let known: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
        let words = format!("--clients '{name}' is no client; clients are {}", known.join(", "));
        Failure::usage(words).hint("--clients all, or --clients none")
    })
}

/// The clients that have a program on this machine.
pub fn installed() -> Vec<&'static Client> {
    let is_here =
        |client: &&Client| client.programs.iter().any(|name| program_on_path(name).is_some());
    CLIENTS.iter().filter(is_here).collect()
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
    clients: Vec<&'static Client>,
    asks: bool,
    question: &'static str,
    /// Words for the user once something was written.
    notes: Vec<&'static str>,
    below: &'static str,
}

impl PlannedConnection {
    pub fn carry_out(self, context: &Context) -> Result<Connected, Failure> {
        let out = &context.out;
        let clients = self.clients.iter().map(|client| client.name).collect();
        if self.plan.changes().is_empty() {
            return Ok(Connected { clients, files: Vec::new() });
        }
        if self.asks {
            show(out, &self.plan, self.below);
            if !is_granted(out, self.question)? {
                out.note("no file of an agent was written");
                return Ok(Connected::default());
            }
        }
        let changes = self.plan.changes().iter();
        let files = changes.map(|change| change.path.display().to_string()).collect();
        self.plan.carry_out()?;
        self.notes.iter().for_each(|note| out.warning(note));
        Ok(Connected { clients, files })
    }
}

fn show(out: &Out, plan: &FilesPlan, below: &str) {
    for change in plan.changes() {
        let verb = match (&change.before, &change.after) {
            (None, _) => "new",
            (_, None) => "removed",
            _ => "changed",
        };
        let path = format!("{below}{}", change.path.display());
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
