//! Checks of the clients: the file, our entry in it, the program it names, hooks, and the client's own program.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use callboard_runner::{ProbeReport, RemoteBoard, RemoteFault, probe, program_on_path};
use serde_json::{Value, json};

use super::Finding;
use crate::clients::{
    self, CLIENTS, Client, ClientFile, FilePart, FileScope, FilesPlan, FilesRoot, SERVER,
    ServerReach, block,
};
use crate::output::{Exit, Failure};
use crate::place::Place;

/// A client that waits longer for its server says that the server is broken.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Longer than `ANSWER_MAX`, so that a slow server is told from one that does not answer.
const KILL_AFTER: Duration = Duration::from_secs(10);
const MCP_COMMAND: &str = "mcp command";
const VERSION_WITHIN: Duration = Duration::from_secs(5);

/// Lines for each client that is installed or connected, in the project and in the user's own files, and one for the
/// server that they start.
pub(super) async fn look(place: &Place) -> Vec<Finding> {
    let project = FilesRoot::of_project(place.root.clone());
    let mut found = looked(Some(&project), &place.root).await;
    // Before the line of the server, which is the last.
    let at = found.iter().position(|finding| finding.name == MCP_COMMAND).unwrap_or(found.len());
    found.splice(at..at, for_agents(&project));
    found
}

/// The lines of the user's own files, for a folder without a project.
pub(super) async fn look_at_user(folder: &Path) -> Vec<Finding> {
    looked(None, folder).await
}

async fn looked(project: Option<&FilesRoot>, folder: &Path) -> Vec<Finding> {
    // A user without a home has no files of their own.
    let user = FilesRoot::of_user().ok();
    let mut found = Vec::new();
    let mut servers = Servers::default();
    for client in CLIENTS {
        let version = installed_version(client).await;
        let mut lines = Vec::new();
        for root in project.into_iter().chain(&user) {
            lines.extend(of_client(root, client, version.as_deref(), &mut servers).await);
        }
        if let (true, Some(version), Some(_)) = (lines.is_empty(), version, project) {
            let fix = format!("callboard init --clients {}", client.name);
            lines.push(Finding::warn(client.title, format!("{version}; not connected"), fix));
        }
        found.extend(lines);
    }
    if servers.is_started {
        found.push(started(folder).await);
    }
    found
}

/// The servers that the clients of one look reach.
#[derive(Default)]
struct Servers {
    /// Whether a client starts `callboard mcp`.
    is_started: bool,
    /// Servers over HTTP that were greeted, by address and the token that was sent: clients share them.
    greeted: HashMap<(String, Option<String>), Greeting>,
}

/// How a server over HTTP answered a client's first message.
#[derive(Clone, Debug)]
enum Greeting {
    Answered(Duration),
    /// It answered that it wants a token, and got none.
    WantsToken,
    /// The words say what failed, the fix what to do.
    Failed {
        words: String,
        fix: String,
    },
}

/// The line of a client's files below one root; none where nothing of ours stands there.
async fn of_client(
    root: &FilesRoot,
    client: &Client,
    version: Option<&str>,
    servers: &mut Servers,
) -> Option<Finding> {
    let name = name_of(root, client);
    match connected(root, client) {
        Ok(Some((path, entry))) => {
            servers.is_started |= runs_ours(&entry);
            Some(of_entry(root, client, &path, &entry, version, servers).await)
        }
        Ok(None) if root.scope == FileScope::User => match hooks_of(root, client) {
            Err(failure) => Some(unread(name, &failure)),
            Ok(OurPart::Absent) => None,
            Ok(_) if is_of_another(root, client) => None,
            Ok(part) => Some(with_hooks(name, "no server, hooks alone".into(), part)),
        },
        Ok(None) => None,
        // A variable that names no place matters to a client that is there.
        Err(Failure::Said(said)) if said.exit == Exit::Usage => {
            let fix = said.hint.clone().unwrap_or_default();
            version.map(|_| Finding::warn(name, said.message.clone(), fix))
        }
        Err(failure) => Some(unread(name, &failure)),
    }
}

