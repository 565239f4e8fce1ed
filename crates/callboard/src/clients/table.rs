//! The clients that `init` knows: one row each. Where a client keeps its MCP servers and its hooks, and in which shape.

use std::path::PathBuf;

use callboard_runner::program_on_path;
use serde_json::{Value, json};

use super::entry::{ClientEntry, EntryKind};
use super::file::{ClientFile, Format};
use super::homes::{self, ClientHome};
use super::hook_files;
use super::plan::FilesRoot;
use crate::output::Failure;

/// The name of our server in every client.
pub const SERVER: &str = "callboard";

/// How a client reaches the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerReach {
    /// The client starts `callboard mcp`.
    Stdio,
    /// The client speaks to a server. The token stays in a variable, because the files are committed.
    Http { url: String, token_variable: Option<String> },
}

impl ServerReach {
    /// How an entry of a client reaches the board, as far as `init` writes such entries.
    pub fn of_entry(entry: &Value) -> Self {
        let Some(url) = ["url", "httpUrl"].iter().find_map(|key| entry[*key].as_str()) else {
            return Self::Stdio;
        };
        let header = entry["headers"]["Authorization"].as_str();
        let named = header.and_then(|header| header.strip_prefix("Bearer "));
        // A token that stands there itself is no name of a variable.
        let named = named.filter(|text| text.contains(['$', '{']));
        // Each client writes a variable in its own way: its name is the last word of `${env:NAME}`.
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let named = named.and_then(|text| text.rsplit(|c| !is_part(c)).find(|it| !it.is_empty()));
        let token_variable = entry["bearer_token_env_var"].as_str().or(named).map(str::to_owned);
        Self::Http { url: url.to_owned(), token_variable }
    }
}

/// Whose files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileScope {
    Project,
    User,
}

pub struct Client {
    pub name: &'static str,
    /// The client's name for people.
    pub title: &'static str,
    /// Programs that show that the client is installed.
    programs: &'static [ClientProgram],
    /// The file with MCP servers, from the project's folder.
    project: &'static str,
    /// The folder of the user's own file, and the file in it.
    user: (ClientHome, &'static str),
    format: Format,
    /// The names above our server in the file.
    above: &'static str,
    shape: fn(&ServerReach) -> Value,
    schema: Option<&'static str>,
    /// Whether the client reads the file under the ending `.jsonc`, too.
    has_jsonc: bool,
}

struct ClientProgram {
    name: &'static str,
    /// Where the name is a common word: a part of the path that the client's program has behind all links.
    below: Option<&'static str>,
}

const fn program(name: &'static str) -> ClientProgram {
    ClientProgram { name, below: None }
}

/// The entry of `.mcp.json`, which Claude Code and Copilot CLI both read.
fn shared_shape(reach: &ServerReach) -> Value {
    match reach {
        ServerReach::Stdio => plain_stdio(),
        ServerReach::Http { .. } => {
            typed_http(reach, "type", "http", |name| format!("${{{name}}}"))
        }
    }
}

pub const CLIENTS: &[Client] = &[
    Client {
        name: "claude",
        title: "Claude Code",
        programs: &[program("claude")],
        project: ".mcp.json",
        user: (homes::CLAUDE_STATE, ".claude.json"),
        format: Format::Json,
        above: "mcpServers",
        shape: shared_shape,
        schema: None,
        has_jsonc: false,
    },
    Client {
        name: "codex",
        title: "Codex",
        programs: &[program("codex")],
        project: ".codex/config.toml",
        user: (homes::CODEX, "config.toml"),
        format: Format::Toml,
        above: "mcp_servers",
        shape: |reach| match reach {
            ServerReach::Stdio => plain_stdio(),
            ServerReach::Http { url, token_variable: None } => json!({"url": url}),
            ServerReach::Http { url, token_variable: Some(name) } => {
                json!({"url": url, "bearer_token_env_var": name})
            }
        },
        schema: None,
        has_jsonc: false,
    },
    Client {
        name: "cursor",
        title: "Cursor",
        // The command line's installer links both `agent` and `cursor-agent` to a program below `cursor-agent`.
        programs: &[
            program("cursor"),
            program("cursor-agent"),
            ClientProgram { name: "agent", below: Some("cursor-agent") },
        ],
        project: ".cursor/mcp.json",
        user: (homes::CURSOR, "mcp.json"),
        format: Format::Json,
        above: "mcpServers",
        shape: |reach| match reach {
            ServerReach::Stdio => plain_stdio(),
            ServerReach::Http { .. } => http(reach, "url", |name| format!("${{env:{name}}}")),
        },
        schema: None,
        has_jsonc: false,
    },
    Client {
        name: "gemini",
        title: "Gemini CLI",
        programs: &[program("gemini")],
        project: ".gemini/settings.json",
        user: (homes::GEMINI, "settings.json"),
        format: Format::Json,
        above: "mcpServers",
        shape: |reach| match reach {
            ServerReach::Stdio => plain_stdio(),
            ServerReach::Http { .. } => http(reach, "httpUrl", |name| format!("${{{name}}}")),
        },
        schema: None,
        has_jsonc: false,
    },
    Client {
        name: "vscode",
        title: "VS Code with Copilot",
        programs: &[program("code")],
        project: ".vscode/mcp.json",
        user: (homes::VSCODE, "User/mcp.json"),
        format: Format::Json,
        above: "servers",
        shape: |reach| match reach {
            ServerReach::Stdio => json!({"type": "stdio", "command": SERVER, "args": ["mcp"]}),
            ServerReach::Http { .. } => {
                typed_http(reach, "type", "http", |name| format!("${{env:{name}}}"))
            }
        },
        schema: None,
        has_jsonc: false,
    },
    // The project's file is that of Claude Code: one entry serves both.
    Client {
        name: "copilot",
        title: "Copilot CLI",
        programs: &[program("copilot")],
        project: ".mcp.json",
        user: (homes::COPILOT, "mcp-config.json"),
        format: Format::Json,
        above: "mcpServers",
        shape: shared_shape,
        schema: None,
        has_jsonc: false,
    },
    Client {
        name: "opencode",
        title: "opencode",
        programs: &[program("opencode")],
        project: "opencode.json",
        user: (homes::OPENCODE, "opencode.json"),
        format: Format::Json,
        above: "mcp",
        shape: |reach| match reach {
            ServerReach::Stdio => json!({"type": "local", "command": [SERVER, "mcp"]}),
            ServerReach::Http { .. } => {
                let mut shape =
                    typed_http(reach, "type", "remote", |name| format!("{{env:{name}}}"));
                // opencode would look for a login page otherwise.
                shape["oauth"] = false.into();
                shape
            }
        },
        schema: Some("https://opencode.ai/config.json"),
        has_jsonc: true,
    },
];

impl Client {
    pub fn find(name: &str) -> Option<&'static Client> {
        CLIENTS.iter().find(|client| client.name == name)
    }

