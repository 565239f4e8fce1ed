//! Checks of the clients: the file, our entry in it, the program it names, hooks, and the client's own program.

use std::path::Path;
use std::time::Duration;

use callboard_runner::{ProbeReport, probe, program_on_path};
use serde_json::{Value, json};

use super::Finding;
use crate::clients::{
    self, CLIENTS, Client, ClientFile, FilePart, FileScope, FilesPlan, FilesRoot, SERVER,
    ServerReach, block,
};
use crate::output::Failure;
use crate::place::Place;

/// A client that waits longer for its server says that the server is broken.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Longer than `ANSWER_MAX`, so that a slow server is told from one that does not answer.
const KILL_AFTER: Duration = Duration::from_secs(10);
const VERSION_WITHIN: Duration = Duration::from_secs(5);

/// A line for each client that is installed or connected, and one for the server that they start.
pub(super) async fn look(place: &Place) -> Vec<Finding> {
    let root = FilesRoot::of_project(place.root.clone());
    let mut found = Vec::new();
    let mut is_started = false;
    for client in CLIENTS {
        let program = client.programs.iter().find_map(|name| program_on_path(name));
        let version = match &program {
            Some(program) => version(program).await,
            None => None,
        };
        let installed = version.or_else(|| Some(program?.display().to_string()));
        match connected(&root, client) {
            Ok(None) => found.extend(installed.map(|version| {
                let fix = format!("callboard init --clients {}", client.name);
                Finding::warn(client.title, format!("{version}; not connected"), fix)
            })),
            Ok(Some(entry)) => {
                is_started |= runs_ours(&entry);
                found.push(of_entry(&root, client, &entry, installed.as_deref()));
            }
            Err(failure) => found.push(unread(client.title, &failure)),
        }
    }
    found.extend(for_agents(&root));
    if is_started {
        found.push(started(&place.root).await);
    }
    found
}

/// Writes our outdated parts anew: hooks and the block for agents. Entries that a user may have adapted stay.
pub(super) fn mend(place: &Place) -> Result<Vec<String>, Failure> {
    let root = FilesRoot::of_project(place.root.clone());
    let hooks = CLIENTS.iter().filter_map(|client| client.hook_file(FileScope::Project));
    let mut outdated = Vec::new();
    for file in hooks.chain([clients::for_agents()]) {
        if part_of(&root, &file)? == OurPart::Outdated {
            outdated.push(file);
        }
    }
    let plan = FilesPlan::to_connect(&root, &outdated)?;
    let paths = plan.changes().iter().map(|change| change.path.display().to_string()).collect();
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

/// Our entry in the client's file.
fn connected(root: &FilesRoot, client: &Client) -> Result<Option<Value>, Failure> {
    let file = client.server_file(root, &ServerReach::Stdio);
    let Some(text) = root.read(&file.path)? else { return Ok(None) };
    file.found(&text).map_err(|broken| clients::refused(&file.path, &broken))
}

fn of_entry(root: &FilesRoot, client: &Client, entry: &Value, version: Option<&str>) -> Finding {
    let path = client.server_file(root, &ServerReach::Stdio).path;
    let version = version.unwrap_or("not installed here");
    let mut words = format!("{version}; {} has the server", path.display());
    match (address_of(entry), program_of(entry)) {
        (Some(address), _) => words.push_str(&format!(" at {address}")),
        (None, None) => {
            let anew = format!("callboard init --clients {}", client.name);
            return Finding::fail(client.title, format!("{words}, but no command"), anew);
        }
        (None, Some(program)) if program_on_path(program).is_none() => {
            let words = format!("{words}, but '{program}' is not on PATH");
            return Finding::fail(client.title, words, format!("put {program} on PATH"));
        }
        (None, Some(_)) => {}
    }
    let hooks = client.hook_file(FileScope::Project).map(|file| part_of(root, &file));
    match hooks {
        Some(Err(failure)) => unread(client.title, &failure),
        Some(Ok(OurPart::Outdated)) => Finding::warn(
            client.title,
            format!("{words}; its hooks are of another version"),
            "callboard doctor --fix",
        ),
        Some(Ok(OurPart::Current)) => Finding::ok(client.title, format!("{words}; hooks are on")),
        Some(Ok(OurPart::Absent)) | None => Finding::ok(client.title, format!("{words}; no hooks")),
    }
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
fn unread(name: &'static str, failure: &Failure) -> Finding {
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
    let is_remote = |entry: Value| address_of(&entry).is_some();
    CLIENTS.iter().any(|client| connected(&root, client).ok().flatten().is_some_and(is_remote))
}

fn address_of(entry: &Value) -> Option<&str> {
    ["url", "httpUrl"].iter().find_map(|key| entry[*key].as_str())
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

/// Starts the server as a client does, and asks for its tools.
async fn started(root: &Path) -> Finding {
    let name = "mcp command";
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