fn name_of(root: &FilesRoot, client: &Client) -> Cow<'static, str> {
    match root.scope {
        FileScope::Project => client.title.into(),
        FileScope::User => format!("{} (global)", client.title).into(),
    }
}

/// The version of a client that is installed, or the path of its program.
async fn installed_version(client: &Client) -> Option<String> {
    let program = client.program()?;
    let version = version(&program).await;
    Some(version.unwrap_or_else(|| program.display().to_string()))
}

/// Writes our outdated parts of a project anew: hooks and the block for agents. Entries that a user may have adapted
/// stay.
pub(super) fn mend(place: &Place) -> Result<Vec<String>, Failure> {
    let root = FilesRoot::of_project(place.root.clone());
    let mut files = vec![clients::for_agents()];
    for client in CLIENTS {
        files.extend(client.hook_file(&root)?);
    }
    let mut outdated = Vec::new();
    for file in files {
        if part_of(&root, &file)? == OurPart::Outdated {
            outdated.push(file);
        }
    }
    rewritten(&root, &outdated)
}

/// Writes the outdated hooks of the user's own files anew. A file that cannot be read has its line of the look.
pub(super) fn mend_user() -> Result<Vec<String>, Failure> {
    let Ok(root) = FilesRoot::of_user() else { return Ok(Vec::new()) };
    let hooks = CLIENTS.iter().filter_map(|client| client.hook_file(&root).ok().flatten());
    let is_outdated = |file: &ClientFile| matches!(part_of(&root, file), Ok(OurPart::Outdated));
    let outdated: Vec<_> = hooks.filter(is_outdated).collect();
    rewritten(&root, &outdated)
}