    /// The client's program on this machine.
    pub fn program(&self) -> Option<PathBuf> {
        self.programs.iter().find_map(ClientProgram::find)
    }

    /// The file in which our server stands: the one that is there, else the client's usual one.
    pub fn server_file(
        &self,
        root: &FilesRoot,
        reach: &ServerReach,
    ) -> Result<ClientFile, Failure> {
        let (usual, other) = self.paths(root)?;
        let is_there = |path: &PathBuf| root.folder.join(path).exists();
        let path = match (is_there(&usual), other) {
            (false, Some(other)) if is_there(&other) => other,
            _ => usual,
        };
        Ok(self.server_file_at(path, reach))
    }

    fn paths(&self, root: &FilesRoot) -> Result<(PathBuf, Option<PathBuf>), Failure> {
        let (home, file) = &self.user;
        let usual = match root.scope {
            FileScope::Project => PathBuf::from(self.project),
            FileScope::User => root.of_client(home, file)?,
        };
        let other = self.has_jsonc.then(|| usual.with_extension("jsonc"));
        Ok((usual, other))
    }

    /// Every file in which our server may stand, each with the entry that `init` writes to reach the same place.
    pub fn written_files(&self, root: &FilesRoot) -> Result<Vec<ClientFile>, Failure> {
        let (usual, other) = self.paths(root)?;
        let file = |path: PathBuf| {
            let file = self.server_file_at(path, &ServerReach::Stdio);
            let text = root.read(&file.path)?.unwrap_or_default();
            let found = file.found(&text).map_err(|broken| root.refused(&file.path, &broken))?;
            let reach = found.as_ref().map_or(ServerReach::Stdio, ServerReach::of_entry);
            Ok(self.server_file_at(file.path, &reach))
        };
        std::iter::once(usual).chain(other).map(file).collect()
    }

    fn server_file_at(&self, path: PathBuf, reach: &ServerReach) -> ClientFile {
        let value = (self.shape)(reach);
        let at = vec![self.above, SERVER];
        let mut entries = vec![ClientEntry { at, kind: EntryKind::Server, value }];
        // A file that names no schema is changed by its client.
        entries.extend(self.schema.map(|schema| ClientEntry {
            at: vec!["$schema"],
            kind: EntryKind::Free,
            value: schema.into(),
        }));
        ClientFile::merged(path, self.format, entries)
    }

    /// The file with our hooks; `None` where the client has none for this scope.
    pub fn hook_file(&self, root: &FilesRoot) -> Result<Option<ClientFile>, Failure> {
        hook_files::of(self.name, root)
    }
}

impl ClientProgram {
    fn find(&self) -> Option<PathBuf> {
        let path = program_on_path(self.name)?;
        let Some(below) = self.below else { return Some(path) };
        let real = path.canonicalize().ok()?;
        real.components().any(|part| part.as_os_str() == below).then_some(path)
    }
}

fn plain_stdio() -> Value {
    json!({"command": SERVER, "args": ["mcp"]})
}

/// An address under the client's own name for it, and a header with the client's own way to name a variable.
fn http(reach: &ServerReach, key: &str, variable: fn(&str) -> String) -> Value {
    let ServerReach::Http { url, token_variable } = reach else { return plain_stdio() };
    let mut shape = json!({key: url});
    if let Some(name) = token_variable {
        shape["headers"] = json!({"Authorization": format!("Bearer {}", variable(name))});
    }
    shape
}

fn typed_http(reach: &ServerReach, key: &str, kind: &str, variable: fn(&str) -> String) -> Value {
    let mut shape = json!({key: kind});
    if let (Value::Object(shape), Value::Object(rest)) = (&mut shape, http(reach, "url", variable))
    {
        shape.extend(rest);
    }
    shape
}