fn rewritten(root: &FilesRoot, files: &[ClientFile]) -> Result<Vec<String>, Failure> {
    let plan = FilesPlan::to_connect(root, files)?;
    let paths = plan.changes().iter().map(|change| root.shown(&change.path)).collect();
    plan.carry_out()?;
    Ok(paths)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OurPart {
    Absent,
    Outdated,
    Current,
}

/// Whether our part stands in a file, as this version writes it.
fn part_of(root: &FilesRoot, file: &ClientFile) -> Result<OurPart, Failure> {
    let Some(text) = root.read(&file.path)? else { return Ok(OurPart::Absent) };
    let is_there = match &file.part {
        FilePart::Block(_) => block::is_current(&text).is_some(),
        FilePart::Entries { .. } | FilePart::Whole(_) => {
            text.contains(clients::HOOK_COMMAND.trim_end())
        }
    };
    let merged = FilesPlan::to_connect(root, std::slice::from_ref(file))?;
    Ok(match (is_there, merged.changes().is_empty()) {
        (false, _) => OurPart::Absent,
        (true, false) => OurPart::Outdated,
        (true, true) => OurPart::Current,
    })
}

/// The client's file and our entry in it.
fn connected(root: &FilesRoot, client: &Client) -> Result<Option<(PathBuf, Value)>, Failure> {
    let file = client.server_file(root, &ServerReach::Stdio)?;
    let Some(text) = root.read(&file.path)? else { return Ok(None) };
    let entry = file.found(&text).map_err(|broken| root.refused(&file.path, &broken))?;
    Ok(entry.map(|entry| (file.path, entry)))
}

async fn of_entry(
    root: &FilesRoot,
    client: &Client,
    path: &Path,
    entry: &Value,
    version: Option<&str>,
    servers: &mut Servers,
) -> Finding {
    let name = name_of(root, client);
    let version = version.unwrap_or("not installed here");
    let mut words = format!("{version}; {} has the server", root.shown(path));
    match (ServerReach::of_entry(entry), program_of(entry)) {
        (ServerReach::Http { url, token_variable }, _) => {
            words.push_str(&format!(" at {url}"));
            let variable = token_variable.as_deref();
            let token = variable.and_then(|name| std::env::var(name).ok());
            let token = token.filter(|token| !token.trim().is_empty());
            if let (Some(variable), None) = (variable, &token) {
                let words = format!("{words}, but its token is not there: {variable} is not set");
                let fix =
                    format!("set {variable}; callboard token add at the server makes a token");
                return Finding::warn(name, words, fix);
            }
            // The file of a repository may name any address and any variable, so it gets no token of this user.
            let token = token.filter(|_| root.is_ours(path));
            match servers.greeting(&url, token).await {
                Greeting::Answered(took) => {
                    words.push_str(&format!(", which answers after {} ms", took.as_millis()));
                }
                Greeting::WantsToken
                    if variable.is_none() && entry["headers"]["Authorization"].is_null() =>
                {
                    let words =
                        format!("{words}, but it asks for a token, and the file names none");
                    let fix = format!(
                        "callboard init --remove, then callboard init --clients {} --server {url} --token-variable CALLBOARD_TOKEN",
                        client.name
                    );
                    return Finding::fail(name, words, fix);
                }
                Greeting::WantsToken => words.push_str(", which answers and asks for the token"),
                Greeting::Failed { words: why, fix } => {
                    return Finding::fail(name, format!("{words}, but {why}"), fix);
                }
            }
        }
        (ServerReach::Stdio, None) => {
            let scope = if root.scope == FileScope::User { " --global" } else { "" };
            let anew = format!("callboard init --clients {}{scope}", client.name);
            return Finding::fail(name, format!("{words}, but no command"), anew);
        }
        (ServerReach::Stdio, Some(program)) if program_on_path(program).is_none() => {
            let words = format!("{words}, but '{program}' is not on PATH");
            return Finding::fail(name, words, format!("put {program} on PATH"));
        }
        (ServerReach::Stdio, Some(_)) => {}
    }
    match hooks_of(root, client) {
        Err(failure) => unread(name, &failure),
        Ok(part) => with_hooks(name, words, part),
    }
}

/// The line of a client whose server is all right, with its hooks.
fn with_hooks(name: Cow<'static, str>, words: String, part: OurPart) -> Finding {
    match part {
        OurPart::Outdated => Finding::warn(
            name,
            format!("{words}; its hooks are of another version"),
            "callboard doctor --fix",
        ),
        OurPart::Current => Finding::ok(name, format!("{words}; hooks are on")),
        OurPart::Absent => Finding::ok(name, format!("{words}; no hooks")),
    }
}

fn hooks_of(root: &FilesRoot, client: &Client) -> Result<OurPart, Failure> {
    let file = client.hook_file(root)?;
    file.map_or(Ok(OurPart::Absent), |file| part_of(root, &file))
}

/// Whether a connected client has the same hook file: it serves VS Code and Copilot.
fn is_of_another(root: &FilesRoot, client: &Client) -> bool {
    let path = |client: &Client| client.hook_file(root).ok().flatten().map(|file| file.path);
    let own = path(client);
    let is_connected = |other: &Client| matches!(connected(root, other), Ok(Some(_)));
    CLIENTS
        .iter()
        .any(|other| other.name != client.name && path(other) == own && is_connected(other))
}

fn for_agents(root: &FilesRoot) -> Option<Finding> {
    let name = "AGENTS.md";
    match part_of(root, &clients::for_agents()) {
        Err(failure) => Some(unread(name, &failure)),
        Ok(OurPart::Absent) => None,
        Ok(OurPart::Current) => Some(Finding::ok(name, "says how work is done here")),
        Ok(OurPart::Outdated) => Some(Finding::warn(
            name,
            "the block of Callboard is of another version",
            "callboard doctor --fix",
        )),
    }
}

/// A file that cannot be read as what it is. The hint of `init` speaks of writing, which a look does not do.
fn unread(name: impl Into<Cow<'static, str>>, failure: &Failure) -> Finding {
    match failure {
        Failure::Said(said) if said.code == "CLIENT_FILE_INVALID" => {
            Finding::fail(name, said.message.clone(), "mend the file by hand")
        }
        _ => Finding::failed(name, failure),
    }
}

/// Whether a client of this folder speaks to a server instead of starting one.
pub(super) fn is_on_a_server(root: &Path) -> bool {
    let root = FilesRoot::of_project(root.to_owned());
    let is_remote = |(_, entry): (_, Value)| ServerReach::of_entry(&entry) != ServerReach::Stdio;
    CLIENTS.iter().any(|client| connected(&root, client).ok().flatten().is_some_and(is_remote))
}

/// The program of an entry: a text, or the first of a list.
fn program_of(entry: &Value) -> Option<&str> {
    entry["command"].as_str().or_else(|| entry["command"][0].as_str())
}

/// Whether an entry starts `callboard mcp`. Another command may come from the repository, and is not run here.
fn runs_ours(entry: &Value) -> bool {
    let first = entry["args"][0].as_str().or_else(|| entry["command"][1].as_str());
    program_of(entry) == Some(SERVER) && first == Some("mcp")
}

impl Servers {
    async fn greeting(&mut self, url: &str, token: Option<String>) -> Greeting {
        let key = (url.to_owned(), token);
        if let Some(known) = self.greeted.get(&key) {
            return known.clone();
        }
        let greeting = greeting(url, key.1.as_deref()).await;
        self.greeted.insert(key, greeting.clone());
        greeting
    }
}

/// Sends what a client sends first.
async fn greeting(url: &str, token: Option<&str>) -> Greeting {
    let failed = |words: String, fix: &str| Greeting::Failed { words, fix: fix.to_owned() };
    let board = match RemoteBoard::new(url, None, None, token).await {
        Ok(board) => board,
        Err(words) => {
            return failed(
                words,
                "callboard init --clients NAME --server URL names another server",
            );
        }
    };
    let begun = Instant::now();
    let greeted = tokio::time::timeout(ANSWER_MAX, board.greet()).await;
    let start = "start callboard serve there, or name another server: callboard init --clients NAME --server URL";
    match greeted {
        Err(_) => failed(format!("it gave no answer within {} s", ANSWER_MAX.as_secs()), start),
        Ok(Ok(answer)) if answer["result"]["serverInfo"].is_object() => {
            Greeting::Answered(begun.elapsed())
        }
        Ok(Ok(_)) => failed("what answers there is no MCP server".into(), start),
        Ok(Err(RemoteFault::Token { .. })) if token.is_none() => Greeting::WantsToken,
        Ok(Err(RemoteFault::Token { words, .. })) => failed(
            format!("it refused the token: {words}"),
            "callboard token add at the server makes a token",
        ),
        Ok(Err(RemoteFault::Away { cause, .. })) => {
            failed(format!("nothing answers: {cause}"), start)
        }
        Ok(Err(fault)) => failed(format!("it refused a client: {fault}"), start),
    }
}

/// Starts the server as a client does, and asks for its tools.
async fn started(root: &Path) -> Finding {
    let name = MCP_COMMAND;
    let Some(program) = program_on_path(SERVER) else {
        return Finding::fail(name, "callboard is not on PATH", "put the program on PATH");
    };
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "doctor", "version": env!("CARGO_PKG_VERSION")},
    }});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let tools = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let input = format!("{hello}\n{ready}\n{tools}\n");
    // Without a runner: a look must not start agents.
    match probe(&program, &["mcp", "--no-runner"], root, &input, KILL_AFTER).await {
        Ok(report) => answered(name, &report),
        Err(error) => Finding::fail(name, format!("cannot start: {error}"), "callboard mcp"),
    }
}

fn answered(name: &'static str, report: &ProbeReport) -> Finding {
    let lines = report.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let tools = lines.into_iter().find_map(|line| line["result"]["tools"].as_array().map(Vec::len));
    let took = report.took.as_millis();
    match tools {
        None => {
            let said = report.stderr.lines().last().unwrap_or("no words");
            Finding::fail(name, format!("gave no answer: {said}"), "callboard mcp --actor agent:me")
        }
        Some(tools) if report.took <= ANSWER_MAX => {
            Finding::ok(name, format!("answers a client with {tools} tools; {took} ms in all"))
        }
        Some(_) => Finding::warn(
            name,
            format!("answers after {took} ms; clients wait a second"),
            "look for a slow disk or store",
        ),
    }
}

/// The first line that the program prints about its version.
async fn version(program: &Path) -> Option<String> {
    let report = probe(program, &["--version"], Path::new("/"), "", VERSION_WITHIN).await.ok()?;
    let line = report.stdout.lines().next()?.trim();
    // Some programs print more than a version. One line of a terminal is enough.
    (report.is_success && !line.is_empty()).then(|| line.chars().take(80).collect())
}
